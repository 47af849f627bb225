"""Linking: planned pieces to a program: kernels compiled, slots and argument words filled in.

Owns: ``link``, kernel names and keys.
Must not know: how kernels were planned.
In: pieces with plans. Out: ``abi.Program``.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from jitgrad.abi import EagerStep, Launch, NativeStep, Program
from jitgrad.codegen.gemm import GemmSpec, Operand, emit_gemm, gemm_launch
from jitgrad.codegen.gemm.emit_windows import emit_windows
from jitgrad.codegen.gemm.matmul_kernel import MatmulKernel
from jitgrad.codegen.gemm.windows import windows_launch
from jitgrad.codegen.llvm.jit import CompiledKernel, KernelSource, compile_kernels
from jitgrad.codegen.llvm.target import Target
from jitgrad.codegen.loops.emit_loops import print_kernel
from jitgrad.codegen.piece import Piece
from jitgrad.codegen.plan import Buffer, Job
from jitgrad.codegen.routines.routine_kernel import RoutineKernel
from jitgrad.codegen.schedule.kernel_ir import BufferArg, LoopKernel, NestKey
from jitgrad.codegen.turns.merge import ScalarWord, SlotWord
from jitgrad.codegen.verify import verify_step
from jitgrad.config import config
from jitgrad.errors import CompileError
from jitgrad.events import bump, log
from jitgrad.symbols.number import TOKEN, current_env, greatest, whole, without_tokens
from jitgrad.tracer.recording.graph import RuntimeScalar, Segment

__all__ = ["Linker", "has_work", "lazy_text", "link"]

_TASK_NS = 6000.0  # a task is at least this long: long against taking it from the pool
_MAX_TASKS = 256


def link(segment: Segment, parts: list[Piece | EagerStep]) -> Program:
    """Compile all kernels and make the program."""
    sizes: dict[int, int] = {}
    for instr in segment.instrs:
        for vid, aval in zip(instr.outputs, instr.avals, strict=True):
            sizes[vid] = aval.numel * aval.dtype.itemsize
    sizes.update((vid, aval.nbytes) for vid, aval in segment.inputs.items())
    linked = [part if isinstance(part, EagerStep) else Linker(part) for part in parts]
    linkers = [x for x in linked if isinstance(x, Linker)]
    sources = [source for linker in linkers for source in linker.sources.values()]
    if current_env() is not None and any([TOKEN in source.key for source in sources]):
        raise CompileError("an extent is part of a kernel's text")
    codes = compile_kernels(sources)
    by_name = {code.name: code for code in codes}
    steps: list[NativeStep | EagerStep] = []
    for part in linked:
        if isinstance(part, EagerStep):
            steps.append(part)
        elif step := part.step(by_name):
            steps.append(step)
    return Program(
        steps,
        tuple((vid, sizes[vid]) for vid in segment.outputs),
        tuple(name for linker in linkers for name in linker.names),
        tuple(without_tokens(note) for linker in linkers for note in linker.piece.notes),
        lazy_text(linkers),
    )


def lazy_text(linkers: list[Linker]) -> dict[str, str]:
    """Kernel name -> IR, of what some pieces launch."""
    return _LazyText({name: s.text for linker in linkers for name, s in linker.sources.items()})


class _LazyText(dict[str, str]):
    """Kernel name -> IR, printed when asked for. Only subscripting and ``get`` print; iteration gives the names."""

    def __init__(self, thunks: Mapping[str, Callable[[], str]]) -> None:
        super().__init__(dict.fromkeys(thunks, ""))
        self._thunks = dict(thunks)

    def __getitem__(self, name: str) -> str:
        text = super().__getitem__(name)
        if not text:
            text = self._thunks[name]()
            self[name] = text
        return text

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401  (this is ``get``)

    def items(self) -> Any:
        return [(name, self[name]) for name in self]

    def values(self) -> Any:
        return [self[name] for name in self]


class Linker:
    """One piece's kernels and slots.

    Attributes:
        sources: name -> what is compiled.
        names: of the kernels, in the order of the launches.
        stages: the jobs that are launched.
    """

    def __init__(self, piece: Piece, marks: bool = False) -> None:
        """``marks``: argument words that number slots are ``SlotWord`` and ``ScalarWord``, for ``merge``."""
        assert piece.plan is not None
        self._slot: Callable[[int], int] = SlotWord if marks else int
        self._scalar_slot: Callable[[int], int] = ScalarWord if marks else int
        self.piece = piece
        self.plan = piece.plan
        self.stages = [[j for j in stage if has_work(j)] for stage in piece.plan.stages]
        self.stages = [stage for stage in self.stages if stage]
        self.sources: dict[str, KernelSource] = {}
        self.job_names: dict[Job, str] = {}
        for stage in self.stages:
            for job in stage:
                source = _source(job, piece.target)
                self.sources[source.name] = source
                self.job_names[job] = source.name
        self.names = [self.job_names[j] for stage in self.stages for j in stage]
        self._assign_slots()

    def _assign_slots(self) -> None:
        """bufs: status, inputs that are touched, outputs, arena, scalars. See ``abi.NativeStep``."""
        scalars: dict[RuntimeScalar, None] = {}
        touched: dict[int, None] = {}
        for stage in self.stages:
            for job in stage:
                for word in _words(job):
                    if type(word) is BufferArg:
                        if word.buffer.kind == "input":
                            touched[word.buffer.vid] = None
                    elif type(word) is RuntimeScalar:
                        scalars[word] = None
        self.inputs = tuple(touched)
        slots = {("input", vid): n for n, vid in enumerate(self.inputs, 1)}
        first = 1 + len(slots)
        slots.update((("output", b.vid), first + n) for n, b in enumerate(self.piece.out_buffers))
        self.arena_slot = 1 + len(slots)
        self.slots = slots
        self.scalar_slots = {s: self.arena_slot + 1 + n for n, s in enumerate(scalars)}

    def _place(self, place: BufferArg) -> tuple[int, int]:
        buffer: Buffer = place.buffer
        if buffer.kind == "arena":
            return self._slot(self.arena_slot), buffer.offset + place.offset
        return self._slot(self.slots[buffer.kind, buffer.vid]), place.offset

    def _filled(self, words: list[Any]) -> tuple[int, ...]:
        out: list[int] = []
        for word in words:
            if type(word) is BufferArg:
                out += self._place(word)
            else:
                out.append(self._scalar_slot(self.scalar_slots[word]) if type(word) is RuntimeScalar else word)
        return tuple(out)

    def step(self, codes: Mapping[str, CompiledKernel]) -> NativeStep | None:
        """The native step; None if there is nothing to do."""
        if not self.stages and not self.piece.out_buffers:
            return None
        stages = tuple(tuple(self._launch(j, codes[self.job_names[j]]) for j in stage) for stage in self.stages)
        step = NativeStep(
            self.inputs,
            tuple((b.vid, b.nbytes) for b in self.piece.out_buffers),
            self.plan.arena_nbytes,
            tuple((s.slot, s.is_float) for s in self.scalar_slots),
            stages,
            [codes[name] for name in self.sources],
        )
        if (config.verify or config.check_hits) and current_env() is None:
            log("pipeline", "accesses to memory: %r", verify_step(self.piece, step, self.stages))
        return step

    def _launch(self, job: Job, code: CompiledKernel) -> Launch:
        kernel = job.kernel
        if isinstance(kernel, LoopKernel | RoutineKernel):
            grain = greatest(1, whole(kernel.units * _TASK_NS / kernel.cost), -(-kernel.units // _MAX_TASKS))
            return Launch(code.address, self._filled(kernel.words), kernel.units, grain, kernel.cost, code.name)
        assert isinstance(kernel, MatmulKernel)
        batch, m, n, k = kernel.shape
        operands = [
            Operand(*self._place(BufferArg(buffer, offset * value.dtype.itemsize)), strides)
            for buffer, (value, offset, strides) in zip(kernel.buffers, kernel.views, strict=True)
        ]
        if kernel.windows is not None:
            own = self._filled(kernel.words)
            args, units, grain, cost = windows_launch(kernel.spec, kernel.windows, operands[0], operands[1], own)
            bump("implicit_products")
            bump("products_in_regions", kernel.spec.regions)
            return Launch(code.address, args, units, grain, cost, code.name)
        args, units, grain, cost = gemm_launch(
            kernel.spec, m, n, k, batch, operands[0], operands[1], self._filled(kernel.words)
        )
        return Launch(code.address, args, units, grain, cost, code.name)


def has_work(job: Job) -> bool:
    """Whether a job is launched at all."""
    kernel = job.kernel
    if isinstance(kernel, LoopKernel | RoutineKernel):
        return kernel.units > 0
    return 0 not in kernel.shape[:3] if kernel else False


def _words(job: Job) -> list[Any]:
    kernel = job.kernel
    assert kernel is not None
    if isinstance(kernel, LoopKernel | RoutineKernel):
        return kernel.words
    return [*kernel.words, *(BufferArg(b, 0) for b in kernel.buffers)]


def _source(job: Job, target: Target) -> KernelSource:
    kernel = job.kernel
    if isinstance(kernel, LoopKernel):
        return _loop_source(kernel.key, target)
    if isinstance(kernel, RoutineKernel):
        return kernel.call.routine.source()
    assert isinstance(kernel, MatmulKernel)
    spec, epilogue = kernel.spec, kernel.epilogue  # the thunk outlives the plan: it must not hold its values
    key, name = _gemm_key(spec)
    emit = emit_gemm if kernel.windows is None else emit_windows
    return KernelSource(name, key, lambda: emit(spec, name, epilogue))


@functools.lru_cache(maxsize=1024)
def _gemm_key(spec: GemmSpec) -> tuple[str, str]:
    """The kernel's key and its name."""
    key = repr(spec)
    return key, f"gemm_{_digest(key)}"


@functools.lru_cache(maxsize=4096)
def _loop_source(key: NestKey, target: Target) -> KernelSource:
    """Kernels of one key are one kernel, in this process and in the disk cache."""
    text = repr(key)
    names = [i.op for i in key.instrs if i.op not in ("load", "const", "number", "store", "mask", "scalar")]
    name = f"{key.form}_{'_'.join(dict.fromkeys(names))[:40] or 'copy'}_{_digest(text)}"
    return KernelSource(name, text, lambda: print_kernel(key, name, target))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=5).hexdigest()
