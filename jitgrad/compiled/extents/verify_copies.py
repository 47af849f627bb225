"""Copies of paths against recorded paths (``config.verify``).

Owns: ``compare``.
Must not know: when paths are copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.codegen.families import compare as compare_programs
from jitgrad.codegen.pipeline import plan_by_size
from jitgrad.compiled.extents.copies import PathFamily
from jitgrad.compiled.extents.derivation import operation_of
from jitgrad.errors import JitgradError
from jitgrad.tracer.recording.graph import Instr, Segment
from jitgrad.tracer.recording.history import EndEvent, InputEvent, OpEvent, PlainEvent
from jitgrad.tracer.recording.trie import Trie, TrieNode, new_node

__all__ = ["compare"]

_SLOTS = (
    "vid", "aval", "requires_grad", "param_types", "next_vid", "next_scalar", "window", "writes", "depth", "op", "ids",
    "params", "is_simple", "is_view", "outs", "bounds", "meta",
)  # fmt: skip


def compare(family: PathFamily, nodes: Sequence[TrieNode]) -> bool:
    """Whether a recorded path is a copy that the family would have made; JitgradError if it would have made another.

    A path that the family makes no copy of is none of its business, nor are the events after the first one in which
    the call did something else.
    """
    copies = _copied(family, nodes)
    for node, copy in zip(nodes, copies, strict=False):
        if node.key != copy.key or type(node.event) is not type(copy.event):
            return False
        for name in _SLOTS:
            mine, other = getattr(copy, name), getattr(node, name)
            if mine != other and not (name == "is_simple" and node.bounds is None):
                raise JitgradError(f"a copied path has {name} {mine!r} where {other!r} was recorded, at {node.key}")
        _compare_events(copy.event, node.event, family.by_size)
    return len(copies) == len(nodes)


def _copied(family: PathFamily, nodes: Sequence[TrieNode]) -> list[TrieNode]:
    """The nodes of a copy in a trie of its own, as far as there is one."""
    first, trie = nodes[0], Trie(1 << 30, 1 << 30)
    assert first.parent is not None
    above = first.parent
    root: TrieNode = new_node(None, None, None, above.next_vid, above.next_scalar)
    root.depth = above.depth
    found = family.begin(trie, root, _given(first))
    while found is not None and type(found[1]) is tuple:
        last, unfinished = found[1]
        at = last.depth - above.depth
        given = _given(nodes[at]) if at < len(nodes) else None
        if given is None:
            break
        found = family.go_on(trie, last, given, unfinished)
    copies: list[TrieNode] = []
    node = root
    while node.children:
        (node,) = node.children.values()
        copies.append(node)
    return copies


def _given(node: TrieNode) -> Any:
    """What a call gave an event; None for those that are given nothing."""
    if type(node.event) is InputEvent:
        return node.event.aval
    return operation_of(node.key) if type(node.event) in (PlainEvent, OpEvent) else None


def _compare_events(copy: Any, event: Any, by_size: bool) -> None:
    """JitgradError unless two events are the same."""
    for name in () if event is None or copy is event else type(event).__annotations__:
        mine, other = getattr(copy, name), getattr(event, name)
        if name in ("plan", "has_plan", "passed", "is_deferred", "is_fresh", "reason", "later"):
            continue
        if name == "program":
            _compare_loaded(copy, event, by_size)
        elif _plain(mine) != _plain(other):
            kind = type(event).__name__
            raise JitgradError(f"a copied {kind} has {name} {_plain(mine)} where {_plain(other)} was recorded")


def _compare_loaded(copy: EndEvent, event: EndEvent, by_size: bool) -> None:
    if (copy.program is None) != (event.program is None):
        raise JitgradError("a copied path computes something where nothing was recorded, or the other way round")
    if copy.program is not None:
        compare_programs(copy.program.program, plan_by_size(event.segment, by_size))


def _plain(x: Any) -> Any:
    """What can be compared: the fields of instructions and of segments."""
    if isinstance(x, Instr):
        return tuple(map(_plain, x.fields()))
    if isinstance(x, Segment):
        return tuple([_plain(getattr(x, name)) for name in Segment.__annotations__ if name != "later"])
    if type(x) in (tuple, list):
        return tuple(map(_plain, x))
    if type(x) is dict:
        return tuple([(key, _plain(value)) for key, value in x.items()])
    if isinstance(x, OpEvent):
        return tuple([_plain(getattr(x, name)) for name in type(x).__annotations__ if name != "passed"])
    return x
