"""Custom functions under ``vmap`` and forward mode, against PyTorch, in every mode."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from modes import Mode

import jitgrad
from jitgrad import func as own_func
from jitgrad.autograd import forward_ad as own_forward_ad

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

# PyTorch's own, when it first takes a forward-mode derivative
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")

TORCH = SimpleNamespace(lib=torch, func=torch.func, fw=torch.autograd.forward_ad)
JITGRAD = SimpleNamespace(lib=jitgrad, func=own_func, fw=own_forward_ad)
Program = Callable[[Any], Any]


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (torch.Tensor, jitgrad.Tensor)):
        return [list(value.shape), [round(v, 6) for v in value.detach().reshape(-1).tolist()]]
    return value


def _outcome(program: Program, side: Any) -> Any:
    try:
        return _plain(program(side))
    except Exception as error:
        text = str(error).replace("jitgrad.tensor.Tensor", "torch.Tensor")
        return f"{type(error).__name__}: {text}"


def _power(side: Any, **attributes: Any) -> Any:
    """``x ** n * y``, with every derivative."""

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, y, ctx.n = inputs
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)

    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * ctx.n * x ** (ctx.n - 1) * y, g * x**ctx.n, None

    def jvp(ctx: Any, t_x: Any, t_y: Any, _: Any) -> Any:
        x, y = ctx.saved_tensors
        moved = 0.0
        if t_x is not None:
            moved = moved + t_x * ctx.n * x ** (ctx.n - 1) * y
        return moved if t_y is None else moved + t_y * x**ctx.n

    body = {
        "forward": staticmethod(lambda x, y, n: x**n * y),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
        "jvp": staticmethod(jvp),
        "generate_vmap_rule": True,
    }
    return type("Power", (side.lib.autograd.Function,), {**body, **attributes})


def _sum_with_rule(side: Any) -> Any:
    """The sum of all elements; says itself what it does to a batch."""

    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        (dim,) = in_dims
        others = [d for d in range(x.dim()) if d != dim]
        return x.permute(dim, *others).reshape(info.batch_size, -1).sum(1), 0

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.shape = inputs[0].shape

    body = {
        "forward": staticmethod(lambda x: x.sum()),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(lambda ctx, g: g.expand(ctx.shape)),
        "vmap": staticmethod(vmap),
    }
    return type("Sum", (side.lib.autograd.Function,), body)


def _two_outputs(side: Any) -> Any:
    """A differentiable output and counts, and an argument in a tuple."""

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, (y, ctx.k) = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(x, y, output[0])

    def backward(ctx: Any, g: Any, _: Any) -> Any:
        x, _, out = ctx.saved_tensors
        return g * out / x, None

    body = {
        "forward": staticmethod(lambda x, pair: (x * pair[0] * pair[1], (x > 0).long())),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
        "generate_vmap_rule": True,
    }
    return type("Two", (side.lib.autograd.Function,), body)


def _matrix(side: Any) -> Any:
    return side.lib.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=side.lib.float64, requires_grad=True)


def _row(side: Any) -> Any:
    return side.lib.tensor([0.5, 2.0], dtype=side.lib.float64, requires_grad=True)


def _of_rows(transform: Callable[[Any, Any], Any]) -> Program:
    """``transform(side, f)`` of a function of one row, applied to a matrix by vmap."""

    def program(side: Any) -> Any:
        power, y = _power(side), _row(side)
        return side.func.vmap(transform(side, lambda x: power.apply(x, y, 3)))(_matrix(side))

    return program


def _backward_of_vmap(side: Any) -> Any:
    x, y = _matrix(side), _row(side)
    out = side.func.vmap(_power(side).apply, in_dims=(0, None, None))(x, y, 3)
    (out * out).sum().backward()
    return out, x.grad, y.grad, out.grad_fn.next_functions[0][1]


def _second_backward_of_vmap(side: Any) -> Any:
    x, y = _matrix(side), _row(side)
    out = side.func.vmap(_power(side).apply, in_dims=(1, 0, None))(x, y, 3)
    (first,) = side.lib.autograd.grad(out.sum(), x, create_graph=True)
    return first, side.lib.autograd.grad(first.sum(), (x, y))


def _nested_vmap(side: Any) -> Any:
    power = _power(side)
    inner = side.func.vmap(lambda x, y: power.apply(x, y, 2), in_dims=(None, 0))
    return side.func.vmap(inner, in_dims=(0, None))(_matrix(side), _matrix(side))


def _dual(values_need_grad: bool) -> Program:
    def program(side: Any) -> Any:
        x0, y = _row(side), _row(side).detach()
        with side.fw.dual_level():
            x = side.fw.make_dual(x0 if values_need_grad else x0.detach(), y * 3)
            primal, tangent = side.fw.unpack_dual(_power(side).apply(x, y, 3))
            found = side.lib.autograd.grad(tangent.sum(), x0) if values_need_grad else None
            return primal, tangent, found

    return program


def _dual_in_place(side: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)

    def jvp(ctx: Any, t: Any) -> Any:
        return t.mul_(2)

    double = type("Double", (side.lib.autograd.Function,), {"forward": staticmethod(forward), "jvp": staticmethod(jvp)})
    with side.fw.dual_level():
        x = side.fw.make_dual(_row(side).detach(), _row(side).detach() * 3)
        y = double.apply(x)
        return y is x, list(side.fw.unpack_dual(y))[:2]


def _two(side: Any) -> Any:
    x, y = _matrix(side), _row(side).detach()
    out, counts = side.func.vmap(lambda x: _two_outputs(side).apply(x, (y, 3)))(x)
    out.sum().backward()
    return out, counts, counts.requires_grad, x.grad


def _own_rule(in_dim: int) -> Program:
    def program(side: Any) -> Any:
        x = _matrix(side)
        out = side.func.vmap(_sum_with_rule(side).apply, in_dims=in_dim)(x)
        (out * out).sum().backward()
        return out, x.grad

    return program


def _no_setup_context(side: Any) -> Any:
    old = type("Old", (side.lib.autograd.Function,), {"forward": staticmethod(lambda ctx, x: x * 2)})
    return side.func.vmap(old.apply)(_matrix(side))


PROGRAMS: dict[str, Program] = {
    "vmap": _of_rows(lambda side, f: f),
    "backward of vmap": _backward_of_vmap,
    "second backward of vmap": _second_backward_of_vmap,
    "vmap of vmap": _nested_vmap,
    "vmap of grad": _of_rows(lambda side, f: side.func.grad(lambda x: f(x).sum())),
    "vmap of jvp": _of_rows(lambda side, f: lambda x: side.func.jvp(f, (x,), (x * 2,))),
    "vmap of jacrev": _of_rows(lambda side, f: side.func.jacrev(f)),
    "vmap of jacfwd": _of_rows(lambda side, f: side.func.jacfwd(f)),
    "vmap of hessian": _of_rows(lambda side, f: side.func.hessian(lambda x: f(x).sum())),
    "jacrev": lambda side: side.func.jacrev(lambda x: _power(side).apply(x, x * 2, 3))(_row(side)),
    "jacfwd": lambda side: side.func.jacfwd(lambda x: _power(side).apply(x, x * 2, 3))(_row(side)),
    "grad of grad": lambda side: side.func.grad(
        lambda x: side.func.grad(lambda x: _power(side).apply(x, x, 3).sum())(x).sum()
    )(_row(side)),
    "dual": _dual(False),
    "reverse over forward": _dual(True),
    "dual in place": _dual_in_place,
    "two outputs, a tuple argument": _two,
    "a rule of its own": _own_rule(0),
    "a rule of its own, columns": _own_rule(1),
    "no rule": lambda side: side.func.vmap(_power(side, generate_vmap_rule=False).apply, (0, None, None))(
        _matrix(side), _row(side), 2
    ),
    "two rules": lambda side: side.func.vmap(_power(side, vmap=staticmethod(lambda *a: a)).apply, (0, None, None))(
        _matrix(side), _row(side), 2
    ),
    "a rule that returns too little": lambda side: side.func.vmap(
        _power(side, generate_vmap_rule=False, vmap=staticmethod(lambda info, dims, x, y, n: x)).apply, (0, None, None)
    )(_matrix(side), _row(side), 2),
    "no setup_context": _no_setup_context,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_as_pytorch(name: str, mode: Mode) -> None:
    expected = _outcome(PROGRAMS[name], TORCH)
    assert mode.run(lambda: _outcome(PROGRAMS[name], JITGRAD), is_steady=False) == expected
