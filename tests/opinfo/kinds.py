"""Which dtypes an operation accepts, and the dtype of its result: PyTorch's samples, cast, and their numbers changed.

``python -m tests.opinfo.kinds`` runs the whole table; ``--op NAME`` some operations of it.

Owns: the casts and the numbers (``variants``), their comparison (``kind_failures``); ``ROWS``, calls that differ for a
reason.
Must not know: values. A call either raises in both libraries, or gives tensors of the same dtypes and shapes in both.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from opinfo.calls import Call, tensors_of
from opinfo.checks import operations, pairs
from opinfo.differences import LEFT_OUT
from opinfo.translate import TranslationError, together, translated

import jitgrad

__all__ = ["ROWS", "Variant", "kind_failures", "known_kind", "variants"]

CASTS = tuple(
    getattr(torch, name) for name in "bool uint8 int64 float16 bfloat16 float32 float64 complex64".split()
)
NUMBERS = (300, -1, 2**40, 1.5, True, 1j, float("nan"))
"""Each takes the place of each number among the arguments: beyond the range of a byte, of the wrong kind, no number."""


class Variant(NamedTuple):
    """A sample with one thing changed.

    Attributes:
        text: what was changed.
        call: the changed call, of PyTorch.
    """

    text: str
    call: Call


def _cast(call: Call, which: list[Any], dtype: torch.dtype) -> Call:
    return call.replaced({id(x): x.detach().to(dtype) for x in which})


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where numbers stand in arguments."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _places(one, (*path, key))
    elif isinstance(value, tuple):
        for at, one in enumerate(value):
            yield from _places(one, (*path, at))
    elif type(value) in (int, float, complex) and path:
        yield path


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    if isinstance(value, dict):
        return {**value, path[0]: _with(value[path[0]], path[1:], new)}
    parts = [_with(one, path[1:], new) if at == path[0] else one for at, one in enumerate(value)]
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)


def variants(call: Call) -> Iterator[Variant]:
    """The call with all operands of its commonest dtype cast, with each operand cast alone, with other numbers."""
    own = [x for x in call.tensors() if x.layout is torch.strided and x.device.type == "cpu"]
    floats = [x for x in own if x.dtype is torch.float32]
    for dtype in CASTS:
        if floats:
            yield Variant(f"all {dtype}", _cast(call, floats, dtype))
        for at, x in enumerate(own):
            if len(own) > 1:
                yield Variant(f"operand {at} {dtype}", _cast(call, [x], dtype))
    for path in _places((call.args, call.kwargs)):
        for number in NUMBERS:
            args, kwargs = _with((call.args, call.kwargs), path, number)
            for dtype in (torch.float32, torch.uint8) if floats else (torch.float32,):
                changed = call._replace(args=args, kwargs=kwargs)
                yield Variant(f"{path} {number} {dtype}", _cast(changed, floats, dtype))


def _answer(call: Call) -> Any:
    """The dtypes and shapes of what is returned, or the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = call.run()
        except Exception as error:
            return error
    return [(str(y.dtype).rpartition(".")[2], tuple(y.shape)) for y in tensors_of(call.t, found)]


def _ours(call: Call, function: Callable[..., Any]) -> Call:
    arguments = together((call.input, call.args, call.kwargs))
    return Call(jitgrad, function, *arguments, name=call.name)


def kind_failures(op: Any, samples: int = 1) -> Iterator[tuple[str, str] | None]:
    """Per variant of a sample: None, or what was changed and how the answers differ."""
    dtype = torch.float32 if torch.float32 in op.supported_dtypes("cpu") else torch.int64
    if dtype not in op.supported_dtypes("cpu"):
        return
    try:
        function = translated(op.op)
    except TranslationError:
        return
    for pair in pairs(op, dtype, "", samples):
        for text, call in variants(pair.theirs()):
            try:
                ours = _ours(call, function)
            except TranslationError:
                continue
            expected, got = _answer(call), _answer(ours)
            yield _compared(text, got, expected)


def _compared(text: str, got: Any, expected: Any) -> tuple[str, str] | None:
    if isinstance(expected, Exception):
        if isinstance(got, Exception):
            return None
        return text, f"accepted, not {type(expected).__name__}: {str(expected)[:90]}"
    if isinstance(got, Exception):
        return text, f"refused: {type(got).__name__}: {str(got)[:90]}"
    return None if got == expected else (text, f"{got}, not {expected}")


