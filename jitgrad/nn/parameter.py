"""``Parameter``: a tensor that a module lists among its own.

Owns: ``Parameter``. Must not know: modules, traces.
"""

from __future__ import annotations

from typing import Any

from jitgrad.grad_mode import no_grad
from jitgrad.tensor import Tensor

__all__ = ["Parameter"]


class Parameter(Tensor):
    """A leaf that requires grad, registered by the module it is assigned to.

    Args:
        data: whose storage the parameter shares; left alone itself.
        requires_grad: as for any leaf.
    """

    __slots__ = ("__dict__",)  # people put attributes on parameters

    def __new__(cls, data: Tensor, requires_grad: bool = True) -> Parameter:
        with no_grad():
            source = data.detach()
        source._sync()
        out = super().__new__(cls)
        out._aval, out._storage, out._vc = source._aval, source._storage, source._vc
        out.requires_grad_(requires_grad)
        return out

    def __init__(self, data: Tensor, requires_grad: bool = True) -> None:
        pass

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        found = memo.get(id(self))
        return super().__deepcopy__(memo) if found is None else found
