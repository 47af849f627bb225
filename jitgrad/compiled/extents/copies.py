"""Paths for other extents, as nodes of the trie.

Owns: ``PathFamily``: a derived path, and the copies of it.
Must not know: how a path is derived, when it is copied.
In: a derived path, and an input's layout. Out: published nodes, which calls then find as if they had been recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from jitgrad.abi import Program
from jitgrad.codegen.families import filled, numbers_of
from jitgrad.compiled.extents.derivation import (
    DerivedPath,
    Row,
    flat,
    given_numbers,
    has_symbols,
    layout_numbers,
    operation_of,
    valued,
    with_given,
)
from jitgrad.compiled.run import LoadedProgram
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.table import Op
from jitgrad.ops.value_checks import demands
from jitgrad.structs import replaced
from jitgrad.symbols.evaluator import Evaluator, evaluator, symbols_in
from jitgrad.symbols.number import is_symbolic
from jitgrad.tracer.misses.early_checks import Look, bounds_for
from jitgrad.tracer.recording.graph import Const, Instr, Segment
from jitgrad.tracer.recording.history import BackwardEvent, EndEvent, InputEvent, OpEvent, PlainEvent, UpdateEvent
from jitgrad.tracer.recording.keys import IN
from jitgrad.tracer.recording.trie import Trie, TrieNode, new_node

__all__ = ["Given", "PathFamily", "Unfinished"]


Given: TypeAlias = "Aval | tuple[Op, tuple[Any, ...], tuple[Any, ...]]"
"""What a call gives an event: an input's layout; or an operation, its operands' ids and its params."""


class Unfinished(NamedTuple):
    """A copy that ends before an event whose extents are not known yet.

    Attributes:
        family: whose copy it is.
        stretch: the number of the stretch that comes next.
        values: of the symbols that are known.
        copying: what has been made; nobody changes it any more.
        given: to the events that its stretches begin with.
    """

    family: PathFamily
    stretch: int
    values: tuple[int, ...]
    copying: _Copying
    given: tuple[Given, ...]


_Layout: TypeAlias = "tuple[int, Any, int]"
"""Place in the table, dtype, rank."""


class _Stretch(NamedTuple):
    """Events that can be copied once some symbols are known.

    Attributes:
        copies: of each event.
        first: the event that it begins with: an input, or an operation whose params tell extents.
        known: how many symbols are known before it.
        evaluate: gives the numbers of ``layouts``, then ``waiting``, then ``params``, then the program's.
        layouts: (place in the table, dtype, rank) of the layouts that come up here.
        waiting: of those that nothing but a backward's instructions have: few are ever looked at.
        params: places of params.
    """

    copies: Sequence[_NodeCopy]
    first: Any
    known: int
    evaluate: Evaluator
    layouts: Sequence[_Layout]
    waiting: Sequence[_Layout]
    params: tuple[int, ...]


class _Copying:
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
        self.waiting: tuple[Sequence[_Layout], Sequence[Any]] | None = None

    def fill(self, layouts: Iterable[_Layout], numbers: Iterable[Any]) -> None:
        """Make layouts of their numbers."""
        avals = self.avals
        for (place, dtype, rank), n in zip(layouts, numbers, strict=False):
            avals[place] = make_aval(n[:rank], dtype, n[rank:-1], n[-1]) if len(n) > rank else make_aval(n, dtype)

    def made(self, copies: Sequence[_InstrCopy]) -> list[Instr]:
        """Instructions, once somebody looks at them."""
        if self.waiting is not None:
            self.fill(*self.waiting)
            self.waiting = None
        known = self.instrs
        return [known[copy.place] or copy.made(self) for copy in copies]

    def again(self) -> _Copying:
        """The same: a copy may go on in several ways, and on several threads at a time."""
        return _Copying(list(self.avals), list(self.params), list(self.instrs))


class PathFamily:
    """A derived path and what copies of it need.

    Attributes:
        stretches: of the path.
        by_size: how its arena is planned, Note [Arenas for all extents].
        is_for_one: its guards let one set of extents through.
    """

    def __init__(self, path: DerivedPath) -> None:
        self._program = path.program
        self._table: list[Any] = [None]
        self._places: dict[Any, int] = {id(None): 0}  # id of a layout -> its place in the table
        self._param_places: dict[int, int] = {}  # id of params -> their place
        self._instr_places: dict[int, int] = {}  # id of an instruction -> its place
        self._kept = path  # ids stay theirs
        self.by_size = bool(path.env.by_size)
        self.is_for_one = path.env.is_pinned()
        self.stretches = self._stretches(path)

    # --- preparing ---

    def _stretches(self, path: DerivedPath) -> list[_Stretch]:
        starts, counts, known = [], [], 0
        for nr, row in enumerate(path.rows):
            count = symbols_in(given_numbers(row.event))
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
            layouts, waiting, params, wanted = self._wanted(rows, is_last)
            if is_last and self._program is not None:
                wanted.append(numbers_of(self._program))
            own = [g for n, g in guards if (n > done or nr == 0) and (n <= count or is_last)]
            evaluate = evaluator(own, count, wanted)
            copies = [self._copier(row, is_last) for row in rows]
            found.append(_Stretch(copies, rows[0].event, before, evaluate, layouts, waiting, tuple(params)))
            done = count
        return found

    def _wanted(
        self, rows: Sequence[Row], is_last: bool
    ) -> tuple[list[_Layout], list[_Layout], list[int], list[Any]]:
        """(Layouts that come up in rows, those of them that can wait, params that come up, the numbers of all)."""
        params: list[int] = []
        numbers: list[Any] = []
        layouts = self._layouts([a for row in rows for a in _avals_of(row, not is_last)], numbers)
        waiting = self._layouts([a for row in rows for a in _avals_of(row, True)], numbers)
        for instr in (i for row in rows for i in _instrs_of(row.event)):
            self._instr_places.setdefault(id(instr), len(self._instr_places))
            for given in (instr.params, instr.inputs):
                if has_symbols(given) and id(given) not in self._param_places:
                    self._param_places[id(given)] = place = len(self._param_places)
                    params.append(place)
                    numbers.append(tuple([x.value if type(x) is Const else x for x in given]))
        if type(rows[-1].event) is EndEvent:
            numbers.append(rows[-1].event.nbytes)
        return layouts, waiting, params, numbers

    def _layouts(self, avals: Sequence[Aval], numbers: list[Any]) -> list[_Layout]:
        """Enter the layouts that are new into the table; returns those that depend on extents."""
        found: list[_Layout] = []
        for aval in avals:
            if id(aval) in self._places:
                continue
            self._places[id(aval)] = place = len(self._table)
            is_known = not any(map(is_symbolic, layout_numbers(aval)))
            self._table.append(aval if is_known else None)
            if not is_known:
                found.append((place, aval.dtype, len(aval.shape)))
                numbers.append(layout_numbers(aval))
        return found

    def _copier(self, row: Row, is_last: bool) -> _NodeCopy:
        """What copies an event and its node."""
        event = row.event
        kind = type(event)
        instrs = [self._instr(i) for i in _instrs_of(event)]
        place = self._place(row.aval)
        if kind is InputEvent:
            return _InputCopy(row, place, instrs, self._place(event.aval))
        if kind is EndEvent:
            return self._end(row, event)
        if kind is BackwardEvent:
            results = [None if r is None else self._place(r.aval) for r in event.results]
            sets = [self._place(aval) for _, _, aval, _ in event.sets]
            return _BackwardCopy(row, place, instrs, results, sets, is_last)
        if event is row.node.event or kind is PlainEvent:
            return _NodeCopy(row, place, instrs)
        own = next(n for n, i in enumerate(event.instrs) if i is event.instr)
        return _OperationCopy(row, place, instrs, own)

    def _place(self, aval: Any) -> int:
        return self._places[id(aval)]

    def _instr(self, i: Instr) -> _InstrCopy:
        params, operands = (self._param_places.get(id(given), -1) for given in (i.params, i.inputs))
        avals, inputs = [self._place(a) for a in i.avals], [self._place(a) for a in i.input_avals]
        is_known = params < 0 and operands < 0 and all([not n or self._table[n] is not None for n in (*avals, *inputs)])
        return _InstrCopy(i, is_known, params, operands, _picker(avals), _picker(inputs), self._instr_places[id(i)])

    def _end(self, row: Row, event: EndEvent) -> _EndCopy:
        known: Segment = event.segment
        return _EndCopy(
            row,
            [self._instr(i) for i in known.instrs],
            [(vid, self._place(aval)) for vid, aval in known.inputs.items()],
            [(vid, self._place(aval)) for vid, aval in known.layouts.items()],
            [(vid, self._place(aval)) for vid, aval in event.avals],
            self._program,
        )

    # --- copying ---

    def begin(self, trie: Trie, parent: TrieNode, given: Given) -> tuple[TrieNode, Any] | None:
        """Copy the path as far as what is given for the first event tells; see ``go_on``."""
        found = _bound(self.stretches[0], given, ())
        if found is None:
            return None
        blank = _Copying(list(self._table), [None] * len(self._param_places), [None] * len(self._instr_places))
        return self._copy(trie, parent, 0, found, blank, (given,))

    def go_on(self, trie: Trie, parent: TrieNode, given: Given, before: Unfinished) -> tuple[TrieNode, Any] | None:
        """Copy more of it.

        Args:
            given: an input's layout; or an operation, its operands' ids and its params.

        Returns:
            The node of the event, published; and either how to go on, with the last node, or the end of the path.
            None if what is given is of another path.
        """
        found = _bound(self.stretches[before.stretch], given, before.values)
        if found is None:
            return None
        return self._copy(trie, parent, before.stretch, found, before.copying.again(), (*before.given, given))

    def so_far(self, node: TrieNode, other: Unfinished) -> Unfinished | None:
        """What this family would have made up to a node that another family's copy ends at; None if it is of no use.

        Families of one fork often differ in what the later inputs' extents decide.
        """
        if len(self.stretches) <= other.stretch or self.stretches[other.stretch].known != len(other.values):
            return None
        trie, given = Trie(1 << 30, 1 << 30), other.given
        root: TrieNode = new_node(None, None, None, 0, 0)
        found = self.begin(trie, root, given[0])
        for one in given[1:]:
            if found is None or type(found[1]) is not tuple:
                return None
            found = self.go_on(trie, found[1][0], one, found[1][1])
        if found is None or type(found[1]) is not tuple:
            return None
        mine: TrieNode | None = found[1][0]
        theirs: TrieNode | None = node
        while mine is not None and mine.parent is not None:
            if theirs is None or mine.key != theirs.key:
                return None
            mine, theirs = mine.parent, theirs.parent
        made: Unfinished = found[1][1]
        return made

    def _copy(
        self,
        trie: Trie,
        parent: TrieNode,
        nr: int,
        values: tuple[int, ...],
        copying: _Copying,
        given: tuple[Given, ...],
    ) -> tuple[TrieNode, Any] | None:
        stretch = self.stretches[nr]
        numbers = stretch.evaluate(*values)
        if numbers is None:
            return None
        following = iter(numbers)
        copying.fill(stretch.layouts, following)
        copying.waiting = stretch.waiting, [*islice(following, len(stretch.waiting))]
        for place in stretch.params:
            copying.params[place] = next(following)
        copying.numbers = [*following]
        first = node = stretch.copies[0].node(parent, copying)
        for copier in stretch.copies[1:]:
            before, node = node, copier.node(node, copying)
            before.children[node.key] = node
            before.first = before.last = node
        trie.size += len(stretch.copies)
        trie.publish(first)
        is_last = nr == len(self.stretches) - 1
        return first, node if is_last else (node, Unfinished(self, nr + 1, values, copying, given))


class _InstrCopy(NamedTuple):
    """How an instruction is copied.

    Attributes:
        instr: as it was derived.
        is_known: it is the same for all extents.
        params, operands: the places of its params and operands, -1 if they are the same for all extents.
        avals, inputs: pick its layouts from the table.
        place: its number.
    """

    instr: Instr
    is_known: bool
    params: int
    operands: int
    avals: Callable[[Any], tuple[Any, ...]]
    inputs: Callable[[Any], tuple[Any, ...]]
    place: int

    def made(self, copying: _Copying) -> Instr:
        """The copy."""
        i, table, at = self.instr, copying.avals, self.params
        if not self.is_known:
            params, operands = i.params if at < 0 else copying.params[at], i.inputs
            if self.operands >= 0:
                numbers = copying.params[self.operands]
                operands = tuple(
                    [Const(n) if type(x) is Const else x for x, n in zip(operands, numbers, strict=True)]
                )
            i = Instr(i.op, operands, params, i.outputs, self.avals(table), self.inputs(table), i.requires_grad,
                      i.needs, i.where, i.origin)  # fmt: skip
        copying.instrs[self.place] = i
        return i


class _NodeCopy:
    """How an event and its node are copied: one that is the same for all extents, or a ``PlainEvent``."""

    def __init__(self, row: Row, aval: int, instrs: list[_InstrCopy]) -> None:
        self.twin, self.derived, self.is_given = row.node, row.event, row.given is not None
        self.aval, self.instrs = aval, instrs
        self.is_same = all(i.is_known for i in instrs)

    def node(self, parent: TrieNode, copying: _Copying) -> TrieNode:
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

    def event(self, copying: _Copying) -> Any:
        """The event's copy."""
        instrs = tuple([i.made(copying) for i in self.instrs])
        if self.is_same:
            return self.derived
        if type(self.derived) is PlainEvent:
            return PlainEvent(instrs[0], self.derived.several, self.derived.ends_segment)
        return replaced(self.derived, instrs=instrs)


