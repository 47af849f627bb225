"""Where paths part because inputs have other extents, and what is known of them.

Owns: ``note_path``, ``copied_path``, ``copied_program``: when a path is derived for all extents, and when it is copied.
Must not know: how either is done.

# Note [Path families]
# ~~~~~~~~~~~~~~~~~~~~
# Graphs, sentences, molecules: each call brings inputs of other extents, and so each call's path is new from its first
# such input on. To record it costs some hundred microseconds an operation, with its backward and its plan, and it may
# never come again. But the paths differ in nothing but numbers. So where inputs of one kind (rank, dtype, how they are
# laid out) have led to other paths of equal events ``_DERIVED_FROM`` times, the last of these is *derived* for all
# extents (``derivation.py``), before it is run: shape rules, derivative rules and planning run once more, over symbols
# (Note [Symbolic extents]). Derivation compares the path with that one of the earlier paths whose numbers differ most
# from its own: a number that differs is an extent, one that does not is a constant. It gives the layouts, params and
# argument words of all events as functions of the extents, and the guards under which the events are these.
# When another input of the kind comes, the path is *copied* (``copies.py``): the numbers are filled in, and the nodes
# hang in the trie as if the call had been recorded. The call then goes along them by hits. An input whose extents are
# not known yet ends the copy; it goes on when that input comes (``Unfinished``). Nothing is taken for granted: a call
# that does something else finds no such child there, and records. A copy is what recording would have made; with
# ``config.verify`` calls record, and what they record is compared with the copy.
# Example: a step over graphs of n nodes and e edges. The 4th graph's path is derived, in 40 ms. The 5th graph's
# features, [n, 16], copy the path to where the edges are used for the first time; the edges copy the rest. So do edges
# behind features whose extents were recorded before there was a family.
# A path is derived if all it holds is operations, in-place operations, backwards into leaves without gradients, and
# one segment. The usual backward's rules run again over symbols; of one that is differentiated itself, or returns its
# gradients, the shape rules run again over what the engine recorded. Floats that calls compute of extents are run-time
# scalars (Note [Number promotion]). Instructions of a copied backward are made when somebody looks at them
# (``instrs_later``): hits do not. How many copies are kept depends on whether their extents come again, Note [Kept
# copies].
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from jitgrad.compiled.extents.copies import Given, PathFamily, Unfinished
from jitgrad.compiled.extents.derivation import DerivedPath, NoPathError, derived, flat, given_numbers, operation_of
from jitgrad.compiled.extents.kept_copies import KeptCopies
from jitgrad.compiled.extents.verify_copies import compare
from jitgrad.config import config
from jitgrad.errors import CompileError
from jitgrad.events import bump, log
from jitgrad.ops.aval import Aval
from jitgrad.tracer.recording.history import InputEvent, OpEvent, PlainEvent
from jitgrad.tracer.recording.keys import IN, InputKind
from jitgrad.tracer.recording.trie import Trie, TrieNode
from jitgrad.user_line import let_through

__all__ = ["copied_path", "copied_program", "note_path", "will_derive"]

_DERIVED_FROM = 3
_MAX_FAMILIES = 24
"""Of one fork: guards of its paths may have other answers, or calls do other things."""
_MAX_REFUSALS = 3
_MAX_EVENTS = 2000
_MAX_DERIVED = 6000
"""Events, of all paths of one fork: to derive one costs about a millisecond."""
_MAX_STRAYS = 16
_MAX_KINDS = 8
_MOST_LENT = 400
"""After so many copies for near extents, Note [Advice], a call is recorded, so that its extents have a family."""


class _Fork:
    """What is known of the inputs of one kind that come after one node.

    Attributes:
        seen: how many paths were recorded from here on.
        previous: the last of them.
        alike: by what they do, the last few of each kind; one that has other events tells nothing of extents.
        families: of derived paths.
        refusals: how often a path could not be derived.
        kept: the copies that are still there.
        copies, strays: how many paths were copied to the end; how many calls did something else than their copies.
        lent: how many copies were for near extents, Note [Advice].
    """

    __slots__ = ("alike", "copies", "families", "kept", "lent", "previous", "refusals", "seen", "strays")

    def __init__(self) -> None:
        self.seen = self.refusals = self.copies = self.strays = self.lent = 0
        self.previous: list[TrieNode] = []
        self.alike: dict[Any, list[list[TrieNode]]] = {}
        self.families: list[PathFamily] = []
        self.kept = KeptCopies()

    def is_due(self, seen: int, nodes: Sequence[TrieNode]) -> bool:
        """Whether a path is derived, without its end, where ``seen`` are known with it."""
        return seen >= _DERIVED_FROM and _what_is_done(nodes) in self.alike and not self._is_over(len(nodes) + 1)

    def note(self, nodes: list[TrieNode]) -> list[list[TrieNode]]:
        """A path was recorded: the last few before it that did the same."""
        self.seen += 1
        self.previous = nodes
        done = _what_is_done(nodes[:-1])
        before = self.alike.pop(done, [])
        self.alike[done] = [*before, nodes][-_DERIVED_FROM:]
        for old in [*self.alike][:-_MAX_KINDS]:  # other threads may be here, too
            self.alike.pop(old, None)
        return before

    def _is_over(self, events: int) -> bool:
        most = min(_MAX_FAMILIES, max(1, _MAX_DERIVED // events))
        return len(self.families) >= most or self.refusals >= _MAX_REFUSALS

    def lends(self) -> bool:
        """Whether a family may serve extents that are near to its own."""
        self.lent += 1
        return self.lent % _MOST_LENT != 0 or self._is_over(max(1, len(self.previous)))


def _kind(aval: Aval, part: InputKind) -> Any:
    """Of an input, what derived paths do not change."""
    return aval.dtype, len(aval.shape), aval.is_canonical, aval.is_contiguous, part


def _kind_of(node: TrieNode) -> Any:
    """The same of an event that paths may part at; None for others."""
    event = node.event
    if type(event) is InputEvent:
        return _kind(event.aval, event.kind) if node.op is IN else None
    return _kind_of_operation(operation_of(node.key)) if type(event) in (PlainEvent, OpEvent) else None


def _derived_by_any(nodes: list[TrieNode], others: list[list[TrieNode]], recorder: Any) -> DerivedPath:
    """The path for all extents. ``others``: earlier paths; the one whose numbers differ most is compared first.

    Raises:
        NoPathError: it cannot be derived by comparison with any of them.
    """
    *first, last = sorted(others, key=lambda path: _difference(nodes, path), reverse=True)
    for path in first:
        with contextlib.suppress(NoPathError):
            return derived(nodes, path, recorder)
    return derived(nodes, last, recorder)


def _difference(nodes: Sequence[TrieNode], others: Sequence[TrieNode]) -> tuple[int, float]:
    """(How many of the numbers that calls give differ, by how much in all). Equal numbers are taken for constants.

    Example: images of 46 and of 47 rows both have 23 after a pooling, and an operation may be given that number.
    """
    found = []
    for node, other in zip(nodes, others, strict=False):
        pairs = zip(given_numbers(node.event), given_numbers(other.event), strict=False)
        found += [abs(n - m) for n, m in pairs if type(n) is type(m) is int and n != m]
    return len(found), sum(found)


def _what_is_done(nodes: Sequence[TrieNode]) -> Any:
    """Of a path, what is equal where nothing but extents differs."""
    return tuple([(type(node.event), node.op) for node in nodes])


def _kind_of_operation(operation: Any) -> Any:
    if operation is None:
        return None
    op, ids, params = operation
    operands = tuple([x if type(x) is int else x[1] for x in ids])
    return op, operands, tuple(map(type, flat(params)))


def will_derive(recorder: Any) -> bool:
    """Whether ``note_path`` will derive the path of a call that has recorded something new, once it has ended."""
    nodes = _new_part(recorder) or []
    fork = recorder.trie.forks.get((nodes[0].parent, _kind_of(nodes[0]))) if nodes else None
    return fork is not None and not config.verify and fork.is_due(fork.seen + 1, nodes)


def _new_part(recorder: Any) -> list[TrieNode] | None:
    """A call's path from where extents part it from others; None if they do not."""
    if recorder.node.depth > _MAX_EVENTS:
        return None
    nodes: list[TrieNode] = []
    node = recorder.node
    while node.parent is not None:
        nodes.append(node)
        node = node.parent
    nodes.reverse()
    at = next((n for n, x in enumerate(nodes) if _parts_here(x)), -1)
    return None if at < 0 else nodes[at:]


