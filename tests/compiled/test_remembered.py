"""Calls of functions that record several operations, see Note [Remembered calls]: the same in every call, and no Python
from the third on."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

import jitgrad as jg
from jitgrad import nn
from jitgrad.config import config
from jitgrad.cpython.liveness import counts_references
from jitgrad.cpython.primitives import PURE, has_front
from jitgrad.functions import _generated
from jitgrad.nn import functional as F
from jitgrad.nn import recurrent
from jitgrad.state import native_cell
from jitgrad.tensor import Tensor
from jitgrad.tracer.hits.known_calls import KnownCall

jg.compile(lambda x: x + 1)(jg.ones(2))  # installs native hits

needs_fronts = pytest.mark.skipif(
    not native_cell.is_installed or not counts_references or config.check_hits,
    reason="hits are Python's, or are checked",
)

_CALLS = 4
_IMAGE = jg.tensor([[1, 0, 3, 2, 1, 0], [0, 0, 1, 1, 2, 2]])


def _args(seed: int = 0) -> tuple[Any, ...]:
    jg.manual_seed(seed)
    return jg.randn(4, 6), jg.randn(2, 4, 6), jg.randn(6, 3), jg.tensor([1, 0, 3])


def _values(out: Any) -> Any:
    if isinstance(out, tuple | list):
        return [_values(one) for one in out]
    return (out.tolist(), out.dtype, tuple(out.shape), out.stride()) if isinstance(out, Tensor) else out


CALLS: dict[str, Callable[..., Any]] = {
    "einsum": lambda x, b, w, i: jg.einsum("bij,jk->bik", b, w),
    "einsum of one": lambda x, b, w, i: jg.einsum("ij->ji", x),
    "batched products": lambda x, b, w, i: (b @ b.transpose(1, 2), b @ w, jg.matmul(b, w), x[0] @ w, b @ w[:, 0]),
    "attention": lambda x, b, w, i: F.scaled_dot_product_attention(b, b, b, is_causal=True),
    "layer_norm": lambda x, b, w, i: F.layer_norm(b, (6,)) + F.layer_norm(b, [6], w[:, 0], w[:, 1], eps=1e-3),
    "joins": lambda x, b, w, i: (
        jg.cat([x, x.neg()]),
        jg.cat((x, b[0]), dim=1),
        jg.stack([x, b[1]], -1),
        jg.hstack((x, x)),
    ),
    "parts": lambda x, b, w, i: (*b.chunk(3, 2), *b.split([1, 5], dim=2), *jg.unbind(x), *w.split(2)),
    "reductions": lambda x, b, w, i: (
        b.sum(1),
        b.mean((0, 2), keepdim=True),
        b.max(2),
        b.var(1),
        b.norm(dim=0),
        x.std(),
    ),
    "positions": lambda x, b, w, i: (x[i], x[i, 1:3], x[i][:, i], b[:, i], b[..., i], x[(slice(None), i)]),
    "picks": lambda x, b, w, i: (x.gather(1, i[None]), jg.index_select(x, 0, i), F.embedding(i, x)),
    "constants": lambda x, b, w, i: (x[[0, 2]], x[i[0]], x[[True, False, True, True]]),
    "losses": lambda x, b, w, i: F.cross_entropy(x[:3], i) + F.cross_entropy(b[:, 0, :].t()[:3, :2], i[:1].expand(3)),
    "losses of other forms": lambda x, b, w, i: (
        F.cross_entropy(x[0], i[1]),
        F.cross_entropy(b, _IMAGE),
        F.cross_entropy(x[:3], i, label_smoothing=0.25, ignore_index=1),
        F.cross_entropy(x[:3], i, w[:, 0].abs(), reduction="sum"),
        F.cross_entropy(x, b[1].abs()),
        F.nll_loss(x[1], i[2]),
    ),
    "layouts": lambda x, b, w, i: (b.flatten(1), b.flatten(), x.flatten(0), b.movedim(0, 2), b.contiguous(), x.t()),
    "an argument itself": lambda x, b, w, i: (x.contiguous(), x.flatten(1), x.reshape(4, 6), jg.where(x.gt(x), x, x)),
    "sizes": lambda x, b, w, i: x.expand_as(b) + x.repeat(1, 1).reshape(x.shape) + jg.tile(x, (2, 1))[:4],
    "numbers": lambda x, b, w, i: x.clamp(-1, 0.5) + x.clamp(min=-0.25) + jg.lerp(x, b[0], 0.3) + F.leaky_relu(x, 0.2),
    "convolution": lambda x, b, w, i: F.conv2d(b[None], b[:, None, :3, :3].expand(2, 2, 3, 3), padding=1),
    "the same twice": lambda x, b, w, i: (
        x.mean(1) + x.mean(1),
        x.mean(1),
        jg.cat([x, x]),
        jg.einsum("ij,ij->i", x, x),
    ),
    "nothing": lambda x, b, w, i: (x[:0].sum(1), jg.cat([x[:0], x]), x[i[:0]]),
    "linear": lambda x, b, w, i: (F.linear(b, w.t()), F.linear(x, w.t(), w[0]), F.linear(b, w.t(), w[1])),
    "written in functional.py": lambda x, b, w, i: (
        F.softmax(x, dim=-1) + F.log_softmax(x, -1) + x.softmax(0, dtype=jg.float32)
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_every_call_says_what_eager_execution_says(name: str, requires_grad: bool) -> None:
    call = CALLS[name]

    def step(*args: Any) -> Any:
        out = call(*args)
        if not requires_grad:
            return out
        outs = out if isinstance(out, tuple) else (out,)
        flat = [one for o in outs for one in (o if isinstance(o, tuple) else (o,))]
        loss = sum([(o * o).sum() for o in flat if o.requires_grad], start=args[0].sum() * 0)
        return jg.autograd.grad(loss, args[:3], allow_unused=True, create_graph=True)

    compiled = jg.compile(step)
    for nr in range(_CALLS):
        args = _args(nr)
        for x in args[:3]:
            x.requires_grad_(requires_grad)
        expected = step(*args)
        found = compiled(*args)
        for one, other in zip(_flat(expected), _flat(found), strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                assert (one.shape, one.stride(), one.dtype) == (other.shape, other.stride(), other.dtype)
                assert one.requires_grad == other.requires_grad
                assert jg.allclose(one, other, rtol=1e-4, atol=1e-5)


def _flat(out: Any) -> list[Any]:
    return [x for one in out for x in _flat(one)] if isinstance(out, tuple | list) else [out]


@needs_fronts
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in CALLS
        if name not in ("constants", "losses", "nothing", "picks", "sizes", "written in functional.py")
    ],
)
def test_a_warm_call_runs_none_of_our_python(name: str) -> None:
    called: list[str] = []
    call, args = CALLS[name], _args()

    def note(frame: Any, event: str, arg: Any) -> None:
        if event == "call" and "/jitgrad/" in frame.f_code.co_filename:
            called.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")

    @jg.compile
    def step() -> None:
        out = call(*args)
        sys.setprofile(None)
        return out

    for _ in range(_CALLS):
        step()
    original, watched = call, []

    def watch(*given: Any) -> Any:
        sys.setprofile(note)
        out = original(*given)
        sys.setprofile(None)
        watched.append(1)
        return out

    call = watch
    step()
    assert watched == [1]
    operators = ("__matmul__", "__getitem__")  # of classes: slots lead to them
    assert [name for name in called if not name.endswith(operators)] == []


def test_other_arguments_are_another_call() -> None:
    x = jg.arange(24.0).reshape(2, 3, 4)
    sizes = [3, 2, 4]

    def step(dim: Any, pieces: Any, equation: str, names: bool) -> Any:
        sizes[0], sizes[1] = sizes[1], sizes[0]  # a list that changes is not the same argument
        reshaped = x.reshape(sizes)
        several = x.split(pieces, dim=-1)
        mean = x.mean(dim=dim) if names else x.mean(dim, True)
        return x.sum(dim), [*several], jg.einsum(equation, x, x), reshaped, mean

    compiled, plain = jg.compile(step), step
    cases = [
        (0, 2, "ijk,ijk->i", True),
        (1, [1, 3], "ijk,ijk->jk", False),
        ((0, 1), 2, "ijk,ijl->kl", True),
        (0, 4, "ijk,ijk->i", False),
        (2, 2, "ijk,ijk->i", False),
    ]
    for nr in range(40):
        case = cases[nr * 7 % len(cases)]
        expected = _values(plain(*case))
        sizes.reverse() if nr % 5 == 9 else None
        sizes[0], sizes[1] = sizes[1], sizes[0]
        assert _values(compiled(*case)) == expected, (nr, case)


def test_more_calls_than_a_node_remembers() -> None:
    x = jg.randn(3, 4)
    step = jg.compile(lambda k: F.pad(x, (k, 1)).sum(1))
    for nr in range(60):
        k = nr % 15
        assert step(k).tolist() == pytest.approx(x.sum(1).tolist(), rel=1e-5)


def test_arguments_that_share_memory() -> None:
    """They are entered as such, also where those of the call that is known did not."""

    def step(a: Any, b: Any) -> Any:
        joined = jg.cat([a, b], 0).sum(0)
        a.add_(1)
        return joined, jg.stack([a, b]).mean(0), a[0] + b[0]

    compiled = jg.compile(step)
    for nr in range(12):
        whole = jg.arange(8.0)
        a, b = whole[:4].reshape(2, 2), whole[4 * (nr % 3 > 0) :][:4].reshape(2, 2) if nr % 2 else jg.ones(2, 2)
        copy = whole.clone()
        a2 = copy[:4].reshape(2, 2)
        b2 = copy[4 * (nr % 3 > 0) :][:4].reshape(2, 2) if nr % 2 else jg.ones(2, 2)
        assert _values(compiled(a, b)) == _values(step(a2, b2))


def test_views_that_a_call_returns_are_views() -> None:
    def step(x: Any) -> Any:
        first, second = x.chunk(2, 1)
        first.mul_(2)
        flat = x.flatten()
        flat[3].fill_(7)
        rows = x.unbind()
        rows[1].add_(flat[:4])
        x.movedim(0, 1)[0, 0] = -1.0
        return x, flat, second, rows[0]

    compiled = jg.compile(step)
    for _ in range(_CALLS):
        x, y = jg.arange(12.0).reshape(3, 4), jg.arange(12.0).reshape(3, 4)
        assert _values(compiled(x)) == _values(step(y))
        assert x.tolist() == y.tolist()


def test_what_a_call_is_given_may_be_read_and_written_between() -> None:
    def step(x: Any) -> Any:
        y = x.flatten(1)
        a = y.sum(1).max().item()
        y.mul_(2)
        z = jg.cat([x.flatten(1), y])
        x.add_(a)
        return z, x.mean((1, 2)), jg.cat([x.flatten(1), y])

    compiled = jg.compile(step)
    for _ in range(_CALLS):
        x, y = jg.arange(12.0).reshape(2, 3, 2), jg.arange(12.0).reshape(2, 3, 2)
        for one, other in zip(compiled(x), step(y), strict=True):
            assert jg.allclose(one, other)


@pytest.mark.parametrize("call", [lambda x, i: x[i], lambda x, i: F.embedding(i, x), lambda x, i: x.index_select(0, i)])
def test_positions_out_of_range_raise_as_they_did(call: Callable[..., Any]) -> None:
    x = jg.arange(6.0).reshape(3, 2)
    step = jg.compile(lambda i: call(x, i).sum(1))
    for nr in range(12):
        good, bad = jg.tensor([nr % 3, 1]), jg.tensor([1, 3 + nr])
        assert step(good).tolist() == call(x, good).sum(1).tolist()
        if nr > 3:
            with pytest.raises(IndexError):
                step(bad)


@pytest.mark.parametrize("form", ["vector", "image"])
def test_classes_out_of_range_raise_as_they_did(form: str) -> None:
    """They are looked at through a view that the loss makes of its argument."""
    shape, of_classes = ((3,), ()) if form == "vector" else ((1, 3, 2), (1, 2))
    x = jg.arange(6.0)[: 3 if form == "vector" else 6].reshape(shape)
    whole = jg.zeros(8, dtype=jg.int64)
    step = jg.compile(lambda i: F.cross_entropy(x, i))
    for nr in range(12):
        begin = nr % 3
        target = whole[begin : begin + max(1, len(of_classes))].reshape(of_classes)
        whole[:] = 9
        target.fill_(nr % 3)
        assert step(target).item() == pytest.approx(F.cross_entropy(x, target).item())
        if nr > 3:
            target.fill_(3)
            with pytest.raises(IndexError, match="Target 3 is out of bounds"):
                step(target)


@needs_fronts
def test_arguments_with_graphs_of_their_own() -> None:
    """The chain of a compiled cell: each call is given what the one before has returned."""
    called: list[str] = []

    def note(frame: Any, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code.co_filename == _generated.__file__:
            called.append(frame.f_code.co_name)

    w = jg.randn(6, 3, requires_grad=True)

    @jg.compile
    def cell(a: Any, b: Any) -> Any:
        sys.setprofile(note)
        joined = jg.cat([a, b])
        sys.setprofile(None)
        return (joined @ w).tanh()

    def chain(cell: Any, *starts: Any) -> Any:
        x = starts[0]
        for y in (*starts[1:], x):
            x = cell(x, y)
        return x.sum()

    for nr in range(_CALLS):
        jg.manual_seed(nr)
        starts = [jg.randn(3, requires_grad=nr % 2 == 0) for _ in range(3)]
        leaves = [x for x in (w, *starts) if x.requires_grad]
        expected = jg.autograd.grad(chain(lambda a, b: (jg.cat([a, b]) @ w).tanh(), *starts), leaves)
        called.clear()
        found = jg.autograd.grad(chain(cell, *starts), leaves)
        for one, other in zip(expected, found, strict=True):
            assert jg.allclose(one, other, atol=1e-6)
    chain(cell, *starts)
    called.clear()
    chain(cell, *starts)
    assert called == []


@needs_fronts
@pytest.mark.parametrize("in_graph", [False, True])
def test_rows_of_one_tensor_are_arguments_like_others(in_graph: bool) -> None:
    """A tree's leaves are the rows of one result: two of them share its memory."""
    called: list[str] = []
    w = jg.randn(6, 3, requires_grad=True)

    def note(frame: Any, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code.co_filename == _generated.__file__:
            called.append(frame.f_code.co_name)

    @jg.compile
    def joined(left: Any, right: Any) -> Any:
        sys.setprofile(note)
        both = jg.cat((left[0], right[0]))
        rest = jg.stack((left[1], right[1]))
        sys.setprofile(None)
        return (both @ w).tanh() + rest.sum(0)

    def tree(function: Any, nr: int) -> Any:
        h = jg.arange(24.0).reshape(4, 6)[:, ::2][:, :3] * (0.05 + nr)
        h, c = (h * (w[0, 0] if in_graph else 1.0)).tanh(), h.sin()
        rows = list(zip(h.unbind(), c.unbind(), strict=True))
        return sum([function(rows[i], rows[j]) for i, j in ((0, 1), (2, 3), (1, 3), (2, 2))]).sum()

    def plain(left: Any, right: Any) -> Any:
        return (jg.cat((left[0], right[0])) @ w).tanh() + jg.stack((left[1], right[1])).sum(0)

    for nr in range(_CALLS):
        (expected,) = jg.autograd.grad(tree(plain, nr), [w])
        (found,) = jg.autograd.grad(tree(joined, nr), [w])
        assert jg.allclose(found, expected, atol=1e-5)
    called.clear()
    tree(joined, 1)
    assert called == []


@pytest.mark.parametrize("seed", range(20))
def test_parts_of_one_memory_that_are_written(seed: int) -> None:
    """Arguments that overlap or lie side by side, met by remembered calls, then written, one or the other."""
    rng = random.Random(seed)
    order = rng.sample(range(5), 5)

    def step(row: Any, b: Any) -> Any:
        a, made = row[0], []
        for nr in order:
            if nr == 0:
                made.append(jg.cat((a, b)).sum())
            elif nr == 1:
                a.add_(1)
            elif nr == 2:
                made.append(jg.stack((b, a), 1) * 2)
            elif nr == 3:
                b.mul_(2)
            else:
                made.append(jg.cat((b, row[1], a)))
        return made, a + b

    compiled = jg.compile(step)
    starts = [(rng.randrange(8), rng.randrange(8), rng.randrange(8)) for _ in range(3)]
    for nr in range(12):
        i, j, k = starts[nr % 3]
        whole, copy = jg.arange(12.0), jg.arange(12.0)
        assert _values(compiled((whole[i : i + 4], whole[j : j + 4]), whole[k : k + 4])) == _values(
            step((copy[i : i + 4], copy[j : j + 4]), copy[k : k + 4])
        )
        assert whole.tolist() == copy.tolist()


@needs_fronts
def test_a_function_that_is_defined_later_has_its_front() -> None:
    """As that of a module that is imported once native hits are in place."""
    runs: list[int] = []

    @has_front(PURE)
    def blend(x: Any, y: Any) -> Any:
        runs.append(1)
        return (x * y).sin() + x.unsqueeze(0).sum(0)

    step = jg.compile(lambda x, y: blend(x, y) * 2)
    x, y = jg.randn(3), jg.randn(3)
    wanted = blend(x, y) * 2
    for _ in range(3):
        assert jg.allclose(step(x, y), wanted)
    runs.clear()
    assert jg.allclose(step(x, y), wanted) and runs == []


@needs_fronts
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_the_steps_of_a_recurrent_layer_are_one_call(kind: str, grad: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    name = kind if kind != "RNN" else "RNN_TANH"
    one_step = recurrent.STEPS[name]

    def counted(*args: Any) -> Any:
        runs.append(1)
        return one_step(*args)

    monkeypatch.setitem(recurrent.STEPS, name, counted)
    layer = getattr(nn, kind)(4, 3, bidirectional=True)
    step, x = jg.compile(lambda x: layer(x)[0]), jg.randn(7, 2, 4)
    with jg.set_grad_enabled(grad):
        for _ in range(3):
            assert jg.allclose(step(x), layer(x)[0], atol=1e-6)
        runs.clear()
        found = step(x)
        assert runs == []
    assert found.requires_grad is grad


def test_two_names_of_one_memory_are_no_parts() -> None:
    """A write through one of them is seen through the other, also where the calls before had two memories."""
    def step(a: Any, b: Any) -> Any:
        joined = jg.cat([a, b])
        a.add_(1)
        return joined, b * 1, jg.stack((b, a))

    compiled = jg.compile(step)
    for nr in range(12):
        (a, b), (c, d) = ((jg.arange(4.0), jg.ones(4)) for _ in range(2))
        if nr % 4 == 3:
            b, d = a.detach(), c.detach()
        assert _values(compiled(a, b)) == _values(step(c, d))


def test_modes_and_errors() -> None:
    w = jg.ones(3, 2, requires_grad=True)

    def step(grad: bool, bad: bool, cast: bool) -> Any:
        with jg.set_grad_enabled(grad), jg.autocast("cpu", dtype=jg.bfloat16, enabled=cast):
            try:
                y = jg.einsum("ij,jk->ik" if not bad else "ij,kk->i", w, w.t())
            except RuntimeError:
                y = jg.matmul(w[None], w.t())[0]
        parts = y.chunk(3)
        return parts[0].requires_grad, y.dtype, parts[2].float().sum().item()

    compiled = jg.compile(step)
    for nr in range(48):
        case = bool(nr & 1), bool(nr & 2), bool(nr & 4)
        assert compiled(*case) == step(*case)


def test_a_class_that_overrides_functions_is_asked() -> None:
    seen: list[str] = []

    class Own(Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    plain, own = jg.ones(2, 3), jg.ones(2, 3).as_subclass(Own)
    step = jg.compile(lambda x: jg.stack([x, plain]).mean((0, 1)).tolist())
    for nr in range(12):
        del seen[:]
        assert step(own if nr % 3 == 2 else plain) == [1.0, 1.0, 1.0]
        assert ("stack" in seen) is (nr % 3 == 2)


@pytest.mark.skipif(not native_cell.is_installed, reason="no native hits on this interpreter")
def test_what_is_remembered_goes_with_the_paths() -> None:
    x = jg.randn(2, 3, 4)
    step = jg.compile(lambda k: (jg.einsum("bij,bkj->bik", x, x)[:, :k] * 2).flatten(1).repeat(1, k))
    step.trie.limit = 12
    for nr in range(60):
        assert jg.allclose(step(nr % 5), step.fn(nr % 5), rtol=1e-4)
    assert jg.stats()["evictions"] > 0
    known = [call for node in _nodes(step.trie) for call in node.calls or ()]
    assert all(type(call) is KnownCall for call in known)
    alive = {id(node) for node in _nodes(step.trie)}
    assert all(call.tip is None or id(call.tip) in alive for call in known)


def test_a_number_that_has_changed_is_remembered_by_no_call() -> None:
    """Else the call repeats the constant's path, and what comes behind it is recorded, and compiled, twice."""
    x = jg.arange(-2.0, 3.0)

    def step(k: float, doubles: bool) -> Any:
        y = jg.where(x > 0, x, k)
        return y * 2 if doubles else y

    compiled = jg.compile(step)
    for k, doubles in ((2.0, False), (2.0, False), (3.0, False), (3.0, True)):
        compiled(k, doubles)
    before = jg.stats()["misses"]
    assert compiled(2.0, True).tolist() == step(2.0, True).tolist()
    assert jg.stats()["misses"] == before


def _nodes(trie: Any) -> list[Any]:
    found, waiting = [], [*trie.roots.values()]
    while waiting:
        found.append(waiting.pop())
        waiting += found[-1].children.values()
    return found


def test_the_functions_are_there() -> None:
    from jitgrad.compiled import native_fronts

    tables = (_generated.PUBLIC, _generated.METHODS, _generated.LAYERS)
    assert [name for name in native_fronts._REMEMBERED if not any(name in table for table in tables)] == []
    assert len(set(native_fronts._REMEMBERED)) == len(native_fronts._REMEMBERED)
