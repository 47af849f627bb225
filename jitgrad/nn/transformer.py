"""``Transformer``, its encoder, its decoder, and their layers.

Source: Vaswani et al., "Attention Is All You Need", 2017; ``norm_first``: Xiong et al., "On Layer Normalization in the
Transformer Architecture", 2020.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from jitgrad.dtypes import DType
from jitgrad.functions import full
from jitgrad.nn import functional as F
from jitgrad.nn import init
from jitgrad.nn.attention import MultiheadAttention
from jitgrad.nn.attention_forward import additive_mask
from jitgrad.nn.containers import ModuleList, check_num_layers
from jitgrad.nn.linear import Linear
from jitgrad.nn.misc import Dropout
from jitgrad.nn.module import Module
from jitgrad.nn.normalization import LayerNorm
from jitgrad.tensor import Tensor

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation = str | Callable[[Tensor], Tensor]


def _activation(given: Activation) -> Callable[[Tensor], Tensor]:
    """RuntimeError for a name other than "relu" and "gelu"."""
    if not isinstance(given, str):
        return given
    if given not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {given}")
    found: Callable[[Tensor], Tensor] = getattr(F, given)
    return found


def _copies(layer: Module, num_layers: int) -> ModuleList:
    """So many layers like this one.

    Raises:
        ValueError: more than any memory holds.
    """
    check_num_layers("Transformer", num_layers)
    return ModuleList([deepcopy(layer) for _ in range(num_layers)])


class TransformerEncoderLayer(Module):
    """Self-attention and two linear layers, each added to its input and normalised.

    Args:
        d_model: features.
        nhead: heads of the attention.
        dim_feedforward: features between the linear layers.
        dropout: of everything that is added.
        activation: between the linear layers: "relu", "gelu" or a function.
        layer_norm_eps: see ``LayerNorm``.
        batch_first: (N, L, E) instead of (L, N, E).
        norm_first: normalise what comes in, not the sum.
        bias: of all layers.
        device, dtype: of the parameters.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        to: dict[str, Any] = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **to)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **to)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **to)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **to)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **to)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        self.activation = _activation(activation)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """(L, N, E), the same shape; masks as ``MultiheadAttention``'s."""
        padding = additive_mask(src_key_padding_mask, "src_key_padding_mask", src.dtype)
        mask = additive_mask(src_mask, "src_mask", src.dtype)
        if self.norm_first:
            src = src + self._attend(self.norm1(src), mask, padding, is_causal)
            return src + self._feed(self.norm2(src))
        src = self.norm1(src + self._attend(src, mask, padding, is_causal))
        found: Tensor = self.norm2(src + self._feed(src))
        return found

    def _attend(self, x: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool) -> Tensor:
        options: dict[str, Any] = {"attn_mask": mask, "key_padding_mask": padding, "is_causal": is_causal}
        found: Tensor = self.dropout1(self.self_attn(x, x, x, need_weights=False, **options)[0])
        return found

    def _feed(self, x: Tensor) -> Tensor:
        found: Tensor = self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))
        return found


class TransformerDecoderLayer(Module):
    """``TransformerEncoderLayer`` with an attention to the encoder's output in between; the same arguments."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        to: dict[str, Any] = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **to)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **to)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **to)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **to)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **to)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **to)
        self.norm3 = LayerNorm(d_model, layer_norm_eps, bias=bias, **to)
        self.dropout1, self.dropout2, self.dropout3 = Dropout(dropout), Dropout(dropout), Dropout(dropout)
        self.activation = _activation(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """(T, N, E) and the encoder's (S, N, E) to (T, N, E); masks as ``MultiheadAttention``'s."""

        def attend(x: Tensor) -> Tensor:
            found: Tensor = self.self_attn(
                x, x, x, tgt_key_padding_mask, need_weights=False, attn_mask=tgt_mask, is_causal=tgt_is_causal
            )[0]
            return self.dropout1(found)

        def look(x: Tensor) -> Tensor:
            found: Tensor = self.multihead_attn(
                x,
                memory,
                memory,
                memory_key_padding_mask,
                need_weights=False,
                attn_mask=memory_mask,
                is_causal=memory_is_causal,
            )[0]
            return self.dropout2(found)

        def feed(x: Tensor) -> Tensor:
            found: Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
            return self.dropout3(found)

        for norm, block in ((self.norm1, attend), (self.norm2, look), (self.norm3, feed)):
            tgt = tgt + block(norm(tgt)) if self.norm_first else norm(tgt + block(tgt))
        return tgt


class TransformerEncoder(Module):
    """Copies of a layer, one after the other.

    Args:
        encoder_layer: what is copied.
        num_layers: how often.
        norm: applied at the end, if given.
        enable_nested_tensor, mask_check: accepted for PyTorch's sake.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """(L, N, E), the same shape; ``is_causal`` says that ``mask`` is the causal one."""
        padding = additive_mask(src_key_padding_mask, "src_key_padding_mask", src.dtype)
        mask = additive_mask(mask, "mask", src.dtype)
        for layer in self.layers:
            src = layer(src, src_mask=mask, is_causal=bool(is_causal), src_key_padding_mask=padding)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Copies of a layer, one after the other; arguments as ``TransformerEncoder``."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """(T, N, E) and the encoder's (S, N, E) to (T, N, E); masks as ``MultiheadAttention``'s."""
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder of the source, and a decoder of the target that looks at it.

    Args:
        d_model: features.
        nhead: heads of the attentions.
        num_encoder_layers, num_decoder_layers: how many layers there are.
        dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias: see
            ``TransformerEncoderLayer``.
        custom_encoder, custom_decoder: modules to use instead.
        device, dtype: of the parameters.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        options = (dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype)
        if custom_encoder is None:
            encoder_layer = TransformerEncoderLayer(d_model, nhead, *options)
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)
            custom_encoder = TransformerEncoder(encoder_layer, num_encoder_layers, norm)
        self.encoder = custom_encoder
        if custom_decoder is None:
            decoder_layer = TransformerDecoderLayer(d_model, nhead, *options)
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)
            custom_decoder = TransformerDecoder(decoder_layer, num_decoder_layers, norm)
        self.decoder = custom_decoder
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """(S, N, E) and (T, N, E) to (T, N, E); masks as ``MultiheadAttention``'s.

        Raises:
            RuntimeError: for two batches of different sizes, or features other than ``d_model``.
        """
        batch = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        found: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )
        return found

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: DType | None = None) -> Tensor:
        """(sz, sz): minus infinity to the right of the diagonal, else 0."""
        mask: Tensor = full((sz, sz), -math.inf, device=device, dtype=dtype).triu(1)
        return mask
