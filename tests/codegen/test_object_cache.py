"""The disk cache: trust, damage, bounds, two processes at once."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import jitgrad
from jitgrad.codegen.llvm import object_cache
from jitgrad.codegen.llvm.object_cache import ObjectCache
from tests.attack.disks import Refusing

KEY = bytes(range(32))
OTHER = bytes(reversed(range(32)))
PAYLOAD = os.urandom(5000)
LIMIT = 1 << 20

posix_only = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="POSIX permissions")


def file_of(directory: Path, key: bytes = KEY) -> Path:
    return directory / (key.hex() + ".obj")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "a" / "cache"


def test_round_trip(directory: Path) -> None:
    cache = ObjectCache(directory, LIMIT)
    assert cache.load(KEY) is None
    assert cache.store(KEY, PAYLOAD)
    assert cache.load(KEY) == PAYLOAD
    assert ObjectCache(directory, LIMIT).load(KEY) == PAYLOAD
    assert [p.name for p in directory.iterdir()] == [file_of(directory).name]


@posix_only
@pytest.mark.parametrize("is_for_ever", [False, True])
def test_a_disk_that_fails_while_it_is_read_is_no_error_and_costs_no_descriptor(
    is_for_ever: bool, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request of a read in turn; ``python -m tests.attack.faults --scene full_disks`` tries them in training."""
    ObjectCache(directory, LIMIT).store(KEY, PAYLOAD)

    def read(at: int) -> list[str]:
        os.utime(file_of(directory), (0, 0))  # old: a read renews it
        cache, refusing = ObjectCache(directory, LIMIT), Refusing(at, is_for_ever, errno.EIO)
        descriptors = len(os.listdir("/proc/self/fd"))
        with monkeypatch.context() as patch:
            patch.setattr(object_cache, "os", refusing.system())
            patch.setattr(object_cache, "open", refusing.open, raising=False)
            assert cache.load(KEY) in (None, PAYLOAD)
        assert len(os.listdir("/proc/self/fd")) == descriptors
        return refusing.asked

    count = len(read(0))
    assert count >= 6
    for at in range(1, count + 1):
        read(at)
    assert ObjectCache(directory, LIMIT).load(KEY) == PAYLOAD


@posix_only
def test_directory_and_files_are_private(directory: Path) -> None:
    cache = ObjectCache(directory, LIMIT)
    cache.store(KEY, PAYLOAD)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(file_of(directory).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[:10],
        lambda data: b"",
        lambda data: data + b"x",
        lambda data: data[:-5] + bytes([data[-5] ^ 1]) + data[-4:],
        lambda data: b"X" + data[1:],
        lambda data: data[:8] + b"\xff" + data[9:],
        lambda data: os.urandom(4000),
    ],
)
def test_damaged_files_are_ignored_and_rewritten(directory: Path, damage) -> None:
    cache = ObjectCache(directory, LIMIT)
    cache.store(KEY, PAYLOAD)
    path = file_of(directory)
    path.write_bytes(damage(path.read_bytes()))
    assert cache.load(KEY) is None
    assert cache.store(KEY, PAYLOAD)
    assert cache.load(KEY) == PAYLOAD


def test_file_of_another_key_is_ignored(directory: Path) -> None:
    cache = ObjectCache(directory, LIMIT)
    cache.store(KEY, PAYLOAD)
    os.replace(file_of(directory), file_of(directory, OTHER))
    assert cache.load(OTHER) is None


@posix_only
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_file_that_others_can_write_is_not_loaded(directory: Path, mode: int) -> None:
    cache = ObjectCache(directory, LIMIT)
    cache.store(KEY, PAYLOAD)
    file_of(directory).chmod(mode)
    assert cache.load(KEY) is None


@posix_only
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_directory_that_others_can_write_is_not_used(directory: Path, mode: int) -> None:
    ObjectCache(directory, LIMIT).store(KEY, PAYLOAD)
    directory.chmod(mode)
    cache = ObjectCache(directory, LIMIT)
    assert cache.load(KEY) is None
    assert not cache.store(OTHER, PAYLOAD)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root, to give files away")
def test_files_and_directories_of_other_users_are_not_loaded(directory: Path) -> None:
    cache = ObjectCache(directory, LIMIT)
    cache.store(KEY, PAYLOAD)
    os.chown(file_of(directory), 12345, -1)
    assert cache.load(KEY) is None
    os.chown(file_of(directory), 0, -1)
    assert cache.load(KEY) == PAYLOAD
    os.chown(directory, 12345, -1)
    assert ObjectCache(directory, LIMIT).load(KEY) is None


@posix_only
def test_links_are_not_followed(directory: Path, tmp_path: Path) -> None:
    cache = ObjectCache(directory, LIMIT)
    cache.store(KEY, PAYLOAD)
    elsewhere = tmp_path / "elsewhere"
    os.replace(file_of(directory), elsewhere)
    file_of(directory).symlink_to(elsewhere)
    assert cache.load(KEY) is None
    link = tmp_path / "link"
    link.symlink_to(directory)
    assert not ObjectCache(link, LIMIT).writable


@posix_only
def test_directory_swapped_after_opening_is_not_used(directory: Path, tmp_path: Path) -> None:
    cache = ObjectCache(directory, LIMIT)
    cache.store(KEY, PAYLOAD)
    directory.rename(tmp_path / "moved")
    directory.mkdir()
    cache.store(OTHER, PAYLOAD)
    assert list(directory.iterdir()) == []
    assert cache.load(OTHER) == PAYLOAD


