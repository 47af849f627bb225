"""Pruning: weights that are held at zero by a mask, as ``torch.nn.utils.prune``.

Owns: the methods that choose a mask, and the hook that applies it.
Must not know: which layers there are.

A pruned parameter ``name`` becomes the parameter "name_orig" and the buffer "name_mask"; a hook before forward
computes ``name`` as their product.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from jitgrad.functions import kthvalue, norm, ones_like, rand, rand_like, topk, zeros_like
from jitgrad.grad_mode import no_grad
from jitgrad.nn.utils.convert_parameters import parameters_to_vector

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


class BasePruningMethod(ABC):
    """A way to choose which elements of a tensor stay; a subclass writes ``compute_mask``.

    Attributes:
        PRUNING_TYPE: "unstructured" (single elements), "structured" (slices along ``dim``) or "global": what it sees of
            a tensor that is pruned already.
        _tensor_name: of the parameter it prunes.
    """

    PRUNING_TYPE: ClassVar[str]
    _tensor_name: str

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask of ``t``, of its shape; zero at least where ``default_mask`` is."""

    def apply_mask(self, module: Any) -> Any:
        """The parameter times its mask."""
        name = self._tensor_name
        original = getattr(module, f"{name}_orig")
        return getattr(module, f"{name}_mask").to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any) -> Any:
        """Prune a parameter, or prune it further.

        Args:
            module: whose parameter.
            name: of the parameter.
            args, kwargs: for the constructor.
            importance_scores: of the parameter's shape: what is looked at instead of it.

        Returns:
            The hook: this method, or the container of all that have pruned the parameter.
        """
        method = _joined_to_known(module, cls(*args, **kwargs), name)
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, got "
                f"{importance_scores.shape} vs {original.shape}"
            )
        is_first = not isinstance(method, PruningContainer)
        if is_first:
            module.register_parameter(f"{name}_orig", original)
            del module._parameters[name]
            known = ones_like(original)
        else:
            known = getattr(module, f"{name}_mask").detach().clone()
        try:
            with no_grad():
                mask = method.compute_mask(importance_scores.detach(), default_mask=known)
            module.register_buffer(f"{name}_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if is_first:
                module.register_parameter(name, original)
                del module._parameters[f"{name}_orig"]
            raise
        return method

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """``t`` times its mask; nothing is registered."""
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as tensor t, got {importance_scores.shape} vs {t.shape}"
            )
        default_mask = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(importance_scores, default_mask=default_mask)

    def remove(self, module: Any) -> None:
        """Make the parameter one again, with its zeros."""
        name = self._tensor_name
        weight = self.apply_mask(module).detach()
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters[f"{name}_orig"]
        original.data = weight
        del module._parameters[f"{name}_orig"]
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


def _joined_to_known(module: Any, method: BasePruningMethod, name: str) -> BasePruningMethod:
    """``method``, in a container with what prunes the parameter already; that is no hook any more."""
    method._tensor_name = name
    known = [
        (key, hook)
        for key, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ]
    if len(known) > 1:
        raise AssertionError(
            f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a PruningContainer."
        )
    if not known:
        return method
    key, old = known[0]
    del module._forward_pre_hooks[key]
    container = old if isinstance(old, PruningContainer) else PruningContainer(old)
    container.add_pruning_method(method)
    return container


class PruningContainer(BasePruningMethod):
    """Several methods that prune one parameter; the last one sees what the others have left."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method.

        Raises:
            TypeError: for anything else.
            ValueError: for a method of another parameter.
        """
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to PruningContainer "
                f"{self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """What the last method leaves of ``default_mask``."""
        method = self._pruning_methods[-1]
        left = _what_is_left(method, t, default_mask)
        mask = default_mask.to(dtype=t.dtype, copy=True)
        mask[left] = method.compute_mask(t[left], default_mask=default_mask[left]).to(dtype=mask.dtype)
        return mask


def _what_is_left(method: Any, t: Any, mask: Any) -> Any:
    """An index of the part of ``t`` that the method may prune."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    whole: list[Any] = [slice(None)] * t.ndim
    if method.PRUNING_TYPE == "structured":
        if not hasattr(method, "dim"):
            raise AttributeError(
                'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
            )
        dim = method.dim + t.ndim if method.dim < 0 else method.dim
        if dim < 0:
            raise IndexError(f"Index is out of bounds for tensor with dimensions {t.ndim}")
        whole[dim] = mask.sum([d for d in range(t.ndim) if d != dim]) != 0
    elif method.PRUNING_TYPE != "global":
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
    return tuple(whole)


