"""Convolutions in one and three dimensions, and transposed ones, by way of ``ops/windows/convolution.py``.

Owns: ``conv1d``, ``conv3d``, ``conv_transpose1d``, ``conv_transpose2d``, ``conv_transpose3d``.
Must not know: modules, how a convolution runs.

A transposed convolution is the derivative of a convolution with respect to its input: its own operation, which can be
differentiated. Where it has three dimensions, the third is made of windows (Note [Tables of positions]) that were
channels.
"""

from __future__ import annotations

from typing import Any

from jitgrad.door import door
from jitgrad.dtypes import WHOLE, int64
from jitgrad.functions.devices import lowered
from jitgrad.functions.joining import pad
from jitgrad.functions.layers import check_convolution, conv2d, per_dimension
from jitgrad.functions.views import own_result
from jitgrad.ops.shapes import refuse, torch_dtype_name
from jitgrad.ops.table import OPS
from jitgrad.state import autocasts

__all__ = ["conv1d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]

_CONVOLUTION, _TRANSPOSED = OPS["conv2d"], OPS["conv2d_input"]


def _check_rank(name: str, x: Any, dims: int) -> None:
    if x.ndim not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {name}, but got input of size: "
            f"{list(x.shape)}"
        )


def _biased(out: Any, bias: Any) -> Any:
    return out if bias is None else out + bias.reshape(1, -1, *[1] * (out.ndim - 2))


def _named_padding(x: Any, weight: Any, padding: str, stride: Any, dilation: Any, dims: int) -> Any:
    """The input with the zeros that "same" or "valid" asks for."""
    if padding not in ("same", "valid"):
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    if padding == "valid":
        return x
    if any(s != 1 for s in per_dimension("stride", stride, dims)):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    widths: list[int] = []
    for k, d in zip(reversed(weight.shape[-dims:]), reversed(per_dimension("dilation", dilation, dims)), strict=True):
        total = d * (k - 1)
        widths += [total // 2, total - total // 2]
    return pad(x, widths)


def conv1d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Cross-correlation of (N, C, L) or (C, L) with (O, C / groups, K).

    Args:
        input, weight: see above.
        bias: (O).
        stride, dilation: of the windows.
        padding: zeros on both sides; or "same", "valid".
        groups: channels are split into so many independent convolutions.

    Raises:
        RuntimeError: for shapes that do not fit.
    """
    if autocasts:
        input, weight, bias = lowered(input, weight, bias)
    _check_rank("conv1d", input, 1)
    (step,), (spread,) = per_dimension("stride", stride, 1), per_dimension("dilation", dilation, 1)
    check_convolution(input, weight, bias, (step,), padding, (spread,), groups)
    if isinstance(padding, str):
        input, padding = _named_padding(input, weight, padding, stride, dilation, 1), 0
    (around,) = per_dimension("padding", padding, 1)
    image, kernel = input.unsqueeze(-2), weight.unsqueeze(2)
    out = conv2d(image, kernel, bias, (1, step), (0, around), (1, spread), groups)
    return own_result(out.squeeze(-2)) if input.ndim == 3 else out.squeeze(-2)


def conv3d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Cross-correlation of (N, C, D, H, W) or (C, D, H, W) with (O, C / groups, KD, KH, KW); see ``conv1d``."""
    if autocasts:
        input, weight, bias = lowered(input, weight, bias)
    _check_rank("conv3d", input, 3)
    if input.ndim == 4:
        return conv3d(input.unsqueeze(0), weight, bias, stride, padding, dilation, groups).squeeze(0)
    step, spread = per_dimension("stride", stride, 3), per_dimension("dilation", dilation, 3)
    check_convolution(input, weight, bias, step, padding, spread, groups)
    if isinstance(padding, str):
        input, padding = _named_padding(input, weight, padding, stride, dilation, 3), 0
    around = per_dimension("padding", padding, 3)
    return _biased(door.apply(_CONVOLUTION, input, weight, step, around, spread, groups), bias)


def _transposed(
    x: Any, weight: Any, stride: Any, padding: Any, output_padding: Any, groups: int, dilation: Any
) -> Any:
    kernel = tuple(weight.shape[2:])
    rows = list(zip(x.shape[2:], stride, padding, output_padding, dilation, kernel, strict=True))
    sizes = tuple((n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, s, p, o, d, k in rows)
    if min(sizes) <= 0:
        raise RuntimeError(
            f"Given input size per channel: ({' x '.join(map(str, x.shape[2:]))}). Calculated output size per channel: "
            f"({' x '.join(map(str, sizes))}). Output size is too small"
        )
    lead = (x.shape[0], weight.shape[1] * groups)
    if all(o < s for o, s in zip(output_padding, stride, strict=True)):
        return door.apply(_TRANSPOSED, x, weight, (*lead, *sizes), stride, padding, dilation, groups)
    # that much padding is no remainder of a division by the stride: take the whole, and cut
    full = tuple((n - 1) * s + d * (k - 1) + 1 for n, s, _, _, d, k in rows)
    out = door.apply(_TRANSPOSED, x, weight, (*lead, *full), stride, (0,) * len(rows), dilation, groups)
    widths: list[int] = []
    for _, _, p, o, _, _ in reversed(rows):
        widths += [-p, o - p]
    return pad(out, widths)


_SHORT = tuple(dtype for dtype in WHOLE if dtype is not int64)


def _check_transposed(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int, dilation: Any
) -> None:
    check_convolution(x, weight, bias, stride, padding, dilation, groups, is_transposed=True)
    if min(output_padding) < 0:
        raise RuntimeError("negative output_padding is not supported")
    refuse(f"slow_conv_transpose{max(len(stride), 2)}d_out_cpu", x, _SHORT)
    if x.dtype is not weight.dtype:
        raise RuntimeError(
            f"conv_transpose: expected a weight of the input's dtype {torch_dtype_name(x.dtype)}, but found "
            f"{torch_dtype_name(weight.dtype)}"
        )
    if x.shape[1] != weight.shape[0]:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(weight.shape)}, expected input{list(x.shape)} to have "
            f"{weight.shape[0]} channels, but got {x.shape[1]} channels instead"
        )
    if any(o >= max(s, d) for o, s, d in zip(output_padding, stride, dilation, strict=True)):
        raise RuntimeError(
            f"output padding must be smaller than either stride or dilation, but got output_padding: {output_padding}"
        )


