"""Gradient clipping.

Owns: the norm of all gradients, and clipping by norm or by value.
Must not know: modules.

Source of norm clipping: Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks", 2013.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from jitgrad.functions import amax, stack, zeros
from jitgrad.grad_mode import no_grad
from jitgrad.tensor import Tensor

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    members = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p.grad for p in members if p.grad is not None]


def _together(norms: list[Tensor]) -> list[Tensor]:
    """On the device of the first."""
    device = norms[0].device
    return [x if x.device is device else x.to(device) for x in norms]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of tensors as if they were one vector; nothing is read, so a trace goes on.

    Args:
        tensors: one, or several.
        norm_type: p of the p-norm; may be infinity.
        error_if_nonfinite: look whether the norm is finite: this reads it.
        foreach: accepted for PyTorch's sake; there is one implementation.

    Returns:
        A scalar tensor on the device of the first tensor.

    Raises:
        RuntimeError: for a norm that is not finite, if asked to look.
    """
    members = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not members:
        return zeros(())
    if norm_type == float("inf"):
        norm: Tensor = amax(stack(_together([amax(x.abs()) for x in members])))
    else:
        norm = stack(_together([(x.abs() ** norm_type).sum() for x in members])).sum() ** (1.0 / norm_type)
    if error_if_nonfinite and not norm.isfinite().item():
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return norm


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale all gradients by ``max_norm / total_norm``, in place, if that is below 1.

    Args:
        parameters: whose ``.grad`` is changed.
        max_norm: the bound.
        total_norm: of the gradients; see ``get_total_norm``.
        foreach: accepted for PyTorch's sake.
    """
    with no_grad():
        scale = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
        for g in _gradients(parameters):
            g.mul_(scale if g.device is scale.device else scale.to(g.device))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients so that their joint norm is at most ``max_norm``; nothing is read, so a trace goes on.

    Args:
        parameters: whose ``.grad`` is changed in place.
        max_norm: the bound.
        norm_type, error_if_nonfinite, foreach: see ``get_total_norm``.

    Returns:
        The norm before, a scalar tensor on the device of the first gradient.

    Raises:
        RuntimeError: see ``get_total_norm``.
    """
    members = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    with no_grad():
        norm = get_total_norm(_gradients(members), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(members, max_norm, norm)
    return norm


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The old name of ``clip_grad_norm_``; it warns."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Clamp every gradient to +-``clip_value``, in place; ``foreach`` is accepted for PyTorch's sake."""
    with no_grad():
        for g in _gradients(parameters):
            g.clamp_(-clip_value, clip_value)
