"""What is wrong with nested data of which ``tensor()`` can make nothing, in PyTorch's words.

Owns: ``refuse_nested``.
Must not know: tensors; data are plain Python by now.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["refuse_nested"]


def refuse_nested(data: Any) -> NoReturn:
    """Raise what PyTorch raises for ``data``.

    Raises:
        ValueError: sequences of several lengths, text where numbers should be.
        TypeError: numbers among sequences, text.
        RuntimeError: objects that are no numbers.
    """
    lengths, first = [], data
    while isinstance(first, list | tuple):
        lengths.append(len(first))
        first = first[0] if first else None
    for x in _leaves(data):
        if not isinstance(x, bool | int | float | complex | str | bytes) and not hasattr(x, "dtype"):
            raise RuntimeError(f"Could not infer dtype of {type(x).__name__}")
    if isinstance(first, str | bytes) and lengths:
        raise ValueError(f"too many dimensions '{type(first).__name__}'")
    for x in _leaves(data):
        if isinstance(x, str | bytes):
            raise TypeError(f"new(): invalid data type '{type(x).__name__}'")
    _refuse_shape(data, lengths, 0, first)
    raise TypeError(f"can't convert data of type {type(data).__name__} to a tensor")


def _leaves(data: Any) -> Any:
    if isinstance(data, list | tuple):
        for x in data:
            yield from _leaves(x)
    else:
        yield data


def _refuse_shape(data: Any, lengths: list[int], depth: int, first: Any) -> None:
    """Raise at the first part that is not as the first parts say: ``lengths`` of sequences, and numbers in them."""
    if depth == len(lengths):
        if isinstance(data, list | tuple):
            kind = type(data).__name__
            if isinstance(first, float):
                raise TypeError(f"must be real number, not {kind}")
            raise TypeError(f"'{kind}' object cannot be interpreted as an integer")
        return
    if not isinstance(data, list | tuple):
        raise TypeError("not a sequence")
    if len(data) != lengths[depth]:
        raise ValueError(f"expected sequence of length {lengths[depth]} at dim {depth} (got {len(data)})")
    for x in data:
        _refuse_shape(x, lengths, depth + 1, first)
