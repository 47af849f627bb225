"""``jitgrad.futures``."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from jitgrad.futures import Future, collect_all, wait_all


def test_a_value_is_set_once() -> None:
    future: Future[int] = Future()
    assert not future.done()
    with pytest.raises(RuntimeError, match="no value yet"):
        future.value()
    future.set_result(3)
    assert future.done() and future.wait() == future.value() == 3
    with pytest.raises(RuntimeError, match="only once"):
        future.set_result(4)


def test_another_thread_sets_the_value() -> None:
    future: Future[str] = Future()
    thread = threading.Thread(target=future.set_result, args=("there",))
    thread.start()
    assert future.wait() == "there"
    thread.join()


def test_callbacks() -> None:
    future: Future[int] = Future()
    seen: list[Any] = []
    doubled = future.then(lambda f: f.value() * 2)
    failing = future.then(lambda f: f.value() / 0)
    future.add_done_callback(lambda f: seen.append(f.value()))
    future.set_result(21)
    assert doubled.wait() == 42 and seen == [21]
    with pytest.raises(RuntimeError, match="ZeroDivisionError: division by zero"):
        failing.wait()
    with pytest.warns(UserWarning, match="a callback of a Future raised ValueError"):
        future.add_done_callback(lambda f: int("no number"))


def test_exceptions() -> None:
    future: Future[int] = Future()
    with pytest.raises(AssertionError, match="not an Exception"):
        future.set_exception("text")
    future.set_exception(KeyError("key"))
    with pytest.raises(KeyError):
        future.wait()


def test_all() -> None:
    futures: list[Future[int]] = [Future() for _ in range(3)]
    together = collect_all(futures)
    for n, future in enumerate(futures):
        assert not together.done()
        future.set_result(n)
    assert wait_all(futures) == [0, 1, 2] and together.wait() == futures
    assert collect_all([]).wait() == []
    failed: list[Future[int]] = [Future(), Future()]
    together = collect_all(failed)
    failed[0].set_exception(ValueError("first"))
    failed[1].set_result(1)
    with pytest.raises(ValueError, match="first"):
        together.wait()
