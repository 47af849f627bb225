"""Running one function with jitgrad and with PyTorch, and comparing what it returns."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad

__all__ = ["assert_as_pytorch", "plain", "raised"]


def plain(value: Any) -> Any:
    """Tensors as arrays, structures with these in them."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.detach().numpy() if hasattr(value, "detach") else value


def raised(call: Callable[[], Any]) -> Any:
    """(type, text) of what a call raises; its result if it raises nothing."""
    try:
        return ["nothing", plain(call())]
    except Exception as error:
        text = re.sub(r"torch\.Size\(\[([^\]]*)\]\)", r"(\1)", str(error)).replace(",)", ")")
        return [type(error).__name__, text]


def _assert_same(ours: Any, theirs: Any, place: str) -> None:
    assert type(ours) is type(theirs), f"{place}: {ours} and {theirs}"
    if isinstance(ours, dict):
        assert list(ours) == list(theirs), place
        for key in ours:
            _assert_same(ours[key], theirs[key], f"{place}[{key!r}]")
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), f"{place}: {ours} and {theirs}"
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            _assert_same(a, b, f"{place}[{i}]")
    elif isinstance(ours, np.ndarray):
        assert ours.dtype == theirs.dtype, place
        assert ours.shape == theirs.shape, f"{place}: {ours.shape} and {theirs.shape}"
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6, err_msg=place)
    elif isinstance(ours, float):
        assert ours == pytest.approx(theirs, rel=1e-5, nan_ok=True), place
    else:
        assert ours == theirs, place


def assert_as_pytorch(case: Callable[[Any], Any], ignored: str = "$") -> None:
    """``case(xp)`` gives the same plain values, from the same seed, and the same kinds of warnings with both libraries.

    Warnings whose text begins with ``ignored`` do not count.
    """
    torch = pytest.importorskip("torch")
    found = []
    for xp in (jitgrad, torch):
        xp.manual_seed(0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", ignored)
            result = plain(case(xp))
        found.append([result, sorted({c.category.__name__ for c in caught})])
    _assert_same(found[0], found[1], case.__name__)
