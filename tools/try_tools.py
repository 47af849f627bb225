"""Every tool that looks at a step, tried on the whole programs of ``examples/`` and on steps made slow on purpose.

``python -m tools.try_tools [--only NAME[,NAME]] [--out FOLDER]`` runs each program in a process of its own. At the
fifth call of each of its steps the tools get the step and the arguments so far: ``explain`` (text, JSON, page),
``verify``, ``profile``, the graph of the result, ``memory_use``, ``benchmark``. What they say goes to
``FOLDER/PROGRAM/STEP.*``; the table has what each has found first, or raised. The exit status is 1 if one has raised,
or a program has.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jitgrad
from jitgrad.profiler import profile

ROOT = Path(__file__).resolve().parents[1]
SLOW_STEPS = ROOT / "tests" / "measuring" / "slow_steps.py"
SLOW = {"fast": "some", "counting": "many", "reading": "some", "hooked": "some"}
"""Functions of ``slow_steps.py`` -> where their arguments are."""
PROGRAMS: dict[str, tuple[str, ...]] = {
    "cartpole": ("--steps", "6", "--json"),
    "cnn": ("--epochs", "1", "--batch", "256", "--json"),
    "digits": ("--epochs", "2", "--json"),
    "factorization": ("--epochs", "1", "--batch", "1024", "--json"),
    "fno": ("--epochs", "1", "--waves", "128", "--json"),
    "gpt": ("--steps", "8", "--json"),
    "implied_volatility": ("--steps", "8", "--json"),
    "neural_ode": ("--steps", "8", "--json"),
    "newton": (),
    "orbit": (),
    "orbit_fit": ("--steps", "6", "--json"),
    "pinn": (),
    "pinn2d": ("--steps", "6", "--json"),
    "rosenbrock": (),
    "vae": ("--epochs", "2", "--batch", "256", "--json"),
}
"""Examples -> arguments with which they take seconds."""
_AT_CALL = 5
_TIMEOUT_S = 900


class Tried:
    """A compiled step that is handed to every tool at one of its calls.

    Attributes:
        recent: the arguments of the calls so far.
        rows: tool -> one line of what it found, or what it raised.
    """

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        functools.update_wrapper(self, function, updated=())
        self._compiled, self._folder = _COMPILE(function), folder
        self.recent: list[tuple[Any, ...]] = []
        self.rows: dict[str, str] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.recent.append(args)
        if len(self.recent) == _AT_CALL:
            self.try_all(kwargs)
        return self._compiled(*args, **kwargs)

    def try_all(self, kwargs: dict[str, Any], batches: list[Any] | None = None) -> None:
        """Hand the step to one tool after the other; ``explain`` goes first, before the arguments have been seen."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for tool in (_explain, _verify, _profile, _picture, _memory, _benchmark):
            try:
                said = tool(self._compiled, batches or self.recent, kwargs, self._folder / self.__name__)
            except Exception as error:
                said = f"RAISED {type(error).__name__}: {error}"
                traceback.print_exc()
            self.rows[tool.__name__.strip("_")] = said
        (self._folder / f"{self.__name__}.tools.json").write_text(json.dumps(self.rows, indent=1))


_COMPILE = jitgrad.compile


def _verify(step: Any, batches: list[Any], kwargs: dict[str, Any], path: Path) -> str:
    report = jitgrad.Verification(folder=path.parent / "jitgrad-verify")(step, *batches[-1], **kwargs)
    path.with_suffix(".verify.txt").write_text(str(report))
    return str(report).splitlines()[0] if report else f"RAISED {report}"


def _benchmark(step: Any, batches: list[Any], kwargs: dict[str, Any], path: Path) -> str:
    report = jitgrad.benchmark(step, batches=batches, seconds=0.3, **kwargs)
    path.with_suffix(".benchmark.txt").write_text(str(report))
    report.save(path.with_suffix(".benchmark.html"))
    return " | ".join(note for note in report.notes() if note.partition(":")[0].isupper()) or report.notes()[1]


