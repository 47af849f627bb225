"""What native code finds in the place of the interpreter is what the interpreter would have found."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import jitgrad
from jitgrad.compiled import native_hits
from jitgrad.cpython import layout
from jitgrad.errors import UnknownNameError
from jitgrad.grad_mode import no_grad
from jitgrad.runtime.storage import memory
from jitgrad.state import native_cell, state
from jitgrad.tensor import Tensor

jitgrad.compile(lambda x: x + 1)(jitgrad.ones(2))  # installs them

needs_native = pytest.mark.skipif(not native_cell.is_installed, reason="no native hits on this interpreter")


# --- attributes, Note [Attributes of tensors] ---


@needs_native
def test_the_slot_for_attributes_is_native_where_that_is_quicker() -> None:
    class Late(Tensor):
        __slots__ = ()

    is_native = layout.getattr_slot(Tensor).value != layout.getattr_slot(Late).value
    assert is_native == (sys.version_info < (3, 12))
    assert layout.getattr_slot(jitgrad.nn.Parameter).value == layout.getattr_slot(Tensor).value


def test_each_kind_of_attribute() -> None:
    x, result = jitgrad.ones(2, requires_grad=True), jitgrad.ones(2) * 2
    assert x.sum().item() == 2.0
    assert x.shape == (2,)
    assert x.grad is None
    assert x._requires_grad is True
    assert result._hooks is None, "a slot that was never set"
    assert x.is_sparse is False, "an attribute of the class"
    assert type(x.sum).__name__ == "method"
    assert x.sum.__self__ is x
    assert x.__class__ is Tensor


def test_attributes_of_an_object_come_before_methods() -> None:
    x = jitgrad.ones(2) * 1
    x.mine = 7
    x.sum = lambda: "mine"  # type: ignore[method-assign, assignment, return-value]
    assert (x.mine, x.sum()) == (7, "mine")
    assert x.mean().item() == 1.0
    del x.sum
    assert x.sum().item() == 2.0


def test_names_that_nobody_has() -> None:
    x = jitgrad.ones(2)
    with pytest.raises(UnknownNameError, match=r"'Tensor' object has no attribute 'summ'\. Did you mean: 'sum'\?"):
        _ = x.summ
    assert not hasattr(x, "summ")


def test_a_property_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def getter(error: Exception) -> Any:
        def get(self: Any) -> Any:
            raise error

        return property(get)

    x = jitgrad.ones(2)
    monkeypatch.setattr(Tensor, "broken", getter(ValueError("why")), raising=False)
    with pytest.raises(ValueError, match="why"):
        _ = x.broken
    monkeypatch.setattr(Tensor, "broken", getter(AttributeError("inside")), raising=False)
    with pytest.raises(RuntimeError, match=r"internal error in Tensor\.broken"):
        _ = x.broken
    monkeypatch.setattr(Tensor, "broken", property(None, lambda self, value: None), raising=False)
    with pytest.raises(RuntimeError, match=r"internal error in Tensor\.broken"):
        _ = x.broken


def test_a_class_with_a_hook_of_its_own() -> None:
    class Mine(Tensor):
        __slots__ = ()

        def __getattr__(self, name: str) -> Any:
            return 3 if name == "three" else super().__getattr__(name)

    x = jitgrad.ones(2).as_subclass(Mine)
    assert x.three == 3
    assert x.sum().item() == 2.0
    assert x._hooks is None


# --- ``no_grad()`` ---


@pytest.fixture
def changed() -> Iterator[list[Any]]:
    seen: list[Any] = []
    no_grad.__init__ = lambda self, *given: seen.append(given)  # type: ignore[method-assign, assignment]
    yield seen
    del no_grad.__init__


@needs_native
def test_the_class_has_a_front() -> None:
    assert layout.type_runner(no_grad).value != 0
    assert layout.type_version(no_grad) != 0
    assert native_hits.make_no_grad in native_hits.NATIVE


def test_blocks_are_made_as_ever() -> None:
    class Mine(no_grad):
        __slots__ = ()

    assert type(no_grad()) is no_grad
    assert type(Mine()) is Mine
    assert no_grad()._outer is None

    @no_grad
    def bare() -> bool:
        return jitgrad.is_grad_enabled()

    assert not bare()
    assert not no_grad(lambda: jitgrad.is_grad_enabled())()
    assert not no_grad(orig_func=lambda: jitgrad.is_grad_enabled())()
    with pytest.raises(TypeError, match="positional arguments"):
        no_grad(1, 2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword"):
        no_grad(other=1)  # type: ignore[call-arg]


def test_a_class_that_somebody_changes_makes_what_it_then_should(changed: list[Any]) -> None:
    assert type(no_grad()) is no_grad
    assert changed == [()]


def _python_frames(function: Callable[[], Any]) -> list[str]:
    called: list[str] = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        function()
    finally:
        sys.setprofile(None)
    return called


@needs_native
def test_a_class_that_was_changed_back_is_made_natively_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(no_grad, "__init__", lambda self: None)
        assert "make_as_usual" in _python_frames(no_grad)
    monkeypatch.setattr(no_grad, "__doc__", "another attribute changes the version, too")
    no_grad()
    assert _python_frames(no_grad) == []


def test_nested_blocks_in_a_step_go_back_one_by_one() -> None:
    modes: list[bool] = []

    def step(x: Any) -> Any:
        with no_grad():
            with no_grad():
                modes.append(jitgrad.is_grad_enabled())
            modes.append(jitgrad.is_grad_enabled())
        modes.append(jitgrad.is_grad_enabled())
        with jitgrad.enable_grad(), no_grad():
            modes.append(jitgrad.is_grad_enabled())
        return x * 2

    compiled = jitgrad.compile(step)
    for _ in range(4):
        modes.clear()
        compiled(jitgrad.ones(2))
        assert modes == [False, False, True, False]
        assert jitgrad.is_grad_enabled()


# --- the thread ---


def test_a_step_follows_the_mode_of_its_own_thread() -> None:
    """Threads come and go, and their states lie where others did; hits look at the thread's own dictionary."""
    step = jitgrad.compile(lambda x: x * 2)
    x = jitgrad.ones(2, requires_grad=True)
    found: list[bool] = []

    def run(enabled: bool) -> None:
        state.grad_enabled = enabled
        for _ in range(3):
            found.append(step(x).requires_grad)

    for nr in range(8):
        thread = threading.Thread(target=run, args=(nr % 2 == 0,))
        thread.start()
        thread.join()
        assert found == [nr % 2 == 0] * 3
        assert step(x).requires_grad
        found.clear()


# --- the end of a segment ---


def test_an_error_in_the_middle_of_a_hit_keeps_nothing_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def work(x: Any) -> Any:
        y = x * 2
        made.append(weakref.ref(y))
        return y

    step, x = jitgrad.compile(work), jitgrad.ones(1 << 16)
    for _ in range(4):
        step(x)
    lists, refusals = memory.free_lists, [0, 0]  # the second time after a look for what can be freed
    allocate = lists.allocate

    def refusing(nbytes: int) -> int:
        if refusals:
            refusals.pop()
            return 0
        return allocate(nbytes)

    lists.blocks.clear()
    lists.nbytes = 0
    monkeypatch.setattr(lists, "allocate", refusing)
    with pytest.raises(RuntimeError, match="allocate memory"):
        step(x)
    assert not refusals
    assert made[-1]() is None
    assert step(x)[0].item() == 2.0
