"""What operations on complex numbers lower to: real primitives.

Owns: ``complex_lowering``. Imported when the first complex value is compiled.
Must not know: kernels, LLVM.

A lowering is ``lower(b, real, *operands, *params)``: ``real`` is the dtype of the parts of what is computed; a complex
operand is a ``Pair`` (Note [Complex values] in ``codegen/primitives/complex_pairs.py``), a real one is a value as in
all lowerings, and a number is a number. A result that is complex is ``Parts`` or a ``Whole``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.dtypes import DType, float64
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.complex.complex_numbers import real_layout
from jitgrad.ops.table import OPS, Op
from jitgrad.ops.views.strided import COPY_SLICES

__all__ = ["complex_lowering", "table"]

Lowering = Callable[..., Any]


class Parts(tuple[Any, Any]):
    """(real part, imaginary part) of a result."""

    __slots__ = ()


class Whole(tuple[Any]):
    """(pairs,): a result of shape [*] as one real value [*, 2]."""

    __slots__ = ()


def _is_complex(x: Any) -> bool:
    return hasattr(x, "parts")


def _parts(b: Any, real: DType, x: Any) -> tuple[Any, Any | None]:
    """Parts of an operand, of dtype ``real``; the imaginary one of a real operand is None."""
    if _is_complex(x):
        return x.cast(real).parts
    if isinstance(x, complex):
        return b.const(x.real, real), b.const(x.imag, real)
    return b.cast(x, real), None


# --- part by part ---

_MOVEMENTS = (
    "view unsafe_view detach alias transpose t permute expand squeeze squeeze_dim squeeze_dims unsqueeze select slice "
    "flip roll repeat tril triu slice_backward unbind split split_with_sizes unsafe_split diagonal diagonal_backward "
    "unfold unfold_backward contiguous clone select_scatter slice_scatter diagonal_scatter cat stack neg sum sum_dim "
    "mean mean_dim trace cumsum"
).split()
"""Linear with real coefficients, and all operands are complex: a real operation on each part."""

_INDEXED = {
    "where": (0,),
    "gather": (1,),
    "scatter_add": (1,),
    "index_select": (1,),
    "embedding": (1,),
    **{f"index{n}": tuple(range(1, n + 1)) for n in range(1, 7)},
    **{f"index_backward{n}": tuple(range(1, n + 1)) for n in range(1, 7)},
}
"""The same, but for operands that say which elements: indices and masks, by their positions."""


_RESHAPED = frozenset(
    "view unsafe_view detach alias squeeze squeeze_dim squeeze_dims unsqueeze contiguous clone".split()
)
"""The same elements in the same order: pairs as they lie, in the shape of the result."""

_OF_PAIRS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "slice": lambda rank, dim, *rest: (dim % rank, *rest),
    "slice_backward": lambda rank, shape, dim, *rest: ((*shape, 2), dim % rank, *rest),
    "select": lambda rank, dim, index: (dim % rank, index),
    "transpose": lambda rank, one, other: (one % max(rank, 1), other % max(rank, 1)),
    "permute": lambda rank, dims: ((*[d % rank for d in dims], rank),),
    "expand": lambda rank, shape: ((*shape, 2),),
    "neg": lambda rank: (),
}
"""Whose results are pairs as well, where operands lie as pairs: the params for one dimension more."""


def _part_by_part(name: str, indices: tuple[int, ...] = ()) -> Lowering:
    def lower(b: Any, real: DType, *args: Any) -> Any:
        op = _real_op(name)
        assert op.lower is not None
        count = op.num_inputs
        operands, params = (args[:count], args[count:]) if count >= 0 else (args[0], args[1:])
        if count == 1 and operands[0].has_whole and operands[0].real is real:
            if name in _RESHAPED:
                return Whole((operands[0].whole,))
            if name in _OF_PAIRS:
                return Whole((op.lower(b, operands[0].whole, *_OF_PAIRS[name](len(operands[0].shape), *params)),))
        params = tuple([_real_param(x) for x in params])
        found: list[Any] = []
        for nr in range(2):
            mine = [x if i in indices else _part(b, real, x, nr) for i, x in enumerate(operands)]
            found.append(op.lower(b, *mine, *params) if count >= 0 else op.lower(b, mine, *params))
        if isinstance(found[0], tuple | list):
            return tuple(map(Parts, zip(*found, strict=True)))
        return Parts(found)

    return lower


def _real_op(name: str) -> Op:
    return COPY_SLICES if name == COPY_SLICES.name else OPS[name]


def _part(b: Any, real: DType, x: Any, nr: int) -> Any:
    found = _parts(b, real, x)[nr]
    return b.const(0.0, real, x.shape if hasattr(x, "shape") else ()) if found is None else found


def _real_param(x: Any) -> Any:
    return x.to_real() if isinstance(x, DType) else x


_STRIDED = ("strided_select", "strided_window", "strided_scatter", "strided_add", COPY_SLICES.name)


def _over_memory(name: str) -> Lowering:
    """Elements at strides: those of the pairs, so that a write to a window stays one."""

    def lower(b: Any, real: DType, *args: Any) -> Any:
        op = _real_op(name)
        assert op.lower is not None
        operands, windows = args[: op.num_inputs], args[op.num_inputs :]
        wholes = [x.cast(real).whole if _is_complex(x) else x for x in operands]
        return Whole((op.lower(b, *wholes, *map(real_layout, windows)),))

    return lower


# --- arithmetic ---


def _have_wholes(real: DType, *operands: Any) -> bool:
    """Whether all of some operands lie as pairs: what is done alike with both parts is done with these."""
    return all([_is_complex(x) and x.has_whole and x.real is real for x in operands])


def _add(b: Any, real: DType, x: Any, y: Any) -> Any:
    if _have_wholes(real, x, y) and len(x.shape) == len(y.shape):
        return Whole((b.add(x.whole, y.whole),))
    (x0, x1), (y0, y1) = _parts(b, real, x), _parts(b, real, y)
    return _same_shape(b, b.add(x0, y0), y1 if x1 is None else x1 if y1 is None else b.add(x1, y1))


def _sub(b: Any, real: DType, x: Any, y: Any) -> Any:
    if _have_wholes(real, x, y) and len(x.shape) == len(y.shape):
        return Whole((b.sub(x.whole, y.whole),))
    (x0, x1), (y0, y1) = _parts(b, real, x), _parts(b, real, y)
    return _same_shape(b, b.sub(x0, y0), b.neg(y1) if x1 is None else x1 if y1 is None else b.sub(x1, y1))


def _same_shape(b: Any, re: Any, im: Any) -> Parts:
    """Where one part had an operand less, it may still broadcast."""
    return Parts((re, im if im.shape == re.shape else b.expand(im, re.shape)))


def _times(b: Any, x: tuple[Any, Any | None], y: tuple[Any, Any | None]) -> Parts:
    (x0, x1), (y0, y1) = x, y
    if x1 is None:
        return Parts((b.mul(x0, y0), b.mul(x0, y1)))
    if y1 is None:
        return Parts((b.mul(x0, y0), b.mul(x1, y0)))
    return Parts((b.sub(b.mul(x0, y0), b.mul(x1, y1)), b.add(b.mul(x0, y1), b.mul(x1, y0))))


def _mul(b: Any, real: DType, x: Any, y: Any) -> Any:
    return _times(b, _parts(b, real, x), _parts(b, real, y))


def _over(b: Any, x: tuple[Any, Any | None], y: tuple[Any, Any | None]) -> Parts:
    """Smith's way, "Algorithm 116: Complex division" (1962), as NumPy and PyTorch do it: nothing overflows early."""
    (x0, x1), (y0, y1) = x, y
    if y1 is None:
        assert x1 is not None
        return Parts((b.div(x0, y0), b.div(x1, y0)))
    x1 = b.const(0.0, x0.dtype) if x1 is None else x1
    is_steep = b.lt(b.abs(y0), b.abs(y1))
    big, small = b.where(is_steep, y1, y0), b.where(is_steep, y0, y1)
    ratio = b.div(small, big)
    scale = b.add(big, b.mul(small, ratio))
    # y0 is the larger: (x0 + x1 r, x1 - x0 r); y1 is: (x0 r + x1, x1 r - x0)
    first, second = b.where(is_steep, x1, x0), b.where(is_steep, x0, x1)
    re = b.div(b.add(first, b.mul(second, ratio)), scale)
    im = b.div(b.sub(b.where(is_steep, b.mul(x1, ratio), x1), b.where(is_steep, x0, b.mul(x0, ratio))), scale)
    return Parts((re, im))


