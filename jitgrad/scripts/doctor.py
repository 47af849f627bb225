"""``python -m jitgrad doctor``: what jitgrad finds on this machine, and whether it computes rightly there.

Owns: ``Diagnosis``, ``examine``, ``self_test``.
Out: tables and sentences; the exit status says whether something is wrong.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import jitgrad
from jitgrad import nn
from jitgrad.codegen.llvm.binding import binding
from jitgrad.codegen.llvm.object_cache import open_cache
from jitgrad.codegen.llvm.target import host_target
from jitgrad.config import VARIABLES, config
from jitgrad.cpython.build import KNOWN_VERSIONS, is_free_threaded, is_known_interpreter
from jitgrad.cpython.liveness import counts_references
from jitgrad.report.tables import Report, Table
from jitgrad.report.units import nbytes_text
from jitgrad.runtime.native.pool import get_num_threads
from jitgrad.state import native_cell

__all__ = ["Diagnosis", "SelfTest", "examine", "self_test"]

OPTIONAL = {
    "numba": "jitgrad.vectorize and jitgrad.kernel",
    "ml_dtypes": "NumPy arrays of bfloat16",
    "safetensors": "files of that format",
    "rich": "tables in colour",
    "matplotlib": "plots of reports and graphs",
    "graphviz": "graphs drawn by Graphviz",
    "psutil": "memory in benchmarks",
    "tqdm": "progress bars",
    "tensorboard": "utils.tensorboard",
}
"""Distributions that jitgrad uses where they are installed, and for what."""

_FEATURES = ("sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "amx-tile", "neon")
_TUNING = (
    "done as a model of the core says (JITGRAD_TUNE=0)",
    "measured as time allows; at once: python -m jitgrad.tune",
    "measured when they are met (JITGRAD_TUNE=all)",
)
_SAME = 1e-10
_STEP = 1e-6
_SAME_SLOPE = 1e-6


@dataclass(frozen=True)
class SelfTest:
    """A small network in float64: its loss and its gradient, three ways.

    Attributes:
        loss_difference: of the eager and the compiled loss, relative.
        gradient_difference: of the eager and the compiled gradient, relative to its norm.
        slope_difference: of the gradient along a random direction and finite differences of the loss, relative.
        compiles, cache_reads, cache_writes: kernels that were compiled, read from the disk cache and stored there.
    """

    loss_difference: float
    gradient_difference: float
    slope_difference: float
    compiles: int
    cache_reads: int
    cache_writes: int

    @property
    def passed(self) -> bool:
        """Whether all three agree."""
        return max(self.loss_difference, self.gradient_difference) <= _SAME and self.slope_difference <= _SAME_SLOPE


def self_test() -> SelfTest:
    """Compare eager, compiled and finite differences; a second or two."""
    random = np.random.default_rng(0)
    inputs, targets = jitgrad.tensor(random.normal(size=(64, 12))), jitgrad.tensor(random.integers(0, 5, 64))
    start = [random.normal(size=shape) * 0.3 for shape in ((32, 12), (32,), (5, 32), (5,))]
    direction = [random.normal(size=w.shape) for w in start]

    def loss_of(weights: list[Any]) -> Any:
        hidden = nn.functional.linear(inputs, weights[0], weights[1]).tanh()
        return nn.functional.cross_entropy(nn.functional.linear(hidden, weights[2], weights[3]), targets)

    def step(weights: list[Any]) -> tuple[Any, ...]:
        loss = loss_of(weights)
        return (loss, *jitgrad.autograd.grad(loss, weights))

    def run(function: Any) -> tuple[float, list[Any]]:
        weights = [jitgrad.tensor(w, requires_grad=True) for w in start]
        loss, *gradients = function(weights)
        return loss.item(), [g.numpy() for g in gradients]

    def moved(by: float) -> float:
        return loss_of([jitgrad.tensor(w + by * d) for w, d in zip(start, direction, strict=True)]).item()

    before = jitgrad.stats()
    with jitgrad.eager():
        loss, gradients = run(step)
        slope = (moved(_STEP) - moved(-_STEP)) / (2 * _STEP)
    compiled = jitgrad.compile(step)
    found = [run(compiled) for _ in range(3)]
    after = jitgrad.stats()
    norm = sum(float((g * g).sum()) for g in gradients) ** 0.5
    apart = [
        sum(float(((a - b) ** 2).sum()) for a, b in zip(gradients, other, strict=True)) ** 0.5 for _, other in found
    ]
    along = sum(float((g * d).sum()) for g, d in zip(gradients, direction, strict=True))
    return SelfTest(
        max(abs(loss - other) / abs(loss) for other, _ in found), max(apart) / norm, abs(along - slope) / abs(along),
        *(after[name] - before[name] for name in ("compiles", "cache_reads", "cache_writes")),
    )  # fmt: skip


@dataclass
class Diagnosis(Report):
    """What was found.

    Attributes:
        versions, machine, cache, environment: what and its value, in words.
        missing: distributions that are not installed -> what they are for.
        test: the self-test.
        problems: what is wrong, a sentence each.
    """

    versions: dict[str, str]
    machine: dict[str, str]
    cache: dict[str, str]
    environment: dict[str, str]
    missing: dict[str, str]
    test: SelfTest
    problems: list[str]

    def tables(self) -> list[Table]:
        """One per part."""
        test = {
            "eager and compiled loss": f"{self.test.loss_difference:.1e} apart",
            "eager and compiled gradient": f"{self.test.gradient_difference:.1e} apart",
            "gradient and finite differences": f"{self.test.slope_difference:.1e} apart",
            "kernels": f"{self.test.compiles} compiled, {self.test.cache_reads} read from the disk cache",
            "result": "passed" if self.test.passed else "FAILED",
        }
        parts = {
            "versions": self.versions, "machine": self.machine, "disk cache": self.cache,
            "environment": self.environment, "not installed": self.missing, "self-test": test,
        }  # fmt: skip
        return [_table(title, part) for title, part in parts.items() if part]

    def notes(self) -> list[str]:
        """The problems."""
        return self.problems or ["Nothing is wrong."]

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        return {
            "versions": self.versions, "machine": self.machine, "cache": self.cache, "environment": self.environment,
            "missing": self.missing, "problems": self.problems, "self_test_passed": self.test.passed,
        }  # fmt: skip


def _table(title: str, part: dict[str, str]) -> Table:
    return Table(title, ("", ""), [[what, value] for what, value in part.items()], are_texts=True)


def examine() -> Diagnosis:
    """Look, and run the self-test."""
    test = self_test()  # first: whether native hits are in use is known after the first compile
    versions, missing = _versions()
    machine, cache = _machine(), _cache()
    environment = {name: value for name, value in sorted(os.environ.items()) if name.startswith("JITGRAD_")}
    problems = [f"{name} is set, and jitgrad reads no such variable." for name in environment if name not in VARIABLES]
    if not test.passed:
        problems.insert(0, "The self-test failed: please report this with the whole output of this command.")
    if not is_known_interpreter():
        first, last = (".".join(map(str, version)) for version in KNOWN_VERSIONS)
        problems.append(
            f"Steps are recorded by Python code, about a microsecond per operation: native hits need CPython {first} "
            f"to {last} with the GIL, 64 bits."
        )
    elif not native_cell.is_installed and config.native_hits:
        problems.append("Native hits could not be installed: steps are recorded by Python code.")
    if config.cache_dir is not None and cache["state"] != "in use":
        problems.append(f"The disk cache is {cache['state']}: each process compiles its kernels again.")
    if config.eager:
        problems.append("JITGRAD_EAGER is set: compiled functions run eagerly.")
    return Diagnosis(versions, machine, cache, environment, missing, test, problems)


def _versions() -> tuple[dict[str, str], dict[str, str]]:
    build = " without the GIL" if is_free_threaded() else ""
    llvm = ".".join(map(str, binding().llvm_version_info))
    versions = {
        "jitgrad": f"{jitgrad.__version__}, {Path(jitgrad.__file__).parent}",
        "PyTorch's semantics": jitgrad.version.TORCH_VERSION.partition("+")[0],
        "Python": f"{platform.python_implementation()} {platform.python_version()}{build}, {sys.executable}",
        "numpy": np.__version__,
        "llvmlite": f"{_version_of('llvmlite')}, LLVM {llvm}",
    }
    found = {name: _version_of(name) for name in OPTIONAL}
    versions.update((name, version) for name, version in found.items() if version)
    return versions, {name: OPTIONAL[name] for name, version in found.items() if not version}


def _version_of(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _machine() -> dict[str, str]:
    target = host_target()
    on = {part[1:] for part in target.features.split(",") if part.startswith("+")}
    return {
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "processor": f"{target.cpu}: {', '.join(name for name in _FEATURES if name in on) or 'no known features'}",
        "vectors": f"{32 * target.width} bits, {target.registers} registers",
        "matrix products": _TUNING[config.tune],
        "threads": f"{get_num_threads()} of {os.cpu_count()} cores",
        "native hits": "in use" if native_cell.is_installed else "not in use",
        "liveness": "reference counts" if counts_references else "weak references",
    }


def _cache() -> dict[str, str]:
    if config.cache_dir is None:
        return {"state": "off (JITGRAD_CACHE_DIR is empty)"}
    directory = Path(config.cache_dir)
    cache = open_cache(str(directory), config.cache_limit_nbytes)
    sizes = [file.stat().st_size for file in directory.iterdir() if file.is_file()] if directory.is_dir() else []
    state = "in use" if cache is not None and cache.readable and cache.writable else "not readable or not writable"
    return {
        "state": state,
        "directory": str(directory),
        "size": f"{nbytes_text(sum(sizes))} in {len(sizes)} files, at most {nbytes_text(config.cache_limit_nbytes)}",
    }
