"""Dual tensors, custom functions in forward mode and inside vmap, and ``autograd.functional``, against PyTorch."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.conftest import Mode

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

# PyTorch's own, when it first takes a forward-mode derivative
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")

X, V = np.array([0.5, 1.5, 2.0]), np.array([1.0, -2.0, 0.5])


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    if hasattr(value, "detach"):
        return np.array(value.detach().numpy())
    return value


def _assert_same(got: Any, want: Any) -> None:
    if isinstance(want, list):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            _assert_same(g, w)
    elif isinstance(want, np.ndarray):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
    else:
        assert got == want


def _text(error: BaseException) -> str:
    return re.sub(r"\s+", " ", str(error)).replace("torch.", "").replace("jitgrad.", "").replace("tensor.", "")


def _attempt(program: Callable[[], Any]) -> Any:
    try:
        return program()
    except Exception as error:
        return f"{type(error).__name__}: {_text(error)}"


def _constant(t: Any, values: Any, requires_grad: bool = False) -> Any:
    return t.tensor(np.asarray(values), requires_grad=requires_grad)


def _same(program: Callable[[Any], Any], mode: Mode) -> None:
    _assert_same(_plain(mode.run(lambda: program(jitgrad))), _plain(program(torch)))


# --- dual tensors ---


def _views_and_writes(t: Any) -> Any:
    fw = t.autograd.forward_ad
    x, v = _constant(t, X), _constant(t, V)
    with fw.dual_level():
        d = fw.make_dual(x, v)
        y = d.clone()
        part = y[1:]
        y.mul_(d)
        part.exp_()
        z = t.zeros(2, 3, dtype=t.float64)
        row = z[0]
        z[1] = d * 2
        row.copy_(d)
        cleared = d.clone()
        cleared.zero_()
        base = d.clone()
        base[0] = 5.0
        results = [fw.unpack_dual(a) for a in (y, part, z, row, d.reshape(3, 1).t(), d.detach(), base)]
        moved = fw.unpack_dual(cleared).tangent
        return [*map(list, results), moved is None or moved]


def _modes(t: Any) -> Any:
    fw = t.autograd.forward_ad
    x = _constant(t, X, True)
    v = _constant(t, V, True)
    with fw.dual_level():
        d = fw.make_dual(x, v)
        with t.no_grad():
            silent = fw.unpack_dual(d * d)
        y, moved = fw.unpack_dual((d * d).sin())
        (moved * y).sum().backward()
        gradient = fw.unpack_dual(t.autograd.grad((d**3).sum(), d, create_graph=True)[0])
    return list(silent), silent[1].requires_grad, y, moved, x.grad, v.grad, list(gradient)


def _after(t: Any) -> Any:
    fw = t.autograd.forward_ad
    x = _constant(t, X)
    with fw.dual_level():
        d = fw.make_dual(x, x)
        inside = fw.unpack_dual(d)
        view = d._is_view()
    return inside[1], fw.unpack_dual(d)[1], fw.unpack_dual(x)[1], view, inside._fields


def _module(t: Any) -> Any:
    """Parameters are exchanged for dual tensors by ``functional_call``."""
    fw = t.autograd.forward_ad
    net = t.nn.Linear(3, 2)
    params = {"weight": _constant(t, np.arange(6.0).reshape(2, 3)), "bias": _constant(t, [1.0, 2.0])}
    with fw.dual_level():
        duals = {k: fw.make_dual(p, t.ones_like(p)) for k, p in params.items()}
        out = t.func.functional_call(net, duals, (_constant(t, X[None]),))
        return list(fw.unpack_dual(out))


@pytest.mark.parametrize("program", [_views_and_writes, _modes, _after, _module], ids=lambda p: p.__name__)
def test_dual_tensors_are_torchs(program: Callable[[Any], Any], mode: Mode) -> None:
    _same(program, mode)


def _errors(t: Any) -> list[Any]:
    fw = t.autograd.forward_ad
    x = _constant(t, X)
    outside = [_attempt(lambda: fw.make_dual(x, x)), _attempt(fw.exit_dual_level)]
    with fw.dual_level():
        d = fw.make_dual(x, x)
        inside = [
            lambda: fw.make_dual(x, x[:2]),
            lambda: fw.make_dual(t.tensor([1]), x),
            lambda: fw.make_dual(x, t.tensor([1])),
            lambda: fw.make_dual(d, x),
            lambda: fw.make_dual(x, d),
            fw.enter_dual_level,
            lambda: fw.exit_dual_level(level=3),
        ]
        return outside + [_attempt(program) for program in inside]


def test_errors_are_torchs(mode: Mode) -> None:
    _same(_errors, mode)


def test_levels_by_hand(mode: Mode) -> None:
    def step() -> Any:
        fw = jitgrad.autograd.forward_ad
        number = fw.enter_dual_level()
        y = fw.make_dual(jitgrad.tensor(X), jitgrad.tensor(V)) * 3
        tangent = fw.unpack_dual(y).tangent
        fw.exit_dual_level(level=number)

        @fw.dual_level()
        def inside(x: Any) -> Any:
            return fw.unpack_dual(fw.make_dual(x, x) * x).tangent

        return tangent, inside(jitgrad.tensor(X)), fw.unpack_dual(y).tangent

    tangent, inside, gone = mode.run(step)
    np.testing.assert_allclose(tangent.numpy(), V * 3)
    np.testing.assert_allclose(inside.numpy(), X * X)
    assert gone is None


# --- custom functions ---


def _cube_class(t: Any) -> Any:
    class Cube(t.autograd.Function):
        """Its derivatives are the true ones times 10, so that one sees who made them."""

        @staticmethod
        def forward(x: Any) -> Any:
            return x * x * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(inputs[0])
            ctx.save_for_forward(inputs[0])

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * 30 * x * x

        @staticmethod
        def jvp(ctx: Any, moved: Any) -> Any:
            (x,) = ctx.saved_tensors
            return moved * 30 * x * x

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any) -> Any:
            assert info.batch_size == 2
            return Cube.apply(x.movedim(in_dims[0], 0)) * 100, 0

    return Cube


def _custom_jvp(t: Any) -> Any:
    cube = _cube_class(t)
    x, v = _constant(t, X), _constant(t, V)
    fw = t.autograd.forward_ad
    with fw.dual_level():
        y = cube.apply(fw.make_dual(x, v))
        plain = cube.apply(x)
        found = [*fw.unpack_dual(y), fw.unpack_dual(plain)[1]]
    return found, list(t.func.jvp(lambda x: cube.apply(x).sum(), (x,), (v,)))


def _custom_vmap(t: Any) -> Any:
    cube = _cube_class(t)
    xs = _constant(t, np.stack([X, V]))
    return t.func.vmap(cube.apply)(xs), t.func.vmap(cube.apply, in_dims=1, out_dims=1)(xs.t())


@pytest.mark.parametrize("program", [_custom_jvp, _custom_vmap], ids=lambda p: p.__name__)
def test_custom_functions_are_torchs(program: Callable[[Any], Any], mode: Mode) -> None:
    _same(program, mode)


def test_custom_functions_without_rules_say_so(mode: Mode) -> None:
    class Bare(jitgrad.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

    def step() -> Any:
        x = jitgrad.tensor(X)
        with pytest.raises(NotImplementedError, match="must implement the jvp function"):
            jitgrad.func.jvp(Bare.apply, (x,), (x,))
        with pytest.raises(RuntimeError, match="implement the vmap staticmethod or set generate_vmap_rule=True"):
            jitgrad.func.vmap(Bare.apply)(x)
        return Bare.apply(x)

    np.testing.assert_allclose(mode.run(step).numpy(), X * 2)


# --- autograd.functional ---


def _f(x: Any) -> Any:
    return (x * x * x).sum() * x[0]


def _g(x: Any, y: Any) -> Any:
    return x.sum() * y, (x * x)[1]


FUNCTIONAL: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "jacobian": lambda t, F, x, v: F.jacobian(lambda x: x * x.sum(), x),
    "jacobian-several": lambda t, F, x, v: F.jacobian(_g, (x, v)),
    "jacobian-vectorized": lambda t, F, x, v: F.jacobian(_g, (x, v), vectorize=True),
    "jacobian-forward": lambda t, F, x, v: F.jacobian(_g, (x, v), vectorize=True, strategy="forward-mode"),
    "jacobian-independent": lambda t, F, x, v: F.jacobian(lambda x, y: x * 2, (x, v), vectorize=True),
    "jacobian-constant": lambda t, F, x, v: F.jacobian(lambda x: t.ones(2), x),
    "jacobian-graph": lambda t, F, x, v: F.jacobian(lambda x: x**3, x.requires_grad_(), True).requires_grad,
    "jacobian-vectorized-graph": lambda t, F, x, v: F.jacobian(
        lambda x: x**3, x.requires_grad_(), True, vectorize=True
    ).requires_grad,
    "hessian": lambda t, F, x, v: F.hessian(_f, x),
    "hessian-several": lambda t, F, x, v: F.hessian(lambda x, y: (x * y * y).sum(), (x, v)),
    "hessian-vectorized": lambda t, F, x, v: F.hessian(lambda x, y: (x * y * y).sum(), (x, v), vectorize=True),
    "hessian-forward": lambda t, F, x, v: F.hessian(_f, x, vectorize=True, outer_jacobian_strategy="forward-mode"),
    "hessian-linear": lambda t, F, x, v: F.hessian(lambda x: x.sum(), x),
    "vjp": lambda t, F, x, v: F.vjp(lambda x: x * x.sum(), x, v),
    "vjp-several": lambda t, F, x, v: F.vjp(_g, (x, v), (v, v[0])),
    "vjp-scalar": lambda t, F, x, v: F.vjp(_f, x),
    "jvp": lambda t, F, x, v: F.jvp(lambda x: x * x.sum(), x, v),
    "jvp-several": lambda t, F, x, v: F.jvp(_g, (x, v), (v, x)),
    "vhp": lambda t, F, x, v: F.vhp(_f, x, v),
    "hvp": lambda t, F, x, v: F.hvp(_f, x, v),
    "hvp-several": lambda t, F, x, v: F.hvp(lambda x, y: (x * y * y).sum(), (x, v), (v, x)),
    "hvp-graph": lambda t, F, x, v: [r.requires_grad for r in F.hvp(_f, x.requires_grad_(), v, create_graph=True)],
    "vhp-no-graph": lambda t, F, x, v: [r.requires_grad for r in F.vhp(_f, x.requires_grad_(), v)],
    # messages
    "no-strategy": lambda t, F, x, v: F.jacobian(_f, x, strategy="sideways"),
    "forward-graph": lambda t, F, x, v: F.jacobian(_f, x, create_graph=True, strategy="forward-mode"),
    "forward-strict": lambda t, F, x, v: F.jacobian(_f, x, strict=True, strategy="forward-mode"),
    "forward-loop": lambda t, F, x, v: F.jacobian(_f, x, strategy="forward-mode"),
    "vectorized-strict": lambda t, F, x, v: F.jacobian(_f, x, strict=True, vectorize=True),
    "strict-constant": lambda t, F, x, v: F.jacobian(lambda x: t.ones(2), x, strict=True),
    "strict-independent": lambda t, F, x, v: F.jacobian(lambda x, y: x * 2, (x, v), strict=True),
    "strict-graph": lambda t, F, x, v: F.jacobian(lambda x: x * 2, x.requires_grad_(), True, True),
    "strict-hessian": lambda t, F, x, v: F.hessian(lambda x: x.sum(), x, strict=True),
    "strict-vjp": lambda t, F, x, v: F.vjp(lambda x, y: x.sum(), (x, v), strict=True),
    "strict-jvp": lambda t, F, x, v: F.jvp(lambda x, y: x.sum(), (x, v), (v, v), strict=True),
    "strict-vhp": lambda t, F, x, v: F.vhp(lambda x: x.sum(), x, v, strict=True),
    "strict-hvp": lambda t, F, x, v: F.hvp(lambda x: x.sum(), x, v, strict=True),
    "strict-hvp-several": lambda t, F, x, v: F.hvp(lambda x, y: (x * x).sum(), (x, v), (v, v), strict=True),
    "inputs": lambda t, F, x, v: F.jacobian(_f, 2.0),
    "inputs-tuple": lambda t, F, x, v: F.vjp(_f, (x, 2.0)),
    "outputs": lambda t, F, x, v: F.jacobian(lambda x: 2.0, x),
    "no-v": lambda t, F, x, v: F.vjp(lambda x: x * 2, x),
    "no-v-jvp": lambda t, F, x, v: F.jvp(lambda x: x * 2, x),
    "v-size": lambda t, F, x, v: F.vjp(lambda x: x * 2, x, v[:2]),
    "v-size-tuple": lambda t, F, x, v: F.jvp(_g, (x, v), (v, v[:2])),
    "v-count": lambda t, F, x, v: F.jvp(_g, (x, v), (v,)),
    "v-two": lambda t, F, x, v: F.jvp(_f, x, (v, v)),
    "hessian-vector": lambda t, F, x, v: F.hessian(lambda x: x * 2, x),
    "hessian-tuple": lambda t, F, x, v: F.hessian(lambda x: (x.sum(),), x),
    "hvp-vector": lambda t, F, x, v: F.hvp(lambda x: x * 2, x, v),
    "vhp-tuple": lambda t, F, x, v: F.vhp(lambda x: (x.sum(),), x, v),
}


@pytest.mark.parametrize("name", FUNCTIONAL)
def test_functional_is_torchs(name: str, mode: Mode) -> None:
    def program(t: Any) -> Any:
        x, v = _constant(t, X), _constant(t, V)
        return _attempt(lambda: FUNCTIONAL[name](t, t.autograd.functional, x, v))

    _same(program, mode)


def test_an_expanded_view_takes_no_tangent(mode: Mode) -> None:
    def step(t: Any) -> Any:
        x = t.ones(4).expand(2, 4)
        with t.autograd.forward_ad.dual_level():
            t.autograd.forward_ad.make_dual(x, t.ones(2, 4))

    for run in (lambda: mode.run(lambda: step(jitgrad)), lambda: step(torch)):
        with pytest.raises(RuntimeError, match="refers to a single memory location"):
            run()
