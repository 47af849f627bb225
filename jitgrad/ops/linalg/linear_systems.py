"""Systems of linear equations.

Owns: linalg_solve_ex, linalg_inv_ex, linalg_cholesky_ex, over [*, n, n]; which matrices are small. Small ones have
lowerings, Note [Matrix routines]; of larger ones LAPACK runs, in a compiled step between two native pieces.
Must not know: Tensor, kernels.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jitgrad.dtypes import float32, float64
from jitgrad.errors import LinAlgError
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.linalg.lapack import lapack
from jitgrad.ops.table import OPS, RuleContext, Vjp, define

__all__ = [
    "NOT_INVERTED", "NOT_SOLVED", "adjoint", "are_real", "are_small", "are_small_symmetric", "check_matrix",
    "check_square", "cholesky_rule",
    "first_bad_of", "flipped", "lower_cholesky", "lower_identity", "transposed",
]  # fmt: skip

NOT_SOLVED = "The solver failed because the input matrix is singular."
NOT_INVERTED = (
    "The diagonal element {pivot} is zero, the inversion could not be completed because the input matrix is singular."
)
_SMALL_ORDER = 32
"""Up to so many rows and columns LAPACK's blocks gain less than its call costs."""


def are_real(avals: Any, *params: Any) -> bool:
    """Whether kernels can compute with these matrices: real ones, with some rows and columns. Enough for what NumPy
    has no function of LAPACK for."""
    return all([x.dtype in (float32, float64) and x.ndim >= 2 and x.numel for x in avals])


def are_small(avals: Any, *params: Any, most: int = _SMALL_ORDER) -> bool:
    """Whether kernels do so in less time than LAPACK."""
    return are_real(avals) and all([max(x.shape[-2:]) <= most for x in avals])


are_small_symmetric = functools.partial(are_small, most=128)
"""The same for Cholesky factors, which need no search for pivots."""


