"""Products over chosen dimensions, norms of slices, reductions by position: compositions of other functions.

Owns: tensordot, renorm, index_reduce, fill, nonzero_static, constant_pad_nd, native_layer_norm, norm_except_dim,
frobenius_norm, nuclear_norm, resize_as_, numel, result_type, can_cast, and in-place forms of products.
Must not know: how these are computed. Imported late.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.dtypes import BOOLEAN, COMPLEX, FLOATING, DType, as_dtype, bool_
from jitgrad.functions.creation import empty
from jitgrad.functions.devices import placed
from jitgrad.functions.from_data import own_array
from jitgrad.functions.joining import pad
from jitgrad.functions.known_makings import made_again
from jitgrad.functions.linalg import addbmm, addmv, addr, baddbmm, matmul
from jitgrad.functions.outputs import takes_out, write_out
from jitgrad.functions.pointwise import where
from jitgrad.functions.reduction import norm
from jitgrad.functions.scattering import scatter_reduce
from jitgrad.functions.views import as_strided
from jitgrad.ops import shapes
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.layers.normalization import check_norm_dtypes
from jitgrad.ops.shapes import numel as count_of
from jitgrad.ops.shapes import refuse, wrap_dim
from jitgrad.tensor_base import TensorBase

__all__ = [
    "addbmm_", "addmv_", "addr_", "as_strided_", "baddbmm_", "can_cast", "constant_pad_nd", "empty_permuted", "fill",
    "frobenius_norm", "index_reduce", "index_reduce_", "native_layer_norm", "nonzero_static", "norm_except_dim",
    "nuclear_norm", "numel", "renorm", "renorm_", "resize_as_", "result_type", "tensordot",
]  # fmt: skip


# --- products ---


def tensordot(a: Any, b: Any, dims: Any = 2, out: Any = None) -> Any:
    """The sum of products over several dimensions.

    Args:
        dims: how many last dimensions of ``a`` and first ones of ``b`` are summed over; or two lists of dimensions, or
            a tensor [2, k] with them.

    Raises:
        RuntimeError: dimensions that do not fit, or both operands without such.
    """
    for name, x in (("input", a), ("other", b)):
        if not isinstance(x, TensorBase):
            raise TypeError(f"tensordot(): argument '{name}' must be Tensor, not {type(x).__name__}")
    left, right = _contracted(a, b, dims)
    if len(left) != len(right):
        raise RuntimeError(f"both dimension lists should have same length, got {len(left)} and {len(right)}")
    if not isinstance(dims, int):
        for name, chosen in (("a", left), ("b", right)):
            if len(set(chosen)) < len(chosen):
                raise RuntimeError(f"dim {chosen[0]} appears multiple times in the list of dims of {name}")
    left = [wrap_dim(d, a.ndim) for d in left]
    right = [wrap_dim(d, b.ndim) for d in right]
    for i, j in zip(left, right, strict=True):
        m, n = a.shape[i], b.shape[j]
        if m == n:
            continue
        if m == 1:
            b = b.sum(j, True, dtype=b.dtype)
        elif n == 1:
            a = a.sum(i, True, dtype=a.dtype)
        else:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {m} in dim {i} and second has size {n} in "
                f"dim {j}"
            )
    free_left = [d for d in range(a.ndim) if d not in left]
    free_right = [d for d in range(b.ndim) if d not in right]
    shape = (*(a.shape[d] for d in free_left), *(b.shape[d] for d in free_right))
    rows, columns = count_of(a.shape[d] for d in free_left), count_of(b.shape[d] for d in free_right)
    width = count_of(a.shape[d] for d in left)
    x, y = _as_matrix(a, (*free_left, *left), (rows, width)), _as_matrix(b, (*right, *free_right), (width, columns))
    found = matmul(x, y)
    found = found if found.shape == shape else found.reshape(shape)
    return found if out is None else write_out(found, out)


def _as_matrix(x: Any, dims: tuple[int, ...], shape: tuple[int, int]) -> Any:
    """The tensor with its dimensions in this order, as a matrix."""
    x = x if dims == (*range(x.ndim),) else x.permute(dims)
    return x if x.shape == shape else x.reshape(shape)


def _contracted(a: Any, b: Any, dims: Any) -> tuple[list[int], list[int]]:
    if isinstance(dims, TensorBase):
        dims = dims.tolist() if dims.ndim else int(dims)
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        return list(range(-dims, 0)), list(range(dims))
    if not isinstance(dims, list | tuple) or len(dims) != 2:
        raise RuntimeError(f"tensordot expects dims to be int or tuple of two lists, but got dims={dims}")
    return tuple([d] if isinstance(d, int) else list(d) for d in dims)  # type: ignore[return-value]


def addbmm_(self: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """In-place ``addbmm``."""
    return self.copy_(addbmm(self, batch1, batch2, beta=beta, alpha=alpha))


def baddbmm_(self: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """In-place ``baddbmm``."""
    return self.copy_(baddbmm(self, batch1, batch2, beta=beta, alpha=alpha))


def addmv_(self: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """In-place ``addmv``."""
    return self.copy_(addmv(self, mat, vec, beta=beta, alpha=alpha))


def addr_(self: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """In-place ``addr``."""
    return self.copy_(addr(self, vec1, vec2, beta=beta, alpha=alpha))


# --- norms ---


@takes_out
def renorm(input: Any, p: float, dim: int, maxnorm: float) -> Any:
    """Slices along ``dim`` whose p-norm is above ``maxnorm``, scaled down to it.

    Raises:
        RuntimeError: less than two dimensions, an order that is not positive, or a negative limit.
    """
    if not p > 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if not maxnorm >= 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    d = wrap_dim(dim, input.ndim)
    sizes = norm(input, p, tuple(k for k in range(input.ndim) if k != d), True)
    return input * where(sizes > maxnorm, maxnorm / (sizes + 1e-7), 1.0)


def renorm_(self: Any, p: float, dim: int, maxnorm: float) -> Any:
    """In-place ``renorm``."""
    return self.copy_(renorm(self, p, dim, maxnorm))


def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """The norms of slices along ``dim``, which stays; of all elements for -1."""
    if dim == -1:
        return norm(v, pow)
    d = wrap_dim(dim, v.ndim)
    others = tuple(k for k in range(v.ndim) if k != d)
    return norm(v, pow, others, True) if others else v.abs()


@takes_out
def frobenius_norm(input: Any, dim: Any, keepdim: bool = False) -> Any:
    """The root of the sum of squares over ``dim``."""
    return norm(input, 2, tuple(dim) if isinstance(dim, list | tuple) else dim, keepdim)


@takes_out
def nuclear_norm(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The sum of the singular values of the matrices in two dimensions."""
    if isinstance(dim, bool):  # the form without dimensions
        dim, keepdim = None, dim
    return norm(input, "nuc", dim, keepdim)


