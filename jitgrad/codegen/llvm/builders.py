"""Processes beside this one that LLVM runs in, where it has a lot to do.

Owns: ``Builders``: the processes, what they were asked, what they have answered; ``build_all``.
Must not know: what a module is for.
In: LLVM text. Out: object code.

# Note [Builders]
# ~~~~~~~~~~~~~~~
# LLVM makes some thirty lines of text into object code in a millisecond, so with an empty cache the kernels of a model
# take seconds, and the native hits (40,000 lines) two more. llvmlite lets one thread in at a time: other cores can help
# in other processes only. A *builder* is a Python that has imported LLVM and nothing of jitgrad but three files, whose
# texts it is given. It reads requests from a pipe and writes object code into another. The object code is that of this
# process, bit for bit: the same LLVM, the same target, the same text.
# - Kernels of a plan are made by all: this process asks each builder for two, makes one itself, looks for answers, and
#   so on. It never waits: what has not come when nothing else is left, it makes itself.
# - The native hits are asked for, and until they have come hits run in Python's form (``compiled/native_parts.py``);
#   likewise eager mode's native code. Ends of calls ask whether they have come (``compiled/native_code.py``).
# A builder is no child of this process (it forks, and its parent ends), so ``os.wait`` of the user's never sees it;
# it is in a session of its own, so Ctrl-C does not reach it. It ends when its pipe is closed, or after some idle
# seconds. If this process ends first, or takes no answer for a minute, what it was asked goes into the cache. A builder
# that is gone, or a descriptor that the user's code has closed, costs speed only: this process makes the rest.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from jitgrad.codegen.llvm.binding import binding
from jitgrad.codegen.llvm.formats import ANSWER, REQUEST
from jitgrad.events import bump, log
from jitgrad.lazy import LazyModule
from jitgrad.user_line import OwnErrorsIgnored, let_through

__all__ = ["BuildRequest", "Builders", "build_all", "can_start"]

_FCNTL: Any = LazyModule("fcntl")
_START = """
import json, sys, types
paths, texts, arguments = json.loads(sys.argv[1])
import os
if os.fork():
    os._exit(0)
