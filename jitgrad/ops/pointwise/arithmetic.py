"""Binary arithmetic, powers, extrema, clamping, ``where``, interpolation.

Owns: their table entries.
Must not know: Tensor, kernels.

Derivatives follow PyTorch's ``derivatives.yaml``; engine-side un-broadcasting lets rules ignore shapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dtypes import BOOLEAN, COMPLEX, FLOATING, INTEGER, DType, int64
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.shapes import (
    broadcast,
    check_fits,
    dtype_of,
    exact_operand,
    float_dtype,
    is_number,
    np_exact_operand,
    np_operand,
    operand,
    result_dtype,
    shape_of,
    torch_dtype_name,
)
from jitgrad.ops.table import RuleContext, Vjp, define

__all__ = ["binary_aval", "lower_trunc_divide", "np_trunc_divide"]

def _no_bools_aval(name: str, kernel: str) -> Any:
    """A binary shape rule that refuses two bools, naming PyTorch's kernel."""
    rule = binary_aval(name)

    def checked(x: Any, y: Any) -> Aval:
        out: Aval = rule(x, y)
        if out.dtype.category is BOOLEAN:
            raise NotImplementedError(f"\"{kernel}\" not implemented for 'Bool'")
        return out

    return checked


def binary_aval(name: str, dtype_rule: Any = result_dtype) -> Any:
    """The shape rule of a broadcasting operation whose inputs share one promoted dtype."""

    def rule(*inputs: Any) -> Aval:
        return make_aval(broadcast(name, *map(shape_of, inputs)), dtype_rule(*inputs))

    return rule


def np_promoted(function: Any, dtype_rule: Any = result_dtype, exact: bool = False) -> Any:
    """A NumPy rule that first brings its inputs to PyTorch's result dtype (NumPy would promote otherwise).

    ``exact``: the numbers after the first input are not rounded to a half dtype; so it is in some of PyTorch's kernels.
    """
    others = np_exact_operand if exact else np_operand

    def rule(*inputs: Any) -> Any:
        dtype = dtype_rule(*inputs)
        return function(np_operand(inputs[0], dtype), *[others(x, dtype) for x in inputs[1:]])

    # for callers whose inputs have that dtype already
    rule.direct, rule.dtype_of_inputs = function, dtype_rule  # type: ignore[attr-defined]
    rule.takes_halves = True  # type: ignore[attr-defined]
    return rule


def lower_promoted(emit: Any, dtype_rule: Any = result_dtype, exact: bool = False) -> Any:
    """A lowering that first casts its inputs to the result dtype; ``emit(b, *values)``. ``exact``: see above."""
    others = exact_operand if exact else operand

    def rule(b: Any, *inputs: Any) -> Any:
        dtype = dtype_rule(*inputs)
        if dtype.compute is dtype and all([getattr(x, "dtype", None) is dtype and x.op != "scalar" for x in inputs]):
            return emit(b, *inputs)  # no operand has to be converted
        return emit(b, operand(b, inputs[0], dtype), *[others(b, x, dtype) for x in inputs[1:]])

    rule.takes_short = True  # type: ignore[attr-defined]
    return rule


def _define_binary(
    name: str,
    np_function: Any,
    emit: Any,
    vjps: Any,
    dtype_rule: Any = result_dtype,
    aval: Any = None,
    n: int = 2,
    checks_values: bool = False,
    node_names: tuple[str | None, dict[int, str]] = (None, {}),
    exact: bool = False,
    numbers: tuple[int, ...] = (),
    runs_once: bool = False,
) -> None:
    define(
        name,
        aval=aval or binary_aval(name, dtype_rule),
        numpy=np_promoted(np_function, dtype_rule, exact),
        lower=lower_promoted(emit, dtype_rule, exact),
        vjps=vjps,
        num_inputs=n,
        checks_values=checks_values,
        node_name=node_names[0],
        node_names=node_names[1],
        numbers=numbers,
        runs_once=runs_once,
    )


