"""Symmetric and Hermitian matrices that need not be positive definite.

Owns: ldl_factor, ldl_factor_ex, ldl_solve. The host computes them, at once.

Source: J. R. Bunch and L. Kaufman (1977), "Some stable methods for calculating inertia and solving symmetric linear
systems", with LAPACK's choice of pivots and its layout (sytf2 and hetf2, lower triangle).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, NoReturn

import numpy as np

from jitgrad.autograd.function import Function
from jitgrad.dtypes import HALVES, int32
from jitgrad.errors import LinAlgError
from jitgrad.functions import tensor
from jitgrad.ops.linear_systems import check_square
from jitgrad.ops.shapes import broadcast, refuse

__all__ = ["ldl_factor", "ldl_factor_ex", "ldl_solve"]

_ALPHA = (1 + math.sqrt(17)) / 8


class LDLFactor(NamedTuple):
    """L below the diagonal and D's blocks on it, [*, n, n]; the rows exchanged, [*, n], from 1 on, int32."""

    LD: Any
    pivots: Any


class LDLFactorEx(NamedTuple):
    """As ``LDLFactor``; per matrix 0, or the first block of D that is zero, from 1 on."""

    LD: Any
    pivots: Any
    info: Any


class _Factor(Function):
    @staticmethod
    def forward(ctx: Any, a: Any, hermitian: bool) -> tuple[Any, Any, Any]:
        array = a.detach().cpu().numpy()
        shape, n = array.shape[:-2], array.shape[-1]
        found = [_factored(np.array(one, order="F"), hermitian) for one in array.reshape(math.prod(shape), n, n)]
        factors = np.array([one[0] for one in found], array.dtype).reshape(array.shape)
        pivots = np.array([one[1] for one in found], np.int32).reshape(*shape, n)
        info = np.array([one[2] for one in found], np.int32).reshape(shape)
        out = tuple(tensor(one, device=a.device) for one in (factors, pivots, info))
        ctx.mark_non_differentiable(*out[1:])
        return out[0], out[1], out[2]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> NoReturn:
        raise RuntimeError("derivative for linalg_ldl_factor_ex is not implemented; use linalg.solve")


class _Solve(Function):
    @staticmethod
    def forward(ctx: Any, factors: Any, pivots: Any, b: Any, hermitian: bool) -> Any:
        ctx.save_for_backward(factors, pivots)
        ctx.hermitian = hermitian
        a, order, right = (x.detach().cpu().numpy() for x in (factors, pivots, b))
        batch = broadcast("linalg.ldl_solve", a.shape[:-2], right.shape[:-2])
        n, k = right.shape[-2:]
        a = np.broadcast_to(a, (*batch, n, n)).reshape(math.prod(batch), n, n)
        order = np.broadcast_to(order, (*batch, n)).reshape(len(a), n)
        out = np.array(np.broadcast_to(right, (*batch, n, k)))
        for one, exchanged, x in zip(a, order, out.reshape(len(a), n, k), strict=True):
            _solve_in_place(one, exchanged.tolist(), x, hermitian)
        return tensor(out, device=b.device)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """The matrix is its own transpose, or its own adjoint."""
        if ctx.needs_input_grad[0]:
            raise RuntimeError("derivative for linalg_ldl_solve by the factors is not implemented; use linalg.solve")
        factors, pivots = ctx.saved_tensors
        if ctx.hermitian:
            return None, None, _Solve.apply(factors, pivots, grad, True), None
        return None, None, _Solve.apply(factors, pivots, grad.conj(), False).conj(), None


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
    found = LDLFactorEx(*_Factor.apply(A, hermitian and A.dtype.is_complex))
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
    return _Solve.apply(LD, pivots.to(int32), B, hermitian and B.dtype.is_complex)


def _factored(a: Any, hermitian: bool) -> tuple[Any, list[int], int]:
    """Factors, pivots and info of one matrix, whose lower triangle is overwritten."""
    n, k, info = len(a), 0, 0
    pivots = [0] * n
    if hermitian:
        np.fill_diagonal(a, a.diagonal().real)
    with np.errstate(all="ignore"):
        while k < n:
            row, step = _pivot(a, k)
            if row < 0:
                info, row = info or k + 1, k
            else:
                _exchange(a, k, k + step - 1, row, step, hermitian)
                (_eliminate if step == 1 else _eliminate_pair)(a, k, hermitian)
            pivots[k : k + step] = [row + 1] if step == 1 else [-row - 1] * 2
            k += step
    return np.tril(a), pivots, info


