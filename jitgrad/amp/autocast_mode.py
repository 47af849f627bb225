"""``autocast``: products in a shorter dtype.

Owns: ``autocast`` and what scripts use beside it: when a thread is in such a block.
Must not know: which functions look at that (``lowered`` and ``in_float32`` in ``functions.devices``).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from jitgrad.dtypes import bfloat16, float16, float64
from jitgrad.functions.devices import to
from jitgrad.settings import get_autocast_dtype
from jitgrad.state import autocasts, state
from jitgrad.tensor_base import TensorBase

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

_GPUS = ("cuda", "xpu", "mps", "hpu", "mtia", "maia", "xla", "ipu", "privateuseone")


class autocast:
    """A block, or a decorated function, in which some operations on the CPU compute in a shorter dtype.

    Products of matrices and convolutions take their float32 operands as bfloat16 or float16, and give that; losses and
    a few others take short operands as float32; all others compute in the dtype they are given. These are PyTorch's
    lists for a CPU. Gradients of leaves come in the leaves' own dtype. For a GPU it warns that there is none.

    Args:
        device_type: ``"cpu"``, or a kind of GPU.
        dtype: bfloat16 (the default on a CPU) or float16; any other is refused with a warning.
        enabled: False: the block computes as it would without any.
        cache_enabled: whether a leaf is cast once in a block, outside of compiled steps.

    Raises:
        ValueError: ``device_type`` is no string.
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
        dtype = dtype or get_autocast_dtype(device_type)
        if enabled and dtype not in (bfloat16, float16):
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
                "CPU Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.",
                stacklevel=2,
            )
            enabled = False
        self.device, self.fast_dtype, self._enabled = device_type, dtype, enabled
        self._keeps_casts = cache_enabled is not False
        self._before: list[Any] = []

    def __enter__(self) -> autocast:
        self._before.append((state.autocast, state.autocast_casts))
        autocasts.append(self)
        if self.device == "cpu":
            state.autocast = self.fast_dtype if self._enabled else None
            casts = state.autocast_casts
            state.autocast_casts = None if not self._keeps_casts else {} if casts is None else casts
        return self

    def __exit__(self, *_: object) -> None:
        autocasts.remove(self)
        state.autocast, state.autocast_casts = self._before.pop()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self:
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
    """Decorates ``forward`` of a Function that is used under ``autocast``, whose ``backward`` has ``custom_bwd``.

    Args:
        device_type: where it is used; for a GPU nothing is done.
        cast_inputs: inside such a block, a dtype that floating operands are cast to; ``forward`` then runs without one.
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    if device_type != "cpu":
        return fwd

    @functools.wraps(fwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._autocast = state.autocast
        if cast_inputs is None or state.autocast is None:
            return fwd(ctx, *args, **kwargs)
        ctx._autocast = None
        with autocast("cpu", enabled=False):
            cast = [_converted(x, cast_inputs) for x in args]
            return fwd(ctx, *cast, **{name: _converted(x, cast_inputs) for name, x in kwargs.items()})

    return decorated


def _converted(x: Any, dtype: Any) -> Any:
    is_eligible = isinstance(x, TensorBase) and x._aval.dtype.is_floating_point and x._aval.dtype is not float64
    return to(x, dtype) if is_eligible else x


def custom_bwd(bwd: Any = None, *, device_type: str = "cuda") -> Any:
    """Decorates ``backward`` of such a Function: it runs under the ``autocast`` that its ``forward`` ran under."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    if device_type != "cpu":
        return bwd

    @functools.wraps(bwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast("cpu", dtype=ctx._autocast, enabled=ctx._autocast is not None):
            return bwd(ctx, *args, **kwargs)

    return decorated
