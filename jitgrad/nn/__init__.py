"""Modules, losses and starting values, under PyTorch's names."""

from typing import TYPE_CHECKING, Any

from jitgrad.lazy import late_names
from jitgrad.nn import functional, init, utils
from jitgrad.nn.activation import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    ReLU,
    ReLU6,
    RReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softmin,
    Softplus,
    Softsign,
    Tanh,
    Tanhshrink,
)
from jitgrad.nn.containers import ModuleDict, ModuleList, ParameterList, Sequential
from jitgrad.nn.conv import AvgPool2d, Conv2d, MaxPool2d
from jitgrad.nn.linear import Embedding, Identity, Linear
from jitgrad.nn.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from jitgrad.nn.misc import (
    AlphaDropout,
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    FeatureAlphaDropout,
    Flatten,
    Unflatten,
)
from jitgrad.nn.module import Module
from jitgrad.nn.normalization import BatchNorm1d, BatchNorm2d, LayerNorm, RMSNorm
from jitgrad.nn.parameter import Parameter

if TYPE_CHECKING:
    from jitgrad.nn.attention import MultiheadAttention
    from jitgrad.nn.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "GRU",
    "LSTM",
    "RNN",
    "SELU",
    "AlphaDropout",
    "AvgPool2d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "Conv2d",
    "CrossEntropyLoss",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "Embedding",
    "FeatureAlphaDropout",
    "Flatten",
    "GRUCell",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HuberLoss",
    "Identity",
    "KLDivLoss",
    "L1Loss",
    "LSTMCell",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MaxPool2d",
    "Mish",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiheadAttention",
    "NLLLoss",
    "Parameter",
    "ParameterList",
    "RMSNorm",
    "RNNCell",
    "RReLU",
    "ReLU",
    "ReLU6",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "Softmax",
    "Softmin",
    "Softplus",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Unflatten",
    "functional",
    "init",
    "utils",
]

_RECURRENT = ("GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell")
_LATE = {"MultiheadAttention": "jitgrad.nn.attention", **dict.fromkeys(_RECURRENT, "jitgrad.nn.recurrent")}
_find_late = late_names(globals(), _LATE)


def __getattr__(name: str) -> Any:
    """Names that are imported at their first use, Note [Lazy modules]."""
    if name in _LATE:
        return _find_late(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})
