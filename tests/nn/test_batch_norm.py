"""``batch_norm`` in all its forms against PyTorch's: values, both derivatives, running statistics, errors, vmap."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

SHAPES = [(4, 3), (1, 3), (2, 3, 1), (1, 3, 2), (0, 3), (2, 0, 3), (2, 3, 4, 5), (3, 2, 2, 2, 2), (5,), (0,), (2, 3, 0)]
_PYTORCHS_OWN = "Expected a proper Tensor but got None"
"""PyTorch fails so where the second derivative of an evaluation asks for a weight that is not there."""


def _forms() -> Iterator[tuple[Any, ...]]:
    """training, which of weight (1) and bias (2) are given, whether there are statistics, momentum."""
    return itertools.product((True, False), (0, 1, 2, 3), (True, False), (0.1, 0.0))


def _array(x: Any) -> Any:
    return None if x is None else x.detach().numpy().copy()


class Form:
    """One call with what it works on, in one of the two libraries."""

    def __init__(self, xp: Any, shape: tuple[int, ...], dtype: str, form: tuple[Any, ...], mode: Mode) -> None:
        self.xp, self.calls = xp, 3 if mode.name == "warm" else 1
        self.is_compiled = xp is jitgrad and mode.name != "eager"
        self.training, affine, has_statistics, self.momentum = form
        rng = np.random.default_rng([*shape, affine])
        make = lambda *s: xp.tensor(rng.standard_normal(s), dtype=getattr(xp, dtype))  # noqa: E731
        channels = shape[1] if len(shape) > 1 else 3
        self.x = make(*shape).requires_grad_()
        self.weight = make(channels).requires_grad_() if affine & 1 else None
        self.bias = make(channels).requires_grad_() if affine & 2 else None
        self.mean = make(channels) if has_statistics else None
        self.variance = make(channels).abs() + 0.5 if has_statistics else None

    def step(self, is_twice: bool) -> list[Any]:
        xp, leaves = self.xp, [t for t in (self.x, self.weight, self.bias) if t is not None]
        y = xp.nn.functional.batch_norm(
            self.x, self.mean, self.variance, self.weight, self.bias, self.training, self.momentum, 1e-3
        )
        grads = xp.autograd.grad((y * y * 0.5 + y).sum(), leaves, create_graph=is_twice, allow_unused=True)
        if is_twice and grads[0].requires_grad:
            grads += xp.autograd.grad(sum((g * g).sum() for g in grads), leaves, allow_unused=True)
        return [y.detach(), *grads]

    def run(self, is_twice: bool) -> Any:
        """Arrays, or the error's class and message."""
        run = jitgrad.compile(self.step) if self.is_compiled else self.step
        try:
            for _ in range(self.calls):
                results = run(is_twice)
        except Exception as error:
            return type(error).__name__, "" if type(error) is IndexError else str(error).split("\n")[0][:60]
        return [_array(x) for x in (*results, self.mean, self.variance)]


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [*(("float32", shape) for shape in SHAPES), ("float64", (4, 3)), ("float64", (2, 3, 4, 5))],
    ids=str,
)
def test_every_form_is_pytorchs(shape: tuple[int, ...], dtype: str, mode: Mode) -> None:
    rtol = {"float32": 2e-4, "float64": 1e-9}[dtype]
    for form, is_twice in itertools.product(_forms(), (False, True)):
        want = Form(torch, shape, dtype, form, mode).run(is_twice)
        got = Form(jitgrad, shape, dtype, form, mode).run(is_twice)
        if isinstance(want, tuple) and _PYTORCHS_OWN in want[1]:
            continue
        if isinstance(want, tuple) or isinstance(got, tuple):
            assert got == want, form
            continue
        for ours, theirs in zip(got, want, strict=True):
            assert (ours is None) is (theirs is None), form
            if ours is not None:
                assert ours.shape == theirs.shape
                np.testing.assert_allclose(ours, theirs, rtol, rtol * max(1.0, abs(theirs).max(initial=0)), str(form))


@pytest.mark.parametrize("training", [True, False])
def test_its_node_is_pytorchs(training: bool) -> None:
    def node(xp: Any) -> list[Any]:
        x, weight = xp.ones(4, 3).requires_grad_(), xp.ones(3).requires_grad_()
        mean, variance = xp.zeros(3), xp.ones(3)
        found = []
        for parameters in ((None, None), (weight, xp.zeros(3))):
            node = xp.nn.functional.batch_norm(x, mean, variance, *parameters, training).grad_fn
            found.append([node.name(), [edge is None for edge, _ in node.next_functions], node._saved_input is x])
        return found

    assert node(jitgrad) == node(torch)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("training", [True, False])
def test_statistics_cannot_require_grad(which: int, training: bool) -> None:
    def error(xp: Any) -> tuple[str, str]:
        statistics = [xp.ones(3), xp.ones(3)]
        statistics[which].requires_grad_()
        with xp.no_grad():
            if not training:
                xp.nn.functional.batch_norm(xp.ones(4, 3), *statistics)
        with pytest.raises(RuntimeError) as caught:
            xp.nn.functional.batch_norm(xp.ones(4, 3).requires_grad_(), *statistics, training=training)
        return type(caught.value).__name__, str(caught.value)

    assert error(jitgrad) == error(torch)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("in_dims", [(0, None, None), (0, 0, 0), (None, 0, None), (2, None, 0)])
def test_a_batch_of_calls_is_each_call(training: bool, in_dims: tuple[int | None, ...]) -> None:
    def run(xp: Any) -> Any:
        rng = np.random.default_rng(0)
        make = lambda *s: xp.tensor(rng.standard_normal(s))  # noqa: E731
        args = [
            make(*shape[:d], 5, *shape[d:]) if d is not None else make(*shape)
            for shape, d in zip(((4, 3, 2), (3,), (3,)), in_dims, strict=True)
        ]
        statistics = (None, None) if training else (make(3), make(3).abs())
        call = lambda x, w, b: xp.nn.functional.batch_norm(x, *statistics, w, b, training)  # noqa: E731
        loss = lambda x, w, b: call(x, w, b).square().sum()  # noqa: E731
        out = xp.func.vmap(call, in_dims)(*args)
        grads = xp.func.vmap(xp.func.grad(loss, (0, 1, 2)), in_dims)(*args)
        return [t.numpy() for t in (out, *grads)]

    for ours, theirs in zip(run(jitgrad), run(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-9, 1e-12)


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
@pytest.mark.parametrize("training", [True, False])
def test_tangents_are_pytorchs(training: bool) -> None:
    def run(xp: Any) -> Any:
        rng = np.random.default_rng(1)
        make = lambda *s: xp.tensor(rng.standard_normal(s))  # noqa: E731
        primals, tangents = [make(4, 3, 2), make(3), make(3)], (make(4, 3, 2), make(3), make(3))
        statistics = (None, None) if training else (make(3), make(3).abs())
        found = []
        for count in (1, 3):
            call = lambda *p: xp.nn.functional.batch_norm(p[0], *statistics, *p[1:], training=training)  # noqa: E731
            found += xp.func.jvp(call, tuple(primals[:count]), tangents[:count])
        return [t.numpy() for t in found]

    for ours, theirs in zip(run(jitgrad), run(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-9, 1e-12)
