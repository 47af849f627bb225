"""What is known of integers that the open segment computes, before they have values.

Owns: ``enough_for``: which demands on older values imply a demand on a computed one.
Must not know: who asks, or what an operation does with an index.
In: a history, a value id, ``Within``. Out: demands on values that have memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from jitgrad.dtypes import BOOLEAN, INTEGER, int32, int64, promote_types
from jitgrad.ops.value_checks import Within
from jitgrad.tracer.recording.graph import Const, Instr
from jitgrad.tracer.recording.history import History

__all__ = ["MOVING", "Need", "enough_for"]

_MOST_STEPS = 64  # operations that are looked through for one index
_BITS = {int32: 31, int64: 63}  # of the integers that are indices, without the sign
_LEAST, _MOST = -(1 << 63), 1 << 63


class Need(NamedTuple):
    """A value whose elements must all lie in ``range(low, high)``."""

    vid: int
    low: int
    high: int


def enough_for(history: History, vid: int, demand: Within) -> list[Need] | None:
    """Needs of older values that make ``vid`` meet the demand; an empty list if it cannot but meet it.

    None if that is not known: the operations say too little of their results, or would need values together.
    """
    open_needs = [Need(vid, demand.low, demand.high)]
    older: list[Need] = []
    for _ in range(_MOST_STEPS):
        if not open_needs:
            return older
        need = open_needs.pop()
        if not history.is_open(need.vid):
            older.append(need)
            continue
        instr, nr = history.defs[need.vid]
        known = _known_range(instr, nr)
        if known is not None and need.low <= known[0] and known[1] <= need.high:
            continue
        rule = _of_first if _only_moves(instr) else None if nr else _RULES.get(instr.op.name)
        found = _counted_from_the_end(history, instr, need)
        if found is None and rule is not None:
            found = rule(instr, need)
        if found is None:
            return None
        open_needs += found
    return None


# --- what an operation's result cannot but be ---


def _known_range(instr: Instr, nr: int) -> tuple[int, int] | None:
    """(least, one more than the most) that a result can be, whatever the operands are; None if that is not known."""
    name, source = instr.op.name, instr.input_avals[0] if instr.input_avals else None
    if name == "arange":
        start, end, step = instr.params[:3]
        return (math.floor(start), math.ceil(end)) if step > 0 else (math.floor(end) + 1, math.ceil(start) + 1)
    if name == "full":
        number = _number(instr, 0)
        return None if number is None else (number, number + 1)
    if name in ("zeros_like", "ones_like"):
        return (0, 1) if name == "zeros_like" else (1, 2)
    if source is None:
        return None
    if name in ("argmax", "argmin") or (nr == 1 and name in ("max_dim", "min_dim", "sort", "topk")):
        dim = instr.params[0]
        return 0, source.numel if dim is None else source.shape[dim] if source.ndim else 1
    if name == "searchsorted":
        return 0, source.shape[-1] + 1
    if name == "_to_copy" and source.dtype.category is BOOLEAN:
        return 0, 2
    number = _number(instr, 1) if len(instr.inputs) > 1 else None
    if name == "remainder" and number is not None and number > 0:
        return 0, number
    if name == "bitwise_and" and number is not None and number >= 0:
        return 0, number + 1
    return None


def _number(instr: Instr, position: int) -> int | None:
    """The Python integer that an operand is, in every call that takes the path."""
    x = instr.inputs[position]
    return x.value if isinstance(x, Const) and isinstance(x.value, int) else None


# --- what operands must be for a result to be in range ---

_Rule = Callable[[Instr, Need], "list[Need] | None"]
MOVING = frozenset("clone contiguous detach flip roll repeat gather index_select embedding take".split())
"""Operations whose results are elements of their first operand, besides views and indexing."""


def _only_moves(instr: Instr) -> bool:
    """Whether what comes out of an operation are values of its first operand."""
    name = instr.op.name
    if name == "_to_copy":
        source, out = instr.input_avals[0], instr.avals[0].dtype
        return bool(source is not None and source.dtype.category is INTEGER and promote_types(source.dtype, out) is out)
    is_taken = name.startswith("index") and name[5:].isdecimal()
    return instr.op.is_view or is_taken or name in MOVING


def _of(*positions: int) -> _Rule:
    """Each element of the result is one of an operand's."""

    def rule(instr: Instr, need: Need) -> list[Need] | None:
        needs = []
        for x in [instr.inputs[p] for p in positions] if positions else instr.inputs:
            if isinstance(x, Const) and isinstance(x.value, int) and need.low <= x.value < need.high:
                continue
            if not _is_value(x):
                return None
            needs.append(need._replace(vid=x))
        return needs

    return rule


