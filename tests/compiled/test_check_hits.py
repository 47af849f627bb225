"""``JITGRAD_CHECK=1`` finds a hit that is not what the call describes."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import jitgrad as jg
from jitgrad.compiled.check_hits import why_wrong
from jitgrad.ops.table import OPS

_TRAINING = """
import jitgrad as jg
w = jg.tensor([1.0, -2.0], requires_grad=True)
@jg.compile
def step(x, k):
    y = ((w * x - 0.5) / 2.0).tanh() + 1.0 / (x + 3.0)
    loss = (y.unsqueeze(0).squeeze(0) * k).sum()
    loss.backward()
    with jg.no_grad():
        w.sub_(w.grad, alpha=0.1)
    w.grad = None
    return loss
for nr in range(6):
    step(jg.tensor([1.0, 2.0]), 1.0 + nr)
from jitgrad.door import door
from jitgrad.state import native_cell
print(native_cell.is_installed == ("checked" in door.apply.__qualname__), jg.stats()["misses"] < 60)
"""


def test_a_training_passes_the_checks() -> None:
    env = {**os.environ, "JITGRAD_CHECK": "1"}
    done = subprocess.run([sys.executable, "-c", _TRAINING], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "True"]


def _hit(**changes: Any) -> str:
    """Why ``x + 2.0`` at a node of the path is wrong, after a change to the node or to the result."""
    x = jg.ones(2)
    x._vid = 1
    out = jg.ones(2)
    out._vid = 2
    node = SimpleNamespace(op=OPS["add"], vid=2, ids=(1, (2.0,)), params=(), event=object())
    for name, value in changes.items():
        setattr(out if name.startswith("_") else node, name, value)
    return why_wrong(SimpleNamespace(node=node), OPS["add"], (x, 2.0), out)


def test_a_right_hit_is_right() -> None:
    assert _hit() == ""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"vid": 7}, "the result is value 2"),
        ({"ids": (3, (2.0,))}, "operand 1"),
        ({"ids": (1, (3.0,))}, r"operand \(2.0,\)"),
        ({"params": (1,)}, "params"),
        ({"_aval": jg.ones(3)._aval}, "the shape rule says"),
    ],
)
def test_a_wrong_hit_is_named(changes: dict[str, Any], reason: str) -> None:
    assert reason.replace("\\", "") in _hit(**changes)
