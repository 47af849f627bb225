"""Paths that grow in native code are those that grow in Python, event by event: Note [Growing natively]."""

from __future__ import annotations

import gc
import logging
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.config import config
from jitgrad.nn import functional as F
from jitgrad.ops.table import OPS
from jitgrad.tracer.misses.operations import Operations
from jitgrad.tracer.recording.history import PlainEvent
from jitgrad.tracer.recording.shape_rules import kind_key
from jitgrad.tracer.recording.trie import TrieNode
from jitgrad.user_line import LINES

_SAME = ("depth", "ids", "is_simple", "is_view", "masks", "next_scalar", "next_vid", "op", "param_types", "params",
         "requires_grad", "seen", "vid", "window", "writes", "outs", "bounds", "meta", "key")  # fmt: skip


@contextmanager
def grown_by_python() -> Iterator[None]:
    """Every miss is reported, so none of them is recorded by ``grow``."""
    logger = logging.getLogger("jitgrad.record")
    before, handler = (logger.level, logger.propagate), logging.NullHandler()
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


def new_path(function: Callable[..., Any], *args: Any) -> tuple[Any, list[TrieNode]]:
    """(the result of a fresh compiled function's first call, the nodes that it has recorded, from the root on)."""
    compiled = jg.compile(function)
    out = compiled(*args)
    node, path = compiled.last, []
    while node is not None:
        path.append(node)
        node = node.parent
    return out, path[::-1]


def shown(node: TrieNode) -> dict[str, Any]:
    """What a node says, and what its event does, without addresses."""
    said: dict[str, Any] = {name: repr(getattr(node, name)) for name in _SAME}
    said["aval"] = node.aval
    said["children"] = [repr(key) for key in node.children]
    said["first"] = None if node.first is None else repr(node.first.key)
    event = node.event
    said["event"] = type(event).__name__
    if isinstance(event, PlainEvent):
        instr = {name: repr(getattr(event.instr, name)) for name in type(event.instr).__slots__}
        said |= {"instr": instr, "several": event.several, "ends_segment": event.ends_segment}
    return said


def assert_same_path(function: Callable[..., Any], *args: Any) -> None:
    """The path and the results are the same, whoever records them; kinds are known, so that ``grow`` may."""
    new_path(function, *args)
    with grown_by_python():
        wanted, expected = new_path(function, *args)
    out, path = new_path(function, *args)
    assert [shown(node) for node in path] == [shown(node) for node in expected]
    np.testing.assert_array_equal(out.numpy(), wanted.numpy())


def numbers(x: Any) -> Any:
    y = x
    for number in (0.5, 2, 0.0, -0.0, 0.5, 1, 1.0, float("inf"), 3):
        y = y * number + x
    return y


def views(x: Any) -> Any:
    total = x.t() @ x
    for i in range(3):
        total = total + x[i : i + 2].t() @ x.view(-1)[: 2 * x.shape[1]].reshape(2, -1)
    return total.detach().unsqueeze(0).transpose(0, 1)[0]


def params(x: Any) -> Any:
    y = x.clamp(0, 1) + x.clamp(0.0, 1.0) + x.clamp(False, True)
    return y.sum(0) + y.sum((0,)) + y.sum(0, keepdim=True) + F.softmax(y, 1) + y.pow(2) + y**3


def functions(x: Any) -> Any:
    y = F.relu(x) + jg.maximum(x, -x) - x.exp().log1p()
    y = jg.where(y > 0.5, y, x).square().mean(1)
    return F.mse_loss(y, y * 0.5) + y.std()


def modes(x: Any) -> Any:
    w = jg.ones_like(x).requires_grad_()
    y = x * w + w
    with jg.no_grad():
        z = y.t() * 2 + w.t()
    (y * z.t()).sum().backward()
    return w.grad + z.t()


def writes(x: Any) -> Any:
    y = x * 2
    for i in range(3):
        y[i] = y[i - 1] + x[i]
        y.mul_(0.5)
    return y + x


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("function", [numbers, views, params, functions, modes, writes])
def test_the_path_is_the_one_that_python_records(function: Callable[..., Any], needs_grad: bool) -> None:
    x = jg.tensor(np.random.default_rng(3).normal(size=(4, 5)).astype(np.float32))
    if needs_grad and function is not writes:
        x.requires_grad_()
    assert_same_path(lambda x: function(x).detach(), x)


