"""Every operation elsewhere, to second order: on a virtual device the bits of the CPU, on meta its shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.devices import META, Device
from jitgrad.door import door
from jitgrad.ops.table import OPS
from tests.ops.op_specs import NO_DERIVATIVE, ONE_DERIVATIVE, SPECS, Sample

CASES = [pytest.param(name, s, id=f"{name}-{i}") for name, samples in SPECS.items() for i, s in enumerate(samples)]


def _tensors(inputs: tuple[Any, ...], device: str) -> list[Any]:
    def one(x: Any) -> Any:
        if isinstance(x, list):
            return [one(y) for y in x]
        if not isinstance(x, np.ndarray):
            return x
        return jitgrad.tensor(x, device=device, requires_grad=x.dtype.kind == "f")

    return [one(x) for x in inputs]


def _leaves(inputs: list[Any]) -> list[Any]:
    flat = [x for item in inputs for x in (item if isinstance(item, list) else [item])]
    return [x for x in flat if getattr(x, "requires_grad", False)]


def _total(outputs: list[Any]) -> Any:
    total: Any = 0
    for x in outputs:
        if x is not None and x.requires_grad:
            x = jitgrad.view_as_real(x) if x.is_complex() else x
            weights = np.random.default_rng(3).uniform(0.5, 1.5, x.shape)
            total = total + (x * jitgrad.tensor(weights, x.dtype, x.device)).sum()
    return total


def _everything(name: str, sample: Sample, device: str) -> list[Any]:
    """The results, the gradients, and the gradients of those."""
    inputs = _tensors(sample.inputs, device)
    has_tensors = any(isinstance(x, np.ndarray | list) for x in sample.inputs)
    place = () if has_tensors or device == "cpu" else (Device(device),)  # what is made from nothing is told where
    result = door.apply(OPS[name], *inputs, *sample.params, *place)
    outputs = list(result) if isinstance(result, tuple) else [result]
    found, leaves, level = [*outputs], _leaves(inputs), outputs
    if name == "linalg_eig":
        level = outputs[:1]  # the phase of an eigenvector is undefined: sums of its elements have no gradient
    for _ in range(0 if name in NO_DERIVATIVE else 1 if name in ONE_DERIVATIVE else 2):
        total = _total(level)
        if isinstance(total, int) or not total.requires_grad:
            break
        level = list(jitgrad.autograd.grad(total, leaves, create_graph=True, allow_unused=True))
        found += level
    return found


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_a_device_has_the_bits_of_the_cpu(name: str, sample: Sample) -> None:
    expected = _everything(name, sample, "cpu")
    found = _everything(name, sample, "vcpu:1")
    assert len(found) == len(expected)
    for x, y in zip(found, expected, strict=True):
        assert (x is None) is (y is None)
        if x is not None:
            assert x.device is Device("vcpu:1")
            assert x.dtype is y.dtype
            np.testing.assert_array_equal(x.cpu().detach().numpy(), y.detach().numpy())


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_meta_has_the_shapes_of_the_cpu(name: str, sample: Sample) -> None:
    expected = _everything(name, sample, "cpu")
    found = _everything(name, sample, "meta")
    for x, y in zip(found, expected, strict=True):
        assert (x is None) is (y is None)
        if x is not None:
            assert x.device is META
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
