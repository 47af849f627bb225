"""An LSTM cell written out and unrolled in Python, by gradient descent on one sequence.

Source: Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997; gates in PyTorch's order (i, f, g, o).
"""

from __future__ import annotations

from typing import Any

from benchmarks.row import Training, Wrap
from benchmarks.rows import data

__all__ = ["make"]


def make(xp: Any, seed: int, wrap: Wrap, steps: int, batch: int, features: int, hidden: int) -> Training:
    """The last hidden state is read out linearly; mean squared error."""
    xp.set_flush_denormal(True)  # as JAX always does: gradients through 512 steps fall below 1e-38
    arrays, sequence, target = data.lstm(seed, steps, batch, features, hidden)
    weights = [xp.from_numpy(array).requires_grad_() for array in arrays]
    xs, y = xp.from_numpy(sequence), xp.from_numpy(target)
    zero = xp.zeros(batch, hidden)
    linear, mse_loss = xp.nn.functional.linear, xp.nn.functional.mse_loss

    @wrap.loss
    def loss_fn() -> Any:
        w_input, w_hidden, bias, w_out = weights
        h, c = zero, zero
        for t in range(steps):
            gates = linear(xs[t], w_input, bias) + linear(h, w_hidden)
            i, f, g, o = gates.chunk(4, 1)
            c = xp.sigmoid(f) * c + xp.sigmoid(i) * xp.tanh(g)
            h = xp.sigmoid(o) * xp.tanh(c)
        return mse_loss(linear(h, w_out), y)

    @wrap.step
    def step() -> Any:
        loss = loss_fn()
        loss.backward()
        with xp.no_grad():
            for weight in weights:
                weight.sub_(weight.grad, alpha=0.01)
                weight.grad = None
        return loss.detach()

    return Training(step, lambda: weights)
