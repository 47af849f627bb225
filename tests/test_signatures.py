"""The generated functions: up to date, and what they cost."""

from __future__ import annotations

import inspect
import sys

import pytest

import jitgrad
from jitgrad.functions import tables
from tools import signatures


def test_the_generated_functions_are_up_to_date() -> None:
    assert signatures.PATH.read_text() == signatures.text(), "run `python -m tools.signatures`"


def test_every_function_has_a_signature() -> None:
    for _, name, row, _ in signatures.every_function():
        assert row in signatures.SIGNATURES or row in signatures.NOT_PARSED, name


def _frames(call) -> list[str]:
    """Names of the Python functions that a call enters."""
    names: list[str] = []
    sys.setprofile(lambda frame, event, _: names.append(frame.f_code.co_name) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(None)
    return names[1:]


@pytest.mark.parametrize("name", ["tanh", "mul", "add", "relu", "abs"])
def test_a_function_of_one_line_is_one_frame(name: str) -> None:
    """Then the operation is applied: behind ``door.apply`` is native code, or ``dispatch.apply``."""
    x, function = jitgrad.ones(2), getattr(jitgrad, name)
    args = (x,) if len(inspect.signature(function).parameters) == 1 else (x, x)
    function(*args)  # notes the classes of the arguments
    assert _frames(lambda: function(*args))[:2] == [name, "apply"]


def test_names_and_texts_are_those_of_the_bare_functions() -> None:
    assert jitgrad.tanh.__name__ == jitgrad.tanh.__qualname__ == "tanh"
    assert jitgrad.tanh.__doc__ == tables.PUBLIC["tanh"].__doc__
    assert jitgrad.greater is jitgrad.gt
    assert jitgrad.greater.__name__ == "gt"
    assert str(inspect.signature(jitgrad.clamp)).startswith("(input: 'Any', min: 'Any' = None, max: 'Any' = None)")
    assert jitgrad.nn.functional.relu.__name__ == jitgrad.Tensor.relu.__name__ == "relu"
