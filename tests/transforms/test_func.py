"""``func`` against ``torch.func``: eagerly, compiled cold, compiled warm; and its messages."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.conftest import Mode
from tests.hook_log import logged_hooks

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

# PyTorch's own, when it first takes a forward-mode derivative
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")

_rng = np.random.default_rng(3)
X, Y, V = (_rng.uniform(0.3, 1.5, 3) for _ in range(3))
W, XS = _rng.uniform(-1, 1, (4, 3)), _rng.uniform(-1, 1, (5, 3))
IMAGES, KERNEL = _rng.uniform(-1, 1, (2, 3, 1, 5, 5)), _rng.uniform(-1, 1, (2, 1, 3, 3))
B = _rng.uniform(-1, 1, 4)


class Ours:
    """Both libraries under one set of names."""

    lib, func = jitgrad, jitgrad.func
    F = jitgrad.nn.functional
    tensor = staticmethod(lambda x: jitgrad.tensor(np.asarray(x)))


class Theirs:
    lib, func = torch, torch.func
    F = torch.nn.functional
    tensor = staticmethod(lambda x: torch.tensor(np.asarray(x)))


def cube(x: Any) -> Any:
    return (x * x * x).sum()


def mixed(x: Any) -> Any:
    return (x.sin() * x.sum()).sum() + x.prod()


def mlp(w: Any, b: Any, x: Any) -> Any:
    return (x @ w.t() + b).tanh().sum()


def in_place(x: Any) -> Any:
    y = x * 2
    y.mul_(x)
    y[1:] = y[1:].clone() * x[0]
    y[0] += 1
    return y.exp()


def loop(x: Any) -> Any:
    for _ in range(3):
        x = x * x.sin() + 1
    return x.sum()


def confusion(t: Any, x: Any) -> Any:
    """d/dx (x * d/dy (x + y)): 1, if nobody takes one derivative for the other."""

    def inner(a: Any) -> Any:
        return a * t.func.jvp(lambda y: a + y, (x,), (t.lib.ones_like(x),))[1]

    return t.func.jvp(inner, (x,), (t.lib.ones_like(x),))[1]


def per_sample(t: Any, w: Any, b: Any, xs: Any) -> Any:
    return t.func.vmap(t.func.grad(mlp, argnums=(0, 1)), in_dims=(None, None, 0))(w, b, xs)


def cross_entropy(t: Any, w: Any, xs: Any) -> Any:
    target = t.lib.tensor([0, 3, 1, 1, 2])

    def loss(w: Any, x: Any, y: Any) -> Any:
        return t.F.cross_entropy((x @ w.t()).unsqueeze(0), y.unsqueeze(0))

    return t.func.vmap(t.func.grad(loss), in_dims=(None, 0, 0))(w, xs, target)


def conv(t: Any, kernel: Any, images: Any) -> Any:
    def net(kernel: Any, image: Any) -> Any:
        return t.F.max_pool2d(t.F.conv2d(image, kernel).relu(), 2).sum()

    return t.func.vmap(t.func.grad(net), in_dims=(None, 0))(kernel, images)


def network(t: Any, w: Any, x: Any) -> Any:
    """Batching rules of these make values of their own on the way."""
    # layer_norm's own weights would do as well, but PyTorch 2.13's second derivatives of them are wrong inside func
    x = t.F.layer_norm(t.F.linear(x, w), (4,)) * w[:, 0] + w[:, 1]
    x = t.F.gelu(x) + (w @ w.t()).mv(x)
    return t.F.nll_loss(t.F.log_softmax(x, 0).unsqueeze(0), t.lib.tensor([1])) + t.F.softmax(x, 0).std()


def take(x: Any) -> Any:
    return x[[2, 0]] * x[0] + x.flip(0)[1:]


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "grad": (lambda t, x: t.func.grad(cube)(x), (X,)),
    "grad-grad": (lambda t, x: t.func.grad(lambda x: t.func.grad(mixed)(x).sum())(x), (X,)),
    "grad-argnums": (lambda t, x, y: t.func.grad(lambda x, y: (x * y.exp()).sum(), argnums=(1, 0))(x, y), (X, Y)),
    "grad-aux": (lambda t, x: t.func.grad(lambda x: (cube(x), x * 2), has_aux=True)(x), (X,)),
    "grad-value": (lambda t, x: t.func.grad_and_value(cube)(x), (X,)),
    "grad-value-aux": (lambda t, x: t.func.grad_and_value(lambda x: (cube(x), x * 2), has_aux=True)(x), (X,)),
    "grad-tree": (
        lambda t, x, y: list(t.func.grad(lambda p: (p["a"] * p["b"][0]).sum())({"a": x, "b": [y]}).values()),
        (X, Y),
    ),
    "grad-unused": (lambda t, x, y: t.func.grad(lambda x, y: cube(x), argnums=1)(x, y), (X, Y)),
    "grad-loop": (lambda t, x: t.func.grad(loop)(x), (X,)),
    "grad-in-place": (lambda t, x: t.func.grad(lambda x: in_place(x).sum())(x), (X,)),
    "grad-index": (lambda t, x: t.func.grad(lambda x: take(x).sum())(x), (X,)),
    "vjp": (lambda t, x, v: t.func.vjp(lambda x: x * x.sum(), x)[1](v), (X, V)),
    "vjp-values": (lambda t, x: t.func.vjp(lambda x: {"s": x.sin(), "c": x.cos()}, x)[0]["c"], (X,)),
    "vjp-several": (lambda t, x, y, v: t.func.vjp(lambda x, y: (x * y, x.sin()), x, y)[1]((v, v)), (X, Y, V)),
    "jvp": (lambda t, x, v: t.func.jvp(lambda x: x * x.sum(), (x,), (v,)), (X, V)),
    "jvp-several": (lambda t, x, y, v: t.func.jvp(lambda x, y: (x * y, y.exp()), (x, y), (v, v)), (X, Y, V)),
    "jvp-aux": (lambda t, x, v: t.func.jvp(lambda x: (x.exp(), x + 1), (x,), (v,), has_aux=True), (X, V)),
    "jvp-in-place": (lambda t, x, v: t.func.jvp(in_place, (x,), (v,)), (X, V)),
    "jvp-index": (lambda t, x, v: t.func.jvp(take, (x,), (v,)), (X, V)),
    "jvp-constant": (lambda t, x, v: t.func.jvp(lambda x: t.lib.ones_like(x), (x,), (v,)), (X, V)),
    "jvp-jvp": (lambda t, x, v: t.func.jvp(lambda x: t.func.jvp(mixed, (x,), (v,))[1], (x,), (v,)), (X, V)),
    "jvp-grad": (lambda t, x, v: t.func.jvp(t.func.grad(mixed), (x,), (v,)), (X, V)),
    "grad-jvp": (lambda t, x, v: t.func.grad(lambda x: t.func.jvp(mixed, (x,), (v,))[1])(x), (X, V)),
    "vjp-of-jvp": (lambda t, x, v: t.func.vjp(lambda x: t.func.jvp(take, (x,), (v,))[1], x)[1](v[:2]), (X, V)),
    "confusion": (confusion, (X,)),
    "jacrev": (lambda t, x: t.func.jacrev(lambda x: x * x.sum())(x), (X,)),
    "jacrev-chunks": (lambda t, x: t.func.jacrev(lambda x: x * x.sum(), chunk_size=2)(x), (X,)),
    "jacrev-several": (lambda t, x, y: t.func.jacrev(lambda x, y: (x * y.sum(), x[0]), argnums=(0, 1))(x, y), (X, Y)),
    "jacrev-matrix": (lambda t, w, x: t.func.jacrev(lambda w: (w @ x).tanh())(w), (W, X)),
    "jacrev-aux": (lambda t, x: t.func.jacrev(lambda x: (x.sin(), x), has_aux=True)(x), (X,)),
    "jacfwd": (lambda t, x: t.func.jacfwd(lambda x: x * x.sum())(x), (X,)),
    "jacfwd-several": (lambda t, x, y: t.func.jacfwd(lambda x, y: (x * y.sum(), x[0]), argnums=(0, 1))(x, y), (X, Y)),
    "jacfwd-matrix": (lambda t, w, x: t.func.jacfwd(lambda w: (w @ x).tanh())(w), (W, X)),
    "hessian": (lambda t, x: t.func.hessian(mixed)(x), (X,)),
    "hessian-several": (
        lambda t, x, y: t.func.hessian(lambda x, y: (x * y.exp()).sum() ** 2, argnums=(0, 1))(x, y),
        (X, Y),
    ),
    "jacrev-jacrev": (lambda t, x: t.func.jacrev(t.func.jacrev(mixed))(x), (X,)),
    "jacrev-jacfwd": (lambda t, x: t.func.jacrev(t.func.jacfwd(mixed))(x), (X,)),
    "jacfwd-jacfwd": (lambda t, x: t.func.jacfwd(t.func.jacfwd(mixed))(x), (X,)),
    "third": (lambda t, x: t.func.jacfwd(t.func.jacfwd(t.func.jacrev(cube)))(x), (X,)),
    "vmap": (lambda t, xs: t.func.vmap(mixed)(xs), (XS,)),
    "vmap-dims": (lambda t, w, xs: t.func.vmap(lambda a, b: a * b, (1, None), 1)(xs, w[:, 0][:1]), (W, XS)),
    "vmap-nested": (
        lambda t, xs, w: t.func.vmap(lambda x: t.func.vmap(lambda r: (r * x).sum().exp())(w))(xs),
        (XS, W),
    ),
    "vmap-chunks": (lambda t, xs: t.func.vmap(mixed, chunk_size=2)(xs), (XS,)),
    "vmap-index": (lambda t, xs: t.func.vmap(take)(xs), (XS,)),
    "vmap-in-place": (lambda t, xs: t.func.vmap(in_place)(xs), (XS,)),
    "vmap-where": (lambda t, xs: t.func.vmap(lambda x: t.lib.where(x > 0, x.exp(), x * x[0]))(xs), (XS,)),
    "vmap-grad": (lambda t, xs: t.func.vmap(t.func.grad(mixed))(xs), (XS,)),
    "vmap-vmap-grad": (lambda t, xs: t.func.vmap(t.func.vmap(t.func.grad(lambda x: x.sin())))(xs), (XS,)),
    "vmap-jvp": (lambda t, xs, v: t.func.vmap(lambda x: t.func.jvp(take, (x,), (v,)))(xs), (XS, V)),
    "vmap-hessian": (lambda t, xs: t.func.vmap(t.func.hessian(mixed))(xs), (XS,)),
    "vmap-jacrev": (lambda t, xs: t.func.vmap(t.func.jacrev(take))(xs), (XS,)),
    "jvp-vmap": (lambda t, xs: t.func.jvp(t.func.vmap(mixed), (xs,), (xs * 2,)), (XS,)),
    "jvp-vmap-grad": (lambda t, xs: t.func.jvp(t.func.vmap(t.func.grad(mixed)), (xs,), (xs * 2,)), (XS,)),
    "grad-vmap": (lambda t, xs: t.func.grad(lambda xs: t.func.vmap(mixed)(xs).sum())(xs), (XS,)),
    "hessian-vmap": (
        lambda t, x, w: t.func.hessian(lambda x: t.func.vmap(lambda r: (r * x).exp())(w).sum())(x),
        (X, W),
    ),
    "per-sample": (per_sample, (W, B, XS)),
    "cross-entropy": (cross_entropy, (W, XS)),
    "conv": (conv, (KERNEL, IMAGES)),
    "net-hessian": (lambda t, w, x: t.func.hessian(lambda x: network(t, w, x))(x), (W, X)),
    "vmap-net-hessian": (lambda t, w, xs: t.func.vmap(t.func.hessian(lambda x: network(t, w, x)))(xs), (W, XS)),
    "vmap-net-weights": (
        lambda t, w, xs: t.func.vmap(t.func.hessian(lambda w, x: network(t, w, x)), (None, 0))(w, xs),
        (W, XS),
    ),
}
for _outer, _inner in itertools.product(("jacfwd", "jacrev"), repeat=2):
    CASES[f"vmap-{_outer}-{_inner}"] = (
        lambda t, xs, a=_outer, b=_inner: t.func.vmap(getattr(t.func, a)(getattr(t.func, b)(mixed)))(xs),
        (XS,),
    )
    CASES[f"{_outer}-vmap-{_inner}"] = (
        lambda t, xs, a=_outer, b=_inner: getattr(t.func, a)(t.func.vmap(getattr(t.func, b)(mixed)))(xs),
        (XS[:2],),
    )
    CASES[f"{_outer}-{_inner}-vmap"] = (
        lambda t, xs, a=_outer, b=_inner: getattr(t.func, a)(getattr(t.func, b)(t.func.vmap(mixed)))(xs),
        (XS[:2],),
    )


def _flat(value: Any) -> list[Any]:
    return [y for x in value for y in _flat(x)] if isinstance(value, tuple | list) else [value]


@pytest.mark.parametrize("name", CASES)
def test_transforms_are_torchs(name: str, mode: Mode) -> None:
    program, arrays = CASES[name]
    got = _flat(mode.run(lambda *xs: program(Ours, *xs), lambda: tuple(map(Ours.tensor, arrays))))
    want = _flat(program(Theirs, *map(Theirs.tensor, arrays)))
    for x, y in zip(got, want, strict=True):
        assert not x.requires_grad
        assert x.shape == tuple(y.shape)
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-10, atol=1e-12)


def test_a_graph_outside_goes_on(mode: Mode) -> None:
    """A physics-informed loss: the derivative with respect to x, differentiated by w."""

    def step(t: Any, w: Any, x: Any) -> Any:
        slope = t.func.grad(lambda x: ((w * x).sin() * x).sum())
        curvature = t.func.grad(lambda x: slope(x).sum())(x)
        moved = t.func.jvp(slope, (x,), (x,))[1]
        batch = t.func.vmap(t.func.grad(lambda a: (a * w[0]).exp()))(x)
        loss = (slope(x) ** 2).sum() + (curvature * x).sum() + moved.sum() + batch.sum()
        loss.backward()
        return loss, w.grad

    def arguments(t: Any) -> tuple[Any, ...]:
        return t.tensor(Y).requires_grad_(), t.tensor(X)

    loss, grad = mode.run(lambda w, x: step(Ours, w, x), lambda: arguments(Ours))
    want, their_grad = step(Theirs, *arguments(Theirs))
    np.testing.assert_allclose(loss.detach().numpy(), want.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(grad.numpy(), their_grad.numpy(), rtol=1e-12)


def test_results_keep_a_graph_only_if_somebody_outside_has_one(mode: Mode) -> None:
    def step(t: Any, w: Any, x: Any) -> list[bool]:
        with t.lib.no_grad():
            shut = t.func.grad(lambda x: (w * x * x).sum())(x)
        results = (
            t.func.grad(cube)(x),
            t.func.grad(cube)(w),
            t.func.grad(lambda x: (w * x * x).sum())(x),
            shut,
            *t.func.vjp(cube, x)[:1],
            *t.func.vjp(cube, w)[:1],
            *t.func.jvp(cube, (w,), (x,)),
            *t.func.grad_and_value(cube)(x),
            t.func.hessian(cube)(x),
            t.func.vmap(t.func.grad(lambda x: x * x))(w),
        )
        return [r.requires_grad for r in results]

    want = step(Theirs, Theirs.tensor(Y).requires_grad_(), Theirs.tensor(X))
    got = mode.run(lambda w, x: step(Ours, w, x), lambda: (Ours.tensor(Y).requires_grad_(), Ours.tensor(X)))
    assert got == want


class Net(jitgrad.nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.first, self.second = jitgrad.nn.Linear(3, width), jitgrad.nn.Linear(width, 1)

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x).tanh())


def test_functional_call_and_ensembles(mode: Mode) -> None:
    jitgrad.manual_seed(0)
    models = [Net() for _ in range(3)]
    state, _ = jitgrad.func.stack_module_state(models)
    xs = jitgrad.tensor(XS.astype(np.float32))

    def step(xs: Any) -> Any:
        ensemble = jitgrad.func.vmap(lambda p: jitgrad.func.functional_call(models[0], p, (xs,)))(state)
        params = {k: p.detach() for k, p in models[1].named_parameters()}

        def loss(params: Any, x: Any) -> Any:
            return jitgrad.func.functional_call(models[0], params, (x,)).sum()

        each = jitgrad.func.vmap(jitgrad.func.grad(loss), in_dims=(None, 0))(params, xs)
        return ensemble.detach(), [g.detach() for g in each.values()]

    ensemble, each = mode.run(step, lambda: (xs,))
    for row, model in zip(ensemble.numpy(), models, strict=True):
        np.testing.assert_allclose(row, model(xs).detach().numpy(), rtol=1e-5, atol=1e-6)
    for i in range(len(XS)):
        models[1].zero_grad()
        models[1](xs[i]).sum().backward()
        for batch, parameter in zip(each, models[1].parameters(), strict=True):
            np.testing.assert_allclose(batch.numpy()[i], parameter.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_functional_call_checks_names() -> None:
    ours, theirs = jitgrad.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    for keys in (["wait"], ["weight"], ["weight", "bias", "x"]):
        messages = []
        for t, module in ((Ours, ours), (Theirs, theirs)):
            given = {k: t.tensor(np.ones((1, 2), np.float32)) for k in keys}
            with pytest.raises(RuntimeError) as error:
                t.func.functional_call(module, given, (t.tensor(np.ones((1, 2), np.float32)),), strict=True)
            messages.append(str(error.value))
        assert messages[0] == messages[1]
    with pytest.raises(ValueError, match="appeared in multiple dictionaries"):
        jitgrad.func.functional_call(ours, ({"weight": 1}, {"weight": 2}), ())


ERRORS: dict[str, Callable[[Any, Any], Any]] = {
    "grad-number": lambda t, x: t.func.grad(cube)(2.0),
    "grad-ints": lambda t, x: t.func.grad(cube)(t.tensor([1, 2])),
    "grad-vector": lambda t, x: t.func.grad(lambda x: x * 2)(x),
    "grad-no-tensor": lambda t, x: t.func.grad(lambda x: 3.0)(x),
    "grad-argnum": lambda t, x: t.func.grad(cube, argnums=2)(x),
    "grad-no-argnums": lambda t, x: t.func.grad(cube, argnums=())(x),
    "grad-twice": lambda t, x: t.func.grad(lambda a, b: a.sum(), argnums=(0, 0))(x, x),
    "grad-list": lambda t, x: t.func.grad(cube, argnums=[0])(x),
    "grad-no-aux": lambda t, x: t.func.grad(cube, has_aux=True)(x),
    "jvp-no-tuple": lambda t, x: t.func.jvp(cube, x, x),
    "jvp-shape": lambda t, x: t.func.jvp(cube, (x,), (x[:2],)),
    "jvp-structure": lambda t, x: t.func.jvp(cube, (x,), x),
    "jvp-count": lambda t, x: t.func.jvp(cube, (x,), (x, x)),
    "jvp-strict": lambda t, x: t.func.jvp(lambda x: t.lib.ones(2), (x,), (x,), strict=True),
    "jvp-no-tensor": lambda t, x: t.func.jvp(lambda x: 2.0, (x,), (x,)),
    "jvp-ints": lambda t, x: t.func.jvp(cube, (x,), (t.tensor([1, 2, 3]),)),
    "vjp-no-tensor": lambda t, x: t.func.vjp(lambda x: 2.0, x),
    "vjp-shape": lambda t, x: t.func.vjp(cube, x)[1](x),
    "vjp-structure": lambda t, x: t.func.vjp(cube, x)[1]((x,)),
    "vjp-ints": lambda t, x: t.func.vjp(lambda x: x > 0, x),
    "vmap-number": lambda t, x: t.func.vmap(cube)(2.0),
    "vmap-nothing": lambda t, x: t.func.vmap(cube)(),
    "vmap-dim": lambda t, x: t.func.vmap(cube, in_dims=3)(x),
    "vmap-dims": lambda t, x: t.func.vmap(cube, in_dims=(0, 0))(x),
    "vmap-sizes": lambda t, x: t.func.vmap(lambda a, b: a + b)(x, x[:2]),
    "vmap-none": lambda t, x: t.func.vmap(cube, in_dims=(None,))(x),
    "vmap-in-none": lambda t, x: t.func.vmap(cube, in_dims=None)(x),
    "vmap-list": lambda t, x: t.func.vmap(cube, in_dims=[0])(x),
    "vmap-float": lambda t, x: t.func.vmap(cube, in_dims=(0.5,))(x),
    "vmap-no-tensor": lambda t, x: t.func.vmap(lambda x: 2.0)(x),
    "vmap-out-none": lambda t, x: t.func.vmap(lambda x: x, out_dims=None)(x),
    "vmap-out-dims": lambda t, x: t.func.vmap(lambda x: (x, x), out_dims=(0,))(x),
    "vmap-out-dim": lambda t, x: t.func.vmap(lambda x: x, out_dims=5)(x),
    "vmap-out-text": lambda t, x: t.func.vmap(lambda x: x, out_dims="a")(x),
    "vmap-random": lambda t, x: t.func.vmap(lambda x: x + t.lib.rand(1))(x),
    "vmap-randomness": lambda t, x: t.func.vmap(cube, randomness="b")(x),
    "vmap-chunk": lambda t, x: t.func.vmap(cube, chunk_size=0)(x),
    "jacrev-chunk": lambda t, x: t.func.jacrev(cube, chunk_size=0)(x),
}


def _error(program: Callable[[Any, Any], Any], t: Any) -> tuple[str, str]:
    with pytest.raises(Exception) as error:
        program(t, t.tensor(X))
    text = re.sub(r"\s+", " ", str(error.value)).replace("torch.Size(", "(")
    text = text.replace("torch.", "").replace("jitgrad.", "")
    text = re.sub(r"TreeSpec\((\w+), None, \[", r"TreeSpec(\1, None, [", text)
    return type(error.value).__name__, text.replace("([", "(").replace("])", ")").replace(",)", ")")


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_torchs(name: str, mode: Mode) -> None:
    def step(t: Any) -> Any:
        return _error(ERRORS[name], t)

    assert mode.run(lambda: step(Ours)) == step(Theirs)


def test_values_cannot_be_read_inside_vmap(mode: Mode) -> None:
    x = Ours.tensor(X)

    def step() -> Any:
        with pytest.raises(RuntimeError, match="vmap: It looks like you're"):
            jitgrad.func.vmap(lambda x: x if x > 0 else -x)(x)
        with pytest.raises(RuntimeError, match="inplace arithmetic"):
            jitgrad.func.vmap(lambda a: jitgrad.zeros((), dtype=jitgrad.float64).add_(a))(x)
        with pytest.raises(RuntimeError, match=r"backward\(\) called inside a functorch transform"):
            jitgrad.func.vmap(lambda a: (a * a).requires_grad_().backward())(x)
        return jitgrad.func.vmap(lambda x: x * 2)(x)  # nothing is left behind

    np.testing.assert_array_equal(mode.run(step).numpy(), X * 2)


def test_linearize(mode: Mode) -> None:
    def step(x: Any, v: Any) -> Any:
        value, jvp_fn = jitgrad.func.linearize(cube, x)
        return value, jvp_fn(v), jvp_fn(v * 2)

    value, once, twice = mode.run(step, lambda: (Ours.tensor(X), Ours.tensor(V)))
    np.testing.assert_allclose(value.item(), (X**3).sum())
    np.testing.assert_allclose([once.item(), twice.item() / 2], (3 * X**2 * V).sum())


def test_random_numbers_inside_vmap() -> None:
    x = Ours.tensor(X)
    same = jitgrad.func.vmap(lambda x: x * 0 + jitgrad.rand(2, dtype=jitgrad.float64), randomness="same")(x).numpy()
    different = jitgrad.func.vmap(
        lambda x: x * 0 + jitgrad.rand(2, dtype=jitgrad.float64), randomness="different"
    )(x).numpy()
    assert same.shape == different.shape == (3, 2)
    assert (same == same[0]).all()
    assert len(np.unique(different)) == 6


def test_tensors_of_inference_mode_elsewhere_are_no_matter(mode: Mode) -> None:
    with jitgrad.inference_mode():
        kept = jitgrad.ones(3) * 2

    def step(xs: Any) -> Any:
        return jitgrad.func.vmap(jitgrad.func.grad(cube))(xs)

    got = mode.run(step, lambda: (Ours.tensor(XS),))
    assert kept.is_inference()
    np.testing.assert_allclose(got.numpy(), 3 * XS**2)


def _checkpointed(x: Any, w: Any, log: list[Any]) -> Any:
    y = jitgrad.utils.checkpoint.checkpoint(lambda v: (v.sin() * x).tanh(), w, use_reentrant=False)
    seeds = jitgrad.ones(2, *w.shape)
    return jitgrad.autograd.grad(w * w * y.sum(), w, seeds, is_grads_batched=True, retain_graph=True)[0]


def _hooks_in_a_vmap(x: Any, w: Any, log: list[Any]) -> Any:
    def one(v: Any) -> Any:
        with logged_hooks(jitgrad, log):
            y = (v.exp() * w).sum()
        return y + v.sum()

    return jitgrad.vmap(one)(jitgrad.stack([x, x + 1]))


def _hooks_in_a_gradient(x: Any, w: Any, log: list[Any]) -> Any:
    def one(v: Any) -> Any:
        with logged_hooks(jitgrad, log):
            y = (v.exp() * w).sin()
        return y.sum()

    return jitgrad.func.grad(one)(x)


@pytest.mark.parametrize("f", [_checkpointed, _hooks_in_a_vmap, _hooks_in_a_gradient])
def test_saved_tensor_hooks_that_a_level_meets_are_called_in_a_step_too(f: Any) -> None:
    """The recorder has another handler in front of it while there are hooks; a level above it must see that."""
    x, w = jitgrad.linspace(-1.0, 1.0, 4), jitgrad.linspace(0.5, 2.0, 4).requires_grad_()
    logs: list[list[Any]] = [[], []]
    want = f(x, w, logs[0]).detach()
    step = jitgrad.compile(lambda x, w: f(x, w, logs[1]).detach())
    for _ in range(3):
        logs[1].clear()
        np.testing.assert_allclose(step(x, w).numpy(), want.numpy(), rtol=1e-5)
        assert logs[1] == logs[0]
