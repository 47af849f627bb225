"""``rows/reinforce.py`` in JAX: a jitted policy, and a jitted update of episodes that are filled up to the longest."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.row import Training
from benchmarks.rows.reinforce import RATE, State, episodes, moved, returns, weights
from benchmarks.rows_jax.carry import sgd

__all__ = ["make"]


def _policy(parameters: Any, state: Any) -> Any:
    w_in, b_in, w_out, b_out = parameters
    return jax.nn.log_softmax(jnp.tanh(state @ w_in.T + b_in) @ w_out.T + b_out)


def _loss(parameters: Any, states: Any, actions: Any, worth: Any) -> Any:
    chances = _policy(parameters, states)
    return -(jnp.take_along_axis(chances, actions[:, None], 1)[:, 0] * worth).sum()


def make(seed: int, limit: int, hidden: int) -> Training:
    """Gradient descent, one episode of at most ``limit`` actions a step."""
    parameters = [jnp.asarray(array) for array in weights(seed, hidden)]
    source = episodes(seed, limit)
    policy = jax.jit(_policy)
    update = jax.jit(sgd(_loss, RATE), donate_argnums=0)

    def step() -> Any:
        nonlocal parameters
        state: State | None
        state, draws = next(source)
        states, actions = np.zeros((limit, 4), np.float32), np.zeros(limit, np.int32)
        length = 0
        while state is not None and length < limit:
            states[length] = state
            chances = policy(parameters, states[length])
            actions[length] = draws[length] >= math.exp(chances[0])
            state = moved(state, int(actions[length]))
            length += 1
        worth = np.zeros(limit, np.float32)
        worth[:length] = returns(length)
        parameters, loss = update(parameters, states, actions, worth)
        return loss

    return Training(step, lambda: parameters)
