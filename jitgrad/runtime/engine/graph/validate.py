"""Gradients made to fit: what a node returned against what its edges expect.

Owns: un-broadcasting, the dtype cast, and the errors for what cannot fit.
Must not know: how gradients were computed.
"""

from __future__ import annotations

from typing import Any

from jitgrad.ops.aval import Aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.runtime.engine.graph.node import Edge, Node, name_of

__all__ = ["check_count", "fit", "fit_seed", "is_expandable_to", "sum_to_shape"]


def is_expandable_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether broadcasting takes ``shape`` to ``target``."""
    if len(shape) > len(target):
        return False
    tail = target[len(target) - len(shape) :]
    return all(n in (1, m) for n, m in zip(shape, tail, strict=True))


def sum_to_shape(grad: Any, shape: tuple[int, ...]) -> Any:
    """Undo a broadcast: sum ``grad`` over the dimensions along which ``shape`` was repeated."""
    have = grad._aval.shape
    lead = len(have) - len(shape)
    within = tuple([lead + i for i, n in enumerate(shape) if n == 1 and have[lead + i] != 1])
    if not within:
        return grad.sum(tuple(range(lead))) if lead else grad
    grad = grad.sum((*range(lead), *within), keepdim=True)
    return grad.reshape(shape) if lead else grad


def fit_seed(index: int, edge: Edge, seed: Any) -> Any:
    """Gradient ``index`` that a backward begins with, with the shape and dtype of its root; None = undefined."""
    node, input_nr = edge
    if seed is None or node is None or seed._aval is node.input_metadata[input_nr]:
        return seed
    return _fit(None, index, seed, node.input_metadata[input_nr])


def fit(node: Node | None, index: int, grad: Any, expected: Aval) -> Any:
    """Gradient ``index`` of ``node``, with the shape, dtype and device of the tensor it belongs to.

    Args:
        node: named in errors, unless it is None.

    Raises:
        RuntimeError: the shape cannot be summed to the expected one, or it has dimensions and is on another device.
    """
    aval: Any = getattr(grad, "_aval", None)
    is_alike = aval is not None and aval.ndim == expected.ndim and aval.dtype is expected.dtype
    if is_alike and aval.shape == expected.shape and aval.device is expected.device:
        return grad  # only strides differ
    return _fit(node, index, grad, expected)


def _fit(node: Node | None, index: int, grad: Any, expected: Aval) -> Any:
    where = "" if node is None else f"Function {name_of(node)} returned an "
    aval = getattr(grad, "_aval", None)
    if aval is None:
        raise TypeError(f"expected Variable or None (got {type(grad).__name__})")
    if aval.ndim != expected.ndim or aval.shape != expected.shape:
        if not is_expandable_to(expected.shape, aval.shape):
            raise RuntimeError(
                f"{where}invalid gradient at index {index} - got {list(aval.shape)} "
                f"but expected shape compatible with {list(expected.shape)}"
            )
        grad = sum_to_shape(grad, expected.shape)
    if aval.dtype is not expected.dtype:
        if aval.dtype.is_complex and not expected.dtype.is_complex:
            grad = call("view_as_real", grad).select(-1, 0)  # see Note [Complex forms]
        grad = grad.to(expected.dtype)
    if aval.device is not expected.device:
        if expected.shape:
            raise RuntimeError(
                f"{where}invalid gradient at index {index} - expected device {expected.device} but got {aval.device}"
            )
        grad = grad.to(expected.device)
    return grad


def check_count(node: Node, num_grads: int, num_edges: int) -> None:
    """RuntimeError unless a node returned one gradient per edge."""
    if num_grads != num_edges:
        raise RuntimeError(
            f"Function {name_of(node)} returned an invalid number of gradients - expected {num_edges}, "
            f"but got {num_grads}"
        )
