"""Processes that are killed while they write the cache; two versions of the library on one cache.

Owns: the scenes ``killed_writers`` and ``two_versions``.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import jitgrad as jg
from jitgrad.codegen.llvm.formats import payload_of
from jitgrad.codegen.llvm.object_cache import ObjectCache
from jitgrad.config import config
from tests.attack.disks import _trained_in
from tests.attack.scenes import Outcome, in_child, scene

_LIMIT = 200_000


def _payload(key: bytes) -> bytes:
    """What belongs to a key: of many sizes, up to some hundred writes of a pipe."""
    return key * (1 + int.from_bytes(key[:2]) % 800)


def _write_for_ever(folder: Path, seed: int) -> None:
    cache, rng = ObjectCache(folder, _LIMIT), random.Random(seed)
    while True:
        key = bytes([rng.randrange(40)]) * 32
        cache.store(key, _payload(key))
        key = bytes([rng.randrange(40)]) * 32
        cache.load(key)


def _train_for_ever(folder: Path, seed: int) -> None:
    """Compile one kernel after the other."""
    config.cache_dir, rng = folder, random.Random(seed)
    x = jg.arange(20.0)
    functions = (jg.exp, jg.sin, jg.cos, jg.tanh, jg.abs, jg.sqrt)
    while True:
        chain = [rng.choice(functions) for _ in range(3)]

        def step(chain: list = chain) -> object:
            y = x
            for function in chain:
                y = function(y)
            return y.sum()

        jg.compile(step)()


def _kill_one(folder: Path, seed: int, after_s: float, trains: bool) -> str:
    child = os.fork()
    if child == 0:
        try:
            (_train_for_ever if trains else _write_for_ever)(folder, seed)
        except BaseException as error:
            os.write(2, repr(error).encode())
        os._exit(3)
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return "" if status == -signal.SIGKILL else f"it had ended with status {status}"


def _whole(folder: Path) -> tuple[int, str]:
    """(entries that are whole, which are whole and hold what belongs to another key)."""
    found, wrong = 0, ""
    for path in folder.glob("*.obj"):
        key = bytes.fromhex(path.stem)
        payload = payload_of(key, path.read_bytes())
        found += payload is not None
        if payload is None:
            wrong = f"{path.name}, of {path.stat().st_size} bytes, is broken under its own name"
        elif payload != _payload(key):
            wrong = f"{path.name} holds what belongs to another key"
    return found, wrong


@scene
def killed_writers(share: float) -> Iterator[Outcome]:
    """SIGKILL after a random while: entries are whole or passed over, and the next process is right."""
    folder, rng = Path(tempfile.mkdtemp()), random.Random(7)
    for nr in range(max(20, round(1000 * share))):
        wrong = _kill_one(folder, nr, rng.random() * 0.03, False)
        yield Outcome(f"writer {nr}", wrong or _whole(folder)[1])
    found, _ = _whole(folder)
    cache = ObjectCache(folder, _LIMIT)
    is_right = all(cache.load(bytes([n]) * 32) in (None, _payload(bytes([n]) * 32)) for n in range(40))
    yield Outcome("what is left is read", "" if is_right and found else f"{found} entries")
    cache_dir = folder
    for nr in range(max(2, round(100 * share))):
        if nr % 10 == 0:
            cache_dir = Path(tempfile.mkdtemp())
        wrong = _kill_one(cache_dir, nr, 0.3 + rng.random(), True)
        yield Outcome(f"training {nr}", wrong or in_child(lambda at=cache_dir: _trained_in(at)))


_STEP = """
import jitgrad as jg
x = jg.arange(100.0) / 50.0
step = jg.compile(lambda: (x.exp() + x.sin() * x).sum())
import sys; sys.stdout.write(f"{step().item()} {jg.stats()['compiles']}")
"""


def _version(root: Path, edits: tuple[tuple[str, str, str], ...]) -> Path:
    """A copy of the library with other texts in it."""
    package = Path(jg.__file__).parent
    shutil.copytree(package, root / "jitgrad", ignore=shutil.ignore_patterns("__pycache__"))
    for name, old, new in edits:
        path = root / "jitgrad" / name
        text = path.read_text()
        assert text.count(old) >= 1, (name, old)
        path.write_text(text.replace(old, new, 1))
    return root


def _ran(root: Path, cache: Path) -> tuple[float, int]:
    env = {**os.environ, "PYTHONPATH": str(root), "JITGRAD_CACHE_DIR": str(cache)}
    run = subprocess.run([sys.executable, "-c", _STEP], env=env, cwd=root, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr[-2000:]
    value, count = run.stdout.split()
    return float(value), int(count)


@scene
def two_versions(share: float) -> Iterator[Outcome]:
    """Two versions whose kernels differ, in turn on one cache: each has its own values, and finds its own kernels."""
    cache = Path(tempfile.mkdtemp())
    here = _version(Path(tempfile.mkdtemp()), ())
    other = _version(Path(tempfile.mkdtemp()), (("codegen/loops/emit_loops.py", '"""', '"""Of another day. ', ),))
    first = _ran(here, cache)
    for nr in range(max(2, round(20 * share))):
        root, is_new = (other, nr == 0) if nr % 2 == 0 else (here, False)
        value, compiles = _ran(root, cache)
        wrong = "" if value == first[0] else f"{value} instead of {first[0]}"
        wrong = wrong or ("" if (compiles > 0) is is_new else f"{compiles} kernels were compiled")
        yield Outcome(f"run {nr}", wrong)
    shutil.rmtree(cache)
