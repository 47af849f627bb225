"""NumPy's rules run quietly, and what they raise is the caller's."""

from __future__ import annotations

import gc
import weakref

import pytest

import jitgrad


def test_an_error_of_an_operation_keeps_nothing_alive() -> None:
    """Its operands are in the frames that the error came through; no frame may lead back to the error."""

    def fail() -> weakref.ref[jitgrad.Tensor]:
        x = jitgrad.tensor([1, 2, 0])
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            x // jitgrad.tensor([1, 1, 0])
        return weakref.ref(x)

    gc.collect()
    gc.disable()
    try:
        assert fail()() is None
    finally:
        gc.enable()