def note_path(recorder: Any) -> None:
    """A call has recorded something new, and ends: derive its path, if others of its kind were met before."""
    recorder.path.noted = recorder.tid
    nodes = _new_part(recorder)
    if nodes is None:
        return
    trie: Trie = recorder.trie
    first = nodes[0]
    fork = trie.forks.setdefault((first.parent, _kind_of(first)), _Fork())
    is_due = fork.is_due(fork.seen + 1, nodes[:-1])
    previous = fork.note(nodes)
    if config.verify and any([compare(family, fork.previous) for family in fork.families]):
        return
    if recorder.path.copied == recorder.tid:
        fork.strays += 1
        if recorder.path.copied_by is not None:
            family, extents = recorder.path.copied_by
            family.note_stray(extents)
        if fork.strays >= _MAX_STRAYS and fork.strays > fork.copies // 2:  # its calls do many things
            fork.families, fork.refusals = [], _MAX_REFUSALS
    others = [path for path in previous if path[0] is not first]
    if not is_due or not others:
        return
    try:
        family = PathFamily(_derived_by_any(nodes, others, recorder))
        if family.is_for_one:
            raise NoPathError("its guards fix an extent")
        fork.families.append(family)
    except (NoPathError, CompileError) as error:
        fork.refusals += not fork.families  # one that is refused beside others had extents of a special size
        log("record", "no path for all extents: %s", error)
    except Exception as error:
        let_through(error)
        fork.refusals += not fork.families
        log("record", "no path for all extents: %r", error)
    else:
        bump("path_families")