class _InputCopy(_NodeCopy):
    """Of an ``InputEvent``."""

    def __init__(self, row: Row, aval: int, instrs: list[_InstrCopy], given: int) -> None:
        super().__init__(row, aval, instrs)
        self.given = given

    def node(self, parent: TrieNode, copying: _Copying) -> TrieNode:
        """See ``_NodeCopy``."""
        twin, part, aval = self.twin, self.derived.kind, copying.avals[self.given]
        event = InputEvent(self.derived.vid, aval, part)
        node: TrieNode = new_node(parent, (IN, aval, part), event, twin.next_vid, twin.next_scalar)
        node.vid, node.ids, node.op = twin.vid, (aval, part), twin.op
        return node


class _BackwardCopy(_NodeCopy):
    """Of a ``BackwardEvent``.

    ``results``, ``sets``: the places of layouts; ``is_last``: nothing but its instructions can wait for layouts.
    """

    def __init__(
        self,
        row: Row,
        aval: int,
        instrs: list[_InstrCopy],
        results: Sequence[int | None],
        sets: Sequence[int],
        is_last: bool,
    ) -> None:
        super().__init__(row, aval, instrs)
        self.results, self.sets, self.is_last = results, sets, is_last

    def event(self, copying: _Copying) -> Any:
        """See ``_NodeCopy``."""
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


