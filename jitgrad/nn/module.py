"""``Module``: parameters, buffers and modules in a tree, and a forward.

Owns: the tree, its traversals, forward hooks. State dictionaries are in ``state_dict.py``.
Must not know: which layers there are, traces, optimizers.

# Note [Where a module keeps things]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# A compiled step runs every ``forward`` again on every call, so ``self.weight`` must cost one plain attribute. Values
# therefore live in the instance's ``__dict__`` and nowhere else; ``_parameters``, ``_buffers`` and ``_modules`` are
# ordered sets of *names*. (PyTorch keeps the values in such dictionaries and finds them through ``__getattr__``.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from jitgrad.compile import CompiledFunction
from jitgrad.dtypes import DType, float32, float64
from jitgrad.functions.devices import to_target
from jitgrad.nn.hooks import ForwardHook, ModuleHooks
from jitgrad.nn.parameter import Parameter
from jitgrad.nn.state_dict import IncompatibleKeys, collect_state, load_state
from jitgrad.runtime.devices.stream import virtual
from jitgrad.runtime.engine.graph.node_hooks import RemovableHandle
from jitgrad.tensor import Tensor

__all__ = ["Module"]

Self = TypeVar("Self", bound="Module")


class Module:
    """Base of every layer and model: assign parameters, buffers and modules in ``__init__``, and write ``forward``."""

    training: bool
    _parameters: dict[str, None]
    _buffers: dict[str, None]
    _modules: dict[str, None]
    _transient: set[str]
    _hooks: ModuleHooks | None = None  # once there, they stay: the slow call is right with and without hooks

    def __init__(self) -> None:
        self.__dict__.update(training=True, _parameters={}, _buffers={}, _modules={}, _transient=set())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every subclass writes its own."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._hooks is not None:
            return self._hooks.call(self, args, kwargs)
        return self.forward(*args, **kwargs) if kwargs else self.forward(*args)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile ``forward`` of this module, in place; arguments are ignored, see ``jitgrad.compile``."""
        if not isinstance(self.forward, CompiledFunction):
            self.__dict__["forward"] = CompiledFunction(self.forward)

    # attributes, see Note [Where a module keeps things]
    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self._file(name, value, "_parameters")
        elif isinstance(value, Module):
            self._file(name, value, "_modules")
        else:
            self._set_plain(name, value)

    def _set_plain(self, name: str, value: Any) -> None:
        names = self.__dict__.get("_parameters")
        if names is not None:
            if value is not None and name in names:
                kind = type(value).__name__
                raise TypeError(f"cannot assign '{kind}' as parameter '{name}' (torch.nn.Parameter or None expected)")
            if value is not None and name in self._modules:
                kind = type(value).__name__
                raise TypeError(f"cannot assign '{kind}' as child module '{name}' (torch.nn.Module or None expected)")
        object.__setattr__(self, name, value)

    def _file(self, name: str, value: Any, registry: str) -> None:
        """Keep ``value`` as an attribute, and its name in one registry and no other."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameters or modules before Module.__init__() call")
        for other in ("_parameters", "_buffers", "_modules"):
            if other != registry:
                self.__dict__[other].pop(name, None)
        self.__dict__[registry][name] = None
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        for registry in ("_parameters", "_buffers", "_modules"):
            self.__dict__[registry].pop(name, None)
        self._transient.discard(name)
        object.__delattr__(self, name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or the name of one that is absent. TypeError for any other tensor."""
        self._check_name(name)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type(param).__name__}' object to parameter '{name}' (Parameter or None required)"
            )
        self._file(name, param, "_parameters")

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter; ``persistent`` puts it into ``state_dict()``."""
        self._check_name(name)
        if tensor is not None and not isinstance(tensor, Tensor):
            kind = type(tensor).__name__
            raise TypeError(f"cannot assign '{kind}' object to buffer '{name}' (Tensor or None required)")
        self._file(name, tensor, "_buffers")
        (self._transient.discard if persistent else self._transient.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module."""
        self._check_name(name)
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._file(name, module, "_modules")

    register_module = add_module

    def _check_name(self, name: str) -> None:
        if "." in name or not name:
            raise KeyError(f'the name must not be empty or contain ".", got {name!r}')
        if hasattr(self, name) and not any(name in self.__dict__[r] for r in ("_parameters", "_buffers", "_modules")):
            raise KeyError(f"attribute '{name}' already exists")

    # the tree
    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Direct children, each once."""
        seen: set[Module] = set()
        for name in self._modules:
            child = self.__dict__[name]
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> Iterator[Module]:
        """Direct children, without names."""
        for _, child in self.named_children():
            yield child

    def named_modules(self, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """This module and everything below it, depth first, parents first."""
        seen: set[Module] = set()
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if remove_duplicate:
                if module in seen:
                    continue
                seen.add(module)
            yield path, module
            below = [(_join(path, name), module.__dict__[name]) for name in module._modules]
            stack += [(name, child) for name, child in reversed(below) if child is not None]

    def modules(self) -> Iterator[Module]:
        """This module and everything below it."""
        for _, module in self.named_modules():
            yield module

    def _named_members(
        self, registry: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        owners = self.named_modules(prefix, remove_duplicate) if recurse else iter([(prefix, self)])
        for path, module in owners:
            for name in module.__dict__[registry]:
                value = module.__dict__[name]
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
            if name not in module._modules:
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = module.__dict__[name]
        return module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path. AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if name not in owner._parameters:
            raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
        found: Parameter = owner.__dict__[name]
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path. AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if name not in owner._buffers:
            raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
        found: Tensor = owner.__dict__[name]
        return found

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
        for module in self.modules():
            module.__dict__["training"] = mode
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

    def to(self: Self, *args: Any, dtype: DType | None = None, device: Any = None, non_blocking: bool = False) -> Self:
        """Convert or move parameters and buffers: ``to(dtype)``, ``to(device)``, ``to(device, dtype)``, ``to(other)``.

        Parameters stay the objects they are, so optimizers keep theirs; their gradients go with them. A dtype applies
        to floating ones only.

        Raises:
            TypeError: for a dtype that is not floating.
            RuntimeError: there is no such device.
        """
        dtype, device = to_target(args, dtype, device)
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(f"nn.Module.to only accepts floating point dtypes, but got desired dtype={dtype}")

        def convert(value: Tensor) -> Tensor:
            found: Tensor = value.detach().to(dtype=dtype if value.dtype.is_floating_point else None, device=device)
            return found

        for module in self.modules():
            for name in (*module._parameters, *module._buffers):
                value = module.__dict__[name]
                if value is None:
                    continue
                converted = convert(value)
                if converted.dtype is value.dtype and converted.device is value.device:
                    continue
                if name in module._buffers:
                    module.__dict__[name] = converted
                else:
                    grad, value.grad = value.grad, None
                    value.set_data(converted)
                    value.grad = None if grad is None else convert(grad)
        return self

    def cpu(self: Self) -> Self:
        """Move to the CPU."""
        return self.to("cpu")

    def cuda(self: Self, device: Any = None) -> Self:
        """AssertionError, as of a PyTorch without CUDA."""
        raise AssertionError("Torch not compiled with CUDA enabled")

    def vcpu(self: Self, device: Any = None) -> Self:
        """Move to a virtual device, by number or name (None = the current one)."""
        return self.to(virtual(device))

    def float(self: Self) -> Self:
        """Convert to float32."""
        return self.to(float32)

    def double(self: Self) -> Self:
        """Convert to float64."""
        return self.to(float64)

    # state
    def state_dict(self, *, prefix: str = "", keep_vars: bool = False) -> dict[str, Tensor]:
        """Parameters and persistent buffers by dotted name, detached (but not copied) unless ``keep_vars``."""
        return collect_state(self, prefix, keep_vars)

    def load_state_dict(self, state_dict: Mapping[str, Tensor], strict: bool = True) -> IncompatibleKeys:
        """Copy values in.

        Returns:
            The missing and the unexpected keys.

        Raises:
            RuntimeError: sizes differ, or, when ``strict``, keys do.
        """
        return load_state(self, state_dict, strict)

    # hooks
    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before forward; what it returns replaces the arguments.

        Args:
            hook: the function.
            prepend: call it before the hooks that are there.
            with_kwargs: call ``hook(module, args, kwargs)``, which returns None or ``(args, kwargs)``.
        """
        return self._own_hooks().pre.add(ForwardHook(hook, with_kwargs), prepend=prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args, result)`` after forward; what it returns replaces the result.

        Args:
            hook: the function.
            prepend: call it before the hooks that are there.
            with_kwargs: call ``hook(module, args, kwargs, result)``.
            always_call: call it even if forward raises.
        """
        return self._own_hooks().post.add(ForwardHook(hook, with_kwargs, always_call), prepend=prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[[Module, Any], Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` before the module's backward; what it returns replaces ``grad_output``."""
        return self._own_hooks().backward_pre.add(hook, prepend=prepend)

    def register_full_backward_hook(
        self, hook: Callable[[Module, Any, Any], Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when the gradients of the module's inputs are known.

        Both are tuples, with None for what is no tensor; what the hook returns replaces ``grad_input``.
        """
        return self._own_hooks().backward.add(hook, prepend=prepend)

    def _own_hooks(self) -> ModuleHooks:
        hooks = self._hooks
        if hooks is None:
            hooks = self.__dict__["_hooks"] = ModuleHooks()
        return hooks

    # looks
    def extra_repr(self) -> str:
        """What ``repr`` shows between the parentheses."""
        return ""

    def __repr__(self) -> str:
        head = self.extra_repr().splitlines()
        children = [f"({name}): {_indent(repr(self.__dict__[name]))}" for name in self._modules]
        if not children and len(head) <= 1:
            return f"{type(self).__name__}({''.join(head)})"
        return "\n".join([f"{type(self).__name__}(", *(f"  {line}" for line in [*head, *children]), ")"])


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _indent(text: str) -> str:
    return text.replace("\n", "\n  ")
