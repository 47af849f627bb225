"""Autograd inside compiled steps, and over what escapes from them."""

from __future__ import annotations

from typing import Any

import agreement
import numpy as np
import pytest

import jitgrad as jg
from jitgrad import autograd
from jitgrad.compiled.backend import backend


def leaf(*shape: int, seed: int = 0) -> jg.Tensor:
    return jg.tensor(np.random.default_rng(seed).normal(size=shape).astype(np.float32)).requires_grad_()


def const(*shape: int, seed: int = 1) -> jg.Tensor:
    return leaf(*shape, seed=seed).detach()


# ---- .grad --------------------------------------------------------------------------------------------------------


def test_gradients_accumulate_over_calls() -> None:
    agreement.agree(lambda w: (w * w).sum().backward(), lambda: (leaf(3),), 5)


def test_gradients_accumulate_over_backwards() -> None:
    def step(w: Any) -> Any:
        for k in range(3):
            (w * w * k).sum().backward()
        return w.grad.sum()

    agreement.agree(step, lambda: (leaf(3),), 4)


def test_whether_grad_exists_is_part_of_the_path() -> None:
    def change(args: Any, nr: int) -> Any:
        (w,) = args
        if nr % 3 == 1:
            w.grad = None
        elif nr % 3 == 2:
            w.grad = jg.ones(3) * nr
        return args

    agreement.agree(lambda w: (w * w).sum().backward(), lambda: (leaf(3),), 8, change)


def test_accumulation_keeps_the_gradient_tensor() -> None:
    w, step = leaf(3), jg.compile(lambda w: (w * 2).sum().backward())
    step(w)
    grad, alias, address = w.grad, w.grad.detach(), w.grad.data_ptr()
    for k in range(2, 5):
        step(w)
        assert w.grad is grad
        assert w.grad.data_ptr() == address
        assert alias.tolist() == [2.0 * k] * 3


def test_the_gradient_is_an_alias_of_another_tensor() -> None:
    def make() -> tuple[Any, ...]:
        w, pool = leaf(3), jg.zeros(2, 3)
        w.grad = pool[1]
        return w, pool

    agreement.agree(lambda w, pool: ((w * w).sum().backward(), pool * 1)[1], make, 4)


def test_gradients_of_a_pool_seen_inside() -> None:
    def step(w: Any, v: Any, pool: Any) -> Any:
        pool.zero_()
        (w * v).sum().backward()
        return pool.norm()

    def make() -> tuple[Any, ...]:
        w, v, pool = leaf(3), leaf(3, seed=5), jg.zeros(6)
        w.grad, v.grad = pool[:3], pool[3:]
        return w, v, pool

    agreement.agree(step, make, 4)


GRAD_USES: dict[str, Any] = {
    "read": lambda w: w.grad.sum().item(),
    "none": lambda w: setattr(w, "grad", None),
    "zero": lambda w: w.grad.zero_(),
    "scale": lambda w: w.grad.mul_(0.5),
    "replace": lambda w: setattr(w, "grad", w.grad * 2),
    "delete": lambda w: delattr(w, "grad"),
    "assign a constant": lambda w: setattr(w, "grad", jg.ones(3)),
    "share": lambda w: w.grad.detach().add_(1),
}


@pytest.mark.parametrize("use", GRAD_USES.values(), ids=GRAD_USES)
def test_uses_of_grad_inside(use: Any) -> None:
    def step(w: Any) -> Any:
        (w.sin() * 2).sum().backward()
        use(w)
        (w * w).sum().backward()
        with jg.no_grad():
            w -= 0.1 * w.grad
        use(w)
        return w.sum()

    agreement.agree(step, lambda: (leaf(3),), 4)


def test_a_backward_that_changes_dtype() -> None:
    def step(w: Any, x: Any) -> Any:
        loss = (w.double() * x).sum()
        loss.backward()
        return loss

    agreement.agree(step, lambda: (leaf(3), const(3).double()), 3)


# ---- modes --------------------------------------------------------------------------------------------------------


def test_grad_modes_inside() -> None:
    def step(w: Any) -> Any:
        with jg.no_grad():
            a = w * 2
            with jg.enable_grad():
                b = w * 3
        c = a * w
        with jg.set_grad_enabled(False):
            d = c * 2
        return a, b, c, d, jg.is_grad_enabled()

    agreement.agree(step, lambda: (leaf(3),), 3)


def test_a_grad_mode_that_alternates() -> None:
    def step(w: Any, enabled: bool) -> Any:
        with jg.set_grad_enabled(enabled):
            y = (w * w).sum()
        return y.requires_grad, y.detach()

    agreement.agree(step, lambda: (leaf(3), True), 6, lambda args, nr: (args[0], nr % 3 == 0))


