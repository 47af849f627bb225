"""Programs for segments that differ from a known one in their extents alone.

Owns: ``Families``, ``families``: kinds of segments, and the programs that serve all extents.
Must not know: how segments are planned.

# Note [Program families]
# ~~~~~~~~~~~~~~~~~~~~~~~
# Two segments are of one kind if they are equal in all but their extents: the integers of layouts and params are
# replaced by the order in which different ones are met (0, 1 and negative ones stay; a row-major layout has no
# strides). Example: [37, 16] @ [16, 148] + [148] of [37, 148] is (a, b) (b, c) (c) (a, c) with the extents 37, 16, 148.
# Planning costs a hundred microseconds an operation, and graphs, sentences or molecules bring other extents with each
# step. So from a kind's ``TRACED_FROM``-th segment on it is planned with symbols for those extents that differ from
# the one before (Note [Symbolic extents]), which gives a program that serves all extents with the same answers to the
# same guards: a *member* of the family of programs that such segments have. A member serves near extents, too, for
# which some of its advice is not the best (Note [Advice]). Where no member's guards hold, another is
# made, up to a dozen; from a kind that gives members for one set of extents only nothing more is expected.
# A member's programs are, word for word, what planning would have made, but for the tile of a matrix product (any is
# right, all give the same bits): ``config.verify`` plans each of them as well, and compares.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jitgrad.abi import EagerStep, FlatLaunches, Launch, NativeStep, Program, flat_launches
from jitgrad.codegen.schedule.memory import planned_by_size
from jitgrad.config import config
from jitgrad.errors import CompileError
from jitgrad.events import is_logged, log
from jitgrad.ops.aval import Aval, with_symbols
from jitgrad.structs import replaced
from jitgrad.symbols.members import ExtentNumbers, FamilyMembers, Member, symbols_for
from jitgrad.symbols.number import ShapeEnv, SymNumber
from jitgrad.tracer.recording.graph import Const, Instr, Segment
from jitgrad.tracer.recording.renumbered import exact, ids_and_slots
from jitgrad.user_line import let_through

__all__ = ["Families", "ProgramForm", "compare", "families", "filled", "forms_of", "numbers_of"]

_MAX_KINDS = 1024
_MAX_INSTRS = 4000

Planner = Callable[[Segment], Program]


class Families:
    """The kinds that a process has met."""

    def __init__(self) -> None:
        self._kinds: dict[Any, FamilyMembers] = {}

    def program_of(self, segment: Segment, plan: Planner) -> Program | None:
        """The program of a segment whose kind is known; None: it must be planned.

        Args:
            segment: what is to be computed.
            plan: plans a segment.
        """
        if len(segment.instrs) > _MAX_INSTRS or is_logged("pipeline") or is_logged("fusion"):
            return None
        kind = _SegmentKind(segment)
        try:
            family = self._kinds.get(kind.key)
        except TypeError:  # a parameter that cannot be hashed
            return None
        if family is None:
            if len(self._kinds) >= _MAX_KINDS:
                self._kinds.clear()
            family = self._kinds[kind.key] = FamilyMembers()
        found = family.serving(kind.extents, lambda before: _traced(kind, before, plan))
        if found is None:
            return None
        program: Program = found[0].filled(found[1], kind)
        return program

    def forget(self) -> None:
        """For tests."""
        self._kinds.clear()


families = Families()


class _SegmentKind:
    """A segment's kind and its extents.

    Attributes:
        key: equal for segments of one kind.
        extents: the different integers of its layouts and params that are not part of the key, in order.
        ids, slots: as of ``Renumbered``.
    """

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.ids, self.slots = ids_and_slots(segment)
        self._rank = {vid: nr for nr, vid in enumerate(self.ids)}
        self._slot_rank = {slot: nr for nr, slot in enumerate(self.slots)}
        self._extents = ExtentNumbers()
        self._avals: dict[Any, int] = {None: -1}
        self._layouts: list[Any] = []
        instrs = tuple([self._instr(i) for i in segment.instrs])
        inputs = tuple([(self._rank[vid], self._aval(aval)) for vid, aval in segment.inputs.items()])
        layouts = tuple([(self._rank[vid], self._aval(aval)) for vid, aval in segment.layouts.items()])
        writes = tuple([(self._rank[vid], self._rank[into]) for vid, into in segment.writes])
        outputs = tuple([self._rank[vid] for vid in segment.outputs])
        self.key = (instrs, inputs, layouts, writes, outputs, tuple(self._layouts))
        self.extents = tuple(self._extents.known)

    def _instr(self, instr: Instr) -> Any:
        avals = [self._aval(a) for a in instr.avals]
        own = [self._aval(a) for a in instr.input_avals]
        operands = [self._operand(x) for x in instr.inputs]
        outputs = [self._rank[vid] for vid in instr.outputs]
        params = self._param(instr.params, _extents_of(instr)) if instr.params else ()
        return (instr.op, *operands, -1, *outputs, -1, *own, -1, *avals, params)

    def _operand(self, x: Any) -> Any:
        if type(x) is int:
            return self._rank[x]
        return (exact(x.value),) if type(x) is Const else (self._slot_rank[x.slot], x.is_float)

    def _aval(self, aval: Aval | None) -> int:
        """The number of a layout among those of the segment."""
        found = self._avals.get(aval)
        if found is None:
            found = self._avals[aval] = len(self._layouts)
            self._layouts.append(self._extents.layout(aval))
        return found

    def _param(self, x: Any, own: frozenset[int]) -> Any:
        kind = type(x)
        if kind is tuple:
            return tuple([self._param(y, own) for y in x])
        return _EXTENT + self._extents.number(x) if kind is int and x in own else exact(x)

    def twin(self, symbols: dict[int, SymNumber]) -> Segment:
        """The segment, with symbols for the extents that have some; under their ``ShapeEnv``."""
        avals: dict[Aval, Aval] = {}

        def aval_of(aval: Aval) -> Aval:
            found = avals.get(aval)
            if found is None:
                found = avals[aval] = with_symbols(aval, symbols)
            return found

        def param_of(x: Any, own: frozenset[int]) -> Any:
            if type(x) is tuple:
                return tuple([param_of(y, own) for y in x])
            return symbols.get(x, x) if type(x) is int and x in own else x

        segment = self.segment
        instrs = [
            replaced(
                i,
                params=param_of(i.params, _extents_of(i)),
                avals=tuple([aval_of(a) for a in i.avals]),
                input_avals=tuple([None if a is None else aval_of(a) for a in i.input_avals]),
            )
            for i in segment.instrs
        ]
        return Segment(
            instrs,
            {vid: aval_of(aval) for vid, aval in segment.inputs.items()},
            segment.outputs,
            segment.writes,
            segment.write_log,
            {vid: aval_of(aval) for vid, aval in segment.layouts.items()},
        )


_EXTENT = 1 << 62
"""Is added to the code of an extent among params, which no integer there is."""


def _extents_of(instr: Instr) -> frozenset[int]:
    """The integers of an instruction's params that count as extents."""
    if not instr.params:
        return frozenset()
    return frozenset([n for a in (*instr.avals, *instr.input_avals) if a is not None for n in a.shape if n > 1])