# --- add, sub, mul, div ---


def _lower_add(b: Any, x: Any, y: Any) -> Any:
    return b.or_(x, y) if x.dtype.category is BOOLEAN else b.add(x, y)


def _lower_mul(b: Any, x: Any, y: Any) -> Any:
    return b.and_(x, y) if x.dtype.category is BOOLEAN else b.mul(x, y)


def _sub_aval(x: Any, y: Any) -> Aval:
    bools = (dtype_of(x).category is BOOLEAN) + (dtype_of(y).category is BOOLEAN)
    if bools == 2:
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
            "operator instead."
        )
    if bools:
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, "
            "use the `~` or `logical_not()` operator instead."
        )
    return make_aval(broadcast("sub", shape_of(x), shape_of(y)), result_dtype(x, y))


_define_binary("add", np.add, _lower_add, [Vjp(lambda c, g: g), Vjp(lambda c, g: g)])
_define_binary(
    "sub", np.subtract, lambda b, x, y: b.sub(x, y), [Vjp(lambda c, g: g), Vjp(lambda c, g: -g)], aval=_sub_aval
)
define(
    "rsub",
    aval=lambda x, y: _sub_aval(y, x),
    numpy=np_promoted(lambda x, y: y - x),
    lower=lower_promoted(lambda b, x, y: b.sub(y, x)),
    vjps=[Vjp(lambda c, g: -g), Vjp(lambda c, g: g)],
    num_inputs=2,
    node_names={1: "RsubBackward1"},
)
_define_binary(
    "mul",
    np.multiply,
    _lower_mul,
    [Vjp(lambda c, g, y: g * y, (1,)), Vjp(lambda c, g, x: g * x, (0,))],
    exact=True,
)
_define_binary(
    "div",
    np.true_divide,
    lambda b, x, y: b.div(x, y),
    [Vjp(lambda c, g, y: g / y, (1,)), Vjp(lambda c, g, x, y: -g * ((x / y) / y), (0, 1))],
    float_dtype,
    exact=True,
)


def _alpha_aval(name: str) -> Any:
    def rule(x: Any, y: Any, alpha: Any) -> Aval:
        dtype = result_dtype(x, y)
        if dtype.category < COMPLEX and dtype_of(alpha).category is COMPLEX:
            raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
        if dtype.category < FLOATING and dtype_of(alpha).category is FLOATING:
            raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
        if type(alpha) is bool and dtype.category is not BOOLEAN:
            raise RuntimeError("Boolean alpha only supported for Boolean results.")
        check_fits(alpha, dtype)
        return make_aval(broadcast(name, shape_of(x), shape_of(y)), dtype)

    rule.checks_numbers = ("half", "narrow")  # type: ignore[attr-defined]
    return rule


def _scaled(x: Any, y: Any, alpha: Any) -> Any:
    """``y * alpha`` as kernels have it: of two numbers, too, the first is rounded to the dtype of ``x`` before."""
    is_number = not isinstance(y, np.ndarray | np.generic)
    if is_number and isinstance(x, np.ndarray) and x.dtype.kind == "f" and x.itemsize >= 4:
        return x.dtype.type(y) * alpha
    return y * alpha


def _first_two(x: Any, y: Any, alpha: Any) -> DType:
    return result_dtype(x, y)


define(
    "add_scaled",
    aval=_alpha_aval("add"),
    numpy=np_promoted(lambda x, y, a: x + _scaled(x, y, a), _first_two),
    lower=lower_promoted(lambda b, x, y, a: b.add(x, b.mul(y, a)), _first_two),
    vjps=[Vjp(lambda c, g: g), Vjp(lambda c, g, a: g * a, (2,)), None],
    num_inputs=3,
    node_name="AddBackward0",
    numbers=[2],
)
define(
    "sub_scaled",
    aval=_alpha_aval("sub"),
    numpy=np_promoted(lambda x, y, a: x - _scaled(x, y, a), _first_two),
    lower=lower_promoted(lambda b, x, y, a: b.sub(x, b.mul(y, a)), _first_two),
    vjps=[Vjp(lambda c, g: g), Vjp(lambda c, g, a: g * -a, (2,)), None],
    num_inputs=3,
    node_name="SubBackward0",
    numbers=[2],
)


