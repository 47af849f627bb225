"""Programs of calls' backwards in the form that native code runs: what is at which word of a step's record.

Owns: ``call_program``; ``add_form``, ``places_of_sums``, Note [Sums of calls].
Must not know: how a backward is recorded (``from_outside.py``), when its program runs (``call_runs.py``).

# Note [Sums of calls]
# ~~~~~~~~~~~~~~~~~~~~
# A cell that a loop or a tree calls again and again has the same weights in each call, so the backward of each call
# adds to the same gradients. As two steps that is a program that fills an array with the outer product of a vector and
# a vector, say, and an addition that reads both arrays and writes one: three times the memory traffic, and an array for
# each call. So a call's program gets a second form, that adds: in the place of each such output it has the sum so far,
# to which its kernel adds (a write, as an optimizer's step is one). It is compiled once gradients of calls have met
# ``CallProgram.patience`` times, and is used where the sums of all its leaves are there, in memory that nobody else
# knows (``PartialSums.owned``). The edge then gets None: nothing is left to be added.
# A kernel may round once where two steps round twice, so ``JITGRAD_SAME_BITS=1`` does without.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from jitgrad.config import config
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import OPS
from jitgrad.runtime.eager.kernel import array_maker
from jitgrad.runtime.eager.kernel_runs import arrays_by
from jitgrad.runtime.engine.graph.call_node import CallProgram
from jitgrad.runtime.native.executor import LoadedStep
from jitgrad.tracer.recording.graph import Instr, Segment

__all__ = ["add_form", "call_program", "places_of_sums"]

_PATIENCE = 32


def call_program(
    program: Any, step: LoadedStep, avals: tuple[Aval | None, ...], used: Any, entered: Mapping[int, int],
    sums: Mapping[int, int] | None = None,
) -> CallProgram:  # fmt: skip
    """The program as native code runs it.

    Args:
        program: of ``from_outside.py``.
        avals: of the gradients that come in.
        used: what it uses up.
        entered: value id -> the place of an input in ``CallGraph.entered``.
        sums: value id of a sum that the step adds to -> the edge whose gradient it takes up.
    """
    found, sums = CallProgram(), sums or {}
    words = {vid: 1 + i for i, vid in enumerate(step.step.inputs)}
    outputs = [vid for vid, _ in step.step.outputs]
    seeds, consts = dict(program.seeds), dict(program.consts)
    elsewhere = {*seeds, *consts, *sums}
    own = [(word, entered.get(vid, -1), vid) for vid, word in words.items() if vid not in elsewhere]
    made = {r.vid: r.aval for r in program.results if r is not None and r.given is None}
    found.avals, found.step, found.used = avals, step, used.vids
    found.own = tuple(itertools.chain(*own))
    found.seeds = tuple(itertools.chain(*[(words[vid], nr) for vid, nr in seeds.items() if vid in words]))
    found.consts = tuple(itertools.chain(*[(words[vid], s.addr) for vid, s in consts.items() if vid in words]))
    found.sums = tuple(itertools.chain(*[(words[vid], nr) for vid, nr in sums.items()]))
    found.keep = tuple(consts.values())
    found.first_output = 1 + len(words)
    found.made_avals = tuple([made[vid] for vid in outputs])
    found.makes = tuple([arrays_by(array_maker(made[vid])) for vid in outputs])
    found.slots = tuple([slot for slot, _ in step.step.scalars])
    found.sources = tuple([_source(r, outputs, nr in sums.values()) for nr, r in enumerate(program.results)])
    found.freed = used.freed
    found.drops = tuple([entered[vid] for vid in used.freed if vid in entered])
    found.addends, found.adding, found.patience, found.make_adding = (), None, _PATIENCE, None
    return found


def _source(result: Any, outputs: Sequence[int], is_summed: bool) -> int:
    """See ``CallProgram.sources``."""
    if result is None or is_summed:
        return -1
    return outputs.index(result.vid) if result.given is None else -2 - result.given


def places_of_sums(program: Any, targets: Sequence[Any]) -> tuple[int, ...]:
    """The edges to leaves whose gradients a program could add to sums."""
    if config.same_bits:
        return ()
    return tuple([nr for nr, (r, t) in enumerate(zip(program.results, targets, strict=True)) if t.is_leaf and _adds(r)])


def _adds(result: Any) -> bool:
    """Whether a gradient is computed, and is a sum as ``partial_sums.py`` adds them up."""
    if result is None or result.given is not None:
        return False
    dtype = result.aval.dtype
    return dtype.is_inexact and not (dtype.is_half or dtype.is_complex) and result.aval.is_contiguous


def add_form(program: Any, used: Any, entered: Mapping[int, int], backend: Any, known: CallProgram) -> None:
    """Give a program its form that adds, Note [Sums of calls], if there is one; it is asked once.

    Args:
        program, used, entered: as of ``call_program``.
        backend: compiles a segment.
        known: the program without sums, as native code runs it.
    """
    segment, sums = _with_sums(program, known.addends)
    step = backend.compile_end(segment, {}).only
    if step is None or not step.is_quick or not sums.keys() <= set(step.step.inputs):
        known.addends = ()  # it is more than one short native step
        return
    known.adding = call_program(program, step, known.avals, used, entered, sums)


def _with_sums(program: Any, edges: Sequence[int]) -> tuple[Segment, dict[int, int]]:
    """(What a program computes, with the gradients of some edges added to sums; value id of each sum -> its edge)."""
    segment: Segment = program.segment
    results = {nr: program.results[nr] for nr in edges}
    fresh = itertools.count(1 + max([*segment.inputs, *[vid for instr in segment.instrs for vid in instr.outputs]]))
    sums: dict[int, int] = {}
    writes, instrs, inputs = [], list(segment.instrs), dict(segment.inputs)
    for nr, result in results.items():
        so_far, more, aval = next(fresh), next(fresh), result.aval
        operands, is_in_graph = (so_far, result.vid), (False, False)
        instrs.append(Instr(OPS["add"], operands, (), (more,), (aval,), (aval, aval), False, is_in_graph))
        inputs[so_far], sums[so_far] = aval, nr
        writes.append((more, so_far))
    gone = {result.vid for result in results.values()}
    outputs = tuple([vid for vid in segment.outputs if vid not in gone])
    layouts = {vid: aval for vid, aval in segment.layouts.items() if vid not in gone}
    return Segment(instrs, inputs, outputs, tuple(writes), tuple(writes), layouts), sums
