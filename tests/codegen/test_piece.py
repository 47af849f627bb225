"""Segments around operations without a lowering."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitgrad.abi import EagerStep, NativeStep
from jitgrad.codegen.pipeline import compile_segment
from jitgrad.dtypes import float32
from jitgrad.errors import CompileError
from jitgrad.ops.aval import make_aval
from jitgrad.ops.table import Op
from jitgrad.tracer.recording.graph import Instr, Segment

AVAL = make_aval((4, 5), float32)


def op(name: str, lower: Any) -> Op:
    return Op(name, aval=lambda *a: AVAL, numpy=lambda x: np.flip(x), lower=lower)


DOUBLE = op("double", lambda b, x: b.mul(x, 2.0))
STRANGE = op("strange", None)


def instr(which: Op, source: int, out: int) -> Instr:
    return Instr(which, (source,), (), (out,), (AVAL,), (AVAL,))


def test_an_operation_without_lowering_cuts_the_segment() -> None:
    instrs = [instr(DOUBLE, 0, 1), instr(STRANGE, 1, 2), instr(DOUBLE, 2, 3)]
    program = compile_segment(Segment(instrs, {0: AVAL}, (3,), ((1, 0),)))
    first, middle, last = program.steps
    assert isinstance(first, NativeStep) and isinstance(middle, EagerStep) and isinstance(last, NativeStep)
    assert first.inputs == (0,) and first.outputs == ((1, 80),)
    assert "strange has no lowering" in middle.reason
    assert set(last.inputs) == {0, 1, 2} and last.outputs == ((3, 80),)
    assert program.outputs == ((3, 80),)


def test_only_an_eager_operation() -> None:
    program = compile_segment(Segment([instr(STRANGE, 0, 1)], {0: AVAL}, (1,)))
    assert [type(step) for step in program.steps] == [EagerStep]


def test_write_of_an_eager_result() -> None:
    program = compile_segment(Segment([instr(STRANGE, 0, 1)], {0: AVAL}, (), ((1, 0),)))
    assert [type(step) for step in program.steps] == [EagerStep, NativeStep]


def test_a_broken_lowering_is_a_compile_error() -> None:
    broken = op("broken", lambda b, x: b.no_such_primitive(x))
    with pytest.raises(CompileError, match="no_such_primitive"):
        compile_segment(Segment([instr(broken, 0, 1)], {0: AVAL}, (1,)))


def test_text_and_notes_for_explain() -> None:
    program = compile_segment(Segment([instr(DOUBLE, 0, 1)], {0: AVAL}, (1,)))
    (name,) = program.kernel_names
    assert "define void" in program.text[name]
