"""Normalisations of groups, examples and neighbouring channels against PyTorch's; what all of them print."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nn.compare import Case, assert_same, assert_same_error, assert_same_face

import jitgrad

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

CASES: dict[str, Case] = {
    "group": (lambda xp: xp.nn.GroupNorm(2, 4), [(3, 4, 5)]),
    "group-2d": (lambda xp: xp.nn.GroupNorm(3, 6, eps=1e-2, bias=False), [(2, 6, 3, 2)]),
    "group-plain": (lambda xp: xp.nn.GroupNorm(1, 4, affine=False), [(3, 4)]),
    "instance-1d": (lambda xp: xp.nn.InstanceNorm1d(3), [(2, 3, 5)]),
    "instance-unbatched": (lambda xp: xp.nn.InstanceNorm1d(3, affine=True), [(3, 5)]),
    "instance-2d": (lambda xp: xp.nn.InstanceNorm2d(3, affine=True, track_running_stats=True), [(2, 3, 4, 2)]),
    "instance-eval": (lambda xp: xp.nn.InstanceNorm2d(3, 1e-3, 0.2, True, True).eval(), [(2, 3, 4, 2)]),
    "instance-3d": (lambda xp: xp.nn.InstanceNorm3d(2, track_running_stats=True, bias=False), [(2, 2, 2, 3, 2)]),
    "batch-3d": (lambda xp: xp.nn.BatchNorm3d(2), [(2, 2, 2, 3, 2)]),
    "batch-no-bias": (lambda xp: xp.nn.BatchNorm1d(3, bias=False), [(6, 3)]),
    "batch-cumulative": (lambda xp: xp.nn.BatchNorm2d(3, momentum=None), [(2, 3, 4, 2)]),
    "batch-untracked": (lambda xp: xp.nn.BatchNorm1d(3, track_running_stats=False).eval(), [(6, 3)]),
    "local-response": (lambda xp: xp.nn.LocalResponseNorm(3, 0.5, 0.7, 2.0), [(2, 5, 4)]),
    "local-response-even": (lambda xp: xp.nn.LocalResponseNorm(2), [(2, 5, 4, 3)]),
    "hardshrink": (lambda xp: xp.nn.Hardshrink(0.7), [(4, 5)]),
    "softshrink": (lambda xp: xp.nn.Softshrink(), [(4, 5)]),
    "threshold": (lambda xp: xp.nn.Threshold(0.1, 2.0), [(4, 5)]),
    "prelu": (lambda xp: xp.nn.PReLU(), [(4, 5)]),
    "prelu-channels": (lambda xp: xp.nn.PReLU(3, 0.1), [(4, 3, 2)]),
    "softmax-2d": (lambda xp: xp.nn.Softmax2d(), [(4, 3, 2)]),
    "local-response-3d": (lambda xp: xp.nn.LocalResponseNorm(4), [(2, 3, 2, 2, 3)]),
}


@pytest.mark.parametrize("case", CASES)
def test_values_and_derivatives(case: str, mode: Any, rng: np.random.Generator) -> None:
    assert_same(torch, CASES[case], mode, rng)


FACES: dict[str, Any] = {
    **{name: case[0] for name, case in CASES.items()},
    "sync": lambda xp: xp.nn.SyncBatchNorm(3),
    "layer": lambda xp: xp.nn.LayerNorm((3, 4), bias=False),
    "rms": lambda xp: xp.nn.RMSNorm(3),
    "cross-map": lambda xp: xp.nn.CrossMapLRN2d(3),
}


@pytest.mark.parametrize("case", FACES)
def test_face(case: str) -> None:
    assert_same_face(torch, FACES[case])


ERRORS: dict[str, Any] = {
    "groups": lambda xp: xp.nn.GroupNorm(3, 4),
    "group-rank": lambda xp: xp.nn.functional.group_norm(xp.ones(3), 1),
    "group-channels": lambda xp: xp.nn.functional.group_norm(xp.ones(2, 4, 3), 3),
    "group-weight": lambda xp: xp.nn.functional.group_norm(xp.ones(2, 4, 3), 2, xp.ones(3)),
    "group-one": lambda xp: xp.nn.functional.group_norm(xp.ones(1, 2, 1), 2),
    "instance-one": lambda xp: xp.nn.functional.instance_norm(xp.ones(2, 4, 1)),
    "instance-rank": lambda xp: xp.nn.InstanceNorm2d(3)(xp.ones(2, 3)),
    "instance-channels": lambda xp: xp.nn.InstanceNorm1d(3, affine=True)(xp.ones(2, 4, 5)),
    "local-response": lambda xp: xp.nn.LocalResponseNorm(3)(xp.ones(2, 4)),
    "cross-map": lambda xp: xp.nn.CrossMapLRN2d(3)(xp.ones(2, 4, 3)),
}


@pytest.mark.parametrize("case", ERRORS)
def test_error(case: str) -> None:
    assert_same_error(torch, ERRORS[case])


def test_cross_map_is_pytorch_s_in_its_first_channels(mode: Any, rng: np.random.Generator) -> None:
    """Later ones keep the first channel in PyTorch, by mistake."""
    x = rng.standard_normal((2, 3, 4, 2))
    found = mode.run(jitgrad.nn.CrossMapLRN2d(5, 0.5), lambda: (jitgrad.from_numpy(x),))
    np.testing.assert_allclose(found.numpy(), torch.nn.CrossMapLRN2d(5, 0.5)(torch.from_numpy(x)).numpy(), rtol=1e-6)


def test_conversion_to_sync_batch_norm() -> None:
    nn = jitgrad.nn
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.BatchNorm1d(3)))
    weight = model[1][0].weight
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert isinstance(converted[1][0], nn.SyncBatchNorm)
    assert converted[1][0].weight is weight
    assert tuple(converted(jitgrad.randn(4, 2)).shape) == (4, 3)


def test_statistics_start_again() -> None:
    layer = jitgrad.nn.BatchNorm1d(3)
    layer(jitgrad.randn(4, 3))
    layer.reset_parameters()
    assert layer.running_mean.tolist() == [0.0] * 3
    assert layer.running_var.tolist() == [1.0] * 3
    assert layer.num_batches_tracked.item() == 0
