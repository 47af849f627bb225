"""Gradient clipping and parameter vectors, against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")


def _parameters(xp: Any) -> list[Any]:
    rng = np.random.default_rng(5)
    return [xp.from_numpy(rng.standard_normal(s).astype(np.float32)).requires_grad_() for s in ((3, 2), (4,))]


@pytest.mark.parametrize("norm_type", [2.0, 1.0, 3.0, float("inf")])
@pytest.mark.parametrize("max_norm", [0.5, 1e3])
def test_clip_grad_norm(norm_type: float, max_norm: float, mode: Any) -> None:
    def clip(xp: Any, parameters: list[Any]) -> list[Any]:
        sum((p**3).sum() for p in parameters).backward()
        norm = xp.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)
        return [norm, *(p.grad for p in parameters)]

    expected = clip(torch, _parameters(torch))
    found = mode.run(lambda p: clip(jitgrad, p), lambda: (_parameters(jitgrad),))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-7)


def test_clip_grad_value(mode: Any) -> None:
    def clip(xp: Any, parameters: list[Any]) -> list[Any]:
        sum((p**3).sum() for p in parameters).backward()
        xp.nn.utils.clip_grad_value_(parameters, 0.5)
        return [p.grad for p in parameters]

    expected = clip(torch, _parameters(torch))
    found = mode.run(lambda p: clip(jitgrad, p), lambda: (_parameters(jitgrad),))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


def test_no_gradients_nothing_to_clip() -> None:
    assert jitgrad.nn.utils.clip_grad_norm_(_parameters(jitgrad), 1.0).item() == 0.0


def test_vector_round_trip() -> None:
    source, target = _parameters(jitgrad), [jitgrad.zeros(3, 2), jitgrad.zeros(4)]
    vector = jitgrad.nn.utils.parameters_to_vector(source)
    assert vector.shape == (10,)
    jitgrad.nn.utils.vector_to_parameters(vector.detach(), target)
    for a, b in zip(source, target, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.numpy())


@pytest.mark.parametrize("norm_type", [2.0, float("inf")])
def test_norm_and_clipping_apart(norm_type: float, mode: Any) -> None:
    def clip(xp: Any, parameters: list[Any]) -> list[Any]:
        sum((p**3).sum() for p in parameters).backward()
        norm = xp.nn.utils.get_total_norm([p.grad for p in parameters], norm_type)
        xp.nn.utils.clip_grads_with_norm_(parameters, 0.5, norm)
        return [norm, *(p.grad for p in parameters)]

    expected = clip(torch, _parameters(torch))
    found = mode.run(lambda p: clip(jitgrad, p), lambda: (_parameters(jitgrad),))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-7)


def test_a_norm_that_is_not_finite() -> None:
    for xp in (jitgrad, torch):
        assert np.isinf(xp.nn.utils.get_total_norm([xp.tensor([float("inf")])]).item())
        with pytest.raises(RuntimeError, match="is non-finite, so it cannot be clipped"):
            xp.nn.utils.get_total_norm([xp.tensor([float("inf")])], error_if_nonfinite=True)
