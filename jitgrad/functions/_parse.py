"""PyTorch's argument parser: which calls of a function are accepted, by the kinds of their arguments.

Owns: reading signatures, matching a call against them, the TypeError for one that matches none.
Must not know: which functions there are (``signatures``), what they do.

# Note [Argument parsing]
# ~~~~~~~~~~~~~~~~~~~~~~~
# The functions that users call are in ``_generated.py``, which ``tools/signatures.py`` makes from the signatures, ahead
# of time: at import a compiled module is loaded, and nothing is compiled or replaced later. A generated function has
# PyTorch's names for its parameters and, per signature, one branch that looks at the classes of the arguments as they
# usually are. A branch calls the bare function, or holds its body if that is one line: ``tanh(x)`` is one Python frame
# that calls ``door.apply``. What no branch takes goes to ``slow``: another overload's kinds, NumPy's integers, lists, a
# tensor without dimensions for a number, NumPy's names ``axis`` and ``keepdims``, classes that override functions (Note
# [Overrides]), and everything that is wrong. ``slow`` matches the call against the signatures one after the other,
# which converts arguments or raises the TypeError. Functions that are imported at their first use have no generated
# code: ``checked.checked`` wraps the public ones, and matches a call unless one of the same kinds has fitted before.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from jitgrad.dtypes import BOOLEAN, INTEGER, PYTHON_TYPES, DType
from jitgrad.functions.signatures import MAKES_FROM_NOTHING, SIGNATURES, TAKES_OUT, options_of
from jitgrad.functions.torch_function import (
    asks,
    handle_torch_function,
    has_torch_function,
    is_override,
    relevant_args,
)
from jitgrad.layouts import Size
from jitgrad.lazy import LazyModule
from jitgrad.state import plain_tensors, state
from jitgrad.symbols.number import is_symbolic
from jitgrad.tensor_base import TensorBase
from jitgrad.user_line import warn_once

__all__ = [
    "FACTORY_OPTIONS",
    "LISTS",
    "MISSING",
    "NUMBERS",
    "OPERANDS",
    "OTHER_NAMES",
    "OTHER_SUMS",
    "ROWS",
    "SIZES",
    "TENSORS",
    "Signature",
    "SignatureParameter",
    "adopt",
    "as_row",
    "given",
    "match_call",
    "operand_asks",
    "plain_options",
    "read_signatures",
    "slow",
]

OTHER_NAMES = {"axis": "dim", "keepdims": "keepdim", "x2": "other"}
MISSING = object()
"""The default of an argument where leaving it out is not giving a value."""

_MAKING = LazyModule("jitgrad.functions.making_options")
_OLD = LazyModule("jitgrad.functions.old_orders")
_OUTPUTS = LazyModule("jitgrad.functions.outputs")
_MISMATCH = object()
_PYTHON_TYPES = (bool, int, float)
NUMBERS = frozenset(_PYTHON_TYPES)
LISTS = frozenset({list, tuple})
ROWS = frozenset({Size, tuple})
TENSORS = plain_tensors
"""Branches look for these."""
OPERANDS: set[type] = set(NUMBERS)
"""``TENSORS`` and ``NUMBERS``."""
FACTORY_OPTIONS = ("dtype", "device", "requires_grad")
"""What functions that make tensors are given by name."""
SIZES: set[Any] = set()
"""Tuples that hold nothing but ints (``True`` equals 1, and may pass for it; so does 1.0: see ``OTHER_SUMS``)."""
OTHER_SUMS = frozenset({float, *(np.dtype(code).type for code in np.typecodes["AllInteger"] + np.typecodes["Float"])})
"""The sum of a tuple that equals one of ``SIZES`` is of these types if a float, or a number of NumPy's, is in it."""
_MAX_CLASSES, _MAX_SIZES = 64, 4096


class SignatureParameter:
    """One parameter of a signature: ``int[1]? dim=None``."""

    __slots__ = ("is_keyword", "is_needed", "kind", "name", "takes_none", "text")

    def __init__(self, text: str, is_keyword: bool) -> None:
        kind, rest = text.split(" ", 1)
        name, has_default, default = rest.partition("=")
        self.kind, self.name, self.text = kind.rstrip("?"), name.lstrip("*"), text
        self.takes_none = kind.endswith("?") or default == "None"
        self.is_needed, self.is_keyword = not has_default, is_keyword


