"""Descriptors that are closed, used up, or somebody else's.

Owns: the scenes ``refused_opens``, ``few_descriptors``, ``closed_streams``, ``foreign_descriptors``.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jitgrad as jg
from jitgrad.config import config
from tests.attack.disks import _healthy, _trained_in
from tests.attack.scenes import Outcome, in_child, scene, spread
from tests.attack.training import STEPS, begin, losses, wanted, why_wrong, wrong_entries

ERRORS = (errno.EMFILE, errno.ENFILE, errno.EIO, errno.EACCES, errno.ENOENT)
EVENTS = frozenset("open os.listdir os.scandir os.mkdir os.rename os.remove os.utime".split())
"""What Python tells its audit hooks of before it asks the system: imports open files, too."""


class _Opens:
    """An audit hook that counts openings of files, and refuses one, or that one and all that follow."""

    def __init__(self, at: int, is_for_ever: bool, code: int) -> None:
        self.count, self.is_on = 0, True
        self._at, self._is_for_ever, self._code = at, is_for_ever, code

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.is_on or event not in EVENTS:
            return
        self.count += 1
        if self._at and (self.count == self._at or (self._is_for_ever and self.count > self._at)):
            raise OSError(self._code, os.strerror(self._code))


def _attempts(is_allowed: Callable[[Exception], bool]) -> tuple[list[list[float]], str]:
    """Train while something is wrong with the system, twice: (the losses of those that ended, what was wrong)."""
    ended = []
    for _ in range(2):
        try:
            step = begin()
            ended.append([step() for _ in range(STEPS)])
        except Exception as error:
            if not is_allowed(error):
                return ended, f"it raised {error!r}"
    return ended, ""


def _is_systems(error: Exception) -> bool:
    """The system's own word, or that a module was not found, which it has not let anyone look for."""
    return isinstance(error, OSError | ImportError)


def _refused(folder: Path, opens: _Opens) -> Callable[[], str]:
    def body() -> str:
        config.cache_dir = folder
        sys.addaudithook(opens)
        ended, wrong = _attempts(_is_systems)
        opens.is_on = False
        again = why_wrong(losses())
        return wrong or next(filter(None, map(why_wrong, ended)), again and f"afterwards {again}")

    return body


def _count_opens(folder: Path) -> int:
    opens = _Opens(0, False, 0)

    def body() -> str:
        sys.addaudithook(opens)
        config.cache_dir = folder
        return why_wrong(losses()) or f"opened {opens.count}"

    head, _, count = in_child(body).partition(" ")
    assert head == "opened", (head, count)
    return int(count)


@scene
def refused_opens(share: float) -> Iterator[Outcome]:
    """Each file that the first steps open, modules and sources and entries, is refused in turn."""
    count = _count_opens(Path(tempfile.mkdtemp()))
    turns = [(at, ever) for at in range(1, count + 1) for ever in (False, True)]
    for nr in spread(len(turns), share, 3):
        at, is_for_ever = turns[nr]
        code, folder = ERRORS[nr % len(ERRORS)], Path(tempfile.mkdtemp())
        what = f"{os.strerror(code)} at opening {at} of {count}{' and later' * is_for_ever}"
        wrong = in_child(_refused(folder, _Opens(at, is_for_ever, code)))
        yield Outcome(what, wrong or in_child(lambda f=folder: _trained_in(f)))
        shutil.rmtree(folder)


