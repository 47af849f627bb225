"""The vector math against NumPy's extended precision, mpmath and torch: accuracy, special values, every target."""

from __future__ import annotations

import math
import os
import re
from functools import cache

import llvmlite.binding as llvm
import mpmath
import numpy as np
import pytest
from vmath_jit import LEVELS, module_text, run, target_of

from jitgrad.codegen.primitives.builder import COMPARISONS, POINTWISE
from jitgrad.codegen.vmath.pointwise import EMIT
from jitgrad.dtypes import bfloat16, bool_, float32, float64, from_numpy_dtype, int32, int64

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy on NaN, infinity and overflow

HOST_FEATURES = set(target_of("host")[1].split(","))
CPUS = ["host", *(cpu for cpu, needs in LEVELS.items() if set(filter(None, needs.split(","))) <= HOST_FEATURES)]
_HAS_LOOKUP = "+avx512vl" in HOST_FEATURES
LIMIT_ULP = 2.0
STRIDE = int(os.environ.get("JITGRAD_ULP_STRIDE", "6007"))  # 1 = all float32, some hours
FLOATS = (np.float32, np.float64)
INTS = (np.int32, np.int64)
BFLOAT16 = bfloat16.np.type


def _sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


REFERENCE = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "sigmoid": _sigmoid,
}  # fmt: skip
BY_MPMATH = ("sin", "cos", "tan", "erf")  # where extended precision is missing, or not trusted far out
UNARY = (*REFERENCE, "erf")
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0]


def ulp_errors(got: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """|got - reference| in units of got's last place; infinite where NaN, infinity or the sign of zero disagree."""
    info = np.finfo(got.dtype)
    rounded = reference.astype(got.dtype)
    size = np.abs(reference)
    exponent = np.floor(np.log2(np.where((size > 0) & np.isfinite(size), size, 1)))
    unit = np.exp2(np.maximum(exponent, info.minexp).astype(np.longdouble) - info.nmant)
    error = np.abs(got.astype(np.longdouble) - reference) / unit
    finite = np.isfinite(got) & np.isfinite(rounded)
    same = (np.isnan(got) & np.isnan(rounded)) | (got == rounded)
    wrong_zero = (reference == 0) & (np.signbit(got) != np.signbit(rounded))
    return np.where(wrong_zero | (~finite & ~same), math.inf, np.where(finite, error, 0))


def check(got: np.ndarray, reference: np.ndarray, *inputs: np.ndarray) -> None:
    errors = ulp_errors(got, reference)
    worst = int(np.argmax(errors))
    where = ", ".join(repr(x[worst]) for x in inputs)
    assert errors[worst] <= LIMIT_ULP, f"{errors[worst]} ULP at {where}: {got[worst]!r}, not {reference[worst]!r}"


def _by_mpmath(function, x: np.ndarray) -> np.ndarray:
    out = np.empty(x.size, np.longdouble)
    with mpmath.workprec(120):
        for i, value in enumerate(map(float, x)):
            exact = function(mpmath.mpf(value))
            head = float(exact)
            out[i] = np.longdouble(head) + (np.longdouble(float(exact - head)) if math.isfinite(head) else 0)
    return np.where((x == 0) & (out == 0), x, out)


@cache
def inputs32() -> np.ndarray:
    """Every STRIDE-th float32, and the numbers around the special ones."""
    bits = np.arange(0, 2**32, STRIDE, dtype=np.uint64).astype(np.uint32)
    centres = np.array([0, 0x80000000, 0x3F800000, 0xBF800000, 0x00800000, 0x7F7FFF00, 0xFF7FFF00], np.int64)
    around = (centres[:, None] + np.arange(-256, 257)).ravel() % 2**32
    return np.concatenate([np.array(SPECIAL, np.float32), np.concatenate([bits, around.astype(np.uint32)]).view("f4")])


@cache
def inputs64(count: int) -> np.ndarray:
    rng = np.random.default_rng(count)
    signs = rng.choice([-1.0, 1.0], count)
    return np.concatenate([
        SPECIAL, [5e-324, -5e-324, 2.2e-308, 1.79e308],
        rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64),
        np.exp2(rng.uniform(-80, 12, count)) * signs, rng.uniform(-2, 2, count),
        1 + signs * np.exp2(rng.uniform(-52, -1, count)), rng.uniform(-760, 760, count),
    ])  # fmt: skip


@cache
def reference32(op: str) -> np.ndarray:
    x = inputs32().astype(np.float64)
    if op == "erf":  # scipy's float64 erf is good to far below a float32 ULP
        from scipy.special import erf

        return erf(x)
    return REFERENCE[op](x)


