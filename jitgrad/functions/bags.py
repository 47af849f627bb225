"""Sums, means and maxima of embeddings: ``embedding_bag``.

Owns: it. Must not know: modules. Imported late, by ``nn.functional``.
"""

from __future__ import annotations

import math
from typing import Any

from jitgrad.dtypes import bfloat16, float16, float32, float64, int32, int64
from jitgrad.functions.creation import arange
from jitgrad.functions.layers import embedding

__all__ = ["embedding_bag"]


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """One vector per bag of rows of ``weight``.

    Args:
        input: (B, L) row numbers, a bag each; or (N), which ``offsets`` divides.
        weight: (rows, features).
        offsets: (B) where bags begin in a vector ``input``; 0 first.
        max_norm, norm_type: rows with a larger norm are scaled to it first, in ``weight`` itself.
        scale_grad_by_freq: a row's gradient is divided by the number of its uses.
        mode: "sum", "mean" or "max".
        sparse: the weight's gradient is a sparse tensor.
        per_sample_weights: of the input's shape, for mode "sum".
        include_last_offset: the last offset is the end of the last bag.
        padding_idx: a row that does not count, and gets no gradient.

    Returns:
        (B, features); zeros for an empty bag.

    Raises:
        ValueError: for shapes and options that do not go together.
        NotImplementedError: for weights of another mode.
    """
    _check(input, weight, offsets, mode, sparse, per_sample_weights)
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    rows = embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    counted = None
    if padding_idx is not None:
        counted = input != padding_idx % weight.shape[0]
        rows = rows.masked_fill(counted.logical_not().unsqueeze(-1), 0.0)
    if input.ndim == 1:
        starts = offsets[:-1] if include_last_offset else offsets
        return _of_vector(rows, starts, counted, mode)
    if mode == "max":
        return _largest(rows, counted)
    total = rows.sum(1)
    if mode == "sum":
        return total
    if counted is None:
        return total / max(input.shape[1], 1)
    return total / counted.to(rows.dtype).sum(1, True).clamp_min(1)


def _check(input: Any, weight: Any, offsets: Any, mode: str, sparse: bool, weights: Any) -> None:
    if weights is not None and input.shape != weights.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({weights.shape}) is not None, then it must have the same shape as "
            f"the input ({input.shape})"
        )
    if weight.ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")
    if input.ndim == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
            f"sequences. However, found offsets of type {type(offsets)}"
        )
    if input.ndim == 1 and (offsets is None or offsets.ndim != 1):
        raise ValueError("offsets has to be a 1D Tensor" + (" but got None" if offsets is None else ""))
    if input.ndim not in (1, 2):
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if weight.dtype not in (float16, bfloat16, float32, float64):
        raise RuntimeError(f"embedding_bag: Expected weight of a floating dtype, but got {weight.dtype.type_name}")
    if weights is not None and weights.dtype is not weight.dtype:
        raise RuntimeError(
            f"embedding_bag: Expected weight to have the same type as per_sample_weights, but got "
            f"{weight.dtype.type_name} and {weights.dtype.type_name}"
        )
    if offsets is not None and offsets.dtype not in (int32, int64):
        raise RuntimeError(f"embedding_bag: Expected offsets of dtype Int or Long, but got {offsets.dtype.type_name}")
    if not isinstance(mode, str) or mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}')."
        )


def _of_vector(rows: Any, starts: Any, counted: Any, mode: str) -> Any:
    """Bags of consecutive rows."""
    count, bags = rows.shape[0], starts.shape[0]
    bag = (arange(count, device=rows.device).unsqueeze(1) >= starts.unsqueeze(0)).to(int64).sum(1) - 1
    is_in = bag.unsqueeze(0) == arange(bags, device=rows.device).unsqueeze(1)
    if counted is not None:
        is_in = is_in.logical_and(counted.unsqueeze(0))
    if mode == "max":
        return _largest(rows.unsqueeze(0).expand(bags, *rows.shape), is_in)
    members = is_in.to(rows.dtype)
    total = members @ rows
    return total if mode == "sum" else total / members.sum(1, True).clamp_min(1)


def _largest(rows: Any, counted: Any) -> Any:
    """Over dimension 1 of (B, L, features)."""
    if not rows.shape[1]:
        return rows.sum(1)
    if counted is None:
        return rows.max(1)[0]
    found = rows.masked_fill(counted.logical_not().unsqueeze(-1), -math.inf).max(1)[0]
    return found.masked_fill(counted.any(1, True).logical_not(), 0.0)
