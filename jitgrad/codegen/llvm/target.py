"""The CPU that kernels are compiled for.

Owns: ``Target`` and ``host_target``: which vector width, how many registers, which instructions; ``processor``.
Must not know: kernels, programs.
In: the host as LLVM sees it, or ``config.cpu``. Out: a ``Target``, which emitters read and cache keys contain.
"""

from __future__ import annotations

import functools
import platform
from dataclasses import dataclass
from pathlib import Path

from jitgrad.codegen.llvm.binding import asking_llvm, binding
from jitgrad.codegen.llvm.text import Isa
from jitgrad.config import config

__all__ = ["Target", "host_target", "named_by_features", "processor", "target_for"]


@dataclass(frozen=True, slots=True)
class Target:
    """What an emitter may use.

    Attributes:
        cpu: LLVM's name of the CPU.
        features: LLVM's feature string (``+avx2,-avx512f,...``); may be empty.
        triple: LLVM's target triple.
        width: float32 lanes of the widest vector: 16, 8, 4, or 1 (plain scalars).
        registers: number of vector registers.
        has_fma: fused multiply-add in one instruction.
        has_round: floor, ceil, trunc and round in one instruction.
        has_masks: predicated loads and stores without a branch (AVX-512 mask registers).
        has_half: conversions between float16 and float32 in one instruction.
    """

    cpu: str
    features: str
    triple: str
    width: int
    registers: int
    has_fma: bool
    has_round: bool
    has_masks: bool
    has_half: bool = False

    @property
    def isa(self) -> Isa:
        """What vector code must know of it."""
        return Isa(self.has_fma, self.has_round, self.has_half, scale=self.width == 16, lookup=self.width == 16)

    @property
    def key(self) -> str:
        """What cache keys hold of the target."""
        return f"{self.triple}|{self.cpu}|{self.features}"


# (features all needed, width, registers, fma, round, masks): the first row that matches wins
_X86_LEVELS: tuple[tuple[frozenset[str], int, int, bool, bool, bool], ...] = (
    (frozenset({"avx512f", "avx512vl", "avx512bw", "avx512dq", "fma"}), 16, 32, True, True, True),
    (frozenset({"avx2", "fma"}), 8, 16, True, True, False),
    (frozenset({"sse4.1"}), 4, 16, False, True, False),
    (frozenset({"sse2"}), 4, 16, False, False, False),
)

# CPU names that ``config.cpu`` takes, with the features of the table above that they have.
_NAMED_X86: dict[str, frozenset[str]] = {
    "x86-64": frozenset({"sse2"}),
    "x86-64-v2": frozenset({"sse2", "sse4.1"}),
    "x86-64-v3": frozenset({"sse2", "sse4.1", "avx2", "fma", "f16c"}),
    "x86-64-v4": frozenset({"sse2", "sse4.1", "avx2", "fma", "f16c", "avx512f", "avx512vl", "avx512bw", "avx512dq"}),
}


def _describe(cpu: str, features: str, triple: str, has: frozenset[str]) -> Target:
    """The target of a CPU with the features ``has``; plain scalars where the architecture is not known."""
    arch = triple.split("-", 1)[0]
    if arch in ("x86_64", "amd64"):
        for needed, width, registers, fma, rounds, masks in _X86_LEVELS:
            if needed <= has:
                return Target(cpu, features, triple, width, registers, fma, rounds, masks, "f16c" in has)
    if arch in ("aarch64", "arm64"):  # NEON, FMA and rounding are part of the base architecture
        return Target(cpu, features, triple, 4, 32, True, True, False, True)
    return Target(cpu, features, triple, 1, 16, False, False, False)


_WITH_FP16 = ("sapphirerapids", "emeraldrapids", "graniterapids", "diamondrapids", "znver")
"""How LLVM's names of CPUs with half-precision arithmetic begin."""


def named_by_features(cpu: str, has: frozenset[str]) -> str:
    """LLVM's name ``cpu`` of a CPU, unless it cannot be right.

    LLVM names a CPU by its model number, and many a rented machine shows another number than its CPU has. Example: a
    Granite Rapids that calls itself a Rocket Lake, whose products want other register tiles.
    """
    if "avx512fp16" in has and not cpu.startswith(_WITH_FP16):
        return _WITH_FP16[0]
    return cpu


def target_for(cpu: str) -> Target:
    """The target of a named CPU level (``generic``: plain scalars).

    Raises:
        ValueError: the name is not known, or this machine could not run its code.
    """
    triple = binding().get_process_triple()
    host = _host_features()
    if cpu == "generic":
        return Target("generic", "", triple, 1, 16, False, False, False)
    has = _NAMED_X86.get(cpu) if triple.startswith(("x86_64", "amd64")) else None
    if has is None:
        raise ValueError(f"JITGRAD_CPU: unknown CPU {cpu!r}; known: generic, {', '.join(_NAMED_X86)}")
    if not has - {"sse2"} <= host:
        raise ValueError(f"JITGRAD_CPU: this machine cannot run code for {cpu!r}")
    return _describe(cpu, "", triple, has)


def _host_features() -> frozenset[str]:
    return frozenset(name for name, on in binding().get_host_cpu_features().items() if on)


@functools.cache
def host_target() -> Target:
    """The target that kernels are compiled for: this machine, or ``config.cpu``."""
    if config.cpu:
        return target_for(config.cpu)
    with asking_llvm:
        llvm = binding()
        features, has = llvm.get_host_cpu_features().flatten(), _host_features()
        return _describe(named_by_features(llvm.get_host_cpu_name(), has), features, llvm.get_process_triple(), has)


@functools.cache
def processor() -> str:
    """The model of this machine's CPU, as far as the system tells it: more exact than LLVM's name of its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines()
    except OSError:
        return platform.processor()
    parts = [line.partition(":") for line in lines]
    facts = {name.strip(): value.strip() for name, _, value in parts}
    wanted = ("vendor_id", "model name", "cpu family", "model", "stepping", "cache size", "CPU implementer", "CPU part")
    return "|".join(facts.get(name, "") for name in wanted)
