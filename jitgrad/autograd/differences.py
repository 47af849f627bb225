"""Derivatives by finite differences, for ``gradcheck``.

Owns: central differences along elements and along directions.
Must not know: gradients, tolerances.

Inputs are moved in place, in memory, so that the function sees the very tensors that it is differentiated at; it is
called like any other, so a compiled one is checked the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["directional_derivatives", "numerical_jacobians", "vector_of"]

Outputs = Callable[[], Sequence[Any]]


def vector_of(x: Any) -> Any:
    """A tensor's values, as a float64 vector of their own."""
    return np.array(x.detach()._ndarray(), dtype=np.float64).reshape(-1)


@contextmanager
def _moved(data: Any, where: Any, step: Any) -> Iterator[None]:
    """``data[where]`` moved by ``step`` in the block."""
    before = data[where].copy()
    data[where] = before + step
    try:
        yield
    finally:
        data[where] = before


def _central(evaluate: Outputs, data: Any, where: Any, step: Any, length: float) -> list[Any]:
    # values are read inside the block: on a device, the operations may be behind
    with _moved(data, where, -step):
        below = [(y._aval, vector_of(y)) for y in evaluate()]
    with _moved(data, where, step):
        above = [(y._aval, vector_of(y)) for y in evaluate()]
    for (a, _), (b, _) in zip(below, above, strict=True):
        at = f"on index {where} " if isinstance(where, tuple) else ""
        if a.shape != b.shape or a.dtype is not b.dtype:
            what = "shape" if a.shape != b.shape else "dtype"
            found = (a.shape, b.shape) if what == "shape" else (a.dtype, b.dtype)
            raise AssertionError(
                f"Expected `func` to return outputs with the same {what} when inputs are perturbed {at}by {length}, "
                f"but got: {what}s {found[0]} and {found[1]}."
            )
    return [(b - a) / (2 * length) for (_, a), (_, b) in zip(below, above, strict=True)]


def numerical_jacobians(evaluate: Outputs, x: Any, sizes: Sequence[int], eps: float) -> list[Any]:
    """One [x.numel, output.numel] array per output.

    Args:
        evaluate: the function, at its inputs as they are now.
        x: the input to move.
        sizes: elements of each output.
        eps: the step.
    """
    data = x.detach()._ndarray()
    rows = [_central(evaluate, data, where, eps, eps) for where in np.ndindex(data.shape)]
    return [np.array([r[o] for r in rows]).reshape(len(rows), size) for o, size in enumerate(sizes)]


def directional_derivatives(evaluate: Outputs, x: Any, direction: Any, eps: float) -> list[Any]:
    """J u, one vector per output."""
    data = x.detach()._ndarray()
    return _central(evaluate, data, Ellipsis, eps * direction.reshape(data.shape), eps)
