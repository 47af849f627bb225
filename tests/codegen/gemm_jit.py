"""Matrix multiplication kernels compiled for a named CPU level and called on NumPy arrays: what the tests share."""

from __future__ import annotations

import ctypes
import functools
import itertools
import mmap
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from jitgrad.codegen.gemm import GemmSpec, Operand, StoreEpilogue, choose_spec, emit_gemm, gemm_launch
from jitgrad.codegen.llvm.target import Target, target_for
from jitgrad.dtypes import DType, float32, float64

_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_keep: list[Any] = []


@functools.cache
def _session(target: Target) -> tuple[Any, Any]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    make = llvm.Target.from_triple(target.triple).create_target_machine
    options = {"cpu": target.cpu, "features": target.features, "opt": 2, "reloc": "pic", "codemodel": "small"}
    return make(**options), llvm.create_lljit_compiler(make(**options))


@functools.cache
def targets() -> tuple[Target, ...]:
    """The levels that this machine can run."""
    found = []
    for cpu in ("x86-64-v4", "x86-64-v3", "x86-64", "generic"):
        try:
            found.append(target_for(cpu))
        except ValueError:
            continue
    return tuple(found)


def assembly(text: str) -> str:
    """A module for a server with vectors of 512 bits, whatever this machine is; "" where LLVM has no x86."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    except RuntimeError:
        return ""
    machine = target.create_target_machine(cpu="x86-64-v4", features="", opt=2, reloc="pic", codemodel="small")
    found: str = machine.emit_assembly(llvm.parse_assembly(text))
    return found


def load(text: str, target: Target) -> Callable[[int, int, int, int], None]:
    """The function ``kernel`` of a module."""
    machine, linker = _session(target)
    obj = machine.emit_object(llvm.parse_assembly(text))
    library = llvm.JITLibraryBuilder().add_object_img(obj).add_current_process().export_symbol("kernel")
    tracker = library.link(linker, f"gemm{len(_keep)}")
    kernel = _KERNEL(tracker["kernel"])
    _keep.append((tracker, kernel))
    return kernel


@functools.cache
def store_kernel(
    spec: GemmSpec, target: Target, accumulate: bool = False, cost: int = 1
) -> Callable[[int, int, int, int], None]:
    """The kernel that stores the product, or adds it; ``cost`` decides how the epilogue is printed."""
    epilogue = StoreEpilogue(spec.dtype_name, accumulate)
    epilogue.cost = cost
    return load(emit_gemm(spec, "kernel", epilogue), target)


class Guarded:
    """Pages with an unreadable one on either side."""

    def __init__(self, pages: int = 2) -> None:
        page = mmap.PAGESIZE
        self.memory = mmap.mmap(-1, (pages + 2) * page)
        self.bytes = np.frombuffer(self.memory, np.uint8)[page:-page]
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for at in (self.bytes.ctypes.data - page, self.bytes.ctypes.data + pages * page):
            assert libc.mprotect(at, page, 0) == 0

    def high(self, nbytes: int) -> np.ndarray:
        return self.bytes[len(self.bytes) - nbytes :]

    def low(self, nbytes: int) -> np.ndarray:
        return self.bytes[:nbytes]


def dtype_of(x: np.ndarray) -> DType:
    return float32 if x.dtype == np.float32 else float64


def strides_of(x: np.ndarray) -> tuple[int, int, int]:
    """(batch, row, column), in elements."""
    batch, row, column = (s // x.itemsize for s in x.strides)
    return batch, row, column


def call(
    kernel: Callable[[int, int, int, int], None],
    spec: GemmSpec,
    a: np.ndarray,
    b: np.ndarray,
    pointers: Sequence[np.ndarray],
    epilogue_args: tuple[int, ...],
    cuts: Callable[[int], Sequence[int]] = lambda units: (0, units),
) -> int:
    """Run a kernel; ``pointers`` are slots 3, 4, ...; returns the number of units."""
    (batch, m, k), n = a.shape, b.shape[2]
    words, units, _, _ = gemm_launch(
        spec, m, n, k, batch, Operand(1, 0, strides_of(a)), Operand(2, 0, strides_of(b)), epilogue_args
    )
    run_units(kernel, words, (a, b, *pointers), cuts(units))
    return units


def run_units(
    kernel: Callable[[int, int, int, int], None],
    words: Sequence[int],
    arrays: Sequence[np.ndarray],
    points: Sequence[int],
) -> None:
    """Run the units between each two points; ``arrays`` are slots 1, 2, ..."""
    args = (ctypes.c_int64 * len(words))(*words)
    bufs = (ctypes.c_int64 * (1 + len(arrays)))(0, *(x.ctypes.data for x in arrays))
    for begin, end in itertools.pairwise(points):
        kernel(ctypes.addressof(bufs), ctypes.addressof(args), begin, end)


def spec_for(a: np.ndarray, b: np.ndarray, target: Target, key: Any = "store") -> GemmSpec:
    (batch, m, k), n = a.shape, b.shape[2]
    return choose_spec(dtype_of(a), m, n, k, batch, strides_of(a), strides_of(b), key, target)


def multiply(
    a: np.ndarray,
    b: np.ndarray,
    out: np.ndarray,
    target: Target,
    accumulate: bool = False,
    cost: int = 1,
    spec: GemmSpec | None = None,
    cuts: Callable[[int], Sequence[int]] = lambda units: (0, units),
) -> int:
    """out = a @ b (or out += a @ b); returns the number of units."""
    spec = spec or spec_for(a, b, target)
    epilogue = StoreEpilogue(spec.dtype_name, accumulate)
    batch_stride, row_stride, column_stride = strides_of(out)
    assert column_stride == 1 or out.shape[2] <= 1
    kernel = store_kernel(spec, target, accumulate, cost)
    return call(kernel, spec, a, b, [out], epilogue.args(3, 0, batch_stride, row_stride), cuts)
