"""PyTorch's argument parser: which calls of a function are accepted, by the kinds of their arguments.

Owns: reading signatures, matching a call against them, the TypeError for one that matches none.
Must not know: which functions there are (``signatures``), what they do.

# Note [Argument parsing]
# ~~~~~~~~~~~~~~~~~~~~~~~
# A function with a signature is wrapped once (``parsed``). The wrapper is the door of hot paths, so at its first call
# it is given code of its own, generated from the signatures: PyTorch's names for the parameters and, per signature, one
# branch that looks at the classes of the arguments as they usually are and calls the function. What no branch takes -
# another overload's kinds, NumPy's integers, lists, a tensor without dimensions for a number, NumPy's names ``axis``
# and ``keepdims``, and everything that is wrong - is matched against the signatures one after the other, which converts
# arguments or raises the TypeError. The code of a function object is replaced, and not the object, because the object
# is in many namespaces by then; and at the first call, and not at import, because a compilation takes as long as many
# calls.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from jitgrad.dtypes import DType
from jitgrad.tensor_base import TensorBase

__all__ = ["parsed"]

_OTHER_NAMES = {"axis": "dim", "keepdims": "keepdim", "x2": "other"}
_PYTHON_TYPES = (bool, int, float)
_NUMBERS = frozenset(_PYTHON_TYPES)
_MISMATCH = object()
_TENSOR_CLASSES: set[type] = set()
"""Classes of tensors that were arguments; others are looked at with ``isinstance``, once."""


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
    if isinstance(x, TensorBase):
        if len(_TENSOR_CLASSES) < 64:
            _TENSOR_CLASSES.add(type(x))
        return x
    return _MISMATCH


def _as_tensors(x: Any) -> Any:
    return x if isinstance(x, tuple | list) and all(isinstance(y, TensorBase) for y in x) else _MISMATCH


def _as_dtype(x: Any) -> Any:
    return x if isinstance(x, DType) else _MISMATCH


def _as_number_or_tensor(x: Any) -> Any:
    found = _as_tensor(x)
    return _as_scalar(x) if found is _MISMATCH else found


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
    if len(given) < len(kwargs):  # dim and axis
        return None
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


def _by_position(signature: _Signature, found: Any, names: frozenset[str]) -> Any:
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


# --- the door ---

_MISSING = object()
_LISTS = frozenset({list, tuple})
_sizes_seen: set[Any] = set()
"""Tuples that hold nothing but ints (``True`` equals 1, and may pass for it)."""
_MAX_SIZES = 4096

_USUAL = {
    "Tensor": "{0}.__class__ in _tensors",
    "Tensor|Scalar": "({0}.__class__ in _tensors or {0}.__class__ in _numbers)",
    "Tensor[]": "{0}.__class__ in _lists and _tensors.issuperset(map(type, {0}))",
    "Scalar": "{0}.__class__ in _numbers",
    "float": "{0}.__class__ in _numbers",
    "int": "{0}.__class__ is int",
    "int[]": "{0}.__class__ is tuple and {0} in _sizes",
    "int[1]": "({0}.__class__ is int or {0}.__class__ is tuple and {0} in _sizes)",
    "bool": "{0}.__class__ is bool",
    "str": "{0}.__class__ is str",
    "dtype": "{0}.__class__ is _DType",
    "any": "True",
}
"""What an argument of each kind usually is, as a condition; other kinds have no branch."""


def _condition(p: _Parameter, has_sentinel: bool) -> str:
    usual = _USUAL[p.kind].format(p.name)
    if p.takes_none:
        usual = f"({p.name} is None or {usual})"
    return f"({p.name} is _M or {usual})" if has_sentinel and not p.is_needed else usual


def _branch(signature: _Signature, every: dict[str, _Parameter], sentinels: set[str], names: dict[str, Any]) -> str:
    """``if the arguments look like this signature's: return function(...)``."""
    own = {p.name: p for p in signature.parameters}
    first = signature.parameters[0].name
    looked_at = signature.parameters[1 if signature.parameters[0].kind == "Tensor" else 0 :]
    conditions = [_condition(p, p.name in sentinels) for p in looked_at]
    conditions += [f"{name} is _M" for name in every if name not in own]
    conditions += [f"{other} is _M" for other in _other_names(every)]
    values = []
    for at, p in enumerate(signature.parameters):
        value = p.name
        if p.name in sentinels and not p.is_needed:
            names[f"_default_{p.name}"] = names["_defaults"].get(p.name)
            value = f"_default_{p.name} if {p.name} is _M else {p.name}"
        is_in_place = names["_order"][at : at + 1] == [p.name] or p.name not in names["_own"]
        values.append(value if not at or (is_in_place and not p.is_keyword) else f"{p.name}={value}")
    call = f"return function({', '.join(values)})"
    if signature.parameters[0].kind != "Tensor":
        return f"    if {' and '.join(conditions) or 'True'}:\n        {call}\n"
    return (
        f"    if {' and '.join(conditions) or 'True'}:\n"
        f"        try:\n            {call}\n"
        f"        except AttributeError:\n            must_be_tensor({first})\n            raise\n"
    )


