"""The incomplete gamma functions and the multivariate one.

Owns: igamma, igammac, mvlgamma and their in-place forms.
Must not know: how they are computed. Imported late.
"""

from __future__ import annotations

import math
from typing import Any

from jitgrad.door import door
from jitgrad.dtypes import BOOLEAN
from jitgrad.functions.creation import arange
from jitgrad.functions.outputs import takes_out
from jitgrad.functions.pointwise import lgamma
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.table import OPS
from jitgrad.tensor_base import TensorBase

__all__ = ["igamma", "igamma_", "igammac", "igammac_", "mvlgamma", "mvlgamma_"]


def _check(name: str, *operands: Any) -> None:
    for argument, x in zip(("input", "other"), operands, strict=True):
        if not isinstance(x, TensorBase):
            position = 1 if argument == "input" else 2
            raise TypeError(
                f"{name}(): argument '{argument}' (position {position}) must be Tensor, not {type(x).__name__}"
            )


@takes_out
def igamma(input: Any, other: Any) -> Any:
    """The regularized lower incomplete gamma function P(input, other), differentiable with respect to ``other``.

    Raises:
        NotImplementedError: for integers; in backward, for a gradient with respect to ``input``.
    """
    _check("igamma", input, other)
    return call("igamma", input, other)


@takes_out
def igammac(input: Any, other: Any) -> Any:
    """1 - P(input, other), as exact where it is small. As ``igamma``."""
    _check("igammac", input, other)
    return call("igammac", input, other)


def igamma_(self: Any, other: Any) -> Any:
    """In-place ``igamma``."""
    door.apply_inplace(OPS["igamma"], (self,), self, other)
    return self


def igammac_(self: Any, other: Any) -> Any:
    """In-place ``igammac``."""
    door.apply_inplace(OPS["igammac"], (self,), self, other)
    return self


@takes_out
def mvlgamma(input: Any, p: int) -> Any:
    """The logarithm of the gamma function of ``p`` dimensions.

    Source: NIST Digital Library of Mathematical Functions, 35.3.4.

    Raises:
        RuntimeError: ``p`` is below 1.
    """
    if input.dtype.category is BOOLEAN:
        raise RuntimeError("The input tensor may not be a boolean tensor.")
    if not isinstance(p, int):
        raise TypeError(f"mvlgamma(): argument 'p' (position 2) must be int, not {type(p).__name__}")
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    x = input if input.dtype.is_floating_point else input * 1.0
    shifts = arange(p, dtype=x.dtype, device=x.device) * -0.5
    return lgamma(x.unsqueeze(-1) + shifts).sum(-1) + p * (p - 1) * math.log(math.pi) / 4


def mvlgamma_(self: Any, p: int) -> Any:
    """In-place ``mvlgamma``."""
    return self.copy_(mvlgamma(self, p))
