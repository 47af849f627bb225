"""``Node``: one step of the backward graph, and ``Edge``: where one of its gradients flows to.

Owns: the node's identity (edges, numbers, names, metadata), its hooks; edges' two forms.
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

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional

from jitgrad.devices import CPU, Device
from jitgrad.numbering import next_sequence_nr
from jitgrad.ops.aval import Aval, devices_in_use
from jitgrad.runtime.devices.stream import Stream, current_stream
from jitgrad.runtime.engine.graph.node_hooks import HookDict, NodeHooks, RemovableHandle

__all__ = [
    "ACCUMULATE_GRAD_SEQUENCE_NR",
    "INVALID_EDGE",
    "Edge",
    "GraphRoot",
    "Identity",
    "NextEdge",
    "Node",
    "call_node",
    "device_of",
    "name_of",
    "real_edge",
    "stream_of",
    "topological_nr_above",
]

ACCUMULATE_GRAD_SEQUENCE_NR = 2**64 - 1
"""Leaves go first whenever they are ready: it frees their gradients early."""


class Edge(NamedTuple):
    """Input ``input_nr`` of ``node``; ``node`` None says that no gradient is wanted here.

    A tuple, because the engine unpacks one per gradient; a graph is often made of plain ones (``NextEdge``), which
    cost a fifth.
    """

    node: Node | None
    input_nr: int

    @property
    def output_nr(self) -> int:
        """``input_nr``, from the side of the forward: which output of its operation the gradient belongs to."""
        return self.input_nr


INVALID_EDGE = Edge(None, 0)

NextEdge = tuple[Optional["Node"], int]
"""An ``Edge``, or the same as a plain tuple."""


def topological_nr_above(edges: Sequence[NextEdge]) -> int:
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
        _stream: of the forward; never set on the CPU.
    """

    __slots__ = (
        "__weakref__",
        "_metadata",
        "_stream",
        "hooks",
        "input_metadata",
        "next_edges",
        "sequence_nr",
        "topological_nr",
    )

    refuses_detached = False
    """Whether a saved input must still have the history it had; see ``SavedVariable.unpack``."""

    next_edges: tuple[NextEdge, ...]
    input_metadata: tuple[Aval, ...]
    hooks: NodeHooks | None
    _stream: Stream

    def __init__(self, next_edges: tuple[NextEdge, ...] = (), input_metadata: tuple[Aval, ...] = ()) -> None:
        self.next_edges = next_edges
        self.input_metadata = input_metadata
        self.sequence_nr = next_sequence_nr()
        self.topological_nr = topological_nr_above(next_edges)
        self.hooks = None
        if devices_in_use:
            self.note_stream()

    def note_stream(self) -> None:
        """Remember the stream that the forward runs on, for ``stream()``."""
        for aval in self.input_metadata:
            if aval.device.is_virtual:
                self._stream = current_stream(aval.device)
                return

    def device(self) -> Device:
        """Where the node runs: the device of the first gradient coming in that is not on the CPU, else the CPU."""
        for aval in self.input_metadata:
            if aval.device is not CPU:
                return aval.device
        return CPU

    def stream(self) -> Stream | None:
        """The stream of the forward, on which the node is to run; None for a node without gradients on a device."""
        try:
            return self._stream
        except AttributeError:
            return None

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
        return tuple([(None, nr) if node is None else node.real(nr) for node, nr in self.next_edges])

    def real(self, nr: int) -> tuple[Node, int]:
        """The edge to input ``nr`` as Python may see it."""
        return self, nr

    @property
    def requires_grad(self) -> bool:
        """A node is only made of what does."""
        return True

    def _sequence_nr(self) -> int:
        """``sequence_nr``, as PyTorch spells it."""
        return self.sequence_nr

    @property
    def _input_metadata(self) -> tuple[Aval, ...]:
        """Shape, dtype and device of each gradient coming in."""
        return self.input_metadata[: self.num_seen]

    @property
    def seen_edges(self) -> tuple[int, ...] | None:
        """The edges whose gradients hooks see; None: all."""
        return None

    @property
    def num_missing_edges(self) -> int:
        """For how many more edges hooks see None."""
        return 0

    @property
    def num_seen(self) -> int:
        """How many of the gradients coming in hooks see."""
        return len(self.input_metadata)

    def _register_hook_dict(self, tensor: Any) -> None:
        """Run the hooks of one of the outputs, ``tensor``, when its gradient comes in."""
        if tensor._hooks is None:
            tensor._hooks = HookDict()
        self.ensure_hooks().tensor_pre.append((tensor._output_nr, tensor._hooks))

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
        return f"<{type(self).__name__} object at {id(self):#x}>"


def name_of(node: Node) -> str:
    """``node.name()``, whatever the user of a custom function keeps under ``ctx.name``."""
    return type(node).name(node)


def device_of(node: Node) -> Device:
    """``node.device()``, whatever the user of a custom function keeps under ``ctx.device``."""
    return type(node).device(node)


def stream_of(node: Node) -> Stream | None:
    """``node.stream()``, whatever the user of a custom function keeps under ``ctx.stream``."""
    return type(node).stream(node)


def call_node(node: Node, inputs: list[Any]) -> tuple[Any, ...]:
    """Apply a node between its pre-hooks and post-hooks."""
    hooks = node.hooks
    if hooks is None:
        return node.apply(inputs)
    count = node.num_seen
    if hooks.pre:
        inputs = [*hooks.run_pre(inputs[:count]), *inputs[count:]]
    if not hooks.post:
        return node.apply(inputs)
    # the node may empty its list; post-hooks are to see what it was given
    seen = tuple(inputs[:count])
    return _run_post(node, hooks, tuple(node.apply(inputs)), seen)


def _run_post(node: Node, hooks: NodeHooks, grads: tuple[Any, ...], seen: tuple[Any, ...]) -> tuple[Any, ...]:
    """Let post-hooks see the gradients along the edges that ``next_functions`` has."""
    places = node.seen_edges
    if places is None or (len(places) == len(grads) and not node.num_missing_edges):
        return hooks.run_post(grads, seen)
    shown = tuple([grads[i] for i in places]) + (None,) * node.num_missing_edges
    found = dict(zip(places, hooks.run_post(shown, seen), strict=False))
    return tuple([found.get(i, grad) for i, grad in enumerate(grads)])


class GraphRoot(Node):
    """The source of a backward with several roots: its edges are the roots, its result is the seed gradients.

    Its ``stream()`` is the one that is current, where the seeds are, when it is made.

    Attributes:
        seeds: one gradient per root; None = undefined.
    """

    __slots__ = ("seeds",)

    def __init__(self, roots: tuple[NextEdge, ...], seeds: tuple[Any, ...]) -> None:
        super().__init__(roots, tuple([seed._aval for seed in seeds if seed is not None]))
        self.seeds = seeds

    def device(self) -> Device:
        """The CPU: it only hands on what is there."""
        return CPU

    def apply(self, grad_outputs: list[Any]) -> tuple[Any, ...]:
        return self.seeds


class Identity(Node):
    """Stands for a leaf that no graph has reached: an edge that nothing arrives at."""

    __slots__ = ()

    def apply(self, grad_outputs: list[Any]) -> tuple[Any, ...]:
        return tuple(grad_outputs)


def real_edge(edge: NextEdge) -> NextEdge:
    """An edge as Python may see it."""
    node, nr = edge
    return edge if node is None else node.real(nr)
