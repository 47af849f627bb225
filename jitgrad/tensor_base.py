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

import threading
from collections.abc import Callable, Sized
from typing import Any, ClassVar

from jitgrad.cpython.primitives import counter, eager_native, install_handles, new_handle
from jitgrad.errors import UnknownNameError
from jitgrad.locks import process_lock
from jitgrad.ops.aval import Aval
from jitgrad.state import modes_in_use, state
from jitgrad.version_counter import VersionCounter, new_version

__all__ = [
    "TensorBase",
    "install_link",
    "install_storage",
    "install_tensor_class",
    "new_result",
    "new_tensor",
    "new_view",
    "tensor_class",
]

_threads: Sized = getattr(threading, "_active", "many")
"""The threads of the process: to ask for their number by ``threading.active_count()`` takes ten times as long."""

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
    "_creation_meta": None,
    "_tid": 0,
    "_vid": -1,
    "_graph": None,
    "_source": None,
    "_tracks": False,
}
_OF_A_LINK = ("_storage", "_vc", "_base", "_view_version")
"""What a view gets from its source, see Note [Links of views]."""


_SET_BY_OTHERS = frozenset(
    {"_accumulator", "_grad", "_grad_fn", "_graph", "_hooks", "_output_nr", "_post_accumulate_hooks"}
    | {"_requires_grad", "_retains_grad", "_view_version"}
)
"""Slots that one thread may set first while another looks at them. The others are set by who makes the tensor."""


class TensorBase:
    """The state of a tensor.

    Attributes:
        is_sparse: True of ``sparse.SparseTensor``, which has no storage.
        _aval: shape, dtype, stride, offset.
        _storage: the ``runtime.buffer.Storage``; None while pending, see Note [Tensor handles]; made on demand for
            results of eager operations, which have an ``_array``.
        _array: cached NumPy view of the storage, or None.
        _requires_grad, _grad, _grad_fn, _output_nr, _accumulator (weak), _hooks, _post_accumulate_hooks, _retains_grad:
            autograd state, as in PyTorch.
        _base: the tensor this is a view of (never itself a view), or None.
        _vc: the version counter, see Note [Version counters].
        _view_version: for a view in the graph, the version its ``_grad_fn`` belongs to.
        _creation_meta: for a view in the graph, why it must not be written; see ``graph/creation_meta.py``.
        _tid, _vid: the trace's stamp.
        _graph: where an escaped result of a trace finds its graph, built on demand.
        _source, _tracks: of a recorded view, what it is a view of, and whether it is one in the graph's sense; see Note
            [Links of views].
    """

    # a dictionary is made for what users set on a tensor, and for no other
    __slots__ = (*_DEFAULTS, "__dict__", "__weakref__", "_aval", "_vc")

    is_sparse = False

    # what native code reads in a slot that was never set, and the slot that makes another one more than its default
    NATIVE_DEFAULTS: ClassVar[dict[str, Any]] = {n: v for n, v in _DEFAULTS.items() if n not in _OF_A_LINK}
    NATIVE_GUARDS: ClassVar[dict[str, tuple[str, ...]]] = {
        "_storage": ("_array", "_source"),
        "_base": ("_source",),
        "_view_version": ("_source",),
    }

    NATIVE_COUNTERS: ClassVar[tuple[str, ...]] = ("_vc",)
    """Slots that get ``[0]`` at the first look."""

    _result_class: ClassVar[type[TensorBase]]
    """The class of results; ``install_tensor_class`` sets it."""

    _aval: Aval
    _vc: VersionCounter
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
    _creation_meta: Any
    _tid: int
    _vid: int
    _graph: Any
    _source: Any
    _tracks: bool

    def __getattr__(self, name: str) -> Any:
        if name in _OF_A_LINK and self._source is not None:
            _link[0](self)
            return getattr(self, name)
        if name in _DEFAULTS:
            default = _DEFAULTS[name]
            if name == "_storage" and self._array is not None:
                return _storage_on_demand(self)
            if name in _SET_BY_OTHERS:
                return _remembered(self, name, default) if len(_threads) < 2 else default
            setattr(self, name, default)  # remember it: the next look is a plain slot access
            return default
        if name == "_vc":
            return _first_counter(self)
        if hasattr(type(self), name):
            # a property raised AttributeError, and Python came here with the property's name instead
            raise RuntimeError(f"internal error in Tensor.{name}")
        raise UnknownNameError(f"'{type(self).__name__}' object", name, type(self))


