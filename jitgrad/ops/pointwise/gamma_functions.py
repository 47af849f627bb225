"""The logarithm of the gamma function, its derivatives, and the inverse of the error function.

Owns: lgamma, digamma, polygamma, erfinv, erfc, i0, special_i1; their derivatives; ``late_rules``. Kernels and NumPy
rules are formulas of ``gamma_formulas``, ``zeta_formulas`` and ``normal_formulas``, imported when one is used.
Must not know: Tensor, kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jitgrad.dtypes import finfo
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import Aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.pointwise.pointwise import float_aval
from jitgrad.ops.table import RuleContext, Vjp, define

__all__ = ["late_rules"]


def late_rules(module: LazyModule, name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """(NumPy rule, lowering) of ``module.FORMULAS[name]``; the module is imported when one of them is used."""

    def numpy(*args: Any) -> Any:
        return module.FORMULAS[name].numpy(*args)

    def lower(b: Any, *args: Any) -> Any:
        return module.FORMULAS[name].lower(b, *args)

    return numpy, lower


def _polygamma_aval(x: Aval, n: int) -> Aval:
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return float_aval(x)


def _lgamma_rule(c: RuleContext, g: Any, x: Any) -> Any:
    return g * call("digamma", x)


def _digamma_rule(c: RuleContext, g: Any, x: Any) -> Any:
    return g * call("polygamma", x, 1)


def _polygamma_rule(c: RuleContext, g: Any, x: Any) -> Any:
    return g * call("polygamma", x, c.params[0] + 1)


def _erfinv_rule(c: RuleContext, g: Any, x: Any) -> Any:
    out = call("erfinv", x)
    return g * (call("exp", out * out) * (math.sqrt(math.pi) / 2))


_GAMMA = LazyModule("jitgrad.ops.formulas.gamma_formulas")
_NORMAL = LazyModule("jitgrad.ops.formulas.normal_formulas")
_ZETA = LazyModule("jitgrad.ops.formulas.zeta_formulas")


def _define(name: str, module: LazyModule, vjp: Vjp) -> None:
    numpy, lower = late_rules(module, name)
    define(name, aval=float_aval, numpy=numpy, lower=lower, vjps=[vjp])


_define("lgamma", _GAMMA, Vjp(_lgamma_rule, (0,)))
_define("digamma", _GAMMA, Vjp(_digamma_rule, (0,)))
_define("erfinv", _GAMMA, Vjp(_erfinv_rule, (0,)))
_polygamma = late_rules(_ZETA, "polygamma")
define(
    "polygamma",
    aval=_polygamma_aval,
    numpy=_polygamma[0],
    lower=_polygamma[1],
    vjps=[Vjp(_polygamma_rule, (0,))],
)

# --- erfc, and the modified Bessel functions I0 and I1 ---


def _erfc_rule(c: RuleContext, g: Any, x: Any) -> Any:
    return g * (call("exp", -(x * x)) * (-2 / math.sqrt(math.pi)))


def _i0_rule(c: RuleContext, g: Any, x: Any) -> Any:
    return g * call("special_i1", x)


def _i1_rule(c: RuleContext, g: Any, x: Any, out: Any) -> Any:
    is_tiny = call("le", call("abs", x), finfo(x.dtype).eps)
    safe = call("where", is_tiny, 1.0, x)
    return g * call("where", is_tiny, 0.5, call("i0", safe) - out / safe)


_define("erfc", _GAMMA, Vjp(_erfc_rule, (0,)))
_define("i0", _NORMAL, Vjp(_i0_rule, (0,)))
_define("special_i1", _NORMAL, Vjp(_i1_rule, (0, "out")))
