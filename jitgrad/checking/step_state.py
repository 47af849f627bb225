"""All that a step may change, so that it can be run twice from the same start.

Owns: ``StepState``: what a function reaches, a copy of it, and putting it back.
Must not know: what is done in between.
In: a function and its arguments. Out: the tensors it reaches, by a name that a person knows.

# Note [State of a step]
# ~~~~~~~~~~~~~~~~~~~~~~
# A step changes parameters, gradients, moments, buffers, generators, and whatever else its objects hold. Reached from
# the function are: its arguments, its closure and defaults, the globals that its code names, the object of a method,
# and from each of these the items of containers and the attributes of objects, but no modules and no classes. Tensors
# and arrays are copied, containers and attributes are noted one level deep, and their items are followed. Streams of
# random numbers (jitgrad's default one, NumPy's, ``random``'s, and every ``Generator`` that is reached) are part of it.
# Files, sockets and iterators are not: a step that reads from one reads on.
"""

from __future__ import annotations

import random
import re
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jitgrad.compile import CompiledFunction
from jitgrad.generator import Generator, restore_stream, stream_state
from jitgrad.tensor_base import TensorBase
from jitgrad.version_counter import count_write

__all__ = ["StepState", "named_tensors", "reached_tensors"]

_MAX_OBJECTS = 200_000
_SKIPPED = (
    types.ModuleType, type, str, bytes, int, float, complex, bool, type(None), types.BuiltinFunctionType,
    types.CodeType, types.GeneratorType, range, slice,
)  # fmt: skip
_PARTS = re.compile(r"\._(?:modules|parameters|buffers)\['([^']+)'\]")


def _code_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code_names(constant)


def _of_function(fn: types.FunctionType, name: str) -> Iterator[tuple[str, Any]]:
    for free, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            yield free, cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for nr, default in enumerate(fn.__defaults__ or ()):
        yield f"{name}.__defaults__[{nr}]", default
    for key, default in (fn.__kwdefaults__ or {}).items():
        yield f"{name}.__kwdefaults__[{key!r}]", default
    for key in dict.fromkeys(_code_names(fn.__code__)):
        if key in fn.__globals__:
            yield key, fn.__globals__[key]


def _children(obj: Any, name: str, names: dict[int, str]) -> Iterator[tuple[str, Any]]:
    """What an object holds, with names."""
    if isinstance(obj, types.FunctionType):
        yield from _of_function(obj, name)
    elif isinstance(obj, types.MethodType):
        yield (name.rpartition(".")[0] or name), obj.__self__
        yield name, obj.__func__
    elif isinstance(obj, CompiledFunction):
        yield name, obj.fn
    elif isinstance(obj, TensorBase):
        if obj._grad is not None:
            yield f"{name}.grad", obj._grad
        if obj.is_sparse:
            yield f"{name}.indices", obj._indices()
            yield f"{name}.values", obj._values()
    elif isinstance(obj, dict):
        for key, item in list(obj.items()):
            shown = names.get(id(key)) or (f"<{type(key).__name__}>" if isinstance(key, TensorBase) else repr(key))
            yield f"{name}[{shown}]", item
    elif isinstance(obj, list | tuple | deque):
        for nr, item in enumerate(obj):
            yield f"{name}[{nr}]", item
    elif isinstance(obj, set | frozenset):
        for nr, item in enumerate(obj):
            yield f"{name}{{{nr}}}", item
    elif hasattr(obj, "func") and hasattr(obj, "keywords") and not hasattr(obj, "_modules"):  # functools.partial
        yield name, obj.func
        yield f"{name}.args", obj.args
        yield f"{name}.keywords", obj.keywords
    else:
        for key, item in list(getattr(obj, "__dict__", {}).items()):
            yield f"{name}.{key}", item


def _reached(roots: list[tuple[str, Any]], names: dict[int, str] | None = None) -> Iterator[tuple[str, Any]]:
    """Every object that can be reached, once, the nearest first; ``names`` gets those of tensors, by identity."""
    seen: set[int] = set()
    names = {} if names is None else names
    waiting = deque(roots)
    keep: list[Any] = []  # ids must not be used again meanwhile
    while waiting and len(seen) < _MAX_OBJECTS:
        name, obj = waiting.popleft()
        if id(obj) in seen or isinstance(obj, _SKIPPED):
            continue
        seen.add(id(obj))
        keep.append(obj)
        if isinstance(obj, TensorBase):
            names[id(obj)] = name
        yield name, obj
        waiting.extend(_children(obj, name, names))


def _shown(name: str) -> str:
    return _PARTS.sub(r".\1", name)


