"""Events of a derived path, and their nodes, as they are for other extents.

Owns: ``Copying``: what one copy is made of; ``NodeCopy`` and its kinds, ``InstrCopy``; ``Copier``.
Must not know: which events make a path, when it is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from jitgrad.abi import EagerStep, Program
from jitgrad.codegen.families import filled, forms_of
from jitgrad.compiled.extents.derivation import Row, with_given
from jitgrad.compiled.run import LoadedProgram
from jitgrad.ops.aval import make_aval
from jitgrad.ops.value_checks import demands
from jitgrad.structs import replaced
from jitgrad.tracer.misses.early_checks import Look, bounds_for
from jitgrad.tracer.recording.graph import Const, Instr, Segment
from jitgrad.tracer.recording.history import BackwardEvent, InputEvent, OpEvent, PlainEvent, UpdateEvent
from jitgrad.tracer.recording.keys import IN
from jitgrad.tracer.recording.trie import TrieNode, new_node

__all__ = ["BackwardCopy", "Copier", "Copying", "EndCopy", "InputCopy", "InstrCopy", "Layout", "NodeCopy",
           "OperationCopy", "instrs_of"]  # fmt: skip


Layout: TypeAlias = "tuple[int, Any, int]"
"""Place in the table, dtype, rank."""


class Copying:
    """What one copy is made of.

    Attributes:
        avals: the table of layouts; the first one is None.
        params: params that depend on extents, by place.
        instrs: the instructions, by place.
        numbers: of the program, at the end.
        waiting: layouts that were not made yet, and their numbers.
    """

    __slots__ = ("avals", "instrs", "numbers", "params", "waiting")

    def __init__(self, avals: list[Any], params: list[Any], instrs: list[Any]) -> None:
        self.avals, self.params, self.instrs = avals, params, instrs
        self.numbers: Any = None
        self.waiting: tuple[Sequence[Layout], Sequence[Any]] | None = None

    def fill(self, layouts: Iterable[Layout], numbers: Iterable[Any]) -> None:
        """Make layouts of their numbers."""
        avals = self.avals
        for (place, dtype, rank), n in zip(layouts, numbers, strict=False):
            avals[place] = make_aval(n[:rank], dtype, n[rank:-1], n[-1]) if len(n) > rank else make_aval(n, dtype)

    def made(self, copies: Sequence[InstrCopy]) -> list[Instr]:
        """Instructions, once somebody looks at them."""
        if self.waiting is not None:
            self.fill(*self.waiting)
            self.waiting = None
        known = self.instrs
        return [known[copy.place] or copy.made(self) for copy in copies]

    def again(self) -> Copying:
        """The same: a copy may go on in several ways, and on several threads at a time."""
        return Copying(list(self.avals), list(self.params), list(self.instrs))


class InstrCopy(NamedTuple):
    """How an instruction is copied.

    Attributes:
        instr: as it was derived.
        is_known: it is the same for all extents.
        params, operands: the places of its params and operands, -1 if they are the same for all extents.
        place: its number.
        avals, inputs: the places of its layouts in the table.
    """

    instr: Instr
    is_known: bool
    params: int
    operands: int
    place: int
    avals: Sequence[int]
    inputs: Sequence[int]

    def made(self, copying: Copying) -> Instr:
        """The copy."""
        i, table, at = self.instr, copying.avals, self.params
        if not self.is_known:
            params, operands = i.params if at < 0 else copying.params[at], i.inputs
            if self.operands >= 0:
                numbers = copying.params[self.operands]
                operands = tuple(
                    [Const(n) if type(x) is Const else x for x, n in zip(operands, numbers, strict=True)]
                )
            avals, inputs = tuple([table[n] for n in self.avals]), tuple([table[n] for n in self.inputs])
            i = Instr(i.op, operands, params, i.outputs, avals, inputs, i.requires_grad, i.needs, i.where, i.origin)
        copying.instrs[self.place] = i
        return i

    def is_plain(self) -> bool:
        """Whether nothing but its layouts depends on extents."""
        return self.params < 0 and self.operands < 0

    def lines(self, nr: int, names: dict[str, Any]) -> list[str]:
        """Statements that make a plain one, ``i<nr>``; see ``Copier``."""
        i = self.instr
        if self.is_known:
            names[f"i{nr}"] = i
            return [f"instrs[{self.place}] = i{nr}"]
        names[f"begin{nr}"] = i.op, i.inputs, i.params, i.outputs
        names[f"end{nr}"] = i.requires_grad, i.needs, i.where, i.origin
        outs, ins = ("".join([f"a[{at}], " for at in places]) for places in (self.avals, self.inputs))
        return [f"instrs[{self.place}] = i{nr} = Instr(*begin{nr}, ({outs}), ({ins}), *end{nr})"]


class NodeCopy:
    """How an event and its node are copied: one that is the same for all extents, or a ``PlainEvent``."""

    lets_print = True
    """Nodes of its kind are made by statements (``Copier``), not by ``node``."""

    def __init__(self, row: Row, aval: int, instrs: list[InstrCopy]) -> None:
        self.twin, self.derived, self.is_given = row.node, row.event, row.given is not None
        self.aval, self.instrs = aval, instrs
        self.is_same = all(i.is_known for i in instrs)

    def node(self, parent: TrieNode, copying: Copying) -> TrieNode:
        """A copy that nobody finds yet."""
        twin, event = self.twin, self.event(copying)
        key, ids, params = twin.key, twin.ids, twin.params
        if self.is_given:
            inputs, params = event.instr.inputs, event.instr.params
            key = with_given(key, inputs, params)
            ids = tuple([(x.value,) if type(i) is tuple else i for i, x in zip(ids, inputs, strict=True)])
            parent.seen = None  # it has numbers of other extents
        node: TrieNode = new_node(parent, key, event, twin.next_vid, twin.next_scalar)
        node.vid, node.requires_grad, node.op = twin.vid, twin.requires_grad, twin.op
        node.ids, node.params = ids, params
        node.param_types, node.window, node.writes, node.meta = twin.param_types, twin.window, twin.writes, twin.meta
        node.is_simple, node.is_view, node.bounds = twin.is_simple, twin.is_view, twin.bounds
        node.aval = copying.avals[self.aval]
        if twin.masks is not None or twin.seen is not None:
            node.masks, node.seen = dict(twin.masks or ()) or None, dict(twin.seen or ()) or None
        if twin.outs is not None:
            avals = event.instr.avals
            node.outs = tuple([(vid, aval, flag) for (vid, _, flag), aval in zip(twin.outs, avals, strict=True)])
        return node

    def event(self, copying: Copying) -> Any:
        """The event's copy."""
        instrs = tuple([i.made(copying) for i in self.instrs])
        if self.is_same:
            return self.derived
        if type(self.derived) is PlainEvent:
            return PlainEvent(instrs[0], self.derived.several, self.derived.ends_segment)
        return replaced(self.derived, instrs=instrs)


    def lines(self, nr: int, names: dict[str, Any]) -> list[str]:
        """Statements that make node ``n<nr>``, behind the one before; ``names``: of objects. See ``Copier``.

        The same as ``node``, which does it for nodes of unusual kinds.
        """
        event, twin = self.derived, self.twin
        is_usual = self.lets_print and twin.masks is None and twin.seen is None and twin.outs is None
        if not is_usual or self.is_given:
            names[f"c{nr}"] = self
            return [f"n{nr} = c{nr}.node(n{nr - 1}, copying)"]
        lines = []
        if type(self) is NodeCopy and self.is_same and not self.instrs:
            names[f"e{nr}"] = event
        elif type(event) is PlainEvent and self.instrs[0].is_plain():
            lines = self.instrs[0].lines(nr, names)
            lines.append(f"e{nr} = PlainEvent(i{nr}, {event.several}, {event.ends_segment})")
        else:
            names[f"c{nr}"] = self
            lines = [f"e{nr} = c{nr}.event(copying)"]
        given = {slot: getattr(twin, slot) for slot in _OF_THE_TWIN}
        lines += _node_lines(nr, given, {"aval": f"a[{self.aval}]"}, names)
        return [*lines, f"c{nr}.bind(n{nr})"] if type(event) is OpEvent and event.demands else lines

    def bind(self, node: TrieNode) -> None:
        """Of an operation that looks at values: what hits look at."""


