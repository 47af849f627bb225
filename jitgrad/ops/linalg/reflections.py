"""Householder reflections ``I - tau v v^H``: factors made of them, and their products.

Owns: geqrf, linalg_householder_product, ormqr, over [*, m, n]. Column i holds the vector of reflection i below the
diagonal, after a one. Real matrices have lowerings, Note [Matrix routines].
Must not know: Tensor, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import beside, call
from jitgrad.ops.linalg.lapack import lapack
from jitgrad.ops.linalg.linear_systems import adjoint, are_real, are_small, lower_identity
from jitgrad.ops.table import RuleContext, Vjp, define

__all__: list[str] = []


# --- geqrf(a): factors, tau ---


def _geqrf_aval(a: Aval) -> tuple[Aval, Aval]:
    return make_aval(a.shape, a.dtype), make_aval((*a.shape[:-2], min(a.shape[-2:])), a.dtype)


@lapack
def _np_geqrf(a: Any) -> tuple[Any, Any]:
    factors, taus = np.zeros_like(a), np.zeros((*a.shape[:-2], min(a.shape[-2:])), a.dtype)
    for at in np.ndindex(a.shape[:-2] if a.size else (0,)):
        raw, taus[at] = np.linalg.qr(a[at], mode="raw")
        factors[at] = raw.T
    return factors, taus


define(
    "geqrf", aval=_geqrf_aval, numpy=_np_geqrf, lower=lambda b, a: b.matrix("reflections", (a,)), lowers=are_small
)


# --- linalg_householder_product(a, tau), ormqr(a, tau, other | is_turned): Q C, or Q^H C ---


def _np_reflected(a: Any, tau: Any, x: Any, is_turned: bool) -> Any:
    m, order = a.shape[-2], range(tau.shape[-1])
    x = np.array(x)
    for i in order if is_turned else reversed(order):
        vector = np.zeros((*a.shape[:-2], m - i, 1), a.dtype)
        vector[..., 0, 0], vector[..., 1:, 0] = 1, a[..., i + 1 :, i]
        factor = tau[..., i, None, None].conj() if is_turned else tau[..., i, None, None]
        x[..., i:, :] -= factor * vector * (vector.conj() * x[..., i:, :]).sum(-2, keepdims=True)
    return x


@lapack
def _np_product(a: Any, tau: Any) -> Any:
    eye = np.eye(*a.shape[-2:], dtype=a.dtype)
    return _np_reflected(a, tau, np.broadcast_to(eye, a.shape), False)


def _are_real(avals: Any, *params: Any) -> bool:
    tau = avals[1]
    return bool(tau.numel) and tau.ndim == avals[0].ndim - 1 and are_real([avals[0], *avals[2:]])


def _check_reflections(name: str, a: Aval, tau: Aval) -> None:
    """RuntimeError unless there are no more factors than columns, and than rows."""
    if a.ndim < 2 or tau.shape[:-1] != a.shape[:-2] or tau.ndim != a.ndim - 1 or tau.shape[-1] > min(a.shape[-2:]):
        raise RuntimeError(f"{name}: {list(tau.shape)} factors do not belong to {list(a.shape)}")


def _product_aval(a: Aval, tau: Aval) -> Aval:
    _check_reflections("linalg_householder_product", a, tau)
    return make_aval(a.shape, a.dtype)


def _ormqr_aval(a: Aval, tau: Aval, other: Aval, is_turned: bool) -> Aval:
    _check_reflections("ormqr", a, tau)
    if other.ndim != a.ndim or other.shape[:-2] != a.shape[:-2] or other.shape[-2] != a.shape[-2]:
        raise RuntimeError(f"ormqr: {list(a.shape)} and {list(other.shape)} do not go together")
    return make_aval(other.shape, other.dtype)


def _vector(a: Any, i: int) -> Any:
    """Reflection i: zeros, a one, and the elements below the diagonal; [*, m, 1]."""
    aval = a._aval
    batch, m = aval.shape[:-2], aval.shape[-2]
    parts = [call("full", 1.0, (*batch, 1, 1), aval.dtype, *beside(aval))]
    if i:
        parts.insert(0, call("full", 0.0, (*batch, i, 1), aval.dtype, *beside(aval)))
    if i + 1 < m:
        parts.append(a.narrow(-1, i, 1).narrow(-2, i + 1, m - i - 1))
    return call("cat", parts, -2)


def _gradients(g: Any, a: Any, tau: Any, x: Any, is_turned: bool) -> tuple[Any, Any, Any]:
    """By the vectors, the factors, and what is reflected: each reflection's, from the last one applied to the first.

    With ``y = x - f v v^H x``: of x ``g - conj(f) v v^H g``, of v ``-conj(f) g (v^H x)^H - f x (v^H g)^H``, of f
    ``-conj(v^H x) . v^H g``.
    """
    n, count = a.shape[-1], tau.shape[-1]
    steps = []
    for i in range(count) if is_turned else range(count - 1, -1, -1):
        vector, factor = _vector(a, i), tau.narrow(-1, i, 1).unsqueeze(-1)
        factor = adjoint(factor) if is_turned else factor
        along = adjoint(vector) @ x
        steps.append((i, vector, factor, x, along))
        x = x - vector * factor @ along
    columns: list[Any] = [None] * count
    taus: list[Any] = [None] * count
    for i, vector, factor, before, along in reversed(steps):
        back, own = adjoint(factor), adjoint(vector) @ g
        column = -(g @ adjoint(along) * back + before @ adjoint(own) * factor)
        columns[i] = call("tril", column, -i - 1)  # as one column: what stands below row i
        by_factor = -(own @ adjoint(along))
        taus[i] = (adjoint(by_factor) if is_turned else by_factor).squeeze(-1)
        g = g - vector * back @ own
    if n > count:
        columns.append(call("full", 0.0, (*a.shape[:-1], n - count), a.dtype, *beside(a._aval)))
    return call("cat", columns, -1), call("cat", taus, -1), g


def _joint(c: RuleContext, g: Any, wanted: list[int], a: Any, tau: Any, x: Any, is_turned: bool) -> dict[int, Any]:
    if not tau.shape[-1]:
        found: tuple[Any, Any, Any] = call("zeros_like", a), call("zeros_like", tau), g
    else:
        found = _gradients(g, a, tau, x, is_turned)
    return {i: found[i] for i in wanted}


def _product_joint(c: RuleContext, g: Any, wanted: list[int], a: Any, tau: Any) -> dict[int, Any]:
    aval = a._aval
    eye = call("eye", *aval.shape[-2:], aval.dtype, *beside(aval)).expand(aval.shape)
    return _joint(c, g, wanted, a, tau, eye, False)


def _ormqr_joint(c: RuleContext, g: Any, wanted: list[int], a: Any, tau: Any, x: Any) -> dict[int, Any]:
    return _joint(c, g, wanted, a, tau, x, *c.params)


define(
    "linalg_householder_product",
    aval=_product_aval,
    numpy=_np_product,
    lower=lambda b, a, tau: b.matrix("reflect", (a, tau, lower_identity(b, a.shape, a.dtype)), False)[0],
    lowers=_are_real,
    vjps=[Vjp(lambda c, g, a, tau, i=i: _product_joint(c, g, [i], a, tau)[i], (0, 1)) for i in range(2)],
    joint=_product_joint,
    num_inputs=2,
)
define(
    "ormqr",
    aval=_ormqr_aval,
    numpy=lapack(_np_reflected),
    lower=lambda b, a, tau, other, is_turned: b.matrix("reflect", (a, tau, other), is_turned)[0],
    lowers=_are_real,
    vjps=[Vjp(lambda c, g, a, tau, x, i=i: _ormqr_joint(c, g, [i], a, tau, x)[i], (0, 1, 2)) for i in range(3)],
    joint=_ormqr_joint,
    num_inputs=3,
)
