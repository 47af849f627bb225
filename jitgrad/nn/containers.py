"""Modules that hold modules or parameters: ``Sequential``, ``ModuleList``, ``ModuleDict``, ``ParameterList``.

Must not know: what is inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterList", "Sequential", "check_num_layers"]


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

    def __delitem__(self, index: int | slice) -> None:
        items = self._items()
        del items[index]
        self._replace(items)

    def _replace(self, items: list[Any]) -> None:
        """Hold these modules instead, named by their positions."""
        for name in list(self._modules):
            delattr(self, name)
        for position, item in enumerate(items):
            self.add_module(str(position), item)

    def insert(self, index: int, module: Module) -> Any:
        """Put ``module`` before position ``index``; returns this container."""
        items = self._items()
        items.insert(index, module)
        self._replace(items)
        return self

    def pop(self, key: int | slice) -> Any:
        """Take a module out, or those of a slice."""
        taken = self[key]
        del self[key]
        return taken

    def __add__(self, other: Iterable[Module]) -> Any:
        return self._from([*self, *other])

    def __iadd__(self, other: Iterable[Module]) -> Any:
        return self.extend(other)

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

    def extend(self, sequential: Iterable[Module]) -> Any:
        """Append every module of another one."""
        return super().extend(sequential)

    def forward(self, input: Any) -> Any:
        """Feed ``input`` through every module."""
        own = self.__dict__
        for name in own["_modules"]:
            input = own[name](input)
        return input

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):  # names stay, as in PyTorch
            return type(self)({name: self.__dict__[name] for name in list(self._modules)[index]})
        return super().__getitem__(index)

    def __mul__(self, times: int) -> Any:
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")
        return self._from(self._items() * times)

    __rmul__ = __mul__

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

    @classmethod
    def _from(cls, modules: list[Module]) -> Any:
        return cls(modules)

    def __repr__(self) -> str:
        """Neighbours that print the same are printed once, as PyTorch does."""
        texts = [repr(module) for module in self.children()]
        if not texts:
            return super().__repr__()
        lines, first = [], 0
        for last, text in enumerate(texts):
            if last + 1 == len(texts) or texts[last + 1] != text:
                count = last - first + 1
                label = f"({first})" if count == 1 else f"({first}-{last}): {count} x"
                separator = ": " if count == 1 else " "
                lines.append(f"{label}{separator}{text}".replace("\n", "\n  "))
                first = last + 1
        return "\n  ".join([f"{type(self).__name__}(", *lines]) + "\n)"


_MOST_LAYERS = 1 << 20


def check_num_layers(name: str, num_layers: int) -> None:
    """ValueError for more layers than any memory holds; ``name``: of the module that is made of them."""
    if num_layers > _MOST_LAYERS:
        raise ValueError(f"{name}: num_layers={num_layers} is more than {_MOST_LAYERS}: no memory holds them")


class ModuleDict(Module):
    """A dictionary whose modules belong to the tree.

    Args:
        modules: the first members.
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

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

    def clear(self) -> None:
        """Take all modules out."""
        for name in list(self._modules):
            delattr(self, name)

    def pop(self, key: str) -> Any:
        """Take a module out. KeyError if there is none of that name."""
        taken = self[key]
        del self[key]
        return taken

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add modules, or replace those of the same names."""
        if not isinstance(modules, Mapping | Iterable) or getattr(modules, "ndim", 1) == 0:
            raise TypeError(f"ModuleDict.update: expected a mapping or pairs, but got {type(modules).__name__}")
        for name, module in dict(modules).items():
            self.add_module(name, module)

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

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter([self.__dict__[name] for name in self._parameters])

    def __getitem__(self, index: int | slice) -> Any:
        names = list(self._parameters)[index]
        return self.__dict__[names] if isinstance(names, str) else ParameterList(self.__dict__[n] for n in names)

    def __setitem__(self, index: int, value: Parameter) -> None:
        setattr(self, list(self._parameters)[index], value)
