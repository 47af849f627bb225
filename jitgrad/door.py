"""The door to every operation.

Owns: ``door``, through which all code of jitgrad applies operations.
Must not know: what is behind it.

# Note [One door]
# ~~~~~~~~~~~~~~~
# An operation is applied by ``door.apply(op, *args)``, written in place by ``door.apply_inplace``, and an optimizer's
# step is ``door.apply_update``. ``dispatch.py`` gives the three their functions at import. Those look at
# ``state.handler``, the thread's slot: None means that the operation runs now; else it goes to the object in the slot,
# which is a ``handler.Handler``: a recorder, or another object that takes operations. Code that changes how operations
# run assigns that slot by ``switch_handler``. What runs now is called as ``door.run_one`` and the like: functions of
# ``runtime.eager``. Two things replace functions of the door: native hits the ``apply`` ones, once in a process (Note
# [Native hits]), and the profiler or a watcher of ``checking`` the ``run`` ones, while it is active (Note [Profiling
# points]). No module, class or code object is ever patched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Door", "door"]


def _not_installed(*args: Any) -> Any:
    raise RuntimeError("no dispatcher is installed; import jitgrad first")


class Door:
    """How operations are applied.

    Attributes:
        apply: ``apply(op, *args)``: a Tensor, or a tuple of them for several outputs. ``args`` are the operation's
            inputs (Tensors and Python numbers), then its static params.
        apply_inplace: ``apply_inplace(op, targets, *args)`` computes ``op(*args)`` and writes its outputs into the
            tuple ``targets``, which it returns.
        apply_update: ``apply_update(op, rows, writes, numbers, params)``: an optimizer's step, see
            ``dispatch.apply_update``.
        backward: ``backward(tensor, gradient, keep_graph)``: what ``Tensor.backward`` calls where there is no handler;
            it returns whether it did it, see Note [Plain backward].
        join_call: ``join_call(x)``: give a result of a compiled call its ``CallNode``; False: ``x._graph.join(x)`` is
            to be called instead.
        run_one: ``run_one(op, x, params)``: what ``apply`` calls where there is no handler, for one operand.
        run_two: ``run_two(op, x, y, params=())``: for two.
        run_many: ``run_many(op, inputs, params)``: for any number of operands, and views.
        run_inplace: ``run_inplace(op, targets, inputs, params)``.
    """

    __slots__ = (
        "apply", "apply_inplace", "apply_update", "backward", "join_call", "run_inplace", "run_many", "run_one",
        "run_two",
    )  # fmt: skip

    apply: Callable[..., Any]
    apply_inplace: Callable[..., tuple[Any, ...]]
    apply_update: Callable[
        [Any, Sequence[tuple[Any, ...]], tuple[int, ...], tuple[Any, ...], tuple[Any, ...]], None
    ]
    backward: Callable[..., bool]
    join_call: Callable[[Any], bool]
    run_one: Callable[..., Any]
    run_two: Callable[..., Any]
    run_many: Callable[..., Any]
    run_inplace: Callable[..., tuple[Any, ...]]

    def __init__(self) -> None:
        self.apply = self.apply_inplace = self.apply_update = self.backward = _not_installed
        self.run_one = self.run_two = self.run_many = self.run_inplace = self.join_call = _not_installed


door = Door()
