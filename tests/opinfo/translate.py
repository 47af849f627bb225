"""From PyTorch's samples to jitgrad's: tensors with their strides, dtypes, and functions that call ``torch``.

Owns: what means the same in both libraries.
Must not know: which operations there are, what is compared.

A function of PyTorch's table is often a lambda over the module ``torch``: it is made again, with jitgrad in the place
of that module. So nothing here lists operations one by one.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import types
from collections.abc import Iterator
from typing import Any

import torch

import jitgrad

__all__ = ["TranslationError", "together", "translated"]

_NAMESPACES = (
    "", "Tensor", "nn.functional", "linalg", "special", "fft", "signal.windows", "_refs", "nn.init",
)  # fmt: skip


class TranslationError(Exception):
    """Something that jitgrad has no word for: a dtype, a layout, a name."""


def _find(root: Any, path: str) -> Any:
    for name in path.split("."):
        root = getattr(root, name)
    return root


def _both() -> Iterator[tuple[Any, str]]:
    """(function of PyTorch, its path), the shortest path first."""
    for space in _NAMESPACES:
        holder = _find(torch, space) if space else torch
        for name in dir(holder):
            value = getattr(holder, name, None)
            if callable(value) and (name.startswith("__") or not name.startswith("_")):
                yield value, f"{space}.{name}".lstrip(".")


@functools.cache
def _paths() -> dict[int, str]:
    found: dict[int, str] = {}
    for value, path in _both():
        known = found.get(id(value))
        if known is None or (known.startswith("_refs") and not path.startswith("_refs")):
            found[id(value)] = path
    return found


def _slice(x: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """``aten::slice``, which has no public name."""
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


def _same_seed(op: Any, *args: Any, **kwargs: Any) -> Any:
    """``wrapper_set_seed`` of PyTorch's table."""
    before = jitgrad.get_rng_state()
    jitgrad.manual_seed(42)
    try:
        return op(*args, **kwargs)
    finally:
        jitgrad.set_rng_state(before)


def _module(value: types.ModuleType) -> Any:
    if value.__name__ == "torch":
        return jitgrad
    try:
        return importlib.import_module("jitgrad" + value.__name__.removeprefix("torch"))
    except ImportError as error:
        raise TranslationError(f"module {value.__name__}") from error


_MADE: dict[int, tuple[Any, Any]] = {}
"""Functions that were made again, by the id of the old one, which is kept."""


def _function(f: types.FunctionType) -> Any:
    if id(f) in _MADE:
        return _MADE[id(f)][1]
    if f.__name__ == "wrapper_set_seed":
        return _same_seed
    spaces: dict[str, Any] = dict(f.__globals__)
    made = types.FunctionType(f.__code__, spaces, f.__name__, f.__defaults__, None if not f.__closure__ else tuple(
        types.CellType() for _ in f.__closure__
    ))
    made.__kwdefaults__ = f.__kwdefaults__
    _MADE[id(f)] = (f, made)
    for name in _names(f.__code__):
        if name in spaces:
            spaces[name] = _quietly(spaces[name])
    if f.__defaults__:
        made.__defaults__ = tuple(_quietly(x) for x in f.__defaults__)
    for old, new in zip(f.__closure__ or (), made.__closure__ or (), strict=True):
        new.cell_contents = _quietly(old.cell_contents)
    return made


def _quietly(value: Any) -> Any:
    """What cannot be translated stays: it may never be used."""
    try:
        return translated(value)
    except TranslationError:
        return value


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _tensor(x: torch.Tensor) -> Any:
    """The same elements at the same places of a storage of the same size."""
    if x.layout is not torch.strided or x.is_quantized:
        raise TranslationError(f"a tensor of {x.layout}, {x.dtype}")
    if type(x) is torch.nn.Parameter:
        return jitgrad.nn.Parameter(_tensor(x.data), x.requires_grad)
    dtype = translated(x.dtype)
    if x.device.type == "meta":
        return jitgrad.empty(tuple(x.shape), dtype=dtype, device="meta")
    key = (x.untyped_storage().data_ptr(), x.dtype)
    whole = _storages.get(key)
    if whole is None:
        whole = _whole(x, dtype)
        if key[0]:
            _storages[key] = whole
    found = whole.as_strided(tuple(x.shape), x.stride(), x.storage_offset()).detach()
    return found.requires_grad_() if x.requires_grad else found


def _whole(x: torch.Tensor, dtype: Any) -> Any:
    """All elements of a tensor's storage."""
    count = x.untyped_storage().nbytes() // x.element_size()
    flat = x.detach().as_strided((count,), (1,), 0)
    if x.dtype is torch.bfloat16:
        return jitgrad.from_numpy(flat.float().numpy().copy()).to(dtype)
    return jitgrad.from_numpy(flat.numpy(force=True).copy())


_storages: dict[Any, Any] = {}
_tensors: dict[int, Any] | None = None


def together(value: Any) -> Any:
    """A structure whose tensors share memory as the old ones do; one that occurs twice is one again."""
    global _tensors
    _storages.clear()
    _tensors = {}
    try:
        return translated(value)
    finally:
        _storages.clear()
        _tensors = None


def _attribute(value: Any) -> Any:
    name = str(value).removeprefix("torch.")
    found = getattr(jitgrad, name, None)
    if found is None:
        raise TranslationError(str(value))
    return found


def translated(value: Any) -> Any:
    """The same for jitgrad: a value, a structure of values, or a function."""
    if isinstance(value, torch.Tensor):
        try:
            if _tensors is None:
                _storages.clear()
                return _tensor(value)
            if id(value) not in _tensors:
                _tensors[id(value)] = _tensor(value)
            return _tensors[id(value)]
        except RuntimeError as error:  # its storage is smaller than it says
            raise TranslationError(str(error)) from error
    if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
        return _attribute(value)
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, torch.Generator):
        return jitgrad.Generator().manual_seed(value.initial_seed())
    if isinstance(value, list | tuple):
        return _rebuilt(value)
    if isinstance(value, dict):
        return {key: translated(one) for key, one in value.items()}
    if isinstance(value, slice):
        return slice(translated(value.start), translated(value.stop), translated(value.step))
    if isinstance(value, types.ModuleType):
        return _module(value) if value.__name__.split(".")[0] == "torch" else value
    if value is torch.ops.aten.slice.Tensor:
        return _slice
    if value is torch.Tensor:
        return jitgrad.Tensor
    return _callable(value) if callable(value) or dataclasses.is_dataclass(value) else value


def _rebuilt(value: Any) -> Any:
    parts = [translated(one) for one in value]
    if isinstance(value, list):
        return parts
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)


def _callable(value: Any) -> Any:
    path = _paths().get(id(value))
    if path is not None:
        try:
            return _find(jitgrad, path.removeprefix("_refs."))
        except AttributeError as error:
            raise TranslationError(f"torch.{path}") from error
    if isinstance(value, functools.partial):
        return functools.partial(translated(value.func), *translated(value.args), **translated(value.keywords))
    if isinstance(value, types.FunctionType):
        return _function(value) if (value.__module__ or "").startswith("torch") else value
    if isinstance(value, torch.nn.PairwiseDistance):
        return jitgrad.nn.PairwiseDistance(value.norm, value.eps, value.keepdim)
    if type(value).__name__ == "LinearCrossEntropyOptions":
        return jitgrad.nn.LinearCrossEntropyOptions(**translated(dataclasses.asdict(value)))
    if type(value).__module__.startswith("torch") and not isinstance(value, type):
        raise TranslationError(str(value))
    return value