def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """What a convolution's derivative makes of (N, C, H, W) or (C, H, W): each element places a kernel.

    Args:
        input: see above.
        weight: (C, O / groups, KH, KW).
        bias: (O).
        stride, dilation: of the convolution.
        padding: of the convolution: cut from both sides here.
        output_padding: added to one side.
        groups: channels are split into so many independent ones.

    Raises:
        RuntimeError: for shapes that do not fit, or an output padding that is not below stride or dilation.
    """
    if autocasts:
        input, weight, bias = lowered(input, weight, bias)
    _check_rank("conv_transpose2d", input, 2)
    if input.ndim == 3:
        found = conv_transpose2d(input.unsqueeze(0), weight, bias, stride, padding, output_padding, groups, dilation)
        return found.squeeze(0)
    step, around, after, spread = (
        per_dimension(name, value, 2)
        for name, value in (
            ("stride", stride), ("padding", padding), ("output_padding", output_padding), ("dilation", dilation)
        )
    )  # fmt: skip
    _check_transposed(input, weight, bias, step, around, after, groups, spread)
    return _biased(_transposed(input, weight, step, around, after, groups, spread), bias)


def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """``conv_transpose2d`` of (N, C, L) or (C, L), with a weight (C, O / groups, K)."""
    if autocasts:
        input, weight, bias = lowered(input, weight, bias)
    _check_rank("conv_transpose1d", input, 1)
    step, around, after, spread = (
        (first, *per_dimension(name, value, 1))
        for first, name, value in (
            (1, "stride", stride), (0, "padding", padding), (0, "output_padding", output_padding),
            (1, "dilation", dilation),
        )
    )  # fmt: skip
    if weight.ndim != 3:
        raise RuntimeError(f"conv_transpose1d: expected a 3-dimensional weight, but got {list(weight.shape)}")
    out = conv_transpose2d(input.unsqueeze(-2), weight.unsqueeze(2), bias, step, around, after, groups, spread)
    return own_result(out.squeeze(-2)) if input.ndim == 3 else out.squeeze(-2)


def conv_transpose3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """``conv_transpose2d`` of (N, C, D, H, W) or (C, D, H, W), with a weight (C, O / groups, KD, KH, KW)."""
    if autocasts:
        input, weight, bias = lowered(input, weight, bias)
    _check_rank("conv_transpose3d", input, 3)
    if input.ndim == 4:
        found = conv_transpose3d(input.unsqueeze(0), weight, bias, stride, padding, output_padding, groups, dilation)
        return found.squeeze(0)
    step, around, after, spread = (
        per_dimension(name, value, 3)
        for name, value in (
            ("stride", stride), ("padding", padding), ("output_padding", output_padding), ("dilation", dilation)
        )
    )  # fmt: skip
    _check_transposed(input, weight, bias, step, around, after, groups, spread)
    operands = input.contiguous(), weight.contiguous()  # PyTorch's result is row-major, whatever these are
    return _biased(_transposed(*operands, step, around, after, groups, spread), bias)
