"""``Module``: parameters, buffers and modules in a tree, and a forward.

Owns: the tree and its traversals. Hooks, state dictionaries and conversions are parts of their own: ``hooks.py``,
``state_dict.py``, ``conversion.py``.
Must not know: which layers there are, traces, optimizers.

# Note [Where a module keeps things]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# A compiled step runs every ``forward`` again on every call, so ``self.weight`` must cost one plain attribute. Values
# therefore live in the instance's ``__dict__``. ``_parameters``, ``_buffers`` and ``_modules`` are dictionaries of the
# same values, as in PyTorch, for users that go through them; a write to one of them is a write to the attribute, too
# (``registry.py``). (PyTorch keeps the values in such dictionaries alone and finds them through ``__getattr__``.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from jitgrad.compile import CompiledFunction
from jitgrad.cpython.primitives import has_front
from jitgrad.lazy import LazyModule
from jitgrad.nn.conversion import Convertible
from jitgrad.nn.hooks import (
    Hooked,
    HookedCall,
    every_module,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from jitgrad.nn.parameter import Buffer, Parameter
from jitgrad.nn.registry import Members, Registry
from jitgrad.nn.state_dict import Stateful
from jitgrad.tensor import Tensor

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

_notebook: Any = LazyModule("jitgrad.report.notebook")

Self = TypeVar("Self", bound="Module")

_REGISTRIES = ("_parameters", "_buffers", "_modules")


class Module(Hooked, Stateful, Convertible):
    """Base of every layer and model: assign parameters, buffers and modules in ``__init__``, and write ``forward``.

    Attributes:
        call_super_init: ``__init__`` hands its arguments on to the next class, for modules with another base.
    """

    training: bool
    call_super_init = False
    _parameters, _buffers, _modules = Members(), Members(), Members()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            name = type(self).__name__
            if kwargs:
                raise TypeError(f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'")
            raise TypeError(f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given")
        self.__dict__.update(training=True, _non_persistent_buffers_set=set())
        for registry in _REGISTRIES:
            self.__dict__[registry] = Registry(self)
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = self.__dict__
        own.update(state)
        for name in _REGISTRIES:
            members = own.get(name, {})
            own[name] = Registry(self, members)
            own.update(members)
        own.setdefault("_non_persistent_buffers_set", set())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every subclass writes its own."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    @has_front("call_module", every_module)
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._hooks is not None or every_module.hooks is not None:
            return HookedCall(self, args, kwargs).run()
        return self.forward(*args, **kwargs) if kwargs else self.forward(*args)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile ``forward`` of this module, in place; arguments are ignored, see ``jitgrad.compile``."""
        if not isinstance(self.forward, CompiledFunction):
            self.__dict__["forward"] = CompiledFunction(self.forward)

    # attributes, see Note [Where a module keeps things]
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Members; Python finds them without it, but subclasses and libraries call it by name."""
            for registry in _REGISTRIES:
                if name in self.__dict__.get(registry, ()):
                    return self.__dict__[registry][name]
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self._need("_parameters", "parameters")
            if name not in self._parameters:
                self._forget_others(name, "_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._need("_modules", "module")
            if name not in self._modules:
                self._forget_others(name, "_modules")
            self._modules[name] = every_module.at_registration("_modules", self, name, value)
        else:
            self._set_plain(name, value)

    def _set_plain(self, name: str, value: Any) -> None:
        own = self.__dict__
        if "_parameters" not in own:
            object.__setattr__(self, name, value)
        elif name in self._parameters:
            if value is not None:
                kind = _kind_of(value)
                raise TypeError(f"cannot assign '{kind}' as parameter '{name}' (torch.nn.Parameter or None expected)")
            self.register_parameter(name, None)
        elif name in self._modules:
            if value is not None:
                kind = _kind_of(value)
                raise TypeError(f"cannot assign '{kind}' as child module '{name}' (torch.nn.Module or None expected)")
            self._modules[name] = every_module.at_registration("_modules", self, name, None)
        elif name in self._buffers or isinstance(value, Buffer):
            if value is not None and not isinstance(value, Tensor):
                kind = _kind_of(value)
                raise TypeError(
                    f"cannot assign '{kind}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)"
                )
            persistent = getattr(value, "persistent", name not in self._non_persistent_buffers_set)
            self.register_buffer(name, value, persistent)
        else:
            object.__setattr__(self, name, value)

    def _need(self, registry: str, what: str) -> None:
        if registry not in self.__dict__:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")

    def _forget_others(self, name: str, registry: str) -> None:
        """A name belongs to one registry, or is a plain attribute."""
        for other in _REGISTRIES:
            if other != registry and name in self.__dict__[other]:
                del self.__dict__[other][name]
        self._non_persistent_buffers_set.discard(name)
        self.__dict__.pop(name, None)

    def __delattr__(self, name: str) -> None:
        for registry in _REGISTRIES:
            if name in self.__dict__[registry]:
                del self.__dict__[registry][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or the name of one that is absent.

        Raises:
            TypeError: for any other tensor, and for a name that is no string.
            KeyError: for a name that is empty, has a dot, or is an attribute already.
            ValueError: for a tensor that an operation made.
        """
        self._check_name(name, "_parameters", "parameter")
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{_kind_of(param)}' object to parameter '{name}' "
                    "(torch.nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                    f"explicitly. To express '{name}' as a function of another Tensor, compute the value in the "
                    "forward() method."
                )
            param = every_module.at_registration("_parameters", self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter; ``persistent`` puts it into ``state_dict()``.

        Raises:
            TypeError: for what is no tensor, and for a name that is no string.
            KeyError: for a name that is empty, has a dot, or is an attribute already.
        """
        self._check_name(name, "_buffers", "buffer")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_kind_of(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = every_module.at_registration("_buffers", self, name, tensor)
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module, or the name of one that is absent.

        Raises:
            TypeError: for what is no module, and for a name that is no string.
            KeyError: for a name that is empty, has a dot, or is an attribute already.
        """
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{_kind_of(module)} is not a Module subclass")
        self._check_name(name, "_modules", "module")
        self._modules[name] = every_module.at_registration("_modules", self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """``add_module``."""
        self.add_module(name, module)

    def _check_name(self, name: str, registry: str, what: str) -> None:
        self._need(registry, what)
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {_kind_of(name)}")
        if "." in name:
            raise KeyError(f"{what} name can't contain \".\"" + (f", got: {name}" if what == "module" else ""))
        if not name:
            raise KeyError(f'{what} name can\'t be empty string ""')
        if name not in self.__dict__[registry] and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    # the tree
    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Direct children, each once."""
        seen: set[Module] = set()
        for name, child in self._modules.items():
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> Iterator[Module]:
        """Direct children, without names."""
        for _, child in self.named_children():
            yield child

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and everything below it, depth first, parents first.

        Args:
            memo: modules that have been seen already; these are left out, and those that are met are added.
            prefix: what the names begin with.
            remove_duplicate: a module that is there twice comes once.
        """
        seen: set[Module] = set() if memo is None else memo
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if remove_duplicate:
                if module in seen:
                    continue
                seen.add(module)
            yield path, module
            below = [(_join(path, name), child) for name, child in module._modules.items()]
            stack += [(name, child) for name, child in reversed(below) if child is not None]

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and everything below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def _named_members(
        self, registry: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        whole = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in whole if recurse else iter([(prefix, self)]):
            for name, value in module.__dict__[registry].items():
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield _join(path, name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with their dotted names; a shared one is listed once."""
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Parameters, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with their dotted names."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path. AttributeError if there is none."""
        module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a dotted path, whose parent exists.

        Args:
            target: the path.
            module: what belongs there.
            strict: there must be a module already.

        Raises:
            ValueError: for an empty path, or what is no module.
            AttributeError: there is no such path, or something else is there.
        """
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path. AttributeError if there is none."""
        found: Parameter = self._get_member(target, "_parameters", "an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path. AttributeError if there is none."""
        found: Tensor = self._get_member(target, "_buffers", "a buffer")
        return found

    def _get_member(self, target: str, registry: str, what: str) -> Any:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        if name not in owner.__dict__[registry]:
            raise AttributeError(f"`{name}` is not {what}")
        return owner.__dict__[registry][name]

    # what is done to the whole tree
    def apply(self: Self, fn: Callable[[Module], None]) -> Self:
        """Call ``fn`` on every module: on the children in their order, each after its own, then on this one.

        Functions that draw starting values draw them in this order, PyTorch's.
        """
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def train(self: Self, mode: bool = True) -> Self:
        """Set ``training`` everywhere. ValueError for anything but a bool."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self: Self) -> Self:
        """``train(False)``."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Set ``requires_grad`` of every parameter."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget every gradient, or fill it with zeros."""
        for parameter in self.parameters():
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad = parameter.grad.detach()
                parameter.grad.zero_()

    # looks
    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What ``repr`` shows between the parentheses."""
        return ""

    def __repr__(self) -> str:
        text = self.extra_repr()
        head = text.split("\n") if text else []
        children = [f"({name}): {_indent(repr(child))}" for name, child in self._modules.items()]
        if not children and len(head) <= 1:
            return f"{self._get_name()}({''.join(head)})"
        return "\n".join([f"{self._get_name()}(", *(f"  {line}" for line in [*head, *children]), ")"])

    def _repr_html_(self) -> str:
        return str(_notebook.module_html(self))

    def __dir__(self) -> list[str]:
        return sorted(name for name in {*object.__dir__(self), *self.__dict__} if not name[0].isdigit())


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _indent(text: str) -> str:
    return text.replace("\n", "\n  ")


def _kind_of(value: Any) -> str:
    """A type as PyTorch names it: ``torch.FloatTensor``, ``int``."""
    return type(value).__name__