_PRINTED_FROM = 6
_OF_THE_TWIN = ("key", "vid", "requires_grad", "op", "ids", "params", "param_types", "window", "writes", "meta",
                "is_simple", "is_view", "bounds", "next_vid", "next_scalar", "depth")  # fmt: skip
"""Slots of a node that are the same for all extents."""
_BLANK: Any = new_node(None, None, None, 0, 0)


def _node_lines(nr: int, given: dict[str, Any], texts: dict[str, str], names: dict[str, Any]) -> list[str]:
    """Statements that fill every slot of a new node: ``given`` objects, ``texts``, or as ``new_node`` does."""
    texts = {"children": "{}", "parent": f"n{nr - 1}", "event": f"e{nr}", **texts}
    lines = [f"n{nr} = n = new(TrieNode)"]
    by_value: dict[str, list[str]] = {}
    for slot in TrieNode.__slots__:
        text = texts.get(slot)
        if text is None:
            value = given.get(slot, getattr(_BLANK, slot))
            text = repr(value) if value is None or type(value) in (int, bool) else f"{slot}{nr}"
            if text[0].isalpha() and value is not None and type(value) is not bool:
                names[text] = value
        by_value.setdefault(text, []).append(f"n.{slot}")
    return lines + [" = ".join([*slots, text]) for text, slots in by_value.items()]


