"""Parametrizations: an attribute of a module that is computed from the parameters that are trained.

Owns: registering, removing and caching them, and ``ParametrizationList``, which holds those of one attribute.
Must not know: any parametrization.

The module's class is replaced by a subclass of its own, with a property per parametrized name; ``parametrizations``, a
``ModuleDict`` of the module, holds what the property computes with. (PyTorch's way, so that keys of state dictionaries
are the same: ``parametrizations.weight.original``.)
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from jitgrad.grad_mode import no_grad
from jitgrad.nn.containers import ModuleDict, ModuleList
from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter
from jitgrad.tensor import Tensor

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]


class _Cache:
    """What parametrized attributes were computed to be, while ``cached()`` is active.

    Attributes:
        depth: how many ``cached()`` blocks are open.
        values: (id of the module, name) -> tensor.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.values: dict[tuple[int, str], Tensor] = {}


_cache = _Cache()


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized attribute at most once in the block."""
    _cache.depth += 1
    try:
        yield
    finally:
        _cache.depth -= 1
        if not _cache.depth:
            _cache.values = {}


def _register(module: Module, name: str, value: Tensor) -> None:
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


class ParametrizationList(ModuleList):
    """The parametrizations of one attribute, first to last; calling it computes the attribute.

    Args:
        modules: the parametrizations.
        original: the tensor that is parametrized; what is trained is ``right_inverse`` of it, where there is one.
        unsafe: do not check that dtype and shape stay.

    Attributes:
        is_tensor: what is trained is one tensor, ``original``; else there are "original0", "original1", ...
        ntensors: how many.

    Raises:
        ValueError: no parametrization, or one that changes a shape, a dtype or a device.
    """

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        new = _inverted_where_possible(self, original)
        if not isinstance(new, Tensor | Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                f"{type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if isinstance(new, Tensor):
            _check_same_kind(original, new)
            with no_grad():
                _put(original, new)
            _register(self, "original", original)
        else:
            self._register_several(original, new)
        if not unsafe:
            _check_result(self(), "unparametrized", shape, dtype, "parametrized", "")

    def _register_several(self, original: Any, parts: Any) -> None:
        for i, part in enumerate(parts):
            if not isinstance(part, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element "
                    f"{i} of the sequence with type {type(part).__name__}."
                )
            if isinstance(original, Parameter):
                part = Parameter(part, original.requires_grad)
            part.requires_grad_(original.requires_grad)
            _register(self, f"original{i}", part)

    def right_inverse(self, value: Tensor) -> None:
        """Set what is trained so that the attribute becomes ``value``.

        Raises:
            RuntimeError: a parametrization without ``right_inverse``.
            ValueError: one that returns something else than what is trained.
        """
        with no_grad():
            found: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                found = module.right_inverse(found)
            if self.is_tensor:
                self._put_one(found)
            else:
                self._put_several(found)

    def _put_one(self, value: Any) -> None:
        original: Any = self._original("original")
        if not isinstance(value, Tensor):
            raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
        if value.dtype != original.dtype:
            raise ValueError(
                f"The tensor returned by `right_inverse` has dtype {value.dtype} while `original` has dtype "
                f"{original.dtype}"
            )
        _put(original, value)

    def _put_several(self, values: Any) -> None:
        if not isinstance(values, Sequence):
            raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(values).__name__}.")
        if len(values) != self.ntensors:
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of "
                f"length {len(values)}."
            )
        for i, value in enumerate(values):
            original = self._original(f"original{i}")
            if not isinstance(value, Tensor):
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors or reference-type opaques. Got element "
                    f"{i} of type {type(value).__name__}."
                )
            if value.dtype != original.dtype:
                raise ValueError(
                    f"Tensor {i} returned by `right_inverse` has dtype {value.dtype} while `original{i}` has dtype "
                    f"{original.dtype}"
                )
            _put(original, value)

    def _original(self, name: str) -> Any:
        return self.__dict__[name]

    def forward(self) -> Tensor:
        """The attribute."""
        names = ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]
        first, *others = list(self)
        value: Tensor = first(*(self._original(name) for name in names))
        for module in others:
            value = module(value)
        return value


def _inverted_where_possible(modules: Any, original: Any) -> Any:
    new = original
    with no_grad():
        for module in reversed(list(modules)):
            if hasattr(module, "right_inverse"):
                try:
                    new = module.right_inverse(new)
                except NotImplementedError:
                    continue
    return new


def _put(tensor: Any, value: Any) -> None:
    """Make ``tensor`` hold ``value``, of any shape; its identity stays, and so does an optimizer's hold on it."""
    if value is tensor:
        return
    detached = value.detach()
    if isinstance(tensor, Parameter):
        tensor.set_data(detached)
    else:
        tensor.data = detached