# --- integer-like division ---


def _nonzero(function: Any) -> Any:
    """An integer division that raises where NumPy would only warn."""

    def rule(x: Any, y: Any) -> Any:
        if all(np.asarray(v).dtype.kind in "biu" for v in (x, y)) and not np.all(y) and np.size(x):
            raise RuntimeError("ZeroDivisionError")
        return function(x, y)

    return rule


def _zero_rule(c: RuleContext, g: Any) -> Any:
    return call("zeros_like", g)


def np_trunc_divide(x: Any, y: Any) -> Any:
    if any(np.asarray(v).dtype.kind == "f" for v in (x, y)):
        return np.trunc(x / y)
    quotient = np.floor_divide(x, y)
    return quotient + ((quotient < 0) & (quotient * y != x))


def lower_trunc_divide(b: Any, x: Any, y: Any) -> Any:
    if x.dtype.category is FLOATING:
        return b.trunc(b.div(x, y))
    return b.div(x, _checked_divisor(b, y))


def _no_floor_divide_rule(c: RuleContext, g: Any) -> Any:
    raise RuntimeError("derivative for aten::floor_divide is not implemented")


def _checked_divisor(b: Any, y: Any) -> Any:
    """An integer divisor plus a check, whose value is 0, and which reports an error where the divisor is 0."""
    if y.dtype.category is FLOATING or (y.op == "const" and y.params[0] not in ("0", "False")):
        return y
    is_zero = b.cast(b.eq(y, b.const(0, y.dtype)), int64)
    return b.add(y, b.cast(b.check(is_zero, 1), y.dtype))


def _floor_quotient(b: Any, x: Any, y: Any) -> Any:
    return b.floordiv(x, _checked_divisor(b, y))


# x // y has no derivative in PyTorch; div(x, y, rounding_mode="floor") has one, which is zero
for _name, _rule in (("floor_divide", _no_floor_divide_rule), ("div_floor", _zero_rule)):
    _define_binary(
        _name,
        _nonzero(np.floor_divide),
        _floor_quotient,
        [Vjp(_rule)] * 2,
        aval=_no_bools_aval(_name, "div_floor_cpu"),
        checks_values=True,
        node_names=("torch::autograd::NotImplemented" if _name == "floor_divide" else "DivBackward2", {}),
        runs_once=True,
    )
_define_binary(
    "div_trunc",
    _nonzero(np_trunc_divide),
    lower_trunc_divide,
    [Vjp(_zero_rule)] * 2,
    checks_values=True,
    node_names=("DivBackward2", {}),
    runs_once=True,
)
_define_binary(
    "remainder",
    _nonzero(np.remainder),
    lambda b, x, y: b.mod(x, _checked_divisor(b, y)),
    [Vjp(lambda c, g: g), Vjp(lambda c, g, x, y: -g * call("div_floor", x, y), (0, 1))],
    aval=_no_bools_aval("remainder", "remainder_cpu"),
    checks_values=True,
    node_names=("RemainderBackward1", {1: "RemainderBackward0"}),
)
_define_binary(
    "fmod",
    _nonzero(np.fmod),
    lambda b, x, y: b.fmod(x, _checked_divisor(b, y)),
    [Vjp(lambda c, g: g), Vjp(lambda c, g, x, y: -g * call("div_trunc", x, y), (0, 1))],
    aval=_no_bools_aval("fmod", "fmod_cpu"),
    checks_values=True,
    node_names=("FmodBackward1", {1: "FmodBackward0"}),
)


# --- extrema, selection ---


