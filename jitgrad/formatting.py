"""How a tensor prints: PyTorch's look, NumPy's digits."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["format_tensor"]

_DEFAULT_DTYPES = ("float32", "int64", "bool")


def format_tensor(tensor: Any, array: Any) -> str:
    """``tensor([1., 2.], requires_grad=True)``, summarised beyond 1000 elements."""
    body = np.array2string(
        array, max_line_width=80, precision=4, separator=", ", prefix="tensor(", threshold=1000, edgeitems=3
    )
    suffix = ""
    if array.size == 0 and array.ndim != 1:
        suffix += f", size={tuple(array.shape)}"
    if tensor.dtype.name not in _DEFAULT_DTYPES:
        suffix += f", dtype={tensor.dtype!r}"
    grad_fn = tensor.grad_fn
    if grad_fn is not None:
        suffix += f", grad_fn=<{grad_fn.name()}>"
    elif tensor.requires_grad:
        suffix += ", requires_grad=True"
    head = "Parameter containing:\n" if type(tensor).__name__ == "Parameter" else ""
    return f"{head}tensor({body}{suffix})"
