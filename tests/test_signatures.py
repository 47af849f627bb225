"""The generated functions: up to date, and what they cost."""

from __future__ import annotations

import ast
import collections
import inspect
import sys

import pytest

import jitgrad
from jitgrad.functions import tables
from jitgrad.ops.table import OPS
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
    """Then the operation is applied: behind ``door.apply`` is ``dispatch.apply``, or native code and the rule."""
    x, function = jitgrad.ones(2), getattr(jitgrad, name)
    args = (x,) if len(inspect.signature(function).parameters) == 1 else (x, x)
    function(*args)  # notes the classes of the arguments
    first, *others = _frames(lambda: function(*args))
    assert first == name
    assert others[:1] in ([], ["apply"], [getattr(OPS[name].numpy, "__name__", "")])


def test_names_and_texts_are_those_of_the_bare_functions() -> None:
    assert jitgrad.tanh.__name__ == jitgrad.tanh.__qualname__ == "tanh"
    assert jitgrad.tanh.__doc__ == tables.PUBLIC["tanh"].__doc__
    assert jitgrad.greater is jitgrad.gt
    assert jitgrad.greater.__name__ == "gt"
    assert str(inspect.signature(jitgrad.clamp)).startswith("(input: 'Any', min: 'Any' = None, max: 'Any' = None)")
    assert jitgrad.nn.functional.relu.__name__ == jitgrad.Tensor.relu.__name__ == "relu"


def test_a_name_of_the_generated_module_means_one_thing() -> None:
    """``Tensor.bool`` was once bound over the class that bools are compared with, and every call with one was slow."""
    bound = collections.Counter(
        name.id
        for statement in ast.parse(signatures.PATH.read_text()).body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    )
    assert [name for name, count in bound.items() if count > 1] == []


_X = jitgrad.ones(4, 4)
_IMAGE = jitgrad.ones(1, 1, 4, 4)


@pytest.mark.parametrize(
    "call",
    [
        lambda: _X.sum(1, keepdim=True),
        lambda: _X.mean(-1, keepdim=True),
        lambda: _X.max(1),
        lambda: _X.std(),
        lambda: _X.view(-1),
        lambda: _X.reshape(2, 8),
        lambda: _X.repeat(1, 2),
        lambda: _X.topk(2),
        lambda: _X.sort(),
        lambda: _X.sort(-1, True),
        lambda: _X.sort(dim=1, descending=True),
        lambda: _X.argmax(1, keepdim=True),
        lambda: _X.cumsum(0),
        lambda: _X.softmax(-1),
        lambda: _X.logsumexp(1, keepdim=True),
        lambda: jitgrad.nn.functional.dropout(_X, 0.5, training=False),
        lambda: jitgrad.nn.functional.layer_norm(_X, (4,)),
        lambda: jitgrad.nn.functional.max_pool2d(_IMAGE, 2),
        lambda: jitgrad.nn.functional.conv2d(_IMAGE, _IMAGE),
        lambda: jitgrad.nn.functional.cross_entropy(_X, jitgrad.tensor([0, 1, 2, 3])),
    ],
    ids=lambda call: inspect.getsource(call).strip().removeprefix("lambda: ").rstrip(","),
)
def test_a_usual_call_takes_a_branch_of_the_generated_function(call) -> None:
    """Matching it against the signatures costs some twenty times as much. The first call may: it notes sizes."""
    call()
    assert "slow" not in _frames(call)
