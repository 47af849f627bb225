"""Layers that are given integers, or another dtype than their parameters': PyTorch's exception, or its result."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg

torch = pytest.importorskip("torch", reason="compares with torch")

Make = Callable[[Any], Any]


def _image(lib: Any) -> Any:
    return lib.arange(96).reshape(2, 3, 4, 4)


def _signal(lib: Any) -> Any:
    return lib.arange(24).reshape(2, 3, 4)


def _rows(lib: Any) -> Any:
    return lib.arange(6).reshape(2, 3)


REFUSED: dict[str, tuple[Make, Make]] = {
    "linear": (lambda nn: nn.Linear(3, 2), _rows),
    "conv1d": (lambda nn: nn.Conv1d(3, 2, 1), _signal),
    "conv2d": (lambda nn: nn.Conv2d(3, 2, 1), _image),
    "conv transpose": (lambda nn: nn.ConvTranspose2d(3, 2, 1), _image),
    "conv transpose without a bias": (lambda nn: nn.ConvTranspose2d(3, 2, 1, bias=False), _image),
    "batch norm": (lambda nn: nn.BatchNorm1d(3), _rows),
    "batch norm that was trained": (lambda nn: nn.BatchNorm1d(3).eval(), _rows),
    "batch norm of doubles": (lambda nn: nn.BatchNorm1d(3), lambda lib: _rows(lib).double()),
    "layer norm": (lambda nn: nn.LayerNorm(3), _rows),
    "layer norm of doubles": (lambda nn: nn.LayerNorm(3), lambda lib: _rows(lib).double()),
    "layer norm without parameters": (lambda nn: nn.LayerNorm(3, elementwise_affine=False), _rows),
    "group norm": (lambda nn: nn.GroupNorm(1, 3), _signal),
    "instance norm": (lambda nn: nn.InstanceNorm1d(3), _signal),
    "rms norm": (lambda nn: nn.RMSNorm(3), _rows),
    "dropout": (lambda nn: nn.Dropout(0.5), _rows),
    "alpha dropout": (lambda nn: nn.AlphaDropout(0.5), _rows),
    "rrelu": (lambda nn: nn.RReLU(), _rows),
    "average pooling": (lambda nn: nn.AdaptiveAvgPool2d(2), _image),
    "one average": (lambda nn: nn.AdaptiveAvgPool2d(1), _image),
    "upsampling": (lambda nn: nn.Upsample(scale_factor=2, mode="bilinear"), _image),
    "lstm": (lambda nn: nn.LSTM(4, 2), _signal),
    "gru cell": (lambda nn: nn.GRUCell(3, 2), _rows),
    "an embedding of floats": (lambda nn: nn.Embedding(3, 2), lambda lib: _rows(lib).float()),
    "class scores": (lambda nn: lambda x: nn.NLLLoss()(x, x[:, 0]), _rows),
    "bce of integer labels": (lambda nn: lambda x: nn.BCELoss()(x * 0.1, x), _rows),
    "bce of doubles": (lambda nn: lambda x: nn.BCELoss()(x * 0.1, x.double() * 0.1), _rows),
}


def _run(lib: Any, name: str) -> Any:
    make, given = REFUSED[name]
    return make(lib.nn)(given(lib))


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_dtype_is_refused_as_in_pytorch(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as theirs:
            _run(torch, name)
        with pytest.raises(theirs.type):
            _run(jg, name)
        with pytest.raises(theirs.type):
            jg.compile(lambda: _run(jg, name))()


TAKEN: dict[str, Callable[[Any], Any]] = {
    "labels of bytes": lambda lib: lib.nn.NLLLoss()(_rows(lib) * 0.1, lib.tensor([1, 2], dtype=lib.uint8)),
    "an image of bytes": lambda lib: lib.nn.Upsample(scale_factor=2, mode="bilinear")(_image(lib).to(lib.uint8)),
    "a margin of bytes": lambda lib: lib.nn.SoftMarginLoss()(_rows(lib) * 0.1, lib.ones(2, 3, dtype=lib.uint8)),
    "a margin of bools": lambda lib: lib.nn.SoftMarginLoss()(_rows(lib) * 0.1, lib.ones(2, 3, dtype=lib.bool)),
    "huber of doubles": lambda lib: lib.nn.HuberLoss()(_rows(lib) * 0.1, _rows(lib).double()),
    "group norm of halves": lambda lib: lib.nn.GroupNorm(1, 3)(_signal(lib).to(lib.bfloat16)).detach().float(),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_pytorch_takes_is_taken(name: str) -> None:
    got, want = TAKEN[name](jg), TAKEN[name](torch)
    assert f"torch.{got.dtype.name}" == str(want.dtype)
    np.testing.assert_allclose(got.numpy(), want.numpy(), 1e-2 if "halves" in name else 1e-6)
