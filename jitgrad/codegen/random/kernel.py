"""The one kernel that draws random numbers, Note [Random kernel].

Owns: ``jitgrad_random``: which function does which kind, in chunks that stay in the first cache.
Must not know: PyTorch's functions, tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jitgrad.abi import (
    RANDOM_BERNOULLI32,
    RANDOM_BERNOULLI64,
    RANDOM_EXPONENTIAL32,
    RANDOM_EXPONENTIAL64,
    RANDOM_INTEGERS,
    RANDOM_MAP,
    RANDOM_NORMAL32,
    RANDOM_NORMAL64,
    RANDOM_PAIRS32,
    RANDOM_PAIRS64,
    RANDOM_PERMUTE,
    RANDOM_PERMUTE_WIDE,
    RANDOM_SEED,
    RANDOM_UNIFORM32,
    RANDOM_UNIFORM64,
    RANDOM_WORDS,
)
from jitgrad.codegen.llvm.jit import CompiledKernel, KernelSource, compile_kernels
from jitgrad.codegen.llvm.target import Target, host_target
from jitgrad.codegen.llvm.text import FnBuilder
from jitgrad.codegen.random import normal, twister

__all__ = ["load"]

_CHUNK = 1024
_BLOCK = 16
_OF_EACH_KIND = (twister.bernoulli, normal.exponentials, normal.pairs)


@contextmanager
def _chunks(b: FnBuilder, count: str, kind: str) -> Iterator[tuple[str, str]]:
    """(address, length) of each part of ``out``, of at most ``_CHUNK`` elements."""
    with b.loop("0", count, _CHUNK) as begin:
        rest = b.op(f"sub i64 {count}, {begin}")
        yield twister.pointer(b, kind, "%out", begin), b.call("i64", "llvm.smin.i64", f"i64 {rest}", f"i64 {_CHUNK}")


def _fractions(b: FnBuilder, kind: str, place: str, length: str, low: str, times: str) -> None:
    count = length if kind == "float" else b.op(f"mul i64 {length}, 2")
    b.do(f"call void @words(ptr %state, ptr {place}, i64 {count})")
    name = "fractions32" if kind == "float" else "fractions64"
    b.do(f"call void @{name}(ptr {place}, i64 {length}, {kind} {low}, {kind} {times})")


def _normals(b: FnBuilder, kind: str, place: str, length: str, mean: str, std: str) -> None:
    _fractions(b, kind, place, length, b.const(0.0, kind), b.const(1.0, kind))
    if kind == "float":
        b.do(f"call void @normals32(ptr {place}, i64 {length}, float {mean}, float {std})")
    else:
        b.do(f"call void @normals64(ptr %state, ptr {place}, i64 {length}, double {mean}, double {std})")


def _uniform(b: FnBuilder, kind: str, low: str, times: str) -> None:
    with _chunks(b, "%count", kind) as (place, length):
        _fractions(b, kind, place, length, low, times)


def _normal(b: FnBuilder, kind: str, mean: str, std: str) -> None:
    """Whole blocks; then, if numbers are left, a draw for each of them, and the last 16 numbers anew."""
    whole = b.op(f"and i64 %count, -{_BLOCK}")
    with _chunks(b, whole, kind) as (place, length):
        _normals(b, kind, place, length, mean, std)
    left = b.op(f"sub i64 %count, {whole}")
    with b.when(b.op(f"icmp ne i64 {left}, 0")):
        draws = left if kind == "float" else b.op(f"mul i64 {left}, 2")
        b.do(f"call void @words(ptr %state, ptr %scratch, i64 {draws})")
        last = twister.pointer(b, kind, "%out", b.op(f"sub i64 %count, {_BLOCK}"))
        _normals(b, kind, last, str(_BLOCK), mean, std)


def _bernoulli(b: FnBuilder, kind: str, value: str) -> None:
    zero, one = b.const(0.0, "double"), b.const(1.0, "double")
    with _chunks(b, "%count", kind) as (place, length):
        _fractions(b, "double", "%fractions", length, zero, one)
        b.do(f"call void @bernoulli_{kind}(ptr {place}, ptr %fractions, i64 {length}, double %a, {kind} {value})")


def _exponential(b: FnBuilder, kind: str) -> None:
    zero, one = b.const(0.0, "double"), b.const(1.0, "double")
    with _chunks(b, "%count", kind) as (place, length):
        _fractions(b, "double", "%fractions", length, zero, one)
        b.do(f"call void @exponentials_{kind}(ptr %state, ptr {place}, ptr %fractions, i64 {length}, double %a)")


def _entry() -> FnBuilder:
    b = FnBuilder("jitgrad_random", "ptr %state, ptr %out, i64 %count, i64 %kind, double %a, double %b")
    b.do(f"%scratch = alloca [{_BLOCK} x double]")
    b.do(f"%fractions = alloca [{_CHUNK} x double]")
    a32, b32 = b.op("fptrunc double %a to float"), b.op("fptrunc double %b to float")

    @contextmanager
    def case(kind: int, test: str = "eq") -> Iterator[None]:
        with b.when(b.op(f"icmp {test} i64 %kind, {kind}")):
            yield

    with case(RANDOM_WORDS):
        b.do("call void @words(ptr %state, ptr %out, i64 %count)")
    with case(RANDOM_UNIFORM32):
        _uniform(b, "float", a32, b32)
    with case(RANDOM_UNIFORM64):
        _uniform(b, "double", "%a", "%b")
    with case(RANDOM_NORMAL32):
        _normal(b, "float", a32, b32)
    with case(RANDOM_NORMAL64):
        _normal(b, "double", "%a", "%b")
    for number, kind in ((RANDOM_PAIRS32, "float"), (RANDOM_PAIRS64, "double")):
        with case(number):
            b.do(f"call void @pairs_{kind}(ptr %state, ptr %out, i64 %count, double %a, double %b)")
    for number, kind in ((RANDOM_EXPONENTIAL32, "float"), (RANDOM_EXPONENTIAL64, "double")):
        with case(number):
            _exponential(b, kind)
    with case(RANDOM_INTEGERS):
        low, extent = b.op("fptosi double %a to i64"), b.op("fptoui double %b to i32")
        b.do(f"call void @integers(ptr %state, ptr %out, i64 %count, i64 {low}, i32 {extent})")
    with case(RANDOM_PERMUTE):
        b.do("call void @permute(ptr %state, ptr %out, i64 %count)")
    with case(RANDOM_PERMUTE_WIDE):
        b.do("call void @permute_wide(ptr %state, ptr %out, i64 %count)")
    with case(RANDOM_BERNOULLI32):
        _bernoulli(b, "float", b32)
    with case(RANDOM_BERNOULLI64):
        _bernoulli(b, "double", "%b")
    with case(RANDOM_SEED):
        b.do("call void @seed(ptr %state, i64 %count)")
    with case(RANDOM_MAP, "sge"):
        which = b.op(f"sub i64 %kind, {RANDOM_MAP}")
        b.do(f"call void @map_libm(ptr %state, ptr %out, i64 %count, i64 {which})")
    return b


def _text(target: Target) -> str:
    isa = target.isa
    fractions = (twister.fractions32(isa), twister.fractions64(isa))
    normals = (normal.normals32(isa), normal.normals64(isa), normal.map_libm())
    whole = (twister.integers(), twister.permute(), twister.permute_wide())
    each = [make(isa, kind) for make in _OF_EACH_KIND for kind in ("float", "double")]
    inner = [twister.twist(), twister.words(), twister.seed(), *whole, *fractions, *normals, *each]
    entry = _entry()
    declarations: dict[str, None] = {}
    for b in (*inner, entry):
        declarations |= b.declarations
        b.declarations.clear()
    texts = [b.finish(result_type="internal void") for b in inner]
    return "\n".join([*declarations, *texts, entry.finish()])


def load() -> CompiledKernel:
    """Compile the kernel, or find it in the cache."""
    target = host_target()
    return compile_kernels([KernelSource("jitgrad_random", "random", lambda: _text(target))])[0]