def _parts_here(node: TrieNode) -> bool:
    """Whether paths part here, by an input's extents, or an operation's."""
    assert node.parent is not None
    siblings = node.parent.children
    if len(siblings) < 2 or (own := _kind_of(node)) is None:
        return False
    return any([other is not node and _kind_of(other) == own for other in siblings.values()])


def copied_path(recorder: Any, given: Given, part: InputKind | None, running: Collection[int]) -> TrieNode | None:
    """The node of an event that has none yet, with what follows it; None if no derived path has such an event.

    Args:
        given: an input's layout; or an operation, its operands' ids and its params.
        part: the input's part in the graph.
        running: the stamps of the calls that are being recorded.
    """
    trie, node = recorder.trie, recorder.node
    start = _fork_at(trie, node, given, part)
    if start is not None and start.previous:
        recorder.path.numbers.peers = node.depth + 1, start.previous
    if config.verify:  # what calls record is compared with what would have been copied
        return None
    before: tuple[_Fork, Unfinished] | None = trie.forks.get(node)
    if before is None and node.children:  # a path that was recorded, not copied, comes with other inputs from here on
        before = _resumed(trie, node)
    if before is not None:
        fork, unfinished = before
        for is_best, family in _gone_on_by(node, fork, unfinished):
            so_far = unfinished if family is unfinished.family else family.so_far(node, unfinished, is_best)
            found = None if so_far is None else family.go_on(trie, node, given, so_far, is_best)
            if found is not None:
                return _hung(recorder, found, fork, family, is_best, running)
    if start is None:
        return None
    for is_best, family in _begun_by(start, given):
        found = family.begin(trie, node, given, is_best)
        if found is not None:
            if is_best and family is not start.families[0]:  # the likeliest first; other threads may look at the list
                start.families = [family, *[f for f in start.families if f is not family]]
            return _hung(recorder, found, start, family, is_best, running)
    return None


