"""``autocast``: accepted, and without effect.

Owns: ``autocast`` and what scripts use beside it.
Must not know: operations.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

_GPUS = ("cuda", "xpu", "mps", "hpu", "mtia", "maia", "xla", "ipu", "privateuseone")


class autocast:
    """A block, or a decorated function, in which PyTorch would compute some operations in a shorter dtype.

    For a GPU it warns that there is none, as PyTorch does. For ``"cpu"`` it computes in the operands' own dtype: the
    results are more exact than PyTorch's, and float32 where PyTorch has bfloat16.

    Raises:
        RuntimeError: no such type of device.
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if device_type != "cpu" and device_type not in _GPUS:
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        if enabled and device_type != "cpu":
            name = device_type.upper()
            warnings.warn(
                f"User provided device_type of '{device_type}', but {name} is not available. Disabling", stacklevel=2
            )
            enabled = False
        self.device, self.fast_dtype, self._enabled = device_type, dtype, enabled

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return decorated


def is_autocast_available(device_type: str) -> bool:
    """Whether ``autocast`` takes this type of device.

    Raises:
        RuntimeError: there is no such type.
    """
    if device_type != "cpu" and device_type not in _GPUS:
        raise RuntimeError(f"Expected one of cpu, {', '.join(_GPUS)} device type: {device_type}")
    return device_type != "ipu"


def custom_fwd(fwd: Any = None, *, device_type: str = "cuda", cast_inputs: Any = None) -> Any:
    """Decorates ``forward`` of a Function that is used under ``autocast``: nothing is cast here."""
    return fwd if fwd is not None else lambda function: function


def custom_bwd(bwd: Any = None, *, device_type: str = "cuda") -> Any:
    """Decorates ``backward`` of such a Function."""
    return bwd if bwd is not None else lambda function: function
