"""Hits of calls that do several operations, see Note [Remembered calls].

Owns: how such a call is found again and repeated, in the subset of Note [Native Python].
Must not know: which functions these rules are for (``compiled/native_fronts.py``).
"""

from __future__ import annotations

from typing import Any

from jitgrad.cpython.primitives import active, call_as_given, native, once_per_call, optimized, packed, same
from jitgrad.ops.aval import Aval
from jitgrad.probe import probe
from jitgrad.state import anomaly, autocasts, engine_watchers, modes_in_use
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.hits.entry_hits import allows_parts, can_enter_at, enter_as_before
from jitgrad.tracer.hits.hits import MISSED, Args, has_values, new_result_handle, overrides
from jitgrad.tracer.hits.known_calls import MAX_CALLS, Items, KnownCall, MadeValue, remember
from jitgrad.tracer.hits.view_hits import memory_of, note_source
from jitgrad.tracer.recording.recorder_state import RecorderState
from jitgrad.tracer.recording.trie import TrieNode
from jitgrad.user_line import WARNED

__all__ = ["recall"]

# --- arguments ---


@once_per_call
def collect(given: list, x: Any) -> bool:
    """Add the tensors among an argument and its items to a list; False if one may override functions."""
    if isinstance(x, TensorBase):
        given.append(x)
        return not overrides(x)
    if type(x) is tuple:
        row: tuple = x
        for item in row:
            if not collect(given, item):
                return False
    elif type(x) is list:
        listed: list = x
        for item in listed:
            if not collect(given, item):
                return False
    return True


@once_per_call
def is_argument(want: Any, x: Any) -> bool:
    """Whether an argument, or an item of one, is what ``KnownCall.args`` says."""
    if isinstance(x, TensorBase):
        return want is None
    if type(want) is tuple:
        constant: tuple = want
        return same(x, constant[0])
    return type(want) is Items and has_items(want, x)


@native
def has_items(want: Items, x: Any) -> bool:
    """Whether a list, tuple or slice has the items that a call had."""
    if type(x) is not want.kind:
        return False
    wanted: tuple = want.items
    if type(x) is tuple:
        row: tuple = x
        if len(row) != len(wanted):
            return False
        for i in range(len(wanted)):  # noqa: SIM110
            if not is_argument(wanted[i], row[i]):
                return False
        return True
    if type(x) is list:
        listed: list = x
        if len(listed) != len(wanted):
            return False
        for i in range(len(wanted)):  # noqa: SIM110
            if not is_argument(wanted[i], listed[i]):
                return False
        return True
    part: slice = x
    has_ends = is_argument(wanted[0], part.start) and is_argument(wanted[1], part.stop)
    return has_ends and is_argument(wanted[2], part.step)


@optimized
def has_names(known: KnownCall, names: Any) -> bool:
    """Whether the last arguments have the names that they had. They are the same objects, because names in code are."""
    if known.names is names:
        return True
    if names is None or known.names is None:
        return False
    given: tuple = names
    wanted: tuple = known.names
    if len(given) != len(wanted):
        return False
    for i in range(len(given)):  # noqa: SIM110
        if given[i] is not wanted[i]:
            return False
    return True


@once_per_call
def has_tensors(recorder: RecorderState, known: KnownCall, given: list) -> bool:
    """Whether the tensors among the arguments are those values, or can be entered as those were."""
    wanted: tuple = known.tensors
    if len(wanted) != len(given):
        return False
    for i in range(len(given)):
        x: TensorBase = given[i]
        want = wanted[i]
        if type(want) is TrieNode:
            if x._tid is recorder.tid or not can_enter_at(recorder, x, want):
                return False
        elif type(want) is Aval:
            if x._tid is recorder.tid or x._aval is not want or x._requires_grad:
                return False
        elif type(want) is tuple:
            first: tuple = want
            if x is not given[int(first[0])]:
                return False
        elif x._tid is not recorder.tid or x._vid is not want:
            return False
    return len(known.enters) < 2 or are_apart(recorder, known, given)