def _div(b: Any, real: DType, x: Any, y: Any) -> Any:
    return _over(b, _parts(b, real, x), _parts(b, real, y))


def _reciprocal(b: Any, real: DType, x: Any) -> Any:
    return _over(b, (b.const(1.0, real), None), _parts(b, real, x))


def _conj(b: Any, real: DType, x: Any) -> Any:
    re, im = x.parts
    return Parts((re, b.neg(im)))


_POWERS = (1, 2, 3, 4)
"""Exponents that are products, as in NumPy and PyTorch."""


def _pow(b: Any, real: DType, x: Any, exponent: Any) -> Any:
    parts = x.cast(real).parts
    square = _times(b, parts, parts)
    return (Parts(parts), square, _times(b, square, parts), _times(b, square, square))[int(exponent) - 1]


def _exp(b: Any, real: DType, x: Any) -> Any:
    """e^re (cos im + i sin im), with the values of C's function where an operand is infinite or NaN."""
    re, im = x.parts
    high, shift = (700.0, 350.0) if real is float64 else (80.0, 40.0)
    zero, infinity, limit = (b.const(value, real) for value in (0.0, math.inf, high))
    is_high = b.lt(limit, re)  # there the exponential may be infinite, and its product with a small sine is not
    size = b.exp(b.where(is_high, b.sub(re, b.const(shift, real)), re))
    scale = b.where(is_high, b.const(math.exp(shift), real), b.const(1.0, real))
    cosine, sine = b.cos(im), b.sin(im)
    is_lost = b.and_(b.eq(re, infinity), b.isnan(cosine))
    vanishes = b.eq(size, zero)
    parts = [b.where(vanishes, zero, b.mul(b.mul(size, wave), scale)) for wave in (cosine, sine)]
    # a real number stays one, also where its exponential is infinite
    return Parts((b.where(is_lost, infinity, parts[0]), b.where(b.eq(im, zero), im, parts[1])))