def _resumed(trie: Trie, node: TrieNode) -> tuple[_Fork, Unfinished] | None:
    """What goes on behind a node that was recorded, if a family would have copied the path to it.

    Example: three calls were recorded with sentences of 61, 64 and 60 words, of 340, 402 and 377 in all; the fourth one
    gave a family. A call with 61 words, and 352 in all, finds the first input's node, which no copy has made.
    """
    nodes: list[TrieNode] = []
    at = node
    while at.parent is not None:
        nodes.append(at)
        fork: _Fork | None = trie.forks.get((at.parent, _kind_of(at)))
        for family in () if fork is None else fork.families:
            unfinished = family.resumed(nodes[::-1])
            if unfinished is not None and fork is not None:
                trie.forks[node] = fork, unfinished
                return fork, unfinished
        at = at.parent
    return None


def _begun_by(fork: _Fork, given: Given) -> Iterator[tuple[bool, PathFamily]]:
    """(Whether all its advice must be good, family), in the order in which they are asked for the beginning."""
    for family in fork.families:
        yield True, family
    if fork.lends():
        for family in sorted(fork.families, key=lambda f: f.distance(given)):
            yield False, family


def _gone_on_by(node: TrieNode, fork: _Fork, unfinished: Unfinished) -> Iterator[tuple[bool, PathFamily]]:
    """The same for what follows: another family may have come as far, see ``PathFamily.so_far``."""
    families = [unfinished.family, *[f for f in fork.families if f is not unfinished.family]]
    for family in families:
        yield True, family
    if fork.lends():
        for family in families:
            yield False, family


def copied_program(trie: Trie, end: TrieNode) -> Any:
    """The program of a path that was recorded and not compiled, from a family that was derived since; or None."""
    if config.verify:
        return None
    nodes = [end]
    while (parent := nodes[-1].parent) is not None and parent.parent is not None:
        nodes.append(parent)
    nodes.reverse()
    for at, node in enumerate(nodes):
        fork = trie.forks.get((node.parent, _kind_of(node)))
        for family in fork.families if fork is not None else ():
            found = family.program_for(nodes[at:])
            if found is not None:
                bump("family_programs")
                return found
    return None


def _fork_at(trie: Trie, node: TrieNode, given: Given, part: InputKind | None) -> _Fork | None:
    """What is known of events of this kind that come after ``node``."""
    if type(given) is Aval:
        assert part is not None
        kind = _kind(given, part)
    else:
        kind = _kind_of_operation(given)
    found: _Fork | None = trie.forks.get((node, kind))
    return found


def _hung(
    recorder: Any,
    found: tuple[TrieNode, Any],
    fork: _Fork,
    family: PathFamily,
    is_best: bool,
    running: Collection[int],
) -> TrieNode:
    """Note how a copy goes on; or that it is complete, and let the oldest ones go."""
    first, rest = found
    trie: Trie = recorder.trie
    is_whole = type(rest) is not tuple
    recorder.path.copied, recorder.path.copied_by = recorder.tid, (family, family.latest) if is_whole else None
    bump("copied_paths")
    if not is_best:
        bump("lent_programs")
    if not is_whole:
        last, unfinished = rest
        trie.forks[last] = fork, unfinished
        return first
    rest.tick = trie.clock + 1  # the call will end here
    fork.copies += 1
    gone = fork.kept.add(rest, family.latest)
    if gone:
        trie.drop(gone, frozenset(running))
    return first
