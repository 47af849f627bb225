"""Fusion: roots to groups; a group becomes one kernel.

Owns: ``Group``, ``fuse``, the legality rules and their refusals (``WhyNot``).
Must not know: loop order, LLVM, buffers.
In: roots in topological order. Out: groups, and the refusals.

# Note [Fusion]
# ~~~~~~~~~~~~~
# A root may join a group if (1) it visits the same domain, or the kept part of the group's reductions; (2) every group
# it also depends on is known not to depend on this one; (3) what it reads of the group is the same element, or the
# whole of a row's reduction; (4) it reduces the same dims as the group's other reductions. Rule 3 is decided by
# lowering it into the group's instructions; if that is refused, they are rolled back. For rule 2 each group has a level
# above the levels of all groups that it depends on. So a group of a lower level cannot depend on it; and no group
# depends on one whose values no other group reads.
# Example: in ``y = x - x.mean(1, True)`` the mean's sum and the subtraction visit the same [rows, columns], and the
# subtraction reads the whole sum of its own row: one kernel, which passes over each row twice (Note [Phases]).
# ``y.t().sum(1)`` visits the elements in another order: a kernel of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jitgrad.codegen.fusion.domain import Domain, Refuse, Resplit
from jitgrad.codegen.fusion.lower import Lowerer
from jitgrad.codegen.fusion.roots import Root
from jitgrad.codegen.primitives.builder import Value
from jitgrad.codegen.primitives.cost import op_cost
from jitgrad.codegen.primitives.decompose import chunk_count
from jitgrad.symbols.advice import advice, always_equal

__all__ = ["Group", "NeedsBuffers", "WhyNot", "fuse"]

_MAX_COST = 1200  # of one kernel's instructions, in vector additions: bounds compile time and register use
_MAX_SPLITS = 4
_NEIGHBOURS = 6  # groups of the same domain that are tried for a shared input
_TAIL_WORK = 8000  # arithmetic on a row's result is done in scalars, row by row, up to this many additions

_OWN_KERNELS = frozenset({"matmul", "scatter", "routine"})


class NeedsBuffers(Exception):
    """Roots fit no kernel, not even one of their own: ``stores`` must be copied to buffers first."""

    def __init__(self, stores: Sequence[Value]) -> None:
        super().__init__(f"{len(stores)} values need a buffer of their own")
        self.stores = stores


@dataclass(slots=True, frozen=True)
class WhyNot:
    """Why a root did not join the kernel that computes one of its operands; logs, ``explain`` and tests read it.

    Attributes:
        reason: one phrase.
        producer: the group that it did not join.
        consumer: the root's value.
    """

    reason: str
    producer: Group
    consumer: Value

    def __str__(self) -> str:
        return f"not fused: {self.consumer} into {self.producer}: {self.reason}"


class Group:
    """The roots of one kernel.

    Attributes:
        kind: "loops", "matmul", "scatter" or "routine".
        roots: in topological order.
        lowerer: their instructions.
        reduced: the domain's dims that its reductions reduce; None before there is one.
        chunks: into how many partial results they are cut.
        level: see Note [Fusion].
        consumed: whether another group reads one of its values; then it must not wait for more groups.
    """

    __slots__ = ("chunks", "consumed", "deps", "dims", "kind", "level", "lowerer", "reduced", "roots")

    def __init__(self, kind: str, shape: tuple[int, ...], stored: dict[Value, Root]) -> None:
        self.kind = kind
        self.lowerer = Lowerer(Domain(shape), stored)
        self.roots: list[Root] = []
        self.dims: list[tuple[int, ...]] = []
        self.reduced: frozenset[int] | None = None
        self.chunks = 1
        self.level = 0
        self.consumed = False
        self.deps: set[Value] = set()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lowerer.domain.shape

    def __repr__(self) -> str:
        return "+".join(n.value.op for n in self.roots[:4]) + ("+..." if len(self.roots) > 4 else "")


def fuse(roots: dict[Value, Root]) -> tuple[list[Group], list[WhyNot]]:
    """Groups in an order that respects dependencies by level, and why roots started new ones.

    Raises:
        NeedsBuffers: as many values as are known to need one; the roots that depend on them may need more.
        Refuse: a root fits no kernel, and a buffer does not help.
    """
    return _Fuser(roots).run()


class _Fuser:
    """Makes groups.

    Attributes:
        refused: what must lie in memory before its reader can be in a kernel.
        unknown: stand-ins for the groups of such readers, and of what might have joined them.
    """

    def __init__(self, roots: dict[Value, Root]) -> None:
        self.roots = roots
        self.groups: list[Group] = []
        self.notes: list[WhyNot] = []
        self.by_shape: dict[tuple[int, ...], list[Group]] = {}
        self.totals: list[Group] = []
        self.refused: dict[Value, None] = {}
        self.unknown: set[Group] = set()
        self.readers: dict[Value, list[Root]] = {}
        for root in roots.values():
            for v in root.deps:
                self.readers.setdefault(v, []).append(root)

    def run(self) -> tuple[list[Group], list[WhyNot]]:
        for root in self.roots.values():
            if root.kind == "cat":
                continue
            before = self._groups_before(root)
            if root.kind == "routine_part":
                self._add_part(root, before)
                continue
            may_join = root.kind in ("map", "reduce")
            if may_join and not self.unknown.isdisjoint(before):
                self._stand_in(root, before)
            elif not may_join or not self._join_any(root, before):
                self._try_to_start(root, before)
        if self.refused:
            raise NeedsBuffers([*self.refused])
        return self.groups, self.notes

    def _try_to_start(self, root: Root, before: dict[Group, None]) -> None:
        """A group of the root's own; if there can be none yet, go on, to find all that need a buffer in one walk."""
        try:
            self._start(root, before)
        except Refuse as refusal:
            if refusal.store is None:
                raise
            self.refused[refusal.store] = None
            self._stand_in(root, before)

    def _stand_in(self, root: Root, before: dict[Group, None]) -> None:
        """A group that nothing joins, of a root whose kernel will be known after the next walk."""
        group = Group("routine", root.domain, self.roots)
        self.unknown.add(group)
        self._joined(root, group, before)

    def _add_part(self, root: Root, before: dict[Group, None]) -> None:
        """Another result of a routine is computed by the routine's kernel."""
        group = self.roots[root.value.srcs[0]].group
        group.roots.append(root)
        self._joined(root, group, before)

    def _groups_before(self, root: Root) -> dict[Group, None]:
        """The groups that compute what ``root`` reads (a cat is computed by its parts' groups)."""
        found: dict[Group, None] = {}
        for v in root.deps:
            if v.op == "cat":
                found.update(self._parts(v))
            elif v.op != "input":
                found[self.roots[v].group] = None
        return found

    def _producers(self, root: Root) -> dict[Group, None]:
        """The groups that ``root`` may join as their reader: not those that write parts of a concatenation it reads."""
        found = {self.roots[v].group: None for v in root.deps if v.op not in ("cat", "input")}
        for v in root.deps:
            if v.op == "cat":
                self._note_parts(root, v)
                for group in self._parts(v):
                    found.pop(group, None)
        return found

    def _parts(self, cat: Value) -> dict[Group, None]:
        """The groups that compute the parts of a concatenation."""
        found: dict[Group, None] = {}
        waiting = [*reversed(cat.srcs)]
        while waiting:
            part = waiting.pop()
            if part.op == "cat":
                waiting += reversed(part.srcs)
            else:
                found[self.roots[part].group] = None
        return found

    def _note_parts(self, root: Root, v: Value) -> None:
        for group in self._parts(v):
            self.notes.append(WhyNot("reads a concatenation that the kernel writes", group, root.value))

    def _candidates(self, root: Root, before: dict[Group, None]) -> Iterable[Group]:
        """Producers first, the latest first; then groups that read the same arrays."""
        yield from sorted(self._producers(root), key=lambda g: -g.level)
        yield from self._grown(root, before)
        large = {v for v in root.deps if _is_half_of(v.shape, root.domain)}
        for group in reversed(self.by_shape.get(root.domain, ())[-_NEIGHBOURS:]):
            if group not in before and group.kind == "loops" and not large.isdisjoint(group.deps):
                yield group

    def _grown(self, root: Root, before: dict[Group, None]) -> Iterable[Group]:
        """A sum over n - 1 neighbours and a map over n elements are one loop: the sum's group is made longer."""
        for group in reversed(self.totals[-_NEIGHBOURS:]):
            shares = any(_is_half_of(v.shape, root.domain) and v in group.deps for v in root.deps)
            total = group not in before and all(_is_total(n) or not n.domain for n in group.roots)
            longer = not always_equal(group.shape, root.domain) and _almost(group.shape, root.domain)
            if not (total and shares and longer and root.kind == "map"):
                continue
            try:
                _grow(group, root.domain)
            except (Refuse, Resplit):
                continue
            self.by_shape.setdefault(root.domain, []).append(group)
            yield group

    def _join_any(self, root: Root, before: dict[Group, None]) -> bool:
        for group in self._candidates(root, before):
            reason = self._why_not(root, group, before)
            if reason is None:
                self._joined(root, group, before)
                return True
            if group in before:
                self.notes.append(WhyNot(reason, group, root.value))
        return False

    def _why_not(self, root: Root, group: Group, before: dict[Group, None]) -> str | None:
        """Why ``root`` cannot join; None after it was lowered into the group."""
        if group.kind in ("scatter", "routine") or (group.kind == "matmul" and root.kind != "map"):
            return "that kernel takes no such part"
        dims = _dims_in(group, root)
        if dims is None:
            return f"visits {list(root.domain)}, not {list(group.shape)}"
        if group.consumed and any(g.level >= group.level for g in before if g is not group):
            return "would have to wait for a later kernel"
        if root.reduced is not None and group.reduced not in (None, root.reduced):
            return "reduces other dims"
        if len(dims) < len(group.shape) and self._is_long_tail(root, group):
            return "costs less in a loop over the rows, several at a time"
        refusal = _lower_into(group, root, dims)
        return refusal.reason if refusal else None

    def _is_long_tail(self, root: Root, group: Group) -> bool:
        """Whether ``root`` is expensive arithmetic on one result per row, which a loop over the rows does in vectors.

        Not so if a loop over the rows' elements reads it, as in a softmax: then it must stay with the row.
        """
        rows = math.prod(root.domain)
        if not _is_dear(root, self.roots, rows):
            return False
        waiting, seen = [root.value], {root.value}
        while waiting:
            for reader in self.readers.get(waiting.pop(), ()):
                if reader.domain == group.shape:  # as in a softmax
                    return False
                if reader.domain == root.domain and reader.value not in seen:
                    seen.add(reader.value)
                    waiting.append(reader.value)
        return True

    def _joined(self, root: Root, group: Group, before: dict[Group, None]) -> None:
        root.group = group
        group.deps.update(root.deps)
        for g in before:
            if g is not group:
                g.consumed = True
                group.level = max(group.level, g.level + 1)
        if root.reduced is not None:
            group.reduced = root.reduced
            group.chunks = chunk_count(root.source.shape, root.reduce or ())

    def _start(self, root: Root, before: dict[Group, None]) -> None:
        group = Group(root.kind if root.kind in _OWN_KERNELS else "loops", root.domain, self.roots)
        if group.kind == "matmul":
            _start_matmul(group, root)
        elif group.kind == "routine":
            group.roots.append(root)
        else:
            _lower_alone(group, root)
        self._joined(root, group, before)
        self.groups.append(group)
        self.by_shape.setdefault(root.domain, []).append(group)
        if _is_total(root):
            self.totals.append(group)


