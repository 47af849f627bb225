"""Functions of network layers: normalisation, embedding, attention, convolution, pooling.

Owns: their public signatures, and what is composed of table entries.
"""

from __future__ import annotations

import math
from typing import Any

from jitgrad.door import door
from jitgrad.dtypes import BOOLEAN, COMPLEX_DTYPES, FLOATING, float32, int64
from jitgrad.functions.creation import ones
from jitgrad.functions.devices import lowered
from jitgrad.functions.dropouts import dropout
from jitgrad.functions.joining import pad
from jitgrad.functions.linalg import matmul
from jitgrad.functions.pointwise import where
from jitgrad.functions.views import reshape
from jitgrad.grad_mode import no_grad
from jitgrad.lazy import LazyModule
from jitgrad.ops.layers.normalization import channel_shape, check_channels, check_norm_dtypes
from jitgrad.ops.shapes import refuse, torch_dtype_name, wrap_dim
from jitgrad.ops.table import OPS
from jitgrad.state import autocasts, state

__all__ = [
    "avg_pool2d",
    "batch_norm",
    "conv2d",
    "embedding",
    "layer_norm",
    "max_pool2d",
    "normalize",
    "one_hot",
    "rms_norm",
    "scaled_dot_product_attention",
]

_pools = LazyModule("jitgrad.functions.pool_windows")
_LAYER_NORM, _LAYER_NORM_PLAIN = OPS["native_layer_norm"], OPS["native_layer_norm_plain"]
_EMBEDDING, _CONV = OPS["embedding"], OPS["conv2d"]


# --- normalisation ---


def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Zero mean and unit variance over the trailing dimensions, then ``* weight + bias`` of that shape."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if weight is not None and bias is not None:
        return door.apply(_LAYER_NORM, input, weight, bias, shape, eps)[0]
    out = door.apply(_LAYER_NORM_PLAIN, input, shape, eps)[0]
    if weight is not None:
        out = out * weight
    return out if bias is None else out + bias


def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """Divide by the root mean square over the trailing dimensions, then ``* weight``.

    Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
    """
    shape = tuple(normalized_shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []"
        )
    if weight is not None and weight.shape != shape:
        raise RuntimeError(
            "Expected weight to be of same shape as normalized_shape, but got weight of shape "
            f"{list(weight.shape)} and normalized_shape = {list(shape)}"
        )
    if input.ndim < len(shape):
        raise ValueError(f"Input tensor must have at least {len(shape)} dimensions, but got {input.ndim}")
    if input.shape[input.ndim - len(shape) :] != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with that trailing shape, but got input of size "
            f"{list(input.shape)}"
        )
    if input.dtype.category < FLOATING:
        raise NotImplementedError(f"\"rms_norm\" not implemented for '{torch_dtype_name(input.dtype)}'")
    if eps is None:
        eps = 2.0**-52 if input.dtype.itemsize == 8 else 2.0**-23
    dims = tuple(range(input.ndim - len(shape), input.ndim))
    x = input.to(float32) if input.dtype.is_half else input  # squares of halves overflow
    out = x * ((x * x).mean(dims, True) + eps).rsqrt()
    if weight is not None:
        out = out * weight
    return out.to(input.dtype) if out.dtype is not input.dtype else out


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Normalise per channel (dimension 1) by the batch's statistics (training) or the running ones.

    In training the running statistics, if given, move towards the batch's by ``momentum``, in place.

    Source: Ioffe and Szegedy, "Batch Normalization", 2015.
    """
    shape = input._aval.shape
    if 0 in shape:
        return _normalised_nothing(input, weight, bias)
    _check_batch_norm(input, running_mean, running_var, weight, bias, training, eps)
    if not input.dtype.is_half:
        return _per_channel(input, running_mean, running_var, weight, bias, training, momentum, eps)
    weight, bias = (x if x is None else x.to(float32) for x in (weight, bias))
    out = _per_channel(input.to(float32), running_mean, running_var, weight, bias, training, momentum, eps)
    return out.to(input.dtype)  # only the result is rounded


def _normalised_nothing(input: Any, weight: Any, bias: Any) -> Any:
    """A copy that leads on to the parameters, as PyTorch's does; the statistics of no elements move nothing."""
    out = input.clone() if weight is None else input * weight[0]
    return out if bias is None else out + bias[0]


