"""Running native steps that take arrays: eager kernels, and the fused rules of Nodes.

Owns: ``ArrayKernel``; ``run_kernel`` and ``run_step``; ``RUNS``: these two in the form that is in use.
Must not know: which operation a step is for, what happens where it finds bad data.

A step of a few hundred elements takes a fraction of a microsecond. To fill its record by ``struct`` and to call the
driver through ``ctypes`` takes several times as long, so native code does both, Note [Eager in native code].
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from jitgrad.abi import RunRecord
from jitgrad.cpython.primitives import (
    eager_apart,
    eager_native,
    fresh_array,
    is_atomic,
    is_word,
    poke,
    poke_float,
    run_driver,
    run_driver_released,
    take_last,
)
from jitgrad.runtime.native.executor import LoadedStep

__all__ = ["PYTHONS_RUNS", "RUNS", "ArrayKernel", "FreshArrays", "KernelRuns", "arrays_by", "new_array", "run_kernel",
           "run_step"]  # fmt: skip

BAD_DATA = 1
"""A status word that is not 0; also where a number fits in no word: the rule knows what becomes of such numbers."""


class FreshArrays:
    """What makes arrays of one kind, row-major and of any contents: native code makes them itself.

    Attributes:
        kind: NumPy's dtype.
        make: ``numpy.empty`` of these.
        shape: of the arrays.
    """

    __slots__ = ("kind", "make", "shape")

    kind: Any
    make: Callable[[], Any]
    shape: tuple[int, ...]

    def __init__(self, make: partial[Any]) -> None:
        self.make, (self.shape, self.kind) = make, make.args

    def __call__(self) -> Any:
        return self.make()


def arrays_by(make: Callable[[], Any]) -> Callable[[], Any]:
    """What native code makes arrays by, which ``array_maker`` has a maker of."""
    return FreshArrays(make) if isinstance(make, partial) and make.func is np.empty else make


@eager_native
def new_array(make: Any) -> Any:
    """``make()``."""
    if type(make) is FreshArrays:
        fresh: FreshArrays = make
        found = fresh_array(fresh.kind, fresh.shape)
        return fresh.make() if found is None else found
    return make()


class ArrayKernel:
    """A native step as a function of an operation's operands.

    Attributes:
        makes: per result, what makes a new array for it.
        numbers: positions of the operands that are the step's numbers.
        order: the arrays that it takes: an operand's position, or -1, -2 .. for the results.
        step: it.
    """

    __slots__ = ("makes", "numbers", "order", "step")

    makes: tuple[Callable[[], Any], ...]
    numbers: tuple[int, ...]
    order: tuple[int, ...]
    step: LoadedStep

    def __init__(self, step: LoadedStep, order: tuple[int, ...], numbers: tuple[int, ...], makes: Any) -> None:
        self.step, self.order, self.numbers, self.makes = step, order, numbers, tuple(map(arrays_by, makes))

    def run(self, operands: Sequence[Any]) -> list[Any] | None:
        """``run_kernel``, for any step and any numbers."""
        outs = [make() for make in self.makes]
        arrays = [operands[i] if i >= 0 else outs[-1 - i] for i in self.order]
        return None if status_of(self.step, arrays, [operands[i] for i in self.numbers]) else outs


def status_of(step: LoadedStep, arrays: Sequence[Any], numbers: Sequence[Any]) -> int:
    """``run_step``, for any step and any numbers."""
    try:
        return step.run_on(arrays, numbers)
    except struct.error:
        return BAD_DATA


@eager_native
def fits(number: Any, is_float: Any) -> bool:
    """Whether a number is a word of an argument as it is."""
    if is_float is True:
        return type(number) is float
    return type(number) is int and is_word(number)


@eager_native
def put(bufs: int, word: int, number: Any, is_float: Any) -> None:
    """Write a number into a word of a record."""
    if is_float is True:
        poke_float(bufs, word, number)
    else:
        poke(bufs, word, int(number))


@eager_native
def record_of(step: LoadedStep) -> Any:
    """A record that no other run uses."""
    found = take_last(step.idle)
    return step.new_record() if found is None else found


@eager_native
def run_record(step: LoadedStep, record: RunRecord) -> bool:
    """Run a step with a record that is filled, and let others have it again; False: it found bad data."""
    status = 0
    if step.releases:  # noqa: SIM108
        status = run_driver_released(int(record.record_addr))
    else:
        status = run_driver(int(record.record_addr))
    step.idle.append(record)
    return status == 0


@eager_apart
def run_kernel(call: ArrayKernel, operands: tuple[Any, ...]) -> Any:
    """New arrays with the results, in a list; None if the kernel found bad data.

    Args:
        operands: arrays and Python numbers, perhaps with params behind them, which are not looked at.
    """
    step: LoadedStep = call.step
    if not is_atomic() or not step.is_quick:
        return call.run(operands)
    kinds: tuple[Any, ...] = step.are_floats
    places: tuple[Any, ...] = call.numbers
    for i in range(len(places)):
        if not fits(operands[int(places[i])], kinds[i]):
            return call.run(operands)
    made: list[Any] = []
    for make in call.makes:
        made.append(new_array(make))
    record: RunRecord = record_of(step)
    bufs: int = record.bufs_addr
    word = 1
    for at in call.order:
        place = int(at)
        if place >= 0:
            poke(bufs, word, id(operands[place]))
        else:
            poke(bufs, word, id(made[-1 - place]))
        word += 1
    word += 1  # the arena's
    for i in range(len(places)):
        put(bufs, word + i, operands[int(places[i])], kinds[i])
    return made if run_record(step, record) else None


@eager_apart
def run_step(step: LoadedStep, arrays: tuple[Any, ...], numbers: tuple[Any, ...]) -> Any:
    """Run a step over arrays: those of its inputs, then those of its outputs.

    Returns:
        0; another number where it found bad data.
    """
    if not is_atomic() or not step.is_quick:
        return status_of(step, arrays, numbers)
    kinds: tuple[Any, ...] = step.are_floats
    for i in range(len(numbers)):
        if not fits(numbers[i], kinds[i]):
            return status_of(step, arrays, numbers)
    record: RunRecord = record_of(step)
    bufs: int = record.bufs_addr
    for i in range(len(arrays)):
        poke(bufs, 1 + i, id(arrays[i]))
    word = 2 + len(arrays)  # behind the arena's
    for i in range(len(numbers)):
        put(bufs, word + i, numbers[i], kinds[i])
    return 0 if run_record(step, record) else BAD_DATA


class KernelRuns:
    """``run_kernel`` and ``run_step`` for callers in Python's form."""

    __slots__ = ("run_kernel", "run_step")

    run_kernel: Callable[[ArrayKernel, Sequence[Any]], Any]
    run_step: Callable[[LoadedStep, Sequence[Any], Sequence[Any]], int]

    def __init__(self) -> None:
        self.use(PYTHONS_RUNS)

    def use(self, functions: dict[str, Any]) -> None:
        """Put these forms in use."""
        self.run_kernel, self.run_step = functions["run_kernel"], functions["run_step"]


PYTHONS_RUNS: dict[str, Any] = {"run_kernel": ArrayKernel.run, "run_step": status_of}
"""As Python runs them: what native code has for quick steps only serves any."""
RUNS = KernelRuns()
