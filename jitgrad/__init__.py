"""jitgrad: PyTorch's semantics, recorded at every call, compiled ahead.

``@jitgrad.compile`` on a training step re-records the step's dynamic graph on every call and runs forward, backward and
update as fused native kernels. Undecorated code is eager, and means the same.
"""

from __future__ import annotations

import sys
from math import e, inf, nan, pi
from typing import TYPE_CHECKING

from jitgrad import autograd, functions, nn, optim, overrides, vcpu
from jitgrad import generator as random
from jitgrad.autograd.anomaly_mode import is_anomaly_check_nan_enabled, is_anomaly_enabled, set_anomaly_enabled
from jitgrad.compile import CompiledFunction, compile, eager
from jitgrad.config import config
from jitgrad.devices import Device as device
from jitgrad.dtypes import (
    DType,
    bfloat16,
    complex64,
    complex128,
    finfo,
    float16,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    set_default_dtype,
    uint8,
)
from jitgrad.dtypes import DType as dtype
from jitgrad.dtypes import bool_ as bool
from jitgrad.errors import CompileError, DeviceError, JitgradError, UnknownNameError
from jitgrad.events import reset_stats, stats
from jitgrad.functions import *  # noqa: F403
from jitgrad.generator import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from jitgrad.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from jitgrad.layouts import (
    Size,
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    sparse_coo,
    strided,
)
from jitgrad.lazy import LazyModule, late_names
from jitgrad.legacy import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)
from jitgrad.runtime.native.pool import get_num_threads, set_num_threads
from jitgrad.sparse import sparse_coo_tensor
from jitgrad.tensor import Tensor, is_tensor

if TYPE_CHECKING:
    from jitgrad import (
        accelerator,
        amp,
        array_api,
        backends,
        cuda,
        distributions,
        fft,
        func,
        linalg,
        mps,
        profiler,
        safetensors,
        signal,
        special,
        testing,
        utils,
        version,
        xpu,
    )
    from jitgrad.amp import GradScaler, autocast
    from jitgrad.autograd.dot import to_dot
    from jitgrad.autograd.why_none import why_none
    from jitgrad.benchmark import benchmark
    from jitgrad.checking.verify import Verification, VerificationError, VerifyReport, verify
    from jitgrad.checking.watch import NonFiniteError, watch_nan
    from jitgrad.compiled.explain import Explanation, explain
    from jitgrad.elementwise import kernel, vectorize
    from jitgrad.formatting import set_printoptions
    from jitgrad.func import vmap
    from jitgrad.functions.exchange import asarray, from_dlpack, from_file, frombuffer
    from jitgrad.functions.storages import TypedStorage, UntypedStorage
    from jitgrad.pictures.gradient_flow import gradient_flow
    from jitgrad.pictures.graph import draw_graph
    from jitgrad.pictures.memory_use import memory_use
    from jitgrad.scripts.alias import as_torch
    from jitgrad.serialization import load, save
    from jitgrad.settings import (
        are_deterministic_algorithms_enabled,
        get_autocast_dtype,
        get_default_device,
        get_deterministic_debug_mode,
        get_float32_matmul_precision,
        get_num_interop_threads,
        is_autocast_enabled,
        is_deterministic_algorithms_warn_only_enabled,
        set_default_device,
        set_deterministic_debug_mode,
        set_float32_matmul_precision,
        set_flush_denormal,
        set_num_interop_threads,
        use_deterministic_algorithms,
    )
    from jitgrad.user_line import is_warn_always_enabled, set_warn_always
    from jitgrad.utils.dlpack import to_dlpack

__version__ = "0.1.0"

tensor = functions.tensor  # not the module of that name
newaxis = None
float = float32
double = float64
half = float16
int = int32
long = int64
short = int16
cfloat = complex64
cdouble = complex128

