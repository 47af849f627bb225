"""Training steps whose inputs have other extents at each call, for ``test_path_families.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import jitgrad as jg
from jitgrad import nn, optim
from jitgrad.nn import functional as F

__all__ = ["PROGRAMS", "Data", "Step"]

Step = Callable[..., Any]
Data = Callable[[np.random.Generator, int], tuple[Any, ...]]


def _mlp() -> tuple[Step, Data]:
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = optim.Adam(model.parameters(), 1e-2)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, lambda rng, n: (rng.standard_normal((n, 10)), rng.integers(0, 4, n))


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(300, 16)
        self.norm, self.qkv, self.out, self.head = nn.LayerNorm(16), *(nn.Linear(16, n) for n in (48, 16, 50))

    def forward(self, words: Any) -> Any:
        x = self.words(words) + self.places(jg.arange(words.shape[1]))
        b, t, c = x.shape
        parts = self.qkv(self.norm(x)).split(c, dim=2)
        q, k, v = (part.view(b, t, 2, c // 2).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).contiguous().view(b, t, c)
        return self.head(x + self.out(y))


def _attention() -> tuple[Step, Data]:
    model = _Attention()
    optimizer = optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def step(x: Any, y: Any) -> Any:
        logits = model(x)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, lambda rng, n: (rng.integers(0, 50, (3, n)), rng.integers(0, 50, (3, n)))


def _recurrent() -> tuple[Step, Data]:
    """Its first event is no input: zeros for each sequence of the batch."""
    model, head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 3)
    optimizer = optim.SGD([*model.parameters(), *head.parameters()], 0.1)

    def step(x: Any, y: Any) -> Any:
        out, _ = model(x)
        loss = F.cross_entropy(head(out[:, -1]), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, lambda rng, n: (rng.standard_normal((n, 5, 8)), rng.integers(0, 3, n))


def _graph() -> tuple[Step, Data]:
    """Two extents that have nothing to do with each other."""
    weights = [(jg.rand(8, 8) - 0.5).requires_grad_(), (jg.rand(8, 3) - 0.5).requires_grad_()]

    def step(x: Any, ends: Any, y: Any) -> Any:
        h = x @ weights[0]
        h = (h + jg.zeros_like(h).index_add(0, ends[1], h[ends[0]])).relu()
        loss = F.cross_entropy(h @ weights[1], y)
        loss.backward()
        with jg.no_grad():
            for w in weights:
                w -= 0.01 * w.grad
                w.grad = None
        return loss.detach()

    def data(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
        return rng.standard_normal((n, 8)), rng.integers(0, n, (2, int(rng.integers(30, 200)))), rng.integers(0, 3, n)

    return step, data


def _sets() -> tuple[Step, Data]:
    model, head = nn.Sequential(nn.Linear(3, 16), nn.Tanh()), nn.Linear(16, 1)
    optimizer = optim.SGD([*model.parameters(), *head.parameters()], 0.01)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        z = model(x)
        loss = ((head(z.mean(0) + z.max(0).values + z.std(0)) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, lambda rng, n: (rng.standard_normal((n, 3)), rng.standard_normal(1))


def _masked() -> tuple[Step, Data]:
    words, head = nn.Embedding(30, 16), nn.Linear(16, 30)
    parameters = [*words.parameters(), *head.parameters()]
    optimizer = optim.Adam(parameters, 1e-2)

    def step(x: Any, mask: Any) -> Any:
        optimizer.zero_grad()
        logs = head(words(x)).log_softmax(-1)
        loss = -(logs[:, :-1].gather(2, x[:, 1:, None]).squeeze(2) * mask[:, 1:]).sum() / mask[:, 1:].sum()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return loss.detach()

    return step, lambda rng, n: (rng.integers(0, 30, (3, n)), (rng.random((3, n)) < 0.9) * 1.0)


def _forward() -> tuple[Step, Data]:
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 4))

    def step(x: Any) -> Any:
        with jg.no_grad():
            return model(x).softmax(-1).flip(0).cumsum(0)[-1]

    return step, lambda rng, n: (rng.standard_normal((n, 10)),)


def _in_place() -> tuple[Step, Data]:
    scale = jg.full((6,), 0.5, requires_grad=True)

    def step(x: Any) -> Any:
        y = jg.cat([x * scale, x.exp()])
        y.mul_(2.0).clamp_(-3, 3)
        y.add_(x.mean(0))
        loss = F.pad(y, (1, 2)).sum(1).pow(2).mean()
        loss.backward()
        with jg.no_grad():
            scale.sub_(scale.grad * 1e-3)
        scale.grad = None
        return loss.detach()

    return step, lambda rng, n: (rng.standard_normal((n, 6)),)


def _positions() -> tuple[Step, Data]:
    """Integers that are the graph: where a slice begins, a row, a length."""
    table = jg.from_numpy(np.random.default_rng(5).standard_normal((500, 4)).astype(np.float32))
    w = (jg.rand(4) - 0.5).requires_grad_()

    def step(at: Any) -> Any:
        n = int(at)
        loss = ((table[n : n + 32] * w).sum(1) - table[n + 40, 0]).pow(2).mean() + table[:n].mean() * w[0]
        loss.backward()
        with jg.no_grad():
            w.sub_(w.grad * 0.01)
        w.grad = None
        return loss.detach()

    return step, lambda rng, n: (np.int64(n),)


def _trained(parameters: Any, loss_of: Callable[..., Any]) -> Step:
    parameters = [*parameters]
    optimizer = optim.Adam(parameters, 1e-3)

    def step(*args: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(*args)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def _normed() -> tuple[Step, Data]:
    """The running variance is multiplied by n / (n - 1), a float that Python computes."""
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
    step = _trained(model.parameters(), lambda x, y: F.mse_loss(model(x), y))
    return step, lambda rng, n: (rng.standard_normal((n, 6)), rng.standard_normal((n, 1)))


def _text() -> tuple[Step, Data]:
    """Windows along the extent that changes."""
    words, head = nn.Embedding(30, 8), nn.Linear(16, 4)
    windows = nn.Sequential(nn.Conv1d(8, 16, 3, padding=1), nn.ReLU(), nn.Conv1d(16, 16, 3, padding=2, dilation=2))
    parameters = [*words.parameters(), *windows.parameters(), *head.parameters()]

    def loss_of(x: Any, y: Any) -> Any:
        return F.cross_entropy(head(windows(words(x).transpose(1, 2)).max(2).values), y)

    return _trained(parameters, loss_of), lambda rng, n: (rng.integers(0, 30, (8, n)), rng.integers(0, 4, 8))


def _images() -> tuple[Step, Data]:
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2), nn.Flatten(), nn.Linear(72, 5)
    )
    step = _trained(model.parameters(), lambda x, y: F.cross_entropy(model(x), y))
    return step, lambda rng, n: (rng.standard_normal((n // 2, 1, 9, 9)), rng.integers(0, 5, n // 2))


def _segmented() -> tuple[Step, Data]:
    """Images of other heights through a pool and a padded convolution."""
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 2, 1))
    step = _trained(model.parameters(), lambda x: model(x).square().mean())
    return step, lambda rng, n: (rng.standard_normal((2, 1, n, 24)),)


def _residual() -> tuple[Step, Data]:
    """A differential equation at ever new points, their number included."""
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))

    def loss_of(points: Any) -> Any:
        x = points.clone().requires_grad_()
        u = model(x)
        (first,) = jg.autograd.grad(u.sum(), x, create_graph=True)
        (second,) = jg.autograd.grad(first[:, 0].sum(), x, create_graph=True)
        return (second[:, 0] - first[:, 1] - u.squeeze(1)).pow(2).mean()

    return _trained(model.parameters(), loss_of), lambda rng, n: (rng.standard_normal((n, 2)),)


def _penalty() -> tuple[Step, Data]:
    """A discriminator whose gradients are kept near 1."""
    model = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    def loss_of(real: Any, made: Any) -> Any:
        x = ((real + made) / 2).requires_grad_()
        y = model(x)
        (grad,) = jg.autograd.grad(y, x, jg.ones_like(y), create_graph=True)
        return model(made).mean() - model(real).mean() + 10 * (grad.norm(2, dim=1) - 1).pow(2).mean()

    step = _trained(model.parameters(), loss_of)
    return step, lambda rng, n: (rng.standard_normal((n, 4)), rng.standard_normal((n, 4)))


def _forces() -> tuple[Step, Data]:
    """Of an energy of pairs, by their gradient; n (n - 1) / 2 pairs."""
    model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))

    def loss_of(places: Any, forces: Any) -> Any:
        x = places.clone().requires_grad_()
        distances = (x[:, None] - x[None]).pow(2).sum(-1)
        ends = jg.triu_indices(len(x), len(x), 1)
        energy = model((distances[ends[0], ends[1]] + 1e-3).sqrt()[:, None]).sum()
        (grad,) = jg.autograd.grad(energy, x, create_graph=True)
        return (grad + forces).pow(2).mean()

    step = _trained(model.parameters(), loss_of)
    return step, lambda rng, n: (rng.standard_normal((n, 3)), rng.standard_normal((n, 3)))


def _policy() -> tuple[Step, Data]:
    """Episodes of any length; one index is computed, the other comes from outside."""
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))

    def loss_of(states: Any, actions: Any, rewards: Any) -> Any:
        chosen = F.log_softmax(model(states), -1)[jg.arange(len(actions)), actions]
        return -(chosen * (rewards - rewards.mean()) / (rewards.std() + 1e-6)).sum()

    def data(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
        return rng.standard_normal((n, 4)), rng.integers(0, 3, n), rng.standard_normal(n)

    return _trained(model.parameters(), loss_of), data


def _series() -> tuple[Step, Data]:
    """A recurrence over series of other lengths, from states that are made before the series is looked at."""
    layer, head = nn.LSTM(3, 12), nn.Linear(12, 2)

    def loss_of(x: Any, y: Any) -> Any:
        start = jg.zeros(1, 4, 12)
        return (head(layer(x, (start, start))[0][-1]) - y).square().mean()

    step = _trained([*layer.parameters(), *head.parameters()], loss_of)
    return step, lambda rng, n: (rng.standard_normal((n, 4, 3)), rng.standard_normal((4, 2)))


def _sequences() -> tuple[Step, Data]:
    """Packed sequences: few numbers of steps, which come again, and ever other numbers of rows."""
    layer, rnn = nn.GRU(3, 12, bidirectional=True), nn.utils.rnn

    def loss_of(x: Any, lengths: Any) -> Any:
        out, last = layer(rnn.pack_padded_sequence(x, lengths, enforce_sorted=False))
        return rnn.pad_packed_sequence(out)[0].square().mean() + last.mean()

    def data(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
        lengths = rng.integers(2, 9 + n % 5, 7)
        lengths[rng.integers(0, 7)] = 9 + n % 5
        return rng.standard_normal((9 + n % 5, 7, 3)), lengths

    return _trained(layer.parameters(), loss_of), data


def _spectrum() -> tuple[Step, Data]:
    """Transforms, which have no kernels, with complex numbers between them."""
    w = jg.randn(6, 6, requires_grad=True)

    def step(x: Any, y: Any) -> Any:
        w.grad = None
        spectrum = jg.fft.rfft(x @ w, dim=0)
        found = jg.fft.irfft(spectrum * spectrum.abs().mean() * 0.1, n=x.shape[0], dim=0)
        loss = (found - y[:, None]).square().mean() + (spectrum[1:] * spectrum[:-1].conj()).real.mean() * 1e-3
        loss.backward()
        return jg.cat([loss.detach().reshape(1), w.grad.flatten()])

    return step, lambda rng, n: (rng.standard_normal((n, 6)), rng.standard_normal(n))


PROGRAMS = {
    f.__name__[1:]: f
    for f in (
        _mlp, _attention, _recurrent, _graph, _sets, _masked, _forward, _in_place, _positions, _normed, _text, _images,
        _segmented, _residual, _penalty, _forces, _policy, _series, _sequences, _spectrum,
    )
}  # fmt: skip
