"""Pointwise functions: elementary functions, arithmetic, comparisons, logic.

Owns: their public signatures. Each is one table entry; what it computes is written there.
"""

from __future__ import annotations

from typing import Any

from jitgrad.door import door
from jitgrad.dtypes import BOOLEAN, complex128, float64, float_param
from jitgrad.functions._bind import binary, unary
from jitgrad.functions.indexing import nonzero
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.table import OPS
from jitgrad.tensor_base import TensorBase

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "addcdiv",
    "addcmul",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clip",
    "copysign",
    "cos",
    "cosh",
    "deg2rad",
    "digamma",
    "div",
    "divide",
    "eq",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "fix",
    "float_power",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "frac",
    "gcd",
    "ge",
    "greater",
    "greater_equal",
    "gt",
    "heaviside",
    "hypot",
    "i0",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "lcm",
    "ldexp",
    "le",
    "lerp",
    "less",
    "less_equal",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logit",
    "lt",
    "maximum",
    "minimum",
    "mul",
    "multiply",
    "nan_to_num",
    "ne",
    "neg",
    "negative",
    "nextafter",
    "not_equal",
    "polygamma",
    "polygamma_method",
    "positive",
    "pow",
    "rad2deg",
    "reciprocal",
    "relu",
    "remainder",
    "round",
    "rounding_op",
    "rsqrt",
    "rsub",
    "sgn",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "square",
    "sub",
    "subtract",
    "tan",
    "tanh",
    "true_divide",
    "trunc",
    "where",
    "where_method",
    "xlogy",
]


exp = unary("exp", "e to the power of each element.")
exp2 = unary("exp2", "2 to the power of each element.")
expm1 = unary("expm1", "exp(x) - 1, accurate near 0.")
log = unary("log", "Natural logarithm.")
log1p = unary("log1p", "log(1 + x), accurate near 0.")
log2 = unary("log2", "Logarithm to base 2.")
log10 = unary("log10", "Logarithm to base 10.")
sqrt = unary("sqrt", "Square root.")
rsqrt = unary("rsqrt", "1 / sqrt(x).")
reciprocal = unary("reciprocal", "1 / x.")
sin = unary("sin", "Sine.")
cos = unary("cos", "Cosine.")
tan = unary("tan", "Tangent.")
asin = unary("asin", "Inverse sine.")
acos = unary("acos", "Inverse cosine.")
atan = unary("atan", "Inverse tangent.")
sinh = unary("sinh", "Hyperbolic sine.")
cosh = unary("cosh", "Hyperbolic cosine.")
tanh = unary("tanh", "Hyperbolic tangent.")
sigmoid = unary("sigmoid", "1 / (1 + exp(-x)).")
erf = unary("erf", "The error function.")
erfinv = unary("erfinv", "The inverse of the error function; NaN outside [-1, 1].")
lgamma = unary("lgamma", "The logarithm of the absolute value of the gamma function.")
digamma = unary("digamma", "The derivative of ``lgamma``.")


def polygamma(n: int, input: Any) -> Any:
    """The ``n``-th derivative of ``digamma``. RuntimeError if ``n`` is negative."""
    return door.apply(OPS["polygamma"], input, n)


relu = unary("relu", "max(x, 0); the derivative at 0 is 0.")
abs = unary("abs", "Absolute value; the derivative at 0 is 0.")
neg = unary("neg", "-x.")
sign = unary("sign", "-1, 0 or 1.")
floor = unary("floor", "The next integer below.")
ceil = unary("ceil", "The next integer above.")
trunc = unary("trunc", "The integer part.")
isnan = unary("isnan", "Whether an element is NaN.")
isinf = unary("isinf", "Whether an element is infinite.")
isfinite = unary("isfinite", "Whether an element is neither infinite nor NaN.")
asinh = unary("asinh", "Inverse hyperbolic sine.")
acosh = unary("acosh", "Inverse hyperbolic cosine; NaN below 1.")
atanh = unary("atanh", "Inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond.")
erfc = unary("erfc", "1 - erf(x), exact where it is small.")
sinc = unary("sinc", "sin(pi x) / (pi x), and 1 at 0.")
i0 = unary("i0", "The modified Bessel function of the first kind of order 0.")
rad2deg = unary("rad2deg", "Angles in degrees.")
deg2rad = unary("deg2rad", "Angles in radians.")
frac = unary("frac", "x - trunc(x).")
sgn = unary("sgn", "-1, 0 or 1; ``sign`` of real numbers.")
signbit = unary("signbit", "Whether the sign bit is set; it is for -0.0.")
isposinf = unary("isposinf", "Whether elements are plus infinity.")
isneginf = unary("isneginf", "Whether elements are minus infinity.")
isreal = unary("isreal", "True everywhere: there are no complex dtypes.")
logical_not = unary("logical_not", "Elements that are 0.")
bitwise_not = unary("bitwise_not", "Complement of bits (of bools: not).")

