"""Which operation saved a value, and which one wrote over it: PyTorch's error text, with both lines of the user's code.

Owns: what a version counter remembers of writes, what a node remembers of its making, and the message.
Must not know: how a write is done, what an operation saves.
In: writes and nodes as they happen, then a saved tensor whose version is wrong. Out: a text.

# Note [Both lines]
# ~~~~~~~~~~~~~~~~~
# The error comes in backward, when both statements that matter are long past. In a trace both lines are known, because
# every instruction has its own. Eagerly a line has to be caught as it goes by: a code object and an offset in it, with
# a node that saves something (0.3 us of 6) or, of a write, behind the version in the counter, which is a list: the
# newest few (0.4 us of 5). That is too much for the sake of an error that hardly any program has. So lines are caught
# for the first thousands of nodes and writes of a process, when a program shows such errors, and for as many after
# every write that joins a graph. Where nothing is written in place it soon costs one look at a counter.
"""

from __future__ import annotations

import itertools
import re
import sys
from types import CodeType
from typing import Any

from jitgrad.formatting import type_name
from jitgrad.runtime.engine.graph.creation_meta import forward_name
from jitgrad.state import anomaly
from jitgrad.user_line import PACKAGE
from jitgrad.version_counter import VersionCounter, remember_write, version_of, writes_after

__all__ = ["CAUGHT_AT_FIRST", "Place", "caught", "modified_message", "note_write", "place_now"]

Place = tuple[CodeType, int] | str
"""A code object and an offset in it, or a finished ``file:line``."""

CAUGHT_AT_FIRST = 2000
_WRITE_DEPTH = 3
"""The user is no nearer to what calls ``note_write``: the dispatcher and a method are between."""


class _Caught:
    """How many more nodes and writes are to be remembered with their lines: ``left``."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = CAUGHT_AT_FIRST

    def go_on(self) -> None:
        """Something is written in place here: it is worth while."""
        self.left = CAUGHT_AT_FIRST


caught = _Caught()


class _Files(dict[str, bool]):
    """File name -> whether it is one of jitgrad's: a look-up costs a third of ``startswith``."""

    def __missing__(self, name: str) -> bool:
        ours = self[name] = name.startswith(PACKAGE)
        return ours


_is_ours = _Files()


def place_now(depth: int) -> Place | None:
    """Where the user's code is: the innermost frame outside jitgrad, ``depth`` frames above the caller or further."""
    frame = sys._getframe(depth + 1)
    while frame is not None:
        code = frame.f_code
        if not _is_ours[code.co_filename]:
            return code, frame.f_lasti
        frame = frame.f_back  # type: ignore[assignment]
    return None


def note_write(counter: VersionCounter, name: str, depth: int = _WRITE_DEPTH) -> None:
    """A tensor under this counter has just been written by operation ``name``; its version is the new one already.

    The user's code is ``depth`` frames above the caller, or further.
    """
    frame = sys._getframe(depth + 1)
    code = frame.f_code
    while _is_ours[code.co_filename]:
        frame = frame.f_back  # type: ignore[assignment]
        if frame is None:
            return
        code = frame.f_code
    if caught.left:
        caught.left -= 1
    remember_write(counter, name, (code, frame.f_lasti))


def _line(place: Place | None) -> str:
    """``file:line``; empty if unknown."""
    if place is None or isinstance(place, str):
        return place or ""
    code, offset = place
    line = next(itertools.islice(code.co_positions(), offset // 2, None), (None,))[0]
    return f"{code.co_filename}:{line or code.co_firstlineno}"


def _who(name: str, place: Place | None) -> str:
    """``add_ at file:line``; table names that are not public lose what marks them: ``index_put2``, ``_sgd_update``."""
    name = re.sub(r"^_|\d+(?=_?$)", "", name)
    line = _line(place)
    return f"{name} at {line}" if line else name


def _inplace(name: str) -> str:
    return name if name.startswith("_") else f"{name}_"


def _lines(saved: Any, saved_by: Any) -> str:
    """Which operation saved the value, and which wrote over it; PyTorch does not say."""
    op, place = getattr(saved_by, "op", None), getattr(saved_by, "place", None)
    name = op.name if op is not None else "a checkpoint" if saved_by is None else saved_by.name()
    text = f"\nThe value was saved for backward by {_who(name, place)}"
    # the first write after the value was saved; of several, the oldest that is still known
    writes = writes_after(saved.tensor, saved.version)
    if not writes:
        return f"{text}."
    name, place = writes[0]
    return f"{text}, and overwritten by {_who(_inplace(name), place)}."


def modified_message(saved: Any, saved_by: Any) -> str:
    """PyTorch's text for a saved value that is no longer there, and both lines.

    Args:
        saved: the ``SavedVariable``.
        saved_by: its node.
    """
    tensor = saved.tensor
    maker = saved_by if saved.output_nr >= 0 else _operation_of(tensor)
    output_nr = saved.output_nr if saved.output_nr >= 0 else tensor._output_nr
    aval = tensor._aval
    origin = f", which is output {output_nr} of {forward_name(maker)}," if maker is not None else ""
    if anomaly.enabled:
        hint = (
            "the backtrace further above shows the operation that failed to compute its gradient. The variable in "
            "question was changed in there or anywhere later. Good luck!"
        )
    else:
        hint = (
            "enable anomaly detection to find the operation that failed to compute its gradient, with "
            "jitgrad.autograd.set_detect_anomaly(True, check_nan=False)."
        )
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{type_name(aval)} {list(aval.shape)}]{origin} "
        f"is at version {version_of(tensor)}; expected version {saved.version} instead. Hint: {hint}"
        f"{_lines(saved, saved_by)}"
    )


def _operation_of(tensor: Any) -> Any:
    """What made a tensor; nothing made a leaf, though a handle on it may carry its accumulator."""
    node = tensor._grad_fn
    return node if node is not None and node.next_edges else None
