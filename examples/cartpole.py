"""Actor-critic on a cart-pole that is written in NumPy: sixteen poles at once, sixteen moves between two updates.

The equations are those of Barto, Sutton and Anderson (1983). A policy that keeps a pole up for 200 moves has learnt it.
Run ``python examples/cartpole.py [--steps 400] [--plot cartpole.png] [--json]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Run, run_example

import jitgrad
from jitgrad import nn, optim
from jitgrad.distributions import Categorical

Array = np.ndarray[Any, np.dtype[Any]]
POLES, MOVES, LONGEST, DISCOUNT = 16, 16, 200, 0.98


class Poles:
    """Poles on carts: each is (place, velocity, angle, angular velocity)."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.state = self._new(POLES)
        self.age = np.zeros(POLES, int)
        self.lengths: list[int] = []

    def _new(self, count: int) -> Array:
        return self.rng.uniform(-0.05, 0.05, (count, 4))

    def move(self, right: Array) -> tuple[Array, Array, Array]:
        """Push every cart; the states, whether each pole fell, and whether it was up for as long as it may be."""
        _, v, angle, spin = self.state.T
        push = np.where(right == 1, 10.0, -10.0)
        inner = (push + 0.05 * spin**2 * np.sin(angle)) / 1.1
        turn = (9.8 * np.sin(angle) - np.cos(angle) * inner) / (0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1))
        speed = inner - 0.05 * turn * np.cos(angle) / 1.1
        self.state = self.state + 0.02 * np.stack([v, speed, spin, turn], 1)
        self.age += 1
        fell = (np.abs(self.state[:, 0]) > 2.4) | (np.abs(self.state[:, 2]) > 0.21)
        old = self.age >= LONGEST
        over = fell | old
        self.lengths += self.age[over].tolist()
        self.state[over], self.age[over] = self._new(int(over.sum())), 0
        return self.state, fell, old & ~fell


class ActorCritic(nn.Module):
    """Scores of the two pushes, and the value of the state."""

    def __init__(self, hidden: int = 64) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.actor, self.critic = nn.Linear(hidden, 2), nn.Linear(hidden, 1)

    def forward(self, x: jitgrad.Tensor) -> tuple[jitgrad.Tensor, jitgrad.Tensor]:
        h = self.body(x)
        return self.actor(h), self.critic(h).squeeze(-1)


def discounted(rewards: Array, over: Array, last: Array) -> Array:
    """Returns (moves, poles): rewards to come, discounted, up to where a pole's time ends, and ``last`` after that."""
    returns = np.zeros_like(rewards)
    for t in range(len(rewards) - 1, -1, -1):
        last = rewards[t] + DISCOUNT * np.where(over[t], 0.0, last)
        returns[t] = last
    return returns


def train(run: Run, options: Any) -> None:
    """Train; how long the last poles stayed up is a figure, 200 at most."""
    model = ActorCritic()
    optimizer = optim.Adam(model.parameters(), lr=6e-3)
    poles = Poles(options.seed)

    @run.step
    def act(states: jitgrad.Tensor) -> tuple[jitgrad.Tensor, jitgrad.Tensor]:
        with jitgrad.no_grad():
            scores, values = model(states)
            return Categorical(logits=scores).sample(), values

    @run.step
    def update(states: jitgrad.Tensor, actions: jitgrad.Tensor, returns: jitgrad.Tensor) -> jitgrad.Tensor:
        optimizer.zero_grad()
        scores, values = model(states)
        policy = Categorical(logits=scores)
        advantage = (returns - values).detach()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        loss = 0.5 * (returns - values).square().mean() * 0.05
        loss = loss - (policy.log_prob(actions) * advantage).mean() - 0.01 * policy.entropy().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss.detach()

    lengths = []
    for _ in run.rounds(options.count):
        states, actions, rewards, overs = [], [], [], []
        for _ in range(MOVES):
            state = jitgrad.tensor(poles.state, dtype=jitgrad.float32)
            action, _ = act(state)
            _, fell, old = poles.move(action.numpy())
            states.append(state)
            actions.append(action)
            rewards.append(np.where(fell, 0.0, 1.0))
            overs.append(fell | old)
        _, last = act(jitgrad.tensor(poles.state, dtype=jitgrad.float32))
        returns = discounted(np.stack(rewards), np.stack(overs), last.numpy())
        loss = update(jitgrad.cat(states), jitgrad.cat(actions), jitgrad.tensor(returns.ravel(), dtype=jitgrad.float32))
        run.losses.append(loss.item())
        lengths.append(float(np.mean(poles.lengths[-30:] or [0])))
    run.figures["moves that poles stay up"] = lengths[-1]
    run.drawn["lengths"] = lengths


def draw(figure: Any, runs: list[Run]) -> None:
    """How long poles stay up, as it is learnt."""
    axes = figure.subplots()
    for run, style in zip(runs, ("-", "--"), strict=True):
        axes.plot(run.drawn["lengths"], style, label=run.mode)
    axes.axhline(LONGEST, color="0.7")
    axes.set_xlabel("update")
    axes.set_ylabel("moves until a pole falls")
    axes.legend()


if __name__ == "__main__":
    run_example(__doc__, train, draw, name="cartpole", unit="steps", count=400)