def _check_batch_norm(
    input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, training: bool, eps: float
) -> None:
    """What ``batch_norm`` refuses, in PyTorch's order."""
    shape = input._aval.shape
    channels = shape[1] if len(shape) > 1 else 0
    if training and eps <= 0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    if training and (running_mean is None) is not (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    for name, given in (("running_mean", running_mean), ("running_var", running_var)):
        if given is None and not training:
            raise RuntimeError(f"{name} must be defined in evaluation mode")
        check_channels(name, given, channels)
    check_channels("weight", weight, channels)
    check_channels("bias", bias, channels)
    refuse("batch_norm", input, COMPLEX_DTYPES)
    given = (running_mean, running_var, weight, bias)
    check_norm_dtypes("batch_norm", input._aval)
    check_norm_dtypes("batch_norm", input._aval, *(None if x is None else x._aval for x in given))
    if training and math.prod(shape) == channels:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {list(shape)}")
    for name, given in (("running_mean", running_mean), ("running_var", running_var)):
        if given is not None and given.requires_grad and state.grad_enabled:
            raise RuntimeError(
                f"The function 'native_batch_norm' is not differentiable with respect to argument '{name}'. This input "
                "cannot have requires_grad True."
            )


def _per_channel(
    input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    """``batch_norm`` of checked arguments."""
    is_whole = weight is not None and bias is not None
    if not training:
        if is_whole:
            return door.apply(OPS["batch_norm_by"], input, running_mean, running_var, weight, bias, eps)
        out = door.apply(OPS["batch_norm_by_plain"], input, running_mean, running_var, eps)
    else:
        if is_whole:
            out, mean, _, variance = door.apply(OPS["native_batch_norm"], input, weight, bias, eps)
        else:
            out, mean, _, variance = door.apply(OPS["native_batch_norm_plain"], input, eps)
        if running_mean is not None:
            _move_statistics(running_mean, running_var, mean, variance, momentum, input)
        if is_whole:
            return out
    wide = channel_shape(input.ndim)
    if weight is not None:
        out = out * reshape(weight, wide)
    return out if bias is None else out + reshape(bias, wide)


def _move_statistics(running_mean: Any, running_var: Any, mean: Any, var: Any, momentum: float, input: Any) -> None:
    """Towards the batch's, of which the variance becomes the unbiased one, by ``momentum``, in place."""
    shape = input._aval.shape
    count = math.prod(shape) // shape[1]
    running_mean.mul_(1 - momentum).add_(mean.detach(), alpha=momentum)
    running_var.mul_(1 - momentum).add_(var.detach(), alpha=momentum * (count / (count - 1)))


def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Any:
    """Divide by the p-norm along ``dim``, at least ``eps``."""
    return input / input.norm(p, dim, True).clamp_min(eps)


# --- embedding ---


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Rows of ``weight`` by number. The row ``padding_idx`` gets no gradient. IndexError for a number out of range.

    Args:
        input: (*) integers.
        weight: (rows, features).
        padding_idx: a row whose gradient is zero.
        max_norm: rows that are looked up and have a larger norm are scaled to it first, in ``weight`` itself.
        norm_type: p of that norm.
        scale_grad_by_freq: a row's gradient is the mean over its uses, instead of the sum.
        sparse: the weight's gradient is a sparse tensor, with one entry per number.

    Returns:
        (*, features).
    """
    if padding_idx is not None and not weight.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    rows = weight._aval.shape[0] if weight.ndim else 0
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    padding = -1 if padding_idx is None else padding_idx % rows
    if max_norm is not None:
        _limit_norms(weight, input, max_norm, norm_type)
    flags = (sparse, True) if scale_grad_by_freq else (True,) if sparse else ()
    return door.apply(_EMBEDDING, weight, input, padding, *flags)


def _limit_norms(weight: Any, input: Any, max_norm: float, norm_type: float) -> None:
    """Scale the rows that ``input`` names down to ``max_norm``, in place, outside the graph."""
    with no_grad():
        table, places = weight.detach(), input.reshape(-1).to(int64)
        rows = table.index_select(0, places)
        norms = rows.norm(norm_type, 1, True)
        table.index_copy_(0, places, rows * where(norms > max_norm, max_norm / (norms + 1e-7), 1.0))


def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """int64 rows with a 1 at each class number; ``num_classes`` -1 reads the largest one.

    Raises:
        RuntimeError: for a class number that is negative, or not below ``num_classes``.
    """
    if tensor.dtype is not int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if num_classes == -1:
        num_classes = int(tensor.max().item()) + 1
    if num_classes <= 0:
        raise RuntimeError("num_classes should be positive")
    return door.apply(OPS["one_hot"], tensor, num_classes)


# --- attention ---


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """softmax(query @ key^T * scale + mask) @ value over the last two dimensions; scale defaults to 1/sqrt(E).

    ``attn_mask`` is added, or, if bool, says where to look. ``is_causal`` masks what lies to the right. With
    ``enable_gqa`` each of the fewer heads (dimension -3) of ``key`` and ``value`` serves as many heads of ``query``.

    Source: Vaswani et al., "Attention Is All You Need", 2017.
    """
    if autocasts:
        query, key, value, attn_mask = lowered(query, key, value, attn_mask)
    if is_causal and attn_mask is not None:
        raise RuntimeError("scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.ndim} key.dim: {key.ndim} and value.dim: {value.ndim} instead."
        )
    if not query.dtype is key.dtype is value.dtype:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype.c_name} key.dtype: {key.dtype.c_name} and value.dtype: {value.dtype.c_name} instead."
        )
    if enable_gqa:
        key, value = _shared_heads(query, key), _shared_heads(query, value)
    own = query.dtype
    if not own.is_half:
        return _attention(query, key, value, attn_mask, dropout_p, is_causal, scale)
    # only the result is rounded
    query, key, value = (x.to(float32) for x in (query, key, value))
    mask = attn_mask.to(float32) if attn_mask is not None and attn_mask.dtype.is_half else attn_mask
    before, state.autocast = state.autocast, None
    try:
        return _attention(query, key, value, mask, dropout_p, is_causal, scale).to(own)
    finally:
        state.autocast = before


def _shared_heads(query: Any, shared: Any) -> Any:
    """``shared`` with each head as often as it has to serve; RuntimeError if the heads cannot be shared out."""
    if min(query.ndim, shared.ndim) < 3 or query.shape[-3] % shared.shape[-3]:
        raise RuntimeError(
            "Number of heads in key and value must divide the number of heads in query, but got sizes "
            f"{list(shared.shape)} and {list(query.shape)}"
        )
    return shared.repeat_interleave(query.shape[-3] // shared.shape[-3], -3)


def _attention(
    query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool, scale: float | None
) -> Any:
    factor = scale
    if factor is None:
        factor = 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else math.inf
    if (query.ndim == 4 and not dropout_p and not (attn_mask is not None and attn_mask.requires_grad)) or factor < 0:
        queries, keys = query * factor, key.transpose(-2, -1)
    else:  # where PyTorch has no kernel it scales both: neither operand itself is saved
        root = math.sqrt(factor)
        queries, keys = query * root, key.transpose(-2, -1) * root
    length, width = query.shape[-2], key.shape[-2]
    if dropout_p or length < (_LONG_CAUSAL if is_causal else _LONG) or not _fit(length, width, value, attn_mask):
        return _attend(queries, keys, value, attn_mask, 0 if is_causal else -1, dropout_p)
    rows = max(_BLOCK, -(-length // _MAX_BLOCKS))
    blocks = []
    for first in range(0, length, rows):
        end = min(first + rows, length)
        own, mask, seen_keys, seen = queries.narrow(-2, first, end - first), attn_mask, keys, value
        if is_causal and end < width:
            seen_keys, seen = keys.narrow(-1, 0, end), value.narrow(-2, 0, end)
        if attn_mask is not None and attn_mask.ndim > 1 and attn_mask.shape[-2] != 1:
            mask = attn_mask.narrow(-2, first, end - first)
        blocks.append(_attend(own, seen_keys, seen, mask, first if is_causal else -1, 0.0))
    return door.apply(OPS["cat"], blocks, -2)


def _fit(length: int, width: int, value: Any, mask: Any) -> bool:
    """Whether blocks may be cut: a part of an operand of the wrong extent could fit, the whole one is refused."""
    return value.shape[-2] == width and (mask is None or mask.ndim < 2 or mask.shape[-2] in (1, length))


_BLOCK, _MAX_BLOCKS = 128, 16
_LONG, _LONG_CAUSAL = 512, 256
"""An attention with so many queries is computed in blocks of rows, of 128 queries or more, and in no more blocks than
16: what a block has of scores stays in a cache, and of a causal one half of the products is never computed."""


def _attend(queries: Any, keys: Any, value: Any, attn_mask: Any, first: int, dropout_p: float) -> Any:
    """Of scaled queries, with keys of shape (..., E, S).

    Args:
        first: number of the first query of a causal attention, where query ``i`` sees keys 0 to ``i``; else -1.
    """
    scores = matmul(queries, keys)
    if first >= 0:
        below = door.apply(OPS["tril"], ones(*scores.shape[-2:], device=queries.device), first) > 0
        scores = where(below, scores, -math.inf)
    elif attn_mask is not None:
        return _masked_attention(scores, value, attn_mask, dropout_p)
    weights = door.apply(OPS["_softmax"], scores, -1)
    return matmul(dropout(weights, dropout_p) if dropout_p else weights, value)


def _masked_attention(scores: Any, value: Any, mask: Any, dropout_p: float) -> Any:
    """A query that may look nowhere finds zeros, and has no gradient: its softmax would be of nothing."""
    is_bool = mask.dtype.category is BOOLEAN
    is_blind = ~mask.any(-1, keepdim=True) if is_bool else (mask == -math.inf).all(-1, keepdim=True)
    scores = where(mask | is_blind, scores, -math.inf) if is_bool else scores + where(is_blind, 0.0, mask)
    weights = door.apply(OPS["_softmax"], scores, -1)
    found = matmul(dropout(weights, dropout_p) if dropout_p else weights, value)
    return where(is_blind, 0.0, found)


# --- convolution and pooling ---


def _same_padding(weight: Any, dilation: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Zeros before and after, per dimension: of an odd number one more comes after."""
    kernel = weight.shape[-2:]
    total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    return (total[0] // 2, total[0] - total[0] // 2), (total[1] // 2, total[1] - total[1] // 2)


def conv2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Cross-correlation of [N, C, H, W] with [O, C/groups, KH, KW]; ``padding`` also ``"valid"`` or ``"same"``."""
    if autocasts:
        input, weight, bias = lowered(input, weight, bias)
    if input.ndim == 3:
        return conv2d(input.unsqueeze(0), weight, bias, stride, padding, dilation, groups).squeeze(0)
    spread, step = per_dimension("dilation", dilation, 2), per_dimension("stride", stride, 2)
    check_convolution(input, weight, bias, step, padding, spread, groups)
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise RuntimeError(f"Invalid padding string: '{padding}'")
        if padding == "same":
            if step != (1, 1):
                raise RuntimeError("padding='same' is not supported for strided convolutions")
            (top, bottom), (left, right) = _same_padding(weight, (spread[0], spread[1]))
            padding = (top, left)
            if top != bottom or left != right:
                input, padding = pad(input, (left, right, top, bottom)), 0
        else:
            padding = 0
    out = door.apply(_CONV, input, weight, step, per_dimension("padding", padding, 2), spread, groups)
    return out if bias is None else out + reshape(bias, (1, -1, 1, 1))


def per_dimension(name: str, value: Any, dims: int) -> tuple[int, ...]:
    """An argument of a convolution: one number, or one for each dimension. RuntimeError for another number of them."""
    if isinstance(value, int):
        return (value,) * dims
    found = tuple(value)
    if len(found) == dims:
        return found
    if len(found) == 1:
        return found * dims
    raise RuntimeError(
        f"expected {name} to be a single integer value or a list of {dims} values to match the convolution dimensions, "
        f"but got {name}={list(found)}"
    )


def check_convolution(
    input: Any,
    weight: Any,
    bias: Any,
    stride: tuple[int, ...],
    padding: Any,
    dilation: tuple[int, ...],
    groups: int,
    is_transposed: bool = False,
) -> None:
    """RuntimeError for a bias of another dtype or shape, for an empty kernel, and for numbers out of range.

    Args:
        input, weight, bias, padding, groups: of any convolution; ``padding`` may be a word.
        stride, dilation: a number per dimension.
        is_transposed: the weight is (C, O / groups, ...), not (O, C / groups, ...).
    """
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if min(stride) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if min(dilation) <= 0:
        raise RuntimeError(f"dilation should be greater than zero, but got {list(dilation)}")
    if not isinstance(padding, str) and min(per_dimension("padding", padding, len(stride))) < 0:
        raise RuntimeError("negative padding is not supported")
    shape = weight.shape
    if len(shape) != len(stride) + 2:
        raise RuntimeError(
            f"Expected a {len(stride) + 2}-dimensional weight for a convolution of {len(stride)} dimensions, but got "
            f"weight of size {list(shape)} and input of size {list(input.shape)}"
        )
    if 0 in shape[2:]:
        raise RuntimeError(f"kernel size should be greater than zero, but got {list(shape[2:])}")
    if bias is None:
        return
    if bias.dtype is not input.dtype:
        raise RuntimeError(
            f"Input type ({torch_dtype_name(input.dtype)}) and bias type ({torch_dtype_name(bias.dtype)}) should be "
            "the same"
        )
    count = shape[1] * groups if is_transposed else shape[0]
    if bias.shape != (count,):
        raise RuntimeError(
            f"Given {'transposed=1, ' if is_transposed else ''}weight of size {list(shape)}, expected bias to be "
            f"1-dimensional with {count} elements, but got bias of size {list(bias.shape)} instead"
        )


def max_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window; the first one gets the gradient.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size, stride, padding, dilation: of the windows; the stride is the kernel's size if None.
        ceil_mode: windows that begin inside count, though they end outside.
        return_indices: return positions in H * W too.
    """
    found = _pools.max_pool_over("max_pool2d", input, 2, kernel_size, stride, padding, dilation, ceil_mode)
    return found if return_indices else found[0]


def avg_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window, padding counted as zeros.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size, stride, padding: of the windows; the stride is the kernel's size if None.
        ceil_mode: windows that begin inside count, though they end outside.
        count_include_pad: the zeros of the padding count as elements.
        divisor_override: divides the sum instead of the number of elements.
    """
    if not input.ndim:
        raise IndexError("Dimension specified as -3 but tensor has no dimensions")
    wrap_dim(-3, input.ndim)
    options = (ceil_mode, count_include_pad, divisor_override)
    return _pools.avg_pool_over("avg_pool2d", input, 2, kernel_size, stride, padding, *options)
