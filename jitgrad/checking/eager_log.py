"""What an eager run of a step computes, operation by operation.

Owns: ``EagerCall``, ``watch_operations``, ``log_operations``.
Must not know: compiled steps.
In: a block. Out: each operation with its line and a copy of its results (Note [One door]).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitgrad.checking.rounding import shaken, terms_of
from jitgrad.door import door
from jitgrad.ops.table import Op
from jitgrad.runtime.engine.graph.current import current_node
from jitgrad.tensor_base import TensorBase
from jitgrad.user_line import user_line

__all__ = ["EagerCall", "array_of", "log_operations", "watch_operations"]


@dataclass(slots=True)
class EagerCall:
    """One operation of an eager run.

    Attributes:
        op: the operation.
        where: the user's line.
        node: the Node whose backward it belongs to; empty in the forward.
        numbers: the Python numbers among its operands.
        results: copies of the arrays that it has made or written; None for what is not on the CPU.
    """

    op: Op
    where: str
    node: str
    numbers: tuple[int | float, ...]
    results: tuple[Any, ...]


@contextmanager
def watch_operations(after: Callable[[Op, tuple[Any, ...], tuple[Any, ...]], None]) -> Iterator[None]:
    """Have ``after(op, operands, results)`` called behind every operation that runs eagerly, on any thread."""
    before = door.run_one, door.run_two, door.run_many, door.run_inplace

    def watched(run: Callable[..., Any], split: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
        def run_and_hand_on(op: Op, *args: Any) -> Any:
            result = run(op, *args)
            after(op, split(*args), tuple(result) if isinstance(result, tuple | list) else (result,))
            return result

        return run_and_hand_on

    one, two, many, inplace = before
    door.run_one = watched(one, lambda x, params=(): (x,))
    door.run_two = watched(two, lambda x, y, params=(): (x, y))
    door.run_many = watched(many, lambda inputs, params=(): tuple(inputs))
    door.run_inplace = watched(inplace, lambda targets, inputs, params=(): tuple(inputs))
    try:
        yield
    finally:
        door.run_one, door.run_two, door.run_many, door.run_inplace = before


def array_of(x: Any) -> Any:
    """The memory of a tensor on the CPU, as an array; None of anything else."""
    if not isinstance(x, TensorBase) or x.is_sparse or x._aval.device.type != "cpu" or x._storage is None:
        return None
    return x._storage.array(x._aval)


def _real_parts(array: Any) -> tuple[Any, ...]:
    """The parts of an array that rounding moves: itself, or real and imaginary parts; none of whole numbers."""
    kind = "" if array is None else array.dtype.kind
    return (array.real, array.imag) if kind == "c" else (array,) if kind == "f" else ()


@contextmanager
def log_operations(seed: int | None = None) -> Iterator[list[EagerCall]]:
    """The operations of the block, in order.

    Args:
        seed: move each result by a unit in its last place, in random directions that this number chooses.
    """
    log: list[EagerCall] = []
    random = None if seed is None else np.random.default_rng(seed)

    def after(op: Op, operands: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        arrays = [array_of(x) for x in results]
        if random is not None and not op.is_view:
            sizes = [x._aval.numel for x in operands if isinstance(x, TensorBase)]
            for array in arrays:
                for part in _real_parts(array):
                    part[...] = shaken(part, random, terms=terms_of(op.name, sizes, part.size))
        node = current_node()
        numbers = tuple(x for x in operands if type(x) in (int, float))
        copies = tuple(None if a is None else a.copy() for a in arrays)
        log.append(EagerCall(op, user_line(), "" if node is None else node.name(), numbers, copies))

    with watch_operations(after):
        yield log