def _log(b: Any, real: DType, x: Any) -> Any:
    """log |z| + i angle, to the last digits also where |z| is beyond the largest number, or near 1."""
    sizes = [b.abs(part) for part in x.parts]
    larger, smaller, one, two = b.max(*sizes), b.min(*sizes), b.const(1.0, real), b.const(2.0, real)
    is_high = b.lt(b.const(1e307 if real is float64 else 1e38, real), larger)
    scale = b.where(is_high, b.const(0.25, real), one)
    size = OPS["hypot"].lower(b, b.mul(larger, scale), b.mul(smaller, scale))  # type: ignore[misc]
    back = b.where(is_high, b.const(math.log(4.0), real), b.const(0.0, real))
    # |z|^2 - 1 = (larger - 1) (larger + 1) + smaller^2
    excess = b.add(b.mul(b.sub(larger, one), b.add(larger, one)), b.mul(smaller, smaller))
    is_near = b.and_(b.lt(b.const(0.5, real), larger), b.lt(larger, two))
    return Parts((b.where(is_near, b.div(b.log1p(excess), two), b.add(b.log(size), back)), _angle(b, real, x)))


def _update(op: Op) -> Lowering:
    """An optimizer's update: the parts are parameters of their own."""

    def lower(b: Any, real: DType, *args: Any) -> Any:
        assert op.lower is not None
        found = op.lower(b, *[x.whole if _is_complex(x) else x for x in args])
        return tuple([Whole((x,)) for x in found]) if isinstance(found, tuple | list) else Whole((found,))

    return lower


# --- between real and complex ---


def _abs(b: Any, real: DType, x: Any) -> Any:
    return OPS["hypot"].lower(b, *x.parts)  # type: ignore[misc]


def _angle(b: Any, real: DType, x: Any) -> Any:
    re, im = x.parts
    return b.atan2(im, re)


def _sgn(b: Any, real: DType, x: Any) -> Any:
    re, im = x.parts
    size, zero = _abs(b, real, x), b.const(0.0, real)
    is_zero = b.eq(size, zero)
    return Parts((b.where(is_zero, zero, b.div(re, size)), b.where(is_zero, zero, b.div(im, size))))