def test_decorated_modes() -> None:
    @jg.no_grad()
    def update(w: Any) -> None:
        w.sub_(w.grad)

    def step(w: Any) -> None:
        (w * 0.5).sum().backward()
        update(w)

    agreement.agree(step, lambda: (leaf(3),), 3)


def test_requires_grad_of_a_value() -> None:
    def step(x: Any) -> Any:
        y = (x * 2).detach().requires_grad_()
        z = x.clone().requires_grad_()
        ((y * z) ** 2).sum().backward()
        return y.grad, z.grad, y.is_leaf, y.requires_grad

    agreement.agree(step, lambda: (const(3),), 3)


def test_leaves_frozen_and_thawed_inside() -> None:
    def step(w: Any, v: Any) -> Any:
        w.requires_grad_(False)
        a = w * v
        w.requires_grad_(True)
        b = w * v
        (a + b).sum().backward()
        return w.grad, v.grad

    agreement.agree(step, lambda: (leaf(3), leaf(3, seed=2)), 3)


def test_detach_cuts() -> None:
    def step(w: Any) -> Any:
        h = w.exp()
        (h * h.detach()).sum().backward()
        h2 = w.exp().detach_()
        return h.detach(), h2.requires_grad

    agreement.agree(step, lambda: (leaf(3),), 3)


def test_a_leaf_made_inside() -> None:
    def step(x: Any) -> Any:
        delta = jg.zeros(3, requires_grad=True)
        loss = ((x + delta) ** 2).sum()
        loss.backward()
        return (x + 0.1 * delta.grad.sign()).clamp(-1, 1), delta

    agreement.agree(step, lambda: (const(3),), 3)


# ---- grad() -------------------------------------------------------------------------------------------------------


def test_grad_of_leaves_and_intermediates() -> None:
    def step(w: Any, x: Any) -> Any:
        h = (w * x).tanh()
        loss = (h**2).sum()
        gh, gw = autograd.grad(loss, [h, w], retain_graph=True)
        (again,) = autograd.grad(loss, h)
        return gh, gw, again, w.grad is None

    agreement.agree(step, lambda: (leaf(3), const(3)), 3)


def test_grad_outputs_and_unused() -> None:
    def step(w: Any, v: Any, x: Any) -> Any:
        y = w * x
        grads = autograd.grad([y, y.sum()], [w, v], [x, jg.tensor(2.0)], allow_unused=True)
        return grads[0], grads[1] is None

    agreement.agree(step, lambda: (leaf(3), leaf(3), const(3)), 3)


def test_backward_with_inputs() -> None:
    def step(w: Any, v: Any) -> None:
        (w * v).sum().backward(inputs=[w])

    agreement.agree(step, lambda: (leaf(3), leaf(3, seed=2)), 3)


def test_backward_with_a_gradient() -> None:
    def step(w: Any, g: Any, k: float) -> None:
        (w.sin() * 2).backward(g * k)

    agreement.agree(step, lambda: (leaf(3), const(3), 0.5), 5, lambda a, nr: (*a[:2], nr / 4))


def test_second_derivatives() -> None:
    def step(w: Any, x: Any) -> Any:
        x = x.detach().requires_grad_()
        u = (x.unsqueeze(1) * w).sin().sum(1)
        (du,) = autograd.grad(u.sum(), x, create_graph=True)
        (ddu,) = autograd.grad(du.sum(), x, create_graph=True)
        ((ddu + u) ** 2).mean().backward()
        return du, ddu

    agreement.agree(step, lambda: (leaf(4), const(5)), 3)


def test_backward_with_create_graph() -> None:
    def step(w: Any) -> Any:
        w.grad = None
        (w**3).sum().backward(create_graph=True)
        g = w.grad
        w.grad = None
        g.sum().backward()
        return g.detach(), w.grad

    agreement.agree(step, lambda: (leaf(3),), 3)


def test_third_derivatives() -> None:
    def step(x: Any) -> Any:
        y, outs = x.sin() * x, []
        for _ in range(3):
            (y,) = autograd.grad(y.sum(), x, create_graph=True)
            outs.append(y)
        return outs

    agreement.agree(step, lambda: (leaf(4),), 3)


# ---- graphs that escape -------------------------------------------------------------------------------------------

