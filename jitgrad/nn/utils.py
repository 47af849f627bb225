"""``jitgrad.nn.utils``: gradient clipping, and parameters as one vector.

Source of norm clipping: Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks", 2013.
"""

from __future__ import annotations

from collections.abc import Iterable

from jitgrad.functions import amax, cat, stack, zeros
from jitgrad.grad_mode import no_grad
from jitgrad.tensor import Tensor

__all__ = ["clip_grad_norm_", "clip_grad_value_", "parameters_to_vector", "vector_to_parameters"]


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    members = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p.grad for p in members if p.grad is not None]


def _together(norms: list[Tensor]) -> list[Tensor]:
    """On the device of the first."""
    device = norms[0].device
    return [x if x.device is device else x.to(device) for x in norms]


def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Scale all gradients so that their joint norm is at most ``max_norm``; nothing is read, so a trace goes on.

    Args:
        parameters: whose ``.grad`` is changed in place.
        max_norm: the bound.
        norm_type: p of the p-norm; may be infinity.

    Returns:
        The norm before, a scalar tensor on the device of the first gradient.
    """
    gradients = _gradients(parameters)
    if not gradients:
        return zeros(())
    with no_grad():
        if norm_type == float("inf"):
            norm = amax(stack(_together([amax(g.abs()) for g in gradients])))
        else:
            norm = stack(_together([(g.abs() ** norm_type).sum() for g in gradients])).sum() ** (1.0 / norm_type)
        scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        for g in gradients:
            g.mul_(scale if g.device is scale.device else scale.to(g.device))
    return norm


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Clamp every gradient to +-``clip_value``, in place."""
    with no_grad():
        for g in _gradients(parameters):
            g.clamp_(-clip_value, clip_value)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of all parameters, in order."""
    return cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy the elements of a vector back into the parameters."""
    start = 0
    with no_grad():
        for p in parameters:
            p.copy_(vec[start : start + p.numel()].reshape(p.shape))
            start += p.numel()
