"""The backward of a compiled call as a step of a plain backward: one native step, from gradients to gradients.

Owns: ``is_plain_call``: which calls can be run so; ``run_call``.
Must not know: how the step was made (``compiled/backward/from_outside.py``).

See Note [Backward from outside]. Native code and Python run the same functions, Note [Eager in native code].
"""

from __future__ import annotations

from typing import Any

from jitgrad.abi import RunRecord
from jitgrad.config import config
from jitgrad.cpython.arrays import ARRAY_DATA
from jitgrad.cpython.primitives import (
    eager_apart,
    eager_native,
    is_atomic,
    poke,
    take_out,
    thread_dict,
    word_at,
)
from jitgrad.events import NATIVE_BACKWARDS, bump
from jitgrad.ops.aval import Aval
from jitgrad.probe import probe
from jitgrad.runtime.eager.kernel_runs import fits, new_array, put, record_of, run_record
from jitgrad.runtime.engine.graph.call_node import CallNode, CallOutline, CallProgram, is_unlooked
from jitgrad.runtime.engine.run.partial_sums import PartialSums, PlainRun
from jitgrad.runtime.native.executor import LoadedStep
from jitgrad.state import state
from jitgrad.storage_base import StorageBase
from jitgrad.tensor_base import TensorBase, new_result
from jitgrad.tracer.recording.call_graph import CallGraph
from jitgrad.tracer.recording.trie import Trie
from jitgrad.version_counter import VERSION

__all__ = ["is_plain_call", "run_call"]

_FIRST_RESULT = frozenset({0})
@eager_native
def is_as_it_was(graph: CallGraph) -> bool:
    """Whether nobody has written, or given other memory to, what a call has met since it was over."""
    noted: list[Any] = graph.noted
    at = 0
    while at < len(noted):
        counter: list[Any] = noted[at + 1]
        if int(counter[VERSION]) != int(noted[at + 2]):
            return False
        at += 3
    entered: list[Any] = graph.entered
    at = 0
    while at < len(entered):
        x: TensorBase = entered[at]
        if x._storage is not entered[at + 1]:
            return False
        at += 3
    return True


@eager_apart
def is_plain_call(node: Any) -> bool:
    """Whether a node is that of a call whose gradients a program computes."""
    if type(node) is not CallNode:
        return False
    call: CallNode = node
    graph: CallGraph = call.graph
    outline: CallOutline = call.known
    if call.hooks is not None or probe.hand_tasks is not None:
        return False
    thread: dict[str, Any] = thread_dict(state)
    depth = thread.get("eager_depth")
    if thread.get("handler") is not None or config.eager is True or (depth is not None and int(depth) != 0):
        return False
    if is_unlooked(graph):
        return not graph.detached and is_as_it_was(graph)
    if not outline.is_covered:
        return False
    general: Any = graph  # a call that no hit has closed: its batch norm has written, say
    return not general.must_open(outline, _FIRST_RESULT)


@eager_native
def fits_program(program: CallProgram, grads: list[Any]) -> bool:
    """Whether these are gradients of the layouts that a program is for."""
    avals = program.avals
    for nr in range(len(avals)):
        if grads[nr] is None:
            if avals[nr] is not None:
                return False
        else:
            grad: TensorBase = grads[nr]
            if grad._aval is not avals[nr] or grad.is_sparse:
                return False
    return True


@eager_native
def program_of(outline: CallOutline, grads: list[Any]) -> Any:
    """The program for some gradients, or None."""
    programs: list[Any] = outline.programs
    for item in programs:
        program: CallProgram = item
        if fits_program(program, grads):
            return item
    return None


@eager_native
def address_of(x: TensorBase) -> int:
    """Of the memory in which a tensor lies."""
    array = x._array
    aval: Aval = x._aval
    if array is not None and int(aval.offset) == 0 and array.base is None:
        return word_at(id(array) + ARRAY_DATA)
    storage: StorageBase = x._storage
    return int(storage.addr)


@eager_native
def address_kept(graph: CallGraph, place: int, vid: Any) -> int:
    """Where a value lies that a call has kept; 0: it is not where it is looked for."""
    found: Any = None
    if place >= 0:
        entered: list[Any] = graph.entered
        if place + 2 < len(entered) and entered[place + 2] is vid:
            found = entered[place + 1]
    else:
        if graph.room is not None:
            parts: dict[Any, Any] = graph.parts
            first = parts.get(vid)
            if first is not None:
                room: StorageBase = graph.room
                return int(room.addr) + int(first)
        table: dict[Any, Any] = graph.table
        found = table.get(vid)
    if found is None:
        return 0
    storage: StorageBase = found
    return int(storage.addr)


@eager_native
def fill(graph: CallGraph, program: CallProgram, grads: list[Any], bufs: int) -> bool:
    """Write the addresses that a program reads into a record; False: something is not where it is looked for."""
    own: tuple[Any, ...] = program.own
    at = 0
    while at < len(own):
        address = address_kept(graph, int(own[at + 1]), own[at + 2])
        if address == 0:
            return False
        poke(bufs, int(own[at]), address)
        at += 3
    seeds: tuple[Any, ...] = program.seeds
    at = 0
    while at < len(seeds):
        poke(bufs, int(seeds[at]), address_of(grads[int(seeds[at + 1])]))
        at += 2
    consts: tuple[Any, ...] = program.consts
    at = 0
    while at < len(consts):
        poke(bufs, int(consts[at]), int(consts[at + 1]))
        at += 2
    return True


