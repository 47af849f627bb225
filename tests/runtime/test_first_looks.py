"""The first look at a slot of a tensor finds its default, and overwrites nothing that another thread has set."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

import jitgrad as jg
from jitgrad import tensor_base
from jitgrad.tensor_base import _SLOTS, TensorBase

NAMES = ("_grad", "_hooks", "_post_accumulate_hooks", "_accumulator", "_retains_grad")


def _leaf() -> Any:
    x = jg.ones(3, requires_grad=True)
    for name in NAMES:
        if _is_set(x, name):
            delattr(x, name)
    return x


def _is_set(x: Any, name: str) -> bool:
    try:
        _SLOTS[name].__get__(x)
    except AttributeError:
        return False
    return True


class _Threads:
    """As many as it is told; what ``meanwhile`` does, a thread has done that has come and gone."""

    def __init__(self, count: int, meanwhile: Any = lambda: None) -> None:
        self.count, self.meanwhile = count, meanwhile

    def __len__(self) -> int:
        self.meanwhile()
        return self.count


@pytest.mark.parametrize("name", NAMES)
def test_a_thread_may_come_and_go_during_a_look(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, value = _leaf(), object()
    monkeypatch.setattr(tensor_base, "_threads", _Threads(1, lambda: setattr(x, name, value)))
    assert getattr(x, name) is value
    monkeypatch.undo()
    assert getattr(x, name) is value
    delattr(x, name)


@pytest.mark.parametrize("name", NAMES)
def test_beside_other_threads_a_look_sets_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = _leaf()
    monkeypatch.setattr(tensor_base, "_threads", _Threads(2))
    assert not getattr(x, name)
    assert not _is_set(x, name)
    monkeypatch.setattr(tensor_base, "_threads", _Threads(1))
    assert not getattr(x, name)
    assert _is_set(x, name)


def test_the_threads_of_the_process_are_counted() -> None:
    assert len(tensor_base._threads) == threading.active_count()


def test_threads_see_one_version_counter() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(200):
            x: TensorBase = jg.ones(3)
            if _is_set(x, "_vc"):
                del x._vc
            seen: list[Any] = []
            start = threading.Barrier(3)

            def look(x: Any = x, seen: list[Any] = seen, start: Any = start) -> None:
                start.wait()
                seen.append(x._vc)

            threads = [threading.Thread(target=look) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert seen[0] is seen[1] is seen[2] is x._vc
    finally:
        sys.setswitchinterval(before)