def plan_as_for_symbols(segment: Segment, plan: Planner, by_size: bool) -> Program:
    """The program that planning gives a segment; its arena is planned as for all extents."""
    with planned_by_size(by_size):
        return plan(segment)


class _KindProgram:
    """A program with symbolic numbers, in the ids of one of its kind's segments."""

    def __init__(self, kind: _SegmentKind, form: ProgramForm) -> None:
        self._form, self._ids, self._slots, self._instrs = form, kind.ids, kind.slots, kind.segment.instrs

    def filled(self, found: tuple[Any, ...], kind: _SegmentKind) -> Program:
        """The program in the segment's own ids.

        Raises:
            CompileError: ``config.verify`` finds that planning gives another.
        """
        id_of = dict(zip(self._ids, kind.ids, strict=True))
        slot_of = dict(zip(self._slots, kind.slots, strict=True))
        made = self._form.filled(found)
        steps: list[NativeStep | EagerStep] = []
        for step in made.steps:
            if isinstance(step, EagerStep):
                place = next(n for n, i in enumerate(self._instrs) if i.outputs == step.instr.outputs)
                steps.append(EagerStep(kind.segment.instrs[place], step.reason))
                continue
            step.inputs = tuple([id_of[vid] for vid in step.inputs])
            step.outputs = tuple([(id_of[vid], size) for vid, size in step.outputs])
            step.scalars = tuple([(slot_of[slot], is_float) for slot, is_float in step.scalars])
            steps.append(step)
        made.steps = steps
        made.outputs = tuple([(id_of[vid], size) for vid, size in made.outputs])
        if config.verify:
            self._form.check(made, kind.segment)
        return made


def numbers_of(program: Program) -> tuple[Any, ...]:
    """All numbers of a program that extents decide, for ``filled``."""
    return (*map(_numbers_of, program.steps), tuple([size for _, size in program.outputs]))


