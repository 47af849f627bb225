"""Notes: mechanisms that cross files are explained once, cited by name, and listed in docs/architecture.md."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "jitgrad"
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
FOLDERS = ("jitgrad", "tests", "benchmarks", "examples", "tools")
TEXTS = {path: path.read_text() for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))}

_DEFINITION = re.compile(r"^# Note \[([^\]\n]+)\]\n# ~+", re.M)
# "Note [X]" and "Notes [X], [Y] and [Z]"; a name starts with a letter
_CITATION = re.compile(r"Notes? ((?:\[[A-Za-z][^\]\n]*\](?:,| and|, and)?\s*)+)")


def _cited(text: str) -> set[str]:
    return {name for run in _CITATION.findall(text) for name in re.findall(r"\[([^\]\n]+)\]", run)}


DEFINED = [(name, path) for path, text in TEXTS.items() for name in _DEFINITION.findall(text)]


def test_a_note_is_written_once() -> None:
    assert [name for name, count in Counter(name for name, _ in DEFINED).items() if count > 1] == []


def test_cited_notes_exist() -> None:
    known = {name for name, _ in DEFINED}
    texts = {str(path.relative_to(ROOT)): text for path, text in TEXTS.items()}
    texts |= {path.name: path.read_text() for path in (ROOT / "docs").glob("*.md")}
    own = Path(__file__).name
    missing = {where: names for where, text in texts.items() if own not in where and (names := _cited(text) - known)}
    assert missing == {}


def test_the_index_is_complete() -> None:
    listed = set(re.findall(r"^\| ([^|`]+) \| `([^`]+\.py)` \|$", ARCHITECTURE, re.M))
    assert listed == {(name, str(path.relative_to(PACKAGE))) for name, path in DEFINED}


def test_the_files_that_the_page_names_exist() -> None:
    named = set(re.findall(r"`((?:\w+/)*\w+\.py)`", ARCHITECTURE))
    anywhere = {path.name for path in TEXTS}
    assert [n for n in sorted(named) if not ((ROOT / n).exists() or (PACKAGE / n).exists() or n in anywhere)] == []
