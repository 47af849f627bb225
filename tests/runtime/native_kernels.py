"""Kernels written by hand, and programs of them, for tests and benchmarks of the runtime."""

from __future__ import annotations

from jitgrad.abi import Launch, NativeStep
from jitgrad.codegen.driver.driver import driver_source
from jitgrad.codegen.driver.worker import worker_source
from jitgrad.codegen.llvm.jit import CompiledKernel, KernelSource, compile_kernels
from jitgrad.codegen.llvm.target import host_target
from jitgrad.codegen.llvm.text import FnBuilder
from jitgrad.runtime.native import executor


def install() -> None:
    """What the composition root does at its first program."""
    driver, worker = compile_kernels([driver_source(host_target()), worker_source(host_target())])
    executor.install(driver.address, worker.address, (driver, worker))


def slot(b: FnBuilder, table: str, index: str | int, kind: str = "i64") -> str:
    return b.op(f"load {kind}, ptr {b.op(f'getelementptr i64, ptr {table}, i64 {index}')}")


def element(b: FnBuilder, base: str, index: str, kind: str = "float") -> str:
    return b.op(f"getelementptr {kind}, ptr {base}, i64 {index}")


def _chain_text(name: str, length: int) -> str:
    """out[i] = x[i] * x[i] * ... (``length`` products), one float per unit; args: slots of x and out."""
    b = FnBuilder(name)
    x, out = (slot(b, "%bufs", slot(b, "%args", i), "ptr") for i in range(2))
    with b.loop("%begin", "%end") as i:
        factor = b.op(f"load float, ptr {element(b, x, i)}")
        value = factor
        for _ in range(length):
            value = b.op(f"fmul float {value}, {factor}")
        b.do(f"store float {value}, ptr {element(b, out, i)}")
    return b.finish()


def _scale_text(name: str) -> str:
    """out[i] = x[i] * scalar; args: slots of x, out and the scalar (a double)."""
    b = FnBuilder(name)
    x, out = (slot(b, "%bufs", slot(b, "%args", i), "ptr") for i in range(2))
    factor = b.op(f"fptrunc double {slot(b, '%bufs', slot(b, '%args', 2), 'double')} to float")
    with b.loop("%begin", "%end") as i:
        value = b.op(f"load float, ptr {element(b, x, i)}")
        b.do(f"store float {b.op(f'fmul float {value}, {factor}')}, ptr {element(b, out, i)}")
    return b.finish()


def _count_text(name: str) -> str:
    """counts[i] += 1 for an int64 per unit, not atomically: a task that ran twice shows; args: slot of counts."""
    b = FnBuilder(name)
    counts = slot(b, "%bufs", slot(b, "%args", 0), "ptr")
    with b.loop("%begin", "%end") as i:
        at = element(b, counts, i, "i64")
        value = b.op(f"load i64, ptr {at}")
        b.do(f"store i64 {b.op(f'add i64 {value}, 1')}, ptr {at}")
    return b.finish()


def _status_text(name: str) -> str:
    """Stores args[0] as the status word."""
    b = FnBuilder(name)
    b.do(f"store i64 {slot(b, '%args', 0)}, ptr %bufs")
    return b.finish()


def _spin_text(name: str) -> str:
    """Burns args[0] dependent additions per unit, then counts the unit in args[1]'s slot."""
    b = FnBuilder(name)
    rounds = slot(b, "%args", 0)
    counts = slot(b, "%bufs", slot(b, "%args", 1), "ptr")
    b.do("%burnt = alloca i64")
    with b.loop("%begin", "%end") as i:
        with b.loop("0", rounds) as j:
            b.do(f"store volatile i64 {j}, ptr %burnt")
        at = element(b, counts, i, "i64")
        value = b.op(f"load i64, ptr {at}")
        b.do(f"store i64 {b.op(f'add i64 {value}, 1')}, ptr {at}")
    return b.finish()


def chain(length: int) -> CompiledKernel:
    name = f"chain{length}"
    return compile_kernels([KernelSource(name, f"test {name}", lambda: _chain_text(name, length))])[0]


def _simple(name: str, text) -> CompiledKernel:
    return compile_kernels([KernelSource(name, f"test {name}", lambda: text(name))])[0]


def scale() -> CompiledKernel:
    return _simple("scale", _scale_text)


def counter() -> CompiledKernel:
    return _simple("counter", _count_text)


def status() -> CompiledKernel:
    return _simple("status", _status_text)


def spin() -> CompiledKernel:
    return _simple("spin", _spin_text)


def step_of(
    kernel: CompiledKernel,
    args: tuple[int, ...],
    units: int,
    grain: int,
    cost: float,
    stages: int = 1,
    outputs: int = 0,
) -> NativeStep:
    """A step of equal stages over one input (slot 1) and ``outputs`` outputs (slots 2...)."""
    launch = Launch(kernel.address, args, units, grain, cost, kernel.name)
    outs = tuple((2 + i, 0) for i in range(outputs))
    return NativeStep((1,), outs, 0, (), ((launch,),) * stages, kernel)