@cache
def sample64(op: str) -> tuple[np.ndarray, np.ndarray]:
    if op in BY_MPMATH:
        x = inputs64(250)
        x = np.concatenate([x, np.arange(1, 200) * (math.pi / 2)]) if op != "erf" else x
        x = x[np.isfinite(x)]
        return x, _by_mpmath(getattr(mpmath, op), x)
    x = inputs64(20000)
    return x, REFERENCE[op](x.astype(np.longdouble))


def test_every_primitive_is_emitted():
    assert set(EMIT) == set(POINTWISE) - {"cast"}


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("op", UNARY)
def test_float32_is_within_2_ulp(op, cpu):
    x = inputs32()
    check(run(op, x, width=16, cpu=cpu), reference32(op), x)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("op", UNARY)
def test_float64_is_within_2_ulp(op, cpu):
    x, reference = sample64(op)
    check(run(op, x, cpu=cpu), reference, x)


def _bits(x: np.ndarray) -> np.ndarray:
    """With one NaN."""
    return np.where(np.isnan(x), x.dtype.type(np.nan), x).view(f"u{x.itemsize}")


@pytest.mark.parametrize("cpu", CPUS)
def test_square_roots_are_rounded_correctly(cpu):
    """float32: of every number of two octaves, and around subnormal and huge ones; float64: near squares, too."""
    starts = [0, (1 << 23) - (1 << 15), 0x0F800000 - (1 << 15), 0x7F800000 - (1 << 15)]
    numbers = [np.arange(0x3F800000, 0x40800000, dtype=np.uint32)]
    numbers += [np.arange(start, start + (1 << 16), dtype=np.uint32) for start in starts]
    x = np.concatenate(numbers).view(np.float32)
    np.testing.assert_array_equal(_bits(run("sqrt", x, width=16, cpu=cpu)), _bits(np.sqrt(x)))
    rng = np.random.default_rng(5)
    root = np.exp(rng.uniform(-350, 350, 1 << 17))
    anything = rng.integers(0, 1 << 63, 1 << 17).view(np.float64)
    around = [root * root, np.nextafter(root * root, 0), np.nextafter(root * root, np.inf)]
    x = np.concatenate([*around, anything, np.arange(1 << 16) ** 2.0, np.arange(1 << 16) * 5e-324])
    np.testing.assert_array_equal(_bits(run("sqrt", x, width=8, cpu=cpu)), _bits(np.sqrt(x)))


@pytest.mark.parametrize("op", ["tanh", "erf"])
def test_what_is_found_by_pieces_is_within_one_ulp_and_ends_at_one(op):
    """gelu(-100) is -0, not 100 times what is missing."""
    x = inputs32()
    got = run(op, x, width=16)
    assert ulp_errors(got, reference32(op)).max() < (1 if _HAS_LOOKUP else 2)
    size = np.abs(x)
    assert (np.abs(got[size >= 10]) == 1).all()
    assert (np.abs(got[~np.isnan(got)]) <= 1).all()


@pytest.mark.parametrize("op", ["sin", "cos", "tan"])
def test_trigonometry_of_infinity_is_nan(op):
    for dtype in FLOATS:
        assert np.isnan(run(op, np.array([np.inf, -np.inf, np.nan], dtype))).all()


def test_hardest_float64_for_argument_reduction():
    """6381956970095103 * 2^797 is the float64 closest to a multiple of pi/2 (J.-M. Muller, Elementary Functions)."""
    x = np.array([math.ldexp(6381956970095103, 797)])
    check(run("cos", x), _by_mpmath(mpmath.cos, x), x)
    check(run("tan", x), _by_mpmath(mpmath.tan, x), x)


# -- two operands


