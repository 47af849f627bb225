"""The borders of a reverse-mode transform: inputs that may be differentiated, results that leave.

Owns: ``differentiable``, ``Borders``: which results keep a graph outside.
Must not know: which function is transformed.

A transform differentiates with respect to its own use of an input. If the input belongs to an outer graph, that is an
alias of it, so that the outside may differentiate the result once more; else it is a leaf that nobody else sees. What
leaves keeps its graph if the outside can use it: an input had one, or the function reached a leaf that is not an input
(a parameter it closes over). Otherwise it is detached, and the inner derivative need not be recorded at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.grad_mode import enable_grad, inference_mode
from jitgrad.ops.dispatch_hook import call
from jitgrad.runtime.engine.graph.accumulate_grad import AccumulateGrad
from jitgrad.state import state, switch_handler
from jitgrad.tensor_base import TensorBase
from jitgrad.transforms.batched import BatchedTensor, Batching
from jitgrad.transforms.dual import DualLevel
from jitgrad.transforms.level import Level, active_levels

__all__ = ["Borders", "detached"]


def detached(x: Any) -> Any:
    """``x`` outside every graph, but with the tangents it has: levels are another matter."""
    y = x.detach()
    for one in active_levels():
        if isinstance(one, DualLevel):
            _keep_tangent(one, x, y)
    return y


def _keep_tangent(level: DualLevel, x: Any, y: Any) -> None:
    """A level knows whole batches only: ``x`` and ``y`` may be handles of ``vmap``s that began inside it."""
    tangent = None
    while (tangent := level.tangent(x)) is None and isinstance(x, BatchedTensor):
        x, y = x._physical, y._physical
    if tangent is not None:
        level.attach(y, tangent)


def _mapped(x: Any, levels: Sequence[Level]) -> Any:
    """``x`` as a batch at every level: each example has a gradient of its own, though all share the input."""
    if not levels:
        return x
    here, below = levels[0], levels[1:]
    if not (isinstance(here, Batching) and here.maps_values):
        y = _mapped(x, below)
        if y is not x and isinstance(here, DualLevel) and here.tangent(x) is not None:
            here.attach(y, here.tangent(x))
        return y
    physical = here.beneath(here.physical, x)
    inner = here.beneath(_mapped, physical, below)
    return x if here.concerns(x) and inner is physical else here.wrap(inner)


class Borders:
    """The inputs of one transform, ready to be differentiated.

    Attributes:
        inputs: what the function is given.
        is_open: whether results may keep a graph: gradients outside the transform are enabled.
    """

    def __init__(self, given: Sequence[Any]) -> None:
        self.is_open = state.grad_enabled
        self._has_outer = False
        levels = active_levels()
        self.inputs = [self._differentiable(x, levels) for x in given]

    def _differentiable(self, x: Any, levels: Sequence[Level]) -> Any:
        if not isinstance(x, TensorBase):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
        x = _mapped(x, levels)
        if self.is_open and x.requires_grad:
            self._has_outer = True
            with enable_grad():
                return call("alias", x)
        if x.is_inference():
            with inference_mode(False):  # an inference tensor can take no part in a graph
                return x.clone().requires_grad_()
        return detached(x).requires_grad_()

    def keeps_graph(self, outputs: Sequence[Any]) -> bool:
        """Whether the graph of ``outputs`` is somebody else's too."""
        if not self.is_open:
            return False
        return self._has_outer or _reaches_others(outputs, self.inputs)

    @staticmethod
    def leave(x: Any, keeps_graph: bool) -> Any:
        """A result as the outside gets it."""
        is_tensor = isinstance(x, TensorBase)
        return detached(x) if is_tensor and x.requires_grad and not keeps_graph else x


def _physical(x: Any) -> Any:
    while isinstance(x, BatchedTensor):
        x = x._physical
    return x


def _reaches_others(outputs: Sequence[Any], inputs: Sequence[Any]) -> bool:
    """Whether the graph of ``outputs`` has a leaf that is none of ``inputs``."""
    roots = [_physical(y) for y in outputs]
    roots = [y for y in roots if y._requires_grad]
    own = {id(_physical(x)) for x in inputs}
    levels = active_levels()
    bottom = levels[-1].below if levels else state.handler
    before = switch_handler(bottom)
    try:
        if bottom is not None:
            leaves = bottom.reached_leaves(roots)
            if leaves is not None:
                return any(id(leaf) not in own for leaf in leaves)
        return _walk(roots, own)
    finally:
        switch_handler(before)


def _walk(roots: Sequence[Any], own: set[int]) -> bool:
    nodes = []
    for y in roots:
        node = y.grad_fn
        if node is not None:
            nodes.append(node)
        elif id(y) not in own:
            return True
    seen = set(nodes)
    while nodes:
        node = nodes.pop()
        if isinstance(node, AccumulateGrad) and id(node.variable) not in own:
            return True
        for target, _ in node.next_edges:
            if target is not None and target not in seen:
                seen.add(target)
                nodes.append(target)
    return False