mul = binary("mul", "Product.")
maximum = binary("maximum", "The larger of two, NaN winning; ties share the gradient.")
minimum = binary("minimum", "The smaller of two, NaN winning; ties share the gradient.")
remainder = binary("remainder", "Python's modulus: the result has the divisor's sign.")
fmod = binary("fmod", "C's modulus: the result has the dividend's sign.")
floor_divide = binary("floor_divide", "The floor of the quotient.")
atan2 = binary("atan2", "The angle of the point (other, input).")
logaddexp = binary("logaddexp", "log(exp(x) + exp(y)).")
eq = binary("eq", "x == y.")
ne = binary("ne", "x != y.")
lt = binary("lt", "x < y.")
le = binary("le", "x <= y.")
gt = binary("gt", "x > y.")
ge = binary("ge", "x >= y.")
logical_and = binary("logical_and", "Both nonzero.")
logical_or = binary("logical_or", "Either nonzero.")
logical_xor = binary("logical_xor", "Exactly one nonzero.")
bitwise_and = binary("bitwise_and", "Bits set in both.")
bitwise_or = binary("bitwise_or", "Bits set in either.")
bitwise_xor = binary("bitwise_xor", "Bits set in exactly one.")

_ADD, _SUB, _DIV = OPS["add"], OPS["sub"], OPS["div"]
_ADD_SCALED, _SUB_SCALED = OPS["add_scaled"], OPS["sub_scaled"]
_POW, _POW_SCALAR = OPS["pow"], OPS["pow_scalar"]
_CLAMP, _CLAMP_TENSOR = OPS["clamp"], OPS["clamp_tensor"]
_CLAMP_MIN, _CLAMP_MAX = OPS["clamp_min"], OPS["clamp_max"]
_WHERE, _LERP, _ADDCMUL, _ADDCDIV = OPS["where"], OPS["lerp"], OPS["addcmul"], OPS["addcdiv"]
_ROUND, _ISCLOSE = OPS["round"], OPS["isclose"]

ROUNDING = {None: _DIV, "floor": OPS["div_floor"], "trunc": OPS["div_trunc"]}


def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """``input + alpha * other``."""
    return door.apply(_ADD, input, other) if alpha == 1 else door.apply(_ADD_SCALED, input, other, alpha)


def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """``input - alpha * other``."""
    return door.apply(_SUB, input, other) if alpha == 1 else door.apply(_SUB_SCALED, input, other, alpha)


def rounding_op(rounding_mode: str | None) -> Any:
    """The division of a rounding mode; RuntimeError for an unknown one."""
    if rounding_mode not in ROUNDING:
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
        )
    return ROUNDING[rounding_mode]


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """The true quotient, or the quotient rounded (``"floor"``, ``"trunc"``)."""
    return door.apply(_DIV if rounding_mode is None else rounding_op(rounding_mode), input, other)


def pow(input: Any, exponent: Any) -> Any:
    """``input ** exponent``; a number as exponent is a constant of the program."""
    if isinstance(exponent, TensorBase):
        return door.apply(_POW, input, exponent)
    return door.apply(_POW_SCALAR, input, exponent)


def polygamma_method(self: Any, n: int) -> Any:
    """``x.polygamma(n)``."""
    return polygamma(n, self)


# --- of two tensors, imported at their first use ---


def copysign(input: Any, other: Any) -> Any:
    """|x| with the sign of y."""
    return call("copysign", input, other)


def hypot(input: Any, other: Any) -> Any:
    """sqrt(x^2 + y^2), without early overflow."""
    return call("hypot", input, other)


def fmax(input: Any, other: Any) -> Any:
    """The larger; a NaN loses against a number."""
    return call("fmax", input, other)


def fmin(input: Any, other: Any) -> Any:
    """The smaller; a NaN loses against a number."""
    return call("fmin", input, other)


def nextafter(input: Any, other: Any) -> Any:
    """The floating number next to x towards y."""
    return call("nextafter", input, other)


def ldexp(input: Any, other: Any) -> Any:
    """x * 2^y."""
    return call("ldexp", input, other)


def logaddexp2(input: Any, other: Any) -> Any:
    """log2(2^x + 2^y)."""
    return call("logaddexp2", input, other)


def xlogy(input: Any, other: Any) -> Any:
    """x * log(y), and 0 where x is 0 unless y is NaN."""
    return call("xlogy", input, other)


def gcd(input: Any, other: Any) -> Any:
    """The greatest common divisor of integers."""
    return call("gcd", input, other)


