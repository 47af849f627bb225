"""What the functions of ``jitgrad.fft`` are given: kinds of arguments, dimensions, sizes, norms, ``out``.

Owns: their checks, with PyTorch's messages, and what they mean.
Must not know: which transforms there are.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from jitgrad.dtypes import float32, float64, get_default_dtype
from jitgrad.functions.outputs import takes_out
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.fourier import BY_N, BY_ROOT_N, NONE
from jitgrad.ops.shapes import torch_dtype_name, wrap_dim
from jitgrad.tensor_base import TensorBase

__all__ = [
    "check_kinds", "check_points", "factor", "public", "resized", "sizes_and_dims", "to_complex", "to_inexact",
    "wrapped_dim",
]  # fmt: skip


def _is_int(x: Any) -> bool:
    return hasattr(x, "__index__") and not isinstance(x, bool | TensorBase)


def _is_ints(x: Any) -> bool:
    return _is_int(x) or (isinstance(x, tuple | list) and all(map(_is_int, x)))


_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "input": (lambda x: isinstance(x, TensorBase), "Tensor"),
    "n": (lambda x: x is None or _is_int(x), "int"),
    "dim": (_is_int, "int"),
    "s": (lambda x: x is None or _is_ints(x), "tuple of ints"),
    "dims": (lambda x: x is None or _is_ints(x), "tuple of ints"),
    "norm": (lambda x: x is None or isinstance(x, str), "str"),
    "d": (lambda x: isinstance(x, int | float), "float"),
}


def check_kinds(name: str, **arguments: Any) -> None:
    """PyTorch's TypeError for an argument of a wrong kind; ``dims`` is a ``dim`` that may be several, or None."""
    for position, (argument, value) in enumerate(arguments.items(), 1):
        fits, kind = _KINDS[argument]
        if not fits(value):
            shown = argument.removesuffix("s") if argument == "dims" else argument
            raise TypeError(
                f"fft_{name}(): argument '{shown}' (position {position}) must be {kind}, not {type(value).__name__}"
            )


def public(result: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A transform with ``out=``, whose tensor must be ``result``: "complex" or "floating point"."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        writing = takes_out(function)

        @functools.wraps(function)
        def wrapped(*args: Any, out: Any = None, **kwargs: Any) -> Any:
            if isinstance(out, TensorBase) and out._aval.dtype.is_complex != (result == "complex"):
                raise RuntimeError(
                    f"{function.__name__} expects a {result} output tensor, but got {torch_dtype_name(out.dtype)}"
                )
            return writing(*args, out=out, **kwargs)

        return wrapped

    return decorate


def factor(norm: str | None, forward: bool) -> int:
    """The factor in front of a transform: ``norm`` names the direction that has it.

    Raises:
        RuntimeError: neither None nor "forward", "backward" or "ortho".
    """
    if norm == "ortho":
        return BY_ROOT_N
    if norm not in (None, "backward", "forward"):
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    return BY_N if forward == (norm == "forward") else NONE


def check_points(n: int) -> None:
    """RuntimeError unless a transform has points."""
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")


def to_inexact(x: Any) -> Any:
    """Integers and bools in the default dtype, other numbers as they are.

    Raises:
        RuntimeError: half precision.
    """
    dtype = x._aval.dtype if x._aval.dtype.is_inexact else get_default_dtype()
    if not dtype.is_complex and dtype not in (float32, float64):
        raise RuntimeError(f"Unsupported dtype {torch_dtype_name(dtype)}")
    return x if dtype is x._aval.dtype else x.to(dtype)


def to_complex(x: Any) -> Any:
    """In the complex dtype of the same precision, see ``to_inexact``."""
    x = to_inexact(x)
    return x if x._aval.dtype.is_complex else x.to(x._aval.dtype.to_complex())


def wrapped_dim(dim: int, x: Any) -> int:
    """A dimension that is there, not negative. IndexError otherwise."""
    if not x.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return wrap_dim(operator.index(dim), x.ndim)


def _listed(value: Any) -> list[int]:
    return [operator.index(v) for v in (value if isinstance(value, tuple | list) else (value,))]


def sizes_and_dims(x: Any, s: Any, dim: Any) -> tuple[list[int], tuple[int, ...]]:
    """(number of points, dimension) of each dimension that is transformed.

    Args:
        s: number of points per dimension, -1: as many as there are; None: all of them.
        dim: dimensions; None: the last ones of which ``s`` says the sizes, or all.

    Raises:
        IndexError: a dimension that is not there.
        RuntimeError: dimensions that occur twice, sizes that are not positive, or more or fewer than dimensions.
    """
    dims = None
    if dim is not None:
        dims = [wrapped_dim(d, x) for d in _listed(dim)]
        if len(set(dims)) < len(dims):
            raise RuntimeError("FFT dims must be unique")
    sizes = None if s is None else _listed(s)
    if sizes is not None and dims is not None and len(sizes) != len(dims):
        raise RuntimeError("When given, dim and shape arguments must have the same length")
    if dims is None:
        count = x.ndim if sizes is None else len(sizes)
        if count > x.ndim:
            raise RuntimeError(f"Got shape with {count} values but input tensor only has {x.ndim} dimensions.")
        dims = list(range(x.ndim - count, x.ndim))
    sizes = [-1] * len(dims) if sizes is None else sizes
    sizes = [x.shape[d] if n == -1 else n for n, d in zip(sizes, dims, strict=True)]
    for n in sizes:
        check_points(n)
    return sizes, tuple(dims)


def resized(x: Any, dims: tuple[int, ...], sizes: list[int]) -> Any:
    """``x`` cut, or filled with zeros, at the ends of dimensions."""
    missing = [0] * x.ndim
    for d, n in zip(dims, sizes, strict=True):
        if n < x.shape[d]:
            x = call("slice", x, d, 0, n, 1)
        missing[d] = n - x.shape[d]
    return call("constant_pad", x, (0,) * x.ndim, tuple(missing), 0.0) if any(missing) else x
