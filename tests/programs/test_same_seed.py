"""A script of PyTorch's gives its own losses: the same seed, and nothing copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad

torch: Any = pytest.importorskip("torch")


def _losses(t: Any, wrap: Any) -> list[float]:
    """An MLP with dropout, on shuffled batches of data that are drawn, too."""
    nn, F = t.nn, t.nn.functional
    t.manual_seed(1234)
    x = t.randn(200, 12)
    y = t.randint(0, 4, (200,))
    model = nn.Sequential(
        nn.Linear(12, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 32), nn.Tanh(), nn.Dropout(0.5), nn.Linear(32, 4)
    )
    optimizer = t.optim.Adam(model.parameters(), lr=1e-2)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    step = wrap(step)
    losses = []
    for _ in range(4):
        for rows in t.randperm(200).split(40):
            losses.append(step(x[rows], y[rows]).item())
    return losses


MODELS: dict[str, tuple[Any, tuple[int, ...], Any]] = {
    "lstm": (lambda nn: nn.LSTM(5, 7, 3, dropout=0.4), (6, 4, 5), lambda m, x: m(x)[0]),
    "gru": (lambda nn: nn.GRU(5, 7, 2, dropout=0.4, batch_first=True), (4, 6, 5), lambda m, x: m(x)[0]),
    "attention": (
        lambda nn: nn.MultiheadAttention(12, 3, dropout=0.3), (6, 4, 12), lambda m, x: m(x, x, x, need_weights=False)[0]
    ),
    "attention, batch first": (
        lambda nn: nn.ModuleList([nn.MultiheadAttention(12, 3, dropout=0.3, batch_first=True), nn.Dropout(0.4)]),
        (4, 6, 12),
        lambda m, x: m[1](m[0](x, x, x)[0]),
    ),
    "transformer": (
        lambda nn: nn.TransformerEncoderLayer(12, 3, 16, 0.3, batch_first=True), (4, 6, 12), lambda m, x: m(x)
    ),
    "decoder": (
        lambda nn: nn.TransformerDecoderLayer(12, 3, 16, 0.3, batch_first=True), (4, 6, 12), lambda m, x: m(x, x * 2)
    ),
    "dropout after an lstm": (
        lambda nn: nn.ModuleList([nn.LSTM(5, 7, 2, dropout=0.2, batch_first=True), nn.Dropout(0.4)]),
        (4, 6, 5),
        lambda m, x: m[1](m[0](x)[0]),
    ),
    "dropout after an lstm with projections": (
        lambda nn: nn.ModuleList([nn.LSTM(5, 7, proj_size=3, batch_first=True), nn.Dropout(0.4)]),
        (4, 6, 5),
        lambda m, x: m[1](m[0](x)[0]),
    ),
    "convolution": (
        lambda nn: nn.Sequential(
            nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Dropout2d(0.3), nn.Flatten(), nn.Linear(96, 4), nn.RReLU()
        ),
        (5, 3, 6, 6),
        lambda m, x: m(x),
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("name", MODELS)
def test_models_in_training(name: str, mode: Any) -> None:
    """Starting values, dropout between layers, gradients, and where the stream is afterwards."""
    make, shape, call = MODELS[name]

    def run(t: Any) -> list[Any]:
        t.manual_seed(5)
        model, x = make(t.nn), t.randn(shape)
        out = call(model, x)
        (out**2).mean().backward()
        return [out.detach(), *[p.grad for p in model.parameters()], t.rand(3)]

    own, theirs = mode.run(lambda: run(jitgrad)), run(torch)
    for a, b in zip(own, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(own[-1].numpy(), theirs[-1].numpy())


def _identity(step: Any) -> Any:
    return step


@pytest.mark.parametrize("wrap", [_identity, jitgrad.compile], ids=["eager", "compiled"])
def test_twenty_losses(wrap: Any) -> None:
    own, theirs = _losses(jitgrad, wrap), _losses(torch, _identity)
    assert len(own) == 20
    assert own[0] == pytest.approx(theirs[0], rel=1e-6)
    np.testing.assert_allclose(own, theirs, rtol=2e-4)


_LAYOUTS = [lambda t: t.ones(6, 8)[:, ::2], lambda t: t.ones(4, 6).t(), lambda t: t.ones(3, 1).expand(3, 8)]


@pytest.mark.parametrize("make", _LAYOUTS)
def test_like_what_has_gaps(make: Any) -> None:
    """Numbers for a tensor of another one's layout: where that has gaps, the result has none."""
    for draw in ("randn_like", "rand_like"):
        found = []
        for t in (torch, jitgrad):
            t.manual_seed(3)
            found.append(getattr(t, draw)(make(t)))
        assert found[0].stride() == found[1].stride()
        np.testing.assert_array_equal(found[1].numpy(), found[0].numpy())
