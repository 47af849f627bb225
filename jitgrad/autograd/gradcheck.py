"""``gradcheck``: derivatives against finite differences.

Owns: numerical and analytical Jacobians, and their comparison.
Must not know: how gradients are computed.

The function is called like any other, so a compiled one is checked the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.autograd.backward import grad
from jitgrad.tensor_base import TensorBase

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """An analytical gradient differs from the numerical one."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Compare ``func``'s Jacobian by backward with central differences.

    Args:
        func: Tensors to a Tensor or a sequence of Tensors.
        inputs: a Tensor or a tuple; those that require grad are checked, and must be float64 and contiguous.
        eps: step of the differences.
        atol: absolute tolerance.
        rtol: tolerance relative to the numerical value.
        raise_exception: raise for a difference, instead of returning False.

    Returns:
        Whether all agree.

    Raises:
        GradcheckError: they do not.
        ValueError: no input requires grad.
    """
    arguments = inputs if isinstance(inputs, tuple) else (inputs,)
    checked = [x for x in arguments if isinstance(x, TensorBase) and x._requires_grad]
    if not checked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have "
            "requires_grad=True."
        )
    try:
        _check_outputs(func, arguments, checked, eps, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """``gradcheck`` of the gradients of ``func``, with respect to its inputs and to ``grad_outputs``.

    Args:
        func: as for ``gradcheck``.
        inputs: as for ``gradcheck``.
        grad_outputs: one per differentiable output; None = random, seeded.
        eps: as for ``gradcheck``; so are ``atol``, ``rtol`` and ``raise_exception``.
    """
    arguments = inputs if isinstance(inputs, tuple) else (inputs,)
    seeds = _random_seeds(func, arguments) if grad_outputs is None else _as_tuple(grad_outputs)
    num_arguments = len(arguments)

    def gradients(*args: Any) -> tuple[Any, ...]:
        xs, gs = args[:num_arguments], args[num_arguments:]
        wanted = [x for x in xs if isinstance(x, TensorBase) and x._requires_grad]
        outputs = _differentiable(func(*xs))
        grads = grad(outputs, wanted, gs, create_graph=True, allow_unused=True)
        return tuple(g for g in grads if g is not None)

    return gradcheck(
        gradients, (*arguments, *seeds), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception
    )


def _as_tuple(values: Any) -> tuple[Any, ...]:
    return (values,) if isinstance(values, TensorBase) else tuple(values)


def _differentiable(result: Any) -> tuple[Any, ...]:
    return tuple(y for y in _as_tuple(result) if y._aval.dtype.is_floating_point and y._requires_grad)


def _random_seeds(func: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, ...]:
    """A gradient per output, that itself requires grad."""
    random = np.random.default_rng(0)
    seeds = []
    for y in _differentiable(func(*arguments)):
        seed = y.detach().clone()
        seed.numpy()[...] = random.standard_normal(y.shape)
        seed.requires_grad_()
        seeds.append(seed)
    return tuple(seeds)


def _check_outputs(
    func: Callable[..., Any], arguments: tuple[Any, ...], checked: list[Any], eps: float, atol: float, rtol: float
) -> None:
    outputs = _differentiable(func(*arguments))
    numerical = [_numerical_jacobians(func, arguments, x, eps, len(outputs)) for x in checked]
    for o, output in enumerate(outputs):
        analytical = _analytical_jacobians(output, checked)
        for i, got in enumerate(analytical):
            expected = numerical[i][o]
            if not np.allclose(got, expected, rtol, atol, equal_nan=True):
                raise GradcheckError(
                    f"Jacobian mismatch for output {o} with respect to input {i},\nnumerical:{expected}\n"
                    f"analytical:{got}\n"
                )


def _numerical_jacobians(
    func: Callable[..., Any], arguments: tuple[Any, ...], x: Any, eps: float, num_outputs: int
) -> list[Any]:
    """One [x.numel, output.numel] array per output, by central differences in place."""
    data = x.detach().numpy().reshape(-1)
    if not np.shares_memory(data, x.detach().numpy()):
        raise ValueError("gradcheck needs contiguous inputs: it moves one element at a time, in place")
    rows: list[list[Any]] = [[] for _ in range(num_outputs)]
    for k in range(data.size):
        original = data[k]
        data[k] = original + eps
        above = _values(func(*arguments))
        data[k] = original - eps
        below = _values(func(*arguments))
        data[k] = original
        for o in range(num_outputs):
            rows[o].append((above[o] - below[o]) / (2 * eps))
    return [np.array(r).reshape(data.size, -1) for r in rows]


def _values(result: Any) -> list[Any]:
    return [np.array(y.detach().numpy(), copy=True).reshape(-1) for y in _differentiable(result)]


def _analytical_jacobians(output: Any, inputs: list[Any]) -> list[Any]:
    """One [input.numel, output.numel] array per input: a column per output element, by one backward each."""
    columns: list[list[Any]] = [[] for _ in inputs]
    for k in range(output.numel()):
        seed = output.detach().clone()
        seed.numpy()[...] = 0
        seed.numpy().reshape(-1)[k] = 1
        grads = grad(output, inputs, seed, retain_graph=True, allow_unused=True)
        for i, g in enumerate(grads):
            size = inputs[i].numel()
            columns[i].append(np.zeros(size) if g is None else np.array(g.detach().numpy()).reshape(-1))
    return [np.array(c).T.reshape(inputs[i].numel(), -1) for i, c in enumerate(columns)]
