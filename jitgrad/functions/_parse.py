"""PyTorch's argument parser: which calls of a function are accepted, by the kinds of their arguments.

Owns: reading signatures, matching a call against them, the TypeError for one that matches none.
Must not know: which functions there are (``signatures``), what they do.

# Note [Argument parsing]
# ~~~~~~~~~~~~~~~~~~~~~~~
# A function with a signature is wrapped once (``parsed``). Calls are told apart by the types of their arguments (of a
# tuple, also by those of its elements). The first call of a kind is matched against the signatures, one after the
# other; if one of them takes it as it is, the kind is remembered, and the next such call costs one look into a set.
# What a type cannot decide - a tensor where a number is meant, which must have no dimensions - is matched every time,
# and so is what must be converted first (NumPy's integers, NumPy's names ``axis`` and ``keepdims``).
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitgrad.dtypes import DType
from jitgrad.tensor_base import TensorBase

__all__ = ["parsed"]

_MAX_KINDS = 1024
_OTHER_NAMES = {"axis": "dim", "keepdims": "keepdim", "x2": "other"}
_PYTHON_TYPES = (bool, int, float)
_MISMATCH = object()


@dataclass(frozen=True)
class _Parameter:
    """One parameter of a signature: ``int[1]? dim=None``."""

    kind: str
    name: str
    takes_none: bool
    is_needed: bool
    is_keyword: bool
    text: str


@dataclass(frozen=True)
class _Signature:
    parameters: tuple[_Parameter, ...]
    num_positional: int
    varargs: int | None
    """Where the last positional parameter, a list of ints, may also be given as several ints; None: nowhere."""

    def __str__(self) -> str:
        return f"({', '.join(p.text for p in self.parameters)})"


def _read(text: str) -> _Signature:
    parameters: list[_Parameter] = []
    is_keyword, several = False, None
    for part in re.split(r",\s*", text.strip()):
        if part == "*":
            is_keyword = True
            continue
        kind, rest = part.split(" ", 1)
        name, has_default, default = rest.partition("=")
        if name.startswith("*"):
            several, name = len(parameters), name[1:]
        takes_none = kind.endswith("?") or default == "None"
        parameters.append(_Parameter(kind.rstrip("?"), name, takes_none, not has_default, is_keyword, part))
    return _Signature(tuple(parameters), sum(not p.is_keyword for p in parameters), several)


# --- kinds: each check returns the value to hand on, or _MISMATCH ---


def _is_scalar_tensor(x: Any) -> bool:
    return isinstance(x, TensorBase) and not x._aval.shape and not x.requires_grad


def _as_int(x: Any) -> Any:
    if type(x) is int:
        return x
    if isinstance(x, bool | np.bool_):
        return _MISMATCH
    if isinstance(x, int | np.integer):
        return int(x)
    if isinstance(x, TensorBase):
        return int(x) if _is_scalar_tensor(x) and x.dtype.category == 1 else _MISMATCH
    return _MISMATCH


def _as_ints(x: Any) -> Any:
    if not isinstance(x, tuple | list):
        return _MISMATCH
    found = tuple(map(_as_int, x))
    if _MISMATCH in found:
        return _MISMATCH
    return x if type(x) is tuple and all(a is b for a, b in zip(x, found, strict=True)) else found


def _as_one_or_more_ints(x: Any) -> Any:
    found = _as_int(x)
    return _as_ints(x) if found is _MISMATCH else found


def _as_scalar(x: Any) -> Any:
    if isinstance(x, np.generic) and not isinstance(x, float):
        return x.item()
    if isinstance(x, _PYTHON_TYPES):
        return x
    return x.item() if _is_scalar_tensor(x) else _MISMATCH


def _as_bool(x: Any) -> Any:
    if isinstance(x, bool):
        return x
    if isinstance(x, np.bool_) or (_is_scalar_tensor(x) and x.dtype.category == 0):
        return bool(x)
    return _MISMATCH


def _as_tensor(x: Any) -> Any:
    return x if isinstance(x, TensorBase) else _MISMATCH


def _as_tensors(x: Any) -> Any:
    return x if isinstance(x, tuple | list) and all(isinstance(y, TensorBase) for y in x) else _MISMATCH


def _as_dtype(x: Any) -> Any:
    return x if isinstance(x, DType) else _MISMATCH


def _as_number_or_tensor(x: Any) -> Any:
    return x if isinstance(x, TensorBase) else _as_scalar(x)


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "Tensor": _as_tensor,
    "Tensor|Scalar": _as_number_or_tensor,
    "Tensor[]": _as_tensors,
    "Scalar": _as_scalar,
    "float": _as_scalar,
    "int": _as_int,
    "int[]": _as_ints,
    "int[1]": _as_one_or_more_ints,
    "bool": _as_bool,
    "str": lambda x: x if isinstance(x, str) else _MISMATCH,
    "dtype": _as_dtype,
    "any": lambda x: x,
}


def _match(signature: _Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """(args, kwargs) as the function takes them; None if they do not fit."""
    if len(args) > signature.num_positional:
        at = signature.varargs
        if at is None or len(args) <= at:
            return None
        sizes = _as_ints(args[at:])
        if sizes is _MISMATCH or (kwargs and signature.parameters[at].name in kwargs):
            return None
        found = _match(signature, (*args[:at], sizes), kwargs)
        return found and ((*found[0][:at], *sizes), found[1])
    given = {_OTHER_NAMES.get(name, name) if _takes(signature, name) else name: v for name, v in kwargs.items()}
    positional, named = [], {}
    for at, parameter in enumerate(signature.parameters):
        is_positional = at < len(args) and not parameter.is_keyword
        if is_positional:
            if parameter.name in given:
                return None
            value = args[at]
        elif parameter.name in given:
            value = given.pop(parameter.name)
        elif parameter.is_needed:
            return None
        else:
            continue
        if value is not None or not parameter.takes_none:
            value = _CHECKS[parameter.kind](value)
            if value is _MISMATCH and at == signature.varargs and is_positional:
                value = _as_int(args[at])
            if value is _MISMATCH:
                return None
        if is_positional:
            positional.append(value)
        else:
            named[parameter.name] = value
    return None if given else (tuple(positional), named)


def _by_position(signature: _Signature, found: Any, names: set[str]) -> Any:
    """The same call where the function has other names for its parameters than PyTorch: these go by position."""
    positional, named = found
    if names.issuperset(named):
        return found
    for parameter in signature.parameters[len(positional) :]:
        if parameter.is_keyword or parameter.name not in named:
            break
        positional = (*positional, named.pop(parameter.name))
    return positional, named


def _takes(signature: _Signature, name: str) -> bool:
    """Whether NumPy's name of a parameter stands for one of these."""
    return name in _OTHER_NAMES and any(p.name == _OTHER_NAMES[name] for p in signature.parameters)


