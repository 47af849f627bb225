"""Functions that are imported at their first use, with a look at their arguments in front, as PyTorch's parser has.

Owns: ``checked``. In: a bare function, its row in ``late_signatures``.
Must not know: how kinds are told (``_parse``), which functions there are.

A function of the table has generated code for this (Note [Argument parsing]); one that is imported late notes the
classes of the calls that fitted, down to those in lists, and such calls go on at once.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from jitgrad.functions._parse import match_call
from jitgrad.functions.late_signatures import LATE_SIGNATURES
from jitgrad.functions.torch_function import has_torch_function, relevant_args

__all__ = ["check_arguments", "checked"]

_MAX_KNOWN = 1024
_LISTS = frozenset({list, tuple})
_TELLING = frozenset({bool, int, float, str})
"""Classes that tell whether an argument fits, as that of a tensor with dimensions does where no other may stand."""
_OPTIONS = frozenset("out layout device pin_memory requires_grad names".split())
_made: dict[Any, Callable[..., Any]] = {}


_TOO_LARGE = re.compile("too (big|large)|cannot compute length|[Mm]aximum allowed|Unable to allocate")
"""What NumPy and Python say of more elements than there is memory for, or than 64 bits count."""


def _kind(x: Any) -> Any:
    kind = type(x)
    if kind in _LISTS:
        return kind, *map(_kind, x)
    return bool(x.ndim) if hasattr(x, "_aval") else kind  # a tensor without dimensions may stand for a number


def _explained(error: Exception, name: str, match: Callable[[], Any]) -> Exception:
    """What is said instead of an error: that the call does not fit, or that NumPy got no memory."""
    try:
        match()  # classes do not tell numbers that 64 bits do not hold
    except (TypeError, ValueError) as wrong:
        return wrong
    if isinstance(error, MemoryError | OverflowError | ValueError) and _TOO_LARGE.search(str(error)):
        return RuntimeError(f"{name}(): not enough memory, or sizes that 64 bits do not hold: {error}")
    return error


def checked(function: Callable[..., Any], row: str = "") -> Callable[..., Any]:
    """The function that matches its arguments first; itself, if it has no row.

    Args:
        function: a bare function, which is the same in all modules that have it.
        row: in ``LATE_SIGNATURES``; its name otherwise.

    Raises:
        TypeError: by the result, for a call that fits none of its signatures.
    """
    text = LATE_SIGNATURES.get(row or function.__name__)
    if text is None:
        return function
    if function in _made:
        return _made[function]
    name, known, told = function.__name__, set[Any](), set[Any]()

    def match(args: Any, kwargs: dict[str, Any]) -> Any:
        options = {word: kwargs[word] for word in _OPTIONS.intersection(kwargs)}
        if type(options.get("requires_grad", False)) is not bool:
            raise TypeError(f"{name}(): argument 'requires_grad' must be bool")
        given = {word: x for word, x in kwargs.items() if word not in options}
        positional, named, is_same = match_call(function, name, text, args, given)
        return positional, {**named, **options}, is_same

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        key: Any = (*map(type, args), *kwargs, *map(type, kwargs.values())) if kwargs else (*map(type, args),)
        if key not in told:
            key = (*map(_kind, args), None, *((word, _kind(x)) for word, x in kwargs.items()))
            if key not in known and not has_torch_function(relevant_args(args, kwargs)):
                classes = (*args, *kwargs.values())
                args, kwargs, is_same = match(args, kwargs)
                if is_same and len(known) < _MAX_KNOWN:
                    known.add(key)
                    if all(x is None or type(x) in _TELLING or getattr(x, "ndim", 0) for x in classes):
                        told.add((*map(type, args), *kwargs, *map(type, kwargs.values())))
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if has_torch_function(relevant_args(args, kwargs)):
                raise
            said = _explained(error, name, functools.partial(match, args, kwargs))
            if said is error:
                raise
            raise said from error

    _made[function] = _made[call] = call
    return call


def check_arguments(namespace: dict[str, Any], prefix: str) -> None:
    """Put checked functions in the place of a module's public ones; ``prefix`` is in front of their rows."""
    for name in namespace["__all__"]:
        is_parsed = namespace[name].__module__ == "jitgrad.functions"  # its code was generated
        if f"{prefix}.{name}" in LATE_SIGNATURES and not is_parsed:
            namespace[name] = checked(namespace[name], f"{prefix}.{name}")
