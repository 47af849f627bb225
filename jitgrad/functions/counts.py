"""Random numbers of successes.

Owns: ``binomial``. Imported late.
Must not know: how numbers are made (``runtime.random.binomial``). See Note [Random streams].
"""

from __future__ import annotations

from typing import Any

from jitgrad.dtypes import float64
from jitgrad.functions.devices import placed
from jitgrad.functions.drawing import fresh_now, generator_or_default, type_name
from jitgrad.functions.sampling import constant_in, values_of
from jitgrad.ops.aval import make_aval
from jitgrad.ops.shapes import broadcast

__all__ = ["binomial"]


def binomial(count: Any, prob: Any, generator: Any = None) -> Any:
    """How many of ``count`` trials succeed with probability ``prob``; the tensors broadcast.

    A count or a probability below 0 gives 0, a probability above 1 the count. Gradients are zero.

    Raises:
        ValueError: counts that are not floating.
        NotImplementedError: half precision.
        RuntimeError: dtypes that differ, or shapes that do not broadcast.
    """
    if not count.dtype.is_floating_point:
        raise ValueError(f"binomial only supports floating-point dtypes for count, got: {type_name(count.dtype)}")
    if not prob.dtype.is_floating_point:
        raise ValueError(f"binomial only supports floating-point dtypes for prob, got: {type_name(prob.dtype)}")
    if count.dtype is not prob.dtype:
        raise RuntimeError(f"Found dtype {prob.dtype.type_name} but expected {count.dtype.type_name}")
    source = generator_or_default("binomial", generator)
    if count.dtype.itemsize < 4:
        raise NotImplementedError(f"\"binomial_cpu\" not implemented for '{count.dtype.type_name}'")
    shape = broadcast("binomial", tuple(count.shape), tuple(prob.shape))
    rows = [values_of(x.expand(shape)).astype(float64.np).ravel() for x in (count, prob)]
    out = fresh_now(make_aval(shape, count.dtype), source, "binomial", (rows[0], rows[1]))
    return constant_in(placed(out, count.device), count, prob)