FORWARDS: dict[str, Any] = {
    "matmul": lambda w, x: (x @ w).tanh(),
    "with its transpose": lambda w, x: x @ (w @ w.transpose(-1, -2)),
    "chain": lambda w, x: ((x @ w).exp() * 0.5 + 1).log(),
    "softmax": lambda w, x: (x @ w).softmax(-1) ** 2,
    "max": lambda w, x: (x @ w).amax(1),
    "indexed": lambda w, x: (x @ w)[jg.tensor([0, 2, 2])] * x[:3],
    "views": lambda w, x: (w.t()[1:] * 2).reshape(-1) * w.reshape(-1)[:6],
    "where": lambda w, x: jg.where(x @ w > 0, x @ w, w.sum()),
    "written": lambda w, x: (w * 2).mul_(w.sum()).add_(1).exp(),
    "several": lambda w, x: w.cumsum(0) / (1 + w.abs()),
}


@pytest.mark.parametrize("forward", FORWARDS.values(), ids=FORWARDS)
def test_backward_outside(forward: Any) -> None:
    function = jg.compile(forward)
    for _ in range(3):
        grads = []
        for f in (forward, function):
            w, x = leaf(3, 3), const(4, 3)
            out = f(w, x)
            assert out.requires_grad
            assert not out.is_leaf
            assert out.grad_fn is not None
            (out * out).sum().backward(retain_graph=True)
            first = w.grad.clone()
            (out * out).sum().backward()
            grads.append((agreement.observe(out), agreement.observe(first), agreement.observe(w.grad)))
        agreement.assert_same(grads[1], grads[0])


@pytest.mark.parametrize("forward", FORWARDS.values(), ids=FORWARDS)
def test_second_derivatives_outside(forward: Any) -> None:
    results = []
    for f in (forward, jg.compile(forward)):
        w, x = leaf(3, 3), const(4, 3)
        (g,) = autograd.grad((f(w, x) ** 2).sum(), w, create_graph=True)
        (g**2).sum().backward()
        results.append((agreement.observe(g), agreement.observe(w.grad)))
    agreement.assert_same(results[1], results[0])


def test_a_second_backward_without_retain_fails_as_in_eager_mode() -> None:
    def step(w: Any) -> Any:
        return (w * w).sum()

    for f in (step, jg.compile(step)):
        w = leaf(3)
        loss = f(w)
        loss.backward()
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            loss.backward()
        assert f(w).item() > 0


def test_a_second_backward_inside_fails_as_in_eager_mode() -> None:
    def step(w: Any) -> Any:
        loss = (w * w).sum()
        loss.backward()
        loss.backward()

    agreement.agree(step, lambda: (leaf(3),), 3)


def test_a_graph_used_up_inside_cannot_be_used_outside() -> None:
    def step(w: Any) -> Any:
        loss = (w * w).sum()
        loss.backward()
        return loss

    for f in (step, jg.compile(step), jg.compile(step)):
        loss = f(leaf(3))
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()


def test_a_saved_value_changed_outside_is_noticed() -> None:
    def step(w: Any) -> Any:
        h = w.exp()
        return h, (h * w).sum()

    for f in (step, jg.compile(step)):
        for change in (lambda w, h: w.add_(1), lambda w, h: h.add_(1), lambda w, h: w.detach().zero_()):
            w = leaf(3)
            h, loss = f(w)
            with jg.no_grad():
                change(w, h)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()


def test_graphs_cross_the_border_of_steps() -> None:
    first, second = jg.compile(lambda w: (w * 2).exp()), jg.compile(lambda h: (h * h).sum())
    eager, compiled = leaf(3), leaf(3)
    for _ in range(3):
        (((eager * 2).exp()) ** 2).sum().backward()
        second(first(compiled)).backward()
        np.testing.assert_allclose(compiled.grad.numpy(), eager.grad.numpy(), rtol=1e-4)


def test_an_outer_graph_is_differentiated_inside() -> None:
    def program(step: Any) -> Any:
        results = []
        for _ in range(3):
            w = leaf(3)
            step(w.exp(), w)
            results.append(agreement.observe(w.grad))
        return results

    def step(h: Any, w: Any) -> Any:
        ((h * h) + w).sum().backward()

    agreement.assert_same(program(jg.compile(step)), program(step))


def test_state_with_a_graph_lives_on_between_calls() -> None:
    def program(step: Any) -> Any:
        w, h = leaf(3), jg.ones(3)
        for _ in range(4):
            h = step(w, h)
        h.sum().backward()
        return agreement.observe([w.grad, h])

    def step(w: Any, h: Any) -> Any:
        return (w * h).tanh() + h

    agreement.assert_same(program(jg.compile(step)), program(step))


