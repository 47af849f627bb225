"""Random programs, run on torch eagerly, on jitgrad eagerly and on jitgrad compiled; all must agree.

A program is a list of statements over tensors - views, in-place writes, branches, hooks, derivatives of derivatives -
and a list of calls. Between two calls the fuzzer changes what a key of the trie must hold: shapes, dtype, strides,
``requires_grad``, whether ``.grad`` exists, aliases between inputs, graphs that come in from outside, hooks, numbers,
which results are kept alive, grad mode. The whole list of calls is made twice with the same compiled function, so the
second round finds everything in the trie. Compared are values, gradients, version counters, flags, what hooks saw and
in which order, and the types of exceptions.

    python -m tests.fuzz --programs 100 --seed 0      # a failure is shrunk and printed, as a program to run
    python -m tests.fuzz --interpret                  # the tracer alone: segments run by NumPy, no LLVM
"""

from __future__ import annotations

import argparse
import re
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
from jitgrad.runtime.storage.storage import Storage
from jitgrad.tracer.graph import Const

if __package__:  # python -m tests.fuzz
    from tests.fuzz_programs import Call, Program
    from tests.fuzz_statements import generate
else:
    from fuzz_programs import Call, Program
    from fuzz_statements import generate

try:
    import torch
    import torch.utils.checkpoint  # torch does not do it
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
            run_module._keep_computed(segment, values, buffers)
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


UNSEEN = "cannot be looked at"


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


class Flags(tuple[Any, ...]):
    """(requires_grad, is_leaf, _version) of a tensor."""


class Message(str):
    """The text of an exception, shown but not compared."""

    def __new__(cls, error: Any) -> Message:
        return str.__new__(cls, "" if error is None else f"{type(error).__name__}: {error}"[:600])


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


def _run(lib: Any, program: Program, step: Callable[..., Any]) -> list[Any]:
    scope: dict[str, Any] = {"lib": lib, "s": SimpleNamespace(), "step": step, "np": np}
    _execute(program.setup(), scope)
    seen, held = [], []
    for nr in range(len(program.calls)):
        _execute(program.prepare(nr), scope)
        what, results = _call(program, nr, scope)
        seen.append(what)
        held.append(results)
    return [*seen, [[_seen(r) for r in results] for results in held]]


