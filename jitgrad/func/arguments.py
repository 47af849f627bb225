"""Which arguments a transform differentiates, and what its function may return.

Owns: ``argnums`` and its messages, which are PyTorch's.
Must not know: derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.tensor_base import TensorBase

__all__ = ["check_tensors", "chosen", "replaced", "unpack_aux"]


def _argnum(argnum: Any, count: int) -> int:
    if not isinstance(argnum, int):
        raise RuntimeError(f"argnum must be int, got: {type(argnum)}")
    if -count <= argnum < count:
        return argnum % count
    raise RuntimeError(f"Got argnum={argnum}, but only {count} positional inputs")


def chosen(args: tuple[Any, ...], argnums: Any) -> Any:
    """The argument that ``argnums`` names, or a tuple of them.

    Raises:
        RuntimeError: there is no such argument, none is named, or one twice.
    """
    if isinstance(argnums, int):
        return args[_argnum(argnums, len(args))]
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    positions = tuple(_argnum(n, len(args)) for n in argnums)
    if not positions:
        raise RuntimeError("argnums must be non-empty")
    if len(set(positions)) != len(positions):
        raise RuntimeError(f"argnums elements must be unique, got {positions}")
    return tuple(args[n] for n in positions)


def replaced(args: tuple[Any, ...], argnums: Any, new: Any) -> tuple[Any, ...]:
    """The arguments with the chosen ones exchanged."""
    out = list(args)
    for n, x in [(argnums, new)] if isinstance(argnums, int) else zip(argnums, new, strict=True):
        out[n] = x
    return tuple(out)


def unpack_aux(result: Any, has_aux: bool, where: str) -> tuple[Any, Any]:
    """(output, aux); RuntimeError if there should be an aux and is not."""
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(f"{where}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return result


def check_tensors(values: Sequence[Any], where: str) -> None:
    """RuntimeError unless a function returned tensors, and some."""
    for y in values:
        if not isinstance(y, TensorBase):
            raise RuntimeError(f"{where}: expected f(*primals) to return only tensors, got unsupported type {type(y)}")
    if not values:
        raise RuntimeError(f"{where}: Expected f(*primals) to return at least one Tensor")