def test_results_know_their_leaves_after_updates() -> None:
    def step(w: Any) -> Any:
        (w * w).sum().backward()
        with jg.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
        return (w * 3).sum()

    def program(step: Any) -> Any:
        w = leaf(3)
        for _ in range(3):
            step(w).backward()
        return agreement.observe(w)

    agreement.assert_same(program(jg.compile(step)), program(step))


# ---- hooks --------------------------------------------------------------------------------------------------------


def test_hooks_are_called_at_every_call() -> None:
    def program(wrap: Any) -> Any:
        seen: list[Any] = []
        w = leaf(3)
        w.register_hook(lambda g: seen.append(g.tolist()))
        step = wrap(lambda w: (w * w).sum().backward())
        for _ in range(4):
            step(w)
        return seen, agreement.observe(w)

    agreement.assert_same(program(jg.compile), program(lambda f: f))


def test_hooks_on_values_change_gradients() -> None:
    def step(w: Any, seen: list[Any]) -> Any:
        h = w * 2
        h.register_hook(lambda g: (seen.append(g.tolist()), g * 3)[1])
        (h * h).sum().backward()
        return w.grad.sum()

    agreement.agree(step, lambda: (leaf(3), []), 4)


def test_hooks_come_and_go() -> None:
    def program(wrap: Any) -> Any:
        seen: list[Any] = []
        w = leaf(3)
        step = wrap(lambda w: (w * w).sum().backward())
        step(w)
        handle = w.register_hook(lambda g: (seen.append(1), g * 2)[1])
        step(w), step(w)
        handle.remove()
        step(w)
        return seen, agreement.observe(w)

    agreement.assert_same(program(jg.compile), program(lambda f: f))


def test_retained_gradients() -> None:
    def step(w: Any) -> Any:
        h = w * 2
        h.retain_grad()
        (h * h).sum().backward()
        return h.grad.clone()

    agreement.agree(step, lambda: (leaf(3),), 3)


def test_a_hook_that_raises_leaves_the_engine_usable() -> None:
    def step(w: Any, fail: bool) -> Any:
        h = w * 2
        if fail:
            h.register_hook(lambda g: 1 // 0)
        (h * h).sum().backward()
        return w.grad.sum()

    agreement.agree(step, lambda: (leaf(3), False), 5, lambda args, nr: (args[0], bool(nr % 2)))


def test_a_hooked_backward_is_run_by_the_engine_and_recorded() -> None:
    w = leaf(3)
    w.register_hook(lambda g: None)
    step = jg.compile(lambda w: (w * w).sum().backward())
    step(w)
    w.grad = None
    step(w)
    w.grad = None
    counters = ("fallbacks", "engine_runs", "compiles", "segments", "misses")
    before = jg.stats()
    step(w)
    after = jg.stats()
    assert [after[name] - before[name] for name in counters] == [0, 1, 0, 1, 0]


# ---- speed --------------------------------------------------------------------------------------------------------


def test_a_backward_that_is_known_takes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """``loss.backward()`` into fresh leaves is two look-ups on a hit; the general way is for everything else."""
    w, x = leaf(3), const(3)

    @jg.compile
    def step() -> Any:
        w.grad = None
        loss = (w * x).sum()
        loss.backward()
        return loss.detach()

    for _ in range(3):
        step()

    def refuse(*args: Any) -> Any:
        raise AssertionError("the general way")

    monkeypatch.setattr(type(backend), "record_backward", staticmethod(refuse))
    step()
    assert np.array_equal(w.grad.numpy(), x.numpy())


@pytest.mark.parametrize("changes_its_mind", [False, True])
def test_a_leaf_that_requires_no_gradient_any_more(changes_its_mind: bool) -> None:
    """Nodes lead to it nevertheless: whether it gets a gradient is asked when the backward arrives there."""

    def step(p: Any) -> tuple[Any, Any]:
        own = jg.ones(3, requires_grad=True)
        y, z = own * 1.5 + p, own.exp()  # one saves nothing
        own.requires_grad_(False)
        p.requires_grad_(False)
        return own, y if changes_its_mind else (y + z)

    compiled = jg.compile(step)
    for _ in range(4):
        found = []
        for f in (step, compiled):
            p = leaf(3)
            own, y = f(p)
            own.requires_grad_(changes_its_mind)
            p.requires_grad_(changes_its_mind)
            for _ in range(2):
                y.sum().backward(retain_graph=True)
            found.append([None if x.grad is None else x.grad.tolist() for x in (own, p)])
        assert found[0] == found[1] == ([[3.0] * 3, [2.0] * 3] if changes_its_mind else [None, None])
