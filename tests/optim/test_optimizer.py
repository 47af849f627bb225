"""``Optimizer``: arguments, groups, closures, what a schedule costs a compiled step."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad
from jitgrad import events, nn, optim


def _leaf(value: float = 1.0) -> Any:
    return jitgrad.tensor([value], requires_grad=True)


def test_wrong_parameters() -> None:
    with pytest.raises(TypeError, match="iterable of Tensors or dicts"):
        optim.SGD(_leaf(), lr=0.1)
    with pytest.raises(ValueError, match="empty parameter list"):
        optim.SGD([], lr=0.1)
    with pytest.raises(TypeError, match="can only optimize Tensors"):
        optim.SGD([1.0], lr=0.1)
    with pytest.raises(ValueError, match="non-leaf"):
        optim.SGD([_leaf() * 2], lr=0.1)
    leaf = _leaf()
    with pytest.raises(ValueError, match="more than one parameter group"):
        optim.SGD([{"params": [leaf]}, {"params": [leaf]}], lr=0.1)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("SGD", {"lr": -1.0}, "Invalid learning rate: -1.0"),
        ("SGD", {"lr": 1.0, "nesterov": True}, "Nesterov momentum requires a momentum and zero dampening"),
        ("Adam", {"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
        ("AdamW", {"eps": -1.0}, "Invalid epsilon value: -1.0"),
        ("RMSprop", {"alpha": -1.0}, "Invalid alpha value: -1.0"),
        ("Adagrad", {"lr_decay": -1.0}, "Invalid lr_decay value: -1.0"),
        ("Adadelta", {"rho": 1.5}, "Invalid rho value: 1.5"),
        ("Adamax", {"betas": (0.9, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
        ("ASGD", {"weight_decay": -1.0}, "Invalid weight_decay value: -1.0"),
        ("NAdam", {"momentum_decay": -1.0}, "Invalid momentum_decay value: -1.0"),
        ("RAdam", {"eps": -1.0}, "Invalid epsilon value: -1.0"),
        ("Rprop", {"etas": (0.5, 0.9)}, "Invalid eta values: 0.5, 0.9"),
        ("Adafactor", {"d": 0.5}, "Clipping threshold d should be >= 1 but is: 0.5"),
        ("Adafactor", {"beta2_decay": 0.5}, "beta2_decay should be <= 0 but is: 0.5"),
    ],
)
def test_wrong_options(kind: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        getattr(optim, kind)([_leaf()], **options)


def test_named_parameters_are_taken() -> None:
    model = nn.Linear(2, 1)
    assert len(optim.SGD(model.named_parameters(), lr=0.1).param_groups[0]["params"]) == 2


def test_step_returns_the_closure_s_loss() -> None:
    leaf = _leaf(2.0)
    optimizer = optim.SGD([leaf], lr=0.5)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (leaf**2).sum()
        loss.backward()
        return loss

    with jitgrad.no_grad():
        assert optimizer.step(closure).item() == 4.0
    assert leaf.item() == 0.0


def test_update_keeps_the_storage_and_the_leaf(mode: Any) -> None:
    leaf = _leaf()
    alias = leaf.detach()
    optimizer = optim.Adam([leaf], lr=0.5)

    def update() -> None:
        optimizer.zero_grad()
        leaf.sum().backward()
        optimizer.step()

    mode.wrap(update)()
    assert leaf.is_leaf
    assert leaf.requires_grad
    assert alias.item() == pytest.approx(0.5)


def test_zero_grad_forms() -> None:
    leaf = _leaf()
    optimizer = optim.SGD([leaf], lr=0.1)
    leaf.sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert leaf.grad.tolist() == [0.0]
    optimizer.zero_grad()
    assert leaf.grad is None


def test_load_state_dict_checks_groups() -> None:
    optimizer = optim.SGD([_leaf()], lr=0.1)
    with pytest.raises(ValueError, match="different number"):
        optimizer.load_state_dict({"state": {}, "param_groups": []})
    with pytest.raises(ValueError, match="doesn't match the size"):
        optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]})


def test_the_second_call_compiles_nothing() -> None:
    model = nn.Linear(4, 2)
    optimizer = optim.Adam(model.parameters(), lr=0.01)

    @jitgrad.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    x = jitgrad.ones(3, 4)
    step(x)
    with events.count("compiles") as compiles:
        step(x)
    assert compiles() == 0


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_a_schedule_costs_no_compile(kind: str) -> None:
    model = nn.Linear(4, 2)
    optimizer = getattr(optim, kind)(model.parameters(), lr=0.01)
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.999)

    @jitgrad.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    x = jitgrad.ones(3, 4)
    for _ in range(4):
        step(x)
        schedule.step()
    with events.count("compiles") as compiles, events.count("misses") as misses:
        for _ in range(1000):
            step(x)
            schedule.step()
    assert compiles() == 0
    assert misses() == 0
