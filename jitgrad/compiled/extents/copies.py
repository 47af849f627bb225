"""Paths for other extents, as nodes of the trie.

Owns: ``PathFamily``: a derived path, and the copies of it.
Must not know: how a path is derived, when it is copied.
In: a derived path, and an input's layout. Out: published nodes, which calls then find as if they had been recorded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, islice
from typing import Any, NamedTuple, TypeAlias

from jitgrad.codegen.families import numbers_of
from jitgrad.compiled.extents.derivation import (
    DerivedPath,
    Row,
    flat,
    given_numbers,
    has_symbols,
    layout_numbers,
    operation_of,
    valued,
)
from jitgrad.compiled.extents.node_copies import (
    BackwardCopy,
    Copier,
    Copying,
    EndCopy,
    InputCopy,
    InstrCopy,
    Layout,
    NodeCopy,
    OperationCopy,
    instrs_of,
)
from jitgrad.compiled.run import LoadedProgram
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op
from jitgrad.symbols.advice import near
from jitgrad.symbols.evaluator import Evaluator, evaluator, symbols_in
from jitgrad.symbols.number import is_symbolic
from jitgrad.tracer.recording.graph import Const, Instr, Segment
from jitgrad.tracer.recording.history import BackwardEvent, EndEvent, InputEvent, PlainEvent
from jitgrad.tracer.recording.trie import Trie, TrieNode, new_node

__all__ = ["Given", "PathFamily", "Unfinished"]


_MAX_STRAYS = 8
"""Where more calls stray it is not for their extents: who goes on is found out by ``forks``."""

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
    copying: Copying
    given: tuple[Given, ...]


class _Stretch(NamedTuple):
    """Events that can be copied once some symbols are known.

    Attributes:
        copies: of each event.
        copied: makes their nodes.
        first: the event that it begins with: an input, or an operation whose params tell extents.
        known: how many symbols are known before it.
        advice: gives None where some advice is another, Note [Advice].
        evaluate: gives the numbers of ``layouts``, then ``waiting``, then ``params``, then the program's.
        layouts: (place in the table, dtype, rank) of the layouts that come up here.
        waiting: of those that nothing but a backward's instructions have: few are ever looked at.
        params: places of params.
    """

    copies: Sequence[NodeCopy]
    copied: Copier
    first: Any
    known: int
    advice: Evaluator
    evaluate: Evaluator
    layouts: Sequence[Layout]
    waiting: Sequence[Layout]
    params: tuple[int, ...]


class PathFamily:
    """A derived path and what copies of it need.

    Attributes:
        stretches: of the path.
        by_size: how its arena is planned, Note [Arenas for all extents].
        is_for_one: its guards let one set of extents through.
        latest: extents of the last copy.
    """

    def __init__(self, path: DerivedPath) -> None:
        self._program = path.program
        self._table: list[Any] = [None]
        self._places: dict[Any, int] = {id(None): 0}  # id of a layout -> its place in the table
        self._param_places: dict[int, int] = {}  # id of params -> their place
        self._instr_places: dict[int, int] = {}  # id of an instruction -> its place
        self._kept = path  # ids stay theirs
        self._own = tuple([symbol.value for symbol in path.env.symbols])
        self.latest = self._own
        self._strays: list[tuple[int, ...]] = []
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
        guards, advice = ([(symbols_in((g.x, g.y)), g) for g in each] for each in (path.env.guards, path.env.advice))
        for nr, (start, (before, count)) in enumerate(zip(starts, counts, strict=True)):
            is_last = nr == len(starts) - 1
            rows = path.rows[start : None if is_last else starts[nr + 1]]
            layouts, waiting, params, wanted = self._wanted(rows, is_last)
            if is_last and self._program is not None:
                wanted.append(numbers_of(self._program))
            own, best = (
                [g for n, g in each if (n > done or nr == 0) and (n <= count or is_last)] for each in (guards, advice)
            )
            functions = evaluator(best, count, ()), evaluator(own, count, wanted)
            copies = [self._copier(row, is_last) for row in rows]
            first = rows[0].event
            found.append(_Stretch(copies, Copier(copies), first, before, *functions, layouts, waiting, tuple(params)))
            done = count
        return found

    def _wanted(
        self, rows: Sequence[Row], is_last: bool
    ) -> tuple[list[Layout], list[Layout], list[int], list[Any]]:
        """(Layouts that come up in rows, those of them that can wait, params that come up, the numbers of all)."""
        params: list[int] = []
        numbers: list[Any] = []
        layouts = self._layouts([a for row in rows for a in _avals_of(row, not is_last)], numbers)
        waiting = self._layouts([a for row in rows for a in _avals_of(row, True)], numbers)
        for instr in (i for row in rows for i in instrs_of(row.event)):
            self._instr_places.setdefault(id(instr), len(self._instr_places))
            for given in (instr.params, instr.inputs):
                if has_symbols(given) and id(given) not in self._param_places:
                    self._param_places[id(given)] = place = len(self._param_places)
                    params.append(place)
                    numbers.append(tuple([x.value if type(x) is Const else x for x in given]))
        if type(rows[-1].event) is EndEvent:
            numbers.append(rows[-1].event.nbytes)
        return layouts, waiting, params, numbers

    def _layouts(self, avals: Sequence[Aval], numbers: list[Any]) -> list[Layout]:
        """Enter the layouts that are new into the table; returns those that depend on extents."""
        found: list[Layout] = []
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

    def _copier(self, row: Row, is_last: bool) -> NodeCopy:
        """What copies an event and its node."""
        event = row.event
        kind = type(event)
        instrs = [self._instr(i) for i in instrs_of(event)]
        place = self._place(row.aval)
        if kind is InputEvent:
            return InputCopy(row, place, instrs, self._place(event.aval))
        if kind is EndEvent:
            return self._end(row, event)
        if kind is BackwardEvent:
            results = [None if r is None else self._place(r.aval) for r in event.results]
            sets = [self._place(aval) for _, _, aval, _ in event.sets]
            return BackwardCopy(row, place, instrs, results, sets, is_last)
        if event is row.node.event or kind is PlainEvent:
            return NodeCopy(row, place, instrs)
        own = next(n for n, i in enumerate(event.instrs) if i is event.instr)
        return OperationCopy(row, place, instrs, own)

    def _place(self, aval: Any) -> int:
        return self._places[id(aval)]

    def _instr(self, i: Instr) -> InstrCopy:
        if id(i) not in self._instr_places:  # of an operation before the paths part: the same for all of them
            return InstrCopy(i, True, -1, -1, self._instr_places.setdefault(id(i), len(self._instr_places)), (), ())
        params, operands = (self._param_places.get(id(given), -1) for given in (i.params, i.inputs))
        avals, inputs = [self._place(a) for a in i.avals], [self._place(a) for a in i.input_avals]
        is_known = params < 0 and operands < 0 and all([not n or self._table[n] is not None for n in (*avals, *inputs)])
        return InstrCopy(i, is_known, params, operands, self._instr_places[id(i)], avals, inputs)

    def _end(self, row: Row, event: EndEvent) -> EndCopy:
        known: Segment = event.segment
        return EndCopy(
            row,
            [self._instr(i) for i in known.instrs],
            [(vid, self._place(aval)) for vid, aval in known.inputs.items()],
            [(vid, self._place(aval)) for vid, aval in known.layouts.items()],
            [(vid, self._place(aval)) for vid, aval in event.avals],
            self._program,
        )

    # --- copying ---

    def begin(
        self, trie: Trie, parent: TrieNode, given: Given, is_best: bool = True
    ) -> tuple[TrieNode, Any] | None:
        """Copy the path as far as what is given for the first event tells; see ``go_on``."""
        found = _bound(self.stretches[0], given, ())
        if found is None:
            return None
        blank = Copying(list(self._table), [None] * len(self._param_places), [None] * len(self._instr_places))
        return self._copy(trie, parent, 0, found, blank, (given,), is_best)

    def go_on(
        self, trie: Trie, parent: TrieNode, given: Given, before: Unfinished, is_best: bool = True
    ) -> tuple[TrieNode, Any] | None:
        """Copy more of it.

        Args:
            given: an input's layout; or an operation, its operands' ids and its params.
            is_best: all advice has the same answers; else the extents are near, Note [Advice].

        Returns:
            The node of the event, published; and either how to go on, with the last node, or the end of the path.
            None if what is given is of another path.
        """
        found = _bound(self.stretches[before.stretch], given, before.values)
        if found is None:
            return None
        return self._copy(trie, parent, before.stretch, found, before.copying.again(), (*before.given, given), is_best)

    def so_far(self, node: TrieNode, other: Unfinished, is_best: bool) -> Unfinished | None:
        """What this family would have made up to a node that another family's copy ends at; None if it is of no use.

        Families of one fork often differ in what the later inputs' extents decide.
        """
        if len(self.stretches) <= other.stretch or self.stretches[other.stretch].known != len(other.values):
            return None
        found = self._apart(other.given, is_best)
        if found is None or type(found[1]) is not tuple or not _have_same_keys(found[1][0], node):
            return None
        made: Unfinished = found[1][1]
        return made

    def resumed(self, nodes: Sequence[TrieNode]) -> Unfinished | None:
        """How to go on behind what a call has recorded.

        ``nodes``: of the call's path, from where this family begins. None if they are none of this family's, or if it
        would not wait for an input there.
        """
        starts, at = [], 0
        for stretch in self.stretches:
            if at >= len(nodes):
                break
            starts.append(at)
            at += len(stretch.copies)
        given = [one for n in starts if (one := _given(nodes[n])) is not None]
        if at != len(nodes) or len(starts) == len(self.stretches) or len(given) != len(starts):
            return None
        for is_best in (True, False):
            found = self._apart(given, is_best)
            if found is not None and type(found[1]) is tuple and _have_same_keys(found[1][0], nodes[-1], len(nodes)):
                unfinished: Unfinished = found[1][1]
                return unfinished
        return None

    def distance(self, given: Given) -> float:
        """How far what a call gives for the first event is from what this family was derived with, as a ratio."""
        found = _bound(self.stretches[0], given, ())
        return math.inf if found is None else max([max(n / m, m / n) for n, m in zip(found, self._own, strict=False)])

    def note_stray(self, values: tuple[int, ...]) -> None:
        """A call of such extents has done something else than its copy: programs may ask for extents themselves."""
        if len(self._strays) <= _MAX_STRAYS:
            self._strays.append(values)

    def _has_strayed(self, values: tuple[int, ...]) -> bool:
        """Whether a call has strayed that lay on the way from this family's own extents to these.

        Example: a function does something else from 26 rows on. A call with 27 has strayed from the copy of a family
        that was derived with 18: the family serves up to 26 rows from then on.
        """
        if not 0 < len(self._strays) <= _MAX_STRAYS:
            return False
        return any([_is_between(stray, self._own, values) for stray in self._strays])

    def program_for(self, nodes: Sequence[TrieNode]) -> LoadedProgram | None:
        """The program at the end of a path that was recorded; None if the path is none of this family's."""
        if len(nodes) != sum([len(stretch.copies) for stretch in self.stretches]):
            return None
        starts = [0, *accumulate([len(stretch.copies) for stretch in self.stretches[:-1]])]
        given = [one for at in starts if (one := _given(nodes[at])) is not None]
        for is_best in (True, False):
            found = self._apart(given, is_best) if len(given) == len(starts) else None
            if found is not None and type(found[1]) is not tuple and _have_same_keys(found[1], nodes[-1], len(nodes)):
                loaded: LoadedProgram | None = found[1].event.program
                return loaded
        return None

    def _apart(self, given: Sequence[Given], is_best: bool) -> tuple[TrieNode, Any] | None:
        """A copy in a trie of its own, which nobody goes along."""
        trie = Trie(1 << 30, 1 << 30)
        root: TrieNode = new_node(None, None, None, 0, 0)
        found = self.begin(trie, root, given[0], is_best)
        for one in given[1:]:
            if found is None or type(found[1]) is not tuple:
                return None
            found = self.go_on(trie, found[1][0], one, found[1][1], is_best)
        return found

    def _copy(
        self,
        trie: Trie,
        parent: TrieNode,
        nr: int,
        values: tuple[int, ...],
        copying: Copying,
        given: tuple[Given, ...],
        is_best: bool,
    ) -> tuple[TrieNode, Any] | None:
        stretch = self.stretches[nr]
        if self._has_strayed(values):
            return None
        if stretch.advice(*values) is None if is_best else not near(values, self._own):
            return None
        numbers = stretch.evaluate(*values)
        if numbers is None:
            return None
        self.latest = values
        following = iter(numbers)
        copying.fill(stretch.layouts, following)
        copying.waiting = stretch.waiting, [*islice(following, len(stretch.waiting))]
        for place in stretch.params:
            copying.params[place] = next(following)
        copying.numbers = [*following]
        first, node = stretch.copied(parent, copying)
        trie.size += len(stretch.copies)
        trie.publish(first)
        is_last = nr == len(self.stretches) - 1
        return first, node if is_last else (node, Unfinished(self, nr + 1, values, copying, given))


