"""Python numbers in a trace: constants at first, run-time scalars once they change.

Owns: ``NumberKeys``.
Must not know: what the numbers are for.

# Note [Number promotion]
# ~~~~~~~~~~~~~~~~~~~~~~~
# ``x * 0.5`` is keyed by the value 0.5, so that constants fold. When the same event comes with another number, the
# numbers that differ are promoted: the new child is keyed without them and takes them as arguments, so a schedule costs
# one compile, however long. The promoted child starts an empty subtree; to promote *all* numbers that changed between
# the two calls at once, ``shadow`` walks the old subtree beside the new one: a number that differs from what the old
# path saw at the same place is promoted the first time it is met. Exponents stay static: they choose the formula.
# The numbers of the optimizers' update operations are promoted from the start: bias corrections change every call.
# Where paths part because inputs have other extents, the path recorded there before is the old one, its *peer*: what a
# call computes of extents by itself, ``n / (n - 1)``, is another number in each path, and promoted in the second one
# that has it. Integers are not: those that depend on extents are read off the inputs (Note [Path families]).
# An argument is a double or 64 bits, so a wider integer stays a constant, which wraps or is refused. Some operations
# refuse numbers that their dtype does not hold, and only a miss asks their shape rule. For these, where no operand is
# float32 or float64, a number's kind says between which dtypes' limits it lies (``_kind``), and native hits leave them
# alone (``FITTED``): numbers that are refused are never arguments.
"""

from __future__ import annotations

import bisect
import math
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jitgrad.cpython.primitives import once_per_call
from jitgrad.dtypes import float32, float64
from jitgrad.events import bump, log
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.recording.graph import Const, RuntimeScalar
from jitgrad.tracer.recording.trie import TrieNode, forget_calls

__all__ = ["FITTED", "Mark", "NumberKeys", "NumberRow", "is_fitted", "is_number", "known_number", "number_key",
           "quick_ids"]  # fmt: skip

_STATIC = frozenset({"pow", "float_power"})
_RUNTIME = "<run-time>"
_FITTING = set(
    "add_scaled clamp clamp_high clamp_low clamp_max clamp_min copy fill floor_divide fmod full full_like index_fill "
    "masked_fill remainder scatter sub_scaled where".split()
)
"""Operations whose shape rules refuse numbers that a dtype does not hold."""
_LARGEST = (65504.0, 3.3895313892515355e38, 3.4028234663852886e38, sys.float_info.max)
FITTED: Any = type("Fitted", (), {"__repr__": lambda self: "FITTED"})()
"""Stands in ``TrieNode.ids`` for a run-time scalar that only ``promoted_hit`` may take."""
_WHOLE = [1 << bits for bits in (7, 8, 15, 31, 63)]
_LIMITS = sorted([*_WHOLE, *(n + 1 for n in _WHOLE), *(math.nextafter(x, math.inf) for x in _LARGEST)])
"""Sizes from which on some dtype does not hold a number: integers' dtypes, float16, bfloat16, float32, float64."""


class Mark(NamedTuple):
    """What a parent must remember of a child with numbers: its number-blind key, its numbers, which are arguments."""

    blind: Any
    numbers: tuple[Any, ...]
    mask: tuple[bool, ...]


def number_key(value: int | float) -> Any:
    """``value``, in a form that distinguishes constants: repr tells -0.0 from 0.0, and one NaN equals another."""
    return value if value and value == value else repr(value)


def is_number(value: Any) -> bool:
    """A Python or NumPy number."""
    return isinstance(value, int | float | complex | np.number | np.bool_)


def _promotable(op: Op, value: Any) -> bool:
    return op.name not in _STATIC and type(value) in (int, float)


@once_per_call
def is_fitted(op: Op, inputs: tuple) -> bool:  # type: ignore[type-arg]
    """Whether the operation refuses numbers that its dtype does not hold, and this is a small one."""
    names: set[str] = _FITTING
    if op.name not in names:
        return False
    for x in inputs:
        if isinstance(x, TensorBase):
            aval: Aval = x._aval
            if aval.dtype is float32 or aval.dtype is float64:
                return False
    return True


