"""Modules, losses and starting values, under PyTorch's names."""

from jitgrad.nn import functional, init, utils
from jitgrad.nn.activation import (
    ELU,
    GELU,
    GLU,
    SELU,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Softsign,
    Tanh,
)
from jitgrad.nn.attention import MultiheadAttention
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
from jitgrad.nn.misc import Dropout, Flatten, Unflatten
from jitgrad.nn.module import Module
from jitgrad.nn.normalization import BatchNorm1d, BatchNorm2d, LayerNorm, RMSNorm
from jitgrad.nn.parameter import Parameter
from jitgrad.nn.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell

__all__ = [
    "ELU",
    "GELU",
    "GLU",
    "GRU",
    "LSTM",
    "RNN",
    "SELU",
    "AvgPool2d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "Conv2d",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "GRUCell",
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
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiheadAttention",
    "NLLLoss",
    "Parameter",
    "ParameterList",
    "RMSNorm",
    "RNNCell",
    "ReLU",
    "ReLU6",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "Softmax",
    "Softplus",
    "Softsign",
    "Tanh",
    "Unflatten",
    "functional",
    "init",
    "utils",
]
