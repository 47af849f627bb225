"""Random programs, run on torch eagerly, on jitgrad eagerly and on jitgrad compiled; all must agree.

A program is a list of statements over tensors, and a list of calls. Between two calls the fuzzer changes what a key of
the trie must hold: shapes, dtype, strides, ``requires_grad``, whether ``.grad`` exists, aliases between inputs,
numbers, which results are kept alive, grad mode. The whole list of calls is made twice with the same compiled function,
so the second round finds everything in the trie.

    python -m tests.fuzz --programs 100 --seed 0      # a failure is shrunk and printed, as a program to run
    python -m tests.fuzz --interpret                  # the tracer alone: segments run by NumPy, no LLVM
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import jitgrad
from jitgrad.compiled import run as run_module
from jitgrad.dtypes import from_numpy_dtype
from jitgrad.ops.aval import make_aval
from jitgrad.runtime.buffer import Storage
from jitgrad.tracer.graph import Const

if __package__:  # python -m tests.fuzz
    from tests.fuzz_programs import Call, Inputs, Program, generate
else:
    from fuzz_programs import Call, Inputs, Program, generate

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

__all__ = ["Call", "Failure", "Program", "check", "find_failure", "generate", "interpreted", "shrink"]


# ---- running --------------------------------------------------------------------------------------------------


@contextmanager
def interpreted() -> Iterator[None]:
    """Inside, segments of compiled functions are run by the NumPy rules instead of native code."""
    names = ("_run", "LoadedProgram")
    saved = {name: getattr(run_module, name) for name in names}
    backend = jitgrad.compiled.backend.backend
    kind = type(backend)
    compile_end = kind.compile_end
    run_module._run = _interpret
    kind.compile_end = lambda self, segment: SimpleNamespace(segment=segment, launches=0, only=None)  # type: ignore[method-assign]
    try:
        yield
    finally:
        kind.compile_end = compile_end  # type: ignore[method-assign]
        for name, value in saved.items():
            setattr(run_module, name, value)


def _interpret(loaded: Any, buffers: dict[int, Any], scalars: list[Any]) -> None:
    segment = loaded.segment
    values: dict[int, Any] = {v: buffers[v].array(a).copy() for v, a in segment.inputs.items()}
    for instr in segment.instrs:
        arrays = [
            x.value if isinstance(x, Const) else values[x] if isinstance(x, int) else scalars[x.slot]
            for x in instr.inputs
        ]
        try:
            results = run_module.compute(instr, arrays)
        except Exception:
            run_module._write_back(segment, values, buffers)
            raise
        values.update(zip(instr.outputs, results, strict=True))
    for vid in segment.outputs:
        value = values[vid]
        storage = buffers.get(vid)
        if storage is None:
            storage = buffers[vid] = Storage(max(value.nbytes, 1))
        np.copyto(storage.array(make_aval(value.shape, from_numpy_dtype(value.dtype))), value)
    for vid, owner in segment.writes:
        np.copyto(buffers[owner].array(segment.inputs[owner]), values[vid])


def _seen(value: Any) -> Any:
    """A value as it must be in every subject; frozen, so that a later overwrite of a result shows."""
    try:
        return _frozen(value)
    except Exception as error:
        return f"cannot be looked at: {type(error).__name__}: {error}"


def _frozen(value: Any) -> Any:
    if hasattr(value, "detach"):
        grad = value.grad if value.is_leaf else None
        flags = (bool(value.requires_grad), bool(value.is_leaf))
        return np.array(value.detach().numpy()), flags, None if grad is None else np.array(grad.detach().numpy())
    return value


def _call(step: Callable[..., Any], inputs: Inputs, call: Call) -> tuple[Any, list[Any]]:
    """(what can be seen, results that live on)."""
    lib = inputs.lib
    try:
        with lib.set_grad_enabled(call.grad_mode):
            results = step(lib, inputs)
        for _ in range(call.after):
            for r in results:
                if hasattr(r, "requires_grad") and r.requires_grad:
                    r.sum().backward(retain_graph=True)
    except Exception as error:
        results = [type(error).__name__]
        message: Any = error
    else:
        message = None
    seen = [_seen(r) for r in results], _seen(inputs.p0), _seen(inputs.p1), _seen(inputs.x0), _seen(inputs.x1)
    return (*seen, [w.copy() for w in inputs.windows], Message(message)), results


class Message(str):
    """The text of an exception, shown but not compared."""

    def __new__(cls, error: Any) -> Message:
        return str.__new__(cls, "" if error is None else f"{type(error).__name__}: {error}"[:600])


def _run(lib: Any, program: Program, step: Callable[..., Any]) -> list[Any]:
    inputs = Inputs(lib, program.seed)
    seen, held = [], []
    for nr, call in enumerate(program.calls):
        inputs.prepare(call, nr)
        what, results = _call(step, inputs, call)
        seen.append(what)
        held.append(results)
    return [*seen, [[_seen(r) for r in results] for results in held]]


def _load(program: Program) -> Callable[..., Any]:
    namespace: dict[str, Any] = {}
    exec(compile(program.source, "<fuzz>", "exec"), namespace)
    return namespace["step"]  # type: ignore[no-any-return]


# ---- comparing ------------------------------------------------------------------------------------------------


class Failure(AssertionError):
    """Two subjects disagree. ``kind`` is what a shrunk program must keep."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def _difference(got: Any, want: Any, rtol: float, path: str = "") -> str:
    """Where they differ; empty if they agree."""
    if isinstance(want, Message):
        return ""
    if isinstance(want, np.ndarray):
        if not isinstance(got, np.ndarray) or got.shape != want.shape or got.dtype != want.dtype:
            return f"{path}: {got!r} instead of {want!r}"
        loose = 2e-3 if np.float32 in (got.dtype, want.dtype) else rtol
        with np.errstate(all="ignore"):
            same = np.allclose(got, want, rtol=loose, atol=loose / 10, equal_nan=True)
        return "" if same else f"{path}: {got!r} instead of {want!r}"
    if isinstance(want, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(want):
            return f"{path}: {got!r} instead of {want!r}"
        found = (_difference(g, w, rtol, f"{path}[{i}]") for i, (g, w) in enumerate(zip(got, want, strict=True)))
        return next(filter(None, found), "")
    if isinstance(want, float) and isinstance(got, float):
        return _difference(np.array(got), np.array(want), rtol, path)
    return "" if type(got) is type(want) and got == want else f"{path}: {got!r} instead of {want!r}"


# what torch says otherwise by design: memory follows the operands' layout, views of leaves made in no_grad mode
TORCH_ONLY = ("view size is not compatible",)


def _without_flags(seen: list[Any]) -> list[Any]:
    """Of results and inputs only the values, of parameters also the gradients."""

    def values(part: Any) -> Any:
        if isinstance(part, tuple) and len(part) == 3 and isinstance(part[0], np.ndarray):
            return part[0]
        return [values(x) for x in part] if isinstance(part, list | tuple) and not isinstance(part, str) else part

    calls = [(values(c[0]), c[1][::2], c[2][::2], values(c[3]), values(c[4]), *c[5:]) for c in seen[:-1]]
    return [*calls, values(seen[-1])]


def _compare(kind: str, got: list[Any], want: list[Any], rtol: float) -> None:
    labels = [*(f"call {i}" for i in range(len(want) - 1)), "all results at the end"]
    for label, g, w in zip(labels, got, want, strict=True):
        found = _difference(g, w, rtol)
        if found:
            errors = [m for side in (g, w) for m in side if isinstance(m, Message) and m]
            category = "exception" if errors else "value"
            raise Failure(f"{kind}, {category}", f"{label} {found}\n" + "\n".join(errors))


def check(program: Program, *, with_torch: bool = True) -> None:
    """Run a program on every subject.

    Raises:
        Failure: two of them disagree.
    """
    step = _load(program)
    rtol = 2e-3 if "float32" in repr(program) else 1e-6
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        eager = _run(jitgrad, program, step)
        if with_torch and torch is not None:
            reference = _run(torch, program, step)
            if any(words in call[-1] for words in TORCH_ONLY for call in reference[:-1]):
                return
            _compare("eager against torch", _without_flags(eager), _without_flags(reference), rtol)
        compiled = jitgrad.compile(step)
        _compare("compiled against eager", _run(jitgrad, program, compiled), eager, rtol)
        _compare("second round against eager", _run(jitgrad, program, compiled), eager, rtol)


# ---- shrinking ------------------------------------------------------------------------------------------------


def find_failure(program: Program, *, with_torch: bool = True) -> Failure | None:
    """The failure of a program, or None. An exception of the fuzzer itself counts as one."""
    try:
        check(program, with_torch=with_torch)
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


def shrink(program: Program, kind: str, *, with_torch: bool = True, seconds: float = 30.0) -> Program:
    """The smallest program found that fails in the same way."""
    end = time.monotonic() + seconds
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for smaller in _smaller(program):
            if time.monotonic() > end:
                break
            failure = find_failure(smaller, with_torch=with_torch)
            if failure is not None and failure.kind == kind:
                program, progress = smaller, True
                break
    return program


@dataclass
class Report:
    """What a run of the fuzzer found."""

    programs: int = 0
    failures: list[tuple[Program, Failure]] = field(default_factory=list)


def fuzz(seed: int, programs: int, *, with_torch: bool = True, stop_after: int = 5) -> Report:
    """Check the programs of ``seed`` and the seeds after it; print every failure, shrunk."""
    report = Report()
    for nr in range(seed, seed + programs):
        program = generate(nr)
        report.programs += 1
        failure = find_failure(program, with_torch=with_torch)
        if failure is None:
            continue
        small = shrink(program, failure.kind, with_torch=with_torch)
        failure = find_failure(small, with_torch=with_torch) or failure
        report.failures.append((small, failure))
        print(f"# seed {nr}\n# " + str(failure).replace("\n", "\n# ") + f"\n{small}", flush=True)
        if len(report.failures) >= stop_after:
            break
    return report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stop-after", type=int, default=5, help="failures")
    parser.add_argument("--no-torch", action="store_true", help="compare compiled with eager only")
    parser.add_argument("--interpret", action="store_true", help="the tracer alone, without LLVM")
    args = parser.parse_args()
    start = time.monotonic()
    options = {"with_torch": not args.no_torch, "stop_after": args.stop_after}
    if args.interpret:
        with interpreted():
            report = fuzz(args.seed, args.programs, **options)
    else:
        report = fuzz(args.seed, args.programs, **options)
    seconds = time.monotonic() - start
    print(f"{report.programs} programs, {len(report.failures)} failures, {seconds:.1f} s")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
