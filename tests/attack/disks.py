"""Disks that are full or broken, under the object cache and under ``save``.

Owns: the scenes ``full_disks``, ``file_size_limits``, ``small_file_systems``, ``full_disks_under_save``,
``paths_of_save``.
"""

from __future__ import annotations

import errno
import importlib
import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jitgrad as jg
from jitgrad.codegen.llvm import object_cache
from jitgrad.config import config
from jitgrad.serialization import replacement
from tests.attack.scenes import Outcome, in_child, scene, spread
from tests.attack.training import Warned, losses, why_wrong, wrong_entries

ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG, errno.ESTALE)
ASKED = frozenset(
    "open read write close fsync fstat stat listdir replace rename unlink utime mkdir dup fchmod fchown".split()
)


class Refusing:
    """Stands for the system in a module: refuses one request to it, or that one and all that follow.

    Attributes:
        asked: the requests so far, by name.
    """

    def __init__(self, at: int, is_for_ever: bool, code: int) -> None:
        self.asked: list[str] = []
        self._at, self._is_for_ever, self._code = at, is_for_ever, code

    def ask(self, name: str) -> None:
        self.asked.append(name)
        nr = len(self.asked)
        if self._at and (nr == self._at or (self._is_for_ever and nr > self._at)):
            raise OSError(self._code, os.strerror(self._code))

    def stand_in(self, module: Any) -> None:
        """From now on, in this process."""
        vars(module).update(os=self.system(), open=self.open)

    def system(self) -> Any:
        """Stands for the module ``os``."""
        return _System(self)

    def open(self, *args: Any, **names: Any) -> Any:
        """Stands for ``open``."""
        self.ask("open")
        return _File(open(*args, **names), self)


class _System:
    def __init__(self, refusing: Refusing) -> None:
        self._refusing = refusing

    def __getattr__(self, name: str) -> Any:
        found, refusing = getattr(os, name), self._refusing
        if name not in ASKED:
            return found

        def asked(*args: Any, **names: Any) -> Any:
            if name == "close":  # the system closes a descriptor, whatever it says
                found(*args)
                return refusing.ask(name)
            refusing.ask(name)
            return found(*args, **names)

        return asked