def _roots(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    own = fn.fn if isinstance(fn, CompiledFunction) else fn
    first = 1 if isinstance(own, types.MethodType) else 0
    plain: Any = own.__func__ if isinstance(own, types.MethodType) else own
    names = plain.__code__.co_varnames[: plain.__code__.co_argcount] if isinstance(plain, types.FunctionType) else ()
    given = [(names[nr + first] if nr + first < len(names) else f"args[{nr}]", x) for nr, x in enumerate(args)]
    return [*given, *kwargs.items(), (getattr(own, "__name__", "step"), fn)]


def reached_tensors(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any = None
) -> Iterator[tuple[str, Any]]:
    """(name, tensor or array) of everything that the step reaches or has returned, each once."""
    roots = [("result", result), *_roots(fn, args, kwargs)]
    names: dict[int, str] = {}
    for _ in _reached(roots, names):  # an optimizer's state is named by parameters that may be found after it
        pass
    for name, obj in _reached(roots, names):
        if isinstance(obj, TensorBase | np.ndarray):
            yield _shown(name), obj


def named_tensors(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> dict[str, Any]:
    """Name -> array, of every tensor that the step reaches or has returned; of a complex one, both parts in a row."""
    found: dict[str, Any] = {}
    for name, obj in reached_tensors(fn, args, kwargs, result):
        if isinstance(obj, TensorBase) and _has_memory(obj):
            array = obj._storage.array(obj._aval)
            is_complex = array.dtype.kind == "c"
            found.setdefault(name, np.stack([array.real, array.imag]) if is_complex else array.copy())
        elif isinstance(obj, np.ndarray) and obj.dtype.kind in "fiub":
            found.setdefault(name, obj.copy())
    return found


def _has_memory(tensor: Any) -> bool:
    return (
        not tensor.is_sparse
        and tensor._storage is not None
        and bool(tensor._storage.addr)
        and (tensor._aval.device.type == "cpu")
    )


class StepState:
    """A copy of what a step may change."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._undo: list[Callable[[], None]] = []
        for _, obj in _reached(_roots(fn, args, kwargs)):
            undo = _undo_of(obj)
            if undo is not None:
                self._undo.append(undo)
        stream, numbers, python = stream_state(), np.random.get_state(), random.getstate()
        self._undo += [
            lambda: restore_stream(stream),
            lambda: np.random.set_state(numbers),
            lambda: random.setstate(python),
        ]

    def restore(self) -> None:
        """Put it back; may be called many times."""
        for undo in self._undo:
            undo()


def _undo_of(obj: Any) -> Callable[[], None] | None:
    """What puts an object back as it is now; None: it cannot change, or there is no copy of such an object."""
    if isinstance(obj, TensorBase):
        return _undo_sparse(obj) if obj.is_sparse else _undo_tensor(obj)
    if isinstance(obj, np.ndarray):
        before = obj.copy()
        return (lambda: np.copyto(obj, before)) if obj.flags.writeable else None
    if isinstance(obj, np.random.Generator):
        bits, state = obj.bit_generator, obj.bit_generator.state
        return lambda: setattr(bits, "state", state)
    if isinstance(obj, random.Random):
        numbers = obj.getstate()
        return lambda: obj.setstate(numbers)
    if isinstance(obj, Generator):
        stream = obj.state_bytes()
        return lambda: obj.restore_bytes(stream)
    return _undo_container(obj)


def _undo_container(obj: Any) -> Callable[[], None] | None:
    if isinstance(obj, dict):
        items = dict(obj)
        return lambda: _refill(obj, items, obj.update)
    if isinstance(obj, list | deque):
        elements = list(obj)
        return lambda: _refill(obj, elements, obj.extend)
    if isinstance(obj, set):
        members = set(obj)
        return lambda: _refill(obj, members, obj.update)
    if isinstance(obj, types.FunctionType | types.MethodType | CompiledFunction):
        return None
    attributes = getattr(obj, "__dict__", None)
    return _undo_container(attributes) if type(attributes) is dict else None


def _refill(container: Any, items: Any, fill: Callable[[Any], Any]) -> None:
    """Only if something has changed: a hook may watch a container."""
    same = len(container) == len(items) and all(a is b for a, b in zip(container, items, strict=True))
    if same and (not isinstance(container, dict) or all(container[k] is v for k, v in items.items())):
        return
    container.clear()
    fill(items)


def _undo_sparse(tensor: Any) -> Callable[[], None]:
    """Indices and values are tensors, which are put back for themselves."""
    parts = tensor._entries, tensor._positions, tensor._is_coalesced, tensor._grad

    def undo() -> None:
        tensor._entries, tensor._positions, tensor._is_coalesced, tensor._grad = parts

    return undo


def _undo_tensor(tensor: Any) -> Callable[[], None]:
    storage, aval, grad, requires = tensor._storage, tensor._aval, tensor._grad, tensor._requires_grad
    array = storage.array(aval).copy() if _has_memory(tensor) else None

    def undo() -> None:
        if tensor._storage is not storage:
            tensor._storage, tensor._aval, tensor._array = storage, aval, None
        if array is not None:
            memory = storage.array(aval)
            if memory.tobytes() != array.tobytes():
                memory[...] = array
                count_write(tensor)
        tensor._grad, tensor._requires_grad = grad, requires

    return undo
