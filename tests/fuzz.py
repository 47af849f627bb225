"""Random programs, run on torch eagerly, on jitgrad eagerly and on jitgrad compiled; all must agree.

A program is a list of statements over tensors - views, in-place writes, branches, hooks, derivatives of derivatives -
and a list of calls. Between two calls the fuzzer changes what a key of the trie must hold: shapes, dtype, strides,
``requires_grad``, whether ``.grad`` exists, aliases between inputs, graphs that come in from outside, hooks, numbers,
which results are kept alive, grad mode. The whole list of calls is made twice with the same compiled function, so the
second round finds everything in the trie. Compared are values, gradients, version counters, flags, what hooks saw and
in which order, and the types of exceptions. With ``--native-compare`` a second process runs each program without native
hits: values must be equal to the last bit, and so must the number of events of each kind.

    python -m tests.fuzz --count 100 --seed 0         # a failure is shrunk and printed, as a program to run
    python -m tests.fuzz --native-compare --count 100 # native hits against the recorder in Python, too
    python -m tests.fuzz --interpret                  # the tracer alone: segments run by NumPy, no LLVM
    python -m tests.fuzz --leave 9                    # calls leave their recording behind the first 9 values
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from typing import Any
from unittest.mock import patch

import jitgrad
from jitgrad.compile import MOST_DEBT, CompiledFunction
from jitgrad.compiled.backend import backend
from jitgrad.config import config
from jitgrad.probe import probe

if __package__:  # python -m tests.fuzz
    from tests.fuzz_compare import (
        Failure,
        OverlapWatch,
        compare,
        cut_at_error,
        has_no_reference,
        is_steady,
        lays_out_anew,
        of_inputs_only,
        refuses_oddly,
    )
    from tests.fuzz_programs import Call, Program
    from tests.fuzz_run import Twin, compiled_rounds, forget_others, load, quiet, run
    from tests.fuzz_statements import generate
else:
    from fuzz_compare import (
        Failure,
        OverlapWatch,
        compare,
        cut_at_error,
        has_no_reference,
        is_steady,
        lays_out_anew,
        of_inputs_only,
        refuses_oddly,
    )
    from fuzz_programs import Call, Program
    from fuzz_run import Twin, compiled_rounds, forget_others, load, quiet, run
    from fuzz_statements import generate

try:
    import torch
    import torch.utils.checkpoint  # torch does not do it
except ImportError:
    torch = None  # type: ignore[assignment]

__all__ = ["Call", "Failure", "Program", "check", "find_failure", "generate", "interpreted", "leaving", "shrink"]


# ---- the tracer alone------------------------------------------------------------------------------------------


class _Interpreter:
    """Stands in ``probe.session``: segments are not compiled, so their operations run one by one."""

    def enter(self, name: str) -> int:
        return 0

    def leave(self, name: str, category: str, args: tuple[Any, ...], start: int) -> None:
        pass

    def call(self, category: str, subject: Any, function: Callable[..., Any], *args: Any) -> Any:
        return backend.defer_end(args[0].segment, {}) if category == "compile" else function(*args)


@contextmanager
def interpreted() -> Iterator[None]:
    """Inside, segments of compiled functions are run by the NumPy rules instead of native code."""
    probe.session = _Interpreter()
    try:
        yield
    finally:
        probe.session = None


@contextmanager
def leaving(limit: int) -> Iterator[None]:
    """Inside, the first call of a compiled function records ``limit`` values, and later ones leave where these end."""

    def finish(site: CompiledFunction, recorder: Any) -> None:
        finish_as_usual(site, recorder)
        site.skip = site.tries = 0
        site._owe(MOST_DEBT)

    finish_as_usual = CompiledFunction._finish
    with (
        patch.object(config, "max_new_values", limit),
        patch.object(CompiledFunction, "_finish", finish),
        patch.object(CompiledFunction, "count_known_graph", lambda site: None),
    ):
        yield


# ---- checking -------------------------------------------------------------------------------------------------


def check(program: Program, *, with_torch: bool = True, twin: Twin | None = None) -> None:
    """Run a program on every subject.

    Args:
        twin: a process without native hits, which must show the same, and count the same events.

    Raises:
        Failure: two of them disagree.
    """
    rtol = 2e-3 if "float32" in repr(program) else 1e-6
    if twin is not None:
        twin.start(program)
    forget_others()
    try:
        with quiet():
            _check(program, with_torch, rtol)
    except Failure as failure:
        if twin is not None:
            twin.result()
        if not failure.kind.endswith(" values") and " and " not in failure.kind:
            raise
        with quiet():
            if not _is_steady(program, rtol):
                return
        raise
    if twin is not None:
        _compare_with_twin(compiled_rounds(program), twin.result(), has_aliases="lib.func." in repr(program))


def _compare_with_twin(ours: list[Any], theirs: list[Any], has_aliases: bool) -> None:
    """Compare values and counted events.

    Args:
        has_aliases: the program's transforms make leaves that are aliases. A remembered call of ``grad`` lets go of
            them; Python's form has them to the end of the call, and a write to their memory ends a segment there.
    """
    for number, (seen, counted), (want, wanted) in zip(("first", "second", "third"), ours, theirs, strict=True):
        compare(f"{number} round with native hits against Python", seen, want, 0.0)
        if any(call[-1] for call in want[:-1]):
            counted, wanted = _whatever_survived(counted), _whatever_survived(wanted)
        if counted != wanted and not has_aliases:
            differ = ", ".join(f"{n} {counted[n]} instead of {wanted[n]}" for n in wanted if counted[n] != wanted[n])
            raise Failure(f"{number} round with native hits against Python, events", differ)


def _whatever_survived(counted: dict[str, int]) -> dict[str, int]:
    """What was counted, whichever handles were alive at the end of a call that raised.

    A traceback holds the arguments of Python's functions, where native code stands in their place it does not. Then
    another end of the segment may be recorded, or found.
    """
    rest = {name: count for name, count in counted.items() if name not in ("hits", "misses", "plans")}
    return {**rest, "events": counted["hits"] + counted["misses"]}


def _check(program: Program, with_torch: bool, rtol: float) -> None:
    step = load(program)
    eager = run(jitgrad, program, step)
    if with_torch and torch is not None:
        _compare_with_torch(program, step, eager, rtol)
    compiled = jitgrad.compile(step)
    if "grad(" in program.source or "backward(" in program.source or any(call.after for call in program.calls):
        eager = of_inputs_only(eager)
    for number in ("first", "second", "third"):
        compare(f"{number} round against eager", run(jitgrad, program, compiled), eager, rtol)


def _compare_with_torch(program: Program, step: Callable[..., Any], eager: list[Any], rtol: float) -> None:
    reference = run(torch, program, step)
    if has_no_reference(program.source, reference):
        return
    ours, theirs = of_inputs_only(eager), of_inputs_only(reference)
    # how layers are made of operations shows in what an error leaves; torch packs operands before it looks at shapes
    if "nn.functional" in program.source or "saved_tensors_hooks" in program.source:
        ours, theirs = cut_at_error(ours, theirs)
    try:
        compare("eager against torch", ours, theirs, rtol)
    except Failure:
        if refuses_oddly(program.source, eager, reference):
            return
        if lays_out_anew(program.source, {call.layout for call in program.calls}):
            return
        with OverlapWatch() as watch:
            run(torch, program, step)
        if not watch.has_seen:
            raise


def _is_steady(program: Program, rtol: float) -> bool:
    nudged = replace(program, nudge=1e-7 if "float32" in repr(program) else 1e-14)
    return is_steady(*(run(jitgrad, p, load(p)) for p in (program, nudged)), rtol)


# ---- shrinking ------------------------------------------------------------------------------------------------


def find_failure(program: Program, *, with_torch: bool = True, twin: Twin | None = None) -> Failure | None:
    """The failure of a program, or None."""
    try:
        check(program, with_torch=with_torch, twin=twin)
    except Failure as failure:
        return failure
    return None


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with something left out."""
    statements, calls = program.statements, program.calls
    for i in range(len(calls)):
        if len(calls) > 1:
            yield replace(program, calls=calls[:i] + calls[i + 1 :])
    for i in reversed(range(len(statements))):
        yield replace(program, statements=statements[:i] + statements[i + 1 :])
    for i, call in enumerate(calls):
        for f in fields(Call):
            if getattr(call, f.name) != f.default:
                changed = replace(call, **{f.name: f.default})
                yield replace(program, calls=(*calls[:i], changed, *calls[i + 1 :]))
        for name in call.keep:
            changed = replace(call, keep=tuple(k for k in call.keep if k != name))
            yield replace(program, calls=(*calls[:i], changed, *calls[i + 1 :]))


