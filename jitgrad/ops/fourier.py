"""Discrete Fourier transforms.

Owns: _fft_c2c, _fft_r2c, _fft_c2r, and fft_r2c_backward, fft_c2r_backward, their transposes. Imported late.
In: [*], real or complex of 32 or 64 bits. Out: new memory of the same precision. SciPy's pocketfft computes where there
is SciPy: it takes several rows at a time, and threads. Else NumPy's does.
Must not know: Tensor, kernels, sizes and names that users give (``jitgrad.fft``).

All are linear over the real numbers, so a derivative is the transpose for the inner product Re(sum(conj(x) y)), which
PyTorch's gradients belong to. The transpose of a transform is the transform of the other direction with the same factor
in front. Where half of a spectrum stands for all of it, elements that stand for two count twice; the two transposes are
operations of their own, so that each derivative, of any order, is one operation.

Params: ``dims``, all different, the last of which is the one that is halved; ``norm``, one of the factors below;
``forward``: exp(-2 pi i k n / N) if true, else exp(+2 pi i k n / N).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jitgrad.config import config
from jitgrad.dtypes import float32, float64
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.shapes import torch_dtype_name
from jitgrad.ops.table import Vjp, define

__all__ = ["BY_N", "BY_ROOT_N", "NONE"]

NONE, BY_ROOT_N, BY_N = range(3)
"""Factors of a transform over N points in all: 1, 1 / sqrt(N), 1 / N."""

_FORWARD: tuple[Any, ...] = ("backward", "ortho", "forward")
_INVERSE: tuple[Any, ...] = ("forward", "ortho", "backward")

Dims = tuple[int, ...]


def _check_complex(x: Aval) -> None:
    if not x.dtype.is_complex:
        raise RuntimeError("Expected self.is_complex() to be true, but got false.")


def _with_extent(x: Aval, dim: int, extent: int) -> tuple[int, ...]:
    shape = list(x.shape)
    shape[dim] = extent
    return tuple(shape)


_SCIPY = LazyModule("scipy.fft")
_LARGE = 1 << 16
"""From so many elements on a second thread pays."""


@functools.cache
def _has_scipy() -> bool:
    try:
        return callable(_SCIPY.fftn)
    except ImportError:
        return False


def _transform(name: str, x: Any, **arguments: Any) -> Any:
    """A transform by the function of that name; the number of threads does not change a bit."""
    if not _has_scipy():
        return getattr(np.fft, name)(x, **arguments)
    workers = config.num_threads if x.size >= _LARGE else 1
    return getattr(_SCIPY, name)(x, workers=workers, **arguments)


# --- complex to complex ---


def _c2c_aval(x: Aval, dims: Dims, norm: int, forward: bool) -> Aval:
    _check_complex(x)
    return make_aval(x.shape, x.dtype)


def _np_c2c(x: Any, dims: Dims, norm: int, forward: bool) -> Any:
    if not dims:
        return x.copy()
    return _transform("fftn" if forward else "ifftn", x, axes=dims, norm=(_FORWARD if forward else _INVERSE)[norm])


def _turned(c: Any, g: Any) -> Any:
    dims, norm, forward = c.params
    return call("_fft_c2c", g, dims, norm, not forward)


define("_fft_c2c", aval=_c2c_aval, numpy=_np_c2c, vjps=[Vjp(_turned)], node_name="FftC2CBackward0")


# --- real to complex: the whole spectrum, or the half that says all ---


def _r2c_aval(x: Aval, dims: Dims, norm: int, onesided: bool) -> Aval:
    if x.dtype not in (float32, float64):
        raise RuntimeError(f"Unsupported dtype {torch_dtype_name(x.dtype)}")
    extent = x.shape[dims[-1]]
    return make_aval(_with_extent(x, dims[-1], extent // 2 + 1 if onesided else extent), x.dtype.to_complex())


def _np_r2c(x: Any, dims: Dims, norm: int, onesided: bool) -> Any:
    return _transform("rfftn" if onesided else "fftn", x, axes=dims, norm=_FORWARD[norm])


def _r2c_rule(c: Any, g: Any) -> Any:
    dims, norm, onesided = c.params
    if onesided:
        return call("fft_r2c_backward", g, dims, norm, c.avals[0].shape[dims[-1]])
    return call("view_as_real", call("_fft_c2c", g, dims, norm, False)).select(-1, 0)


define(
    "_fft_r2c",
    aval=_r2c_aval,
    numpy=_np_r2c,
    vjps=[Vjp(_r2c_rule)],
    node_name="FftR2CBackward0",
    runs_once=True,
)


# --- half of a spectrum to real ---


def _c2r_aval(x: Aval, dims: Dims, norm: int, extent: int) -> Aval:
    _check_complex(x)
    return make_aval(_with_extent(x, dims[-1], extent), x.dtype.to_real())


def _np_c2r(x: Any, dims: Dims, norm: int, extent: int) -> Any:
    sizes = [*(x.shape[d] for d in dims[:-1]), extent]
    return _transform("irfftn", x, s=sizes, axes=dims, norm=_INVERSE[norm])


define(
    "_fft_c2r",
    aval=_c2r_aval,
    numpy=_np_c2r,
    vjps=[Vjp(lambda c, g: call("fft_c2r_backward", g, *c.params[:2]))],
    node_name="FftC2RBackward0",
)


# --- the transposes of both halves ---


def _scaled_twins(x: Any, dim: int, extent: int, factor: float) -> Any:
    """Half a spectrum whose elements that stand for two, themselves and their mirror image, are multiplied."""
    parts = x.view(x.real.dtype) if x.flags.c_contiguous else x  # NumPy takes twice as long for complex numbers
    width = 2 if parts is not x and dim % x.ndim == x.ndim - 1 else 1
    twins = (slice(None),) * (dim % x.ndim) + (slice(width, width * ((extent + 1) // 2)),)
    parts[twins] *= x.real.dtype.type(factor)
    return x


def _np_r2c_transposed(g: Any, dims: Dims, norm: int, extent: int) -> Any:
    return _np_c2r(_scaled_twins(g.copy(), dims[-1], extent, 0.5), dims, norm, extent)


def _np_c2r_transposed(g: Any, dims: Dims, norm: int) -> Any:
    return _scaled_twins(_np_r2c(g, dims, norm, True), dims[-1], g.shape[dims[-1]], 2.0)


define(
    "fft_r2c_backward",
    aval=_c2r_aval,
    numpy=_np_r2c_transposed,
    vjps=[Vjp(lambda c, g: call("_fft_r2c", g, *c.params[:2], True))],
    node_name="FftR2CBackwardBackward0",
)
define(
    "fft_c2r_backward",
    aval=lambda g, dims, norm: _r2c_aval(g, dims, norm, True),
    numpy=_np_c2r_transposed,
    vjps=[Vjp(lambda c, g: call("_fft_c2r", g, *c.params, c.avals[0].shape[c.params[0][-1]]))],
    node_name="FftC2RBackwardBackward0",
)
