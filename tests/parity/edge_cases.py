"""Small programs at the edges of tensors, autograd and custom functions, to run on PyTorch and on jitgrad.

Each is a function of the library; ``tests/side_by_side.py`` compares what it returns, raises and warns of.
"""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["SNIPPETS"]

Snippet = Callable[[Any], Any]
SNIPPETS: dict[str, Snippet] = {}


def _snippet(function: Snippet) -> Snippet:
    SNIPPETS[function.__name__.strip("_").replace("_", " ")] = function
    return function


def _leaf(t: Any, *shape: int) -> Any:
    return (t.arange(1.0, 1 + int(np.prod(shape))).reshape(shape) * 0.5).requires_grad_()


def _chain(node: Any, depth: int = 0) -> Any:
    below = [_chain(n, depth + 1) for n, _ in node.next_functions] if node is not None and depth < 4 else []
    return None if node is None else [node.name(), type(node).__name__, below]


# --- making tensors ---

for _dtype in ("int32", "int64", "float64"):
    for _range in ((0, 10, 5), (0, 9, 5), (-5, 5, 4), (10, 0, 7), (1.7, 9.2, 6), (3, 9, 1), (0, 10, 0), (-3.5, 3.5, 8)):
        SNIPPETS[f"linspace {_dtype} {_range}"] = lambda t, d=_dtype, r=_range: t.linspace(*r, dtype=getattr(t, d))
for _pad in ((-1, 1), (1, -1), (-1, 2), (-1, -1)):
    SNIPPETS[f"nothing padded with {_pad}"] = lambda t, pad=_pad: t.nn.functional.pad(t.zeros(2, 0), pad)
    SNIPPETS[f"one padded with {_pad}"] = lambda t, pad=_pad: t.nn.functional.pad(t.ones(2, 1), pad)
for _value in (float("nan"), 1.5, -0.25, 1.0, float("inf")):
    SNIPPETS[f"binary cross entropy of {_value}"] = lambda t, value=_value: t.nn.functional.binary_cross_entropy(
        t.tensor([0.5, value]), t.tensor([0.0, 1.0])
    )
for _shape in ((1, 1, 0, 5), (1, 2, 5, 0), (0, 1, 5, 5)):
    SNIPPETS[f"largest of windows of {_shape}"] = lambda t, shape=_shape: t.nn.functional.max_pool2d(
        t.zeros(shape), 2, padding=1
    )
SNIPPETS["linspace large"] = lambda t: t.linspace(0, 2**40, 7, dtype=t.int64)

_NESTED: dict[str, Snippet] = {
    "double": lambda t: [t.tensor(1.0, dtype=t.float64)],
    "int32": lambda t: [t.tensor(1, dtype=t.int32), t.tensor(2, dtype=t.int32)],
    "two floats": lambda t: [t.tensor(1.0), t.tensor(2, dtype=t.float64)],
    "mixed": lambda t: [t.tensor(1), 2.5, True],
    "nested": lambda t: [[t.tensor(1.0, dtype=t.float64)], [t.tensor(2.0)]],
    "of one element": lambda t: [t.tensor([[1.0]]), 2.0],
    "two of one element": lambda t: [t.tensor([1.0]), t.tensor([2.0])],
    "of two elements": lambda t: [t.tensor([1.0, 2.0]), t.tensor([3.0, 4.0])],
    "integers of two elements": lambda t: [t.tensor([1, 2])],
    "NumPy scalars": lambda t: [np.float64(1.5), np.float32(1.0)],
    "arrays": lambda t: [np.array([1, 2]), np.array([3, 4])],
    "a tensor": lambda t: t.tensor([1.0, 2.0]),
    "None": lambda t: [None],
    "a dictionary": lambda t: {1: 2},
    "text": lambda t: "a",
}
for _name, _make in _NESTED.items():
    SNIPPETS[f"tensor of {_name}"] = lambda t, make=_make: t.tensor(make(t))

