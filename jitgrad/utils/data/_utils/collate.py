"""From a list of examples to a batch.

Owns: ``default_collate``, ``default_convert``, and the table of rules by which the first goes.
Must not know: data sets, loaders, processes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from jitgrad.devices import CPU
from jitgrad.dtypes import DType, float64, from_numpy_dtype
from jitgrad.functions import as_tensor, stack, tensor
from jitgrad.ops.aval import make_aval
from jitgrad.runtime.storage.storage import Storage
from jitgrad.state import modes_in_use, state
from jitgrad.tensor import Tensor
from jitgrad.tensor_base import TensorBase, new_tensor

__all__ = [
    "array_of",
    "collate",
    "collate_float_fn",
    "collate_int_fn",
    "collate_numpy_array_fn",
    "collate_numpy_scalar_fn",
    "collate_str_fn",
    "collate_tensor_fn",
    "default_collate",
    "default_collate_fn_map",
    "default_convert",
    "is_plain",
    "new_batch",
]

Rule = Callable[..., Any]
Rules = dict[Any, Rule]

_NOT_NUMBERS = "SaUO"
"""Kinds of NumPy's dtypes that no tensor holds: strings and objects."""
_FOUND = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def default_convert(data: Any) -> Any:
    """``data`` with its NumPy arrays and numbers turned into tensors, in mappings, sequences and named tuples too.

    Plain tuples become lists. Anything else stays as it is. Loaders that make no batches apply this to each example.
    """
    if isinstance(data, TensorBase):
        return data
    if type(data).__module__ == "numpy" and type(data).__name__ not in ("str_", "bytes_"):
        return data if isinstance(data, np.ndarray) and _is_not_numbers(data.dtype) else as_tensor(data)
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _like_sequence(data, [default_convert(item) for item in data])
    return data


def collate(batch: Any, *, collate_fn_map: Rules | None = None) -> Any:
    """A batch from examples, by the class of the first.

    Args:
        batch: a sequence of examples that are alike.
        collate_fn_map: classes (or tuples of them) -> functions of the batch, and of this table as
            ``collate_fn_map=``. The exact class is looked up first, then the table is searched in its order for a
            class that the example is an instance of. Examples that are mappings or sequences, and not in the table,
            are collated by key or position.

    Raises:
        RuntimeError: sequences of different lengths.
        TypeError: examples that nothing fits.
    """
    first = batch[0]
    rule = _rule_for(first, collate_fn_map or {})
    if rule is not None:
        return rule(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        found = {key: collate([example[key] for example in batch], collate_fn_map=collate_fn_map) for key in first}
        return _like_mapping(first, found)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*[collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=False)])
    if isinstance(first, Sequence):
        if any(len(example) != len(first) for example in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=True)]
        return _like_sequence(first, columns)
    raise TypeError(_FOUND.format(type(first)))


def _rule_for(example: Any, rules: Rules) -> Rule | None:
    rule = rules.get(type(example))
    return rule or next((rule for classes, rule in rules.items() if isinstance(example, classes)), None)


def _like_mapping(pattern: Any, found: dict[Any, Any]) -> Any:
    """``found`` as a mapping of the pattern's class, if that can be: a copy keeps what else the pattern holds."""
    try:
        if isinstance(pattern, MutableMapping):
            clone = copy.copy(pattern)
            clone.update(found)
            return clone
        return type(pattern)(found)
    except TypeError:
        return found


def _like_sequence(pattern: Any, found: list[Any]) -> Any:
    """``found`` as a sequence of the pattern's class, if that can be; plain tuples become lists, as in PyTorch."""
    if isinstance(pattern, tuple) or type(pattern) is list:
        return found
    try:
        if isinstance(pattern, MutableSequence):
            clone = copy.copy(pattern)
            for i, item in enumerate(found):
                clone[i] = item
            return clone
        return type(pattern)(found)
    except TypeError:
        return found


