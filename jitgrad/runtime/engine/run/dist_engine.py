"""``DistEngine``: a backward whose gradients go to a context of their own, and which may cross to another graph.

Owns: ``DistAutogradContext``, the capture hook that fills it, and the pair of nodes between two graphs.
Must not know: networks. Both sides are in this process; a transport would sit where ``RecvRpcBackward`` calls it.
In: roots. Out: gradients by leaf, in the context; no ``.grad`` changes.

PyTorch's distributed autograd, as far as it is the engine's business: leaves are captured, not run, and a
``GradCaptureHook`` hands what arrives there to the context. Several backwards into one context add up. The caller gets
the first error at once (``exit_on_error``): it may be what the other side waits for, and queued work need not drain.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.runtime.engine.graph.accumulate_grad import AccumulateGrad
from jitgrad.runtime.engine.graph.node import Edge, GraphRoot, Node
from jitgrad.runtime.engine.run.engine import Engine, engine
from jitgrad.runtime.engine.run.graph_task import GraphTask, compute_dependencies
from jitgrad.runtime.engine.run.input_buffer import InputBuffer
from jitgrad.state import without_overrides

__all__ = ["DistAccumulateGradCaptureHook", "DistAutogradContext", "DistEngine", "RecvRpcBackward", "SendRpcBackward"]


class DistAutogradContext:
    """The gradients of some backwards, by leaf."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._grads: dict[int, tuple[Any, Any]] = {}

    def accumulate_grad(self, variable: Any, grad: Any) -> None:
        """Add ``grad`` to what ``variable`` has got; None changes nothing."""
        if grad is None:
            return
        with self._lock:
            _, old = self._grads.get(id(variable), (variable, None))
            self._grads[id(variable)] = (variable, grad if old is None else without_overrides(operator.add, old, grad))

    def get_gradients(self) -> dict[Any, Any]:
        """Leaf -> gradient."""
        with self._lock:
            return dict(self._grads.values())


class DistAccumulateGradCaptureHook:
    """Captures into a context instead of ``.grad``, with the accumulator's hooks around it as if it had run.

    Args:
        accumulate_grad: the accumulator whose gradient is captured.
        context: where it goes.
    """

    def __init__(self, accumulate_grad: AccumulateGrad, context: DistAutogradContext) -> None:
        self._node = accumulate_grad
        self._context = context

    def __call__(self, grad: Any) -> Any:
        """Hand on ``grad``, and return what the accumulator's pre-hooks made of it."""
        hooks = self._node.hooks
        grads = [grad]
        if hooks is not None and hooks.pre:
            grads = hooks.run_pre(grads)
        self._context.accumulate_grad(self._node.variable, grads[0])
        if hooks is not None and hooks.post:
            hooks.run_post((), tuple(grads))
        return grads[0]


class SendRpcBackward(Node):
    """Where a backward enters a graph whose results were sent elsewhere: hands on the gradients that came back.

    Args:
        edges: of the tensors that were sent.

    Attributes:
        grads: their gradients, once they have come.
    """

    __slots__ = ("grads",)

    def __init__(self, edges: Sequence[Edge]) -> None:
        super().__init__(tuple(edges))
        self.grads: tuple[Any, ...] = ()

    def apply(self, grad_outputs: list[Any]) -> tuple[Any, ...]:
        return self.grads


class RecvRpcBackward(Node):
    """The end of a graph that began with tensors from elsewhere: sends their gradients back.

    Args:
        avals: of the tensors received.
        send: called with their gradients, None where none arrived.
    """

    __slots__ = ("_send",)

    def __init__(self, avals: Sequence[Any], send: Callable[[tuple[Any, ...]], None]) -> None:
        super().__init__((), tuple(avals))
        self._send = send

    def apply(self, grad_outputs: list[Any]) -> tuple[Any, ...]:
        self._send(tuple(grad_outputs))
        return ()


class DistEngine:
    """Runs backwards into a context.

    Args:
        own_engine: what runs them.
    """

    def __init__(self, own_engine: Engine = engine) -> None:
        self._engine = own_engine

    def execute(
        self, context: DistAutogradContext, roots: Sequence[Edge], grads: Sequence[Any], keep_graph: bool = False
    ) -> None:
        """Accumulate the gradients of ``roots`` into ``context``.

        Args:
            context: receives the leaves' gradients.
            roots: where to start.
            grads: the gradient of each root.
            keep_graph: leave saved values in place, for another backward.

        Raises:
            Whatever a node or a hook raises.
        """
        self._run(context, GraphRoot(tuple(roots), tuple(grads)), keep_graph)

    def execute_send_function(
        self, context: DistAutogradContext, send: SendRpcBackward, grads: Sequence[Any], keep_graph: bool = False
    ) -> None:
        """Go on in the graph of ``send`` with gradients that a ``RecvRpcBackward`` has sent."""
        send.grads = tuple(grads)
        self._run(context, send, keep_graph)

    def _run(self, context: DistAutogradContext, root: Node, keep_graph: bool) -> None:
        task = self._engine.new_graph_task(keep_graph, False, exit_on_error=True)
        self._compute_dependencies(context, task, root)
        if task.should_execute(root):
            self._engine.execute_with_graph_task(task, root, InputBuffer()).value()

    def _compute_dependencies(self, context: DistAutogradContext, task: GraphTask, root: Node) -> None:
        """Run what leads to a leaf or out of this graph; capture at leaves, run what sends gradients elsewhere."""
        task.dependencies = compute_dependencies(root, 0)
        ends = [node for node in task.dependencies if not node.next_edges]
        task.init_to_execute(root, [Edge(node, 0) for node in ends], accumulate_grad=False)
        for node in ends:
            info = task.exec_info[node]
            if isinstance(node, AccumulateGrad):
                for capture in info.captures:
                    capture.hooks.append(DistAccumulateGradCaptureHook(node, context))
            else:
                info.captures.clear()
                info.needed = True
