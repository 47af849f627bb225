"""The backward graph as users see it, and what they may hang on to it.

Owns: gradient edges, ``register_multi_grad_hook``, ``increment_version``; the other names come from their own files.
Must not know: how the graph is run.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jitgrad.autograd.dot import to_dot
from jitgrad.autograd.saved_tensors import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from jitgrad.autograd.why_none import why_none
from jitgrad.grad_mode import no_grad
from jitgrad.runtime.engine.graph.accumulate_grad import gradient_edge
from jitgrad.runtime.engine.graph.current import current_graph_task, current_node
from jitgrad.runtime.engine.graph.node import Edge, Node
from jitgrad.runtime.engine.graph.node import Edge as GradientEdge
from jitgrad.runtime.engine.graph.node_hooks import MultiHandle, RemovableHandle
from jitgrad.runtime.engine.run.graph_task import GraphTask, compute_dependencies
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase
from jitgrad.version_counter import count_write, is_inference

__all__ = [
    "GradientEdge",
    "Node",
    "RemovableHandle",
    "allow_mutation_on_saved_tensors",
    "current_node",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "to_dot",
    "why_none",
]


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """Where the gradient of ``tensor`` flows: (grad_fn, output_nr), or (its accumulator, 0) for a leaf.

    Raises:
        RuntimeError: the tensor does not require grad.
    """
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return gradient_edge(tensor)


def increment_version(tensor: Any) -> None:
    """Say that a tensor (or each of several) was written behind jitgrad's back, so that a stale saved value is noticed.

    Raises:
        RuntimeError: neither a tensor nor an iterable of tensors.
    """
    tensors = (tensor,) if isinstance(tensor, TensorBase) else tensor
    if not isinstance(tensors, Iterable):
        raise RuntimeError("increment_version expect a Iterable[Tensor] as input")
    for x in tensors:
        if not isinstance(x, TensorBase):
            raise RuntimeError("increment_version expects each element of the iterable to be a tensor")
        if is_inference(x):
            continue
        if state.handler is None:
            count_write(x)
        else:  # a trace knows of writes, not of versions
            with no_grad():
                x.copy_(x.clone())


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[[Any], None], *, mode: str = "all"
) -> RemovableHandle:
    """Call ``fn`` once per backward, when the gradients of several tensors are known.

    Args:
        tensors: those that require grad, for ``"all"``; others are left out for ``"any"``.
        fn: for ``"all"``: called with a list of all gradients once the last one that this backward computes is there,
            None for the others. For ``"any"``: called with the first gradient.
        mode: ``"all"`` or ``"any"``.

    Raises:
        ValueError: another mode.
        AssertionError: ``"all"`` with a tensor that does not require grad.
    """
    modes = ("all", "any")
    if mode not in modes:
        raise ValueError(f"Expects mode to be one of {modes} but got {mode}")
    if mode == "any":
        first = _First(fn)
        return MultiHandle(tuple(t.register_hook(first.call) for t in tensors if t.requires_grad))
    edges = [_edge_of(t) for t in tensors]
    gathering = _Gathering([edge.node for edge in edges], fn)
    return MultiHandle(tuple(t.register_hook(functools.partial(gathering.call, i)) for i, t in enumerate(tensors)))


def _edge_of(tensor: Any) -> Edge:
    edge = gradient_edge(tensor)
    if edge.node is None:
        raise AssertionError("Expected gradient function to be set")
    return edge


def _running_task() -> GraphTask:
    task = current_graph_task()
    if task is None:
        raise AssertionError("expected this hook to be called inside a backward call")
    return task


class _First:
    """Passes on the first gradient of each backward."""

    def __init__(self, fn: Callable[[Any], None]) -> None:
        self._fn = fn
        self._lock = threading.Lock()
        self._last_task = -1

    def call(self, grad: Any) -> None:
        task = _running_task()
        with self._lock:
            is_first, self._last_task = self._last_task != task.id, task.id
        if is_first:
            self._fn(grad)


class _Gathering:
    """Gathers the gradients of each backward, and passes them on with the last."""

    def __init__(self, nodes: list[Node | None], fn: Callable[[Any], None]) -> None:
        self._nodes = nodes
        self._fn = fn
        self._lock = threading.Lock()
        self._missing: dict[int, int] = {}
        self._grads: dict[int, list[Any]] = {}

    def call(self, position: int, grad: Any) -> None:
        task = _running_task()
        with self._lock:
            if task.id not in self._missing:
                self._missing[task.id] = _count_executed(task, self._nodes)
                self._grads[task.id] = [None] * len(self._nodes)
            self._missing[task.id] -= 1
            self._grads[task.id][position] = grad
            if self._missing[task.id]:
                return
            del self._missing[task.id]
            grads = self._grads.pop(task.id)
        self._fn(grads)


def _count_executed(task: GraphTask, nodes: list[Node | None]) -> int:
    """How many of the nodes this backward reaches, PyTorch's ``_will_engine_execute_node``."""
    assert task.root is not None
    reached = {task.root, *compute_dependencies(task.root, 0)}
    return sum(node in reached and task.should_execute(node) for node in nodes if node is not None)
