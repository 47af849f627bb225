"""Calls that PyTorch refuses: jitgrad raises an exception of the same kind.

Owns: the comparison; what PyTorch raises is tried, not read from its table.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from opinfo.translate import TranslationError, together, translated

__all__ = ["refusals"]


def _raised(function: Any, sample: Any) -> BaseException | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(sample.input, *sample.args, **sample.kwargs)
        except Exception as error:
            return error
    return None


class _Own:
    def __init__(self, sample: Any) -> None:
        self.input, self.args, self.kwargs = together((sample.input, sample.args, sample.kwargs))


def refusals(op: Any) -> Iterator[tuple[int, str | None]]:
    """(position, what differs or None) for each of PyTorch's error samples."""
    if op.error_inputs_func is None:
        return
    for index, error_input in enumerate(op.error_inputs("cpu")):
        sample = error_input.sample_input
        expected = _raised(op.op, sample)
        if expected is None:
            continue
        try:
            own, function = _Own(sample), translated(op.op)
        except TranslationError:  # complex numbers, or a tensor that reaches beyond its storage
            continue
        got = _raised(function, own)
        text = None
        if got is None:
            text = f"nothing, not {type(expected).__name__}: {_line(expected)}"
        elif not isinstance(got, type(expected)):
            text = f"{type(got).__name__}: {_line(got)}, not {type(expected).__name__}: {_line(expected)}"
        yield index, text


def _line(error: BaseException) -> str:
    return str(error).splitlines()[0][:100] if str(error) else ""