def native_layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float
) -> tuple[Any, Any, Any]:
    """(``layer_norm``, mean, the reciprocal of the deviation) over the last dimensions, which stay as 1."""
    dims = tuple(range(-len(normalized_shape), 0))
    if tuple(input.shape[len(input.shape) - len(dims) :]) != tuple(normalized_shape):
        raise RuntimeError(
            f"Given normalized_shape={list(normalized_shape)}, expected input with shape "
            f"[*{''.join(f', {n}' for n in normalized_shape)}], but got input of size{list(input.shape)}"
        )
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and tuple(given.shape) != tuple(normalized_shape):
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape {list(given.shape)} "
                f"and normalized_shape = {list(normalized_shape)}"
            )
    check_norm_dtypes("LayerNormKernelImpl", input._aval, *(x if x is None else x._aval for x in (weight, bias)))
    out, mean, rstd = call("native_layer_norm_plain", input, tuple(normalized_shape), eps)
    if weight is not None:
        out = out * weight
    if bias is not None:
        out = out + bias
    of_statistics = weight.dtype if weight is not None else input.dtype
    return out.to(input.dtype), mean.detach().to(of_statistics), rstd.detach().to(of_statistics)


# --- by position ---

_REDUCTIONS = ("prod", "mean", "amax", "amin")


