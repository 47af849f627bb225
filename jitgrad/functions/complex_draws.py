"""New complex tensors of random numbers: their parts are drawn in the order of memory, as PyTorch draws them.

Owns: ``complex_numbers``, ``normal_numbers``, ``complex_like``. Imported late.
Must not know: how numbers are made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jitgrad.dtypes import DType
from jitgrad.functions.drawing import dense, generator_or_default, made, make
from jitgrad.ops.aval import make_aval
from jitgrad.ops.dispatch_hook import call

__all__ = ["complex_like", "complex_numbers", "normal_numbers"]


def _joined(parts: Any, requires_grad: bool) -> Any:
    return call("view_as_complex", parts).detach().requires_grad_(requires_grad)


def complex_numbers(
    draw: Callable[..., Any], shape: tuple[int, ...], dtype: DType, device: Any, requires_grad: bool, generator: Any
) -> Any:
    """Complex numbers whose parts ``draw(*sizes, ...)`` draws."""
    return _joined(draw(*shape, 2, generator=generator, dtype=dtype.to_real(), device=device), requires_grad)


def normal_numbers(
    shape: tuple[int, ...],
    dtype: DType,
    device: Any,
    requires_grad: bool,
    generator: Any,
    mean: float = 0.0,
    std: float = 1.0,
) -> Any:
    """Normal complex numbers: the variance is that of both parts together. ``mean`` is that of each part."""
    source, scaled = generator_or_default("randn", generator), std * math.sqrt(0.5)
    return _joined(make((*shape, 2), dtype.to_real(), device, False, source, "normal", mean, scaled), requires_grad)


def complex_like(
    input: Any,
    dtype: DType | None,
    device: Any,
    requires_grad: bool,
    generator: Any,
    distribution: str,
    params: tuple[Any, ...],
) -> Any:
    """``rand_like`` or ``randn_like`` of a complex dtype."""
    kind = dtype or input._aval.dtype
    layout = dense(input._aval, kind)
    pairs = make_aval((*layout.shape, 2), kind.to_real(), (*[2 * s for s in layout.stride], 1))
    place = input._aval.device if device is None else device
    parts = made(pairs, place, False, generator_or_default("like", generator), distribution, params)
    return _joined(parts, requires_grad)
