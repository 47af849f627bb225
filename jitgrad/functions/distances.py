"""Distances and angles between vectors, and the bilinear form.

Owns: ``cosine_similarity``, ``pairwise_distance``, ``bilinear``.
Must not know: modules. Imported late, by ``nn.functional``.
"""

from __future__ import annotations

from typing import Any

from jitgrad.functions.einstein import einsum
from jitgrad.ops.shapes import broadcast, wrap_dim

__all__ = ["bilinear", "cosine_similarity", "pairwise_distance", "raised"]


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
    if not (x1.dtype.is_floating_point and x2.dtype.is_floating_point):
        raise RuntimeError("expected common dtype to be floating point, yet common dtype is an integer")
    dim = wrap_dim(dim, len(shape))
    x1, x2 = x1.expand(shape), x2.expand(shape)
    unit1, unit2 = (x / raised(x.norm(2, dim, True), eps) for x in (x1, x2))
    return (unit1 * unit2).sum(dim)


def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """The p-norm of ``x1 - x2 + eps`` over the last dimension; the operands broadcast."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


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
    out = einsum("...a,kab,...b->...k", input1, weight, input2)
    return out if bias is None else out + bias
