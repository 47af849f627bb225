"""``vmap``: a function of one example becomes a function of a batch.

Owns: its arguments, their checks and messages, which are PyTorch's; chunks.
Must not know: how operations are batched (``batch``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jitgrad.ops.dispatch_hook import call
from jitgrad.tensor_base import TensorBase
from jitgrad.transforms.batch import BatchLevel, to_front
from jitgrad.transforms.level import level
from jitgrad.transforms.tree import LEAF, TreeSpec, broadcast, flatten, tree_map, unflatten

__all__ = ["map_directions", "vmap"]


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Map ``func`` over a dimension of its inputs, doing each of its operations for the whole batch at once.

    Args:
        func: Tensors (in nested tuples, lists, dictionaries) to Tensors. It must not read values.
        in_dims: the mapped dimension of each input, None for an input that all examples share; a nested structure like
            the inputs, or one number for all.
        out_dims: where the mapped dimension goes in each output; None for an output that is the same for every example.
        randomness: ``"error"``, ``"same"`` (every example sees the same random numbers) or ``"different"``.
        chunk_size: map over so many examples at a time; None = all.

    Returns:
        A function of the same arguments, each with one more dimension. Keyword arguments are mapped over dimension 0.

    Raises:
        ValueError: dimensions that do not fit the inputs or outputs; inputs of different extents.
        RuntimeError: ``func`` reads a value, or draws random numbers with ``randomness="error"``.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func, updated=())
    def mapped(*args: Any, **kwargs: Any) -> Any:
        _check_out_dims(func, out_dims)
        leaves, dims, spec = _inputs(func, in_dims, args)
        size = _batch_size(leaves, dims)
        if chunk_size is None or chunk_size >= size:
            return _run(func, size, leaves, dims, spec, out_dims, randomness, kwargs)
        parts = []
        for at in range(0, size, chunk_size):
            count = min(chunk_size, size - at)
            some = [x if d is None else x.narrow(d, at, count) for x, d in zip(leaves, dims, strict=True)]
            parts.append(_run(func, count, some, dims, spec, out_dims, randomness, kwargs))
        return _joined(parts, out_dims)

    return mapped


def map_directions(func: Callable[..., Any], basis: Any, randomness: str = "error") -> Any:
    """``vmap(func)(basis)`` for a function that makes ``basis`` the tangents of its inputs, and nothing else."""
    leaves, spec = flatten((basis,))
    dims: list[int | None] = [0] * len(leaves)
    return _run(func, _batch_size(leaves, dims), leaves, dims, spec, 0, randomness, {}, False)


def _name(func: Any) -> str:
    return getattr(func, "__name__", repr(func))


def _check_out_dims(func: Any, out_dims: Any) -> None:
    for d in flatten(out_dims)[0]:
        if not isinstance(d, int) and d is not None:
            raise ValueError(
                f"vmap({_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python "
                "collection of ints representing where in the outputs the vmapped dimension should appear."
            )


def _inputs(func: Any, in_dims: Any, args: tuple[Any, ...]) -> tuple[list[Any], list[int | None], TreeSpec]:
    """(leaves, their mapped dimensions, spec of the arguments)."""
    where = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{where}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, "
            f"got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap "
            "over a function with no inputs. The latter is unsupported."
        )
    leaves, spec = flatten(args)
    dims = broadcast(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{where}: in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{flatten(in_dims)[1]} but inputs has structure {spec}."
        )
    return leaves, [_input_dim(where, x, d) for x, d in zip(leaves, dims, strict=True)], spec


def _input_dim(where: str, x: Any, dim: Any) -> int | None:
    """The mapped dimension of one input, counted from the first."""
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueError(
            f"{where}: Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
        )
    if not isinstance(x, TensorBase):
        raise ValueError(
            f"{where}: Got in_dim={dim} for an input but the input is of type {type(x)}. We cannot vmap over "
            "non-Tensor arguments, please use None as the respective in_dim"
        )
    rank = x._aval.ndim
    if not -rank <= dim < rank:
        raise ValueError(
            f"{where}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {rank} so "
            f"expected in_dim to satisfy -{rank} <= in_dim < {rank}."
        )
    return dim % rank


def _batch_size(leaves: list[Any], dims: list[int | None]) -> int:
    sizes = [x._aval.shape[d] for x, d in zip(leaves, dims, strict=True) if d is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(n != sizes[0] for n in sizes):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return sizes[0]


def _run(
    func: Any, size: int, leaves: list[Any], dims: list[int | None], spec: TreeSpec, out_dims: Any, randomness: str,
    kwargs: dict[str, Any], maps_values: bool = True,
) -> Any:  # fmt: skip
    fronted = [x if d is None else to_front(x, d) for x, d in zip(leaves, dims, strict=True)]
    with level(BatchLevel(size, randomness, maps_values)) as here:
        handles = [x if d is None else here.wrap(x) for x, d in zip(fronted, dims, strict=True)]
        named = {k: tree_map(lambda x: here.wrap(x) if isinstance(x, TensorBase) else x, v) for k, v in kwargs.items()}
        result = func(*unflatten(handles, spec), **named)
        outputs, out_spec = flatten(result)
        wanted = _output_dims(func, out_dims, out_spec)
        physical = [_physical(func, here, y, d) for y, d in zip(outputs, wanted, strict=True)]
    return unflatten([_placed(y, d) for y, d in zip(physical, wanted, strict=True)], out_spec)


def _output_dims(func: Any, out_dims: Any, spec: TreeSpec) -> list[Any]:
    single = spec == LEAF and isinstance(out_dims, tuple) and len(out_dims) == 1
    found = list(out_dims) if single else broadcast(out_dims, spec)
    if found is None:
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure "
            f"of `outputs`. out_dims has structure {flatten(out_dims)[1]} but outputs has structure {spec}."
        )
    return found


def _physical(func: Any, here: BatchLevel, y: Any, dim: Any) -> Any:
    if dim is None:
        if here.concerns(y):
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor when out_dim is None"
            )
        return y
    if not isinstance(y, TensorBase):
        raise ValueError(
            f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type {type(y)}. Did you mean to "
            "set out_dims= to None for output?"
        )
    return here.beneath(here.physical, y)


def _placed(y: Any, dim: Any) -> Any:
    if dim is None:
        return y
    rank = y._aval.ndim
    if not -rank <= dim < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})"
        )
    order = list(range(1, rank))
    order.insert(dim % rank, 0)
    return call("permute", y, tuple(order)) if dim % rank else y


def _joined(parts: list[Any], out_dims: Any) -> Any:
    """The results of the chunks, one after the other."""
    columns = [flatten(p)[0] for p in parts]
    spec = flatten(parts[0])[1]
    dims = broadcast(out_dims, spec)
    assert dims is not None, "every chunk has been checked"
    joined = [
        column[0] if d is None else call("cat", list(column), d)
        for column, d in zip(zip(*columns, strict=True), dims, strict=True)
    ]
    return unflatten(joined, spec)
