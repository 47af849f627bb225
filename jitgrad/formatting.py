"""How a tensor prints: PyTorch's look, NumPy's digits."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.devices import CPU
from jitgrad.dtypes import PACKAGE, bool_, get_default_dtype, int64
from jitgrad.lazy import LazyModule

__all__ = ["format_tensor", "set_printoptions", "type_name"]

_COMPLEX_TEXT = LazyModule("jitgrad.complex_text")

_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "max_line_width": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "max_line_width": 80},
    "full": {"precision": 4, "threshold": 2**62, "edgeitems": 3, "max_line_width": 80},
}
_options = dict(_PROFILES["default"])


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """How tensors are printed, as ``torch.set_printoptions``; what is None stays as it is.

    Args:
        precision: digits after the point.
        threshold: tensors with more elements are summarised.
        edgeitems: elements shown at each end of a summarised dimension.
        linewidth: characters per line.
        profile: ``"default"``, ``"short"`` or ``"full"``, before the other arguments.
        sci_mode: False prints no exponents; accepted otherwise.
    """
    if profile is not None:
        _options.update(_PROFILES[profile.lower()])
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "max_line_width": linewidth,
             "suppress_small": None if sci_mode is None else not sci_mode}  # fmt: skip
    _options.update({name: value for name, value in given.items() if value is not None})
    if _options["threshold"] == float("inf"):
        _options["threshold"] = _PROFILES["full"]["threshold"]


def type_name(aval: Any) -> str:
    """``jitgrad.FloatTensor``: dtype and device in the words of PyTorch's errors."""
    name = f"{aval.dtype.type_name}Tensor"
    return f"{PACKAGE[0]}.{name}" if aval.device is CPU else f"{PACKAGE[0]}.{aval.device.type}.{name}"


def format_tensor(tensor: Any, array: Any) -> str:
    """``tensor([1., 2.], requires_grad=True)``, summarised beyond 1000 elements; no array: a tensor on ``meta``."""
    suffix = "" if tensor.device is CPU else f", device='{tensor.device}'"
    shape: tuple[int, ...] | None = tuple(tensor.shape)
    if array is None:
        body = "..."
    else:
        shape = shape if array.size == 0 and array.ndim != 1 else None
        if tensor.dtype.is_half:
            array = array.astype(np.float32)
        if tensor.dtype.is_complex:
            body = _COMPLEX_TEXT.complex_body(array, _options, len("tensor("))
        else:
            body = np.array2string(array, separator=", ", prefix="tensor(", **_options)
    if shape is not None:
        suffix += f", size={shape}"
    if tensor.dtype not in (get_default_dtype(), get_default_dtype().to_complex(), int64, bool_):
        suffix += f", dtype={tensor.dtype!r}"
    try:
        grad_fn = tensor.grad_fn
        name = "" if grad_fn is None else grad_fn.name().rpartition("::")[2]
    except RuntimeError:  # a view that a write to its base has left without a history; it can be looked at all the same
        name = "Invalid"
    if name:
        suffix += f", grad_fn=<{name}>"
    elif tensor.requires_grad:
        suffix += ", requires_grad=True"
    head = "Parameter containing:\n" if type(tensor).__name__ == "Parameter" else ""
    return f"{head}tensor({body}{suffix})"
