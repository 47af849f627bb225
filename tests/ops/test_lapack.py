"""LAPACK on one thread where a matrix is not large, and NumPy's own number of threads afterwards."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.errors import LinAlgError
from jitgrad.ops.linalg import lapack as module
from jitgrad.ops.linalg.lapack import lapack, like_columns, quickly

THREADS = module._threads()


@pytest.fixture
def many() -> Any:
    """OpenBLAS, which would use two threads."""
    if THREADS is None:  # NumPy has another BLAS: nothing is limited
        assert lapack(np.linalg.inv)(np.eye(100)).shape == (100, 100)
        return None
    before = THREADS.get()
    THREADS.set(2)
    yield THREADS
    THREADS.set(before)


def _number(threads: Any, size: int, **limit: int) -> int:
    """How many threads a rule finds."""
    found: list[int] = []
    lapack(lambda a: found.append(threads.get()))(np.eye(size))
    return found[0]


def test_a_matrix_that_is_not_large_is_factored_by_one_thread(many: Any) -> None:
    if many is None:
        return
    assert _number(many, 100) == 1
    assert many.get() == 2
    assert _number(many, 10) == 2  # OpenBLAS does not share it


def test_no_call_uses_more_threads_than_are_allowed(many: Any) -> None:
    if many is None:
        return
    before = jitgrad.get_num_threads()
    try:
        jitgrad.set_num_threads(2)
        assert _number(many, 600) == 2
        jitgrad.set_num_threads(1)
        assert _number(many, 600) == 1
    finally:
        jitgrad.set_num_threads(before)
    assert many.get() == 2


def test_the_number_is_set_back_after_an_error_and_by_the_last_of_several_calls(many: Any) -> None:
    if many is None:
        return
    with pytest.raises(LinAlgError):
        jitgrad.linalg.cholesky(-jitgrad.eye(100))
    assert many.get() == 2
    inside, go_on = threading.Event(), threading.Event()

    def wait(a: Any) -> None:
        inside.set()
        go_on.wait(10)

    thread = threading.Thread(target=lapack(wait), args=(np.eye(100),))
    thread.start()
    inside.wait(10)
    assert _number(many, 100) == 1
    assert many.get() == 1  # the other call still runs
    go_on.set()
    thread.join()
    assert many.get() == 2


@pytest.mark.parametrize(
    "name", ["inv", "cholesky", "det", "slogdet", "svd", "eigh", "eig", "qr", "pinv", "matrix_exp"]
)
def test_functions_of_matrices_go_that_way(name: str, many: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if many is None:
        return
    entered: list[int] = []
    enter = type(many).enter
    monkeypatch.setattr(type(many), "enter", lambda self, count: (entered.append(count), enter(self, count))[1])
    a = jitgrad.eye(130) * 0.5
    getattr(jitgrad.linalg, name)(a)
    step = jitgrad.compile(lambda: getattr(jitgrad.linalg, name)(a))
    step()
    assert entered
    assert set(entered) == {1}


@pytest.mark.parametrize("name", ["eigh_lo", "no_ufunc_of_this_name"])
def test_what_is_not_there_or_went_wrong_is_left_to_the_public_function(name: str) -> None:
    """NumPy's module of ufuncs is its own affair; a NaN may be an error, which the public function raises."""
    calls: list[int] = []

    def public(a: Any) -> Any:
        calls.append(1)
        return np.linalg.eigh(a)

    a = np.array([[[2.0, 1.0], [1.0, 3.0]]])
    with np.errstate(all="ignore"):
        found = quickly(name, public)(a, out=(None, like_columns(a)))
        np.testing.assert_allclose(found[0], np.linalg.eigvalsh(a), rtol=1e-14)
        np.testing.assert_allclose(found[1] * found[0][:, None] @ found[1].swapaxes(-1, -2), a, rtol=1e-13)
        before = len(calls)
        assert before == (0 if hasattr(np.linalg._umath_linalg, name) else 1)
        quickly(name, public)(a * np.nan)
        assert len(calls) == before + 1
