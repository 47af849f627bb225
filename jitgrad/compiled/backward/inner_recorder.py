"""Recording what the derivative rules compute.

Owns: ``InnerRecorder``: the recorder while the engine runs inside a trace.
Must not know: the trie (a whole backward is one event), the engine.
In: operations of the rules. Out: instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any, NoReturn

from jitgrad.door import door
from jitgrad.handler import Handler
from jitgrad.ops.aval import own_layout
from jitgrad.ops.table import Op
from jitgrad.runtime.eager.eager import split_args
from jitgrad.runtime.engine.graph.current import current_node
from jitgrad.state import switch_handler
from jitgrad.tensor_base import TensorBase, new_tensor
from jitgrad.tracer.recording.graph import Const, Instr, RuntimeScalar
from jitgrad.tracer.recording.history import ViewStep
from jitgrad.tracer.recording.shape_rules import kind_of
from jitgrad.user_line import is_called_from_outside
from jitgrad.version_counter import count_write

__all__ = ["CannotRecordError", "InnerRecorder", "symbolic_number"]


class CannotRecordError(Exception):
    """A rule did something that only eager execution can do, such as reading a value."""


class _SymbolicNumber:
    """A run-time scalar in the hands of a rule: it may meet tensors, but Python must not compute with its value."""

    slot: int


def _refuse(self: Any, *operands: Any) -> Any:
    if any(isinstance(o, TensorBase) for o in operands):
        return NotImplemented
    raise CannotRecordError("a rule computed with a number that is an argument of the program")


class _SymbolicFloat(_SymbolicNumber, float):
    pass


class _SymbolicInt(_SymbolicNumber, int):
    pass


_ARITHMETIC = (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow neg pos abs lt le gt ge eq ne "
    "bool float int round"
).split()
for _cls in (_SymbolicFloat, _SymbolicInt):
    for _name in _ARITHMETIC:
        setattr(_cls, f"__{_name}__", _refuse)
    _cls.__hash__ = object.__hash__  # type: ignore[method-assign]


def symbolic_number(value: int | float, slot: int) -> Any:
    """``value``, which is run-time scalar ``slot`` of the trace."""
    number = _SymbolicFloat(value) if isinstance(value, float) else _SymbolicInt(value)
    number.slot = slot
    return number


def _known(x: Any) -> Any:
    """An operand as shape rules may look at it: of an integer, they ask whether it fits into 64 bits."""
    return int.__index__(x) if type(x) is _SymbolicInt else x


def _origin() -> str:
    """The Node that is running, and the line of its forward."""
    node = current_node()
    if node is None:
        return ""
    place = getattr(node, "place", "")
    return f"{node.name()} of {place}" if place else node.name()


class InnerRecorder(Handler):
    """Collects instructions; every result is a pending handle of the same trace.

    Attributes:
        tid: of the trace.
        nodes: value id -> (Node, output number), for the graph being differentiated.
        instrs: recorded so far.
        consts: (value id, tensor): tensors that a rule made by itself.
        next_vid: first unused value id.
        views: value id -> the view that it is; the values themselves have no storage here.
        by_results: see ``BackwardEvent.by_results``.
        is_plain: a backward into leaves, not itself differentiable: then gradients may be sparse.
        origin: ``Instr.origin`` of what is recorded; None: that of the Node that is running.

    Args:
        saved_results: handles on what the Nodes have saved of their results.
        end: the code that has the rules run; rules call nothing outside jitgrad.
    """

    __slots__ = (
        "_end", "_graph", "_result_counters", "by_results", "consts", "instrs", "is_plain", "next_vid", "nodes",
        "origin", "tid", "views",
    )  # fmt: skip

    def __init__(
        self,
        outer: Any,
        nodes: dict[int, Any],
        saved_results: list[Any],
        first_vid: int,
        end: CodeType,
        is_plain: bool = False,
    ) -> None:
        self.tid = outer.tid
        self.is_plain = is_plain
        self._end = end
        self.nodes = nodes
        self.instrs: list[Instr] = []
        self.consts: list[tuple[int, Any]] = []
        self.views: dict[int, ViewStep] = {}
        self.by_results: set[tuple[int, int]] = set()
        self._result_counters = {id(h._vc): h._vc for h in saved_results}  # what is unpacked shares them
        self._graph = outer.graph
        self.next_vid = first_vid
        self.origin: str | None = None

    def refuse(self, what: str) -> NoReturn:
        raise CannotRecordError(f"in a derivative rule: {what}")

    def binary(self, op: Op, a: Any, b: Any) -> Any:
        if not isinstance(b, TensorBase | int | float | complex):
            return NotImplemented
        return self.apply(op, (a, b))

    def reflected(self, op: Op, number: int | float, x: Any) -> Any:
        return self.apply(op, (number, x))

    def apply(self, op: Op, args: tuple[Any, ...]) -> Any:
        """Append one instruction; what a signal handler does meanwhile is none (Note [Interrupts])."""
        if is_called_from_outside(self._end):
            return self._eagerly(door.apply, op, *args)
        inputs, params = split_args(op, args)
        operands = tuple([self._operand(x) for x in inputs])
        kind = kind_of(op, tuple([_known(x) for x in inputs]), params)
        seen, joins, first = kind.avals, kind.joins, self.next_vid
        # rules see views as eager ones are laid out; the values themselves have no storage here, so each is laid out
        # afresh
        avals = tuple([own_layout(a) for a in seen]) if op.is_view else seen
        in_avals = tuple([a if a is None else own_layout(a) for a in kind.in_avals])
        vids = tuple(range(first, first + len(avals))) if kind.several else (first,)
        self.next_vid = first + len(avals)
        if op.is_view:
            self.views.update((vid, ViewStep(operands[0], op, params, nr)) for nr, vid in enumerate(vids))
        origin = _origin() if self.origin is None else self.origin
        self.instrs.append(Instr(kind.op, operands, params, vids, avals, in_avals, joins, kind.needs, "", origin))
        if joins and self._result_counters:
            results = [isinstance(x, TensorBase) and id(x._vc) in self._result_counters for x in inputs]
            self.by_results.update((vids[0], nr) for nr, is_result in enumerate(results) if is_result)
        if not kind.several:
            return self.handle(vids[0], seen[0], joins)
        return tuple(self.handle(vid, a, joins, nr) for nr, (vid, a) in enumerate(zip(vids, seen, strict=True)))

    @staticmethod
    def _eagerly(function: Callable[..., Any], *args: Any) -> Any:
        handler = switch_handler(None)
        try:
            return function(*args)
        finally:
            switch_handler(handler)

    def handle(self, vid: int, aval: Any, joins: bool = False, nr: int = 0) -> Any:
        """A handle on a value; ``joins``: it has a graph, of which it is result ``nr``."""
        out = new_tensor(aval, None)
        out._tid, out._vid = self.tid, vid
        out._output_nr = nr
        if joins and aval.dtype.is_inexact:
            out._requires_grad = True
            out._graph = self._graph
        return out

    def _operand(self, x: Any) -> Any:
        if isinstance(x, TensorBase):
            return x._vid if x._tid == self.tid else self.enter(x)
        if isinstance(x, _SymbolicNumber):
            return RuntimeScalar(x.slot, isinstance(x, float))
        return Const(x)

    def source_of(self, vid: int) -> tuple[int, tuple[ViewStep, ...]]:
        """(the value id of what a value is a view of, the views); a value that is none: (itself, nothing)."""
        steps: list[ViewStep] = []
        while vid in self.views:
            steps.append(self.views[vid])
            vid = steps[-1].source
        return vid, tuple(reversed(steps))

    def enter(self, tensor: Any) -> int:
        """A tensor that a rule made eagerly: the same in every call, so it is kept with the event."""
        if tensor._storage is None or tensor._requires_grad:
            raise CannotRecordError("a rule used a tensor from outside the trace")
        vid = self.next_vid
        self.next_vid += 1
        self.consts.append((vid, tensor))
        tensor._tid, tensor._vid = self.tid, vid
        return vid

    def apply_inplace(self, op: Op, targets: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Accumulation into ``.grad``: the target moves on to the sum; the event remembers the write."""
        if is_called_from_outside(self._end):
            return self._eagerly(door.apply_inplace, op, targets, *args)
        results = self.apply(op, args)
        results = results if isinstance(results, tuple) else (results,)
        for target, result in zip(targets, results, strict=True):
            if target._aval.shape != result._aval.shape or target._aval.dtype is not result._aval.dtype:
                raise CannotRecordError("accumulation changes shape or dtype")
            target._vid = result._vid
            count_write(target)
        return targets

    def grad_fn_of(self, tensor: Any) -> Any:
        """The Node of a value of the graph being differentiated."""
        found = self.nodes.get(tensor._vid)
        if found is None:
            raise CannotRecordError("a rule looked at the graph of a value it has just computed")
        return found[0]

    def set_grad_mode(self, enabled: bool) -> None:
        """Rules run in the mode the engine chose; instructions carry their own flag."""

    def read(self, tensor: Any) -> None:
        if tensor._tid == self.tid:
            raise CannotRecordError("a rule read a value")

    def makes_sparse(self) -> None:
        if not self.is_plain:
            self.refuse("a sparse gradient")