class Copier:
    """Makes the nodes of some events, one behind the other, behind a given one.

    From the ``_PRINTED_FROM``-th time on it is one Python function for all of them, without calls: a node has thirty
    slots, a path hundreds of nodes. To compile that takes as long as to make forty copies.
    """

    __slots__ = ("_copies", "_count", "_printed")

    def __init__(self, copies: Sequence[NodeCopy]) -> None:
        self._copies, self._count = copies, 0
        self._printed: Callable[[TrieNode, Copying], tuple[TrieNode, TrieNode]] | None = None

    def __call__(self, parent: TrieNode, copying: Copying) -> tuple[TrieNode, TrieNode]:
        """(The first, the last) of the new nodes."""
        if self._printed is not None:
            return self._printed(parent, copying)
        self._count += 1
        if self._count >= _PRINTED_FROM:
            self._printed = self._as_one_function()
        first = node = self._copies[0].node(parent, copying)
        for copy in self._copies[1:]:
            before, node = node, copy.node(node, copying)
            before.children[node.key] = before.first = before.last = node
        return first, node

    def _as_one_function(self) -> Callable[[TrieNode, Copying], tuple[TrieNode, TrieNode]]:
        names: dict[str, Any] = {"new": TrieNode.__new__}
        names |= {kind.__name__: kind for kind in (TrieNode, PlainEvent, Instr)}
        body = ["a, instrs = copying.avals, copying.instrs"]
        for nr, copy in enumerate(self._copies, 1):
            body += copy.lines(nr, names)
            if nr > 1:
                body.append(f"n{nr - 1}.children[n{nr}.key] = n{nr - 1}.first = n{nr - 1}.last = n{nr}")
        body.append(f"return n1, n{len(self._copies)}")
        exec("def copied(n0, copying):\n " + "\n ".join(body), names)
        found: Callable[[TrieNode, Copying], tuple[TrieNode, TrieNode]] = names["copied"]
        return found


class InputCopy(NodeCopy):
    """Of an ``InputEvent``."""

    lets_print = False

    def __init__(self, row: Row, aval: int, instrs: list[InstrCopy], given: int) -> None:
        super().__init__(row, aval, instrs)
        self.given = given

    def node(self, parent: TrieNode, copying: Copying) -> TrieNode:
        """See ``NodeCopy``."""
        twin, part, aval = self.twin, self.derived.kind, copying.avals[self.given]
        event = InputEvent(self.derived.vid, aval, part)
        node: TrieNode = new_node(parent, (IN, aval, part), event, twin.next_vid, twin.next_scalar)
        node.vid, node.ids, node.op = twin.vid, (aval, part), twin.op
        return node


class BackwardCopy(NodeCopy):
    """Of a ``BackwardEvent``.

    ``results``, ``sets``: the places of layouts; ``is_last``: nothing but its instructions can wait for layouts.
    """

    def __init__(
        self,
        row: Row,
        aval: int,
        instrs: list[InstrCopy],
        results: Sequence[int | None],
        sets: Sequence[int],
        is_last: bool,
    ) -> None:
        super().__init__(row, aval, instrs)
        self.results, self.sets, self.is_last = results, sets, is_last

    def event(self, copying: Copying) -> Any:
        """See ``NodeCopy``."""
        derived, table = self.derived, copying.avals
        returned = zip(derived.results, self.results, strict=True)
        results = tuple([r if at is None else r._replace(aval=table[at]) for r, at in returned])
        grads = zip(derived.sets, self.sets, strict=True)
        sets = tuple([(leaf, vid, table[at], joins) for (leaf, vid, _, joins), at in grads])
        if not self.is_last:
            return replaced(derived, instrs=tuple([i.made(copying) for i in self.instrs]), results=results, sets=sets)
        event = replaced(derived, instrs=(), results=results, sets=sets, later=partial(copying.made, self.instrs))
        del event.instrs
        return event


