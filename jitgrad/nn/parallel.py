"""``torch.nn.parallel`` in one process on a CPU: a wrapper that calls the module it wraps.

Owns: ``DataParallel``.
Must not know: devices.
"""

from __future__ import annotations

from typing import Any

from jitgrad.nn.module import Module

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


class DataParallel(Module):
    """Calls ``module``: without GPUs there is nothing to split a batch over, as in PyTorch.

    Its state dictionary has PyTorch's keys, which begin with ``module.``; kernels use all cores anyway.

    Args:
        module: the module to call.
        device_ids, output_device, dim: accepted, without effect.
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """``module(*inputs, **kwargs)``."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """``module(*inputs)``, see ``DataParallel``."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*inputs, **(module_kwargs or {}))


class DistributedDataParallel(Module):
    """Training in several processes, which jitgrad does not do.

    Raises:
        RuntimeError: always, as in PyTorch without an initialised process group.
    """

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("DistributedDataParallel needs a process group, and jitgrad trains in one process")
