"""Random functions, differentiated twice in every order, one by one and in batches: all must agree."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import func
from tests.modes import MODES, Mode

Function = Callable[[Any], Any]
F = jitgrad.nn.functional

_MATRIX = jitgrad.tensor(np.random.default_rng(0).uniform(-0.7, 0.7, (3, 3)))


def _write(x: Any) -> Any:
    y = x.clone()
    y[1:] = x[:2] * x[2]
    y.mul_(0.5)
    return y


def _through_views(x: Any) -> Any:
    table = x.reshape(3, 1).expand(3, 3)
    return (table * table.t()).diagonal() + table.flip(0)[:, 0]


_PARTS: dict[str, Function] = {
    "sin": lambda x: x.sin(),
    "exp": lambda x: (x * 0.3).exp(),
    "tanh": lambda x: x.tanh() * x,
    "softmax": lambda x: F.softmax(x, 0),
    "log_softmax": lambda x: F.log_softmax(x, -1) * 0.3,
    "norm": lambda x: x / (1 + x.norm()),
    "layer_norm": lambda x: F.layer_norm(x, (3,), x * 0.3, _MATRIX[0]),
    "matrix": lambda x: _MATRIX @ x,
    "square": lambda x: (_MATRIX * x) @ (_MATRIX + x) @ x,
    "linear": lambda x: F.linear(x, _MATRIX * x[0], x),
    "cumsum": lambda x: x.cumsum(0) * 0.5,
    "prod": lambda x: x.prod() + x,
    "index": lambda x: x[[2, 0, 0]] * x[1],
    "gather": lambda x: x.gather(0, jitgrad.tensor([1, 1, 0])),
    "where": lambda x: jitgrad.where(x > 0.1, x * x, x.sin()),
    "cat": lambda x: jitgrad.cat([x[:1] * x[1:2], x[1:]]),
    "stack": lambda x: jitgrad.stack([x, x * x]).sum(0),
    "write": _write,
    "views": _through_views,
    "std": lambda x: x * x.std(),
    "logsumexp": lambda x: x - x.logsumexp(0),
    "pow": lambda x: (x * x + 0.5) ** 1.5,
    "gelu": lambda x: F.gelu(x),
    "pairs": lambda x: (x.unsqueeze(0) * x.unsqueeze(1)).amax(1),
    "loss": lambda x: F.mse_loss(x, x.detach() * 0.5, reduction="none") + x,
    "inner": lambda x: func.grad(lambda y: (y.sin() * x).sum())(x),
    "moved": lambda x: func.jvp(lambda y: y * y * x[0], (x,), (x,))[1],
    "mapped": lambda x: func.vmap(lambda a: a * x.sum() + a.sin())(x),
}


def _random_function(seed: int) -> Function:
    rng = np.random.default_rng(seed)
    names = rng.choice(sorted(_PARTS), 4, replace=False)

    def function(x: Any) -> Any:
        for name in names:
            x = _PARTS[name](x)
        return x

    function.__doc__ = " ".join(names)
    return function


def _point(seed: int, *shape: int) -> Any:
    return jitgrad.tensor(np.random.default_rng(seed).uniform(-1, 1, shape))


def _same(got: Any, want: Any, function: Function) -> None:
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-7, atol=1e-9, err_msg=str(function.__doc__))


@pytest.mark.parametrize("seed", [8, 12, 16])
def test_orders_agree(seed: int, mode: Mode) -> None:
    _check_orders(seed, mode)


@pytest.mark.parametrize("seed", range(24))
def test_orders_agree_eagerly(seed: int) -> None:
    _check_orders(seed, MODES["eager"])


def _check_orders(seed: int, mode: Mode) -> None:
    function = _random_function(seed)

    def step(x: Any, xs: Any) -> Any:
        first = [func.jacrev(function)(x), func.jacfwd(function)(x)]
        second = [
            getattr(func, a)(getattr(func, b)(function))(x)
            for a, b in itertools.product(("jacrev", "jacfwd"), repeat=2)
        ]
        single = [func.jacfwd(func.jacrev(function))(xs[i]) for i in range(2)]
        batch = [
            func.vmap(getattr(func, a)(getattr(func, b)(function)))(xs)
            for a, b in itertools.product(("jacrev", "jacfwd"), repeat=2)
        ]
        return first, second, jitgrad.stack(single), batch

    def arguments() -> tuple[Any, ...]:
        return _point(seed, 3), _point(seed + 100, 2, 3)

    first, second, single, batch = mode.run(step, arguments, is_steady=False)
    _same(first[1], first[0], function)
    for one in second[1:]:
        _same(one, second[0], function)
    for one in batch:
        _same(one, single, function)
    if mode.name == "eager":
        x, eps = arguments()[0], 1e-6
        moves = [x + eps * jitgrad.eye(3, dtype=jitgrad.float64)[k] for k in range(3)]
        backs = [x - eps * jitgrad.eye(3, dtype=jitgrad.float64)[k] for k in range(3)]
        columns = [(function(a) - function(b)) / (2 * eps) for a, b in zip(moves, backs, strict=True)]
        if "loss" not in str(function.__doc__):  # its detach() is no part of the function
            np.testing.assert_allclose(
                first[0].numpy(), np.stack([c.numpy() for c in columns], 1), rtol=1e-5, atol=1e-7
            )
