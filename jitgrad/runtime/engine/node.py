"""``Node``: one step of the backward graph.

Owns: the node's identity (edges, numbers, names, metadata), its hooks, and how numbers are given.
Must not know: operations, tensors' data, the engine that runs it.

# Note [Freeing deep graphs]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~
# A chain of a million nodes is freed by reference counting when its last holder goes. PyTorch needs its own deleter so
# that this does not recurse on the C stack; CPython's deallocator of tuples, lists and slotted classes bounds the
# recursion itself (the "trashcan"), so nodes, edges and saved variables are made of exactly these and have no __del__.
# They also hold no reference cycles: a saved output does not hold its own node (see saved_variable.py), an
# accumulator is held weakly by its leaf.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.ops.aval import Aval
from jitgrad.runtime.engine.edge import Edge
from jitgrad.runtime.engine.node_hooks import NodeHooks, RemovableHandle

__all__ = ["ACCUMULATE_GRAD_SEQUENCE_NR", "GraphRoot", "Identity", "Node", "next_sequence_nr", "topological_nr_above"]

ACCUMULATE_GRAD_SEQUENCE_NR = 2**64 - 1
"""Leaves go first whenever they are ready: it frees their gradients early."""


class _Sequence(threading.local):
    """The rising creation number, one series per thread as in PyTorch."""

    def __init__(self) -> None:
        self.take = itertools.count().__next__


_sequence = _Sequence()


def next_sequence_nr() -> int:
    """The number of the next node that this thread creates."""
    return _sequence.take()


def topological_nr_above(edges: Sequence[Edge]) -> int:
    """The length of the longest path to a leaf, for a node with these edges."""
    longest = -1
    for node, _ in edges:
        if node is not None and node.topological_nr > longest:
            longest = node.topological_nr
    return longest + 1


class Node:
    """A step of the backward graph: takes the gradients of a forward function's outputs, gives those of its inputs.

    Attributes:
        next_edges: where each gradient goes, in the order of the forward inputs; fixed at creation.
        sequence_nr: rises with creation (per thread); the engine runs the highest ready one first.
        topological_nr: the longest path from here to a leaf; lets a search for some inputs stop early.
        input_metadata: the aval of each forward output, that is of each gradient coming in.
        hooks: None until the first hook.
    """

    __slots__ = ("__weakref__", "_metadata", "hooks", "input_metadata", "next_edges", "sequence_nr", "topological_nr")

    next_edges: tuple[Edge, ...]
    input_metadata: tuple[Aval, ...]
    hooks: NodeHooks | None

    def __init__(self, next_edges: tuple[Edge, ...] = (), input_metadata: tuple[Aval, ...] = ()) -> None:
        self.next_edges = next_edges
        self.input_metadata = input_metadata
        self.sequence_nr = next_sequence_nr()
        self.topological_nr = topological_nr_above(next_edges)
        self.hooks = None

    def apply(self, grad_outputs: list[Any]) -> tuple[Any, ...]:
        """The gradients for ``next_edges``; None = undefined.

        Args:
            grad_outputs: one gradient per forward output, None where none arrived. The list belongs to the node.
        """
        raise NotImplementedError

    def __call__(self, *grad_outputs: Any) -> Any:
        """Run the node by hand, hooks included; one result is returned bare, as PyTorch does."""
        grads = call_node(self, list(grad_outputs))
        return grads[0] if len(grads) == 1 else grads

    def release_variables(self) -> None:
        """Drop what was saved for backward."""

    def name(self) -> str:
        """The node's name, as ``MulBackward0``."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """``next_edges`` as plain pairs."""
        return tuple((node, nr) for node, nr in self.next_edges)

    @property
    def num_inputs(self) -> int:
        return len(self.input_metadata)

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user's own notes."""
        try:
            return self._metadata
        except AttributeError:
            self._metadata: dict[Any, Any] = {}
            return self._metadata

    def ensure_hooks(self) -> NodeHooks:
        """The node's hook lists, made at the first use."""
        if self.hooks is None:
            self.hooks = NodeHooks()
        return self.hooks

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call ``fn(grad_inputs, grad_outputs)`` after the node ran; a tuple it returns replaces ``grad_inputs``."""
        return self.ensure_hooks().post.add(fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call ``fn(grad_outputs)`` before the node runs; a tuple it returns replaces ``grad_outputs``."""
        return self.ensure_hooks().pre.add(fn)

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


def call_node(node: Node, inputs: list[Any]) -> tuple[Any, ...]:
    """Apply a node between its pre-hooks and post-hooks."""
    hooks = node.hooks
    if hooks is None:
        return node.apply(inputs)
    if hooks.pre:
        inputs = hooks.run_pre(inputs)
    if not hooks.post:
        return node.apply(inputs)
    # the node may empty its list; post-hooks are to see what it was given
    seen = tuple(inputs)
    return hooks.run_post(tuple(node.apply(inputs)), seen)


class GraphRoot(Node):
    """The source of a backward with several roots: its edges are the roots, its result is the seed gradients.

    Attributes:
        seeds: one gradient per root.
    """

    __slots__ = ("seeds",)

    def __init__(self, roots: tuple[Edge, ...], seeds: tuple[Any, ...]) -> None:
        super().__init__(roots)
        self.seeds = seeds

    def apply(self, grad_outputs: list[Any]) -> tuple[Any, ...]:
        return self.seeds


class Identity(Node):
    """Stands for a leaf that no graph has reached: an edge that nothing arrives at."""

    __slots__ = ()

    def apply(self, grad_outputs: list[Any]) -> tuple[Any, ...]:
        return tuple(grad_outputs)
