"""In-place writes: versions, saved values, views, CopySlices."""

from __future__ import annotations

from typing import Any

import pytest
from modes import Mode
from parity import J, attempt, const, leaf, same

import jitgrad
from jitgrad.autograd import gradcheck, gradgradcheck


def names(node, depth=3):
    """The chain along first edges."""
    chain = []
    while node is not None and depth:
        chain.append(node.name().removeprefix("torch::autograd::"))
        functions = node.next_functions
        node = functions[0][0] if functions else None
        depth -= 1
    return chain


@pytest.mark.row("A7", "D8")
def test_overwritten_saved_values():
    def program(lib):
        def overwrite_output():
            x = leaf(lib, [1.0, 2.0])
            y = x.exp()
            y.add_(1)
            y.sum().backward()
            return x.grad

        def overwrite_input():
            x = leaf(lib, [1.0, 2.0])
            h = x * 1
            y = h * h
            h.mul_(2)
            (y + h).sum().backward()
            return x.grad

        def overwrite_leaf():
            x = leaf(lib, [1.0, 2.0])
            y = x * x
            with lib.no_grad():
                x.add_(1)
            y.sum().backward()
            return x.grad

        def harmless():
            x = leaf(lib, [1.0, 2.0])
            y = x * 3
            y.add_(1)
            y.mul_(2)
            z = y.exp()
            z.sum().backward()
            return x.grad, y._version

        results = [attempt(f) for f in (overwrite_output, overwrite_input, overwrite_leaf, harmless)]
        return results, ["is at version 1; expected version 0" in str(r) for r in results]

    same(program)


def test_the_message_names_the_value():
    x = leaf(J, [1.0, 2.0])
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError) as error:
        y.sum().backward()
    text = str(error.value)
    assert "[jitgrad.DoubleTensor [2]], which is output 0 of Exp, is at version 1; expected version 0" in text


def test_in_place_on_leaves():
    def program(lib):
        def on_leaf():
            leaf(lib, [1.0]).add_(1)

        def on_view_of_leaf():
            leaf(lib, [[1.0]]).view(1).add_(1)

        def on_leaf_without_grad_mode():
            x = leaf(lib, [1.0])
            with lib.no_grad():
                x.add_(1)
            return x, x.is_leaf, x._version

        return [attempt(f) for f in (on_leaf, on_view_of_leaf, on_leaf_without_grad_mode)]

    same(program)


def test_a_leaf_that_joins_the_graph():
    def program(lib):
        z, w = const(lib, [1.0, 2.0]), leaf(lib, [3.0, 4.0])
        z.mul_(w)
        first = names(z.grad_fn)
        z.mul_(w)
        z.sum().backward()
        return first, w.grad, z.requires_grad, z.is_leaf

    same(program)


@pytest.mark.row("D7", "D24", "D25")
def test_view_then_write_to_the_base():
    def program(lib):
        x = leaf(lib, [1.0, 1.0, 1.0])
        z = x * 2
        y = z.narrow(0, 0, 1)
        before = y.grad_fn.name() == "SliceBackward0", y._is_view(), y._base is z
        z *= 5
        after = y.grad_fn.name()
        y.sum().backward()
        return before, after, y, x.grad, y._version, z._version

    same(program)


@pytest.mark.row("D25")
def test_write_to_a_view():
    def program(lib):
        x = leaf(lib, [1.0, 2.0, 3.0, 4.0])
        base = x * 1
        v, w = base.narrow(0, 0, 2), base.narrow(0, 1, 3)
        v.mul_(2)
        found = names(base.grad_fn, 1), v.grad_fn.name(), w.grad_fn.name(), names(base.grad_fn, 2)
        (base * const(lib, [1.0, 10.0, 100.0, 1000.0])).sum().backward(retain_graph=True)
        first = x.grad.clone()
        (w * w).sum().backward(retain_graph=True)
        second = x.grad.clone()
        v.sum().backward()
        return found, first, second, x.grad, base, v, w

    same(program)