def lower_identity(b: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Identity matrices, [*, m, n]."""
    rank = len(shape)
    return b.cast(b.eq(b.iota(shape, rank - 2), b.iota(shape, rank - 1)), dtype)


def check_matrix(name: str, a: Aval) -> None:
    """RuntimeError unless it is [*, m, n], of floats; ``name`` is for messages."""
    if not a.dtype.is_inexact:
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {a.dtype.type_name}")
    if a.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")


def check_square(name: str, a: Aval) -> None:
    """RuntimeError unless it is [*, n, n], of floats."""
    check_matrix(name, a)
    if a.shape[-1] != a.shape[-2]:
        rows, columns = a.shape[-2:]
        raise RuntimeError(f"{name}: A must be batches of square matrices, but they are {rows} by {columns} matrices")


def _solve_aval(a: Aval, b: Aval) -> Aval:
    """[*, n, n] and [*, n, k]."""
    check_square("linalg.solve", a)
    if a.dtype is not b.dtype:
        raise RuntimeError(
            "linalg.solve: Expected A and B to have the same dtype, but found A of type "
            f"{a.dtype.type_name} and B of type {b.dtype.type_name} instead"
        )
    if not b.ndim:
        raise RuntimeError("linalg.solve: The input tensor B must have at least 1 dimension.")
    if b.ndim < 2 or a.shape[-1] != b.shape[-2]:
        size, other = a.shape[-1], b.shape[-2:] if b.ndim >= 2 else (*b.shape, 1)
        raise RuntimeError(
            "linalg.solve: Incompatible shapes of A and B for the equation AX = B "
            f"({size}x{size} and {other[0]}x{other[1]})"
        )
    if a.shape[:-2] != b.shape[:-2]:
        raise RuntimeError(f"linalg.solve: batches {list(a.shape[:-2])} and {list(b.shape[:-2])} differ")
    return make_aval(b.shape, b.dtype)


def _inv_aval(a: Aval) -> Aval:
    check_square("linalg.inv", a)
    return make_aval(a.shape, a.dtype)


def _zero_pivots(a: Any) -> Any:
    """Per matrix 0, or the number of the first pivot that is zero."""
    rule = OPS["linalg_lu_factor_ex"].numpy
    assert rule is not None
    return rule(a, True)[2]


def first_bad_of(info: Any) -> tuple[str, int]:
    """(Which matrix of a batch is the first bad one, as PyTorch says it; its number). The last one where all are well
    but for rounding."""
    bad = np.flatnonzero(info)
    nr = int(bad[0]) if bad.size else info.size - 1
    return f"(Batch element {nr}): " if info.ndim else "", int(info.flat[nr]) or 1


@lapack
def _np_solve(a: Any, b: Any) -> Any:
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        which, _ = first_bad_of(_zero_pivots(a))
        raise LinAlgError(f"torch.linalg.solve: {which}{NOT_SOLVED}") from None


@lapack
def _np_inv(a: Any) -> Any:
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        which, pivot = first_bad_of(_zero_pivots(a))
        raise LinAlgError(f"linalg.inv: {which}{NOT_INVERTED.format(pivot=pivot)}") from None


def _cholesky_aval(a: Aval, upper: bool) -> Aval:
    check_square("linalg.cholesky", a)
    return make_aval(a.shape, a.dtype)


@lapack
def _np_cholesky(a: Any, upper: bool) -> Any:
    try:
        factor = np.linalg.cholesky(flipped(a, upper))
        is_good = not np.isnan(factor.diagonal(0, -2, -1)).any()
    except np.linalg.LinAlgError:
        is_good = False
    if is_good:
        return flipped(factor, upper)
    rule = OPS["linalg_cholesky_info"].numpy
    assert rule is not None
    which, order = first_bad_of(rule(a, upper)[1])
    raise LinAlgError(
        f"linalg.cholesky: {which}The factorization could not be completed because the input is not positive-definite "
        f"(the leading minor of order {order} is not positive-definite)."
    )


def transposed(x: Any) -> Any:
    return x.transpose(-2, -1)


def adjoint(x: Any) -> Any:
    """The conjugate transpose; rules of functions that are not holomorphic are written with it."""
    turned = x.transpose(-2, -1)
    return call("conj_physical", turned) if x._aval.dtype.is_complex else turned


def _solve_b_rule(c: RuleContext, g: Any, a: Any) -> Any:
    return call("linalg_solve_ex", transposed(a), g)


def _solve_a_rule(c: RuleContext, g: Any, a: Any, x: Any) -> Any:
    return -(call("linalg_solve_ex", transposed(a), g) @ transposed(x))


def flipped(a: Any, upper: bool) -> Any:
    """The adjoint of arrays with an upper triangle, whose lower one is then used; else themselves."""
    return a.swapaxes(-1, -2).conj() if upper else a


def lower_cholesky(b: Any, a: Any, upper: bool, can_fail: bool) -> tuple[Any, Any]:
    """(The factor, info), of real matrices."""
    rank = len(a.shape)
    turn = (*range(rank - 2), rank - 1, rank - 2)
    factor, info = b.matrix("cholesky", (b.permute(a, turn) if upper else a,), can_fail)
    return b.permute(factor, turn) if upper else factor, info


def cholesky_rule(c: RuleContext, g: Any, factor: Any) -> Any:
    """I. Murray, "Differentiation of the Cholesky decomposition" (2016), equation 10, symmetric: it is its own adjoint.
    """
    if c.params[0]:
        factor, g = adjoint(factor), adjoint(g)
    back = adjoint(factor)
    inner = call("tril", back @ g, 0)
    symmetric = (inner + adjoint(call("tril", inner, -1))) * 0.5
    left = call("linalg_solve_triangular", back, symmetric, True, False)
    return call("linalg_solve_triangular", back, adjoint(left), True, False)


def _inv_rule(c: RuleContext, g: Any, inverse: Any) -> Any:
    back = transposed(inverse)
    return -(back @ g @ back)


define(
    "linalg_solve_ex",
    aval=_solve_aval,
    numpy=_np_solve,
    lower=lambda b, a, right: b.matrix("solve", (a, right), 0.0)[0],
    lowers=are_small,
    vjps=[Vjp(_solve_a_rule, (0, "out")), Vjp(_solve_b_rule, (0,))],
    num_inputs=2,
    checks_reals=True,
)
define(
    "linalg_cholesky_ex",
    aval=_cholesky_aval,
    numpy=_np_cholesky,
    lower=lambda b, a, upper: lower_cholesky(b, a, upper, True)[0],
    lowers=are_small_symmetric,
    vjps=[Vjp(cholesky_rule, ("out",))],
    checks_reals=True,
)
define(
    "linalg_inv_ex",
    aval=_inv_aval,
    numpy=_np_inv,
    lower=lambda b, a: b.matrix("solve", (a, lower_identity(b, a.shape, a.dtype)), 0.0)[0],
    lowers=are_small,
    vjps=[Vjp(_inv_rule, ("out",))],
    checks_reals=True,
)
