"""Good and bad arguments, seeded: what PyTorch takes is taken, with its result; what it refuses raises what it raises.

Compared are acceptance, the exception's type, and of results: shape, dtype, strides, values, ``requires_grad`` and the
name of the node; of methods also the tensor itself afterwards, and its version.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.nn import functional
from jitgrad.runtime.eager import plan as eager_plan
from tests.ops.argument_cases import FUNCTIONAL, FUNCTIONS, METHODS, Case, Dtype, T, cases_of

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

NUM_CASES = 40
OWNERS: dict[str, dict[str, str]] = {"functions": FUNCTIONS, "methods": METHODS, "functional": FUNCTIONAL}
NAMES = [pytest.param(owner, name, id=f"{owner}.{name}") for owner, table in OWNERS.items() for name in table]

KNOWN: dict[str, tuple[int, str]] = {
    "avg_pool2d": (4, "of two things that are wrong, the number of dimensions is looked at first"),
    "batch_norm": (10, "a batch without elements still has its statistics checked"),
    "binary_cross_entropy_with_logits": (3, "a pos_weight that requires grad has a derivative here"),
    "cross_entropy": (2, "a wrong reduction and a wrong target: the other is reported"),
    "embedding": (3, "a weight without dimensions and a padding index: the other is reported"),
    "glu": (1, "a missing dim of a tensor without dimensions: the other is reported"),
    "hardtanh": (1, "a tensor of several elements as a bound is a TypeError, not an ambiguous truth value"),
    "huber_loss": (4, "PyTorch keeps the first operand's dtype, and cannot write floats into integers"),
    "randint_like": (1, "a tensor of several elements as a bound is a TypeError"),
    "nll_loss": (1, "a wrong dtype and a wrong shape: the other is reported"),
    "pad": (2, "of a tensor without elements"),
    "scaled_dot_product_attention": (2, "keys and values whose batches do not fit, for no queries"),
    "logsumexp": (1, "over no dimensions, which PyTorch reports as a failed write"),
    "unsafe_chunk": (2, "pieces are copies, and lie in memory as such"),
    "__rpow__": (1, "two bools that do not broadcast: the dtype is reported"),
    "eq_": (1, "zeros for a gradient that integers cannot have"),
    "fill_diagonal_": (3, "the node is called CopySlices, without a namespace"),
    "index_copy_": (1, "an int32 index of a tensor without dimensions"),
    "index_fill_": (2, "a row of a tensor without elements"),
    "randn": (1, "True among the sizes"),
    "repeat": (3, "negative repeats of nothing; True after 1, which it equals"),
    "scatter_add_": (1, "two things are wrong, the other is reported"),
    "size": (1, "True for dimension 1"),
    "squeeze_": (1, "an argument too many, which PyTorch takes for a dimension"),
    **{
        f"{name}_": (8, "the node has the number of the overload that writes into the result")
        for name in "asinh acosh atanh arcsinh arccosh arctanh".split()
    },
    "quantile": (2, "PyTorch's last node is that of a squeeze in place"),
    "nanquantile": (1, "as quantile"),
    "sort": (1, "the node of a sort that names ``stable`` has another number in PyTorch"),
    "unique": (3, "PyTorch's distinct slices lie in memory one by one"),
    "unique_consecutive": (1, "as unique"),
    "cummax": (1, "a wrong dimension of a tensor without elements"),
    "cholesky_inverse": (2, "PyTorch's result lies in memory column by column"),
    "cummin": (4, "as cummax"),
    "cumsum_": (1, "a bool without dimensions"),
    **dict.fromkeys(("subtract", "subtract_"), (4, "takes a number before the tensor, as sub")),
    "to": (4, "None for a dtype, and an unknown keyword"),
}
"""Where results may differ, in at most how many cases, and why."""
HOLDS_ANYTHING = {"resize_"}  # the memory that is added


def _build(library: Any, x: Any) -> Any:
    if isinstance(x, T):
        array = x.array()
        if library is torch:
            made = torch.empty(x.shape, dtype=getattr(torch, x.dtype)).copy_(torch.from_numpy(array)).clone()
        else:
            made = jitgrad.tensor(array)
        return made.requires_grad_() if x.requires_grad else made
    if isinstance(x, Dtype):
        return getattr(library, x.name)
    return type(x)(_build(library, y) for y in x) if isinstance(x, list | tuple) else x


def _looks(x: Any) -> Any:
    """(what must be equal, what must be close) of a result."""
    if isinstance(x, torch.Tensor | jitgrad.Tensor):
        node = x.grad_fn
        dtype = str(x.dtype).rpartition(".")[2]
        layout = tuple(x.stride()) if x.numel() else ()
        return ("tensor", tuple(x.shape), dtype, layout, x.requires_grad, node and node.name()), [x.detach().numpy()]
    if isinstance(x, list | tuple):
        parts = [_looks(y) for y in x]
        return tuple(part[0] for part in parts), [array for part in parts for array in part[1]]
    if isinstance(x, np.ndarray | bool | int | float):
        return "values", [np.asarray(x)]
    return type(x).__name__, []


def _outcome(library: Any, owner: str, case: Case) -> Any:
    library.manual_seed(0)
    if library is jitgrad:
        eager_plan.plans.clear()  # plans are found by equality, and True == 1: what was seen before must not decide
    args = [_build(library, x) for x in case.args]
    kwargs = {name: _build(library, x) for name, x in case.kwargs}
    if case.name.startswith("__"):  # operators: nobody calls them by keyword, and native ones take none
        args, kwargs = [*args, *kwargs.values()], {}
    try:
        if owner != "methods":
            layers = torch.nn.functional if library is torch else functional
            return _looks(getattr(layers if owner == "functional" else library, case.name)(*args, **kwargs))
        if args[0].requires_grad and case.name.endswith("_") and case.name[:2] != "__" and case.name[:8] != "requires":
            args[0] = args[0] * 1
        found = getattr(args[0], case.name)
        result = _looks(found(*args[1:], **kwargs) if callable(found) else found)
        after = _looks(args[0])
        return (result[0], after[0], args[0]._version), result[1] + after[1]
    except Exception as error:
        return "raises", type(error).__name__


def _differs(owner: str, case: Case) -> str:
    theirs, ours = _outcome(torch, owner, case), _outcome(jitgrad, owner, case)
    if theirs[0] != ours[0] or "raises" in (theirs[0], ours[0]):
        return "" if theirs == ours else f"{case}:\n  torch {theirs}\n  jitgrad {ours}"
    for a, b in zip(theirs[1], ours[1], strict=True):
        if case.name not in HOLDS_ANYTHING and not np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True):
            return f"{case}:\n  torch {a}\n  jitgrad {b}"
    return ""


@pytest.mark.parametrize(("owner", "name"), NAMES)
def test_arguments_are_taken_and_refused_as_in_pytorch(owner: str, name: str) -> None:
    has_extras = owner != "functional" and not name.startswith("__")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [_differs(owner, case) for case in cases_of(name, OWNERS[owner][name], NUM_CASES, has_extras)]
    different = [text for text in found if text]
    allowed, _ = KNOWN.get(name, (0, ""))
    assert len(different) <= allowed, "\n".join(different)


def test_the_first_argument_of_a_function_is_a_tensor() -> None:
    for call in (lambda t: t.sum("x", 0), lambda t: t.reshape(None, (1,)), lambda t: t.softmax([1.0], 0)):
        for library in (torch, jitgrad):
            with pytest.raises(TypeError):
                call(library)


SIZED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "reshape": lambda lib, x, sizes: x.reshape(sizes),
    "reshape apart": lambda lib, x, sizes: x.reshape(*sizes),
    "view": lambda lib, x, sizes: x.view(*sizes),
    "zeros": lambda lib, x, sizes: lib.zeros(sizes),
    "zeros apart": lambda lib, x, sizes: lib.zeros(*sizes),
    "randn": lambda lib, x, sizes: lib.randn(sizes),
    "full": lambda lib, x, sizes: lib.full(sizes, 1.0),
    "randint": lambda lib, x, sizes: lib.randint(5, sizes),
    "new_zeros": lambda lib, x, sizes: x.new_zeros(sizes),
    "expand": lambda lib, x, sizes: x[0].reshape(1, -1)[:, :1].expand(sizes),
    "permute": lambda lib, x, sizes: x.permute([n - 1 for n in sizes]),
    "sum": lambda lib, x, sizes: x.sum([n - 1 for n in sizes]),
    "mean": lambda lib, x, sizes: x.mean(dim=[n - 1 for n in sizes]),
    "amax": lambda lib, x, sizes: lib.amax(x, tuple(n - 1 for n in sizes)),
    "pad": lambda lib, x, sizes: lib.nn.functional.pad(x, sizes),
    "std": lambda lib, x, sizes: x.std(dim=[n - 1 for n in sizes]),
    "argmax": lambda lib, x, sizes: x.argmax(dim=sizes[0] - 1, keepdim=True),
    "max": lambda lib, x, sizes: x.max(dim=sizes[1] - 1)[0],
    "scatter_": lambda lib, x, sizes: x.clone().scatter_(sizes[0] - 1, lib.tensor([[0]]), 2.0),
}


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("name", SIZED)
def test_what_is_accepted_does_not_depend_on_what_ran_before(name: str, kind: type) -> None:
    """(2.0, 1.0) equals (2, 1); lists and names are looked up after the first call."""
    call, sizes = SIZED[name], kind([2, 1])
    own, theirs = (lib.tensor([[1.0], [3.0]]) for lib in (jitgrad, torch))
    for _ in range(3):
        shape = call(jitgrad, own, sizes).shape
    assert tuple(shape) == tuple(call(torch, theirs, sizes).shape)
    for wrong in (kind([2.0, 1.0]), kind([2, 1.0]), kind([2.0, 1]), kind([np.float64(2), 1])):
        for _ in range(2):
            for lib, x in ((torch, theirs), (jitgrad, own)):
                is_refused = False
                try:
                    call(lib, x, wrong)
                except TypeError:
                    is_refused = True
                if lib is torch:
                    expected = is_refused
            assert is_refused is expected
    assert tuple(call(jitgrad, own, sizes).shape) == tuple(shape)
