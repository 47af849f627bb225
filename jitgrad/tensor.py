"""``Tensor``: the class users hold.

Owns: attributes, operators, and conversion to Python and NumPy. Named methods are attached from ``functions``.
Must not know: how an operation runs (``dispatch`` decides) or how a trace is kept.

Operators are the hot path of a recorded step: they go straight to the recorder.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jitgrad import functions
from jitgrad.devices import CPU, META, Device
from jitgrad.door import door
from jitgrad.dtypes import DType, bfloat16, float32, float64
from jitgrad.formatting import format_tensor
from jitgrad.functions import copying
from jitgrad.functions._bind import operator
from jitgrad.functions._parse import operand_asks
from jitgrad.functions.devices import numpy_elsewhere, to
from jitgrad.functions.replacing import check_new_grad
from jitgrad.layouts import Size
from jitgrad.lazy import LazyModule
from jitgrad.ops.shapes import as_real, no_such_dim, of_dim
from jitgrad.ops.table import OPS
from jitgrad.runtime.engine.graph import hooks as engine_hooks
from jitgrad.runtime.engine.graph.call_node import CallNode
from jitgrad.runtime.engine.graph.copy_slices import current_grad_fn, view_requires_grad
from jitgrad.runtime.engine.run.imperative import execution_engine
from jitgrad.runtime.engine.run.request import input_tuple, make_grads
from jitgrad.state import override_classes, plain_tensors, state
from jitgrad.tensor_base import TensorBase, install_tensor_class, new_tensor
from jitgrad.tracer.recording.recorder_state import RUNNING, wait_for_memory
from jitgrad.tracer.shared_memory import Share
from jitgrad.user_line import warn_of_cycle, warn_of_missing_grad, warn_of_number
from jitgrad.version_counter import inference_tensors, is_inference, version_of

__all__ = ["Tensor", "is_tensor"]

_ADD, _SUB, _MUL, _DIV, _POW = (OPS[n] for n in ("add", "sub", "mul", "div", "pow"))
_EQ, _NE, _LT, _LE, _GT, _GE = (OPS[n] for n in ("eq", "ne", "lt", "le", "gt", "ge"))
_NEG, _DETACH, _SLICE, _RSUB = OPS["neg"], OPS["detach"], OPS["slice"], OPS["rsub"]
_NUMBERS = (int, float, complex, np.integer, np.inexact, np.bool_)
_notebook: Any = LazyModule("jitgrad.report.notebook")


def _operand(other: Any) -> Any:
    """A tensor or a plain Python number; NotImplemented for anything else, and for what overrides operators."""
    if override_classes and type(other) not in plain_tensors and operand_asks(other):
        return NotImplemented  # then Python asks ``other``, Note [Overrides]
    if isinstance(other, TensorBase) or type(other) in (int, float, bool):
        return other
    if isinstance(other, _NUMBERS):
        return other.item() if isinstance(other, np.generic) else other
    return NotImplemented


def _binary(op: Any, a: Any, b: Any, recorder: Any) -> Any:
    """An operator where nothing is recorded, or with an operand that needs a look."""
    if recorder is not None or not (type(a) is type(b) is Tensor):
        a, b = _operand(a), _operand(b)
        if a is NotImplemented or b is NotImplemented:
            return NotImplemented
    return door.run_two(op, a, b) if recorder is None else recorder.apply(op, (a, b))


class Tensor(TensorBase):
    """An n-dimensional array that records what is done to it.

    Make one with ``jitgrad.tensor``, ``jitgrad.zeros``, ``jitgrad.from_numpy`` and the like. The semantics of every
    method are those of ``torch.Tensor``.
    """

    __slots__ = ()
    __array_priority__ = 1000
    __hash__ = object.__hash__

    # arithmetic: `x * y` on the hot path is one attribute, one test and one call
    def __add__(self, other: Any) -> Any:
        rec = state.handler
        return _binary(_ADD, self, other, rec) if rec is None or override_classes else rec.binary(_ADD, self, other)

    def __sub__(self, other: Any) -> Any:
        rec = state.handler
        return _binary(_SUB, self, other, rec) if rec is None or override_classes else rec.binary(_SUB, self, other)

    def __mul__(self, other: Any) -> Any:
        rec = state.handler
        return _binary(_MUL, self, other, rec) if rec is None or override_classes else rec.binary(_MUL, self, other)

    def __truediv__(self, other: Any) -> Any:
        rec = state.handler
        return _binary(_DIV, self, other, rec) if rec is None or override_classes else rec.binary(_DIV, self, other)

    def __pow__(self, other: Any) -> Any:
        rec = state.handler
        return _binary(_POW, self, other, rec) if rec is None or override_classes else rec.binary(_POW, self, other)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Any) -> Any:
        rec = state.handler
        return rec.binary(_RSUB, self, other) if rec is not None else _binary(_RSUB, self, other, rec)

    def __rtruediv__(self, other: Any) -> Any:
        return self.reciprocal() * other  # as PyTorch: its roundings, and only the result is saved

    def __rpow__(self, other: Any) -> Any:
        return _binary(_POW, other, self, state.handler)

    def __neg__(self) -> Tensor:
        return door.apply(_NEG, self)

    def __pos__(self) -> Tensor:
        return functions.positive(self)

    def __abs__(self) -> Tensor:
        return functions.abs(self)

    def __matmul__(self, other: Any) -> Any:
        return functions.matmul(self, other) if isinstance(other, TensorBase) else NotImplemented

    def __floordiv__(self, other: Any) -> Any:
        return _binary(OPS["floor_divide"], self, other, state.handler)

    def __rfloordiv__(self, other: Any) -> Any:
        return _binary(OPS["floor_divide"], other, self, state.handler)

    def __mod__(self, other: Any) -> Any:
        return _binary(OPS["remainder"], self, other, state.handler)

    def __rmod__(self, other: Any) -> Any:
        return _binary(OPS["remainder"], other, self, state.handler)

    # comparisons
    def __eq__(self, other: Any) -> Any:
        return _binary(_EQ, self, other, state.handler)

    def __ne__(self, other: Any) -> Any:
        return _binary(_NE, self, other, state.handler)

    def __lt__(self, other: Any) -> Any:
        return _binary(_LT, self, other, state.handler)

    def __le__(self, other: Any) -> Any:
        return _binary(_LE, self, other, state.handler)

    def __gt__(self, other: Any) -> Any:
        return _binary(_GT, self, other, state.handler)

    def __ge__(self, other: Any) -> Any:
        return _binary(_GE, self, other, state.handler)

    def __invert__(self) -> Tensor:
        return functions.bitwise_not(self)

    def __and__(self, other: Any) -> Any:
        return _binary(OPS["bitwise_and"], self, other, state.handler)

    def __or__(self, other: Any) -> Any:
        return _binary(OPS["bitwise_or"], self, other, state.handler)

    def __xor__(self, other: Any) -> Any:
        return _binary(OPS["bitwise_xor"], self, other, state.handler)

    def __rmatmul__(self, other: Any) -> Any:
        return functions.matmul(other, self) if isinstance(other, TensorBase) else NotImplemented

    __rdiv__ = __rtruediv__
    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    __lshift__, __rshift__ = map(operator, (functions.bitwise_left_shift, functions.bitwise_right_shift))
    __rlshift__ = operator(functions.bitwise_left_shift, True)
    __rrshift__ = operator(functions.bitwise_right_shift, True)

    # in-place arithmetic keeps the object, as PyTorch does
    def __iadd__(self, other: Any) -> Any:
        return self._inplace_binary(_ADD, other)

    def __isub__(self, other: Any) -> Any:
        return self._inplace_binary(_SUB, other)

    def __imul__(self, other: Any) -> Any:
        return self._inplace_binary(_MUL, other)

    def __itruediv__(self, other: Any) -> Any:
        return self._inplace_binary(_DIV, other)

    def __ipow__(self, other: Any) -> Any:
        return self._inplace_binary(_POW, other)

    def _inplace_binary(self, op: Any, other: Any) -> Any:
        if override_classes and type(other) not in plain_tensors and operand_asks(other):
            return functions.INPLACE_METHODS[f"{op.name}_"](self, other)
        other = _operand(other)
        if other is NotImplemented:
            return NotImplemented
        door.apply_inplace(op, (self,), self, other)
        return self

    # indexing
    def __getitem__(self, index: Any) -> Tensor:
        if type(index) is slice and index.step is None:
            start, stop = index.start, index.stop
            if (start is None or type(start) is int) and (stop is None or type(stop) is int):
                return door.apply(_SLICE, self, 0, start, stop, 1)
        return functions.getitem(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        functions.setitem(self, index, value)

    def __len__(self) -> int:
        if not self._aval.shape:
            raise TypeError("len() of a 0-d tensor")
        return self._aval.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self._aval.shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter(functions.unbind(self, 0))

    def __contains__(self, element: Any) -> bool:
        if not isinstance(element, TensorBase | int | float | complex):
            kind = type(element)
            raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {kind}.")
        return bool((self == element).any())

    # shape and type
    @property
    def shape(self) -> Size:
        """Extents."""
        return self._aval.size

    @property
    def dtype(self) -> DType:
        """Type of the elements."""
        return self._aval.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._aval.shape)

    @property
    def device(self) -> Device:
        """Where the data are."""
        return self._aval.device

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self._aval.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._aval.nbytes

    def size(self, dim: int | None = None) -> Any:
        """All extents, or the extent of ``dim``; IndexError if there is no such dimension."""
        if dim is None:
            return self._aval.size
        shape = self._aval.shape
        if not -len(shape) <= dim < len(shape):
            raise no_such_dim(dim, len(shape))
        return shape[dim]

    def dim(self) -> int:
        """Number of dimensions."""
        return len(self._aval.shape)

    ndimension = dim

    def numel(self) -> int:
        """Number of elements."""
        return self._aval.numel

    nelement = numel

    def element_size(self) -> int:
        """Bytes per element."""
        return self._aval.dtype.itemsize

    def stride(self, dim: int | None = None) -> Any:
        """Elements between neighbours, per dimension, or for ``dim``; IndexError if there is no such dimension."""
        return self._aval.stride if dim is None else of_dim(self._aval.stride, dim)

    def storage_offset(self) -> int:
        """Elements before the first one, in the storage."""
        return self._aval.offset

    def data_ptr(self) -> int:
        """Address of the first element."""
        self._sync()
        return int(self._storage.addr) + self._aval.offset * self._aval.dtype.itemsize

    # autograd
    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor are recorded; of a view, also because of its base."""
        if self._requires_grad or self._base is None:
            return bool(self._requires_grad)
        if self._tid < 0:
            self._look_afresh()
        return view_requires_grad(self)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Make this leaf part of the graph (or not). RuntimeError for non-leaves and non-floating dtypes."""
        if requires_grad.__class__ is not bool:
            found = type(requires_grad).__name__
            raise TypeError(f"requires_grad_(): argument 'requires_grad' (position 1) must be bool, not {found}")
        if requires_grad and not self._aval.dtype.is_inexact:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        # what a step has computed since it left inference mode has no value yet, and is none: to leave ends a segment
        if requires_grad and inference_tensors and not state.inference_mode and is_inference(self):
            raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
        if not self.is_leaf and not requires_grad:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in "
                "a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
            )
        recorder = state.handler
        if self._requires_grad is not requires_grad or (self._base is not None and recorder is not None):
            if recorder is not None:  # to which a view may have the flag only because of its base
                recorder.set_requires_grad(self, requires_grad)
            self._requires_grad = requires_grad
        return self

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient of a leaf, or None."""
        found = self._grad
        if found is None and self._requires_grad and not self._retains_grad and not self.is_leaf:
            warn_of_missing_grad()
        return found

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        check_new_grad(self, value)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        check_new_grad(self, None)
        self._grad = None

    @property
    def grad_fn(self) -> Any:
        """The Node that made this tensor; None for leaves."""
        if self._tid < 0:
            self._look_afresh()
        if not self.requires_grad:
            return None
        if self._grad_fn is None and self._graph is not None:
            recorder = state.handler
            if recorder is not None and self._tid == recorder.tid:
                return recorder.grad_fn_of(self)
            self._graph.attach(self)
        elif type(self._grad_fn) is CallNode:
            self._grad_fn, self._output_nr = self._grad_fn.real(self._output_nr)
        return current_grad_fn(self) if self._base is not None else self._grad_fn

    @property
    def is_leaf(self) -> bool:
        """Whether no operation of a graph made this tensor: ``backward()`` stops here."""
        if self._tid < 0:
            self._look_afresh()
        if not self.requires_grad:
            return True
        if self._base is not None and (self._graph is None or self._creation_meta is not None):
            return current_grad_fn(self) is None and self._graph is None
        return self._grad_fn is None and self._graph is None

    def _look_afresh(self) -> None:
        """The running trace has written this view's base, and has not used the view since."""
        if state.handler is not None:
            state.handler.look_afresh(self)

    @property
    def output_nr(self) -> int:
        """Which output of ``grad_fn`` this is."""
        return self._output_nr

    @property
    def _version(self) -> int:
        if inference_tensors and self.is_inference():
            raise RuntimeError("Inference tensors do not track version counter.")
        return version_of(self)

    def is_inference(self) -> bool:
        """Whether the tensor was made in inference mode."""
        if state.handler is not None:
            self._sync()
        return is_inference(self)

    def _is_view(self) -> bool:
        return self._base is not None

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Accumulate the gradients of this tensor into the leaves it was computed from.

        Args:
            gradient: same shape as this tensor; may be left out for one element (ones).
            retain_graph: keep saved values for another call; defaults to ``create_graph``.
            create_graph: make the gradients differentiable themselves.
            inputs: accumulate into these only.

        Raises:
            RuntimeError: as PyTorch does, for a missing gradient, a second call without ``retain_graph``, a value
                overwritten since it was saved.
        """
        if create_graph:
            warn_of_cycle()
        recorder = state.handler
        keep_graph = create_graph if retain_graph is None else retain_graph
        is_own = recorder is not None and gradient is None and inputs is None and self._tid == recorder.tid
        if recorder is not None and is_own and recorder.repeat_backward(self, keep_graph, create_graph):
            return
        if recorder is None and inputs is None and not create_graph and door.backward(self, gradient, bool(keep_graph)):
            return
        wanted, seeds = input_tuple(inputs, "backward"), make_grads((self,), (gradient,))
        execution_engine.run_backward((self,), seeds, keep_graph, create_graph, wanted, True, True)

    def register_hook(self, hook: Any) -> Any:
        """Call ``hook(grad)`` whenever the gradient of this tensor is computed; what it returns replaces it."""
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        self._touch_hooks()
        return engine_hooks.register_tensor_hook(self, hook)

    def register_post_accumulate_grad_hook(self, hook: Any) -> Any:
        """Call ``hook(tensor)`` after a gradient was accumulated into this leaf's ``.grad``."""
        handle = engine_hooks.register_post_accumulate_grad_hook(self, hook)
        self._touch_hooks()
        return handle

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf in ``.grad``."""
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if not self.is_leaf:
            self._touch_hooks()
            engine_hooks.retain_grad(self)

    def _touch_hooks(self) -> None:
        """Hooks are Python: a trace must know that this value has some."""
        recorder = state.handler
        if recorder is not None:
            recorder.add_hooks(self)

    @property
    def retains_grad(self) -> bool:
        """Whether ``backward()`` keeps the gradient of this tensor, which is no leaf."""
        return bool(self._retains_grad)

    def detach(self) -> Tensor:
        """A view of the same storage outside the graph; shares the version counter."""
        return door.apply(_DETACH, self)

    # to Python and NumPy
    def _sync(self) -> None:
        """Make sure that the storage holds the value: a trace that still owes it runs its segment now."""
        recorder = state.handler
        if recorder is not None:
            recorder.read(self)
        if recorder is None or self._storage is None:
            wait_for_memory(self)

    def _ndarray(self) -> Any:
        """A NumPy view of the value (internal: no grad check)."""
        array = self._array
        if state.handler is None and array is not None and not RUNNING:
            return array
        if state.handler is not None or self._storage is None or RUNNING:
            self._sync()
            array = self._array
        if array is None:
            array = self._storage.array(self._aval)
            if self._aval.device is CPU:  # others must wait at every look
                self._array = array
        return array

    def numpy(self, *, force: bool = False) -> Any:
        """A NumPy array that shares this tensor's memory.

        RuntimeError if it requires grad and grad mode is on, unless ``force``.
        """
        if not force and state.grad_enabled and self.requires_grad:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        if self._aval.device is not CPU or self._aval.dtype is bfloat16:
            return numpy_elsewhere(self, force)
        array = self._ndarray()
        if state.handler is None:
            return array.view()
        owner = Share(array)
        state.handler.shares(self, owner)
        return np.asarray(owner)

    def item(self) -> Any:
        """The value of a one-element tensor as a Python number; RuntimeError for any other size."""
        if self._aval.numel != 1:
            raise RuntimeError(f"a Tensor with {self._aval.numel} elements cannot be converted to Scalar")
        if self._aval.device is META:
            raise RuntimeError("Tensor.item() cannot be called on meta tensors")
        found = self._ndarray().item()
        return float(found) if self._aval.dtype is bfloat16 else found

    def tolist(self) -> Any:
        """Nested lists of Python numbers (a number for a 0-d tensor)."""
        array = self._ndarray()
        return array.astype(np.float32).tolist() if self._aval.dtype is bfloat16 else array.tolist()

    def __bool__(self) -> bool:
        if self._aval.numel != 1:
            kind = "no values" if self._aval.numel == 0 else "more than one value"
            raise RuntimeError(f"Boolean value of Tensor with {kind} is ambiguous")
        return bool(self.item())

    def _only_element(self) -> Any:
        if self._aval.numel != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return self.item()

    def __float__(self) -> float:
        if self._requires_grad:
            warn_of_number()
        found = self._only_element()
        return float(as_real(found, "double") if type(found) is complex else found)

    def __int__(self) -> int:
        found = self._only_element()
        return int(as_real(found, "int64_t") if type(found) is complex else found)

    def __complex__(self) -> complex:
        return complex(self._only_element())

    def __index__(self) -> int:
        if self._aval.dtype.is_inexact or self._aval.numel != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self._aval.numel == 1 and spec else str(self)

    def __repr__(self) -> str:
        return format_tensor(self, None if self._aval.device is META else self._ndarray())

    def _repr_html_(self) -> str:
        return str(_notebook.tensor_html(self))

    __copy__, __deepcopy__, __reduce__ = copying.shallow_copy, copying.deep_copy, copying.reduce
    __array__, __array_wrap__, __buffer__ = copying.as_array, copying.wrap_array, copying.as_buffer
    __dlpack__, __dlpack_device__ = copying.as_dlpack, copying.dlpack_device
    __array_namespace__, to_device = copying.array_namespace, copying.to_device

    # dtypes
    def float(self, *, memory_format: Any = None) -> Tensor:
        """As float32."""
        return to(self, float32, memory_format=memory_format)

    def double(self, *, memory_format: Any = None) -> Tensor:
        """As float64."""
        return to(self, float64, memory_format=memory_format)


def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a Tensor."""
    return isinstance(obj, TensorBase)


def _attach_methods() -> None:
    """Give Tensor the named methods, and an in-place twin where PyTorch has one."""
    for name, function in functions.METHODS.items():
        if name not in Tensor.__dict__:
            setattr(Tensor, name, function)
    for name, function in functions.INPLACE_METHODS.items():
        setattr(Tensor, name, function)


_attach_methods()
install_tensor_class(Tensor)
__all__ += ["new_tensor"]