_CHOICES: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b, lambda a, b: a * 0.5, lambda a, b: 2 - a, lambda a, b: a / 3, lambda a, b: a @ b.t(),
    lambda a, b: (a @ b.t()).sum(0, keepdim=True) * a, lambda a, b: a.sum(1, keepdim=True) + b, lambda a, b: -a.t().t(),
    lambda a, b: a[1:].sum(0) + b, lambda a, b: F.gelu(a), lambda a, b: a.reshape(-1).view(a.shape), lambda a, b: a**2,
    lambda a, b: jg.cat([a, b])[: len(a)], lambda a, b: a.detach() * b, lambda a, b: a.clone().add_(b),
    lambda a, b: a.masked_fill(b > 0, 1), lambda a, b: a.softmax(-1), lambda a, b: a.unsqueeze(0).expand(2, 4, 4)[1],
]  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_record_what_python_records(seed: int) -> None:
    def program(x: Any, w: Any) -> Any:
        choose = random.Random(seed)
        values = [x, w]
        for _ in range(12):
            made = choose.choice(_CHOICES)(choose.choice(values), choose.choice(values))
            values.append(made if made.shape == x.shape else made.sum() * x)
        return values[-1].detach()

    rng = np.random.default_rng(seed)
    x, w = (jg.tensor(rng.normal(size=(4, 4)).astype(np.float32)) for _ in range(2))
    assert_same_path(program, x, w.requires_grad_(seed % 2 == 0))


def test_only_the_first_turn_of_a_loop_is_recorded_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(x: Any, w: Any) -> Any:
        y = x
        for _ in range(100):
            y = F.relu(y @ w.t()) * 0.5 + x[None].sum(0)
        return y

    with jg.inference_mode():
        jg.ones(1) * 2  # that such tensors exist changes nothing
    x, w = jg.ones(3, 3), jg.ones(3, 3)
    jg.compile(step)(x, w)
    seen = []
    general = Operations.apply

    def counted(self: Operations, op: Any, args: Any) -> Any:
        seen.append(op.name)
        return general(self, op, args)

    monkeypatch.setattr(Operations, "apply", counted)
    before = jg.stats()["misses"]
    jg.compile(step)(x, w)
    assert jg.stats()["misses"] - before > 600
    assert len(seen) <= 6, seen


def test_what_a_dropped_function_has_recorded_is_collected() -> None:
    """Instructions and keys are no business of the collector's, and hang on nodes that are."""

    def step(x: Any) -> Any:
        for _ in range(50):
            x = x.t() * 0.5 + x
        return x

    x = jg.ones(3, 3)
    jg.compile(step)(x)
    gc.collect()
    before = sum(type(o) is TrieNode for o in gc.get_objects())
    for _ in range(5):
        jg.compile(step)(x)
    gc.collect()
    assert sum(type(o) is TrieNode for o in gc.get_objects()) <= before


def test_a_limit_on_new_values_ends_the_growing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "max_new_values", 20)
    step = jg.compile(numbers_of_many)
    x = jg.ones(2)
    before = jg.stats()
    out = step(x)
    assert jg.stats()["long_calls"] - before["long_calls"] == 1
    assert jg.stats()["misses"] - before["misses"] < 25
    np.testing.assert_array_equal(out.numpy(), numbers_of_many(x).numpy())


def numbers_of_many(x: Any) -> Any:
    for _ in range(60):
        x = x * 0.5 + 1
    return x


def test_a_segment_that_is_full_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "max_segment_ops", 16)
    before = jg.stats()["segments"]
    out = jg.compile(numbers_of_many)(jg.ones(2))
    assert jg.stats()["segments"] - before == 8
    np.testing.assert_allclose(out.numpy(), [2, 2], rtol=1e-6)


def test_numbers_that_change_are_arguments_from_the_second_value_on() -> None:
    step = jg.compile(lambda x, a, b: (x * a + b) * 0.5)
    x = jg.ones(3)
    for a, b in [(0.5, 1.5), (0.25, 1.25), (0.125, 1.125)]:
        before = jg.stats()["misses"]
        np.testing.assert_array_equal(step(x, a, b).numpy(), np.full(3, (a + b) * 0.5, np.float32))
    assert jg.stats()["misses"] == before


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="a timer's signal")
def test_a_handler_between_two_new_operations_is_a_part_of_the_step() -> None:
    """Its operations come in while native code records: none of the step's is lost, and none doubled."""
    x = jg.ones(3)
    seen: list[float] = []

    def handler(*_: Any) -> None:
        seen.append(float((x * 3).sum()))

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        while len(seen) < 50:
            out = jg.compile(numbers_of_many)(x)
            np.testing.assert_allclose(out.numpy(), [2, 2, 2], rtol=1e-6)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert set(seen) == {9.0}