def quick_ids(op: Op, inputs: Any, ids: Any, hidden: Any) -> tuple[Any, ...]:
    """``TrieNode.ids`` of an operation: value ids; ``(number,)`` for a constant, the type for a run-time scalar.

    Args:
        op: the operation.
        inputs: its operands.
        ids: per operand, its value id if it is a tensor.
        hidden: per operand, whether it is a number that is a run-time scalar.
    """
    is_small = is_fitted(op, inputs)
    return tuple(
        [
            vid if type(vid) is int else (x,) if not is_scalar else FITTED if is_small else type(x)
            for x, vid, is_scalar in zip(inputs, ids, hidden, strict=True)
        ]
    )


def _kind(value: Any, is_small: bool) -> Any:
    """What the key says of a number that may be an argument: its class, and for some operations how large it is."""
    own = type(value)
    if own not in (int, float) or -_LIMITS[0] < value < _LIMITS[0]:
        return own
    if own is int and not -(1 << 63) <= value < 1 << 63:
        return own, value
    if not is_small:
        return own
    return own, value != value, value < 0, bisect.bisect_right(_LIMITS, abs(value))


def _blind(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], prefix: Any) -> Any:
    """The key without the numbers' values."""
    is_small = is_fitted(op, inputs)
    return (prefix, op, tuple([x._vid if isinstance(x, TensorBase) else _kind(x, is_small) for x in inputs]), params)


def _masked(blind: Any, inputs: tuple[Any, ...], mask: tuple[bool, ...]) -> Any:
    """The key with only the promoted numbers' values left out."""
    pairs = zip(inputs, mask, strict=True)
    values = [_RUNTIME if hidden else None if isinstance(x, TensorBase) else number_key(x) for x, hidden in pairs]
    return (blind, tuple(values))


class NumberRow:
    """What is known of a number that is a constant where it is met: loops repeat their numbers.

    Attributes:
        key: as keys have it.
        constant: as an operand of an instruction.
        quick: as ``TrieNode.ids`` have it.
        kind, small_kind: ``_kind``, of an operation that does not refuse it, and of one that may.
    """

    __slots__ = ("constant", "key", "kind", "quick", "small_kind")

    key: tuple[Any, type]
    constant: Const
    quick: tuple[Any]
    kind: Any
    small_kind: Any

    def __init__(self, x: int | float) -> None:
        self.key = (number_key(x), type(x))
        self.constant, self.quick = Const(x), (x,)
        self.kind, self.small_kind = _kind(x, False), _kind(x, True)


_rows: dict[tuple[Any, type], NumberRow] = {}
_MAX_ROWS = 1024


def _number_row(x: Any) -> NumberRow | None:
    """What is to be known of a number; None: it is one of several that compare equal, or none."""
    if type(x) not in (int, float) or x != x or (x == 0 and type(x) is float):
        return None
    if len(_rows) >= _MAX_ROWS:
        _rows.clear()
    found = _rows[x, type(x)] = NumberRow(x)
    return found


@once_per_call
def known_number(x: Any) -> NumberRow | None:
    """What is known of a number; None: it must be looked at with care."""
    rows: dict = _rows  # type: ignore[type-arg]
    found = rows.get((x, type(x)))
    return _number_row(x) if found is None else found


