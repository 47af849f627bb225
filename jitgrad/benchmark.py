"""``jitgrad.benchmark(step, *args)`` and ``python -m jitgrad.benchmark script.py:step``: is it worth compiling?

Owns: the function, which is this module itself, and the command.
Must not know: how anything is measured (``measuring/``).

The module can be called: ``jitgrad.benchmark`` is one object, however it was imported.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from jitgrad.config import config
from jitgrad.measuring.benchmark_report import BenchmarkReport
from jitgrad.measuring.run import run_benchmark

__all__ = ["BenchmarkReport", "benchmark", "main"]


def benchmark(
    step: Callable[..., Any],
    *args: Any,
    batches: Sequence[tuple[Any, ...]] | None = None,
    compare: Callable[..., Any] | Mapping[str, Callable[..., Any]] | None = None,
    seconds: float = 2.0,
    **kwargs: Any,
) -> BenchmarkReport:
    """Run a step eagerly and compiled, in turns, and tell whether compiling it pays and where its time goes.

    First the losses of ten calls are compared, from the same start: everything that the step reaches (parameters,
    gradients, optimizers, random numbers) is copied, and put back between runs and at the end. Then batches of steps
    are timed, one way after the other.

    Args:
        step: a function, compiled or not; it should return its loss.
        args, kwargs: what it is called with, each time.
        batches: instead of ``args``: the arguments of one call after the other, from the first again after the last.
        compare: a function to time beside them, or several by name, such as the same step written for PyTorch and given
            to ``torch.compile``. It is called with the same arguments, or without any if it takes none.
        seconds: for timing, all ways together.

    Returns:
        A report: ``str()`` and notebooks show its tables and sentences; ``show()``, ``plot()``, ``save(path)``,
        ``to_json()``.

    Raises:
        TypeError: ``step`` cannot be called, or both ``args`` and ``batches`` are given.
        ValueError: ``batches`` is empty.
        RuntimeError: a profiler is active.
        Exception: what the step itself raises.
    """
    if batches is not None and args:
        raise TypeError("benchmark() takes the arguments of the step or batches=, not both")
    if batches is not None and not len(batches):
        raise ValueError("benchmark() needs at least one batch")
    return run_benchmark(step, [args] if batches is None else list(batches), kwargs, compare, seconds)


class _CallableModule(ModuleType):
    """A module that is called as its function of the same name."""

    def __call__(self, *args: Any, **kwargs: Any) -> BenchmarkReport:
        """See ``benchmark``."""
        return benchmark(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule


def main(argv: Sequence[str] | None = None) -> int:
    """The command; the exit status is 1 if the losses differ."""
    parser = argparse.ArgumentParser(
        prog="python -m jitgrad.benchmark",
        description="Time a step of a script eagerly and compiled. The script is run, as an import, not as __main__.",
    )
    parser.add_argument("step", help="SCRIPT.py:NAME, a function of the script")
    parser.add_argument("--args", metavar="NAME", help="a tuple of the script, or a function that makes one")
    parser.add_argument("--batches", metavar="NAME", help="a list of such tuples, or a function that makes one")
    parser.add_argument("--compare", metavar="NAME", action="append", default=[], help="another function of the script")
    parser.add_argument("--seconds", type=float, default=2.0, help="for timing (default: 2)")
    parser.add_argument("--cold", action="store_true", help="begin with an empty cache of compiled code")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it, by matplotlib")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write it as a page")
    given = parser.parse_args(argv)
    path, colon, name = given.step.rpartition(":")
    if not colon:
        parser.error("give SCRIPT.py:NAME, such as train.py:step")
    with tempfile.TemporaryDirectory() as empty, _cache_in(empty if given.cold else config.cache_dir):
        script = _load(Path(path))
        args = _made(script, given.args) if given.args else ()
        batches = _made(script, given.batches) if given.batches else None
        compare = {other: getattr(script, other) for other in given.compare}
        report = benchmark(
            getattr(script, name), *args, batches=batches, compare=compare or None, seconds=given.seconds
        )
    if given.json:
        print(json.dumps(report.to_json(), indent=1))
    else:
        report.show()
    if given.plot:
        report.plot(given.plot)
    if given.html:
        report.save(given.html)
    return int(report.agrees is False)


@contextmanager
def _cache_in(folder: Any) -> Iterator[None]:
    """Compiled code is kept in a folder that may be gone after the block, and afterwards where it was before."""
    before, config.cache_dir = config.cache_dir, folder
    try:
        yield
    finally:
        config.cache_dir = before


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise SystemExit(f"there is no script {path}")
    script = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = script
    sys.path.insert(0, str(path.resolve().parent))
    spec.loader.exec_module(script)
    return script


def _made(script: ModuleType, name: str) -> Any:
    found = getattr(script, name)
    return found() if callable(found) else found


if __name__ == "__main__":
    sys.exit(main())
