"""Wrappers for training on several devices: on a CPU they call the module."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad
from jitgrad import nn


def _trained(module: Any) -> Any:
    module.manual_seed(3)
    net = module.nn.DataParallel(module.nn.Sequential(module.nn.Linear(3, 4), module.nn.ReLU(), module.nn.Linear(4, 1)))
    optimizer = module.optim.SGD(net.parameters(), lr=0.1)
    x = module.arange(6.0).reshape(2, 3)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses, list(net.state_dict()), net.module[0].weight.shape


def test_data_parallel_is_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    assert _trained(jitgrad) == _trained(torch)


def test_the_wrapped_module_is_called() -> None:
    x = jitgrad.ones(1, 2)
    net = nn.Linear(2, 2)
    assert jitgrad.equal(nn.DataParallel(net)(x), net(x))
    assert jitgrad.equal(nn.parallel.data_parallel(net, x), net(x))


def test_several_processes_are_refused() -> None:
    with pytest.raises(RuntimeError, match="one process"):
        nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
