"""The door to every operation.

Owns: ``door``, through which all code of jitgrad applies operations.
Must not know: what is behind it.

# Note [One door]
# ~~~~~~~~~~~~~~~
# An operation is applied by ``door.apply(op, *args)``, written in place by ``door.apply_inplace``, and an optimizer's
# step is ``door.apply_update``. ``dispatch.py`` gives the three their functions at import. Those look at
# ``state.handler``, the thread's slot: None means that the operation runs now; else it goes to the object in the slot,
# which is a ``handler.Handler``: a recorder, or whatever else wants to see operations. Whoever changes how operations
# run assigns that slot by ``switch_handler``. Native hits (Note [Native hits]) are the one thing that replaces the
# functions of the door, once in a process; no module, class or code object is ever patched.
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
    """

    __slots__ = ("apply", "apply_inplace", "apply_update")

    apply: Callable[..., Any]
    apply_inplace: Callable[..., tuple[Any, ...]]
    apply_update: Callable[
        [Any, Sequence[tuple[Any, ...]], tuple[int, ...], tuple[Any, ...], tuple[Any, ...]], None
    ]

    def __init__(self) -> None:
        self.apply = self.apply_inplace = self.apply_update = _not_installed


door = Door()
