"""Eager kernels and fused rules that native code calls: ``runtime/eager/kernel_runs.py``."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.compiled import native_eager
from jitgrad.nn import functional as F
from jitgrad.runtime.eager.kernel_runs import PYTHONS_RUNS, RUNS, ArrayKernel, run_kernel, run_step
from jitgrad.runtime.eager.plan import plans
from tests.eager_bounds import eager_kernels_from
from tests.threads import run_threads


@pytest.fixture(autouse=True)
def all_by_kernels() -> Iterator[None]:
    native_eager.install()
    with eager_kernels_from(0):
        yield


@pytest.fixture
def python_runs(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many kernels Python has run."""
    seen = Counter[str]()

    def counted(call: ArrayKernel, operands: Any) -> Any:
        seen["kernels"] += 1
        return PYTHONS_RUNS["run_kernel"](call, operands)

    monkeypatch.setattr(ArrayKernel, "run", counted)
    if not native_eager.is_installed():
        monkeypatch.setattr(RUNS, "run_kernel", counted)
    return seen


def _operands(dtype: Any = None) -> dict[str, Any]:
    jg.manual_seed(3)
    x, w = jg.randn(6, 5), jg.randn(4, 5)
    return {"x": x, "w": w, "b": jg.randn(4), "t": jg.tensor([0, 3, 1, 2, 4, 0]), "n": jg.arange(30).reshape(6, 5)}