@cache
def pairs(dtype) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of special values, random bits, and moderate numbers."""
    rng = np.random.default_rng(5)
    info = np.finfo(dtype)
    extra = [info.max, -info.max, info.tiny, info.smallest_subnormal, 1 + info.eps, 1 - info.epsneg, -1 - info.eps,
             2.0**23 + 1, 2.0**24 - 1, 1 - 2.0**24, 2.0**53 - 1, 1e-3, -7.0, 0.1, 700.0, 1000.0]  # fmt: skip
    special = np.array(SPECIAL + extra, dtype)
    x, y = (grid.ravel() for grid in np.meshgrid(special, special))
    bits = rng.integers(0, 2 ** (8 * info.dtype.itemsize), (2, 4000), dtype=np.uint64)
    random = bits.astype(f"u{info.dtype.itemsize}").view(dtype)
    x = np.concatenate([x, random[0], np.exp(rng.normal(size=4000) * 3), 1 + rng.normal(size=4000) / 100]).astype(dtype)
    y = np.concatenate([y, random[1], rng.normal(size=4000) * 10, rng.normal(size=4000) * 3000]).astype(dtype)
    return x, y


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_atan2(dtype, cpu):
    y, x = pairs(dtype)
    check(run("atan2", y, x, cpu=cpu), np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble)), y, x)


@cache
def pow_reference(dtype) -> np.ndarray:
    x, y = pairs(dtype)
    reference = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    if dtype is np.float64:  # extended precision has too few bits for large results
        exponent = np.log2(np.abs(reference))
        usual = np.flatnonzero((x > 0) & (np.abs(exponent) < 1080) & (np.abs(exponent) > 1))
        with mpmath.workprec(150):
            for i in usual:
                exact = mpmath.power(mpmath.mpf(float(x[i])), mpmath.mpf(float(y[i])))
                head = float(exact)
                if math.isfinite(head):
                    reference[i] = np.longdouble(head) + np.longdouble(float(exact - head))
    return reference


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_pow(dtype, cpu):
    x, y = pairs(dtype)
    check(run("pow", x, y, cpu=cpu), pow_reference(dtype), x, y)


def _assert_identical(got: np.ndarray, want: np.ndarray, *inputs: np.ndarray) -> None:
    same = (got == want) & (np.signbit(got) == np.signbit(want)) | (np.isnan(got) & np.isnan(want))
    bad = np.flatnonzero(~same)
    assert not bad.size, [(*(x[i] for x in inputs), got[i], want[i]) for i in bad[:5]]


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_fmod_is_exact_for_every_quotient(dtype, cpu):
    x, y = pairs(dtype)
    _assert_identical(run("fmod", x, y, cpu=cpu), np.fmod(x, y), x, y)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_floordiv_and_mod_follow_torch(dtype, cpu):
    torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")
    x, y = pairs(dtype)
    want = torch.floor_divide(torch.from_numpy(x), torch.from_numpy(y)).numpy()
    _assert_identical(run("floordiv", x, y, cpu=cpu), want, x, y)
    # torch's vectorised remainder loses itself in large quotients
    moderate = ~(np.abs(x / y) > 1e5) & ~((np.abs(y) < np.finfo(dtype).tiny) & (y != 0))
    x, y = x[moderate], y[moderate]
    want = torch.remainder(torch.from_numpy(x), torch.from_numpy(y)).numpy()
    _assert_identical(run("mod", x, y, cpu=cpu), want, x, y)


TORCH_EXACT = {
    "neg": "neg", "abs": "abs", "sign": "sign", "floor": "floor", "ceil": "ceil",
    "trunc": "trunc", "round": "round", "add": "add", "sub": "sub", "mul": "mul", "div": "div",
    "max": "maximum", "min": "minimum", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge",
    "eq": "eq", "ne": "ne", "isnan": "isnan", "copysign": "copysign",
}  # fmt: skip


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", TORCH_EXACT)
def test_exact_operations_follow_torch(op, dtype, cpu):
    torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")
    x, y = pairs(dtype)
    x = np.concatenate([x, np.arange(-40, 40).astype(dtype) / 4, np.array([2.0**22 + 0.5, -0.2, 2.0**51 + 0.5], dtype)])
    y = np.concatenate([y, np.ones(x.size - y.size, dtype)])
    arrays = (x, y)[: POINTWISE[op]]
    got = run(op, *arrays, out=np.bool_ if op in COMPARISONS else dtype, cpu=cpu)
    want = getattr(torch, TORCH_EXACT[op])(*map(torch.from_numpy, arrays)).numpy()
    if op in COMPARISONS:
        np.testing.assert_array_equal(got, want)
    else:
        _assert_identical(got, want, *arrays)


# -- integers and booleans


@cache
def int_pairs(dtype) -> tuple[np.ndarray, np.ndarray]:
    info = np.iinfo(dtype)
    special = np.array([0, 1, -1, 2, -2, 3, -7, 63, info.max, info.min, info.min + 1], dtype)
    x, y = (grid.ravel() for grid in np.meshgrid(special, special))
    rng = np.random.default_rng(6)
    big, small = rng.integers(info.min, info.max, 2000, dtype), rng.integers(-20, 20, (2, 2000), dtype)
    # multiples of numbers of all sizes, and what is beside them: where a rounded quotient is one too large
    bits = np.dtype(dtype).itemsize * 8
    divisor, factor = (rng.integers(info.min, info.max, 6000, dtype) >> rng.integers(0, bits, 6000) for _ in range(2))
    near = divisor * factor + rng.integers(-2, 3, 6000)
    parts = [(x, y), (big, small[0]), (small[0], small[1]), (near, divisor), (big, np.sort(divisor)[::3])]
    return tuple(np.concatenate(part).astype(dtype) for part in zip(*parts, strict=True))


def _int_pow(x: int, y: int) -> int:
    if y < 0:
        return {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)
    return pow(x, y, 2**64)


INT_EXACT = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
    "floordiv": lambda x, y: x // y if y else 0, "mod": lambda x, y: x % y if y else 0,
    "fmod": lambda x, y: int(math.copysign(abs(x) % abs(y), x)) if y and abs(x) < 2**50 else _trunc(x, y)[1],
    "div": lambda x, y: _trunc(x, y)[0], "pow": _int_pow, "max": max, "min": min,
    "and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y,
}  # fmt: skip


def _trunc(x: int, y: int) -> tuple[int, int]:
    if not y:
        return 0, 0
    quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return quotient, x - quotient * y


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", INT_EXACT)
def test_integers_wrap_and_never_trap(op, dtype):
    x, y = int_pairs(dtype)
    bits = 8 * np.dtype(dtype).itemsize
    exact = [INT_EXACT[op](a, b) % 2**bits for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    want = np.array(exact, np.uint64).astype(f"u{bits // 8}").view(dtype)
    np.testing.assert_array_equal(run(op, x, y), want)


@pytest.mark.parametrize("dtype", INTS)
def test_integer_unaries_and_comparisons(dtype):
    x, y = int_pairs(dtype)
    np.testing.assert_array_equal(run("neg", x), 0 - x)
    np.testing.assert_array_equal(run("abs", x), np.abs(x))
    np.testing.assert_array_equal(run("sign", x), np.sign(x))
    np.testing.assert_array_equal(run("not", x), ~x)
    np.testing.assert_array_equal(run("round", x), x)
    for op in ("lt", "le", "gt", "ge", "eq", "ne"):
        np.testing.assert_array_equal(run(op, x, y, out=np.bool_), getattr(np.ndarray, f"__{op}__")(x, y))
    assert not run("isnan", x, out=np.bool_).any()


def test_booleans():
    x, y = np.array([False, False, True, True] * 2), np.array([False, True] * 4)
    for op in ("lt", "le", "gt", "ge", "eq", "ne"):
        np.testing.assert_array_equal(run(op, x, y), getattr(np.ndarray, f"__{op}__")(x, y))
    either, both = x | y, x & y
    results = {"add": either, "or": either, "max": either, "mul": both, "and": both, "min": both, "xor": x ^ y}
    for op, want in results.items():
        np.testing.assert_array_equal(run(op, x, y), want)
    np.testing.assert_array_equal(run("not", x), ~x)
    np.testing.assert_array_equal(run("where", x, y, ~y), np.where(x, y, ~y))


@pytest.mark.parametrize("cpu", CPUS)
def test_casts(cpu):
    values = [0, 1, -1, 2, 100, -100, 2**31 - 1, -(2**31)]
    reals = [0.0, -0.0, 0.9, -0.9, 1.5, -2.5, 1e30, -1e30, math.inf, -math.inf, math.nan, 3e9, 1e-45]
    for source in (np.int32, np.int64, np.bool_):
        x = np.array(values).astype(source)
        for to in (np.float32, np.float64, np.int32, np.int64, np.bool_):
            np.testing.assert_array_equal(run("cast", x, out=to, cpu=cpu), x.astype(to))
    for source in FLOATS:
        x = np.array(reals, source)
        for to in (np.float32, np.float64, np.bool_):
            np.testing.assert_array_equal(run("cast", x, out=to, cpu=cpu), x.astype(to))
        for to in INTS:
            info = np.iinfo(to)  # what does not fit is the least integer, as x86 has it
            want = [int(v) if info.min <= v <= info.max else info.min for v in x.tolist()]
            np.testing.assert_array_equal(run("cast", x, out=to, cpu=cpu), np.array(want, to))


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("half", [np.float16, BFLOAT16])
def test_halves(half, cpu):
    """Every half to float32, and floats around all of them back: those between two round to the even one."""
    every = np.arange(1 << 16, dtype=np.uint16).view(half)
    wide = every.astype(np.float32)
    np.testing.assert_array_equal(run("cast", every, out=np.float32, cpu=cpu), wide)
    with np.errstate(all="ignore"):
        following = np.nextafter(wide, np.float32(np.inf))
        between = wide + (np.roll(wide, -1) - wide) / np.float32(2)
        for x in (wide, following, np.nextafter(wide, -np.float32(np.inf)), between, wide * np.float32(1e-3)):
            got, want = run("cast", x, out=half, cpu=cpu), x.astype(half)
            np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("cpu", CPUS)
def test_short_integers_wrap(cpu):
    values = np.array([0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, 32768, -32769, 65535, 70000])
    reals = np.array([0.0, -1.5, 127.9, 300.0, -129.0, 65535.0, 3e9, math.inf, math.nan], np.float32)
    for to in (np.uint8, np.int8, np.int16):
        for source in (np.int32, np.int64, np.int16, np.uint8, np.int8):
            x = values.astype(source)
            np.testing.assert_array_equal(run("cast", x, out=to, cpu=cpu), x.astype(to))
        # what does not fit 32 bits is the least of these integers, whose low bytes are 0
        want = [int(v) if abs(v) < 2**31 else 0 for v in reals]
        np.testing.assert_array_equal(run("cast", reals, out=to, cpu=cpu), np.array(want).astype(to))


# -- shape of the code


NOT_FOR_BOOL = ("div", "floordiv", "mod", "fmod", "pow", "neg")


def _applies(op: str, dtype) -> bool:
    if dtype.is_floating_point:
        return op not in ("not", "and", "or", "xor")
    return op not in (*UNARY, "atan2", "copysign") and not (dtype is bool_ and op in NOT_FOR_BOOL)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", EMIT)
def test_every_width_gives_the_same_bits(op, dtype):
    if not _applies(op, from_numpy_dtype(np.dtype(dtype))):
        pytest.skip("not an operation on floats")
    rng = np.random.default_rng(7)
    arrays = [np.append(rng.normal(size=28) * 3, [1e30, 0.0, np.nan, 1e-3]).astype(dtype) for _ in range(POINTWISE[op])]
    if op == "where":
        arrays[0] = arrays[0] > 0
    out = np.bool_ if op in COMPARISONS else dtype
    want = run(op, *arrays, out=out, width=8)
    for width in (1, 2, 4, 16):
        np.testing.assert_array_equal(run(op, *arrays, out=out, width=width), want)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["exp", "exp2", "expm1", "sigmoid", "tanh", "sinh", "cosh", "erf", "pow"])
def test_powers_of_two_give_the_same_bits_with_and_without_an_instruction(op, dtype):
    """Lanes of less than a vector register have none: subnormal results, zeros, infinities, NaN, what is between."""
    low, high = (-110.0, 92.0) if dtype == "float32" else (-1080.0, 1030.0)
    rng = np.random.default_rng(3)
    ends = [np.inf, -np.inf, np.nan, 0.0, -0.0, low, high, 1e30, -1e30, 1e-40]
    x = np.concatenate([np.linspace(low, high, 20_000), rng.normal(size=3000), ends]).astype(dtype)
    operands = [np.abs(x), rng.normal(size=x.size).astype(dtype) * 40] if op == "pow" else [x]
    want = run(op, *operands, width=1)
    for width in (4, 8, 16):
        got = run(op, *operands, width=width)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        bits, wanted = (np.where(np.isnan(a), 0, a).astype(dtype).view(f"u{a.itemsize}") for a in (got, want))
        np.testing.assert_array_equal(bits, wanted)


def _each_kernel(width: int, cpu: str = "host"):
    """(what it is, its text) for every primitive on every dtype it applies to."""
    for op in EMIT:
        for dtype in (float32, float64, int32, int64, bool_):
            if _applies(op, dtype):
                types = (bool_, dtype, dtype) if op == "where" else (dtype,) * POINTWISE[op]
                yield f"{op} {dtype}", module_text(op, types, bool_ if op in COMPARISONS else dtype, width, cpu)


def test_no_fast_math_flag_is_set():
    for what, text in _each_kernel(16):
        assert not re.search(r" (fast|nnan|ninf|nsz|reassoc|arcp|afn|contract) ", text), what


@pytest.mark.parametrize(
    "triple, cpu", [("aarch64-unknown-linux-gnu", "generic"), ("x86_64-unknown-linux-gnu", "x86-64")]
)
def test_no_call_leaves_the_kernel(triple, cpu):
    """On the plainest CPU of each architecture nothing is called but our own cold function."""
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, codemodel="small")
    for what, text in _each_kernel(4, cpu="x86-64-v3" if cpu == "generic" else cpu):  # aarch64 has all that this has
        calls = re.findall(r"^\s(?:bl|callq?)\s+(\S+)", machine.emit_assembly(llvm.parse_assembly(text)), re.M)
        assert all("jg_reduce_pi_half" in call for call in calls), (what, calls)
