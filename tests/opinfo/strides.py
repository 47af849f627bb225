"""Strides of results and of gradients: PyTorch's samples, their tensors laid out in other ways.

Owns: ``LAYOUTS``, the ways; ``stride_checks``, which asks both libraries for the strides of what they return.
Must not know: which differences are known (``stride_rows``).
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from opinfo.checks import _in_form, title
from opinfo.translate import TranslationError, together, translated

import jitgrad

__all__ = ["LAYOUTS", "QUESTIONS", "StrideCheck", "of_results", "stride_checks"]


class StrideCheck(NamedTuple):
    """One sample in one layout.

    Attributes:
        got, expected: strides of the tensors that were returned, or why there is none.
    """

    op: str
    layout: str
    sample: int
    shapes: tuple[Any, ...]
    got: Any
    expected: Any

    @property
    def is_equal(self) -> bool:
        return bool(self.got == self.expected)


def _relaid(x: Any, order: tuple[int, ...]) -> Any:
    """The same values; ``order``: dimensions from the slowest to the fastest."""
    inverse = tuple(order.index(d) for d in range(len(order)))
    return x.permute(order).contiguous().permute(inverse)


def _reversed(x: Any) -> Any:
    return _relaid(x, tuple(reversed(range(x.ndim))))


def _rotated(x: Any) -> Any:
    return _relaid(x, (*range(1, x.ndim), 0))


def _swapped(x: Any) -> Any:
    return _relaid(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def _channels_last(x: Any) -> Any:
    return _relaid(x, (0, *range(2, x.ndim), 1)) if x.ndim in (4, 5) else x


def _expanded(x: Any) -> Any:
    return x[:1].expand(x.shape) if len(x) else x


def _gaps(x: Any) -> Any:
    return torch.stack((x, x), -1)[..., 0]


LAYOUTS: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "reversed": (_reversed, False),
    "rotated": (_rotated, False),
    "swapped": (_swapped, False),
    "channels last": (_channels_last, False),
    "one reversed": (_reversed, True),
    "one swapped": (_swapped, True),
    "expanded": (_expanded, True),
    "gaps": (_gaps, False),
}
"""Name -> (how a tensor is laid out, whether only the first one is)."""


def _laid_out(value: Any, layout: str) -> tuple[Any, int]:
    """(the structure with its tensors in a layout, how many are in another one than before)."""
    lay, only_first = LAYOUTS[layout]
    count = 0

    def one(x: Any) -> Any:
        nonlocal count
        if isinstance(x, torch.Tensor):
            if x.ndim < 2 or x.layout is not torch.strided or (only_first and count):
                return x
            out = lay(x.detach())
            count += out.stride() != x.stride()
            return out.requires_grad_(x.requires_grad)
        if isinstance(x, list):
            return [one(v) for v in x]
        if type(x) is tuple:
            return tuple(one(v) for v in x)
        if isinstance(x, dict):
            return {k: one(v) for k, v in x.items()}
        return x

    return one(value), count


def _strides(t: Any, value: Any) -> Any:
    if isinstance(value, t.Tensor):
        return tuple(value.stride()) if value.layout is t.strided else "sparse"
    if isinstance(value, list | tuple):
        return tuple(_strides(t, v) for v in value)
    return None


def _floats(t: Any, value: Any) -> Iterator[Any]:
    if isinstance(value, t.Tensor):
        if value.requires_grad:
            yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _floats(t, one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _floats(t, one)


def of_results(t: Any, function: Callable[..., Any], input: Any, args: Any, kwargs: Any) -> Any:
    """What the operation returns."""
    return function(input, *args, **kwargs)


def of_gradients(t: Any, function: Callable[..., Any], input: Any, args: Any, kwargs: Any) -> Any:
    """``.grad`` of every argument after a backward."""
    out = function(input, *args, **kwargs)
    outs = list(_floats(t, out))
    t.autograd.backward(outs, [t.ones_like(y) for y in outs])
    return [x.grad for x in _floats(t, (input, args, kwargs)) if x.is_leaf]


def of_gradients_asked(t: Any, function: Callable[..., Any], input: Any, args: Any, kwargs: Any) -> Any:
    """What ``autograd.grad`` returns for every argument."""
    outs = list(_floats(t, function(input, *args, **kwargs)))
    leaves = [x for x in _floats(t, (input, args, kwargs)) if x.is_leaf]
    return t.autograd.grad(outs, leaves, [t.ones_like(y) for y in outs], allow_unused=True)


QUESTIONS = {"results": of_results, "gradients": of_gradients, "asked": of_gradients_asked}


def _ask(question: Any, t: Any, *call: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = t.get_rng_state()
        t.manual_seed(42)
        try:
            return _strides(t, question(t, *call))
        finally:
            t.set_rng_state(before)


def _ours(question: Any, compiled: bool, call: tuple[Any, ...]) -> Any:
    try:
        function, *arguments = call
        function = translated(function)
        arguments = together(tuple(arguments))
        if not compiled:
            return _ask(question, jitgrad, function, *arguments)
        step = jitgrad.compile(lambda: question(jitgrad, function, *arguments))
        for _ in range(2):
            _ask(lambda t: step(), jitgrad)
            for x in _floats(jitgrad, arguments):
                x.grad = None
        return _ask(lambda t: step(), jitgrad)
    except TranslationError as error:
        return f"no word for {error}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def stride_checks(
    op: Any, what: str = "results", dtype: torch.dtype = torch.float32, limit: int = 3, compiled: bool = False
) -> Iterator[StrideCheck]:
    """A few samples of an operation, in every layout that says something of them.

    Args:
        what: of ``QUESTIONS``.
        limit: of samples that have a tensor with two dimensions or more.
    """
    if dtype not in op.supported_dtypes("cpu"):
        return
    needs = what != "results"
    if needs and not (op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")):
        return
    question = QUESTIONS[what]
    torch.manual_seed(17)
    used = 0
    for index, sample in enumerate(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=needs), 40)):
        is_used = False
        for layout in LAYOUTS:
            try:
                (input, args, kwargs), count = _laid_out((sample.input, sample.args, dict(sample.kwargs)), layout)
            except RuntimeError:
                continue
            if not count:
                continue
            function = _in_form(op, "graph" if needs else "", lambda x: x)
            call = (function, input, args, kwargs)
            got = _ours(question, compiled, call)
            try:
                expected = _ask(question, torch, *call)
            except (RuntimeError, NotImplementedError, TypeError, IndexError, ValueError):
                continue
            is_used = True
            tensors = [x for x in torch.utils._pytree.tree_leaves((input, args, kwargs)) if isinstance(x, torch.Tensor)]
            shapes = tuple((tuple(x.shape), x.stride()) for x in tensors)
            yield StrideCheck(title(op), layout, index, shapes, got, expected)
        used += is_used
        if used >= limit:
            return
