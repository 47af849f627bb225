"""Backwards that are recorded without Nodes: the same instructions as by the engine, and rules run once per kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.compiled.backward import backward, rule_sweep, rule_templates
from jitgrad.config import config
from jitgrad.events import count
from jitgrad.nn import functional as F


@pytest.fixture(autouse=True)
def compared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each backward is recorded both ways, and compared instruction by instruction; templates are those of the test."""
    monkeypatch.setattr(config, "check_hits", True)
    rule_templates._templates.clear()
    yield
    rule_templates._templates.clear()


def leaf(*shape: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return jg.tensor(rng.standard_normal(shape, dtype=np.float32)).requires_grad_()


def grads_of(step: Callable[..., Any], leaves: list[Any]) -> list[Any]:
    for x in leaves:
        x.grad = None
    step(*leaves).backward()
    return [None if x.grad is None else x.grad.numpy().copy() for x in leaves]


def _written(w: Any, v: Any) -> Any:
    y = w * 2
    y.mul_(v[0])
    return (y * w).sum()


def _loop(w: Any, v: Any) -> Any:
    h = w
    for _ in range(5):
        h = (h @ v.T @ v).tanh() + h
    return h.square().mean()


def _rebuilt(w: Any, v: Any) -> Any:
    parts = jg.cat([w, v, w * v]).chunk(3)
    return (parts[0] * parts[2]).sum() + jg.stack([w, v]).amax()


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "one operation": lambda w, v: w.sum(),
    "a value used twice by one operation": lambda w, v: (w * v + w * w).sum(),
    "operands that get no gradient": lambda w, v: F.cross_entropy(w, jg.tensor([0, 2, 1]), weight=(v[0] * 2).exp()),
    "a leaf used by many": lambda w, v: (w * v + w.exp() + w).sum(),
    "broadcasts": lambda w, v: (w * v[0] + v[:, :1] * 3).sum(),
    "a leaf of no dimensions": lambda w, v: (w * v.sum()).mean(),
    "numbers": lambda w, v: (w * 0.5 + 2 / (v.square() + 1) - w**3).sum(),
    "views": lambda w, v: (w.T.reshape(-1)[3:9] * v.flatten()[3:9]).sum(),
    "other dtypes": lambda w, v: (w.double() * v.float()).sum().float() + w.to(jg.float64).exp().mean(),
    "several results": lambda w, v: (w.sort(1).values * v).sum() + w.max(1).values.sum(),
    "some results get no gradient": lambda w, v: w.chunk(3)[1].sum() + jg.var_mean(v)[0],
    "lists": _rebuilt,
    "losses": lambda w, v: F.cross_entropy(w, jg.tensor([0, 2, 1])) + F.mse_loss(w, v) + F.smooth_l1_loss(v, w),
    "norms": lambda w, v: F.layer_norm(w, (4,), v[0], v[1]).sum() + F.normalize(v).sum(),
    "an equal loop": _loop,
    "written in place": _written,
    "an operand without a graph": lambda w, v: (w.detach() * v + v.detach() * w).sum(),
    "indices": lambda w, v: w[jg.tensor([0, 0, 2])].sum() + jg.gather(v, 1, jg.tensor([[0], [1], [3]])).sum(),
    "a convolution": lambda w, v: F.conv1d(w[None], v[:2, :3].unsqueeze(1).expand(2, 3, 3)).sum(),
    "attention": lambda w, v: F.scaled_dot_product_attention(w[None, None], v[None, None], w[None, None]).sum(),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("accumulates", [False, True], ids=["fresh", "accumulates"])
def test_the_same_is_recorded(program: Callable[..., Any], accumulates: bool) -> None:
    def run(*leaves: Any) -> Any:
        loss = program(*leaves)
        loss.backward()
        return loss.detach()

    eager, compiled = [leaf(3, 4), leaf(3, 4, seed=1)], [leaf(3, 4), leaf(3, 4, seed=1)]
    step = jg.compile(run)
    with count("nodeless_backwards") as found:
        for _ in range(3):
            for leaves in (eager, compiled):
                for x in leaves:
                    if not accumulates:
                        x.grad = None
            want, got = run(*eager), step(*compiled)
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5)
            for a, b in zip(eager, compiled, strict=True):
                assert (a.grad is None) == (b.grad is None)
                if a.grad is not None:
                    np.testing.assert_allclose(b.grad.numpy(), a.grad.numpy(), rtol=1e-4, atol=1e-5)
    assert found() >= 1


