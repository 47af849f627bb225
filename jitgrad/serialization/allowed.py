"""What a file may name, and what these names mean.

Owns: the list; what users add to it.
Must not know: files.

A name of the list is a value, such as a dtype, or a ``Call``: a function of ours that checks its arguments. Functions
and classes of Python never come into the hands of a file, but for classes that were declared safe and for jitgrad's own
layers and optimizers, whose objects it may make.
"""

from __future__ import annotations

import pickle
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from jitgrad import dtypes, functions, layouts
from jitgrad.devices import Device
from jitgrad.dtypes import DType
from jitgrad.layouts import Size

__all__ = [
    "DTYPES",
    "STORAGE_DTYPES",
    "Call",
    "RefusedError",
    "StorageType",
    "add_safe_globals",
    "clear_safe_globals",
    "find_global",
    "get_safe_globals",
    "is_declared",
    "is_safe_class",
    "safe_globals",
]

DTYPES: dict[str, DType] = {d.name: d for d in vars(dtypes).values() if isinstance(d, DType)}
"""By name, all that there are."""

STORAGE_DTYPES = {
    "FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128", "UntypedStorage": "",
}  # fmt: skip
"""PyTorch's classes of storages, and the dtypes of their elements."""

_OWN = ("jitgrad.nn.", "jitgrad.optim.")
"""Packages whose classes a file may make objects of."""


class RefusedError(pickle.UnpicklingError):
    """A file names what it may not."""


class Call:
    """What a file may call, by a name of its list.

    Attributes:
        function: checks its arguments.
    """

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


class StorageType:
    """A class of storages, as part of a storage's reference.

    Attributes:
        name: PyTorch's.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


def _encode(text: str, encoding: str) -> bytes:
    """How protocol 2 writes bytes."""
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise ValueError("bytes in an unknown encoding")
    return text.encode("latin1")


def _device(kind: str, index: int | None = None) -> Device:
    return Device(kind if index is None else f"{kind}:{index}")


def _layout(name: str) -> Any:
    return {"torch.strided": layouts.strided, "torch.sparse_coo": layouts.sparse_coo}[name]


def _made_of(kind: Any) -> Callable[..., Any]:
    """A container of a container, made anew."""

    def make(items: Any = ()) -> Any:
        if not isinstance(items, list | tuple | dict | set | str | bytes):
            raise TypeError(f"{kind.__name__} of {type(items).__name__}")
        return kind(items)

    return make


_CALLS: dict[str, Callable[..., Any]] = {
    "_codecs.encode": _encode,
    "builtins.bytearray": _made_of(bytearray),
    "builtins.bytes": _made_of(bytes),
    "builtins.complex": lambda real, imag: complex(float(real), float(imag)),
    "builtins.dict": _made_of(dict),
    "builtins.frozenset": _made_of(frozenset),
    "builtins.list": _made_of(list),
    "builtins.tuple": _made_of(tuple),
    "builtins.set": _made_of(set),
    "collections.Counter": _made_of(Counter),
    "collections.OrderedDict": _made_of(OrderedDict),
    "torch.Size": _made_of(Size),
    "jitgrad.layouts.Size": _made_of(Size),
    "torch.device": _device,
    "torch.serialization._get_layout": _layout,
}


def find_global(module: str, name: str, rebuild: dict[str, Callable[..., Any]]) -> Any:
    """What a name in a file stands for.

    Args:
        rebuild: further calls, by full name.

    Raises:
        RefusedError: it is not on the list.
    """
    module = {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module)
    full = f"{module}.{name}"
    call = rebuild.get(full) or _CALLS.get(full)
    if call is not None:
        return Call(call)
    if module in ("torch", "torch.storage") and name in STORAGE_DTYPES:
        return StorageType(name)
    if module == "torch" and name in DTYPES:
        return DTYPES[name]
    if module == "torch" and isinstance(getattr(layouts, name, None), layouts.memory_format):
        return getattr(layouts, name)
    found = _safe.get(full) or _own_class(module, name) or _own_function(module, name)
    if found is None:
        raise _refusal(full)
    return found


def _own_class(module: str, name: str) -> Any:
    """A class of jitgrad's layers or optimizers, by its own name; None for any other."""
    found = getattr(sys.modules.get(module), name, None) if module.startswith(_OWN) else None
    return found if isinstance(found, type) and found.__module__ == module else None


def _own_function(module: str, name: str) -> Any:
    """A function of tensors that a layer refers to, as an activation; the file may not call it. None for any other."""
    if module == "jitgrad.nn.functional":
        return functions.LAYERS.get(name)
    return functions.PUBLIC.get(name) if module == "jitgrad.functions" else None


def _refusal(full: str) -> RefusedError:
    if full.startswith("torch.") and full.removeprefix("torch.") in _TORCH_DTYPES:
        return RefusedError(f"the file holds tensors of {full}, and jitgrad has no such dtype")
    return RefusedError(
        f"Weights only load failed: the file names {full}, which is neither a tensor nor a plain container. If it is a "
        f"class of yours, and you trust the file, declare it: jitgrad.serialization.add_safe_globals([{full}]). "
        "Better, save state_dict()s: they hold nothing but tensors."
    )


_TORCH_DTYPES = frozenset(
    "uint8 uint16 uint32 uint64 int8 int16 float16 bfloat16 half complex32 complex64 complex128 float8_e4m3fn "
    "float8_e5m2".split()
)

_safe: dict[str, Any] = {}


def is_safe_class(kind: Any) -> bool:
    """Whether a file may make objects of a class, and set their attributes."""
    return isinstance(kind, type) and (is_declared(kind) or kind.__module__.startswith(_OWN))


def is_declared(item: Any) -> bool:
    """Whether ``add_safe_globals`` was given a class or function: a file may call it with any arguments."""
    return any(item is one for one in list(_safe.values()))


def _named(item: Any) -> tuple[str, Any]:
    if isinstance(item, tuple):
        found, full = item
        return full, found
    return f"{item.__module__}.{item.__qualname__}", item


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Let files name these classes and functions: they may make objects of the classes, and call the functions.

    Args:
        safe_globals: classes and functions; (it, its full name in the file) where that is another one.
    """
    _safe.update(map(_named, safe_globals))


def get_safe_globals() -> list[Any]:
    """What ``add_safe_globals`` was given."""
    return list(_safe.values())


def clear_safe_globals() -> None:
    """Forget what ``add_safe_globals`` was given."""
    _safe.clear()


class safe_globals:
    """``add_safe_globals`` for the time of a ``with`` block."""

    def __init__(self, safe_globals: Iterable[Any]) -> None:
        self._wanted = list(safe_globals)

    def __enter__(self) -> None:
        self._before = dict(_safe)
        add_safe_globals(self._wanted)

    def __exit__(self, *error: Any) -> None:
        _safe.clear()
        _safe.update(self._before)
