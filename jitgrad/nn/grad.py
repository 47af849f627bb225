"""``torch.nn.grad``: the gradients of convolutions, as functions.

Owns: ``conv1d_input``, ``conv1d_weight`` and their like of two and three dimensions.
Must not know: how a convolution is differentiated; it asks the graph of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.autograd.backward import grad
from jitgrad.functions.convolutions import conv1d, conv3d
from jitgrad.functions.creation import zeros
from jitgrad.functions.layers import conv2d
from jitgrad.grad_mode import enable_grad
from jitgrad.state import state

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _by_input(name: str, convolution: Callable[..., Any], dims: int) -> Callable[..., Any]:
    def gradient(
        input_size: Any, weight: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> Any:  # fmt: skip
        def of(x: Any) -> Any:
            return convolution(x, weight, None, stride, padding, dilation, groups)

        return _gradient(of, input_size, weight, grad_output)

    return _named(gradient, name, f"the input of a convolution over {dims} dimension(s), of ``input_size``")


def _by_weight(name: str, convolution: Callable[..., Any], dims: int) -> Callable[..., Any]:
    def gradient(
        input: Any, weight_size: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> Any:  # fmt: skip
        def of(weight: Any) -> Any:
            return convolution(input, weight, None, stride, padding, dilation, groups)

        return _gradient(of, weight_size, input, grad_output)

    return _named(gradient, name, f"the weight of a convolution over {dims} dimension(s)")


def _gradient(function: Callable[[Any], Any], size: Any, other: Any, grad_output: Any) -> Any:
    """Of ``function`` at zeros of ``size``: a convolution is linear in each operand; ``other`` is the one it has."""
    is_recorded = state.grad_enabled and (other.requires_grad or grad_output.requires_grad)
    with enable_grad():
        x = zeros(*size, dtype=other.dtype, device=other.device).requires_grad_()
        return grad(function(x), x, grad_output, create_graph=is_recorded)[0]


def _named(function: Callable[..., Any], name: str, what: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The gradient with respect to {what}, from ``grad_output``, that of its result."
    return function


conv1d_input, conv1d_weight = _by_input("conv1d_input", conv1d, 1), _by_weight("conv1d_weight", conv1d, 1)
conv2d_input, conv2d_weight = _by_input("conv2d_input", conv2d, 2), _by_weight("conv2d_weight", conv2d, 2)
conv3d_input, conv3d_weight = _by_input("conv3d_input", conv3d, 3), _by_weight("conv3d_weight", conv3d, 3)
