"""Complex numbers as PyTorch prints them: the real and the imaginary parts each in a common format.

Owns: ``complex_body``. Imported when the first complex tensor is printed.
Must not know: tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["complex_body"]

Format = Callable[[float], str]


def _shown(array: Any, edge: int) -> Any:
    """What of a summarised array is shown: ``edge`` items at each end of every dimension."""
    for dim in range(array.ndim):
        n = array.shape[dim]
        if n > 2 * edge:
            array = np.take(array, [*range(edge), *range(n - edge, n)], axis=dim)
    return array


def _format_of(parts: Any, precision: int, never_scientific: bool) -> tuple[Format, int]:
    """(the format of all parts, its width), chosen by the finite ones that are not zero."""
    chosen = parts[np.isfinite(parts) & (parts != 0)].astype(np.float64)
    if not chosen.size:
        return lambda value: f"{value:.0f}." if np.isfinite(value) else f"{value:.0f}", 1
    sizes = np.abs(chosen)
    is_wide = sizes.max() / sizes.min() > 1000.0 or sizes.max() > 1e8 or sizes.min() < 1e-4
    is_scientific = bool(is_wide) and not never_scientific
    is_whole = bool((chosen == np.ceil(chosen)).all())
    text = f".{precision}e" if is_scientific else ".0f" if is_whole else f".{precision}f"
    has_point = is_whole and not is_scientific
    width = max(len(format(v, text)) for v in chosen.tolist()) + has_point

    def shown(value: float) -> str:
        point = "." if has_point and np.isfinite(value) else ""
        return f"{value:{text}}{point}".rjust(width)

    return shown, width


def complex_body(array: Any, options: dict[str, Any], indent: int) -> str:
    """The numbers of a complex array, in brackets.

    Args:
        array: of complex numbers.
        options: ``precision``, ``threshold``, ``edgeitems``, ``max_line_width``, ``suppress_small`` of ``formatting``.
        indent: columns before the first line.
    """
    if not array.size:
        return "[]"
    edge = options["edgeitems"] if array.size > options["threshold"] else None
    shown = array if edge is None else _shown(array, edge)
    never = bool(options.get("suppress_small"))
    (real, real_width), (imag, imag_width) = (
        _format_of(part, options["precision"], never) for part in (shown.real, shown.imag)
    )

    def number(z: complex) -> str:
        tail = f"{imag(z.imag)}j".lstrip()
        return real(z.real) + (tail if tail[0] in "+-" else f"+{tail}")

    def row(part: Any, indent: int) -> str:
        if part.ndim == 0:
            return number(part.item())
        is_cut = edge is not None and len(part) > 2 * edge
        if part.ndim > 1:
            ends = [part] if not is_cut else [part[:edge], part[len(part) - edge :]]  # type: ignore[operator]
            groups = [[row(x, indent + 1) for x in end] for end in ends]
            rows = groups[0] if not is_cut else [*groups[0], "...", *groups[1]]
            return "[" + ("," + "\n" * (part.ndim - 1) + " " * (indent + 1)).join(rows) + "]"
        numbers = [number(z) for z in part.tolist()]
        if is_cut:
            numbers = [*numbers[:edge], " ...", *numbers[len(numbers) - edge :]]  # type: ignore[operator]
        per_line = max(1, (options["max_line_width"] - indent) // (real_width + imag_width + 3))
        lines = [", ".join(numbers[i : i + per_line]) for i in range(0, len(numbers), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"

    return row(array, indent)