def _exhausted(folder: Path, free: int, is_warm: bool) -> str:
    config.cache_dir = folder
    wanted(), losses(False)  # what is imported late is there
    if is_warm:
        losses()
    else:
        begin()()
    resource.setrlimit(resource.RLIMIT_NOFILE, (80, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    held = []
    while True:
        try:
            held.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            break
    for descriptor in held[:free]:
        os.close(descriptor)
    x = jg.arange(50.0)
    step = jg.compile(lambda: ((x * 3).sin() + x.exp().sqrt()).sum())
    got = [step().item() for _ in range(3)]
    ended, wrong = _attempts(lambda error: False)
    for descriptor in held[free:]:
        os.close(descriptor)
    with jg.eager():
        want = ((x * 3).sin() + x.exp().sqrt()).sum().item()
    if any(abs(one - want) > 1e-4 * abs(want) for one in got):
        return f"{got} instead of {want}"
    return wrong or next(filter(None, map(why_wrong, [*ended, losses()])), "")


@scene
def few_descriptors(share: float) -> Iterator[Outcome]:
    """A step is compiled, and another one goes on, while the process may open so many files."""
    turns = [(free, is_warm) for free in range(4) for is_warm in (True, False)]
    for nr in spread(len(turns), share, 2):
        free, is_warm = turns[nr]
        wrong = in_child(lambda f=free, w=is_warm: _exhausted(Path(tempfile.mkdtemp()), f, w))
        yield Outcome(f"{free} descriptors are free, {'warm' if is_warm else 'begun'}", wrong)


_PROGRAM = """
import os, sys, warnings
from pathlib import Path
{before}
import jitgrad as jg
from tests.attack.training import losses, why_wrong
{between}
wrong = why_wrong(losses())
if not getattr(sys.stderr, "closed", False):  # Python itself raises where it is
    warnings.warn("a warning of the user")
{after}
wrong = wrong or why_wrong(losses(scale=2.0), 2.0)
Path(sys.argv[1]).write_text(wrong or "right")
"""

_CLOSE = "os.close({})"
_PROGRAMS = {
    "no stdin": (_CLOSE.format(0), "", ""),
    "no stdout": (_CLOSE.format(1), "", "print('x') if sys.stdout else None"),
    "no stderr": (_CLOSE.format(2), "", ""),
    "none of the three": ("os.closerange(0, 3)", "", ""),
    "all closed between": ("", "os.closerange(0, 3)", ""),
    "streams that are None": ("sys.stdin = sys.stdout = sys.stderr = None", "", ""),
    "closed stream objects": ("", "sys.stdout.close(); sys.stderr.close()", ""),
    "opened again over the cache": (
        "os.closerange(0, 3)", "",
        "null = os.open(os.devnull, os.O_RDWR)\nfor n in (0, 1, 2): os.dup2(null, n)",
    ),
    "a full stdout": ("os.dup2(os.open('/dev/full', os.O_WRONLY), 1)", "", ""),
    "a full stderr": ("os.dup2(os.open('/dev/full', os.O_WRONLY), 2)", "", ""),
}  # fmt: skip


def _ran(name: str, closes_at_start: bool) -> str:
    folder = Path(tempfile.mkdtemp())
    before, between, after = _PROGRAMS[name]
    program = _PROGRAM.format(before="" if closes_at_start else before, between=between, after=after)
    command = [sys.executable, "-X", "faulthandler", "-c", program, str(folder / "said")]
    if closes_at_start:  # closed before Python begins: whatever is opened first gets these numbers
        command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command]
    env = {**os.environ, "JITGRAD_CACHE_DIR": str(folder / "cache"), "JITGRAD_LOG": "record"}
    env.pop("PYTHONUNBUFFERED", None)  # with it, ``print`` itself raises where there is no stdout
    null = subprocess.DEVNULL
    status = subprocess.run(command, env=env, stdout=null, stderr=null, timeout=120).returncode
    said = (folder / "said").read_text() if (folder / "said").exists() else "nothing was said"
    # Python says 120 where it could not write what was left for its streams
    return "" if said == "right" and status in (0, 120) else f"{said}, status {status}"


@scene
def closed_streams(share: float) -> Iterator[Outcome]:
    """Programs whose standard streams are closed, full or changed, with a log that goes there."""
    names = [(name, False) for name in _PROGRAMS] + [("none of the three", True), ("opened again over the cache", True)]
    for nr in spread(len(names), share, 3):
        yield Outcome(f"{names[nr][0]}{', from the start' * names[nr][1]}", _ran(*names[nr]))


def _foreign(folder: Path, what: str) -> str:
    """Use a cache whose descriptor, or directory, was taken away; ``healthy`` is what may be read."""
    config.cache_dir = cache = folder / "cache"
    other = folder / "other"
    other.mkdir(mode=0o700)
    wrong = why_wrong(losses())
    if what == "removed":
        shutil.rmtree(cache)
    elif what == "moved":
        cache.rename(folder / "moved")
    elif what == "not to be written":
        cache.chmod(0o500)
    else:
        os.closerange(3, 200) if what != "closed from 0 on" else os.closerange(0, 200)
        if what == "another directory":
            for _ in range(20):
                os.open(other, os.O_RDONLY)
        elif what == "a file":
            for nr in range(20):
                os.open(folder / f"file{nr}", os.O_RDWR | os.O_CREAT)
    x = jg.arange(30.0)
    step = jg.compile(lambda: (x.cos() * 2 - x).exp().sum())
    got, want = step().item(), float((x.cos() * 2 - x).exp().sum())
    wrong = wrong or ("" if abs(got - want) <= 1e-4 * abs(want) else f"{got} instead of {want}")
    wrong = wrong or why_wrong(losses(scale=3.0), 3.0)
    if list(other.iterdir()):
        return f"written into another directory: {list(other.iterdir())}"
    if any(path.stat().st_size for path in folder.glob("file*")):
        return "written into another file"
    return wrong


_TAKEN_AWAY = ("another directory", "removed", "a file", "moved", "closed from 0 on", "not to be written", "closed")


@scene
def foreign_descriptors(share: float) -> Iterator[Outcome]:
    """The cache's directory is removed, moved, closed, and its number given to something else."""
    healthy = _healthy()
    for nr in spread(len(_TAKEN_AWAY), share, 3):
        what = _TAKEN_AWAY[nr]
        folder = Path(tempfile.mkdtemp())
        yield Outcome(what, _foreign_tried(folder, healthy, what))


def _foreign_tried(folder: Path, healthy: Path, what: str) -> str:
    said = folder / "said"

    def body() -> str:
        wrong = "it did not end"
        try:
            wrong = _foreign(folder, what)
        finally:
            said.write_text(wrong)  # the pipe of a child may be closed
        return wrong

    died = in_child(body)
    bad = [name for place in ("cache", "moved") for name in wrong_entries(folder / place, healthy)]
    found = said.read_text() if said.exists() else died or "nothing was said"
    return found or (f"entries that would be read: {bad}" if bad else "") or _trained_again(folder / "cache")


def _trained_again(cache: Path) -> str:
    return in_child(lambda: _trained_in(cache))
