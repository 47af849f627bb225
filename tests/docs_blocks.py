"""The Python code of a page: its blocks, and what a page prepares for them.

A block is fenced as ``python``. What a block needs that a reader need not see stands before it in a comment of HTML
that begins with ``run``; both run in order, in one namespace, with the page's own line numbers. ``python FILE`` runs
it.
"""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

__all__ = ["ROOT", "blocks", "pages", "run_page"]

ROOT = Path(__file__).resolve().parents[1]
_BLOCK = re.compile(r"^<!-- run\n(?P<hidden>.*?)^-->$|^```python\n(?P<shown>.*?)^```$", re.S | re.M)


def pages() -> list[Path]:
    """README and docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[tuple[int, str, bool]]:
    """(the line before its first, source, whether readers see it) of each block."""
    text = page.read_text()
    found = []
    for match in _BLOCK.finditer(text):
        kind = "shown" if match["shown"] is not None else "hidden"
        found.append((text.count("\n", 0, match.start(kind)), match[kind], kind == "shown"))
    return found


def run_page(page: Path) -> None:
    """Run every block; an error has the page and its line in its traceback."""
    module = sys.modules[f"docs_{page.stem}"] = types.ModuleType(f"docs_{page.stem}")  # classes of a page are pickled
    for line, source, _ in blocks(page):
        exec(compile("\n" * line + source, str(page), "exec"), vars(module))


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        run_page(Path(argument).resolve())
