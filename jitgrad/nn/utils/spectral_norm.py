"""Spectral normalisation in its older form: a hook before forward divides the weight by its largest singular value.

Owns: ``spectral_norm``, ``remove_spectral_norm``.
"""

from __future__ import annotations

from typing import Any, TypeVar

from jitgrad.functions import empty, matmul
from jitgrad.grad_mode import no_grad
from jitgrad.linalg import pinv
from jitgrad.nn import functional as F
from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter, is_lazy
from jitgrad.nn.utils.norms import as_matrix, norm_dim

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]

M = TypeVar("M", bound=Module)


class SpectralNorm:
    """The hook: ``name`` is "name_orig" divided by its largest singular value.

    Attributes:
        name: of the weight.
        n_power_iterations: per call while training.
        dim: of the weight's outputs.
        eps: the least norm that a vector is divided by.
    """

    _version = 1

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def compute_weight(self, module: Any, do_power_iteration: bool) -> Any:
        """The weight, after some more iterations if asked for."""
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matmul(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(matmul(matrix, v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()  # the next call changes the buffers, this one's graph has these
        return weight / (u * matmul(matrix, v)).sum()

    @staticmethod
    def apply(module: Any, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Replace the parameter by the one that is trained, and draw where the iteration begins."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure to run the dummy "
                "forward before applying spectral normalization"
            )
        sizes = as_matrix(weight.detach(), dim).shape
        starts = [start_vector(n, weight, eps) for n in sizes]
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        setattr(module, name, weight.detach())
        for part, start in zip(("u", "v"), starts, strict=True):
            module.register_buffer(f"{name}_{part}", start)
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(SpectralNormStateDictHook(hook))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(hook))
        return hook

    def remove(self, module: Any) -> None:
        """Make the weight a parameter again."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for suffix in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))


def start_vector(count: int, like: Any, eps: float) -> Any:
    """A random direction in ``count`` dimensions."""
    with no_grad():
        drawn = empty(count, dtype=like.dtype, device=like.device).normal_(0, 1)
        return F.normalize(drawn, dim=0, eps=eps)


class SpectralNormStateDictHook:
    """Notes the version of the hook's state."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Any, state_dict: Any, prefix: str, local_metadata: Any) -> None:
        noted = local_metadata.setdefault("spectral_norm", {})
        key = f"{self.fn.name}.version"
        if key in noted:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        noted[key] = self.fn._version


class SpectralNormLoadStateDictPreHook:
    """Reads states of version 0, which had the weight and no ``v``."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self, state: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str], *rest: Any
    ) -> None:
        name = self.fn.name
        version = local_metadata.get("spectral_norm", {}).get(f"{name}.version")
        if version is not None and version >= 1:
            return
        key = prefix + name
        if version is None and key not in state and all(key + s in state for s in ("_orig", "_u", "_v")):
            return
        missing = [key + suffix for suffix in ("_orig", "", "_u") if key + suffix not in state]
        if missing:
            if strict:
                missing_keys.extend(missing)
            return
        with no_grad():
            original = state[f"{key}_orig"]
            sigma = (original / state.pop(key)).mean()
            matrix, u = as_matrix(original, self.fn.dim), state[f"{key}_u"]
            v = matmul(pinv(matmul(matrix.t(), matrix)), matmul(matrix.t(), u))
            state[f"{key}_v"] = v * (sigma / (u * matmul(matrix, v)).sum())


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Divide a weight by its largest singular value; see ``parametrizations.spectral_norm`` for the newer form.

    Args:
        module: whose weight; it gets the parameter "name_orig" and the buffers "name_u", "name_v".
        name: of the weight.
        n_power_iterations: per call while training.
        eps: the least norm that a vector is divided by.
        dim: of the weight's outputs; 0, and 1 of transposed convolutions, if None.

    Raises:
        RuntimeError: the weight has such a hook already.
        ValueError: there are no iterations, or the weight is None, or its shape is not known yet.
    """
    SpectralNorm.apply(module, name, n_power_iterations, norm_dim(module, dim), eps)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Undo ``spectral_norm``. ValueError if there is nothing to undo."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    kinds = (SpectralNormStateDictHook, SpectralNormLoadStateDictPreHook)
    for hooks in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
        for key, found in list(hooks.items()):
            if isinstance(found, kinds) and found.fn.name == name:
                del hooks[key]
    return module
