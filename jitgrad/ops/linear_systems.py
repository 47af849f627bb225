"""Systems of linear equations.

Owns: linalg_solve_ex, linalg_inv_ex, linalg_cholesky_ex, over [*, n, n]. They have no lowering: in a compiled step
LAPACK runs between two native pieces.
Must not know: Tensor, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.errors import LinAlgError
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.lapack import lapack
from jitgrad.ops.table import RuleContext, Vjp, define

__all__ = ["adjoint", "check_matrix", "check_square", "cholesky_rule", "transposed"]

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
    return make_aval(b.shape, b.dtype)


def _inv_aval(a: Aval) -> Aval:
    check_square("linalg.inv", a)
    return make_aval(a.shape, a.dtype)


@lapack
def _np_solve(a: Any, b: Any) -> Any:
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        raise LinAlgError("linalg.solve: The solver failed because the input matrix is singular.") from None


@lapack
def _np_inv(a: Any) -> Any:
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        raise LinAlgError(
            "linalg.inv: The inversion could not be completed because the input matrix is singular."
        ) from None


def _cholesky_aval(a: Aval) -> Aval:
    check_square("linalg.cholesky", a)
    return make_aval(a.shape, a.dtype)


@lapack
def _np_cholesky(a: Any) -> Any:
    try:
        return np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        raise LinAlgError(
            "linalg.cholesky: The factorization could not be completed because the input is not positive-definite."
        ) from None


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


def cholesky_rule(c: RuleContext, g: Any, factor: Any) -> Any:
    """I. Murray, "Differentiation of the Cholesky decomposition" (2016), equation 10, symmetric."""
    back = adjoint(factor)
    inner = call("tril", back @ g, 0)
    symmetric = (inner + adjoint(call("tril", inner, -1))) * 0.5
    left = call("linalg_solve_ex", back, symmetric)
    return adjoint(call("linalg_solve_ex", back, adjoint(left)))


def _inv_rule(c: RuleContext, g: Any, inverse: Any) -> Any:
    back = transposed(inverse)
    return -(back @ g @ back)


define(
    "linalg_solve_ex",
    aval=_solve_aval,
    numpy=_np_solve,
    vjps=[Vjp(_solve_a_rule, (0, "out")), Vjp(_solve_b_rule, (0,))],
    num_inputs=2,
    checks_reals=True,
)
define(
    "linalg_cholesky_ex",
    aval=_cholesky_aval,
    numpy=_np_cholesky,
    vjps=[Vjp(cholesky_rule, ("out",))],
    checks_reals=True,
)
define("linalg_inv_ex", aval=_inv_aval, numpy=_np_inv, vjps=[Vjp(_inv_rule, ("out",))], checks_reals=True)
