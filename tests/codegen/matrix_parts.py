"""What the primitive "matrix" means, by LAPACK and by loops over NumPy's arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.linalg import lapack

__all__ = ["matrix_parts"]


def matrix_parts(kind: str, flags: tuple[Any, ...], operands: Sequence[Any]) -> list[Any]:
    """All results of a kind, see ``codegen/primitives/matrices.py``."""
    batch = operands[0].shape[: -1 if kind == "permutation" else -2]
    found = [_KINDS[kind](*(x[at] for x in operands), *flags) for at in np.ndindex(*batch)]
    return [np.array(parts).reshape((*batch, *np.shape(parts[0]))) for parts in zip(*found, strict=True)]


def _cholesky(a: Any, can_fail: bool) -> tuple[Any, ...]:
    return np.linalg.cholesky(a), 0


def _lu(a: Any) -> tuple[Any, ...]:
    m, pivots, info = np.array(a), [], 0
    for j in range(min(m.shape)):
        at = j + int(np.abs(m[j:, j]).argmax())
        pivots.append(at + 1)
        m[[j, at]] = m[[at, j]]
        if m[j, j] == 0:
            info = info or j + 1
            continue
        m[j + 1 :, j] /= m[j, j]
        m[j + 1 :, j + 1 :] -= np.outer(m[j + 1 :, j], m[j, j + 1 :])
    return m, np.array(pivots, np.int32), info


def _triangular(a: Any, b: Any, is_upper: bool, is_unit: bool) -> tuple[Any, ...]:
    a = np.triu(a) if is_upper else np.tril(a)
    if is_unit:
        a = a + np.diag(1 - a.diagonal())
    return (np.linalg.solve(a, b),)


def _permutation(pivots: Any, m: int) -> tuple[Any, ...]:
    rows = np.arange(m)
    for j, pivot in enumerate(pivots):
        rows[[j, pivot - 1]] = rows[[pivot - 1, j]]
    return (rows,)


def _lu_solve(factors: Any, pivots: Any, b: Any, is_transposed: bool) -> tuple[Any, ...]:
    lower, upper = np.tril(factors, -1) + np.eye(len(factors)), np.triu(factors)
    a = np.empty_like(factors)
    a[_permutation(pivots, len(a))[0]] = lower @ upper
    return (np.linalg.solve(a.T if is_transposed else a, b),)


def _reflections(a: Any) -> tuple[Any, ...]:
    raw, tau = np.linalg.qr(a, mode="raw")
    return raw.T, tau


def _reflect(factors: Any, tau: Any, c: Any, is_transposed: bool) -> tuple[Any, ...]:
    order = range(len(tau))
    for i in order if is_transposed else reversed(order):
        v = np.concatenate([np.zeros(i), [1], factors[i + 1 :, i]])
        c = c - tau[i] * np.outer(v, v @ c)
    return (c,)


def _ldl(a: Any) -> tuple[Any, ...]:
    factors, pivots, info = lapack.dsytrf(a.astype(np.float64), lower=1)
    return np.tril(factors), pivots, info


_KINDS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "cholesky": _cholesky,
    "lu": _lu,
    "solve": lambda a, b, least: (np.linalg.solve(a, b),),
    "triangular": _triangular,
    "permutation": _permutation,
    "lu_solve": _lu_solve,
    "reflections": _reflections,
    "ldl": _ldl,
    "ldl_solve": lambda a, pivots, b: (lapack.dsytrs(a, pivots, b, lower=1)[0],),
    "reflect": _reflect,
}
