"""Sequences of different lengths, packed and padded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jitgrad
from tests.nn.libraries import assert_as_pytorch, raised

Case = Callable[[Any], Any]


def packed_and_padded(xp: Any) -> Any:
    at, seen = xp.nn.utils.rnn, []
    for batch_first in (False, True):
        x = xp.randn(3, 4, 2) if batch_first else xp.randn(4, 3, 2)
        x.requires_grad_()
        for lengths, is_sorted in (([4, 2, 1], True), ([1, 4, 3], False), (xp.tensor([3, 3, 2]), True)):
            packed = at.pack_padded_sequence(x, lengths, batch_first, enforce_sorted=is_sorted)
            back, found = at.pad_packed_sequence(packed, batch_first, -1.0)
            wide, _ = at.pad_packed_sequence(packed, batch_first, total_length=6)
            back.square().sum().backward()
            seen += [tuple(packed), back, found, wide, x.grad, at.unpack_sequence(packed)]
    return seen


def from_lists(xp: Any) -> Any:
    at = xp.nn.utils.rnn
    parts = [xp.arange(3.0), xp.arange(1.0), xp.arange(4.0)]
    seen = [at.pad_sequence(parts), at.pad_sequence(parts, True, 7.0), at.pad_sequence(parts, True, 7.0, "left")]
    packed = at.pack_sequence(parts, enforce_sorted=False)
    padded, lengths = at.pad_packed_sequence(packed, batch_first=True)
    seen += [tuple(packed), at.unpad_sequence(padded, lengths, batch_first=True), packed.double().data.dtype.itemsize]
    return [*seen, packed.to(xp.float32) is packed, at.invert_permutation(xp.tensor([2, 0, 1])), packed.is_cuda]


def refused(xp: Any) -> Any:
    at = xp.nn.utils.rnn
    x, packed = xp.ones(3, 2), at.pack_sequence([xp.ones(3)])
    return [
        raised(lambda: at.pack_padded_sequence(x, [1, 2])),
        raised(lambda: at.pack_padded_sequence(x, [2, 0])),
        raised(lambda: at.pack_padded_sequence(x, [2])),
        raised(lambda: at.pad_packed_sequence(packed, total_length=1)),
        raised(lambda: at.pad_sequence([])),
        raised(lambda: at.pad_sequence([xp.ones(1)], padding_side="up"))[0],
        raised(lambda: at.pad_sequence(3))[0],
        raised(lambda: at.PackedSequence(3))[0],
    ]


@pytest.mark.parametrize("case", [packed_and_padded, from_lists, refused], ids=lambda case: case.__name__)
def test_as_pytorch(case: Case) -> None:
    assert_as_pytorch(case)


def test_packing_in_a_step(mode: Any) -> None:
    at = jitgrad.nn.utils.rnn

    def step(x: Any) -> Any:
        packed = at.pack_padded_sequence(x, [3, 2], True)
        back, _ = at.pad_packed_sequence(packed, True)
        return back.square().sum()

    x = jitgrad.ones(2, 3, requires_grad=True)
    out = mode.run(lambda x: step(x), lambda: (x,))
    assert out.item() == 5.0
