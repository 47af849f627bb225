"""The pipeline: a segment to a program, as a list of named passes.

Owns: ``compile_segment``, ``PIPELINE``.
Must not know: how programs are run, where buffers are.
In: ``tracer.recording.graph.Segment``. Out: ``abi.Program``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from jitgrad.abi import EagerStep, Program
from jitgrad.codegen.build import build
from jitgrad.codegen.equal_turns import link_turns, plan_turns
from jitgrad.codegen.families import ProgramForm, families, plan_as_for_symbols
from jitgrad.codegen.fusion.domain import Refuse
from jitgrad.codegen.fusion.fuse import NeedsBuffers, fuse
from jitgrad.codegen.fusion.roots import Destination, make_roots
from jitgrad.codegen.gemm import panel_columns
from jitgrad.codegen.gemm.matmul_kernel import operand_views
from jitgrad.codegen.link import link
from jitgrad.codegen.llvm.target import host_target
from jitgrad.codegen.piece import Piece, cut
from jitgrad.codegen.plan import Buffer, instrs_of, make_plan
from jitgrad.codegen.primitives.builder import SCATTERS, Value
from jitgrad.codegen.primitives.decompose import DECOMPOSE, copy_of
from jitgrad.codegen.primitives.in_place import is_in_place, scatters_in_place
from jitgrad.codegen.primitives.join import LONG, TALL, join_products
from jitgrad.codegen.primitives.panels import SHARED, share_panels
from jitgrad.codegen.primitives.simplify import SIMPLIFY, Rule, order_of, rewrite
from jitgrad.codegen.primitives.sink import SINK
from jitgrad.codegen.primitives.updates import READ_THROUGH, SPREAD, chains_to_cats, regions_of_write
from jitgrad.codegen.routines.routine_kernel import operand_places
from jitgrad.codegen.routines.walks import WALKS
from jitgrad.codegen.show import show_destinations, show_groups, show_plan, show_values
from jitgrad.codegen.verify import verify_piece, verify_segment
from jitgrad.config import config
from jitgrad.errors import CompileError
from jitgrad.events import bump, is_logged, log
from jitgrad.garbage import without_collections
from jitgrad.ops.aval import contiguous_strides
from jitgrad.symbols.number import current_env
from jitgrad.tracer.recording.graph import Segment, segment_text
from jitgrad.user_line import let_through

__all__ = [
    "PIPELINE", "Pass", "compile_segment", "form_for_symbols", "plan_by_size", "plan_for_symbols", "plan_parts",
    "plan_segment",
]  # fmt: skip

_MAX_COPIES = 64
_MAX_NOTES = 200
_MOVES = frozenset({"reshape", "permute", "slice", "pad"})


class Pass(NamedTuple):
    """A step of the pipeline: it fills in what comes next in the piece.

    Attributes:
        name: for logs and for the messages of ``verify``.
        about: what it does, in one phrase, for logs.
        run: does it.
        show: the part of the piece that it fills in, as text (``JITGRAD_LOG=pipeline``).
    """

    name: str
    about: str
    run: Callable[[Piece], None]
    show: Callable[[Piece], str]


def compile_segment(segment: Segment) -> Program:
    """Plan and compile a segment.

    Raises:
        CompileError: something in the segment cannot be compiled; running it eagerly still works.
    """
    try:
        program: Program = without_collections(_found_or_planned, segment)
        return program
    except CompileError:
        raise
    except Exception as error:
        let_through(error)
        raise CompileError(f"planning failed: {type(error).__name__}: {error}") from error


def _found_or_planned(segment: Segment) -> Program:
    """See Note [Program families]."""
    return families.program_of(segment, _planned_and_linked) or _planned_and_linked(segment)


def plan_for_symbols(segment: Segment) -> Program:
    """The program of a segment with symbolic extents, whose numbers are symbolic, too; under its ``ShapeEnv``.

    Raises:
        CompileError: it cannot be compiled, or not for more than one set of extents.
    """
    program: Program = without_collections(_planned_and_linked, segment)
    return program


def form_for_symbols(segment: Segment) -> ProgramForm:
    """``plan_for_symbols``, as what fills such programs in."""
    program, env = plan_for_symbols(segment), current_env()
    assert env is not None
    return ProgramForm(program, env, _planned_and_linked)


def plan_by_size(segment: Segment, by_size: bool) -> Program:
    """What ``plan_for_symbols`` must agree with, for plain extents; ``by_size``: how arenas are planned."""
    return plan_as_for_symbols(segment, _planned_and_linked, by_size)


def _planned_and_linked(segment: Segment) -> Program:
    turns = plan_turns(segment, _planned)
    if turns is not None:
        program = link_turns(segment, turns)
        pieces = [*turns.pieces.values()]
    else:
        parts = _planned(segment)
        program = link(segment, parts)
        pieces = [part for part in parts if isinstance(part, Piece)]
    for piece in pieces:
        piece.untie()
    return program


def plan_parts(segment: Segment) -> list[tuple[Segment, Piece]]:
    """What ``compile_segment`` links: each piece, with the segment or the turn of it whose operations it holds."""
    turns = plan_turns(segment, _planned)
    if turns is not None:
        return turns.parts()
    return [(segment, part) for part in _planned(segment) if isinstance(part, Piece)]


def _planned(segment: Segment) -> list[Piece | EagerStep]:
    with np.errstate(all="ignore"):  # constants overflow in silence, as the values that they stand for do
        return plan_segment(segment)


def plan_segment(segment: Segment) -> list[Piece | EagerStep]:
    """All passes but LLVM's. Each shows what it made (``JITGRAD_LOG=pipeline``) and is checked (``config.verify``)."""
    if config.verify and current_env() is None:
        verify_segment(segment)
    if is_logged("pipeline"):
        log("pipeline", "segment\n%s", segment_text(segment))
    parts = cut(segment, host_target())
    for number, part in enumerate(parts):
        if isinstance(part, EagerStep):
            log("pipeline", "part %d runs eagerly: %s", number, part.reason)
            continue
        shown = ""
        for step in PIPELINE:
            shown = _run_pass(step, part, number, shown)
    return parts


