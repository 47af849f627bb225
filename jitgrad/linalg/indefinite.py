"""Symmetric and Hermitian matrices that need not be positive definite.

Owns: ldl_factor, ldl_factor_ex, ldl_solve.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jitgrad.dtypes import HALVES, int32
from jitgrad.errors import LinAlgError
from jitgrad.linalg.systems import same_batch
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.linalg.linear_systems import check_square
from jitgrad.ops.shapes import refuse

__all__ = ["ldl_factor", "ldl_factor_ex", "ldl_solve"]


class LDLFactor(NamedTuple):
    """L below the diagonal and D's blocks on it, [*, n, n]; the rows exchanged, [*, n], from 1 on, int32."""

    LD: Any
    pivots: Any


class LDLFactorEx(NamedTuple):
    """As ``LDLFactor``; per matrix 0, or the first block of D that is zero, from 1 on."""

    LD: Any
    pivots: Any
    info: Any


def ldl_factor_ex(A: Any, *, hermitian: bool = False, check_errors: bool = False) -> LDLFactorEx:
    """(LD, pivots, info): ``A = P L D L^T P^T`` of symmetric matrices [*, n, n], whose lower triangle is looked at.

    D has blocks of one or two rows; a block of two has the same negative pivot twice. There are no derivatives.

    Args:
        hermitian: of complex matrices: they are their own adjoints, ``A = P L D L^H P^T``; else their own transposes.
        check_errors: raise if a block of D is zero.

    Raises:
        RuntimeError: the matrices are not square, or not floating.
        LinAlgError: see ``check_errors``.
    """
    check_square("torch.linalg.ldl_factor_ex", A._aval)
    refuse("ldl_factor_kernel_cpu", A, HALVES)
    found = LDLFactorEx(*call("linalg_ldl_factor_ex", A, hermitian and A.dtype.is_complex))
    if check_errors and bool(found.info.any()):
        raise LinAlgError(f"linalg.ldl_factor: block {int(found.info.max())} of D is zero, the matrix is singular.")
    return found


def ldl_factor(A: Any, *, hermitian: bool = False) -> LDLFactor:
    """(LD, pivots): see ``ldl_factor_ex``. LinAlgError for a singular matrix."""
    return LDLFactor(*ldl_factor_ex(A, hermitian=hermitian, check_errors=True)[:2])


def ldl_solve(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False) -> Any:
    """The X with ``A X = B``, of the factors of A that ``ldl_factor`` found; differentiable by B.

    Args:
        LD, pivots: [*, n, n] and [*, n].
        B: [*, n, k]; batches broadcast.

    Raises:
        RuntimeError: shapes or dtypes do not fit.
    """
    check_square("torch.linalg.ldl_solve", LD._aval)
    if B.ndim < 2:
        raise RuntimeError(f"torch.linalg.ldl_solve: Expected B to have at least 2 dimensions, but it has {B.ndim}")
    if LD.shape[:-1] != pivots.shape:
        raise RuntimeError(
            f"torch.linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with "
            f"shape {list(pivots.shape)} instead"
        )
    if pivots.dtype.is_inexact or not pivots.dtype.is_signed:
        raise RuntimeError(
            f"torch.linalg.ldl_solve: Expected pivots to be integers. Got {pivots.dtype.type_name}"
        )
    refuse("ldl_solve_kernel_cpu", LD, HALVES)
    if LD.dtype is not B.dtype:
        raise RuntimeError(
            f"torch.linalg.ldl_solve: LD dtype {LD.dtype.type_name} does not match b dtype {B.dtype.type_name}"
        )
    if LD.shape[-1] != B.shape[-2]:
        raise RuntimeError(f"torch.linalg.ldl_solve: {list(LD.shape)} and {list(B.shape)} do not go together")
    factors, right = same_batch(LD, B)
    pivots = pivots.to(int32) if factors is LD else pivots.to(int32).expand(factors.shape[:-1])
    return call("linalg_ldl_solve", factors, pivots, right, hermitian and B.dtype.is_complex)