def _head(
    signatures: list[_Signature], every: dict[str, _Parameter], names: dict[str, Any]
) -> tuple[list[str], set[str]]:
    """The parameters as source text, and those whose default is a sentinel: leaving them out is not giving a value."""
    first, defaults = signatures[0].parameters[0].name, names["_defaults"]
    keywords = {p.name for s in signatures for p in s.parameters if p.is_keyword}
    sentinels, head, was_optional = set(), [], False
    for n in (*(n for n in every if n not in keywords), *(n for n in every if n in keywords)):
        uses = [p for s in signatures for p in s.parameters if p.name == n]
        is_shared = len(uses) == len(signatures)
        if n in keywords and "*" not in head:
            head.append("*")
        if is_shared and all(p.is_needed for p in uses) and not was_optional and n not in keywords:
            head.append(n)
            continue
        was_optional = True
        if (
            not is_shared
            or n not in defaults
            or n in _OTHER_NAMES.values()
            or (defaults[n] is None and not every[n].takes_none)
        ):
            sentinels.add(n)
        names[f"_given_{n}"] = _MISSING if n in sentinels else defaults[n]
        head.append(f"{n}=_given_{n}")
    others = _other_names(every)
    if others and "*" not in head:
        head.append("*")
    assert first not in sentinels
    return head + [f"{other}=_M" for other in others], sentinels


def _other_names(every: dict[str, _Parameter]) -> list[str]:
    """NumPy's names for parameters."""
    return [other for other, name in _OTHER_NAMES.items() if name in every and other not in every]


def _source(name: str, signatures: list[_Signature], names: dict[str, Any]) -> str:
    """The code of a door."""
    every: dict[str, _Parameter] = {p.name: p for s in signatures for p in s.parameters}
    head, sentinels = _head(signatures, every, names)
    first, *rest = every
    given = "".join(f"({n!r}, {n}), " for n in (*rest, *_other_names(every)))
    usual = [s for s in signatures if all(p.kind in _USUAL for p in s.parameters)]
    branches = "".join(_branch(s, every, sentinels, names) for s in usual)
    return (
        f"def {name}({', '.join(head)}):\n{branches}"
        f"    return slow(({first},), {{k: v for k, v in ({given}) if v is not _M}})\n"
    )


def _varargs_source(name: str, signature: _Signature) -> str:
    """For ``x.view(2, 3)``: the sizes are looked up as they come."""
    first = [p.name for p in signature.parameters[: signature.varargs]]
    return (
        f"def {name}({', '.join([*first, '*sizes'])}, **options):\n"
        f"    try:\n"
        f"        is_plain = sizes in _sizes\n"
        f"    except TypeError:\n"
        f"        is_plain = False\n"
        f"    if is_plain and not options:\n"
        f"        return function({', '.join([*first, '*sizes'])})\n"
        f"    return slow(({', '.join([*first, '*sizes'])},), options)\n"
    ).replace("(*sizes,)", "sizes")


def _names_agree(signatures: list[_Signature]) -> bool:
    """Whether a position has one name in all signatures: ``max(x, dim)`` and ``max(x, other)`` do not agree."""
    rows = [[p.name for p in s.parameters if not p.is_keyword] for s in signatures]
    longest = max(rows, key=len)
    return all(row == longest[: len(row)] for row in rows)


def _by_kinds_source(name: str) -> str:
    """Positional calls by the classes of their arguments, as soon as a call of these classes was matched."""
    return (
        f"def {name}(*args, **kwargs):\n"
        f"    if not kwargs and (*map(type, args),) in known:\n"
        f"        return function(*args)\n"
        f"    return slow(args, kwargs, known)\n"
    )


