"""Parts of a tensor that a step picked by a position it does not know.

Owns: ``Picks``, the part of a recorder that keeps such parts and their tensors the same.
Must not know: indexing. The caller says how to read the part, and how to write it.

# Note [Picked parts]
# ~~~~~~~~~~~~~~~~~~~
# ``x[t]``, by an integer tensor without dimensions, is a view. Where it looks is known only when ``t`` is, and then it
# would be another path for every position. So a step gathers it, into memory of its own, and remembers whose part it
# is: after a write to ``x`` the part is copied again, after a write to the part it is put back. Both are operations of
# the step like any other, and cost nothing where nobody looks at the part any more, which is the usual case. When the
# call is over, parts are copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import ref

from jitgrad.cpython.liveness import ONE_LOCAL, references

__all__ = ["Picks"]


class _Pick(NamedTuple):
    part: ref[Any]
    whole: ref[Any]
    read: Callable[[Any], Any]
    write: Callable[[Any, Any], None]


class Picks:
    """Follows writes to picked parts, and to what they are parts of.

    The parts are in ``RecorderState.picks``, because hits ask whether there are any.
    """

    __slots__ = ("_recorder",)

    def __init__(self, recorder: Any) -> None:
        self._recorder = recorder

    def note(self, part: Any, whole: Any, read: Callable[[Any], Any], write: Callable[[Any, Any], None]) -> None:
        """``part`` was made by ``read(whole)``, and eager execution would have made a view; ``write(whole, part)``."""
        self._recorder.picks.append(_Pick(ref(part), ref(whole), read, write))

    def drop_idle(self) -> None:
        """Forget the parts that only the recorder holds: nothing need be computed for them."""
        recorder, kept = self._recorder, []
        for pick in recorder.picks:
            part, whole = pick.part(), pick.whole()
            if part is None or whole is None:
                continue
            own = ONE_LOCAL + sum(handle is part for handle in recorder.handles)
            if references(part) > own:
                kept.append(pick)
        recorder.picks[:] = kept

    def follow(self, written: Sequence[Any]) -> None:
        """Tensors were written: copy again what was picked from them, put back what was picked and is written."""
        self.drop_idle()
        recorder = self._recorder
        picks, recorder.picks = recorder.picks, []  # what follows is no write of the user's
        changed, put_back = list(written), set()
        try:
            for nr in range(len(picks) - 1, -1, -1):  # a part of a part first
                part, whole = picks[nr].part(), picks[nr].whole()
                if any(_share(part, t) for t in changed):
                    picks[nr].write(whole, part)
                    changed.append(whole)
                    put_back.add(nr)
            for nr, pick in enumerate(picks):
                part, whole = pick.part(), pick.whole()
                if nr not in put_back and any(_share(whole, t) for t in changed):
                    part.copy_(pick.read(whole))
                    changed.append(part)
        finally:
            recorder.picks = picks


def _share(a: Any, b: Any) -> bool:
    """Whether a write to one of two tensors may be seen in the other."""
    if a is b or (a._storage is not None and a._storage is b._storage):
        return True
    return (a if a._base is None else a._base) is (b if b._base is None else b._base)
