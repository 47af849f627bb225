"""jitgrad: PyTorch's semantics, recorded at every call, compiled ahead.

``@jitgrad.compile`` on a training step re-records the step's dynamic graph on every call and runs forward, backward and
update as fused native kernels. Undecorated code is eager, and means the same.
"""

from __future__ import annotations

from jitgrad import autograd, functions, nn, optim
from jitgrad.compile import CompiledFunction, compile, eager
from jitgrad.compiled.explain import Explanation, explain
from jitgrad.config import config
from jitgrad.dtypes import (
    DType,
    float32,
    float64,
    get_default_dtype,
    int32,
    int64,
    promote_types,
    set_default_dtype,
)
from jitgrad.dtypes import bool_ as bool
from jitgrad.errors import CompileError, DeviceError, JitgradError
from jitgrad.events import reset_stats, stats
from jitgrad.functions import *  # noqa: F403
from jitgrad.generator import initial_seed, manual_seed, rand, rand_like, randint, randn, randn_like, randperm
from jitgrad.grad_mode import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from jitgrad.runtime.pool import get_num_threads, set_num_threads
from jitgrad.tensor import Tensor, is_tensor

__version__ = "0.1.0"

tensor = functions.tensor  # not the module of that name
float = float32
double = float64
int = int32
long = int64

__all__ = [
    "CompileError",
    "CompiledFunction",
    "DType",
    "DeviceError",
    "Explanation",
    "JitgradError",
    "Tensor",
    "autograd",
    "bool",
    "compile",
    "config",
    "double",
    "eager",
    "enable_grad",
    "explain",
    "float",
    "float32",
    "float64",
    "functions",
    "get_default_dtype",
    "get_num_threads",
    "inference_mode",
    "initial_seed",
    "int",
    "int32",
    "int64",
    "is_grad_enabled",
    "is_tensor",
    "long",
    "manual_seed",
    "nn",
    "no_grad",
    "optim",
    "promote_types",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "randperm",
    "reset_stats",
    "set_default_dtype",
    "set_grad_enabled",
    "set_num_threads",
    "stats",
    *functions.PUBLIC,
]
