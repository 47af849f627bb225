"""Train a small network by Newton's method, without ever forming a Hessian.

A Hessian-vector product is the tangent of a gradient: ``func.jvp`` of ``func.grad``, forward over reverse. Conjugate
gradients ask for a few of them per step. The same step runs eagerly and compiled: inside ``@jitgrad.compile`` both
modes of differentiation are recorded, so a whole Newton step is one native program. At the end, ``func.vmap`` of
``func.grad`` tells which examples pull hardest. Run ``python examples/newton.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import jitgrad
from jitgrad import func

WIDTH, CG_STEPS, STEPS = 8, 12, 40

Params = tuple[jitgrad.Tensor, ...]


def loss(params: Params, x: jitgrad.Tensor, y: jitgrad.Tensor) -> jitgrad.Tensor:
    """The mean squared error of a network with one hidden layer; one example or many."""
    w1, b1, w2 = params
    error = (x @ w1 + b1).tanh() @ w2 - y
    return (error * error).mean()


def newton_step(
    params: Params, x: jitgrad.Tensor, y: jitgrad.Tensor, damping: float
) -> tuple[Params, jitgrad.Tensor]:
    """params - (H + damping)^-1 gradient, and the loss there; by conjugate gradients (Hestenes and Stiefel, 1952)."""
    gradient = func.grad(lambda p: loss(p, x, y))

    def curvature(v: Params) -> Params:
        product = func.jvp(gradient, (params,), (v,))[1]
        return tuple(p + damping * q for p, q in zip(product, v, strict=True))

    def dot(a: Params, b: Params) -> jitgrad.Tensor:
        total = (a[0] * b[0]).sum()
        for p, q in zip(a[1:], b[1:], strict=True):
            total = total + (p * q).sum()
        return total

    residual = direction = tuple(-g for g in gradient(params))
    step = tuple(jitgrad.zeros_like(p) for p in params)
    square = dot(residual, residual)
    for _ in range(CG_STEPS):
        bent = curvature(direction)
        along = dot(direction, bent)
        # where the surface bends down, a Newton step would climb: stay
        length = jitgrad.where(along > 0, square / along, 0.0)
        step = tuple(s + length * d for s, d in zip(step, direction, strict=True))
        residual = tuple(r - length * b for r, b in zip(residual, bent, strict=True))
        new_square = dot(residual, residual)
        ratio = jitgrad.where(along > 0, new_square / square, 0.0)
        direction = tuple(r + ratio * d for r, d in zip(residual, direction, strict=True))
        square = new_square
    trial = tuple(p + s for p, s in zip(params, step, strict=True))
    return trial, loss(trial, x, y)


def train(step: Callable[..., tuple[Params, jitgrad.Tensor]], x: jitgrad.Tensor, y: jitgrad.Tensor) -> Params:
    """Take the steps that go down; where one would not, trust the curvature less (Levenberg and Marquardt)."""
    jitgrad.manual_seed(0)
    params: Params = (jitgrad.randn(1, WIDTH) * 2, jitgrad.randn(WIDTH), jitgrad.randn(WIDTH) * 0.3)
    losses, damping = [loss(params, x, y).item()], 0.1
    for _ in range(STEPS):
        start = time.perf_counter()
        trial, value = step(params, x, y, damping)
        went_down = value.item() < losses[-1]
        last = time.perf_counter() - start
        if went_down:
            params = trial
            losses.append(value.item())
        damping *= 0.5 if went_down else 4.0
    print(f"loss {losses[0]:.6f} {losses[-1]:.6f}; the last step took {1e3 * last:.2f} ms")
    return params


def main() -> None:
    """Train eagerly and compiled, and look at single examples."""
    points = np.linspace(-2, 2, 64, dtype=np.float32)[:, None]
    x, y = jitgrad.tensor(points), jitgrad.tensor(np.sin(2 * points[:, 0]))
    print("eager:    ", end="")
    train(newton_step, x, y)
    print("compiled: ", end="")
    params = train(jitgrad.compile(newton_step), x, y)
    print(f"segments per step: {jitgrad.stats()['segments'] // STEPS}")
    each = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(params, x, y)
    norms = sum((g.reshape(64, -1) ** 2).sum(1) for g in each)
    hardest = int(norms.argmax())
    print(f"the example that pulls hardest is x = {float(points[hardest, 0]):.2f}")


if __name__ == "__main__":
    main()