@pytest.mark.row("D26")
def test_two_writes_make_a_chain():
    def program(lib):
        x, a = leaf(lib, [1.0, 2.0, 3.0]), leaf(lib, [5.0, 7.0])
        base = x.clone()
        base.narrow(0, 0, 2).mul_(a)
        base.narrow(0, 1, 2).mul_(a)
        chain = names(base.grad_fn, 4)
        (base * base).sum().backward()
        return chain, x.grad, a.grad

    same(program)


def test_write_a_tensor_that_requires_grad_into_a_plain_base():
    def program(lib):
        base, a = lib.zeros(4, dtype=lib.float64), leaf(lib, [1.0, 2.0])
        v = base.narrow(0, 1, 2)
        v.add_(a)
        v.mul_(3)
        (base * base).sum().backward()
        return base, base.requires_grad, v.requires_grad, a.grad, names(base.grad_fn, 2)

    same(program)


def test_write_itself_into_a_view():
    def program(lib):
        x = leaf(lib, [1.0, 2.0, 3.0])
        base = x * 1
        v = base.narrow(0, 0, 2)
        v.add_(v)
        (base * base).sum().backward()
        return x.grad

    same(program)


def test_copy_into_a_view():
    def program(lib):
        x, a = leaf(lib, [[1.0, 2.0], [3.0, 4.0]]), leaf(lib, [5.0, 6.0])
        base = x * 1
        base.t().select(0, 1).copy_(a)
        (base * base).sum().backward()
        return base, x.grad, a.grad

    same(program)


@pytest.mark.row("D9")
def test_detach_shares_storage_and_version():
    def program(lib):
        x = leaf(lib, [1.0, 2.0])
        h = x * 2
        d = h.detach()
        y = h * h
        d.mul_(3)
        versions = h._version, d._version
        return versions, h, d.grad_fn, d.requires_grad, attempt(lambda: y.sum().backward())

    same(program)


def test_data_has_its_own_version():
    def program(lib):
        x = leaf(lib, [1.0, 2.0])
        y = x * x
        x.data.add_(1)
        y.sum().backward()
        return x._version, x, x.grad

    same(program)


def test_retained_gradients_move_to_the_new_value():
    def program(lib):
        x = leaf(lib, [1.0, 2.0])
        h = x * 2
        h.retain_grad()
        h.mul_(3)
        (h * 5).sum().backward()
        return h.grad, x.grad

    same(program)


def test_hooks_stay_with_the_old_value():
    def program(lib):
        x = leaf(lib, [1.0, 2.0])
        h = x * 2
        seen = []
        h.register_hook(lambda g: seen.append(("old", g.clone())))
        h.mul_(3)
        h.register_hook(lambda g: seen.append(("new", g.clone())))
        (h * 5).sum().backward()
        return seen, x.grad

    same(program)


def test_grad_with_respect_to_a_base_that_was_written():
    def program(lib):
        x, a = leaf(lib, [1.0, 2.0, 3.0]), leaf(lib, [5.0, 7.0])
        base = x * 1
        old = base * 1
        base.narrow(0, 0, 2).mul_(a)
        loss = (base * base).sum() + old.sum()
        return lib.autograd.grad(loss, [x], retain_graph=True), lib.autograd.grad(loss, [a, base])

    same(program)


def test_second_derivatives_through_copy_slices():
    def fn(x, a):
        base = x * x
        base.narrow(0, 0, 2).mul_(a * a)
        base.narrow(0, 1, 2).exp_()
        return base * a.sum()

    x = J.tensor([0.3, 0.5, 0.2], dtype=J.float64, requires_grad=True)
    a = J.tensor([0.7, 1.1], dtype=J.float64, requires_grad=True)
    assert gradcheck(fn, (x, a))
    assert gradgradcheck(fn, (x, a))


