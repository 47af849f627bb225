"""Steps that are slow on purpose: an exponent that counts up, a value read in the middle, a hook that reads."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad import nn, optim

jitgrad.manual_seed(0)
DATA = jitgrad.randn(4000, 8)
model = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = optim.SGD(model.parameters(), lr=0.01)
many = [(number,) for number in range(1000)]
some = (DATA[:16],)


def fast(x: Any) -> Any:
    """Nothing is slow about it."""
    optimizer.zero_grad()
    loss = (model(x) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss


def counting(number: int) -> Any:
    """An exponent counts up, which chooses the formula."""
    optimizer.zero_grad()
    x = model(DATA[:4]) ** 2 + 1
    loss = (x ** (1.5 + number / 1000)).mean()  # slow: counting
    loss.backward()
    optimizer.step()
    return loss


def reading(x: Any) -> Any:
    """A value is read in the middle."""
    optimizer.zero_grad()
    loss = (model(x) ** 2).mean()
    scaled = loss * min(1.0, loss.item())  # slow: reading
    scaled.backward()
    optimizer.step()
    return loss


def hooked(x: Any) -> Any:
    """A hook reads the gradient."""
    optimizer.zero_grad()
    hidden = model(x)
    hidden.register_hook(lambda grad: grad * 0.0 if grad.isnan().any() else None)  # slow: hooked
    loss = (hidden**2).mean()
    loss.backward()
    optimizer.step()
    return loss
