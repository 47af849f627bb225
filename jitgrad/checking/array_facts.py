"""What a person wants to know of an array that is wrong.

Owns: ``ArrayFacts``, ``widened``.
Must not know: tensors.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

__all__ = ["ArrayFacts", "facts_of", "widened"]


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """Statistics of an array.

    Attributes:
        shape, dtype: of the array.
        minimum, maximum, mean: of its finite elements; None if it has none.
        num_nan, num_infinite: how many elements are so.
    """

    shape: tuple[int, ...]
    dtype: str
    minimum: float | None
    maximum: float | None
    mean: float | None
    num_nan: int
    num_infinite: int

    def __str__(self) -> str:
        text = f"{self.dtype}[{','.join(map(str, self.shape))}]"
        if self.minimum is not None:
            same = self.minimum == self.maximum
            text += f" {self.minimum:.7g}" if same else f" {self.minimum:.7g} .. {self.maximum:.7g}"
            text += "" if same else f", mean {self.mean:.7g}"
        for count, what in ((self.num_nan, "NaN"), (self.num_infinite, "infinite")):
            text += f", {count} {what}" if count else ""
        return text

    def to_json(self) -> dict[str, Any]:
        """The attributes."""
        return asdict(self)


def widened(array: Any) -> Any:
    """The array in double precision, if its elements are of a floating or complex dtype, halves included."""
    array = np.asarray(array)
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    return array.astype(np.float64) if array.dtype.kind in "fV" or array.dtype.name == "bfloat16" else array


def facts_of(array: Any) -> ArrayFacts:
    """Statistics of an array; of the parts of complex numbers."""
    array = np.asarray(array)
    values = widened(array)
    if values.dtype.kind == "c":
        values = np.stack([values.real, values.imag])
    if values.dtype.kind != "f":
        values = values.astype(np.float64)
    is_finite = np.isfinite(values)
    some = values[is_finite]
    least, most, mean = (float(some.min()), float(some.max()), float(some.mean())) if some.size else (None, None, None)
    num_nan = int(np.isnan(values).sum())
    num_infinite = int(values.size - is_finite.sum()) - num_nan
    return ArrayFacts(array.shape, array.dtype.name, least, most, mean, num_nan, num_infinite)
