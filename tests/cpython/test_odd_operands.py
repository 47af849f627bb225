"""What is no tensor where one belongs: native code reads slots of a class without a look at the class.

Python's form says so by an AttributeError, where native code would read memory behind the object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jitgrad as jg
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import OPS
from jitgrad.runtime.eager import direct, direct_writes
from jitgrad.state import state
from jitgrad.tracer.hits import hits, update_hits, write_hits
from jitgrad.tracer.hits.hits import MISSED

ODD = ([], (), "x", None, object(), 1.5, 7, {}, jg.Tensor)


def _calls(op: str, x: Any) -> list[Callable[[], Any]]:
    tensor, entry = jg.ones(3), OPS[op]
    both = [(x, tensor), (tensor, x), (x, x)] if entry.num_inputs == 2 else [(x,)]
    apply = [
        lambda args=args, form=form: form(entry, args)
        for form in (direct.apply_now, hits.through_door)
        for args in both
    ]
    write = [
        lambda args=args, form=form: form(entry, args[:1], args)
        for form in (direct_writes.write_now, write_hits.write_through_door)
        for args in both
        if not isinstance(args[0], jg.Tensor)
    ]
    update = [
        lambda row=row, form=form: form(OPS["_sgd_update"], [row], (0,), (0.1,), (0.0, False), ())
        for form in (direct_writes.update_now, update_hits.update_through_door)
        for row in ((x, tensor), (tensor, x))
    ]
    return [*apply, *write, *update]


def _refused_or_right(op: str) -> None:
    for x in ODD:
        for call in _calls(op, x):
            try:
                result = call()
            except TypeError:
                continue
            assert result is MISSED or (type(x) in (float, int) and isinstance(result, jg.Tensor))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's form is asked what native code is asked."""
    monkeypatch.setattr(direct, "active", lambda: direct.here.here)
    for module in (hits, write_hits, update_hits):
        monkeypatch.setattr(module, "active", lambda: state.handler)


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("op", ["tan", "add", "copy"])
def test_no_slot_of_it_is_read(op: str) -> None:
    _refused_or_right(op)


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("op", ["tan", "add", "copy"])
def test_no_slot_of_it_is_read_in_a_step(op: str) -> None:
    jg.compile(lambda: _refused_or_right(op))()


def test_shape_rules_make_layouts_of_nothing_else() -> None:
    """A trace that had a value without a layout crashed at the segment's end."""
    OPS.load()
    for op in map(OPS.__getitem__, sorted(OPS)):
        for x in ODD:
            try:
                made = op.aval(*[x] * max(op.num_inputs, 1))
            except (AttributeError, TypeError, ValueError, IndexError, KeyError, RuntimeError):
                continue
            results = made if isinstance(made, tuple) else (made,)
            assert all(isinstance(result, Aval) for result in results), op.name


@pytest.mark.parametrize("call", [jg.detach, jg.tan_, jg.square_, lambda x: jg.clamp_(x, 0, 1), jg.nn.functional.elu_])
def test_native_code_raises_what_python_does(call: Callable[[Any], Any]) -> None:
    """A number is an operand like any other, but nothing is written into one."""
    y = jg.ones(3)
    for _ in range(3000):
        y.add_(1)
    compiled = jg.compile(call)
    for x in ODD:
        for function in (call, compiled, compiled):
            with pytest.raises(TypeError):
                function(x)