class OperationCopy(NodeCopy):
    """Of an ``OpEvent``; ``own``: which of its instructions is the one that the user sees."""

    def __init__(self, row: Row, aval: int, instrs: list[InstrCopy], own: int) -> None:
        super().__init__(row, aval, instrs)
        self.own = own

    def event(self, copying: Copying) -> Any:
        """See ``NodeCopy``."""
        derived = self.derived
        instrs = tuple([i.made(copying) for i in self.instrs])
        instr = instrs[self.own]
        if not derived.demands:
            return replaced(derived, instr=instr, instrs=instrs)
        looked_at = {look.position for look in derived.demands}  # the other operands are right for all extents
        asked = demands(instr.op, instr.input_avals, instr.params)
        looks = tuple([Look(demand, at) for at, demand in asked if at in looked_at])
        return replaced(derived, instr=instr, instrs=instrs, demands=looks, passed=[None] * len(looks))

    def node(self, parent: TrieNode, copying: Copying) -> TrieNode:
        """See ``NodeCopy``."""
        node = super().node(parent, copying)
        if node.event.demands:
            self.bind(node)
        return node

    def bind(self, node: TrieNode) -> None:
        """See ``NodeCopy``, and ``early_checks.may_hits_look``."""
        event = node.event
        bounds = [bounds_for(look, event.instr.input_avals[look.position]) for look in event.demands]
        node.bounds = None if None in bounds else tuple(bounds)  # type: ignore[arg-type]
        if node.bounds is None:
            node.is_simple, node.outs = False, None
            if node.writes is not None:
                node.op = node.writes = None


class EndCopy(NodeCopy):
    """Of an ``EndEvent``: its segment's instructions, and the places of layouts."""

    def __init__(
        self,
        row: Row,
        instrs: Sequence[InstrCopy],
        inputs: Sequence[tuple[int, int]],
        layouts: Sequence[tuple[int, int]],
        avals: Sequence[tuple[int, int]],
        program: Program | None,
    ) -> None:
        super().__init__(row, 0, [])
        self._instrs, self._inputs, self._layouts, self._avals, self._program = instrs, inputs, layouts, avals, program
        self._forms = () if program is None else forms_of(program)
        steps = [] if program is None else [step for step in program.steps if isinstance(step, EagerStep)]
        self._eager_outputs = [step.instr.outputs for step in steps]

    def event(self, copying: Copying) -> Any:
        """See ``NodeCopy``."""
        derived, table = self.derived, copying.avals
        known: Segment = derived.segment
        inputs = {vid: table[at] for vid, at in self._inputs}
        layouts = {vid: table[at] for vid, at in self._layouts}
        later = partial(copying.made, self._instrs)
        segment = Segment([], inputs, known.outputs, known.writes, known.write_log, layouts, later)
        del segment.instrs
        nbytes, *numbers = copying.numbers
        loaded = None
        if self._program is not None:
            program = filled(self._program, self._forms, numbers[0])
            if self._eager_outputs:
                _put_instrs(program, segment)
            loaded = LoadedProgram(program, segment)
        avals = tuple([(vid, table[at]) for vid, at in self._avals])
        return replaced(
            derived, program=loaded, segment=segment, avals=avals, nbytes=nbytes, is_deferred=False, is_fresh=True
        )


def _put_instrs(program: Program, segment: Segment) -> None:
    """The operations without kernels, as they are for the extents of a segment."""
    made = {instr.outputs: instr for instr in segment.instrs}
    program.steps = [
        EagerStep(made[step.instr.outputs], step.reason) if isinstance(step, EagerStep) else step
        for step in program.steps
    ]


def instrs_of(event: Any) -> Sequence[Instr]:
    """The instructions of an event."""
    if type(event) is UpdateEvent:
        return [i for one in event.events for i in one.instrs]
    return event.instrs if type(event) in (PlainEvent, OpEvent, BackwardEvent) else ()
