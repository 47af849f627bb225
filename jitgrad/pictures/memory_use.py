"""How much memory a step uses, statement by statement, and what holds it.

Owns: ``memory_use``, ``MemoryUse``.
Must not know: where memory comes from.
In: a step and its arguments. Out: what there was before, a curve over the step, what there is at its peak and after it.

Memory is followed by weak references to what owns it (a storage, or the array of an eager result), so the step keeps
and frees what it always does. Of a compiled step the values between kernels are those that its plan puts into the
arena. Not counted are Python's own objects, machine code, and arrays that a NumPy rule makes and frees in itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any
from weakref import ref

import numpy as np

from jitgrad.checking.eager_log import watch_operations
from jitgrad.checking.segment_runs import SegmentWatch, observing
from jitgrad.checking.step_state import reached_tensors
from jitgrad.lazy import LazyModule
from jitgrad.ops.table import Op
from jitgrad.report.tables import Report, Table
from jitgrad.report.units import nbytes_text
from jitgrad.runtime.engine.graph.current import current_node
from jitgrad.runtime.engine.graph.saved_variable import SavedVariable
from jitgrad.runtime.storage.storage import storage_behind
from jitgrad.storage_base import StorageBase
from jitgrad.tensor_base import TensorBase
from jitgrad.user_line import user_line

__all__ = ["Held", "MemoryUse", "Moment", "memory_use"]

_pyplot: Any = LazyModule("matplotlib.pyplot")
_temporaries: Any = LazyModule("jitgrad.compiled.temporaries")
_SHOWN = 12
"""So many rows of a table; the rest is one row."""


@dataclass(frozen=True, slots=True)
class Held:
    """A piece of memory.

    Attributes:
        what: the name of the tensor that has it, as ``model.0.weight.grad``; else the operation that has made it.
        where: ``file:line`` of that operation; empty of what was there before the step.
        by: what holds it: the Node that saved it, the last kernel that reads it; empty: names and containers do.
        nbytes: its size.
    """

    what: str
    where: str
    by: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment of the step.

    Attributes:
        what: the operation that has just run; of a compiled step, the kernels that run together.
        where: ``file:line`` of it.
        nbytes: of all memory that the step has made, or could reach before, and that is still there.
    """

    what: str
    where: str
    nbytes: int


@dataclass(frozen=True)
class MemoryUse(Report):
    """What ``memory_use`` returns.

    Attributes:
        before: what the step could reach before it ran: parameters, gradients, moments, arguments. Some of it may be
            gone at the peak, as old gradients are.
        moments: the curve.
        at_peak: what the step had made and was still there when there was most, the largest first.
        after: what the step has made and left behind: its result, gradients, state.
        arena_nbytes: of compiled segments, the largest block in which values between kernels lie; 0 of an eager step.
        result: what the step returned.
    """

    before: list[Held]
    moments: list[Moment]
    at_peak: list[Held]
    after: list[Held]
    arena_nbytes: int
    result: Any

    @property
    def before_nbytes(self) -> int:
        """Bytes before the step: the baseline of the curve."""
        return sum(x.nbytes for x in self.before)

    @property
    def peak_nbytes(self) -> int:
        """The most that there was at once, what was there before included."""
        return max(self.before_nbytes, max((m.nbytes for m in self.moments), default=0))

    @property
    def peak(self) -> Moment | None:
        """When that was; None: the step has made nothing."""
        return max(self.moments, key=lambda m: m.nbytes, default=None)

    def tables(self) -> list[Table]:
        """Before, at the peak, and after."""
        return [
            _table(f"before the step: {nbytes_text(self.before_nbytes)}", self.before),
            _table(f"at the peak, made by the step: {nbytes_text(sum(x.nbytes for x in self.at_peak))}", self.at_peak),
            _table(f"left by the step: {nbytes_text(sum(x.nbytes for x in self.after))}", self.after),
        ]

    def notes(self) -> list[str]:
        """When the peak was, and who made most of it."""
        peak = self.peak
        if peak is None or not self.at_peak:
            return ["The step makes no tensors."]
        found = [f"The peak, {nbytes_text(self.peak_nbytes)}, is at {peak.what} ({peak.where or 'no line'})."]
        lines: dict[str, int] = {}
        for x in self.at_peak:
            lines[x.where] = lines.get(x.where, 0) + x.nbytes
        line = max(lines, key=lambda where: lines[where])
        share = 100 * lines[line] / max(1, sum(lines.values()))
        found.append(f"{share:.0f}% of what the step has made until then comes from {line or 'no line of the step'}.")
        if self.arena_nbytes:
            found.append(f"Values between kernels lie in one block of {nbytes_text(self.arena_nbytes)}.")
        return found

    def to_json(self) -> dict[str, Any]:
        """Everything but the result."""
        parts = {name: [asdict(x) for x in getattr(self, name)] for name in ("before", "moments", "at_peak", "after")}
        sizes = {name: getattr(self, name) for name in ("before_nbytes", "peak_nbytes", "arena_nbytes")}
        return {**sizes, **parts, "notes": self.notes()}

    def plot(self, path: Any = None) -> Any:
        """The curve over the step, on what was there before, with the largest pieces of the peak.

        Args:
            path: a file to write it to; None: just return it.

        Returns:
            The matplotlib figure. ImportError without matplotlib.
        """
        figure, axes = _pyplot.subplots(figsize=(9, 4), layout="constrained")
        unit = 1 << 20
        base = self.before_nbytes / unit
        numbers = range(len(self.moments))
        heights = [m.nbytes / unit for m in self.moments]
        axes.fill_between(numbers, 0, heights, step="mid", color="lightblue", label="memory")
        axes.axhline(base, color="grey", label="before the step")
        if heights:
            top = max(numbers, key=lambda nr: heights[nr])
            largest = "\n".join(f"{nbytes_text(x.nbytes)} {x.what}" for x in self.at_peak[:4])
            axes.plot([top], [heights[top]], "o", color="tab:blue", label=f"peak: {self.moments[top].what}\n{largest}")
        axes.set_xlabel("operations, or stages of kernels")
        axes.set_ylabel("MiB")
        figure.legend(fontsize="small", loc="outside lower center", ncols=3)
        if path is not None:
            figure.savefig(path, dpi=150)
            _pyplot.close(figure)
        return figure


