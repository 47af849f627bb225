"""Who is compared: a library in one mode, and how it makes a row's step.

Owns: ``Subject``, ``SUBJECTS`` and the environment that pins every one of them to the same number of threads.
Must not know: processes, clocks. A library is imported by the worker that runs it, and by nobody else.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.row import Row, Training, Wrap

__all__ = ["OURS", "SUBJECTS", "Subject", "environment", "is_installed", "make_training"]

OURS = "jitgrad"


@dataclass(frozen=True)
class Subject:
    """One column of the table.

    Attributes:
        name: for ``--subjects`` and JSON.
        library: the module that must be installed.
        is_compiled: whether the library's compiler is used (JAX: always).
        has_disk_cache: whether a second process starts faster, so that a warm start is worth measuring.
    """

    name: str
    library: str
    is_compiled: bool
    has_disk_cache: bool = False


_ALL = (
    Subject("jitgrad-eager", "jitgrad", False),
    Subject(OURS, "jitgrad", True, has_disk_cache=True),
    Subject("torch-eager", "torch", False),
    Subject("torch-compile", "torch", True, has_disk_cache=True),
    Subject("jax", "jax", True),
)
SUBJECTS: dict[str, Subject] = {subject.name: subject for subject in _ALL}


def is_installed(subject: Subject) -> bool:
    """Whether the subject's library can be imported, without importing it."""
    return importlib.util.find_spec(subject.library) is not None


def environment(threads: int, cache_dir: Path) -> dict[str, str]:
    """Variables that pin every library to ``threads`` and put every compiler's cache under ``cache_dir``."""
    count = str(threads)
    pools = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "JITGRAD_NUM_THREADS", "NPROC")
    flags = "" if threads > 1 else "--xla_cpu_multi_thread_eigen=false"
    return {
        **dict.fromkeys(pools, count),
        "XLA_FLAGS": flags,
        "JAX_PLATFORMS": "cpu",
        # installed packages have their bytecode; a source tree writes its own at the first start, where that is allowed
        "PYTHONDONTWRITEBYTECODE": "",
        "JITGRAD_CACHE_DIR": str(cache_dir / "jitgrad"),
        "TORCHINDUCTOR_CACHE_DIR": str(cache_dir / "inductor"),
    }


def _make_torch(row: Row, subject: Subject, seed: int, threads: int) -> Training:
    torch = importlib.import_module("torch")
    torch.set_num_threads(threads)
    wrap = Wrap(loss=torch.compile) if subject.is_compiled else Wrap()
    return _rows(row).make(torch, seed, wrap, **row.sizes)


def _make_jitgrad(row: Row, subject: Subject, seed: int, threads: int) -> Training:
    jitgrad = importlib.import_module("jitgrad")
    wrap = Wrap(step=jitgrad.compile, part=jitgrad.compile) if subject.is_compiled else Wrap()
    return _rows(row).make(jitgrad, seed, wrap, **row.sizes)


def _make_jax(row: Row, subject: Subject, seed: int, threads: int) -> Training:
    return importlib.import_module(f"benchmarks.rows_jax.{row.module}").make(seed, **row.sizes)


def _rows(row: Row) -> Any:
    return importlib.import_module(f"benchmarks.rows.{row.module}")


_MAKERS = {"torch": _make_torch, "jitgrad": _make_jitgrad, "jax": _make_jax}


def make_training(row: Row, subject: Subject, seed: int, threads: int) -> Training:
    """Import the subject's library and build the row's step in it."""
    return _MAKERS[subject.library](row, subject, seed, threads)
