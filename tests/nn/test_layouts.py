"""How the results of modules lie in memory: as PyTorch's, or what is drawn for them would be other numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad

torch: Any = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

_SEQUENCES: dict[str, Callable[[Any], Any]] = {
    "lstm": lambda nn: nn.LSTM(8, 7, 2, batch_first=True, dropout=0.3),
    "lstm, both ways": lambda nn: nn.LSTM(8, 7, 2, batch_first=True, bidirectional=True),
    "lstm, steps first": lambda nn: nn.LSTM(8, 7, 2, dropout=0.3),
    "lstm with projections": lambda nn: nn.LSTM(8, 7, proj_size=3, batch_first=True),
    "gru": lambda nn: nn.GRU(8, 7, 2, batch_first=True, dropout=0.3),
    "rnn": lambda nn: nn.RNN(8, 7, batch_first=True),
    "encoder": lambda nn: nn.TransformerEncoderLayer(8, 2, 16, 0.3, batch_first=True),
    "encoder, norm first": lambda nn: nn.TransformerEncoderLayer(8, 2, 16, 0.3, batch_first=True, norm_first=True),
    "encoder, steps first": lambda nn: nn.TransformerEncoderLayer(8, 2, 16, 0.3),
    "linear": lambda nn: nn.Linear(8, 5),
    "norm": lambda nn: nn.LayerNorm(8),
    "gates": lambda nn: nn.GLU(),
    "softmax": lambda nn: nn.Softmax(-1),
    "dropout": lambda nn: nn.AlphaDropout(0.3),
}
_IMAGES: dict[str, Callable[[Any], Any]] = {
    "convolution": lambda nn: nn.Conv2d(4, 6, 3),
    "transposed": lambda nn: nn.ConvTranspose2d(4, 6, 3),
    "maxima": lambda nn: nn.MaxPool2d(2),
    "means": lambda nn: nn.AdaptiveAvgPool2d(3),
    "batch norm": lambda nn: nn.BatchNorm2d(4),
    "group norm": lambda nn: nn.GroupNorm(2, 4),
    "instance norm": lambda nn: nn.InstanceNorm2d(4),
    "larger": lambda nn: nn.Upsample(scale_factor=2, mode="bilinear"),
    "shuffled": lambda nn: nn.PixelUnshuffle(2),
    "channels": lambda nn: nn.ChannelShuffle(2),
    "unfolded": lambda nn: nn.Unfold(3),
    "padded": lambda nn: nn.ReflectionPad2d(1),
    "dropped": lambda nn: nn.Dropout2d(0.3),
}


def _tensors(found: Any) -> Iterator[Any]:
    if isinstance(found, tuple):
        for one in found:
            yield from _tensors(one)
    elif found is not None:
        yield found


def _results(t: Any, make: Callable[[Any], Any], shape: tuple[int, ...], run: Any) -> list[tuple[Any, Any]]:
    t.manual_seed(0)
    module = make(t.nn)
    x = t.from_numpy(np.random.default_rng(0).standard_normal(shape).astype(np.float32))

    def step() -> Any:
        t.manual_seed(5)
        return tuple(y.detach() for y in _tensors(module(x)))

    return [(y.stride(), y.numpy()) for y in run(step)]


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(("make", "shape"), [
    *[pytest.param(make, (4, 6, 8), id=name) for name, make in _SEQUENCES.items()],
    *[pytest.param(make, (2, 4, 8, 8), id=name) for name, make in _IMAGES.items()],
])  # fmt: skip
def test_results_lie_as_pytorchs(make: Callable[[Any], Any], shape: tuple[int, ...], mode: Mode) -> None:
    wanted = _results(torch, make, shape, lambda step: step())
    found = _results(jitgrad, make, shape, mode.run)
    for (stride, values), (want_stride, want) in zip(found, wanted, strict=True):
        assert stride == want_stride
        np.testing.assert_allclose(values, want, rtol=1e-4, atol=1e-5)
