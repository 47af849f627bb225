"""A tiny JIT for the tests of the vector math: one primitive over flat arrays, for any x86 CPU.

Arrays must have a multiple of the width.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import llvmlite.binding as llvm
import numpy as np

from jitgrad.codegen.llvm.dtype_text import memory as memory_type
from jitgrad.codegen.llvm.text import FnBuilder, Isa, vector_type
from jitgrad.codegen.vmath.pointwise import emit_cast, emit_pointwise
from jitgrad.codegen.vmath.short import from_memory, to_memory
from jitgrad.dtypes import DType, from_numpy_dtype

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()

LEVELS = {
    "x86-64": "",
    "x86-64-v2": "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt",
    "x86-64-v3": "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+avx,+avx2,+fma,+bmi,+bmi2,+f16c,+lzcnt,+movbe",
}


def target_of(cpu: str) -> tuple[str, str]:
    """(LLVM CPU name, features); cpu may be "host"."""
    if cpu == "host":
        return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    return cpu, LEVELS[cpu]


def _isa(features: str) -> Isa:
    """What an x86 target with these features has."""
    flags = set(features.split(","))
    is_wide = "+avx512vl" in flags
    return Isa("+fma" in flags, "+sse4.1" in flags, "+f16c" in flags, scale=is_wide, lookup=is_wide)


def _load(b: FnBuilder, dtype: DType, width: int, pointer: str) -> str:
    memory = vector_type(width, memory_type(dtype.name))
    return from_memory(b, dtype, width, b.op(f"load {memory}, ptr {pointer}, align 1"))


def _store(b: FnBuilder, dtype: DType, width: int, reg: str, pointer: str) -> None:
    memory = vector_type(width, memory_type(dtype.name))
    b.do(f"store {memory} {to_memory(b, dtype, width, reg)}, ptr {pointer}, align 1")


def module_text(op: str, dtypes: tuple[DType, ...], out: DType, width: int, cpu: str = "host") -> str:
    """``void f(ptr out, ptr in0, ptr in1, ptr in2, i64 n)``."""
    b = FnBuilder("f", "ptr %out, ptr %in0, ptr %in1, ptr %in2, i64 %n", _isa(target_of(cpu)[1]))
    with b.loop("0", "%n", width) as i:
        regs = []
        for k, dtype in enumerate(dtypes):
            at = b.op(f"getelementptr {memory_type(dtype.name)}, ptr %in{k}, i64 {i}")
            regs.append(_load(b, dtype, width, at))
        if op == "cast":
            result = emit_cast(b, dtypes[0], out, width, *regs)
        else:
            result = emit_pointwise(b, op, dtypes[-1], width, *regs)
        _store(b, out, width, result, b.op(f"getelementptr {memory_type(out.name)}, ptr %out, i64 {i}"))
    return b.finish()


@cache
def _jit(cpu: str) -> tuple[llvm.TargetMachine, llvm.LLJIT]:
    name, features = target_of(cpu)
    machine = llvm.Target.from_default_triple().create_target_machine(cpu=name, features=features, opt=3, jit=True)
    own = llvm.Target.from_default_triple().create_target_machine(cpu=name, features=features, opt=3, jit=True)
    return machine, llvm.create_lljit_compiler(own, suppress_errors=False)


@cache
def compiled(op: str, dtypes: tuple[DType, ...], out: DType, width: int, cpu: str = "host") -> Callable[..., None]:
    machine, jit = _jit(cpu)
    text = module_text(op, dtypes, out, width, cpu)
    module = llvm.parse_assembly(text)
    module.verify()
    name = f"{op}-{'-'.join(d.name for d in dtypes)}-{out.name}-{width}-{cpu}"
    library = llvm.JITLibraryBuilder().add_object_img(machine.emit_object(module)).export_symbol("f").link(jit, name)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64)(library["f"])
    function.library = library  # type: ignore[attr-defined]
    return function


def run(op: str, *arrays: np.ndarray, out: type | None = None, width: int = 8, cpu: str = "host") -> np.ndarray:
    """``op`` over equally long 1-d arrays (padded to the width)."""
    n = arrays[0].size
    padded = [np.concatenate([a, np.ones(-n % width, a.dtype)]) for a in arrays]
    dtypes = tuple(from_numpy_dtype(a.dtype) for a in arrays)
    result = np.empty(n + -n % width, out or arrays[-1].dtype)
    pointers = [a.ctypes.data for a in padded] + [0] * (3 - len(padded))
    function = compiled(op, dtypes, from_numpy_dtype(result.dtype), width, cpu)
    function(result.ctypes.data, *pointers, result.size)
    return result[:n]
