"""A recorded path for all extents: what each of its events would be if inputs had others.

Owns: ``derived``: the events with symbolic layouts.
Must not know: how paths are copied, when this is worth it.
In: two paths of a function that differ in extents, and the recorder of the second. Out: ``DerivedPath``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgrad.abi import Program
from jitgrad.compiled.backward.backward import Reach
from jitgrad.compiled.backward.inner_recorder import InnerRecorder
from jitgrad.compiled.backward.rule_sweep import NeedsNodesError, sweep
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import Aval, make_aval, own_layout
from jitgrad.ops.table import Op
from jitgrad.ops.value_checks import demands
from jitgrad.runtime.engine.run.request import BackwardRequest
from jitgrad.state import switch_handler
from jitgrad.structs import replaced
from jitgrad.symbols.number import ShapeEnv, SymNumber, is_symbolic, value_of
from jitgrad.tracer.recording.graph import Const, Instr, RuntimeScalar, Segment
from jitgrad.tracer.recording.history import (
    RETURNED,
    BackwardEvent,
    EndEvent,
    History,
    InputEvent,
    LeafEvent,
    OpEvent,
    PlainEvent,
    Returned,
    UpdateEvent,
)
from jitgrad.tracer.recording.keys import BACKWARD, GRADS
from jitgrad.tracer.recording.numbers import number_key
from jitgrad.tracer.recording.slots import fresh_handle, twin_of
from jitgrad.tracer.recording.trie import TrieNode

__all__ = ["DerivedPath", "NoPathError", "Row", "derived", "flat", "given_numbers", "has_symbols", "layout_numbers",
           "operation_of", "valued", "with_given"]

_ranges: Any = LazyModule("jitgrad.tracer.recording.ranges")
_pipeline: Any = LazyModule("jitgrad.codegen.pipeline")


_STEPS = (2, 3, 4)
"""Of windows over an extent that a program computes with itself."""


class NoPathError(Exception):
    """The path cannot be derived: the events, or what they hold, depend on more than can be followed."""


class Row(NamedTuple):
    """One event.

    Attributes:
        node: where it was recorded.
        event: with symbolic layouts; the recorded one where nothing changes.
        aval: of the node's result, likewise; None if the node has none.
        given: of an operation whose params or numbers depend on extents: its operands and params; else None.
    """

    node: TrieNode
    event: Any
    aval: Aval | None
    given: tuple[Any, ...] | None


class DerivedPath(NamedTuple):
    """A path for all extents.

    Attributes:
        env: the symbols, and the guards under which the path is this one.
        rows: from the first input that differs to the end of the call.
        program: of its segment, with symbolic numbers; None if it computes nothing.
    """

    env: ShapeEnv
    rows: list[Row]
    program: Program | None


def derived(nodes: Sequence[TrieNode], others: Sequence[TrieNode], recorder: Any) -> DerivedPath:
    """The path for all extents.

    Args:
        nodes: a path that the recorder has just recorded, from its first new event to its end.
        others: one that a call recorded whose inputs had other extents.
        recorder: of the first one's call.

    Raises:
        NoPathError: it cannot be derived.
        Whatever shape rules, derivative rules or planning raise.
    """
    if len(nodes) != len(others) or type(nodes[-1].event) is not EndEvent:
        raise NoPathError("the paths have other events")
    made = _Derivation(nodes, recorder)
    with made.env:
        for node, other in zip(nodes, others, strict=True):
            made.add(node, other)
    return DerivedPath(made.env, made.rows, made.program)


def given_numbers(event: Any) -> tuple[Any, ...]:
    """The numbers that a call gives an event: the layout of an input, the params of an operation."""
    if type(event) is InputEvent:
        return layout_numbers(event.aval)
    if type(event) not in (PlainEvent, OpEvent):
        return ()
    numbers = [x.value for x in event.instr.inputs if type(x) is Const]
    return (*numbers, *flat(event.instr.params))


def flat(params: Any) -> tuple[Any, ...]:
    """The numbers in params, and whatever else there is, one after another."""
    return tuple([y for x in params for y in flat(x)]) if isinstance(params, tuple) else (params,)


def layout_numbers(aval: Aval) -> tuple[Any, ...]:
    """The integers of a layout: those of a row-major one are its shape."""
    return aval.shape if aval.is_canonical and not aval.offset else (*aval.shape, *aval.stride, aval.offset)


def operation_of(key: Any) -> tuple[Op, tuple[Any, ...], tuple[Any, ...]] | None:
    """(Operation, operands, params) of a key of the usual form."""
    if type(key) is tuple and len(key) == 2 and type(key[0]) is tuple:  # other types of params mean something else
        key = key[0]
    return key if type(key) is tuple and len(key) == 3 and isinstance(key[0], Op) else None


def with_given(key: Any, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """The key of an operation with other numbers and params of the same types.

    Raises:
        NoPathError: it has a form that only few operations have.
    """
    known = operation_of(key)
    if known is None:
        raise NoPathError(f"a key of an unusual form, {key}")
    ids = tuple([
        (number_key(x.value), type(x.value)) if type(x) is Const else i for i, x in zip(known[1], inputs, strict=True)
    ])
    found = (known[0], ids, params)
    return found if key is known else (found, key[1])


class _Derivation:
    def __init__(self, nodes: Sequence[TrieNode], recorder: Any) -> None:
        self.env = ShapeEnv()
        self.rows: list[Row] = []
        self.program: Program | None = None
        self._recorder = recorder
        self._nodes = nodes
        assert nodes[0].parent is not None
        self._history = History.replay(nodes[0].parent)
        self._symbols: dict[int, tuple[int, SymNumber]] = {}  # value here -> (value there, symbol)
        self._known: dict[int, list[SymNumber]] = {}  # value here -> what is known to have it

    def add(self, node: TrieNode, other: TrieNode) -> None:
        """The next event."""
        if type(node.event) is not type(other.event):
            raise NoPathError("an event of another kind")
        kind = type(node.event)
        if kind is InputEvent:
            self._input(node, other)
            return
        given = None
        if kind in (PlainEvent, OpEvent):
            event, given = self._operation(node, other)
        elif node.key != other.key:
            raise NoPathError(f"an event with another key, {node.key}")
        elif kind is EndEvent:
            event = self._end(node)
        elif kind is BackwardEvent:
            event = self._backward(node, other.event)
        elif kind is UpdateEvent:
            event = self._update(node)
        elif node.event is None or kind in (Reach, LeafEvent):
            event = node.event
        else:
            raise NoPathError(f"a {kind.__name__}")
        if event is not None:
            event.replay(self._history)
        self.rows.append(Row(node, event, self._aval_of(node), given))

    def _aval_of(self, node: TrieNode) -> Aval | None:
        if node.aval is None:
            return None
        return _alike(self._history.aval_of(node.vid), node.aval)

    # inputs
    def _input(self, node: TrieNode, other: TrieNode) -> None:
        mine, theirs = node.event, other.event
        if mine.kind is not theirs.kind or len(node.key) != 3 or len(other.key) != 3:
            raise NoPathError("an input with another part in the graph")
        event = InputEvent(mine.vid, self._layout(mine.aval, theirs.aval), mine.kind)
        event.replay(self._history)
        self.rows.append(Row(node, event, None, None))

    def _layout(self, mine: Aval, theirs: Aval) -> Aval:
        """A layout whose differing integers are symbols."""
        if mine is theirs:
            return mine
        pairs = list(zip(layout_numbers(mine), layout_numbers(theirs), strict=False))
        flags = [(a.dtype, a.ndim, a.is_canonical, a.is_contiguous, bool(a.offset)) for a in (mine, theirs)]
        if flags[0] != flags[1]:
            raise NoPathError("an input that is laid out otherwise")
        numbers = tuple([self._extent(n, m) for n, m in pairs])
        rank = mine.ndim
        made = make_aval(numbers[:rank], mine.dtype, *((numbers[rank:-1], numbers[-1]) if numbers[rank:] else ()))
        if (made.is_canonical, made.is_contiguous) != (mine.is_canonical, mine.is_contiguous):
            raise NoPathError("a layout that would be another")
        self._note(made)
        return made

    def _extent(self, n: int, other: int) -> Any:
        if n == other:
            return n
        if n < 2 or other < 2:
            raise NoPathError("an extent of 0 or 1")
        known = self._symbols.get(n)
        if known is None:
            known = self._symbols[n] = other, self.env.symbol(n)
        if known[0] != other:
            raise NoPathError("two extents that are equal by chance")
        return known[1]

    def _note(self, aval: Aval) -> None:
        """Extents that params may be made of."""
        numbers: tuple[Any, ...] = (*aval.shape, aval.numel)
        for x in numbers:
            if is_symbolic(x) and not any(x is y for y in self._known.setdefault(x.value, [])):
                self._known[x.value].append(x)

    # operations
    def _operation(self, node: TrieNode, other: TrieNode) -> tuple[Any, tuple[Any, ...] | None]:
        """(The event; its operands and params, if these depend on extents)."""
        event, instr = node.event, node.event.instr
        theirs: Instr = other.event.instr
        params = self._params(instr.params, theirs.params)
        inputs = self._operands(instr.inputs, theirs.inputs)
        given = (inputs, params) if has_symbols(params) or inputs is not instr.inputs else None
        if (node.key if given is None else with_given(node.key, theirs.inputs, theirs.params)) != other.key:
            raise NoPathError(f"an operation with another key, {node.key} and {other.key}")
        if any([look.position < 0 for look in event.demands]):
            raise NoPathError("a look at older values")
        if instr.op.checks_values:
            self._check_demands(event, instr, params)
        made: dict[int, Aval] = {}
        own = instr if inputs is instr.inputs else replaced(instr, inputs=inputs)
        instrs = tuple([self._instr(*((own, params) if i is instr else (i, i.params)), made) for i in event.instrs])
        places = [n for n, i in enumerate(event.instrs) if i is instr]
        if not places:
            raise NoPathError("an operation that is not among its instructions")
        if all(a is b for a, b in zip(instrs, event.instrs, strict=True)):
            return event, None
        if type(event) is PlainEvent:
            return PlainEvent(instrs[0], event.several, event.ends_segment), given
        passed = None if event.passed is None else [None] * len(event.passed)
        return replaced(event, instr=instrs[places[0]], instrs=instrs, passed=passed), given

    def _operands(self, mine: tuple[Any, ...], theirs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Operands; an integer among them that differs is an extent, as in ``x / len(x)``."""
        if len(mine) != len(theirs):
            raise NoPathError("operands of another number")
        made = [
            Const(self._params(x.value, y.value)) if type(x) is type(y) is Const and type(x.value) is int else x
            for x, y in zip(mine, theirs, strict=True)
        ]
        return tuple(made) if any([has_symbols(x) for x in made]) else mine

    def _check_demands(self, event: Any, instr: Instr, params: tuple[Any, ...]) -> None:
        """What the operation demands is looked at in every call, or cannot be otherwise, for other extents, too."""
        avals = tuple([None if type(x) is not int else self._history.aval_of(x) for x in instr.inputs])
        looked_at = {look.position for look in event.demands}
        for position, demand in demands(instr.op, avals, params):
            if position not in looked_at and _ranges.enough_for(self._history, instr.inputs[position], demand) != []:
                raise NoPathError("a demand that other extents may not meet")

    def _params(self, mine: Any, theirs: Any) -> Any:
        """Params; an integer that differs is what of the known extents has these values."""
        if type(mine) is not type(theirs):
            raise NoPathError("params of other types")
        if isinstance(mine, tuple):
            if len(mine) != len(theirs):
                raise NoPathError("params of another length")
            made = [self._params(x, y) for x, y in zip(mine, theirs, strict=True)]
            return tuple(made) if type(mine) is tuple else type(mine)._make(made)  # type: ignore[attr-defined]
        if type(mine) is not int or mine == theirs:
            return mine
        others = [other for other, _ in self._symbols.values()]
        for x in self._known.get(mine, ()):
            if valued(x, others) == theirs:
                return x
        for other, x in self._symbols.values():
            if mine % x.value == 0 and theirs * x.value == mine * other:  # rows and steps that are one dimension
                return x * (mine // x.value)
            if mine - x.value == theirs - other:  # where a slice ends
                return x + (mine - x.value)
        for other, x in self._symbols.values():
            for step in _STEPS:
                for more in (0, step - 1):  # rounded down, or up: windows over an extent
                    if (x.value + more) // step == mine and (other + more) // step == theirs:
                        return (x + more) // step  # type: ignore[operator]
        return self._extent(mine, theirs)

    def _instr(self, instr: Instr, params: tuple[Any, ...], made: dict[int, Aval]) -> Instr:
        """An instruction for the layouts of its operands. ``made``: of values that the event has made."""
        avals = [
            None if type(x) is not int else made[x] if x in made else self._history.aval_of(x) for x in instr.inputs
        ]
        is_same = not has_symbols((params, instr.inputs))
        is_same = is_same and not any([a is not None and _is_symbolic(a) for a in avals])
        if is_same:
            outs = instr.avals
        else:
            given = [self._number(x) if a is None else a for a, x in zip(avals, instr.inputs, strict=True)]
            op = instr.op
            found = op.aval(given, *params) if op.num_inputs < 0 else op.aval(*given, *params)
            found = found if isinstance(found, tuple) else (found,)
            outs = tuple([_alike(a, known) for a, known in zip(found, instr.avals, strict=True)])
        made.update(zip(instr.outputs, outs, strict=True))
        if is_same:
            return instr
        for a in outs:
            self._note(a)
        inputs = tuple([None if a is None else _seen(a, b) for a, b in zip(avals, instr.input_avals, strict=True)])
        return replaced(instr, params=params, avals=outs, input_avals=inputs)

    def _number(self, x: Any) -> Any:
        if type(x) is Const:
            return x.value
        assert type(x) is RuntimeScalar
        return self._recorder.scalars[x.slot]

    # the rest
    def _update(self, node: TrieNode) -> UpdateEvent:
        """An optimizer's step, over parameters whose extents do not change."""
        event: UpdateEvent = node.event
        for instr in (i for one in event.events for i in one.instrs):
            if any([_is_symbolic(self._history.aval_of(x)) for x in instr.inputs if x in self._history.avals]):
                raise NoPathError("an optimizer's step over what has other extents")
        return event

    def _backward(self, node: TrieNode, theirs: BackwardEvent) -> BackwardEvent:
        """What its rules have recorded, over symbolic layouts."""
        event, before = node.event, node.parent
        assert before is not None
        if event.adds or event.consts or event.sparse_sets:
            raise NoPathError("an unusual backward")
        is_usual = before.op is BACKWARD and node.op is GRADS and not any(node.key[1]) and not before.key[3]
        instrs = None
        if is_usual and not any(event.results):
            with contextlib.suppress(NeedsNodesError):
                instrs = self._swept(event, before)
        if instrs is None:
            instrs = self._repeated(event, theirs)
        made = {vid: aval for i in instrs for vid, aval in zip(i.outputs, i.avals, strict=True)}
        sets = []
        for leaf, value, aval, requires_grad in event.sets:
            if value not in made and _is_symbolic(self._history.aval_of(value)):
                raise NoPathError("a gradient that the backward has not made")
            sets.append((leaf, value, _laid_out(made[value], aval) if value in made else aval, requires_grad))
        return replaced(event, instrs=instrs, sets=tuple(sets), results=self._results(event, theirs, made))

    def _results(
        self, event: BackwardEvent, theirs: BackwardEvent, made: dict[int, Aval]
    ) -> tuple[Returned | None, ...]:
        """What ``grad()`` returns."""
        found: list[Returned | None] = []
        for mine, other in zip(event.results, theirs.results, strict=True):
            if mine is None or other is None:
                found.append(mine)
                continue
            if mine.given is not None or mine.vid not in made or mine.views != other.views:
                raise NoPathError("a gradient that is a view of what other extents decide")
            found.append(mine._replace(aval=_laid_out(made[mine.vid], mine.aval)))
        return tuple(found)

    def _repeated(self, event: BackwardEvent, theirs: BackwardEvent) -> tuple[Instr, ...]:
        """The shape rules run again, over what the engine recorded: of graphs that are differentiated again."""
        if len(event.instrs) != len(theirs.instrs):
            raise NoPathError("a backward that records something else")
        seen: dict[int, Aval] = {}  # rules see views as they lie in what they are views of
        found: list[Instr] = []
        for mine, other in zip(event.instrs, theirs.instrs, strict=True):
            if (mine.op, mine.outputs, mine.needs) != (other.op, other.outputs, other.needs):
                raise NoPathError("a backward that records something else")
            params, inputs = self._params(mine.params, other.params), self._operands(mine.inputs, other.inputs)
            if any([x is y and repr(x) != repr(z) for x, y, z in zip(inputs, mine.inputs, other.inputs, strict=True)]):
                raise NoPathError("a backward with other numbers")
            avals = [None if type(x) is not int else seen[x] if x in seen else self._history.aval_of(x) for x in inputs]
            given = [self._number(x) if a is None else a for a, x in zip(avals, inputs, strict=True)]
            outs = mine.op.aval(given, *params) if mine.op.num_inputs < 0 else mine.op.aval(*given, *params)
            outs = outs if isinstance(outs, tuple) else (outs,)
            seen.update(zip(mine.outputs, outs, strict=True))
            for a in outs:
                self._note(a)
            laid = tuple([a and _laid_out(a, known) for a, known in zip(avals, mine.input_avals, strict=True)])
            results = tuple([_laid_out(a, known) for a, known in zip(outs, mine.avals, strict=True)])
            found.append(replaced(mine, inputs=inputs, params=params, avals=results, input_avals=laid))
        return tuple(found)

    def _swept(self, event: BackwardEvent, before: TrieNode) -> tuple[Instr, ...]:
        """The rules run again."""
        recorder = self._recorder
        root = fresh_handle(self._history.aval_of(before.key[1]), None, recorder.tid, before.key[1])
        root._requires_grad = True
        request = BackwardRequest((root,), (None,), before.key[2], False, (), False, True)
        inner = InnerRecorder(recorder, {}, [], before.next_vid, _Derivation._backward.__code__, is_plain=True)
        leaves = {vid: twin_of(recorder.inputs[vid]) for vid in before.event.leaves}  # theirs get the gradients
        for leaf in leaves.values():
            leaf._requires_grad = True
        active = switch_handler(inner)
        try:
            released = sweep(self._history, request, inner, {**recorder.inputs, **leaves}, recorder.scalars)
        finally:
            switch_handler(active)
        if len(inner.instrs) != len(event.instrs) or frozenset(released) != event.released or inner.consts:
            raise NoPathError("a backward that records something else")
        for mine, known in zip(inner.instrs, event.instrs, strict=True):
            inputs = tuple(map(_settled, mine.inputs))
            if (mine.op, inputs, mine.outputs, mine.needs) != (known.op, known.inputs, known.outputs, known.needs):
                raise NoPathError("a backward that records something else")
            for a, b in zip((*mine.avals, *mine.input_avals), (*known.avals, *known.input_avals), strict=True):
                if a is not None and b is not None:
                    _alike(a, b)
        for vid, value, aval, _ in event.sets:
            grad = leaves[vid]._grad
            if grad is None or grad._vid != value:
                raise NoPathError("a gradient that is another value")
            _alike(own_layout(grad._aval), aval)
        return tuple(inner.instrs)

    def _end(self, node: TrieNode) -> EndEvent:
        """The end of the call: its segment is planned for all extents."""
        event, history = node.event, self._history
        if node is not self._nodes[-1] or event.reason != RETURNED or event.named or event.windows:
            raise NoPathError("a call with several segments, or with views that it leaves behind")
        layouts = {vid: self._stored(vid, aval) for vid, aval in event.segment.layouts.items()}
        known: Segment = event.segment
        segment = Segment(
            [history.defs[i.outputs[0]][0] for i in known.instrs],
            {vid: _alike(history.aval_of(vid), aval) for vid, aval in known.inputs.items()},
            known.outputs,
            known.writes,
            known.write_log,
            layouts,
        )
        if event.program is not None:
            self.program = _pipeline.plan_for_symbols(segment)
        avals = tuple([(vid, self._stored(vid, aval)) for vid, aval in event.avals])
        nbytes = sum([history.aval_of(vid).nbytes for vid in event.outputs])
        return replaced(event, segment=segment, avals=avals, nbytes=nbytes, program=None, plan=None, has_plan=False)

    def _stored(self, vid: int, known: Aval) -> Aval:
        """How a value lies in memory, if it was ``known`` here."""
        aval = self._history.aval_of(vid)
        for made in (aval, own_layout(aval), make_aval(aval.shape, aval.dtype)):
            if _is_alike(made, known):
                return made
        if not _is_symbolic(aval):
            return known
        raise NoPathError("a value that lies in memory in an unusual way")


def _is_symbolic(aval: Aval) -> bool:
    return any([is_symbolic(x) for x in (*aval.shape, *aval.stride, aval.offset)])


def has_symbols(x: Any) -> bool:
    """Whether params or operands depend on extents: numbers among them do."""
    if isinstance(x, tuple):
        return any(map(has_symbols, x))
    return is_symbolic(x.value if type(x) is Const else x)


def _settled(x: Any) -> Any:
    """An operand as it was recorded, for the extents that the path was derived with."""
    return Const(value_of(x.value)) if type(x) is Const else x


def _is_alike(made: Aval, known: Aval) -> bool:
    """Whether a layout is the known one for the extents that it was derived with."""
    mine, other = (*made.shape, *made.stride, made.offset), (*known.shape, *known.stride, known.offset)
    return made.dtype is known.dtype and len(mine) == len(other) and [value_of(x) for x in mine] == [*other]


def _alike(made: Aval, known: Aval) -> Aval:
    if not _is_alike(made, known):
        raise NoPathError(f"a layout of {made!r} instead of {known!r}")
    return made


def _seen(aval: Aval, known: Aval | None) -> Aval:
    """An operand as an instruction has it: as it lies, or at the start of a storage."""
    assert known is not None
    return aval if _is_alike(aval, known) else _alike(aval.at_start(), known)


def _laid_out(aval: Aval, known: Aval | None) -> Aval:
    """A value as it was known to lie in memory: as a rule saw it, at the start of a storage, or in one of its own."""
    assert known is not None
    for laid in (aval, aval.at_start()):
        if _is_alike(laid, known):
            return laid
    return _alike(own_layout(aval), known)


def valued(x: Any, symbols: Sequence[int]) -> Any:
    """The value of an expression of extents, for other ones; None if it is made of more than these."""
    if type(x) is not SymNumber:
        return x
    if x.op == "symbol":
        return symbols[x.args[0]]
    values = [valued(a, symbols) for a in x.args]
    return None if None in values else x.computed(values)