sys.path += paths
for name, text in texts:
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
module.main(*arguments)
"""
_TEXTS = ("formats", "emit", "builder_process")
_DEPTH = 2
"""A builder that has answered goes on with the next request at once."""
_SET_PIPE_SIZE, _PIPE_NBYTES = 1031, 1 << 20  # fcntl's F_SETPIPE_SZ, on Linux
_MANY = 8
"""So many texts are worth the start of builders, a tenth of a second."""


class BuildRequest(NamedTuple):
    """What is to be built.

    Attributes:
        digest: of its key, 32 bytes.
        text: LLVM's.
        needs_passes: as ``Emitter.emit`` has it.
    """

    digest: bytes
    text: Callable[[], str]
    needs_passes: bool


def can_start() -> bool:
    """Whether this system and this interpreter can have builders."""
    name = os.path.basename(sys.executable or "")
    return hasattr(os, "fork") and hasattr(select, "poll") and name.startswith(("python", "pypy"))


class _Pipe:
    """One end of a pipe, ours as long as its number is that of the pipe: user code may close what it does not know."""

    __slots__ = ("_identity", "fd")

    def __init__(self, fd: int) -> None:
        self.fd, self._identity = fd, self._look(fd)
        os.set_blocking(fd, False)

    @staticmethod
    def _look(fd: int) -> tuple[int, int]:
        info = os.fstat(fd)
        return info.st_dev, info.st_ino

    def is_ours(self) -> bool:
        """Whether the number is still that of the pipe."""
        with OwnErrorsIgnored(OSError):
            return self._look(self.fd) == self._identity
        return False

    def close(self) -> None:
        """Close it, if it is ours."""
        if self.is_ours():
            os.close(self.fd)


class _Builder:
    """A process, the ends of its pipes, what is on the way.

    Attributes:
        asked: numbers of requests without an answer.
        is_proven: it has answered one.
    """

    __slots__ = ("_reader", "_received", "_unsent", "_writer", "asked", "is_proven")

    def __init__(self, command: list[str], inherited: tuple[int, ...]) -> None:
        self.asked: set[int] = set()
        self.is_proven = False
        self._unsent, self._received = bytearray(), bytearray()
        requests, writer = os.pipe()
        reader, answers = os.pipe()
        try:
            self._writer, self._reader = _Pipe(writer), _Pipe(reader)
            _widen(writer)
            subprocess.run(command, stdin=requests, stdout=answers, stderr=subprocess.DEVNULL, check=True,
                           pass_fds=inherited, start_new_session=True, cwd=os.sep, timeout=10)  # fmt: skip
        except BaseException:
            os.close(writer)
            os.close(reader)
            raise
        finally:
            os.close(requests)
            os.close(answers)

    def ask(self, nr: int, job: BuildRequest, text: str) -> None:
        """Send a request, or as much of it as the pipe takes now."""
        packed = zlib.compress(text.encode(), 1)
        self.asked.add(nr)
        self._unsent += REQUEST.pack(nr, len(packed), job.needs_passes, job.digest) + packed
        self._send()

    def _send(self) -> None:
        if not self._writer.is_ours():
            raise BrokenPipeError
        while self._unsent:
            try:
                del self._unsent[: os.write(self._writer.fd, self._unsent)]
            except BlockingIOError:
                return

    def answers(self) -> list[tuple[int, bytes | None]]:
        """What has come since the last time: numbers of requests, object code; None where LLVM refused the text.

        Raises:
            OSError: the builder is gone, or its pipes are.
        """
        self._send()
        if not self._reader.is_ours():
            raise BrokenPipeError
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self._reader.fd, 1 << 20):
                self._received += part
            raise BrokenPipeError
        found: list[tuple[int, bytes | None]] = []
        while len(self._received) >= ANSWER.size:
            nr, length, is_made = ANSWER.unpack_from(self._received)
            end = ANSWER.size + length
            if len(self._received) < end:
                break
            found.append((nr, bytes(self._received[ANSWER.size : end]) if is_made else None))
            del self._received[:end]
            self.asked.discard(nr)
            self.is_proven = True
        return found

    def close(self) -> None:
        """Let the process end."""
        self._writer.close()
        self._reader.close()


def _widen(fd: int) -> None:
    """Let the pipe take a long request at once, where the system allows it."""
    if sys.platform == "linux":
        with OwnErrorsIgnored(OSError):
            _FCNTL.fcntl(fd, _SET_PIPE_SIZE, _PIPE_NBYTES)


class Builders:
    """At most ``limit`` processes, started when they are needed. Its methods must be called under one lock.

    Args:
        target: the arguments of ``Emitter`` but the first.
        limit: how many there may be.
        directory: gives the descriptor of the object cache, or -1.
    """

    def __init__(self, target: tuple[str, str, str], limit: int, directory: Callable[[], int]) -> None:
        self._target, self._limit, self._directory = target, limit if can_start() else 0, directory
        self._all: list[_Builder] = []
        self._answers: dict[int, bytes | None] = {}
        self._wanted: set[int] = set()
        self._long: set[int] = set()
        self._last = 0

    def ask(self, job: BuildRequest, text: str, may_start: bool) -> int:
        """Ask the builder that has least to do for what is wanted soon.

        Args:
            may_start: start one more, if all are busy and there may be another one.

        Returns:
            The number of the request; 0 if nobody was asked, as all have enough to do.
        """
        return self._ask(job, text, [b for b in self._all if self._is_free(b)], may_start)

    def ask_for_later(self, job: BuildRequest, text: str) -> int:
        """``ask`` for a long text that nobody waits for. The builder that makes it gets no other request meanwhile."""
        nr = self._ask(job, text, self._all.copy(), may_start=True)
        self._long.add(nr)
        return nr

    def has_room(self, may_start: bool) -> bool:
        """Whether ``ask`` would ask somebody."""
        return (may_start and len(self._all) < self._limit) or any([self._is_free(b) for b in self._all])

    def _is_free(self, builder: _Builder) -> bool:
        return len(builder.asked) < _DEPTH and self._long.isdisjoint(builder.asked)

    def _ask(self, job: BuildRequest, text: str, among: list[_Builder], may_start: bool) -> int:
        if may_start and len(self._all) < self._limit and all([b.asked for b in among]):
            among = self._start() or among
        while among:
            builder = min(among, key=lambda b: len(b.asked))
            self._last += 1
            try:
                builder.ask(self._last, job, text)
            except BaseException as error:  # Ctrl-C leaves half of a request behind
                self._drop(builder)
                let_through(error)
                if not isinstance(error, OSError):
                    raise
                among.remove(builder)
                continue
            self._wanted.add(self._last)
            return self._last
        return 0

    def look(self) -> None:
        """Take in what builders have answered; requests to one that is gone count as refused."""
        for builder in list(self._all):
            try:
                found = builder.answers()
            except BaseException as error:  # Ctrl-C leaves half of an answer behind
                self._drop(builder)
                let_through(error)
                if not isinstance(error, OSError):
                    raise
                continue
            self._answers.update((nr, obj) for nr, obj in found if nr in self._wanted)

    def take(self, nr: int) -> tuple[bool, bytes | None]:
        """Whether a request has its answer, and the object code; None if it must be made here."""
        if nr not in self._answers:
            return False, None
        self._wanted.discard(nr)
        return True, self._answers.pop(nr)

    def give_up(self, nr: int) -> None:
        """Nobody waits for the answer to a request any more."""
        self._wanted.discard(nr)
        self._answers.pop(nr, None)

    def close(self) -> None:
        """Let all go; there are no others until something is asked again."""
        limit = self._limit
        for builder in list(self._all):
            self._drop(builder)
        self._limit = limit

    def _start(self) -> list[_Builder]:
        """One more, in a list; or none, and then never again."""
        descriptor = self._directory()
        program = json.dumps([[str(Path(binding().__file__).parents[2])], _texts(), [*self._target, descriptor]])
        command = [sys.executable, "-I", "-S", "-c", _START, program]
        try:
            self._all.append(_Builder(command, (descriptor,) if descriptor >= 0 else ()))
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            let_through(error)  # a signal's handler may raise a TimeoutError
            self._limit = len(self._all)
            log("llvm", "no process beside this one: %r", error)
            return []
        return self._all[-1:]

    def _drop(self, builder: _Builder) -> None:
        self._all.remove(builder)
        if not builder.is_proven:  # the next one would do no better: too little memory, for example
            self._limit -= 1
        self._answers.update((nr, None) for nr in builder.asked if nr in self._wanted)
        builder.close()


def _texts() -> list[tuple[str, str]]:
    folder = files("jitgrad") / "codegen" / "llvm"
    return [(f"jitgrad.codegen.llvm.{name}", (folder / f"{name}.py").read_text("utf-8")) for name in _TEXTS]


def build_all(jobs: Sequence[BuildRequest], here: Callable[[int, str], bytes], builders: Builders) -> list[bytes]:
    """Object code of all jobs, by builders and by this process.

    Args:
        here: makes a job, by its position and text, in this process; what it raises goes on.
    """
    made: dict[int, bytes] = {}
    asked: dict[int, int] = {}  # request -> job
    texts: dict[int, str] = {}
    rest = deque(range(len(jobs)))
    is_many = len(jobs) >= _MANY
    try:
        while len(made) < len(jobs):
            if asked or len(rest) > 1:  # also for answers that nobody waits for any more: who gave them is free
                builders.look()
            for nr in list(asked):
                is_there, obj = builders.take(nr)
                if is_there and (job := asked.pop(nr)) not in made:
                    if obj is None:
                        rest.appendleft(job)
                    else:
                        made[job] = obj
                        bump("built_beside")
            while len(rest) > 1 and builders.has_room(is_many):
                job = rest[0]
                texts[job] = jobs[job].text()
                nr = builders.ask(jobs[job], texts[job], is_many)
                if not nr:
                    break
                asked[nr] = rest.popleft()
            if not rest and asked:  # what was asked last has not been begun, most likely
                nr = max(asked)
                rest.append(asked.pop(nr))
                builders.give_up(nr)
            if rest:
                job = rest.popleft()
                made[job] = here(job, texts.get(job) or jobs[job].text())
    finally:
        for nr in asked:
            builders.give_up(nr)
    return [made[job] for job in range(len(jobs))]
