"""Backwards of a compiled step that the engine runs at every call: hooks, Nodes that Python looked at, second orders.

Every program runs eagerly and compiled, call after call, and must see the same; counters say that nothing was split.
"""

from __future__ import annotations

from typing import Any

import agreement
import pytest

import jitgrad as jg
from jitgrad import events
from tests.modes import Mode


def leaf(n: int = 3) -> Any:
    return (jg.arange(n, dtype=jg.float32) + 1).requires_grad_()


def segments_of(step: Any, *args: Any) -> int:
    with events.count("segments") as segments, events.count("fallbacks") as fallbacks:
        step(*args)
    assert fallbacks() == 0
    return int(segments())


def test_a_hook_that_does_not_read_splits_nothing() -> None:
    def step(w: Any) -> Any:
        h = (w * 2).tanh()
        h.register_hook(lambda g: g * 3)
        (h * h).sum().backward()
        return w.grad

    compiled = agreement.agree(step, lambda: (leaf(),), 5)
    assert segments_of(compiled, leaf()) == 1


def test_each_reading_hook_costs_one_segment() -> None:
    def step(w: Any, readers: int) -> Any:
        h = w
        for i in range(5):
            h = (h * 1.5).sin()
            if i < readers:
                h.register_hook(lambda g: float(g.sum().item()) * 0 or None)
        h.sum().backward()
        return w.grad

    compiled = jg.compile(step)
    counts = []
    for readers in range(6):
        for _ in range(3):
            compiled(leaf(), readers)
        counts.append(segments_of(compiled, leaf(), readers))
    assert counts == [1, 2, 3, 4, 5, 6]


def test_second_derivatives_through_hooks() -> None:
    def step(w: Any, seen: list[Any]) -> Any:
        h = w * w
        h.register_hook(lambda g: seen.append(("h", g.tolist())))
        y = (h * w).sum()
        (g,) = jg.autograd.grad(y, w, create_graph=True)
        g.register_hook(lambda gg: seen.append(("g", gg.tolist())))
        (g * g).sum().backward()
        return g, w.grad

    agreement.agree(step, lambda: (leaf(), []), 4)


def test_third_derivatives_with_a_replacing_hook() -> None:
    def step(w: Any) -> Any:
        h = w.exp()
        h.register_hook(lambda g: g * h)
        y = (h * h).sum()
        (a,) = jg.autograd.grad(y, w, create_graph=True)
        (b,) = jg.autograd.grad(a.sum(), w, create_graph=True)
        (c,) = jg.autograd.grad(b.sum(), w)
        return a, b, c

    agreement.agree(step, lambda: (jg.tensor([0.1, 0.2], requires_grad=True),), 4)


def test_two_backwards_over_one_hooked_graph() -> None:
    def step(w: Any, seen: list[Any]) -> Any:
        h = (w * 3).sigmoid()
        h.register_hook(lambda g: seen.append(g.tolist()))
        y = (h * h).sum()
        y.backward(retain_graph=True)
        y.backward()
        return w.grad, len(seen)

    agreement.agree(step, lambda: (leaf(), []), 4)


def test_a_second_backward_without_retain_is_refused() -> None:
    def step(w: Any) -> Any:
        h = (w * 3).sigmoid()
        h.register_hook(lambda g: None)
        y = (h * h).sum()
        y.backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()
        return w.grad

    agreement.agree(step, lambda: (leaf(),), 4)


def test_a_saved_value_overwritten_after_its_node_was_looked_at() -> None:
    def step(w: Any, late: bool) -> Any:
        h = w * 2
        y = h.exp()
        if not late:
            y.add_(1)
        y.grad_fn.register_prehook(lambda grads: None)
        if late:
            y.add_(1)
        y.sum().backward()

    for late in (False, True):
        agreement.agree(step, lambda late=late: (leaf(), late), 4)


def test_saved_values_of_a_looked_at_node() -> None:
    def step(w: Any) -> Any:
        h = w * 2
        y = h.exp()
        z = y * h
        return z.grad_fn._saved_self + 1, y.grad_fn._saved_result.tolist(), z.sum()

    agreement.agree(step, lambda: (leaf(),), 4)


