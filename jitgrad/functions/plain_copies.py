"""Views as copies: ``permute_copy`` is ``permute`` with memory of its own.

Owns: the ``*_copy`` functions.
Must not know: what views are. Imported late.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.dtypes import DType
from jitgrad.functions.devices import clone
from jitgrad.functions.outputs import takes_out
from jitgrad.functions.views import (
    as_strided,
    diagonal,
    expand,
    narrow,
    permute,
    reshape,
    select,
    slice_,
    split,
    squeeze,
    t,
    transpose,
    unbind,
    unfold,
    unsqueeze,
)
from jitgrad.layouts import contiguous_format

__all__ = [
    "alias_copy", "as_strided_copy", "detach_copy", "diagonal_copy", "expand_copy", "narrow_copy", "permute_copy",
    "select_copy", "slice_copy", "split_copy", "split_with_sizes_copy", "squeeze_copy", "t_copy", "transpose_copy",
    "unbind_copy", "unfold_copy", "unsqueeze_copy", "view_copy",
]  # fmt: skip


def _row_major(view: Any) -> Any:
    return clone(view, memory_format=contiguous_format)


def _copying(make: Callable[..., Any], name: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        found = make(*args, **kwargs)
        return tuple(map(_row_major, found)) if isinstance(found, tuple) else _row_major(found)

    function.__name__ = function.__qualname__ = f"{name}_copy"
    function.__doc__ = f"A copy of what ``{name}`` views; the arguments are the same."
    return takes_out(function)


def _slice(input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    return slice_(input, dim, start, end, step)


def _view(input: Any, size: Any = None, *, dtype: Any = None) -> Any:
    kind = size if isinstance(size, DType) else dtype
    return reshape(input, size) if kind is None else input.view(kind)


alias_copy = _copying(lambda input: input, "alias")
as_strided_copy = _copying(as_strided, "as_strided")
detach_copy = _copying(lambda input: input.detach(), "detach")
diagonal_copy = _copying(diagonal, "diagonal")
expand_copy = _copying(lambda input, size, *, implicit=False: expand(input, size), "expand")
narrow_copy = _copying(narrow, "narrow")
permute_copy = _copying(lambda input, dims: permute(input, dims), "permute")
select_copy = _copying(select, "select")
slice_copy = _copying(_slice, "slice")
split_copy = _copying(split, "split")
split_with_sizes_copy = _copying(
    lambda input, split_sizes, dim=0: split(input, list(split_sizes), dim), "split_with_sizes"
)
squeeze_copy = _copying(squeeze, "squeeze")
t_copy = _copying(t, "t")
transpose_copy = _copying(transpose, "transpose")
unbind_copy = _copying(unbind, "unbind")
unfold_copy = _copying(unfold, "unfold")
unsqueeze_copy = _copying(unsqueeze, "unsqueeze")
view_copy = _copying(_view, "view")
