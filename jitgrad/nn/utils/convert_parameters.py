"""Parameters as one vector.

Owns: ``parameters_to_vector``, ``vector_to_parameters``.
Must not know: modules.
"""

from __future__ import annotations

from collections.abc import Iterable

from jitgrad.functions import cat
from jitgrad.grad_mode import no_grad
from jitgrad.tensor import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of all parameters, in order."""
    return cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy the elements of a vector back into the parameters. TypeError for what is no tensor."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    with no_grad():
        for p in parameters:
            p.copy_(vec[start : start + p.numel()].reshape(p.shape))
            start += p.numel()
