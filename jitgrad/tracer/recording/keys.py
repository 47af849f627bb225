"""Every kind of key in the trie, and what a key must hold.

Owns: the words that begin a key, and the small vocabularies that keys are made of.
Must not know: how keys are compared (``hits.py``), what events do (``history.py``).

# Note [Keys]
# ~~~~~~~~~~~
# A hit skips shape rules, derivative rules, planning, checks. So a key holds everything that could make any of these
# come out differently: a wrong result on a hit is always something missing from a key. By kind:
#
# | key | the event | what else it depends on |
# |---|---|---|
# | (op, operands, params) | an operation | operands by value id, numbers with their types |
# | (IN, aval, kind) | a tensor from outside | layout, dtype; plain, leaf, hooked or of another graph; inference |
# | (ALIAS, vid, kind, ..) | a second handle on a known value, which is a leaf or a node's | |
# | (JOIN, vid, has memory) | a value that a Node of Python's belongs to: a value id of its own | |
# | (WRITE, op, targets, operands, params) | an in-place operation | |
# | (WINDOW, ..), (THROUGH, ..) | a write through a view | which views look at the base, and how |
# | (AFRESH, ..) | a view that is read out of its base again | |
# | (UPDATE, op, operands, types, params) | an optimizer's step | all rows; numbers are run-time scalars |
# | (BACKWARD, ..), then (GRADS, ..) | a backward; which leaves have a gradient, and which value it is | |
# | (END, vids), assignments | a segment's end | which handles survive, and which of them share a storage |
# | True, False | grad mode from here on: no operation need carry it | |
# | (DTYPE, dtype) | default dtype from here on | |
# | (LEAF_MARK, vid, flag), (DETACHED_MARK, vid), (STUB, vid), (HOOKS, vid), (NODE, vid), (SAVERS, vids), (RELEASED, ..)
#   | what Python did to a value's graph | |
# | (KEEP, vids) | Nodes that nothing can reach any more were let go | which values with a graph somebody holds |
# | (OUTSIDE, name, vids), (DATA, vid) | memory was written, or replaced, outside the trace | |
#
# A trace starts at a root of its own for each grad mode and default dtype.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

__all__ = [
    "AFRESH",
    "ALIAS",
    "BACKWARD",
    "DATA",
    "DETACHED_MARK",
    "DTYPE",
    "END",
    "EXTERNAL",
    "FRESH",
    "GRADS",
    "HOOKED",
    "HOOKS",
    "IN",
    "JOIN",
    "KEEP",
    "LEAF",
    "LEAF_MARK",
    "MARK",
    "MISSED",
    "NODE",
    "OUTSIDE",
    "PENDING",
    "PLAIN",
    "RELEASED",
    "SAVERS",
    "STUB",
    "THROUGH",
    "UPDATE",
    "VIEW",
    "WINDOW",
    "WRITE",
    "Args",
    "Filling",
    "InputKind",
]

Args = tuple[Any, ...]
"""Arguments of a call; in native code a C array."""

MISSED: Any = type("Missed", (), {"__repr__": lambda self: "MISSED"})()
"""What a hit returns that is none."""

IN, ALIAS, JOIN, WRITE, UPDATE = "<in>", "<alias>", "<join>", "<write>", "<update>"
WINDOW, AFRESH, THROUGH = "<window>", "<afresh>", "<through>"
BACKWARD, GRADS, END = "<backward>", "<grads>", "<end>"
LEAF_MARK, DETACHED_MARK, STUB, HOOKS, NODE = "<leaf>", "<detached>", "<stub>", "<hooks>", "<node>"
DTYPE, RELEASED, SAVERS, KEEP = "<dtype>", "<released>", "<savers>", "<keep>"
OUTSIDE, DATA = "<outside>", "<data>"
MARK = "<mark>"
"""``TrieNode.op`` of an event that its key alone describes."""


class InputKind(IntEnum):
    """What part a tensor from outside has in the graph; compare with ``is``."""

    PLAIN = 0
    """None."""
    LEAF = 1
    HOOKED = 2
    """A leaf whose gradient Python wants to see."""
    EXTERNAL = 3
    """Its graph began elsewhere."""


PLAIN, LEAF, HOOKED, EXTERNAL = InputKind


class Filling(IntEnum):
    """How a surviving handle gets its storage; compare with ``is``."""

    FRESH = 0
    """It gets a new one."""
    PENDING = 1
    """Views hold a storage without memory already: that one gets memory."""
    VIEW = 2
    """It shares one that has memory, or that another survivor fills."""


FRESH, PENDING, VIEW = Filling