def several_lines(x: Any) -> Any:
    y = x * 2
    y = y + x
    y = y * 2
    y = y + x
    y = y * 2
    return y + x


def test_python_that_runs_in_the_middle_may_move_the_path() -> None:
    """A tracer's operations come in while a new operation is being recorded, which reads its line in Python."""
    x = jg.ones(2)
    jg.compile(several_lines)(x)
    seen: list[float] = []

    def trace(frame: Any, event: str, argument: Any) -> None:
        if frame.f_code.co_name == "user_line" and len(seen) < 50:
            sys.settrace(None)
            seen.append(float((x * 3).sum()))
            sys.settrace(trace)

    compiled = jg.compile(several_lines)
    LINES.clear()
    sys.settrace(trace)
    try:
        first = compiled(x)
    finally:
        sys.settrace(None)
    assert seen
    assert set(seen) == {6.0}
    for out in (first, compiled(x), compiled(x)):
        assert out.tolist() == [15, 15]
    assert compiled(x * 2).tolist() == [30, 30]


def test_a_write_is_seen_by_views_that_native_code_has_recorded() -> None:
    """A Node has saved a view of what is written afterwards."""

    def step(x: Any, w: Any, is_written: bool) -> Any:
        y = x * 2
        z = (y.t()[1:].t() * w).sum()
        if is_written:
            y.zero_()
        z.backward()
        return y

    x = jg.ones(3, 3)

    def leaf() -> Any:
        return jg.ones(3, 2, requires_grad=True)

    jg.compile(step)(x, leaf(), False)
    for function in (step, jg.compile(step)):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            function(x, leaf(), True)


def test_numbers_that_a_dtype_may_not_hold_become_arguments_among_their_like() -> None:
    x, mask = jg.zeros(2, dtype=jg.int16), jg.tensor([True, False])

    def step(x: Any, value: int) -> Any:
        return (x + mask).masked_fill(mask, value)  # the mask is known when the number comes

    jg.compile(step)(x, 300)
    compiled = jg.compile(step)
    for value in (300, 400, 500):  # between the limits of int8, or uint8, and int16
        before = jg.stats()["misses"]
        assert compiled(x, value).tolist() == [value, 0]
    assert jg.stats()["misses"] == before
    with pytest.raises(RuntimeError, match="cannot be converted"):
        compiled(x, 1 << 20)


def test_an_inference_tensor_is_not_saved_for_a_backward() -> None:
    with jg.inference_mode():
        frozen = jg.ones(3) * 2

    def step(w: Any, x: Any) -> Any:
        y = w * 1 + x.detach()
        return ((y * 2) * x).sum()

    jg.compile(step)(jg.ones(3, requires_grad=True), jg.ones(3))
    for function in (step, jg.compile(step)):
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            function(jg.ones(3, requires_grad=True), frozen)


def test_the_trie_knows_its_size() -> None:
    compiled = jg.compile(numbers_of_many)
    jg.compile(numbers_of_many)(jg.ones(2))
    for n in (2, 3, 2):
        compiled(jg.ones(n))
    nodes, waiting = 0, list(compiled.trie.roots.values())
    while waiting:
        node = waiting.pop()
        waiting += node.children.values()
        nodes += node.parent is not None
    assert compiled.trie.size == nodes


def test_kinds_tell_apart_what_rules_tell_apart() -> None:
    """Equal params and numbers of other types; an operand's layout, but not where it begins, unless it is viewed."""
    x = jg.ones(4, 6)
    op, view = OPS["leaky_relu"], OPS["slice"]
    keys = [kind_key(op, True, (x,), (p,)) for p in (1, 1.0, True, (1,), (1.0, 2))]
    assert len(set(keys)) == 5
    assert len({kind_key(OPS["mul"], True, (x, number), ()) for number in (1, 1.0, True)}) == 3
    assert kind_key(op, True, (x,), ()) != kind_key(op, False, (x,), ())
    assert kind_key(op, True, (x[1:3],), ()) == kind_key(op, True, (x[2:],), ())
    assert kind_key(op, True, (x[1:3],), ()) != kind_key(op, True, (x[1:3].clone(),), (0,))
    assert kind_key(op, True, (x[:, 1:3],), ()) != kind_key(op, True, (x[:, 1:3].clone(),), ())
    assert kind_key(view, True, (x[1:3],), ()) != kind_key(view, True, (x[2:],), ())
