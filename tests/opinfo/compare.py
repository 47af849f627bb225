"""Comparing what two libraries computed.

Owns: tolerances; shapes and dtypes must agree exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import jitgrad

__all__ = ["difference", "is_nearer"]

_CLOSE = {"float32": (1e-4, 2e-5), "float64": (1e-7, 1e-8), "complex64": (1e-4, 2e-5),
          "complex128": (1e-7, 1e-8), "float16": (2e-3, 2e-3), "bfloat16": (2e-2, 2e-2)}


def _array(x: Any) -> Any:
    x = x.detach().clone()
    if str(x.dtype).endswith(("bfloat16", "float16")):
        x = x.float()
    return x.numpy(force=True)


def _of_tensors(got: Any, expected: Any, values: bool) -> str | None:
    if tuple(got.shape) != tuple(expected.shape):
        return f"shape {tuple(got.shape)}, not {tuple(expected.shape)}"
    dtype = str(expected.dtype).removeprefix("torch.")
    if got.dtype.name != dtype:
        return f"dtype {got.dtype.name}, not {dtype}"
    if not values:
        return None
    a, b = _array(got), _array(expected)
    rtol, atol = _CLOSE.get(dtype, (0.0, 0.0))
    scale = np.abs(b[np.isfinite(b)]).max(initial=0.0) if b.dtype.kind in "fc" else 0
    close = np.isclose(a, b, rtol=rtol, atol=atol * max(1.0, float(scale)), equal_nan=True)
    if close.all():
        return None
    at = np.unravel_index(int(np.argmin(close)), close.shape) if close.shape else ()
    return f"{int((~close).sum())} of {close.size} elements differ: {a[at]!r}, not {b[at]!r} at {tuple(map(int, at))}"


def _of_nothing(got: Any, expected: Any) -> str | None:
    """An undefined gradient or tangent is as good as zeros."""
    other = got if expected is None else expected
    if other is None or (isinstance(other, torch.Tensor | jitgrad.Tensor) and not bool((other != 0).any())):
        return None
    return f"{'nothing' if got is None else 'something'}, not {'nothing' if expected is None else 'something'}"


def difference(got: Any, expected: Any, values: bool = True) -> str | None:
    """What differs between jitgrad's result and PyTorch's; None: nothing."""
    if isinstance(expected, torch.Tensor) and got is None:
        return _of_nothing(got, expected)
    if isinstance(expected, torch.Tensor):
        if not isinstance(got, jitgrad.Tensor):
            return f"{type(got).__name__}, not a tensor"
        return _of_tensors(got, expected, values)
    if isinstance(expected, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(expected):
            return f"{type(got).__name__} of {len(got) if isinstance(got, list | tuple) else 1}, not {len(expected)}"
        found = (difference(a, b, values) for a, b in zip(got, expected, strict=True))
        return next((text for text in found if text), None)
    if isinstance(expected, dict):
        found = {key: difference(got.get(key), value, values) for key, value in expected.items()}
        return "; ".join(f"{key}: {text}" for key, text in found.items() if text) or None
    if expected is None or got is None:
        return _of_nothing(got, expected)
    if isinstance(expected, float) and expected != expected:
        return None if got != got else f"{got!r}, not NaN"
    if isinstance(expected, bool | int | float | complex | str):
        return None if got == expected and type(got) is type(expected) else f"{got!r}, not {expected!r}"
    return None


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [leaf for one in value for leaf in _leaves(one)]
    return [value] if isinstance(value, torch.Tensor | jitgrad.Tensor) else []


def is_nearer(got: Any, expected: Any, exact: Any) -> bool:
    """Whether each tensor of jitgrad's is as near to what is exact as PyTorch's, or within the tolerance of it."""
    triples = list(zip(_leaves(got), _leaves(expected), _leaves(exact), strict=False))
    if not len(_leaves(got)) == len(_leaves(expected)) == len(_leaves(exact)):
        return False
    for mine, theirs, true in triples:
        dtype = str(theirs.dtype).removeprefix("torch.")
        a, b, c = (_array(x).astype(np.float64) for x in (mine, theirs, true))
        if dtype not in _CLOSE or not a.shape == b.shape == c.shape:
            return False
        rtol, atol = _CLOSE[dtype]
        allowed = np.maximum(np.abs(b - c), atol + rtol * np.abs(c))
        if not ((np.abs(a - c) <= allowed) | (a == c) | (np.isnan(a) & np.isnan(c)) | (a == b)).all():
            return False
    return True
