"""The samples of the operation table, changed so that their memory ends where kernels may go wrong.

Owns: ``Case``, ``all_cases``: which extents, dtypes and layouts there are.
Must not know: guard pages, how operations run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from jitgrad.ops.table import OPS
from tests.ops.op_specs import SPECS

__all__ = ["LAYOUTS", "Case", "all_cases"]

TAILS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 16, 17, 19, 24, 31, 33, 47, 63, 65, 129)
"""What extents become: every width of a tail up to 8, then around the vectors and tiles of kernels."""

DTYPES = ("float32", "float32", "float64", "bfloat16", "float16")

LAYOUTS = ("plain", "turned", "gaps", "rows apart", "offset", "repeated", "misaligned")
"""Row-major; column-major; two elements between neighbours; a wider row; a view that begins later; an expanded
dimension; memory that is aligned to no element."""


class Case(NamedTuple):
    """One way to call an operation.

    Attributes:
        op: its name in the table.
        nr: of its sample.
        change: extents, and what they become, in all of the sample's arrays.
        dtype: of its floating operands.
        layout: of its operands.
    """

    op: str
    nr: int
    change: tuple[tuple[int, int], ...]
    dtype: str
    layout: str

    def __str__(self) -> str:
        extents = " ".join(f"{old}->{new}" for old, new in self.change) or "as it is"
        return f"{self.op}-{self.nr}, {self.dtype}, {self.layout}, extents {extents}"

    def inputs(self) -> tuple[Any, ...]:
        """The sample's inputs with these extents; arrays repeat their numbers, so that they stay in the domain."""
        return tuple(
            [self._array(y) for y in x] if isinstance(x, list) else self._array(x)
            for x in SPECS[self.op][self.nr].inputs
        )

    @property
    def params(self) -> tuple[Any, ...]:
        return SPECS[self.op][self.nr].params

    def _array(self, x: Any) -> Any:
        if not isinstance(x, np.ndarray):
            return x
        by = dict(self.change)
        shape = tuple(by.get(n, n) for n in x.shape)
        made = np.resize(x, shape) if x.size and 0 not in shape else np.zeros(shape, x.dtype)
        if made.dtype.kind in "fc":
            wanted = {"float64": "d", "float32": "f", "bfloat16": "f", "float16": "e"}[self.dtype]
            kinds = {"d": np.float64, "f": np.float32, "e": np.float16}
            made = made.astype(kinds[wanted] if made.dtype.kind == "f" else np.complex64)
        return made


def _extents(inputs: tuple[Any, ...]) -> list[int]:
    arrays = [y for x in inputs for y in (x if isinstance(x, list) else [x]) if isinstance(y, np.ndarray)]
    return sorted({n for a in arrays for n in a.shape if n > 1})


def all_cases() -> Iterator[Case]:
    """Every sample with each of its extents changed to each of ``TAILS``; dtypes and layouts go round."""
    OPS.load()
    turn = 0
    for op in sorted(OPS):
        for nr, sample in enumerate(SPECS[op]):
            found = _extents(sample.inputs)
            changes: list[tuple[tuple[int, int], ...]] = [()]
            changes += [((n, new),) for n in found for new in TAILS if new != n]
            changes += [tuple((n, new) for n in found) for new in (0, 1, 17)] if len(found) > 1 else []
            for change in changes:
                turn += 1
                yield Case(op, nr, change, DTYPES[turn % len(DTYPES)], LAYOUTS[turn // 2 % len(LAYOUTS)])