class _OperationCopy(_NodeCopy):
    """Of an ``OpEvent``; ``own``: which of its instructions is the one that the user sees."""

    def __init__(self, row: Row, aval: int, instrs: list[_InstrCopy], own: int) -> None:
        super().__init__(row, aval, instrs)
        self.own = own

    def event(self, copying: _Copying) -> Any:
        """See ``_NodeCopy``."""
        derived = self.derived
        instrs = tuple([i.made(copying) for i in self.instrs])
        instr = instrs[self.own]
        if not derived.demands:
            return replaced(derived, instr=instr, instrs=instrs)
        looked_at = {look.position for look in derived.demands}  # the other operands are right for all extents
        asked = demands(instr.op, instr.input_avals, instr.params)
        looks = tuple([Look(demand, at) for at, demand in asked if at in looked_at])
        return replaced(derived, instr=instr, instrs=instrs, demands=looks, passed=[None] * len(looks))

    def node(self, parent: TrieNode, copying: _Copying) -> TrieNode:
        """See ``_NodeCopy``, and ``early_checks.may_hits_look``."""
        node = super().node(parent, copying)
        event = node.event
        if event.demands:
            bounds = [bounds_for(look, event.instr.input_avals[look.position]) for look in event.demands]
            node.bounds = None if None in bounds else tuple(bounds)  # type: ignore[arg-type]
            if node.bounds is None:
                node.is_simple, node.outs = False, None
                if node.writes is not None:
                    node.op = node.writes = None
        return node