# --- writes by index: leading extents of 1, nothing to write ---

for _shape, _index, _value in (
    ((3,), slice(0, 2), (1, 1, 2)), ((3, 3), 0, (1, 3)), ((3, 3), (0, 0), (1, 1)), ((3, 3), [0, 1], (1, 2, 3)),
    ((3, 3), ([0, 1], [0, 1]), (1, 1, 2)), ((3, 3), ..., (1, 3, 3)), ((3, 3), (None, 0), (1, 1, 3)),
    ((3, 3), 0, (2, 3)), ((3, 3), [0, 1], (2, 2, 3)), ((3, 3), (slice(None), [0, 1]), (1, 3, 2)),
    ((3, 3), True, (1, 3, 3)), ((3, 3), slice(0, 0), (1, 3)), ((3, 3), slice(0, 0), (2, 3)), ((3,), 1, (1, 1, 1)),
    ((3,), 1, (2,)), ((2, 1, 3), 0, (1, 1, 3)),
):  # fmt: skip

    def _assign(t: Any, shape: Any = _shape, index: Any = _index, value: Any = _value) -> Any:
        x, v = t.zeros(*shape), _leaf(t, *value)
        x[index] = v
        x.sum().backward()
        return x, v.grad

    SNIPPETS[f"x[{_index}] = {_value} of {_shape}"] = _assign

for _mask, _value in ((True, (1, 9)), (True, (9,)), (True, ()), (False, (1, 3, 3)), (False, (1, 3))):

    def _assign_masked(t: Any, is_whole: bool = _mask, value: Any = _value) -> Any:
        x, v = t.zeros(3, 3), _leaf(t, *value)
        x[t.ones(3, 3) > 0 if is_whole else t.ones(3) > 0] = v
        return x, x.requires_grad

    SNIPPETS[f"masked by {'elements' if _mask else 'rows'} = {_value}"] = _assign_masked

# --- sums of nothing ---

for _equation, _shapes in (
    ("ij,jk->ik", ((2, 0), (0, 3))), ("ij,jk->ik", ((0, 2), (2, 3))), ("i,i->", ((0,), (0,))),
    ("bij,bjk->bik", ((0, 2, 3), (0, 3, 4))), ("ij,j->i", ((3, 0), (0,))), ("...i,...i->...", ((2, 0), (2, 0))),
    ("ij,jk,kl->il", ((2, 0), (0, 3), (3, 2))), ("ii->", ((0, 0),)), ("i,j->ij", ((0,), (3,))),
):  # fmt: skip

    def _einsum(t: Any, equation: str = _equation, shapes: Any = _shapes) -> Any:
        operands = [t.ones(*shape).requires_grad_() for shape in shapes]
        out = t.einsum(equation, *operands)
        out.sum().backward()
        return out, [x.grad for x in operands]

    SNIPPETS[f"einsum {_equation} {_shapes}"] = _einsum

# --- norms ---


def _norm(t: Any, p: float) -> Any:
    x = _leaf(t, 2)
    return t.autograd.grad(x.norm(p), x, allow_unused=True)


for _p in (0, 0.5, 1, 2, 3, float("inf")):
    SNIPPETS[f"gradient of norm {_p}"] = lambda t, p=_p: _norm(t, p)

# --- names of nodes, what can be looked at ---

_GRAPHS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda t, x: (x * 2).sum(),
    "index": lambda t, x: x[t.tensor([0])],
    "mask": lambda t, x: x[x > 0],
    "where": lambda t, x: t.where(x > 0, x, 0.0),
    "gather": lambda t, x: x.gather(0, t.tensor([[0, 0]])),
    "a write to a part": lambda t, x: (lambda y: (y[0].mul_(2), y)[1])(x * 1),
    "a part of what was written": lambda t, x: (lambda y: (y.mul_(2), y[0])[1])(x * 1),
    "a view from before a write": lambda t, x: (lambda y, v: (y.mul_(2), v)[1])(*(lambda y: (y, y[0]))(x * 1)),
}
for _name, _graph in _GRAPHS.items():
    SNIPPETS[f"nodes of {_name}"] = lambda t, graph=_graph: _chain(graph(t, _leaf(t, 2, 2)).grad_fn)
