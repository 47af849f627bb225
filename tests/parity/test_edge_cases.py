"""Small programs at the edges show on jitgrad what they show on PyTorch: values, flags, errors, warnings."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from modes import Mode

import jitgrad

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

from tests.parity.edge_cases import SNIPPETS  # noqa: E402
from tests.side_by_side import difference, observe  # noqa: E402


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SNIPPETS)
def test_a_small_program_shows_what_it_shows_on_pytorch(name: str, mode: Mode) -> None:
    snippet = SNIPPETS[name]
    want = observe(lambda: snippet(torch))
    step = mode.wrap(lambda: snippet(jitgrad))
    for _ in range(3 if mode.is_compiled else 1):
        assert not difference(observe(step), want)


def test_the_comparison_sees_differences() -> None:
    def seen(value: object) -> str:
        return difference(observe(lambda: value), observe(lambda: torch.ones(2)))

    assert not seen(jitgrad.ones(2))
    assert all(map(seen, (jitgrad.zeros(2), jitgrad.ones(2).double(), jitgrad.ones(1, 2), jitgrad.ones(2) * 2, 1.0)))
    assert seen(jitgrad.ones(2, requires_grad=True))
    raising = observe(lambda: torch.ones(2)[5])
    assert raising.error == "IndexError"
    assert difference(observe(lambda: jitgrad.ones(2)), raising)
    assert not difference(observe(lambda: jitgrad.ones(2)[5]), raising)


@pytest.mark.parametrize("warn", [lambda x: x.std(), lambda x: (x * 2).grad, lambda x: x.new_tensor(x)])
def test_a_warning_names_the_users_line(warn: Any, mode: Mode) -> None:
    step = mode.wrap(lambda: warn(jitgrad.ones(1, requires_grad=True)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        step()
    assert {w.filename for w in caught} == {__file__}