def _run_pass(step: Pass, piece: Piece, number: int, shown: str) -> str:
    """Run a pass on part ``number``. ``shown``: how the piece looked before; returns how it looks now."""
    piece.applied.clear()
    step.run(piece)
    if config.verify and current_env() is None:
        verify_piece(piece, step.name)
    if not is_logged("pipeline"):
        return ""
    text = step.show(piece)
    rules = "".join(f"  rule {name}: {count}\n" for name, count in piece.applied.items())
    now = "  (as before)" if text == shown else text
    log("pipeline", "part %d, pass %s: %s\n%s%s", number, step.name, step.about, rules, now)
    return text


def _rewrite(piece: Piece, rules: dict[str, tuple[Rule, ...]]) -> None:
    piece.results = rewrite(piece.results, rules, piece.builder, piece.applied)


def _simplify(piece: Piece) -> None:
    _rewrite(piece, SIMPLIFY)
    if any(v.op == "update" for v in order_of(piece.results, piece.builder)):
        _rewrite(piece, READ_THROUGH)


def _place_updates(piece: Piece) -> None:
    """What is left of updates: regions of storages, parts of a ``cat``, or a choice per element; Note [Updates]."""
    _split_writes(piece)
    if not any([v.op == "update" for v in order_of(piece.results, piece.builder)]):
        return
    piece.results = chains_to_cats(piece.results, piece.builder)
    _rewrite(piece, SPREAD)


def _join(piece: Piece) -> None:
    piece.results = join_products(piece.results, piece.builder, piece.applied)
    bump("long_products", piece.applied[LONG])
    bump("tall_products", piece.applied[TALL])


def _share(piece: Piece) -> None:
    columns_of = partial(panel_columns, target=piece.target)
    piece.results = share_panels(piece.results, piece.builder, columns_of, piece.applied)
    bump("shared_panels", piece.applied[SHARED])


def _decompose(piece: Piece) -> None:
    for _ in range(2):
        _rewrite(piece, DECOMPOSE)
    ops = {v.op for v in order_of(piece.results, piece.builder)}
    if not WALKS.keys().isdisjoint(ops):
        _rewrite(piece, WALKS)
    if "windows" in ops:  # of implicit products
        _rewrite(piece, SINK)
    _rewrite(piece, SIMPLIFY)
    _share(piece)
    count = len(piece.outputs)
    results = [*map(_same_memory, piece.results[:count]), *piece.results[count:]]
    piece.results = scatters_in_place([_storable(piece, v) for v in results], piece.stores, piece.builder)
    bump("scatters_in_place", sum(map(is_in_place, piece.results)))


def _same_memory(v: Value) -> Value:
    """What fills a fresh output just as well: a reshaped product need not be copied."""
    source = v
    while source.op == "reshape":
        source = source.srcs[0]
    return v if source.op == "input" else source


def _split_writes(piece: Piece) -> None:
    """Where a write leaves most of a storage as it is, its regions are what is stored; see Note [Updates]."""
    count = len(piece.outputs)
    results = piece.results[:count]
    for (_, into), v in zip(piece.writes, piece.results[count:], strict=True):
        aval = piece.inputs[into]
        for value, strides, offset in regions_of_write(v, into, aval) or [(v, aval.stride, aval.offset)]:
            results.append(value)
            piece.stores.append((into, strides, offset))
    piece.results = results


