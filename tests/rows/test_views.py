"""Rows about storages, views and in-place writes: what shares memory, what counts versions, whose history changes.

Every expected value is worked out by hand; ``tests/autograd/test_views.py`` compares with PyTorch.
"""

from __future__ import annotations

import inspect
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from modes import ARGUMENTS, HOOKED, MISSED_WRITE, NOTHING_HELD, OUTSIDE, UNRECORDABLE, Mode

import jitgrad
from jitgrad import no_grad
from jitgrad.autograd import Function
from jitgrad.runtime.storage import storage as buffer

float64 = jitgrad.float64


def _leaf(*values: float) -> Callable[[], tuple[Any]]:
    """A maker of arguments: one leaf that requires grad."""
    return lambda: (jitgrad.tensor(list(values), dtype=float64, requires_grad=True),)


def _chain(node: Any) -> list[str]:
    """Names along first edges, down to what has none."""
    names = []
    while node is not None:
        names.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    return names


def _line_of(function: Callable[..., Any], text: str) -> str:
    """``file:line`` of the line of ``function`` that holds ``text``."""
    lines, first = inspect.getsourcelines(function)
    (at,) = [i for i, line in enumerate(lines) if text in line]
    return f"{inspect.getsourcefile(function)}:{first + at}"


def _error_of(mode: Mode, step: Callable[..., Any], make: Callable[[], tuple[Any, ...]]) -> str:
    """The text of the RuntimeError that the mode's last call raises; the calls before it raise as well."""
    function = mode.wrap(step)
    for _ in range(3 if mode.name == "warm" else 1):
        with pytest.raises(RuntimeError) as caught:
            function(*make())
    return str(caught.value)


# --- A1: storage and tensor ---


@pytest.mark.row("A1", no_launch="It looks at a layout.")
def test_a_tensor_is_a_layout_of_a_storage(mode: Mode) -> None:
    def step() -> Any:
        x = jitgrad.tensor([2.0])
        return x.shape, x.stride(), x.storage_offset()

    assert mode.run(step) == ((1,), (1,), 0)


@pytest.mark.row("A1", "D5")
def test_views_share_their_storage(mode: Mode) -> None:
    def step(x: Any) -> Any:
        v = x[1:]
        w = x.view(3, 1)
        distance = v.data_ptr() - x.data_ptr()
        x[1] = 7.0
        w[2, 0] = 9.0
        return distance, v.storage_offset(), v.tolist(), w.tolist(), x.tolist()

    got = mode.run(step, lambda: (jitgrad.tensor([1.0, 2.0, 3.0]),))
    assert got == (4, 1, [7.0, 9.0], [[1.0], [7.0], [9.0]], [1.0, 7.0, 9.0])


@pytest.mark.row("A1")
def test_a_storage_is_a_row_of_elements(mode: Mode) -> None:
    def step(x: Any) -> Any:
        row = (x * 1)[1]
        row.mul_(2)
        memory, raw = row.storage(), row.untyped_storage()
        before = memory.tolist(), len(memory), memory[-1], memory.nbytes(), raw.size(), memory.element_size()
        begins = memory.data_ptr() == raw.data_ptr() == row.data_ptr() - 8
        same = memory == row.view(-1).storage(), begins, memory == raw
        memory[3] = 9.0
        with pytest.raises(IndexError, match="index 4 out of range for storage of size 4"):
            _ = memory[4]
        with pytest.raises(RuntimeError, match="slices are only supported in UntypedStorage"):
            _ = memory[1:]
        own = jitgrad.FloatTensor([2]).storage()
        return before, same, row.tolist(), memory.dtype, str(memory.device), memory.untyped() == raw, list(own)

    before, same, row, dtype, device, untyped, own = mode.run(step, lambda: (jitgrad.ones(2, 2),))
    assert before == ([1.0, 1.0, 2.0, 2.0], 4, 2.0, 16, 16, 4)
    assert same == (True, True, False)
    assert row == [2.0, 9.0]
    assert (dtype, device, untyped, own) == (jitgrad.float32, "cpu", True, [2.0])


