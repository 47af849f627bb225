"""``TensorBase``: what a tensor holds, without any operation.

Owns: the slots every level looks at, their defaults, and how results are made.
Must not know: operations, the engine, the tracer (they know this class).

# Note [Tensor handles]
# ~~~~~~~~~~~~~~~~~~~~~
# A Tensor is a handle on a value. Eagerly the value is in ``_storage``. While a trace records, the result of an
# operation is a *pending* handle: ``_tid`` names the trace, ``_vid`` the value in it, and ``_storage`` is None (or a
# storage without memory, if something already views it) until the segment has run. An input of a trace carries the
# same stamp for as long as the trace lasts. A stamp is valid only while ``_tid`` equals the active recorder's ``tid``.
#
# A recorded hit makes one handle and must be cheap, so it sets four slots; every other slot reads as its default
# through ``__getattr__``, which Python calls only for a slot that was never set.
"""

from __future__ import annotations

from typing import Any

from jitgrad.ops.aval import Aval

__all__ = ["TensorBase", "install_tensor_class", "new_tensor", "tensor_class"]

_DEFAULTS: dict[str, Any] = {
    "_storage": None,
    "_array": None,
    "_requires_grad": False,
    "_grad": None,
    "_grad_fn": None,
    "_output_nr": 0,
    "_base": None,
    "_hooks": None,
    "_post_accumulate_hooks": None,
    "_retains_grad": False,
    "_accumulator": None,
    "_view_version": None,
    "_tid": 0,
    "_vid": -1,
    "_graph": None,
}


class TensorBase:
    """The state of a tensor.

    Attributes:
        _aval: shape, dtype, stride, offset.
        _storage: the ``runtime.buffer.Storage``; None while pending, see Note [Tensor handles].
        _array: cached NumPy view of the storage, or None.
        _requires_grad, _grad, _grad_fn, _output_nr, _accumulator (weak), _hooks, _post_accumulate_hooks, _retains_grad:
            autograd state, as in PyTorch.
        _base: the tensor this is a view of (never itself a view), or None.
        _vc: one-element list with the version; views and ``detach()`` share it, ``.data`` does not.
        _view_version: for a view in the graph, the version its ``_grad_fn`` belongs to.
        _tid, _vid: the trace's stamp.
        _graph: where an escaped result of a trace finds its graph, built on demand.
    """

    __slots__ = (*_DEFAULTS, "__weakref__", "_aval", "_vc")  # no __dict__: a handle is made for every operation

    _aval: Aval
    _vc: list[int]
    _storage: Any
    _array: Any
    _requires_grad: bool
    _grad: Any
    _grad_fn: Any
    _output_nr: int
    _base: Any
    _hooks: Any
    _post_accumulate_hooks: Any
    _retains_grad: bool
    _accumulator: Any
    _view_version: Any
    _tid: int
    _vid: int
    _graph: Any

    def __getattr__(self, name: str) -> Any:
        if name in _DEFAULTS:
            # remember it: the next look is a plain slot access
            default = _DEFAULTS[name]
            setattr(self, name, default)
            return default
        if name == "_vc":
            counter = self._vc = [0]
            return counter
        if hasattr(type(self), name):
            # a property raised AttributeError, and Python came here with the property's name instead
            raise RuntimeError(f"internal error in Tensor.{name}")
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


_class: list[type[TensorBase]] = [TensorBase]


def install_tensor_class(cls: type[TensorBase]) -> None:
    """Make ``cls`` the class of every result. ``tensor.py`` calls it once."""
    _class[0] = cls


def tensor_class() -> type[TensorBase]:
    """The class of results."""
    return _class[0]


def new_tensor(aval: Aval, storage: Any, array: Any = None) -> Any:
    """A tensor over a storage, outside any graph."""
    cls = _class[0]
    out = cls.__new__(cls)
    out._aval = aval
    out._storage = storage
    if array is not None:
        out._array = array
    return out