def _given(node: TrieNode) -> Given | None:
    """What a recorded call has given an event."""
    return node.event.aval if type(node.event) is InputEvent else operation_of(node.key)


def _have_same_keys(mine: TrieNode | None, theirs: TrieNode | None, count: int = -1) -> bool:
    """Whether the paths to two nodes are the same, up to the root of the first; ``count``: so many of their nodes."""
    while mine is not None and mine.parent is not None and count:
        if theirs is None or mine.key != theirs.key:
            return False
        mine, theirs, count = mine.parent, theirs.parent, count - 1
    return True


def _is_between(stray: Sequence[int], own: Sequence[int], values: Sequence[int]) -> bool:
    """Whether ``stray`` lies between two others, in every extent."""
    return all([n <= m <= k or n >= m >= k for n, m, k in zip(own, stray, values, strict=False)])


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


def _avals_of(row: Row, is_whole: bool) -> list[Aval]:
    """All layouts of an event; unless ``is_whole``, without those that only a backward's instructions have."""
    event = row.event
    found = [] if row.aval is None else [row.aval]
    if type(event) is InputEvent:
        found.append(event.aval)
    for i in instrs_of(event) if is_whole or type(event) is not BackwardEvent else ():
        found += [*i.avals, *[a for a in i.input_avals if a is not None]]
    if type(event) is BackwardEvent:
        found += [*[r.aval for r in event.results if r is not None], *[aval for _, _, aval, _ in event.sets]]
    if type(event) is EndEvent:
        found += [*event.segment.inputs.values(), *event.segment.layouts.values(), *[aval for _, aval in event.avals]]
    return found
