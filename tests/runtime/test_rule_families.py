"""Rule programs that are filled in for other extents, Note [Rule families], against those that are recorded."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.config import config
from jitgrad.dtypes import float32
from jitgrad.errors import CompileError
from jitgrad.nn import functional as F
from jitgrad.ops.aval import make_aval
from jitgrad.ops.table import OPS, RuleContext
from jitgrad.runtime.eager import rule_families, rule_programs
from jitgrad.runtime.eager.new_shapes import at_once
from jitgrad.runtime.eager.plan import plans
from jitgrad.runtime.eager.rule_recording import RuleCall
from jitgrad.runtime.engine.graph.op_node import backward_plan
from jitgrad.symbols.members import TRACED_FROM
from jitgrad.symbols.number import ShapeEnv, is_symbolic, value_of
from tests.compiled.steps_of_other_extents import PROGRAMS

SIZES = random.Random(3).sample(range(9, 300), 14)
"""Of which the first four are recorded."""


def _t(*shape: int, dtype: Any = np.float32) -> Any:
    return jg.from_numpy(np.random.default_rng(len(shape) + shape[0]).standard_normal(shape).astype(dtype))


def _parameters() -> dict[str, Any]:
    draw = np.random.default_rng(1).standard_normal
    shapes = {"w": (8, 6), "b": (8,), "g": (6,), "k": (4, 3, 3), "t": (5, 6)}
    return {name: jg.from_numpy(draw(shape).astype(np.float32)).requires_grad_() for name, shape in shapes.items()}


CASES: dict[str, Callable[[int, Any], Any]] = {
    "linear": lambda n, p: F.linear(_t(n, 6).requires_grad_(), p.w, p.b),
    "linear of three dimensions": lambda n, p: F.linear(_t(n, 3, 6), p.w, p.b),
    "gelu": lambda n, p: F.gelu(_t(n, 6) * p.g),
    "silu of a transposed": lambda n, p: F.silu((_t(n, 6) * p.g).t()),
    "softmax": lambda n, p: F.softmax(_t(n, 6) * p.g, 1) ** 2,
    "softmax along what changes": lambda n, p: F.log_softmax(_t(n, 6) * p.g, 0).tanh(),
    "layer_norm": lambda n, p: F.layer_norm(_t(n, 6) * p.g, (6,), p.g, p.g),
    "batch_norm": lambda n, p: F.batch_norm(_t(n, 6) * p.g, None, None, p.g, p.g, training=True),
    "group_norm": lambda n, p: F.group_norm(_t(4, 6, n) * p.g[:, None], 3),
    "cross_entropy": lambda n, p: F.cross_entropy(F.linear(_t(n, 6), p.w), jg.arange(n) % 8, label_smoothing=0.1),
    "nll": lambda n, p: F.nll_loss(F.log_softmax(F.linear(_t(n, 6), p.w), 1), jg.arange(n) % 8),
    "std": lambda n, p: (_t(n, 6) * p.g).std(0),
    "var of all": lambda n, p: (_t(n, 6) * p.g).var(),
    "norm": lambda n, p: jg.linalg.norm(_t(n, 6) * p.g, dim=0),
    "logsumexp": lambda n, p: jg.logsumexp(_t(n, 6) * p.g, 0),
    "matmul of both": lambda n, p: (_t(n, 6) * p.g) @ (_t(6, n) * p.g[:, None]),
    "bmm": lambda n, p: jg.bmm(_t(3, n, 6) * p.g, _t(3, 6, n)),
    "attention": lambda n, p: F.scaled_dot_product_attention(_t(2, 2, n, 6) * p.g, _t(2, 2, n, 6), _t(2, 2, n, 6)),
    "embedding": lambda n, p: F.embedding(jg.arange(n) % 5, p.t).tanh(),
    "conv1d": lambda n, p: F.conv1d((_t(2, 3, n + 3) * p.g[:3, None]), p.k, padding=1),
    "rows": lambda n, p: (_t(n, 6) * p.g)[jg.arange(n).flip(0)].sigmoid(),
    "cdist": lambda n, p: jg.cdist(_t(n, 6) * p.g, _t(5, 6)),
    "smooth_l1": lambda n, p: F.smooth_l1_loss(_t(n, 6) * p.g, _t(n, 6)),
    "mean of squares": lambda n, p: F.mse_loss(_t(n, 6) * p.g, _t(n, 6)) * n,
    "pool": lambda n, p: F.avg_pool1d(_t(2, 6, n + 2) * p.g[:, None], 3),
    "doubles": lambda n, p: F.gelu(_t(n, 6, dtype=np.float64) * p.g),
    "cumsum": lambda n, p: jg.cumsum(_t(n, 6) * p.g, 0).sigmoid(),
    "slices": lambda n, p: (_t(n + 4, 6) * p.g)[2:-2].tanh(),
}


class _Named:
    def __init__(self, found: dict[str, Any]) -> None:
        self.__dict__.update(found)


def _gradients(case: Callable[[int, Any], Any], n: int) -> list[Any]:
    found = _parameters()
    out = case(n, _Named(found))
    weights = np.random.default_rng(n).uniform(0.5, 1.5, out.shape).astype(out.dtype.name)
    (out * jg.from_numpy(weights)).sum().backward()
    return [None if p.grad is None else p.grad.numpy().copy() for p in found.values()]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bool], None]]:
    """``recorded(True)``: every program is recorded; ``recorded(False)``: families fill in what they can."""
    usual = rule_programs.family_program

    def choose(is_recorded: bool) -> None:
        monkeypatch.setattr(rule_programs, "family_program", (lambda call: None) if is_recorded else usual)
        plans.clear()

    with at_once():
        yield choose


@pytest.mark.parametrize("name", CASES)
def test_what_is_filled_in_is_what_is_recorded(name: str, recorded: Callable[[bool], None]) -> None:
    """``config.verify`` compares texts, layouts and numbers; here the gradients are compared, bit for bit."""
    assert config.verify
    recorded(True)
    expected = [_gradients(CASES[name], n) for n in SIZES]
    recorded(False)
    before = jg.stats()["families"]
    for n, grads in zip(SIZES, expected, strict=True):
        for x, y in zip(_gradients(CASES[name], n), grads, strict=True):
            np.testing.assert_array_equal(x, y)
    assert jg.stats()["families"] > before


def test_no_kind_is_given_up_but_lists_of_calls(
    recorded: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons: list[tuple[Any, ...]] = []
    monkeypatch.setattr(rule_families, "log", lambda *message: reasons.append(message))
    for case in CASES.values():
        recorded(False)
        rule_families.forget()
        for n in SIZES:
            _gradients(case, n)
    assert {str(message[-1]) for message in reasons} <= {"a list of calls", "a saved number"}


def test_extents_that_are_equal_by_chance_are_another_kind(recorded: Callable[[bool], None]) -> None:
    sizes = [*SIZES, 6, 8, 1, 5, 3, 0x100, 6]  # as wide as a weight; a dimension of one element
    for name in ("linear", "softmax", "layer_norm", "matmul of both", "attention"):
        recorded(True)
        expected = [_gradients(CASES[name], n) for n in sizes]
        recorded(False)
        for n, grads in zip(sizes, expected, strict=True):
            for x, y in zip(_gradients(CASES[name], n), grads, strict=True):
                np.testing.assert_array_equal(x, y)


def test_what_did_not_change_at_first_may_change_later(recorded: Callable[[bool], None]) -> None:
    recorded(False)
    for width, sizes in ((6, SIZES), (7, SIZES[:6]), (6, SIZES[:3]), (11, SIZES)):
        for n in sizes:
            x = _t(n, width).requires_grad_()
            F.layer_norm(F.gelu(x), (width,)).square().sum().backward()
            with jg.no_grad():
                y = x.detach().clone().requires_grad_()
            with at_once():
                z = F.layer_norm(F.gelu(y.double()), (width,)).square().sum()
                z.backward()
            assert x.grad is not None and y.grad is not None
            np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-2, atol=2e-4)


def test_near_extents_are_lent_a_program(monkeypatch: pytest.MonkeyPatch, recorded: Callable[[bool], None]) -> None:
    monkeypatch.setattr(config, "verify", False)
    sizes = random.Random(5).sample(range(20, 3000), 40)
    for name in ("gelu", "softmax along what changes", "layer_norm", "std", "cross_entropy", "matmul of both"):
        recorded(True)
        few = [n for n in sizes if n < 800] if name == "matmul of both" else sizes
        expected = [_gradients(CASES[name], n) for n in few]
        recorded(False)
        for n, grads in zip(few, expected, strict=True):
            for x, y in zip(_gradients(CASES[name], n), grads, strict=True):
                if y is not None:
                    np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-3 * np.abs(y).max())


def test_programs_of_a_family_look_at_what_they_are_given(recorded: Callable[[bool], None]) -> None:
    """Another layout of the gradient, a written operand: as of those that are recorded."""
    recorded(False)
    for n in SIZES:
        x = _t(n, 6).requires_grad_()
        h = x * 1
        y = F.gelu(h)
        with jg.no_grad():
            h.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
    found = []
    for n in SIZES:
        for turned in (False, True):
            x = _t(n, 6).requires_grad_()
            y = F.gelu(x)
            g = _t(6, n).t() if turned else _t(6, n).t().contiguous()
            y.backward(g)
            assert x.grad is not None
            found.append(x.grad.numpy().copy())
    for straight, turned_grad in zip(found[::2], found[1::2], strict=True):
        np.testing.assert_allclose(straight, turned_grad, rtol=1e-5, atol=1e-6)


def test_hooks_see_what_rules_return(recorded: Callable[[bool], None]) -> None:
    """A Node's hook sees the gradient before it is summed to the operand's shape."""
    recorded(False)
    for nr, n in enumerate([*SIZES, *range(301, 310)]):
        w, shapes = _t(1, 6).requires_grad_(), []
        y = jg.atan2(w, _t(n, 6).sigmoid())
        if nr >= len(SIZES):
            y.grad_fn.register_hook(lambda ins, outs, shapes=shapes: shapes.append(ins[0].shape))
        y.sum().backward()
        assert shapes == ([(n, 6)] if nr >= len(SIZES) else [])
        assert w.grad is not None and w.grad.shape == (1, 6)


def test_a_family_serves_on(recorded: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(False)
    usual, found = rule_programs.family_program, []
    monkeypatch.setattr(rule_programs, "family_program", lambda call: found.append(usual(call)) or found[-1])
    for n in range(100, 180):
        F.gelu(_t(n, 6).requires_grad_()).backward(_t(n, 6))
    assert len(found) == 80 and all(found[TRACED_FROM:])


def test_extents_among_params_are_extents() -> None:
    def kind_of(n: int, m: int, first: int) -> Any:
        x, y = make_aval((n, 6), float32), make_aval((m, 6), float32)
        op = OPS["slice"]
        context = RuleContext((x,), (y,), (0, first, n, (m, 7)), (True,))
        return rule_families._RuleKind(
            RuleCall(op, backward_plan(op, (True,)), context, (y,), (2,), (True,), (None,))
        )  # fmt: skip

    one, other = kind_of(40, 30, 10), kind_of(77, 50, 10)
    assert one.key == other.key and (one.extents, other.extents) == ((30, 6, 40), (50, 6, 77))
    assert kind_of(40, 30, 9).key != one.key != kind_of(40, 40, 10).key
    with ShapeEnv() as env:
        context = one.twin({30: env.symbol(30), 40: env.symbol(40)}).context
        assert [is_symbolic(x) for x in (*context.params[:3], *context.params[3])] == [False, False, True, True, False]
        assert [value_of(x) for x in context.avals[0].shape] == [40, 6]


def test_a_program_that_differs_is_noticed(recorded: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(False)
    for n in SIZES[:6]:
        _gradients(CASES["gelu"], n)
    members = [m for family in rule_families._families.values() for m in family._members]
    assert members
    for member in members:
        member.made._text += " "
    with pytest.raises(CompileError, match="where recording gives"):
        _gradients(CASES["gelu"], 97)


def test_kinds_without_a_family_are_given_up(recorded: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(False)
    looked: list[Any] = []
    usual = rule_families._RuleKind
    monkeypatch.setattr(rule_families, "_RuleKind", lambda call: looked.append(call) or usual(call))
    for width in range(2, 9):
        for n in SIZES:
            x = _t(n, width).requires_grad_()
            (x * 2.0).sum().backward()
    products = [call for call in looked if call.op.name == "mul"]  # whose rule is one call
    assert 0 <= len(products) - rule_families._MAX_FRUITLESS < TRACED_FROM


def test_threads_that_derive_at_once(recorded: Callable[[bool], None]) -> None:
    recorded(True)
    sizes = random.Random(7).sample(range(9, 200), 40)
    names = ("gelu", "layer_norm", "softmax along what changes", "matmul of both")
    expected = {(name, n): _gradients(CASES[name], n) for name in names for n in sizes}
    recorded(False)
    wrong: list[Any] = []

    def run(seed: int) -> None:
        pairs = [*expected]
        random.Random(seed).shuffle(pairs)
        for name, n in pairs[:60]:
            for x, y in zip(_gradients(CASES[name], n), expected[name, n], strict=True):
                if not np.array_equal(x, y) if y is not None else x is not None:
                    wrong.append((name, n))

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert any(family._members for family in rule_families._families.values())


@pytest.mark.parametrize("make", PROGRAMS.values(), ids=PROGRAMS)
def test_training_over_ever_other_extents(make: Any, recorded: Callable[[bool], None]) -> None:
    """In eager mode; each program that is filled in is compared with one that is recorded."""
    assert config.verify
    recorded(True)
    expected = _trained(make)
    recorded(False)
    for x, y in zip(_trained(make), expected, strict=True):
        np.testing.assert_array_equal(x, y)


def _trained(make: Any) -> list[Any]:
    """The results of some steps."""
    jg.manual_seed(0)
    step, data = make()
    rng = np.random.default_rng(1)
    results = []
    for _ in range(24):
        arrays = [np.asarray(a) for a in data(rng, int(rng.integers(66, 260)))]
        found = step(*[jg.from_numpy(a.astype(np.float32) if a.dtype == np.float64 else a) for a in arrays])
        results += [x.detach().numpy().copy() for x in (found if isinstance(found, tuple) else (found,))]
    return results
