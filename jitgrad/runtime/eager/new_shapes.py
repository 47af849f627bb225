"""When a kernel is made for a shape: at its first run, or later, where each call has another shape.

Owns: ``pays``, ``work_of``, ``at_once``; how many programs each kind of operation has had.
Must not know: how programs are made, plans.

# Note [Ever new shapes]
# ~~~~~~~~~~~~~~~~~~~~~~
# Graphs, sentences, molecules, episodes: where each batch has another number of nodes or words, a shape may never come
# again. Kernels do not mind, as extents are their arguments; but the program that calls them is planned for a shape, in
# about a millisecond, or filled in, in a fifth of that (Note [Program families]); PyTorch's whole step may take less.
# So a kind of operation (what it is, the dtypes and numbers of dimensions of its operands) has ``AT_ONCE`` programs for
# the asking, more than the layers of a large model need. Each further shape runs by NumPy's rule, and its derivative
# operation by operation, until it has come ``OFTEN`` times, or its work in all has cost what a program costs: large
# operands have their kernels at once, and so have operands of middle size where the rule is a formula of many calls, or
# a series.
# So equal calls give equal bits, but for the first runs of a shape in a program that has had very many: there the last
# bits are NumPy's at first, and the kernel's afterwards. ``JITGRAD_SAME_BITS=1`` makes every program at once, and so
# does ``gradcheck``, which compares the bits of two backwards.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from jitgrad.config import config
from jitgrad.ops.aval import Aval

__all__ = ["AT_ONCE", "OFTEN", "at_once", "forget", "pays", "work_of"]

AT_ONCE = 32
OFTEN = 8
_WORTH = 1 << 18
"""Elements of an addition by NumPy that takes as long as to fill in a program for other extents, Note [Program
families]."""
_LARGE_PRODUCT = 1 << 24
"""Multiply-adds of a product that takes BLAS as long as a program's planning."""

_made: dict[Hashable, int] = {}
"""Programs by kind."""
_MAX_KINDS = 4096
"""Then counting begins anew: lists of ever new lengths are kinds of their own."""
_holders: set[object] = set()
"""Who wants every program at once."""


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Inside, on any thread, a shape has its program at its first run: equal calls have equal bits."""
    holder = object()
    _holders.add(holder)
    try:
        yield
    finally:
        _holders.discard(holder)


def forget() -> None:
    """Let each kind have its programs for the asking once more: a test is a program of its own."""
    _made.clear()


def work_of(avals: Sequence[Any], outs: Sequence[Aval], is_product: bool, weight: int) -> int:
    """What one run by NumPy's rule costs, in elements of an addition; of a large product so many that it has its
    kernel at once.

    Args:
        weight: of an element, in those of an addition.
    """
    if is_product and outs[0].numel * avals[-2].shape[-1] >= _LARGE_PRODUCT:
        return _WORTH
    return weight * max([a.numel for a in (*avals, *outs) if type(a) is Aval])


def pays(operation: Hashable, avals: Sequence[Any], work: int, run: int) -> bool:
    """Whether a shape's program is to be made now, and not later. Counts it, if so.

    Args:
        operation: what is computed.
        avals: of the operands; what is no aval is a number.
        work: of one run, ``work_of``.
        run: how often the shape has come, this time included.
    """
    kind = (operation, *[(a.dtype, a.ndim) if type(a) is Aval else type(a) for a in avals])
    made = _made.get(kind, 0)
    if made >= AT_ONCE and run < OFTEN and run * work < _WORTH and not (_holders or config.same_bits):
        return False
    if len(_made) >= _MAX_KINDS:
        _made.clear()
    _made[kind] = made + 1
    return True
