"""What is asked of an operation: one check per question, over PyTorch's samples.

Owns: the checks, and which samples they take.
Must not know: which operations are known to differ (``differences``), how failures are shown.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from opinfo import calls
from opinfo.calls import Call
from opinfo.compare import difference, is_nearer
from opinfo.translate import TranslationError, together, translated
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core

import jitgrad

# importing its samples forbids everybody in this process to set flags of `torch.backends`
torch.backends.disable_global_flags.__globals__["__allow_nonbracketed_mutation_flag"] = True
# samples look for the test of PyTorch's that asks for them, by reading the source of each frame of the stack
common_utils.extract_test_fn = core.extract_test_fn = lambda: None

__all__ = ["CHECKS", "DTYPES", "Failure", "applies", "failures", "operations", "pairs", "title"]

UNDEFINED = frozenset(
    "empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize_ resize_as_".split()
)
"""Their contents are undefined: only shapes and dtypes are compared."""

DTYPES = {
    name: getattr(torch, name)
    for name in "float32 float64 int64 bool complex64 complex128 float16 bfloat16 uint8 int8 int16 int32".split()
}


_WIDE = ("float64", "complex128")
NO_ANSWER = "PyTorch raises: nothing to compare with"


class Failure(NamedTuple):
    """One sample that differs."""

    op: str
    check: str
    dtype: str
    sample: int
    text: str


class Pair(NamedTuple):
    """The same call in PyTorch and in jitgrad, made afresh for every check."""

    index: int
    theirs: Callable[[], Call]
    ours: Callable[[], Call]


def title(op: Any) -> str:
    """``sum``, ``round/decimals_3``."""
    return f"{op.name}/{op.variant_test_name}" if op.variant_test_name else op.name


def operations() -> dict[str, Any]:
    """PyTorch's table, by title."""
    return dict(_table())


def pairs(op: Any, dtype: torch.dtype, form: str = "", limit: int | None = None) -> Iterator[Pair]:
    """An operation's samples.

    Args:
        form: ``graph``: the arguments require grad, and PyTorch's ``gradcheck_wrapper`` prepares them; ``method``,
            ``inplace``, ``out``: the operation's other forms.
        limit: of samples.
    """
    for index, sample in _different(_samples(title(op), dtype, form == "graph", limit), limit):
        yield _pair(op, index, sample, form)


@functools.lru_cache(maxsize=4)
def _samples(name: str, dtype: torch.dtype, requires_grad: bool, limit: int | None) -> list[tuple[int, Any]]:
    """All samples, or so many that there is a choice: some operations have a thousand."""
    torch.manual_seed(17)
    np.random.seed(17)
    made = _table()[name].sample_inputs("cpu", dtype, requires_grad=requires_grad)
    return list(enumerate(made if limit is None else itertools.islice(made, 16 * limit)))


@functools.cache
def _table() -> dict[str, Any]:
    return {title(op): op for op in op_db}


def _different(samples: list[tuple[int, Any]], limit: int | None) -> list[tuple[int, Any]]:
    """So many samples, of as many kinds as there are: other ranks, other kinds of arguments, empty tensors."""
    if limit is None or len(samples) <= limit:
        return samples
    kinds: dict[Any, list[tuple[int, Any]]] = {}
    for one in samples:
        kinds.setdefault(_kind((one[1].input, one[1].args, one[1].kwargs)), []).append(one)
    groups = [list(kinds.values())[i] for i in _evenly(len(kinds), limit)]
    rest = limit - len(groups)
    largest = max(groups, key=len)
    more = [largest[1:][i] for i in _evenly(len(largest) - 1, rest)]
    return sorted([group[0] for group in groups] + more, key=lambda one: one[0])


def _evenly(count: int, wanted: int) -> list[int]:
    return sorted({round(i * (count - 1) / max(wanted - 1, 1)) for i in range(min(count, wanted))})


