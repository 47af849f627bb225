"""Backward of a graph of plain Nodes: operations, compiled calls and leaves, on the CPU; and of custom Functions.

Owns: ``backward_plainly``, ``run_request``: which backwards are plain, and their loop.
Must not know: devices, other threads' work, nested backwards; a graph that has any goes to ``engine.py``.
In: a tensor and its gradient. Out: ``.grad`` accumulated, or gradients captured.

# Note [Plain backward]
# ~~~~~~~~~~~~~~~~~~~~~
# Most backwards outside of compiled steps run a graph that no code of the user can look into: no hooks, no Python
# Functions, no anomaly mode, no trace of the engine. Nobody can see a graph task of such a backward, so there is none:
# its state is in local variables. One pass counts the gradients that each Node waits for, and looks whether every Node
# is plain (``plain_nodes.py``); if one is not, nothing has happened and the engine takes the graph. The second pass
# runs the Nodes, in the order of ``ready_queue.py``: leaves first, then by falling sequence number, then by arrival. A
# test runs random graphs by this loop and by the engine's, and compares gradients and order.
#
# Custom Functions and hooks are the user's code, which may ask for the graph task (to queue a callback, or by a nested
# backward) and give hooks to Nodes that have not run. A backward of everything runs such Nodes, too: it lets
# ``current`` have a graph task (``show_task``), and looks at each Node's hooks when its turn comes. Nested backwards
# are the engine's.
#
# ``grad()`` and ``backward(inputs=)`` run the Nodes on a path to an input alone, see Note [Exec info]. ``wanted`` has
# those: the first pass notes which Nodes send to each Node, and then goes up from the inputs. A rule that asks which of
# its gradients are wanted finds ``wanted`` in ``current``. With ``create_graph`` the rules run with grad mode on.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from jitgrad.cpython.primitives import blank, call_inside, eager_native, is_atomic, refcount, take_out
from jitgrad.grad_mode import set_grad_mode
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import RuleContext
from jitgrad.probe import probe
from jitgrad.runtime.eager.direct import tick
from jitgrad.runtime.eager.quiet import quiet
from jitgrad.runtime.engine.graph.accumulate_grad import AccumulateGrad
from jitgrad.runtime.engine.graph.call_node import CallNode
from jitgrad.runtime.engine.graph.current import CPU_DEVICE, NO_DEVICE, current
from jitgrad.runtime.engine.graph.node import Edge, Node, call_node, name_of
from jitgrad.runtime.engine.graph.op_node import OpNode, edge_of, edges_asked, release
from jitgrad.runtime.engine.graph.py_node import PyNode
from jitgrad.runtime.engine.graph.validate import check_count
from jitgrad.runtime.engine.run.call_runs import run_call
from jitgrad.runtime.engine.run.engine import engine
from jitgrad.runtime.engine.run.graph_task import GraphTask, compute_min_topological_nr
from jitgrad.runtime.engine.run.partial_sums import PlainRun, fitting, merge_sums
from jitgrad.runtime.engine.run.plain_nodes import count_plain, find_senders, find_wanted
from jitgrad.runtime.engine.run.request import BackwardRequest, check_used, first_gradient, output_edge
from jitgrad.state import anomaly, engine_watchers, modes_in_use, state
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.recording.recorder_state import RUNNING

__all__ = ["PLAIN", "PYTHONS_FORM", "backward_plainly", "run_request"]


# --- the ready Nodes ---


@eager_native
def queue(task: PlainRun, node: Node, grads: Any, arrival: int) -> None:
    """Put a ready Node into the heap."""
    heappush(task.heap, (0 - int(node.sequence_nr), arrival, node, grads))


@eager_native
def count_outstanding(task: PlainRun, change: int) -> None:
    """Let the graph task that is shown have as many outstanding tasks as the engine's would."""
    if task.shown is not None:
        shown: GraphTask = task.shown
        outstanding: int = shown.outstanding_tasks
        shown.outstanding_tasks = outstanding + change


@eager_native
def make_ready(task: PlainRun, node: Node, grads: Any) -> None:
    """A Node has all of its gradients."""
    count_outstanding(task, 1)
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
    if context.programs_by_asked is not None and saved is not None and not task.create_graph:
        by_asked: dict = context.programs_by_asked
        known = by_asked.get(edges_asked(node, task.wanted))
        if known is not None:
            programs: list = known
            for program in programs:
                made = call_inside(task.context, program, (saved, grads))
                if made is not None:
                    return made
    task.thread["node"] = node
    return node.apply(grads)


