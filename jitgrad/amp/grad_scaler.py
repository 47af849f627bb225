"""Scaling a loss so that small gradients do not vanish in a short dtype.

Owns: ``GradScaler``.
Must not know: how optimizers step.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from jitgrad.dtypes import float16
from jitgrad.grad_mode import no_grad
from jitgrad.tensor import Tensor

__all__ = ["GradScaler"]


class GradScaler:
    """``torch.amp.GradScaler``.

    Without a GPU a scaler for ``"cuda"`` is disabled, with PyTorch's warning: ``scale`` returns its argument and
    ``step`` steps. One for ``"cpu"`` works: the loss is multiplied by the scale, ``step`` divides the gradients by it
    and leaves the step out if one is infinite or NaN, and ``update`` adjusts the scale.

    Args:
        init_scale: the first scale.
        growth_factor: of the scale after ``growth_interval`` steps in a row without an infinite gradient.
        backoff_factor: of the scale after one with some.
        enabled: False lets every method do as if there was no scaler.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        if enabled and device != "cpu":
            warnings.warn(
                f"torch.{device}.amp.GradScaler is enabled, but {device.upper()} is not available.  Disabling.",
                stacklevel=2,
            )
            enabled = False
        if enabled and growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if enabled and backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._enabled = enabled
        self._scale, self._growth_tracker = float(init_scale), 0
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._found: dict[int, bool] = {}  # optimizer's id -> whether a gradient was infinite
        self._unscaled: set[int] = set()
        self._stepped: set[int] = set()

    def scale(self, outputs: Any) -> Any:
        """A tensor, or each of an iterable of tensors, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, list | tuple):
            return type(outputs)([self.scale(x) for x in outputs])
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of the optimizer's parameters by the scale, for clipping them before ``step``.

        Raises:
            RuntimeError: it was done since the last ``update``, or ``step`` was.
            ValueError: a gradient is float16: there is nothing to be gained from scaling it.
        """
        if not self._enabled:
            return
        if id(optimizer) in self._stepped:
            raise RuntimeError("unscale_() is being called after step().")
        if id(optimizer) in self._unscaled:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        found, inverse = False, 1.0 / self._scale
        with no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        if parameter.grad.dtype is float16:
                            raise ValueError("Attempting to unscale FP16 gradients.")
                        parameter.grad.mul_(inverse)
                        found = found or not math.isfinite(parameter.grad.abs().sum().item())
        self._unscaled.add(id(optimizer))
        self._found[id(optimizer)] = found

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step(*args)`` after ``unscale_``, unless a gradient is infinite or NaN.

        Returns:
            What the optimizer's step returns; None if it was left out.

        Raises:
            RuntimeError: a second time since the last ``update``, or with a closure.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        if id(optimizer) in self._stepped:
            raise RuntimeError("step() has already been called since the last update().")
        if id(optimizer) not in self._unscaled:
            self.unscale_(optimizer)
        self._stepped.add(id(optimizer))
        return None if self._found[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adjust the scale after the steps of an iteration, or set it.

        Raises:
            AssertionError: no optimizer has stepped since the last one.
        """
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        else:
            if not self._found:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._adjust(any(self._found.values()))
        self._found.clear()
        self._unscaled.clear()
        self._stepped.clear()

    def _adjust(self, found: bool) -> None:
        if found:
            self._scale, self._growth_tracker = self._scale * self._backoff_factor, 0
            return
        self._growth_tracker += 1
        if self._growth_tracker == self._growth_interval:
            self._scale, self._growth_tracker = self._scale * self._growth_factor, 0

    def get_scale(self) -> float:
        """The scale; 1.0 of a disabled one."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by after steps without an infinite gradient."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Another such factor."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by after a step with an infinite gradient."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Another such factor."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many steps in a row without an infinite gradient the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Another such number."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether it scales."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Scale and settings; empty of a disabled one."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` returned.

        Raises:
            RuntimeError: it is empty: it came from a disabled scaler.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._scale, self._growth_tracker = float(state_dict["scale"]), int(state_dict["_growth_tracker"])
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
