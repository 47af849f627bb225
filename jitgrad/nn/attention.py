"""``MultiheadAttention``.

Source: Vaswani et al., "Attention Is All You Need", 2017.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

from jitgrad.dtypes import DType
from jitgrad.functions import empty
from jitgrad.nn import init
from jitgrad.nn.attention_forward import attend
from jitgrad.nn.linear import Linear
from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter
from jitgrad.tensor import Tensor

__all__ = ["MultiheadAttention", "NonDynamicallyQuantizableLinear", "SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.IntEnum):
    """PyTorch's ways to compute attention; here it is always computed in the same way."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """A block in which some of them are allowed: nothing is different."""
    yield


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
        if embed_dim // num_heads * num_heads != embed_dim:
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
        for weight in self.projections():
            init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)  # type: ignore[arg-type]
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def projections(self) -> tuple[Tensor, ...]:
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
        masks = key_padding_mask, attn_mask
        return attend(self, (query, key, value), masks, need_weights, average_attn_weights, is_causal)
