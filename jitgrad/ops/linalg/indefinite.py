"""Symmetric and Hermitian matrices that need not be positive definite.

Owns: linalg_ldl_factor_ex, linalg_ldl_solve, over [*, n, n]. Real ones have lowerings, Note [Matrix routines].
Must not know: Tensor, kernels.

Source: J. R. Bunch and L. Kaufman (1977), "Some stable methods for calculating inertia and solving symmetric linear
systems", with LAPACK's choice of pivots and its layout (sytf2 and hetf2, lower triangle).
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from jitgrad.dtypes import int32
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.linalg.factored_systems import check_system, has_real_factors
from jitgrad.ops.linalg.linear_systems import are_real, check_square
from jitgrad.ops.table import RuleContext, Vjp, define

__all__: list[str] = []

_ALPHA = (1 + math.sqrt(17)) / 8


def _factor_aval(a: Aval, hermitian: bool) -> tuple[Aval, Aval, Aval]:
    check_square("linalg.ldl_factor_ex", a)
    return make_aval(a.shape, a.dtype), make_aval(a.shape[:-1], int32), make_aval(a.shape[:-2], int32)


def _np_factor(a: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    shape, n = a.shape[:-2], a.shape[-1]
    found = [_factored(np.array(one, order="F"), hermitian) for one in a.reshape(math.prod(shape), n, n)]
    factors = np.array([one[0] for one in found], a.dtype).reshape(a.shape)
    pivots = np.array([one[1] for one in found], np.int32).reshape(*shape, n)
    return factors, pivots, np.array([one[2] for one in found], np.int32).reshape(shape)


def _solve_aval(factors: Aval, pivots: Aval, b: Aval, hermitian: bool) -> Aval:
    check_system("linalg_ldl_solve", factors, b, pivots)
    return make_aval(b.shape, b.dtype)


def _np_solve(factors: Any, pivots: Any, b: Any, hermitian: bool) -> Any:
    out, n = np.array(b, order="C"), b.shape[-2]
    count = math.prod(b.shape[:-2])
    rows = zip(factors.reshape(count, n, n), pivots.reshape(count, n), out.reshape(count, n, b.shape[-1]), strict=True)
    for one, exchanged, x in rows:
        _solve_in_place(one, exchanged.tolist(), x, hermitian)
    return out


def _no_rule(c: RuleContext, *values: Any) -> NoReturn:
    raise RuntimeError("derivative for linalg_ldl_factor_ex is not implemented; use linalg.solve")


def _no_rule_of_factors(c: RuleContext, *values: Any) -> NoReturn:
    raise RuntimeError("derivative for linalg_ldl_solve is not implemented by its factors; use linalg.solve")


def _solve_rule(c: RuleContext, g: Any, factors: Any, pivots: Any) -> Any:
    """The matrix is its own transpose, or its own adjoint."""
    (hermitian,) = c.params
    if hermitian or not g._aval.dtype.is_complex:
        return call("linalg_ldl_solve", factors, pivots, g, hermitian)
    turned = call("linalg_ldl_solve", factors, pivots, call("conj_physical", g), hermitian)
    return call("conj_physical", turned)


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


def _block(pivot: int, n: int, has_other: bool) -> tuple[int, int]:
    """(The row that was exchanged, how many rows the block has). A pivot that no factorisation gives is taken for the
    nearest one that some does, as in the kernel."""
    return min(max(abs(pivot) - 1, 0), n - 1), 2 if pivot < 0 and has_other else 1


def _solve_in_place(a: Any, pivots: list[int], x: Any, hermitian: bool) -> None:
    """LAPACK's sytrs and hetrs: by L, by D, by L transposed, with the exchanges on the way."""
    n, k = len(a), 0
    while k < n:
        row, step = _block(pivots[k], n, k + 1 < n)
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
        row, step = _block(pivots[k], n, k > 0)
        first_row = k - step + 1
        x[first_row : k + 1] -= _mirrored(a[k + 1 :, first_row : k + 1], hermitian).T @ x[k + 1 :]
        x[[k, row]] = x[[row, k]] if k != row else x[[k, row]]
        k -= step


define(
    "linalg_ldl_factor_ex",
    aval=_factor_aval,
    numpy=_np_factor,
    lower=lambda b, a, hermitian: b.matrix("ldl", (a,)),
    lowers=are_real,
    vjps=[Vjp(_no_rule)],
)
define(
    "linalg_ldl_solve",
    aval=_solve_aval,
    numpy=_np_solve,
    lower=lambda b, factors, pivots, right, hermitian: b.matrix("ldl_solve", (factors, pivots, right))[0],
    lowers=has_real_factors,
    vjps=[Vjp(_no_rule_of_factors), None, Vjp(_solve_rule, (0, 1))],
    num_inputs=3,
)
