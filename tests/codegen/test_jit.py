"""Kernels to machine code: sharing, the warm start, errors, lifetime."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jitgrad.codegen.llvm import jit
from jitgrad.codegen.llvm.jit import KernelSource, compile_kernels
from jitgrad.codegen.llvm.target import host_target, named_by_features, target_for
from jitgrad.codegen.llvm.text import FnBuilder
from jitgrad.config import config
from jitgrad.errors import CompileError
from jitgrad.events import count


def constant_text(name: str, value: int) -> str:
    return FnBuilder(name, "").finish(f"ret i64 {value}", "i64")


def constant(value: int, key: str = "") -> KernelSource:
    name = f"constant_{value}"
    return KernelSource(name, key or f"test {value}", lambda: constant_text(name, value))


def call(address: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64)(address)()


@pytest.fixture(autouse=True)
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(config, "cache_dir", tmp_path / "cache")
    yield tmp_path / "cache"
    jit.drop_idle_kernels()


def test_compiles_and_runs() -> None:
    kernels = compile_kernels([constant(41), constant(42)])
    assert [call(k.address) for k in kernels] == [41, 42]


def test_equal_keys_share_one_kernel() -> None:
    with count("compiles") as compiles:
        first, second = compile_kernels([constant(1), constant(1)])
        (third,) = compile_kernels([constant(1)])
    assert first is second is third
    assert compiles() == 1


def test_kernels_of_one_name_live_side_by_side() -> None:
    def source(value: int) -> KernelSource:
        return KernelSource("same", f"same {value}", lambda: constant_text("same", value))

    first, second = compile_kernels([source(1), source(2)])
    assert (call(first.address), call(second.address)) == (1, 2)


def test_disk_hit_does_not_print() -> None:
    compile_kernels([constant(5)])
    jit.drop_idle_kernels()
    gc.collect()

    def never() -> str:
        raise AssertionError("printed on a hit")

    with count("compiles") as compiles, count("cache_reads") as reads:
        (kernel,) = compile_kernels([KernelSource("constant_5", "test 5", never)])
    assert call(kernel.address) == 5
    assert (compiles(), reads()) == (0, 1)


def test_damaged_object_is_compiled_again(cache_dir: Path) -> None:
    compile_kernels([constant(6)])
    jit.drop_idle_kernels()
    gc.collect()
    for path in cache_dir.glob("*.obj"):
        path.write_bytes(path.read_bytes()[:-3])
    with count("compiles") as compiles, count("cache_writes") as writes:
        (kernel,) = compile_kernels([constant(6)])
    assert call(kernel.address) == 6
    assert (compiles(), writes()) == (1, 1)


def test_without_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "cache_dir", None)
    with count("cache_writes") as writes:
        (kernel,) = compile_kernels([constant(7)])
    assert call(kernel.address) == 7
    assert writes() == 0


def test_error_names_the_kernel_and_leaves_the_session_usable() -> None:
    with pytest.raises(CompileError, match=r"(?s)kernel broken.*expected"):
        compile_kernels([KernelSource("broken", "broken", lambda: "define void @broken( {")])
    with pytest.raises(CompileError, match="kernel missing"):
        compile_kernels([KernelSource("missing", "missing", lambda: constant_text("other", 1))])
    assert call(compile_kernels([constant(8)])[0].address) == 8


def test_a_held_kernel_outlives_the_table() -> None:
    (kernel,) = compile_kernels([constant(9)])
    jit.drop_idle_kernels()
    gc.collect()
    assert call(kernel.address) == 9
    with count("compiles") as compiles, count("cache_reads") as reads:
        assert compile_kernels([constant(9)])[0] is kernel
    assert (compiles(), reads()) == (0, 0)


def test_idle_kernels_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    held = len(jit._loaded)  # by other tests
    monkeypatch.setattr(jit, "MAX_IDLE_KERNELS", 3)
    for value in range(100, 110):
        compile_kernels([constant(value)])
    gc.collect()
    assert len(jit._loaded) <= held + 3


def test_idle_kernels_that_are_asked_for_again_hold_no_old_linkers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A linker keeps what it needs of each kernel that it has loaded, and lives as long as one of them."""
    monkeypatch.setattr(jit, "MAX_IDLE_KERNELS", 8)
    monkeypatch.setattr(jit, "KERNELS_PER_LINKER", 4)
    jit.drop_idle_kernels()
    first = jit._session()._num_loaded
    for value in range(300, 340):
        favourites = [constant(v) for v in range(300, min(value, 324), 4)]
        compile_kernels([*favourites, constant(value)])
    gc.collect()
    loaded = [int(kernel._code.name.removeprefix("kernel")) for kernel in jit._loaded.values()]
    assert len({(nr - 1) // 4 for nr in loaded if nr > first}) <= 8 // 4 + 2


def test_threads_compile_each_kernel_once() -> None:
    results: list[list[int]] = []

    def work() -> None:
        results.append([call(k.address) for k in compile_kernels([constant(v) for v in range(200, 220)])])

    threads = [threading.Thread(target=work) for _ in range(4)]
    with count("compiles") as compiles:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [list(range(200, 220))] * 4
    assert compiles() == 20


def test_second_process_compiles_nothing(cache_dir: Path) -> None:
    script = """
import json
from jitgrad.codegen.driver.driver import driver_source
from jitgrad.codegen.driver.worker import worker_source
from jitgrad.codegen.llvm.jit import compile_kernels
from jitgrad.codegen.llvm.target import host_target
from jitgrad.events import stats
compile_kernels([driver_source(host_target()), worker_source(host_target())])
print(json.dumps(stats()))
"""
    env = {**os.environ, "JITGRAD_CACHE_DIR": str(cache_dir)}
    runs = [json.loads(subprocess.check_output([sys.executable, "-c", script], env=env)) for _ in range(2)]
    assert [(r["compiles"], r["cache_reads"], r["cache_writes"]) for r in runs] == [(2, 0, 2), (0, 2, 0)]


def test_targets_by_name() -> None:
    assert host_target().width >= 1
    generic = target_for("generic")
    assert (generic.width, generic.has_fma) == (1, False)
    with pytest.raises(ValueError, match="unknown CPU 'pentium'"):
        target_for("pentium")


@pytest.mark.parametrize(
    ("shown", "features", "named"),
    [
        ("rocketlake", {"avx512f", "avx512fp16"}, "sapphirerapids"),
        ("graniterapids", {"avx512f", "avx512fp16"}, "graniterapids"),
        ("znver6", {"avx512f", "avx512fp16"}, "znver6"),
        ("icelake-server", {"avx512f"}, "icelake-server"),
    ],
)
def test_a_cpu_that_shows_another_model(shown: str, features: set[str], named: str) -> None:
    """A rented machine may show any number; products want the tiles of the core that is there."""
    assert named_by_features(shown, frozenset(features)) == named


@pytest.mark.parametrize(("cpu", "width"), [("x86-64", 4), ("x86-64-v3", 8), ("x86-64-v4", 16)])
def test_x86_levels(cpu: str, width: int) -> None:
    try:
        target = target_for(cpu)
    except ValueError:
        pytest.skip("this machine has no such level")
    assert target.width == width
    assert target.key != host_target().key


def test_kernels_beyond_the_budget_are_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has memory maps of its own; LLVM ends the process when the system has no more."""
    jit.drop_idle_kernels()
    gc.collect()
    room = len(jit._loaded) + 3
    monkeypatch.setattr(jit, "max_live_kernels", lambda: room)
    held = compile_kernels([constant(7000 + n) for n in range(3)])
    with pytest.raises(CompileError, match="memory maps"):
        compile_kernels([constant(7100)])
    assert compile_kernels([constant(7001)]) == [held[1]]  # those that are there are given out
    del held[0]
    gc.collect()
    assert call(compile_kernels([constant(7100)])[0].address) == 7100  # idle ones make room


_FOLDER_TAKEN_FOR_EMPTY = """
import importlib.util, os, pkgutil, sys, warnings
warnings.simplefilter("error")
import jitgrad as jg
assert "llvmlite" not in sys.modules
(folder,) = importlib.util.find_spec("llvmlite").submodule_search_locations
finder = pkgutil.get_importer(folder)  # as Python leaves it where the system did not let it look into the folder
finder._path_cache, finder._relaxed_path_cache, finder._path_mtime = set(), set(), os.stat(folder).st_mtime
step = jg.compile(lambda x: x * 2 + 1)
print([step(jg.ones(3)).tolist() for _ in range(3)][-1], jg.stats()["compiles"] > 0)
"""


def test_llvm_is_found_in_a_folder_that_was_taken_for_empty(tmp_path: Path) -> None:
    env = {**os.environ, "JITGRAD_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", _FOLDER_TAKEN_FOR_EMPTY]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "[3.0, 3.0, 3.0] True"
