"""What the primitives "matrix" compute: kinds, and the shapes of their results.

Owns: ``matrix_results``.
Must not know: how they are computed (``routines/factors.py`` and its neighbours).

kind          operands, flags                        results
cholesky      A; can_fail                            the factor, zeros above its diagonal; info
lu            A                                      both factors in one matrix; pivots, from 1 on; info
solve         A, B; least                            X with A X = B
triangular    A, B; is_upper, is_unit                X with A X = B, of one triangle of A
lu_solve      factors, pivots, B; is_transposed      X with A X = B, or with A^T X = B
reflections   A                                      LAPACK's QR factors in one matrix; tau
reflect       factors, tau, C; is_transposed         Q C, or Q^T C
ldl           A                                      LAPACK's LDL factors in one matrix; pivots, from 1 on; info
ldl_solve     factors, pivots, B                     X with A X = B
permutation   pivots; m                              the order of m rows, from 0 on

Matrices are [*, m, n] with equal batches, pivots and tau [*, k], info [*]: 0, or where it failed, from 1 on. "cholesky"
with ``can_fail`` reports bad data instead; "solve" does where a pivot is not larger than ``least`` times the largest
one, which for 0 is a pivot of zero; "permutation" does for pivots that are none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.dtypes import DType, int32, int64

__all__ = ["matrix_results"]

Shape = tuple[int, ...]
Results = tuple[tuple[Shape, DType], ...]


def _like_last(shapes: Sequence[Shape], dtype: DType, flags: tuple[Any, ...]) -> Results:
    return ((shapes[-1], dtype),)


def _cholesky(shapes: Sequence[Shape], dtype: DType, flags: tuple[Any, ...]) -> Results:
    (a,) = shapes
    return (a, dtype), (a[:-2], int32)


def _lu(shapes: Sequence[Shape], dtype: DType, flags: tuple[Any, ...]) -> Results:
    (a,) = shapes
    return (a, dtype), ((*a[:-2], min(a[-2:])), int32), (a[:-2], int32)


def _reflections(shapes: Sequence[Shape], dtype: DType, flags: tuple[Any, ...]) -> Results:
    (a,) = shapes
    return (a, dtype), ((*a[:-2], min(a[-2:])), dtype)


def _permutation(shapes: Sequence[Shape], dtype: DType, flags: tuple[Any, ...]) -> Results:
    return (((*shapes[0][:-1], flags[0]), int64),)


_RESULTS: dict[str, Callable[[Sequence[Shape], DType, tuple[Any, ...]], Results]] = {
    "cholesky": _cholesky,
    "lu": _lu,
    "solve": _like_last,
    "triangular": _like_last,
    "lu_solve": _like_last,
    "reflections": _reflections,
    "ldl": _lu,
    "ldl_solve": _like_last,
    "reflect": _like_last,
    "permutation": _permutation,
}


def matrix_results(kind: str, shapes: Sequence[Shape], dtype: DType, flags: tuple[Any, ...]) -> Results:
    """Shape and dtype of each result.

    Args:
        shapes: of the operands.
        dtype: of the first operand.
    """
    return _RESULTS[kind](shapes, dtype, flags)