def _max_rule(c: RuleContext, g: Any, x: Any, y: Any) -> Any:
    """Ties share the gradient equally; a NaN on either side passes it on, as in PyTorch."""
    return call("where", call("eq", x, y), g / 2, call("where", call("lt", x, y), 0.0, g))


def _min_rule(c: RuleContext, g: Any, x: Any, y: Any) -> Any:
    return call("where", call("eq", x, y), g / 2, call("where", call("gt", x, y), 0.0, g))


_define_binary("maximum", np.maximum, lambda b, x, y: b.max(x, y), [Vjp(_max_rule, (0, 1)), Vjp(_max_rule, (1, 0))])
_define_binary("minimum", np.minimum, lambda b, x, y: b.min(x, y), [Vjp(_min_rule, (0, 1)), Vjp(_min_rule, (1, 0))])


def _clamp_x_rule(c: RuleContext, g: Any, x: Any, lo: Any, hi: Any) -> Any:
    return call("where", call("logical_and", call("ge", x, lo), call("le", x, hi)), g, 0.0)


def _clamp_lo_rule(c: RuleContext, g: Any, x: Any, lo: Any, hi: Any) -> Any:
    chosen = call("lt", x, lo)
    # two number bounds cannot be compared by an operation, nor do they get gradients
    return call("where", call("logical_and", call("lt", lo, hi), chosen) if not is_number(hi) else chosen, g, 0.0)


def _clamp_hi_rule(c: RuleContext, g: Any, x: Any, lo: Any, hi: Any) -> Any:
    return call("where", call("logical_or", call("gt", x, hi), call("lt", hi, lo)), g, 0.0)


def _fitting(rule: Any, checks_halves: bool = True, kernel: str = "") -> Any:
    """A shape rule that refuses numbers that the result's dtype does not hold.

    ``kernel``: PyTorch's for numbers, which takes no bools.
    """

    def checked(*inputs: Any) -> Aval:
        out: Aval = rule(*inputs)
        if kernel and out.dtype.category is BOOLEAN and all(map(is_number, inputs[1:])):
            raise NotImplementedError(f"\"{kernel}\" not implemented for 'Bool'")
        if out.dtype.category is INTEGER or checks_halves:
            for x in inputs:
                check_fits(x, out.dtype)
        return out

    checked.checks_numbers = ("half", "narrow") if checks_halves else ("narrow",)  # type: ignore[attr-defined]
    return checked


_CLAMP_NODES = ("ClampBackward0", "ClampBackward1")  # of tensors, of numbers
for _name, _bounds in (("clamp", "ClampBackward1"), ("clamp_tensor", "ClampBackward0")):
    define(
        _name,
        aval=_fitting(binary_aval("clamp"), kernel="clamp_scalar_cpu"),
        numpy=np_promoted(lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi)),
        lower=lower_promoted(lambda b, x, lo, hi: b.min(b.max(x, lo), hi)),
        vjps=[Vjp(_clamp_x_rule, (0, 1, 2)), Vjp(_clamp_lo_rule, (0, 1, 2)), Vjp(_clamp_hi_rule, (0, 1, 2))],
        num_inputs=3,
        node_name=_bounds,
        numbers=[1, 2],
    )


def _define_bound(name: str, message: str, extreme: str, kept: str, cut: str, nodes: tuple[str, str]) -> None:
    """``name(x, bound)``: the ``extreme`` (max or min) of the two. x gets the gradient where ``x kept bound`` holds.

    ``nodes``: the node's name for a bound that is a tensor, and for one that is a number.
    """
    np_rule = np.maximum if extreme == "max" else np.minimum
    define(
        name,
        aval=_fitting(binary_aval(message), kernel=f"{message}_scalar_cpu"),
        numpy=np_promoted(np_rule),
        lower=lower_promoted(lambda b, x, bound: b.pointwise(extreme, x, bound)),
        vjps=[
            Vjp(lambda c, g, x, bound: call("where", call(kept, x, bound), g, 0.0), (0, 1)),
            Vjp(lambda c, g, x, bound: call("where", call(cut, x, bound), g, 0.0), (0, 1)),
        ],
        num_inputs=2,
        node_name=nodes[0],
        node_names={1: nodes[1]},
    )