@eager_native
def put_numbers(graph: CallGraph, step: LoadedStep, program: CallProgram, bufs: int, word: int) -> bool:
    """Write a call's numbers into a record; False: one fits in no word."""
    kinds: tuple[Any, ...] = step.are_floats
    slots: tuple[Any, ...] = program.slots
    numbers: list[Any] = graph.numbers
    for i in range(len(slots)):
        number = numbers[int(slots[i])]
        if not fits(number, kinds[i]):
            return False
        put(bufs, word + i, number, kinds[i])
    return True


@eager_native
def count_backward(is_summed: bool) -> None:
    """Count a backward that was run as a program; ``is_summed``: it has added to sums."""
    if not is_atomic():
        bump("outside_backwards")
        if is_summed:
            bump("summed_backwards")
        return
    counts: list[int] = NATIVE_BACKWARDS
    counts[0] = int(counts[0]) + 1
    if is_summed:
        counts[1] = int(counts[1]) + 1


@eager_native
def free_in_room(graph: CallGraph, program: CallProgram, table: dict[Any, Any]) -> None:
    """Let go of saved values that nothing asks for, and of the room once all in it are such, Note [Rooms]."""
    parts: dict[Any, Any] = graph.parts
    count = 0
    for vid in program.freed:
        if vid in parts:
            count += 1
        else:
            take_out(table, vid)
    if count == len(parts):
        graph.room = None


@eager_native
def use_up(graph: CallGraph, program: CallProgram) -> None:
    """``CallGraph.use_up`` after a program."""
    graph.used = program.used
    table: dict[Any, Any] = graph.table
    if graph.room is None:
        for vid in program.freed:
            take_out(table, vid)
    else:
        free_in_room(graph, program, table)
    entered: list[Any] = graph.entered
    for item in program.drops:
        place = int(item)
        x: TensorBase = entered[place]
        if not x._requires_grad:
            entered[place] = None
            entered[place + 1] = None


@eager_native
def sum_at(task: PlainRun, node: CallNode, program: CallProgram, nr: int) -> Any:
    """The sum that the gradient of an edge is to be added to, a tensor; None: there is none, or somebody knows it."""
    edges: tuple[Any, ...] = node.next_edges
    edge: tuple[Any, ...] = edges[nr]
    waiting: dict[Any, Any] = task.waiting
    known = waiting.get(edge[0])
    if known is None:
        return None
    sums: PartialSums = known
    place = int(edge[1])
    if sums.owned[place] is not True or sums.grads[place] is None:
        return None
    found: TensorBase = sums.grads[place]
    sources: tuple[Any, ...] = program.sources
    made_avals: tuple[Any, ...] = program.made_avals
    is_alike = found._array is not None and found._aval is made_avals[int(sources[nr])]
    return found if is_alike else None


@eager_native
def adding_form(task: PlainRun, node: CallNode, program: CallProgram) -> Any:
    """The form of a program that adds to the sums at the leaves, Note [Sums of calls]; None: it cannot be used here."""
    addends: tuple[Any, ...] = program.addends
    if len(addends) == 0 or len(task.waiting) == 0:
        return None
    for nr in addends:
        if sum_at(task, node, program, int(nr)) is None:
            return None
    if program.adding is None and program.make_adding is not None:
        patience = int(program.patience) - 1
        program.patience = patience
        if patience <= 0:
            make = program.make_adding
            program.make_adding = None
            make(program)
    return program.adding


@eager_native
def put_sums(task: PlainRun, node: CallNode, program: CallProgram, adding: CallProgram, bufs: int) -> None:
    """Write the addresses of the sums that a program adds to into a record."""
    sums: tuple[Any, ...] = adding.sums
    at = 0
    while at < len(sums):
        found: TensorBase = sum_at(task, node, program, int(sums[at + 1]))
        poke(bufs, int(sums[at]), word_at(id(found._array) + ARRAY_DATA))
        at += 2


@eager_apart
def run_call(task: PlainRun, node: CallNode, grads: list[Any]) -> Any:
    """The gradients of a ``CallNode``'s edges; None: ``CallNode.apply`` is to compute them, nothing has happened.

    ``task.sources`` tells which of them nobody else knows.
    """
    graph: CallGraph = node.graph
    found = program_of(node.known, grads)
    if found is None:
        return None
    program: CallProgram = found
    if not is_unlooked(graph) or not is_as_it_was(graph):
        return None
    summed: CallProgram = program
    adding = adding_form(task, node, program)
    if adding is not None:
        program = adding
    step: LoadedStep = program.step
    if not step.is_quick:
        return None
    made: list[Any] = []
    for make in program.makes:
        made.append(new_array(make))
    record: RunRecord = record_of(step)
    bufs: int = record.bufs_addr
    word = int(program.first_output)
    if not fill(graph, program, grads, bufs) or not put_numbers(graph, step, program, bufs, word + len(made) + 1):
        step.idle.append(record)
        return None
    for array in made:
        poke(bufs, word, word_at(id(array) + ARRAY_DATA))
        word += 1
    if adding is not None:
        put_sums(task, node, summed, program, bufs)
    if not run_record(step, record):
        return None
    count_backward(adding is not None)
    trie: Trie = graph.trie
    opened = int(trie.opened)
    if opened > 0:
        trie.opened = opened - 1
    if task.keep_graph is False:
        use_up(graph, program)
    task.sources = program.sources
    return gradients(program, made, grads)


@eager_native
def gradients(program: CallProgram, made: list[Any], grads: list[Any]) -> Any:
    """What goes along the edges, of the arrays that a program has filled and the gradients that came in."""
    found: list[Any] = []
    for source in program.sources:
        at = int(source)
        if at >= 0:
            found.append(new_result(program.made_avals[at], made[at]))
        elif at == -1:
            found.append(None)
        else:
            found.append(grads[-2 - at])
    return tuple(found)