def _storable(piece: Piece, v: Value) -> Value:
    """Roots are stored by a kernel: an input needs a copy; what a scatter updates in place is stored by two."""
    return copy_of(piece.builder, v) if v.op == "input" or v.op in SCATTERS else v


def _group(piece: Piece) -> None:
    """Choose roots and fuse them; values that turn out to need a buffer get one, and it starts again."""
    for attempt in range(2 * _MAX_COPIES):
        if attempt == _MAX_COPIES:  # enough of a few at a time
            piece.results = _with_copies(piece, [v for v in order_of(piece.results, piece.builder) if v.op in _MOVES])
        piece.roots = make_roots(order_of(piece.results, piece.builder), piece.results)
        needed = _refused_operands(piece)
        if not needed:
            try:
                piece.groups, notes = fuse(piece.roots)
            except NeedsBuffers as refused:
                needed = refused.stores
        if needed:
            piece.results = _with_copies(piece, needed)
            continue
        piece.refusals = list(notes)
        piece.notes += [str(note) for note in notes[:_MAX_NOTES]]
        for note in piece.notes:
            log("fusion", "%s", note)
        return
    raise CompileError("planning failed: too many values need a buffer of their own")


def _refused_operands(piece: Piece) -> Sequence[Value]:
    """Operands of products and routines that must be copied to be what their kernels read.

    An operand made of such a one waits: it may be right once that is copied.
    """
    refused: dict[Value, None] = {}
    for root in piece.roots.values():
        try:
            if root.kind == "matmul":
                operand_views(root.value, piece.roots)
            elif root.kind == "routine":
                operand_places(root.value, piece.roots)
        except Refuse as refusal:
            if refusal.store is None:
                raise
            if not _is_made_of(refusal.store, refused, piece.roots):
                refused[refusal.store] = None
    return [*refused]


def _is_made_of(v: Value, others: Container[Value], stored: Container[Value]) -> bool:
    """Whether ``v`` is computed of one of ``others`` with nothing stored between them."""
    waiting, seen = [*v.srcs], set(v.srcs)
    while waiting:
        x = waiting.pop()
        if x in others:
            return True
        if x not in stored:
            waiting += [s for s in x.srcs if s not in seen]
            seen.update(x.srcs)
    return False


def _with_copies(piece: Piece, needed: Sequence[Value]) -> list[Value]:
    """The results, with every reader of a ``needed`` value reading a copy of it."""
    b = piece.builder
    copied = set(needed)
    new: dict[int, Value] = {}
    for v in order_of(piece.results, piece.builder):
        srcs = tuple([new[id(s)] for s in v.srcs])
        same = all(x is y for x, y in zip(srcs, v.srcs, strict=True))
        made = v if same else b.make(v.op, srcs, v.params, v.shape, v.dtype)
        new[id(v)] = copy_of(b, made) if v in copied else made
    return [new[id(r)] for r in piece.results]


def _place(piece: Piece) -> None:
    """Give the results their destinations: fresh outputs, or existing storages through their layouts."""
    piece.buffers = {vid: Buffer("input", vid, aval.nbytes) for vid, aval in piece.inputs.items()}
    for vid, v in zip(piece.outputs, piece.results, strict=False):
        buffer = Buffer("output", vid, piece.nbytes(v))
        piece.out_buffers.append(buffer)
        piece.roots[v].destinations.append(Destination(buffer, contiguous_strides(v.shape), 0))
    for (into, strides, offset), v in zip(piece.stores, piece.results[len(piece.outputs) :], strict=True):
        piece.roots[v].destinations.append(Destination(piece.buffers[into], strides, offset))


def _plan(piece: Piece) -> None:
    piece.plan = make_plan(piece.groups, piece.roots, piece.buffers, piece.target)
    calls = {i.static[:2]: None for job in piece.plan.jobs() for i in instrs_of(job) if i.op == "call"}
    piece.notes += [function.describe(components) for function, components in calls]
    piece.notes += [v.params[0].describe() for v in piece.roots if v.op == "routine"]


PIPELINE = (
    Pass("build", "recorded operations become primitives", build, show_values),
    Pass("simplify", "constants and identities are folded, reads of updates go through to what was written", _simplify,
         show_values),
    Pass("updates", "writes to parts of a storage become stores of these parts", _place_updates, show_values),
    Pass("join", "products that are added up, or have one right operand, become one; Note [Joined products]", _join,
         show_values),
    Pass("decompose", "algorithms are chosen: thin products as loops, long sums in chunks", _decompose, show_values),
    Pass("group", "values that share a kernel are lowered to instructions over one domain", _group, show_groups),
    Pass("place", "results get their buffers", _place, show_destinations),
    Pass("plan", "kernels get their order, their temporaries and their loops", _plan, show_plan),
)  # fmt: skip