class _File:
    """A file whose disk may be full: a part of what is written arrives."""

    def __init__(self, file: Any, refusing: Refusing) -> None:
        self._file, self._refusing = file, refusing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._refusing.ask("close")

    def read(self, *args: Any) -> Any:
        self._refusing.ask("read")
        return self._file.read(*args)

    def write(self, data: Any) -> Any:
        try:
            self._refusing.ask("write")
        except OSError:
            self._file.write(bytes(data)[: len(data) // 2])
            raise
        return self._file.write(data)


def _healthy() -> Path:
    """A cache that a training has filled, in a child: this process must stay as it is, but for modules."""
    importlib.import_module("jitgrad.codegen.pipeline")
    folder = Path(tempfile.mkdtemp())
    wrong = in_child(lambda: _trained_in(folder))
    assert not wrong, wrong
    return folder


def _trained_in(folder: Path) -> str:
    config.cache_dir = folder
    return why_wrong(losses())


def _survives(folder: Path, healthy: Path) -> str:
    """Train under a fault that is there: all goes on, with a warning at most, and nothing wrong would be read later."""
    warned = Warned()
    wrong = _trained_in(folder)
    if len(warned.texts) > 1:
        return f"{len(warned.texts)} warnings: {warned.texts}"
    bad = wrong_entries(folder, healthy)
    return wrong or (f"entries that would be read: {bad}" if bad else "")


def _tried(folder: Path, healthy: Path, refusing: Refusing) -> Callable[[], str]:
    def body() -> str:
        refusing.stand_in(object_cache)
        return _survives(folder, healthy)

    return body


def _requests(folder: Path) -> list[str]:
    """What a training asks of the system for its cache, from beginning to end."""
    refusing = Refusing(0, False, 0)

    def body() -> str:
        refusing.stand_in(object_cache)
        return why_wrong(losses()) or "asked " + " ".join(refusing.asked)

    config.cache_dir = folder
    head, _, names = in_child(body).partition(" ")
    assert head == "asked", names
    return names.split()


@scene
def full_disks(share: float) -> Iterator[Outcome]:
    """Each request of the object cache to the system is refused in turn, of an empty cache and of a full one."""
    healthy = _healthy()
    for is_full in (False, True):
        start = healthy if is_full else Path(tempfile.mkdtemp())
        names = _requests(Path(shutil.copytree(start, tempfile.mkdtemp(), dirs_exist_ok=True)))
        turns = [(at, ever) for at in range(1, len(names) + 1) for ever in (False, True)]
        for nr in spread(len(turns), share, 2):
            at, is_for_ever = turns[nr]
            code = ERRORS[nr % len(ERRORS)]
            folder = Path(shutil.copytree(start, tempfile.mkdtemp(), dirs_exist_ok=True))
            what = f"{os.strerror(code)} at request {at} ({names[at - 1]}){' and later' * is_for_ever}"
            wrong = in_child(_tried(folder, healthy, Refusing(at, is_for_ever, code)))
            wrong = wrong or in_child(lambda folder=folder: _trained_in(folder))
            shutil.rmtree(folder)
            yield Outcome(what, wrong)


@scene
def file_size_limits(share: float) -> Iterator[Outcome]:
    """The system cuts off what is written behind so many bytes of a file."""
    healthy = _healthy()
    sizes = [0, 1, 60, 84, 85, 500, 1000, *range(1500, 24_000, 750)]
    for nr in spread(len(sizes), share, 2):
        folder, size = Path(tempfile.mkdtemp()), sizes[nr]

        def body(folder: Path = folder, size: int = size) -> str:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            return _survives(folder, healthy)

        yield Outcome(f"no file of more than {size} bytes", in_child(body) or in_child(lambda f=folder: _trained_in(f)))


def _mounted(size: int, healthy: Path) -> tuple[int, str]:
    """Train with the cache on a file system of so many KiB, seen by that process alone. Its (status, output)."""
    folder = tempfile.mkdtemp()
    inside = (
        "import sys; from pathlib import Path; from tests.attack.disks import _survives, _trained_in; "
        "from tests.attack.scenes import in_child; folder, healthy = map(Path, sys.argv[1:]); "
        "print(in_child(lambda: _survives(folder, healthy)) or in_child(lambda: _trained_in(folder)))"
    )
    mount = f"mount -t tmpfs -o size={size}k,mode=0700 tmpfs {folder} 2>/dev/null || exit 77; exec \"$@\""
    command = ["unshare", "-m", "sh", "-c", mount, "sh", sys.executable, "-c", inside, folder, str(healthy)]
    run = subprocess.run(command, capture_output=True, text=True)
    return run.returncode, run.stdout.strip() or run.stderr[-2000:]


@scene
def small_file_systems(share: float) -> Iterator[Outcome]:
    """The cache on a file system that is full soon. Tried where this user may mount one."""
    healthy = _healthy()
    sizes = [4, 8, 12, 16, 24, 32, 40, 48, 64, 96, 128, 256]
    for nr in spread(len(sizes), share, 2) if shutil.which("unshare") else []:
        status, printed = _mounted(sizes[nr], healthy)
        if status in (1, 77):
            return
        yield Outcome(f"a file system of {sizes[nr]} KiB", printed or ("" if not status else f"status {status}"))


def _saved(path: Path, refusing: Refusing) -> str:
    old, new = {"x": jg.arange(5000.0)}, {"x": jg.zeros(5000), "y": jg.ones(7)}
    jg.save(old, path)
    if refusing._at:
        refusing.stand_in(replacement)
    try:
        jg.save(new, path)
        is_new, said = True, None
    except OSError as error:
        is_new, said = False, error.errno
    vars(replacement).update(os=os, open=open)
    kept = jg.load(path)
    if not jg.equal(kept["x"], (new if is_new else old)["x"]):
        return f"save {'returned' if is_new else 'raised'}, the file has neither all of the old nor of the new"
    if not is_new and said != refusing._code:
        return f"errno {said} instead of {refusing._code}"
    refused = refusing.asked[refusing._at - 1 :][:1] if refusing._at else []
    if is_new and refused not in ([], ["fchmod"], ["fchown"]):  # a file is what it was told to be without these
        return f"save returned, though the system refused {refused}"
    left = [p.name for p in path.parent.iterdir() if p != path]
    is_allowed = refusing._is_for_ever  # what must be removed cannot be, then
    return f"left behind: {left}" if left and not is_allowed else ""


@scene
def full_disks_under_save(share: float) -> Iterator[Outcome]:
    """Each request of ``save`` to the system is refused: it raises that error, and the old file is whole."""
    turns = [(at, ever, code) for at in range(1, 40) for ever in (False, True) for code in ERRORS]
    for nr in spread(len(turns), share, 12):
        at, is_for_ever, code = turns[nr]
        path = Path(tempfile.mkdtemp()) / "x.pt"
        what = f"{os.strerror(code)} at request {at}{' and later' * is_for_ever}"
        yield Outcome(what, in_child(lambda a=at, e=is_for_ever, c=code, p=path: _saved(p, Refusing(a, e, c))))
    for size in (0, 100, 1000, 19_000):
        path = Path(tempfile.mkdtemp()) / "x.pt"
        yield Outcome(f"save, no file of more than {size} bytes", in_child(lambda p=path, s=size: _saved_short(p, s)))


def _saved_short(path: Path, size: int) -> str:
    jg.save({"x": jg.arange(5000.0)}, path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        jg.save({"x": jg.zeros(5000)}, path)
    except OSError as error:
        if error.errno != errno.EFBIG:
            return f"it raised {error!r}"
    else:
        return "it returned"
    if list(path.parent.iterdir()) != [path]:
        return f"left behind: {list(path.parent.iterdir())}"
    return "" if jg.load(path)["x"][7].item() == 7.0 else "the old file is no more"


def _through_link(folder: Path) -> str:
    jg.save(jg.ones(3), folder / "a.pt")
    (folder / "link.pt").symlink_to("a.pt")
    jg.save(jg.zeros(3), folder / "link.pt")
    is_right = (folder / "link.pt").is_symlink() and jg.load(folder / "a.pt").tolist() == [0.0] * 3
    return "" if is_right else "the link was replaced"


def _new_through_link(folder: Path) -> str:
    (folder / "link.pt").symlink_to("b.pt")
    jg.save(jg.zeros(3), folder / "link.pt")
    return "" if jg.load(folder / "b.pt").tolist() == [0.0] * 3 else "not written"


def _longest_name(folder: Path) -> str:
    path = folder / ("n" * 255)
    jg.save(jg.ones(3), path)
    jg.save(jg.zeros(3), path)
    return "" if jg.load(path).tolist() == [0.0] * 3 else "not written"


def _private(folder: Path) -> str:
    path = folder / "x.pt"
    jg.save(jg.ones(3), path)
    path.chmod(0o600)
    jg.save(jg.zeros(3), path)
    mode = stat.S_IMODE(path.stat().st_mode)
    return "" if mode == 0o600 else f"a file of mode 600 has {mode:o}"


def _pipe(folder: Path) -> str:
    path, got = folder / "pipe", list[bytes]()
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()), daemon=True)
    reader.start()
    jg.save(jg.ones(3), path)
    reader.join(20)
    is_right = path.is_fifo() and got and got[0][:2] == b"PK"
    return "" if is_right else "the pipe was replaced"


def _device(folder: Path) -> str:
    path = folder / "full"
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 7))
        path.open("wb").close()
    except PermissionError:
        return ""  # only root makes devices, and not in all containers
    try:
        jg.save(jg.ones(3), path)
    except OSError as error:
        is_right = error.errno == errno.ENOSPC and path.is_char_device()
        return "" if is_right else f"{error!r}, a device: {path.is_char_device()}"
    return "no error"


