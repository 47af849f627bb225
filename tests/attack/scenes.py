"""Faults of the system around a training: the frame in which scenes of them are tried.

Owns: ``SCENES``, ``scene``, ``Outcome``, ``in_child``.
Must not know: which faults there are.

A fault is tried in a forked child, because it outlives the try, or ends the process. The child says what was wrong; a
child that dies or that takes more than a minute was wrong, too.
"""

from __future__ import annotations

import faulthandler
import os
import traceback
from collections.abc import Callable, Iterator
from typing import NamedTuple

__all__ = ["SCENES", "Outcome", "in_child", "scene", "spread"]

BUDGET_S = 60


class Outcome(NamedTuple):
    """One fault.

    Attributes:
        what: was done.
        wrong: what was wrong then; empty: it was survived.
    """

    what: str
    wrong: str


Scene = Callable[[float], Iterator[Outcome]]
"""Yields the faults of a share of the long form, one after the other, as they are tried."""

SCENES: dict[str, Scene] = {}


def scene(function: Scene) -> Scene:
    """Put a scene into the table."""
    SCENES[function.__name__] = function
    return function


def spread(count: int, share: float, least: int = 2) -> list[int]:
    """Some of ``range(count)``, as far apart as that many can be; the first one is among them."""
    wanted = min(count, max(least, round(count * share)))
    return [i * count // wanted for i in range(wanted)]


def in_child(body: Callable[[], str], budget_s: float = BUDGET_S) -> str:
    """Run something in a forked child: what it says was wrong, or how the child ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        said = _said(body, budget_s)
        os.write(writing, said.encode(errors="replace")[:4000])
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        said = file.read().decode(errors="replace")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return said or (f"the child ended with status {status}" if status else "")


def _said(body: Callable[[], str], budget_s: float) -> str:
    faulthandler.dump_traceback_later(budget_s, exit=True)
    try:
        return body()
    except BaseException:
        return traceback.format_exc(limit=-6)
    finally:
        faulthandler.cancel_dump_traceback_later()