@eager_native
def compute_call(task: PlainRun, node: CallNode, grads: Any) -> Any:
    """The gradients that a compiled call computes; what it has saved is released if the graph is not retained."""
    made = run_call(task, node, grads)
    if made is not None:
        return made
    task.thread["node"] = node
    made = _apply(node, grads)
    if task.keep_graph is False:
        node.release_variables()
    return made


def _apply(node: CallNode, grads: Any) -> tuple[Any, ...]:
    return tuple(node.apply(grads))


@eager_native
def add_leaf(task: PlainRun, node: Node, grad: Any) -> None:
    """A leaf has its gradient."""
    count_outstanding(task, 1)
    task.leaves.append(node)
    task.leaves.append(grad)


def refuse_arrival(target: Node) -> None:
    """A gradient arrives that nobody has counted: the user's code has changed the graph task.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(f"dependency not found for {name_of(target)}")


@eager_native
def send(task: PlainRun, node: Node, nr: int, target: Node, input_nr: int, grad: Any, is_own: bool) -> None:
    """Give gradient ``nr`` of a Node to the Node that its edge leads to, if that is wanted.

    ``is_own``: nobody else knows the gradient.
    """
    if task.wanted is not None:
        wanted: dict = task.wanted
        if wanted.get(target) is None:
            return
    metadata: tuple = target.input_metadata
    if grad is not None:
        grad = fitting(node, nr, grad, metadata[input_nr])
    dependencies: dict = task.dependencies
    due: Any = dependencies.get(target)
    if due is None:
        refuse_arrival(target)
    missing = int(due) - 1
    if missing > 0:
        dependencies[target] = missing
    else:
        take_out(dependencies, target)
    waiting: dict = task.waiting
    if missing > 0 or (len(waiting) > 0 and waiting.get(target) is not None):
        complete = merge_sums(task, target, input_nr, grad, missing, is_own)
        if complete is None:
            return
        sums: list = complete
        if type(target) is AccumulateGrad:
            add_leaf(task, target, sums[0])
        else:
            make_ready(task, target, complete)
    elif type(target) is AccumulateGrad:
        add_leaf(task, target, grad)
    else:
        grads: list = []
        for i in range(len(metadata)):
            grads.append(grad if i == input_nr else None)
        make_ready(task, target, grads)


@eager_native
def take(task: PlainRun, node: Node, grads: list) -> bool:
    """Capture what is asked for of a Node's gradients; returns whether the Node runs, too."""
    known = task.captures.get(node)
    if known is not None:
        captured: list = task.captured
        places: list = known
        at = 0
        while at < len(places):
            captured[int(places[at + 1])] = grads[int(places[at])]
            at += 2
    wanted: dict = task.wanted
    return wanted.get(node) is True


@eager_native
def run_upcoming(task: PlainRun) -> None:
    """Run the upcoming Node and send its gradients on."""
    upcoming = task.upcoming
    node: Node = upcoming
    grads = task.inputs
    task.upcoming = None
    task.inputs = None
    if task.wanted is not None and not take(task, node, grads):
        return
    made: Any = None
    sources: Any = None
    if task.shown is not None and (node.hooks is not None or isinstance(upcoming, PyNode)):
        task.thread["node"] = upcoming
        made = run_users(upcoming, grads, task.keep_graph)
    elif type(node) is CallNode:
        task.sources = None
        made = compute_call(task, upcoming, grads)
        sources = task.sources
    else:
        made = compute(task, upcoming, grads)
        if task.keep_graph is False:
            release(upcoming)
    outputs: tuple = made
    edges: tuple = node.next_edges
    if len(outputs) != len(edges):
        check_count(node, len(outputs), len(edges))
    for nr in range(len(edges)):
        edge: tuple = edges[nr]
        if edge[0] is not None:
            send(task, node, nr, edge[0], int(edge[1]), outputs[nr], is_made(sources, nr))


@eager_native
def is_made(sources: Any, nr: int) -> bool:
    """Whether a call's program has made the gradient of an edge; ``sources`` as of ``PlainRun``."""
    if sources is None:
        return False
    places: tuple = sources
    return int(places[nr]) >= 0