def _table(title: str, held: list[Held]) -> Table:
    rows = [[x.what, nbytes_text(x.nbytes), x.where.rpartition("/")[2], x.by] for x in held[:_SHOWN]]
    if len(held) > _SHOWN:
        rows.append([f"{len(held) - _SHOWN} more", nbytes_text(sum(x.nbytes for x in held[_SHOWN:])), "", ""])
    return Table(title, ["what", "size", "line", "held by"], rows)


def memory_use(step: Callable[..., Any], *args: Any, **kwargs: Any) -> MemoryUse:
    """Run a step once, eager or compiled, and say how much memory it uses and what holds it.

    Args:
        step: a function of the user's; a compiled one is run as it is, so call it some times before.
        args, kwargs: its arguments.

    Raises:
        RuntimeError: a profiler, ``verify`` or ``watch_nan`` is active.
    """
    ledger = _Ledger()
    ledger.begin(step, args, kwargs)
    before = [Held(x.what, "", "", x.nbytes) for x in ledger.entries.values()]
    with observing(SegmentWatch(ledger.segment)), watch_operations(ledger.operation):
        result = step(*args, **kwargs)
    names: dict[int, str] = {}
    for name, tensor in reached_tensors(step, args, kwargs, result):
        names.setdefault(id(memory_of(tensor)), name)
    at_peak = [ledger.held(entry, names) for entry in ledger.at_peak]
    at_peak += [Held(t.what, _place(t.where), f"until {t.until}", t.nbytes) for t in ledger.temporaries_at_peak]
    after = [ledger.held(entry, names) for entry in ledger.entries.values() if not entry.is_before]
    largest_first: Any = lambda held: sorted(held, key=lambda x: -x.nbytes)  # noqa: E731
    return MemoryUse(
        largest_first(before), ledger.moments, largest_first(at_peak), largest_first(after), ledger.arena_nbytes, result
    )


def memory_of(x: Any) -> Any:
    """What owns the memory of a tensor on the CPU, or of an array: a storage or an array; None: there is no such."""
    if isinstance(x, TensorBase):
        if x.is_sparse or x._aval.device.type != "cpu":
            return None
        x = x._storage if x._array is None else x._array
    while True:
        if isinstance(x, np.ndarray):
            owner: Any = x.base if isinstance(x.base, np.ndarray) else storage_behind(x)
        elif isinstance(x, StorageBase):
            owner = x.owner if isinstance(x.owner, StorageBase | np.ndarray) else None
        else:
            return None
        if owner is None:
            return x
        x = owner


class _Entry:
    """A piece of memory that the step has made, or that was there before."""

    __slots__ = ("by", "ident", "is_alive", "is_before", "nbytes", "what", "where")

    def __init__(self, ident: int, what: str, where: str, nbytes: int, is_before: bool) -> None:
        self.ident, self.what, self.where, self.nbytes, self.is_before = ident, what, where, nbytes, is_before
        self.by: dict[str, None] = {}
        self.is_alive = True