def shrink(
    program: Program, kind: str, *, with_torch: bool = True, twin: Twin | None = None, seconds: float = 30.0
) -> Program:
    """The smallest program found that fails in the same way."""
    end = time.monotonic() + seconds
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for smaller in _smaller(program):
            if time.monotonic() > end:
                break
            failure = find_failure(smaller, with_torch=with_torch, twin=twin)
            if failure is not None and failure.kind == kind:
                program, progress = smaller, True
                break
    return program


@dataclass
class Report:
    """What a run of the fuzzer found."""

    programs: int = 0
    ignored: int = 0
    failures: list[tuple[Program, Failure]] = field(default_factory=list)


def fuzz(
    seed: int,
    programs: int,
    *,
    with_torch: bool = True,
    twin: Twin | None = None,
    stop_after: int = 5,
    scripts: bool = True,
    ignore: str = "(?!)",
) -> Report:
    """Check the programs of ``seed`` and the seeds after it; print every failure, shrunk."""
    report = Report()
    for nr in range(seed, seed + programs):
        program = generate(nr)
        report.programs += 1
        failure = find_failure(program, with_torch=with_torch, twin=twin)
        if failure is None:
            continue
        if re.search(ignore, f"{failure}\n{program.source}"):
            report.ignored += 1
            continue
        small = shrink(program, failure.kind, with_torch=with_torch, twin=twin)
        failure = find_failure(small, with_torch=with_torch, twin=twin) or failure
        report.failures.append((small, failure))
        print(f"# seed {nr}\n# " + str(failure).replace("\n", "\n# ") + f"\n{small}", flush=True)
        if scripts:
            print(small.script, flush=True)
        if len(report.failures) >= stop_after:
            break
    return report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--count", "--programs", type=int, default=100, help="programs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stop-after", type=int, default=5, help="failures")
    parser.add_argument("--ignore", default="(?!)", help="a pattern: failures whose text or step has it only count")
    parser.add_argument("--no-scripts", action="store_true", help="print failures as data only")
    parser.add_argument("--no-torch", action="store_true", help="compare compiled with eager only")
    parser.add_argument("--native-compare", action="store_true", help="also compare with a process without native hits")
    parser.add_argument("--interpret", action="store_true", help="the tracer alone, without LLVM")
    parser.add_argument("--leave", type=int, default=0, metavar="N", help="calls leave their recording behind N values")
    args = parser.parse_args()
    start = time.monotonic()
    twin = Twin() if args.native_compare else None
    options = {"with_torch": not args.no_torch, "stop_after": args.stop_after, "scripts": not args.no_scripts,
               "ignore": args.ignore, "twin": twin}  # fmt: skip
    with interpreted() if args.interpret else leaving(args.leave) if args.leave else nullcontext():
        report = fuzz(args.seed, args.count, **options)
    if twin is not None:
        twin.close()
    seconds = time.monotonic() - start
    failed = len(report.failures) + report.ignored
    print(f"{report.programs} programs, {report.programs - failed} agreed, {failed} did not, {seconds:.1f} s")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
