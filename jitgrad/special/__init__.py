"""Special functions, under the names of ``torch.special``.

Owns: their public signatures. What most of them compute is in ``jitgrad.ops``; what is a composition is here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jitgrad.door import door
from jitgrad.functions import (
    digamma,
    erf,
    erfc,
    erfinv,
    exp2,
    expm1,
    i0,
    lgamma,
    log1p,
    logit,
    logsumexp,
    polygamma,
    round,
    sigmoid,
    sinc,
    xlogy,
)
from jitgrad.functions import log_softmax as _log_softmax
from jitgrad.functions import softmax as _softmax
from jitgrad.functions.checked import check_arguments
from jitgrad.functions.gamma_products import igamma, igammac, mvlgamma
from jitgrad.functions.outputs import takes_out
from jitgrad.ops.pointwise.bessel_functions import BESSEL
from jitgrad.ops.table import OPS
from jitgrad.tensor_base import TensorBase

expit, psi, gammaln, gammainc, gammaincc, multigammaln = sigmoid, digamma, lgamma, igamma, igammac, mvlgamma


def _check(name: str, input: Any) -> None:
    if not isinstance(input, TensorBase):
        raise TypeError(f"special_{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")


def _unary(name: str, text: str) -> Callable[..., Any]:
    op = OPS[f"special_{name}"]

    def function(input: Any) -> Any:
        _check(name, input)
        return door.apply(op, input)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{text} As ``torch.special.{name}``."
    return takes_out(function)


def _binary(name: str, text: str) -> Callable[..., Any]:
    op = OPS[f"special_{name}"]

    def function(input: Any, other: Any) -> Any:
        if not isinstance(input, TensorBase):
            _check(name, other)
        return door.apply(op, input, other)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{text} As ``torch.special.{name}``; one of the two may be a number."
    return takes_out(function)


entr = _unary("entr", "-x log(x), 0 at 0, -inf below.")
erfcx = _unary("erfcx", "exp(x^2) erfc(x), without overflow.")
i0e = _unary("i0e", "exp(-|x|) times the modified Bessel function of order 0.")
i1 = _unary("i1", "The modified Bessel function of the first kind of order 1.")
i1e = _unary("i1e", "exp(-|x|) times the modified Bessel function of order 1.")
log_ndtr = _unary("log_ndtr", "The logarithm of the normal distribution function.")
ndtri = _unary("ndtri", "The quantile of the normal distribution.")
xlog1py = _binary("xlog1py", "x log(1 + y), 0 where x is 0.")
zeta = _binary("zeta", "Hurwitz's zeta function, the sum of (q + k)^-x over k = 0, 1, ...")


@takes_out
def ndtr(input: Any) -> Any:
    """The normal distribution function. As ``torch.special.ndtr``."""
    _check("ndtr", input)
    return (1 + erf(input / math.sqrt(2.0))) * 0.5


def softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """exp(x) / sum(exp(x)) along ``dim``."""
    return _softmax(input, dim, dtype)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The logarithm of ``softmax``."""
    return _log_softmax(input, dim, dtype)


(
    airy_ai, bessel_j0, bessel_j1, bessel_y0, bessel_y1, modified_bessel_i0, modified_bessel_i1, modified_bessel_k0,
    modified_bessel_k1, scaled_modified_bessel_k0, scaled_modified_bessel_k1, spherical_bessel_j0,
) = (_unary(_name, "Without a derivative.") for _name in BESSEL)  # fmt: skip

(
    chebyshev_polynomial_t, chebyshev_polynomial_u, chebyshev_polynomial_v, chebyshev_polynomial_w,
    hermite_polynomial_h, hermite_polynomial_he, laguerre_polynomial_l, legendre_polynomial_p,
    shifted_chebyshev_polynomial_t, shifted_chebyshev_polynomial_u, shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w,
) = (
    _binary(_name, "The polynomial of degree ``other`` at ``input``, without a derivative.")
    for _name in (
        "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
        "hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p "
        "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
        "shifted_chebyshev_polynomial_w"
    ).split()
)  # fmt: skip

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]

check_arguments(globals(), "special")