class Row(NamedTuple):
    """Calls that differ for one reason.

    Attributes:
        ops: names of operations, by title; empty: all.
        what: a regular expression for what was changed.
        text: a regular expression for how the answers differ.
    """

    ops: str
    what: str
    text: str
    reason: str


_PLACE = r"\(.*\)"
ROWS: tuple[Row, ...] = (
    Row("", rf"{_PLACE} True .*", "(accepted|refused).*",
        "PyTorch takes True for a number in some places only"),
    Row("", rf"{_PLACE} .* torch.uint8", "(accepted|refused).*'(Byte|uint8)'.*|.*uint8.*",
        "the cast alone makes the difference: see the rows of casts"),
    Row("", rf"{_PLACE} 1099511627776 .*", "refused.*",
        "results of terabytes, which PyTorch begins and we refuse"),
    Row("", ".*complex64", "refused.*", "complex numbers where only PyTorch's code in Python lets them through"),
    Row("", ".*", "refused: NotImplementedError: .*(Half|BFloat16).*",
        "the sample is an empty matrix, which PyTorch's LAPACK does not look at"),
    Row("nn.functional.conv_transpose1d nn.functional.conv_transpose2d nn.functional.conv3d", "operand 2 .*",
        "refused.*bias type.*", "oneDNN takes a bias of another dtype; PyTorch's documentation does not"),
    Row("nn.functional.instance_norm", "operand 1 .*", "refused.*", "one statistic of another dtype than the other"),
    Row("linalg.solve_triangular", "operand . .*", "refused.*",
        "an empty system, whose dtypes PyTorch does not compare"),
    Row("linalg.matrix_power nn.functional.adaptive_avg_pool1d", "all .*|.*uint8", "refused.*",
        "an empty result, which no kernel computes"),
    Row("nn.functional.linear_cross_entropy/chunked nn.functional.linear_cross_entropy/chunked_none", "operand 0 .*",
        "refused.*", "a prototype that casts its operand"),
    Row("nn.functional.ctc_loss", "operand 1 .*", "refused.*integral.*", "PyTorch reads floating labels as integers"),
    Row("nn.functional.embedding_bag", "operand [12] .*", "refused.*", "bool and byte indices that PyTorch converts"),
    Row("complex", "all torch.float16", ".*complex32.*", "there is no complex32: docs/complex.md"),
    Row("view_as_complex", "all torch.float16", "refused.*", "there is no complex32: docs/complex.md"),
    Row("where", "operand 1 torch.uint8", "refused.*", "byte conditions are deprecated in PyTorch"),
    Row("nn.functional.hardtanh", ".*uint8", "refused.*", "negative limits, which PyTorch checks only as numbers"),
    Row("index_add", "all torch.bool", "refused.*", "the sample adds integers to bools"),
    Row("linalg.ldl_solve", "operand 1 torch.uint8", "refused.*", "pivots may be negative"),
    Row("addcmul", "all torch.bool", "accepted.*", "the factor 1 makes integers of bools"),
    Row("geometric", "all torch.complex64", "accepted.*", "drawn as pairs of real numbers"),
    Row("linspace/tensor_overload logspace/tensor_overload", ".*complex64", "accepted.*",
        "complex ends whose imaginary part a real dtype drops, as a cast does"),
    Row("as_strided_copy unfold_copy", rf"{_PLACE} 1.5 .*", "accepted.*", "a stride that is cut to an integer"),
    Row("einsum", "all torch.(bool|uint8)", ".*int64.*", "a sum of one operand: the operands' dtype stays"),
)  # fmt: skip


def known_kind(name: str, found: tuple[str, str]) -> str | None:
    """Why this call differs; None: it should not."""
    for row in ROWS:
        is_meant = not row.ops or name in row.ops.split()
        if is_meant and re.fullmatch(row.what, found[0]) and re.fullmatch(row.text, found[1], re.DOTALL):
            return row.reason
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.opinfo.kinds", description=__doc__)
    parser.add_argument("--op", action="append")
    parser.add_argument("--from", dest="first", default="")
    parser.add_argument("--samples", type=int, default=1)
    options = parser.parse_args()
    count = wrong = 0
    for name, op in operations().items():
        if op.name in LEFT_OUT or (options.op and name not in options.op) or name < options.first:
            continue
        for found in kind_failures(op, options.samples):
            count += 1
            if found is not None and known_kind(name, found) is None:
                wrong += 1
                print(f"{name} | {found[0]} | {found[1]}", flush=True)
    print(f"{count} calls, {wrong} differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