class NumberKeys:
    """Finds and makes events whose inputs include Python numbers; one per call.

    Attributes:
        shadow: where the old path is that the new one is compared with, see Note [Number promotion].
        peers: (the depth of the first, the nodes of the path that other extents have led to).
    """

    __slots__ = ("peers", "shadow")

    def __init__(self) -> None:
        self.shadow: TrieNode | None = None
        self.peers: tuple[int, Sequence[TrieNode]] | None = None

    def promoted_hit(
        self, recorder: Any, op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], prefix: Any = None
    ) -> TrieNode | None:
        """The child whose promoted numbers take today's values, which become this call's run-time scalars."""
        node = recorder.node
        if not node.masks:
            return None
        blind = _blind(op, inputs, params, prefix)
        mask = node.masks.get(blind)
        if mask is None:
            return None
        child: TrieNode | None = node.children.get(_masked(blind, inputs, mask))
        if child is not None:
            recorder.scalars.extend([x for x, hidden in zip(inputs, mask, strict=True) if hidden])
        return child

    def operands(
        self,
        recorder: Any,
        op: Op,
        inputs: tuple[Any, ...],
        params: tuple[Any, ...],
        ids: Sequence[Any],
        key: Any,
        prefix: Any = None,
    ) -> tuple[tuple[Any, ...], Any, Sequence[Any], Mark | None]:
        """(operands of the new instruction, its key, the run-time scalars it adds, what to remember)."""
        if tuple not in map(type, ids):
            return tuple(ids), key, (), None
        is_small = is_fitted(op, inputs)
        fresh: list[Any] = []
        operands: list[Any] = []
        numbers: list[Any] = []
        blind_ids: list[Any] = []
        for x, vid in zip(inputs, ids, strict=True):
            is_number = type(vid) is tuple
            operands.append(Const(x) if is_number else vid)
            numbers.append(x if is_number else None)
            blind_ids.append(_kind(x, is_small) if is_number else vid)
        blind = (prefix, op, tuple(blind_ids), params)
        mask = self._mask(recorder.node, op, blind, inputs)
        if True in mask:
            for nr, x in enumerate(inputs):
                if mask[nr]:
                    operands[nr] = RuntimeScalar(recorder.node.next_scalar + len(fresh), isinstance(x, float))
                    fresh.append(x)
            key = _masked(blind, inputs, mask)
        return tuple(operands), key, fresh, Mark(blind, tuple(numbers), mask)

    def _mask(self, node: TrieNode, op: Op, blind: Any, inputs: tuple[Any, ...]) -> tuple[bool, ...]:
        """Which numbers differ from what was seen here, or at the same place of the old path."""
        peer = self._peer_of(node)
        if node.seen is None and self.shadow is None and peer is None and not op.is_update:
            return (False,) * len(inputs)
        mask = [op.is_update and not isinstance(x, TensorBase) for x in inputs]
        for source in (node, self.shadow, peer):
            seen = source.seen.get(blind) if source is not None and source.seen is not None else None
            if source is None or seen is None:
                continue
            for i, (x, old) in enumerate(zip(inputs, seen[0], strict=True)):
                if isinstance(x, TensorBase) or not _promotable(op, x) or (source is peer and type(x) is int):
                    continue
                if repr(x) != repr(old):
                    mask[i] = True
            if source.masks is not None and blind in source.masks:
                mask = [a or b for a, b in zip(mask, source.masks[blind], strict=True)]
        return tuple(mask)

    def _peer_of(self, node: TrieNode) -> TrieNode | None:
        """The node as deep as this one on the path of other extents."""
        if self.peers is None:
            return None
        first, nodes = self.peers
        return nodes[node.depth - first] if 0 <= node.depth - first < len(nodes) else None

    def follow(self, child: TrieNode, mark: Mark | None) -> None:
        """A child was recorded: remember its numbers, and move the shadow along."""
        parent, shadow = child.parent, self.shadow
        assert parent is not None
        if mark is None:
            self.shadow = shadow.children.get(child.key) if shadow is not None else None
            return
        self.shadow = _last_child(parent, mark.blind)
        if self.shadow is None and shadow is not None:
            self.shadow = _last_child(shadow, mark.blind)
        if True in mark.mask:
            bump("promotions")
            log("recompiles", "a number changed and is an argument now: %s", mark)
            parent.masks = {**(parent.masks or {}), mark.blind: mark.mask}
            forget_calls(parent)
        parent.seen = {**(parent.seen or {}), mark.blind: (mark.numbers, child.key)}


def _last_child(node: TrieNode, blind: Any) -> TrieNode | None:
    """Where the numbers last recorded at ``node`` led."""
    seen = node.seen.get(blind) if node.seen is not None else None
    return node.children.get(seen[1]) if seen is not None else None
