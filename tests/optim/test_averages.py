"""``optim.swa_utils`` against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

AVERAGES: dict[str, Any] = {
    "swa": lambda utils: {},
    "swa-one": lambda utils: {"avg_fn": utils.get_swa_avg_fn()},
    "swa-many": lambda utils: {"multi_avg_fn": utils.get_swa_multi_avg_fn()},
    "ema-one": lambda utils: {"avg_fn": utils.get_ema_avg_fn(0.7)},
    "ema-many": lambda utils: {"multi_avg_fn": utils.get_ema_multi_avg_fn(0.7)},
    "ema-buffers": lambda utils: {"multi_avg_fn": utils.get_ema_multi_avg_fn(0.7), "use_buffers": True},
}


def _model(xp: Any) -> Any:
    model = xp.nn.Sequential(xp.nn.Linear(3, 4), xp.nn.BatchNorm1d(4))
    rng = np.random.default_rng(2)
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    state = {name: np.asarray(rng.standard_normal(shape), np.float32) for name, shape in shapes.items() if shape}
    state["1.num_batches_tracked"] = np.array(0)
    model.load_state_dict({name: xp.from_numpy(value) for name, value in state.items()})
    return model


def _batches(xp: Any) -> list[Any]:
    rng = np.random.default_rng(5)
    return [xp.from_numpy(rng.standard_normal((6, 3)).astype(np.float32)) for _ in range(5)]


def _averaged(xp: Any, case: str, call: Any) -> list[Any]:
    utils = xp.optim.swa_utils
    model = _model(xp)
    averaged = utils.AveragedModel(model, **AVERAGES[case](utils))
    optimizer = xp.optim.SGD(model.parameters(), lr=0.1)

    def update(x: Any) -> None:
        optimizer.zero_grad()
        (model(x) ** 3).mean().backward()
        optimizer.step()
        averaged.update_parameters(model)

    step = call(update)
    for x in _batches(xp):
        step(x)
    return list(averaged.state_dict().values())


@pytest.mark.parametrize("case", AVERAGES)
def test_averaged_model(case: str, mode: Any) -> None:
    for a, b in zip(_averaged(jitgrad, case, mode.wrap), _averaged(torch, case, lambda f: f), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-5, atol=2e-6)


def test_update_bn() -> None:
    def measured(xp: Any) -> list[Any]:
        model = _model(xp)
        xp.optim.swa_utils.update_bn([(x, None) for x in _batches(xp)], model.eval())
        assert not model.training
        assert model[1].momentum == 0.1
        return list(model.state_dict().values())

    for a, b in zip(measured(jitgrad), measured(torch), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("options", [{}, {"anneal_strategy": "linear"}, {"anneal_epochs": 3}, {"anneal_epochs": 0}])
def test_rates(options: dict[str, Any]) -> None:
    def rates(xp: Any) -> list[float]:
        optimizer = xp.optim.SGD([xp.ones(1).requires_grad_()], lr=0.5)
        schedule = xp.optim.swa_utils.SWALR(optimizer, 0.05, **options)
        found = []
        for _ in range(12):
            optimizer.step()
            schedule.step()
            found.append(schedule.get_last_lr()[0])
        return found

    np.testing.assert_allclose(rates(jitgrad), rates(torch), rtol=1e-9, atol=1e-12)


def test_wrong_arguments() -> None:
    utils = jitgrad.optim.swa_utils
    with pytest.raises(ValueError, match=r"Invalid decay value 1\.5 provided"):
        utils.get_ema_multi_avg_fn(1.5)
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
        utils.AveragedModel(_model(jitgrad), avg_fn=utils.get_swa_avg_fn(), multi_avg_fn=utils.get_swa_multi_avg_fn())
    optimizer = jitgrad.optim.SGD([jitgrad.ones(1).requires_grad_()], lr=0.5)
    with pytest.raises(ValueError, match="anneal_strategy must be one of"):
        utils.SWALR(optimizer, 0.1, anneal_strategy="jump")
