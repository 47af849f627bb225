"""Sparse tensors in coordinate form, mostly as gradients: ``sparse_coo_tensor``, ``SparseTensor``.

Owns: the class, and what the operations mean for it.
Must not know: the engine, traces. Indices and values are dense tensors, and whatever happens to a sparse tensor is
ordinary operations on those: so a compiled step records it, and derivatives flow to the values.

# Note [Sparse operands]
# ~~~~~~~~~~~~~~~~~~~~~~
# A sparse tensor has the ``_aval`` of its dense form and no storage. An operation that meets one - eagerly or in a
# trace - asks for the storage, and so fails with ``SparseOperandError`` before anything has happened. ``dispatch``
# catches that and looks here for a rule; without one the user sees a NotImplementedError. Operations on dense tensors
# pay nothing for this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad import dispatch
from jitgrad.door import door
from jitgrad.dtypes import DType, int64, promote_types
from jitgrad.errors import SparseOperandError
from jitgrad.functions.creation import zeros
from jitgrad.functions.from_data import as_tensor, tensor
from jitgrad.functions.indexing import index_put, nonzero
from jitgrad.functions.joining import cat, stack
from jitgrad.layouts import sparse_coo, strided
from jitgrad.ops import dispatch_hook
from jitgrad.ops.aval import make_aval
from jitgrad.ops.table import OPS
from jitgrad.overrides import disabled_torch_function
from jitgrad.state import state
from jitgrad.tensor import Tensor
from jitgrad.tensor_base import TensorBase
from jitgrad.version_counter import count_write

__all__ = ["SparseTensor", "add_entries", "sparse_coo_tensor"]

_ADD, _SUB, _MUL, _DIV, _MM = (OPS[n] for n in ("add", "sub", "mul", "div", "mm"))


class SparseTensor(Tensor):
    """A tensor given by some of its elements; the others are zero. Elements that are given twice add up.

    Make one with ``sparse_coo_tensor`` or ``Tensor.to_sparse``. Addition, subtraction, scaling, products with dense
    tensors, ``sum`` and what maps 0 to 0 are supported; anything else raises NotImplementedError. The graph knows the
    values, not the sparse tensor: differentiate ``to_dense()`` or the values.
    """

    __slots__ = ("_entries", "_is_coalesced", "_positions")

    _entries: Any
    _positions: Any
    _is_coalesced: bool

    is_sparse = True
    layout = sparse_coo
    __torch_function__: Any = classmethod(disabled_torch_function)

    @property
    def _storage(self) -> Any:
        raise SparseOperandError

    def _ndarray(self) -> Any:
        raise SparseOperandError

    def _sync(self) -> None:
        self._positions._sync()
        self._entries._sync()

    # operators: Python asks a subclass first, so these also see ``dense + sparse``
    def __add__(self, other: Any) -> Any:
        return _operator(_ADD, self, other)

    def __sub__(self, other: Any) -> Any:
        return _operator(_SUB, self, other)

    def __mul__(self, other: Any) -> Any:
        return _operator(_MUL, self, other)

    def __truediv__(self, other: Any) -> Any:
        return _operator(_DIV, self, other)

    def __matmul__(self, other: Any) -> Any:
        return _operator(_MM, self, other)

    def __radd__(self, other: Any) -> Any:
        return _operator(_ADD, other, self)

    def __rsub__(self, other: Any) -> Any:
        return _operator(_SUB, other, self)

    def __rmul__(self, other: Any) -> Any:
        return _operator(_MUL, other, self)

    def __rtruediv__(self, other: Any) -> Any:
        return _operator(_DIV, other, self)

    # sparse form
    def indices(self) -> Tensor:
        """(number of sparse dimensions, nnz) integers. RuntimeError unless coalesced."""
        return self._coalesced_part("indices", self._positions)

    def values(self) -> Tensor:
        """(nnz, *dense dimensions). RuntimeError unless coalesced."""
        return self._coalesced_part("values", self._entries)

    def _coalesced_part(self, name: str, part: Tensor) -> Tensor:
        if not self._is_coalesced:
            raise RuntimeError(f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first")
        return part

    def _indices(self) -> Tensor:
        return self._positions

    def _values(self) -> Tensor:
        return self._entries

    def _nnz(self) -> int:
        return int(self._positions.shape[1])

    def sparse_dim(self) -> int:
        return int(self._positions.shape[0])

    def dense_dim(self) -> int:
        return self.ndim - self.sparse_dim()

    def is_coalesced(self) -> bool:
        """Whether no element is given twice, and they are in order; as far as is known without looking."""
        return self._is_coalesced

    def coalesce(self) -> SparseTensor:
        """The same tensor with each element given once, in order."""
        if self._is_coalesced:
            return self
        extents = self.shape[: self.sparse_dim()]
        positions = np.ascontiguousarray(self._positions.detach().cpu().numpy())
        flat = np.ravel_multi_index(tuple(positions), extents) if self._nnz() else np.empty(0, np.int64)
        places, slots = np.unique(flat, return_inverse=True)
        summed = zeros(len(places), *self._entries.shape[1:], dtype=self.dtype, device=self.device)
        summed = summed.index_add(0, tensor(slots.reshape(-1), device=self.device), self._entries)
        where = np.stack(np.unravel_index(places, extents)).astype(np.int64)
        return _make(tensor(where, device=self.device), summed, self.shape, True)

    def to_dense(self, dtype: DType | None = None, *, masked_grad: bool | None = None) -> Tensor:
        """All elements, as an ordinary tensor.

        Args:
            dtype: of the result, if it is another.
            masked_grad: accepted: the gradient goes to the values, which is what a masked one is.
        """
        out = zeros(self.shape, dtype=self.dtype, device=self.device)
        out = index_put(out, _where(self), self._entries, accumulate=True)
        return out if dtype is None else out.to(dtype)

    def to_sparse(self) -> SparseTensor:
        """The tensor itself."""
        return self

    def norm(self, p: Any = 2) -> Tensor:
        """Of all elements."""
        return self.coalesce()._entries.norm(p)

    # what the graph knows
    @property
    def requires_grad(self) -> bool:
        return bool(self._entries.requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        raise NotImplementedError("a sparse tensor is no leaf: call requires_grad_() on the values it is made of")

    @property
    def grad_fn(self) -> Any:
        return None

    @property
    def is_leaf(self) -> bool:
        return not self.requires_grad

    # to Python
    def is_contiguous(self, *, memory_format: Any = None) -> bool:
        return False

    def stride(self, dim: int | None = None) -> Any:
        return (0,) * self.ndim if dim is None else 0

    def data_ptr(self) -> int:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    def item(self) -> Any:
        return super().item() if self.numel() != 1 else self.to_dense().item()

    def tolist(self) -> Any:
        return self.to_dense().tolist()

    def __repr__(self) -> str:
        indices, values = (repr(part.detach()) for part in (self._positions, self._entries))
        pad = " " * 14
        parts = (
            f"indices={indices}".replace("\n", "\n" + pad + " "),
            f"values={values}".replace("\n", "\n" + pad),
            f"size={tuple(self.shape)}, nnz={self._nnz()}, layout={sparse_coo}",
        )
        return "tensor(" + ",\n       ".join(parts) + ")"

    def __copy__(self) -> Any:
        return _make(self._positions, self._entries, self.shape, self._is_coalesced)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        parts = self._positions.__deepcopy__(memo), self._entries.__deepcopy__(memo)
        copy = memo[id(self)] = _make(*parts, self.shape, self._is_coalesced)
        return copy

    def __reduce__(self) -> Any:
        return (_make, (self._positions, self._entries, self.shape, self._is_coalesced))


def _make(indices: Any, values: Any, shape: tuple[int, ...], is_coalesced: bool = False) -> SparseTensor:
    """A sparse tensor over parts that fit."""
    out: SparseTensor = SparseTensor.__new__(SparseTensor)
    out._aval = make_aval(shape, values._aval.dtype).on(values._aval.device)
    out._positions, out._entries, out._is_coalesced = indices, values, is_coalesced
    return out


def _make_gradient(indices: Any, values: Any, shape: tuple[int, ...]) -> SparseTensor:
    """What a derivative rule that returns a sparse gradient calls."""
    if state.handler is not None:
        state.handler.makes_sparse()
    return _make(indices, values, shape)


def sparse_coo_tensor(
    indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """A tensor of zeros but for some elements, or some slices.

    Args:
        indices: (number of sparse dimensions, nnz): where they are.
        values: (nnz, *dense dimensions): what they are; those at one place add up. Stays in the graph.
        size: the shape; None: as small as the indices allow, which looks at them.
        dtype: of the values; None keeps theirs.
        device: of both.
        requires_grad: must be False: the values are the leaf.
        is_coalesced: True promises that no place is given twice and that places are in order.

    Raises:
        RuntimeError: indices, values and size do not fit, or an index is negative. One that is too large raises
            IndexError where the tensor is used.
        NotImplementedError: ``requires_grad=True``.
    """
    where = as_tensor(indices, device=device)
    where = where.to(int64)
    entries = values if isinstance(values, TensorBase) else tensor(values, dtype, device)
    entries = entries if dtype is None else entries.to(dtype)
    if where.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(where.shape)}")
    if not entries.ndim or where.shape[1] != entries.shape[0]:
        nnz = entries.shape[0] if entries.ndim else 1
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {where.shape[1]}, nnz from values: {nnz}"
        )
    sparse_dim, dense_dim = where.shape[0], entries.ndim - 1
    if not sparse_dim:
        raise NotImplementedError("a sparse tensor needs at least one sparse dimension")
    shape = _smallest_size(where, entries) if size is None else tuple(size)
    if len(shape) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, "
            f"sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
        )
    if shape[sparse_dim:] != entries.shape[1:]:
        raise RuntimeError(
            f"values has incorrect size, expected {[where.shape[1], *shape[sparse_dim:]]}, got {list(entries.shape)}"
        )
    if min(shape, default=0) < 0:
        raise RuntimeError(f"numel: integer multiplication overflow (sparse_coo_tensor of size {list(shape)})")
    lowest = where.amin(1).tolist() if where.shape[1] and where.device.type != "meta" else []
    for dim, low in enumerate(lowest):
        if low < 0:
            raise RuntimeError(f"found negative index {low} for dim {dim}")
    if requires_grad:
        raise NotImplementedError("a sparse tensor is no leaf: call requires_grad_() on the values it is made of")
    return _make(where, entries, shape, bool(is_coalesced))


def _smallest_size(indices: Any, values: Any) -> tuple[int, ...]:
    if not indices.shape[1]:
        raise RuntimeError("sparse_coo_tensor without indices needs a size")
    return (*(int(n) + 1 for n in indices.amax(1).tolist()), *values.shape[1:])


# --- what operations mean ---

Rule = Callable[..., Any]
_RULES: dict[str, Rule] = {}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names, function))
        return function

    return register


def _operator(op: Any, a: Any, b: Any) -> Any:
    known = (TensorBase, int, float)
    return door.apply(op, a, b) if isinstance(a, known) and isinstance(b, known) else NotImplemented


def _where(x: SparseTensor) -> tuple[Any, ...]:
    """One index tensor per sparse dimension."""
    return tuple([x._positions.select(0, n) for n in range(x.sparse_dim())])


def _with_values(x: SparseTensor, values: Any) -> SparseTensor:
    return _make(x._positions, values, x.shape, x._is_coalesced)


def _check_same_shape(a: Any, b: Any) -> None:
    if a.shape != b.shape:
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {list(a.shape)} != {list(b.shape)}"
        )


@_rule("add")
def _add(a: Any, b: Any) -> Any:
    """Sparse if both are, else dense. (PyTorch has no ``sparse + dense``, only ``dense + sparse``.)"""
    if not isinstance(a, TensorBase) or not isinstance(b, TensorBase):
        raise SparseOperandError
    _check_same_shape(a, b)
    dtype = promote_types(a.dtype, b.dtype)
    a, b = a.to(dtype), b.to(dtype)
    if not a.is_sparse:
        return index_put(a, _where(b), b._entries, accumulate=True)
    if not b.is_sparse:
        return _add(b, a)
    if a.sparse_dim() != b.sparse_dim():
        raise RuntimeError(f"add: expected 'self' and 'other' to have same number of sparse dimensions, "
                           f"but {a.sparse_dim()} != {b.sparse_dim()}")  # fmt: skip
    if a._positions is b._positions:
        return _with_values(a, a._entries + b._entries)
    return _make(cat([a._positions, b._positions], 1), cat([a._entries, b._entries]), a.shape)


@_rule("sub")
def _sub(a: Any, b: Any) -> Any:
    return _add(a, -b)


@_rule("add_scaled")
def _add_scaled(a: Any, b: Any, alpha: Any) -> Any:
    return _add(a, b * alpha)


@_rule("sub_scaled")
def _sub_scaled(a: Any, b: Any, alpha: Any) -> Any:
    return _add(a, b * -alpha)


@_rule("mul")
def _mul(a: Any, b: Any) -> Any:
    """Zero wherever a sparse factor is."""
    if not getattr(a, "is_sparse", False):
        a, b = b, a
    return _with_values(a, a._entries * _opposite(a, b))


@_rule("div")
def _div(a: Any, b: Any) -> Any:
    if not getattr(a, "is_sparse", False) or getattr(b, "is_sparse", False):
        raise SparseOperandError  # 0 / 0
    return _with_values(a, a._entries / _opposite(a, b))


def _opposite(a: SparseTensor, b: Any) -> Any:
    """The elements of ``b``, of the same shape or without dimensions, where ``a`` has its entries."""
    if not isinstance(b, Tensor) or not b.ndim:
        return b
    if a.shape != b.shape:
        raise NotImplementedError("a product with a sparse tensor does not broadcast: expand() the other operand")
    dense: Any = b.to_dense() if b.is_sparse else b
    return dense[_where(a)]


@_rule("_to_copy")
def _to_copy(x: SparseTensor, dtype: DType, *rest: Any) -> SparseTensor:
    return _with_values(x, door.apply(OPS["_to_copy"], x._entries, dtype, *rest))


@_rule("clone")
def _clone(x: SparseTensor) -> SparseTensor:
    return _make(x._positions.clone(), x._entries.clone(), x.shape, x._is_coalesced)


@_rule("zeros_like")
def _zeros_like(x: SparseTensor, dtype: DType | None = None) -> SparseTensor:
    entries = x._entries[:0].detach()
    return _make(x._positions[:, :0], entries.to(dtype or x.dtype), x.shape, True)


@_rule("sum")
def _sum(x: SparseTensor, dims: Any, keepdim: bool, dtype: DType | None = None) -> Any:
    return door.apply(OPS["sum"], x._entries, None, False, dtype)


@_rule("t")
def _t(x: SparseTensor) -> SparseTensor:
    if x.dense_dim() or x.ndim != 2:
        raise SparseOperandError
    return _make(x._positions.flip(0), x._entries, x.shape[::-1])


@_rule("mm")
def _mm(a: Any, b: Any) -> Any:
    """A sparse matrix times a dense one: rows of the dense one, weighted, added up."""
    if not a.is_sparse:
        return _mm(b.t(), a.t()).t()
    if b.is_sparse or a.dense_dim() or a.ndim != 2 or b.ndim != 2:
        raise SparseOperandError
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
                           f"{b.shape[0]}x{b.shape[1]})")  # fmt: skip
    rows, columns = _where(a)
    products = a._entries.unsqueeze(1) * b[columns]
    return zeros(a.shape[0], b.shape[1], dtype=products.dtype, device=products.device).index_add(0, rows, products)


def _entrywise(name: str, is_linear: bool) -> Rule:
    """The rule of an operation that maps 0 to 0, entry by entry; places given twice are added up first."""
    op = OPS[name]

    def rule(x: SparseTensor, *params: Any) -> SparseTensor:
        source = x if is_linear else x.coalesce()
        return _with_values(source, door.apply(op, source._entries, *params))

    return rule


_RULES.update({name: _entrywise(name, True) for name in ("neg", "detach")})
_NONLINEAR = "abs sqrt sin tan asin atan sinh tanh expm1 log1p erf floor ceil trunc round sign relu isnan isinf".split()
_RULES.update({name: _entrywise(name, False) for name in _NONLINEAR})


def _apply_sparse(op: Any, args: tuple[Any, ...]) -> Any:
    """``dispatch.apply`` where an operand is sparse."""
    rule = _RULES.get(op.name)
    if rule is not None:
        try:
            return rule(*args)
        except SparseOperandError:
            pass  # not these operands
    raise NotImplementedError(
        f"Could not run '{op.name}' with arguments from the 'SparseCPU' backend; use to_dense() first"
    )


def _apply_inplace_sparse(op: Any, targets: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """``dispatch.apply_inplace`` where an operand, or the target, is sparse."""
    (target,) = targets
    if not target.is_sparse:
        if op.name == "add" and args[0] is target and args[1].dtype is target.dtype:
            _check_same_shape(*args)
            target.index_put_(_where(args[1]), args[1]._entries, accumulate=True)
        else:
            door.apply_inplace(OPS["copy"], targets, target, _apply_sparse(op, args))
        return targets
    if op.name == "copy":
        source = args[1]
        result = _zeros_like(target) if isinstance(source, int | float) and source == 0 else source
    else:
        result = _apply_sparse(op, args)
    if not getattr(result, "is_sparse", False) or result.shape != target.shape or result.dtype is not target.dtype:
        raise NotImplementedError(f"in-place '{op.name}' of a sparse tensor needs a sparse result of the same type")
    target._positions, target._entries = result._positions, result._entries
    target._is_coalesced = result._is_coalesced
    count_write(target)
    return targets


def add_entries(target: Tensor, x: SparseTensor, factor: float) -> None:
    """``target += factor * x`` for a dense target, as an optimizer does it: straight to its one write."""
    if x.dtype is not target.dtype or x.shape != target.shape:
        target.add_(x * factor)
        return
    where = _where(x)
    put = OPS[f"index_put_accumulate{len(where)}"]
    door.apply_inplace(put, (target,), target, x._entries * factor, *where, tuple(range(len(where))))


# --- of dense tensors ---


def _to_sparse(self: Any, sparse_dim: int | None = None) -> SparseTensor:
    """The elements (slices, with fewer ``sparse_dim``) that are not zero. Looks at the values."""
    count = self.ndim if sparse_dim is None else sparse_dim
    if not 0 < count <= self.ndim:
        raise RuntimeError(f"sparse_dim must be in (0, {self.ndim}], but got {count}")
    present = self.detach() != 0
    for _ in range(self.ndim - count):
        present = present.any(-1)
    where = nonzero(present, as_tuple=True)
    return _make(stack(list(where)), self[where], self.shape, True)


def _to_dense(self: Any, dtype: DType | None = None, *, masked_grad: bool | None = None) -> Any:
    """The tensor itself, of another dtype if one is given."""
    return self if dtype is None else self.to(dtype)


def _only_sparse(name: str) -> Rule:
    def method(self: Any) -> Any:
        raise RuntimeError(f"{name} expected sparse coordinate tensor layout but got Strided")

    method.__name__ = method.__qualname__ = name
    method.__doc__ = "Of sparse tensors only; RuntimeError."
    return method


def _attach() -> None:
    Tensor.layout = strided  # type: ignore[attr-defined]
    Tensor.to_sparse, Tensor.to_dense = _to_sparse, _to_dense  # type: ignore[attr-defined]
    for name in ("indices", "values", "coalesce", "is_coalesced", "_nnz", "_indices", "_values"):
        setattr(Tensor, name, _only_sparse(name))


_attach()
dispatch.install_sparse(_apply_sparse, _apply_inplace_sparse)
dispatch_hook.install_sparse(_make_gradient)
