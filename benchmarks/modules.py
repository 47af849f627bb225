"""``python -m benchmarks.modules``: every usual ``nn`` module, eagerly and on few numbers, against PyTorch.

Here a module costs what its Python, its operations and its graph cost; kernels have little to do. A module that does in
twenty operations what PyTorch does in one stands out.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks import alternating
from benchmarks.single import begin

__all__ = ["CASES", "main"]

Make = Callable[[Any], Any]
"""``nn`` -> a module."""

Shape = tuple[int, ...]

_SMALL, _ROWS, _SIGNAL, _IMAGE, _VOLUME, _TOKENS = (3, 4), (4, 8), (2, 4, 8), (2, 4, 8, 8), (1, 2, 4, 4, 4), (2, 5, 8)

_ACTIVATIONS = (
    "ReLU LeakyReLU ELU SELU CELU GELU SiLU Mish Sigmoid Tanh Softplus Softsign Tanhshrink Hardswish Hardtanh "
    "Hardsigmoid Hardshrink Softshrink ReLU6 LogSigmoid PReLU GLU"
)

_MODULES: dict[str, tuple[Make, Shape]] = {
    **{name: ((lambda nn, name=name: getattr(nn, name)()), _ROWS) for name in _ACTIVATIONS.split()},
    "Softmax": (lambda nn: nn.Softmax(1), _ROWS),
    "Softmin": (lambda nn: nn.Softmin(1), _ROWS),
    "LogSoftmax": (lambda nn: nn.LogSoftmax(1), _ROWS),
    "Threshold": (lambda nn: nn.Threshold(0.1, 2.0), _ROWS),
    "Flatten": (lambda nn: nn.Flatten(), _IMAGE),
    "Unflatten": (lambda nn: nn.Unflatten(1, (2, 4)), _ROWS),
    "Linear": (lambda nn: nn.Linear(8, 8), _ROWS),
    "Linear of (2, 5, 8)": (lambda nn: nn.Linear(8, 8), _TOKENS),
    "Conv1d": (lambda nn: nn.Conv1d(4, 4, 3), _SIGNAL),
    "Conv2d": (lambda nn: nn.Conv2d(4, 4, 3), _IMAGE),
    "Conv3d": (lambda nn: nn.Conv3d(2, 3, 3), _VOLUME),
    "ConvTranspose1d": (lambda nn: nn.ConvTranspose1d(4, 4, 3), _SIGNAL),
    "ConvTranspose2d": (lambda nn: nn.ConvTranspose2d(4, 4, 3), _IMAGE),
    "ConvTranspose3d": (lambda nn: nn.ConvTranspose3d(2, 3, 3), _VOLUME),
    "MaxPool1d": (lambda nn: nn.MaxPool1d(2), _SIGNAL),
    "MaxPool2d": (lambda nn: nn.MaxPool2d(2), _IMAGE),
    "MaxPool2d(3, 1, 1)": (lambda nn: nn.MaxPool2d(3, 1, 1), _IMAGE),
    "MaxPool3d": (lambda nn: nn.MaxPool3d(2), _VOLUME),
    "AvgPool1d": (lambda nn: nn.AvgPool1d(2), _SIGNAL),
    "AvgPool2d": (lambda nn: nn.AvgPool2d(2), _IMAGE),
    "AvgPool3d": (lambda nn: nn.AvgPool3d(2), _VOLUME),
    "LPPool2d": (lambda nn: nn.LPPool2d(2, 2), _IMAGE),
    "AdaptiveAvgPool2d(1)": (lambda nn: nn.AdaptiveAvgPool2d(1), _IMAGE),
    "AdaptiveAvgPool2d(3)": (lambda nn: nn.AdaptiveAvgPool2d(3), _IMAGE),
    "AdaptiveMaxPool2d(3)": (lambda nn: nn.AdaptiveMaxPool2d(3), _IMAGE),
    "ReflectionPad2d": (lambda nn: nn.ReflectionPad2d(1), _IMAGE),
    "ReplicationPad2d": (lambda nn: nn.ReplicationPad2d(1), _IMAGE),
    "ZeroPad2d": (lambda nn: nn.ZeroPad2d(1), _IMAGE),
    "CircularPad2d": (lambda nn: nn.CircularPad2d(1), _IMAGE),
    "BatchNorm1d": (lambda nn: nn.BatchNorm1d(8), _ROWS),
    "BatchNorm2d": (lambda nn: nn.BatchNorm2d(4), _IMAGE),
    "BatchNorm2d, evaluation": (lambda nn: nn.BatchNorm2d(4).eval(), _IMAGE),
    "GroupNorm": (lambda nn: nn.GroupNorm(2, 4), _IMAGE),
    "InstanceNorm2d": (lambda nn: nn.InstanceNorm2d(4, affine=True), _IMAGE),
    "LayerNorm": (lambda nn: nn.LayerNorm(8), _ROWS),
    "LayerNorm, plain": (lambda nn: nn.LayerNorm(8, elementwise_affine=False), _ROWS),
    "RMSNorm": (lambda nn: nn.RMSNorm(8), _ROWS),
    "LocalResponseNorm": (lambda nn: nn.LocalResponseNorm(2), _IMAGE),
    "RNN": (lambda nn: nn.RNN(8, 8), _TOKENS),
    "LSTM": (lambda nn: nn.LSTM(8, 8), _TOKENS),
    "GRU": (lambda nn: nn.GRU(8, 8), _TOKENS),
    "LSTM, both ways, 2 layers": (lambda nn: nn.LSTM(8, 8, 2, bidirectional=True), _TOKENS),
    "RNNCell": (lambda nn: nn.RNNCell(8, 8), _ROWS),
    "LSTMCell": (lambda nn: nn.LSTMCell(8, 8), _ROWS),
    "GRUCell": (lambda nn: nn.GRUCell(8, 8), _ROWS),
    "TransformerEncoderLayer": (lambda nn: nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), _TOKENS),
    "Upsample, nearest": (lambda nn: nn.Upsample(scale_factor=2), _IMAGE),
    "Upsample, bilinear": (lambda nn: nn.Upsample(scale_factor=2, mode="bilinear"), _IMAGE),
    "Upsample, bicubic": (lambda nn: nn.Upsample(scale_factor=2, mode="bicubic"), _IMAGE),
    "PixelShuffle": (lambda nn: nn.PixelShuffle(2), _IMAGE),
    "ChannelShuffle": (lambda nn: nn.ChannelShuffle(2), _IMAGE),
    "Unfold": (lambda nn: nn.Unfold(2), _IMAGE),
    "Fold": (lambda nn: nn.Fold((4, 4), 2), (1, 8, 9)),
}
"""Name -> (the module, the shape of its input)."""

_OF_TWO: dict[str, tuple[Make, Shape]] = {
    "Bilinear": (lambda nn: nn.Bilinear(4, 4, 4), _SMALL),
    "CosineSimilarity": (lambda nn: nn.CosineSimilarity(), _ROWS),
    "PairwiseDistance": (lambda nn: nn.PairwiseDistance(), _ROWS),
    "TransformerDecoderLayer": (lambda nn: nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True), _TOKENS),
    **{
        name: ((lambda nn, name=name: getattr(nn, name)()), _ROWS)
        for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "PoissonNLLLoss", "SoftMarginLoss")
    },
}
"""The same of two inputs; the second is a target of losses."""

_OF_CLASSES: dict[str, tuple[Make, Shape]] = {
    "CrossEntropyLoss": (lambda nn: nn.CrossEntropyLoss(), _ROWS),
    "CrossEntropyLoss of images": (lambda nn: nn.CrossEntropyLoss(), (2, 3, 4, 4)),
    "CrossEntropyLoss, smoothed": (lambda nn: nn.CrossEntropyLoss(label_smoothing=0.1), _ROWS),
    "NLLLoss": (lambda nn: nn.NLLLoss(), _ROWS),
    "MultiMarginLoss": (lambda nn: nn.MultiMarginLoss(), _ROWS),
}
"""Of an input, and of class numbers."""


def _result(found: Any) -> Any:
    while isinstance(found, tuple):
        found = found[0]
    return found


def _module(make: Make, shape: Shape, second: str, subject: str, kind: str) -> Callable[[], list[Any]]:
    """A call of a module, or a call and its backward; both subjects have the same parameters and inputs."""
    m, rng = importlib.import_module(subject), np.random.default_rng(0)
    if subject == "jitgrad":
        begin()
    values = lambda *s: m.from_numpy(rng.uniform(-1.0, 1.0, s).astype(np.float32))  # noqa: E731
    module = make(importlib.import_module(f"{subject}.nn"))
    with m.no_grad():
        for p in module.parameters():
            p.copy_(values(*p.shape))
    inputs = [values(*shape).requires_grad_()]
    if second == "values":
        inputs.append(values(*shape))
    elif second == "classes":
        inputs.append(m.from_numpy(rng.integers(0, shape[1], (shape[0], *shape[2:]))))
    leaves = [*module.parameters(), inputs[0]]
    seed = m.ones_like(_result(module(*inputs)).detach())

    def whole() -> list[Any]:
        if kind == "forward":
            with m.no_grad():
                return [_result(module(*inputs)).detach()]
        for leaf in leaves:
            leaf.grad = None
        out = _result(module(*inputs))
        out.backward(seed)
        return [out.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]

    return whole


CASES = tuple(
    alternating.Case(name, partial(_module, make, shape, second))
    for second, table in (("", _MODULES), ("values", _OF_TWO), ("classes", _OF_CLASSES))
    for name, (make, shape) in table.items()
)


def main() -> int:
    return alternating.main("benchmarks.modules", CASES, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