class Signature:
    """One way to call a function.

    Attributes:
        varargs: where the last positional parameter, a list of ints, may also be given as several ints; None: nowhere.
    """

    __slots__ = ("num_positional", "parameters", "varargs")

    def __init__(self, text: str) -> None:
        parts = re.split(r",\s*(?![^(]*\))", text.strip())
        star = parts.index("*") if "*" in parts else len(parts)
        self.parameters = tuple(SignatureParameter(part, at > star) for at, part in enumerate(parts) if at != star)
        self.num_positional = star
        self.varargs = next((at for at, p in enumerate(self.parameters) if f"*{p.name}" in p.text), None)

    def __str__(self) -> str:
        return f"({', '.join(p.text for p in self.parameters)})"


@functools.cache
def read_signatures(text: str) -> list[Signature]:
    """The overloads in a row of ``SIGNATURES``; none for a function that tells its forms apart itself."""
    return [] if text == "..." else [Signature(one) for one in text.split(" | ")]


# --- kinds: each check returns the value to hand on, or _MISMATCH ---


def _is_scalar_tensor(x: Any) -> bool:
    return isinstance(x, TensorBase) and not x._aval.shape and not x.requires_grad


def _as_int(x: Any) -> Any:
    if type(x) is int:
        if not -(1 << 63) <= x < 1 << 63:
            raise ValueError(f"Overflow when unpacking long long: 64 bits do not hold {x}")
        return x
    if isinstance(x, bool | np.bool_):
        return _MISMATCH
    if isinstance(x, int | np.integer):
        return x if is_symbolic(x) else int(x)
    if isinstance(x, TensorBase):
        return int(x) if _is_scalar_tensor(x) and x.dtype.category is INTEGER else _MISMATCH
    return _MISMATCH


def _as_ints(x: Any) -> Any:
    if not isinstance(x, tuple | list):
        return _MISMATCH
    try:
        found = tuple(map(_as_int, x))
    except ValueError as error:
        raise TypeError(f"failed to unpack a list of ints: {error}") from None
    if _MISMATCH in found:
        return _MISMATCH
    return x if type(x) is tuple and all(a is b for a, b in zip(x, found, strict=True)) else found


def _as_one_or_more_ints(x: Any) -> Any:
    found = _as_int(x)
    return _as_ints(x) if found is _MISMATCH else found


def _as_scalar(x: Any) -> Any:
    if isinstance(x, np.generic):
        return x.item()
    if isinstance(x, _PYTHON_TYPES):
        return x
    return x.item() if _is_scalar_tensor(x) else _MISMATCH


def _as_number(x: Any) -> Any:
    """A number that may be complex."""
    if isinstance(x, complex) and not isinstance(x, np.generic):
        return x
    return _as_scalar(x)


def _as_real(x: Any) -> Any:
    found = _as_scalar(x)
    return _MISMATCH if isinstance(found, complex) else found


def _as_bool(x: Any) -> Any:
    if isinstance(x, bool):
        return x
    if isinstance(x, np.bool_) or (_is_scalar_tensor(x) and x.dtype.category is BOOLEAN):
        return bool(x)
    return _MISMATCH


def _as_tensor(x: Any) -> Any:
    if isinstance(x, TensorBase):
        _note_class(type(x))
        return x
    return _MISMATCH


def _note_class(kind: type) -> None:
    """The branches may take tensors of this class from here on."""
    if kind not in TENSORS and len(TENSORS) < _MAX_CLASSES and not is_override(kind):
        TENSORS.add(kind)
        OPERANDS.add(kind)


def operand_asks(x: Any) -> bool:
    """``asks`` of an operator's operand; the class of a tensor that does not ask is met from here on."""
    if isinstance(x, TensorBase):
        _note_class(type(x))
    return asks(x)


def _as_tensors(x: Any) -> Any:
    return x if isinstance(x, tuple | list) and not any(_as_tensor(y) is _MISMATCH for y in x) else _MISMATCH


def _as_dtype(x: Any) -> Any:
    found = PYTHON_TYPES.get(x) if isinstance(x, type) else x
    return found if isinstance(found, DType) else _MISMATCH


def _as_number_or_tensor(x: Any) -> Any:
    found = _as_tensor(x)
    return _as_number(x) if found is _MISMATCH else found


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "Tensor": _as_tensor,
    "Tensor|Scalar": _as_number_or_tensor,
    "Tensor[]": _as_tensors,
    "Scalar": _as_number,
    "float": _as_real,
    "int": _as_int,
    "int[]": _as_ints,
    "int[1]": _as_one_or_more_ints,
    "bool": _as_bool,
    "str": lambda x: x if isinstance(x, str) else _MISMATCH,
    "dtype": _as_dtype,
    "any": lambda x: x,
}