def _kind(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.ndim, value.numel() == 0, value.is_contiguous()
    if isinstance(value, dict):
        return tuple((key, _kind(one)) for key, one in value.items())
    if isinstance(value, list | tuple):
        return tuple(_kind(one) for one in value)
    return value if isinstance(value, str | bool) else type(value)


def _in_form(op: Any, form: str, same: Callable[[Any], Any]) -> Callable[..., Any]:
    """The function to call; ``same`` gives what stands for PyTorch's in a library."""
    if form == "graph":
        return functools.partial(same(op.gradcheck_wrapper), same(op.op))
    if form == "method":
        return same(op.method_variant)
    if form == "inplace":
        write = same(op.inplace_variant)
        return lambda x, *args, **kwargs: write(x.clone(), *args, **kwargs)
    if form == "out":
        return functools.partial(_into, same(op.op))
    return same(op.op)


def _into(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What ``out=`` holds afterwards, if that is what was returned."""
    plain = function(*args, **kwargs)
    if not all(hasattr(y, "clone") for y in (plain if isinstance(plain, list | tuple) else [plain])):
        raise NotImplementedError("no tensors to write to")
    if isinstance(plain, list | tuple):
        room = tuple(y.clone().zero_() for y in plain)
        found = function(*args, **kwargs, out=room)
        return room if all(a is b for a, b in zip(found, room, strict=True)) else "another tensor was returned"
    room = plain.clone().zero_()
    return room if function(*args, **kwargs, out=room) is room else "another tensor was returned"


def _pair(op: Any, index: int, sample: Any, form: str) -> Pair:
    process = sample.output_process_fn_grad

    def theirs() -> Call:
        return Call(torch, _in_form(op, form, lambda x: x), sample.input, sample.args, sample.kwargs, process, op.name)

    def ours() -> Call:
        arguments = together((sample.input, sample.args, sample.kwargs))
        return Call(jitgrad, _in_form(op, form, translated), *arguments, translated(process), op.name)

    return Pair(index, theirs, ours)


# --- checks: each yields a text per sample that differs, or None ---


def _quiet(function: Callable[[Call], Any], call: Call) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(call)


def _against(question: Callable[[Call], Any], values: bool = True) -> Callable[[Pair], str | None]:
    """The same question to both; where PyTorch has no answer there is nothing to compare with."""

    def check(pair: Pair) -> str | None:
        try:
            expected = _quiet(question, pair.theirs())
        except (RuntimeError, NotImplementedError, TypeError):
            return NO_ANSWER
        try:
            got = _quiet(question, pair.ours())
        except TranslationError as error:
            return f"no word for {error}"
        except Exception as error:
            return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        text = difference(got, expected, values)
        if text and values and "elements differ" in text and _is_nearer(question, pair, got, expected):
            return None
        return text

    return check


def _is_nearer(question: Callable[[Call], Any], pair: Pair, got: Any, expected: Any) -> bool:
    """Whether PyTorch rounds more than jitgrad does: its own answer in float64 says so."""
    wider = pair.theirs().wider()
    if wider is None:
        return False
    try:
        exact = _quiet(question, wider)
    except (RuntimeError, NotImplementedError, TypeError):
        return False
    return is_nearer(got, expected, exact)


def _compiled(question: Callable[[Call], Any]) -> Callable[[Pair], str | None]:
    """A compiled step, cold and warm: its first and its third call, which must agree."""

    def check(pair: Pair) -> str | None:
        def in_three_calls(call: Call) -> Any:
            if call.t is torch:
                return [question(call)] * 2
            step = jitgrad.compile(lambda: question(call))
            return [step(), (step(), step())[1]]

        return _against(in_three_calls)(pair)

    return check


def _both(call: Call) -> Any:
    return calls.results(call), calls.first(call)


CHECKS: dict[str, tuple[str, Callable[[Pair], str | None]]] = {
    "values": ("", _against(calls.results)),
    "method": ("method", _against(calls.results)),
    "inplace": ("inplace", _against(calls.results)),
    "out": ("out", _against(calls.results)),
    "first": ("graph", _against(calls.first)),
    "second": ("graph", _against(calls.second)),
    "forward": ("graph", _against(calls.tangents)),
    "saved": ("graph", _against(calls.after_writes)),
    "compiled": ("graph", _compiled(_both)),
    "compiled second": ("graph", _compiled(calls.second)),
    "compiled forward": ("graph", _compiled(calls.tangents)),
    "compiled values": ("", _compiled(calls.results)),
}
"""Name -> (the form of the call, the check)."""


def applies(op: Any, check: str, dtype: str) -> bool:
    """Whether PyTorch's table says that the operation has what is checked."""
    form, is_float = CHECKS[check][0], dtype.startswith(("float", "bfloat", "complex"))
    kind = DTYPES[dtype]
    if kind not in op.supported_dtypes("cpu"):
        return False
    if form == "graph" and not (op.supports_autograd and is_float and kind in op.supported_backward_dtypes("cpu")):
        return False
    if check in ("compiled second", "compiled forward"):
        return applies(op, check.removeprefix("compiled "), dtype)
    return {
        "method": op.method_variant is not None,
        "inplace": op.inplace_variant is not None,
        "out": op.supports_out,
        "second": op.supports_gradgrad and dtype in _WIDE,
        "forward": op.supports_forward_ad and dtype in _WIDE,
        "saved": dtype in _WIDE,
        "compiled values": not is_float or not op.supports_autograd,
    }.get(check, True)


def failures(op: Any, check: str, dtype: str, limit: int | None = None) -> Iterator[Failure | None]:
    """One per sample that PyTorch has an answer to: how it differs, or None."""
    if not applies(op, check, dtype):
        return
    form, ask = CHECKS[check]
    if op.name in UNDEFINED:
        if check not in ("values", "method"):
            return
        ask = _against(calls.results, values=False)
    for pair in pairs(op, DTYPES[dtype], form, limit):
        text = ask(pair)
        if text == NO_ANSWER:
            continue
        yield Failure(title(op), check, dtype, pair.index, text) if text else None