class _EndCopy(_NodeCopy):
    """Of an ``EndEvent``: its segment's instructions, and the places of layouts."""

    def __init__(
        self,
        row: Row,
        instrs: Sequence[_InstrCopy],
        inputs: Sequence[tuple[int, int]],
        layouts: Sequence[tuple[int, int]],
        avals: Sequence[tuple[int, int]],
        program: Program | None,
    ) -> None:
        super().__init__(row, 0, [])
        self._instrs, self._inputs, self._layouts, self._avals, self._program = instrs, inputs, layouts, avals, program

    def event(self, copying: _Copying) -> Any:
        """See ``_NodeCopy``."""
        derived, table = self.derived, copying.avals
        known: Segment = derived.segment
        inputs = {vid: table[at] for vid, at in self._inputs}
        layouts = {vid: table[at] for vid, at in self._layouts}
        later = partial(copying.made, self._instrs)
        segment = Segment([], inputs, known.outputs, known.writes, known.write_log, layouts, later)
        del segment.instrs
        nbytes, *numbers = copying.numbers
        loaded = None if self._program is None else LoadedProgram(filled(self._program, numbers[0]), segment)
        avals = tuple([(vid, table[at]) for vid, at in self._avals])
        return replaced(derived, program=loaded, segment=segment, avals=avals, nbytes=nbytes, is_deferred=False)