def _type_name(x: Any) -> str:
    if isinstance(x, tuple | list) and x:
        return f"{type(x).__name__} of ({', '.join(_type_name(y) for y in x)})"
    return type(x).__name__


def _error(name: str, signatures: list[_Signature], args: tuple[Any, ...], kwargs: dict[str, Any]) -> TypeError:
    got = ", ".join([*map(_type_name, args), *(f"{k}={_type_name(v)}" for k, v in kwargs.items())])
    expected = "".join(f"\n * {s}" for s in signatures)
    several = "one of:" if len(signatures) > 1 else ""
    return TypeError(
        f"{name}() received an invalid combination of arguments - got ({got}), but expected {several}{expected}"
    )


def _is_unchanged(found: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    positional, named = found
    return (
        len(positional) == len(args)
        and all(a is b for a, b in zip(positional, args, strict=True))
        and list(named) == list(kwargs)
        and all(named[k] is kwargs[k] for k in named)
    )


def _kind(x: Any) -> Any:
    """What of an argument decides whether it is accepted; of a list of tensors, nothing short of looking does."""
    return tuple(map(type, x)) if type(x) is tuple else type(x)


def parsed(function: Callable[..., Any], text: str) -> Callable[..., Any]:
    """``function``, refusing calls that fit none of the signatures in ``text`` (one per ``|``)."""
    signatures: list[_Signature] = []
    known: set[Any] = set()
    name = function.__name__
    names: set[str] = set()

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        kind: Any = tuple(map(type, args))
        if tuple in kind:
            kind = tuple(map(_kind, args))
        if kwargs:
            kind = (kind, *kwargs, *map(_kind, kwargs.values()))
        if kind in known:
            return function(*args, **kwargs)
        if not signatures:
            parameters = inspect.signature(function).parameters.values()
            names.update(p.name for p in parameters if p.kind is not p.VAR_POSITIONAL)
            signatures.extend(_read(one) for one in text.split(" | "))
        for signature in signatures:
            found = _match(signature, args, kwargs)
            if found is not None:
                found = _by_position(signature, found, names)
                break
        else:
            raise _error(name, signatures, args, kwargs)
        if _is_unchanged(found, args, kwargs) and not _hides_values(signature, args, kwargs):
            if len(known) >= _MAX_KINDS:
                known.clear()
            known.add(kind)
        return function(*found[0], **found[1])

    return call


def _hides_values(signature: _Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the types do not tell it all: a list, or a tensor where a number is meant."""
    if any(isinstance(v, list) for v in (*args, *kwargs.values())):
        return True
    by_name = {p.name: p for p in signature.parameters}
    pairs = [*zip(signature.parameters, args, strict=False), *((by_name[k], v) for k, v in kwargs.items())]
    return any(isinstance(v, TensorBase) and not p.kind.startswith("Tensor") for p, v in pairs)
