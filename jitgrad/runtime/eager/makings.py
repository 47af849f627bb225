"""Small tensors that are made of nothing, again: ``zeros(3)``, ``randn(2, 4)``.

Owns: ``Drawing``, ``draw_again``; ``Making``, ``make_again``, ``making_table``; ``DRAW_KERNEL``, ``DRAWING``: what
draws, and the lock of a draw; ``MAKINGS``: these functions in the form that is in use.
Must not know: which functions make tensors, how random numbers are made.

# Note [Known makings]
# ~~~~~~~~~~~~~~~~~~~~
# A loop makes the same small tensors over and over: ``torch.zeros(1, 64)``, ``torch.randn(2)``, ``torch.arange(8)``.
# What such a call does depends on its arguments and on the default dtype alone; to work that out again takes several
# times as long as to do it. So the first call leaves a ``Making`` under its arguments: an array to copy or, where
# numbers are drawn, a ``Drawing``: the kind of draw and its numbers, Note [Random kernel]. A later call of the same
# function looks there first. ``functions/known_makings.py`` decides what is kept; all is forgotten when another default
# dtype is set. Draws of tensors that exist (``randn_like``, ``normal_``) have their ``Drawing`` under the layout.
# Only where an operation runs at once, on the CPU, and nobody watches; and only up to ``MOST`` elements: beyond that
# memory should be aligned for vectors, and a draw should let other threads run.
# Example: the second ``randn(8)`` is a look into a table, ``numpy.empty`` and one call of the random kernel.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

from jitgrad.cpython.primitives import draw_to, eager_apart, eager_native, is_hashable, joined, same
from jitgrad.door import door
from jitgrad.dtypes import on_new_default
from jitgrad.locks import process_lock
from jitgrad.ops.aval import Aval
from jitgrad.runtime.eager.direct import apply_one, here_if_eager, tick
from jitgrad.state import modes_in_use, state
from jitgrad.tensor_base import new_result
from jitgrad.tracer.hits.hits import MISSED

__all__ = ["DRAWING", "DRAW_KERNEL", "MAKINGS", "MOST", "PYTHONS_MAKINGS", "Drawing", "Making", "draw_again",
           "make_again", "making_table"]  # fmt: skip

MOST = 1024
"""Elements of a tensor that is made here."""

DRAWING = process_lock()
"""Held during a draw: a draw is whole, whatever other threads do."""


class DrawKernel:
    """What draws random numbers.

    Attributes:
        address: of the kernel; 0: NumPy draws.
    """

    __slots__ = ("address",)

    address: int

    def __init__(self) -> None:
        self.address = 0


DRAW_KERNEL = DrawKernel()


class Drawing:
    """How small tensors of one layout are drawn from one distribution.

    Attributes:
        aval: the layout, row-major.
        count: its elements.
        make: makes an array of it.
        params: the address of the kind of draw, and of its numbers a and b.
    """

    __slots__ = ("_memory", "aval", "count", "make", "params")

    aval: Aval
    count: int
    make: Callable[[], Any]
    params: int

    def __init__(self, aval: Aval, make: Callable[[], Any], kind: int, a: float, b: float) -> None:
        self.aval, self.count, self.make = aval, aval.numel, make
        self._memory = ctypes.create_string_buffer(struct.pack("qdd", kind, a, b), 24)
        self.params = ctypes.addressof(self._memory)


class Making:
    """What a call makes.

    Attributes:
        args: of the call, with the options behind them, each a pair of name and value.
        aval: the layout, row-major.
        copy: makes an array with the values; None: they are drawn.
        drawing: how; None: they are not.
        stream: the address of the stream that is drawn from.
    """

    __slots__ = ("args", "aval", "copy", "drawing", "stream")

    args: tuple[Any, ...]
    aval: Aval
    copy: Callable[[], Any] | None
    drawing: Drawing | None
    stream: int

    def __init__(
        self, args: tuple[Any, ...], aval: Aval, copy: Callable[[], Any] | None, drawing: Drawing | None, stream: int
    ) -> None:
        self.args, self.aval, self.copy, self.drawing, self.stream = args, aval, copy, drawing, stream


@eager_native
def draw_again(drawing: Drawing, stream: int) -> Any:
    """A new tensor of numbers that are drawn; None where NumPy draws, or somebody else does at this moment.

    Args:
        stream: the address of its state.
    """
    kernel: int = DRAW_KERNEL.address
    if kernel == 0:
        return None
    array = drawing.make()
    if DRAWING.acquire(False) is not True:
        return None
    draw_to(kernel, stream, array, int(drawing.count), int(drawing.params))
    DRAWING.release()
    return new_result(drawing.aval, array)


@eager_apart
def made_by(making: Making) -> Any:
    """What a known call makes; ``MISSED`` where ``draw_again`` cannot."""
    if making.copy is not None:
        return new_result(making.aval, making.copy())
    drawing: Any = making.drawing
    drawn = draw_again(drawing, int(making.stream))
    return MISSED if drawn is None else drawn


@eager_native
def known_making(known: Any, args: Any, options: Any) -> Any:
    """The ``Making`` of a call with these arguments; None: there is none."""
    table: dict[Any, Any] = known
    named: dict[str, Any] = options
    key: tuple[Any, ...] = args
    if len(named) > 0:
        key = joined(key, tuple(list(named.items())))
    if not is_hashable(key):
        return None
    found = table.get(key)
    if found is None:
        return None
    making: Making = found
    return making if same(making.args, key) else None


@eager_native
def make_again(known: Any, args: Any, options: Any) -> Any:
    """The result of a call that makes a tensor of nothing; ``MISSED``: it has to be worked out.

    Args:
        known: what earlier calls of the function have left, a ``Making`` under its arguments.
        args, options: of the call.
    """
    thread = here_if_eager()
    if thread is None or modes_in_use or thread.thread.get("default_device") is not None:
        return MISSED
    making = known_making(known, args, options)
    return MISSED if making is None else made_by(making)


def make_again_anywhere(known: Any, args: Any, options: Any) -> Any:
    """``make_again`` in Python's form, which answers on any thread."""
    tick()
    if state.handler is not None or modes_in_use or state.default_device is not None or door.run_one is not apply_one:
        return MISSED
    making = known_making(known, args, options)
    return MISSED if making is None else made_by(making)


def making_table() -> dict[Any, Making]:
    """Where the makings of one function are kept."""
    table: dict[Any, Making] = {}
    on_new_default.append(table.clear)
    return table


class Makings:
    """``make_again`` and ``draw_again`` in the form that is in use."""

    __slots__ = ("draw_again", "make_again")

    draw_again: Callable[[Drawing, int], Any]
    make_again: Callable[[Any, Any, Any], Any]

    def __init__(self) -> None:
        self.use(PYTHONS_MAKINGS)

    def use(self, functions: dict[str, Any]) -> None:
        """Put these forms in use."""
        self.draw_again, self.make_again = functions["draw_again"], functions["make_again"]


PYTHONS_MAKINGS: dict[str, Any] = {"draw_again": draw_again, "make_again": make_again_anywhere}
MAKINGS = Makings()
