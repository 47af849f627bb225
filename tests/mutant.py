"""What a mutant of ``mutants.py`` is.

Owns: ``Mutant``, ``mutants_in``.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Mutant", "mutants_in"]


class Mutant(NamedTuple):
    """One defect.

    Attributes:
        path: of the file, from the repository's root.
        old: a text that is there exactly once.
        new: what it becomes.
        tests: files or node ids under ``tests/``, with blanks between; the fewer the faster.
    """

    path: str
    old: str
    new: str
    tests: str


def mutants_in(folder: str, *rows: tuple[str, str, str, str]) -> list[Mutant]:
    """Of files of one folder under ``jitgrad/``.

    Args:
        rows: (file, old text, new text, tests) of each.
    """
    return [Mutant(f"jitgrad/{folder}/{file}".replace("//", "/"), old, new, tests) for file, old, new, tests in rows]
