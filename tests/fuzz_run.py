"""Running a program of the fuzzer: what a subject showed, and, in another process, what a twin shows.

Owns: ``run``, ``compiled_rounds``, ``Twin``. Must not know: how programs are drawn or compared.

``python -m tests.fuzz_run`` is the twin: it reads pickled programs, and writes what the compiled step showed. It is
started with ``JITGRAD_NATIVE_HITS=0``, so whatever it shows, and each event that it counts, is the Python recorder's.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import jitgrad
from jitgrad.version_counter import inference_tensors

if __package__:
    from tests.fuzz_compare import UNSEEN, Flags, Message
    from tests.fuzz_programs import Program
else:
    from fuzz_compare import UNSEEN, Flags, Message
    from fuzz_programs import Program

__all__ = ["Twin", "compiled_rounds", "forget_others", "load", "quiet", "run"]

# what the processes may count differently: they share the disk cache, whoever comes first compiles
# they depend on earlier programs
_UNEQUAL_COUNTERS = ("compiles", "cache_reads", "cache_writes", "evictions", "known_plans", "eager_kernels",
                     "rule_programs", "fused_rules", "copied_rules", "kernels_alike",
                     "built_beside")  # fmt: skip


def _seen(value: Any) -> Any:
    """A value as it must be in every subject; frozen, so that a later overwrite of a result shows."""
    if isinstance(value, list | tuple):
        return [_seen(x) for x in value]
    try:
        return _frozen(value)
    except Exception as error:
        return f"{UNSEEN}: {type(error).__name__}: {error}"


def _frozen(value: Any) -> Any:
    if hasattr(value, "detach"):
        is_leaf = _asked(value, "is_leaf")
        grad = value.grad if is_leaf or value.retains_grad else None
        flags = Flags((bool(value.requires_grad), is_leaf, _asked(value, "_version")))
        return np.array(value.detach().numpy()), flags, None if grad is None else np.array(grad.detach().numpy())
    return value


def _asked(value: Any, name: str) -> Any:
    """An attribute; None where it cannot be told (inference tensors have no version, stale views no Node)."""
    try:
        return getattr(value, name)
    except RuntimeError:
        return None


_compiled_texts: dict[str, Any] = {}


def _execute(text: str, scope: dict[str, Any]) -> None:
    code = _compiled_texts.get(text)
    if code is None:
        code = _compiled_texts[text] = compile(text, "<fuzz>", "exec")
    exec(code, scope)


def _call(program: Program, nr: int, scope: dict[str, Any]) -> tuple[Any, list[Any]]:
    """(what can be seen, results that live on)."""
    s = scope["s"]
    grad_enabled = scope["lib"].is_grad_enabled()
    scope["results"] = []
    try:
        _execute(program.call(nr), scope)
    except Exception as error:
        results = [*scope["results"], type(error).__name__]
        message: Any = error
    else:
        results = scope["results"]
        message = None
    finally:
        scope["lib"].set_grad_enabled(grad_enabled)
    seen = tuple(_seen(x) for x in (results, s.p0, s.p1, s.x0, s.x1, s.y0, s.log))
    s.log.clear()
    return (*seen, [w.copy() for w in s.windows], Message(message)), results


def run(lib: Any, program: Program, step: Callable[..., Any]) -> list[Any]:
    scope: dict[str, Any] = {"lib": lib, "s": SimpleNamespace(), "step": step, "np": np}
    _execute(program.setup(), scope)
    seen, held = [], []
    for nr in range(len(program.calls)):
        _execute(program.prepare(nr), scope)
        what, results = _call(program, nr, scope)
        seen.append(what)
        held.append(results)
    return [*seen, [[_seen(r) for r in results] for results in held]]


def load(program: Program) -> Callable[..., Any]:
    namespace: dict[str, Any] = {"np": np}
    exec(compile(program.source, "<fuzz>", "exec"), namespace)
    return namespace["step"]  # type: ignore[no-any-return]


@contextmanager
def quiet() -> Iterator[None]:
    """Inside, neither warnings nor NumPy's complaints about values."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def compiled_rounds(program: Program) -> list[Any]:
    """What three rounds with one compiled step show, each with what ``jitgrad.stats()`` counted in it."""
    forget_others()
    step = jitgrad.compile(load(program))
    rounds = []
    for _ in range(3):
        before = jitgrad.stats()
        seen = run(jitgrad, program, step)
        after = jitgrad.stats()
        counted = {name: after[name] - before[name] for name in before if name not in _UNEQUAL_COUNTERS}
        rounds.append((seen, counted))
    return rounds


def forget_others() -> None:
    """Be as a process that has run no other program.

    Once an inference tensor has been made, flags are read from values.
    """
    inference_tensors.clear()


class Twin:
    """A process without native hits that runs the same programs."""

    def __init__(self) -> None:
        root = Path(__file__).resolve().parent.parent
        env = {**os.environ, "JITGRAD_NATIVE_HITS": "0", "PYTHONPATH": str(root)}
        # the modules go by the names that they have here: what is pickled names them
        command = [sys.executable, *(("-m", "tests.fuzz_run") if __package__ else (__file__,))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=root)

    def start(self, program: Program) -> None:
        """Have a program run; ``result`` must be asked for before the next."""
        assert self._process.stdin is not None
        pickle.dump((program.statements, program.calls, program.seed), self._process.stdin)
        self._process.stdin.flush()

    def result(self) -> list[Any]:
        """``compiled_rounds`` of the program that was started."""
        assert self._process.stdout is not None
        return pickle.load(self._process.stdout)  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def main() -> None:
    """Be the twin, until the input ends."""
    programs, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what programs print is no answer
    while True:
        try:
            parts = pickle.load(programs)
        except EOFError:
            return
        with quiet():
            shown = compiled_rounds(Program(*parts))
        pickle.dump(shown, answers)
        answers.flush()


if __name__ == "__main__":
    main()
