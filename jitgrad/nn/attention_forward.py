"""What attention in several heads computes, over the weights of a layer or over given ones.

Owns: ``attend``, ``additive_mask``, ``multi_head_attention_forward``.
Must not know: modules. What it calls a layer has the attributes of ``Projections``.

Source: Vaswani et al., "Attention Is All You Need", 2017.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from jitgrad.dtypes import BOOLEAN, DType
from jitgrad.functions import cat, linear, matmul, pad, scaled_dot_product_attention, softmax
from jitgrad.functions import dropout as drop
from jitgrad.tensor import Tensor

__all__ = ["additive_mask", "attend", "multi_head_attention_forward"]


@dataclass(slots=True)
class Projections:
    """The weights of ``multi_head_attention_forward``.

    Attributes:
        embed_dim: of queries and outputs.
        num_heads, head_dim: their number, and the width of each.
        in_proj_weight: the packed weight, or None: there are three.
        weights: the packed one, or those of queries, keys and values.
        in_proj_bias, bias_k, bias_v, add_zero_attn, dropout, training: as of ``nn.MultiheadAttention``.
        out: weight and bias of the output's projection.
        fixed: None, or keys and values, (N * heads, S, head_dim), that are not projected; either may be None.
    """

    embed_dim: int
    num_heads: int
    head_dim: int
    in_proj_weight: Tensor | None
    weights: tuple[Any, ...]
    in_proj_bias: Tensor | None
    bias_k: Tensor | None
    bias_v: Tensor | None
    add_zero_attn: bool
    dropout: float
    training: bool
    out: tuple[Any, Any]
    fixed: tuple[Any, Any]
    batch_first: bool = False

    def projections(self) -> tuple[Any, ...]:
        """See ``weights``."""
        return self.weights

    def out_proj(self, mixed: Tensor) -> Tensor:
        """Of what the heads found."""
        return linear(mixed, *self.out)


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """``nn.MultiheadAttention`` over given weights, (L, N, E).

    Args:
        query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal: as of its call.
        embed_dim_to_check: E.
        num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn: its arguments and parameters.
        dropout_p: of the attention weights, if ``training``.
        out_proj_weight, out_proj_bias: of the output's projection.
        use_separate_proj_weight: take ``q_proj_weight``, ``k_proj_weight``, ``v_proj_weight``.
        static_k, static_v: (N * num_heads, S, E / num_heads): used as they are, in place of projected keys and values.

    Returns:
        (L, N, E), and the weights or None.

    Raises:
        AssertionError, RuntimeError: as ``nn.MultiheadAttention`` does; a weight that is needed is None.
    """
    for name, x in (
        ("in_proj_weight", in_proj_weight), ("in_proj_bias", in_proj_bias), ("bias_k", bias_k), ("bias_v", bias_v),
    ):  # fmt: skip
        if not isinstance(x, Tensor | None):
            raise TypeError(f"multi_head_attention_forward(): argument '{name}' must be Tensor, not {type(x).__name__}")
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else (in_proj_weight,)
    if any(weight is None for weight in weights):
        raise AssertionError(f"use_separate_proj_weight is {use_separate_proj_weight} but a weight for it is None")
    if (bias_k is None) is not (bias_v is None):
        raise ValueError("bias_k and bias_v must be given together")
    head_dim = embed_dim_to_check // num_heads
    if head_dim * num_heads != embed_dim_to_check:
        raise AssertionError(f"embed_dim {embed_dim_to_check} not divisible by num_heads {num_heads}")
    for fixed, bias, kind in ((static_k, bias_k, "key"), (static_v, bias_v, "value")):
        if fixed is not None and bias is not None:
            raise AssertionError(f"bias cannot be added to static {kind}.")
        expected = (query.shape[1] * num_heads, head_dim) if query.ndim == 3 else None
        if fixed is not None and expected and (fixed.shape[0], fixed.shape[2]) != expected:
            raise AssertionError(f"expecting static_{kind[0]} of {expected}, but got {tuple(fixed.shape)}")
    layer = Projections(
        embed_dim_to_check, num_heads, head_dim, None if use_separate_proj_weight else in_proj_weight, weights,
        in_proj_bias, bias_k, bias_v, add_zero_attn, dropout_p, training, (out_proj_weight, out_proj_bias),
        (static_k, static_v),
    )  # fmt: skip
    masks = key_padding_mask, attn_mask
    return attend(layer, (query, key, value), masks, need_weights, average_attn_weights, is_causal)


def attend(
    layer: Any,
    inputs: tuple[Tensor, Tensor, Tensor],
    masks: tuple[Tensor | None, Tensor | None],
    need_weights: bool,
    average_attn_weights: bool,
    is_causal: bool,
) -> tuple[Tensor, Tensor | None]:
    """The call of ``nn.MultiheadAttention``.

    Args:
        layer: whose weights; see ``Projections``.
        inputs: queries, keys and values.
        masks: ``key_padding_mask`` and ``attn_mask``.
    """
    query, key, value = inputs
    key_padding_mask, attn_mask = masks
    _check_ranks(query, key, value, key_padding_mask, attn_mask)
    if query.ndim == 2:
        batch = 0 if layer.batch_first else 1
        padding = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        q, k, v = (x.unsqueeze(batch) for x in inputs)
        out, found = attend(layer, (q, k, v), (padding, attn_mask), need_weights, average_attn_weights, is_causal)
        return out.squeeze(batch), None if found is None else found.squeeze(0)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    q, k, v = _heads(layer, inputs)
    drops_mask = is_causal and key_padding_mask is None and not need_weights
    mask = None if drops_mask else _mask(layer, attn_mask, key_padding_mask, q, k)
    dropout = layer.dropout if layer.training else 0.0
    weights: Tensor | None = None
    if need_weights:
        scores = matmul(q * math.sqrt(1.0 / layer.head_dim), k.transpose(-2, -1))
        shares = softmax(scores if mask is None else scores + mask, -1)
        shares = drop(shares, dropout) if dropout else shares
        mixed = matmul(shares, v)
        weights = shares.mean(1) if average_attn_weights else shares
    else:
        mixed = scaled_dot_product_attention(q, k, v, mask, dropout, drops_mask)
    # memory goes by positions, then by batches, whatever the dimensions' order, as in PyTorch: what is drawn for the
    # result, as a dropout's mask, goes along memory
    out = layer.out_proj(mixed.permute(2, 0, 1, 3).flatten(2))
    return out.transpose(0, 1) if layer.batch_first else out, weights


def additive_mask(mask: Tensor | None, name: str, dtype: DType) -> Tensor | None:
    """A mask as a term of the scores: a bool one is True where nobody may look. AssertionError for integers."""
    if mask is None or mask.dtype.is_floating_point:
        return mask
    if mask.dtype.category is not BOOLEAN:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    zeros: Tensor = mask.new_zeros(mask.shape, dtype=dtype)
    return zeros.masked_fill(mask, -math.inf)


def _heads(layer: Any, inputs: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Projected queries, keys and values as (N, heads, length, E / heads), with what is appended."""
    embed, (query, key, value) = layer.embed_dim, inputs
    if query.shape[-1] != embed:
        raise AssertionError(f"was expecting embedding dimension of {embed}, but got {query.shape[-1]}")
    packed = layer.in_proj_weight
    if packed is not None and key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    found, fixed = [], (None, *getattr(layer, "fixed", (None, None)))
    if _looks_at_itself(layer, inputs, fixed):
        return _own_heads(layer, query)
    for part, x in enumerate(inputs):
        low, high = part * embed, (part + 1) * embed
        if fixed[part] is not None:
            batch = query.shape[1]
            x = fixed[part].reshape(batch, layer.num_heads, -1, layer.head_dim)
        else:
            weight = layer.projections()[part] if packed is None else packed[low:high]
            bias = None if layer.in_proj_bias is None else layer.in_proj_bias[low:high]
            x = linear(x if layer.batch_first else x.transpose(0, 1), weight, bias)
            batch, length, _ = x.shape
            extra = (None, layer.bias_k, layer.bias_v)[part]
            if extra is not None:
                x, length = cat([x, extra.expand(batch, 1, embed)], 1), length + 1
            x = x.reshape(batch, length, layer.num_heads, layer.head_dim).transpose(1, 2)
        if layer.add_zero_attn and part:
            x = pad(x, (0, 0, 0, 1))
        found.append(x)
    return found[0], found[1], found[2]


def _looks_at_itself(layer: Any, inputs: tuple[Tensor, Tensor, Tensor], fixed: tuple[Any, ...]) -> bool:
    """Whether one product with the packed weight gives queries, keys and values, to which nothing is appended."""
    query, key, value = inputs
    is_plain = layer.in_proj_weight is not None and layer.bias_k is None and not layer.add_zero_attn
    return query is key is value and is_plain and fixed[1] is None is fixed[2]


def _own_heads(layer: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``_heads`` of one tensor."""
    x = linear(x if layer.batch_first else x.transpose(0, 1), layer.in_proj_weight, layer.in_proj_bias)
    batch, length, _ = x.shape
    q, k, v = x.view(batch, length, 3, layer.num_heads, layer.head_dim).permute(2, 0, 3, 1, 4).unbind(0)
    return q, k, v


def _mask(layer: Any, attn_mask: Tensor | None, padding: Tensor | None, q: Tensor, k: Tensor) -> Tensor | None:
    """Both masks as one term of the scores; what is appended may be looked at."""
    batch, heads, length, _ = q.shape
    appended = (layer.bias_k is not None) + bool(layer.add_zero_attn)
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
    return mask if mask is None or not appended else pad(mask, (0, appended))


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
