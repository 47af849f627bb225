"""Programs for segments that differ from a known one in their extents alone.

Owns: ``Families``, ``families``: kinds of segments, and the programs that serve all extents.
Must not know: how segments are planned.

# Note [Program families]
# ~~~~~~~~~~~~~~~~~~~~~~~
# Two segments are of one kind if they are equal in all but their extents: the integers of layouts and params are
# replaced by the order in which different ones are met (0, 1 and negative ones stay; a row-major layout has no
# strides). Example: [37, 16] @ [16, 148] + [148] of [37, 148] is (a, b) (b, c) (c) (a, c) with the extents 37, 16, 148.
# Planning costs a hundred microseconds an operation, and graphs, sentences or molecules bring other extents with each
# step. So from a kind's ``_TRACED_FROM``-th segment on it is planned with symbols for those extents that differ from
# the one before (Note [Symbolic extents]), which gives a program that serves all extents with the same answers to the
# same guards: a *member* of the family of programs that such segments have. A member serves near extents, too, for
# which some of its advice is not the best (Note [Advice]). Where no member's guards hold, another is
# made, up to ``_MAX_MEMBERS``; from a kind that gives members for one set of extents only nothing more is expected.
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
from jitgrad.events import bump, is_logged, log
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.structs import replaced
from jitgrad.symbols.advice import near
from jitgrad.symbols.evaluator import Evaluator, evaluator
from jitgrad.symbols.number import ShapeEnv, SymNumber
from jitgrad.tracer.recording.graph import Const, Instr, Segment
from jitgrad.tracer.recording.renumbered import exact, ids_and_slots
from jitgrad.user_line import let_through

__all__ = ["Families", "compare", "families", "filled", "forms_of", "numbers_of"]

_TRACED_FROM = 4
_MAX_MEMBERS = 12
_MAX_PINNED = 3
"""Members for one set of extents that a kind may have before it is given up."""
_MAX_KINDS = 1024
_MAX_INSTRS = 4000
_MOST_LENT = 400
"""After so many programs whose extents were near to a member's own, another member is made."""

Planner = Callable[[Segment], Program]


class Families:
    """The kinds that a process has met."""

    def __init__(self) -> None:
        self._kinds: dict[Any, _Family] = {}

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
            family = self._kinds[kind.key] = _Family()
        return family.program_of(kind, plan)

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
        self._numbers: dict[int, int] = {}
        self._avals: dict[Any, int] = {None: -1}
        self._layouts: list[Any] = []
        instrs = tuple([self._instr(i) for i in segment.instrs])
        inputs = tuple([(self._rank[vid], self._aval(aval)) for vid, aval in segment.inputs.items()])
        layouts = tuple([(self._rank[vid], self._aval(aval)) for vid, aval in segment.layouts.items()])
        writes = tuple([(self._rank[vid], self._rank[into]) for vid, into in segment.writes])
        outputs = tuple([self._rank[vid] for vid in segment.outputs])
        self.key = (instrs, inputs, layouts, writes, outputs, tuple(self._layouts))
        self.extents = tuple(self._numbers)

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
            assert aval is not None
            number = self._number
            if aval.is_canonical and not aval.offset:
                self._layouts.append((aval.dtype, *[number(n) for n in aval.shape]))
            else:
                numbers = (*aval.shape, *aval.stride, aval.offset)
                flags = aval.is_canonical, aval.is_contiguous
                self._layouts.append((aval.dtype, flags, aval.device, *[number(n) for n in numbers]))
        return found

    def _number(self, n: int) -> int:
        """0, 1 and negative integers as they are; of an extent two more than its number."""
        return n if n < 2 else 2 + self._numbers.setdefault(n, len(self._numbers))

    def _param(self, x: Any, own: frozenset[int]) -> Any:
        kind = type(x)
        if kind is tuple:
            return tuple([self._param(y, own) for y in x])
        return _EXTENT + self._number(x) if kind is int and x in own else exact(x)

    def twin(self, symbols: dict[int, SymNumber]) -> Segment:
        """The segment, with symbols for the extents that have some; under their ``ShapeEnv``."""
        avals: dict[Aval, Aval] = {}

        def of(n: int) -> Any:
            return symbols.get(n, n) if n > 1 else n

        def aval_of(aval: Aval) -> Aval:
            found = avals.get(aval)
            if found is None:
                shape, stride = tuple(map(of, aval.shape)), None if aval.is_canonical else tuple(map(of, aval.stride))
                found = avals[aval] = make_aval(shape, aval.dtype, stride, of(aval.offset))
            return found

        def param_of(x: Any, own: frozenset[int]) -> Any:
            if type(x) is tuple:
                return tuple([param_of(y, own) for y in x])
            return of(x) if type(x) is int and x in own else x

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


