"""docs/codegen.md shows what the passes really print."""

from __future__ import annotations

import pytest

from tests.codegen.worked_example import made_blocks, page_blocks

PAGE = page_blocks()
MADE = made_blocks(PAGE["program"])


def test_the_page_shows_every_pass() -> None:
    assert list(PAGE) == list(MADE)


@pytest.mark.parametrize("name", list(MADE))
def test_the_page_shows_what_is_printed(name: str) -> None:
    assert PAGE[name] == MADE[name], "run: python -m tests.codegen.worked_example"
