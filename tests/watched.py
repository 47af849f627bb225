"""Looking at a backward through ``engine.trace()`` in every mode: run by the engine, or repeated by a compiled step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from modes import HOOKED, Mode

import jitgrad
from jitgrad.runtime.engine.run.trace import Trace

__all__ = ["By", "by_both"]


@dataclass(frozen=True)
class By:
    """Who does the backward of a warm call.

    Attributes:
        name: ``recording``: the compiled step repeats it, no node runs; ``engine``: a hooked leaf makes the engine run
            every node, at every call.
    """

    name: str

    def leaf(self, *values: float) -> Any:
        """A leaf of this graph."""
        return self.watch(jitgrad.tensor(list(values), requires_grad=True))

    def watch(self, leaf: Any) -> Any:
        """The leaf; with a hook that changes nothing, where the engine is to run."""
        if self.name == "engine":
            leaf.register_hook(lambda grad: None)
        return leaf

    def is_repeated(self, mode: Mode, *traces: Trace) -> bool:
        """Whether this is a hit of a recorded backward. Then its traces say exactly that, and nothing else is there."""
        is_hit = mode.name == "warm" and self.name == "recording"
        for trace in traces:
            assert ({event.kind for event in trace} == {"recorded"}) is is_hit, str(trace)
        return is_hit


by_both = pytest.mark.parametrize(
    "by",
    [By("recording"), pytest.param(By("engine"), marks=pytest.mark.row(engine=HOOKED))],
    ids=lambda by: by.name,
)