SNIPPETS["a node's text"] = lambda t: repr(_leaf(t, 2).sum().grad_fn).split(" at ")[0]


@_snippet
def _what_inspect_finds(t: Any) -> Any:
    x = _leaf(t, 2)
    names = [set(dir(each)) for each in (x, x * 1, t.Tensor)]
    members = [dict(inspect.getmembers(each)) for each in (x, x * 1)]
    return vars(x), [{"sum", "grad", "add_", "shape"} <= n for n in names], ["backward" in m for m in members]


@_snippet
def _repr_of_a_view_that_lost_its_history(t: Any) -> Any:
    found = []
    base = _leaf(t, 2, 2) * 1
    first, _ = base.unbind()
    base.mul_(2)
    found.append(repr(first).split("grad_fn")[1])
    plain = t.ones(2, 2)
    with t.no_grad():
        view = plain[0]
    plain.mul_(_leaf(t, 2))
    found.append(repr(view).split("grad_fn")[1])
    return found


@_snippet
def _copies_and_pickles(t: Any) -> Any:
    x = _leaf(t, 2)
    x.sum().backward()
    again = pickle.loads(pickle.dumps(x))
    copied = copy.deepcopy(x)
    functions = (t.sum, t.relu, t.nn.functional.relu, t.einsum, t.linalg.inv, t.nn.functional.cross_entropy)
    return again, copied, copied.grad, [pickle.loads(pickle.dumps(each)) is each for each in (*functions, t.float32)]


@_snippet
def _numpy_in_no_grad_mode(t: Any) -> Any:
    x = _leaf(t, 2)
    with t.no_grad():
        found = [x.numpy(), (x * 2).numpy(), np.asarray(x)]
    with t.inference_mode():
        found.append(x.numpy())
    return found


SNIPPETS["numpy of what requires grad"] = lambda t: _leaf(t, 2).numpy()

# --- forward mode ---


def _dual(t: Any) -> Any:
    return t.autograd.forward_ad.make_dual(t.tensor([1.0, 2.0]), t.tensor([3.0, 4.0]))


def _tangent(t: Any, x: Any) -> Any:
    return t.autograd.forward_ad.unpack_dual(x).tangent


def _in_level(step: Snippet) -> Snippet:
    def run(t: Any) -> Any:
        with t.autograd.forward_ad.dual_level():
            return step(t)

    return run


def _detached(t: Any) -> Any:
    d = _dual(t)
    y = d * d
    views = d[:1].detach(), d.detach()[:1], d.detach(), d.data
    y.detach_()
    return [_tangent(t, x) for x in (y, y * 2, d, *views, *(v * 2 for v in views))]


def _detached_part_written(t: Any) -> Any:
    y = _dual(t) * 2
    part = y.detach()[:1]
    part.mul_(3)
    return y, _tangent(t, y), _tangent(t, part)


SNIPPETS["tangents of what is detached"] = _in_level(_detached)
SNIPPETS["tangents where a detached part is written"] = _in_level(_detached_part_written)