def _complex(b: Any, real: DType, re: Any, im: Any) -> Any:
    shape = b.add(re, im).shape
    return Parts((b.expand(b.cast(re, real), shape), b.expand(b.cast(im, real), shape)))


def _polar(b: Any, real: DType, size: Any, angle: Any) -> Any:
    size, angle = b.cast(size, real), b.cast(angle, real)
    return Parts((b.mul(size, b.cos(angle)), b.mul(size, b.sin(angle))))


def _to_copy(b: Any, real: DType, x: Any, *params: Any) -> Any:
    if _is_complex(x):
        return Parts(x.cast(real).parts)
    x = b.cast(x, real)
    return Parts((x, b.const(0.0, real, x.shape)))


def _copy(b: Any, real: DType, x: Any, source: Any) -> Any:
    if _have_wholes(real, source) and len(source.shape) == len(x.shape):
        return Whole((b.expand(source.whole, (*x.shape, 2)),))
    re, im = _parts(b, real, source)
    zero = b.const(0.0, real)
    return Parts([b.expand(part, x.shape) for part in (re, zero if im is None else im)])


def _constant(value: float) -> Lowering:
    def lower(b: Any, real: DType, x: Any, *params: Any) -> Any:
        if not value:
            return Whole((b.const(0.0, real, (*x.shape, 2)),))
        return Parts((b.const(value, real, x.shape), b.const(0.0, real, x.shape)))

    return lower