def _note_sizes(value: Any) -> None:
    if type(value) is tuple and all(type(n) is int for n in value):
        if len(_sizes_seen) >= _MAX_SIZES:
            _sizes_seen.clear()
        _sizes_seen.add(value)


def _is_told_by_classes(signature: _Signature, args: tuple[Any, ...]) -> bool:
    """Whether all calls with arguments of these classes fit as well: no list, no tensor where a number is meant."""
    return all(
        p.kind.startswith("Tensor") if isinstance(x, TensorBase) else isinstance(x, int | float | str | None)
        for p, x in zip(signature.parameters, args, strict=False)
    )


def _must_be_tensor(name: str, input: Any) -> None:
    """The first argument is looked at where something was missed in it: it is a tensor, in a method always."""
    if not isinstance(input, TensorBase):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}") from None


@functools.cache
def _own_names(function: Callable[..., Any]) -> frozenset[str]:
    """The names of a function's parameters, but that of ``*args``."""
    parameters = inspect.signature(function).parameters.values()
    return frozenset(p.name for p in parameters if p.kind is not p.VAR_POSITIONAL)


def _slow(
    function: Callable[..., Any],
    signatures: list[_Signature],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    known: set[Any] | None = None,
) -> Any:
    """Match a call against the signatures, and make it."""
    names = _own_names(function)
    for signature in signatures:
        found = _match(signature, args, kwargs)
        if found is not None:
            positional, named = _by_position(signature, found, names)
            for value in (*positional, *named.values()):
                _note_sizes(value)
            if known is not None and not kwargs and _is_told_by_classes(signature, args):
                known.add((*map(type, args),))
            if signature.varargs is not None:
                _note_sizes(positional[signature.varargs :])
                _note_sizes(args[signature.varargs :])
            return function(*positional, **named)
    raise _error(function.__name__, signatures, args, kwargs)


def _specialised(function: Callable[..., Any], text: str) -> Any:
    """The function object whose code the wrapper is to have."""
    signatures = [_read(one) for one in text.split(" | ")]
    own = inspect.signature(function).parameters
    names: dict[str, Any] = {
        "function": function,
        "slow": functools.partial(_slow, function, signatures),
        "_M": _MISSING,
        "_tensors": _TENSOR_CLASSES,
        "_lists": _LISTS,
        "_numbers": _NUMBERS,
        "_sizes": _sizes_seen,
        "_DType": DType,
        "must_be_tensor": functools.partial(_must_be_tensor, function.__name__),
        "_order": [n for n, p in own.items() if p.kind is p.POSITIONAL_OR_KEYWORD],
        "_own": {n for n, p in own.items() if p.kind is not p.VAR_POSITIONAL},
        "_defaults": {n: p.default for n, p in own.items() if p.default is not p.empty},
    }
    with_varargs = next((s for s in signatures if s.varargs is not None), None)
    if with_varargs is not None:
        source = _varargs_source(function.__name__, with_varargs)
    elif _names_agree(signatures):
        source = _source(function.__name__, signatures, names)
    else:
        names["known"] = set()
        source = _by_kinds_source(function.__name__)
    place = os.path.join(os.path.dirname(__file__), f"<{function.__name__}>")
    exec(compile(source, place, "exec"), names)
    return names[function.__name__], names


def _placeholder(*args: Any, **kwargs: Any) -> Any:
    return specialise(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821  # in the globals of every copy


def parsed(function: Callable[..., Any], text: str) -> Callable[..., Any]:
    """``function``, refusing calls that fit none of the signatures in ``text`` (one per ``|``)."""
    space: dict[str, Any] = {"__builtins__": builtins}
    wrapper: Any = FunctionType(_placeholder.__code__, space, function.__name__)

    def specialise(*args: Any, **kwargs: Any) -> Any:
        made, names = _specialised(function, text)
        space.update(names)
        # the code last: until then these mean nothing
        wrapper.__defaults__, wrapper.__kwdefaults__ = made.__defaults__, made.__kwdefaults__
        wrapper.__code__ = made.__code__
        return wrapper(*args, **kwargs)

    space["specialise"] = specialise
    return functools.wraps(function)(wrapper)
