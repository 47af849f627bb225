"""Comparing a layer or a function of networks with PyTorch's: values, first and second derivatives, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad

__all__ = ["Case", "assert_same", "assert_same_error", "assert_same_face"]

Case = tuple[Callable[[Any], Any], list[Any]]
"""A function of a library that makes a callable, and the operands: shapes, of standard normal numbers that are
differentiated, or arrays, that are not."""


def _state(call: Any) -> dict[str, np.ndarray]:
    if not hasattr(call, "state_dict"):
        return {}
    return {name: value.detach().numpy().copy() for name, value in call.state_dict().items()}


def _made(xp: Any, case: Case, state: dict[str, np.ndarray]) -> Any:
    call = case[0](xp)
    if hasattr(call, "double"):
        call = call.double()
    if state:
        call.load_state_dict({name: xp.from_numpy(value.copy()) for name, value in state.items()})
    return call


def _flat(found: Any) -> list[Any]:
    if isinstance(found, tuple | list):
        return [tensor for part in found for tensor in _flat(part)]
    return [] if found is None else [found]


def _derivatives(xp: Any, call: Any, args: list[Any], order: int = 2) -> list[Any]:
    """Outputs, gradients of a sum of their squares, gradients of a sum of the gradients' squares; then the buffers."""
    leaves = [x for x in args if x.requires_grad]
    leaves += [p for p in getattr(call, "parameters", list)() if p.requires_grad]
    outputs = _flat(call(*(x * 1.0 if x.requires_grad else x for x in args)))
    smooth = [out for out in outputs if out.dtype.is_floating_point and out.requires_grad]
    total = sum((out * out).sum() + out.sum() for out in smooth)
    first = xp.autograd.grad(total, leaves, create_graph=True)
    if order == 2:
        sum((g * g).sum() for g in first).backward()
    buffers = list(getattr(call, "buffers", list)())
    return [*(out.detach() for out in outputs), *(g.detach() for g in first), *(x.grad for x in leaves), *buffers]


def assert_same(torch: Any, case: Case, mode: Any, rng: np.random.Generator) -> None:
    """In a mode, everything that ``_derivatives`` finds is PyTorch's, to the last digits of a float64."""
    arrays = [rng.standard_normal(x) if isinstance(x, tuple) else np.asarray(x) for x in case[1]]
    state = _state(case[0](torch).double() if hasattr(case[0](torch), "double") else case[0](torch))

    def arguments(xp: Any) -> tuple[Any, ...]:
        tensors = [xp.from_numpy(array.copy()) for array in arrays]
        for tensor, given in zip(tensors, case[1], strict=True):
            tensor.requires_grad_(isinstance(given, tuple))
        return _made(xp, case, state), tensors

    order = 2
    try:
        expected = _derivatives(torch, *arguments(torch))
    except RuntimeError as error:
        assert "is not implemented" in str(error)  # PyTorch has no second derivative of it
        order = 1
        expected = _derivatives(torch, *arguments(torch), order)
    found = mode.run(lambda call, args: _derivatives(jitgrad, call, args, order), lambda: arguments(jitgrad))
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            assert tuple(a.shape) == tuple(b.shape)
            assert str(a.dtype).rpartition(".")[2] == str(b.dtype).rpartition(".")[2]
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6, atol=1e-9)


def assert_same_face(torch: Any, make: Callable[[Any], Any]) -> None:
    """A module prints as PyTorch's does, and its state has PyTorch's names, shapes and, from one seed, values."""
    modules = []
    for xp in (jitgrad, torch):
        xp.manual_seed(3)
        modules.append(make(xp))
    assert repr(modules[0]) == repr(modules[1])
    states = [_state(module) for module in modules]
    assert list(states[0]) == list(states[1])
    for name, value in states[1].items():
        np.testing.assert_allclose(states[0][name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def assert_same_error(torch: Any, call: Callable[[Any], Any]) -> None:
    """Both raise the same class, or a subclass of PyTorch's."""
    with pytest.raises(Exception) as expected:
        call(torch)
    with pytest.raises(expected.type):
        call(jitgrad)