_define_bound("clamp_min", "clamp_min", "max", "ge", "lt", ("ClampMinBackward1", "ClampMinBackward0"))
_define_bound("clamp_low", "clamp_min", "max", "ge", "lt", _CLAMP_NODES)
_define_bound("clamp_max", "clamp_max", "min", "le", "gt", ("ClampMaxBackward1", "ClampMaxBackward0"))
_define_bound("clamp_high", "clamp_max", "min", "le", "gt", _CLAMP_NODES)


def _where_aval(cond: Aval, x: Any, y: Any) -> Aval:
    if dtype_of(cond).category is not BOOLEAN:
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{torch_dtype_name(cond.dtype)}"
        )
    return make_aval(broadcast("where", shape_of(cond), shape_of(x), shape_of(y)), result_dtype(x, y))


def _np_where(cond: Any, x: Any, y: Any) -> Any:
    dtype = result_dtype(x, y)
    return np.where(cond, np_operand(x, dtype), np_operand(y, dtype))


_np_where.direct = np.where  # type: ignore[attr-defined]
_np_where.takes_mask = True  # type: ignore[attr-defined]
_np_where.takes_halves = True  # type: ignore[attr-defined]


def _lower_where(b: Any, cond: Any, x: Any, y: Any) -> Any:
    dtype = result_dtype(x, y)
    return b.where(cond, operand(b, x, dtype), operand(b, y, dtype))


_lower_where.takes_short = True  # type: ignore[attr-defined]


define(
    "where",
    aval=_fitting(_where_aval, checks_halves=False),
    numpy=_np_where,
    lower=_lower_where,
    vjps=[
        None,
        Vjp(lambda c, g, cond: call("where", cond, g, 0.0), (0,)),
        Vjp(lambda c, g, cond: call("where", cond, 0.0, g), (0,)),
    ],
    num_inputs=3,
)

# --- interpolation ---


def _lerp_aval(x: Any, end: Any, weight: Any) -> Aval:
    for what, other in (("end", end), ("weight", weight)):
        if hasattr(other, "dtype") and dtype_of(other) is not dtype_of(x):
            own, found = (dtype_of(v).c_name for v in (x, other))
            raise RuntimeError(f"expected dtype {own} for `{what}` but got dtype {found}")
    check_fits(weight, dtype_of(x))
    shape = broadcast("lerp", *map(shape_of, (x, end, weight)))
    if dtype_of(x).category < FLOATING:
        kernel = "lerp_kernel_tensor" if hasattr(weight, "shape") else "lerp_kernel_scalar"
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{torch_dtype_name(dtype_of(x))}'")
    return make_aval(shape, dtype_of(x))


_lerp_aval.checks_numbers = ("half", "narrow")  # type: ignore[attr-defined]

define(
    "lerp",
    aval=_lerp_aval,
    node_name="LerpBackward1",
    node_names={2: "LerpBackward0"},
    numpy=np_promoted(
        lambda x, end, w: np.where(np.abs(w) < 0.5, x + w * (end - x), end - (end - x) * (1 - w)), exact=True
    ),
    lower=lower_promoted(
        lambda b, x, end, w: b.where(
            b.lt(b.abs(w), 0.5),
            b.add(x, b.mul(w, b.sub(end, x))),
            b.sub(end, b.mul(b.sub(end, x), b.sub(b.const(1.0, x.dtype), w))),
        ),
        exact=True,
    ),
    vjps=[
        Vjp(lambda c, g, w: g * (1 - w), (2,)),
        Vjp(lambda c, g, w: g * w, (2,)),
        Vjp(lambda c, g, x, end: g * (end - x), (0, 1)),
    ],
    num_inputs=3,
)


