"""Programs of views and in-place writes on torch and on jitgrad, eagerly and compiled: values, versions, names, errors.

A program returns what it has seen; of exceptions the type and the text are compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from modes import Mode
from parity import J, assert_same, const, leaf, plain, torch

from jitgrad.functions.replacing import swap_tensors

Program = Callable[[Any], Any]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    """Make ``function(lib)`` a test."""
    PROGRAMS[function.__name__] = function
    return function


def attempt(fn: Callable[[], Any]) -> Any:
    """The result; of an exception, its type and text, without what only one library says."""
    try:
        return fn()
    except Exception as error:
        text = re.sub(r" \((in-place )?\w+(: shapes .*)?\)$", "", str(error)).replace("torch.", "jitgrad.")
        return type(error).__name__, text.split("\n")[0]


def name_of(tensor: Any) -> str | None:
    """The name of its ``grad_fn``; PyTorch has namespaces, numbers for overloads, and names for special copies."""
    node = tensor.grad_fn
    if node is None:
        return None
    name = re.sub(r"^torch::autograd::|\d+$", "", node.name())
    return "CopyBackwards" if name == "FillBackward" else name


def chain(tensor: Any) -> list[str]:
    """Names along first edges."""
    names, node = [], tensor.grad_fn
    while node is not None:
        names.append(re.sub(r"^torch::autograd::|\d+$", "", node.name()))
        node = node.next_functions[0][0] if node.next_functions else None
    return names


def settled(value: Any) -> Any:
    """``plain``, with tuples as lists."""
    value = plain(value)
    return [settled(v) for v in value] if isinstance(value, list) else value


# --- views that come several at once ---

SEVERAL: dict[str, Callable[[Any], Any]] = {
    "chunk": lambda b: b.chunk(2),
    "split": lambda b: b.split(2),
    "sizes": lambda b: b.split([1, 3]),
    "unbind": lambda b: b.unbind(0),
    "iteration": list,
    "tensor_split": lambda b: b.tensor_split(2),
}


def _several(make: Callable[[Any], Any]) -> Program:
    def run(lib: Any) -> Any:
        out = []
        base = leaf(lib, [1.0, 2.0, 3.0, 4.0]) * 1
        out.append(attempt(lambda: name_of(make(base)[0].mul_(2))))
        base = leaf(lib, [1.0, 2.0, 3.0, 4.0]) * 1
        parts = make(base)
        base.mul_(2)
        out.append(attempt(lambda: name_of(parts[0])))
        out.append(attempt(lambda: parts[1] * 2))
        base = leaf(lib, [1.0, 2.0, 3.0, 4.0]) * 1
        out.append(attempt(lambda: name_of(make(base)[1].view(-1).mul_(2))))
        out.append(attempt(lambda: make(base)[1].detach().mul_(2)))
        base = const(lib, [1.0, 2.0, 3.0, 4.0])
        parts = make(base)
        out.append([p._is_view() and p._base is base for p in parts])
        out.append(attempt(lambda: (parts[0].mul_(2), parts[0].requires_grad)))
        out.append(attempt(lambda: parts[0].mul_(leaf(lib, 2.0))))
        with lib.no_grad():
            parts = make(base)
        out.append(attempt(lambda: parts[0].mul_(leaf(lib, 2.0))))
        x = leaf(lib, [1.0, 2.0, 3.0, 4.0])
        parts = make(x)
        out.append([p.output_nr for p in parts])
        out.append(attempt(lambda: parts[0].mul_(2)))
        with lib.no_grad():
            out.append(attempt(lambda: (parts[0].mul_(2), x, x._version)))
        out.append(attempt(lambda: name_of(parts[0])))
        return out

    return run


PROGRAMS |= {f"several {name}": _several(make) for name, make in SEVERAL.items()}


# --- views, no_grad mode and leaves ---


@program
def views_of_leaves_in_no_grad(lib: Any) -> Any:
    x = leaf(lib, [1.0, 2.0])
    with lib.no_grad():
        v = x.view(-1)
        v.mul_(2)
    out = [x, x._version, v.requires_grad, v._is_view(), attempt(lambda: v.is_leaf), attempt(lambda: name_of(v))]
    w = x.view(-1)
    out.append(attempt(lambda: w.mul_(2)))
    with lib.no_grad():
        w.mul_(2)
    out += [x, x._version, attempt(lambda: name_of(w)), w.is_leaf]
    (w * 3).sum().backward()
    return [*out, x.grad]


@program
def a_no_grad_view_requires_grad_with_its_base(lib: Any) -> Any:
    h = leaf(lib, [1.0, 2.0]) * 2
    with lib.no_grad():
        v = h.view(-1)
    facts = v.requires_grad, v.is_leaf, name_of(v), v._is_view()
    return facts, attempt(lambda: v.mul_(2)), (v * 2).detach(), h


@program
def the_base_of_a_no_grad_view_is_written(lib: Any) -> Any:
    h = leaf(lib, [1.0, 2.0]) * 2
    with lib.no_grad():
        v = h.view(-1)
    h.mul_(2)
    looks = (lambda: v.requires_grad, lambda: v.is_leaf, lambda: v.grad_fn, lambda: v * 2, lambda: v.mul_(2))
    return [attempt(look) for look in looks], v.detach()


@program
def a_base_that_becomes_a_leaf(lib: Any) -> Any:
    c = const(lib, [1.0, 2.0])
    v = c.view(-1)
    c.requires_grad_()
    out = [v.requires_grad, v.is_leaf, attempt(lambda: v.mul_(2)), c]
    with lib.no_grad():
        v.mul_(2)
    return [*out, attempt(lambda: name_of(v)), v.is_leaf, c]


@program
def leaves_refuse(lib: Any) -> Any:
    x = leaf(lib, [1.0, 2.0])
    writes = (
        lambda: x.add_(1), lambda: x.__setitem__(0, 1.0), x.zero_, lambda: x.copy_(x), lambda: x[0].mul_(2), x.exp_,
        lambda: x.__iadd__(1), lambda: x.view(2, 1)[0].zero_(), lambda: x.clamp_(0), lambda: x.resize_(1),
    )  # fmt: skip
    return [attempt(write) for write in writes], x, x._version


@program
def flags_of_non_leaves(lib: Any) -> Any:
    h = leaf(lib, [1.0, 2.0]) * 2
    out = [attempt(lambda: h.requires_grad_(False)), attempt(lambda: h.requires_grad_() is h)]
    out.append(attempt(lambda: setattr(h, "requires_grad", False)))
    out.append(attempt(lambda: lib.tensor([1]).requires_grad_()))
    c = const(lib, [1.0])
    out += [attempt(c.retain_grad), attempt(lambda: c.register_hook(lambda g: g))]
    v = c.view(-1)
    v.requires_grad_()
    return [*out, c.requires_grad, v.requires_grad, v.is_leaf, name_of(v)]


# --- versions, detach, data ---


@program
def versions(lib: Any) -> Any:
    h = leaf(lib, [1.0, 2.0]) * 2
    tensors = h, h.detach(), h[:1], h.data
    writes = (
        lambda: h.add_(1), lambda: tensors[1].add_(1), lambda: tensors[3].add_(1), lambda: tensors[2].zero_(),
        lambda: h.copy_(h.detach() * 2), lambda: h.__setitem__(0, 3.0), lambda: h.__setitem__(h > 0, 1.0),
        lambda: h.fill_(2.0), lambda: h.masked_fill_(h > 1, 0.0), h.requires_grad_,
        lambda: setattr(h, "data", h.data.clone()),
    )  # fmt: skip
    out = []
    for write in writes:
        write()
        out.append([t._version for t in tensors])
    return out, h


@program
def detaching(lib: Any) -> Any:
    h = leaf(lib, [1.0, 2.0]) * 2
    d, v = h.detach(), h.view(-1)
    out = [d._is_view(), d.is_leaf, d.view(-1)._base is d, attempt(v.detach_)]
    h.detach_()
    out += [h.requires_grad, h.is_leaf, h.grad_fn, name_of(v), v.requires_grad]
    k = leaf(lib, [1.0, 2.0]) * 2
    k.detach().mul_(leaf(lib, 2.0))
    return [*out, k.requires_grad, name_of(k), k, attempt(lambda: k.sum().backward())]


@program
def data_is_replaced(lib: Any) -> Any:
    x = leaf(lib, [1.0, 2.0])
    other = const(lib, [5.0, 6.0])
    x.data = other
    other.add_(1)
    out = [x, x._version, other._version, x.requires_grad, x.is_leaf]
    (x * x).sum().backward()
    out.append(x.grad)
    out.append(attempt(lambda: setattr(x, "data", 3)))
    out.append(attempt(lambda: setattr(x, "data", lib.tensor([1, 2]))))
    x.data = const(lib, [[1.0, 2.0, 3.0]])
    out.append(list(x.shape))
    h = leaf(lib, [1.0, 2.0]) * 2
    v = h.view(-1)
    h.data = const(lib, [7.0, 8.0])
    out += [h, name_of(h), h._version, v]
    v.data = const(lib, [1.0, 1.0])
    x.data = leaf(lib, [3.0, 4.0])
    return [*out, v, h, v._is_view(), x.requires_grad, x]


@program
def memory_is_replaced(lib: Any) -> Any:
    x, y = const(lib, [1.0, 2.0]), const(lib, [5.0, 6.0, 7.0])
    out = [x.set_(y) is x, x, x._version]
    y.add_(1)
    out += [x, list(x.set_().shape)]
    r = const(lib, [1.0, 2.0, 3.0, 4.0])
    r.resize_(2)
    out += [r, r._version, r.resize_(2, 2), r._version]
    return [*out, attempt(lambda: (leaf(lib, [1.0]) * 2).resize_(1)), attempt(lambda: leaf(lib, [1.0]).resize_(1))]


@program
def tensors_are_swapped(lib: Any) -> Any:
    a, b = leaf(lib, [1.0, 2.0]), const(lib, [3.0])
    (torch.utils.swap_tensors if lib is torch else swap_tensors)(a, b)
    return a, b, a.requires_grad, b.requires_grad


@program
def gradients_that_are_refused(lib: Any) -> Any:
    x = leaf(lib, [1.0, 2.0])
    return [attempt(lambda g=g: setattr(x, "grad", g)) for g in (const(lib, [1.0]), 3, x)]


# --- histories ---


@program
def all_views_are_rebased(lib: Any) -> Any:
    b = leaf(lib, [[1.0, 2.0], [3.0, 4.0]]).clone()
    views = [
        b[0], b.t(), b.view(-1), b.view(4)[1:3], b.unsqueeze(0), b.diagonal(), b.expand(2, 2, 2), b.flatten(),
        b.squeeze(0), b.select(1, 0), b.narrow(0, 0, 1), b.unfold(0, 1, 1), b.permute(1, 0),
    ]  # fmt: skip
    before = [name_of(v) for v in views]
    views[0].mul_(2)
    after = [name_of(v) for v in views]
    facts = [(v._version, v.output_nr, v._base is b) for v in views]
    return before, after, chain(b), facts, views


@program
def writes_to_several_views(lib: Any) -> Any:
    x, a = leaf(lib, [1.0, 2.0, 3.0]), leaf(lib, 2.0)
    b = x.clone()
    b[0].mul_(a)
    b[1:].add_(a)
    b[:2].view(2, 1).sin_()
    numbers = [nr for _, nr in b.grad_fn.next_functions]
    names = chain(b)
    b.pow(2).sum().backward()
    return names, numbers, x.grad, a.grad


@program
def output_numbers_after_a_write(lib: Any) -> Any:
    h = leaf(lib, [1.0, 2.0, 3.0]) * 1
    first = [t.output_nr for t in h.unbind(0)]
    h.unbind(0)[2].detach().zero_()
    v = h[1:]
    v.mul_(2)
    with lib.no_grad():
        quiet = [t.output_nr for t in h.unbind(0)]
    return first, h.output_nr, v.output_nr, name_of(v), name_of(h), quiet


@program
def retained_gradients(lib: Any) -> Any:
    x = leaf(lib, [1.0, 2.0])
    h = x * 2
    h.retain_grad()
    h.mul_(3)
    h.retain_grad()
    h[0].mul_(2)
    (h * 5).sum().backward()
    return h.grad, x.grad, h.retains_grad


@program
def strided_views_twice_differentiated(lib: Any) -> Any:
    x = leaf(lib, [1.0, 2.0, 3.0, 4.0])
    y = (x * x).as_strided((2, 2), (1, 1), 1)
    (g,) = lib.autograd.grad((y * y * y).sum(), [x], create_graph=True)
    return y, name_of(y), g, lib.autograd.grad((g * g).sum(), [x])


@program
def writes_that_overlap(lib: Any) -> Any:
    h = leaf(lib, [1.0, 2.0, 3.0, 4.0]) * 1
    writes = (lambda: h[1:].add_(h[:-1]), lambda: h.view(2, 2).t().add_(h.view(2, 2)), lambda: h[:1].expand(2).exp_())
    return [attempt(write) for write in writes], h


@program
def copies(lib: Any) -> Any:
    x, s = leaf(lib, [[1.0, 2.0], [3.0, 4.0]]), leaf(lib, [5.0, 6.0])
    h = x * 1
    h.copy_(s)
    h.sum().backward()
    out = [h, x.grad, s.grad, name_of(h)]
    narrow = lib.zeros(2, dtype=lib.float32)
    narrow.copy_(s)
    narrow.sum().backward()
    out += [narrow, s.grad, s.grad.dtype is lib.float64]
    whole = lib.zeros(2, dtype=lib.int64)
    out += [whole.copy_(s * 1.3), whole.requires_grad]
    return [*out, *(attempt(lambda n=n: lib.zeros(2).copy_(lib.zeros(*n))) for n in ((3,), (1, 2), (2, 2)))]


# --- writes by position ---

POSITIONS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "select_scatter": (lambda t, x, s: x.select_scatter(s, 1, -1), ((2, 3), (2,))),
    "select_scatter wrong": (lambda t, x, s: x.select_scatter(s, 1, -1), ((2, 3), (3,))),
    "slice_scatter": (lambda t, x, s: x.slice_scatter(s, 1, 0, 3, 2), ((2, 3), (2, 2))),
    "slice_scatter all": (lambda t, x, s: x.slice_scatter(s), ((2, 3), (2, 3))),
    "diagonal_scatter": (lambda t, x, s: x.diagonal_scatter(s, 1), ((3, 3), (2,))),
    "index_copy": (lambda t, x, s: x.index_copy(1, t.tensor([2, 0]), s), ((2, 3), (2, 2))),
    "index_copy wrong": (lambda t, x, s: x.index_copy(1, t.tensor([2, 0]), s), ((2, 3), (2, 3))),
    "index_copy beyond": (lambda t, x, s: x.index_copy(1, t.tensor([5, 0]), s), ((2, 3), (2, 2))),
    "index_fill": (lambda t, x: x.index_fill(1, t.tensor([0, 0, 1]), 3.0), ((2, 3),)),
    "index_fill tensor": (lambda t, x, s: x.index_fill(1, t.tensor([0, 0, 1]), s), ((2, 3), ())),
    "scatter": (lambda t, x, s: x.scatter(0, t.tensor([[0, 1, 1], [1, 0, 0]]), s), ((2, 3), (2, 3))),
    "scatter number": (lambda t, x: x.scatter(1, t.tensor([[0], [2]]), 5.0), ((2, 3),)),
    "scatter beyond": (lambda t, x: x.scatter(1, t.tensor([[0], [3]]), 5.0), ((2, 3),)),
    "masked_scatter": (lambda t, x, s: x.masked_scatter(x > 2, s), ((2, 3), (5,))),
    "masked_scatter short": (lambda t, x, s: x.masked_scatter(x > 2, s), ((2, 3), (3,))),
    "take": (lambda t, x: x.take(t.tensor([[1, -1], [0, 1]])), ((2, 3),)),
    "take beyond": (lambda t, x: x.take(t.tensor([6])), ((2, 3),)),
    "put": (lambda t, x, s: x.put(t.tensor([1, -1]), s), ((2, 3), (2,))),
    "put accumulate": (lambda t, x, s: x.put(t.tensor([1, -1, 1]), s, True), ((2, 3), (3,))),
    "index_copy_": (lambda t, x, s: (x * 1).index_copy_(0, t.tensor([1, 0]), s), ((2, 3), (2, 3))),
    "index_fill_": (lambda t, x: (x * 1).index_fill_(0, t.tensor([1]), 2.0), ((2, 3),)),
    "scatter_": (lambda t, x, s: (x * 1).scatter_(0, t.tensor([[1, 0]]), s), ((2, 3), (1, 2))),
    "masked_scatter_": (lambda t, x, s: (x * 1).masked_scatter_(x > 3, s), ((2, 3), (4,))),
    "put_": (lambda t, x, s: (x * 1).put_(t.tensor([1, -1]), s), ((2, 3), (2,))),
    "masked_fill_ tensor": (lambda t, x, s: (x * 1).masked_fill_(x > 2, s), ((2, 3), ())),
    "masked_fill_ wrong": (lambda t, x, s: (x * 1).masked_fill_(x > 2, s), ((2, 3), (3,))),
    "fill_ tensor": (lambda t, x, s: (x * 1).fill_(s), ((2, 3), ())),
    "fill_ wrong": (lambda t, x, s: (x * 1).fill_(s), ((2, 3), (3,))),
    "on a view": (lambda t, x, s: (x * 1)[0].index_fill_(0, t.tensor([1]), s)._base, ((2, 3), ())),
    "by a 0-d index": (lambda t, x, s: _assigned(x * 1, t.tensor(1), s), ((2, 3), (3,))),
    "by a mask": (lambda t, x, s: _assigned(x * 1, x > 2, s), ((2, 3), ())),
    "wrong dtype": (lambda t, x: _assigned(x * 1, t.tensor([1]), t.zeros(3, dtype=t.float32)), ((2, 3),)),
    "cast": (lambda t, x: _assigned(x * 1, 1, t.zeros(3, dtype=t.float32)), ((2, 3),)),
    "a list": (lambda t, x: _assigned(x * 1, 1, [1.0, 2.0, 3.0]), ((2, 3),)),
    "false": (lambda t, x: _assigned(x * 1, False, 3.0), ((2, 3),)),
    "slice of floats": (lambda t, x: x[0.5:], ((2, 3),)),
}


def _assigned(x: Any, index: Any, value: Any) -> Any:
    x[index] = value
    return x


@program
def hooks_of_a_view_stay_with_its_old_history(lib: Any) -> Any:
    x, log = leaf(lib, [1.0, 2.0, 3.0]), []
    base = x * 2
    v = base[:2]
    v.register_hook(lambda g: log.append(("before", g.tolist())))
    base[0] = 0.5
    seen = name_of(v)  # looked at: the view has its new history
    v.register_hook(lambda g: log.append(("after", g.tolist())))
    (v * v).sum().backward()
    return seen, log, x.grad


@program
def hooks_of_a_view_that_is_written_with_a_part_of_itself(lib: Any) -> Any:
    x, log = leaf(lib, [1.0, 2.0, 3.0]), []
    v = (x * 2)[0:]
    v.register_hook(lambda g: log.append(g.tolist()))
    v[0] = v[1]
    (v * v).sum().backward()
    return log, x.grad


@program
def hooks_of_a_value_that_is_written_with_a_part_of_itself(lib: Any) -> Any:
    x, log = leaf(lib, [1.0, 2.0, 3.0]), []
    v = x * 2
    v.register_hook(lambda g: log.append(g.tolist()))
    v[0] = v[1]
    part = v[1:]
    part.register_hook(lambda g: log.append(g.tolist()))
    v[:1].add_(part[1:])
    (v * x).sum().backward()
    return log, x.grad


def _no_grad_view(lib: Any, tensor: Any) -> Any:
    with lib.no_grad():
        return tensor.view(-1)


@program
def no_gradient_reaches_a_no_grad_view_of_a_leaf(lib: Any) -> Any:
    x = leaf(lib, [1.0, 2.0])
    v = _no_grad_view(lib, x)
    facts = v.requires_grad, v.is_leaf, name_of(v)
    (v * v * x).sum().backward()
    return facts, v.grad, x.grad


@program
def no_gradient_reaches_a_no_grad_view_of_a_result(lib: Any) -> Any:
    x = leaf(lib, [1.0, 2.0])
    v = _no_grad_view(lib, x * 2)
    facts = v.requires_grad, v.is_leaf, name_of(v)
    (v * x).sum().backward()
    return facts, v.grad, x.grad


@program
def a_no_grad_view_that_is_told_to_require_grad(lib: Any) -> Any:
    x = leaf(lib, [1.0, 2.0])
    v = _no_grad_view(lib, x).requires_grad_()
    (v * v).sum().backward()
    return v.grad, x.grad


@program
def writes_to_a_view_that_is_a_leaf(lib: Any) -> Any:
    v = const(lib, [1.0, 2.0, 3.0]).view(-1).requires_grad_()

    def write_an_element() -> None:
        v[0] = 5.0

    return attempt(write_an_element), attempt(lambda: v[1:].mul_(2)), attempt(lambda: v.mul_(2)), v.detach()


def _positions(write: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]) -> Program:
    def run(lib: Any) -> Any:
        tensors = [leaf(lib, (np.arange(np.prod(s)).reshape(s) + 1.0).tolist()) for s in shapes]
        out = attempt(lambda: write(lib, *tensors))
        if not isinstance(out, tuple):
            out = attempt(lambda: (out.tolist(), out)[1])  # a compiled step looks at positions when it runs
        if isinstance(out, tuple):
            return out
        weights = const(lib, (np.arange(np.prod(list(out.shape))).reshape(list(out.shape)) + 2.0).tolist())
        (out * weights).sum().backward()
        return out, out._version, name_of(out), [t.grad for t in tensors]

    return run


PROGRAMS |= {name: _positions(*case) for name, case in POSITIONS.items()}


def test_views_of_no_grad_views() -> None:
    """They require grad, but no gradient gets past the view that has no history. (A trace leaves such views out.)"""

    def run(lib: Any) -> Any:
        x = leaf(lib, [1.0, 2.0])
        h = x * 2
        with lib.no_grad():
            v = h.view(-1)
        w = v.view(2, 1)
        (w * 3).sum().backward()
        facts = w.requires_grad, name_of(w), v.grad, x.grad
        return facts, attempt(lambda: w.mul_(2)), attempt(lambda: name_of(w)), w.detach()

    assert_same(settled(run(J)), settled(run(torch)))


def a_no_grad_view_is_no_input_of_a_graph(lib: Any) -> Any:
    x = leaf(lib, [1.0, 2.0])
    v = _no_grad_view(lib, x)
    loss = (v * v).sum()
    return attempt(lambda: lib.autograd.grad(loss, v)), attempt(lambda: v.numpy())


def a_write_with_a_no_grad_view_requires_grad(lib: Any) -> Any:
    x = leaf(lib, [1.0, 2.0])
    y = const(lib, [0.0, 0.0])
    y[:] = _no_grad_view(lib, x)
    facts = y.requires_grad
    (y * x).sum().backward()
    return facts, x.grad


@pytest.mark.parametrize("run", [a_no_grad_view_is_no_input_of_a_graph, a_write_with_a_no_grad_view_requires_grad])
def test_graphs_of_no_grad_views_alone(run: Program) -> None:
    """What is computed from them requires grad, and no gradient leaves it. (A trace leaves such views out.)"""
    assert_same(settled(run(J)), settled(run(torch)))


@pytest.mark.parametrize(
    "write",
    [
        lambda lib, v: v.index_add_(0, lib.tensor([0, 1, 2]), v),
        lambda lib, v: v.index_copy_(0, lib.tensor([0, 1, 2]), v.view(3)),
        lambda lib, v: v.scatter_(0, lib.tensor([2, 1, 0]), v),
        lambda lib, v: v.scatter_add_(0, lib.tensor([2, 1, 0]), v),
        lambda lib, v: v.scatter_reduce_(0, lib.tensor([2, 1, 0]), v, "sum"),
        lambda lib, v: v.index_put_((lib.tensor([2, 1, 0]),), v),
        lambda lib, v: v.view(-1).index_add_(0, lib.tensor([0, 1, 2]), v),
    ],
)
def test_writes_elsewhere_than_they_read(write: Callable[[Any, Any], Any], mode: Mode) -> None:
    """A tensor cannot be scattered into itself: what is read later would be what was written."""

    def run(lib: Any) -> Any:
        v = leaf(lib, [1.0, 2.0, 3.0]) * 1
        return attempt(lambda: write(lib, v)), v.detach()

    assert_same(settled(mode.run(lambda: run(J))), settled(run(torch)))


def test_what_was_saved_and_then_detached_in_place() -> None:
    """Of a leaf, the gradient is dropped; of a result, backward refuses it, unless a custom Function had saved it."""

    def detached(lib: Any, use: Callable[[Any], Any], *, is_leaf: bool) -> Any:
        class Double(lib.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.save_for_backward(x)
                return x * 2

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                return grad * ctx.saved_tensors[0]

        x = leaf(lib, [1.0, 2.0, 3.0])
        value = x if is_leaf else x * 2
        out = Double.apply(value) if use is _double else use(value)
        value.detach_()
        return attempt(lambda: out.sum().backward()), x.grad

    for use in (lambda v: v.clamp(0, 2), lambda v: v * v, lambda v: v.exp(), _double):
        for is_leaf in (True, False):
            got = detached(J, use, is_leaf=is_leaf)
            assert_same(settled(got), settled(detached(torch, use, is_leaf=is_leaf)))


def _double(value: Any) -> Any:
    raise AssertionError("stands for the custom Function")


def test_a_state_that_is_detached_in_place_between_steps(mode: Mode) -> None:
    """Truncated backpropagation: what is saved after ``detach_`` is a leaf's value."""

    def run(lib: Any) -> Any:
        w = leaf(lib, [1.0, 2.0])
        state = const(lib, [0.5, 0.25])
        for _ in range(3):
            state = (state * w).sin()
            (state * state).sum().backward()
            state.detach_()
        return w.grad, state

    assert_same(settled(mode.run(lambda: run(J))), settled(run(torch)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_is_torchs(name: str, mode: Mode) -> None:
    run = PROGRAMS[name]
    expected = settled(run(torch))
    assert_same(settled(mode.run(lambda: run(J))), expected)


def _of_an_older_view(lib: Any, x: Any) -> Any:
    v = x / 3
    old = v[:2]
    v.requires_grad_()
    y = old @ old.t()
    ((old * 2).sum() + y.sum() + (v * v).sum()).backward()
    return v.grad, old.grad is None, old.requires_grad, old.grad_fn is None, y.requires_grad, old[0].requires_grad


def _without_grad_mode(lib: Any, x: Any) -> Any:
    v = x / 3
    old, part = v[:2], v[:2][0]
    with lib.no_grad():
        v.requires_grad_()
        y = old * 2
    ((part * 2).sum() + v.sum()).backward()
    return v.grad, y.requires_grad, part.requires_grad, old.requires_grad


def _of_its_own(lib: Any, x: Any) -> Any:
    v = x / 3
    old = v[:2]
    v.requires_grad_()
    old.requires_grad_()
    (old * 2).sum().backward()
    return old.grad, v.grad is None


def _taken_back(lib: Any, x: Any) -> Any:
    v = x / 3
    old = v[:2]
    v.requires_grad_()
    v.requires_grad_(False)
    return old.requires_grad, (old * 2).requires_grad, old + 1


@pytest.mark.parametrize("step", [_of_an_older_view, _without_grad_mode, _of_its_own, _taken_back])
def test_a_base_becomes_a_leaf_when_it_has_views(mode: Mode, step: Any) -> None:
    """As in PyTorch they require grad like it, and their gradient goes nowhere."""
    want = [x.tolist() if torch.is_tensor(x) else x for x in step(torch, torch.ones(3, 2))]
    found = mode.run(lambda x: step(J, x), lambda: (J.ones(3, 2),))
    assert [x.tolist() if isinstance(x, J.Tensor) else x for x in found] == want