def test_a_hooked_graph_escapes() -> None:
    def program(wrap: Any) -> Any:
        seen: list[Any] = []

        def forward(w: Any) -> Any:
            h = (w * 2).tanh()
            h.register_hook(lambda g: (seen.append(g.tolist()), g + 1)[1])
            return (h * w).sum()

        step, out = wrap(forward), []
        for _ in range(3):
            w = leaf()
            y = step(w)
            y.backward(retain_graph=True)
            y.backward()
            out.append(agreement.observe([w, y]))
        return out, seen

    agreement.assert_same(program(jg.compile), program(lambda f: f))


def test_a_graph_from_outside_is_differentiated_inside() -> None:
    def program(wrap: Any) -> Any:
        def inside(h: Any, w: Any) -> Any:
            (h * w).sum().backward()
            return w.grad * 2

        step, out = wrap(inside), []
        w = leaf()
        for _ in range(4):
            out.append(agreement.observe([step((w * w).exp(), w), w]))
        return out

    agreement.assert_same(program(jg.compile), program(lambda f: f))
    compiled = jg.compile(lambda h, w: (h * w).sum().backward())
    for _ in range(3):
        w = leaf()
        compiled(w.exp(), w)
    w = leaf()
    assert segments_of(compiled, w.exp(), w) == 1


def test_a_hook_that_runs_a_backward() -> None:
    def step(w: Any, v: Any) -> Any:
        h = w * 2

        def hook(g: Any) -> None:
            (v * v * g.detach()).sum().backward()

        h.register_hook(hook)
        (h * h).sum().backward()
        return w.grad, v.grad

    agreement.agree(step, lambda: (leaf(), leaf()), 4)


def test_a_hook_that_writes_in_place() -> None:
    def step(w: Any, total: Any) -> Any:
        h = w * 2
        h.register_hook(lambda g: total.add_(g))
        (h * h).sum().backward()
        return w.grad, total.sum()

    agreement.agree(step, lambda: (leaf(), jg.zeros(3)), 4)


def test_node_hooks_see_gradients_every_time() -> None:
    def step(w: Any, seen: list[Any]) -> Any:
        h = w * 2
        y = h * h
        y.grad_fn.register_hook(lambda gi, go: seen.append([[g.tolist() for g in gi], [g.tolist() for g in go]]))
        h.grad_fn.register_prehook(lambda go: (go[0] * 0.5,))
        y.sum().backward()
        return w.grad

    agreement.agree(step, lambda: (leaf(), []), 4)


def test_accumulator_hooks() -> None:
    def program(wrap: Any) -> Any:
        seen: list[Any] = []
        w = leaf()
        keep = w.expand_as(w)
        keep.grad_fn.next_functions[0][0].register_hook(lambda gi, go: seen.append(go[0].tolist()))
        w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
        step = wrap(lambda w: (w * w).sum().backward())
        for _ in range(4):
            step(w)
        del keep
        step(w)
        return seen, agreement.observe(w)

    agreement.assert_same(program(jg.compile), program(lambda f: f))


def test_training_with_clipped_hooked_gradients() -> None:
    def program(wrap: Any) -> Any:
        jg.manual_seed(0)
        model = jg.nn.Sequential(jg.nn.Linear(4, 8), jg.nn.Tanh(), jg.nn.Linear(8, 2))
        for p in model.parameters():
            p.register_hook(lambda g: g.clamp(-0.05, 0.05))
        optimizer = jg.optim.Adam(model.parameters(), lr=0.01)
        x, t = jg.randn(16, 4), jg.randn(16, 2)

        def step() -> Any:
            loss = jg.nn.functional.mse_loss(model(x), t)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        step = wrap(step)
        losses = [step().item() for _ in range(6)]
        return losses, [agreement.observe(p) for p in model.parameters()]

    agreement.assert_same(program(jg.compile), program(lambda f: f), 1e-4)


def test_retain_grad_and_inputs() -> None:
    def step(w: Any, v: Any) -> Any:
        h = w * v
        y = (h.exp() * w).sum()
        h.retain_grad()
        y.backward(inputs=[h, v], retain_graph=True)
        first = h.grad.clone(), v.grad.clone(), w.grad
        y.backward()
        return first, h.grad, w.grad

    agreement.agree(step, lambda: (leaf(), leaf()), 4)