def _addcdiv_aval(x: Any, t1: Any, t2: Any, value: Any) -> Aval:
    if dtype_of(t1).category < FLOATING and dtype_of(t2).category < FLOATING:
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported; use (input + value * trunc(tensor1 / tensor2)) or "
            "(input + value * tensor1 / tensor2.float()) instead."
        )
    dtype = result_dtype(x, t1, t2)
    check_fits(value, dtype)
    return make_aval(broadcast("addcdiv", *map(shape_of, (x, t1, t2))), dtype)


def _addcmul_aval(x: Any, t1: Any, t2: Any, value: Any) -> Aval:
    check_fits(value, result_dtype(x, t1, t2))
    return make_aval(broadcast("addcmul", *map(shape_of, (x, t1, t2))), result_dtype(x, t1, t2, value))


for _checking in (_addcdiv_aval, _addcmul_aval):
    _checking.checks_numbers = ("half", "narrow")  # type: ignore[attr-defined]

_define_binary(
    "addcmul",
    lambda x, t1, t2, value: x + value * (t1 * t2),
    lambda b, x, t1, t2, value: b.add(x, b.mul(value, b.mul(t1, t2))),
    [
        Vjp(lambda c, g: g),
        Vjp(lambda c, g, t2, value: g * (t2 * value), (2, 3)),
        Vjp(lambda c, g, t1, value: g * (t1 * value), (1, 3)),
        None,
    ],
    aval=_addcmul_aval,
    n=4,
    exact=True,
    numbers=(3,),
)
_define_binary(
    "addcdiv",
    lambda x, t1, t2, value: x + value * (t1 / t2),
    lambda b, x, t1, t2, value: b.add(x, b.mul(value, b.div(t1, t2))),
    [
        Vjp(lambda c, g: g),
        Vjp(lambda c, g, t2, value: g * (value / t2), (2, 3)),
        Vjp(lambda c, g, t1, t2, value: -g * ((value * t1 / t2) / t2), (1, 2, 3)),
        None,
    ],
    float_dtype,
    aval=_addcdiv_aval,
    n=4,
    exact=True,
    numbers=(3,),
    runs_once=True,
)
def _over_square(y: Any, x: Any) -> Any:
    """1 / (y^2 + x^2), and 0 in the origin, where the derivatives of the angle are taken to be 0, as in PyTorch."""
    square = y * y + x * x
    return call("where", call("eq", square, 0.0), 0.0, 1 / square)


_define_binary(
    "atan2",
    np.arctan2,
    lambda b, y, x: b.atan2(y, x),
    [
        Vjp(lambda c, g, y, x: g * (x * _over_square(y, x)), (0, 1)),
        Vjp(lambda c, g, y, x: g * (-y * _over_square(y, x)), (0, 1)),
    ],
    float_dtype,
)


def _logaddexp_aval(x: Any, y: Any) -> Aval:
    out = make_aval(broadcast("logaddexp", shape_of(x), shape_of(y)), result_dtype(x, y))
    if out.dtype.category < FLOATING:
        raise NotImplementedError(f"\"logaddexp_cpu\" not implemented for '{torch_dtype_name(out.dtype)}'")
    return out


_define_binary(
    "logaddexp",
    np.logaddexp,
    lambda b, x, y: b.where(
        b.eq(x, y),  # equal infinities would give inf - inf below
        b.add(x, b.const(float(np.log(2.0)), x.dtype)),
        b.add(b.max(x, y), b.log1p(b.exp(b.neg(b.abs(b.sub(x, y)))))),
    ),
    [
        Vjp(lambda c, g, x, y: g / (1 + (y - x).exp()), (0, 1)),
        Vjp(lambda c, g, x, y: g / (1 + (x - y).exp()), (0, 1)),
    ],
    aval=_logaddexp_aval,
)