def _remembered(tensor: Any, name: str, default: Any) -> Any:
    """Set a slot to its default, so that the next look is a plain slot access. There is one thread.

    Beside others it might overwrite what one of them has just set, such as a gradient. One may have come and gone since
    the slot was found empty: so it is looked at again.
    """
    try:
        return _SLOTS[name].__get__(tensor)
    except AttributeError:
        setattr(tensor, name, default)
    return default


_counting = process_lock()


def _first_counter(tensor: Any) -> VersionCounter:
    """The version counter that all threads see."""
    with _counting:
        try:
            counter: VersionCounter = _SLOTS["_vc"].__get__(tensor)
        except AttributeError:
            counter = tensor._vc = [0]
    return counter


_SLOTS: dict[str, Any] = {name: TensorBase.__dict__[name] for name in (*_DEFAULTS, "_vc")}

_link: list[Callable[[Any], None]] = []


def install_link(link: Callable[[Any], None]) -> None:
    """Let ``link(view)`` give a recorded view what it gets from its source. ``tracer/hits/hits.py`` calls it once."""
    _link[:] = [link]


_make_storage: list[Callable[[Any], Any]] = []


def _storage_on_demand(tensor: TensorBase) -> Any:
    """See Note [Storage on demand]: two threads, or two tensors over one array, get the same one."""
    array, base = tensor._array, tensor._base
    is_part = base is not None and array.base is base._array is not None
    tensor._storage = storage = base._storage if is_part else _make_storage[0](array)
    return storage


def install_storage(make: Callable[[Any], Any]) -> None:
    """Let ``make(array)`` give eager results their storages. ``runtime/storage/storage.py`` calls it once."""
    _make_storage[:] = [make]


TensorBase._result_class = TensorBase


def install_tensor_class(cls: type[TensorBase]) -> None:
    """Make ``cls`` the class of every result. ``tensor.py`` calls it once."""
    TensorBase._result_class = cls
    install_handles(cls)


def tensor_class() -> type[TensorBase]:
    """The class of results."""
    return TensorBase._result_class


@eager_native
def new_result(aval: Aval, array: Any) -> Any:
    """A tensor over an array that nobody else knows, outside any graph; see Note [Storage on demand]."""
    out: TensorBase = new_handle()
    out._aval = aval
    out._array = array
    out._vc = new_version() if modes_in_use else counter()
    # every one of these is looked at before long; setting them here is cheaper than ``__getattr__`` later
    out._requires_grad = False
    out._base = None
    out._grad_fn = None
    out._output_nr = 0
    out._tid = 0
    return out


@eager_native
def new_view(aval: Aval, array: Any) -> Any:
    """A tensor over a view of an array that owns its memory; the caller gives it a version counter."""
    out: TensorBase = new_handle()
    out._aval = aval
    out._array = array
    out._requires_grad = False
    out._base = None
    out._grad_fn = None
    out._output_nr = 0
    out._tid = 0
    return out


def new_tensor(aval: Aval, storage: Any, array: Any = None) -> Any:
    """A tensor over a storage, outside any graph."""
    cls = TensorBase._result_class
    out = cls.__new__(cls)
    out._aval = aval
    out._storage = storage
    if array is not None:
        out._array = array
    if modes_in_use and state.inference_mode:
        out._vc = new_version()
    return out
