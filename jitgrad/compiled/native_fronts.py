"""Which functions of Python have native fronts, see Note [Native fronts].

Owns: the list, but for functions marked by ``has_front``; the rows of functions that are not one line.
Must not know: what a front does (``tracer/hits/front_hits.py``, ``tracer/hits/method_fronts.py``), where it is put.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jitgrad.cpython.primitives import FRONTED, PURE, REMEMBERED
from jitgrad.functions import _generated
from jitgrad.functions.indexing import put_into
from jitgrad.grad_mode import GradMode, no_grad
from jitgrad.ops.table import OPS
from jitgrad.runtime.storage.memory import free_lists
from jitgrad.runtime.storage.storage import Storage
from jitgrad.tensor import Tensor
from jitgrad.tracer.hits.front_hits import CallForm, FrontRow

__all__ = ["all_fronts", "front_of"]

Rows = list[tuple[Callable[..., Any], Any]]

_PACKED = ("view", "reshape", "permute", "expand")
"""Methods that take any number of sizes. ``reshape`` makes a view where an event says that it did so before."""

_INPLACE_OPERATORS = {"__iadd__": "add", "__isub__": "sub", "__imul__": "mul", "__itruediv__": "div"}


def all_fronts() -> Iterator[tuple[str, Rows]]:
    """Per front, the functions that it is installed in, with their rows."""
    for name in sorted({name for name, *_ in FRONTED} - {PURE, REMEMBERED}):
        yield name, [(function, row) for front, function, row in FRONTED if front == name]
    yield "call_backward", [(Tensor.backward, None)]
    yield "get_grad", [(_getter("grad"), None)]
    yield "drop_grad", [(_setter("grad"), None)]
    yield "get_data", [(_getter("data"), OPS["detach"])]
    yield "drop_storage", [(Storage.__del__, free_lists)]
    yield "read_item", [(Tensor.item, None)]
    yield "new_no_grad", [(no_grad.__dict__["__new__"].__func__, None)]
    yield "enter_no_grad", [(GradMode.__enter__, None)]
    yield "exit_no_grad", [(GradMode.__exit__, None)]
    tables: Any = _generated  # which is not annotated
    made = tables.FRONTS
    calls = [*((f, _row(f, _forms(row))) for f, kind, row in made if kind == "call"), *_others()]
    yield "call", [*calls, *_remembered(calls), *_marked()]
    entropy = tables.PUBLIC["cross_entropy"]
    yield "cross_entropy", [(entropy, (tables.PUBLIC["nll_loss"], _remembering(entropy)))]
    yield "call_with_sizes", [(tables.METHODS[name], _packed(name)) for name in _PACKED]
    writes: Rows = [(f, _row(f, _operations(row))) for f, kind, row in made if kind == "write"]
    operators = [(getattr(Tensor, name), OPS[op]) for name, op in _INPLACE_OPERATORS.items()]
    writes += [(f, _row(f, (None, None, op))) for f, op in operators]
    yield "write", writes
    yield "get_item", [(Tensor.__getitem__, _remembering(Tensor.__getitem__))]
    yield "set_item", [(Tensor.__setitem__, put_into)]


_REMEMBERED = """
    addbmm addmm addmv addr baddbmm bmm broadcast_to chain_matmul dot einsum inner kron linear matmul mm mv outer
    cat chunk column_stack concat concatenate contiguous diag diagonal dstack expand_as flatten flip hstack movedim
    moveaxis narrow permute ravel repeat reshape roll rot90 select split squeeze stack swapaxes swapdims t
    tensor_split tile transpose tril triu unbind unflatten unfold unsqueeze view vstack
    all amax amin any argmax argmin cumprod cumsum logcumsumexp logsumexp max mean median min norm prod sort std sum
    topk trace var
    avg_pool2d batch_norm conv2d embedding layer_norm max_pool2d normalize one_hot pad rms_norm
    scaled_dot_product_attention
    binary_cross_entropy binary_cross_entropy_with_logits cross_entropy huber_loss kl_div l1_loss mse_loss nll_loss
    smooth_l1_loss
    addcdiv addcmul celu clamp clip elu gather glu hardtanh index_add index_select leaky_relu lerp log_softmax
    masked_fill maximum minimum mish scatter scatter_add selu sigmoid silu softmax softmin softplus take_along_dim
    where
    full_like ones_like type_as zeros_like
""".split()
"""Public functions and methods that are pure: what they do depends on their arguments and the path alone. Their calls
are remembered where they are no single operation, see Note [Remembered calls]."""


def _remembered(calls: Rows) -> Rows:
    """Rows of such functions that have none in ``calls``; those that have one there remember, too."""
    tables: Any = _generated  # which is not annotated
    rows = {id(function): row for function, row in calls}
    taken = {id(tables.PUBLIC["cross_entropy"]), *(id(tables.METHODS[name]) for name in _PACKED)}
    made: Rows = []
    for table in (tables.PUBLIC, tables.METHODS, tables.LAYERS):
        for function in (table[name] for name in _REMEMBERED if name in table):
            if id(function) not in rows and id(function) not in taken:
                rows[id(function)] = _remembering(function)
                made.append((function, rows[id(function)]))
            if id(function) in rows:
                rows[id(function)].function = function
    return made


def _remembering(function: Callable[..., Any]) -> FrontRow:
    """The row of a function that is no single operation."""
    row = _row(function, ())
    row.function = function
    return row


def _marked() -> Rows:
    """Rows of functions that are marked as such whose calls are remembered; of those that have a backward in them."""
    return [front_of(*marked)[1] for marked in FRONTED if marked[0] in (PURE, REMEMBERED)]


def front_of(name: str, function: Callable[..., Any], row: Any) -> tuple[str, tuple[Callable[..., Any], Any]]:
    """(The front of a function that ``has_front`` has marked; the function and its row)."""
    if name not in (PURE, REMEMBERED):
        return name, (function, row)
    made = FrontRow((), (), ())
    made.function, made.differentiates = function, name == REMEMBERED
    return "call", (function, made)


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
