"""Backward of a graph of plain Nodes: operations of the table and leaves, without hooks, on the CPU.

Owns: ``backward_plainly``: which backwards are plain, and their loop.
Must not know: hooks, Python Functions, devices, other threads' work; a graph that has any goes to ``engine.py``.
In: a tensor and its gradient. Out: ``.grad`` accumulated.

# Note [Plain backward]
# ~~~~~~~~~~~~~~~~~~~~~
# Most backwards outside of compiled steps run a graph that no code of the user can look into: no hooks, no Python
# Functions, no anomaly mode, no trace of the engine. Nobody can see a graph task of such a backward, so there is none:
# its state is in local variables. One pass counts the gradients that each Node waits for, and looks whether every Node
# is plain; if one is not, nothing has happened and the engine takes the graph. The second pass runs the Nodes, in the
# order of ``ready_queue.py``: leaves first, then by falling sequence number, then by arrival. A test runs random graphs
# by this loop and by the engine's, and compares gradients and order.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from jitgrad.cpython.primitives import blank, call_inside, eager_native, is_atomic, refcount
from jitgrad.devices import CPU
from jitgrad.ops.aval import Aval, devices_in_use
from jitgrad.ops.table import RuleContext
from jitgrad.probe import probe
from jitgrad.runtime.eager.quiet import quiet
from jitgrad.runtime.engine.graph.accumulate_grad import AccumulateGrad
from jitgrad.runtime.engine.graph.current import current
from jitgrad.runtime.engine.graph.node import CallNode, Node, OwnedGrads
from jitgrad.runtime.engine.graph.op_node import OpNode, edge_of
from jitgrad.runtime.engine.graph.saved_variable import PackedVariable, packed_in_use
from jitgrad.runtime.engine.graph.validate import check_count, fit
from jitgrad.runtime.engine.run.request import first_gradient
from jitgrad.runtime.engine.run.run_alone import merge
from jitgrad.state import anomaly, engine_watchers, modes_in_use, state
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.recorder_state import RUNNING

__all__ = ["PLAIN", "backward_plainly"]


# --- which graphs are plain ---


class PlainRun:
    """The state of one plain backward.

    Attributes:
        dependencies: gradients still to arrive, per Node.
        waiting: what has arrived so far at Nodes that wait for more.
        heap: Nodes that are ready, as (-sequence number, arrival, Node, its gradients).
        leaves: what arrived at leaves that are ready: a leaf's Node, its gradient, the next one's Node ...
        upcoming: a Node that is ready and not in the heap; None: there is none.
        inputs: its gradients.
        arrival: its place among the Nodes that became ready.
        context: the thread's ``quiet.context``.
        num_ready: how many did.
        thread: the dictionary of ``current``.
        keep_graph: saved values stay in place.
    """

    __slots__ = (
        "arrival", "context", "dependencies", "heap", "inputs", "keep_graph", "leaves", "num_ready", "thread",
        "upcoming", "waiting",
    )  # fmt: skip

    arrival: int
    context: Any
    dependencies: dict[Any, int]
    heap: list[Any]
    inputs: Any
    keep_graph: bool
    leaves: list[Any]
    num_ready: int
    thread: dict[str, Any]
    upcoming: Any
    waiting: dict[Any, Any]


@eager_native
def has_packed(saved: tuple) -> bool:
    """Whether a hook has packed one of the saved values: its other hook is the user's code."""
    for value in saved:  # noqa: SIM110
        if type(value) is PackedVariable:
            return True
    return False


@eager_native
def is_on_cpu(node: Node) -> bool:
    """Whether all gradients that come in are on the CPU."""
    metadata: tuple = node.input_metadata
    for expected in metadata:
        aval: Aval = expected
        if aval.device is not CPU:
            return False
    return True


@eager_native
def is_plain(node: Any) -> bool:
    """Whether a Node is one that this loop can run."""
    if devices_in_use and not is_on_cpu(node):
        return False
    if type(node) is AccumulateGrad:
        end: AccumulateGrad = node
        leaf: TensorBase = end.variable
        return end.hooks is None and not leaf._post_accumulate_hooks
    if not isinstance(node, OpNode):
        return False
    step: OpNode = node
    if step.hooks is not None:
        return False
    if packed_in_use and step.saved is not None:
        return not has_packed(step.saved)
    return True


@eager_native
def count_plain(root: Any, dependencies: dict) -> bool:
    """Count, per Node behind ``root``, the gradients that will arrive; False if a Node is not plain."""
    if not is_plain(root):
        return False
    found: list = []
    found.append(root)
    at = 0
    while at < len(found):
        node: Node = found[at]
        at += 1
        edges: tuple = node.next_edges
        for pair in edges:
            edge: tuple = pair
            target = edge[0]
            if target is not None:
                known = dependencies.get(target)
                if known is not None:
                    dependencies[target] = int(known) + 1
                elif is_plain(target):
                    dependencies[target] = 1
                    if type(target) is not AccumulateGrad:
                        found.append(target)
                else:
                    return False
    return True


