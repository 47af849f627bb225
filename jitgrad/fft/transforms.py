"""Transforms along one dimension, two, or several, as functions of ``torch.fft``.

Owns: fft, rfft, hfft and their like: which operation each is, on what.
Must not know: how transforms are computed (``jitgrad.ops.fourier``).

A letter says what the numbers are: none: complex on both sides; r: real before, so half of the spectrum is all of it;
h: real after. i: the other direction, with exp(+2 pi i k n / N). What an ``h`` transform computes is an ``r`` transform
of the other direction, of conjugates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.fft.arguments import (
    check_kinds,
    check_points,
    factor,
    public,
    resized,
    sizes_and_dims,
    to_complex,
    to_inexact,
    wrapped_dim,
)
from jitgrad.functions.precision import float32_in_autocast
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.shapes import torch_dtype_name

__all__ = [
    "fft", "fft2", "fftn", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ihfft", "ihfft2", "ihfftn", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftn",
]  # fmt: skip

_COMMON = """

    Args:
        {sizes}
        norm: which direction has the factor 1 / (number of points): "backward" or None, "forward"; "ortho": each has
            its root.
        out: takes the result.

    Returns:
        {result}

    Raises:
        RuntimeError: no points, half precision, another norm{more}.
        IndexError: a dimension that is not there.
    """
_N = "n: number of points; the input is cut, or filled with zeros. Default: all there are{n}."
_S = (
    "s: number of points per dimension (-1: all there are); the input is cut, or filled with zeros.\n"
    "        dim: dimensions. Default: {dims}."
)
_COMPLEX_RESULT = "Complex numbers of the input's precision; integers are taken in the default dtype."
_HALF_RESULT = f"{_COMPLEX_RESULT}\n        Along the last dimension, n // 2 + 1 of them."
_REAL_RESULT = "Real numbers of the input's precision; integers are taken in the default dtype."
_IS_COMPLEX = ", or complex input"


def _check_real(name: str, x: Any, kind: str) -> None:
    if x._aval.dtype.is_complex:
        raise RuntimeError(f"{name} expects a {kind} input tensor, but got {torch_dtype_name(x._aval.dtype)}")


def _conj(x: Any) -> Any:
    return call("_conj", x)


# --- one dimension ---


@float32_in_autocast
def _c2c_or_r2c(name: str, input: Any, n: Any, dim: int, norm: str | None, forward: bool) -> Any:
    if not input._aval.dtype.is_complex:
        return _r2c(name, input, n, dim, norm, forward, False)
    d = wrapped_dim(dim, input)
    count = input.shape[d] if n is None else n
    check_points(count)
    return call("_fft_c2c", resized(input, (d,), [count]), (d,), factor(norm, forward), forward)


@float32_in_autocast
def _r2c(name: str, input: Any, n: Any, dim: int, norm: str | None, forward: bool, onesided: bool) -> Any:
    _check_real(name, input, "real")
    x = to_inexact(input)
    d = wrapped_dim(dim, x)
    count = x.shape[d] if n is None else n
    check_points(count)
    made = call("_fft_r2c", resized(x, (d,), [count]), (d,), factor(norm, forward), onesided)
    return made if forward else _conj(made)


@float32_in_autocast
def _c2r(name: str, input: Any, n: Any, dim: int, norm: str | None, forward: bool) -> Any:
    x = to_complex(input)
    d = wrapped_dim(dim, x)
    count = 2 * (x.shape[d] - 1) if n is None else n
    check_points(count)
    if n is not None:
        x = resized(x, (d,), [n // 2 + 1])
    return call("_fft_c2r", _conj(x) if forward else x, (d,), factor(norm, forward), count)


# --- several dimensions ---


@float32_in_autocast
def _c2c_many(name: str, input: Any, s: Any, dim: Any, norm: str | None, forward: bool) -> Any:
    sizes, dims = sizes_and_dims(input, s, dim)
    return call("_fft_c2c", resized(to_complex(input), dims, sizes), dims, factor(norm, forward), forward)


def _check_dims(name: str, dims: Any) -> None:
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")


def _half_sizes(name: str, input: Any, s: Any, dim: Any) -> tuple[list[int], tuple[int, ...], int]:
    """(sizes of the half spectrum, dimensions, number of real points in the last one)."""
    sizes, dims = sizes_and_dims(input, s, dim)
    _check_dims(name, dims)
    last = s[-1] if isinstance(s, tuple | list) else s
    count = 2 * (input.shape[dims[-1]] - 1) if last is None or last == -1 else sizes[-1]
    check_points(count)
    return [*sizes[:-1], count // 2 + 1], dims, count


@float32_in_autocast
def _rfftn(name: str, input: Any, s: Any, dim: Any, norm: str | None) -> Any:
    _check_real("rfftn", input, "real-valued")
    sizes, dims = sizes_and_dims(input, s, dim)
    _check_dims("rfftn", dims)
    return call("_fft_r2c", resized(to_inexact(input), dims, sizes), dims, factor(norm, True), True)


@float32_in_autocast
def _irfftn(name: str, input: Any, s: Any, dim: Any, norm: str | None) -> Any:
    sizes, dims, count = _half_sizes("irfftn", input, s, dim)
    return call("_fft_c2r", resized(to_complex(input), dims, sizes), dims, factor(norm, False), count)


@float32_in_autocast
def _hfftn(name: str, input: Any, s: Any, dim: Any, norm: str | None) -> Any:
    sizes, dims, count = _half_sizes("hfftn", input, s, dim)
    x, by = resized(to_complex(input), dims, sizes), factor(norm, True)
    if len(dims) > 1:
        x = call("_fft_c2c", x, dims[:-1], by, True)
    return call("_fft_c2r", _conj(x), dims[-1:], by, count)


@float32_in_autocast
def _ihfftn(name: str, input: Any, s: Any, dim: Any, norm: str | None) -> Any:
    sizes, dims = sizes_and_dims(input, s, dim)
    _check_dims("ihfftn", dims)
    x, by = resized(to_inexact(input), dims, sizes), factor(norm, False)
    made = _conj(call("_fft_r2c", x, dims[-1:], by, True))
    return call("_fft_c2c", made, dims[:-1], by, False) if len(dims) > 1 else made


# --- the functions of torch.fft ---


def _documented(function: Any, name: str, text: str, sizes: str, result: str, more: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__module__ = "jitgrad.fft"
    function.__doc__ = text + _COMMON.format(sizes=sizes, result=result, more=more)
    return public("floating point" if result is _REAL_RESULT else "complex")(function)


def _one(name: str, transform: Callable[..., Any], last: tuple[Any, ...], text: str, result: str, more: str) -> Any:
    def function(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
        check_kinds(name, input=input, n=n, dim=dim, norm=norm)
        return transform(name, input, n, dim, norm, *last)

    points = _N.format(n=", 2 (m - 1) for m input elements" if result is _REAL_RESULT else "")
    return _documented(function, name, text, f"{points}\n        dim: the dimension.", result, more)


def _many(name: str, transform: Callable[..., Any], last: tuple[Any, ...], text: str, result: str, more: str) -> Any:
    def function(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
        check_kinds(name, input=input, s=s, dims=dim, norm=norm)
        return transform(name, input, s, dim, norm, *last)

    return _documented(function, name, text, _S.format(dims="the last ones that ``s`` names, or all"), result, more)


def _two(name: str, transform: Callable[..., Any], last: tuple[Any, ...], text: str, result: str, more: str) -> Any:
    def function(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
        check_kinds(name, input=input, s=s, dims=dim, norm=norm)
        return transform(name, input, s, dim, norm, *last)

    return _documented(function, name, text, _S.format(dims="the last two"), result, more)


_OF = {
    "fft": "The discrete Fourier transform",
    "ifft": "The inverse discrete Fourier transform",
    "rfft": "The Fourier transform of real numbers, half of it",
    "irfft": "The inverse of ``rfft``: real numbers by half of their Fourier transform",
    "hfft": "The Fourier transform, which is real, of a signal that is the conjugate of its mirror image, by half "
    "of that",
    "ihfft": "The inverse of ``hfft``, half of it",
}
_RESULTS = {
    "fft": (_COMPLEX_RESULT, ""), "ifft": (_COMPLEX_RESULT, ""),
    "rfft": (_HALF_RESULT, _IS_COMPLEX), "ihfft": (_HALF_RESULT, _IS_COMPLEX),
    "irfft": (_REAL_RESULT, ""), "hfft": (_REAL_RESULT, ""),
}  # fmt: skip
_ONE: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "fft": (_c2c_or_r2c, (True,)), "ifft": (_c2c_or_r2c, (False,)), "rfft": (_r2c, (True, True)),
    "ihfft": (_r2c, (False, True)), "irfft": (_c2r, (False,)), "hfft": (_c2r, (True,)),
}  # fmt: skip
_MANY: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "fft": (_c2c_many, (True,)), "ifft": (_c2c_many, (False,)), "rfft": (_rfftn, ()), "irfft": (_irfftn, ()),
    "hfft": (_hfftn, ()), "ihfft": (_ihfftn, ()),
}  # fmt: skip

fft, ifft, rfft, ihfft, irfft, hfft = (
    _one(name, *_ONE[name], f"{_OF[name]}, along one dimension.", *_RESULTS[name]) for name in _ONE
)
fft2, ifft2, rfft2, irfft2, hfft2, ihfft2 = (
    _two(f"{name}2", *_MANY[name], f"{_OF[name]}, along two dimensions.", *_RESULTS[name]) for name in _MANY
)
fftn, ifftn, rfftn, irfftn, hfftn, ihfftn = (
    _many(f"{name}n", *_MANY[name], f"{_OF[name]}, along several dimensions.", *_RESULTS[name]) for name in _MANY
)