def _sizes(values: Any) -> Any:
    """Absolute values; of complex numbers LAPACK's cabs1, the sum of both parts'."""
    return np.abs(values.real) + np.abs(values.imag)


def _pivot(a: Any, k: int) -> tuple[int, int]:
    """Which row is to come next, -1 if there is nothing but zeros, and how many rows the block has."""
    n, own = len(a), _sizes(a[k, k])
    below = _sizes(a[k + 1 :, k])
    largest = below.max() if below.size else 0.0
    if not max(own, largest) > 0 or own != own:
        return -1, 1
    if own >= _ALPHA * largest:
        return k, 1
    row = k + 1 + int(below.argmax())
    rest = [_sizes(a[row, k:row]).max()]
    if row < n - 1:
        rest.append(_sizes(a[row + 1 :, row]).max())
    widest = max(rest)
    if own >= _ALPHA * largest * (largest / widest):
        return k, 1
    return row, 1 if _sizes(a[row, row]) >= _ALPHA * widest else 2


def _exchange(a: Any, k: int, into: int, row: int, step: int, hermitian: bool) -> None:
    """Rows and columns ``into`` and ``row`` of a symmetric matrix of which there is the lower triangle."""
    if into == row:
        return
    a[row + 1 :, [into, row]] = a[row + 1 :, [row, into]]
    between = a[into + 1 : row, into].copy()
    a[into + 1 : row, into] = _mirrored(a[row, into + 1 : row], hermitian)
    a[row, into + 1 : row] = _mirrored(between, hermitian)
    a[row, into] = _mirrored(a[row, into], hermitian)
    a[into, into], a[row, row] = a[row, row], a[into, into]
    if step == 2:
        a[k + 1, k], a[row, k] = a[row, k], a[k + 1, k]


def _mirrored(values: Any, hermitian: bool) -> Any:
    """What stands on the other side of the diagonal."""
    return values.conj() if hermitian else values


def _eliminate(a: Any, k: int, hermitian: bool) -> None:
    column = a[k + 1 :, k].copy()
    inverse = 1 / a[k, k]
    a[k + 1 :, k + 1 :] -= np.outer(inverse * column, _mirrored(column, hermitian))
    a[k + 1 :, k] = column * inverse


def _eliminate_pair(a: Any, k: int, hermitian: bool) -> None:
    """The block's inverse is written with its off-diagonal number taken out, as LAPACK does against overflow."""
    if k + 2 >= len(a):
        return
    off = a[k + 1, k]
    d11, d22 = a[k + 1, k + 1] / off, a[k, k] / _mirrored(off, hermitian)
    columns = a[k + 2 :, k : k + 2].copy()
    first, second = columns.T
    scale = 1 / (d11 * d22 - 1)
    of_first, of_second = (d11 * first - second) / _mirrored(off, hermitian), (d22 * second - first) / off
    scaled = np.stack([scale * of_first, scale * of_second], 1)
    a[k + 2 :, k + 2 :] -= columns @ _mirrored(scaled, hermitian).T
    a[k + 2 :, k : k + 2] = scaled


def _solve_in_place(a: Any, pivots: list[int], x: Any, hermitian: bool) -> None:
    """LAPACK's sytrs and hetrs: by L, by D, by L transposed, with the exchanges on the way."""
    n, k = len(a), 0
    while k < n:
        row = abs(pivots[k]) - 1
        step = 1 if pivots[k] > 0 else 2
        last = k + step - 1
        x[[last, row]] = x[[row, last]] if last != row else x[[last, row]]
        x[last + 1 :] -= a[last + 1 :, k : last + 1] @ x[k : last + 1]
        if step == 1:
            x[k] /= a[k, k].real if hermitian else a[k, k]
        else:
            off = a[k + 1, k]
            other = _mirrored(off, hermitian)
            d11, d22 = a[k, k] / other, a[k + 1, k + 1] / off
            first, second = x[k] / other, x[k + 1] / off
            x[k], x[k + 1] = (d22 * first - second) / (d11 * d22 - 1), (d11 * second - first) / (d11 * d22 - 1)
        k += step
    k = n - 1
    while k >= 0:
        step = 1 if pivots[k] > 0 else 2
        first_row, row = k - step + 1, abs(pivots[k]) - 1
        x[first_row : k + 1] -= _mirrored(a[k + 1 :, first_row : k + 1], hermitian).T @ x[k + 1 :]
        x[[k, row]] = x[[row, k]] if k != row else x[[k, row]]
        k -= step
