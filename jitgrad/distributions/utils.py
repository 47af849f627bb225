"""What distributions share: broadcasting of parameters, logits and probabilities, lazy properties.

Owns: these helpers.
Must not know: distributions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.dtypes import finfo, get_default_dtype
from jitgrad.functions import arange, empty, log1p, sigmoid, softmax, tensor, where
from jitgrad.grad_mode import enable_grad
from jitgrad.tensor_base import TensorBase

__all__ = [
    "EULER",
    "broadcast_all",
    "broadcast_shapes",
    "clamp_probs",
    "euler_constant",
    "is_number",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "standard_normal",
    "sum_rightmost",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
    "xlogy",
]

EULER = euler_constant = 0.57721566490153286060
"""Euler and Mascheroni's constant."""


def is_number(value: Any) -> bool:
    """Whether a parameter is a plain number."""
    return isinstance(value, int | float)


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Tensors of one shape. Numbers become tensors of the first tensor's dtype and device, or of the default dtype.

    Raises:
        ValueError: something is neither a tensor nor a number.
    """
    if not all(isinstance(value, TensorBase) or is_number(value) for value in values):
        raise ValueError(
            "Input arguments must all be instances of Number, jitgrad.Tensor or objects implementing "
            "__torch_function__."
        )
    first: Any = next((value for value in values if isinstance(value, TensorBase)), None)
    dtype, device = (get_default_dtype(), None) if first is None else (first.dtype, first.device)
    made: list[Any] = [v if isinstance(v, TensorBase) else tensor(v, dtype=dtype, device=device) for v in values]
    shape: tuple[int, ...] = ()
    for one in made:
        shape = broadcast_shapes(shape, one.shape)
    return tuple(one if one.shape == shape else one.expand(shape) for one in made)


def broadcast_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an operation on tensors of these shapes. RuntimeError if there is none."""
    rank = max(len(a), len(b))
    a, b = ((1,) * (rank - len(shape)) + tuple(shape) for shape in (a, b))
    if any(n != m and 1 not in (n, m) for n, m in zip(a, b, strict=True)):
        raise RuntimeError("Shape mismatch: objects cannot be broadcast to a single shape")
    return tuple(m if n == 1 else n for n, m in zip(a, b, strict=True))


def standard_normal(shape: tuple[int, ...], like: Any) -> Any:
    """Standard normal numbers, in a tensor's dtype and on its device."""
    return empty(shape, dtype=like.dtype, device=like.device).normal_()


def sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last ``dim`` dimensions."""
    return value if dim == 0 or is_number(value) else value.reshape(*value.shape[:-dim], -1).sum(-1)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Probabilities from log-odds, or from logarithms of unnormalized probabilities along the last dimension."""
    return sigmoid(logits) if is_binary else softmax(logits, -1)


def clamp_probs(probs: Any) -> Any:
    """Probabilities, none closer to 0 or 1 than the dtype's epsilon."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Log-odds, or logarithms, of probabilities."""
    clamped = clamp_probs(probs)
    return clamped.log() - log1p(-clamped) if is_binary else clamped.log()


def _below(n: int, diag: int, device: Any) -> Any:
    """Where a square matrix has elements up to a diagonal."""
    rows = arange(n, device=device)
    return rows < rows.view(-1, 1) + (diag + 1)


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The elements of [*, d, d] up to a diagonal, row by row. ValueError for a diagonal that there is not."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat[..., _below(n, diag, mat.device)]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """The inverse of ``tril_matrix_to_vec``. ValueError for a number of elements that no matrix has."""
    count = vec.shape[-1]
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if round(n) - n > finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as the lower triangular part of a square "
            "D x D matrix."
        )
    n = round(n)
    mat = vec.new_zeros((*vec.shape[:-1], n, n))
    mat[..., _below(n, diag, vec.device)] = vec
    return mat


def xlogy(x: Any, y: Any) -> Any:
    """``x * log(y)``, and 0 where x is 0, whatever y is; a derivative by x that is infinite there is 0, too."""
    return x * where((x == 0) & ((y <= 0) | (y == float("inf"))), 1.0, y).log()


class lazy_property:
    """An attribute that is computed, with gradients, when it is first looked at, and kept."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = instance.__dict__[self.wrapped.__name__] = self.wrapped(instance)
        return value
