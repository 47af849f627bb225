"""Sample inputs for every entry of the operation table, and what PyTorch computes from them.

A new operation needs a line here: ``test_rules.test_every_operation_has_a_sample`` says so.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jitgrad.codegen.scalars.family import scalar_function
from jitgrad.dtypes import bool_, float32, float64, int64
from jitgrad.elementwise.evaluation import Family
from jitgrad.ops.aval import make_aval
from jitgrad.ops.pointwise.elementwise import MAX_OPERANDS, op_name
from jitgrad.ops.windows.window_ranges import parts, sliding
from tests.ops.recurrent_specs import recurrent_samples

__all__ = ["NO_DERIVATIVE", "ONE_DERIVATIVE", "SPECS", "Sample"]

NO_DERIVATIVE = frozenset(
    "_ctc_loss_backward floor_divide heaviside _unique2 unique_dim unique_consecutive histogram igamma igammac "
    "special_zeta linalg_ldl_factor_ex linalg_ldl_solve".split()
)
"""Operations whose rules raise, as PyTorch's do: they have no derivative."""

ONE_DERIVATIVE = frozenset({"_ctc_loss"})
"""Operations whose derivative has none, as PyTorch's."""


class Sample(NamedTuple):
    """One use of an operation.

    Attributes:
        inputs: arrays and numbers; a list stands for a list of tensors.
        params: static parameters.
        torch: ``torch(t, *inputs)``, the same result by PyTorch; None for operations that only derivatives use, which
            the second-order tests of what they are derived from cover.
        is_smooth: whether the derivative says what small changes of the inputs do; not at ties, or with NaN.
    """

    inputs: tuple[Any, ...]
    params: tuple[Any, ...] = ()
    torch: Callable[..., Any] | None = None
    is_smooth: bool = True


# a tensor and a view of it: [1:, ::2]
WHOLE = make_aval((3, 4), float64)
PART = make_aval((2, 2), float64, (4, 2), 4)
GAPS = make_aval((2, 2), float64, (8, 1), 1)
_rng = np.random.default_rng(7)


def f(*shape: int, low: float = -2.0, high: float = 2.0) -> Any:
    return np.asarray(_rng.uniform(low, high, shape))


def pos(*shape: int) -> Any:
    return f(*shape, low=0.3, high=2.5)


def ints(*shape: int, low: int = -5, high: int = 6) -> Any:
    return np.asarray(_rng.integers(low, high, shape))


def nonzero_ints(*shape: int) -> Any:
    return ints(*shape, low=1, high=5) * np.where(_rng.random(shape) < 0.5, -1, 1)


def _lstm_cell(t: Any, x: Any, hidden: Any, c: Any) -> Any:
    i, f_, g, o = (x + hidden).chunk(4, -1)
    i, f_, g, o = i.sigmoid(), f_.sigmoid(), g.tanh(), o.sigmoid()
    c = f_ * c + i * g
    return o * c.tanh(), c, t.cat([i, f_, g, o], -1)


def _gru_cell(t: Any, x: Any, hidden: Any, h: Any) -> Any:
    (r, z, n), (r_h, z_h, n_h) = x.chunk(3, -1), hidden.chunk(3, -1)
    r, z = (r + r_h).sigmoid(), (z + z_h).sigmoid()
    n = (n + r * n_h).tanh()
    return n + z * (h - n), t.cat([r, z, n], -1)


def _positive_definite(*shape: int) -> Any:
    factor = f(*shape, shape[-1])
    return factor @ factor.swapaxes(-1, -2) + np.eye(shape[-1])


def mask(*shape: int) -> Any:
    return np.asarray(_rng.random(shape) < 0.5)


def _unary() -> dict[str, list[Sample]]:
    domains = {"log": pos, "log2": pos, "log10": pos, "log1p": pos, "sqrt": pos, "rsqrt": pos, "reciprocal": pos}
    domains |= {"lgamma": pos, "digamma": pos, "acosh": lambda *shape: 1 + pos(*shape)}
    inner = {"asin", "acos", "tan", "erfinv", "atanh"}
    names = (
        "exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan asin acos atan sinh cosh tanh sigmoid erf rsqrt "
        "reciprocal abs floor ceil trunc round sign neg relu lgamma digamma erfinv asinh acosh atanh sinc rad2deg "
        "deg2rad sgn erfc i0 signbit isposinf isneginf isreal"
    )
    specs: dict[str, list[Sample]] = {}
    for name in names.split():
        x = f(3, 5, low=-0.9, high=0.9) if name in inner else domains.get(name, f)(3, 5)
        specs[name] = [Sample((x,), (), lambda t, x, name=name: getattr(t, name)(x))]
        if name not in inner and name != "relu":
            whole = np.abs(ints(4)) + 1 if name in domains else ints(4)
            specs[name].append(Sample((whole,), (), specs[name][0].torch))
    return specs