OPERATIONS: dict[str, Callable[..., Any]] = {
    "one operand": lambda x, **_: F.gelu(x),
    "two operands": lambda x, **_: x * x,
    "three operands": lambda x, w, b, **_: F.linear(x, w, b),
    "an order of its own": lambda x, w, **_: jg.addmm(x[:, :4], x, w.t()),
    "several results": lambda x, **_: x.max(1),
    "an arena": lambda x, **_: F.softmax(x, -1),
    "statistics": lambda x, **_: F.layer_norm(x, (5,)),
    "a list": lambda x, **_: jg.cat([x, x, 2 * x]),
    "a number": lambda x, **_: x * 2.5 + 1.0,
    "an integer for a float": lambda x, **_: x * 2 + 1,
    "integers": lambda n, **_: n * 3 - 7,
    "zeros of both signs": lambda x, **_: (x * 0.0, x * -0.0, x * 0),
    "a loss": lambda x, t, **_: F.cross_entropy(x, t),
    "rows": lambda w, t, **_: F.embedding(t.clamp(max=3), w),
    "of no dimension": lambda x, **_: x.sum(),
    "a transposed result": lambda x, **_: x.t().exp(),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_native_code_and_python_give_the_same_bits(name: str) -> None:
    def values(found: Any) -> list[Any]:
        many = found if isinstance(found, tuple) else (found,)
        return [(x.numpy().tobytes(), x.dtype, x.stride()) for x in many]

    operation, operands = OPERATIONS[name], _operands()
    found = [values(operation(**operands)) for _ in range(3)]
    with native_eager.pythons_form():
        found += [values(operation(**operands)) for _ in range(2)]
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("name", OPERATIONS)
def test_quick_kernels_are_left_to_native_code(name: str, python_runs: Counter[str]) -> None:
    operation, operands = OPERATIONS[name], _operands()
    operation(**operands)
    python_runs.clear()
    for _ in range(5):
        operation(**operands)
    assert (python_runs["kernels"] == 0) == native_eager.is_installed()


def test_derivatives_are_the_same_in_both_forms() -> None:
    def gradients() -> list[bytes]:
        found = []
        for _ in range(3):
            operands = _operands()
            x, w = operands["x"].requires_grad_(), operands["w"].requires_grad_()
            loss = F.cross_entropy(F.gelu(F.layer_norm(x, (5,))) @ w.t() * 1.5, operands["t"] % 4)
            loss.backward()
            found += [x.grad.numpy().tobytes(), w.grad.numpy().tobytes()]
        return found

    native = gradients()
    with native_eager.pythons_form():
        assert gradients() == native
    assert native[:2] == native[2:4] == native[4:]


def test_bad_data_are_the_rules_and_the_next_call_works() -> None:
    operands = _operands()
    w, good, bad = operands["w"], jg.tensor([0, 3]), jg.tensor([0, 4])
    want = F.embedding(good, w).tolist()
    for _ in range(4):
        with pytest.raises(IndexError):
            F.embedding(bad, w)
        assert F.embedding(good, w).tolist() == want


def test_numbers_that_fit_in_no_word_are_the_rules() -> None:
    n = jg.arange(4)
    for _ in range(3):
        assert (n * 3).tolist() == [0, 3, 6, 9]
        with pytest.raises((OverflowError, RuntimeError)):
            n * 2**70


def test_no_memory_for_a_result_loses_nothing() -> None:
    """The record that a run needs is taken when the results are there."""
    x = _operands()["x"]
    want = x.exp().tolist()
    (plan,) = [p for key, p in plans.items() if key[0].name == "exp"]
    call = plan.kernel
    makes, idle = call.makes, list(call.step.idle)

    def fails() -> Any:
        raise MemoryError("no more")

    call.makes = (fails,)
    for _ in range(3):
        with pytest.raises(MemoryError, match="no more"):
            x.exp()
    assert call.step.idle == idle
    call.makes = makes
    assert x.exp().tolist() == want


def test_the_subset_runs_as_python_too() -> None:
    x = _operands()["x"]
    x.exp()
    (plan,) = [p for key, p in plans.items() if key[0].name == "exp"]
    (made,) = run_kernel(plan.kernel, (x.numpy(),))
    np.testing.assert_array_equal(made, x.exp().numpy())
    made[:] = 0
    assert run_step(plan.kernel.step, (x.numpy(), made), ()) == 0
    np.testing.assert_array_equal(made, x.exp().numpy())


def test_threads_run_one_kernel_at_the_same_time() -> None:
    xs = [jg.full((64, 64), float(n)) for n in range(4)]
    wrong = []

    def work(n: int) -> None:
        for _ in range(300):
            y = xs[n] + xs[n]
            if float(y[5, 7]) != 2.0 * n:
                wrong.append(n)

    run_threads(work, 4)
    assert not wrong


def test_other_threads_run_python_during_a_kernel_that_takes_long() -> None:
    x, count, stop, interval = jg.randn(400, 400), [0], threading.Event(), sys.getswitchinterval()
    x @ x

    def counts() -> None:
        while not stop.is_set():
            count[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=counts)
    thread.start()
    sys.setswitchinterval(1000.0)  # a thread that does not wait lets no other one run
    try:
        before = count[0]
        for _ in range(2000):
            x @ x
            if count[0] > before:
                break
        grown = count[0] - before
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
    assert grown > 0


def test_numbers_of_another_type_are_pythons() -> None:
    """A subclass of float is not the object whose bits native code reads; a bool is a number, too."""

    class Meters(float):
        __slots__ = ()

    x = jg.arange(3.0)
    for _ in range(3):
        assert (x * 2.5).tolist() == [0.0, 2.5, 5.0]
        assert (x * Meters(2.5)).tolist() == [0.0, 2.5, 5.0]
        assert (x * np.float64(2.5)).tolist() == [0.0, 2.5, 5.0]
        assert (x * True).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "kind",
    ["a result", "a random tensor", "a part of a storage", "set to a part", "NumPy's", "a window of NumPy's", "set to"],
)
def test_views_of_all_kinds_of_memory_share_it(kind: str) -> None:
    def made() -> Any:
        if kind == "a result":
            return jg.arange(12.0) + 0.0
        if kind == "a random tensor":
            return jg.rand(12)
        if kind == "a part of a storage":
            return jg.Tensor(jg.rand(24).untyped_storage())[:12].detach()
        if kind == "set to a part":
            return jg.empty(0).set_(jg.rand(24).untyped_storage(), 0, (12,))
        whole = np.arange(24.0, dtype=np.float32)
        if kind == "set to":
            return jg.empty(0).set_(jg.from_numpy(whole[:12]).untyped_storage(), 0, (12,))
        return jg.from_numpy(whole[6:18] if kind == "a window of NumPy's" else whole[:12].copy())

    for _ in range(3):
        root = made()
        x = root.view(3, 4)
        views = [x[1], x.t(), x[1:, 2:], x.view(12), x.detach(), x[1][2:], x.t()[1], x.unsqueeze(0)[0]]
        assert all(v._storage is root._storage for v in [x, *views])
        assert all(v.tolist() == np.asarray(v.clone()).tolist() for v in views)
        views[5].fill_(7.0)
        assert x[1, 2:].tolist() == [7.0, 7.0]
        assert views[1][2].tolist() == x[:, 2].tolist()
        assert x.as_strided((2, 2), (4, 1), 1).tolist() == [x[0, 1:3].tolist(), x[1, 1:3].tolist()]
        if kind in ("a part of a storage", "set to a part"):
            assert root.as_strided((20,), (1,))[:12].tolist() == views[3].tolist()