@advice
def _is_dear(root: Root, stored: dict[Value, Root], rows: int) -> bool:
    """Whether ``rows`` elements of ``root`` cost ``_TAIL_WORK`` or more, from the stored values that it reads."""
    total, waiting, seen = 0, [root.source], {root.source}
    while waiting:
        v = waiting.pop()
        total += op_cost(v.op)
        if rows * total >= _TAIL_WORK:
            return True
        for s in v.srcs:
            if s not in stored and s not in seen:
                seen.add(s)
                waiting.append(s)
    return False


@advice
def _is_half_of(shape: tuple[int, ...], domain: tuple[int, ...]) -> bool:
    """Whether to read a value of this shape once less saves much of a loop's time."""
    return 2 * math.prod(shape) >= math.prod(domain)


def _dims_in(group: Group, root: Root) -> tuple[int, ...] | None:
    """Which of the group's dims the root's own run along."""
    everything = tuple(range(len(group.shape)))
    if always_equal(root.domain, group.shape):
        return everything
    if _is_total(root) and _almost(root.domain, group.shape) and group.reduced in (None, frozenset(everything)):
        return everything
    if group.reduced and root.kind == "map" and group.chunks == 1:
        kept = tuple(d for d in range(len(group.shape)) if d not in group.reduced)
        if always_equal(tuple(group.shape[d] for d in kept), root.domain):
            return kept
    return None


