"""Views of results, and of what users see as results: all look at one memory, whoever asks for its storage first."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.functions.views import reshape_result

Make = Callable[[], Any]

SOURCES: dict[str, Make] = {
    "a result": lambda: jg.arange(48.0).reshape(2, 3, 2, 4) * 2,
    "a result in another shape": lambda: jg.arange(48.0).reshape(2, 3, 2, 4) @ jg.eye(4),
    "a product of batches": lambda: jg.arange(48.0).reshape(2, 3, 4, 2).mT @ jg.eye(4).expand(2, 3, 4, 4),
    "a copy in another shape": lambda: jg.arange(48.0).reshape(4, 12).t().reshape(2, 3, 2, 4),
    "part of a kernel's result": lambda: jg.arange(4800.0).reshape(200, 24).softmax(1)[:2].view(2, 3, 2, 4),
    "a kernel's result": lambda: jg.arange(4800.0).reshape(2, 3, 200, 4).softmax(1),
    "a result that is not row-major": lambda: jg.arange(48.0).reshape(4, 2, 3, 2).permute(1, 2, 3, 0) * 2,
    "a strided result in another shape": lambda: reshape_result(
        jg.arange(48.0).reshape(4, 2, 3, 2).permute(1, 2, 3, 0) * 2, (1, 2, 3, 2, 4)
    ),
    "of NumPy": lambda: jg.from_numpy(np.arange(48.0, dtype=np.float32).reshape(2, 3, 2, 4)),
    "a window of NumPy's": lambda: jg.from_numpy(np.arange(96.0, dtype=np.float32)[24:72].reshape(2, 3, 2, 4)),
    "a leaf": lambda: jg.randn(2, 3, 2, 4),
}

VIEWS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda x: x.transpose(0, -1),
    "part": lambda x: x[..., 1:],
    "first": lambda x: x[1] if x.ndim > 1 and x.shape[0] > 1 else x,
    "permuted": lambda x: x.permute(*reversed(range(x.ndim))),
    "flat": lambda x: x.flatten() if x.is_contiguous() else x,
    "unbound": lambda x: x.unbind(-1)[-1] if x.ndim > 1 else x,
    "expanded": lambda x: x.unsqueeze(0),
    "detached": lambda x: x.detach(),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("seed", range(12))
def test_writes_are_seen_by_all_views(source: str, seed: int) -> None:
    rng = random.Random(f"{source} {seed}")
    family = [SOURCES[source]()]
    shapes: list[Callable[[Any], Any]] = [lambda whole: whole]
    base = family[0].numpy().copy()
    for _ in range(6):
        at = rng.randrange(len(family))
        name = rng.choice([*VIEWS])
        view, before = VIEWS[name], shapes[at]
        family.append(view(family[at]))
        shapes.append(lambda whole, view=view, before=before: view(before(whole)))
        if rng.random() < 0.4:
            family[rng.randrange(len(family))].untyped_storage().data_ptr()
    # a model of the same: positions in the memory of the first
    whole = family[0]
    positions = jg.empty_strided(whole.shape, whole.stride(), dtype=jg.int64)
    positions.copy_(jg.arange(base.size).reshape(*base.shape))
    model = base.reshape(-1).copy()
    for step in range(4):
        at = rng.randrange(len(family))
        places = shapes[at](positions).numpy()
        family[at].mul_(step + 2)
        model[places.reshape(-1)] *= step + 2
        for x, shape in zip(family, shapes, strict=True):
            np.testing.assert_array_equal(x.numpy(), model[shape(positions).numpy()])
    first = family[0].untyped_storage().data_ptr()
    assert all(x.untyped_storage().data_ptr() == first for x in family)
