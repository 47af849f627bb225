"""Padding by what the tensor holds: its reflection, its border, or itself again.

Owns: the modes of ``nn.functional.pad`` other than "constant". Must not know: modules. Imported late, by ``pad``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.dtypes import bool_, int64
from jitgrad.functions.devices import in_float32
from jitgrad.functions.windows import read
from jitgrad.ops.aval import check_allocatable, make_aval
from jitgrad.ops.shapes import refuse
from jitgrad.state import autocasts

__all__ = ["pad_by_content"]

_RANKS = {2: (2, 3), 4: (3, 4), 6: (4, 5)}


def _reflected(at: Any, extent: int) -> Any:
    return extent - 1 - np.abs(extent - 1 - np.abs(at))


_POSITIONS: dict[str, Callable[[Any, int], Any]] = {
    "reflect": _reflected,
    "replicate": lambda at, extent: np.clip(at, 0, extent - 1),
}


def pad_by_content(input: Any, pad: Sequence[int], mode: str, value: float | None) -> Any:
    """``input`` with (before, after) widths, from the last dimension backwards; negative widths crop.

    Raises:
        NotImplementedError: for another mode, or a number of widths that does not fit the rank.
        RuntimeError: for a value, or widths that a reflection or a repetition cannot fill.
    """
    if mode not in (*_POSITIONS, "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if input.ndim not in _RANKS.get(len(pad), ()):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {input.ndim}D input tensor.\n"
            "Supported combinations for non-constant padding:\n"
            "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
            "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
            "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    if mode != "circular":
        refuse(f"{'reflection' if mode == 'reflect' else 'replication'}_pad{len(pad) // 2}d", input, (bool_,))
    if autocasts and mode != "circular" and (mode, len(pad)) != ("reflect", 6):
        (input,) = in_float32(input)
    if not any(pad):
        return input.clone()
    for i in range(len(pad) // 2):
        dim, before, after = input.ndim - 1 - i, pad[2 * i], pad[2 * i + 1]
        if before or after:
            _check_widths(input, dim, before, after, mode)
            input = read(input, dim, _positions(mode, before, after, input.shape[dim]))
    return input


@functools.lru_cache(maxsize=256)
def _positions(mode: str, before: int, after: int, extent: int) -> tuple[int, ...]:
    """Which element stands at each place. A circle is closed after it was cropped, as in PyTorch."""
    check_allocatable([make_aval((max(before + extent + after, 0),), int64)])
    if mode != "circular":
        return tuple(_POSITIONS[mode](np.arange(-before, extent + after), extent).tolist())
    inside = np.arange(max(-before, 0), extent - max(-after, 0))
    around = np.arange(-max(before, 0), len(inside) + max(after, 0))
    return tuple(inside[around % max(len(inside), 1)].tolist())


def _check_widths(x: Any, dim: int, before: int, after: int, mode: str) -> None:
    extent = x.shape[dim]
    if mode == "reflect" and max(before, after) >= extent:
        raise RuntimeError(
            "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
            f"({before}, {after}) at dimension {dim} of input {list(x.shape)}"
        )
    if mode == "circular" and max(before, after) > extent:
        raise RuntimeError("Padding value causes wrapping around more than once.")
    if extent + before + after < (0 if mode == "circular" else 1):
        raise RuntimeError(
            f"input (extent: {extent} at dimension {dim}) is too small. Calculated output: {extent + before + after}"
        )