def forms_of(program: Program) -> tuple[Any, ...]:
    """What ``filled`` keeps of each step's launches."""
    return tuple([None if isinstance(x, EagerStep) else flat_launches(x.stages).form for x in program.steps])


class ProgramForm:
    """A program with symbolic numbers, under their ``ShapeEnv``.

    Attributes:
        program: it.
        numbers: all of them.
    """

    def __init__(self, program: Program, env: ShapeEnv, plan: Planner) -> None:
        self.program, self.numbers = program, numbers_of(program)
        self._forms, self._plan, self._by_size = forms_of(program), plan, bool(env.by_size)

    def filled(self, numbers: Any) -> Program:
        """The program for what the numbers are for some extents."""
        return filled(self.program, self._forms, numbers)

    def check(self, made: Program, segment: Segment) -> None:
        """CompileError unless planning gives a segment the program that was filled in for it."""
        compare(made, plan_as_for_symbols(segment, self._plan, self._by_size))


def filled(program: Program, forms: tuple[Any, ...], numbers: tuple[Any, ...]) -> Program:
    """The program with other numbers in the places of ``numbers_of``; ``forms``: of ``forms_of``."""
    steps: list[Any] = []
    for step, found, form in zip(program.steps, numbers, forms, strict=False):
        if isinstance(step, EagerStep):
            steps.append(step)
            continue
        arena, sizes, words, units, grains, costs = found
        outputs = tuple([(vid, size) for (vid, _), size in zip(step.outputs, sizes, strict=True)])
        flat = FlatLaunches(form, words, units, grains, costs)
        made = NativeStep(step.inputs, outputs, arena, step.scalars, (), step.keep_alive, flat)
        del made.stages
        steps.append(made)
    outputs = tuple([(vid, size) for (vid, _), size in zip(program.outputs, numbers[-1], strict=True)])
    return Program(steps, outputs, program.kernel_names, program.notes, program.text)


def _numbers_of(step: NativeStep | EagerStep) -> tuple[Any, ...]:
    """All numbers of a step that extents decide."""
    if isinstance(step, EagerStep):
        return ()
    flat = flat_launches(step.stages)
    return step.arena_nbytes, tuple([size for _, size in step.outputs]), flat.words, flat.units, flat.grains, flat.costs


def _traced(kind: _SegmentKind, before: Sequence[int], plan: Planner) -> Member | None:
    """A member for extents that differ from those of ``before`` where these do; None: there is none."""
    env = ShapeEnv()
    symbols, fixed = symbols_for(env, kind.extents, before)
    try:
        with env:
            program = plan(kind.twin(symbols))
    except CompileError as error:
        log("record", "no program for all extents: %s", error)
        return None
    except Exception as error:
        let_through(error)
        log("record", "no program for all extents: %r", error)
        return None
    form = ProgramForm(program, env, plan)
    return Member(_KindProgram(kind, form), form.numbers, env, kind.extents, fixed)


def compare(found: Program, planned: Program) -> None:
    """CompileError unless two programs are the same, but for products' tiles."""
    for mine, other in itertools.zip_longest(found.steps, planned.steps):
        if isinstance(mine, EagerStep) and isinstance(other, EagerStep):
            continue
        if not (isinstance(mine, NativeStep) and isinstance(other, NativeStep)):
            raise CompileError(f"a program of a family has a step {mine!r} where planning gives {other!r}")
        same = (mine.inputs, mine.outputs, mine.scalars) == (other.inputs, other.outputs, other.scalars)
        if not same or mine.arena_nbytes != other.arena_nbytes:
            raise CompileError(f"a program of a family has {_shown(mine)} where planning gives {_shown(other)}")
        for x, y in itertools.zip_longest(_launches(mine), _launches(other)):
            products = x.name.startswith("gemm") and y.name.startswith("gemm") and x.name != y.name
            launched = [(z.name, z.args, z.units, z.grain, z.cost) for z in (x, y)]
            if not products and launched[0] != launched[1]:
                raise CompileError(f"a program of a family launches {_line(x)} where planning launches {_line(y)}")


def _launches(step: NativeStep) -> Iterator[Launch]:
    return itertools.chain.from_iterable(step.stages)


def _shown(step: NativeStep) -> str:
    return f"inputs {step.inputs}, outputs {step.outputs}, arena {step.arena_nbytes}, scalars {step.scalars}"


def _line(launch: Launch) -> str:
    return f"{launch.name} {launch.args}, {launch.units} units, grain {launch.grain}, cost {launch.cost}"
