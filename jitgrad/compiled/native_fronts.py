"""Which functions of Python have native fronts, see Note [Native fronts].

Owns: the list, but for functions marked by ``has_front``; the rows of functions that are not one line.
Must not know: what a front does (``tracer/front_hits.py``, ``tracer/method_fronts.py``), where it is put.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jitgrad.cpython.primitives import FRONTED
from jitgrad.functions import _generated
from jitgrad.grad_mode import GradMode, no_grad
from jitgrad.ops.table import OPS
from jitgrad.runtime.storage.memory import free_lists
from jitgrad.runtime.storage.storage import Storage
from jitgrad.tensor import Tensor
from jitgrad.tracer.front_hits import CallForm, FrontRow

__all__ = ["all_fronts"]

Rows = list[tuple[Callable[..., Any], Any]]

_PACKED = ("view", "reshape", "permute", "expand")
"""Methods that take any number of sizes. ``reshape`` makes a view where an event says that it did so before."""

_INPLACE_OPERATORS = {"__iadd__": "add", "__isub__": "sub", "__imul__": "mul", "__itruediv__": "div"}


def all_fronts() -> Iterator[tuple[str, Rows]]:
    """Per front, the functions that it is installed in, with their rows."""
    for name in sorted({name for name, *_ in FRONTED}):
        yield name, [(function, row) for front, function, row in FRONTED if front == name]
    yield "call_backward", [(Tensor.backward, None)]
    yield "get_grad", [(_getter("grad"), None)]
    yield "drop_grad", [(_setter("grad"), None)]
    yield "drop_storage", [(Storage.__del__, free_lists)]
    yield "read_item", [(Tensor.item, None)]
    yield "new_no_grad", [(no_grad.__dict__["__new__"].__func__, None)]
    yield "enter_no_grad", [(GradMode.__enter__, None)]
    yield "exit_no_grad", [(GradMode.__exit__, None)]
    tables: Any = _generated  # which is not annotated
    made = tables.FRONTS
    yield "call", [*((f, _row(f, _forms(row))) for f, kind, row in made if kind == "call"), *_others()]
    yield "cross_entropy", [(tables.PUBLIC["cross_entropy"], tables.PUBLIC["nll_loss"])]
    yield "call_with_sizes", [(tables.METHODS[name], _packed(name)) for name in _PACKED]
    writes: Rows = [(f, _row(f, _operations(row))) for f, kind, row in made if kind == "write"]
    operators = [(getattr(Tensor, name), OPS[op]) for name, op in _INPLACE_OPERATORS.items()]
    writes += [(f, _row(f, (None, None, op))) for f, op in operators]
    yield "write", writes
    yield "get_item", [(Tensor.__getitem__, None)]


def _row(function: Callable[..., Any], forms: tuple[Any, ...]) -> FrontRow:
    """Forms per number of arguments; those behind the positional ones are given by name."""
    code = function.__code__
    return FrontRow(forms[: code.co_argcount + 1], forms, code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def _getter(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(Tensor, name).fget
    return found


def _setter(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(Tensor, name).fset
    return found


def _forms(row: tuple[Any, ...]) -> tuple[CallForm | None, ...]:
    return tuple(None if one is None else CallForm(OPS[one[0]], *one[1:]) for one in row)


def _operations(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(None if name is None else OPS[name] for name in row)


def _packed(name: str) -> CallForm:
    return CallForm(OPS["view" if name == "reshape" else name], 1, packs=True)


def _others() -> Rows:
    """Functions of several lines that are one operation for so many arguments, as the comments say."""
    matrices = {name: (None, None, CallForm(OPS["mm"], 2, matrices=2)) for name in ("matmul", "mm")}
    linear = CallForm(OPS["linear"], 3, matrices=1, order=(2, 0, 1))  # the bias is its first operand
    rows = {
        **matrices,
        "linear": (None, None, CallForm(OPS["linear_nobias"], 2, matrices=1), linear),
        "squeeze": _forms((None, ("squeeze", 1), ("squeeze_dim", 1))),  # a dim that is a tuple is another operation
        "sum": _forms((None, ("sum", 1, (None, False, None)))),
        "mean": _forms((None, ("mean", 1, (None, False, None)))),
    }
    # sizes that differ make another event first, and autocast casts first
    losses = {
        "mse_loss": CallForm(OPS["mse_loss"], 2, ("mean",), casts=True),
        "binary_cross_entropy_with_logits": CallForm(
            OPS["binary_cross_entropy_with_logits"], 2, ("mean",), casts=True
        ),
        "nll_loss": CallForm(OPS["nll_loss"], 2, ("mean", -100), matrices=1, is_first=True),
    }
    tables: Any = _generated  # which is not annotated
    named = {**tables.LAYERS, **tables.METHODS, **tables.PUBLIC}
    named["detach"] = Tensor.detach
    rows["detach"] = (None, CallForm(OPS["detach"], 1))
    rows |= {name: (None, None, form) for name, form in losses.items()}
    return [(named[name], _row(named[name], row)) for name, row in rows.items()]