def run_users(node: Node, grads: Any, keep_graph: bool) -> Any:
    """The gradients of a Node that is a custom Function's, or has hooks, which others may have given it meanwhile."""
    hooks: Any = node.hooks
    if hooks is None:
        outputs = node.apply(grads)
    else:
        hooks.run_tensor_pre(grads)
        outputs = call_node(node, grads)
        if state.grad_enabled:
            set_grad_mode(False)  # a hook changed it; the other nodes are to have theirs
    if not keep_graph:
        node.release_variables()
    return outputs if type(outputs) is tuple else tuple(outputs)


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
def give_to_leaf(task: PlainRun, node: AccumulateGrad, grads: list, at: int) -> None:
    """Accumulate gradient ``at`` of a list, and take it out of the list.

    ``AccumulateGrad.apply`` does it where there is more to do than to keep the gradient, where another thread may run
    between two statements, and while one records a call: Note [Threads that share tensors].
    """
    leaf: TensorBase = node.variable
    given: list = []
    given.append(grads[at])
    grads[at] = None
    if task.wanted is not None and not take(task, node, given):
        return
    if task.shown is not None:
        task.thread["node"] = node
    if task.shown is not None and node.hooks is not None:
        run_users(node, given, True)
    elif is_atomic() and not task.create_graph and len(RUNNING) == 0 and keeps(leaf, given):
        leaf._grad = given[0]
    else:
        node.apply(given)


@eager_native
def keeps(leaf: TensorBase, given: list) -> bool:
    """Whether a leaf without a gradient takes over the one in a list, as it is."""
    if given[0] is None or leaf._grad is not None or leaf._requires_grad is not True or leaf._post_accumulate_hooks:
        return False
    grad: TensorBase = given[0]  # holders: the list, this variable
    return refcount(grad) == 1 and is_ours(grad, leaf)


@eager_native
def give_to_leaves(task: PlainRun, leaves: list) -> None:
    """Accumulate what arrived at leaves."""
    at = 0
    while at < len(leaves):
        give_to_leaf(task, leaves[at], leaves, at + 1)
        count_outstanding(task, -1)
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
    users: list = []
    if type(root) is AccumulateGrad or not count_plain(root, nr, dependencies, users):
        return False
    task: PlainRun = blank(PlainRun)
    begin(task, keep_graph, context, thread)
    task.dependencies = dependencies
    if len(users) > 0:
        task.shown = show_task(task, root)
        if task.shown is None:
            return False
    return run_all(task, root, seed, nr)


@eager_native
def run_wanted(
    root: Any, seed: Any, nr: int, keep_graph: bool, create_graph: bool, outputs: tuple, accumulate: bool, least: int,
    captured: list, context: Any, thread: dict,
) -> Any:  # fmt: skip
    """Run the Nodes between ``root`` and the edges ``outputs``.

    Args:
        root, seed, nr, keep_graph, context, thread: as of ``run_plain``.
        create_graph: leave grad mode on for the rules; the caller has switched it.
        accumulate: run the Nodes of ``outputs``; else capture what arrives there.
        least: the least ``topological_nr`` of these Nodes.
        captured: gets the gradients; has None for each output.

    Returns:
        As ``run_plain``.

    Raises:
        Whatever a rule raises.
    """
    senders: dict = {}
    if type(root) is AccumulateGrad or not find_senders(root, least, senders):
        return False
    task: PlainRun = blank(PlainRun)
    begin(task, keep_graph, context, thread)
    task.dependencies = {}
    task.create_graph = create_graph
    captures: dict = {}
    task.captures = captures
    wanted: dict = find_wanted(senders, outputs, accumulate, captures, task.dependencies)
    task.wanted = wanted
    if wanted.get(root) is None:
        return True
    task.captured = captured
    thread["wanted"] = wanted
    return run_all(task, root, seed, nr)


@eager_native
def begin(task: PlainRun, keep_graph: bool, context: Any, thread: dict) -> None:
    """Fill the state of a backward that runs everything and that is not part of the graph."""
    task.waiting = {}
    task.heap = []
    task.leaves = []
    task.num_ready = 0
    task.upcoming = None
    task.keep_graph = keep_graph
    task.context = context
    task.thread = thread
    task.wanted = None
    task.create_graph = False
    task.shown = None


@eager_native
def run_all(task: PlainRun, root: Any, seed: Any, nr: int) -> Any:
    """Run the Nodes that are counted; returns as ``run_plain``."""
    first: Node = root
    metadata: tuple = first.input_metadata
    grads: list = []
    for i in range(len(metadata)):
        grads.append(seed if i == nr else None)
    make_ready(task, root, grads)
    grads = task.leaves  # the root's gradients are the task's now
    while task.upcoming is not None:
        run_upcoming(task)
        count_outstanding(task, -1)
        if len(grads) > 0:
            give_to_leaves(task, grads)
        choose(task)
    return True if len(task.waiting) == 0 else None


# --- the way in ---


def show_task(run: PlainRun, root: Any) -> Any:
    """Let the user's code find a graph task in ``current``, Note [Plain backward]; None where the engine must run."""
    if current.worker_device != NO_DEVICE:
        return None
    task = engine.new_graph_task(run.keep_graph, False)
    task.root, task.owner, task.is_alone = root, CPU_DEVICE, True
    task.dependencies, task.not_ready = run.dependencies, run.waiting
    current.graph_task, current.worker_device = task, CPU_DEVICE
    return task


