"""``MultiheadAttention``.

Source: Vaswani et al., "Attention Is All You Need", 2017.
"""

from __future__ import annotations

from typing import Any

from jitgrad.dtypes import DType
from jitgrad.functions import empty, zeros
from jitgrad.nn import functional as F
from jitgrad.nn import init
from jitgrad.nn.linear import Linear
from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter
from jitgrad.tensor import Tensor

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Scaled dot-product attention in ``num_heads`` subspaces, projected in and out.

    Args:
        embed_dim: of queries, keys, values and outputs; divisible by ``num_heads``.
        num_heads: how many subspaces.
        dropout: of the attention weights, while training.
        bias: of the projections.
        batch_first: (N, L, E) instead of (L, N, E).
        device, dtype: of the parameters.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        batch_first: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if embed_dim % num_heads:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.in_proj_weight = Parameter(empty(3 * embed_dim, embed_dim, device=device, dtype=dtype))
        self.in_proj_bias: Parameter | None
        offset = Parameter(zeros(3 * embed_dim, device=device, dtype=dtype)) if bias else None
        self.register_parameter("in_proj_bias", offset)
        self.out_proj = Linear(embed_dim, embed_dim, bias, device, dtype)
        init.xavier_uniform_(self.in_proj_weight)  # after the output's, as PyTorch draws
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        need_weights: bool = False,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> tuple[Tensor, None]:
        """(L, N, E) queries, (S, N, E) keys and values to (L, N, E); a bool mask is True where nobody may look.

        Raises:
            NotImplementedError: for ``need_weights``: they are never formed outside the fused function.
        """
        if need_weights:
            raise NotImplementedError("MultiheadAttention: attention weights are not returned; use need_weights=False")
        q, k, v = (self._project(x, i) for i, x in enumerate((query, key, value)))
        if attn_mask is not None and not attn_mask.dtype.is_floating_point:
            attn_mask = attn_mask.logical_not()
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask, dropout, is_causal and attn_mask is None)
        mixed = mixed.transpose(1, 2).flatten(2)
        return self.out_proj(mixed if self.batch_first else mixed.transpose(0, 1)), None

    def _project(self, x: Tensor, part: int) -> Tensor:
        """One of query, key, value as (N, heads, L, E / heads)."""
        low, high = part * self.embed_dim, (part + 1) * self.embed_dim
        bias = None if self.in_proj_bias is None else self.in_proj_bias[low:high]
        x = F.linear(x if self.batch_first else x.transpose(0, 1), self.in_proj_weight[low:high], bias)
        batch, length, width = x.shape
        split: Tensor = x.reshape(batch, length, self.num_heads, width // self.num_heads).transpose(1, 2)
        return split
