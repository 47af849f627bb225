"""Weight normalisation in its older form: a hook before forward computes the weight.

Owns: ``weight_norm``, ``remove_weight_norm``.
"""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter, is_lazy
from jitgrad.nn.utils.norms import norm_except_dim, weight_of

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]

M = TypeVar("M", bound=Module)


class WeightNorm:
    """The hook: ``name`` is "name_v" with the norms "name_g".

    Attributes:
        name: of the weight.
        dim: along which it has norms; -1: it has one.
    """

    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self.dim = name, -1 if dim is None else dim

    def compute_weight(self, module: Any) -> Any:
        """The weight."""
        return weight_of(getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g"), self.dim)

    @staticmethod
    def apply(module: Any, name: str, dim: int | None) -> WeightNorm:
        """Replace the parameter by its direction and its norms."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        hook = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure to run the dummy "
                "forward before applying weight normalization"
            )
        del module._parameters[name]
        values = weight.detach()
        module.register_parameter(f"{name}_g", Parameter(norm_except_dim(values, hook.dim)))
        module.register_parameter(f"{name}_v", Parameter(values))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Any) -> None:
        """Make the weight a parameter again."""
        weight = self.compute_weight(module).detach()
        delattr(module, self.name)
        del module._parameters[f"{self.name}_g"]
        del module._parameters[f"{self.name}_v"]
        setattr(module, self.name, Parameter(weight))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Train a weight as its direction and its norms; deprecated, see ``parametrizations.weight_norm``.

    Args:
        module: whose weight; it gets parameters "name_g" and "name_v".
        name: of the weight.
        dim: along which it has norms; None: it has one norm.

    Raises:
        RuntimeError: the weight has such a hook already.
        ValueError: its shape is not known yet.
    """
    warnings.warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Undo ``weight_norm``. ValueError if there is nothing to undo."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
