"""The three ways a test runs a step; ``conftest.py`` hands them out as the fixture ``mode``.

A test of a row states what its warm call shows, in the marker ``row``; see ``Shown``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

import jitgrad
from jitgrad import events
from jitgrad.compiled.backward import backward as backward_module

__all__ = [
    "ANOMALY", "ARGUMENTS", "HOOKED", "HOOKED_LEAF", "MISSED_WRITE", "MODES", "NO_LOWERING", "OUTSIDE",
    "SPARSE_GRAD", "UNRECORDABLE", "VIRTUAL", "Mode", "Shown", "cpu_and",
]  # fmt: skip

# why the engine runs node by node, in the words of ``record_backward``
ANOMALY = "anomaly mode looks at every node"
ARGUMENTS = "its arguments, or the graph they belong to, are for the engine itself"
HOOKED = "a value that is hooked, or whose Node was looked at"
HOOKED_LEAF = "a hooked leaf"
OUTSIDE = "a graph that began outside the step"
SPARSE_GRAD = "a .grad with a graph, a sparse one, or one in several windows"
UNRECORDABLE = "a rule that cannot be recorded"

# why operations run eagerly
MISSED_WRITE = "A graph would miss the write, so it is done on the real memory."
NO_LOWERING = "The operation has no kernel: its NumPy rule runs."
VIRTUAL = "Operations on a virtual device are its stream's, and run at once."

_NUM_CALLS = {"eager": 1, "cold": 1, "warm": 3}


def _no_arguments() -> tuple[Any, ...]:
    return ()


NOTHING_HELD = "Nothing that is computed is held by anybody."
"""Why a warm call launches no kernel."""


def cpu_and(device: str, **stated: Any) -> Any:
    """Parametrize ``device``: the CPU, and a virtual one, whose operations are no part of a compiled program.

    Args:
        device: the virtual one.
        stated: by the row marker, there, besides what all of them state.
    """
    marks = pytest.mark.row(**{"fallbacks": VIRTUAL, "no_launch": VIRTUAL, "engine": ARGUMENTS, **stated})
    return pytest.mark.parametrize("device", ["cpu", pytest.param(device, marks=marks)])


_listeners: list[Shown] = []
_bump = backward_module.bump_engine_run


def _listen(reason: str) -> None:
    for shown in tuple(_listeners):
        shown.reasons.add(reason)
    _bump(reason)


backward_module.bump_engine_run = _listen


class Shown:
    """What the warm calls of a test showed.

    Attributes:
        calls: how many there were.
        launches: of kernels.
        fallbacks: operations that ran eagerly.
        reasons: why the engine ran node by node, each as ``record_backward`` says it.
        stated: by the test itself, besides its marker.
    """

    def __init__(self) -> None:
        self.calls = self.launches = self.fallbacks = 0
        self.reasons: set[str] = set()
        self.stated: dict[str, Any] = {}

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Add what the block does."""
        before = jitgrad.stats()
        _listeners.append(self)
        try:
            yield
        finally:
            _listeners.remove(self)
            after = jitgrad.stats()
            self.calls += 1
            self.launches += after["launches"] - before["launches"]
            self.fallbacks += after["fallbacks"] - before["fallbacks"]

    def check(self, engine: Any = (), fallbacks: str = "", no_launch: str = "", **others: Any) -> None:
        """AssertionError unless it is what the test's row marker states.

        Args:
            engine: why the engine runs the backward node by node, in the words of ``record_backward``: one reason, or
                a tuple of all; none: a compiled step repeats what it has recorded.
            fallbacks: why operations run eagerly; empty: none does.
            no_launch: why no kernel is launched; empty: some are.
            others: of the marker, and not for here.
        """
        if not self.calls:
            return
        stated = {engine} if isinstance(engine, str) else set(engine)
        assert self.reasons == stated, f"in the warm call the engine ran for {self.reasons}, the marker says {stated}"
        assert bool(self.fallbacks) == bool(fallbacks), f"{self.fallbacks} operations fell back in the warm call"
        assert bool(self.launches) != bool(no_launch), f"{self.launches} kernels were launched in the warm call"


@dataclass(frozen=True)
class Mode:
    """A way to run a step function.

    Attributes:
        name: ``eager`` (no compiler), ``cold`` (the first call of a compiled function: everything is recorded and
            compiled) or ``warm`` (the third call: everything is found).
        shown: what the warm calls showed.
    """

    name: str
    shown: Shown = field(default_factory=Shown, compare=False, repr=False)

    @property
    def is_compiled(self) -> bool:
        return self.name != "eager"

    def wrap(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """The step as this mode calls it, for tests that make the calls themselves; from the third on they are warm."""
        if not self.is_compiled:
            return step
        function = jitgrad.compile(step)
        if self.name != "warm":
            return function
        calls = itertools.count(1)

        def call(*args: Any, **kwargs: Any) -> Any:
            if next(calls) < _NUM_CALLS["warm"]:
                return function(*args, **kwargs)
            with self.shown.watch():
                return function(*args, **kwargs)

        return call

    def states(self, **stated: Any) -> None:
        """What the row marker would state, for a test whose parameters decide it."""
        self.shown.stated.update(stated)

    def run(
        self,
        step: Callable[..., Any],
        make_args: Callable[[], tuple[Any, ...]] = _no_arguments,
        *,
        is_steady: bool = True,
    ) -> Any:
        """Call ``step(*make_args())`` as often as the mode needs; the last call's result.

        Args:
            step: may return anything; may raise.
            make_args: makes fresh arguments (tensors, modules, optimizers) for every call, always the same values, so
                that every mode must return the same.
            is_steady: the last warm call must compile nothing; False where the step changes from call to call.
        """
        function = self.wrap(step)
        for _ in range(_NUM_CALLS[self.name] - 1):
            function(*make_args())
        args = make_args()
        with events.count("compiles") as compiles:
            result = function(*args)  # warm: watched, as the third call
        if self.name == "warm" and is_steady:
            assert compiles() == 0, f"a warm call compiled {compiles()} kernels"
        return result


MODES = {name: Mode(name) for name in _NUM_CALLS}