def _is_total(root: Root) -> bool:
    """Whether it reduces everything to one number (or one per chunk)."""
    return root.reduced is not None and len(root.reduced) == len(root.domain)


def _almost(shape: tuple[int, ...], longer: tuple[int, ...]) -> bool:
    """Whether a loop over ``longer`` wastes next to nothing on a value of ``shape``."""
    if len(shape) != len(longer) or not _is_almost(shape, longer):
        return False
    return all(n <= m for n, m in zip(shape, longer, strict=True))


@advice
def _is_almost(shape: tuple[int, ...], longer: tuple[int, ...]) -> bool:
    return all(n <= m <= n + n // 64 + 2 for n, m in zip(shape, longer, strict=True)) and min(shape, default=0) >= 64


def _grow(group: Group, shape: tuple[int, ...]) -> None:
    """Make the loop of a group of total reductions longer; they mask what is new."""
    lowerer = Lowerer(Domain(shape), group.lowerer.stored)
    for root, dims in zip(group.roots, group.dims, strict=True):
        lowerer.add(root, dims)
    group.lowerer = lowerer


def _lower_into(group: Group, root: Root, dims: tuple[int, ...]) -> Refuse | None:
    """Lower the root into the group, splitting the group's loops where that helps; or say why not."""
    lowerer = group.lowerer
    mark = lowerer.mark()
    try:
        lowerer.add(root, dims)
    except Refuse as refusal:
        lowerer.rollback(mark)
        return refusal.with_traceback(None)  # Note [Errors and frames]
    except Resplit as finer:
        lowerer.rollback(mark)
        if group.kind == "loops":
            return _resplit(group, root, dims, finer)
        return Refuse("needs other loops", finer.store)
    if group.roots and lowerer.cost > _MAX_COST:
        lowerer.rollback(mark)
        return Refuse("the kernel is large enough")
    group.roots.append(root)
    group.dims.append(dims)
    return None


def _resplit(group: Group, root: Root, dims: tuple[int, ...], finer: Resplit) -> Refuse | None:
    """Lower the whole group again over a finer domain. If that fails, what the reshape reads must lie in memory."""
    blame = finer.store
    domain = group.lowerer.domain
    roots, all_dims = [*group.roots, root], [*group.dims, dims]
    for _ in range(_MAX_SPLITS):
        domain = domain.split(finer.split)
        lowerer = Lowerer(domain, group.lowerer.stored)
        try:
            for n, d in zip(roots, all_dims, strict=True):
                lowerer.add(n, d)
        except Refuse as refusal:
            return Refuse(refusal.reason, blame)
        except Resplit as again:
            finer = again.with_traceback(None)
            continue
        group.lowerer, group.roots, group.dims = lowerer, roots, all_dims
        return None
    return Refuse("needs too many loops", blame)


def _lower_alone(group: Group, root: Root) -> None:
    refusal = _lower_into(group, root, tuple(range(len(group.shape))))
    if refusal is not None:
        raise Refuse(refusal.reason, refusal.store)


def _start_matmul(group: Group, root: Root) -> None:
    dims = tuple(range(len(group.shape)))
    group.lowerer.add_product(root.value, dims)
    group.roots.append(root)
    group.dims.append(dims)