PYTHONS_FORM: dict[str, Any] = {"edge_of": edge_of, "run_plain": run_plain, "run_wanted": run_wanted}


class Plain:
    """The loop, and the way to a root's Node, in the form that is in use."""

    __slots__ = ("edge_of", "run_plain", "run_wanted")

    edge_of: Any
    run_plain: Any
    run_wanted: Any

    def __init__(self) -> None:
        self.use(PYTHONS_FORM)

    def use(self, functions: dict[str, Any]) -> None:
        """Put these forms in use."""
        self.edge_of = functions["edge_of"]
        self.run_plain, self.run_wanted = functions["run_plain"], functions["run_wanted"]


PLAIN = Plain()

_LIKE = 4
"""Python's form of a backward costs at least as much more as that of so many operations."""


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
    node, nr = PLAIN.edge_of(tensor)
    seed = first_gradient(tensor) if gradient is None else gradient
    if type(seed) is not type(tensor) or not _takes(node.input_metadata[nr], seed._aval):
        return False
    running, device, enabled = current.node, current.worker_device, state.grad_enabled
    overrides_off = state.overrides_off
    try:
        try:
            if enabled:
                state.grad_enabled = False
            if PLAIN.run_plain is run_plain:
                tick(_LIKE)
            done = PLAIN.run_plain(node, seed, nr, keep_graph, quiet.context, current.__dict__)
            if done and current.graph_task is not None:
                _finish(current.graph_task, running)
        finally:
            state.grad_enabled, current.graph_task, current.worker_device = enabled, None, device
    finally:  # twice, as Ctrl-C may come between any two statements, also of the ``finally`` before
        current.graph_task, current.worker_device, current.node, state.grad_enabled = None, device, running, enabled
        state.overrides_off = overrides_off
    if done is None:
        raise RuntimeError("could not compute gradients for some functions")
    return bool(done)


def _finish(task: GraphTask, running: Any) -> None:
    """Run the callbacks that the user's code has queued, and raise what they raise."""
    current.node = running
    if task.final_callbacks:
        task.mark_as_completed_and_run_post_processing()
        task.future_result.value()
    else:
        task.future_result.mark_completed([])


def run_request(request: BackwardRequest) -> tuple[Any, ...] | None:
    """``execute_request``, if that is plain and restricted to some inputs; None: it is not, and nothing has happened.

    Raises:
        RuntimeError: as ``execute_request``.
        Whatever a rule raises.
    """
    if not request.inputs or len(request.roots) != 1 or _is_watched():
        return None
    root, seed = request.roots[0], request.grads[0]
    if isinstance(root, Edge) or not root._requires_grad:
        return None
    node, nr = PLAIN.edge_of(root)
    if seed is None:
        seed = first_gradient(root)
    if not isinstance(node, OpNode) or type(seed) is not type(root) or not _takes(node.input_metadata[nr], seed._aval):
        return None
    outputs = tuple([output_edge(x, request.accumulate) for x in request.inputs])
    captured: list[Any] = [] if request.accumulate else [None] * len(outputs)
    least = compute_min_topological_nr(outputs)
    keeps = request.keep_graph, request.create_graph
    args = node, seed, nr, *keeps, outputs, request.accumulate, least, captured, quiet.context, current.__dict__
    seed = None
    running, enabled, overrides_off = current.node, state.grad_enabled, state.overrides_off
    try:
        try:
            state.grad_enabled = request.create_graph
            done = PLAIN.run_wanted(*args)
        finally:
            current.wanted, state.grad_enabled = None, enabled
    finally:  # twice, as above
        current.wanted, state.grad_enabled, current.node = None, enabled, running
        state.overrides_off = overrides_off
    if done is None:
        raise RuntimeError("could not compute gradients for some functions")
    if not done:
        return None
    if not request.accumulate and not request.allow_unused:
        check_used(captured)
    return tuple(captured)


def _takes(expected: Aval, seed: Aval) -> bool:
    """Whether a gradient may begin as it is: strides may differ, as those of a view do from those of its gradient."""
    is_alike = seed.shape == expected.shape and seed.dtype is expected.dtype and seed.device is expected.device
    return seed is expected or is_alike


def _is_watched() -> bool:
    """Whether something wants to see what a backward does, or changes what it does."""
    return bool(
        anomaly.enabled
        or engine_watchers
        or modes_in_use
        or probe.session is not None
        or current.graph_task is not None
        or current.wanted is not None
    )
