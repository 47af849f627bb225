"""Note [Kept copies]: copies of extents that come again stay, those of extents that do not go."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.compiled.extents import kept_copies
from jitgrad.compiled.extents.kept_copies import KeptCopies
from jitgrad.tracer.recording.trie import TrieNode, new_node


def _end(depth: int = 10, tick: int = 0) -> TrieNode:
    node: Any = new_node(None, None, None, 0, 0)
    node.depth, node.tick = depth, tick
    return node


def _copied(kept: KeptCopies, extents: list[int], depth: int = 10) -> int:
    """How many of some calls' extents were copied, the others being there."""
    there: dict[int, TrieNode] = {}
    copies = 0
    for clock, n in enumerate(extents):
        if n in there:
            there[n].tick = clock
            continue
        copies += 1
        there[n] = _end(depth, clock)
        for end in kept.add(there[n], (n,)):
            del there[next(m for m, x in there.items() if x is end)]
    return copies


def test_room_does_not_grow_for_extents_that_never_come_again() -> None:
    kept = KeptCopies()
    assert _copied(kept, [*range(3000)]) == 3000
    assert kept.room == kept_copies._LEAST


def test_room_grows_until_those_that_come_again_have_room() -> None:
    kept = KeptCopies()
    rng = np.random.default_rng(0)
    assert _copied(kept, rng.integers(0, 300, 3000).tolist()) < 450
    assert 250 <= kept.room <= 350


def test_extents_in_turn_find_room() -> None:
    kept = KeptCopies()
    assert _copied(kept, [*range(200)] * 20) < 450


def test_room_has_an_end() -> None:
    kept = KeptCopies()
    rng = np.random.default_rng(0)
    _copied(kept, rng.integers(0, 2000, 20_000).tolist())
    assert kept.room == kept_copies._MOST
    kept = KeptCopies()
    _copied(kept, rng.integers(0, 2000, 5_000).tolist(), depth=400)
    assert kept.room == kept_copies._MOST_EVENTS // 400
    kept = KeptCopies()
    _copied(kept, rng.integers(0, 200, 2_000).tolist(), depth=40_000)
    assert kept.room == kept_copies._LEAST


def test_what_calls_take_stays() -> None:
    kept = KeptCopies()
    usual = _end()
    kept.add(usual, (-1,))
    gone: list[TrieNode] = []
    for n in range(1, 500):
        usual.tick = n
        gone += kept.add(_end(tick=n), (n,))
    assert len(gone) == 500 - kept_copies._LEAST
    assert usual not in gone
