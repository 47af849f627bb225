"""The docs keep their word: every block of Python runs, every link leads somewhere, every page is in the menu."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs_blocks import ROOT, blocks, pages

NEEDS = {"kernel.md": "numba", "vectorize.md": "numba"}


@pytest.mark.parametrize("page", [page for page in pages() if blocks(page)], ids=lambda page: page.name)
def test_every_block_runs(page: Path, tmp_path: Path) -> None:
    """In a process of its own: pages rename torch, set seeds and write files."""
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name], reason=f"the page is about {NEEDS[page.name]}")
    command = [sys.executable, str(ROOT / "tests/docs_blocks.py"), str(page)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr


def test_blocks_are_found() -> None:
    fences = {page: len(re.findall(r"^```python", page.read_text(), re.M)) for page in pages()}
    assert fences == {page: sum(is_shown for _, _, is_shown in blocks(page)) for page in pages()}
    assert sum(fences.values()) > 30


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.S))
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


def test_every_page_is_in_the_menu() -> None:
    menu = set(re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert menu == {str(page.relative_to(ROOT / "docs")) for page in pages()[1:]}


def _directives() -> list[tuple[str, list[str]]]:
    """(module, members) of each place that shows docstrings."""
    text = "\n".join(page.read_text() for page in sorted((ROOT / "docs/api").glob("*.md")))
    found = re.findall(r"^::: (\S+)\n(?:    options:\n      members: \[(.*)\]\n)?", text + "\n", re.M)
    return [(module, members.split(", ") if members else []) for module, members in found]


def test_the_reference_shows_what_there_is() -> None:
    directives = _directives()
    assert len(directives) > 40
    for name, members in directives:
        module = importlib.import_module(name)
        assert members or module.__all__, f"{name} has nothing to show"
        assert [m for m in members if not getattr(module, m).__doc__] == []


def test_the_site_builds(tmp_path: Path) -> None:
    """Strictly: a warning is an error. ``pip install -e '.[docs]'`` has what it needs; CI does not install it."""
    pytest.importorskip("mkdocs", reason="the site is built with the extra docs")
    pytest.importorskip("mkdocstrings", reason="the site is built with the extra docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "After how many calls" in (tmp_path / "api/steps/index.html").read_text()
