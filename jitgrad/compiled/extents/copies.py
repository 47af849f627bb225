"""Paths for other extents, as nodes of the trie.

Owns: ``PathFamily``: a derived path, and the copies of it.
Must not know: how a path is derived, when it is copied.
In: a derived path, and an input's layout. Out: published nodes, which calls then find as if they had been recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgrad.codegen.families import filled, numbers_of
from jitgrad.compiled.extents.derivation import DerivedPath, Row, layout_numbers
from jitgrad.compiled.run import LoadedProgram
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.value_checks import demands
from jitgrad.structs import replaced
from jitgrad.symbols.evaluator import Evaluator, evaluator, symbols_in
from jitgrad.symbols.number import is_symbolic
from jitgrad.tracer.misses.early_checks import Look, bounds_for
from jitgrad.tracer.recording.graph import Instr, Segment
from jitgrad.tracer.recording.history import BackwardEvent, EndEvent, InputEvent, OpEvent, PlainEvent
from jitgrad.tracer.recording.keys import IN
from jitgrad.tracer.recording.trie import Trie, TrieNode, new_node

__all__ = ["PathFamily", "Unfinished"]


class Unfinished(NamedTuple):
    """A copy that ends before an input whose extents are not known yet.

    Attributes:
        family: whose copy it is.
        stretch: the number of the stretch that comes next.
        values: of the symbols that are known.
        copying: what has been made.
    """

    family: PathFamily
    stretch: int
    values: tuple[int, ...]
    copying: _Copying


class _Stretch(NamedTuple):
    """Events that can be copied once some symbols are known.

    Attributes:
        rows: of the path.
        binds: the numbers of the first one's layout.
        known: how many symbols are known before it.
        symbols: how many with it.
        evaluate: gives the numbers of ``layouts``, then ``params``, then the program's.
        layouts: (place in the table, dtype, rank) of the layouts that come up here.
        params: places of params.
    """

    rows: Sequence[Row]
    binds: tuple[Any, ...]
    known: int
    symbols: int
    evaluate: Evaluator
    layouts: tuple[tuple[int, Any, int], ...]
    params: tuple[int, ...]


class _Copying:
    """What one copy is made of.

    Attributes:
        avals: the table of layouts.
        params: params that depend on extents, by place.
        instrs: id of a derived instruction -> its copy.
        numbers: of the program, at the end.
    """

    __slots__ = ("avals", "instrs", "numbers", "params")

    def __init__(self, avals: list[Any]) -> None:
        self.avals = avals
        self.params: dict[int, tuple[Any, ...]] = {}
        self.instrs: dict[int, Instr] = {}
        self.numbers: Any = None


class PathFamily:
    """A derived path and what copies of it need."""

    def __init__(self, path: DerivedPath) -> None:
        self._program = path.program
        self._places: dict[int, int] = {}  # id of a layout -> its place in the table
        self._table: list[Any] = []
        self._param_places: dict[int, int] = {}  # id of params -> their place
        self._kept: list[Any] = [path.rows, path.env]  # ids stay theirs
        self.stretches = self._stretches(path)

    # --- preparing ---

    def _stretches(self, path: DerivedPath) -> list[_Stretch]:
        starts, counts, known = [], [], 0
        for nr, row in enumerate(path.rows):
            count = symbols_in(layout_numbers(row.event.aval)) if type(row.event) is InputEvent else 0
            if count > known:
                starts.append(nr)
                counts.append((known, count))
                known = count
        assert starts and starts[0] == 0
        found, done = [], 0
        guards = [(symbols_in((g.x, g.y)), g) for g in path.env.guards]
        for nr, (first, (before, count)) in enumerate(zip(starts, counts, strict=True)):
            is_last = nr == len(starts) - 1
            rows = path.rows[first : None if is_last else starts[nr + 1]]
            layouts, params, wanted = self._wanted(rows)
            if is_last and self._program is not None:
                wanted.append(numbers_of(self._program))
            own = [g for n, g in guards if (n > done or nr == 0) and (n <= count or is_last)]
            evaluate = evaluator(own, count, wanted)
            binds = layout_numbers(rows[0].event.aval)
            found.append(_Stretch(rows, binds, before, count, evaluate, tuple(layouts), tuple(params)))
            done = count
        return found

    def _wanted(self, rows: Sequence[Row]) -> tuple[list[tuple[int, Any, int]], list[int], list[Any]]:
        """(Layouts that come up in rows, params that do, the numbers of both)."""
        layouts: list[tuple[int, Any, int]] = []
        params: list[int] = []
        numbers: list[Any] = []
        for aval in (a for row in rows for a in _avals_of(row)):
            if id(aval) in self._places:
                continue
            self._places[id(aval)] = place = len(self._table)
            is_known = not any(map(is_symbolic, layout_numbers(aval)))
            self._table.append(aval if is_known else None)
            if not is_known:
                layouts.append((place, aval.dtype, len(aval.shape)))
                numbers.append(layout_numbers(aval))
        for instr in (i for row in rows for i in _instrs_of(row.event)):
            if _has_symbols(instr.params) and id(instr.params) not in self._param_places:
                self._param_places[id(instr.params)] = place = len(self._param_places)
                params.append(place)
                numbers.insert(len(layouts) + len(params) - 1, instr.params)
        if type(rows[-1].event) is EndEvent:
            numbers.append(rows[-1].event.nbytes)
        return layouts, params, numbers

    # --- copying ---

    def begin(self, trie: Trie, parent: TrieNode, aval: Aval) -> tuple[TrieNode, Any] | None:
        """Copy the path as far as one input's layout tells; see ``go_on``."""
        return self._copy(trie, parent, aval, 0, (), _Copying(list(self._table)))

    def go_on(self, trie: Trie, parent: TrieNode, aval: Aval, before: Unfinished) -> tuple[TrieNode, Any] | None:
        """Copy more of it.

        Returns:
            The node of the input, published; and either how to go on, with the last node, or the end of the path.
            None if the layout is of another path.
        """
        return self._copy(trie, parent, aval, before.stretch, before.values, before.copying)

    def _copy(
        self, trie: Trie, parent: TrieNode, aval: Aval, nr: int, values: tuple[int, ...], copying: _Copying
    ) -> tuple[TrieNode, Any] | None:
        stretch = self.stretches[nr]
        found = _bound(stretch, aval, values)
        numbers = None if found is None else stretch.evaluate(*found)
        if found is None or numbers is None:
            return None
        following = iter(numbers)
        for place, dtype, rank in stretch.layouts:
            n = next(following)
            copying.avals[place] = make_aval(n[:rank], dtype, *((n[rank:-1], n[-1]) if len(n) > rank else ()))
        for place in stretch.params:
            copying.params[place] = next(following)
        copying.numbers = [*following]
        first = node = self._node(stretch.rows[0], parent, copying)
        for row in stretch.rows[1:]:
            before, node = node, self._node(row, node, copying)
            before.children[node.key] = node
            before.first = before.last = node
        trie.size += len(stretch.rows)
        trie.publish(first)
        is_last = nr == len(self.stretches) - 1
        return first, node if is_last else (node, Unfinished(self, nr + 1, found, copying))

    def _node(self, row: Row, parent: TrieNode, copying: _Copying) -> TrieNode:
        """A copy of an event; nobody finds it yet."""
        twin, event = row.node, self._event(row, copying)
        key = twin.key
        if type(event) is InputEvent:
            key = (IN, event.aval, event.kind)
        elif row.params is not None:
            key = (key[0], key[1], event.instr.params)
        node: TrieNode = new_node(parent, key, event, twin.next_vid, twin.next_scalar)
        for name in _SAME:
            setattr(node, name, getattr(twin, name))
        node.masks = None if twin.masks is None else dict(twin.masks)
        node.seen = None if twin.seen is None else dict(twin.seen)
        if type(event) is InputEvent and twin.op is IN:
            node.ids = (event.aval, event.kind)
        if row.aval is not None:
            node.aval = self._aval(row.aval, copying)
        if row.params is not None:
            node.params = event.instr.params
        if twin.outs is not None:
            avals = event.instr.avals
            node.outs = tuple([(vid, aval, flag) for (vid, _, flag), aval in zip(twin.outs, avals, strict=True)])
        if type(event) is OpEvent and event.demands:
            self._let_hits_look(node, twin, event)
        return node

    @staticmethod
    def _let_hits_look(node: TrieNode, twin: TrieNode, event: OpEvent) -> None:
        """See ``early_checks.may_hits_look``."""
        bounds = [bounds_for(look, event.instr.input_avals[look.position]) for look in event.demands]
        node.bounds = None if None in bounds else tuple(bounds)  # type: ignore[arg-type]
        node.is_simple = twin.is_simple and node.bounds is not None
        if node.bounds is None:
            node.outs = None
            if twin.writes is not None:
                node.op = node.writes = None

    def _event(self, row: Row, copying: _Copying) -> Any:
        event = row.event
        kind = type(event)
        if event is row.node.event and kind is not InputEvent:
            for instr in _instrs_of(event):
                copying.instrs[id(instr)] = instr
            return event
        if kind is InputEvent:
            return InputEvent(event.vid, self._aval(event.aval, copying), event.kind)
        if kind is EndEvent:
            return self._end(event, copying)
        instrs = tuple([self._instr(i, copying) for i in _instrs_of(event)])
        if kind is PlainEvent:
            return PlainEvent(instrs[0], event.several, event.ends_segment)
        if kind is BackwardEvent:
            return replaced(event, instrs=instrs)
        instr = copying.instrs[id(event.instr)]
        looks: tuple[Look, ...] = ()
        if event.demands:
            looks = tuple([Look(d, at) for at, d in demands(instr.op, instr.input_avals, instr.params)])
        passed = None if event.passed is None else [None] * len(looks)
        return replaced(event, instr=instr, instrs=instrs, demands=looks, passed=passed)

    def _aval(self, aval: Any, copying: _Copying) -> Any:
        return None if aval is None else copying.avals[self._places[id(aval)]]

    def _instr(self, i: Instr, copying: _Copying) -> Instr:
        table, places = copying.avals, self._places
        at = self._param_places.get(id(i.params))
        made = copying.instrs[id(i)] = Instr(
            i.op,
            i.inputs,
            i.params if at is None else copying.params[at],
            i.outputs,
            tuple([table[places[id(a)]] for a in i.avals]),
            tuple([None if a is None else table[places[id(a)]] for a in i.input_avals]),
            i.requires_grad,
            i.needs,
            i.where,
            i.origin,
        )
        return made

    def _end(self, event: EndEvent, copying: _Copying) -> EndEvent:
        known: Segment = event.segment
        segment = Segment(
            [copying.instrs[id(i)] for i in known.instrs],
            {vid: self._aval(aval, copying) for vid, aval in known.inputs.items()},
            known.outputs,
            known.writes,
            known.write_log,
            {vid: self._aval(aval, copying) for vid, aval in known.layouts.items()},
        )
        nbytes, *program = copying.numbers
        loaded = None if self._program is None else LoadedProgram(filled(self._program, program[0]), segment)
        avals = tuple([(vid, self._aval(aval, copying)) for vid, aval in event.avals])
        return replaced(event, program=loaded, segment=segment, avals=avals, nbytes=nbytes, is_deferred=False)


