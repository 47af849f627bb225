"""The worked example of docs/codegen.md: one training step, and every text that the page shows of it.

``python -m tests.codegen.worked_example`` writes the page's blocks again; ``test_worked_example`` compares them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jitgrad
from jitgrad.codegen import pipeline
from jitgrad.codegen.llvm.target import Target
from jitgrad.codegen.loops.emit_loops import print_kernel
from jitgrad.codegen.piece import Piece
from jitgrad.codegen.schedule.kernel_ir import LoopKernel
from jitgrad.tracer.recording.history import EndEvent

PAGE = Path(__file__).resolve().parents[2] / "docs" / "codegen.md"
TARGET = Target("haswell", "+avx2,+fma", "x86_64-unknown-linux-gnu", 8, 16, True, True, False)
"""The page shows a CPU with AVX2, wherever it is written; only LLVM itself would need that CPU."""

_BLOCK = re.compile(r"<!-- (?P<name>[\w ]+) -->\n```(?P<kind>\w*)\n(?P<text>.*?)\n```", re.DOTALL)


class _Messages(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.getMessage())


@contextmanager
def logged(artifact: str) -> Iterator[list[str]]:
    """The messages of a log artifact."""
    logger, handler = logging.getLogger(f"jitgrad.{artifact}"), _Messages()
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        yield handler.found
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


def page_blocks() -> dict[str, str]:
    """Name -> text of the marked blocks of the page."""
    return {m["name"]: m["text"] for m in _BLOCK.finditer(PAGE.read_text())}


def made_blocks(program: str) -> dict[str, str]:
    """The same blocks, made from the page's program."""
    space: dict[str, Any] = {"jitgrad": jitgrad}
    with logged("record") as keys:
        exec(compile(program, "step.py", "exec"), space)
    events = [e for e in space["step"].last_path() if isinstance(e, EndEvent) and e.program is not None]
    own, pipeline.host_target = pipeline.host_target, lambda: TARGET
    try:
        with logged("pipeline") as passes:
            (piece,) = pipeline.plan_segment(events[0].segment)
    finally:
        pipeline.host_target = own
    assert isinstance(piece, Piece) and piece.plan is not None
    kernel = piece.plan.stages[0][0].kernel
    assert isinstance(kernel, LoopKernel)
    named = {re.match(r"part 0, pass (\w+)", text)[1]: text for text in passes[1:]}  # type: ignore[index]
    return {
        "program": program,
        "keys": "\n".join(key for key in keys if key.startswith("miss")),
        "segment": passes[0],
        **named,
        "kernel": _first_loop(print_kernel(kernel.key, "kernel", TARGET)),
    }


def _first_loop(text: str) -> str:
    """The kernel's first vector loop: its head and its body."""
    lines = text.splitlines()
    labels = [n for n, line in enumerate(lines) if line.startswith("vec")]
    return "\n".join(lines[labels[0] : labels[2]])


def main() -> None:
    """Write the page's blocks again."""
    made = made_blocks(page_blocks()["program"])
    text = _BLOCK.sub(lambda m: f"<!-- {m['name']} -->\n```{m['kind']}\n{made[m['name']]}\n```", PAGE.read_text())
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
