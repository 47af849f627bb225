"""Minimise the Rosenbrock function with a step that takes or refuses its own trial: a branch in a compiled step.

The step reads a value in its middle (``bool(...)``) and branches on it, and still runs compiled: the read ends a
segment, and the next one goes on. The rate changes every call and compiles nothing. Run
``python examples/rosenbrock.py``.
"""

from __future__ import annotations

import time

import jitgrad


def rosenbrock(x: jitgrad.Tensor) -> jitgrad.Tensor:
    """The sum of 100 (x[i+1] - x[i]^2)^2 + (1 - x[i])^2; its minimum is 0, at all ones."""
    head, tail = x[:-1], x[1:]
    return (100.0 * (tail - head**2) ** 2 + (1.0 - head) ** 2).sum()


@jitgrad.compile
def descend(x: jitgrad.Tensor, rate: float) -> tuple[jitgrad.Tensor, float]:
    """One gradient step; where it would go up, stay and halve the rate."""
    loss = rosenbrock(x)
    loss.backward()
    with jitgrad.no_grad():
        trial = x - rate * x.grad
        went_down = bool(rosenbrock(trial) < loss)
        if went_down:
            x.copy_(trial)
    x.grad = None
    return loss.detach(), rate * 1.1 if went_down else rate * 0.5


def main() -> None:
    """Print the descent."""
    x = jitgrad.full((10,), -0.5, requires_grad=True)
    rate = 1e-3
    start = time.perf_counter()
    for i in range(10_001):
        loss, rate = descend(x, rate)
        if i % 2000 == 0:
            print(f"step {i:6d}  loss {loss.item():.3e}  rate {rate:.2e}")
    print(f"x = {[round(v, 3) for v in x.tolist()]}")
    print(f"{1e6 * (time.perf_counter() - start) / 10_001:.0f} us per step; {jitgrad.stats()}")


if __name__ == "__main__":
    main()