def _with_jvp(
    t: Any, jvp: Callable[..., Any], forward: Callable[..., Any], *others: Any, materialize: bool = True
) -> Any:
    seen: list[Any] = []

    class F(t.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            ctx.set_materialize_grads(materialize)
            return forward(ctx, *args)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            seen.extend(tangents)
            return jvp(*tangents)

    out = F.apply(_dual(t), *others)
    outs = out if isinstance(out, tuple) else (out,)
    return seen, [_tangent(t, y) for y in outs]


def _doubled_in_place(ctx: Any, x: Any) -> Any:
    ctx.mark_dirty(x)
    return x.mul_(2)


_JVPS: dict[str, Snippet] = {
    "of a constant": lambda t: _with_jvp(t, lambda a, b, c: a, lambda c, x, y, k: x * y, t.ones(2), 3),
    "of integers": lambda t: _with_jvp(t, lambda a, b: a, lambda c, x, y: x * y, t.tensor([1, 2])),
    "without zeros": lambda t: _with_jvp(t, lambda a, b: a, lambda c, x, y: x * y, t.ones(2), materialize=False),
    "of another shape": lambda t: _with_jvp(t, lambda a: a.sum(), lambda c, x: x * 2),
    "too few": lambda t: _with_jvp(t, lambda a: a, lambda c, x: (x * 2, x * 3)),
    "in place": lambda t: _with_jvp(t, lambda a: a.mul_(2), _doubled_in_place),
    "in place, the tangent is not": lambda t: _with_jvp(t, lambda a: a * 2, _doubled_in_place),
    "a view": lambda t: _with_jvp(t, lambda a: a.view_as(a), lambda c, x: x.view_as(x)),
    "a view, the tangent is not": lambda t: _with_jvp(t, lambda a: a * 2, lambda c, x: x.view_as(x)),
}
for _name, _make in _JVPS.items():
    SNIPPETS[f"a custom jvp, {_name}"] = _in_level(_make)

# --- gradients that are zeros ---


@_snippet
def _zeros_that_can_be_differentiated(t: Any) -> Any:
    x, y = _leaf(t, 2), _leaf(t, 3)
    gx, gy = t.autograd.grad((x * x).sum(), (x, y), create_graph=True, materialize_grads=True)
    again = t.autograd.grad(gy.sum(), y, allow_unused=True)
    plain = t.autograd.grad((x * x).sum(), (x, y), materialize_grads=True)
    return gx, gy, again, plain


@_snippet
def _derivatives_of_a_constant_derivative(t: Any) -> Any:
    x = t.tensor(0.5, requires_grad=True)
    g, found = x * 3, []
    for _ in range(3):
        (g,) = t.autograd.grad(g, x, create_graph=True, materialize_grads=True)
        found.append(g)
    return found


def _what_backward_gets(t: Any, materialize: bool, non_diff: bool) -> Any:
    seen: list[Any] = []

    class F(t.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(materialize)
            ctx._materialize_non_diff_grads = non_diff
            a, b, c = x * 1, x * 2, x * 3
            ctx.mark_non_differentiable(b)
            return a, b, c, x > 0

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            seen.extend(grads)
            return grads[0]

    x = _leaf(t, 2)
    F.apply(x)[0].sum().backward()
    return seen, x.grad


for _m in (True, False):
    for _n in (True, False):
        SNIPPETS[f"what backward gets, zeros {_m}, {_n}"] = lambda t, m=_m, n=_n: _what_backward_gets(t, m, n)

# --- order of hooks ---


@_snippet
def _hooks_of_an_accumulator(t: Any) -> Any:
    x, log = _leaf(t, 2), []
    x.register_post_accumulate_grad_hook(lambda p: log.append("accumulated"))
    node = x.view_as(x).grad_fn.next_functions[0][0]
    node.register_hook(lambda gi, go: log.append(("after", len(gi), len(go))))
    node.register_prehook(lambda go: log.append(("before", len(go))))
    x.register_hook(lambda g: log.append("tensor"))
    node.register_prehook(lambda go: log.append("before, too"))
    x.register_post_accumulate_grad_hook(lambda p: log.append("accumulated, too"))
    (x * 2).sum().backward()
    (x * 2).sum().backward(inputs=[x])
    t.autograd.grad((x * 2).sum(), x)
    return log, x.grad


@_snippet
def _hooks_and_retain_grad(t: Any) -> Any:
    x, log = _leaf(t, 2), []
    y = x * 2
    y.register_hook(lambda g: log.append("first") or g * 2)
    y.retain_grad()
    y.register_hook(lambda g: log.append("second") or g * 3)
    y.grad_fn.register_prehook(lambda g: log.append("before"))
    y.grad_fn.register_hook(lambda gi, go: log.append("after"))
    y.sum().backward()
    return log, y.grad, x.grad


# --- vjp and grad in no_grad mode ---


@_snippet
def _vjp_in_no_grad_mode(t: Any) -> Any:
    x = _leaf(t, 3)
    with t.no_grad():
        value, pull = t.func.vjp(lambda z: z.sin(), x)
        (inside,) = pull(t.ones(3))
        g = t.func.grad(lambda z: z.sin().sum())(x)
        h = t.func.hessian(lambda z: (z * z * z).sum())(x)
    return value, inside, g, h


@_snippet
def _no_grad_mode_in_a_transformed_function(t: Any) -> Any:
    def f(z: Any) -> Any:
        with t.no_grad():
            scale = (z * z).sum()
        return (z * scale).sum()

    x = t.tensor([1.0, 2.0, 3.0])
    return t.func.grad(f)(x), t.func.vjp(f, x)[1](t.tensor(1.0)).__len__()


# --- custom functions that write and return views ---


def _writing(t: Any, result: Callable[[Any], Any], back: Callable[..., Any]) -> Any:
    class F(t.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.mul_(2)
            ctx.mark_dirty(x)
            return result(x)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return back(*grads)

    return F


@_snippet
def _a_function_writes_a_part(t: Any) -> Any:
    x = _leaf(t, 2, 2)
    base = x * 1
    part = base[0]
    out = _writing(t, lambda x: x, lambda g: g * 2).apply(part)
    (base * base).sum().backward()
    return out is part, x.grad, base.grad_fn.name(), part._version, base._version


for _name, _result, _back in (
    ("a view of it", lambda x: x.view(-1), lambda g: g.view(2, 2) * 2),
    ("it and a view", lambda x: (x, x.view(-1)), lambda g, h: g * 2 + h.view(2, 2) * 2),
    ("something else", lambda x: x * 2, lambda g: g * 2),
):

    def _write_and_return(t: Any, result: Any = _result, back: Any = _back) -> Any:
        x = _leaf(t, 2, 2)
        base = x * 1
        out = _writing(t, result, back).apply(base)
        outs = out if isinstance(out, tuple) else (out,)
        sum(y.sum() for y in outs).backward()
        return x.grad, base, [y._is_view() for y in outs]

    SNIPPETS[f"a function writes its input and returns {_name}"] = _write_and_return

# --- warnings ---

_WARNS: dict[str, Snippet] = {
    "T of three dimensions": lambda t: t.ones(2, 3, 4).T,
    "losses of two sizes": lambda t: t.nn.functional.mse_loss(t.ones(2, 1), t.ones(2)),
    "kl_div by mean": lambda t: t.nn.functional.kl_div(t.ones(2), t.ones(2)),
    "meshgrid": lambda t: t.meshgrid(t.ones(2), t.ones(2)),
    "the spread of one": lambda t: (t.ones(1).std(), t.ones(1, 3).var(0)),
    "the spread of nothing": lambda t: t.ones(0).std(),
    "grad of a result": lambda t: (_leaf(t, 2) * 2).grad,
    "grad of a result that is retained": lambda t: (lambda y: (y.retain_grad(), y.grad)[1])(_leaf(t, 2) * 2),
    "a number of what requires grad": lambda t: float(_leaf(t, 1)),
    "a number": lambda t: float(t.ones(1)),
    "cross without dim": lambda t: t.cross(t.ones(3, 2), t.ones(3, 2)),
    "a tensor from a tensor": lambda t: t.ones(2).new_tensor(t.ones(2)),
}
for _name, _make in _WARNS.items():
    SNIPPETS[f"warns: {_name}"] = _make


@_snippet
def _warns_of_a_cycle(t: Any) -> Any:
    x = _leaf(t, 2)
    (x * x).sum().backward(create_graph=True)
    found = x.grad.requires_grad
    x.grad = None
    return found
