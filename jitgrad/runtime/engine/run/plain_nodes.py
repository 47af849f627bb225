"""Which Nodes a backward of plain Nodes reaches, and how many gradients each of them will get.

Owns: what makes a Node plain, and the first pass of Note [Plain backward].
Must not know: how the Nodes are run (``plain_graph.py``).
In: a root, and the edges whose gradients are asked for. Out: counts per Node.
"""

from __future__ import annotations

from typing import Any

from jitgrad.cpython.primitives import eager_native
from jitgrad.devices import CPU
from jitgrad.ops.aval import Aval, devices_in_use
from jitgrad.runtime.engine.graph.accumulate_grad import AccumulateGrad
from jitgrad.runtime.engine.graph.call_node import CallNode, CallOutline
from jitgrad.runtime.engine.graph.node import Node
from jitgrad.runtime.engine.graph.op_node import OpNode
from jitgrad.runtime.engine.graph.py_node import PyNode
from jitgrad.runtime.engine.graph.saved_variable import PackedVariable, packed_in_use
from jitgrad.runtime.engine.run.call_runs import is_plain_call
from jitgrad.tensor_base import TensorBase

__all__ = ["count_plain", "find_senders", "find_wanted"]


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
def is_users(node: Any) -> bool:
    """Whether a Node is one that this loop can run though the user's code has a part in it: a custom Function's, or one
    with hooks."""
    if devices_in_use and not is_on_cpu(node):
        return False
    if isinstance(node, OpNode):
        return True
    return isinstance(node, PyNode) or type(node) is AccumulateGrad


@eager_native
def note_arrival(arrivals: dict, calls: list, node: Any, nr: int) -> None:
    """Note that a compiled call gets a gradient of its result ``nr``, if that does not lead to all of its edges.

    Args:
        arrivals: per such call, which of its results have gradients.
        calls: these calls.
    """
    call: CallNode = node
    outline: CallOutline = call.known
    if outline.is_covered:
        return
    known = arrivals.get(node)
    if known is None:
        none: list = []
        metadata: tuple = outline.metadata
        for _ in range(len(metadata)):
            none.append(False)
        arrivals[node] = none
        calls.append(node)
        known = none
    flags: list = known
    flags[nr] = True


@eager_native
def end_in_leaves(arrivals: dict, calls: list) -> bool:
    """Whether the edges of calls that get no gradient lead to leaves: these get None, and stay as they are."""
    for item in calls:
        call: CallNode = item
        outline: Any = call.known
        if outline.leads_on(tuple(arrivals[item])):
            return False
    return True


@eager_native
def count_plain(root: Any, root_nr: int, dependencies: dict, users: list) -> bool:
    """Count, per Node behind output ``root_nr`` of ``root``, the gradients that will arrive; False if one is not plain.

    Nor is it plain if only some of a call's results have gradients, and a graph behind the call needs the others; a
    hook of a leaf there would be called for nothing.

    Args:
        users: gets the Nodes that are not plain, but that this loop can run.
    """
    if not (is_plain(root) or is_plain_call(root)):
        if not is_users(root):
            return False
        users.append(root)
    arrivals: dict = {}
    calls: list = []
    if type(root) is CallNode:
        note_arrival(arrivals, calls, root, root_nr)
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
                if type(target) is CallNode:
                    note_arrival(arrivals, calls, target, int(edge[1]))
                if known is not None:
                    dependencies[target] = int(known) + 1
                elif is_plain(target) or is_plain_call(target):
                    dependencies[target] = 1
                    if type(target) is not AccumulateGrad:
                        found.append(target)
                elif is_users(target):
                    dependencies[target] = 1
                    users.append(target)
                    if type(target) is not AccumulateGrad:
                        found.append(target)
                else:
                    return False
    if len(calls) == 0:
        return True
    return len(users) == 0 and end_in_leaves(arrivals, calls)


@eager_native
def find_senders(root: Any, least: int, senders: dict) -> bool:
    """Note for each Node behind ``root`` which Nodes send to it, once per edge; False if a Node is not plain.

    Nodes below ``least``, a ``topological_nr``, are noted where an edge reaches them, but not looked behind.
    """
    if not is_plain(root):
        return False
    none: list = []
    senders[root] = none
    found: list = []
    found.append(root)
    at = 0
    while at < len(found):
        node: Node = found[at]
        at += 1
        edges: tuple = node.next_edges
        for pair in edges:
            edge: tuple = pair
            if edge[0] is not None:
                target: Node = edge[0]
                known = senders.get(target)
                if known is not None:
                    others: list = known
                    others.append(node)
                elif is_plain(target):
                    first: list = []
                    first.append(node)
                    senders[target] = first
                    if int(target.topological_nr) >= least:
                        found.append(target)
                else:
                    return False
    return True


@eager_native
def find_wanted(senders: dict, outputs: tuple, accumulate: bool, captures: dict, dependencies: dict) -> dict:
    """Find the Nodes on the paths to ``outputs``, Note [Exec info].

    Args:
        senders: as ``find_senders`` notes them.
        outputs: edges.
        accumulate: the Nodes of ``outputs`` are to run; else their gradients are to be captured.
        captures: gets, per Node with gradients to capture, the number of one and its place among ``outputs`` in turn.
        dependencies: gets, per Node found, the gradients that will arrive.

    Returns:
        The Nodes, and whether they run.
    """
    wanted: dict = {}
    found: list = []
    for nr in range(len(outputs)):
        edge: tuple = outputs[nr]
        node = edge[0]
        if senders.get(node) is not None:
            if wanted.get(node) is None:
                wanted[node] = accumulate
                found.append(node)
            if not accumulate:
                known = captures.get(node)
                if known is None:
                    first: list = []
                    captures[node] = first
                    known = first
                places: list = known
                places.append(edge[1])
                places.append(nr)
    at = 0
    while at < len(found):
        target = found[at]
        at += 1
        noted: list = senders.get(target)
        dependencies[target] = len(noted)
        for sender in noted:
            if wanted.get(sender) is None:
                found.append(sender)
            wanted[sender] = True
    return wanted
