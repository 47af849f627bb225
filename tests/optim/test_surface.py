"""Optimizers and schedules beside PyTorch's: options of groups, hooks, names, states, steps to an epoch, Muon."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.nn.libraries import assert_as_pytorch, raised

torch: Any = pytest.importorskip("torch")

NAMES = (
    "SGD Adam AdamW Adadelta Adafactor Adagrad Adamax ASGD LBFGS Muon NAdam RAdam RMSprop Rprop SparseAdam"
).split()


def test_all_optimizers_and_schedules_are_there() -> None:
    def classes(module: Any) -> set[str]:
        return {name for name in dir(module) if inspect.isclass(getattr(module, name)) and name[0].isupper()}

    assert classes(torch.optim) <= classes(jitgrad.optim) | {"lr_scheduler"}
    assert set(torch.optim.lr_scheduler.__all__) <= set(dir(jitgrad.optim.lr_scheduler))


@pytest.mark.parametrize("name", NAMES)
def test_groups_have_pytorchs_options(name: str) -> None:
    def options(xp: Any) -> Any:
        optimizer = getattr(xp.optim, name)([xp.nn.Parameter(xp.ones(2, 2))])
        return {key: value for key, value in sorted(optimizer.param_groups[0].items()) if key != "params"}

    assert options(jitgrad) == options(torch)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("LBFGS", "SparseAdam", "Muon", "Adafactor")])
def test_the_choice_of_an_implementation_changes_nothing(name: str) -> None:
    taken = inspect.signature(getattr(torch.optim, name)).parameters

    def stepped(**flags: Any) -> Any:
        p = jitgrad.nn.Parameter(jitgrad.ones(3))
        optimizer = getattr(jitgrad.optim, name)([p], lr=0.1, **flags)
        for _ in range(2):
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()
        return p.tolist()

    plain = stepped()
    for flags in ({"foreach": True}, {"fused": True}, {"capturable": True}):
        if set(flags) <= set(taken):
            assert stepped(**flags) == plain


def parameters(xp: Any) -> Any:
    return [xp.nn.Parameter(xp.ones(2)), xp.nn.Parameter(xp.full((2,), 2.0))]


def named_groups(xp: Any) -> Any:
    p, q = parameters(xp)
    optimizer = xp.optim.SGD([("p", p)], lr=0.1)
    group = {"params": [("q", q)], "lr": 0.2}
    optimizer.add_param_group(group)
    state = optimizer.state_dict()
    return [
        [g["param_names"] for g in optimizer.param_groups],
        optimizer.param_groups[1] is group,
        [g["param_names"] for g in state["param_groups"]],
        raised(lambda: optimizer.add_param_group({"params": [xp.nn.Parameter(xp.ones(1))]})),
        raised(lambda: xp.optim.SGD([("p", p), q])),
        raised(lambda: xp.optim.SGD([{"params": {p, q}}])),
        raised(lambda: len(xp.optim.SGD([p, p]).param_groups)),
        raised(lambda: xp.optim.Adam([p], fused=True, foreach=True)),
        raised(lambda: xp.optim.Adam([p], fused=True, differentiable=True)),
    ]


def step_hooks(xp: Any) -> Any:
    p, _ = parameters(xp)
    seen: list[Any] = []
    optimizer = xp.optim.SGD([p], lr=0.1)
    every = importlib.import_module(f"{xp.__name__}.optim.optimizer")
    handles = [
        optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(["pre", len(args), o is optimizer])),
        optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(["post", p])),
        every.register_optimizer_step_pre_hook(lambda *args: seen.append("every pre")),
        every.register_optimizer_step_post_hook(lambda *args: seen.append("every post")),
    ]
    (p * p).sum().backward()
    optimizer.step()
    for handle in handles:
        handle.remove()
    optimizer.step()

    class Own(xp.optim.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"lr": 0.5})

        def step(self, closure: Any = None) -> Any:
            for group in self.param_groups:
                for q in group["params"]:
                    self.state[q]["seen"] = len(self.state[q])
                    with xp.no_grad():
                        q.sub_(q.grad, alpha=group["lr"])
            return 3

    own = Own([p])
    own.register_step_post_hook(lambda *args: seen.append("own"))
    return [seen[:4], seen[4:], p, own.step(), seen[-1], list(own.state.values()), list(own.state_dict()["state"])]


def state_hooks(xp: Any) -> Any:
    p, _ = parameters(xp)
    seen: list[Any] = []
    optimizer = xp.optim.SGD([p], lr=0.1)
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("save"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: seen.append(sorted(state)))
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
    optimizer.load_state_dict(optimizer.state_dict())
    return seen


def schedules_step_to_an_epoch(xp: Any) -> Any:
    at, seen = xp.optim.lr_scheduler, []
    for make in (
        lambda o: at.StepLR(o, 3), lambda o: at.MultiStepLR(o, [2, 2, 5]), lambda o: at.ExponentialLR(o, 0.9),
        lambda o: at.LambdaLR(o, lambda n: 1 / (n + 1)), lambda o: at.PolynomialLR(o, 6, 2.0),
        lambda o: at.LinearLR(o, 0.5, 1.0, 4), lambda o: at.ConstantLR(o, 0.5, 4),
        lambda o: at.CosineAnnealingLR(o, 5), lambda o: at.CosineAnnealingWarmRestarts(o, 3, 2),
    ):  # fmt: skip
        p, _ = parameters(xp)
        optimizer = xp.optim.SGD([p], lr=0.1)
        schedule = make(optimizer)
        optimizer.step()
        for epoch in (1, 4, 2, 7):
            schedule.step(epoch)
            seen.append(schedule.get_last_lr()[0])
        schedule.step()
        seen += [schedule.get_last_lr()[0], schedule.last_epoch]
    p, _ = parameters(xp)
    plateau = at.ReduceLROnPlateau(xp.optim.SGD([p], lr=0.1), patience=0)
    plateau.step(1.0, 4)
    return [*seen, plateau.last_epoch]


def a_schedule_before_its_optimizer(xp: Any) -> Any:
    p, _ = parameters(xp)
    schedule = xp.optim.lr_scheduler.StepLR(xp.optim.SGD([p], lr=0.1), 1)
    schedule.step()
    return schedule.get_last_lr()[0]


def a_schedule_after_its_optimizer(xp: Any) -> Any:
    p, _ = parameters(xp)
    optimizer = xp.optim.SGD([p], lr=0.1)
    schedule = xp.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    schedule.step()
    return schedule.get_last_lr()[0]


CASES: list[Callable[[Any], Any]] = [
    named_groups, step_hooks, state_hooks, schedules_step_to_an_epoch, a_schedule_before_its_optimizer,
    a_schedule_after_its_optimizer,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_as_pytorch(case: Callable[[Any], Any]) -> None:
    assert_as_pytorch(case)


@pytest.mark.parametrize("options", [{}, {"nesterov": False}, {"adjust_lr_fn": "match_rms_adamw"}], ids=str)
def test_muon(mode: Any, options: dict[str, Any]) -> None:
    def run(xp: Any, wrap: Any) -> Any:
        rng = np.random.default_rng(0)
        weights = [xp.nn.Parameter(xp.tensor(rng.standard_normal(shape).tolist())) for shape in ((3, 4), (4, 3))]
        optimizer = xp.optim.Muon(weights, lr=0.1, **options)

        def step() -> None:
            optimizer.zero_grad()
            sum((w * w).sum() + w[0].sum() for w in weights).backward()
            optimizer.step()

        call = wrap(step)
        for _ in range(4):
            call()
        return [w.detach().numpy() for w in weights]

    for ours, theirs in zip(run(jitgrad, mode.wrap), run(torch, lambda step: step), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=0.02)  # PyTorch iterates in bfloat16


def test_muon_takes_matrices_only() -> None:
    for xp in (jitgrad, torch):
        with pytest.raises(ValueError, match="Muon only supports 2D parameters"):
            xp.optim.Muon([xp.nn.Parameter(xp.ones(3))])


def test_copies_and_pickles_of_optimizers() -> None:
    p = jitgrad.nn.Parameter(jitgrad.ones(2))
    optimizer = jitgrad.optim.Adam([p], lr=0.1)
    (p * p).sum().backward()
    optimizer.step()
    for twin in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        (q,) = twin.param_groups[0]["params"]
        assert twin.state[q]["step"] == 1
        (q * q).sum().backward()
        twin.step()
        assert twin.state["new"] == {}