PLANTED: dict[str, Callable[[Any], Any]] = {
    "another instruction": lambda swept: setattr(swept.inner.instrs[-1], "params", (7,)),
    "no instruction": lambda swept: swept.inner.instrs.clear(),
    "another value is gone": lambda swept: swept._replace(released=frozenset([10_000])),
}


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_what_is_recorded_otherwise_is_an_error(plant: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Not an assertion: ``python -O`` compares, too."""
    kind, made = backward._Recorded, []

    def planted(*fields: Any) -> Any:
        made.append(kind(*fields))
        return plant(made[0]) or made[0] if len(made) == 1 else made[-1]  # the engine's is the second

    monkeypatch.setattr(backward, "_Recorded", planted)
    w = leaf(3, 4)
    with pytest.raises(jg.JitgradError, match="where the engine's has"):
        jg.compile(lambda: (w * w).exp().sum().backward())()


def test_rules_run_once_per_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "check_hits", False)

    def step(w: Any, x: Any) -> Any:
        y = w
        for _ in range(100):
            y = (y * x).sin()
        y.sum().backward()
        return y.detach()

    with count("copied_rules") as copied:
        jg.compile(step)(leaf(5), jg.ones(5))
    # all but the sum, the last sine, whose gradient is an expanded one, and the first that come after it
    assert copied() == 201 - 4
    assert len(rule_templates._templates) == 4
    with count("copied_rules") as copied:  # kinds outlive the function
        jg.compile(step)(leaf(5), jg.ones(5))
    assert copied() == 201


def test_number_kinds_are_kept_apart() -> None:
    """A saved number decides what a rule records; one that is an argument of the program does not."""

    def step(x: Any, n: Any) -> Any:
        (x.pow(n) + x * n).sum().backward()

    for n in (2, 3, 2.0, 0.5, 1, 0, True, 2.5, 3.5, 4.5):
        x, y = leaf(4), leaf(4)
        with jg.no_grad():
            x.abs_()
            y.abs_()
        jg.compile(step)(x, n)
        step(y, n)
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-6)


def test_a_number_that_changes() -> None:
    @jg.compile
    def step(x: Any, scale: float, shift: float) -> None:
        ((x * scale).exp() * scale + x * shift).sum().backward()

    for k in range(6):
        x = leaf(4)
        step(x, 0.1 * k, 1.0 + k)
        want = 0.1 * k * 0.1 * k * np.exp(0.1 * k * x.detach().numpy()) + 1.0 + k
        np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-4)


NEED_NODES: dict[str, Callable[[Any], None]] = {
    "a write through a view": lambda w: _write_part(w).sum().backward(),
    "a leaf as the root": lambda w: jg.ones(()).requires_grad_().backward(),
    "a sparse gradient": lambda w: F.embedding(jg.tensor([0, 2]), w, sparse=True).sum().backward(),
    "create_graph": lambda w: (w * w).sum().backward(create_graph=True),
    "inputs": lambda w: (w * w).sum().backward(inputs=[w]),
    "a gradient that is given": lambda w: (w * w).backward(jg.ones(3, 4)),
}


def _write_part(w: Any) -> Any:
    y = w * 1
    y[0] = w[1] * 2
    return y


@pytest.mark.parametrize("program", NEED_NODES.values(), ids=NEED_NODES)
def test_the_engine_does_the_rest(program: Callable[[Any], None]) -> None:
    w, v = leaf(3, 4), leaf(3, 4)
    with count("nodeless_backwards") as found:
        jg.compile(program)(w)
    program(v)
    assert found() == 0
    assert (w.grad is None) == (v.grad is None)
    if w.grad is not None:
        np.testing.assert_allclose(w.grad.detach().to_dense().numpy(), v.grad.detach().to_dense().numpy(), rtol=1e-6)


def test_what_was_written_over_is_refused_as_in_eager_mode() -> None:
    def step(w: Any) -> None:
        y = w.exp()
        z = y * 2
        y.mul_(3)
        z.sum().backward()

    def spoiled(w: Any) -> None:
        y = w.exp()
        z = (y * y).sum()
        y.mul_(3)
        z.backward()

    for program, ends in ((step, "modified by an inplace"), (spoiled, "modified by an inplace")):
        for run in (program, jg.compile(program)):
            w = leaf(3)
            with pytest.raises(RuntimeError, match=ends):
                run(w)
            assert w.grad is None


def test_a_graph_that_is_used_up_is_refused_as_in_eager_mode() -> None:
    def step(w: Any) -> None:
        y = (w * w).sum()
        y.backward()
        y.backward()

    for run in (step, jg.compile(step)):
        w = leaf(3)
        with pytest.raises(RuntimeError, match="a second time"):
            run(w)
        np.testing.assert_allclose(w.grad.numpy(), 2 * w.detach().numpy())


def test_a_kept_graph_runs_again() -> None:
    def step(w: Any) -> None:
        y = (w * w).sum()
        y.backward(retain_graph=True)
        y.backward()

    w = leaf(3)
    with count("nodeless_backwards") as found:
        jg.compile(step)(w)
    assert found() == 2
    np.testing.assert_allclose(w.grad.numpy(), 4 * w.detach().numpy(), rtol=1e-6)


def test_a_rule_that_raises_leaves_the_leaves_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the error is, the engine has its turn. Here a sum, made to fit an operand, is refused."""
    w, v = leaf(3), leaf(3)
    w.grad = jg.ones(3)
    step = jg.compile(lambda w, v: ((v + jg.ones(2, 3)).sum() + (w * 2).sum()).backward())
    monkeypatch.setattr(config, "check_hits", False)
    with monkeypatch.context() as patch, count("nodeless_backwards") as found:
        patch.setattr(rule_sweep, "fit", rule_sweep.fill_grads)  # takes other arguments
        step(w, v)
    assert found() == 0
    np.testing.assert_allclose(w.grad.numpy(), [3, 3, 3])
    np.testing.assert_allclose(v.grad.numpy(), [2, 2, 2])


def test_another_default_dtype_forgets_the_kinds() -> None:
    def step(n: Any, w: Any) -> Any:
        (n / 3 * w).sum().backward()
        return w.grad

    for dtype in (jg.float32, jg.float64, jg.float32):
        jg.set_default_dtype(dtype)
        try:
            w, v = jg.ones(4, requires_grad=True), jg.ones(4, requires_grad=True)
            n = jg.arange(4)
            assert jg.compile(step)(n, w).dtype is step(n, v).dtype is dtype
            np.testing.assert_allclose(w.grad.numpy(), v.grad.numpy())
        finally:
            jg.set_default_dtype(jg.float32)