def _bytes_path(folder: Path) -> str:
    jg.save(jg.ones(3), os.fsencode(folder / "x.pt"))
    return "" if jg.load(folder / "x.pt").tolist() == [1.0] * 3 else "not written"


def _directory(folder: Path) -> str:
    try:
        jg.save(jg.ones(3), folder)
    except IsADirectoryError as error:
        return "" if ".tmp" not in str(error) and not list(folder.parent.glob(".*.tmp")) else str(error)
    return "no error"


def _read_only_directory(folder: Path) -> str:
    inside = folder / "inside"
    inside.mkdir()
    path = inside / "x.pt"
    jg.save(jg.ones(3), path)
    os.chmod(path, 0o666)
    os.chmod(inside, 0o555)
    os.chmod(folder, 0o755)
    if os.geteuid() == 0:
        os.chmod(folder.parent, 0o755)
        os.setegid(65534)
        os.seteuid(65534)
    try:
        jg.save(jg.zeros(3), path)
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
    return "" if jg.load(path).tolist() == [0.0] * 3 else "not written"


@scene
def paths_of_save(share: float) -> Iterator[Outcome]:
    """What a path leads to is what is written."""
    for function in (
        _through_link, _new_through_link, _longest_name, _private, _pipe, _device, _bytes_path, _directory,
        _read_only_directory,
    ):  # fmt: skip
        folder = Path(tempfile.mkdtemp())
        yield Outcome(function.__name__.strip("_"), in_child(lambda f=function, at=folder: f(at)))
