"""The search among a trie node's children, Note [Hits].

Owns: in which order children are compared, once, in the subset of Note [Native Python].
Must not know: what they are compared with.
"""

from __future__ import annotations

from jitgrad.cpython.primitives import inlined
from jitgrad.tracer.recording.trie import TrieNode

__all__ = ["following", "likeliest", "taken"]

MAX_SIBLINGS = 16


@inlined
def likeliest(node: TrieNode) -> TrieNode | None:
    """The child to be compared first, or None."""
    return node.first if node.last is None else node.last


@inlined
def following(node: TrieNode, child: TrieNode, tries: int) -> TrieNode | None:
    """The child to be compared after one that does not fit; None: there are no more, or too many."""
    if tries == 0:
        return node.first
    return child.sibling if tries < MAX_SIBLINGS else None


@inlined
def taken(node: TrieNode, child: TrieNode, tries: int) -> TrieNode | None:
    """The child that fits: the likeliest one from here on."""
    if tries != 0 or node.last is None:
        node.last = child
    return child