def _binary() -> dict[str, list[Sample]]:
    rows: dict[str, tuple[str, Any, Any]] = {
        "add": ("add", f(3, 4), f(4)),
        "sub": ("sub", f(3, 1), f(2, 1, 4)),
        "mul": ("mul", f(3, 4), f()),
        "div": ("div", f(3, 4), pos(3, 4)),
        "maximum": ("maximum", f(3, 4), f(3, 1)),
        "minimum": ("minimum", f(3, 4), f(3, 1)),
        "remainder": ("remainder", f(3, 4, low=-5, high=5), pos(3, 4)),
        "fmod": ("fmod", f(3, 4, low=-5, high=5), pos(3, 4)),
        "floor_divide": ("floor_divide", f(3, 4, low=-5, high=5), pos(3, 4)),
        "atan2": ("atan2", f(3, 4), pos(4)),
        "logaddexp": ("logaddexp", f(3, 4), f(4)),
        "pow": ("pow", pos(3, 4), f(4)),
        **{name: (name, ints(3, 4) * 1.0, ints(4) * 1.0) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
        **{
            name: (name, ints(3, 4, low=0, high=2) * 1.0, ints(4))
            for name in ("logical_and", "logical_or", "logical_xor")
        },
        **{
            name: (name, ints(3, 4), ints(4))
            for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm")
        },
        **{
            f"bitwise_{side}_shift": (f"bitwise_{side}_shift", ints(3, 6), np.array([0, 1, 5, 63, 64, -1]))
            for side in ("left", "right")
        },
        **{name: (name, f(3, 4), f(4)) for name in ("copysign", "hypot", "fmax", "fmin", "ldexp", "logaddexp2")},
        "xlogy": ("xlogy", f(3, 4), pos(4)),
        "nextafter": ("nextafter", f(3, 4), f(4)),
        "heaviside": ("heaviside", np.array([-1.5, 0.0, 0.7]), f(2, 3)),
    }
    specs = {
        op: [Sample((x, y), (), lambda t, x, y, name=name: getattr(t, name)(x, y))] for op, (name, x, y) in rows.items()
    }
    for op in ("add", "sub", "mul", "div", "remainder", "fmod", "floor_divide"):
        specs[op].append(Sample((ints(3, 4), nonzero_ints(4)), (), specs[op][0].torch))
        specs[op].append(Sample((f(3), 2.5), (), specs[op][0].torch))
    specs["copysign"] += [Sample((f(3), y), (), specs["copysign"][0].torch) for y in (-2, ints(3))]
    specs["xlogy"] += [Sample((f(3), y), (), specs["xlogy"][0].torch) for y in (2.5, np.arange(1, 4))]
    specs["xlogy"].append(Sample((2.5, pos(3)), (), specs["xlogy"][0].torch))
    for op in ("fmax", "fmin", "heaviside", "ldexp"):
        specs[op].append(Sample((ints(3, 4), ints(4)), (), specs[op][0].torch))
    for mode in ("trunc", "floor"):
        specs[f"div_{mode}"] = [
            Sample((x, y), (), lambda t, x, y, mode=mode: t.div(x, y, rounding_mode=mode))
            for x, y in ((f(3, 4, low=-5, high=5), pos(4)), (ints(3, 4), nonzero_ints(4)))
        ]
    specs["pow"] += [
        Sample((2.0, f(3)), (), lambda t, x, y: t.pow(x, y)),
        Sample((f(3), 2), (), lambda t, x, y: x**y),
        Sample((ints(4), np.abs(ints(4))), (), lambda t, x, y: x**y),
    ]
    specs["pow_scalar"] = [
        Sample((pos(3, 4),), (e,), lambda t, x, e=e: x**e) for e in (0, 1, 2, 3, 4, 0.5, -0.5, -1, -2, 1.7, -3)
    ] + [Sample((ints(4),), (3,), lambda t, x: x**3), Sample((ints(4, low=1),), (1.5,), lambda t, x: x**1.5)]
    return specs


def _selection() -> dict[str, list[Sample]]:
    return {
        "round_decimals": [Sample((f(3, 4),), (d,), lambda t, x, d=d: t.round(x, decimals=d)) for d in (1, 2, -1)],
        "add_scaled": [Sample((f(3, 4), f(4), -0.3), (), lambda t, x, y, a: t.add(x, y, alpha=a))],
        "sub_scaled": [Sample((f(3, 4), f(4), -0.3), (), lambda t, x, y, a: t.sub(x, y, alpha=a))],
        "clamp": [Sample((f(3, 4), -0.5, 0.7), (), lambda t, x, a, b: t.clamp(x, a, b))],
        "clamp_tensor": [
            Sample((f(3, 4), f(4, low=-1, high=0), f(3, 1, low=0, high=1)), (), lambda t, x, a, b: t.clamp(x, a, b))
        ],
        "clamp_min": [
            Sample((f(3, 4), 0.2), (), lambda t, x, a: t.clamp(x, min=a)),
            Sample((f(3, 4), f(4)), (), lambda t, x, a: t.clamp(x, min=a)),
            Sample((ints(5), 1.5), (), lambda t, x, a: t.clamp(x, min=a)),
        ],
        "clamp_low": [Sample((f(3, 4), 0.2), (), lambda t, x, a: t.clamp(x, min=a))],
        "clamp_high": [Sample((f(3, 4), f(4)), (), lambda t, x, a: t.clamp(x, max=a))],
        "rsub": [
            Sample((f(3, 4), f(4)), (), lambda t, x, y: t.rsub(x, y)),
            Sample((f(3, 4), 2.5), (), lambda t, x, y: t.rsub(x, y)),
        ],
        **{
            f"{name}_as_self": [Sample((f(3, 4), f(4)), (), lambda t, x, y, name=name: getattr(x * 1, name + "_")(y))]
            for name in ("eq", "ne", "lt", "le", "gt", "ge")
        },
        "clamp_max": [Sample((f(3, 4), 0.2), (), lambda t, x, a: t.clamp(x, max=a))],
        "where": [
            Sample((mask(3, 4), f(4), f(3, 1)), (), lambda t, c, x, y: t.where(c, x, y)),
            Sample((mask(3, 4), f(4), 0.0), (), lambda t, c, x, y: t.where(c, x, y)),
        ],
        "lerp": [
            Sample((f(3, 4), f(3, 4), 0.3), (), lambda t, x, y, w: t.lerp(x, y, w)),
            Sample((f(3, 4), f(3, 4), f(3, 4, low=0, high=1)), (), lambda t, x, y, w: t.lerp(x, y, w)),
        ],
        "addcmul": [Sample((f(3, 4), f(4), f(3, 1), 0.7), (), lambda t, x, a, b, v: t.addcmul(x, a, b, value=v))],
        "addcdiv": [Sample((f(3, 4), f(4), pos(3, 1), 0.7), (), lambda t, x, a, b, v: t.addcdiv(x, a, b, value=v))],
        "logical_not": [Sample((ints(4),), (), lambda t, x: t.logical_not(x))],
        "bitwise_not": [
            Sample((ints(4),), (), lambda t, x: ~x),
            Sample((mask(4),), (), lambda t, x: ~x),
        ],
        **{
            name: [
                Sample((np.array([1.0, np.nan, np.inf, -np.inf]),), (), lambda t, x, name=name: getattr(t, name)(x)),
                Sample((ints(4),), (), lambda t, x, name=name: getattr(t, name)(x)),
            ]
            for name in ("isnan", "isinf", "isfinite")
        },
        "frac": [Sample((f(3, 4),), (), lambda t, x: t.frac(x))],
        "special_i1": [
            Sample((f(3, 4),), (), lambda t, x: t.special.i1(x)),
            Sample((f(8, low=-60, high=60),), (), lambda t, x: t.special.i1(x)),
        ],
        "logit": [
            Sample((f(3, 4, low=0.1, high=0.9),), (eps,), lambda t, x, eps=eps: t.logit(x, eps)) for eps in (None, 0.2)
        ],
        "nan_to_num": [
            Sample((x,), values, lambda t, x, values=values: t.nan_to_num(x, *values))
            for x in (np.array([1.0, np.nan, np.inf, -np.inf, -0.0]), ints(4))
            for values in ((None, None, None), (0.5, 3.0, -2.0))
        ],
        "isclose": [Sample((f(4), f(4)), (1e-5, 1e-8, False), lambda t, x, y: t.isclose(x, y))],
    }


def _reductions() -> dict[str, list[Sample]]:
    x = f(2, 3, 4)
    cases: list[tuple[Any, bool]] = [(None, False), (1, True), ((0, -1), False)]
    specs: dict[str, list[Sample]] = {}
    for name in ("sum", "mean"):
        specs[name] = [Sample((x,), (None, False, None), lambda t, x, name=name: getattr(t, name)(x))]
        specs[name + "_dim"] = [
            Sample((x,), (dim, keep, None), lambda t, x, n=name, d=dim, k=keep: getattr(t, n)(x, d, k))
            for dim, keep in cases[1:]
        ]
    specs["sum"].append(Sample((mask(3, 4),), (None, False, None), lambda t, x: x.sum()))
    specs["sum"].append(Sample((f(),), (None, False, None), lambda t, x: x.sum()))
    specs["prod"] = [
        Sample((a,), (None, False), lambda t, x: x.prod()) for a in (f(2, 3), np.array([1.0, 0.0, 3.0, 0.0]), ints(5))
    ]
    specs["prod_dim"] = [Sample((x,), (1, True), lambda t, x: x.prod(1, True))]
    for name in ("var", "std"):
        specs[name] = [
            Sample((x,), (d, c, k), lambda t, x, n=name, d=d, c=c, k=k: getattr(t, n)(x, d, correction=c, keepdim=k))
            for (d, k), c in zip(cases, (1, 0, 1), strict=True)
        ]
    for name in ("amax", "amin"):
        specs[name] = [
            Sample((x,), (d, k), lambda t, x, n=name, d=d, k=k: getattr(t, n)(x, () if d is None else d, k))
            for d, k in cases
        ] + [Sample((np.array([1.0, 3.0, 3.0, 1.0]),), (0, False), lambda t, x, n=name: getattr(t, n)(x, 0))]
    for name in ("max", "min"):
        specs[name] = [Sample((x,), (), lambda t, x, n=name: getattr(t, n)(x))]
        specs[name].append(Sample((np.array([3.0, 1.0, 3.0, 1.0]),), (), specs[name][0].torch))
        specs[name + "_dim"] = [
            Sample((x,), (d, k), lambda t, x, n=name, d=d, k=k: tuple(getattr(t, n)(x, d, k)))
            for d, k in ((1, False), (-1, True))
        ]
    for name in ("argmax", "argmin"):
        specs[name] = [
            Sample((x,), (d, k), lambda t, x, n=name, d=d, k=k: getattr(t, n)(x, d, k))
            for d, k in ((None, False), (1, False), (-1, True))
        ]
    specs["linalg_vector_norm"] = [
        Sample((x,), (float(p), d, k), lambda t, x, p=p, d=d, k=k: t.linalg.vector_norm(x, p, d, k), p != 0)
        for p in (2, 1, 3, 0, float("inf"), -float("inf"))
        for d, k in cases[:2]
    ]
    for name in ("any", "all"):
        specs[name] = [
            Sample((mask(3, 4),), (None, False), lambda t, x, n=name: getattr(t, n)(x)),
            Sample((ints(3, 4, low=0, high=2),), (1, True), lambda t, x, n=name: getattr(t, n)(x, 1, True)),
        ]
    specs["count_nonzero"] = [Sample((ints(3, 4, low=0, high=2),), (1,), lambda t, x: t.count_nonzero(x, 1))]
    specs["cumsum"] = [Sample((x,), (1,), lambda t, x: x.cumsum(1)), Sample((ints(4),), (0,), lambda t, x: x.cumsum(0))]
    specs["_softmax"] = [Sample((x,), (d,), lambda t, x, d=d: x.softmax(d)) for d in (1, -1)]
    specs["_log_softmax"] = [Sample((x,), (d,), lambda t, x, d=d: x.log_softmax(d)) for d in (0, -1)]
    specs["logsumexp"] = [
        Sample((x,), ((0, 1), True), lambda t, x: x.logsumexp((0, 1), True)),
        Sample((x,), (-1, False), lambda t, x: x.logsumexp(-1)),
    ]
    return specs


def _ordering() -> dict[str, list[Sample]]:
    x, ties = f(2, 5, 3), np.array([[3.0, 1.0, 2.0, 1.0, 3.0], [0.0, 2.0, 2.0, 1.0, 5.0]])
    missing = np.array([[np.nan, 1.0, 2.0, np.nan, 3.0], [0.0, np.inf, -np.inf, 1.0, 5.0]])
    empty = np.zeros((0, 3))
    specs: dict[str, list[Sample]] = {
        "sort": [
            Sample((a,), (d, descending), lambda t, x, d=d, e=descending: tuple(x.sort(d, e)), a is x)
            for a, d in ((x, 1), (ties, -1), (missing, -1), (ints(4, 5), 0), (mask(5), 0), (f(), 0), (empty, 0))
            for descending in (False, True)
        ],
        "topk": [
            Sample((a,), (d, k, largest), lambda t, x, k=k, d=d, u=largest: tuple(x.topk(k, d, u)), a is x)
            for a, d, k in (
                (x, 1, 2),
                (missing, -1, 3),
                (np.arange(20).reshape(4, 5) % 7, 0, 1),
                (f(), 0, 1),
                (empty, 1, 0),
            )
            for largest in (False, True)
        ],
        "kthvalue": [
            Sample((a,), (d, keep, k), lambda t, x, k=k, d=d, keep=keep: tuple(x.kthvalue(k, d, keep)), a is x)
            for a, d, k, keep in ((x, 1, 2, False), (missing, -1, 3, True), (f(), 0, 1, False), (f(0, 3), 1, 2, True))
        ],
        "mode": [
            Sample((a,), (d, keep), lambda t, x, d=d, keep=keep: tuple(x.mode(d, keep)), a is x)
            for a, d, keep in ((ties, 1, False), (ints(5, 4), 0, True), (f(), 0, False), (empty, 1, False))
        ],
    }
    for name in ("median", "nanmedian"):
        specs[name + "_dim"] = [
            Sample((a,), (d, keep), lambda t, x, n=name, d=d, keep=keep: tuple(getattr(t, n)(x, d, keep)), a is x)
            for a, d, keep in (
                (x, 1, False),
                (missing, -1, True),
                (f(), 0, False),
                (empty, 1, True),
                (ints(4, 5), 0, False),
            )
        ]
        specs[name] = [
            Sample((a,), (), lambda t, x, n=name: getattr(t, n)(x), a is x)
            for a in (x, ties, missing, ints(4, 5), f(), empty)
        ]
    edges, values = np.sort(f(2, 6)), np.append(f(2, 4), [[np.nan], [np.inf]], 1)
    specs["searchsorted"] = [
        Sample((e, v), (False, right), lambda t, e, v, r=right: t.searchsorted(e.detach(), v.detach(), right=r))
        for e, v in ((edges, values), (edges[0], values), (np.arange(5), ints(3)), (edges[0], f()))
        for right in (False, True)
    ]
    specs["isin"] = [
        Sample((a, b), (inverts,), lambda t, a, b, v=inverts: t.isin(a, b, invert=v))
        for a, b in ((ints(3, 4), ints(4)), (ints(4) * 1.0, 2), (2, ints(4)), (missing.copy(), missing[0]))
        for inverts in (False, True)
    ]
    specs["histc"] = [
        Sample((a,), (n, lo, hi), lambda t, x, n=n, lo=lo, hi=hi: t.histc(x.detach(), n, lo, hi))
        for a, n, lo, hi in ((x, 5, 0.0, 0.0), (x, 4, -1.0, 1.0), (missing, 3, 0.0, 3.0), (np.ones(3), 4, 0.0, 0.0))
    ]
    distinct = np.array([-1.0, 0.5, 2.0])
    for name in ("_unique2", "unique_dim", "unique_consecutive", "histogram"):
        specs[name] = [Sample((distinct[[2, 0, 1, 0]], distinct))]
    return specs


def _scans() -> dict[str, list[Sample]]:
    x, zeros = f(2, 4, 3), np.array([[2.0, 0.0, 3.0, 0.0, -1.0], [1.5, 2.0, 0.0, 4.0, 0.5]])
    ties = np.array([[1.0, 3.0, 3.0, 2.0, 4.0], [np.nan, 0.0, 5.0, np.nan, 1.0], [2.0, 2.0, -1.0, -1.0, 2.0]])
    lost = np.array([[-np.inf, -np.inf, 1.0], [0.5, np.inf, 2.0]])
    small: list[tuple[Any, int]] = [(f(), 0), (np.zeros((0, 3)), 0), (f(3, 1), 1)]
    return {
        "cumprod": [
            Sample((a,), (d,), lambda t, x, d=d: x.cumprod(d))
            for a, d in ((x, 1), (zeros, -1), (zeros, 0), (f(17), 0), (ints(4, 3), 1), (mask(4), 0), *small)
        ],
        "logcumsumexp": [
            Sample((a,), (d,), lambda t, x, d=d: x.logcumsumexp(d), a is not lost)
            for a, d in ((x, 1), (300 * x, 1), (lost, -1), (f(17), 0), *small[:2])
        ],
        **{
            name: [
                Sample((a,), (d,), lambda t, x, d=d, n=name: tuple(getattr(t, n)(x, d)), a is not ties)
                for a, d in ((x, 1), (ties, -1), (ints(4, 5), 0), (mask(5), 0), *small)
            ]
            for name in ("cummax", "cummin")
        },
    }


def _symmetric(*shape: int) -> Any:
    a = f(*shape, shape[-1])
    return a + a.swapaxes(-1, -2)


def _factored() -> dict[str, list[Sample]]:
    factors, pivots, right = f(2, 3, 3) + 3 * np.eye(3), np.array([[3, 2, 3], [1, 3, 3]], np.int32), f(2, 3, 2)
    tall, tau = f(2, 4, 3), f(2, 3)
    return {
        "lu_unpack": [
            Sample((a,), (), lambda t, a: tuple(t.lu_unpack(a, t.empty(0), unpack_pivots=False)[1:]))
            for a in (factors, tall, f(3, 4))
        ],
        "lu_exchanges": [Sample((pivots,), (4, float64))],
        "linalg_lu_solve": [
            Sample(
                (factors, pivots, right),
                (turned,),
                lambda t, a, p, b, turned=turned: t.linalg.lu_solve(a, p, b, adjoint=turned),
            )
            for turned in (False, True)
        ],
        "linalg_cross": [
            Sample((x, y), (d,), lambda t, x, y, d=d: t.linalg.cross(x, y, dim=d))
            for x, y, d in ((f(2, 3), f(2, 3), -1), (f(3, 1, 2), f(3, 4, 2), 0), (f(1, 3, 2), f(2, 3, 1), 1))
        ],
        "cholesky_inverse": [
            Sample((factors,), (upper,), lambda t, a, upper=upper: t.cholesky_inverse(a, upper), False)
            for upper in (False, True)
        ],
        "linalg_pinv_rank": [
            Sample((a,), (None, None, False), lambda t, a: (t.linalg.pinv(a), t.linalg.matrix_rank(a)))
            for a in (tall, f(2, 3))
        ],
        "cholesky_solve": [
            Sample((right, factors), (upper,), lambda t, b, a, upper=upper: t.cholesky_solve(b, a, upper), False)
            for upper in (False, True)
        ],
        "linalg_ldl_factor_ex": [
            Sample((a,), (False,), lambda t, a: tuple(t.linalg.ldl_factor_ex(a)), False)
            for a in (_symmetric(2, 4), _symmetric(5) * (1 - np.eye(5)))
        ],
        "linalg_ldl_solve": [
            Sample(
                (factors, np.array([[2, 2, 3], [-3, -3, 3]], np.int32), right),
                (False,),
                lambda t, a, p, b: t.linalg.ldl_solve(a.detach(), p, b),
            )
        ],
        "geqrf": [Sample((a,), (), lambda t, a: tuple(t.geqrf(a.detach()))) for a in (tall, f(3, 4))],
        "linalg_householder_product": [
            Sample((tall, tau), (), lambda t, a, tau: t.linalg.householder_product(a, tau)),
        ],
        "ormqr": [
            Sample((tall, tau, f(2, 4, 2)), (turned,), lambda t, a, u, c, turned=turned: t.ormqr(a, u, c, True, turned))
            for turned in (False, True)
        ],
    }


def _matrices() -> dict[str, list[Sample]]:
    square, tall, wide = f(2, 3, 3) + 2 * np.eye(3), f(2, 4, 3), f(3, 4)
    singular = np.array([[1.0, 2.0], [2.0, 4.0]])
    return {
        # signs of vectors are not the same everywhere: tests/ops/test_linalg.py compares what does not depend on them
        "_linalg_svd": [Sample((a,), (full,), None, not full) for a in (tall, wide) for full in (False, True)],
        "_linalg_eigh": [Sample((_positive_definite(2, 3),), (upper,)) for upper in (False, True)],
        "linalg_qr": [
            Sample((a,), (mode,), lambda t, a, m=mode: tuple(t.linalg.qr(a, m)))
            for a, mode in ((tall, "reduced"), (wide, "reduced"), (wide, "complete"), (square, "complete"))
        ],
        "linalg_lu_factor_ex": [
            Sample((a,), (True,), lambda t, a: tuple(t.linalg.lu_factor_ex(a))) for a in (square, tall, wide)
        ],
        "lu_permutation": [Sample((np.array([[3, 2, 3], [1, 3, 3]], np.int32),), (4,))],
        "linalg_cholesky_info": [
            Sample((_positive_definite(2, 3),), (u,), lambda t, a, u=u: tuple(t.linalg.cholesky_ex(a, upper=u)))
            for u in (False, True)
        ],
        **_factored(),
        "_linalg_det": [Sample((a,), (), lambda t, a: t.linalg.det(a)) for a in (square, f(2, 2))],
        "linalg_cofactors": [Sample((square,)), Sample((singular,), (), None, False)],
        "_linalg_slogdet": [Sample((square,), (), lambda t, a: tuple(t.linalg.slogdet(a)))],
        "linalg_pinv": [Sample((a,), (None, None, False), lambda t, a: t.linalg.pinv(a)) for a in (square, tall, wide)],
        "linalg_matrix_exp": [Sample((x,), (), lambda t, a: t.linalg.matrix_exp(a)) for x in (square, 0.1 * square[0])],
        "linalg_solve_triangular": [
            Sample(
                (square, f(2, 3, 2)),
                (upper, unit),
                lambda t, a, b, u=upper, w=unit: t.linalg.solve_triangular(a, b, upper=u, unitriangular=w),
            )
            for upper in (False, True)
            for unit in (False, True)
        ],
    }


def _views() -> dict[str, list[Sample]]:
    x = f(2, 3, 4)
    return {
        "view": [Sample((x,), ((4, -1),), lambda t, x: x.view(4, -1))],
        "unsafe_view": [Sample((x,), ((4, -1),), lambda t, x: x.view(4, -1))],
        "detach": [Sample((x,), (), lambda t, x: x.detach())],
        "alias": [Sample((x,), (), lambda t, x: x[:])],
        "transpose": [Sample((x,), (0, -1), lambda t, x: x.transpose(0, -1))],
        "t": [Sample((f(2, 3),), (), lambda t, x: x.t())],
        "permute": [Sample((x,), ((2, 0, 1),), lambda t, x: x.permute(2, 0, 1))],
        "expand": [Sample((f(3, 1),), ((2, -1, 4),), lambda t, x: x.expand(2, -1, 4))],
        "squeeze": [Sample((f(1, 3, 1),), (), lambda t, x: x.squeeze())],
        "squeeze_dim": [Sample((f(1, 3, 1),), (-1,), lambda t, x: x.squeeze(-1))],
        "squeeze_dims": [Sample((f(1, 3, 1),), ((0, 1),), lambda t, x: x.squeeze((0, 1)))],
        "unsqueeze": [Sample((x,), (-2,), lambda t, x: x.unsqueeze(-2))],
        "select": [Sample((x,), (1, -1), lambda t, x: x.select(1, -1))],
        "slice": [
            Sample((x,), (2, 1, None, 2), lambda t, x: x[:, :, 1::2]),
            Sample((x,), (1, -2, 9, 1), lambda t, x: x[:, -2:9]),
        ],
        "diagonal": [
            Sample((f(2, 4, 3),), (1, 1, 2), lambda t, x: x.diagonal(1, 1, 2)),
            Sample((f(4, 3, 2),), (-1, 0, 1), lambda t, x: x.diagonal(-1, 0, 1)),
        ],
        "unfold": [Sample((f(2, 7, 3),), (1, 3, 2), lambda t, x: x.unfold(1, 3, 2))],
        "as_strided": [Sample((f(12),), ((3, 3), (2, 1), 1), lambda t, x: x.as_strided((3, 3), (2, 1), 1))],
        "split": [Sample((x,), (3, -1), lambda t, x: x.split(3, -1)), Sample((x,), (3, 1), lambda t, x: x.split(3, 1))],
        "split_with_sizes": [Sample((x,), ((1, 0, 3), 2), lambda t, x: x.split([1, 0, 3], 2))],
        "unbind": [Sample((x,), (1,), lambda t, x: x.unbind(1))],
        "strided_select": [Sample((f(3, 4),), (WHOLE, PART))],
        "strided_scatter": [Sample((f(3, 4), f(2, 2)), (WHOLE, PART)), Sample((f(3, 4), f(2, 2)), (WHOLE, GAPS))],
        "strided_add": [Sample((f(2, 2),), (WHOLE, PART))],
        "strided_window": [Sample((f(3, 4),), (WHOLE, PART)), Sample((f(3, 4),), (WHOLE, GAPS))],
        "slice_backward": [
            Sample((f(2, 3),), ((2, 9), 1, 1, 8, 3)),
            Sample((f(2, 3),), ((2, 5), 1, 2, 5, 1)),
            Sample((f(2, 0),), ((2, 5), 1, 2, 2, 1)),
        ],
        "diagonal_backward": [Sample((f(2, 2),), ((2, 4, 3), 1, 1, 2)), Sample((f(2, 3),), ((4, 3, 2), -1, 0, 1))],
        "unfold_backward": [Sample((f(2, 3, 3, 3),), ((2, 7, 3), 1, 3, 2))],
        "as_strided_backward": [Sample((f(3, 3),), (make_aval((12,), float64), (3, 3), (2, 1), 1))],
        "as_strided_again": [Sample((f(12),), (make_aval((12,), float64), (3, 3), (2, 1), 1))],
        "unsafe_split": [Sample((x,), (3, 2), lambda t, x: x.unsafe_split(3, 2))],
        "select_scatter": [Sample((x, f(x.shape[0], x.shape[2])), (1, -1), lambda t, x, s: x.select_scatter(s, 1, -1))],
        "slice_scatter": [
            Sample((f(5, 3), f(2, 3)), (0, 1, None, 2), lambda t, x, s: x.slice_scatter(s, 0, 1, None, 2)),
            Sample((f(3, 5), f(3, 1)), (1, -1, None, 1), lambda t, x, s: x.slice_scatter(s, 1, -1)),
        ],
        "diagonal_scatter": [Sample((f(4, 3), f(2)), (1, 0, 1), lambda t, x, s: x.diagonal_scatter(s, 1))],
        # no reference: PyTorch 2.13 sends the wrong gradient to the input
        "as_strided_scatter": [Sample((f(12), f(2, 3)), ((2, 3), (1, 3), 2))],
    }


def _joining() -> dict[str, list[Sample]]:
    x = f(2, 3)
    return {
        "cat": [
            Sample(([x, f(2, 1), f(2, 2)],), (1,), lambda t, xs: t.cat(xs, 1)),
            Sample(([x, ints(1, 3)],), (0,), lambda t, xs: t.cat(xs, 0)),
        ],
        "stack": [Sample(([x, f(2, 3)],), (-1,), lambda t, xs: t.stack(xs, -1))],
        "flip": [Sample((f(2, 3, 4),), ((0, -1),), lambda t, x: x.flip(0, -1))],
        "roll": [
            Sample((f(2, 5),), ((3,), ()), lambda t, x: x.roll(3)),
            Sample((f(2, 5),), ((1, -2), (0, 1)), lambda t, x: x.roll((1, -2), (0, 1))),
        ],
        "repeat": [Sample((x,), ((2, 1, 3),), lambda t, x: x.repeat(2, 1, 3))],
        "constant_pad": [
            Sample((x,), ((1, -1), (0, 2), 0.5), lambda t, x: t.nn.functional.pad(x, (-1, 2, 1, 0), value=0.5))
        ],
    }


def _products() -> dict[str, list[Sample]]:
    F = lambda t: t.nn.functional  # noqa: E731
    return {
        "mm": [
            Sample((f(3, 4), f(4, 5)), (), lambda t, x, y: x.mm(y)),
            Sample((ints(3, 4), ints(4, 5)), (), lambda t, x, y: x.mm(y)),
        ],
        "bmm": [Sample((f(2, 3, 4), f(2, 4, 5)), (), lambda t, x, y: x.bmm(y))],
        "trace": [Sample((f(3, 4),), (), lambda t, x: x.trace())],
        "mv": [Sample((f(3, 4), f(4)), (), lambda t, x, y: x.mv(y))],
        "dot": [Sample((f(4), f(4)), (), lambda t, x, y: x.dot(y))],
        "addmm": [
            Sample((f(5), f(3, 4), f(4, 5)), (0.5, 2), lambda t, b, x, y: t.addmm(b, x, y, beta=0.5, alpha=2)),
            Sample((f(3, 5), f(3, 4), f(4, 5)), (1, 1), lambda t, b, x, y: t.addmm(b, x, y)),
        ],
        "linalg_solve_ex": [
            Sample((f(2, 3, 3) + 4 * np.eye(3), f(2, 3, 2)), (), lambda t, a, b: t.linalg.solve(a, b)),
        ],
        "linalg_cholesky_ex": [
            Sample((_positive_definite(2, 3),), (u,), lambda t, a, u=u: t.linalg.cholesky(a, upper=u))
            for u in (False, True)
        ],
        "polygamma": [
            Sample((pos(3, 4),), (n,), lambda t, x, n=n: t.polygamma(n, x))
            for n in (0, 2, 4)  # PyTorch's 1 has nine digits only
        ],
        "linalg_inv_ex": [Sample((f(2, 3, 3) + 4 * np.eye(3),), (), lambda t, a: t.linalg.inv(a))],
        "linear": [Sample((f(5), f(3, 4), f(5, 4)), (), lambda t, b, x, w: F(t).linear(x, w, b))],
        "linear_nobias": [Sample((f(3, 4), f(5, 4)), (), lambda t, x, w: F(t).linear(x, w))],
    }


def _indexing() -> dict[str, list[Sample]]:
    x, i, j = f(4, 5, 6), np.array([0, 3, 3]), np.array([[4], [1]])
    specs: dict[str, list[Sample]] = {
        "index1": [
            Sample((x, i), ((1,),), lambda t, x, i: x[:, i]),
            Sample((x, j), ((2,),), lambda t, x, j: x[..., j]),
        ],
        "index2": [
            Sample((x, i, j), ((0, 1),), lambda t, x, i, j: x[i, j]),
            Sample((x, i, j), ((0, 2),), lambda t, x, i, j: x[i, :, j]),
        ],
        "index3": [Sample((x, i, j, i), ((0, 1, 2),), lambda t, x, i, j, k: x[i, j, k])],
        "gather": [Sample((f(3, 4), ints(2, 3, low=0, high=4)), (1,), lambda t, x, i: x.gather(1, i))],
        "scatter_add": [
            Sample((f(3, 4), ints(2, 3, low=0, high=3), f(2, 3)), (0,), lambda t, x, i, s: x.scatter_add(0, i, s))
        ],
        "index_select": [Sample((f(3, 4), np.array([3, 0, 3])), (1,), lambda t, x, i: x.index_select(1, i))],
        "embedding": [
            Sample((f(5, 3), ints(2, 4, low=0, high=5)), (-1,), lambda t, w, i: t.nn.functional.embedding(i, w)),
            Sample(
                (f(5, 3), np.array([1, 2, 1])), (1,), lambda t, w, i: t.nn.functional.embedding(i, w, padding_idx=1)
            ),
            Sample(
                (f(5, 3), np.array([[1, 2], [1, 4]])),
                (-1, False, True),
                lambda t, w, i: t.nn.functional.embedding(i, w, scale_grad_by_freq=True),
                False,
            ),
        ],
        "one_hot": [Sample((ints(2, 3, low=0, high=4),), (5,), lambda t, i: t.nn.functional.one_hot(i, 5))],
        "masked_fill": [
            Sample((f(3, 4), mask(4), 1.5), (), lambda t, x, m, v: x.masked_fill(m, v)),
            Sample((f(3, 4), mask(3, 4), f()), (), lambda t, x, m, v: x.masked_fill(m, v)),
        ],
        "tril": [Sample((f(3, 4),), (1,), lambda t, x: x.tril(1))],
        "triu": [Sample((f(2, 3, 4),), (-1,), lambda t, x: x.triu(-1))],
    }
    flat = np.array([[1, -1], [4, 7]])
    specs |= {
        "index_add": [
            Sample((f(3, 4), np.array([2, 0, 2]), f(3, 4)), (0,), lambda t, x, i, s: x.index_add(0, i, s)),
            Sample((f(3, 4), np.array([1]), f(3, 1)), (-1,), lambda t, x, i, s: x.index_add(-1, i, s)),
            Sample((f(4), np.array([1, 1]), f(2)), (0,), lambda t, x, i, s: x.index_add(0, i, s)),
        ],
        "index_copy": [
            Sample((f(3, 4), np.array([2, 0]), f(2, 4)), (0,), lambda t, x, i, s: x.index_copy(0, i, s)),
            Sample((f(3, 4), np.array([1]), f(3, 1)), (-1,), lambda t, x, i, s: x.index_copy(-1, i, s)),
        ],
        "index_fill": [
            Sample((f(3, 4), np.array([2, -3]), 1.5), (0,), lambda t, x, i, v: x.index_fill(0, i, v)),
            Sample((f(3, 4), np.array([1, 1]), f()), (1,), lambda t, x, i, v: x.index_fill(1, i, v)),
        ],
        "scatter": [
            Sample((f(3, 4), np.array([[0, 2], [1, 0]]), f(2, 2)), (1,), lambda t, x, i, s: x.scatter(1, i, s)),
            Sample((f(3, 4), np.array([[0, 2]]), 0.5), (0,), lambda t, x, i, s: x.scatter(0, i, s)),
        ],
        "scatter_reduce": [
            Sample(
                (f(3, 4), np.array([[0, 2], [0, 1]]), f(2, 2)),
                (0, reduce, include_self),
                lambda t, x, i, s, r=reduce, own=include_self: x.scatter_reduce(0, i, s, r, include_self=own),
            )
            for reduce in ("sum", "prod", "mean", "amax", "amin")
            for include_self in (True, False)
        ],
        "masked_scatter": [
            Sample((f(3, 4), mask(3, 4), f(12)), (), lambda t, x, m, s: x.masked_scatter(m, s)),
            Sample((f(3, 4), mask(4), f(3, 5)), (), lambda t, x, m, s: x.masked_scatter(m, s)),
        ],
        "masked_scatter_backward": [Sample((f(3, 4), mask(3, 4)), ((5, 3),))],
        "take": [Sample((f(3, 4), flat), (), lambda t, x, i: x.take(i))],
        "masked_select": [
            Sample((f(1, 4), np.array([0, 5, 7])), ((3, 4),), lambda t, x, i: x.expand(3, 4).reshape(-1)[i])
        ],
        "put": [
            Sample((f(3, 4), flat, f(2, 2)), (False,), lambda t, x, i, s: x.put(i, s)),
            Sample((f(3, 4), np.array([5, 5, -7]), f(3)), (True,), lambda t, x, i, s: x.put(i, s, True)),
        ],
    }
    put = lambda t, x, v, *i: x.index_put(i, v)  # noqa: E731
    add = lambda t, x, v, *i: x.index_put(i, v, accumulate=True)  # noqa: E731
    unique = (np.array([0, 2, 3]), np.array([[4], [1]]))
    for k in range(1, 7):
        shape, at = (4, 5, *[2] * 4)[: max(k, 2)], (*unique, *[np.array([0, 1, 1])] * 4)[:k]
        dims, wide = tuple(range(k)), np.broadcast_shapes(*(a.shape for a in at))
        values = f(*wide, *shape[k:])
        specs[f"index_put{k}"] = [Sample((f(*shape), values, *at), (dims,), put)]
        specs[f"index_put_accumulate{k}"] = [Sample((f(*shape), values, *at), (dims,), add)]
        specs[f"index_backward{k}"] = [Sample((values, *at), (shape, dims))]
        specs.setdefault(f"index{k}", [Sample((f(*shape), *at), (dims,), lambda t, x, *i: x[i])])
    return specs


def _creation() -> dict[str, list[Sample]]:
    x = f(2, 3)
    return {
        "full": [Sample((2.5,), ((2, 3), float64), lambda t, v: t.full((2, 3), v, dtype=t.float64))],
        "zeros_like": [Sample((x,), (), lambda t, x: t.zeros_like(x))],
        "ones_like": [Sample((x,), (int64,), lambda t, x: t.ones_like(x, dtype=t.int64))],
        "arange": [
            Sample((), (2, 11, 3, int64), lambda t: t.arange(2, 11, 3)),
            Sample((), (0.5, -3, -0.75, float32), lambda t: t.arange(0.5, -3, -0.75)),
            Sample((), (0.5, 7, 1.7, int64), lambda t: t.arange(0.5, 7, 1.7).long()),
        ],
        "linspace": [Sample((), (-1.0, 2.0, 7, float64), lambda t: t.linspace(-1, 2, 7, dtype=t.float64))],
        "eye": [Sample((), (3, 4, float32), lambda t: t.eye(3, 4))],
        "clone": [Sample((x,), (), lambda t, x: x.clone())],
        "contiguous": [
            Sample((x,), (None,), lambda t, x: x.clone(memory_format=t.contiguous_format)),
            Sample((f(2, 3),), ((1, 2),), lambda t, x: t.empty_strided((2, 3), (1, 2), dtype=x.dtype).copy_(x)),
        ],
        "zero": [Sample((x,), (), lambda t, x: x.clone().zero_())],
        "_to_copy": [
            Sample((x,), (int64,), lambda t, x: x.to(t.int64)),
            Sample((x,), (float32,), lambda t, x: x.to(t.float32)),
            Sample((ints(3, low=-1, high=2),), (bool_,), lambda t, x: x.to(t.bool)),
            Sample((mask(3),), (float64,), lambda t, x: x.to(t.float64)),
        ],
        "copy": [Sample((f(2, 3), f(3)), (), lambda t, x, y: x.clone().copy_(y)), Sample((ints(3), 2.5), ())],
    }


def _activations() -> dict[str, list[Sample]]:
    def use(name: str, *params: Any) -> Callable[..., Any]:
        return lambda t, x: getattr(t.nn.functional, name)(x, *params)

    x = f(4, 5, low=-4, high=4)
    return {
        "gelu": [
            Sample((x,), (a,), lambda t, x, a=a: t.nn.functional.gelu(x, approximate=a)) for a in ("none", "tanh")
        ],
        "silu": [Sample((x,), (), use("silu"))],
        "softplus": [Sample((x,), (2.0, 3.0), use("softplus", 2.0, 3.0))],
        "log_sigmoid": [Sample((x,), (), use("logsigmoid"))],
        "elu": [
            Sample((x,), (0.7, 1.0, 1.0), use("elu", 0.7)),
            Sample((x,), (1.6732632423543772, 1.0507009873554805, 1.0), use("selu")),
        ],
        "celu": [Sample((x,), (a, 1.0, 1 / a), use("celu", a)) for a in (0.5, -2.0)],
        "mish": [Sample((x,), (), use("mish"))],
        "hardsigmoid": [Sample((3 * x,), (), use("hardsigmoid"))],
        "hardsigmoid_backward": [Sample((x, 3 * f(4, 5)))],
        "hardswish": [Sample((3 * x,), (), use("hardswish"))],
        "glu": [Sample((f(3, 4),), (d,), use("glu", d)) for d in (-1, 1)],
        "leaky_relu": [Sample((x,), (0.2,), use("leaky_relu", 0.2))],
        "hardtanh": [Sample((x,), (-1.0, 0.5), use("hardtanh", -1.0, 0.5))],
        "threshold_backward": [Sample((x, f(4, 5)))],
        "threshold_at_backward": [Sample((x, f(4, 5)), (0.5,))],
        "threshold": [Sample((x,), (0.1, 20.0), use("threshold", 0.1, 20.0)), Sample((ints(5),), (0.5, 2.7))],
        "hardshrink": [Sample((x,), (at,), use("hardshrink", at)) for at in (0.5, 1.0)],
        "hardshrink_backward": [Sample((x, f(4, 5)), (0.5,))],
        "softshrink": [Sample((x,), (at,), use("softshrink", at)) for at in (0.5, 1.0)],
        "_prelu_kernel": [Sample((x, f(5)), (), lambda t, x, w: t.nn.functional.prelu(x, w))],
        "leaky_relu_backward": [Sample((x, f(4, 5)), (0.2,))],
        "hardtanh_backward": [Sample((x, f(4, 5)), (-1.0, 0.5))],
    }


def _losses() -> dict[str, list[Sample]]:
    specs: dict[str, list[Sample]] = {}
    rows: dict[str, tuple[tuple[Any, ...], dict[str, float], Any, Any]] = {
        "mse_loss": ((), {}, f(3, 4), f(3, 4)),
        "smooth_l1_loss": ((0.7,), {"beta": 0.7}, f(3, 4), f(3, 4)),
        "huber_loss": ((0.7,), {"delta": 0.7}, f(3, 4), f(3, 4)),
        "binary_cross_entropy": ((), {}, f(3, 4, low=0.1, high=0.9), f(3, 4, low=0.1, high=0.9)),
        "binary_cross_entropy_with_logits": ((), {}, f(3, 4), f(3, 4, low=0, high=1)),
    }
    for name, (params, named, x, y) in rows.items():
        specs[name] = [
            Sample(
                (x, y),
                (red, *params),
                lambda t, x, y, n=name, r=red, k=named: getattr(t.nn.functional, n)(x, y, reduction=r, **k),
            )
            for red in ("none", "mean", "sum")
        ]
    x, target, weight = f(4, 5), np.array([0, 4, 2, 2]), pos(5)
    specs["nll_loss"] = [
        Sample(
            (x, target),
            (r, ignore),
            lambda t, x, y, r=r, i=ignore: t.ops.aten.nll_loss_forward(x, y, None, ["none", "mean", "sum"].index(r), i),
        )
        for r in ("none", "mean", "sum")
        for ignore in (-100, 2)
    ]
    paths = (f(4, 2, 3), np.array([[1, 2], [2, 0]]), np.array([4, 3]), np.array([2, 1]))
    specs["_ctc_loss"] = [
        Sample(
            paths,
            (0, zero),
            lambda t, x, y, n, m, z=zero: t.nn.functional.ctc_loss(x, y, n, m, reduction="none", zero_infinity=z),
            False,
        )
        for zero in (False, True)
    ]
    specs["_ctc_loss_backward"] = [Sample((f(2), *paths), (0, False), None, False)]
    specs["nll_loss_weighted"] = [
        Sample(
            (x, target, weight),
            (r, 2),
            lambda t, x, y, w, r=r: t.ops.aten.nll_loss_forward(x, y, w.detach(), ["none", "mean", "sum"].index(r), 2),
        )
        for r in ("none", "mean", "sum")
    ]
    return specs


def _batch_norm(t: Any, x: Any, weight: Any = None, bias: Any = None) -> tuple[Any, ...]:
    """With the statistics as outputs that lead on: PyTorch's operation ignores what they get."""
    dims, wide = (0, *range(2, x.ndim)), (1, -1, *[1] * (x.ndim - 2))
    variance, mean = t.var_mean(x, dims, correction=0)
    rstd = 1 / (variance + 1e-5).sqrt()
    out = (x - mean.reshape(wide)) * rstd.reshape(wide)
    return (out if weight is None else out * weight.reshape(wide) + bias.reshape(wide)), mean, rstd, variance


def _batch_norm_by(t: Any, x: Any, mean: Any, variance: Any, weight: Any = None, bias: Any = None) -> Any:
    return t.nn.functional.batch_norm(x, mean.detach(), variance.detach(), weight, bias, False, 0.1, 1e-5)


def _channel_norms() -> dict[str, list[Sample]]:
    return {
        "native_batch_norm": [
            Sample((f(4, 3), f(3), f(3)), (1e-5,), _batch_norm),
            Sample((f(3, 2, 4, 2), f(2), f(2)), (1e-5,), _batch_norm),
        ],
        "native_batch_norm_plain": [
            Sample((f(2, 3, 4),), (1e-5,), _batch_norm)
        ],
        "batch_norm_by": [
            Sample((f(4, 3), f(3), pos(3), f(3), f(3)), (1e-5,), _batch_norm_by),
            Sample((f(3, 2, 4, 2), f(2), pos(2), f(2), f(2)), (1e-5,), _batch_norm_by),
        ],
        "batch_norm_by_plain": [
            Sample((f(2, 3, 4), f(3), pos(3)), (1e-5,), _batch_norm_by)
        ],
        "native_group_norm": [
            Sample(
                (f(3, 4, 5), f(4), f(4)), (2, 1e-5), lambda t, x, w, b: t.native_group_norm(x, w, b, 3, 4, 5, 2, 1e-5)
            ),
            Sample(
                (f(2, 6, 2, 3), f(6), f(6)),
                (3, 1e-5),
                lambda t, x, w, b: t.native_group_norm(x, w, b, 2, 6, 6, 3, 1e-5),
            ),
        ],
        "native_group_norm_plain": [
            Sample((f(2, 4, 3),), (1, 1e-5), lambda t, x: t.native_group_norm(x, None, None, 2, 4, 3, 1, 1e-5))
        ],
    }


def _pools() -> dict[str, list[Sample]]:
    """Pools of one to three dimensions, with windows of few elements, of many, and of different lengths."""
    found: dict[str, list[Sample]] = {}
    for dims in (1, 2, 3):
        shape, sizes = (6, 5, 4)[:dims], (4, 3, 3)[:dims]
        x, long = f(2, 3, *shape), f(2, 3, 50, *shape[1:])
        tiled = tuple(sliding(n, n // 2, 2, 2) for n in shape)
        reaching = tuple(sliding(n, 3, 3, 2, 1, d) for n, d in zip(shape, (2, 1, 1), strict=False))
        alike = tuple(sliding(n, -(-n // 2), 3, 2, 1) for n in shape)
        large = (sliding(50, 3, 20, 15), *alike[1:])
        adaptive = tuple(map(parts, shape, sizes))
        kernels = {"kernel_size": (20, *[3] * (dims - 1)), "stride": (15, *[2] * (dims - 1))}
        kernels["padding"] = (0, *[1] * (dims - 1))
        found[f"max_pool{dims}d"] = [
            Sample((x,), (tiled,), _pool_of(f"max_pool{dims}d", kernel_size=2, return_indices=True)),
            Sample(
                (x,),
                (reaching,),
                _pool_of(
                    f"max_pool{dims}d", kernel_size=3, stride=2, padding=1, dilation=(2, 1, 1)[:dims], ceil_mode=True,
                    return_indices=True,
                ),
            ),
            Sample((long,), (large,), _pool_of(f"max_pool{dims}d", **kernels, return_indices=True)),
        ]  # fmt: skip
        found[f"avg_pool{dims}d"] = [
            Sample((x,), (tiled, 2**dims), _pool_of(f"avg_pool{dims}d", kernel_size=2)),
            Sample(
                (x,),
                (alike, tuple((0, n) for n in shape)),
                _pool_of(f"avg_pool{dims}d", kernel_size=3, stride=2, padding=1, count_include_pad=False),
            ),
            Sample((long,), (large, 20 * 3 ** (dims - 1)), _pool_of(f"avg_pool{dims}d", **kernels)),
        ]
        found[f"adaptive_max_pool{dims}d"] = [
            Sample((x,), (adaptive,), _pool_of(f"adaptive_max_pool{dims}d", output_size=sizes, return_indices=True))
        ]
        if dims > 1:
            found[f"adaptive_avg_pool{dims}d"] = [
                Sample(
                    (x,),
                    (adaptive, tuple((0, n) for n in shape)),
                    _pool_of(f"adaptive_avg_pool{dims}d", output_size=sizes),
                )
            ]
    return found


def _grid_samples() -> dict[str, list[Sample]]:
    """Samples of every mode and padding, positions outside among them, and derivatives of the weights."""
    found: dict[str, list[Sample]] = {"grid_sampler_spread": []}
    for dims, modes in ((2, ("bilinear", "nearest", "bicubic")), (3, ("bilinear", "nearest"))):
        x, grid = f(2, 3, *(4, 5, 3)[:dims]), f(2, *(2, 3, 2)[:dims], dims, low=-1.7, high=1.7)
        found[f"grid_sampler_{dims}d"] = [
            Sample((x, grid), (*options, (0,) * dims), _grid_sample_of(*options))
            for options in itertools.product(modes, ("zeros", "border", "reflection"), (False, True))
        ]
        g = f(2, 3, *(2, 3, 2)[:dims])
        found["grid_sampler_spread"] += [
            Sample((g, grid), ((4, 5, 3)[:dims], "bilinear", "border", False, (0,) * dims)),
            Sample((g, grid), ((4, 5, 3)[:dims], modes[-1], "zeros", True, (0,) * dims)),
        ]
    return found


def _resamplings() -> dict[str, list[Sample]]:
    """Every mode to more and to fewer elements, with a factor, and where one element is read very often."""
    found: dict[str, list[Sample]] = {"upsample_backward": []}
    rows = (((5, 8), (4, 3), (3, 6)), ((4, 8), (2, 4), (3, 6)), ((1, 40), (9, 2), (2, 3)))
    names = {"linear1d": "linear", "bilinear2d": "bilinear", "trilinear3d": "trilinear", "bicubic2d": "bicubic"}
    names |= {f"nearest{n}d": "nearest" for n in (1, 2, 3)} | {f"nearest_exact{n}d": "nearest-exact" for n in (1, 2, 3)}
    for name, mode in names.items():
        dims = int(name[-2])
        found[f"upsample_{name}"] = []
        for extents in rows:
            x, sizes = f(2, 3, *(n for n, _ in extents[:dims])), tuple(n for _, n in extents[:dims])
            for is_aligned in (False,) if mode.startswith("nearest") else (False, True):
                params = tuple((*row, None, is_aligned) for row in extents[:dims])
                found[f"upsample_{name}"].append(Sample((x,), (params,), _resampled_to(sizes, mode, is_aligned)))
                kind = mode if mode.startswith("nearest") else "cubic" if mode == "bicubic" else "linear"
                found["upsample_backward"].append(Sample((f(2, 3, *sizes),), (kind, params)))
        factor = tuple((n, int(n * 1.7), 1.7, False) for n in x.shape[2:])
        found[f"upsample_{name}"].append(
            Sample((x,), (factor,), lambda t, x, mode=mode: t.nn.functional.interpolate(x, scale_factor=1.7, mode=mode))
        )
    return found


def _resampled_to(sizes: tuple[int, ...], mode: str, is_aligned: bool) -> Callable[..., Any]:
    aligned = None if mode.startswith("nearest") else is_aligned
    return lambda t, x: t.nn.functional.interpolate(x, sizes, mode=mode, align_corners=aligned)


def _grid_sample_of(mode: str, padding: str, is_aligned: bool) -> Callable[..., Any]:
    return lambda t, x, grid: t.nn.functional.grid_sample(x, grid, mode, padding, is_aligned)


def _pool_of(name: str, **options: Any) -> Callable[..., Any]:
    return lambda t, x: getattr(t.nn.functional, name)(x, **options)


def _layers() -> dict[str, list[Sample]]:
    conv, geometry = (lambda t, x, w: t.conv2d(x, w, None, (2, 1), (1, 2), (1, 2), 2)), ((2, 1), (1, 2), (1, 2), 2)
    depthwise = ((2, 1), (1, 1), (1, 1), 3)
    pool, windows = (sliding(6, 3, 3, 2, 1), sliding(5, 3, 2, 2, 1)), f(2, 3, 6, 5)
    at = np.asarray(_rng.integers(0, 30, (2, 3, 3, 3)))
    apart = np.argsort(_rng.random((2, 3, 30)))[..., :9].reshape(2, 3, 3, 3)
    places = np.asarray([[[[0, 13], [63, 40]], [[7, 22], [31, 2]]]])
    blocks, ones = ((3, 2), (2, 1), (1, 1), (2, 1)), ((1, 1), (0, 0), (1, 1))
    state = (f(3, 4), f(3, 4), f(3, 4), pos(3, 4), pos(3, 4))
    adam = (0.1, 0.999, 0.001, 0.1, 1e-8)
    return {
        "native_layer_norm": [
            Sample(
                (f(2, 3, 4), f(3, 4), f(3, 4)),
                ((3, 4), 1e-5),
                lambda t, x, w, b: t.native_layer_norm(x, (3, 4), w, b, 1e-5),
            )
        ],
        "_lstm_cell": [
            Sample((f(2, 12), f(2, 12), f(2, 3)), (), _lstm_cell),
            Sample((f(8), f(8), f(2)), (), _lstm_cell),
        ],
        "_gru_cell": [
            Sample((f(2, 9), f(2, 9), f(2, 3)), (), _gru_cell),
            Sample((f(6), f(6), f(2)), (), _gru_cell),
        ],
        "native_layer_norm_plain": [
            Sample((f(2, 3, 4),), ((4,), 1e-5), lambda t, x: t.native_layer_norm(x, (4,), None, None, 1e-5))
        ],
        "conv2d": [
            Sample(
                (f(2, 3, 6, 6), f(4, 3, 3, 3)), ((1, 1), (1, 1), (1, 1), 1), lambda t, x, w: t.conv2d(x, w, None, 1, 1)
            ),
            Sample((f(2, 4, 6, 7), f(6, 2, 3, 2)), geometry, conv),
            Sample((f(2, 3, 6, 7), f(6, 1, 3, 2)), depthwise, lambda t, x, w: t.conv2d(x, w, None, (2, 1), 1, 1, 3)),
        ],
        "conv2d_input": [Sample((f(2, 6, 3, 9), f(6, 2, 3, 2)), ((2, 4, 6, 7), *geometry))],
        "conv2d_weight": [Sample((f(2, 4, 6, 7), f(2, 6, 3, 9)), ((6, 2, 3, 2), *geometry))],
        **_pools(),
        "max_pool_backward": [
            Sample(
                (
                    f(2, 3, 3, 3),
                    np.asarray([[[5 * (2 * i) + 2 * j for j in range(3)] for i in range(3)]] * 6).reshape(2, 3, 3, 3),
                ),
                (pool,),
            )
        ],
        **_grid_samples(),
        **_resamplings(),
        "im2col": [
            Sample((f(2, 3, 6, 5),), ((6, 5), *blocks), lambda t, x: t.nn.functional.unfold(x, *blocks)),
            Sample((f(3, 9, 8),), ((9, 8), (8, 7), *ones), lambda t, x: t.nn.functional.unfold(x, (8, 7), *ones)),
        ],
        "col2im": [
            Sample((f(2, 18, 12),), ((6, 5), *blocks), lambda t, x: t.nn.functional.fold(x, (6, 5), *blocks)),
            Sample((f(168, 4),), ((9, 8), (8, 7), *ones), lambda t, x: t.nn.functional.fold(x, (9, 8), (8, 7), *ones)),
        ],
        "max_unpool2d": [
            Sample(
                (f(2, 3, 3, 3), apart),
                ((6, 5),),
                lambda t, x, i: t.nn.functional.max_unpool2d(x, i, 2, output_size=(6, 5)),
            )
        ],
        "max_unpool3d": [
            Sample((f(1, 2, 2, 2), places), ((4, 4, 4),), lambda t, x, i: t.nn.functional.max_unpool3d(x, i, 2))
        ],
        "max_pool_read": [Sample((windows, at), (pool,))],
        "avg_pool_backward": [
            Sample((f(2, 3, 3, 3),), (pool, 6)),
            Sample((f(2, 3, 4, 3),), ((parts(6, 4), parts(5, 3)), ((0, 6), (0, 5)))),
            Sample((f(2, 3, 3),), ((sliding(40, 3, 20, 10),), 20)),
        ],
        "_sgd_update": [Sample((*state[:2], 0.1), (0.01, True))],
        "_sgd_update_scheduled": [Sample((*state[:2], 0.1, 0.01), (True,))],
        "_sgd_momentum_update": [
            Sample((*state[:3], 0.1), (0.9, 0.9, 0.01, nesterov, False, first))
            for nesterov, first in ((False, False), (True, True))
        ],
        "_sgd_momentum_update_scheduled": [
            Sample((*state[:3], 0.1, 0.9, 0.9, 0.01), (nesterov, False, first))
            for nesterov, first in ((False, False), (True, True))
        ],
        "_adam_update": [
            Sample((*state[:4], 0.01, 0.19, 0.002), (*adam, decoupled, False)) for decoupled in (False, True)
        ],
        "_adam_update_scheduled": [
            Sample((*state[:4], 0.01, 0.19, 0.002, *adam[:4]), (*adam[4:], decoupled, False))
            for decoupled in (False, True)
        ],
        "_adam_amsgrad_update": [Sample((*state, 0.01, 0.19, 0.002), (*adam, False, True))],
        "_adam_amsgrad_update_scheduled": [Sample((*state, 0.01, 0.19, 0.002, *adam[:4]), (*adam[4:], False, True))],
    }


def _function_of(name: str) -> Callable[..., Any]:
    """PyTorch's function of this name."""
    return lambda t, *inputs: getattr(t, name)(*inputs)


def _special() -> dict[str, list[Sample]]:
    def by(name: str) -> Callable[..., Any]:
        return lambda t, *inputs: getattr(t.special, name)(*inputs)

    inputs: dict[str, list[tuple[Any, ...]]] = {
        "entr": [(pos(3, 4),), (ints(4),)],
        "erfcx": [(f(3, 4),), (np.array([-5.0, -1.0, 1.2, 1.3, 2.0, 2.9, 3.5, 27.0, 29.0, 1e5]),)],
        "i0e": [(f(3, 4),), (f(8, low=-60, high=60),)],
        "i1e": [(f(3, 4),), (f(8, low=-60, high=60),)],
        "log_ndtr": [(f(3, 4),), (np.array([-30.0, -3.0, -1.0, 0.0, 1.0, 8.0]),)],
        "ndtri": [(f(3, 4, low=0.05, high=0.95),), (np.array([1e-12, 1e-5, 0.1, 0.5, 0.9, 1 - 1e-9]),)],
        "xlog1py": [(f(3, 4), pos(4)), (f(3), 2.5), (2.5, pos(3)), (f(3), np.arange(1, 4))],
        "zeta": [(1 + pos(3, 4), pos(4)), (np.array([2.0, 3.0]), np.array([-1.5, -0.25]))],
        "spherical_bessel_j0": [(f(3, 4, low=-9, high=9),)],
    }
    for name in "airy_ai bessel_j0 bessel_j1 modified_bessel_i0 modified_bessel_i1".split():
        inputs[name] = [(f(3, 4),)]
    for name in "modified_bessel_k0 modified_bessel_k1".split():
        inputs[name] = [(pos(3, 4),)]
    inputs["bessel_y0"] = inputs["bessel_y1"] = [(np.array([0.25, 0.5, 1.0, 1.5]),)]
    inputs["scaled_modified_bessel_k0"] = inputs["scaled_modified_bessel_k1"] = [(pos(3, 4),)]
    degrees = np.array([0, 1, 2, 5])
    for kind in "tuvw":
        inputs[f"chebyshev_polynomial_{kind}"] = [(f(3, 4, low=-0.9, high=0.9), degrees)]
        inputs[f"shifted_chebyshev_polynomial_{kind}"] = [(f(3, 4, low=0.1, high=0.9), degrees)]
    for name in "hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p".split():
        inputs[name] = [(f(3, 4, low=-0.9, high=0.9), degrees), (f(3), 3)]
    specs = {
        f"special_{name}": [Sample(x, (), by(name), not at) for at, x in enumerate(some)]
        for name, some in inputs.items()
    }
    for name in ("igamma", "igammac"):
        specs[name] = [
            Sample((pos(3, 4), pos(4)), (), _function_of(name)),
            Sample((np.array([0.5, 3.0, 15.0]), np.array([9.0, 3.0, 12.0])), (), _function_of(name)),
        ]
    specs["angle"] = [Sample((x,), (), lambda t, x: t.angle(x)) for x in (f(3, 4), ints(4))]
    specs["frexp"] = [Sample((f(3, 4),), (), lambda t, x: tuple(t.frexp(x)))]
    return specs


def _complex_numbers() -> dict[str, list[Sample]]:
    numbers = f(3, 4) + 1j * f(3, 4)
    return {
        "complex": [Sample((f(3, 4), f(4)), (), lambda t, x, y: t.complex(x, y))],
        "polar": [Sample((pos(3, 4), f(4)), (), lambda t, x, y: t.polar(x, y))],
        "view_as_complex": [Sample((f(3, 4, 2),), (), lambda t, x: t.view_as_complex(x))],
        "view_as_real": [Sample((numbers,), (), lambda t, x: t.view_as_real(x))],
        "_conj": [Sample((numbers,), (), lambda t, x: t.conj(x).resolve_conj())],
        # not compared here: a loss may not depend on the phases of eigenvectors; PyTorch's own samples know that
        "linalg_eig": [Sample((np.array([[1.0, 2.0], [-0.5, 0.3]]),), (), None, False)],
        "conj_physical": [Sample((numbers,), (), lambda t, x: t.conj_physical(x))],
    }


def _scalar_text(count: int) -> str:
    """LLVM IR of the function that ``_by_torch`` is in PyTorch: two results of ``count`` floats."""
    lines = ["%y0 = call double @llvm.sin.f64(double %x0)"]
    for n in range(1, count):
        lines += [f"%p{n} = fmul double %y{n - 1}, %x{n}", f"%y{n} = fadd double %p{n}, %x{n}"]
    lines += [f"%z = fmul double %y{count - 1}, %x0", "%o = call double @llvm.exp.f64(double %z)"]
    body = "\n  ".join([*lines, f"call void @jitgrad_result(i32 0, double %y{count - 1}, double %o)", "ret void"])
    params = ", ".join(f"double %x{n}" for n in range(count))
    return f"define void @jitgrad_scalar({params}) {{\n  {body}\n}}\n"


def _by_torch(t: Any, *xs: Any) -> Any:
    y = t.sin(xs[0])
    for x in xs[1:]:
        y = y * x + x
    return y, t.exp(y * xs[0])


def _elementwise() -> dict[str, list[Sample]]:
    specs: dict[str, list[Sample]] = {}
    for count in range(1, MAX_OPERANDS + 1):
        function = scalar_function(f"f{count}", _scalar_text(count))
        family = Family(function.name, [f"x{n}" for n in range(count)], ["float"] * count, function)
        inputs = [f(3, 4, low=-0.9, high=0.9), f(4, low=-0.9, high=0.9), f(3, 1, low=-0.9, high=0.9)]
        inputs += [f(4, low=-0.9, high=0.9) for _ in range(count - len(inputs))]
        specs[op_name(count)] = [Sample(tuple(inputs[:count]), (family.value(),), _by_torch)]
    return specs


def _fourier() -> dict[str, list[Sample]]:
    def by(name: str, x: Any, *params: Any) -> Sample:
        return Sample((x,), params, lambda t, x: getattr(t, name)(x, *params))

    numbers, half = f(3, 4, 5) + 1j * f(3, 4, 5), f(3, 3) + 1j * f(3, 3)
    kinds = (((2,), 0), ((0, 2), 1), ((2, 1), 2))
    return {
        "_fft_c2c": [by("_fft_c2c", numbers, dims, norm, norm != 1) for dims, norm in kinds],
        "_fft_r2c": [by("_fft_r2c", numbers.real, dims, norm, one) for dims, norm in kinds for one in (True, False)],
        "_fft_c2r": [
            by("_fft_c2r", numbers, dims, norm, 2 * numbers.shape[dims[-1]] - less)
            for dims, norm in kinds for less in (1, 2)
        ],
        "fft_r2c_backward": [Sample((half,), ((0, 1), norm, n)) for norm, n in ((0, 4), (1, 5), (2, 4))],
        "fft_c2r_backward": [Sample((f(3, n),), ((0, 1), norm)) for norm, n in ((0, 4), (1, 5), (2, 4))],
    }  # fmt: skip


def _recurrent() -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for name, *of in recurrent_samples():
        found.setdefault(name, []).append(Sample(*of))
    return found


SPECS: dict[str, list[Sample]] = {
    **_unary(),
    **_binary(),
    **_selection(),
    **_reductions(),
    **_views(),
    **_joining(),
    **_products(),
    **_indexing(),
    **_creation(),
    **_activations(),
    **_losses(),
    **_layers(),
    **_ordering(),
    **_scans(),
    **_matrices(),
    **_special(),
    **_complex_numbers(),
    **_elementwise(),
    **_fourier(),
    **_channel_norms(),
    **_recurrent(),
}
