"""``copy_``, ``fill_`` and ``zero_`` in eager mode: by native code, and by Python's form of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.compiled import native_eager
from jitgrad.runtime.eager import eager

pytestmark = pytest.mark.usefixtures("form")


def _x(*shape: int, dtype: Any = np.float32) -> Any:
    return jg.tensor((np.random.default_rng(1).normal(size=shape) * 9).astype(dtype))


WRITES: dict[str, Callable[[Any], Any]] = {
    "alike": lambda t: t.copy_(_x(4, 4, dtype=t.numpy().dtype)),
    "transposed": lambda t: t.copy_(_x(4, 4, dtype=t.numpy().dtype).t()),
    "broadcast": lambda t: t.copy_(_x(4, dtype=t.numpy().dtype)),
    "another dtype": lambda t: t.copy_(_x(4, 4, dtype=np.float64)),
    "itself": lambda t: t.copy_(t),
    "a row": lambda t: t[2].copy_(t[1]),
    "a column": lambda t: t[:, 1].copy_(t[:, 2]),
    "zero": lambda t: t.zero_(),
    "a row of zeros": lambda t: t[1].zero_(),
    "a column of zeros": lambda t: t[:, 0].zero_(),
    "an integer": lambda t: t.fill_(3),
    "a float": lambda t: t.fill_(2.5),
    "infinity": lambda t: t.fill_(math.inf) if t.dtype.is_floating_point else t,
    "minus zero": lambda t: t.fill_(-0.0),
    "a tensor": lambda t: t.fill_(jg.tensor(7)),
    "one of its own": lambda t: t.fill_(t[1, 1]),
    "a number copied": lambda t: t.copy_(1),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32, np.bool_, np.float16])
@pytest.mark.parametrize("name", WRITES)
def test_what_is_written(name: str, dtype: Any) -> None:
    if dtype is np.bool_ and name in ("an integer", "a float", "a tensor"):
        return  # any number is True
    target, plain = _x(4, 4, dtype=dtype), _x(4, 4, dtype=dtype)
    version = target._version
    WRITES[name](target)
    with jg.no_grad():
        plain[...] = _wanted(name, plain)
    np.testing.assert_array_equal(target.numpy(), plain.numpy())
    assert np.signbit(target.numpy()[0, 0]) == np.signbit(plain.numpy()[0, 0])
    assert target._version - version == (0 if name == "infinity" and dtype in (np.int64, np.int32, np.bool_) else 1)


def _wanted(name: str, before: Any) -> Any:
    a = before.numpy().copy()
    dtype = a.dtype
    other = _x(4, 4, dtype=dtype).numpy()
    if name == "a row":
        a[2] = a[1]
    elif name == "a column":
        a[:, 1] = a[:, 2]
    elif name == "a row of zeros":
        a[1] = 0
    elif name == "a column of zeros":
        a[:, 0] = 0
    else:
        whole = {
            "alike": other, "transposed": other.T, "broadcast": _x(4, dtype=dtype).numpy(), "itself": a,
            "another dtype": _x(4, 4, dtype=np.float64).numpy(), "zero": 0,
            "an integer": 3, "a float": 2.5, "infinity": math.inf if dtype.kind == "f" else a, "minus zero": -0.0,
            "a tensor": 7, "one of its own": a[1, 1], "a number copied": 1,
        }  # fmt: skip
        a[...] = whole[name]
    return jg.tensor(a)


def test_usual_copies_take_no_detour(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not native_eager.is_installed() or form != "native":
        return
    with jg.inference_mode():
        frozen = jg.ones(3, 4) * 1  # whether such tensors exist changes nothing for others
    x, y = jg.ones(3, 4), jg.ones(3, 4)
    turned = jg.ones(4, 3).t()
    seen: list[str] = []
    general = eager.checked_plan

    def noted(op: Any, *rest: Any) -> Any:
        seen.append(op.name)
        return general(op, *rest)

    monkeypatch.setattr(eager, "checked_plan", noted)
    x.copy_(y)
    x.copy_(turned)
    x.zero_()
    x.fill_(0.5)
    x[1].fill_(2)
    x[0].copy_(y[2])
    x.add_(frozen).sub_(1)
    assert seen == []
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        frozen.copy_(y)
    np.testing.assert_array_equal(x.numpy(), [[1] * 4, [2] * 4, [0.5] * 4])


@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.fill_(1e40), lambda t: t.copy_(1e40), lambda t: t.copy_(jg.ones(5)), lambda t: t.fill_(jg.ones(2)),
        lambda t: t[:0].copy_(jg.ones(2, 2)), lambda t: t[1:].copy_(t[:-1]),
        lambda t: t.expand(2, 3).copy_(jg.ones(2, 3)),
    ],
)  # fmt: skip
def test_what_is_refused_is_not_written(write: Callable[[Any], Any]) -> None:
    t = jg.ones(3)
    t.fill_(1.0)
    version = t._version
    with pytest.raises(RuntimeError):
        write(t)
    assert (t._version, t.tolist()) == (version, [1, 1, 1])


def test_graphs_see_it() -> None:
    w = jg.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        w.zero_()
    with jg.no_grad():
        w.copy_(jg.full((3,), 2.0))
    assert w.tolist() == [2, 2, 2]
    kept = jg.full((3,), 5.0)
    y = (w * kept).sum()
    kept.copy_(w.detach())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
    z = jg.zeros(3)
    z.copy_(w)
    assert z.requires_grad
    z.sum().backward()
    assert w.grad.tolist() == [1, 1, 1]


def test_a_view_of_what_requires_grad_is_written_in_the_graph() -> None:
    w = jg.ones(2, 3, requires_grad=True)
    y = w * 1
    y[0].copy_(jg.zeros(3))
    y.sum().backward()
    assert w.grad.tolist() == [[0, 0, 0], [1, 1, 1]]
