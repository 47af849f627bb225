"""Nodes that leave a trie last as long as the calls that were recorded meanwhile, Note [Lasting references]."""

from __future__ import annotations

import weakref

from jitgrad.tracer.recording.trie import Trie


class Event:
    """Can be held weakly, as nodes cannot."""


def _grown(trie: Trie, count: int) -> list[weakref.ref[Event]]:
    """Add so many paths of one event each; the first one ended longest ago."""
    root, events = trie.root(None), []
    for nr in range(count):
        event = Event()
        node = trie.publish(trie.grow(root, ("key", trie.clock, nr), event))
        trie.clock += 1
        node.tick = trie.clock
        events.append(weakref.ref(event))
    return events


def test_nodes_last_while_a_call_is_recorded_that_may_look_at_them() -> None:
    trie = Trie(3, 100)
    first = _grown(trie, 4)
    trie.end_of_call(trie.root(None), [7])
    assert trie.size == 2
    assert all(event() is not None for event in first)
    second = _grown(trie, 2)
    trie.end_of_call(trie.root(None), [8])
    assert [event() is None for event in first[:2]] == [True, True], "call 7 is over"
    assert all(event() is not None for event in (*first[2:], *second))
    _grown(trie, 2)
    trie.end_of_call(trie.root(None), [8, 9])
    assert all(event() is not None for event in (*first[2:], *second)), "call 8 is not over"


def test_nodes_go_at_once_where_no_call_is_recorded() -> None:
    trie = Trie(3, 100)
    events = _grown(trie, 4)
    trie.end_of_call(trie.root(None), [])
    assert [event() is None for event in events] == [True, True, False, False]