class _Family:
    """The members of one kind."""

    def __init__(self) -> None:
        self.members: list[_Member] = []
        self.seen = 0
        self.pinned = 0
        self.lent = 0
        self.last: tuple[int, ...] = ()

    def program_of(self, kind: _SegmentKind, plan: Planner) -> Program | None:
        for nr, member in enumerate(self.members):
            program = _checked(member, member.program_of(kind, True), kind, plan)
            if program is not None:
                if nr:
                    self.members.insert(0, self.members.pop(nr))
                bump("family_programs")
                return program
        if (lent := self._lent(kind)) is not None:
            return lent
        before, self.last = self.last, kind.extents
        if before == kind.extents:
            return None
        self.seen += 1
        if self.seen < _TRACED_FROM or len(self.members) >= _MAX_MEMBERS or self.pinned >= _MAX_PINNED:
            return None
        made = _traced(kind, before, plan)
        if made is None:
            self.pinned += 1
            return None
        self.pinned += made.is_pinned
        self.members.insert(0, made)
        return _checked(made, made.program_of(kind, True), kind, plan)

    def _lent(self, kind: _SegmentKind) -> Program | None:
        """A program that a member lends to near extents, Note [Advice]; None where they should have their own."""
        if config.verify or config.same_bits:
            return None
        self.lent += 1
        if self.lent % _MOST_LENT == 0 and len(self.members) < _MAX_MEMBERS:
            return None
        for member in self.members:
            program = member.program_of(kind, False)
            if program is not None:
                bump("lent_programs")
                return program
        return None


def plan_as_for_symbols(segment: Segment, plan: Planner, by_size: bool) -> Program:
    """The program that planning gives a segment; its arena is planned as for all extents."""
    with planned_by_size(by_size):
        return plan(segment)


def _checked(member: _Member, program: Program | None, kind: _SegmentKind, plan: Planner) -> Program | None:
    """The program; CompileError if ``config.verify`` finds that planning gives another."""
    if program is not None and config.verify:
        compare(program, plan_as_for_symbols(kind.segment, plan, bool(member.by_size)))
    return program


class _Member:
    """A program for all extents that its guards let through."""

    def __init__(self, kind: _SegmentKind, program: Program, env: ShapeEnv, fixed: dict[int, int]) -> None:
        self.program, self.forms, self.ids, self.slots = program, forms_of(program), kind.ids, kind.slots
        self.instrs = kind.segment.instrs
        self.by_size = env.by_size
        self.fixed = fixed  # number of an extent -> what it must be
        self.free = [n for n in range(len(kind.extents)) if n not in fixed]
        self.is_pinned = env.is_pinned()
        self.own = [symbol.value for symbol in env.symbols]
        self.evaluate: Evaluator = evaluator(env.guards, len(env.symbols), numbers_of(program))
        self.advice: Evaluator = evaluator(env.advice, len(env.symbols), ())

    def program_of(self, kind: _SegmentKind, is_best: bool) -> Program | None:
        """The program; None where guards say no, or advice (``is_best``), or the extents are not near."""
        extents = kind.extents
        if any([extents[n] != value for n, value in self.fixed.items()]):
            return None
        free = [extents[n] for n in self.free]
        if self.advice(*free) is None if is_best else not near(free, self.own):
            return None
        found = self.evaluate(*free)
        return None if found is None else self._filled(found, kind)

    def _filled(self, found: tuple[Any, ...], kind: _SegmentKind) -> Program:
        """The program in the segment's own ids."""
        id_of = dict(zip(self.ids, kind.ids, strict=True))
        slot_of = dict(zip(self.slots, kind.slots, strict=True))
        made = filled(self.program, self.forms, found)
        steps: list[NativeStep | EagerStep] = []
        for step in made.steps:
            if isinstance(step, EagerStep):
                place = next(n for n, i in enumerate(self.instrs) if i.outputs == step.instr.outputs)
                steps.append(EagerStep(kind.segment.instrs[place], step.reason))
                continue
            step.inputs = tuple([id_of[vid] for vid in step.inputs])
            step.outputs = tuple([(id_of[vid], size) for vid, size in step.outputs])
            step.scalars = tuple([(slot_of[slot], is_float) for slot, is_float in step.scalars])
            steps.append(step)
        made.steps = steps
        made.outputs = tuple([(id_of[vid], size) for vid, size in made.outputs])
        return made


def numbers_of(program: Program) -> tuple[Any, ...]:
    """All numbers of a program that extents decide, for ``filled``."""
    return (*map(_numbers_of, program.steps), tuple([size for _, size in program.outputs]))


def forms_of(program: Program) -> tuple[Any, ...]:
    """What ``filled`` keeps of each step's launches."""
    return tuple([None if isinstance(x, EagerStep) else flat_launches(x.stages).form for x in program.steps])


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


def _traced(kind: _SegmentKind, before: Sequence[int], plan: Planner) -> _Member | None:
    """A member for extents that differ from those of ``before`` where these do; None: there is none."""
    env, symbols, fixed = ShapeEnv(), {}, {}
    for nr, (n, other) in enumerate(itertools.zip_longest(kind.extents, before)):
        if n == other:
            fixed[nr] = n
        else:
            symbols[n] = env.symbol(n)
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
    bump("families")
    return _Member(kind, program, env, fixed)


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
