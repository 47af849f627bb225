"""What a primitive costs per element.

Owns: ``EXPENSIVE`` and ``op_cost``, the one estimate that fusion and scheduling decide by.
"""

from __future__ import annotations

from jitgrad.codegen.primitives.builder import POINTWISE

__all__ = ["CALL", "EXPENSIVE", "op_cost"]

CALL = 120
"""A function of scalars: nobody knows how often its loops run."""

# rough cost of a pointwise primitive per element, in units of one vector addition
EXPENSIVE: dict[str, int] = {
    **dict.fromkeys(("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sigmoid", "tanh"), 14),
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "erf", "atan2"), 20),
    **dict.fromkeys(("pow",), 40),
    **dict.fromkeys(("div", "sqrt", "mod", "fmod", "floordiv"), 4),
}


_COSTS = {**dict.fromkeys((*POINTWISE, "update"), 1), **EXPENSIVE, "call": CALL}


def op_cost(op: str) -> int:
    """See ``EXPENSIVE``; movement and leaves are free."""
    return _COSTS.get(op, 0)