def lcm(input: Any, other: Any) -> Any:
    """The least common multiple of integers."""
    return call("lcm", input, other)


def bitwise_left_shift(input: Any, other: Any) -> Any:
    """x << y; 0 beyond the last bit."""
    return call("bitwise_left_shift", input, other)


def bitwise_right_shift(input: Any, other: Any) -> Any:
    """x >> y, which keeps the sign."""
    return call("bitwise_right_shift", input, other)


def heaviside(input: Any, values: Any) -> Any:
    """0 below 0, 1 above, ``values`` at 0. RuntimeError if the dtypes differ."""
    return call("heaviside", input, values)


def float_power(input: Any, exponent: Any) -> Any:
    """``input ** exponent``, computed in float64, or in complex128 where one of them is complex."""
    dtype, number = float64, float
    if any(x.is_complex() if isinstance(x, TensorBase) else isinstance(x, complex) for x in (input, exponent)):
        dtype, number = complex128, complex  # type: ignore[assignment]
    if not isinstance(input, TensorBase):
        return door.apply(_POW, number(input), exponent.to(dtype))
    if isinstance(exponent, TensorBase):
        return door.apply(_POW, input.to(dtype), exponent.to(dtype))
    return door.apply(_POW_SCALAR, input.to(dtype), number(exponent))


def square(input: Any) -> Any:
    """``input ** 2``."""
    return door.apply(_POW_SCALAR, input, 2)


def round(input: Any, *, decimals: int | None = None) -> Any:
    """The nearest integer, halves to even."""
    if decimals is None:
        return door.apply(_ROUND, input)
    return door.apply(OPS["round_decimals"], input, decimals)


def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """Limit elements to [min, max]; bounds may be numbers, tensors or None (one of them).

    Raises:
        RuntimeError: if both bounds are None.
    """
    if max is None:
        if min is None:
            raise RuntimeError("clamp: At least one of 'min' or 'max' must not be None")
        return door.apply(OPS["clamp_low"], input, min)
    if min is None:
        return door.apply(OPS["clamp_high"], input, max)
    tensors = isinstance(min, TensorBase) or isinstance(max, TensorBase)
    return door.apply(_CLAMP_TENSOR if tensors else _CLAMP, input, min, max)


def clamp_min(input: Any, min: Any) -> Any:
    """max(input, min)."""
    return door.apply(_CLAMP_MIN, input, min)


def clamp_max(input: Any, max: Any) -> Any:
    """min(input, max)."""
    return door.apply(_CLAMP_MAX, input, max)


clip = clamp


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """Elements of ``input`` where the condition holds, of ``other`` elsewhere; alone: ``nonzero(as_tuple=True)``."""
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    return door.apply(_WHERE, condition, input, other)


def where_method(self: Any, condition: Any, other: Any) -> Any:
    """``x.where(condition, other)``: elements of x where the condition holds, of ``other`` elsewhere."""
    return door.apply(_WHERE, condition, self, other)


def lerp(input: Any, end: Any, weight: Any) -> Any:
    """``input + weight * (end - input)``."""
    return door.apply(_LERP, input, end, weight)


def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """``input + value * tensor1 * tensor2``."""
    return door.apply(_ADDCMUL, input, tensor1, tensor2, value)


def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """``input + value * tensor1 / tensor2``."""
    return door.apply(_ADDCDIV, input, tensor1, tensor2, value)


def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """``other - alpha * input``."""
    return door.apply(OPS["rsub"], input, other) if alpha == 1 else sub(other, input, alpha=alpha)


def logit(input: Any, eps: float | None = None) -> Any:
    """log(x / (1 - x)), with x limited to [eps, 1 - eps] if that is given, else NaN outside [0, 1]."""
    return door.apply(OPS["logit"], input, eps)


def nan_to_num(
    input: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """NaN becomes ``nan`` (0), the infinities ``posinf`` and ``neginf`` (the largest and lowest finite numbers)."""
    return door.apply(OPS["nan_to_num"], input, float_param(nan), float_param(posinf), float_param(neginf))


def positive(input: Any) -> Any:
    """The tensor itself. RuntimeError for bools."""
    if input._aval.dtype.category is BOOLEAN:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


def isclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """|input - other| <= atol + rtol * |other|, per element."""
    return door.apply(_ISCLOSE, input, other, rtol, atol, equal_nan)


absolute, negative, subtract, multiply, divide, true_divide = abs, neg, sub, mul, div, div
arcsin, arccos, arctan, arctan2 = asin, acos, atan, atan2
arcsinh, arccosh, arctanh, fix = asinh, acosh, atanh, trunc
greater, greater_equal, less, less_equal, not_equal = gt, ge, lt, le, ne
