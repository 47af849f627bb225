"""``MultiheadAttention``.

Source: Vaswani et al., "Attention Is All You Need", 2017.
"""

from __future__ import annotations

import math
from typing import Any

from jitgrad.dtypes import BOOLEAN, DType
from jitgrad.functions import cat, empty, matmul
from jitgrad.nn import functional as F
from jitgrad.nn import init
from jitgrad.nn.linear import Linear
from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter
from jitgrad.tensor import Tensor

__all__ = ["MultiheadAttention", "NonDynamicallyQuantizableLinear", "additive_mask"]


def additive_mask(mask: Tensor | None, name: str, dtype: DType) -> Tensor | None:
    """A mask as a term of the scores: a bool one is True where nobody may look. AssertionError for integers."""
    if mask is None or mask.dtype.is_floating_point:
        return mask
    if mask.dtype.category is not BOOLEAN:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    zeros: Tensor = mask.new_zeros(mask.shape, dtype=dtype)
    return zeros.masked_fill(mask, -math.inf)


class NonDynamicallyQuantizableLinear(Linear):
    """PyTorch's name of the projection of an attention's output."""


class MultiheadAttention(Module):
    """Scaled dot-product attention in ``num_heads`` subspaces, projected in and out.

    Args:
        embed_dim: of queries and outputs; divisible by ``num_heads``.
        num_heads: how many subspaces.
        dropout: of the attention weights, while training.
        bias: of the projections.
        add_bias_kv: append a learned key and value.
        add_zero_attn: append a key and a value of zeros.
        kdim, vdim: of keys and values; ``embed_dim`` if None.
        batch_first: (N, L, E) instead of (L, N, E).
        device, dtype: of the parameters.

    Raises:
        ValueError: extents that are not positive.
        AssertionError: ``embed_dim`` that ``num_heads`` does not divide.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                "instead"
            )
        if embed_dim % num_heads:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.head_dim, self.add_zero_attn = embed_dim // num_heads, add_zero_attn
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim

        def parameter(*shape: int) -> Parameter:
            return Parameter(empty(*shape, device=device, dtype=dtype))

        self.q_proj_weight: Any
        self.k_proj_weight: Any
        self.v_proj_weight: Any
        self.in_proj_weight: Parameter | None
        self.in_proj_bias: Parameter | None
        self.bias_k: Parameter | None
        self.bias_v: Parameter | None
        is_same = self._qkv_same_embed_dim
        for name, width in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            self.register_parameter(f"{name}_proj_weight", None if is_same else parameter(embed_dim, width))
        self.register_parameter("in_proj_weight", parameter(3 * embed_dim, embed_dim) if is_same else None)
        self.register_parameter("in_proj_bias", parameter(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, parameter(1, 1, embed_dim) if add_bias_kv else None)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in self._projections():
            init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)  # type: ignore[arg-type]
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def _projections(self) -> tuple[Tensor, ...]:
        """The packed weight, or the three of queries, keys and values."""
        if self.in_proj_weight is not None:
            return (self.in_proj_weight,)
        return (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Queries look at keys, and mix values.

        Args:
            query: (L, N, E), or (L, E).
            key, value: (S, N, kdim) and (S, N, vdim), or without N.
            key_padding_mask: (N, S): keys that nobody may look at (True), or a term of the scores.
            need_weights: return the weights too; they are formed then.
            attn_mask: (L, S) or (N * heads, L, S), likewise.
            average_attn_weights: the mean of the heads' weights.
            is_causal: ``attn_mask`` is the causal one; a hint.

        Returns:
            (L, N, E), and the weights (N, L, S), or (N, heads, L, S) if not averaged; None if not needed.

        Raises:
            AssertionError: for ranks that do not go together, and for masks of integers.
            RuntimeError: for a mask of another shape; for the hint without the mask.
        """
        _check_ranks(query, key, value, key_padding_mask, attn_mask)
        if query.ndim == 2:
            batch = 0 if self.batch_first else 1
            padding = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
            q, k, v = (x.unsqueeze(batch) for x in (query, key, value))
            out, found = self.forward(q, k, v, padding, need_weights, attn_mask, average_attn_weights, is_causal)
            return out.squeeze(batch), None if found is None else found.squeeze(0)
        if is_causal and attn_mask is None:
            raise RuntimeError(
                "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
                "`generate_square_subsequent_mask` to create this mask."
            )
        q, k, v = self._heads(query, key, value)
        drops_mask = is_causal and key_padding_mask is None and not need_weights
        mask = None if drops_mask else self._mask(attn_mask, key_padding_mask, q, k)
        dropout = self.dropout if self.training else 0.0
        weights: Tensor | None = None
        if need_weights:
            scores = matmul(q * math.sqrt(1.0 / self.head_dim), k.transpose(-2, -1))
            shares = F.softmax(scores if mask is None else scores + mask, -1)
            shares = F.dropout(shares, dropout) if dropout else shares
            mixed = matmul(shares, v)
            weights = shares.mean(1) if average_attn_weights else shares
        else:
            mixed = F.scaled_dot_product_attention(q, k, v, mask, dropout, drops_mask)
        mixed = mixed.transpose(1, 2).flatten(2)
        return self.out_proj(mixed if self.batch_first else mixed.transpose(0, 1)), weights

    def _heads(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Projected queries, keys and values as (N, heads, length, E / heads), with what is appended."""
        embed = self.embed_dim
        if query.shape[-1] != embed:
            raise AssertionError(f"was expecting embedding dimension of {embed}, but got {query.shape[-1]}")
        if self._qkv_same_embed_dim and key.shape != value.shape:
            raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
        found = []
        for part, x in enumerate((query, key, value)):
            low, high = part * embed, (part + 1) * embed
            packed = self.in_proj_weight
            weight = self._projections()[part] if packed is None else packed[low:high]
            bias = None if self.in_proj_bias is None else self.in_proj_bias[low:high]
            x = F.linear(x if self.batch_first else x.transpose(0, 1), weight, bias)
            batch, length, _ = x.shape
            extra = (None, self.bias_k, self.bias_v)[part]
            if extra is not None:
                x, length = cat([x, extra.expand(batch, 1, embed)], 1), length + 1
            x = x.reshape(batch, length, self.num_heads, self.head_dim).transpose(1, 2)
            if self.add_zero_attn and part:
                x = F.pad(x, (0, 0, 0, 1))
            found.append(x)
        return found[0], found[1], found[2]

    def _mask(self, attn_mask: Tensor | None, padding: Tensor | None, q: Tensor, k: Tensor) -> Tensor | None:
        """Both masks as one term of the scores; what is appended may be looked at."""
        batch, heads, length, _ = q.shape
        appended = (self.bias_k is not None) + self.add_zero_attn
        width = k.shape[2] - appended
        mask = additive_mask(attn_mask, "attn_mask", q.dtype)
        if mask is not None:
            shape = (length, width) if mask.ndim == 2 else (batch * heads, length, width)
            if tuple(mask.shape) != shape:
                raise RuntimeError(
                    f"The shape of the {mask.ndim}D attn_mask is {tuple(mask.shape)}, but should be {shape}."
                )
            if mask.ndim == 3:
                mask = mask.reshape(batch, heads, length, width)
        term = additive_mask(padding, "key_padding_mask", q.dtype)
        if term is not None:
            if tuple(term.shape) != (batch, width):
                raise AssertionError(
                    f"Expected key_padding_mask of shape {(batch, width)}, but got {tuple(term.shape)}"
                )
            term = term.reshape(batch, 1, 1, width)
            mask = term if mask is None else mask + term
        return mask if mask is None or not appended else F.pad(mask, (0, appended))


def _check_ranks(query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, attn_mask: Tensor | None) -> None:
    rank = query.ndim
    if rank not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor")
    kind = "batched (3-D)" if rank == 3 else "unbatched (2-D)"
    if key.ndim != rank or value.ndim != rank:
        raise AssertionError(
            f"For {kind} `query`, expected `key` and `value` to be {rank}-D but found {key.ndim}-D and {value.ndim}-D "
            "tensors respectively"
        )
    if padding is not None and padding.ndim != rank - 1:
        raise AssertionError(
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {rank - 1}-D but found {padding.ndim}-D "
            "tensor instead"
        )
    if attn_mask is not None and attn_mask.ndim not in (2, 3):
        raise AssertionError(
            f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.ndim}-D tensor "
            "instead"
        )
