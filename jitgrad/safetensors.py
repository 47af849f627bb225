"""Files of tensors in the safetensors format, as ``safetensors.torch`` reads and writes them.

Owns: dictionaries of tensors, to and from the package ``safetensors`` (the extra ``jitgrad[safetensors]``).
Must not know: the format: the package does, which checks what a file says.
"""

from __future__ import annotations

import os
from typing import Any

from jitgrad.functions.devices import cpu, moved
from jitgrad.functions.from_data import from_array_copy, from_numpy
from jitgrad.lazy import LazyModule
from jitgrad.tensor_base import TensorBase

__all__ = ["load", "load_file", "save", "save_file"]

_LIBRARY, _FOR_NUMPY = LazyModule("safetensors"), LazyModule("safetensors.numpy")


def _library(name: str, part: LazyModule = _FOR_NUMPY) -> Any:
    try:
        return getattr(part, name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("files of safetensors need that package: pip install jitgrad[safetensors]") from error


def load_file(filename: Any, device: Any = "cpu") -> dict[str, Any]:
    """The tensors of a file by name. The file is mapped into memory; each tensor is read when its turn comes.

    Args:
        filename: a path.
        device: where the tensors go.

    Raises:
        ModuleNotFoundError: the package is not installed.
        safetensors.SafetensorError: no such file, or a damaged one.
        TypeError: a dtype that jitgrad has not.
    """
    with _library("safe_open", _LIBRARY)(os.fspath(filename), framework="numpy") as file:
        return {name: moved(_tensor(file.get_tensor(name)), device) for name in file.keys()}  # noqa: SIM118


def _tensor(array: Any) -> Any:
    usable = array.flags.writeable and array.flags.aligned
    return from_numpy(array) if usable else from_array_copy(array)


def load(data: bytes) -> dict[str, Any]:
    """The tensors of a file's contents, by name; raises what ``load_file`` does."""
    return {name: _tensor(array) for name, array in _library("load")(data).items()}


def _arrays(tensors: Any) -> dict[str, Any]:
    """The tensors as the package takes them."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, jitgrad.Tensor] but received {type(tensors)}")
    arrays, owners = dict[str, Any](), dict[int, str]()
    for name, tensor in tensors.items():
        if not isinstance(tensor, TensorBase):
            raise ValueError(f"Key `{name}` is invalid, expected jitgrad.Tensor but received {type(tensor)}")
        if tensor.is_sparse:
            raise ValueError(f"You are trying to save a sparse tensor: `{name}`")
        if not tensor.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. Pack it before "
                "saving, by .contiguous()."
            )
        array = cpu(tensor.detach())._ndarray()
        memory = tensor.untyped_storage().data_ptr()
        if array.nbytes and memory in owners:
            raise RuntimeError(
                f"Some tensors share memory, this will lead to duplicate memory on disk and potential differences when "
                f"loading them again: {{'{owners[memory]}', '{name}'}}"
            )
        owners[memory] = name
        arrays[name] = array
    return arrays


def save_file(tensors: dict[str, Any], filename: Any, metadata: dict[str, str] | None = None) -> None:
    """Write tensors by name.

    Args:
        metadata: strings by name, which stand in the file's header.

    Raises:
        ModuleNotFoundError: the package is not installed.
        ValueError: something is no tensor, sparse, or not contiguous.
        RuntimeError: two tensors share memory.
    """
    _library("save_file")(_arrays(tensors), os.fspath(filename), metadata=metadata)


def save(tensors: dict[str, Any], metadata: dict[str, str] | None = None) -> bytes:
    """A file's contents; raises what ``save_file`` does."""
    data: bytes = _library("save")(_arrays(tensors), metadata=metadata)
    return data
