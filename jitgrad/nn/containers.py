"""Modules that hold modules or parameters: ``Sequential``, ``ModuleList``, ``ModuleDict``, ``ParameterList``.

Must not know: what is inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterList", "Sequential"]


class _Listed(Module):
    """Children named by their position."""

    def _items(self) -> list[Any]:
        return [self.__dict__[name] for name in self._modules]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items())

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._from(self._items()[index])
        return self.__dict__[list(self._modules)[index]]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, list(self._modules)[index], module)

    def append(self, module: Module) -> Any:
        """Add a module at the end; returns this container."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Append every module of ``modules``."""
        for module in list(modules):
            self.append(module)
        return self

    @classmethod
    def _from(cls, modules: list[Module]) -> Any:
        raise NotImplementedError


class Sequential(_Listed):
    """Modules one after the other.

    Args:
        modules: in order, or one mapping of names to modules.
    """

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            self.extend(modules)

    def forward(self, input: Any) -> Any:
        """Feed ``input`` through every module."""
        own = self.__dict__
        for name in self._modules:
            input = own[name](input)
        return input

    @classmethod
    def _from(cls, modules: list[Module]) -> Any:
        return cls(*modules)


class ModuleList(_Listed):
    """A list whose modules belong to the tree.

    Args:
        modules: the first members.
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def insert(self, index: int, module: Module) -> None:
        """Put ``module`` before position ``index``."""
        items = self._items()
        items.insert(index, module)
        for position, item in enumerate(items):
            self.add_module(str(position), item)

    @classmethod
    def _from(cls, modules: list[Module]) -> Any:
        return cls(modules)


class ModuleDict(Module):
    """A dictionary whose modules belong to the tree.

    Args:
        modules: the first members.
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        for name, module in (modules or {}).items():
            self.add_module(name, module)

    def __getitem__(self, name: str) -> Any:
        if name not in self._modules:
            raise KeyError(name)
        return self.__dict__[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)

    def __delitem__(self, name: str) -> None:
        delattr(self, name)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._modules))

    def __contains__(self, name: str) -> bool:
        return name in self._modules

    def keys(self) -> Iterable[str]:
        """Names, in order."""
        return list(self._modules)

    def values(self) -> Iterable[Any]:
        """Modules, in order."""
        return [self.__dict__[name] for name in self._modules]

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and modules."""
        return [(name, self.__dict__[name]) for name in self._modules]


class ParameterList(Module):
    """A list of parameters.

    Args:
        values: the first members; a plain tensor is made a parameter.
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self.extend(values or ())

    def append(self, value: Any) -> ParameterList:
        """Add a parameter at the end."""
        self.register_parameter(str(len(self)), value if isinstance(value, Parameter) else Parameter(value))
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Append every parameter of ``values``."""
        for value in list(values):
            self.append(value)
        return self

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter([self.__dict__[name] for name in self._parameters])

    def __getitem__(self, index: int | slice) -> Any:
        names = list(self._parameters)[index]
        return self.__dict__[names] if isinstance(names, str) else ParameterList(self.__dict__[n] for n in names)

    def __setitem__(self, index: int, value: Parameter) -> None:
        setattr(self, list(self._parameters)[index], value)