@takes_out
def index_reduce(input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """The rows of ``dim`` that ``index`` names, combined with those of ``source``.

    Args:
        index: [n], integers.
        source: the input's shape with n in the place of ``dim``'s extent.
        reduce: prod, mean, amax or amin.
        include_self: whether the input's own rows count where a row arrives.

    Raises:
        RuntimeError: shapes, dtypes or positions that do not fit, another reduction.
    """
    refuse("index_func_", input, (bool_,))
    return scatter_reduce(*_by_rows(input, dim, index, source, reduce), include_self=include_self)


def index_reduce_(self: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """In-place ``index_reduce``."""
    _, *rest = _by_rows(self, dim, index, source, reduce)
    return self.scatter_reduce_(*rest, include_self=include_self)


def _by_rows(x: Any, dim: int, index: Any, source: Any, reduce: str) -> tuple[Any, ...]:
    if reduce not in _REDUCTIONS:
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
        )
    d = wrap_dim(dim, x.ndim)
    if index.ndim > 1:
        raise IndexError(f"index_reduce_(): Expected index to be a vector but got {index.ndim}")
    if x.dtype is not source.dtype:
        raise RuntimeError("index_reduce_(): self and source must have the same scalar type")
    if x.ndim:
        wide = [1] * x.ndim
        wide[d] = index.numel()
        shape = (*x.shape[:d], index.numel(), *x.shape[d + 1 :])
        if source.shape != shape:
            raise RuntimeError(
                f"index_reduce_(): Number of indices ({index.numel()}) should be equal to source.size(dim), for dim: "
                f"{d}, and the other extents those of self, but got {list(x.shape)} and {list(source.shape)}"
            )
        index = index.reshape(wide).expand(shape)
    else:
        index, source = index.reshape(()), source.reshape(())
    return x, d, index, source, reduce


def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Any:
    """As ``nonzero``, cut or filled up to ``size`` rows."""
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, but got {size}")
    array, width = input._ndarray(), input.ndim
    found = array.nonzero() if width else ()
    rows = np.empty((size, width), np.int64)
    rows.fill(fill_value)
    for d, positions in enumerate(found):
        rows[: len(positions), d] = positions[:size]
    return placed(own_array(rows), input.device)


# --- other names, and questions ---


def fill(input: Any, value: Any) -> Any:
    """A copy with every element overwritten by ``value``, a number or a tensor without dimensions."""
    return input.clone().fill_(value)


def constant_pad_nd(input: Any, pad_: Any = None, value: Any = 0, **given: Any) -> Any:
    """As ``nn.functional.pad`` with a constant."""
    return pad(input, given.get("pad", pad_), "constant", value)


@made_again
def empty_permuted(size: Any, physical_layout: Any, **options: Any) -> Any:
    """A tensor of any contents whose dimensions lie in memory in the order of ``physical_layout``, the slowest first.

    Raises:
        RuntimeError: that is no order of all dimensions.
    """
    shape, order = tuple(size), tuple(physical_layout)
    if len(order) != len(shape):
        raise RuntimeError(
            f"Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = "
            f"{len(shape)} is not equal to len(physical_layout) = {len(order)}"
        )
    for d in order:
        if not 0 <= d < len(shape):
            raise RuntimeError(f"Dimension out of range (expected to be between 0 and {len(shape) - 1}, but got {d})")
    if len(set(order)) < len(order):
        raise RuntimeError(f"Duplicate dim not allowed: {list(order)}")
    options = {key: value for key, value in options.items() if key not in ("layout", "pin_memory")}
    return empty(tuple(shape[d] for d in order), **options).permute(tuple(order.index(d) for d in range(len(shape))))


def resize_as_(input: Any, the_template: Any, *, memory_format: Any = None) -> Any:
    """``input.resize_(the_template.shape)``."""
    return input.resize_(the_template.shape)


def as_strided_(self: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """In-place ``as_strided``: the tensor looks at its memory through another layout. RuntimeError in a graph."""
    if self.requires_grad:
        raise RuntimeError("as_strided_() of a tensor that requires grad is not supported; use as_strided()")
    return self.set_(as_strided(self, size, stride, storage_offset))


def numel(input: Any) -> int:
    """The number of elements."""
    if not isinstance(input, TensorBase):
        raise TypeError(f"numel(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return int(input.numel())


def result_type(tensor1: Any, tensor2: Any) -> DType:
    """The dtype that an operation on two tensors or numbers computes in."""
    return shapes.result_dtype(*(getattr(x, "_aval", x) for x in (tensor1, tensor2)))


def can_cast(from_: DType, to: DType) -> bool:
    """Whether an in-place operation may write results of one dtype to a tensor of another."""
    from_, to = as_dtype(from_), as_dtype(to)
    return not (
        (from_.category is COMPLEX and to.category is not COMPLEX)
        or (from_.category is FLOATING and to.category < FLOATING)
        or (from_.category is not BOOLEAN and to.category is BOOLEAN)
    )