@native
def are_apart(recorder: RecorderState, known: KnownCall, given: list) -> bool:
    """Whether no two of the tensors that are to be entered share memory, or look at parts of it as inputs may."""
    places: tuple = known.enters
    for i in range(len(places)):
        x: TensorBase = given[int(places[i])]
        for j in range(len(places)):
            if j < i:
                y: TensorBase = given[int(places[j])]
                if memory_of(y._storage) is memory_of(x._storage):
                    is_one = y._storage is x._storage and y._aval is x._aval
                    if is_one or not allows_parts(recorder):
                        return False
    return True


@optimized
def is_this_call(recorder: RecorderState, known: KnownCall, row: Any, args: Args, names: Any, given: list) -> bool:
    """Whether a call is the one that is known."""
    if known.row is not row:
        return False
    wanted: tuple = known.args
    if len(wanted) != len(args) or not has_names(known, names):
        return False
    for i in range(len(wanted)):
        if not is_argument(wanted[i], args[i]):
            return False
    return known.tip is None or has_tensors(recorder, known, given)


@optimized
def find_known(recorder: RecorderState, row: Any, args: Args, names: Any, given: list) -> Any:
    """What is known of this call, or None."""
    calls: list = recorder.node.calls
    if calls is None:
        return None
    for item in calls:
        if is_this_call(recorder, item, row, args, names, given):
            return item
    return None


# --- the call ---


@native
def passes(known: KnownCall, given: list) -> bool:
    """Whether the values that the call checks are what it demands."""
    checks: tuple = known.checks
    for item in checks:
        check: tuple = item
        if not has_values(given[int(check[0])], check[1]):
            return False
    return True


@once_per_call
def repeat(recorder: RecorderState, known: KnownCall, given: list) -> Any:
    """Do what the call did."""
    places: tuple = known.enters
    nodes: tuple = known.tensors
    for nr in places:
        enter_as_before(recorder, given[int(nr)], nodes[int(nr)])
    recorder.node = known.tip
    made: list = []
    makes: tuple = known.makes
    for item in makes:
        value: MadeValue = item
        handle = new_result_handle(recorder, value.vid, value.aval, value.requires_grad)
        out: TensorBase = handle
        if int(value.output_nr) != 0 and value.requires_grad:
            out._output_nr = value.output_nr
        if value.node is not None:
            place: int = value.source
            if place >= 0:
                note_source(recorder, value.node, out, made[place])
            else:
                note_source(recorder, value.node, out, given[int(value.argument)])
        made.append(handle)
    results: tuple = known.results
    if known.kind is None:
        return result_at(int(results[0]), made, given)
    several: list = []
    for nr in results:
        several.append(result_at(int(nr), made, given))
    return tuple(several) if known.kind is tuple else known.kind(several)


@optimized
def result_at(place: int, made: list, given: list) -> Any:
    """What ``KnownCall.results`` says."""
    return made[place] if place >= 0 else given[-1 - place]


@once_per_call
def recall(row: Any, args: Args, names: Any) -> Any:
    """A call of ``row.function``: repeated if it is known, else run, and remembered where that can be done."""
    recorder: RecorderState = active()
    if recorder is None or recorder.busy or recorder.learns or autocasts or modes_in_use:
        return MISSED
    if probe.session is not None and probe.stamps is None:  # Note [Profiling points]
        return MISSED
    given: list = []
    for x in args:
        if not collect(given, x):
            return MISSED
    found = find_known(recorder, row, args, names, given)
    if found is None:
        return learn(recorder, row, args, names, given)
    known: KnownCall = found
    if known.tip is None or not passes(known, given):
        return MISSED
    if known.differentiates and (anomaly.enabled is True or engine_watchers):
        return MISSED
    return repeat(recorder, known, given)


@native
def learn(recorder: RecorderState, row: Any, args: Args, names: Any, given: list) -> Any:
    """Run a call, and remember it if it had nothing new. After an error nothing is learned until the next call."""
    start: TrieNode = recorder.node
    misses: int = recorder.path.misses
    picks = len(recorder.picks)
    warned = WARNED[0]
    learned: int = recorder.learned
    recorder.learned = learned + 1
    recorder.learns = True
    result = call_as_given(row.function, args, names)
    recorder.learns = False
    if start.calls is not None and len(start.calls) >= MAX_CALLS:
        return result
    # nothing but the path tells of what was new; picks and warnings are no events
    if int(recorder.path.misses) == misses and len(recorder.picks) == picks and WARNED[0] is warned:
        remember(recorder, start, KnownCall(row, packed(args), names), given, result)
    return result