globals().update(functions.WRITING)

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "CompileError",
    "CompiledFunction",
    "DType",
    "DeviceError",
    "DoubleTensor",
    "Explanation",
    "FloatTensor",
    "Generator",
    "GradScaler",
    "HalfTensor",
    "IntTensor",
    "NonFiniteError",
    "Verification",
    "VerificationError",
    "VerifyReport",
    "verify",
    "watch_nan",
    "JitgradError",
    "LongTensor",
    "Size",
    "ShortTensor",
    "Tensor",
    "TypedStorage",
    "UntypedStorage",
    "accelerator",
    "amp",
    "are_deterministic_algorithms_enabled",
    "array_api",
    "as_torch",
    "autocast",
    "autograd",
    "backends",
    "benchmark",
    "bfloat16",
    "bool",
    "channels_last",
    "channels_last_3d",
    "compile",
    "config",
    "contiguous_format",
    "cuda",
    "default_generator",
    "device",
    "distributions",
    "cdouble",
    "cfloat",
    "complex64",
    "complex128",
    "double",
    "dtype",
    "e",
    "draw_graph",
    "eager",
    "enable_grad",
    "explain",
    "kernel",
    "vectorize",
    "fft",
    "finfo",
    "float",
    "float16",
    "float32",
    "float64",
    "func",
    "functions",
    "get_autocast_dtype",
    "get_default_device",
    "get_default_dtype",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_num_threads",
    "get_rng_state",
    "gradient_flow",
    "half",
    "iinfo",
    "inf",
    "inference_mode",
    "initial_seed",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_autocast_enabled",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_tensor",
    "layout",
    "linalg",
    "load",
    "long",
    "manual_seed",
    "memory_format",
    "memory_use",
    "mps",
    "nan",
    "newaxis",
    "nn",
    "no_grad",
    "optim",
    "overrides",
    "pi",
    "preserve_format",
    "profiler",
    "promote_types",
    "random",
    "reset_stats",
    "save",
    "seed",
    "signal",
    "special",
    "set_default_device",
    "set_anomaly_enabled",
    "set_default_dtype",
    "set_deterministic_debug_mode",
    "set_flush_denormal",
    "set_float32_matmul_precision",
    "set_grad_enabled",
    "set_num_interop_threads",
    "set_num_threads",
    "set_printoptions",
    "set_rng_state",
    "short",
    "sparse_coo",
    "sparse_coo_tensor",
    "stats",
    "to_dlpack",
    "to_dot",
    "uint8",
    "use_deterministic_algorithms",
    "utils",
    "vcpu",
    "version",
    "vmap",
    "why_none",
    "xpu",
    "strided",
    "testing",
    "asarray",
    "from_dlpack",
    "from_file",
    "frombuffer",
    "safetensors",
    *(name for name in functions.LATE if not name.endswith("_")),  # those are there, but `import *` leaves them out
    *functions.PUBLIC,
    "is_warn_always_enabled",
    "set_warn_always",
]


_LATE = {
    **functions.LATE,
    "Explanation": "jitgrad.compiled.explain",
    "distributions": "jitgrad.distributions",
    "GradScaler": "jitgrad.amp",
    "accelerator": "jitgrad.accelerator",
    "amp": "jitgrad.amp",
    "as_torch": "jitgrad.scripts.alias",
    "autocast": "jitgrad.amp",
    "backends": "jitgrad.backends",
    "cuda": "jitgrad.cuda",
    "array_api": "jitgrad.array_api",
    "benchmark": "jitgrad.benchmark",
    "mps": "jitgrad.mps",
    "safetensors": "jitgrad.safetensors",
    **dict.fromkeys("asarray from_dlpack from_file frombuffer".split(), "jitgrad.functions.exchange"),
    "TypedStorage": "jitgrad.functions.storages",
    "UntypedStorage": "jitgrad.functions.storages",
    "set_printoptions": "jitgrad.formatting",
    "is_warn_always_enabled": "jitgrad.user_line",
    "set_warn_always": "jitgrad.user_line",
    "version": "jitgrad.version",
    "xpu": "jitgrad.xpu",
    **{
        name: f"jitgrad.{name}"
        for name in (
            "compiler cpu distributed futures hub jit library multiprocessing quasirandom return_types storage"
        ).split()
    },
    **dict.fromkeys(
        "are_deterministic_algorithms_enabled get_default_device get_deterministic_debug_mode "
        "get_autocast_dtype get_float32_matmul_precision get_num_interop_threads is_autocast_enabled "
        "is_deterministic_algorithms_warn_only_enabled set_default_device "
        "set_deterministic_debug_mode set_flush_denormal set_float32_matmul_precision "
        "set_num_interop_threads use_deterministic_algorithms".split(),
        "jitgrad.settings",
    ),
    "explain": "jitgrad.compiled.explain",
    "fft": "jitgrad.fft",
    "func": "jitgrad.func",
    "linalg": "jitgrad.linalg",
    "load": "jitgrad.serialization",
    "profiler": "jitgrad.profiler",
    "save": "jitgrad.serialization",
    "serialization": "jitgrad.serialization",
    "signal": "jitgrad.signal",
    "special": "jitgrad.special",
    "testing": "jitgrad.testing",
    "to_dlpack": "jitgrad.utils.dlpack",
    "to_dot": "jitgrad.autograd.dot",
    "draw_graph": "jitgrad.pictures.graph",
    "gradient_flow": "jitgrad.pictures.gradient_flow",
    "memory_use": "jitgrad.pictures.memory_use",
    "utils": "jitgrad.utils",
    **dict.fromkeys("Verification VerificationError VerifyReport verify".split(), "jitgrad.checking.verify"),
    **dict.fromkeys("NonFiniteError watch_nan".split(), "jitgrad.checking.watch"),
    "kernel": "jitgrad.elementwise",
    "vectorize": "jitgrad.elementwise",
    "vmap": "jitgrad.func",
    "why_none": "jitgrad.autograd.why_none",
}
_checking = LazyModule("jitgrad.functions.checked")
_find_late = late_names(globals(), _LATE, lambda function: _checking.checked(function))


def __getattr__(name: str) -> object:
    """Names that are imported at their first use, Note [Lazy modules]; an error for those that nobody has."""
    if name in _LATE:
        return _find_late(name)
    raise UnknownNameError(f"module {__name__!r}", name, sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})