@pytest.mark.row("D9", "D24")
def test_views_whose_base_joins_the_graph_later():
    def program(lib):
        base, a = lib.zeros(4, dtype=lib.float64), leaf(lib, 2.0)
        v = base.narrow(0, 1, 2)
        base.add_(a)
        (v * 3).sum().backward()
        return a.grad, v.requires_grad, v.grad_fn.name()

    same(program)


def test_views_made_in_no_grad_mode():
    def program(lib):
        def written():
            h = leaf(lib, [1.0, 2.0]) * 2
            with lib.no_grad():
                v = h.narrow(0, 0, 1)
            v.mul_(h.detach().narrow(0, 0, 1) * leaf(lib, 1.0))

        def base_written():
            h = leaf(lib, [1.0, 2.0]) * 2
            with lib.no_grad():
                v = h.narrow(0, 0, 1)
            h.mul_(2)
            return v * leaf(lib, 3.0)

        results = [attempt(f) for f in (written, base_written)]
        return results, ["no_grad mode" in str(r) for r in results]

    same(program)


def test_in_place_forms_that_save_their_input():
    def program(lib):
        x, y = leaf(lib, [1.0, 2.0]), leaf(lib, [3.0, 4.0])
        h = x * 1
        h.mul_(y)
        h.sum().backward()
        return x.grad, y.grad

    same(program)


ALIASED = {
    "mul": lambda z: z.mul_(z.detach()),
    "mul view": lambda z: z.mul_(z.view(-1)),
    "view mul": lambda z: z.view(-1).mul_(z.detach()),
    "div": lambda z: z.div_(z.detach()),
    "addcmul": lambda z: z.addcmul_(z.detach(), z.detach()),
    "data": lambda z: z.mul_(z.data),
    "itself": lambda z: z.mul_(z),
    "saves nothing": lambda z: z.add_(z.detach()),
}


@pytest.mark.parametrize("write", ALIASED.values(), ids=ALIASED)
def test_operands_that_share_memory_with_the_target(write):
    """What was read through an alias is overwritten when the backward wants it."""

    def program(lib):
        x = leaf(lib, [1.0, 2.0, 3.0])

        def step():
            z = x * 1
            write(z)
            z.sum().backward()
            return x.grad

        return attempt(step)

    same(program)


@pytest.mark.parametrize("write", ["clamp_", "clamp_min_", "clamp_max_", "clip_"])
def test_a_bound_is_written_without_a_warning(mode: Mode, write: str) -> None:
    """NumPy deprecates ``maximum`` and ``minimum`` into a third argument; warnings are errors here."""

    def step(x: Any) -> Any:
        return getattr(x, write)(0.5)

    want = [0.5, 2.0] if write != "clamp_max_" else [-1.0, 0.5]
    assert mode.run(step, lambda: (jitgrad.tensor([-1.0, 2.0]),)).tolist() == want


@pytest.mark.parametrize("part", [slice(None), slice(1, None)])
@pytest.mark.parametrize("write", ["fill_", "zero_", "set"])
def test_an_expanded_tensor_of_a_graph_is_filled(mode: Mode, write: str, part: slice) -> None:
    """PyTorch does, and refuses the backward: its derivative of a fill writes into an expanded gradient."""

    def step() -> Any:
        x = jitgrad.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
        y = x * 1
        t = y.expand(2, 4)[:, part]
        if write == "set":
            t[0] = 2.0
        else:
            t.fill_(2.0) if write == "fill_" else t.zero_()
        (grad,) = jitgrad.autograd.grad((t * t).sum() + (y * 3).sum(), x)
        return y.tolist(), t.tolist(), y._version, grad.tolist()

    value = 0.0 if write == "zero_" else 2.0
    want = [1.0, 2.0, 3.0, 4.0]
    want[part] = [value] * len(want[part])
    grad = [3.0] * (4 - len(want[part])) + [0.0] * len(want[part])
    assert mode.run(step) == (want, [want[part]] * 2, 1, grad)
