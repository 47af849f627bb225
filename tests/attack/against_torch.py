"""Wrong arguments for every public function, beside PyTorch: ``python -m tests.attack.against_torch`` runs them.

    python -m tests.attack.against_torch                  # all, some 300,000 calls: half an hour
    python -m tests.attack.against_torch --name conv      # of functions whose name has this in it
    python -m tests.attack.against_torch --every 50       # each fiftieth call
    python -m tests.attack.against_torch --show accepted  # what is listed; all kinds otherwise

Each call runs in PyTorch, then here, in a process with a budget of time and memory that the next call gets a new one of
if it ends. At the end are counts:

    tried      calls
    survived   both have a result
    refused    both raise, and of one class
    inside     a bare error out of the middle of the library that PyTorch does not raise, no end in time, or a crash
    accepted   PyTorch refuses what has a result here
    alone      PyTorch has a result where an error is raised here
    other      an error of another class than PyTorch's
    theirs     PyTorch crashed or found no end, and there was an answer here
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import resource
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch

import jitgrad as jg
from tests.attack.worker import Inside, check_meant
from tests.attack.wrong_arguments import calls, function_of, good_calls

__all__ = ["KINDS", "beside", "compare", "main"]

KINDS = ("survived", "refused", "inside", "accepted", "alone", "other")
BUDGET_S = 4
THEIR_BUDGET_S = 1.0
BUDGET_BYTES = 3 << 30
_CHUNK = 4000
_CLASSES = (
    NotImplementedError, MemoryError, OverflowError, ZeroDivisionError, IndexError, KeyError, ValueError, TypeError,
    AttributeError, RuntimeError,
)  # fmt: skip


def _class_of(error: BaseException) -> str:
    """The class that a program would catch. PyTorch's C++ has a TypeError where its Python has an AttributeError."""
    return next((kind.__name__ for kind in _CLASSES if isinstance(error, kind)), type(error).__name__)


def _run(call: str, library: Any) -> tuple[BaseException | None, Any]:
    library.manual_seed(0)
    try:
        return None, eval(call, {"jg": library})
    except Exception as error:
        return error, None


def compare(theirs: BaseException | None, ours: BaseException | None) -> tuple[str, str]:
    """(one of ``KINDS``, what differs) for the errors of one call, None where there is a result."""
    if ours is None:
        return ("survived", "") if theirs is None else ("accepted", _text(theirs))
    same = theirs is not None and _class_of(theirs) == _class_of(ours)
    if same:
        return "refused", ""
    try:
        check_meant(ours, is_strict=theirs is None)
    except Inside as inside:
        return "inside", f"{inside} instead of {_text(theirs)}"
    if theirs is None:
        return "alone", _text(ours)
    words = {_class_of(theirs), _class_of(ours)}
    if words <= _ALIKE or _class_of(theirs) in _TORCHS_OWN:
        return "refused", ""
    return "other", f"{_text(ours)} instead of {_text(theirs)}"


_ALIKE = {"TypeError", "AttributeError"}
_TORCHS_OWN = {"AttributeError", "AssertionError", "UnboundLocalError", "KeyError", "SystemError", "ZeroDivisionError"}
"""What comes out of the middle of PyTorch says nothing of what it means: any error in words will do."""


def _text(error: BaseException | None) -> str:
    return "a result" if error is None else f"{_class_of(error)}: {' '.join(str(error).split())[:110]}"


def _limit() -> None:
    torch.set_num_threads(1)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + BUDGET_BYTES, -1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    warnings.simplefilter("ignore")


def _child(texts: list[str], is_alone: bool, out: int, log: int) -> None:
    """Run calls in this process, and say before each part which it is; the first only here if ``is_alone``."""
    _limit()
    faulthandler.disable()  # pytest's, which would print what is no failure
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    for at, text in enumerate(texts):
        theirs: BaseException | None = None
        if not (is_alone and at == 0):
            os.write(out, f"torch {at}\n".encode())
            signal.setitimer(signal.ITIMER_REAL, THEIR_BUDGET_S)
            theirs, result = _run(text, torch)
            del result
            signal.setitimer(signal.ITIMER_REAL, 0)
        _one(text, at, theirs, out, log)
    os._exit(0)


def _one(text: str, at: int, theirs: BaseException | None, out: int, log: int) -> None:
    os.write(out, f"jg {at}\n".encode())
    os.ftruncate(log, 0)
    faulthandler.dump_traceback_later(BUDGET_S, exit=True, file=log)
    ours, result = _run(text, jg)
    del result
    faulthandler.cancel_dump_traceback_later()
    kind, words = compare(theirs, ours)
    os.write(out, f"{kind} {words}".encode("utf-8", "replace").replace(b"\n", b" ") + b"\n")


def _warm() -> None:
    """Import what calls import late, before processes begin: it takes longer than a call may."""
    for library in (torch, jg):
        library.optim.SGD([library.ones(1, requires_grad=True)], lr=0.1)
        library.distributions.Normal(0.0, 1.0).sample((2,))
        library.nn.LSTM(1, 1)(library.ones(1, 1, 1))


def beside(texts: list[str]) -> Iterator[tuple[str, str, str]]:
    """(call, one of ``KINDS`` or "theirs" where PyTorch did not live, what differs) of each call."""
    _warm()
    at, is_alone = 0, False
    while at < len(texts):
        chunk = texts[at : at + _CHUNK]
        reader, writer = os.pipe()
        log = os.memfd_create("stack")
        if (child := os.fork()) == 0:
            try:
                _child(chunk, is_alone, writer, log)
            finally:
                os._exit(3)
        os.close(writer)
        done, phase = 0, ""
        with open(reader, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                kind, _, words = line.rstrip("\n").partition(" ")
                if kind in KINDS:
                    yield chunk[done], kind if kind == "inside" or not is_alone else "theirs", words
                    is_alone = False
                    done, phase = done + 1, ""
                else:
                    phase = kind
        _, status = os.waitpid(child, 0)
        if done < len(chunk):
            if phase == "torch":
                is_alone = True  # once more, without PyTorch
            else:
                stack = os.pread(log, 1 << 16, 0).decode(errors="replace")
                where = [line.strip() for line in stack.splitlines() if "/jitgrad/" in line][:3]
                yield chunk[done], "inside", f"no end, status {status}: {' '.join(where)}"
                done, is_alone = done + 1, False
        os.close(log)
        at += done


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="", help="functions whose name has this in it")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--show", nargs="*", default=["inside", "accepted", "alone", "other"])
    options = parser.parse_args()
    texts = [text for call in good_calls() if options.name in function_of(call) for text in calls(call)]
    counts = Counter[str]()
    for text, kind, words in beside(texts[options.first :: options.every]):
        counts["tried"] += 1
        counts[kind] += 1
        if kind in options.show:
            print(f"{kind}\t{text}\t{words}", flush=True)
    print(", ".join(f"{kind}: {counts[kind]}" for kind in ("tried", *KINDS, "theirs")))
    sys.exit(bool(counts["inside"]))


if __name__ == "__main__":
    main()
