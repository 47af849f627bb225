"""Parameters start with PyTorch's numbers: every filler, and every module's draws in PyTorch's order."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad

torch: Any = pytest.importorskip("torch")

Fill = Callable[[Any, Any], Any]

FILLERS: dict[str, tuple[Fill, tuple[int, ...]]] = {
    "uniform": (lambda init, x: init.uniform_(x, -2, 3), (5, 7)),
    "normal": (lambda init, x: init.normal_(x, 1, 2), (5, 7)),
    "normal-few": (lambda init, x: init.normal_(x), (3,)),
    "xavier_uniform": (lambda init, x: init.xavier_uniform_(x), (5, 7)),
    "xavier_uniform-gain": (lambda init, x: init.xavier_uniform_(x, 1.3), (5, 7, 3, 3)),
    "xavier_normal": (lambda init, x: init.xavier_normal_(x, 0.7), (5, 7)),
    "kaiming_uniform": (lambda init, x: init.kaiming_uniform_(x, a=math.sqrt(5)), (50, 70)),
    "kaiming_uniform-relu": (lambda init, x: init.kaiming_uniform_(x, mode="fan_out", nonlinearity="relu"), (5, 7, 3)),
    "kaiming_normal": (lambda init, x: init.kaiming_normal_(x), (5, 7)),
    "kaiming_normal-tanh": (lambda init, x: init.kaiming_normal_(x, nonlinearity="tanh", mode="fan_out"), (5, 7)),
    "trunc_normal": (lambda init, x: init.trunc_normal_(x), (40, 30)),
    "trunc_normal-std": (lambda init, x: init.trunc_normal_(x, std=0.02), (40, 30)),
    "trunc_normal-narrow": (lambda init, x: init.trunc_normal_(x, 0.0, 1.0, -0.9, 0.7), (40, 30)),
    "trunc_normal-rare": (lambda init, x: init.trunc_normal_(x, 0.0, 1.0, -0.2, 0.1), (40, 30)),
    "trunc_normal-tail": (lambda init, x: init.trunc_normal_(x, 0.0, 1.0, 1.5, 3.0), (40, 30)),
    "sparse": (lambda init, x: init.sparse_(x, 0.3), (10, 7)),
    "dirac": (lambda init, x: init.dirac_(x), (4, 3, 3, 3)),
    "dirac-groups": (lambda init, x: init.dirac_(x, 2), (4, 3, 5)),
    "orthogonal": (lambda init, x: init.orthogonal_(x, 2), (6, 4)),
    "orthogonal-wide": (lambda init, x: init.orthogonal_(x), (4, 2, 3)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FILLERS)
def test_fillers(name: str, dtype: str) -> None:
    fill, shape = FILLERS[name]
    found = []
    for library in (jitgrad, torch):
        library.manual_seed(3)
        x = library.nn.Parameter(library.zeros(shape, dtype=getattr(library, dtype)))
        assert fill(library.nn.init, x) is x
        assert x.is_leaf
        found += [x.detach().numpy(), library.rand(1).item()]
    if name.startswith("orthogonal"):  # LAPACK's rounding
        np.testing.assert_allclose(found[0], found[2], atol=2e-6 if dtype == "float32" else 1e-14)
    else:
        np.testing.assert_array_equal(found[0], found[2])
    assert found[1] == found[3]


@pytest.mark.parametrize("draw", [
    lambda init, x, g: init.uniform_(x, 0.0, 1.0, g),
    lambda init, x, g: init.kaiming_normal_(x, generator=g),
    lambda init, x, g: init.trunc_normal_(x, generator=g),
    lambda init, x, g: init.orthogonal_(x, generator=g),
])  # fmt: skip
def test_fillers_take_a_generator(draw: Any) -> None:
    found = []
    for library in (jitgrad, torch):
        library.manual_seed(1)
        generator = library.Generator().manual_seed(5)
        found.append(draw(library.nn.init, library.zeros(4, 4), generator).numpy())
        found.append(library.rand(1).item())
    np.testing.assert_allclose(found[0], found[2], atol=2e-6)
    assert found[1] == found[3], "the default generator was drawn from"


def test_old_names_warn() -> None:
    for name in ("uniform", "xavier_normal", "kaiming_uniform", "eye"):
        found = []
        for library in (jitgrad, torch):
            library.manual_seed(1)
            with pytest.warns(FutureWarning, match=f"`nn.init.{name}` is now deprecated"):
                found.append(getattr(library.nn.init, name)(library.zeros(4, 4)).numpy())
        np.testing.assert_array_equal(found[0], found[1])


def test_calculate_gain() -> None:
    for name in ("linear", "conv3d", "conv_transpose2d", "sigmoid", "tanh", "relu", "selu", "leaky_relu"):
        assert jitgrad.nn.init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    assert jitgrad.nn.init.calculate_gain("leaky_relu", 0.3) == torch.nn.init.calculate_gain("leaky_relu", 0.3)
    with pytest.raises(ValueError, match="not a valid number"):
        jitgrad.nn.init.calculate_gain("leaky_relu", True)


MODULES: dict[str, Callable[[Any], Any]] = {
    "Linear": lambda nn: nn.Linear(7, 5),
    "Linear-large": lambda nn: nn.Linear(300, 70),
    "Linear-no-bias": lambda nn: nn.Linear(7, 5, bias=False),
    "Embedding": lambda nn: nn.Embedding(11, 5),
    "Embedding-padding": lambda nn: nn.Embedding(11, 5, padding_idx=3),
    "Conv2d": lambda nn: nn.Conv2d(4, 6, 3),
    "Conv2d-groups": lambda nn: nn.Conv2d(4, 6, (3, 2), groups=2, bias=False),
    "RNN": lambda nn: nn.RNN(5, 7, 2),
    "LSTM": lambda nn: nn.LSTM(5, 7, 2, bias=False),
    "GRU": lambda nn: nn.GRU(5, 7, 2),
    "RNNCell": lambda nn: nn.RNNCell(5, 7),
    "LSTMCell": lambda nn: nn.LSTMCell(5, 7),
    "GRUCell": lambda nn: nn.GRUCell(5, 7),
    "MultiheadAttention": lambda nn: nn.MultiheadAttention(12, 3),
    "MultiheadAttention-no-bias": lambda nn: nn.MultiheadAttention(12, 3, bias=False),
    "LSTM-bidirectional": lambda nn: nn.LSTM(5, 7, 2, bidirectional=True),
    "LSTM-projections": lambda nn: nn.LSTM(5, 7, 2, proj_size=3),
    "RNN-bidirectional": lambda nn: nn.RNN(5, 7, bias=False, bidirectional=True),
    "MultiheadAttention-widths": lambda nn: nn.MultiheadAttention(12, 3, kdim=5, vdim=7, add_bias_kv=True),
    "TransformerEncoderLayer": lambda nn: nn.TransformerEncoderLayer(8, 2, 16),
    "AdaptiveLogSoftmaxWithLoss": lambda nn: nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 10], 2.0, True),
    "EmbeddingBag": lambda nn: nn.EmbeddingBag(11, 5, padding_idx=3),
    "Bilinear": lambda nn: nn.Bilinear(3, 4, 5),
    "ConvTranspose1d": lambda nn: nn.ConvTranspose1d(4, 6, 3, groups=2),
    "weight_norm": lambda nn: nn.utils.parametrizations.weight_norm(nn.Linear(7, 5)),
    "BatchNorm2d": lambda nn: nn.BatchNorm2d(4),
    "Sequential": lambda nn: nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 3), nn.LayerNorm(3)),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    found: list[dict[str, Any]] = []
    for library in (jitgrad, torch):
        library.manual_seed(3)
        found.append({k: v.detach().numpy() for k, v in MODULES[name](library.nn).state_dict().items()})
        found[-1]["next"] = library.rand(1).numpy()
    own, theirs = found
    assert own.keys() == theirs.keys()
    for key, values in own.items():
        np.testing.assert_array_equal(values, theirs[key], err_msg=key)