def _load(program: Program) -> Callable[..., Any]:
    namespace: dict[str, Any] = {"np": np}
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
    if isinstance(want, Flags):
        same = isinstance(got, Flags) and all(a == b or None in (a, b) for a, b in zip(got, want, strict=False))
        return "" if same else f"{path}: Flags {got!r} instead of {want!r}"
    if isinstance(want, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(want):
            return f"{path}: {got!r} instead of {want!r}"
        found = (_difference(g, w, rtol, f"{path}[{i}]") for i, (g, w) in enumerate(zip(got, want, strict=True)))
        return next(filter(None, found), "")
    if isinstance(want, float) and isinstance(got, float):
        return _difference(np.array(got), np.array(want), rtol, path)
    if isinstance(want, str) and isinstance(got, str) and want.startswith(UNSEEN) and got.startswith(UNSEEN):
        return ""
    return "" if type(got) is type(want) and got == want else f"{path}: {got!r} instead of {want!r}"


# what torch says otherwise by design: memory follows the operands' layout; or does not support: hooks on several leaves
# while grad() runs
TORCH_ONLY = ("view size is not compatible", "passed to _will_engine_execute_node")


def _without_versions(seen: Any, flags: int = 2) -> Any:
    """Version counters may tell how an operation is made, as well as how often a tensor was written."""
    if isinstance(seen, Flags):
        return Flags(seen[:flags])
    if type(seen) in (list, tuple):
        return type(seen)(_without_versions(x, flags) for x in seen)
    return seen


def _is_tame(seen: Any) -> bool:
    """Whether no number has grown so large that rounding decides what comes next (``sin`` of 1e12)."""
    if isinstance(seen, np.ndarray):
        return not seen.size or not np.abs(seen).max() > 1e5
    return all(map(_is_tame, seen)) if isinstance(seen, list | tuple) else True


def _of_inputs_only(seen: list[Any]) -> list[Any]:
    """Without the versions of results: a gradient may be the engine's sum in place."""
    calls = [(_without_versions(c[0]), *c[1:6], _without_versions(c[6]), *c[7:]) for c in seen[:-1]]
    return [*calls, _without_versions(seen[-1], 0)]


def _until_error(ours: list[Any], theirs: list[Any]) -> tuple[list[Any], list[Any]]:
    """The calls before the first one that raised on both sides."""
    for nr, (a, b) in enumerate(zip(ours[:-1], theirs[:-1], strict=True)):
        if a[-1] and b[-1] and type(a[0][-1]) is str and a[0][-1] == b[0][-1]:
            return [*ours[:nr], []], [*theirs[:nr], []]
    return ours, theirs


def _compare(kind: str, got: list[Any], want: list[Any], rtol: float) -> None:
    labels = [*(f"call {i}" for i in range(len(want) - 1)), "all results at the end"]
    for label, g, w in zip(labels, got, want, strict=True):
        if not _is_tame(w):
            return
        found = _difference(g, w, rtol)
        if found:
            errors = [m for side in (g, w) for m in side if isinstance(m, Message)]
            category = " and ".join(m.split(":")[0] or "a value" for m in errors) if any(errors) else "values"
            category = "flags" if "Flags" in found else category
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
            if "layer_norm" in program.source and "create_graph" in program.source:
                return  # the third derivative in PyTorch is not what finite differences say
            ours, theirs = _of_inputs_only(eager), _of_inputs_only(reference)
            if "nn.functional" in program.source:  # how layers are made of operations shows in what an error leaves
                ours, theirs = _until_error(ours, theirs)
            _compare("eager against torch", ours, theirs, rtol)
        compiled = jitgrad.compile(step)
        if "grad(" in program.source or "backward(" in program.source or any(call.after for call in program.calls):
            eager = _of_inputs_only(eager)
        for number in ("first", "second", "third"):
            _compare(f"{number} round against eager", _run(jitgrad, program, compiled), eager, rtol)


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
    ignored: int = 0
    failures: list[tuple[Program, Failure]] = field(default_factory=list)


def fuzz(
    seed: int,
    programs: int,
    *,
    with_torch: bool = True,
    stop_after: int = 5,
    scripts: bool = True,
    ignore: str = "(?!)",
) -> Report:
    """Check the programs of ``seed`` and the seeds after it; print every failure, shrunk."""
    report = Report()
    for nr in range(seed, seed + programs):
        program = generate(nr)
        report.programs += 1
        failure = find_failure(program, with_torch=with_torch)
        if failure is None:
            continue
        if re.search(ignore, str(failure)):
            report.ignored += 1
            continue
        small = shrink(program, failure.kind, with_torch=with_torch)
        failure = find_failure(small, with_torch=with_torch) or failure
        report.failures.append((small, failure))
        print(f"# seed {nr}\n# " + str(failure).replace("\n", "\n# ") + f"\n{small}", flush=True)
        if scripts:
            print(small.script, flush=True)
        if len(report.failures) >= stop_after:
            break
    return report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stop-after", type=int, default=5, help="failures")
    parser.add_argument("--ignore", default="(?!)", help="a pattern: failures whose text has it are only counted")
    parser.add_argument("--no-scripts", action="store_true", help="print failures as data only")
    parser.add_argument("--no-torch", action="store_true", help="compare compiled with eager only")
    parser.add_argument("--interpret", action="store_true", help="the tracer alone, without LLVM")
    args = parser.parse_args()
    start = time.monotonic()
    options = {"with_torch": not args.no_torch, "stop_after": args.stop_after, "scripts": not args.no_scripts,
               "ignore": args.ignore}  # fmt: skip
    if args.interpret:
        with interpreted():
            report = fuzz(args.seed, args.programs, **options)
    else:
        report = fuzz(args.seed, args.programs, **options)
    seconds = time.monotonic() - start
    failed = len(report.failures) + report.ignored
    print(f"{report.programs} programs, {report.programs - failed} agreed, {failed} did not, {seconds:.1f} s")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
