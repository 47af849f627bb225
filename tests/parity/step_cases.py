"""Realistic training steps, each written once over ``lib`` (torch or jitgrad).

A case makes its state (parameters and whatever lives between calls), a batch per iteration, and does one step. What it
returns, the state's tensors and their ``.grad`` are compared between libraries after every iteration.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["CASES", "Case", "Maker", "outside"]


class Maker:
    """Random tensors of one library and dtype; the same numbers for every library."""

    def __init__(self, lib: Any, dtype: str, seed: int) -> None:
        self.lib = lib
        self.dtype = getattr(lib, dtype)
        self._rng = np.random.default_rng(seed)

    def __call__(self, *shape: int, scale: float = 0.5) -> Any:
        """A normal constant."""
        return self.lib.tensor(self._rng.normal(size=shape) * scale, dtype=self.dtype)

    def leaf(self, *shape: int, scale: float = 0.5) -> Any:
        """A normal parameter."""
        return self(*shape, scale=scale).requires_grad_()

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Any:
        return self.lib.tensor(self._rng.uniform(low, high, size=shape), dtype=self.dtype)

    def ints(self, high: int, *shape: int) -> Any:
        return self.lib.tensor(self._rng.integers(0, high, size=shape), dtype=self.lib.int64)


State = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One step. ``step(lib, state, *batch)``."""

    name: str
    state: Callable[[Maker], State]
    batch: Callable[[Maker], tuple[Any, ...]]
    step: Callable[..., Any]


CASES: list[Case] = []


