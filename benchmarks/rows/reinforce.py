"""REINFORCE on the cart with a pole: each action is read from the policy, and an episode ends when the pole falls.

Source: Williams, "Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement Learning", 1992;
the cart: Barto, Sutton and Anderson, "Neuronlike Adaptive Elements ...", 1983, with Euler's rule as is usual.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.row import Training, Wrap
from benchmarks.rows import data
from benchmarks.rows.descent import descend

__all__ = ["RATE", "episodes", "make", "moved", "returns", "weights"]

RATE, DISCOUNT, SECONDS = 0.002, 0.95, 0.02
State = tuple[float, float, float, float]
"""Position (m), speed (m/s), angle (rad), angular speed (rad/s)."""


def episodes(seed: int, limit: int) -> Iterator[tuple[State, list[float]]]:
    """Endless (where the episode begins, a number in [0, 1) for each of its actions)."""
    rng = np.random.default_rng(seed)
    while True:
        x, v, angle, turning = rng.uniform(-0.05, 0.05, 4).tolist()
        yield (x, v, angle, turning), rng.random(limit).tolist()


def moved(state: State, action: int) -> State | None:
    """The state one step later, pushed to the left (0) or to the right (1); None if the pole has fallen."""
    x, v, angle, turning = state
    sin, cos = math.sin(angle), math.cos(angle)
    push = ((10.0 if action else -10.0) + 0.05 * turning**2 * sin) / 1.1
    turned = (9.8 * sin - cos * push) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
    sped = push - 0.05 * turned * cos / 1.1
    x, v, angle, turning = x + SECONDS * v, v + SECONDS * sped, angle + SECONDS * turning, turning + SECONDS * turned
    return (x, v, angle, turning) if abs(x) < 2.4 and abs(angle) < 0.21 else None


def returns(length: int) -> list[float]:
    """Discounted sums of the rewards from each step on; each reward is 1."""
    return [(1 - DISCOUNT ** (length - t)) / (1 - DISCOUNT) for t in range(length)]


def weights(seed: int, hidden: int) -> list[Any]:
    """Weight and bias of the policy's two layers."""
    return data.layers(np.random.default_rng(seed), (4, hidden, 2))


def make(xp: Any, seed: int, wrap: Wrap, limit: int, hidden: int) -> Training:
    """Gradient descent, one episode of at most ``limit`` actions a step."""
    parameters = [xp.from_numpy(array).requires_grad_() for array in weights(seed, hidden)]
    source = episodes(seed, limit)
    functional = xp.nn.functional

    @wrap.loss
    def policy(state: Any) -> Any:
        inner = xp.tanh(functional.linear(state, parameters[0], parameters[1]))
        return functional.log_softmax(functional.linear(inner, parameters[2], parameters[3]), 0)

    @wrap.step
    def train(state: State | None, draws: list[float]) -> Any:
        taken = []
        for draw in draws:
            if state is None:
                break
            chances = policy(xp.tensor(state))
            action = int(draw >= math.exp(chances[0].item()))
            taken.append(chances[action])
            state = moved(state, action)
        loss = -(xp.stack(taken) * xp.tensor(returns(len(taken)))).sum()
        loss.backward()
        descend(xp, parameters, RATE)
        return loss.detach()

    return Training(lambda: train(*next(source)), lambda: parameters)
