"""``python -m jitgrad.tune [script.py ...]``: measure now how this machine does its matrix products best.

Owns: the command, the usual shapes, the table.
Must not know: how ways are timed, where times are kept (``codegen/gemm/tuning.py``, Note [Measured tiles]).

Without a script: the three products of a layer, for usual batches and widths, and square ones. With one: all products
and convolutions that the script compiles while it runs. Results stay in the disk cache, for this model of CPU.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jitgrad.codegen.gemm import choose_spec
from jitgrad.codegen.gemm.tuning import Question, Times, is_on, on_measured, quickest, way_of
from jitgrad.codegen.llvm.target import host_target
from jitgrad.config import config
from jitgrad.dtypes import DType, float32, float64
from jitgrad.events import stats
from jitgrad.report.tables import Report, Table

__all__ = ["TuneReport", "UsualProduct", "main", "tune"]

_BATCHES = (20, 32, 64, 128, 256)
_LAYERS = ((64, 64), (64, 256), (128, 128), (128, 512), (256, 256), (256, 1024), (512, 512), (784, 256), (1024, 1024))
_SQUARES = (128, 192, 256, 384, 512, 768, 1024)


@dataclass(frozen=True)
class UsualProduct:
    """[m, k] @ [k, n]; ``a``, ``b``: whether the operand is a transposed view."""

    m: int
    n: int
    k: int
    a: bool = False
    b: bool = False
    dtype: DType = float32

    def ask(self) -> None:
        """Have it measured, unless it is known."""
        a_strides = (0, 1, self.m) if self.a else (0, self.k, 1)
        b_strides = (0, 1, self.k) if self.b else (0, self.n, 1)
        choose_spec(self.dtype, self.m, self.n, self.k, 1, a_strides, b_strides, "tune", host_target())


def _usual() -> Iterator[UsualProduct]:
    for batch in _BATCHES:
        for fan_in, fan_out in _LAYERS:
            yield UsualProduct(batch, fan_out, fan_in, b=True)  # x @ w.T
            yield UsualProduct(batch, fan_in, fan_out)  # g @ w
            yield UsualProduct(fan_out, fan_in, batch, a=True)  # g.T @ x
    for dtype in (float32, float64):
        for n in _SQUARES:
            yield UsualProduct(n, n, n, dtype=dtype)


@dataclass
class TuneReport(Report):
    """What is known now.

    Attributes:
        found: a product of each class, and its times.
        measured: how many of them were measured now; the others were known.
    """

    found: list[tuple[Question, Times]] = field(default_factory=list)
    measured: int = 0

    def tables(self) -> list[Table]:
        """A line per class: the model's choice, and what is taken instead if that is clearly faster."""
        rows = []
        for question, times in self.found:
            model = way_of(question.specs[0])
            taken = quickest(model, times)
            speeds = {way: 2.0 * question.multiplies / ns for way, ns in times.items()}
            gain = f"{times[model] / times[taken]:.2f}" if model in times else "-"
            rows.append(
                [question.about, str(model), f"{speeds[model]:.1f}" if model in speeds else "-",
                 str(taken) if taken != model else "the same", f"{speeds[taken]:.1f}", gain]
            )  # fmt: skip
        return [Table("matrix products", ("product", "model", "GFLOP/s", "taken", "GFLOP/s", "gain"), rows)]

    def notes(self) -> list[str]:
        """How many there are."""
        return [f"{len(self.found)} classes of products, {self.measured} of them measured now."]

    def to_json(self) -> dict[str, Any]:
        """Nanoseconds by way."""
        products = [
            {"product": question.about, "model": str(way_of(question.specs[0])),
             "times": {str(way): ns for way, ns in times.items()}}
            for question, times in self.found
        ]  # fmt: skip
        return {"measured": self.measured, "products": products}


@contextmanager
def _listening() -> Iterator[TuneReport]:
    """Every class is measured when it is met, however long that takes."""
    report, before, tune = TuneReport(), stats()["tuned"], config.tune

    def hear(question: Question, times: Times) -> None:
        report.found.append((question, times))

    on_measured.append(hear)
    try:
        config.tune = 2
        yield report
    finally:
        config.tune = tune
        on_measured.remove(hear)
        report.measured = stats()["tuned"] - before


def tune(run: Callable[[], Any] | None = None) -> TuneReport:
    """Measure the products that ``run`` compiles, or the usual ones.

    Classes that the process knows already are not among those reported.

    Raises:
        Exception: what ``run`` raises.
    """
    with _listening() as report:
        (run or _ask_usual)()
    return report


def _ask_usual() -> None:
    for product in _usual():
        product.ask()


def main(argv: Sequence[str] | None = None) -> int:
    """The command; the exit status is 1 if results cannot be kept."""
    parser = argparse.ArgumentParser(
        prog="python -m jitgrad.tune",
        description="Measure how this machine does matrix products and convolutions best, and keep the results.",
    )
    parser.add_argument("script", nargs="?", help="run as __main__: its products are measured, not the usual ones")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="of the script")
    given = parser.parse_args(argv)
    config.tune = 2
    if not is_on(host_target()):
        print("There is no disk cache to keep results in (JITGRAD_CACHE_DIR).", file=sys.stderr)
        return 1
    print(tune((lambda: _run(given.script, given.args)) if given.script else None))
    return 0


def _run(script: str, args: Sequence[str]) -> None:
    """As ``python script args``; its exit status does not matter."""
    sys.argv = [script, *args]
    sys.path.insert(0, str(Path(script).resolve().parent))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        if ended.code:
            print(f"The script ended with {ended.code}.", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
