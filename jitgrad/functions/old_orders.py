"""Calls in PyTorch's old order of arguments, ``p.add_(-0.1, grad)``: PyTorch warns and takes them, so old scripts run.

Owns: ``in_new_order``, ``has_old_order``.
Must not know: functions; how calls are matched is in ``_parse``.
"""

from __future__ import annotations

from typing import Any

from jitgrad.tensor_base import TensorBase

__all__ = ["has_old_order", "in_new_order"]

_SCALED = (("input", "alpha", "other"),)
_WEIGHED = (("input", "value", "tensor1", "tensor2"),)
_PRODUCT = (
    ("input", "beta", "alpha", "one", "two"),
    ("input", "beta", "one", "two"),
    ("beta", "input", "alpha", "one", "two"),
    ("beta", "input", "one", "two"),
)
_ORDERS = {
    **dict.fromkeys(("add", "sub"), _SCALED),
    **dict.fromkeys(("addcmul", "addcdiv"), _WEIGHED),
    **dict.fromkeys(("addmm", "addmv", "addr", "addbmm", "baddbmm"), _PRODUCT),
}
"""Function, without the underscore of its in-place form -> old orders. Numbers stand where tensors stand now."""
_NUMBERS = frozenset({"alpha", "beta", "value"})


def has_old_order(name: str) -> bool:
    """Whether the function of this name, or of its in-place form, had another order."""
    return name.removesuffix("_") in _ORDERS


def in_new_order(name: str, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The positional arguments of an old call, and its numbers by keyword; None if the call is in no old order."""
    for order in _ORDERS.get(name.removesuffix("_"), ()):
        if len(order) == len(args) and all(map(_fits, order, args)):
            tensors = tuple(x for x, part in zip(args, order, strict=True) if part not in _NUMBERS)
            return tensors, {part: x for x, part in zip(args, order, strict=True) if part in _NUMBERS}
    return None


def _fits(part: str, value: Any) -> bool:
    is_number = isinstance(value, int | float)
    return is_number if part in _NUMBERS else isinstance(value, TensorBase) or (part == "other" and is_number)