@posix_only
def test_the_directory_takes_no_descriptor_of_the_standard_streams(directory: Path) -> None:
    """A program that opens its streams again would close it, and what is written to them would reach it."""
    script = """
import os, sys
from pathlib import Path
from jitgrad.codegen.llvm.object_cache import ObjectCache
os.closerange(0, 3)
cache = ObjectCache(Path(sys.argv[1]), 1 << 20)
for descriptor in range(3):
    try:
        os.fstat(descriptor)
    except OSError:
        continue
    os._exit(1)
os._exit(0 if cache.store(bytes(32), b"x") and not os.get_inheritable(cache._fd) else 2)
"""
    assert subprocess.run([sys.executable, "-c", script, str(directory)], timeout=60).returncode == 0


@posix_only
@pytest.mark.parametrize("request_", ["stat", "fstat"])
def test_a_disk_that_fails_costs_only_speed(directory: Path, monkeypatch: pytest.MonkeyPatch, request_: str) -> None:
    ObjectCache(directory, LIMIT).store(KEY, PAYLOAD)
    cache = ObjectCache(directory, LIMIT)

    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    open_files = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    with monkeypatch.context() as patch:
        patch.setattr(os, request_, fail)
        assert ObjectCache(directory, LIMIT).load(KEY) in (None, PAYLOAD)
        assert cache.load(KEY) in (None, PAYLOAD)
        assert not cache.holds(KEY)
    cache.close()
    assert request_ == "stat" or not open_files or len(os.listdir("/proc/self/fd")) <= open_files


def test_path_that_cannot_be_a_directory_costs_only_speed(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    cache = ObjectCache(blocker / "cache", LIMIT)
    assert not cache.store(KEY, PAYLOAD)
    assert cache.load(KEY) is None


def test_failed_write_is_not_retried(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ObjectCache(directory, LIMIT)
    calls = []

    def refuse(*args, **kwargs):
        calls.append(args)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    assert not cache.store(KEY, PAYLOAD)
    assert not cache.store(OTHER, PAYLOAD)
    assert len(calls) == 1
    assert list(directory.iterdir()) == []


def test_least_recently_used_files_go_first(directory: Path) -> None:
    cache = ObjectCache(directory, 10_000)
    keys = [bytes([i]) * 32 for i in range(12)]
    for age, key in enumerate(keys[:9]):
        cache.store(key, b"x" * 1000)
        os.utime(file_of(directory, key), (1e9 + age, 1e9 + age))
    assert cache.load(keys[0]) is not None  # a read makes it recent
    cache.store(keys[9], b"x" * 1000)
    cache.store(keys[10], b"x" * 1000)
    assert cache.load(keys[0]) is not None
    assert cache.load(keys[1]) is None
    assert sum(p.stat().st_size for p in directory.iterdir()) <= 10_000


def test_abandoned_temporary_files_are_removed(directory: Path) -> None:
    directory.mkdir(parents=True, mode=0o700)
    old, new = directory / ".1.0.0.tmp", directory / ".2.0.0.tmp"
    old.write_text("x")
    new.write_text("x")
    os.utime(old, (1e9, 1e9))
    ObjectCache(directory, LIMIT).store(KEY, PAYLOAD)
    assert not old.exists() and new.exists()


def test_two_processes_fill_the_cache_at_once(directory: Path) -> None:
    script = """
import sys
from pathlib import Path
from jitgrad.codegen.llvm.object_cache import ObjectCache
cache = ObjectCache(Path(sys.argv[1]), 40_000)
for i in range(600):
    key = bytes([i % 60]) * 32
    payload = key * 30
    found = cache.load(key)
    assert found is None or found == payload
    assert cache.store(key, payload)
"""
    processes = [subprocess.Popen([sys.executable, "-c", script, str(directory)]) for _ in range(2)]
    assert [p.wait(60) for p in processes] == [0, 0]
    assert not list(directory.glob(".*.tmp"))


def _occupy(path: Path, kind: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if kind == "directory":
        path.mkdir(mode=0o700)
    elif kind == "fifo":
        os.mkfifo(path, 0o600)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.path.relpath(path))  # such a name must be short
    elif kind == "loop":
        path.symlink_to(path)
    else:
        path.symlink_to("/dev/zero")


@posix_only
@pytest.mark.parametrize("kind", ["directory", "fifo", "socket", "loop", "device"])
def test_what_is_no_file_is_passed_over(
    kind: str, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _occupy(file_of(directory), kind)
    open_files = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    cache = ObjectCache(directory, LIMIT)
    for _ in range(3):
        assert cache.load(KEY) is None
    cache.store(KEY, PAYLOAD)  # in the place of anything but a directory
    assert cache.load(KEY) == (None if kind == "directory" else PAYLOAD)
    assert cache.store(OTHER, PAYLOAD) is (kind != "directory")
    cache.close()
    if open_files:
        assert len(os.listdir("/proc/self/fd")) == open_files


def test_the_library_runs_from_an_archive(tmp_path: Path) -> None:
    package = Path(jitgrad.__file__).parent
    with zipfile.ZipFile(tmp_path / "library.zip", "w") as archive:
        for path in package.rglob("*.py"):
            archive.write(path, path.relative_to(package.parent))
    program = """
import jitgrad
assert "library.zip" in jitgrad.__file__
step = jitgrad.compile(lambda x: (x * 2 + 1).sum())
print([step(jitgrad.arange(10.0)).item() for _ in range(3)], jitgrad.stats()["compiles"] > 0)
"""
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "library.zip"), "JITGRAD_CACHE_DIR": str(tmp_path / "cache")}
    for compiled in (True, False):  # the second process finds the code on disk
        run = subprocess.run(
            [sys.executable, "-c", program],
            env=env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert run.stdout.split("]")[0] == "[100.0, 100.0, 100.0", run.stderr
        assert str(compiled) in run.stdout
