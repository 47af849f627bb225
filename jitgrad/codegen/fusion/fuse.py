"""Fusion: nodes to groups; a group becomes one kernel.

Owns: ``Group``, ``fuse``, the legality rules and their ``WhyNot``s.
Must not know: loop order, LLVM, buffers.
In: nodes in topological order. Out: groups, and the refusals.

# Note [Fusion]
# ~~~~~~~~~~~~~
# A node may join a group if (1) it visits the same domain, or the kept part of the group's reductions; (2) every group
# it also depends on is known not to depend on this one; (3) what it reads of the group is the same element, or the
# whole of a row's reduction; (4) it reduces the same dims as the group's other reductions. Rule 3 is decided by
# lowering it into the group's instructions: a refusal rolls back. For rule 2 each group has a level above the levels
# of all groups it depends on: a group of a lower level cannot depend on it, nor can anyone while nobody reads it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from jitgrad.codegen.fusion.domain import Domain, Refuse, Resplit
from jitgrad.codegen.fusion.lower import Lowerer
from jitgrad.codegen.fusion.nodes import Node
from jitgrad.codegen.fusion.why_not import WhyNot
from jitgrad.codegen.primitives.builder import Value
from jitgrad.codegen.primitives.cost import op_cost
from jitgrad.codegen.primitives.decompose import chunk_count

__all__ = ["Group", "fuse"]

_MAX_COST = 1200  # of one kernel's instructions, in vector additions: bounds compile time and register pressure
_MAX_SPLITS = 4
_NEIGHBOURS = 6  # groups of the same domain that are tried for a shared input
_TAIL_WORK = 8000  # what follows a row's reduction is done row by row, in scalars, up to this many additions


class Group:
    """The nodes of one kernel.

    Attributes:
        kind: "loops", "matmul" or "scatter".
        nodes: in topological order.
        lowerer: their instructions.
        reduced: the domain's dims that its reductions reduce; None before there is one.
        chunks: into how many partial results they are cut.
        level: see Note [Fusion].
        consumed: whether another group reads one of its values.
    """

    __slots__ = ("chunks", "consumed", "deps", "dims", "kind", "level", "lowerer", "nodes", "reduced")

    def __init__(self, kind: str, shape: tuple[int, ...], stored: dict[Value, Node]) -> None:
        self.kind = kind
        self.lowerer = Lowerer(Domain(shape), stored)
        self.nodes: list[Node] = []
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
        return "+".join(n.value.op for n in self.nodes[:4]) + ("+..." if len(self.nodes) > 4 else "")


def fuse(nodes: dict[Value, Node]) -> tuple[list[Group], list[WhyNot]]:
    """Groups in an order that respects dependencies by level, and why nodes started new ones.

    Raises:
        Refuse: a node fits no kernel, not even one of its own; its ``store`` must be copied to a buffer first.
    """
    return _Fuser(nodes).run()


class _Fuser:
    def __init__(self, nodes: dict[Value, Node]) -> None:
        self.nodes = nodes
        self.groups: list[Group] = []
        self.notes: list[WhyNot] = []
        self.by_shape: dict[tuple[int, ...], list[Group]] = {}
        self.totals: list[Group] = []
        self.readers: dict[Value, list[Node]] = {}
        for node in nodes.values():
            for v in node.deps:
                self.readers.setdefault(v, []).append(node)

    def run(self) -> tuple[list[Group], list[WhyNot]]:
        for node in self.nodes.values():
            if node.kind == "cat":
                continue
            before = self._groups_before(node)
            if node.kind not in ("map", "reduce") or not self._join_any(node, before):
                self._start(node, before)
        return self.groups, self.notes

    def _groups_before(self, node: Node) -> set[Group]:
        """The groups that compute what ``node`` reads (a cat is computed by its parts' groups)."""
        found: set[Group] = set()
        for v in node.deps:
            if v.op == "cat":
                found.update(self.nodes[part].group for part in v.srcs)
            elif v.op != "input":
                found.add(self.nodes[v].group)
        return found

    def _candidates(self, node: Node, before: set[Group]) -> Iterable[Group]:
        """Producers first, the latest first; then groups that read the same arrays."""
        yield from sorted(before, key=lambda g: -g.level)
        yield from self._grown(node, before)
        large = {v for v in node.deps if 2 * math.prod(v.shape) >= math.prod(node.domain)}
        for group in reversed(self.by_shape.get(node.domain, ())[-_NEIGHBOURS:]):
            if group not in before and group.kind == "loops" and not large.isdisjoint(group.deps):
                yield group

    def _grown(self, node: Node, before: set[Group]) -> Iterable[Group]:
        """A sum over n - 1 neighbours and a map over n elements are one loop: the sum's group is made longer."""
        for group in reversed(self.totals[-_NEIGHBOURS:]):
            shares = any(2 * math.prod(v.shape) >= math.prod(node.domain) and v in group.deps for v in node.deps)
            total = group not in before and all(_is_total(n) or not n.domain for n in group.nodes)
            longer = group.shape != node.domain and _almost(group.shape, node.domain)
            if not (total and shares and longer and node.kind == "map"):
                continue
            try:
                _grow(group, node.domain)
            except (Refuse, Resplit):
                continue
            self.by_shape.setdefault(node.domain, []).append(group)
            yield group

    def _join_any(self, node: Node, before: set[Group]) -> bool:
        for group in self._candidates(node, before):
            reason = self._why_not(node, group, before)
            if reason is None:
                self._joined(node, group, before)
                return True
            if group in before:
                self.notes.append(WhyNot(reason, group, node.value))
        return False

    def _why_not(self, node: Node, group: Group, before: set[Group]) -> str | None:
        """Why ``node`` cannot join; None after it was lowered into the group."""
        if group.kind == "scatter" or (group.kind == "matmul" and node.kind != "map"):
            return "that kernel takes no such part"
        dims = _dims_in(group, node)
        if dims is None:
            return f"visits {list(node.domain)}, not {list(group.shape)}"
        if any(g.level >= group.level for g in before if g is not group) and group.consumed:
            return "would have to wait for a later kernel"
        if any(v.op == "cat" and any(self.nodes[p].group is group for p in v.srcs) for v in node.deps):
            return "reads a concatenation that the kernel writes"
        reduced = _reduced_dims(node)
        if reduced is not None and group.reduced not in (None, reduced):
            return "reduces other dims"
        if len(dims) < len(group.shape) and self._is_long_tail(node, group):
            return "costs less in a loop over the rows, several at a time"
        refusal = _lower_into(group, node, dims)
        return refusal.reason if refusal else None

    def _is_long_tail(self, node: Node, group: Group) -> bool:
        """Whether ``node`` is dear arithmetic on rows' results, and no loop over the rows' elements waits for it."""
        rows = math.prod(node.domain)
        if rows * _arithmetic(node, self.nodes) < _TAIL_WORK:
            return False
        waiting, seen = [node.value], {node.value}
        while waiting:
            for reader in self.readers.get(waiting.pop(), ()):
                if reader.domain == group.shape:  # as in a softmax
                    return False
                if reader.domain == node.domain and reader.value not in seen:
                    seen.add(reader.value)
                    waiting.append(reader.value)
        return True

    def _joined(self, node: Node, group: Group, before: set[Group]) -> None:
        node.group = group
        group.deps.update(node.deps)
        for g in before:
            if g is not group:
                g.consumed = True
                group.level = max(group.level, g.level + 1)
        reduced = _reduced_dims(node)
        if reduced is not None:
            group.reduced = reduced
            group.chunks = chunk_count(node.source.shape, node.reduce or ())

    def _start(self, node: Node, before: set[Group]) -> None:
        group = Group(node.kind if node.kind in ("matmul", "scatter") else "loops", node.domain, self.nodes)
        if group.kind == "matmul":
            _start_matmul(group, node)
        else:
            _lower_alone(group, node)
        self._joined(node, group, before)
        self.groups.append(group)
        self.by_shape.setdefault(node.domain, []).append(group)
        if _is_total(node):
            self.totals.append(group)


def _arithmetic(node: Node, stored: dict[Value, Node]) -> int:
    """What one element of ``node`` costs, from the stored values it reads."""
    total, waiting, seen = 0, [node.source], {node.source}
    while waiting:
        v = waiting.pop()
        total += op_cost(v.op)
        for s in v.srcs:
            if s not in stored and s not in seen:
                seen.add(s)
                waiting.append(s)
    return total


def _reduced_dims(node: Node) -> frozenset[int] | None:
    """The reduced dims, counted without those of extent 1."""
    if node.reduce is None:
        return None
    real = [d for d, n in enumerate(node.source.shape) if n != 1]
    return frozenset(i for i, d in enumerate(real) if d in node.reduce)


def _dims_in(group: Group, node: Node) -> tuple[int, ...] | None:
    """Which of the group's dims the node's own run along."""
    everything = tuple(range(len(group.shape)))
    if node.domain == group.shape:
        return everything
    if _is_total(node) and _almost(node.domain, group.shape) and group.reduced in (None, frozenset(everything)):
        return everything
    if group.reduced and node.kind == "map" and group.chunks == 1:
        kept = tuple(d for d in range(len(group.shape)) if d not in group.reduced)
        if tuple(group.shape[d] for d in kept) == node.domain:
            return kept
    return None


def _is_total(node: Node) -> bool:
    """Whether it reduces everything to one number (or one per chunk)."""
    reduced = _reduced_dims(node)
    return reduced is not None and len(reduced) == len(node.domain)


def _almost(shape: tuple[int, ...], longer: tuple[int, ...]) -> bool:
    """Whether a loop over ``longer`` wastes next to nothing on a value of ``shape``."""
    if len(shape) != len(longer):
        return False
    return all(n <= m <= n + n // 64 + 2 for n, m in zip(shape, longer, strict=True)) and min(shape, default=0) >= 64


def _grow(group: Group, shape: tuple[int, ...]) -> None:
    """Make the loop of a group of total reductions longer; they mask what is new."""
    lowerer = Lowerer(Domain(shape), group.lowerer.stored)
    for node, dims in zip(group.nodes, group.dims, strict=True):
        lowerer.add(node, dims)
    group.lowerer = lowerer


def _lower_into(group: Group, node: Node, dims: tuple[int, ...]) -> Refuse | None:
    """Lower the node into the group, splitting the group's loops where that helps; or say why not."""
    lowerer = group.lowerer
    mark = lowerer.mark()
    try:
        lowerer.add(node, dims)
    except Refuse as refusal:
        lowerer.rollback(mark)
        return refusal.with_traceback(None)  # Note [Errors and frames]
    except Resplit as finer:
        lowerer.rollback(mark)
        if group.kind == "loops":
            return _resplit(group, node, dims, finer)
        return Refuse("needs other loops", finer.store)
    if group.nodes and _cost(lowerer) > _MAX_COST:
        lowerer.rollback(mark)
        return Refuse("the kernel is large enough")
    group.nodes.append(node)
    group.dims.append(dims)
    return None


def _cost(lowerer: Lowerer) -> int:
    return sum(op_cost(i[0]) for i in lowerer.instrs)


def _resplit(group: Group, node: Node, dims: tuple[int, ...], finer: Resplit) -> Refuse | None:
    """Lower the whole group again over a finer domain. If that fails, the reshape that wanted it is to blame."""
    blame = finer.store
    domain = group.lowerer.domain
    nodes, all_dims = [*group.nodes, node], [*group.dims, dims]
    for _ in range(_MAX_SPLITS):
        domain = domain.split(finer.split)
        lowerer = Lowerer(domain, group.lowerer.stored)
        try:
            for n, d in zip(nodes, all_dims, strict=True):
                lowerer.add(n, d)
        except Refuse as refusal:
            return Refuse(refusal.reason, blame)
        except Resplit as again:
            finer = again.with_traceback(None)
            continue
        group.lowerer, group.nodes, group.dims = lowerer, nodes, all_dims
        return None
    return Refuse("needs too many loops", blame)


def _lower_alone(group: Group, node: Node) -> None:
    refusal = _lower_into(group, node, tuple(range(len(group.shape))))
    if refusal is not None:
        raise Refuse(refusal.reason, refusal.store)


def _start_matmul(group: Group, node: Node) -> None:
    """The product is an instruction like any other; what joins the group is its epilogue."""
    lowerer = group.lowerer
    dims = tuple(range(len(group.shape)))
    m = lowerer.domain.identity(node.value.shape, dims)
    lowerer._set(lowerer.local, node.value, (m, lowerer._emit("acc", node.value.dtype, ())))
    group.nodes.append(node)
    group.dims.append(dims)
