"""Writes to expanded tensors, whose elements share memory: PyTorch does some, and refuses the others."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import jitgrad
from jitgrad.user_line import set_warn_always
from tests.modes import Mode

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")


def _set(x: Any, index: Any, value: Any) -> None:
    x[index] = value


def _scaled(x: Any, index: Any) -> None:
    x[index] = operator.imul(x[index], -2.0)


WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "rows": lambda t, x: _set(x, [0], -1.0),
    "columns": lambda t, x: _set(x, (slice(None), [0, 2]), -1.0),
    "elements": lambda t, x: _set(x, ([0, 1], [2, 0]), t.tensor([5.0, 6.0])),
    "one element twice": lambda t, x: _set(x, ([0, 1], [1, 1]), t.tensor([5.0, 6.0])),
    "a mask": lambda t, x: _set(x, x > 0.5, -1.0),
    "a mask of rows": lambda t, x: _set(x, t.tensor([True, False]), -1.0),
    "scaled columns": lambda t, x: _scaled(x, (slice(None), [0, 1])),
    "index_put_": lambda t, x: x.index_put_((t.tensor([0, 1]), t.tensor([0, 2])), t.tensor([7.0, 8.0])),
    "accumulate": lambda t, x: x.index_put_((t.tensor([0, 1]), t.tensor([0, 0])), t.tensor([7.0, 8.0]), True),
    "index_fill_": lambda t, x: x.index_fill_(1, t.tensor([0]), 3.0),
    "index_fill_ rows": lambda t, x: x.index_fill_(0, t.tensor([1]), t.tensor(3.0)),
    "masked_fill_": lambda t, x: x.masked_fill_(x > 0.5, 9.0),
    "masked_fill_ none": lambda t, x: x.masked_fill_(x > 100, 9.0),
    "itself": lambda t, x: _set(x, (), x[0]),
    "itself, with a dimension": lambda t, x: _set(x, (), x[None]),
    "another row": lambda t, x: _set(x, (), x.flip(1)),
    "a slice": lambda t, x: _set(x, slice(0, 1), -1.0),
    "all": lambda t, x: _set(x, ..., -1.0),
    "add_": lambda t, x: x.add_(1),
    "mul_": lambda t, x: x.mul_(x),
    "copy_": lambda t, x: x.copy_(t.ones(2, 3)),
    "masked_scatter_": lambda t, x: x.masked_scatter_(x > 0.5, t.ones(6)),
    "index_copy_": lambda t, x: x.index_copy_(1, t.tensor([0]), t.ones(2, 1)),
    "index_add_": lambda t, x: x.index_add_(1, t.tensor([0]), t.ones(2, 1)),
    "scatter_": lambda t, x: x.scatter_(1, t.tensor([[0], [0]]), 2.0),
}


def _base(t: Any, kind: str) -> tuple[Any, Any]:
    """(What is expanded, a leaf that it is computed from or None.)"""
    leaf = t.arange(3.0).requires_grad_("graph" in kind)
    base = leaf * 1.5 if "graph" in kind else leaf
    return (base[:2, None] if "columns" in kind else base), leaf if "graph" in kind else None


def _outcome(t: Any, name: str, kind: str, is_backward: bool) -> list[Any]:
    base, leaf = _base(t, kind)
    x = base.expand(2, 3)
    y = x * 1.0
    try:
        WRITES[name](t, x)
    except RuntimeError as error:
        return [str(error)[:60], x.tolist(), x._version]
    found = [x.tolist(), base.tolist(), x._version, x.requires_grad, (x + base).tolist(), y.tolist()]
    for result in (y, x * x) if leaf is not None and is_backward else ():
        try:
            result.sum().backward()
        except RuntimeError as error:
            found.append(str(error)[:60])
        found.append(None if leaf.grad is None else leaf.grad.tolist())
    return found


@pytest.mark.filterwarnings("ignore:Use of")
@pytest.mark.parametrize("kind", ["rows", "columns", "rows in a graph", "columns in a graph"])
@pytest.mark.parametrize("name", WRITES)
def test_the_same_are_written_and_refused(name: str, kind: str, mode: Mode) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = _outcome(torch, name, kind, True)
    assert mode.run(lambda: _outcome(jitgrad, name, kind, True), is_steady=False) == expected


@pytest.mark.filterwarnings("ignore:Use of")
@pytest.mark.parametrize("name", ["rows", "columns", "masked_fill_", "accumulate"])
def test_gradients_of_what_is_written_into_an_expanded_tensor(name: str, mode: Mode) -> None:
    """They need nothing of the tensor itself, whose own gradient PyTorch's backward cannot make."""

    def step(t: Any) -> Any:
        v = t.tensor([2.0, 3.0]).requires_grad_()
        x = t.arange(3.0).expand(2, 3)
        if name == "rows":
            x[[0]] = v[0]
        elif name == "columns":
            x[[0, 1], [0, 2]] = v
        elif name == "masked_fill_":
            x.masked_fill_(x > 0.5, v[1])
        else:
            x.index_put_((t.tensor([0, 1]), t.tensor([0, 2])), v, accumulate=True)
        try:
            (x * x).sum().backward()
        except RuntimeError as error:
            return str(error)[:40], x.tolist()
        return v.grad.tolist(), x.tolist()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = step(torch)
    assert mode.run(lambda: step(jitgrad), is_steady=False) == expected


@pytest.mark.parametrize("name", ["rows", "index_fill_", "masked_fill_"])
def test_the_warning_is_pytorchs(name: str) -> None:
    set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="on expanded tensors is deprecated") as ours:
            WRITES[name](jitgrad, jitgrad.arange(3.0).expand(2, 3))
    finally:
        set_warn_always(False)
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning) as theirs:
            WRITES[name](torch, torch.arange(3.0).expand(2, 3))
    finally:
        torch.set_warn_always(False)
    assert str(theirs[0].message).startswith(str(ours[0].message))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_dtypes_are_refused(dtype: str) -> None:
    x = jitgrad.arange(3.0, dtype=getattr(jitgrad, dtype)).expand(2, 3)
    with pytest.raises(RuntimeError, match="more than one element"):
        x.masked_fill_(x > 0.5, 9.0)
    assert x.tolist() == [[0.0, 1.0, 2.0]] * 2


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("name", ["exp_", "neg_", "cumsum_", "masked_fill_"])
def test_a_write_is_refused_although_its_result_is_known(name: str) -> None:
    args: dict[str, Callable[[Any, Any], tuple[Any, ...]]] = {
        "cumsum_": lambda t, x: (0,), "masked_fill_": lambda t, x: (x > 0, 1.5),
    }  # fmt: skip
    for t in (jitgrad, torch):
        x = t.ones(1, 3).expand(4, 3)
        given = args.get(name, lambda t, x: ())(t, x)
        for _ in range(3):
            getattr(x, name.rstrip("_"))(*given)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    getattr(x, name)(*given)
                    refused = False
                except RuntimeError:
                    refused = True
            if t is jitgrad:
                ours = refused, x.tolist()
        assert t is jitgrad or ours == (refused, x.tolist())
