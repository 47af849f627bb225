"""Runs one program on torch and on jitgrad, and compares what it returns."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import jitgrad.tensor
from jitgrad import autograd, functions
from jitgrad.dtypes import float32, float64, int64

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

J = SimpleNamespace(
    **functions.PUBLIC,
    Tensor=jitgrad.Tensor,
    autograd=autograd,
    no_grad=autograd.no_grad,
    enable_grad=autograd.enable_grad,
    set_grad_enabled=autograd.set_grad_enabled,
    inference_mode=autograd.inference_mode,
    is_grad_enabled=autograd.is_grad_enabled,
    float32=float32,
    float64=float64,
    int64=int64,
)


def plain(value: Any) -> Any:
    """Tensors as arrays, exceptions as their types, containers element by element."""
    if isinstance(value, (torch.Tensor, J.Tensor)):
        return np.array(value.detach().numpy())
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, BaseException):
        return type(value).__name__
    return value


def assert_same(got: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert isinstance(got, list), (got, expected)
        assert len(got) == len(expected), (got, expected)
        for g, e in zip(got, expected, strict=True):
            assert_same(g, e)
    elif isinstance(expected, np.ndarray):
        assert got is not None, expected
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-7)
        assert got.shape == expected.shape
    else:
        assert got == expected


def attempt(fn: Callable[[], Any]) -> Any:
    """The result, or the exception."""
    try:
        return fn()
    except Exception as error:
        return error


def same(program: Callable[[Any], Any]) -> Any:
    """Run ``program(lib)`` on both libraries; their results must agree. Returns jitgrad's."""
    torch.set_grad_enabled(True)
    autograd.set_grad_enabled(True)
    expected = plain(program(torch))
    got = plain(program(J))
    assert_same(got, expected)
    return got


def leaf(lib: Any, data: Any) -> Any:
    return lib.tensor(data, dtype=lib.float64, requires_grad=True)


def const(lib: Any, data: Any) -> Any:
    return lib.tensor(data, dtype=lib.float64)