def _is_value(x: Any) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)


_of_first = _of(0)


def _counted_from_the_end(history: History, instr: Instr, need: Need) -> list[Need] | None:
    """Of ``where(x < 0, x + number, x)``, as negative indices are taken: x may also be as much below."""
    if instr.op.name != "where":
        return None
    condition, wrapped, x = instr.inputs
    if not (_is_value(condition) and _is_value(wrapped) and _is_value(x)):
        return None
    is_less, added = history.defs.get(condition), history.defs.get(wrapped)
    if is_less is None or added is None or (is_less[0].op.name, added[0].op.name) != ("lt", "add"):
        return None
    number = _number(added[0], 1)
    if is_less[0].inputs[0] != x or added[0].inputs[0] != x or _number(is_less[0], 1) != 0 or number is None:
        return None
    return [Need(x, need.low - number, need.high)] if need.low <= 0 <= number <= need.high else None


def _affine(a: int, b: int) -> Callable[[Need, int], tuple[int, int]]:
    """The range of x for which ``a * x + b * number`` is in range; a is 1 or -1."""

    def bounds(need: Need, number: int) -> tuple[int, int]:
        low, high = need.low - b * number, need.high - b * number
        return (low, high) if a > 0 else (1 - high, 1 - low)

    return bounds


def _factor(need: Need, number: int) -> tuple[int, int] | None:
    return (-(-need.low // number), (need.high - 1) // number + 1) if number > 0 else None


def _divisor(need: Need, number: int) -> tuple[int, int] | None:
    return (need.low * number, need.high * number) if number > 0 else None


def _floor(need: Need, number: int) -> tuple[int, int] | None:
    """Of ``max(x, number)``: if the number is in range, what is below it does no harm."""
    if number >= need.high:
        return None
    return (_LEAST if number >= need.low else need.low, need.high)


def _ceiling(need: Need, number: int) -> tuple[int, int] | None:
    if number < need.low:
        return None
    return (need.low, _MOST if number < need.high else need.high)


def _with_number(bounds: Callable[[Need, int], tuple[int, int] | None], other_way: Any = None) -> _Rule:
    """An operation on a tensor and a number; ``other_way``: with the number as its first operand."""

    def rule(instr: Instr, need: Need) -> list[Need] | None:
        bits = _BITS.get(instr.avals[0].dtype)
        if bits is None:
            return None
        need = need._replace(low=max(need.low, -(1 << bits)), high=min(need.high, 1 << bits))  # it must not wrap
        x, number, of = instr.inputs[0], _number(instr, 1), bounds
        if not _is_value(x) and other_way is not None and _is_value(instr.inputs[1]):
            x, number, of = instr.inputs[1], _number(instr, 0), other_way
        found = of(need, number) if number is not None and _is_value(x) else None
        return None if found is None else _inside(x, *found)

    return rule


def _inside(vid: int, low: int, high: int) -> list[Need]:
    """The need, if it is one at all."""
    return [] if low <= _LEAST and high >= _MOST else [Need(vid, low, high)]


def _clamp(instr: Instr, need: Need) -> list[Need] | None:
    x, least, most = instr.inputs[0], _number(instr, 1), _number(instr, 2)
    if not _is_value(x) or least is None or most is None:
        return None
    below, above = _floor(need, least), _ceiling(need, most)
    return None if below is None or above is None else _inside(x, below[0], above[1])


_RULES: dict[str, _Rule] = {
    "add": _with_number(_affine(1, 1), _affine(1, 1)),
    "sub": _with_number(_affine(1, -1), _affine(-1, 1)),
    "rsub": _with_number(_affine(-1, 1)),
    "mul": _with_number(_factor, _factor),
    "floor_divide": _with_number(_divisor),
    "clamp": _clamp,
    **dict.fromkeys(("clamp_low", "clamp_min"), _with_number(_floor)),
    **dict.fromkeys(("clamp_high", "clamp_max"), _with_number(_ceiling)),
    "where": _of(1, 2),
    "minimum": _of(0, 1),
    "maximum": _of(0, 1),
    "cat": _of(),
    "stack": _of(),
    "index_copy": _of(0, 2),
    "scatter": _of(0, 2),
    **{f"index_put{k}": _of(0, 1) for k in range(1, 7)},
}
