"""Numbers as PyTorch prints them: all of a tensor in one format, which its finite elements choose.

Owns: ``number_body``. Imported when the first tensor is printed.
Must not know: tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["number_body"]

Format = Callable[[Any], str]


def number_body(array: Any, options: dict[str, Any], indent: int) -> str:
    """The elements of an array, in brackets.

    Args:
        array: of numbers or bools.
        options: ``precision``, ``threshold``, ``edgeitems``, ``linewidth``, ``sci_mode`` of ``formatting``.
        indent: columns before the first line.
    """
    if not array.size:
        return "[]"
    edge = options["edgeitems"] if array.size > options["threshold"] else None
    shown = array if edge is None else _shown(array, edge)
    number, width = _format_of_complex(shown, options) if array.dtype.kind == "c" else _format_of(shown, options)

    def row(part: Any, indent: int) -> str:
        if part.ndim == 0:
            return number(part.item())
        is_cut = edge is not None and len(part) > 2 * edge
        if part.ndim > 1:
            ends = [part] if not is_cut else [part[:edge], part[len(part) - edge :]]  # type: ignore[operator]
            groups = [[row(x, indent + 1) for x in end] for end in ends]
            rows = groups[0] if not is_cut else [*groups[0], "...", *groups[1]]
            return "[" + ("," + "\n" * (part.ndim - 1) + " " * (indent + 1)).join(rows) + "]"
        numbers = [number(x) for x in part.tolist()]
        if is_cut:
            numbers = [*numbers[:edge], " ...", *numbers[len(numbers) - edge :]]  # type: ignore[operator]
        per_line = max(1, (options["linewidth"] - indent) // (width + 2))
        lines = [", ".join(numbers[i : i + per_line]) for i in range(0, len(numbers), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"

    return row(array, indent)


def _shown(array: Any, edge: int) -> Any:
    """What of a summarised array is shown: ``edge`` items at each end of every dimension."""
    for dim in range(array.ndim):
        n = array.shape[dim]
        if n > 2 * edge:
            array = np.take(array, [*range(edge), *range(n - edge, n)], axis=dim)
    return array


def _format_of(shown: Any, options: dict[str, Any]) -> tuple[Format, int]:
    """(the format of all elements, its width)."""
    if shown.dtype.kind == "f":
        return _format_of_floats(shown, options)
    width = max(len(str(x)) for x in shown.ravel().tolist())
    return (lambda x: str(x).rjust(width)), width


def _format_of_floats(shown: Any, options: dict[str, Any]) -> tuple[Format, int]:
    """Chosen by the finite elements that are not zero: whole numbers, a fixed point, or exponents if sizes differ."""
    chosen = shown[np.isfinite(shown) & (shown != 0)].astype(np.float64)
    sizes = np.abs(chosen)
    is_whole = bool((chosen == np.ceil(chosen)).all())
    is_wide = bool(chosen.size) and bool(
        sizes.max() / sizes.min() > 1000.0 or sizes.max() > 1e8 or (not is_whole and sizes.min() < 1e-4)
    )
    is_scientific = is_wide if options["sci_mode"] is None else options["sci_mode"]
    digits = f".{options['precision']}e" if is_scientific else ".0f" if is_whole else f".{options['precision']}f"
    has_point = is_whole and not is_scientific
    width = max((len(format(x, digits)) + has_point for x in chosen.tolist()), default=1)

    def text(x: float) -> str:
        point = "." if has_point and np.isfinite(x) else ""
        return (format(x, digits) + point).rjust(width)

    return text, width


def _format_of_complex(shown: Any, options: dict[str, Any]) -> tuple[Format, int]:
    """The real and the imaginary parts have a format each."""
    (real, real_width), (imag, imag_width) = (_format_of_floats(x, options) for x in (shown.real, shown.imag))

    def text(z: complex) -> str:
        tail = f"{imag(z.imag)}j".lstrip()
        return real(z.real) + (tail if tail[0] in "+-" else f"+{tail}")

    return text, real_width + imag_width + 1