def _match(signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
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
    given = {OTHER_NAMES.get(name, name) if _takes(signature, name) else name: v for name, v in kwargs.items()}
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


def _by_position(signature: Signature, found: Any, names: frozenset[str]) -> Any:
    """The same call where the function has other names for its parameters than PyTorch: these go by position."""
    positional, named = found
    if names.issuperset(named):
        return found
    for parameter in signature.parameters[len(positional) :]:
        if parameter.is_keyword or parameter.name not in named:
            break
        positional = (*positional, named.pop(parameter.name))
    return positional, named


def _takes(signature: Signature, name: str) -> bool:
    """Whether NumPy's name of a parameter stands for one of these."""
    return name in OTHER_NAMES and any(p.name == OTHER_NAMES[name] for p in signature.parameters)


def _type_name(x: Any) -> str:
    if isinstance(x, tuple | list) and x:
        return f"{type(x).__name__} of ({', '.join(_type_name(y) for y in x)})"
    return type(x).__name__


def _error(name: str, signatures: list[Signature], args: tuple[Any, ...], kwargs: dict[str, Any]) -> TypeError:
    if args and not isinstance(args[0], TensorBase) and all(s.parameters[0].kind == "Tensor" for s in signatures):
        return TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(args[0]).__name__}")
    got = ", ".join([*map(_type_name, args), *(f"{k}={_type_name(v)}" for k, v in kwargs.items())])
    expected = "".join(f"\n * {s}" for s in signatures)
    several = "one of:" if len(signatures) > 1 else ""
    return TypeError(
        f"{name}() received an invalid combination of arguments - got ({got}), but expected {several}{expected}"
    )


def _note_sizes(value: Any) -> None:
    if type(value) is tuple and all(type(n) is int for n in value):
        if len(SIZES) >= _MAX_SIZES:
            SIZES.clear()
        SIZES.add(value)


def _is_told_by_classes(signature: Signature, args: tuple[Any, ...]) -> bool:
    """Whether all calls with arguments of these classes fit as well: no list, no tensor where a number is meant."""
    return all(_is_told(p, x) for p, x in zip(signature.parameters, args, strict=False))


def _is_told(parameter: SignatureParameter, x: Any) -> bool:
    if isinstance(x, TensorBase):
        return parameter.kind.startswith("Tensor") and not is_override(type(x))
    return isinstance(x, int | float | str | None)


def _is_told_by_names(
    bare: Callable[..., Any], signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any], found: Any
) -> bool:
    """``_is_told_by_classes`` of a call with names, which the bare function takes as they are."""
    if not kwargs or not kwargs.keys() <= _own_names(bare) or len(found[0]) != len(args):
        return False
    kinds = {p.name: p for p in signature.parameters}
    if any(found[1].get(word) is not x for word, x in kwargs.items()) or not kwargs.keys() <= kinds.keys():
        return False
    named = all(_is_told(kinds[word], x) for word, x in kwargs.items())
    return named and all(a is b for a, b in zip(found[0], args, strict=True)) and _is_told_by_classes(signature, args)


@functools.cache
def _own_names(function: Callable[..., Any]) -> frozenset[str]:
    """The names of a function's parameters, but that of ``*args``."""
    parameters = inspect.signature(function).parameters.values()
    return frozenset(p.name for p in parameters if p.kind is not p.VAR_POSITIONAL)


_rows: dict[Any, tuple[Callable[..., Any], str]] = {}
"""Of every generated function: the bare function, and the name of its row in ``SIGNATURES``."""


def adopt(made: Iterable[tuple[Any, Callable[..., Any]]], other_names: Mapping[str, str]) -> None:
    """Give generated functions their public names and the texts of the bare ones; see ``_generated.MADE``."""
    for function, bare in made:
        row = function.__name__
        name = other_names.get(row, row)
        function.__name__, function.__doc__ = name, bare.__doc__
        # where pickle finds it again
        function.__module__, function.__qualname__ = "jitgrad.functions", name
        if row.endswith("_method"):
            function.__module__, function.__qualname__ = "jitgrad", f"Tensor.{name}"
        elif row.startswith("functional_"):
            function.__module__ = "jitgrad.nn.functional"
        function.__wrapped__ = bare
        _rows[function] = bare, row


