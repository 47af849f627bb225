"""A training that faults are put into, and what it must come to.

Owns: ``losses``, ``WANTED``, ``why_wrong``, ``wrong_entries``.
Must not know: which faults there are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jitgrad as jg
from jitgrad.codegen.llvm.formats import payload_of
from tests.eager_bounds import eager_kernels_from

__all__ = ["Warned", "begin", "losses", "wanted", "why_wrong", "wrong_entries"]

STEPS = 4


def begin(is_compiled: bool = True, scale: float = 1.0) -> Callable[[], float]:
    """A step of a model with Adam, which says its loss. Its numbers depend on ``scale``."""
    x = (jg.arange(600.0).reshape(20, 30) % 7.0) / 7.0
    y = (jg.arange(20.0).reshape(20, 1) % 3.0) * scale
    w, v = (jg.full(shape, 0.1).requires_grad_() for shape in ((30, 8), (8, 1)))
    optimizer = jg.optim.Adam([w, v], lr=0.05)

    def step() -> Any:
        optimizer.zero_grad()
        loss = (((x @ w).tanh() @ v).exp() - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = jg.compile(step) if is_compiled else step
    return lambda: float(run())


def losses(is_compiled: bool = True, scale: float = 1.0) -> list[float]:
    """Those of the first steps."""
    step = begin(is_compiled, scale)
    return [step() for _ in range(STEPS)]


def wanted(scale: float = 1.0) -> list[float]:
    """The same, eagerly and without any kernel."""
    with eager_kernels_from(-1), jg.eager():
        return losses(False, scale)


def why_wrong(got: list[float], scale: float = 1.0) -> str:
    """Empty if these are the losses that training must have."""
    want = wanted(scale)
    is_right = len(got) == len(want) and all(abs(a - b) <= 1e-4 * (1 + abs(b)) for a, b in zip(got, want, strict=True))
    return "" if is_right else f"the losses were {got}, not {want}"


def wrong_entries(folder: Path, healthy: Path) -> list[str]:
    """The entries of a cache that would be loaded, and that are not what a healthy cache has under their name."""
    wrong = []
    for path in folder.glob("*.obj"):
        payload = payload_of(bytes.fromhex(path.stem), path.read_bytes())
        twin = healthy / path.name
        if payload is not None and twin.exists() and twin.read_bytes() != path.read_bytes():
            wrong.append(path.name)
    return wrong


class Warned(logging.Handler):
    """Collects what jitgrad says of itself from warnings on."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        logging.getLogger("jitgrad").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