# --- the ready Nodes ---


@eager_native
def queue(task: PlainRun, node: Node, grads: Any, arrival: int) -> None:
    """Put a ready Node into the heap."""
    heappush(task.heap, (0 - int(node.sequence_nr), arrival, node, grads))


@eager_native
def make_ready(task: PlainRun, node: Node, grads: Any) -> None:
    """A Node has all of its gradients."""
    arrival = int(task.num_ready)
    task.num_ready = arrival + 1
    if task.upcoming is not None:
        other: Node = task.upcoming
        if int(other.sequence_nr) >= int(node.sequence_nr):
            queue(task, node, grads, arrival)
            return
        queue(task, other, task.inputs, int(task.arrival))
    task.upcoming = node
    task.inputs = grads
    task.arrival = arrival


@eager_native
def choose(task: PlainRun) -> None:
    """Make the Node that runs next the upcoming one: one in the heap may go before it."""
    heap: list = task.heap
    if len(heap) == 0:
        return
    if task.upcoming is not None:
        node: Node = task.upcoming
        first: tuple = heap[0]
        number = 0 - int(node.sequence_nr)
        least = int(first[0])
        if number < least or (number == least and int(task.arrival) < int(first[1])):
            return
        queue(task, node, task.inputs, int(task.arrival))
    entry: tuple = heappop(heap)
    task.arrival = entry[1]
    task.upcoming = entry[2]
    task.inputs = entry[3]


# --- running one ---


@eager_native
def compute(task: PlainRun, node: OpNode, grads: Any) -> Any:
    """The gradients that a Node computes: by a program if there is one for these gradients, else by its rules."""
    context: RuleContext = node.context
    saved = node.saved
    if context.programs_for_all is not None and saved is not None:
        programs: list = context.programs_for_all
        for program in programs:
            made = call_inside(task.context, program, (saved, grads))
            if made is not None:
                return made
    task.thread["node"] = node
    return node.apply(grads)


@eager_native
def send(task: PlainRun, node: OpNode, nr: int, target: Node, input_nr: int, grad: Any) -> None:
    """Give gradient ``nr`` of a Node to the Node that its edge leads to."""
    metadata: tuple = target.input_metadata
    if grad is not None:
        arrived: TensorBase = grad
        if arrived._aval is not metadata[input_nr]:
            grad = fit(node, nr, grad, metadata[input_nr])
    dependencies: dict = task.dependencies
    due: Any = dependencies.get(target)
    missing = int(due) - 1
    dependencies[target] = missing
    waiting: dict = task.waiting
    if missing > 0 or (len(waiting) > 0 and waiting.get(target) is not None):
        complete = merge(waiting, target, input_nr, grad, missing)
        if complete is None:
            return
        sums: list = complete
        if type(target) is AccumulateGrad:
            task.leaves.append(target)
            task.leaves.append(sums[0])
        else:
            make_ready(task, target, complete)
    elif type(target) is AccumulateGrad:
        task.leaves.append(target)
        task.leaves.append(grad)
    else:
        grads: list = []
        for i in range(len(metadata)):
            grads.append(grad if i == input_nr else None)
        make_ready(task, target, grads)


@eager_native
def run_upcoming(task: PlainRun) -> None:
    """Run the upcoming Node and send its gradients on."""
    node: OpNode = task.upcoming
    grads = task.inputs
    task.upcoming = None
    task.inputs = None
    made = compute(task, node, grads)
    outputs: tuple = made
    if task.keep_graph is False and node.saved:
        node.saved = None
    edges: tuple = node.next_edges
    if len(outputs) != len(edges):
        check_count(node, len(outputs), len(edges))
    for nr in range(len(edges)):
        edge: tuple = edges[nr]
        if edge[0] is not None:
            send(task, node, nr, edge[0], int(edge[1]), outputs[nr])


# --- leaves ---


@eager_native
def is_ours(grad: TensorBase, leaf: TensorBase) -> bool:
    """Whether a gradient is laid out as its leaf, in memory that nothing else refers to.

    ``_owns_storage`` of ``accumulate_grad.py`` says the same of all others.
    """
    aval: Aval = grad._aval
    array = grad._array  # holders: the gradient, this variable
    if array is None or aval is not leaf._aval or grad._base is not None or int(aval.offset) != 0:
        return False
    return refcount(array) == 1 and array.base is None


@eager_native
def give_to_leaf(node: AccumulateGrad, grads: list, at: int) -> None:
    """Accumulate gradient ``at`` of a list, and take it out of the list.

    ``AccumulateGrad.apply`` does it where there is more to do than to keep the gradient, where another thread may run
    between two statements, and while one records a call: Note [Threads that share tensors].
    """
    leaf: TensorBase = node.variable
    given: list = []
    given.append(grads[at])
    grads[at] = None
    if is_atomic() and len(RUNNING) == 0 and keeps(leaf, given):
        leaf._grad = given[0]
    else:
        node.apply(given)