def case(state: Callable[[Maker], State], batch: Callable[[Maker], tuple[Any, ...]]) -> Callable[[Any], Any]:
    """Register the decorated step under its own name."""

    def register(step: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append(Case(step.__name__, state, batch, step))
        return step

    return register


def leaves(state: State) -> list[Any]:
    return [t for t in state.values() if getattr(t, "requires_grad", False)]


_waiting: list[list[tuple[Any, float]]] = []


def outside(step: Callable[..., Any], compiled: Callable[[Any], Any]) -> Callable[..., Any]:
    """A step whose loss is computed by a compiled function, and differentiated outside."""

    def without_backward(*args: Any) -> Any:
        losses: list[tuple[Any, float]] = []
        _waiting.append(losses)
        try:
            return step(*args), losses
        finally:
            _waiting.pop()

    forward = compiled(without_backward)

    def call(lib: Any, state: State, *batch: Any) -> Any:
        result, losses = forward(lib, state, *batch)
        for loss, lr in losses:
            descend(lib, state, loss, lr)
        return result

    return call


def descend(lib: Any, state: State, loss: Any, lr: float = 0.1) -> Any:
    """Backward, and one step of plain gradient descent with fresh gradients."""
    if _waiting:
        _waiting[-1].append((loss, lr))
        return loss
    for p in leaves(state):
        p.grad = None
    loss.backward()
    with lib.no_grad():
        for p in leaves(state):
            p -= lr * p.grad
    return loss


# ---- perceptrons ----------------------------------------------------------------------------------------------

ACTIVATIONS = ("relu tanh sigmoid gelu silu elu leaky_relu softplus selu mish hardswish hardtanh relu6 softsign "
               "logsigmoid celu").split()  # fmt: skip


def mlp_state(m: Maker) -> State:
    return {"w1": m.leaf(6, 5), "b1": m.leaf(5), "w2": m.leaf(5, 3), "b2": m.leaf(3)}


def _mlp(activation: str) -> Callable[..., Any]:
    def step(lib: Any, s: State, x: Any, y: Any) -> Any:
        hidden = getattr(lib.nn.functional, activation)(x @ s["w1"] + s["b1"])
        return descend(lib, s, ((hidden @ s["w2"] + s["b2"] - y) ** 2).mean())

    return step


for _name in ACTIVATIONS:
    CASES.append(Case(f"mlp_{_name}", mlp_state, lambda m: (m(4, 6), m(4, 3)), _mlp(_name)))

LOSSES: dict[str, Callable[..., Any]] = {
    "mse": lambda f, z, y: f.mse_loss(z, y),
    "mse_sum": lambda f, z, y: f.mse_loss(z, y, reduction="sum"),
    "l1": lambda f, z, y: f.l1_loss(z, y),
    "smooth_l1": lambda f, z, y: f.smooth_l1_loss(z, y),
    "huber": lambda f, z, y: f.huber_loss(z, y, delta=0.3),
    "bce_logits": lambda f, z, y: f.binary_cross_entropy_with_logits(z, y.sigmoid()),
    "bce": lambda f, z, y: f.binary_cross_entropy(z.sigmoid(), y.sigmoid()),
    "kl": lambda f, z, y: f.kl_div(f.log_softmax(z, dim=1), f.softmax(y, dim=1), reduction="batchmean"),
    "cross_entropy": lambda f, z, y: f.cross_entropy(z, y.argmax(1)),
    "cross_entropy_soft": lambda f, z, y: f.cross_entropy(z, f.softmax(y, dim=1)),
    "cross_entropy_smoothed": lambda f, z, y: f.cross_entropy(z, y.argmax(1), label_smoothing=0.1),
    "nll": lambda f, z, y: f.nll_loss(f.log_softmax(z, dim=1), y.argmax(1)),
}


def _loss_step(loss: Callable[..., Any]) -> Callable[..., Any]:
    def step(lib: Any, s: State, x: Any, y: Any) -> Any:
        z = (x @ s["w1"] + s["b1"]).tanh() @ s["w2"] + s["b2"]
        return descend(lib, s, loss(lib.nn.functional, z, y))

    return step


for _name, _loss in LOSSES.items():
    CASES.append(Case(f"loss_{_name}", mlp_state, lambda m: (m(4, 6), m(4, 3)), _loss_step(_loss)))


# ---- layers ---------------------------------------------------------------------------------------------------


@case(lambda m: {"w": m.leaf(6, 6), "g": m.leaf(6), "b": m.leaf(6)}, lambda m: (m(4, 6), m(4, 6)))
def layer_norm(lib: Any, s: State, x: Any, y: Any) -> Any:
    h = lib.nn.functional.layer_norm(x @ s["w"], (6,), s["g"], s["b"])
    return descend(lib, s, ((h - y) ** 2).mean())


@case(lambda m: {"w": m.leaf(6, 6), "g": m.leaf(6), "b": m.leaf(6)}, lambda m: (m(4, 6), m(4, 6)))
def layer_norm_by_hand(lib: Any, s: State, x: Any, y: Any) -> Any:
    h = x @ s["w"]
    centred = h - h.mean(-1, keepdim=True)
    h = centred * (centred.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * s["g"] + s["b"]
    return descend(lib, s, ((h - y) ** 2).mean())


@case(lambda m: {"q": m.leaf(8, 8), "k": m.leaf(8, 8), "v": m.leaf(8, 8), "o": m.leaf(8, 8)},
      lambda m: (m(2, 5, 8), m(2, 5, 8)))  # fmt: skip
def attention(lib: Any, s: State, x: Any, y: Any) -> Any:
    q, k, v = ((x @ s[n]).reshape(2, 5, 2, 4).transpose(1, 2) for n in "qkv")
    weights = (q @ k.transpose(-1, -2) / math.sqrt(4)).softmax(-1)
    out = (weights @ v).transpose(1, 2).reshape(2, 5, 8) @ s["o"]
    return descend(lib, s, ((out - y) ** 2).mean()), weights.detach()


@case(lambda m: {"qkv": m.leaf(8, 24), "o": m.leaf(8, 8)}, lambda m: (m(2, 5, 8), m(2, 5, 8)))
def causal_attention(lib: Any, s: State, x: Any, y: Any) -> Any:
    q, k, v = (x @ s["qkv"]).split(8, dim=-1)
    mask = lib.ones(5, 5).tril() == 0
    scores = (q @ k.transpose(-2, -1)).masked_fill(mask, float("-inf"))
    out = x + scores.softmax(-1) @ v @ s["o"]
    return descend(lib, s, ((out - y) ** 2).mean())


@case(lambda m: {"wx": m.leaf(4, 5), "wh": m.leaf(5, 5), "b": m.leaf(5)}, lambda m: (m(6, 3, 4), m(3, 5)))
def rnn(lib: Any, s: State, xs: Any, y: Any) -> Any:
    h = lib.zeros(3, 5, dtype=xs.dtype)
    for x in xs:
        h = (x @ s["wx"] + h @ s["wh"] + s["b"]).tanh()
    return descend(lib, s, ((h - y) ** 2).mean())


@case(lambda m: {"wx": m.leaf(4, 20), "wh": m.leaf(5, 20), "b": m.leaf(20)}, lambda m: (m(4, 3, 4), m(3, 5)))
def lstm(lib: Any, s: State, xs: Any, y: Any) -> Any:
    h = c = lib.zeros(3, 5, dtype=xs.dtype)
    for t in range(xs.shape[0]):
        i, f, g, o = (xs[t] @ s["wx"] + h @ s["wh"] + s["b"]).chunk(4, dim=1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    return descend(lib, s, ((h - y) ** 2).sum())


@case(lambda m: {"e": m.leaf(10, 4), "w": m.leaf(4, 3)}, lambda m: (m.ints(10, 5, 6), m.ints(3, 5)))
def embedding_mean(lib: Any, s: State, tokens: Any, y: Any) -> Any:
    z = lib.nn.functional.embedding(tokens, s["e"]).mean(1) @ s["w"]
    return descend(lib, s, lib.nn.functional.cross_entropy(z, y))


@case(lambda m: {"w": m.leaf(3, 2, 3, 3), "b": m.leaf(3), "v": m.leaf(27, 2)}, lambda m: (m(2, 2, 6, 6), m(2, 2)))
def convolution(lib: Any, s: State, x: Any, y: Any) -> Any:
    f = lib.nn.functional
    h = f.max_pool2d(f.relu(f.conv2d(x, s["w"], s["b"], padding=1)), 2)
    return descend(lib, s, ((h.flatten(1) @ s["v"] - y) ** 2).mean())


# ---- science --------------------------------------------------------------------------------------------------


@case(lambda m: {"w1": m.leaf(1, 8), "b1": m.leaf(8), "w2": m.leaf(8, 1)}, lambda m: (m(7, 1),))
def pinn(lib: Any, s: State, x: Any) -> Any:
    x = x.requires_grad_()
    u = (x @ s["w1"] + s["b1"]).tanh() @ s["w2"]
    (du,) = lib.autograd.grad(u.sum(), x, create_graph=True)
    (ddu,) = lib.autograd.grad(du.sum(), x, create_graph=True)
    return descend(lib, s, ((ddu + u) ** 2).mean() + (du**2).mean() * 0.1), du.detach()


@case(lambda m: {"w": m.leaf(5), "b": m.leaf()}, lambda m: (m(8, 5), m.ints(2, 8)))
def logistic_regression(lib: Any, s: State, x: Any, y: Any) -> Any:
    z = x @ s["w"] + s["b"]
    loss = (lib.log1p((-z.abs()).exp()) + z.clamp(min=0) - z * y).mean() + 0.01 * (s["w"] ** 2).sum()
    return descend(lib, s, loss), ((z > 0) == (y == 1)).sum()


@case(lambda m: {"vol": m.uniform(6, low=0.1, high=0.4).requires_grad_()},
      lambda m: (m.uniform(6, low=80, high=120), m.uniform(6, low=0.2, high=2)))  # fmt: skip
def black_scholes(lib: Any, s: State, spot: Any, time: Any) -> Any:
    spot = spot.requires_grad_()
    spread = s["vol"] * time.sqrt()
    d1 = ((spot / 100.0).log() + (0.03 + s["vol"] ** 2 / 2) * time) / spread
    cdf = [0.5 * (1 + lib.erf(d / math.sqrt(2))) for d in (d1, d1 - spread)]
    price = spot * cdf[0] - 100.0 * (-0.03 * time).exp() * cdf[1]
    (delta,) = lib.autograd.grad(price.sum(), spot, create_graph=True)
    (gamma,) = lib.autograd.grad(delta.sum(), spot, retain_graph=True)
    return descend(lib, s, ((price - 10.0) ** 2).mean(), 1e-5), delta.detach(), gamma


@case(lambda m: {"x": m.leaf(5, 3), "v": m(5, 3)}, lambda m: (0.01,))
def n_body(lib: Any, s: State, dt: float) -> Any:
    x, v = s["x"], s["v"]
    for _ in range(3):
        d = x.unsqueeze(0) - x.unsqueeze(1)
        r = ((d**2).sum(-1) + 0.1).sqrt()
        v = v + dt * (d / r.unsqueeze(-1) ** 3).sum(1)
        x = x + dt * v
    return descend(lib, s, (x**2).sum() + (v**2).sum()), x.detach(), v.detach()


@case(lambda m: {"x": m.leaf(12)}, lambda m: ())
def rosenbrock(lib: Any, s: State) -> Any:
    a, b = s["x"][1:], s["x"][:-1]
    return descend(lib, s, (100 * (a - b**2) ** 2 + (1 - b) ** 2).sum(), 1e-4)


# ---- movement, selection, reduction ----------------------------------------------------------------------------


@case(lambda m: {"x": m.leaf(5, 4)}, lambda m: (m.ints(5, 7), m.ints(4, 5, 3)))
def indexing(lib: Any, s: State, rows: Any, columns: Any) -> Any:
    x = s["x"]
    loss = (x[rows] ** 2).sum() + (x.gather(1, columns) ** 3).sum() + x[1:4, ::2].exp().sum() + x[-1, None, ...].sum()
    return descend(lib, s, loss, 0.01)


@case(lambda m: {"x": m.leaf(7, 3)}, lambda m: (m.ints(5, 7, 3), m.ints(4, 7)))
def scatter(lib: Any, s: State, where: Any, rows: Any) -> Any:
    out = lib.zeros(5, 3, dtype=s["x"].dtype).scatter_add(0, where, s["x"])
    pooled = lib.zeros(4, 3, dtype=s["x"].dtype).index_add(0, rows, s["x"] * 2)
    return descend(lib, s, (out**2).sum() + pooled.sin().sum(), 0.01), out.detach(), pooled.detach()


@case(lambda m: {"a": m.leaf(2, 4), "b": m.leaf(3, 4), "c": m.leaf(2, 4)}, lambda m: (m(7, 4),))
def joining(lib: Any, s: State, x: Any) -> Any:
    joined = lib.cat([s["a"], s["b"], s["c"]], dim=0)
    stacked = lib.stack([s["a"], s["c"]], dim=1)
    first, second, rest = (joined * x).split([2, 3, 2])
    loss = (first * rest).sum() + second.exp().mean() + (stacked.flip(1) ** 2).sum() + joined.roll(1, 0)[0].sum()
    return descend(lib, s, loss), joined.detach()


@case(lambda m: {"x": m.leaf(3, 6)}, lambda m: (m(3, 6),))
def cumulative(lib: Any, s: State, y: Any) -> Any:
    return descend(lib, s, ((s["x"].cumsum(1) - y) ** 2).mean() + s["x"].cumsum(0).sin().sum() * 0.1)


@case(lambda m: {"x": m.leaf(4, 5)}, lambda m: (m(4, 5),))
def selecting(lib: Any, s: State, y: Any) -> Any:
    x = s["x"]
    chosen = lib.where(x > y, x, y * x)
    loss = chosen.sum() + (x.clamp(-0.3, 0.3) ** 2).sum() + lib.maximum(x, y).sum() + lib.minimum(x, y * y).sum()
    return descend(lib, s, loss + x.abs().sum())


@case(lambda m: {"x": m.leaf(3, 4)}, lambda m: (m.ints(2, 3, 4),))
def ties(lib: Any, s: State, bits: Any) -> Any:
    with lib.no_grad():
        s["x"].copy_(bits)
    x = s["x"]
    values, where = x.max(1)
    loss = x.amax(0).sum() + x.max() + (values * 2).sum() + x.amin().exp() + x.relu().sum() + lib.maximum(x, x).sum()
    return descend(lib, s, loss + x.abs().sum() + x.clamp(0, 1).sum()), where


@case(lambda m: {"x": m.leaf(3, 4, 2)}, lambda m: (m(3, 1, 2),))
def reductions(lib: Any, s: State, y: Any) -> Any:
    x = s["x"] * y
    loss = x.sum((0, 2)).exp().sum() + x.mean(1, keepdim=True).sum() + x.var(0).sum() + x.std(1, unbiased=False).sum()
    loss = loss + x.logsumexp(-1).sum() + x.norm() + (x + 2).prod(2).sum() + x.log_softmax(1)[0].sum()
    return descend(lib, s, loss, 0.01)


@case(lambda m: {"q": m.leaf(2, 3, 4), "k": m.leaf(2, 5, 4), "w": m.leaf(4, 3)}, lambda m: (m(3),))
def einsum(lib: Any, s: State, y: Any) -> Any:
    scores = lib.einsum("bqd,bkd->bqk", s["q"], s["k"])
    mixed = lib.einsum("bqk,bkd,de->bqe", scores.softmax(-1), s["k"], s["w"])
    return descend(lib, s, (mixed * y).sum() + lib.einsum("ij->j", s["w"]).exp().sum())


@case(lambda m: {"a": m.leaf(2, 1, 3, 4), "b": m.leaf(5, 4, 2), "v": m.leaf(2)}, lambda m: (m(3),))
def matrix_products(lib: Any, s: State, y: Any) -> Any:
    product = s["a"] @ s["b"]
    rows = product @ s["v"]
    return descend(lib, s, (rows * y).sum() + y @ rows[0, 0] + lib.outer(s["v"], y).sin().sum(), 0.01)


@case(lambda m: {"x": m.leaf(4, 3)}, lambda m: (m(3, 4),))
def views_and_writes(lib: Any, s: State, y: Any) -> Any:
    buffer = lib.zeros(4, 3, dtype=y.dtype)
    buffer[:2] = s["x"][2:] * 2
    buffer[2:] += s["x"][:2]
    buffer.t().mul_(y)
    buffer[0].fill_(1.0)
    return descend(lib, s, (buffer**2).sum()), buffer.detach()


# ---- training habits --------------------------------------------------------------------------------------------


def linear_state(m: Maker) -> State:
    return {"w": m.leaf(5, 3), "b": m.leaf(3)}


def linear_batch(m: Maker) -> tuple[Any, ...]:
    return m(4, 5), m(4, 3)


def linear_loss(s: State, x: Any, y: Any) -> Any:
    return ((x @ s["w"] + s["b"] - y) ** 2).mean()


@case(linear_state, linear_batch)
def weight_decay(lib: Any, s: State, x: Any, y: Any) -> Any:
    loss = linear_loss(s, x, y)
    loss.backward()
    with lib.no_grad():
        for p in leaves(s):
            p.mul_(1 - 0.1 * 0.01).sub_(p.grad, alpha=0.1)
            p.grad.zero_()
    return loss


@case(linear_state, linear_batch)
def clipped_by_norm(lib: Any, s: State, x: Any, y: Any) -> Any:
    loss = linear_loss(s, x, y)
    grads = lib.autograd.grad(loss, leaves(s))
    norm = sum((g**2).sum() for g in grads).sqrt()
    scale = (0.1 / (norm + 1e-6)).clamp(max=1.0)
    with lib.no_grad():
        for p, g in zip(leaves(s), grads, strict=True):
            p -= 0.1 * scale * g
    return loss, norm.item()


@case(linear_state, linear_batch)
def clipped_by_branch(lib: Any, s: State, x: Any, y: Any) -> Any:
    loss = linear_loss(s, x, y)
    for p in leaves(s):
        p.grad = None
    loss.backward()
    norm = sum(float((p.grad**2).sum()) for p in leaves(s)) ** 0.5
    with lib.no_grad():
        for p in leaves(s):
            if norm > 0.5:
                p.grad.mul_(0.5 / norm)
            p.sub_(p.grad)
    return loss.item(), norm


@case(linear_state, linear_batch)
def accumulated(lib: Any, s: State, x: Any, y: Any) -> Any:
    total = 0.0
    for rows in (slice(0, 2), slice(2, 4)):
        loss = linear_loss(s, x[rows], y[rows]) / 2
        loss.backward()
        total = total + loss.detach()
    with lib.no_grad():
        for p in leaves(s):
            p -= 0.1 * p.grad
            p.grad = None
    return total


@case(linear_state, linear_batch)
def never_cleared(lib: Any, s: State, x: Any, y: Any) -> Any:
    loss = linear_loss(s, x, y)
    loss.backward()
    with lib.no_grad():
        for p in leaves(s):
            p.add_(p.grad, alpha=-0.01)
    return loss


@case(lambda m: {**linear_state(m), "mw": m(5, 3) * 0, "mb": m(3) * 0}, linear_batch)
def momentum(lib: Any, s: State, x: Any, y: Any) -> Any:
    loss = linear_loss(s, x, y)
    loss.backward()
    with lib.no_grad():
        for p, m in ((s["w"], s["mw"]), (s["b"], s["mb"])):
            m.mul_(0.9).add_(p.grad)
            p.sub_(m * 0.1)
            p.grad = None
    return loss


@case(lambda m: {**linear_state(m), **{k: m(*n) * 0 for k, n in
                                       {"mw": (5, 3), "vw": (5, 3), "mb": (3,), "vb": (3,)}.items()}, "t": 0},
      linear_batch)  # fmt: skip
def adam_by_hand(lib: Any, s: State, x: Any, y: Any) -> Any:
    s["t"] += 1
    loss = linear_loss(s, x, y)
    grads = lib.autograd.grad(loss, [s["w"], s["b"]])
    with lib.no_grad():
        for name, g in zip("wb", grads, strict=True):
            m, v = s["m" + name], s["v" + name]
            m.lerp_(g, 0.1)
            v.mul_(0.99).addcmul_(g, g, value=0.01)
            s[name] -= 0.1 * (m / (1 - 0.9 ** s["t"])) / ((v / (1 - 0.99 ** s["t"])).sqrt() + 1e-8)
    return loss


def _with_optimizer(make: Callable[..., Any]) -> Callable[..., Any]:
    def step(lib: Any, s: State, x: Any, y: Any) -> Any:
        if "optimizer" not in s:
            s["optimizer"] = make(lib.optim, leaves(s))
        loss = linear_loss(s, x, y)
        s["optimizer"].zero_grad()
        loss.backward()
        s["optimizer"].step()
        return loss

    return step


OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "sgd_momentum": lambda o, ps: o.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "adam": lambda o, ps: o.Adam(ps, lr=0.05),
    "adamw": lambda o, ps: o.AdamW(ps, lr=0.05, weight_decay=0.1),
    "rmsprop": lambda o, ps: o.RMSprop(ps, lr=0.01),
    "adagrad": lambda o, ps: o.Adagrad(ps, lr=0.1),
}
for _name, _make in OPTIMIZERS.items():
    CASES.append(Case(f"optim_{_name}", linear_state, linear_batch, _with_optimizer(_make)))


@case(linear_state, lambda m: (*linear_batch(m), m(2, 5)))
def two_losses_one_graph(lib: Any, s: State, x: Any, y: Any, z: Any) -> Any:
    shared = (x @ s["w"] + s["b"]).tanh()
    first, second = (shared**2).mean(), ((shared - y).abs()).mean() + (z @ s["w"]).sum()
    first.backward(retain_graph=True)
    (0.5 * second).backward()
    with lib.no_grad():
        for p in leaves(s):
            p -= 0.1 * p.grad
            p.grad = None
    return first, second


@case(linear_state, linear_batch)
def line_search(lib: Any, s: State, x: Any, y: Any) -> Any:
    loss = linear_loss(s, x, y)
    grads = lib.autograd.grad(loss, leaves(s))
    rate, tries = 8.0, 0
    while True:
        trial = {k: (p - rate * g).detach() for (k, p), g in zip(s.items(), grads, strict=True)}
        tries += 1
        if linear_loss(trial, x, y).item() < loss.item():
            break
        rate /= 2
    with lib.no_grad():
        for k, p in s.items():
            p.copy_(trial[k])
    return loss, tries


@case(lambda m: {**linear_state(m), "mean": m(5) * 0}, linear_batch)
def running_statistics(lib: Any, s: State, x: Any, y: Any) -> Any:
    with lib.no_grad():
        s["mean"].mul_(0.9).add_(x.mean(0), alpha=0.1)
    return descend(lib, s, linear_loss(s, x - s["mean"], y)), s["mean"].clone()


@case(lambda m: {"w": m.leaf(4, 4)}, lambda m: (m(3, 4),))
def tied_weights(lib: Any, s: State, x: Any) -> Any:
    loss = ((x @ s["w"]).relu() @ s["w"].t() - x).pow(2).mean()
    return descend(lib, s, loss)


@case(lambda m: {"w": m.leaf(3, 3)}, lambda m: (m(3), m(3)))
def hessian_vector(lib: Any, s: State, x: Any, v: Any) -> Any:
    x = x.requires_grad_()
    f = ((s["w"] @ x).sin() * x).sum()
    (g,) = lib.autograd.grad(f, x, create_graph=True)
    (hv,) = lib.autograd.grad(g, x, grad_outputs=v, retain_graph=True)
    return descend(lib, s, (g**2).sum()), hv


@case(lambda m: {"w": m.leaf(5, 3), "inner": m.leaf(3)}, linear_batch)
def maml(lib: Any, s: State, x: Any, y: Any) -> Any:
    first = ((x @ s["w"] + s["inner"] - y) ** 2).mean()
    (g,) = lib.autograd.grad(first, s["w"], create_graph=True)
    fast = s["w"] - 0.1 * g
    return descend(lib, s, ((x @ fast + s["inner"] - y) ** 2).mean()), first
