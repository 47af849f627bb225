"""The commonest mistakes raise what PyTorch raises, tell what is wrong, and leave a compiled step as good as before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from modes import Mode

import jitgrad

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

from tests.parity.common_mistakes import MISTAKES  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def _error(call: Callable[[], Any]) -> Exception:
    try:
        call()
    except Exception as error:
        return error
    pytest.fail("nothing was raised")


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_raises_what_it_raises_on_pytorch_and_says_why(name: str) -> None:
    make, parts = MISTAKES[name]
    theirs, ours = _error(lambda: make(torch)), _error(lambda: make(jitgrad))
    assert type(theirs).__name__ in [cls.__name__ for cls in type(ours).__mro__], (theirs, ours)
    for part in parts:
        assert part in str(ours), (theirs, ours)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_compiled_step_is_the_same_and_the_next_call_works(name: str) -> None:
    make, _ = MISTAKES[name]
    eager = _error(lambda: make(jitgrad))

    @jitgrad.compile
    def step(x: Any, is_wrong: bool) -> Any:
        y = x * 2
        if is_wrong:
            make(jitgrad)
        return y + 1

    x = jitgrad.ones(2)
    for _ in range(3):
        error = _error(lambda: step(x, True))
        assert type(error) is type(eager)
        assert str(error).split("\n")[0] == str(eager).split("\n")[0]
        assert step(x, False).tolist() == [3.0, 3.0]


def test_an_error_in_a_compiled_backward_names_both_lines(mode: Mode) -> None:
    def step() -> None:
        y = jitgrad.ones(2, requires_grad=True).exp()
        y.add_(1)
        y.sum().backward()

    text = str(_error(mode.wrap(step)))
    assert "saved for backward by exp" in text
    assert text.count("test_common_mistakes.py") == 2
