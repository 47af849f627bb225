"""``watch_nan``: the first operation that makes a NaN, eagerly or in a compiled step.

Owns: ``watch_nan``, ``NonFiniteError``.
Must not know: how segments are run.

PyTorch's ``detect_anomaly(check_nan=True)`` looks at gradients, in the backward, and eagerly. ``watch_nan`` looks at
every operation, and keeps compiled steps compiled: only what a segment hands out is looked at. If that has a NaN, the
segment is computed again from copies of what it read, operation by operation by NumPy's rules, up to the first that
makes one out of operands without. Storages that the segment has written get their contents back, so that a training run
can go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from jitgrad.checking.array_facts import facts_of, widened
from jitgrad.checking.eager_log import array_of, watch_operations
from jitgrad.checking.reference import operands_of, run_rule, what_is, where_is
from jitgrad.checking.segment_runs import SegmentWatch, bytes_of, laid_out, observing
from jitgrad.errors import JitgradError
from jitgrad.ops.table import Op
from jitgrad.runtime.engine.graph.current import current_node
from jitgrad.tracer.recording.graph import Segment
from jitgrad.user_line import user_line, warn_user

__all__ = ["NonFiniteError", "watch_nan"]

_NO_NUMBERS = frozenset("empty empty_like empty_strided new_empty".split())
"""Operations whose results are memory that was not written yet."""


class NonFiniteError(JitgradError, FloatingPointError):
    """An operation has made a NaN (or an infinity, if those are watched).

    Attributes:
        operation: its name.
        where: ``file:line`` of the statement; of a backward, of its forward.
    """

    def __init__(self, text: str, operation: str, where: str) -> None:
        super().__init__(text)
        self.operation, self.where = operation, where


@contextmanager
def watch_nan(action: str = "raise", infinity: bool = False) -> Iterator[None]:
    """Inside the block, report the first operation that makes a NaN: its name, its line, its operands.

    Of the whole process, in eager and in compiled code. A compiled step costs one look at each of its results and a
    copy of what it reads. When it raises, what a compiled segment has written (parameters, buffers) is put back;
    what came before that segment has happened.

    Args:
        action: ``"raise"`` a ``NonFiniteError``, or ``"warn"`` and go on.
        infinity: infinities count, too. Masks of attention are often made of them, so they do not by default.

    Raises:
        ValueError: another action.
        RuntimeError: a profiler or ``verify`` is active.
    """
    if action not in ("raise", "warn"):
        raise ValueError(f"action must be 'raise' or 'warn', not {action!r}")
    watch = _Watch(action, infinity)
    with observing(SegmentWatch(watch.segment)), watch_operations(watch.operation):
        yield


class _Watch:
    """What looks at results, and reports."""

    def __init__(self, action: str, infinity: bool) -> None:
        self._raises = action == "raise"
        self._is_bad: Callable[[Any], Any] = (lambda x: ~np.isfinite(x)) if infinity else np.isnan
        self._looks = False

    def _has_bad(self, array: Any) -> bool:
        if not isinstance(array, np.ndarray | np.generic):
            return False
        values = widened(array)
        return values.dtype.kind in "fc" and bool(self._is_bad(values).any())

    def operation(self, op: Op, operands: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        """An operation has run eagerly."""
        if op.is_view or op.name in _NO_NUMBERS:
            return
        for nr, result in enumerate(results):
            array = array_of(result)
            if array is None or not self._has_bad(array):
                continue
            inputs = [x if type(x) in (int, float) else array_of(x) for x in operands]
            if any(result is x for x in operands) or not any(self._has_bad(x) for x in inputs if x is not None):
                node, place = current_node(), user_line()
                origin = "" if node is None else f", in the backward, {node.name()}"
                self._report(op.name, place, f"{op.name} at {place}{origin}", nr, array, inputs)
            return

    def segment(self, recorder: Any, event: Any, run: Callable[[], Any]) -> Any:
        """A segment of a compiled step runs."""
        segment: Segment = event.segment
        before = recorder.buffers
        memory = {vid: bytes_of(before[vid], aval) for vid, aval in segment.inputs.items()}
        result = run()
        after = recorder.buffers
        avals = {vid: aval for i in segment.instrs for vid, aval in zip(i.outputs, i.avals, strict=True)}
        made = [after[vid].array(segment.stored_aval(vid, avals[vid])) for vid in segment.outputs if vid in avals]
        written = [(before[owner].array(segment.inputs[owner]), owner) for _, owner in segment.writes]
        if any(map(self._has_bad, [*made, *(array for array, _ in written)])):
            self._find(segment, memory, list(recorder.scalars), written)
        return result

    def _find(self, segment: Segment, memory: dict[int, Any], scalars: list[Any], written: list[Any]) -> None:
        inputs = {vid: laid_out(memory[vid], aval) for vid, aval in segment.inputs.items()}
        values = dict(inputs)
        for instr in segment.instrs:
            operands = operands_of(instr, values, scalars)
            results = run_rule(instr, operands)
            values.update(zip(instr.outputs, results, strict=True))
            bad = [nr for nr, r in enumerate(results) if self._has_bad(r)]
            if bad and not instr.op.is_view and not any(map(self._has_bad, operands)):
                if self._raises:
                    for array, owner in written:
                        array[...] = inputs[owner]
                self._report(instr.op.name, where_is(instr), what_is(instr), bad[0], results[bad[0]], operands)
                return

    def _report(self, name: str, where: str, what: str, nr: int, array: Any, operands: Sequence[Any]) -> None:
        at = tuple(int(i) for i in np.argwhere(self._is_bad(widened(array)))[0])
        lines = [f"{what} made {facts_of(array)}; the first is at {at}" + (f" of result {nr}" if nr else "")]
        for number, x in enumerate(operands):
            shown = "on a device" if x is None else repr(x) if type(x) in (int, float) else str(facts_of(x))
            lines.append(f"  operand {number}: {shown}")
        text = "\n".join(lines)
        if self._raises:
            raise NonFiniteError(text, name, where)
        warn_user(text)
