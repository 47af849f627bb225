"""How a tensor prints: as PyTorch prints it, line for line."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.devices import CPU
from jitgrad.dtypes import PACKAGE, bool_, get_default_dtype, int64
from jitgrad.lazy import LazyModule

__all__ = ["format_tensor", "set_printoptions", "type_name"]

_NUMBER_TEXT = LazyModule("jitgrad.number_text")

_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": 2**62, "edgeitems": 3, "linewidth": 80},
}
_options = {**_PROFILES["default"], "sci_mode": None}


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
        sci_mode: True prints exponents, False prints none; None: where the sizes of elements differ much.
    """
    if profile is not None:
        _options.update(_PROFILES[profile.lower()])
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    _options.update({name: value for name, value in given.items() if value is not None})
    _options["sci_mode"] = sci_mode
    if _options["threshold"] == float("inf"):
        _options["threshold"] = _PROFILES["full"]["threshold"]


def type_name(aval: Any) -> str:
    """``jitgrad.FloatTensor``: dtype and device in the words of PyTorch's errors."""
    name = f"{aval.dtype.type_name}Tensor"
    return f"{PACKAGE[0]}.{name}" if aval.device is CPU else f"{PACKAGE[0]}.{aval.device.type}.{name}"


def format_tensor(tensor: Any, array: Any) -> str:
    """``tensor([1., 2.], requires_grad=True)``, summarised beyond 1000 elements; no array: a tensor on ``meta``."""
    head = "tensor("
    is_empty = array is not None and array.size == 0
    if array is None:
        body = "..."
    else:
        numbers = array.astype(np.float32) if tensor.dtype.is_half else array
        body = _NUMBER_TEXT.number_body(numbers, _options, len(head))
    suffixes = [] if tensor.device is CPU else [f"device='{tensor.device}'"]
    if array is None or (is_empty and array.ndim != 1):
        suffixes.append(f"size={tuple(tensor.shape)}")
    usual = [get_default_dtype()]
    if array is not None and not is_empty:  # nothing else tells the dtype of no elements
        usual += [get_default_dtype().to_complex(), int64, bool_]
    if tensor.dtype not in usual:
        suffixes.append(f"dtype={tensor.dtype!r}")
    suffixes += _of_graph(tensor)
    containing = "Parameter containing:\n" if type(tensor).__name__ == "Parameter" else ""
    return containing + _with_suffixes(head + body, suffixes, len(head))


def _of_graph(tensor: Any) -> list[str]:
    try:
        grad_fn = tensor.grad_fn
        name = "" if grad_fn is None else grad_fn.name().rpartition("::")[2]
    except RuntimeError:  # a view that a write to its base has left without a history; it can be looked at all the same
        name = "Invalid"
    if name:
        return [f"grad_fn=<{name}>"]
    return ["requires_grad=True"] if tensor.requires_grad else []


def _with_suffixes(text: str, suffixes: list[str], indent: int) -> str:
    """Each suffix on the last line, or on a line of its own where that would be too long."""
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if length + len(suffix) + 2 > _options["linewidth"]:
            text += ",\n" + " " * indent + suffix
            length = indent + len(suffix)
        else:
            text += ", " + suffix
            length += len(suffix) + 2
    return text + ")"