class _Ledger:
    """What is alive, and what was when there was most.

    Attributes:
        entries: what is alive, by a serial number.
        moments: see ``MemoryUse``.
        at_peak: what the step had made and was alive at the peak.
        temporaries_at_peak: what lay in the arena then.
        arena_nbytes: the largest arena.
    """

    def __init__(self) -> None:
        self.entries: dict[int, _Entry] = {}
        self.moments: list[Moment] = []
        self.at_peak: list[_Entry] = []
        self.temporaries_at_peak: tuple[Any, ...] = ()
        self.arena_nbytes = 0
        self._known: dict[int, tuple[Any, _Entry]] = {}
        self._serial = count()
        self._peak_nbytes = 0

    def begin(self, step: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note what there is before the step; nothing of it is kept, as the step may free it."""
        for name, tensor in reached_tensors(step, args, kwargs):
            self.note(tensor, name, "", is_before=True)

    def operation(self, op: Op, operands: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        """An operation has run eagerly; an operand may be memory that no operation has made, as random numbers are."""
        node, where = current_node(), user_line()
        what = op.name if node is None else f"{op.name} of {node.name()}"
        for x in operands:
            if isinstance(x, TensorBase):
                self.note(x, f"an operand of {what}", where)
        for x in results:
            if isinstance(x, TensorBase):
                self.note(x, what, where)
                self._note_saved(x, where)
        self._moment(list(self.entries.values()), what, where)

    def segment(self, recorder: Any, event: Any, run: Callable[[], Any]) -> Any:
        """A segment of a compiled step runs: its results have memory from its beginning, temporaries by its stages."""
        segment, before = event.segment, list(self.entries.values())
        result = run()
        made = {vid: i for i in segment.instrs for vid in i.outputs}
        for vid in segment.outputs:
            if vid in made:
                instr = made[vid]
                name = instr.op.name if instr.where else f"{instr.op.name}'"
                entry = self.note(recorder.buffers.get(vid), name, _place(instr.where or instr.origin or ""))
                before += [entry] if entry is not None else []
        for stage in _temporaries.stages_of(segment, event.program.program):
            self.arena_nbytes = max(self.arena_nbytes, stage.arena_nbytes)
            self._moment(before, stage.what, _place(stage.where), stage.temporaries)
        self._moment(list(self.entries.values()), "the end of a segment", user_line())
        return result

    def held(self, entry: _Entry, names: dict[int, str]) -> Held:
        """What to say of an entry; ``names`` has names of what is still there, by identity."""
        name = names.get(entry.ident, entry.what) if entry.is_alive else entry.what
        return Held(name, entry.where, ", ".join(entry.by), entry.nbytes)

    def note(self, x: Any, what: str, where: str, is_before: bool = False) -> _Entry | None:
        """The entry of a tensor's memory, a new one if it is not known; None: it has no memory here."""
        memory = memory_of(x)
        if memory is None:
            return None
        found = self._known.get(id(memory))
        if found is not None and found[0]() is memory:
            return found[1]
        serial = next(self._serial)
        entry = self.entries[serial] = _Entry(id(memory), what, where, memory.nbytes, is_before)
        self._known[id(memory)] = ref(memory, lambda _: self._gone(serial)), entry
        return entry

    def _gone(self, serial: int) -> None:
        self.entries.pop(serial).is_alive = False

    def _note_saved(self, result: Any, where: str) -> None:
        """What the result's Node has saved is held by it."""
        node = result._grad_fn
        for x in getattr(node, "saved", None) or ():
            tensor = x.tensor if type(x) is SavedVariable else x
            if isinstance(tensor, TensorBase):
                entry = self.note(tensor, f"saved by {node.name()}", where)
                if entry is not None:
                    entry.by[node.name()] = None

    def _moment(self, alive: list[_Entry], what: str, where: str, temporaries: tuple[Any, ...] = ()) -> None:
        nbytes = sum(x.nbytes for x in alive) + sum(x.nbytes for x in temporaries)
        self.moments.append(Moment(what, where, nbytes))
        if nbytes > self._peak_nbytes:
            self._peak_nbytes, self.temporaries_at_peak = nbytes, temporaries
            self.at_peak = [x for x in alive if not x.is_before]


def _place(line: str) -> str:
    """``file:line`` of what may begin with a Node's name; empty if there is none."""
    place = line.rpartition(" of ")[2]
    return place if place.rpartition(":")[2].isdigit() else ""
