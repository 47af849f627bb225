"""What a primitive costs per element.

Owns: ``EXPENSIVE`` and ``op_cost``, the one estimate that fusion and scheduling decide by.
"""

from __future__ import annotations

from jitgrad.codegen.primitives.builder import POINTWISE

__all__ = ["EXPENSIVE", "op_cost"]

# rough cost of a pointwise primitive per element, in units of one vector addition
EXPENSIVE: dict[str, int] = {
    **dict.fromkeys(("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sigmoid", "tanh"), 14),
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "erf", "atan2"), 20),
    **dict.fromkeys(("pow",), 40),
    **dict.fromkeys(("div", "sqrt", "mod", "fmod", "floordiv"), 4),
}


def op_cost(op: str) -> int:
    """See ``EXPENSIVE``; movement and leaves are free."""
    return EXPENSIVE.get(op, 1) if op in POINTWISE or op == "update" else 0
