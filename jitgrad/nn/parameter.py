"""``Parameter``: a tensor that a module lists among its own.

Owns: ``Parameter``. Must not know: modules, traces.
"""

from __future__ import annotations

from typing import Any

from jitgrad.grad_mode import no_grad
from jitgrad.overrides import disabled_torch_function
from jitgrad.state import state
from jitgrad.tensor import Tensor

__all__ = ["Parameter"]


class Parameter(Tensor):
    """A leaf that requires grad, registered by the module it is assigned to.

    Args:
        data: whose storage the parameter shares; left alone itself. None: an empty one.
        requires_grad: as for any leaf.
    """

    __slots__ = ("__dict__",)  # people put attributes on parameters
    __torch_function__: Any = classmethod(disabled_torch_function)

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        with no_grad():
            source = Tensor() if data is None else data.detach()
        source._sync()
        out = super().__new__(cls)
        out._aval, out._storage, out._vc = source._aval, source._storage, source._vc
        out.requires_grad_(requires_grad)
        return out

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        pass

    def set_data(self, data: Tensor) -> None:
        """Take over another tensor's storage, whatever its dtype and device; hooks and identity stay."""
        data._sync()
        recorder = state.handler
        if recorder is not None:
            recorder.forget(self)
        self._aval, self._storage, self._array = data._aval, data._storage, data._array
        self._accumulator = None  # it expects gradients of the old kind

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        found = memo.get(id(self))
        return super().__deepcopy__(memo) if found is None else found
