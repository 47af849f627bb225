"""Fixtures that every test may use.

``mode`` runs a step three ways, because each has its own way to be wrong: ``eager`` (no compiler), ``cold`` (the first
call of a compiled function: everything is recorded and compiled) and ``warm`` (the third call: everything is found).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

# before jitgrad is imported: tests must not read or fill the user's own cache
_CACHE_DIR = tempfile.mkdtemp(prefix="jitgrad-tests-")
os.environ["JITGRAD_CACHE_DIR"] = _CACHE_DIR

import jitgrad  # noqa: E402
from jitgrad import events  # noqa: E402

_NUM_CALLS = {"eager": 1, "cold": 1, "warm": 3}


def _no_arguments() -> tuple[Any, ...]:
    return ()


@dataclass(frozen=True)
class Mode:
    """A way to run a step function.

    Attributes:
        name: ``eager``, ``cold`` or ``warm``.
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


@pytest.fixture(params=list(_NUM_CALLS))
def mode(request: pytest.FixtureRequest) -> Mode:
    """``eager``, ``cold`` and ``warm`` in turn."""
    return Mode(request.param)


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same in every run."""
    return np.random.default_rng(20240607)


@pytest.fixture(scope="session", autouse=True)
def _remove_cache() -> Iterator[None]:
    yield
    shutil.rmtree(_CACHE_DIR, ignore_errors=True)
