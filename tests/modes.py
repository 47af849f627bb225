"""The three ways a test runs a step; ``conftest.py`` hands them out as the fixture ``mode``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jitgrad
from jitgrad import events

__all__ = ["MODES", "Mode"]

_NUM_CALLS = {"eager": 1, "cold": 1, "warm": 3}


def _no_arguments() -> tuple[Any, ...]:
    return ()


@dataclass(frozen=True)
class Mode:
    """A way to run a step function.

    Attributes:
        name: ``eager`` (no compiler), ``cold`` (the first call of a compiled function: everything is recorded and
            compiled) or ``warm`` (the third call: everything is found).
    """

    name: str

    @property
    def is_compiled(self) -> bool:
        return self.name != "eager"

    def wrap(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """The step as this mode calls it, for tests that make the calls themselves."""
        return jitgrad.compile(step) if self.is_compiled else step

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
            result = function(*args)
        if self.name == "warm" and is_steady:
            assert compiles() == 0, f"a warm call compiled {compiles()} kernels"
        return result


MODES = {name: Mode(name) for name in _NUM_CALLS}