def _is_not_numbers(dtype: np.dtype[Any]) -> bool:
    return any(kind in dtype.str for kind in _NOT_NUMBERS)


# --- the rules ---


def collate_tensor_fn(batch: Any, *, collate_fn_map: Rules | None = None) -> Any:
    """Tensors of one shape, stacked along a new first dimension. RuntimeError for sparse ones."""
    if batch[0].is_sparse:
        raise RuntimeError(
            "Batches of sparse tensors are not currently supported by the default collate_fn; please provide a custom "
            "collate_fn to handle them appropriately."
        )
    arrays = _arrays_of(batch)
    return stack(tuple(batch), 0) if arrays is None else _stacked_arrays(arrays, batch[0].dtype)


def _arrays_of(batch: Any) -> list[Any] | None:
    """The memory of tensors that can be stacked as arrays; None if operations on them must be seen, or may fail."""
    first = batch[0]
    if state.handler is not None or modes_in_use or not all(is_plain(x) for x in batch):
        return None
    if any(x.dtype is not first.dtype or x.shape != first.shape for x in batch):
        return None
    return [array_of(x) for x in batch]


def array_of(tensor: Any) -> Any:
    """A plain tensor's memory while nothing is recorded; results of operations then need no storage for it."""
    return tensor._ndarray() if tensor._array is None else tensor._array


def is_plain(tensor: Any) -> bool:
    """Whether nothing is special about a tensor: no subclass, on the CPU, outside any graph."""
    return type(tensor) is Tensor and not tensor.requires_grad and tensor._aval.device is CPU


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: Rules | None = None) -> Any:
    """Arrays, as the tensors that they are turned into. TypeError for arrays of strings or objects."""
    first = batch[0]
    if _is_not_numbers(first.dtype):
        raise TypeError(_FOUND.format(first.dtype))
    plain = (collate_fn_map or {}).get(Tensor) is collate_tensor_fn and state.default_device is None
    if plain and all(type(x) is np.ndarray and x.dtype == first.dtype and x.shape == first.shape for x in batch):
        return _stacked_arrays(batch, from_numpy_dtype(first.dtype))
    return collate([as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def _stacked_arrays(arrays: Sequence[Any], dtype: DType) -> Any:
    """A new tensor of arrays that are alike."""
    batch, memory = new_batch(len(arrays), arrays[0].shape, dtype)
    for row, array in zip(memory, arrays, strict=True) if memory.ndim > 1 else ():
        row[...] = array
    if memory.ndim == 1:
        memory[...] = arrays
    return batch


def new_batch(length: int, shape: tuple[int, ...], dtype: DType) -> tuple[Any, np.ndarray[Any, Any]]:
    """A tensor without values, in memory that batches before it may have had, and that memory as an array."""
    aval = make_aval((length, *shape), dtype)
    storage = Storage(aval.nbytes)
    memory = storage.array(aval)
    return new_tensor(aval, storage, memory), memory


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: Rules | None = None) -> Any:
    """NumPy's numbers, as a tensor of their dtype."""
    return as_tensor(np.array(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: Rules | None = None) -> Any:
    """Python floats, as a float64 tensor."""
    return tensor(batch, dtype=float64)


def collate_int_fn(batch: Any, *, collate_fn_map: Rules | None = None) -> Any:
    """Python integers, as an int64 tensor; truth values as a bool one."""
    return tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: Rules | None = None) -> Any:
    """Strings stay a list."""
    return batch


default_collate_fn_map: Rules = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
"""What ``default_collate`` does, by class; programs may add classes of their own, or change it."""


def default_collate(batch: Any) -> Any:
    """A batch from a list of examples: tensors with a new first dimension, in the structure of the examples.

    Tensors and arrays are stacked; numbers become tensors (floats float64, integers int64); strings stay lists;
    mappings, named tuples and sequences are collated by key or position, and plain tuples become lists.

    Raises:
        RuntimeError: tensors of different shapes, or sequences of different lengths.
        TypeError: examples of another kind.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
