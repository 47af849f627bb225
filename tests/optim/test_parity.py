"""Every optimizer and schedule against PyTorch's, option by option, in every mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

STEPS = 6
SHAPES = ((4, 3), (3,), ())

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {"lr": 0.1}),
    "sgd-momentum": ("SGD", {"lr": 0.1, "momentum": 0.9}),
    "sgd-dampening": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    "sgd-nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "sgd-decay": ("SGD", {"lr": 0.1, "weight_decay": 0.2}),
    "sgd-all": ("SGD", {"lr": 0.1, "momentum": 0.8, "weight_decay": 0.1, "maximize": True}),
    "adam": ("Adam", {"lr": 0.05}),
    "adam-betas": ("Adam", {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-3}),
    "adam-decay": ("Adam", {"lr": 0.05, "weight_decay": 0.1}),
    "adam-amsgrad": ("Adam", {"lr": 0.05, "amsgrad": True}),
    "adam-maximize": ("Adam", {"lr": 0.05, "maximize": True, "weight_decay": 0.1}),
    "adamw": ("AdamW", {"lr": 0.05}),
    "adamw-amsgrad": ("AdamW", {"lr": 0.05, "weight_decay": 0.3, "amsgrad": True}),
    "rmsprop": ("RMSprop", {"lr": 0.05}),
    "rmsprop-all": ("RMSprop", {"lr": 0.05, "momentum": 0.5, "centered": True, "weight_decay": 0.1, "maximize": True}),
    "adagrad": ("Adagrad", {"lr": 0.05}),
    "adagrad-all": (
        "Adagrad",
        {"lr": 0.05, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2, "maximize": True},
    ),
    "adadelta": ("Adadelta", {}),
    "adadelta-all": ("Adadelta", {"lr": 0.5, "rho": 0.7, "eps": 1e-4, "weight_decay": 0.1, "maximize": True}),
    "adamax": ("Adamax", {"lr": 0.05}),
    "adamax-all": ("Adamax", {"lr": 0.05, "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1, "maximize": True}),
    "asgd": ("ASGD", {"lr": 0.1}),
    "asgd-all": (
        "ASGD",
        {"lr": 0.1, "lambd": 0.05, "alpha": 0.6, "t0": 2, "weight_decay": 0.1, "maximize": True},
    ),
    "nadam": ("NAdam", {"lr": 0.05}),
    "nadam-all": (
        "NAdam",
        {"lr": 0.05, "betas": (0.8, 0.95), "weight_decay": 0.1, "momentum_decay": 0.1, "maximize": True},
    ),
    "nadam-decoupled": ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "radam": ("RAdam", {"lr": 0.05}),
    "radam-all": ("RAdam", {"lr": 0.05, "betas": (0.8, 0.9), "weight_decay": 0.1, "eps": 1e-3, "maximize": True}),
    "radam-decoupled": ("RAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "rprop": ("Rprop", {"lr": 0.05}),
    "rprop-all": ("Rprop", {"lr": 0.05, "etas": (0.3, 1.5), "step_sizes": (1e-3, 0.08), "maximize": True}),
    "adafactor": ("Adafactor", {"lr": 0.05}),
    "adafactor-all": (
        "Adafactor",
        {"lr": 0.5, "beta2_decay": -0.5, "eps": (1e-6, 0.1), "d": 1.5, "weight_decay": 0.1, "maximize": True},
    ),
}


def _problem(xp: Any, kind: str, options: dict[str, Any]) -> tuple[list[Any], Any]:
    """Parameters, the same for both libraries, and their optimizer."""
    rng = np.random.default_rng(3)
    arrays = [np.asarray(rng.standard_normal(shape), np.float32) for shape in SHAPES]
    parameters = [xp.from_numpy(array).requires_grad_() for array in arrays]
    return parameters, getattr(xp.optim, kind)(parameters, **options)


def _train(parameters: list[Any], optimizer: Any, steps: int = STEPS) -> list[Any]:
    for _ in range(steps):
        optimizer.zero_grad()
        matrix, vector, scalar = parameters
        loss = ((matrix - vector) ** 2).sum() * 0.1 + (vector.sin() * scalar).sum() + scalar**2
        loss.backward()
        optimizer.step()
    return parameters


def _assert_equal(ours: list[Any], theirs: list[Any]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_optimizer(case: str, mode: Any) -> None:
    kind, options = CASES[case]
    expected = _train(*_problem(torch, kind, options))
    _assert_equal(mode.run(_train, lambda: _problem(jitgrad, kind, options)), expected)


PLAIN = ["adadelta", "adamax", "asgd-all", "nadam", "radam", "rprop", "adafactor"]


@pytest.mark.parametrize("case", PLAIN)
def test_twenty_steps(case: str, mode: Any) -> None:
    kind, options = CASES[case]
    expected, theirs = _problem(torch, kind, options)
    parameters, optimizer = _problem(jitgrad, kind, options)
    step = mode.wrap(lambda: _train(parameters, optimizer, 1))
    for _ in range(20):
        step()
        _train(expected, theirs, 1)
    for a, b in zip(parameters, expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("case", PLAIN)
def test_state_has_pytorch_s_names(case: str) -> None:
    kind, options = CASES[case]

    def names(xp: Any) -> list[list[str]]:
        parameters, optimizer = _problem(xp, kind, options)
        _train(parameters, optimizer, 1)
        kept = optimizer.state_dict()["state"].values()
        return [sorted(name for name, value in state.items() if value is not None) for state in kept]

    assert names(jitgrad) == names(torch)


@pytest.mark.parametrize("case", ["sgd-momentum", "adam", "adamw-amsgrad", *PLAIN])
def test_one_compiled_call_per_update(case: str, mode: Any) -> None:
    kind, options = CASES[case]
    expected = _train(*_problem(torch, kind, options))
    parameters, optimizer = _problem(jitgrad, kind, options)
    step = mode.wrap(lambda: _train(parameters, optimizer, 1))
    for _ in range(STEPS):
        step()
    _assert_equal(parameters, expected)


def test_groups_have_their_own_options(mode: Any) -> None:
    def run(xp: Any, call: Any) -> list[Any]:
        parameters, _ = _problem(xp, "SGD", {"lr": 0.1})
        groups = [{"params": parameters[:1], "lr": 0.5}, {"params": parameters[1:], "momentum": 0.5}]
        optimizer = xp.optim.SGD(groups, lr=0.01)
        step = call(lambda: _train(parameters, optimizer, 1))
        for _ in range(STEPS):
            step()
        return parameters

    _assert_equal(run(jitgrad, mode.wrap), run(torch, lambda f: f))


def test_parameters_without_gradient_stay(mode: Any) -> None:
    def run(xp: Any, call: Any) -> list[Any]:
        parameters, optimizer = _problem(xp, "Adam", {"lr": 0.1})

        def update(use_vector: bool) -> None:
            optimizer.zero_grad()
            loss = (parameters[0] ** 2).sum()
            if use_vector:
                loss = loss + parameters[1].sum()
            loss.backward()
            optimizer.step()

        step = call(update)
        for i in range(8):
            step(i % 2 == 0)
        return parameters

    _assert_equal(run(jitgrad, mode.wrap), run(torch, lambda f: f))


def test_state_dict_resumes(mode: Any) -> None:
    parameters, optimizer = _problem(jitgrad, "Adam", {"lr": 0.05})
    _train(parameters, optimizer, 3)
    saved = optimizer.state_dict()
    twins = [p.detach().clone().requires_grad_() for p in parameters]
    resumed = jitgrad.optim.Adam(twins, lr=1.0)
    resumed.load_state_dict(saved)
    mode.wrap(lambda: _train(twins, resumed, 3))()
    _assert_equal(twins, _train(*_problem(torch, "Adam", {"lr": 0.05})))


SCHEDULES: dict[str, tuple[str, dict[str, Any]]] = {
    "step": ("StepLR", {"step_size": 3, "gamma": 0.5}),
    "multi": ("MultiStepLR", {"milestones": [2, 5, 5], "gamma": 0.1}),
    "exponential": ("ExponentialLR", {"gamma": 0.9}),
    "cosine": ("CosineAnnealingLR", {"T_max": 4, "eta_min": 0.01}),
    "lambda": ("LambdaLR", {"lr_lambda": lambda epoch: 1 / (1 + epoch)}),
    "linear": ("LinearLR", {"start_factor": 0.25, "total_iters": 4}),
    "constant": ("ConstantLR", {"factor": 0.25, "total_iters": 3}),
    "multiplicative": ("MultiplicativeLR", {"lr_lambda": lambda epoch: 0.9 + 0.01 * epoch}),
    "polynomial": ("PolynomialLR", {"total_iters": 5, "power": 2.0}),
}


@pytest.mark.parametrize("case", SCHEDULES)
def test_schedule(case: str) -> None:
    kind, options = SCHEDULES[case]

    def rates(xp: Any) -> list[float]:
        parameters, optimizer = _problem(xp, "SGD", {"lr": 0.3})
        schedule = getattr(xp.optim.lr_scheduler, kind)(optimizer, **options)
        found = [schedule.get_last_lr()[0]]
        for _ in range(12):
            _train(parameters, optimizer, 1)
            schedule.step()
            found.append(schedule.get_last_lr()[0])
        return found

    np.testing.assert_allclose(rates(jitgrad), rates(torch), rtol=1e-9, atol=1e-12)
