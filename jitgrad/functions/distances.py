"""Distances and angles between vectors, and the bilinear form.

Owns: ``cosine_similarity``, ``pairwise_distance``, ``cdist``, ``pdist``, ``bilinear``.
Must not know: modules. Imported late.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dtypes import HALVES, promote_types
from jitgrad.functions.devices import moved
from jitgrad.functions.einstein import einsum
from jitgrad.functions.linalg import matmul
from jitgrad.functions.pointwise import where
from jitgrad.functions.precision import float32_in_autocast, outside_autocast
from jitgrad.functions.windows import kept
from jitgrad.ops.shapes import broadcast, check_same_dtype, refuse, wrap_dim

__all__ = ["bilinear", "cdist", "cosine_similarity", "pairwise_distance", "pdist", "raised"]


def raised(x: Any, least: float) -> Any:
    """``x``, at least ``least``, whose derivative is that of ``x`` everywhere."""
    return x + (x.clamp_min(least) - x).detach()


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between vectors along ``dim`` of two tensors that broadcast.

    A norm below ``eps`` counts as ``eps``, and is differentiated as if it did not.

    Raises:
        RuntimeError: for an integer tensor.
    """
    shape = broadcast("cosine_similarity", x1.shape, x2.shape)
    if not promote_types(x1.dtype, x2.dtype).is_floating_point:
        raise RuntimeError("expected common dtype to be floating point, yet common dtype is an integer")
    dim = wrap_dim(dim, len(shape))
    common = promote_types(x1.dtype, x2.dtype)
    x1, x2 = (x.to(common).expand(shape) for x in (x1, x2))
    unit1, unit2 = (x / raised(x.norm(2, dim, True), eps) for x in (x1, x2))
    return (unit1 * unit2).sum(dim)


def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """The p-norm of ``x1 - x2 + eps`` over the last dimension; the operands broadcast."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


@outside_autocast
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """x1 @ weight[k] @ x2 for each k.

    Args:
        input1: (*, A).
        input2: (*, B).
        weight: (K, A, B).
        bias: (K), added.

    Returns:
        (*, K).

    Raises:
        RuntimeError: for shapes that do not fit.
    """
    if input1.ndim != input2.ndim:
        raise RuntimeError(
            f"bilinear(): input dimensions do not match: got {input1.ndim} and {input2.ndim}"
        )
    if weight.ndim != 3 or not input1.ndim:
        raise RuntimeError(
            f"bilinear(): expected inputs with dimensions and a weight with 3, got {input1.ndim} and {weight.ndim}"
        )
    for i, (mine, theirs) in enumerate(zip(input1.shape[:-1], input2.shape[:-1], strict=True)):
        if mine != theirs:
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {i}: got {mine} and {theirs}"
            )
    for name, x, extent in (("input1", input1, weight.shape[1]), ("input2", input2, weight.shape[2])):
        if x.shape[-1] != extent:
            raise RuntimeError(
                f"bilinear(): {name} size does not match weight size: got {x.shape[-1]} but expected {extent}"
            )
    check_same_dtype("bilinear", input1, input2, weight, bias)
    out = einsum("...a,kab,...b->...k", input1, weight, input2)
    return out if bias is None else out + bias


# --- between all pairs ---

_FEW = 25
"""Up to so many rows PyTorch computes Euclidean distances from differences, above by a product of matrices."""


@float32_in_autocast
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary") -> Any:
    """The p-norms of the differences of all pairs of rows.

    Args:
        x1: [*, m, k].
        x2: [*, n, k]; batches broadcast.
        p: not negative; may be infinite.
        compute_mode: "use_mm_for_euclid_dist" and "donot_use_mm_for_euclid_dist" say whether Euclidean distances come
            from a product of matrices, which is faster and less exact; by default from 26 rows on.

    Returns:
        [*, m, n]. Where a distance is 0 its derivative is 0.

    Raises:
        RuntimeError: shapes, dtypes or ``p`` do not fit.
        ValueError: another ``compute_mode``.
    """
    if compute_mode not in (None, *_MODES):
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    for name, x in (("X1", x1), ("X2", x2)):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
        if not x.dtype.is_floating_point:
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {x.dtype}")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    refuse("cdist", x1, HALVES)
    check_same_dtype("cdist", x1, x2)
    by_product = compute_mode == _MODES[1] or (
        compute_mode != _MODES[2] and (x1.shape[-2] > _FEW or x2.shape[-2] > _FEW)
    )
    if p == 2 and by_product and x1.shape[-1]:
        return _by_product(x1, x2)
    return (x1.unsqueeze(-2) - x2.unsqueeze(-3)).norm(p, -1)


_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


def _by_product(x1: Any, x2: Any) -> Any:
    """Roots of |x|^2 + |y|^2 - 2 x y."""
    batch = broadcast("cdist", x1.shape[:-2], x2.shape[:-2])
    x1, x2 = (x if x.shape[:-2] == batch else x.expand((*batch, *x.shape[-2:])).contiguous() for x in (x1, x2))
    first, second = (x1 * x1).sum(-1, True), (x2 * x2).sum(-1, True)
    squares = first + second.mT - 2 * matmul(x1, x2.mT)
    is_apart = squares > 0
    return where(is_apart, where(is_apart, squares, 1.0).sqrt(), 0.0)


@kept
def _pairs(rows: int, which: int) -> Any:
    """The first (0) or second (1) row of each pair."""
    return np.triu_indices(rows, 1)[which]


def pdist(input: Any, p: float = 2.0) -> Any:
    """The p-norms of the differences of each two rows of [n, k]: a vector of n (n - 1) / 2, as ``cdist`` above its
    diagonal. RuntimeError for another number of dimensions, integers or a negative ``p``."""
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not input.dtype.is_floating_point:
        raise RuntimeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    rows, columns = (moved(_pairs(input.shape[0], which), input.device) for which in (0, 1))
    return (input.index_select(0, rows) - input.index_select(0, columns)).norm(p, -1)