def test_storages_without_dense_memory() -> None:
    with pytest.raises(NotImplementedError, match="sparse"):
        jitgrad.eye(2).to_sparse().storage()
    elsewhere = jitgrad.ones(3, device="meta").storage()
    assert (len(elsewhere), elsewhere.data_ptr()) == (3, 0)
    with pytest.raises(NotImplementedError, match="meta"):
        elsewhere.tolist()
    on_device = jitgrad.ones(3, device="vcpu:0") * 2
    assert on_device.storage().tolist() == [2.0] * 3
    shown = repr(jitgrad.ones(1).storage())
    assert shown == " 1.0\n[torch.storage.TypedStorage(dtype=jitgrad.float32, device=cpu) of size 1]"
    assert len({jitgrad.ones(1).untyped_storage()}) == 1


# --- A7: versions ---


@pytest.mark.row("A7")
def test_an_in_place_operation_adds_one_for_base_and_views(mode: Mode) -> None:
    def step(x: Any) -> Any:
        base = x * 1
        v, w = base[:1], base.view(-1)[1:]
        seen = []
        for write in (base.mul_, v.add_, w.sub_):
            write(2)
            seen.append((base._version, v._version, w._version))
        base[0] = 1.0
        return [*seen, (base._version, v._version, w._version)], x._version, base.detach()

    versions, of_x, _ = mode.run(step, _leaf(1.0, 2.0, 3.0))
    assert versions == [(1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4)]
    assert of_x == 0


@pytest.mark.row("A7", "D9", fallbacks=MISSED_WRITE)
def test_detach_shares_the_version_and_data_does_not(mode: Mode) -> None:
    def step(x: Any) -> Any:
        h = x * 2
        detached, data = h.detach(), h.data
        detached.zero_()
        data.add_(1)
        return h._version, detached._version, data._version, h.tolist()

    assert mode.run(step, _leaf(1.0, 2.0)) == (1, 1, 1, [1.0, 1.0])


# --- D5: in-place is real ---


@pytest.mark.row("D5")
def test_aliases_see_a_write_where_it_is(mode: Mode) -> None:
    def step(x: Any) -> Any:
        before, alias = x.data_ptr(), x[1:]
        x.mul_(2)
        x += 1
        x[0] = 9.0
        return before == x.data_ptr(), alias.tolist(), x.tolist()

    same, alias, values = mode.run(step, lambda: (jitgrad.tensor([1.0, 2.0, 3.0]),))
    assert same
    assert alias == [5.0, 7.0]
    assert values == [9.0, 5.0, 7.0]


