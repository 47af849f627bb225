"""Whether anybody else still holds an object.

Owns: ``ONE_LOCAL``, ``references``, ``held_elsewhere``.
Must not know: tensors, recorders, gradients.

# Note [Reference counts]
# ~~~~~~~~~~~~~~~~~~~~~~~
# The end of a segment computes only what somebody can look at later, so it asks of each handle whether anything but the
# recorder holds it; the engine asks the same of a gradient before it makes it ``.grad`` without a copy. The answer is
# the reference count, less the references that jitgrad itself has at that moment. What these add up to differs between
# interpreters: CPython up to 3.13 takes a reference for the call of ``getrefcount``, 3.14 borrows that of the variable.
# So ``ONE_LOCAL`` is measured at import, and a count is compared with ``ONE_LOCAL`` plus the other holders that jitgrad
# knows. Example: in ``for handle in handles``, ``references(handle) > ONE_LOCAL + 1`` says that something besides the
# loop variable and the list holds the handle.
# The argument of ``references`` must be a local variable, as it is in the probes.
#
# There are no such counts in a free-threaded build (a count is split between threads), in another implementation of
# Python, where a probe finds something else than expected, and with ``JITGRAD_LIVENESS=weak``. There ``references``
# answers ``MANY``, so that every object counts as held: it is kept or copied, which is slower and never wrong. The
# handles of a segment are too many for that: ``held_elsewhere`` lets go of all and looks which ones weak references
# still find. Both agree: what is only in the list is gone, what is in it twice is kept.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from jitgrad.config import config
from jitgrad.cpython.build import is_cpython, is_free_threaded

__all__ = ["MANY", "ONE_LOCAL", "ONE_PASSED", "counts_references", "held_elsewhere", "references"]

MANY = 1 << 30
"""What ``references`` answers where there are no counts."""

_WARM_UP = 30
"""How often a probe runs: CPython rewrites instructions that ran often, which must not change the counts."""

_getrefcount: Callable[[object], int] = sys.getrefcount


class _Holder:
    __slots__ = ("__weakref__", "held")

    held: object


def _of_a_local() -> int:
    alone = _Holder()
    return _getrefcount(alone)


def _of_an_argument(argument: object) -> int:
    """Only a caller that keeps nothing, as of a temporary object."""
    return _getrefcount(argument)


def _of_a_passed_local() -> int:
    """A local variable of the caller, which is an argument here."""
    passed = _Holder()
    return _of_an_argument(passed)


def _in_a_list(objects: list[_Holder]) -> int:
    return max([_getrefcount(x) for x in objects])


def _in_a_loop(objects: tuple[_Holder, ...]) -> int:
    count = 0
    for x in objects:
        count = _getrefcount(x)
    return count


def _in_a_slot(holder: _Holder) -> int:
    held = holder.held
    return _getrefcount(held)


def _behind_a_weak_reference(reference: weakref.ref[_Holder]) -> int:
    found = reference()
    return _getrefcount(found)


def _probe() -> tuple[int, ...]:
    """The counts of objects that one local variable holds, or a local variable and one more holder."""
    holder, listed = _Holder(), [_Holder()]
    holder.held = _Holder()
    alone = (_of_a_local(), _of_an_argument(_Holder()))
    held = (_in_a_list([_Holder()]), _in_a_loop((_Holder(),)), _in_a_slot(holder))
    return (*alone, *(count - 1 for count in (*held, _behind_a_weak_reference(weakref.ref(listed[0])))))


def _measure() -> int:
    """``getrefcount`` of what only a local variable holds; 0 if each further holder does not make it one more."""
    found = {count for _ in range(_WARM_UP) for count in _probe()}
    return found.pop() if len(found) == 1 else 0


def _counted(objects: list[Any]) -> list[Any]:
    return [x for x in objects if _getrefcount(x) > _IN_LIST]


def _found_again(objects: list[Any]) -> list[Any]:
    times = Counter(map(id, objects))
    twice = [x for x in objects if times[id(x)] > 1]
    finders = [weakref.ref(x) for x in objects]
    objects.clear()
    held = [x for x in [find() for find in finders] if x is not None]
    objects.extend(held)
    del twice  # it kept them until here
    return held


def _many(obj: object) -> int:
    return MANY


ONE_LOCAL = _measure() if is_cpython() and not is_free_threaded() else 0
"""``references`` of an object that one local variable holds and nothing else; each other holder adds one."""

ONE_PASSED = max([_of_a_passed_local() for _ in range(_WARM_UP)]) if ONE_LOCAL else 0
"""``references`` of an argument that is a local variable of the caller, and held by nothing else: on 3.14 it is
``ONE_LOCAL``, since the argument borrows the variable's reference; before, one more."""

_IN_LIST = ONE_LOCAL + 1

counts_references = ONE_LOCAL > 0 and config.reference_counts
"""Whether there are reference counts to go by."""

references: Callable[[object], int] = _getrefcount if counts_references else _many
"""How many references an object has, see Note [Reference counts]; ``MANY`` where nobody knows."""

held_elsewhere: Callable[[list[Any]], list[Any]] = _counted if counts_references else _found_again
"""The objects of a list that something besides the list holds, or that are in it twice; in order.

Objects that are held nowhere else may be taken out of the list.
"""
