"""Windows of a pool that were made for other extents: a kernel would read and write outside of its operands."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as jg
from jitgrad.door import door
from jitgrad.ops.table import OPS
from jitgrad.ops.windows.window_ranges import sliding

_WINDOWS = (sliding(6, 3, 2, 2), sliding(4, 2, 2, 2))
_COUNTED = 4


@pytest.mark.parametrize("shape", [(1, 2, 5, 4), (1, 2, 6, 1), (1, 2, 1, 1), (4,), (2, 6, 4, 1)])
@pytest.mark.parametrize("wrap", [lambda f: f, jg.compile], ids=["eager", "compiled"])
def test_windows_for_other_extents_are_refused(shape: tuple[int, ...], wrap: Any) -> None:
    x, at = jg.ones(shape), jg.zeros(1, 2, 3, 2, dtype=jg.int64)
    calls = [
        ("max_pool2d", x, _WINDOWS), ("avg_pool2d", x, _WINDOWS, _COUNTED), ("max_pool_read", x, at, _WINDOWS),
        ("avg_pool_backward", x, _WINDOWS, _COUNTED), ("max_pool_backward", x, at, _WINDOWS),
    ]  # fmt: skip
    for name, *args in calls:
        call = wrap(lambda name=name, args=tuple(args): door.apply(OPS[name], *args))
        for _ in range(3):
            with pytest.raises(ValueError, match="pool: its windows are for the extents"):
                call()


def test_positions_for_other_windows_are_refused() -> None:
    g, at = jg.ones(1, 2, 3, 2), jg.zeros(1, 2, 3, 3, dtype=jg.int64)
    with pytest.raises(ValueError, match="pool: its windows"):
        door.apply(OPS["max_pool_backward"], g, at, _WINDOWS)
    with pytest.raises(ValueError, match="pool: its windows"):
        door.apply(OPS["max_pool_read"], jg.ones(1, 2, 6, 4), at, _WINDOWS)
    right = door.apply(OPS["max_pool2d"], jg.ones(1, 2, 6, 4), _WINDOWS)[0]
    assert right.shape == (1, 2, 3, 2)
