"""Running an operation's NumPy rule.

Owns: ``run_numpy``: the rule's results, made exactly what the avals say.
Must not know: tensors, devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from jitgrad.cpython.primitives import eager_native, same
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op
from jitgrad.runtime.eager.quiet import run_quietly

__all__ = ["is_laid_out", "is_own", "own", "own_inside", "rule_for", "run_numpy", "run_numpy_inside"]

_ndarray = np.ndarray
_ARRAYS = (np.ndarray, np.generic)

_MOVES = frozenset(
    "cat clone contiguous embedding flip gather index1 index2 index3 index_select masked_select repeat roll "
    "stack".split()
)
"""Operations that only move elements: their rules take halves as they are."""


def run_numpy(op: Op, arrays: Sequence[Any], params: tuple[Any, ...], avals: tuple[Aval, ...]) -> list[Any]:
    """The NumPy rule's arrays, made exactly what the avals say."""
    found: list[Any] = run_quietly(run_numpy_inside, op, arrays, params, avals)
    return found


def run_numpy_inside(op: Op, arrays: Sequence[Any], params: tuple[Any, ...], avals: tuple[Aval, ...]) -> list[Any]:
    """``run_numpy``, for a caller that NumPy is quiet for, Note [Quiet NumPy]: no context is entered twice."""
    assert op.numpy is not None
    for x in arrays:
        if _is_half(x):
            arrays = arrays if _takes_halves(op) else [*map(_widened, arrays)]
            break
    raw = op.numpy(*((arrays,) if op.num_inputs < 0 else arrays), *params)
    results = raw if isinstance(raw, tuple | list) else (raw,)
    return [_exactly(r, a) for r, a in zip(results, avals, strict=True)]


def rule_for(op: Op, avals: Iterable[Aval]) -> Callable[..., Any]:
    """The NumPy rule for inputs like these: halves among them arrive widened, Note [Compute dtypes]."""
    rule = op.numpy
    assert rule is not None
    if not any(a.dtype.is_half for a in avals) or _takes_halves(op):
        return rule

    def widening(*args: Any) -> Any:
        return rule(*map(_widened, args))

    return widening


def _takes_halves(op: Op) -> bool:
    """Whether the rule widens its inputs itself (by ``np_operand``), or has no need to."""
    return hasattr(op.numpy, "takes_halves") or op.name in _MOVES


def _is_half(x: Any) -> bool:
    if not isinstance(x, _ARRAYS):
        return False
    dtype = x.dtype
    return bool(dtype.itemsize == 2 and dtype.kind in "fV")


def _widened(x: Any) -> Any:
    return x.astype(np.float32) if _is_half(x) else x


def _exactly(result: Any, aval: Aval) -> Any:
    """An array of the aval's shape and dtype, laid out anyhow; 0-d results of NumPy are scalars, so ``asarray`` first.

    Rounding to a half may overflow: NumPy is to be quiet.
    """
    dtype = aval.dtype.np
    array = result if type(result) is _ndarray and result.dtype is dtype else np.asarray(result, dtype)
    return array if array.shape == aval.shape else np.broadcast_to(array, aval.shape)


def is_laid_out(array: Any, aval: Aval) -> bool:
    """Whether an array lies in memory as the aval says, from its first element on."""
    if aval.is_contiguous:
        return bool(array.flags.c_contiguous)
    size = aval.dtype.itemsize
    return all(n == 1 or s == w * size for n, s, w in zip(aval.shape, array.strides, aval.stride, strict=True))


def _copied(array: Any, aval: Aval) -> Any:
    """The elements in memory of their own, laid out as the aval says, which has no gaps."""
    if aval.is_contiguous:
        return array.copy()
    size, memory = aval.dtype.itemsize, np.empty(aval.numel, aval.dtype.np)
    alike = np.ndarray(aval.shape, aval.dtype.np, memory, 0, [s * size for s in aval.stride])
    out = np.empty_like(alike)  # which owns its memory: Note [Storage on demand]
    out[...] = array
    return out


def own(result: Any, aval: Aval, inputs: Sequence[Any]) -> Any:
    """What a NumPy rule has returned, as ``aval`` says and in memory that nobody else knows.

    Args:
        result: an array, perhaps (a view of) an input, or a NumPy scalar.
        aval: what it is to be: a layout without gaps.
        inputs: what the rule was given.
    """
    if is_own(result, aval, inputs):
        return result
    if _differs(result, aval):
        result = run_quietly(_exactly, result, aval)
    return _apart(result, aval, inputs)


@eager_native
def is_own(result: Any, aval: Aval, inputs: Any) -> bool:
    """Whether a rule has returned what ``own`` leaves as it is: an array of its own, row-major, as most are."""
    if type(result) is not _ndarray or result.base is not None or not aval.is_contiguous:
        return False
    if result.dtype is not aval.dtype.np or not same(result.shape, aval.shape) or not result.flags.c_contiguous:
        return False
    given: tuple[Any, ...] = inputs
    for array in given:  # noqa: SIM110
        if result is array:
            return False
    return True


def own_inside(result: Any, aval: Aval, inputs: Sequence[Any]) -> Any:
    """``own``, for a caller that NumPy is quiet for."""
    if _differs(result, aval):
        result = _exactly(result, aval)
    return _apart(result, aval, inputs)


def _differs(result: Any, aval: Aval) -> bool:
    return type(result) is not _ndarray or result.dtype is not aval.dtype.np or result.shape != aval.shape


def _apart(result: Any, aval: Aval, inputs: Sequence[Any]) -> Any:
    """An array laid out as ``aval``, in memory that nobody else knows."""
    if result.base is not None or not is_laid_out(result, aval):
        return _copied(result, aval)
    for array in inputs:
        if result is array:
            return _copied(result, aval)
    return result