def _picker(places: Sequence[int]) -> Callable[[Any], tuple[Any, ...]]:
    """Picks some entries of a list, as a tuple."""
    if len(places) > 1:
        found: Callable[[Any], tuple[Any, ...]] = itemgetter(*places)
        return found
    return (lambda table: (table[places[0]],)) if places else (lambda table: ())


def _bound(stretch: _Stretch, given: Given, values: tuple[int, ...]) -> tuple[int, ...] | None:
    """The values of the symbols, once a call gives an event its numbers; None if they are none of the path's."""
    first = stretch.first
    if isinstance(given, Aval):
        known = first.aval if type(first) is InputEvent else None
        if known is None or given.dtype is not known.dtype:
            return None
        if (given.is_canonical, given.is_contiguous) != (known.is_canonical, known.is_contiguous):
            return None
        numbers = layout_numbers(given)
    else:
        mine, (op, ids, params) = operation_of(stretch.copies[0].twin.key), given
        if mine is None or mine[0] is not op or not _are_alike(mine[1], ids):
            return None
        numbers = (*[_number_of(x) for x in ids if type(x) is tuple], *flat(params))
    binds = given_numbers(first)
    if len(numbers) != len(binds):
        return None
    found = [*values]
    for n, x in zip(numbers, binds, strict=True):
        if not is_symbolic(x):
            if type(n) is not type(x) or n != x:
                return None
        elif type(n) is not int or n < 2 or _value(x, found, n) != n:
            return None
    return tuple(found)


def _are_alike(ids: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Whether operands are the same, but for integers."""
    if len(ids) != len(others):
        return False
    pairs = zip(ids, others, strict=True)
    return all([x == y or (type(x) is type(y) is tuple and x[1] is y[1] is int) for x, y in pairs])


def _number_of(entry: tuple[Any, type]) -> Any:
    """A number as a key has it: 0, -0.0 and NaN as text."""
    value, kind = entry
    return kind(value) if type(value) is str else value


def _value(x: Any, found: list[int], n: int) -> Any:
    """The value of an expression, if the next symbol that is not known is ``n``."""
    if x.op == "symbol" and x.args[0] == len(found):
        found.append(n)
    return valued(x, found)


def _instrs_of(event: Any) -> Sequence[Instr]:
    """The instructions of an event."""
    if type(event) is UpdateEvent:
        return [i for one in event.events for i in one.instrs]
    return event.instrs if type(event) in (PlainEvent, OpEvent, BackwardEvent) else ()


def _avals_of(row: Row, is_whole: bool) -> list[Aval]:
    """All layouts of an event; unless ``is_whole``, without those that only a backward's instructions have."""
    event = row.event
    found = [] if row.aval is None else [row.aval]
    if type(event) is InputEvent:
        found.append(event.aval)
    for i in _instrs_of(event) if is_whole or type(event) is not BackwardEvent else ():
        found += [*i.avals, *[a for a in i.input_avals if a is not None]]
    if type(event) is BackwardEvent:
        found += [*[r.aval for r in event.results if r is not None], *[aval for _, _, aval, _ in event.sets]]
    if type(event) is EndEvent:
        found += [*event.segment.inputs.values(), *event.segment.layouts.values(), *[aval for _, aval in event.avals]]
    return found