def _check_same_kind(original: Any, new: Any) -> None:
    for what in ("dtype", "device"):
        if getattr(original, what) != getattr(new, what):
            raise ValueError(
                f"When `right_inverse` outputs one tensor, it may not change the {what}.\n"
                f"original.{what}: {getattr(original, what)}\nright_inverse(original).{what}: {getattr(new, what)}"
            )


def _check_result(found: Any, before: str, shape: Any, dtype: Any, after: str, the: str) -> None:
    """What a parametrization returned has the shape and dtype that the attribute had. ValueError if not."""
    if not isinstance(found, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(found).__name__}.")
    for what, was, now in (("dtype", dtype, found.dtype), ("shape", shape, found.shape)):
        if was != now:
            dot = "." if the else " "
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless {the}`unsafe` flag is "
                f"enabled.\n{before}{dot}{what}: {was}\n{after}{dot}{what}: {now}"
            )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the module has a parametrization, of ``tensor_name`` if it is given."""
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def register_parametrization(
    module: Any, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Any:
    """Let an attribute of a module be ``parametrization`` of what is trained from now on.

    Where the parametrization has ``right_inverse``, what is trained starts as ``right_inverse`` of the present value
    (several tensors if it returns a sequence), and assigning to the attribute goes through it. A second one on the same
    name is applied after the first.

    Args:
        module: whose attribute.
        tensor_name: of a parameter, a buffer, or an attribute that is parametrized already.
        parametrization: a module.
        unsafe: dtype and shape may change; nothing is checked.

    Returns:
        The module.

    Raises:
        ValueError: there is no such attribute, or something that must stay changes.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_next(module, tensor_name, parametrization)
        known = module.parametrizations[tensor_name]
        known.append(parametrization)
        known.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        found = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _give_own_class(module)
            module.parametrizations = ModuleDict()
        _give_property(module, tensor_name)
        module.parametrizations[tensor_name] = found
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def _check_next(module: Module, name: str, parametrization: Any) -> None:
    """A further parametrization keeps dtype and shape, in both directions. ValueError if not."""
    value = getattr(module, name)
    found = parametrization(value)
    own = f"module.{name}"
    _check_result(found, own, value.shape, value.dtype, f"parametrization({own})", "the ")
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(found)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
    for what in ("dtype", "shape"):
        if getattr(back, what) != getattr(value, what):
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} as {own}, unless the "
                f"`unsafe` flag is enabled.\n{own}.{what}: {getattr(value, what)}\n"
                f"returned {what}: {getattr(back, what)}"
            )


def _refuse_pickling(module: Module) -> NoReturn:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _deep_copy(module: Any, memo: dict[int, Any]) -> Any:
    """A copy of the same class: its properties are on it."""
    made = memo.get(id(module))
    if made is None:
        kind: Any = type(module)
        made = memo[id(module)] = kind.__new__(kind)
        made.__setstate__(copy.deepcopy(module.__dict__, memo))
    return made


def _give_own_class(module: Any) -> None:
    known: Any = type(module)
    members: dict[str, Any] = {"__getstate__": _refuse_pickling}
    if not hasattr(known, "__deepcopy__"):
        members["__deepcopy__"] = _deep_copy
    module.__class__ = type(f"Parametrized{known.__name__}", (known,), members)


def _give_property(module: Module, name: str) -> None:
    if hasattr(module, name):
        raise AssertionError(f"Module already has an attribute named '{name}'")

    def get(owner: Any) -> Any:
        found = owner.parametrizations[name]
        if not _cache.depth:
            return found()
        key = (id(owner), name)
        if key not in _cache.values:
            _cache.values[key] = found()
        return _cache.values[key]

    def put(owner: Any, value: Any) -> None:
        owner.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Make an attribute a parameter or a buffer again.

    Args:
        module: whose attribute.
        tensor_name: which one.
        leave_parametrized: its value is what it was computed to be; else it is what was trained.

    Returns:
        The module, of its own class again if nothing of it is parametrized any more.

    Raises:
        ValueError: nothing is parametrized, or ``leave_parametrized`` is False and several tensors are trained.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    found = module.parametrizations[tensor_name]
    if found.is_tensor:
        original = found._original("original")
        if leave_parametrized:
            with no_grad():
                _put(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that the module had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Any, to_module: Any, tensor_name: str | None = None
) -> Any:
    """Let attributes of one module be parametrized as those of another, which shares its parameters.

    Args:
        from_module: whose parametrizations.
        to_module: is changed, and returned.
        tensor_name: of which attribute; all of them if None.
    """
    if not is_parametrized(from_module):
        return to_module
    source: Any = from_module.parametrizations
    for name in list(source) if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for parametrization in source[name]:
            register_parametrization(to_module, name, parametrization)
        target: Any = to_module.parametrizations[name]
        for kept in (k for k in source[name].__dict__ if k.startswith("original")):
            setattr(target, kept, source[name]._original(kept))
    return to_module
