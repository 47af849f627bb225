"""``Registry``: the members of a module of one kind, by name; ``Members``: the attribute of a class that holds it.

Owns: them; Note [Where a module keeps things] is in ``module.py``.
Must not know: ``Module`` (which imports this): the owner is any object with a ``__dict__``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from weakref import ref

__all__ = ["Members", "Registry"]

_NOTHING = object()


class Registry(dict[str, Any]):
    """A dictionary of members; what is written to it becomes an attribute of the owner, too.

    A copy and a pickle of it is a plain dictionary: the copy of a module makes registries of its own.

    Args:
        owner: whose members they are; it is held weakly, so that a module is not part of a cycle.
        members: the first ones; they are attributes of the owner already.
    """

    __slots__ = ("_owner",)

    def __init__(self, owner: Any, members: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()) -> None:
        super().__init__(members)
        self._owner = ref(owner)

    def _attributes(self) -> dict[str, Any]:
        owner = self._owner()
        return {} if owner is None else owner.__dict__

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self._attributes()[name] = value

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._attributes().pop(name, None)

    def pop(self, name: str, default: Any = _NOTHING) -> Any:
        """Take a member out."""
        if name not in self and default is not _NOTHING:
            return default
        found = self[name]
        del self[name]
        return found

    def popitem(self) -> tuple[str, Any]:
        """Take the last member out."""
        name, value = super().popitem()
        self._attributes().pop(name, None)
        return name, value

    def clear(self) -> None:
        """Take all members out."""
        for name in list(self):
            del self[name]

    def update(self, *others: Any, **members: Any) -> None:
        """Take over a mapping's members, or pairs."""
        for name, value in dict(*others, **members).items():
            self[name] = value

    def setdefault(self, name: str, default: Any = None) -> Any:
        """The member of this name; ``default`` from now on if there was none."""
        if name not in self:
            self[name] = default
        return self[name]

    def __ior__(self, other: Any) -> Registry:  # type: ignore[misc,override]
        self.update(other)
        return self

    def move_to_end(self, name: str, last: bool = True) -> None:
        """As of an ``OrderedDict``: the member becomes the last one, or the first."""
        value = super().pop(name)
        rest = [] if last else list(self.items())
        for other, _ in rest:
            super().__delitem__(other)
        super().__setitem__(name, value)
        super().update(rest)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class Members:
    """``_parameters``, ``_buffers`` or ``_modules`` of a class.

    Libraries that patch modules assign a dictionary of their own, also past ``Module.__setattr__``. Its items become a
    registry, so that they are attributes; members that it lacks are attributes no longer.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        try:
            return self if instance is None else instance.__dict__[self._name]
        except KeyError:
            raise AttributeError(f"{self._name} of a {type(instance).__name__} is made by Module.__init__()") from None

    def __set__(self, instance: Any, members: Mapping[str, Any]) -> None:
        own = instance.__dict__
        for name in own.get(self._name, ()):
            own.pop(name, None)
        own[self._name] = Registry(instance, members)
        own.update(members)
