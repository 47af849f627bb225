"""Python's types as dtypes, options of functions that make tensors, old orders of arguments, ``Tensor.new``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import jitgrad

MAKING: dict[str, Callable[[Any, Any], Any]] = {
    "arange": lambda lib, dtype: lib.arange(3, dtype=dtype),
    "as_tensor": lambda lib, dtype: lib.as_tensor(lib.tensor([1.5, 0.0]), dtype=dtype),
    "asarray": lambda lib, dtype: lib.asarray([1, 2], dtype=dtype),
    "cumsum": lambda lib, dtype: lib.ones(3).cumsum(0, dtype=dtype),
    "eye": lambda lib, dtype: lib.eye(2, dtype=dtype),
    "frombuffer": lambda lib, dtype: lib.frombuffer(bytearray(16), dtype=dtype),
    "full": lambda lib, dtype: lib.full((2,), 1, dtype=dtype),
    "module": lambda lib, dtype: lib.nn.BatchNorm1d(2).to(dtype).weight,
    "new_ones": lambda lib, dtype: lib.zeros(1).new_ones(2, dtype=dtype),
    "ones": lambda lib, dtype: lib.ones(2, dtype=dtype),
    "randint": lambda lib, dtype: lib.randint(0, 1, (2,), dtype=dtype),
    "scalar_tensor": lambda lib, dtype: lib.scalar_tensor(1, dtype=dtype),
    "softmax": lambda lib, dtype: lib.ones(3).softmax(0, dtype=dtype),
    "sparse": lambda lib, dtype: lib.sparse_coo_tensor([[0]], [1.0], (2,), dtype=dtype).to_dense(),
    "sum": lambda lib, dtype: lib.ones(3).sum(0, dtype=dtype),
    "tensor": lambda lib, dtype: lib.tensor([1, 2], dtype=dtype),
    "to": lambda lib, dtype: lib.tensor([1.5, 0.0]).to(dtype),
    "to_keyword": lambda lib, dtype: lib.tensor([1.5, 0.0]).to("cpu", dtype=dtype),
    "view": lambda lib, dtype: lib.ones(2, dtype=lib.int64).view(dtype),
    "zeros": lambda lib, dtype: lib.zeros((2, 3), dtype=dtype),
}
REFUSED = {("module", bool), ("module", int), ("softmax", bool), ("softmax", int), ("arange", bool), ("cumsum", bool)}


@pytest.mark.parametrize("name", MAKING)
@pytest.mark.parametrize("kind", [bool, int, float])
def test_pythons_types_are_dtypes(name: str, kind: type) -> None:
    if (name, kind) in REFUSED:
        with pytest.raises((TypeError, RuntimeError, NotImplementedError)):
            MAKING[name](jitgrad, kind)
        return
    dtype = {bool: jitgrad.bool, int: jitgrad.int64, float: jitgrad.float64}[kind]
    got, want = MAKING[name](jitgrad, kind), MAKING[name](jitgrad, dtype)
    assert got.dtype is dtype and got.tolist() == want.tolist()


def test_other_types_are_none() -> None:
    for wrong in (str, "float32", 3):
        with pytest.raises(TypeError):
            jitgrad.zeros(2, dtype=wrong)
        with pytest.raises(TypeError):
            jitgrad.tensor([1], dtype=wrong)
    assert jitgrad.promote_types(int, jitgrad.float32) is jitgrad.float32
    assert jitgrad.can_cast(int, float) and jitgrad.finfo(float).bits == 64


OPTIONS: dict[str, Callable[..., Any]] = {
    "empty": lambda **o: jitgrad.empty(2, 3, **o),
    "full": lambda **o: jitgrad.full((2,), 1.0, **o),
    "linspace": lambda **o: jitgrad.linspace(0, 1, 3, **o),
    "new_zeros": lambda **o: jitgrad.ones(1).new_zeros(2, **o),
    "rand": lambda **o: jitgrad.rand(2, **o),
    "randint": lambda **o: jitgrad.randint(0, 3, (2,), **o),
    "randint_like": lambda **o: jitgrad.randint_like(jitgrad.ones(2), high=2, **o),
    "randn_like": lambda **o: jitgrad.randn_like(jitgrad.ones(2), **o),
    "zeros": lambda **o: jitgrad.zeros(2, **o),
    "zeros_like": lambda **o: jitgrad.zeros_like(jitgrad.ones(2), **o),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_layout_and_pinned_memory(name: str) -> None:
    make = OPTIONS[name]
    assert make(layout=jitgrad.strided, pin_memory=False).shape == make().shape
    with pytest.raises(RuntimeError, match="no pinned memory allocator"):
        make(pin_memory=True)
    with pytest.raises(RuntimeError, match="a new tensor is strided"):
        make(layout=jitgrad.sparse_coo)


def test_memory_formats_of_new_tensors() -> None:
    x = jitgrad.zeros(2, 3, 4, 4)
    for make in (jitgrad.rand_like, jitgrad.randn_like, jitgrad.zeros_like, jitgrad.empty_like):
        made = make(x, memory_format=jitgrad.channels_last, requires_grad=True)
        assert made.is_contiguous(memory_format=jitgrad.channels_last) and made.is_leaf and made.requires_grad
    assert jitgrad.empty(2, 3, 4, 4, memory_format=jitgrad.channels_last).stride() == (48, 1, 12, 3)
    with pytest.raises(TypeError):
        jitgrad.zeros(2, memory_format=jitgrad.channels_last)


def _old_calls(lib: Any) -> list[Any]:
    x, y, m = lib.tensor([1.0, 2.0]), lib.tensor([3.0, 4.0]), lib.tensor([[1.0, 2.0], [3.0, 4.0]])
    return [
        x.clone().add_(-0.5, y), lib.add(x, 2, y), x.sub(2, y), x.clone().addcmul_(2, y, y), x.addcdiv(-1.0, y, y),
        lib.addmm(1, m, 2, m, m), m.addmm(1, 2, m, m), lib.addmm(0.5, m, m, m), x.addmv(1, 2, m, y),
        lib.addr(1, m, 2, x, y), lib.baddbmm(1, m[None], 2, m[None], m[None]),
    ]  # fmt: skip


def test_numbers_before_tensors() -> None:
    """Scripts of PyTorch 0.4 to 1.4: ``p.data.add_(-lr, grad)``."""
    x, y, m = jitgrad.tensor([1.0, 2.0]), jitgrad.tensor([3.0, 4.0]), jitgrad.tensor([[1.0, 2.0], [3.0, 4.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = _old_calls(jitgrad)
    want = [
        x.add(y, alpha=-0.5), x.add(y, alpha=2), x.sub(y, alpha=2), x.addcmul(y, y, value=2), x.addcdiv(y, y, value=-1),
        m.addmm(m, m, alpha=2), m.addmm(m, m, alpha=2), m.addmm(m, m, beta=0.5), x.addmv(m, y, alpha=2),
        m.addr(x, y, alpha=2), m[None].baddbmm(m[None], m[None], alpha=2),
    ]  # fmt: skip
    assert [g.tolist() for g in got] == [w.tolist() for w in want]
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        x.add_(y, y)
    with pytest.raises(TypeError):
        x.mul_(2, y)


def test_old_calls_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [x.tolist() for x in _old_calls(jitgrad)] == [x.tolist() for x in _old_calls(torch)]


def test_old_calls_in_a_compiled_step() -> None:
    @jitgrad.compile
    def step(p: Any, g: Any) -> Any:
        with jitgrad.no_grad():
            p.add_(-0.5, g).addcmul_(2.0, g, g)
        return p.sum()

    p, g = jitgrad.tensor([1.0, 2.0]), jitgrad.tensor([2.0, 4.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = [step(p, g).item() for _ in range(3)]
    assert got == [40.0, 77.0, 114.0]


def test_new() -> None:
    x = jitgrad.ones(2, 3, dtype=jitgrad.float64)
    assert x.new().shape == (0,) and x.new(2, 5).shape == (2, 5) and x.new(jitgrad.Size([3])).shape == (3,)
    assert x.new([1, 2]).tolist() == [1.0, 2.0] and x.new([1, 2]).dtype is jitgrad.float64
    other = jitgrad.ones(2, dtype=jitgrad.float64, requires_grad=True)
    assert not x.new(other).requires_grad and x.new(other).data_ptr() == other.data_ptr()
    for wrong in (3.0, "x", jitgrad.ones(2)):
        with pytest.raises(TypeError):
            x.new(wrong)