def _explain(step: Any, batches: list[Any], kwargs: dict[str, Any], path: Path) -> str:
    report = jitgrad.explain(step, *batches[-1], **kwargs)
    path.with_suffix(".explain.txt").write_text(str(report))
    path.with_suffix(".explain.json").write_text(json.dumps(report.to_json()))
    report.save(path.with_suffix(".explain.html"))
    return " | ".join(report.summary()) or "nothing unusual"


def _profile(step: Any, batches: list[Any], kwargs: dict[str, Any], path: Path) -> str:
    with profile(kernels=True) as prof:
        for _ in range(3):
            step(*batches[-1], **kwargs)
    prof.export_chrome_trace(path.with_suffix(".trace.json"))
    path.with_suffix(".profile.txt").write_text(prof.table())
    return f"{len(prof.events())} ranges, {len(prof.task_events())} tasks"


def _picture(step: Any, batches: list[Any], kwargs: dict[str, Any], path: Path) -> str:
    with jitgrad.eager():
        result = step(*batches[-1], **kwargs)
    result = next((x for x in _tensors(result) if x.grad_fn is not None), None)
    if result is None:
        return "no result has a graph"
    jitgrad.draw_graph(result, path.with_suffix(".graph.dot"))
    jitgrad.draw_graph(result, path.with_suffix(".graph.png"))
    return "drawn"


def _memory(step: Any, batches: list[Any], kwargs: dict[str, Any], path: Path) -> str:
    report = jitgrad.memory_use(step, *batches[-1], **kwargs)
    path.with_suffix(".memory.txt").write_text(str(report))
    report.plot(path.with_suffix(".memory.png"))
    return " ".join(report.notes())


def _tensors(result: Any) -> list[Any]:
    if isinstance(result, jitgrad.Tensor):
        return [result]
    return [x for part in result for x in _tensors(part)] if isinstance(result, tuple | list) else []


def try_program(name: str, folder: Path) -> None:
    """In a process of its own: run a program with the tools at its steps."""
    if name in SLOW:
        sys.path.insert(0, str(SLOW_STEPS.parent))
        steps = runpy.run_path(str(SLOW_STEPS))
        step, given = Tried(steps[name], folder), steps[SLOW[name]]
        batches = given if isinstance(given, list) else [given]
        for nr in range(_AT_CALL - 1):
            step(*batches[nr % len(batches)])
        step.try_all({}, batches)
        return
    made: list[Tried] = []

    def compile_tried(function: Any = None, **options: Any) -> Any:
        if function is None:
            return functools.partial(compile_tried, **options)
        made.append(Tried(function, folder))
        return made[-1]

    jitgrad.compile = compile_tried  # type: ignore[assignment]
    script = ROOT / "examples" / f"{name}.py"
    sys.argv[:] = [str(script), *PROGRAMS[name]]
    sys.path.insert(0, str(script.parent))
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    runpy.run_path(str(script), run_name="__main__")


def main() -> int:
    """Run the programs, print what each tool said first."""
    parser = argparse.ArgumentParser(prog="python -m tools.try_tools", description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=lambda text: text.split(","), default=[*SLOW, *PROGRAMS], metavar="NAME[,NAME]")
    parser.add_argument("--out", type=Path, default=Path("tried"), help="where the reports go (default: tried)")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        try_program(options.one, options.out)
        return 0
    failures = 0
    for name in options.only:
        folder = options.out.resolve() / name
        command = [sys.executable, "-m", "tools.try_tools", "--one", name, "--out", str(folder)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        if done.returncode:
            print(f"{name}: the program raised\n{done.stderr[-1500:]}", flush=True)
        found = sorted(folder.glob("*.tools.json"))
        failures += bool(done.returncode) or not found
        for path in found:
            for tool, said in json.loads(path.read_text()).items():
                failures += said.startswith("RAISED")
                print(f"{name:18} {path.name.removesuffix('.tools.json'):16} {tool:10} {said}", flush=True)
    print(f"{failures} tools or programs have failed")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