@pytest.mark.row("D5")
def test_in_place_operations_allocate_nothing_of_the_tensors_size(mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 1 << 22
    taken: list[int] = []
    take = buffer.take
    monkeypatch.setattr(buffer, "take", lambda nbytes: taken.append(nbytes) or take(nbytes))

    def step(x: Any) -> None:
        x.mul_(2)
        x.add_(1)
        x.exp_()

    x = jitgrad.zeros(count)
    address = x.data_ptr()
    tracemalloc.start()
    try:
        taken.clear()
        mode.run(step, lambda: (x.zero_(),))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert x.data_ptr() == address
    assert x[0].item() == pytest.approx(2.718281828)
    assert max(taken, default=0) < x.nbytes // 2
    assert peak < x.nbytes // 2


# --- D7: a view, then a write to its base ---


@pytest.mark.row("D7", engine=ARGUMENTS)
def test_a_view_sees_what_its_base_became(mode: Mode) -> None:
    def step(x: Any) -> Any:
        z = x * 2
        y = z[0]
        z *= 5
        y.backward()
        return y.item(), x.grad.tolist()

    assert mode.run(step, _leaf(1.0, 1.0, 1.0)) == (10.0, [10.0, 0.0, 0.0])


# --- D8: a saved value that was overwritten ---


def _exp_then_add(x: Any) -> None:
    y = x.exp()
    y.add_(1)
    y.sum().backward()


def _square_then_copy(x: Any) -> None:
    h = x + 1
    loss = (h * h).sum()
    with no_grad():
        h.view(-1)[0] = 3.0
    loss.backward()


def _update_too_early(x: Any) -> None:
    loss = (x * x).sum()
    optimizer = jitgrad.optim.SGD([x], lr=0.1)
    (x * 1).sum().backward()
    optimizer.step()
    loss.backward()


@pytest.mark.row("D8", engine=UNRECORDABLE)
def test_an_overwritten_value_is_noticed_and_both_lines_named(mode: Mode) -> None:
    text = _error_of(mode, _exp_then_add, _leaf(1.0, 2.0))
    assert text.startswith(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        "[jitgrad.DoubleTensor [2]], which is output 0 of Exp, is at version 1; expected version 0 instead."
    )
    saved, written = _line_of(_exp_then_add, "x.exp()"), _line_of(_exp_then_add, "y.add_(1)")
    assert f"saved for backward by exp at {saved}, and overwritten by add_ at {written}." in text


@pytest.mark.row("D8", engine=UNRECORDABLE)
@pytest.mark.parametrize(
    ("step", "saver", "writer"),
    [
        (_square_then_copy, ("mul", "(h * h)"), ("copy_", "h.view(-1)[0]")),
        (_update_too_early, ("mul", "(x * x)"), ("sgd_update", "optimizer.step()")),
    ],
    ids=["through a view", "by an optimizer"],
)
def test_whoever_overwrites_is_named(mode: Mode, step: Any, saver: Any, writer: Any) -> None:
    text = _error_of(mode, step, _leaf(1.0, 2.0))
    assert "modified by an inplace operation" in text
    assert f"saved for backward by {saver[0]} at {_line_of(step, saver[1])}" in text
    assert f"overwritten by {writer[0]} at {_line_of(step, writer[1])}." in text


@pytest.mark.row("D8")
def test_a_clone_or_no_write_helps(mode: Mode) -> None:
    def step(x: Any) -> Any:
        y = x.exp()
        y.clone().add_(1).sum().backward()
        z = x.exp() + 1
        z.sum().backward()
        return x.grad.tolist()

    assert mode.run(step, _leaf(0.0, 0.0)) == [2.0, 2.0]


# --- D9: detach ---


@pytest.mark.row("D9", fallbacks=MISSED_WRITE)
def test_detach(mode: Mode) -> None:
    def step(x: Any) -> Any:
        h = x * 2
        d = h.detach()
        facts = d.grad_fn, d.requires_grad, d.is_leaf, d._is_view(), d.data_ptr() == h.data_ptr()
        (h * d).sum().backward()  # d/dh (h d) = d: what went through d counts nothing
        d.mul_(10)
        return facts, x.grad.tolist(), h.tolist(), h._version

    facts, grad, h, version = mode.run(step, _leaf(1.0, 3.0))
    assert facts == (None, False, True, False, True)
    assert grad == [4.0, 12.0]
    assert h == [20.0, 60.0]
    assert version == 1


@pytest.mark.row("D9", engine=HOOKED, fallbacks=MISSED_WRITE)
def test_a_write_through_detach_is_noticed(mode: Mode) -> None:
    def step(x: Any) -> None:
        h = x * 2
        loss = (h * h).sum()
        h.detach().zero_()
        loss.backward()

    assert "is at version 1; expected version 0" in _error_of(mode, step, _leaf(1.0, 3.0))


# --- D24 - D26: histories ---


@pytest.mark.row("D24")
def test_an_unmodified_view_keeps_its_own_grad_fn(mode: Mode) -> None:
    mode.states(no_launch=NOTHING_HELD)
    def step(x: Any) -> Any:
        b = x.clone()
        views = [b[0], b[1:], b.view(2, 2), b.view(-1).unsqueeze(0)]
        flags = [(v._is_view(), v._base is b) for v in views]
        return flags, [v.grad_fn.name() for v in views], b._is_view(), b._base

    flags, names, is_view, base = mode.run(step, _leaf(1.0, 2.0, 3.0, 4.0))
    assert flags == [(True, True)] * 4
    assert names == ["SelectBackward0", "SliceBackward0", "ViewBackward0", "UnsqueezeBackward0"]
    assert not is_view
    assert base is None


@pytest.mark.row("D25", engine=HOOKED)
def test_a_write_to_a_view_rebases_all(mode: Mode) -> None:
    def step(x: Any) -> Any:
        b = x.clone()
        v, w = b[:2], b.view(2, 2).t()
        v.mul_(2)
        names = b.grad_fn.name(), v.grad_fn.name(), w.grad_fn.name()
        numbers = b.output_nr, v.output_nr, w.output_nr
        below = [t.grad_fn.next_functions[0][0].name() for t in (v, w)]
        (w * w).sum().backward()
        return names, numbers, below, x.grad.tolist()

    names, numbers, below, grad = mode.run(step, _leaf(1.0, 2.0, 3.0, 4.0))
    assert names == ("torch::autograd::CopySlices", "AsStridedBackward0", "AsStridedBackward0")
    assert numbers == (0, 0, 0)
    assert below == ["torch::autograd::CopySlices", "torch::autograd::CopySlices"]
    assert grad == [8.0, 16.0, 6.0, 8.0]  # (2x)^2 where doubled: 8x; x^2 elsewhere: 2x


@pytest.mark.row("D26", engine=HOOKED)
def test_two_writes_make_a_chain(mode: Mode) -> None:
    def step(x: Any) -> Any:
        b = x.clone()
        b[:1].mul_(2)
        b[1:].mul_(3)
        chain = _chain(b.grad_fn)
        b.sum().backward()
        return chain, x.grad.tolist()

    chain, grad = mode.run(step, _leaf(1.0, 1.0, 1.0))
    written = "torch::autograd::CopySlices"
    assert chain == [written, written, "CloneBackward0", "torch::autograd::AccumulateGrad"]
    assert grad == [2.0, 3.0, 3.0]


# --- C15: what a node returns is checked ---


class _Returns(Function):
    """Identity, with a gradient of the test's choice."""

    @staticmethod
    def forward(ctx: Any, x: Any, make: Any) -> Any:
        ctx.make = make
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return ctx.make(g), None


@pytest.mark.row("D25", "B26")
def test_grad_of_chosen_inputs_passes_through_a_written_view(mode: Mode) -> None:
    """The view's own node is on no path any more: where the base's gradient goes decides what the write computes."""

    def step(x: Any, w: Any) -> Any:
        z = x * 2
        z[:2].mul_(w)
        return [jitgrad.autograd.grad(z.sum(), wanted, retain_graph=True)[0].tolist() for wanted in (x, w)]

    def make() -> Any:
        return jitgrad.ones(3, requires_grad=True), jitgrad.full((2,), 5.0, requires_grad=True)

    assert mode.run(step, make) == [[10.0, 10.0, 2.0], [2.0, 2.0]]


@pytest.mark.row("C15", engine=OUTSIDE)
def test_a_gradient_of_the_wrong_shape_names_node_and_index(mode: Mode) -> None:
    def step(x: Any) -> None:
        _Returns.apply(x, lambda g: jitgrad.ones(3, dtype=float64)).sum().backward()

    text = _error_of(mode, step, _leaf(1.0, 2.0))
    assert "Function _ReturnsBackward returned an invalid gradient at index 0 - got [3]" in text
    assert "expected shape compatible with [2]" in text


@pytest.mark.row("C15", engine=OUTSIDE)
def test_a_gradient_gets_the_dtype_of_its_input(mode: Mode) -> None:
    def step(x: Any) -> Any:
        _Returns.apply(x, lambda g: g.float() * 3).sum().backward()
        return x.grad.dtype, x.grad.tolist()

    assert mode.run(step, _leaf(1.0, 2.0)) == (float64, [3.0, 3.0])


@pytest.mark.row("C15", engine=(OUTSIDE, HOOKED))
def test_an_expanded_gradient_is_summed(mode: Mode) -> None:
    def step(x: Any) -> Any:
        _Returns.apply(x, lambda g: g.unsqueeze(0).expand(4, 2)).sum().backward()
        by_function = x.grad.tolist()
        x.grad = None
        (x + jitgrad.zeros(5, 2, dtype=float64)).sum().backward()
        return by_function, x.grad.tolist(), x.grad.shape

    assert mode.run(step, _leaf(1.0, 2.0)) == ([4.0, 4.0], [5.0, 5.0], (2,))