@eager_native
def keeps(leaf: TensorBase, given: list) -> bool:
    """Whether a leaf without a gradient takes over the one in a list, as it is."""
    if given[0] is None or leaf._grad is not None or leaf._requires_grad is not True:
        return False
    grad: TensorBase = given[0]  # holders: the list, this variable
    return refcount(grad) == 1 and is_ours(grad, leaf)


@eager_native
def give_to_leaves(leaves: list) -> None:
    """Accumulate what arrived at leaves."""
    at = 0
    while at < len(leaves):
        give_to_leaf(leaves[at], leaves, at + 1)
        at += 2
    leaves.clear()


# --- the whole ---


@eager_native
def run_plain(root: Any, seed: Any, nr: int, keep_graph: bool, context: Any, thread: dict) -> Any:
    """Run the Nodes behind ``root``.

    Args:
        root: no leaf.
        seed: the gradient of its output ``nr``.
        keep_graph: leave saved values in place.
        context, thread: as of ``PlainRun``.

    Returns:
        Whether it did; False: a Node is not plain. None: some Nodes have not got all of their gradients.

    Raises:
        Whatever a rule raises.
    """
    dependencies: dict = {}
    if type(root) is AccumulateGrad or not count_plain(root, dependencies):
        return False
    task: PlainRun = blank(PlainRun)
    task.dependencies = dependencies
    task.waiting = {}
    task.heap = []
    task.leaves = []
    task.num_ready = 0
    task.upcoming = None
    task.keep_graph = keep_graph
    task.context = context
    task.thread = thread
    first: Node = root
    metadata: tuple = first.input_metadata
    grads: list = []
    for i in range(len(metadata)):
        grads.append(seed if i == nr else None)
    make_ready(task, root, grads)
    grads = task.leaves  # the root's gradients are the task's now
    while task.upcoming is not None:
        run_upcoming(task)
        if len(grads) > 0:
            give_to_leaves(grads)
        choose(task)
    return True if len(task.waiting) == 0 else None


# --- the way in ---


class Plain:
    """The loop in the form that is in use."""

    __slots__ = ("run_plain",)

    run_plain: Any

    def __init__(self) -> None:
        self.run_plain = run_plain


PLAIN = Plain()


def backward_plainly(tensor: Any, gradient: Any, keep_graph: bool) -> bool:
    """``tensor.backward(gradient, keep_graph)``, if that is plain, see Note [Plain backward].

    Returns:
        Whether it was, and is done; if not, nothing has happened.

    Raises:
        Whatever a rule raises.
    """
    if not tensor._requires_grad or _is_watched():
        return False
    node: Any
    node, nr = edge_of(tensor)
    seed = first_gradient(tensor) if gradient is None else gradient
    if type(seed) is not type(tensor) or seed._aval is not node.input_metadata[nr]:
        return False
    running, enabled = current.node, state.grad_enabled
    try:
        try:
            if enabled:
                state.grad_enabled = False
            if type(node) is CallNode:
                done = _run_call(node, nr, seed, keep_graph)
            else:
                done = PLAIN.run_plain(node, seed, nr, keep_graph, quiet.context, current.__dict__)
        finally:
            state.grad_enabled = enabled
    finally:  # twice, as Ctrl-C may come between any two statements, also of the ``finally`` before
        state.grad_enabled, current.node = enabled, running
    if done is None:
        raise RuntimeError("could not compute gradients for some functions")
    return bool(done)


def _run_call(node: CallNode, nr: int, seed: Any, keep_graph: bool) -> bool:
    """Run what a compiled call has recorded, if its gradients go to leaves alone: Note [Backward from outside]."""
    edges = node.next_edges
    targets: Any = [target for target, _ in edges]
    if not all([type(t) is AccumulateGrad and t.hooks is None for t in targets]) or len(set(targets)) < len(targets):
        return False
    if RUNNING or node.hooks is not None or node.graph.must_open(node.known, {nr}):
        return False
    grads: list[Any] = [None] * len(node.input_metadata)
    grads[nr] = seed
    current.node = node
    results: Any = node.apply(grads)
    if not keep_graph:
        node.release_variables()
    are_owned, results = type(results) is OwnedGrads, list(results)
    for index, target in enumerate(targets):
        grad, results[index] = results[index], None
        if grad is None:
            continue
        leaf, expected = target.variable, target.input_metadata[0]
        if grad._aval is not expected:
            grad = fit(node, index, grad, expected)
        elif are_owned and leaf._requires_grad and not leaf._post_accumulate_hooks:
            with target._lock:
                if leaf._grad is None:
                    leaf._grad = grad
                    continue
        given, grad = [grad], None  # who accumulates takes a gradient that nobody else refers to
        current.node = target
        target.apply(given)
    return True


def _is_watched() -> bool:
    """Whether something wants to see what a backward does, or changes what it does."""
    return bool(
        anomaly.enabled
        or engine_watchers
        or modes_in_use
        or probe.session is not None
        or current.graph_task is not None
    )
