"""The list of mutants fits the source: every text is there, once, and so is every test that is to notice."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutant_list import MUTANTS, Mutant
from mutants import copy_tree

_TESTS = Path(__file__).parent


def test_there_are_enough_and_all_differ() -> None:
    assert len(MUTANTS) >= 60
    assert len({(m.path, m.old, m.new) for m in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{Path(m.path).stem}-{m.old.strip()[:30]}")
def test_a_mutant_can_be_made(mutant: Mutant) -> None:
    text = (_TESTS.parent / mutant.path).read_text()
    assert text.count(mutant.old) == 1, f"{mutant.path} has the text {text.count(mutant.old)} times"
    assert mutant.new != mutant.old
    compile(text.replace(mutant.old, mutant.new), mutant.path, "exec")
    assert mutant.tests
    for test in mutant.tests.split():
        file, _, name = test.partition("::")
        source = (_TESTS / file).read_text()
        assert not name or f"def {name.partition('[')[0]}(" in source, f"{file} has no {name}"


def test_the_copy_is_whole(tmp_path: Path) -> None:
    copy_tree(tmp_path)
    assert all((tmp_path / m.path).exists() for m in MUTANTS)
    assert not list(tmp_path.rglob("__pycache__"))