class Identity(BasePruningMethod):
    """Prunes nothing, and makes the mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """``default_mask``."""
        return default_mask


class _Unstructured(BasePruningMethod):
    """Prunes single elements.

    Args:
        amount: how many, or which fraction.

    Raises:
        TypeError, ValueError: for another amount.
    """

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Zero at the elements with the lowest scores."""
        count = _count(self.amount, t.numel())
        mask = default_mask.clone()
        if count:
            mask.view(-1)[self._lowest(t, count)] = 0
        return mask

    def _lowest(self, t: Any, count: int) -> Any:
        raise NotImplementedError


class RandomUnstructured(_Unstructured):
    """Prunes random elements."""

    def _lowest(self, t: Any, count: int) -> Any:
        return topk(rand_like(t).view(-1), count)[1]


class L1Unstructured(_Unstructured):
    """Prunes the elements of the least magnitude."""

    def _lowest(self, t: Any, count: int) -> Any:
        return topk(t.abs().reshape(-1), count, largest=False)[1]


class _Structured(BasePruningMethod):
    """Prunes slices along a dimension."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount, self.dim = amount, dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Zero in the slices with the lowest scores."""
        if t.ndim <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                f"{t.shape} with {t.ndim} dims"
            )
        if self.dim >= t.ndim:
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        channels = t.shape[self.dim]
        count = _count(self.amount, channels)
        if not count:
            return default_mask
        kept: list[Any] = [slice(None)] * t.ndim
        kept[self.dim] = self._kept(t, channels, count)
        mask = zeros_like(t)
        mask[tuple(kept)] = 1
        return mask * default_mask.to(dtype=mask.dtype)

    def _kept(self, t: Any, channels: int, count: int) -> Any:
        raise NotImplementedError


class RandomStructured(_Structured):
    """Prunes random slices.

    Args:
        amount: how many, or which fraction.
        dim: along which dimension.
    """

    def _kept(self, t: Any, channels: int, count: int) -> Any:
        scores = rand(channels)
        return scores > kthvalue(scores, count)[0]


class LnStructured(_Structured):
    """Prunes the slices of the least n-norm.

    Args:
        amount: how many, or which fraction.
        n: of the norm.
        dim: along which dimension.
    """

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _kept(self, t: Any, channels: int, count: int) -> Any:
        others = [d for d in range(t.ndim) if d != self.dim % t.ndim]
        return topk(norm(t, p=self.n, dim=others), channels - count)[1]


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask that is given."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Both masks."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def identity(module: Any, name: str) -> Any:
    """Give a parameter a mask of ones; returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Prune ``amount`` random elements (a number, or a fraction) of a parameter; returns the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: float, importance_scores: Any = None) -> Any:
    """Prune the ``amount`` elements of least magnitude of a parameter; returns the module."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Prune ``amount`` random slices along ``dim`` of a parameter; returns the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Any, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None) -> Any:
    """Prune the ``amount`` slices of least n-norm along ``dim`` of a parameter; returns the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Any) -> Any:
    """Prune a parameter by a mask of its shape; returns the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Any, pruning_method: type[BasePruningMethod], importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune single elements of several parameters as if they were one.

    Args:
        parameters: pairs of a module and a parameter's name.
        pruning_method: a class of methods for single elements.
        importance_scores: pair -> tensor of the parameter's shape that is looked at instead of it.
        kwargs: for the class.

    Raises:
        TypeError: for other arguments, and for a method of another kind.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores_of = {} if importance_scores is None else importance_scores
    if not isinstance(scores_of, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs = [tuple(pair) for pair in parameters]
    present = [getattr(module, name) for module, name in pairs]
    scores = parameters_to_vector([scores_of.get(pair, p) for pair, p in zip(pairs, present, strict=True)])
    masks = [getattr(m, f"{name}_mask", None) for m, name in pairs]
    known = parameters_to_vector([ones_like(p) if k is None else k for k, p in zip(masks, present, strict=True)])
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of '
            f"type {method.PRUNING_TYPE}"
        )
    method._tensor_name = "temp"
    with no_grad():
        mask = PruningContainer(method).compute_mask(scores.detach(), known)
    start = 0
    for (module, name), p in zip(pairs, present, strict=True):
        custom_from_mask(module, name, mask=mask[start : start + p.numel()].view(p.shape))
        start += p.numel()


def remove(module: Any, name: str) -> Any:
    """Make a pruned parameter one again, with its zeros; returns the module. ValueError if it is not pruned."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Any) -> bool:
    """Whether anything in the tree is pruned."""
    return any(
        isinstance(hook, BasePruningMethod) for part in module.modules() for hook in part._forward_pre_hooks.values()
    )


def _check_amount(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    is_count = isinstance(amount, numbers.Integral)
    if (is_count and amount < 0) or (not is_count and not 0.0 <= float(amount) <= 1.0):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _count(amount: Any, size: int) -> int:
    """How many of ``size`` are pruned. ValueError if there are not that many."""
    if not isinstance(amount, int):
        return round(amount * size)
    if amount > size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
    return amount
