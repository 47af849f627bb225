"""Classes that are their fields: slots, and an ``__init__`` that sets them.

Owns: ``struct``, ``value``, ``field``, ``replaced``.
Must not know: any of the classes.

``dataclasses`` does more, and takes five times as long over each class, which every ``import jitgrad`` would pay for
some forty of them: it compiles up to ten methods a class where one is enough, and is imported for that. Code that is
imported later uses ``dataclasses``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

__all__ = ["field", "replaced", "struct", "value"]

T = TypeVar("T")


class _Fresh:
    """The default of a field that every object gets its own of."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def field(*, default_factory: Callable[[], T]) -> T:
    """A default that is made anew for every object."""
    fresh: Any = _Fresh(default_factory)
    return fresh


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def struct(cls: type[T]) -> type[T]:
    """Make the annotated names of a class its slots and the arguments of its ``__init__``, in order.

    ``__post_init__`` is called when the fields are set. Objects are equal to themselves only. The class must have no
    base, and no method that says ``super()``.
    """
    return _made(cls, {"__repr__": _show})


@dataclass_transform(eq_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """A ``struct`` whose objects are equal, and hash alike, when their fields are. Nobody may change one."""
    return _made(cls, {"__repr__": _show, "__eq__": _equal, "__hash__": _hash})


def _made(cls: type[T], methods: dict[str, Any]) -> type[T]:
    body = {name: found for name, found in cls.__dict__.items() if name not in ("__dict__", "__weakref__")}
    fields = tuple(cls.__annotations__)
    defaults = {f"default_{name}": body.pop(name) for name in fields if name in body}
    methods["__init__"] = _compiled_init(cls, fields, defaults)
    methods["copied"] = staticmethod(_compiled_copy(fields))
    made: type[T] = type(cls.__name__, (), {"__match_args__": fields, **methods, **body, "__slots__": fields})
    return made


def replaced(obj: T, **changes: Any) -> T:
    """A copy in which some fields have other values."""
    cls: Any = type(obj)
    if "__post_init__" in cls.__dict__:
        return cls(**{name: getattr(obj, name) for name in cls.__match_args__} | changes)
    made: T = cls.copied(obj)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def _compiled_init(cls: type, fields: tuple[str, ...], defaults: dict[str, Any]) -> Callable[..., None]:
    """The only method that has to be fast: events and requests are made at every miss, every backward."""
    arguments = [f"{name}=default_{name}" if f"default_{name}" in defaults else name for name in fields]
    lines = [f"def __init__({', '.join(('self', *arguments))}):", *(f" self.{name} = {name}" for name in fields)]
    lines.append(" self.__post_init__()" if "__post_init__" in cls.__dict__ else " return")
    for nr, name in enumerate(fields, 1):
        if isinstance(defaults.get(f"default_{name}"), _Fresh):
            lines[nr] = f" self.{name} = {name}.make() if {name} is default_{name} else {name}"
    namespace: dict[str, Any] = {"__name__": cls.__module__, **defaults}
    exec("\n".join(lines), namespace)
    init: Callable[..., None] = namespace["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _compiled_copy(fields: tuple[str, ...]) -> Callable[[Any], Any]:
    """A function that makes a copy; copies of events are made at every call over ever new extents."""
    lines = ["def copied(obj):", " made = new(type(obj))", *(f" made.{name} = obj.{name}" for name in fields)]
    namespace: dict[str, Any] = {"new": object.__new__}
    exec("\n".join([*lines, " return made"]), namespace)
    copied: Callable[[Any], Any] = namespace["copied"]
    return copied


def _contents(obj: Any) -> tuple[Any, ...]:
    return tuple([getattr(obj, name) for name in obj.__slots__])


def _show(self: Any) -> str:
    fields = zip(self.__slots__, _contents(self), strict=True)
    return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in fields)})"


def _equal(self: Any, other: object) -> Any:
    return _contents(self) == _contents(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_contents(self))
