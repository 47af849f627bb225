"""Steps that are slow on purpose: what each tool says names the line and the reason. No test depends on times.

``python -m tools.try_tools`` does the same for the whole programs of ``examples/``; it is run by hand.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import slow_steps
from html_page import Page

import jitgrad
from jitgrad.profiler import profile

SOURCE = Path(slow_steps.__file__).read_text().splitlines()
REASONS = {
    "counting": ("pow: ", " instead of "),
    "reading": ("item()", "needs values"),
    "hooked": ("__bool__()", "needs values", "run by the engine node by node: a value that is hooked"),
}
"""Step -> what a reader must find besides the line."""


def _line(mark: str) -> str:
    number = next(nr for nr, line in enumerate(SOURCE, 1) if line.endswith(f"# slow: {mark}"))
    return f"{Path(slow_steps.__file__).name}:{number}"


def _compiled(name: str, calls: int = 4) -> tuple[Any, Callable[[], tuple[Any, ...]]]:
    """A step after some calls, and what gives the arguments of the next."""
    step = jitgrad.compile(getattr(slow_steps, name))
    batches = iter(slow_steps.many if name == "counting" else [slow_steps.some] * 100)
    for _ in range(calls):
        step(*next(batches))
    return step, lambda: next(batches)


@pytest.mark.parametrize("name", REASONS)
def test_explain_begins_with_the_line_and_the_reason(name: str) -> None:
    step, arguments = _compiled(name)
    report = jitgrad.explain(step, *arguments())
    first, _, _ = str(report).partition("\nsegment 0\n")
    page = Page(report.to_html())
    top, _, _ = page.text.partition("Segment 0")
    document = json.loads(json.dumps(report.to_json()))
    for said in (first, top, "\n".join(document["summary"])):
        assert all(part in said for part in (_line(name), *REASONS[name])), said


def test_explain_says_so_where_nothing_is_slow() -> None:
    step, arguments = _compiled("fast")
    report = jitgrad.explain(step, *arguments())
    assert report.summary() == []
    assert str(report).startswith("nothing unusual")


@pytest.mark.parametrize("name", ["reading", "hooked"])
def test_a_profile_names_the_line_at_which_a_segment_ends(name: str) -> None:
    step, arguments = _compiled(name)
    with profile() as prof:
        step(*arguments())
    early = [event.name for event in prof.events() if event.name.startswith("segment to ")]
    assert early == [f"segment to {REASONS[name][0]} at {_line(name)} needs values"]
    assert early[0][:50] in prof.table()


def test_a_batch_of_a_data_set_is_not_counted_as_the_data_set() -> None:
    step, arguments = _compiled("counting")
    (segment,) = jitgrad.explain(step, *arguments()).segments
    assert max(cost.nbytes for cost in segment.costs) < 1000 < slow_steps.DATA.nbytes


@pytest.mark.parametrize("name", ["fast", *REASONS])
def test_a_slow_step_is_right(name: str, tmp_path: Path) -> None:
    step, arguments = _compiled(name)
    assert jitgrad.Verification(folder=tmp_path)(step, *arguments())


def test_operations_without_a_kernel_are_named_with_their_line() -> None:
    x = jitgrad.randn(8, 3)

    @jitgrad.compile
    def step() -> Any:
        return (x * 2.0).logcumsumexp(0).sum()

    for _ in range(3):
        step()
    (sentence,) = jitgrad.explain(step).summary()
    assert sentence.startswith("1 operations ran by NumPy: logcumsumexp at ")
    assert Path(__file__).name in sentence
