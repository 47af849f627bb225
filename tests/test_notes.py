"""Notes: mechanisms that cross files are explained once, cited by name, and listed in docs/architecture.md."""

from __future__ import annotations

import io
import re
import sys
import tokenize
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


_FOREIGN = re.compile(r"Py[A-Z]|\w+Backward\d?$|_raw_saved|.*_saved_|[a-z]+[A-Z]\w+$|__\w+__$|v16f32$")
_FOREIGN_MODULES = sys.stdlib_module_names | {"torch", "numpy", "llvmlite"}
"""Names of PyTorch, CPython and LLVM, and of graph nodes, whose attributes are made from ``derivatives.yaml``."""

_FOREIGN_WORDS = frozenset(
    "auto_linear auto_element_wise scatter_reduce_backward combine_categories dispatch_index s_erf.c Exp index_put2 "
    "_will_engine_execute_node _wrap_outputs Tensor.cuda handler.Handler BackwardHook grad_input".split()
)


_F_STRING = getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)  # since 3.12 the text of an f-string is a token


def _names_of(text: str) -> tuple[set[str], set[str]]:
    """What a file's code names, and what its comments and docstrings put into double backticks."""
    code: set[str] = set()
    quoted: set[str] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        prose = token.type == tokenize.COMMENT or (token.type == tokenize.STRING and '"""' in token.string[:5])
        if prose:
            quoted.update(re.findall(r"``(\w[\w.]*\w)``", token.string))
        elif token.type in (tokenize.NAME, tokenize.STRING, _F_STRING):
            code.update(re.findall(r"\w+", token.string))
    return code, quoted


def test_docs_name_what_exists() -> None:
    """A name in double backticks is a name of the code, a module, or one of somebody else's."""
    names = {path: _names_of(text) for path, text in TEXTS.items() if path.is_relative_to(PACKAGE)}
    known = {path.stem for path in names} | {path.parent.name for path in names} | {"py"}
    known = known.union(*(code for code, _ in names.values()))
    gone = {
        f"{path.relative_to(ROOT)}: {name}"
        for path, (_, quoted) in names.items()
        for name in quoted
        if not known.issuperset(name.split(".")) and name.split(".")[0] not in _FOREIGN_MODULES
        if not _FOREIGN.match(name) and name not in _FOREIGN_WORDS
    }
    assert gone == set()