_SAME = ("vid", "requires_grad", "param_types", "window", "writes", "op", "ids", "params", "is_simple", "is_view", "meta")
"""Slots of a node that extents do not change."""


def _bound(stretch: _Stretch, aval: Aval, values: tuple[int, ...]) -> tuple[int, ...] | None:
    """The values of the symbols, once an input has this layout; None if it is none of the path's."""
    derived_from = stretch.rows[0].event.aval
    numbers = layout_numbers(aval)
    if len(numbers) != len(stretch.binds) or aval.dtype is not derived_from.dtype:
        return None
    if (aval.is_canonical, aval.is_contiguous) != (derived_from.is_canonical, derived_from.is_contiguous):
        return None
    found = [*values]
    for n, x in zip(numbers, stretch.binds, strict=True):
        if not is_symbolic(x):
            if n != x:
                return None
            continue
        at = x.args[0]
        if at == len(found):
            found.append(n)
        if n < 2 or found[at] != n:
            return None
    return tuple(found)


def _instrs_of(event: Any) -> Sequence[Instr]:
    """The instructions of an event."""
    return event.instrs if type(event) in (PlainEvent, OpEvent, BackwardEvent) else ()


def _avals_of(row: Row) -> list[Aval]:
    """All layouts of an event."""
    event = row.event
    found = [] if row.aval is None else [row.aval]
    if type(event) is InputEvent:
        found.append(event.aval)
    for i in _instrs_of(event):
        found += [*i.avals, *[a for a in i.input_avals if a is not None]]
    if type(event) is EndEvent:
        found += [*event.segment.inputs.values(), *event.segment.layouts.values(), *[aval for _, aval in event.avals]]
    return found


def _has_symbols(params: Any) -> bool:
    return any(map(_has_symbols, params)) if type(params) is tuple else is_symbolic(params)
