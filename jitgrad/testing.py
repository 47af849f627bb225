"""``torch.testing``: comparisons for tests.

Owns: ``assert_close``, ``make_tensor``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from jitgrad.dtypes import DType, bool_, finfo, iinfo, int64, promote_types
from jitgrad.functions import as_tensor, empty, randint
from jitgrad.functions.real_parts import view_as_real
from jitgrad.tensor_base import TensorBase

__all__ = ["assert_close", "make_tensor"]

_TOLERANCES = {
    "float16": (1e-3, 1e-5), "bfloat16": (0.016, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip
"""Relative and absolute, by dtype; 0 for all others."""


@dataclass(frozen=True, slots=True)
class _Rules:
    """How to compare; see ``assert_close``."""

    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool
    msg: str | Callable[[str], str] | None

    def refuse(self, text: str, place: str) -> NoReturn:
        """AssertionError, in the user's words if there are any."""
        text = f"{text}\n\nThe failure occurred for item {place}" if place else text
        raise AssertionError(self.msg(text) if callable(self.msg) else self.msg or text)

    def tolerances(self, *dtypes: Any) -> tuple[float, float]:
        """Relative and absolute: as given, or the loosest of the dtypes'."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        rows = [_TOLERANCES.get(dtype.name, (0.0, 0.0)) for dtype in dtypes]
        return max(row[0] for row in rows), max(row[1] for row in rows)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """``|actual - expected| <= atol + rtol * |expected|``, everywhere.

    Args:
        actual, expected: tensors, NumPy arrays or numbers, or sequences or mappings of them.
        allow_subclasses: False: both must be of one class.
        rtol, atol: tolerances, both or none; by dtype if None.
        equal_nan: NaN is close to NaN.
        check_device, check_dtype, check_layout, check_stride: these must be the same too.
        msg: the error's text, or a function of the one that it would have.

    Raises:
        AssertionError: they are not close, or differ in something that is checked.
        ValueError: one tolerance only.
        TypeError: they are neither tensors, numbers nor containers of these.
    """
    if (rtol is None) is not (atol is None):
        raise ValueError(f"rtol and atol must both be specified or both be unspecified, but got {rtol=} and {atol=}.")
    if not allow_subclasses and type(actual) is not type(expected):
        raise TypeError(f"classes differ: {type(actual)} and {type(expected)}")
    rules = _Rules(rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride, msg)
    _compare(actual, expected, rules, "")


def _compare(actual: Any, expected: Any, rules: _Rules, place: str) -> None:
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            missing = sorted(map(str, expected.keys() - actual.keys()))
            extra = sorted(map(str, actual.keys() - expected.keys()))
            rules.refuse(
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {missing}\nAdditional keys in the actual mapping: {extra}", place,
            )  # fmt: skip
        for key in expected:
            _compare(actual[key], expected[key], rules, f"{place}[{key!r}]")
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            rules.refuse(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", place)
        for i, pair in enumerate(zip(actual, expected, strict=True)):
            _compare(*pair, rules, f"{place}[{i}]")
    elif actual is None or expected is None:
        if actual is not expected:
            rules.refuse(f"None mismatch: {actual} is not {expected}", place)
    elif isinstance(actual, bool | int | float | complex) and isinstance(expected, bool | int | float | complex):
        _compare_numbers(actual, expected, rules, place)
    elif any(isinstance(actual, kind) and isinstance(expected, kind) for kind in (TensorBase, np.ndarray | np.generic)):
        _compare_tensors(as_tensor(actual), as_tensor(expected), rules, place)
    else:
        raise TypeError(
            f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."
        )


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _compare_numbers(actual: Any, expected: Any, rules: _Rules, place: str) -> None:
    if rules.check_dtype and type(actual) is not type(expected):
        rules.refuse(f"The (d)types do not match: {type(actual)} != {type(expected)}.", place)
    is_exact = not any(isinstance(value, float | complex) for value in (actual, expected))
    default = (0.0, 0.0) if is_exact else _TOLERANCES["float64"]
    rtol, atol = default if rules.rtol is None or rules.atol is None else (rules.rtol, rules.atol)
    if actual == expected or (rules.equal_nan and actual != actual and expected != expected):
        return
    difference = abs(actual - expected)
    if math.isfinite(abs(actual)) and math.isfinite(abs(expected)) and difference <= atol + rtol * abs(expected):
        return
    kind, relative = "equal" if not rtol and not atol else "close", difference / abs(expected) if expected else math.inf
    rules.refuse(
        f"Scalars are not {kind}!\n\nExpected {expected} but got {actual}.\n"
        f"Absolute difference: {difference}{_allowed(atol)}\nRelative difference: {relative}{_allowed(rtol)}", place,
    )  # fmt: skip


def _allowed(tolerance: float) -> str:
    return f" (up to {tolerance} allowed)" if tolerance else ""


def _compare_tensors(actual: Any, expected: Any, rules: _Rules, place: str) -> None:
    checks = {
        "shape": True,
        "device": rules.check_device,
        "layout": rules.check_layout,
        "dtype": rules.check_dtype,
        "stride()": rules.check_stride,
    }
    for what, is_checked in checks.items():
        ours, theirs = (x.stride() if what == "stride()" else getattr(x, what) for x in (actual, expected))
        if is_checked and ours != theirs:
            rules.refuse(f"The values for attribute '{what}' do not match: {ours} != {theirs}.", place)
    rtol, atol = rules.tolerances(actual.dtype, expected.dtype)
    a, b = (_values(x, actual, expected) for x in (actual, expected))
    close = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=rules.equal_nan)
    if close.all():
        return
    kind, wrong, places = ("equal" if not rtol and not atol else "close"), int((~close).sum()), np.argwhere(~close)
    with np.errstate(all="ignore"):
        difference = np.where(close, 0, np.abs(np.subtract(a, b, dtype=np.result_type(a, np.float64))))
        relative = difference / np.abs(b)
    if not a.ndim:
        rules.refuse(
            f"Scalars are not {kind}!\n\nExpected {b.item()} but got {a.item()}.\n"
            f"Absolute difference: {difference.item()}{_allowed(atol)}\n"
            f"Relative difference: {relative.item()}{_allowed(rtol)}", place,
        )  # fmt: skip
    lines = [
        f"Tensor-likes are not {kind}!\n",
        f"Mismatched elements: {wrong} / {a.size} ({wrong / a.size:.1%})",
    ]
    for name, values, tolerance in (("absolute", difference, atol), ("relative", relative, rtol)):
        flat = np.where(close, -1.0, np.nan_to_num(values, nan=np.inf))
        where = tuple(map(int, np.unravel_index(int(flat.argmax()), a.shape))) if places.size else ()
        lines.append(f"Greatest {name} difference: {values[where]} at index {where}{_allowed(tolerance)}")
    rules.refuse("\n".join(lines), place)


def _values(x: Any, actual: Any, expected: Any) -> Any:
    dense = (x.to_dense() if x.is_sparse else x).detach().cpu()
    dense = dense.to(promote_types(actual.dtype, expected.dtype))
    return (dense.float() if dense.dtype.name == "bfloat16" else dense).numpy()


# --- make_tensor ---


def make_tensor(
    *shape: Any,
    dtype: DType,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Any:
    """A tensor of random numbers: PyTorch's from the same seed.

    Args:
        shape: extents, or one sequence of them.
        dtype: of the result.
        device: of the result.
        low, high: numbers are drawn from [low, high): by default [-9, 9) for floating and complex dtypes (each part),
            [-9, 10) for integers, 0 and 1 for bools, cut to what the dtype holds.
        requires_grad: of the result.
        noncontiguous: every second element of a longer last dimension.
        exclude_zero: 1, or the least normal number of a floating dtype, in the place of zeros.
        memory_format: of the result.

    Raises:
        ValueError: limits or options that do not go together.
    """
    extents = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else tuple(shape)
    if noncontiguous and memory_format is not None:
        raise ValueError("The parameters `noncontiguous` and `memory_format` are mutually exclusive")
    if requires_grad and not dtype.is_inexact:
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}")
    is_apart = noncontiguous and math.prod(extents) > 1
    drawn = _drawn((*extents[:-1], 2 * extents[-1]) if is_apart else extents, dtype, low, high).to(device)
    if is_apart:
        drawn = drawn[..., 1::2]
    elif memory_format is not None:
        drawn = drawn.clone(memory_format=memory_format)
    if exclude_zero:
        drawn[drawn == 0] = finfo(dtype).tiny if dtype.is_inexact else 1
    return drawn.requires_grad_(requires_grad)


def _drawn(shape: tuple[int, ...], dtype: DType, low: float | None, high: float | None) -> Any:
    if not dtype.is_inexact:
        first, end = (0, 2) if dtype is bool_ else (iinfo(dtype).min, iinfo(dtype).max + (dtype is not int64))
        usual = (0, 2) if dtype is bool_ else (-9, 10)
        low, high = _limits(low, high, dtype, (first, end), usual)
        return randint(math.ceil(low), math.ceil(high), shape, dtype=dtype)
    low, high = _limits(low, high, dtype, (finfo(dtype).min, finfo(dtype).max), (-9, 9))
    result = empty(shape, dtype=dtype)
    numbers = view_as_real(result) if dtype.is_complex else result
    if high - low > finfo(dtype).max:  # the width overflows: half of it does not
        numbers.uniform_(low / 2, high / 2).mul_(2)
    else:
        numbers.uniform_(low, high)
    return result


def _limits(
    low: float | None, high: float | None, dtype: DType, possible: tuple[float, float], usual: tuple[float, float]
) -> tuple[float, float]:
    """Where to draw, cut to what the dtype holds. ValueError for limits that leave nothing."""
    low, high = usual[0] if low is None else low, usual[1] if high is None else high
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low == high and dtype.is_inexact:
        warnings.warn(
            "Passing `low==high` to `make_tensor` for floating or complex types is deprecated: use `full(...)`.",
            FutureWarning,
            stacklevel=4,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < possible[0] or low >= possible[1]:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only supports "
            f"[{possible[0]}, {possible[1]})"
        )
    return min(max(low, possible[0]), possible[1]), min(max(high, possible[0]), possible[1])
