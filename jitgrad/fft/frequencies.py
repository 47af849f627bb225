"""Which frequencies a transform's elements have, and their order.

Owns: fftfreq, rfftfreq, fftshift, ifftshift.
Must not know: transforms.
"""

from __future__ import annotations

from typing import Any

from jitgrad.dtypes import get_default_dtype
from jitgrad.fft.arguments import check_kinds, wrapped_dim
from jitgrad.functions import arange, cat, roll
from jitgrad.functions.outputs import write_out

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def _made(name: str, ends: tuple[tuple[int, int], ...], n: int, d: float, out: Any, options: dict[str, Any]) -> Any:
    dtype = options["dtype"] or (get_default_dtype() if out is None else out.dtype)
    if not dtype.is_inexact:
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    if any(stop < start for start, stop in ends):
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    parts = [arange(start, stop, dtype=dtype, device=options["device"]) for start, stop in ends]
    numbers = parts[0] if len(parts) == 1 else cat(parts)
    numbers = numbers * (1.0 / (n * d) if n * d else float("inf"))
    if out is not None:
        return write_out(numbers, out, True)
    return numbers.requires_grad_() if options["requires_grad"] else numbers


def fftfreq(
    n: int, d: float = 1.0, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """The frequencies of ``fft`` over n points at distances d, in cycles per unit of d: 0, 1, ..., -2, -1 over n d.

    Raises:
        RuntimeError: a negative n, or a dtype of integers.
    """
    check_kinds("fftfreq", n=n, d=d)
    ends = ((0, (n + 1) // 2), (-(n // 2), 0)) if n >= 0 else ((0, n),)
    options = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _made("fftfreq", ends, n, d, out, options)


def rfftfreq(
    n: int, d: float = 1.0, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """The frequencies of ``rfft`` over n points at distances d, in cycles per unit of d: 0, 1, ..., n // 2 over n d.

    Raises:
        RuntimeError: a negative n, or a dtype of integers.
    """
    check_kinds("rfftfreq", n=n, d=d)
    options = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _made("rfftfreq", ((0, n // 2 + 1),), n, d, out, options)


def _rolled(name: str, input: Any, dim: Any, extra: int) -> Any:
    check_kinds(name, input=input, dims=dim)
    if dim is None:
        dims = list(range(input.ndim))
    else:
        dims = [wrapped_dim(d, input) for d in (dim if isinstance(dim, tuple | list) else (dim,))]
    return roll(input, [(input.shape[d] + extra) // 2 for d in dims], dims)


def fftshift(input: Any, dim: Any = None) -> Any:
    """The spectrum with frequency 0 in the middle, along ``dim``, an int or several; None: all dimensions."""
    return _rolled("fftshift", input, dim, 0)


def ifftshift(input: Any, dim: Any = None) -> Any:
    """The inverse of ``fftshift``: frequency 0 goes from the middle to the front."""
    return _rolled("ifftshift", input, dim, 1)
