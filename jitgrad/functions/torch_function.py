"""The protocol of ``__torch_function__``: which arguments override a function, and asking them.

Owns: the order in which types are asked, the error when none answers, and the switch that turns overrides off.
Must not know: Tensor, the public functions, how subclasses are made (``overrides``).
In: a public function and the arguments of one call. Out: what the first type that answers returns.

# Note [Overrides]
# ~~~~~~~~~~~~~~~~
# A class overrides functions if it has a ``__torch_function__(func, types, args, kwargs)`` that is not
# ``disabled_torch_function``. ``state.override_classes`` lists the subclasses of Tensor that do; it is empty nearly
# always, and nothing is patched when it gets its first entry. Three places look:
# - A public function (``_generated``) sends an argument whose class it has not met to its slow path, and the slow path
#   (``_parse.slow``) asks. Classes that override are never noted as met, so they come there every time.
# - A subclass that overrides gets methods, operators and properties of its own when it is defined
#   (``overrides._define``): they ask first. Methods that the class defines itself stay.
# - An operator of Tensor looks at its right operand while the list has entries (``Parameter + Override``: Python asks
#   the right operand first only if its class is a subclass of the left one's). Classes that were met and do not
#   override are in ``state.plain_tensors``: hits and native code take these at once, as if there were no overrides.
# ``func`` is the public function or method, for instance ``jitgrad.add`` for ``x + 1``. What the caller gave by
# position and what by name is known in methods of a subclass; a public function hands on required arguments by position
# and others by name. Derivative rules and sums of gradients are not the user's calls: overrides are off in them
# (``state.without_overrides``), and on in hooks, custom Functions and whatever else of the user's a backward runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitgrad.state import state
from jitgrad.tensor_base import tensor_class

__all__ = [
    "DisableTorchFunctionSubclass",
    "asks",
    "disabled_torch_function",
    "handle_torch_function",
    "has_torch_function",
    "is_override",
    "relevant_args",
]


class DisableTorchFunctionSubclass:
    """``with DisableTorchFunctionSubclass(): ...``: subclasses are plain tensors inside, on this thread."""

    def __enter__(self) -> None:
        state.overrides_off += 1

    def __exit__(self, *exception: object) -> None:
        state.overrides_off -= 1


def disabled_torch_function(cls: type, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
    """``__torch_function__ = classmethod(disabled_torch_function)``: a class that is no override at all."""
    return NotImplemented


def is_override(kind: type) -> bool:
    """Whether a class has a ``__torch_function__`` that counts."""
    method = getattr(kind, "__torch_function__", None)
    if method is None or kind is tensor_class():
        return False
    return getattr(method, "__func__", method) is not disabled_torch_function


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether any argument's type overrides functions (and the thread has not turned that off)."""
    return not state.overrides_off and any(is_override(type(arg)) for arg in relevant_args)


def asks(arg: Any) -> bool:
    """``has_torch_function((arg,))``."""
    return not state.overrides_off and is_override(type(arg))


def relevant_args(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments that may override, and the elements of lists and tuples among them."""
    found: list[Any] = []
    for arg in (*args, *kwargs.values()):
        if isinstance(arg, tuple | list):
            found.extend(arg)
        else:
            found.append(arg)
    return found


def handle_torch_function(public_api: Any, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Ask the types of ``relevant_args`` in turn what ``public_api(*args, **kwargs)`` is.

    Raises:
        TypeError: all of them said NotImplemented.
    """
    overloaded = _overloaded(relevant_args)
    types = tuple(type(arg) for arg in overloaded)
    for arg in overloaded:
        result = type(arg).__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(
        f"no implementation found for {_resolve_name(public_api)!r} on types that implement __torch_function__: "
        f"{[type(arg) for arg in overloaded]}"
    )


def _overloaded(relevant_args: Iterable[Any]) -> list[Any]:
    """One argument of each type that overrides; subclasses before their bases, else in order."""
    found: list[Any] = []
    for arg in relevant_args:
        kind = type(arg)
        if any(type(f) is kind for f in found) or not is_override(kind):
            continue
        place = next((i for i, f in enumerate(found) if issubclass(kind, type(f))), len(found))
        found.insert(place, arg)
    return found


def _resolve_name(function: Any) -> str:
    name = getattr(function, "__name__", repr(function))
    in_autograd = str(getattr(function, "__module__", "")).startswith("jitgrad.autograd")
    return f"jitgrad.autograd.{name}" if in_autograd else f"jitgrad.{name}"