def _full(b: Any, real: DType, value: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    if isinstance(value, int | float) and value == 0 and math.copysign(1.0, value) > 0:
        return Whole((b.const(0.0, real, (*shape, 2)),))
    re, im = _parts(b, real, value)
    return Parts((b.expand(re, shape), b.const(0.0, real, shape) if im is None else b.expand(im, shape)))


def _norm(b: Any, real: DType, x: Any, order: float, dim: Any, keepdim: bool) -> Any:
    """The square root of the sum of all squares."""
    re, im = x.parts
    squares = b.add(b.mul(re, re), b.mul(im, im))
    return b.sqrt(OPS["sum_dim"].lower(b, squares, dim, keepdim, None))  # type: ignore[misc]


def _eq(b: Any, real: DType, x: Any, y: Any) -> Any:
    (x0, x1), (y0, y1) = _parts(b, real, x), _parts(b, real, y)
    zero = b.const(0.0, real)
    return b.and_(b.eq(x0, y0), b.eq(zero if x1 is None else x1, zero if y1 is None else y1))


def _ne(b: Any, real: DType, x: Any, y: Any) -> Any:
    return b.not_(_eq(b, real, x, y))


# --- products ---


def _product(b: Any, x: tuple[Any, Any | None], y: tuple[Any, Any | None]) -> Parts:
    """[.., M, K] @ [.., K, N] by real products of the parts; one of the operands may be real."""
    (x0, x1), (y0, y1) = x, y
    if x1 is None:
        return Parts((b.matmul(x0, y0), b.matmul(x0, y1)))
    if y1 is None:
        return Parts((b.matmul(x0, y0), b.matmul(x1, y0)))
    re = b.sub(b.matmul(x0, y0), b.matmul(x1, y1))
    return Parts((re, b.add(b.matmul(x0, y1), b.matmul(x1, y0))))


def _mm(b: Any, real: DType, x: Any, y: Any) -> Any:
    return _product(b, _parts(b, real, x), _parts(b, real, y))


def _mv(b: Any, real: DType, x: Any, y: Any) -> Any:
    column = y.reshape((*y.shape, 1)) if _is_complex(y) else b.reshape(y, (*y.shape, 1))
    return Parts([b.reshape(part, x.shape[:-1]) for part in _mm(b, real, x, column)])


def _dot(b: Any, real: DType, x: Any, y: Any) -> Any:
    return Parts([b.sum(part, (0,)) for part in _mul(b, real, x, y)])


def _linear(b: Any, real: DType, x: Any, weight: Any) -> Any:
    re, im = _parts(b, real, weight)
    return _product(b, _parts(b, real, x), (b.permute(re, (1, 0)), None if im is None else b.permute(im, (1, 0))))


def _linear_with_bias(b: Any, real: DType, bias: Any, x: Any, weight: Any) -> Any:
    re, im = _linear(b, real, x, weight)
    bias0, bias1 = _parts(b, real, bias)
    return Parts((b.add(re, bias0), im if bias1 is None else b.add(im, bias1)))


_TABLE: dict[str, Lowering] = {
    **{name: _part_by_part(name) for name in _MOVEMENTS},
    **{name: _part_by_part(name, indices) for name, indices in _INDEXED.items()},
    **{name: _over_memory(name) for name in _STRIDED},
    "add": _add,
    "sub": _sub,
    "rsub": lambda b, real, x, y: _sub(b, real, y, x),
    "mul": _mul,
    "div": _div,
    "reciprocal": _reciprocal,
    "pow": _pow,
    "pow_scalar": _pow,
    "_conj": _conj,
    "conj_physical": _conj,
    "exp": _exp,
    "log": _log,
    "abs": _abs,
    "angle": _angle,
    "sgn": _sgn,
    "complex": _complex,
    "polar": _polar,
    "view_as_real": lambda b, real, x: x.whole,
    "view_as_complex": lambda b, real, x: Whole((x,)),
    "_to_copy": _to_copy,
    "copy": _copy,
    "zero": _constant(0.0),
    "zeros_like": _constant(0.0),
    "ones_like": _constant(1.0),
    "full": _full,
    "linalg_vector_norm": _norm,
    "eq": _eq,
    "ne": _ne,
    "mm": _mm,
    "bmm": _mm,
    "mv": _mv,
    "dot": _dot,
    "linear": _linear_with_bias,
    "linear_nobias": _linear,
}


def table() -> tuple[str, ...]:
    """Names of the operations that have rows here."""
    return tuple(_TABLE)


def complex_lowering(
    name: str, inputs: Sequence[Any], avals: Sequence[Aval | None], outs: Sequence[Aval], params: tuple[Any, ...]
) -> Lowering | None:
    """What an operation with complex operands or results lowers to; None: nothing.

    Args:
        name: of the operation.
        inputs: its operands; a number that is a constant has a ``value``.
        avals: of the operands; None for numbers.
        outs: of the results.
        params: its static parameters.
    """
    found = _TABLE.get(name)
    if found is None:
        op = OPS.get(name)  # an operation of a user's own is not in the table
        if op is None or not op.is_update or op.lower is None:
            return None
        return _update(op) if all([x.dtype is outs[0].dtype for x in avals if x is not None]) else None
    makes_complex = outs[0].dtype.is_complex
    if name in _PART_BY_PART:
        indices = _INDEXED.get(name, ())
        others = [aval for i, aval in enumerate(avals) if i not in indices and aval is not None]
        fits = makes_complex and all([aval.dtype.is_inexact for aval in others])
        return found if fits and _lowers(name, tuple(avals), params) else None
    if name in _STRIDED:
        data: list[Aval | None] = [None if aval is None else real_layout(aval) for aval in avals]
        is_all = all([aval is None or aval.dtype.is_complex for aval in avals])
        return found if is_all and _real_op(name).has_lowering(data, tuple(map(real_layout, params))) else None
    if name.startswith("linear"):
        return found if all([aval is not None and aval.dtype.is_complex for aval in avals]) else None
    if name in ("pow", "pow_scalar"):
        exponent = params[0] if name == "pow_scalar" else getattr(inputs[1], "value", None)
        is_product = avals[0] is not None and avals[0].dtype.is_complex and exponent in _POWERS
        return found if is_product and not isinstance(exponent, complex) else None
    if name == "linalg_vector_norm":
        return found if params[0] == 2 else None
    return found if makes_complex is (name not in _REAL_RESULTS) else None


_REAL_RESULTS = frozenset({"abs", "angle", "view_as_real", "eq", "ne"})
_PART_BY_PART = frozenset(_MOVEMENTS) | frozenset(_INDEXED)


def _part_layout(aval: Aval) -> Aval:
    return make_aval(aval.shape, aval.dtype.to_real(), aval.stride, aval.offset)


def _lowers(name: str, avals: tuple[Aval | None, ...], params: tuple[Any, ...]) -> bool:
    """Whether the real operation has a lowering on the parts."""
    real: list[Aval | None] = [a if a is None or not a.dtype.is_complex else _part_layout(a) for a in avals]
    return _real_op(name).has_lowering(real, tuple([_real_param(x) for x in params]))


