"""Covariances, joint moments, finite differences, histograms of several dimensions.

Owns: cov, corrcoef, var_mean, std_mean, gradient, histogramdd.
Must not know: how the operations they are made of are computed. Imported late.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.dtypes import BOOLEAN, COMPLEX_DTYPES, FLOATING, HALVES, INTEGER, WHOLE, uint8
from jitgrad.functions.distinct import Histogram
from jitgrad.functions.from_data import tensor
from jitgrad.functions.joining import cat
from jitgrad.functions.linalg import matmul
from jitgrad.functions.reduction import mean, std, var
from jitgrad.functions.views import conjugated
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.shapes import refuse, wrap_dim
from jitgrad.runtime.eager.quiet import run_quietly
from jitgrad.tensor_base import TensorBase

__all__ = ["corrcoef", "cov", "gradient", "histogramdd", "std_mean", "var_mean"]


# --- covariances ---


def _check_weights(name: str, weights: Any, count: int, category: Any, kind: str) -> None:
    if weights is None:
        return
    if weights.ndim > 1:
        raise RuntimeError(f"cov(): expected {name} to have one or fewer dimensions but got {name} with "
                           f"{weights.ndim} dimensions")  # fmt: skip
    if weights.dtype.category is not category:
        raise RuntimeError(f"cov(): expected {name} to have {kind} dtype but got {name} with {weights.dtype} dtype")
    if weights.numel() != count:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input but got "
            f"{weights.numel()} != {count}"
        )
    if count and bool((weights < 0).any()):
        raise RuntimeError(f"cov(): {name} cannot be negative")


def _weights(fweights: Any, aweights: Any) -> Any:
    if fweights is None or aweights is None:
        return aweights if fweights is None else fweights
    return fweights * aweights


def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """The covariance matrix [n, n] of n variables, the rows of ``input``.

    Args:
        input: [n, k], or k observations of one variable; the result then has no dimensions.
        correction: the divisor is the number of observations minus this.
        fweights: [k] of integers, how often each observation counts.
        aweights: [k], how much each observation counts.

    Raises:
        RuntimeError: another number of dimensions, bools, or weights that do not fit.
    """
    if input.ndim > 2:
        raise RuntimeError(f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} "
                           "dimensions")  # fmt: skip
    if input.dtype.category is BOOLEAN:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = input if input.ndim == 2 else input.reshape(1, -1)
    count = x.shape[1]
    _check_weights("fweights", fweights, count, INTEGER, "integral")
    _check_weights("aweights", aweights, count, FLOATING, "floating point")
    weights = _weights(fweights, aweights)
    total: Any = count if weights is None else weights.sum()
    if weights is not None and count and bool(total == 0):
        raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    weighted = x if weights is None else x * weights
    centred = x - (weighted.sum(1) / total).unsqueeze(1)
    divisor = _divisor(total, correction, weights, aweights)
    right = centred if weights is None else centred * weights
    return (matmul(centred, conjugated(right.t())) / divisor).squeeze()


def _divisor(total: Any, correction: int, weights: Any, aweights: Any) -> Any:
    if aweights is None or correction == 0:
        found = total - correction
    else:
        found = total - correction * (weights * aweights).sum() / total
    if float(found) <= 0:
        warnings.warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.",
            stacklevel=3,
        )
        return found.clamp(min=0) if isinstance(found, TensorBase) else 0
    return found


def corrcoef(input: Any) -> Any:
    """The matrix [n, n] of the correlation coefficients of n variables, the rows of ``input``; see ``cov``."""
    if input.ndim > 2:
        raise RuntimeError(f"corrcoef(): expected input to have two or fewer dimensions but got an input with "
                           f"{input.ndim} dimensions")  # fmt: skip
    found = cov(input)
    if not found.ndim:
        return found / found
    diagonal = found.diagonal()
    deviation = (diagonal.real if found.is_complex() else diagonal).sqrt()
    found = found / deviation.unsqueeze(1) / deviation.unsqueeze(0)
    if found.is_complex():
        return call("complex", found.real.clamp(-1, 1), found.imag.clamp(-1, 1))
    return found.clamp(-1, 1)


# --- two moments at once ---


def _with_mean(spread: Callable[..., Any]) -> Callable[..., Any]:
    def function(
        input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
    ) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        found = spread(input, dim, unbiased, keepdim, correction=correction)
        centre = mean(input, None if dim is None else dim, keepdim)
        return found, centre

    return function


var_mean = _with_mean(var)
var_mean.__name__ = var_mean.__qualname__ = "var_mean"
var_mean.__doc__ = "(variance, mean) over ``dim``; the arguments are those of ``var``."
std_mean = _with_mean(std)
std_mean.__name__ = std_mean.__qualname__ = "std_mean"
std_mean.__doc__ = "(standard deviation, mean) over ``dim``; the arguments are those of ``std``."


# --- finite differences ---


def gradient(input: Any, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Any, ...]:
    """Estimates of the partial derivatives of sampled values, by central differences of second order.

    Args:
        input: the samples.
        spacing: the distance between samples, one for each of ``dim``, or vectors of coordinates.
        dim: one or several dimensions; all unless given.
        edge_order: 1 or 2, the order of the one-sided differences at the edges.

    Returns:
        A tensor like ``input`` per dimension.

    Raises:
        RuntimeError: arguments that do not fit, or too few samples.
    """
    spacing = 1 if spacing is None else spacing
    dims = _gradient_dims(input, spacing, dim)
    if input.dtype is uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    for d in dims:
        if input.ndim and input.shape[d] < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    if not isinstance(spacing, list | tuple):
        spacing = [spacing] * len(dims)
    if len(spacing) != len(dims):
        raise RuntimeError(
            f"torch.gradient expected spacing to be unspecified, a scalar, or it's spacing and dim arguments to have "
            f"the same length, but got a spacing argument of length {len(spacing)} and a dim argument of length "
            f"{len(dims)}."
        )
    return tuple(_along(input, d, step, edge_order) for d, step in zip(dims, spacing, strict=True))


def _gradient_dims(input: Any, spacing: Any, dim: Any) -> list[int]:
    if isinstance(spacing, TensorBase):
        raise TypeError("gradient(): argument 'spacing' must be a number, or a list of numbers or tensors, not Tensor")
    rank = input.ndim
    if dim is None:
        if isinstance(spacing, list | tuple) and len(spacing) != rank:
            raise RuntimeError(
                f"torch.gradient expected spacing to be unspecified, a scalar or a list of length equal to 'self.dim() "
                f"= {rank}', since dim argument was not given, but got a list of length {len(spacing)}"
            )
        return list(range(rank))
    dims = [wrap_dim(d, rank) for d in ((dim,) if isinstance(dim, int) else dim)]
    for d in dims:
        if dims.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return dims


def _along(x: Any, dim: int, step: Any, edge_order: int) -> Any:
    n = x.shape[dim]

    def at(start: int, count: int) -> Any:
        return x.narrow(dim, start % n, count)

    if isinstance(step, TensorBase):
        return _along_points(x, at, dim, step, edge_order)
    h = step
    inner = (at(2, n - 2) - at(0, n - 2)) / (2 * h) if n > 2 else None
    if edge_order == 1:
        first, last = (at(1, 1) - at(0, 1)) / h, (at(-1, 1) - at(-2, 1)) / h
    else:
        first = (-1.5 * at(0, 1) + 2 * at(1, 1) - 0.5 * at(2, 1)) / h
        last = (0.5 * at(-3, 1) - 2 * at(-2, 1) + 1.5 * at(-1, 1)) / h
    return cat([part for part in (first, inner, last) if part is not None], dim)


def _along_points(x: Any, at: Callable[[int, int], Any], dim: int, points: Any, edge_order: int) -> Any:
    """Between samples at any distances; B. Fornberg (1988), "Generation of finite difference formulas"."""
    n = x.shape[dim]
    if points.ndim != 1:
        raise RuntimeError("torch.gradient expected each element of spacing to have one dimension, but got an element "
                           f"with {points.ndim} dimensions!")  # fmt: skip
    if points.shape[0] != n:
        raise RuntimeError("torch.gradient expected each spacing tensor to have as many elements as its dimension")
    wide = [1] * x.ndim
    wide[dim] = -1
    h = points[1:] - points[:-1]
    left, right = h[:-1].reshape(wide), h[1:].reshape(wide)
    a, b, c = -right / (left * (left + right)), (right - left) / (left * right), left / (right * (left + right))
    inner = a * at(0, n - 2) + b * at(1, n - 2) + c * at(2, n - 2) if n > 2 else None
    if edge_order == 1:
        first, last = (at(1, 1) - at(0, 1)) / h[0], (at(-1, 1) - at(-2, 1)) / h[-1]
    else:
        u, v = h[0], h[1]
        first = -(2 * u + v) / (u * (u + v)) * at(0, 1) + (u + v) / (u * v) * at(1, 1) - u / (v * (u + v)) * at(2, 1)
        u, v = h[-2], h[-1]
        last = v / (u * (u + v)) * at(-3, 1) - (u + v) / (u * v) * at(-2, 1) + (u + 2 * v) / (v * (u + v)) * at(-1, 1)
    return cat([part for part in (first, inner, last) if part is not None], dim)


# --- histograms ---


def histogramdd(input: Any, bins: Any, range: Any = None, weight: Any = None, density: bool = False) -> Histogram:
    """How many points fall into each box of a grid. Reads the values.

    Args:
        input: [*, k], points.
        bins: the number of boxes along each dimension (or one number for all), or vectors with their edges.
        range: lower and upper edge of each dimension, 2 k numbers; those of the points unless given.
        weight: [*], how much each point counts.
        density: divide by the sum and by the boxes' volumes.
    """
    if input.ndim < 2:
        raise RuntimeError("histogramdd(): expected an input tensor with at least two dimensions")
    refuse("histogramdd", input, (*WHOLE, *HALVES, *COMPLEX_DTYPES))
    if weight is not None and (weight.shape != input.shape[:-1] or weight.dtype is not input.dtype):
        raise RuntimeError(
            f"torch.histogramdd: weight should have the shape {list(input.shape[:-1])} and the dtype of the input, but "
            f"is of size {list(weight.shape)} and {weight.dtype}"
        )
    points = run_quietly(input._ndarray().reshape, math.prod(input.shape[:-1]), input.shape[-1])
    edges = _edges(input, points, bins, range)
    _check_boxes(edges)
    weights = None if weight is None else weight._ndarray().reshape(-1)
    if not edges:  # no dimensions: one box, in which nothing is found
        return Histogram(tensor(points.dtype.type(0), device=input.device), ())
    if all((np.diff(e) >= 0).all() for e in edges):
        counts, _ = np.histogramdd(points, edges, weights=weights, density=density)
    else:  # PyTorch finds no point between edges that fall
        counts = np.full([len(e) - 1 for e in edges], np.nan if density else 0.0)
    made = tuple(tensor(e.astype(points.dtype), device=input.device) for e in edges)
    return Histogram(tensor(counts.astype(points.dtype), device=input.device), made)


def _edges(input: Any, points: Any, bins: Any, limits: Any) -> Sequence[Any]:
    k = points.shape[1]
    if isinstance(bins, int):
        bins = [bins] * k
    if len(bins) != k:
        raise RuntimeError(
            f"histogramdd(): expected {k} sequences of bin edges for a {k}-dimensional histogram but got {len(bins)}"
        )
    if bins and isinstance(bins[0], TensorBase):
        return [_checked_edges(input, b, at) for at, b in enumerate(bins)]
    for at, n in enumerate(bins):
        if n <= 0:
            raise RuntimeError(f"torch.histogramdd(): bins must be > 0, but got {n} for dimension {at}")
    if limits is not None and len(limits) != 2 * k:
        raise RuntimeError(
            f"torch.histogramdd: for a {k}-dimensional histogram range should have {2 * k} elements, but got "
            f"{len(limits)}"
        )
    if limits is None:
        low = points.min(0) if len(points) else np.zeros(k)
        high = points.max(0) if len(points) else np.ones(k)
    else:
        low, high = np.array(limits, np.float64).reshape(k, 2).T
    for at, (a, b) in enumerate(zip(low, high, strict=True)):
        if not (np.isfinite(a) and np.isfinite(b)):
            raise RuntimeError(f"torch.histogramdd: dimension {at}'s range [{a:g}, {b:g}] is not finite")
        if a > b:
            raise RuntimeError(
                f"torch.histogramdd: min should not exceed max, but got min {a:g} max {b:g} for dimension {at}"
            )
    is_point = low == high
    low, high = np.where(is_point, low - 0.5, low), np.where(is_point, high + 0.5, high)
    return [run_quietly(np.linspace, a, b, n + 1) for a, b, n in zip(low, high, bins, strict=True)]


def _checked_edges(input: Any, edges: Any, at: int) -> Any:
    if edges.ndim != 1 or not edges.numel() or edges.dtype is not input.dtype:
        raise RuntimeError(
            f"torch.histogramdd: bins of dimension {at} should be one dimension of at least 1 element of the input's "
            f"dtype {input.dtype}, but are of size {list(edges.shape)} and {edges.dtype}"
        )
    return edges._ndarray()


def _check_boxes(edges: Sequence[Any]) -> None:
    count = math.prod(len(e) - 1 for e in edges)
    if count * 8 >= 1 << 40:
        raise RuntimeError(f"torch.histogramdd: numel: not enough memory for {count} boxes")