def _as_written(signatures: list[Signature], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call as most people write it: tensors that some signature needs by position, what remains by name."""
    for signature in signatures:
        for p in signature.parameters[len(args) : signature.num_positional]:
            if not p.is_needed or p.name not in kwargs or not p.kind.startswith("Tensor"):
                break
            kwargs = dict(kwargs)
            args = (*args, kwargs.pop(p.name))
    return args, kwargs


def as_row(value: Any) -> Any:
    """A list as a tuple, if it is known to hold nothing but ints, as ``[0, 1]`` for dimensions; else itself."""
    row = tuple(value)
    try:
        return row if row in SIZES and type(sum(row)) not in OTHER_SUMS else value
    except TypeError:  # it holds what cannot be hashed
        return value


def given(*options: tuple[str, Any, Any]) -> dict[str, Any]:
    """Of rows (name, value, default), the arguments that the caller gave."""
    return {name: value for name, value, default in options if value is not default}


def plain_options(options: dict[str, Any], names: tuple[str, ...]) -> bool:
    """Whether the options of a call that makes a tensor are some of these names, each with a value that it may have."""
    for name, value in options.items():
        if name not in names:
            return False
        if name == "dtype":
            if value is not None and type(value) is not DType:
                return False
        elif name == "requires_grad" and type(value) is not bool:
            return False
    return True


def _with_out(function: Any, row: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call with ``out=``, which may be None."""
    kwargs = dict(kwargs)
    out = kwargs.pop("out")
    if out is None:
        return slow(function, args, kwargs)
    _OUTPUTS.check_out(function.__name__, out, (args, kwargs))
    is_factory = row in MAKES_FROM_NOTHING
    if is_factory and kwargs.get("dtype") is None:
        kwargs["dtype"] = out.dtype
    return _OUTPUTS.write_out(slow(function, args, kwargs), out, is_factory, function.__name__)


@functools.cache
def _options_of(row: str) -> frozenset[str]:
    names = (p.name for signature in read_signatures(SIGNATURES[row]) for p in signature.parameters)
    return options_of(row, names)


def match_call(function: Any, name: str, text: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a bare function as it takes it.

    Args:
        function, name: the bare function, and what users call it.
        text: its signatures.

    Returns:
        (args, kwargs, whether nothing was converted).

    Raises:
        TypeError: the call fits none of the signatures.
    """
    signatures = read_signatures(text)
    for signature in signatures:
        found = _match(signature, args, kwargs)
        if found is not None:
            is_same = all(a is b for a, b in zip(found[0], args, strict=True)) and all(
                found[1].get(word) is x for word, x in kwargs.items()
            )
            return (*_by_position(signature, found, _own_names(function)), is_same)
    raise _error(name, signatures, args, kwargs)


def slow(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], known: set[Any] | None = None) -> Any:
    """A call that no branch of a generated function takes: ask overrides, or match it against the signatures.

    Args:
        function: the generated one.
        known: where to note classes of positional arguments that will fit again.

    Raises:
        TypeError: it fits none.
    """
    bare, row = _rows[function]
    signatures = read_signatures(SIGNATURES[row])
    if not state.overrides_off:
        relevant = relevant_args(args, kwargs)
        if has_torch_function(relevant):
            args, kwargs = _as_written(signatures, args, kwargs)
            return handle_torch_function(function, relevant, *args, **kwargs)
    options = _options_of(row)
    if not options.isdisjoint(kwargs):
        return _MAKING.call_without_options(function, args, kwargs, options)
    if "out" in kwargs and row in TAKES_OUT:
        return _with_out(function, row, args, kwargs)
    if not signatures:
        return bare(*args, **kwargs)
    for signature in signatures:
        found = _match(signature, args, kwargs)
        if found is not None:
            positional, named = _by_position(signature, found, _own_names(bare))
            for value in (*positional, *named.values()):
                _note_sizes(value)
            is_positional = not kwargs or plain_options(kwargs, FACTORY_OPTIONS)
            if known is not None and is_positional and _is_told_by_classes(signature, args):
                known.add((*map(type, args),))
            elif known is not None and _is_told_by_names(bare, signature, args, kwargs, found):
                known.add((*map(type, args), *kwargs, *map(type, kwargs.values())))
            if signature.varargs is not None:
                _note_sizes(positional[signature.varargs :])
                _note_sizes(args[signature.varargs :])
            return bare(*positional, **named)
    old = None if kwargs else _OLD.in_new_order(function.__name__, args)
    if old is not None:
        warn_once(f"{function.__name__}: numbers before tensors are deprecated; give {', '.join(old[1])} by keyword")
        return function(*old[0], **old[1])
    raise _error(function.__name__, signatures, args, kwargs)