def test_a_hook_that_raises_leaves_what_was_accumulated() -> None:
    def step(w: Any, v: Any, fail: bool) -> Any:
        h = w * 2
        if fail:
            h.register_hook(lambda g: 1 // 0)
        y = (h * v).sum() + v.sum()
        y.backward()
        return w.grad

    agreement.agree(step, lambda: (leaf(), leaf(), False), 6, lambda a, nr: (a[0], a[1], bool(nr % 2)))


def test_views_under_hooks() -> None:
    def step(w: Any, seen: list[Any]) -> Any:
        h = (w * 2).reshape(2, 2)
        row = h[0]
        row.register_hook(lambda g: seen.append(g.tolist()))
        h.t().register_hook(lambda g: seen.append("t"))
        (row.exp().sum() + h.t().sin().sum()).backward()
        return w.grad

    agreement.agree(step, lambda: (leaf(4), []), 4)


def test_views_read_in_the_middle() -> None:
    def step(w: Any, seen: list[Any]) -> Any:
        h = (w * 2).reshape(2, 2)
        t = h.t()
        y = (t.exp() * t).sum(0)
        y.register_hook(lambda g: seen.append(g.tolist()))
        y.sum().backward()
        return w.grad, t.detach()

    agreement.agree(step, lambda: (leaf(4), []), 4)


def test_nodes_outlive_the_call() -> None:
    def program(wrap: Any) -> Any:
        nodes: list[Any] = []
        step = wrap(lambda w: nodes.append((w * 2).exp().grad_fn))
        for _ in range(3):
            step(leaf())
        return [(n.name(), n._saved_result.tolist(), n.next_functions[0][0].name()) for n in nodes]

    agreement.assert_same(program(jg.compile), program(lambda f: f))


def test_maml_like_step_with_hooks() -> None:
    def step(w: Any, seen: list[Any]) -> Any:
        fast = w
        for _ in range(2):
            loss = (fast * fast * fast).sum()
            (g,) = jg.autograd.grad(loss, fast, create_graph=True)
            g.register_hook(lambda gg: seen.append(round(gg.sum().item(), 3)))
            fast = fast - 0.1 * g
        (fast * fast).sum().backward()
        return w.grad, fast.detach()

    agreement.agree(step, lambda: (jg.tensor([0.5, 0.7], requires_grad=True), []), 4)


def test_nodes_run_in_the_order_of_creation_whoever_made_them() -> None:
    class Twice(jg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    def step(a: Any, b: Any, seen: list[str]) -> Any:
        a.register_hook(lambda g: seen.append("a"))
        b.register_hook(lambda g: seen.append("b"))
        early = a.expand(2, 3)
        middle = Twice.apply(b + 0.0)
        late = early.masked_fill(early > 2, 2)
        view = late[0]
        with jg.no_grad():
            late.detach()
        view.mul_(3.0)
        for name, t in (("early", early), ("middle", middle), ("late", late), ("view", view)):
            t.register_hook(lambda g, name=name: seen.append(name))
        (middle * late).square().mean().backward()
        return a.grad, b.grad, list(seen)

    agreement.agree(step, lambda: (leaf(), leaf(), []), 4)


@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.parametrize("is_inside", [False, True])
def test_a_view_that_is_looked_at_afresh_has_a_node_of_that_moment(looks: bool, is_inside: bool, mode: Mode) -> None:
    """A backward that raises half way has reached the view's leaf: its new Node is younger than the one that raises."""

    def forward(t: Any, a: Any, b: Any, row: Any) -> Any:
        x = b * 2.0
        with t.no_grad():
            a += 1
        if looks:
            row.grad_fn.name()
        return x, t.where(row > 0, row, 2.0) @ x

    def backward(x: Any, y: Any) -> bool:
        x.sum().backward()
        try:
            y.backward()
        except RuntimeError:
            return True
        return False

    def run(t: Any, wrap: Any) -> Any:
        step = wrap(lambda a, b, row: backward(*forward(t, a, b, row)) if is_inside else forward(t, a, b, row))
        for _ in range(3):
            a, b = (t.arange(1.0, n).requires_grad_() for n in (5.0, 3.0))
            found = step(a, b, a.view(2, 2)[1])
            has_raised = found if is_inside else backward(*found)
        return has_raised, None if a.grad is None else a.grad.tolist(), b.grad.tolist()

    torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")
    assert run(jg, mode.wrap) == run(torch, lambda step: step) == (True, [0.0, 0.0, 2.0, 4.0], [2.0, 2.0])


def test_a_leaf_that_was_written_outside_between_two_uses() -> None:
    class Refused(jg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.mul_(0.5)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 0.5

    def step(p: Any) -> Any:
        early = p * 2.0
        with pytest.raises(RuntimeError, match="leaf"):
            Refused.apply(p)
        early.sum().backward(retain_graph=True)
        ((p * 3.0).sum() + early.sum()).backward()
        return p.grad

    agreement.agree(step, lambda: (leaf(),), 4)


def test_a_saved_window_on_an_input_outlives_its_handle() -> None:
    class Keeps(jg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2 * ctx.saved_tensors[0]

    def step(x: Any) -> Any:
        out = Keeps.apply(x.reshape(2, 2))
        first = out.sum().item()
        out.sum().backward()
        return first, x.grad

    agreement.agree(step, lambda: (leaf(4),), 4)


def test_a_value_of_an_earlier_segment_written_after_its_node_was_made() -> None:
    def step(w: Any, joins: bool) -> Any:
        y = w * 2 if joins else w.detach() * 2
        first = y.sum().item()
        z = y * w
        z.grad_fn.register_prehook(lambda grads: None)
        with jg.no_grad():
            y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()
        return first

    for joins in (False, True):
        agreement.agree(step, lambda joins=joins: (leaf(), joins), 4)


def test_data_written_after_a_node_was_made() -> None:
    def step(p: Any, replaces: bool) -> Any:
        y = p.square()
        y.grad_fn.register_prehook(lambda grads: None)
        if replaces:
            p.data = p.data * 3
        else:
            p.data.mul_(0.5)
        y.sum().backward()
        return p.grad

    for replaces in (False, True):
        agreement.agree(step, lambda replaces=replaces: (leaf(), replaces), 4)


def test_a_gradient_with_a_graph_survives_an_error_later_in_the_step() -> None:
    def step(p: Any, bad: Any, fail: bool) -> Any:
        (p * p).mean().backward(create_graph=True)
        return p.expand(2, 3).index_select(0, bad) if fail else p.grad.grad_fn.name()

    def change(args: tuple[Any, ...], nr: int) -> tuple[Any, ...]:
        p, bad, _ = args
        name = p.grad.grad_fn.name()
        assert name
        return p, bad, bool(nr % 2)

    agreement.agree(step, lambda: (leaf(), jg.tensor([5]), True), 5, change)


def test_data_written_between_the_saving_of_a_view_and_its_backward() -> None:
    def step(p: Any, inside: bool) -> Any:
        y = p.reshape(2, 2) @ p.reshape(2, 2).transpose(0, 1)
        p.data.mul_(0.5)
        if inside:
            y.sum().backward()
        return y

    def program(wrap: Any, inside: bool) -> Any:
        function, seen = wrap(step), []
        for _ in range(3):
            p = leaf(4)
            y = function(p, inside)
            if not inside:
                y.sum().backward()
            seen.append(agreement.observe([p, y]))
        return seen

    for inside in (False, True):
        agreement.assert_same(program(jg.compile, inside), program(lambda f: f, inside))


def test_detach_in_place_does_not_cut_what_was_computed_before() -> None:
    @jg.compile
    def step(x: Any, becomes_leaf: bool) -> Any:
        h = x * 2
        v = h * 1.0 + h  # saves nothing: eager execution allows it
        h.detach_()
        if becomes_leaf:
            h.requires_grad_()
        v.sum().backward()
        return x.grad, h.grad, h.is_leaf

    for becomes_leaf in (False, True):
        for _ in range(3):
            x_grad, h_grad, is_leaf = step(leaf(), becomes_leaf)
            assert x_grad.tolist() == [4.0, 4.0, 4.0]
            assert h_grad is None and is_leaf
            x_grad, h_grad, is_leaf = step.fn(leaf(), becomes_leaf)
            assert x_grad.tolist() == [4.0, 4.0, 4.0]
            assert h_grad is None and is_leaf
