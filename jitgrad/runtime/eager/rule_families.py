"""Rule programs of Nodes that differ in their extents alone.

Owns: ``family_program``; the kinds of Nodes that a process has met.
Must not know: how segments are planned (``compiled/eager_kernels.py`` installs that), which Node runs which program.

# Note [Rule families]
# ~~~~~~~~~~~~~~~~~~~~
# Graphs, sentences and batches bring other extents with each step. A rule program for these takes a third of a
# millisecond to record, to plan and to print, several times in each backward. So from the ``TRACED_FROM``-th set of
# extents on, the rules of a kind of Node run with symbols for the extents (Note [Symbolic extents]): layouts of
# gradients and saved values, the Node's context, integers among its params. What they record is planned with these
# symbols, as segments are (Note [Program families]). That gives a *member*: a text, and expressions for the layouts and
# the numbers of the native step in it. Programs for other extents are filled in, in a fifth of the time. Guards, advice
# and near extents mean what they mean there. Only programs that are one native step have families, Note [Fused rules].
# ``config.verify`` records and plans each of them as well, and compares.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.config import config
from jitgrad.devices import CPU
from jitgrad.errors import CompileError
from jitgrad.events import log
from jitgrad.ops.aval import Aval, make_aval, with_symbols
from jitgrad.ops.table import Op, RuleContext
from jitgrad.runtime.eager.kernel import StepForm, array_maker, form_maker, has_kernel, step_maker
from jitgrad.runtime.eager.operands import aval_args, is_complex, takes_all_numbers
from jitgrad.runtime.eager.rule_recording import NoProgramError, RuleCall, RuleRecorder, record
from jitgrad.runtime.eager.rule_text import ProgramText, program_of_text
from jitgrad.structs import replaced, struct
from jitgrad.symbols.advice import advice
from jitgrad.symbols.members import ExtentNumbers, FamilyMembers, Member, symbols_for
from jitgrad.symbols.number import ShapeEnv, SymNumber, is_symbolic, value_of
from jitgrad.tracer.recording.graph import Segment
from jitgrad.tracer.recording.renumbered import exact
from jitgrad.user_line import let_through

__all__ = ["family_program", "forget"]

_MAX_KINDS = 512

_MAX_FRUITLESS = 32

_families: dict[Any, FamilyMembers] = {}
_fruitless: dict[Any, int] = {}
"""By operation and what is saved of it: how often in a row a kind was looked for that has no program for all extents.
To look takes as long as a short list of calls."""


def forget() -> None:
    """Forget all kinds: a test is a program of its own."""
    _families.clear()
    _fruitless.clear()


def family_program(call: RuleCall) -> Any:
    """The program for a Node on the CPU whose kind is known; None: it must be recorded."""
    if form_maker() is None or _fruitless.get(call.plan, 0) >= _MAX_FRUITLESS:
        return None
    kind = _RuleKind(call)
    try:
        family = _families.get(kind.key)
    except TypeError:  # a parameter that cannot be hashed
        return None
    if family is None:
        if len(_families) >= _MAX_KINDS:
            _families.clear()
        family = _families[kind.key] = FamilyMembers()
    try:
        found = family.serving(kind.extents, lambda before: _derived(kind, before))
    except NoProgramError as reason:
        log("record", "%s has no rule program for all extents: %s", call.op.name, reason)
        family.give_up()
        found = None
    is_fruitless = found is None and family.is_given_up
    _fruitless[call.plan] = _fruitless.get(call.plan, 0) + 1 if is_fruitless else 0
    return None if found is None else found[0].filled(found[1], call)


class _RuleKind:
    """A call's kind and its extents.

    Attributes:
        key: equal for calls that differ in extents alone.
        extents: the different integers of 2 or more in its layouts, in order.
    """

    def __init__(self, call: RuleCall) -> None:
        self.call = call
        self._extents = ExtentNumbers()
        context = call.context
        avals = (*call.grads, *call.saved, *context.avals, *context.out_avals)
        layouts = tuple([self._extents.layout(x) if type(x) is Aval else ("as it is", exact(x)) for x in avals])
        is_fit = tuple([shape is not None for shape in call.shapes])
        params = self._param(context.params) if context.params else ()
        self.key = (call.op, call.plan, context.needs, call.asked, is_fit, layouts, params)
        self.extents = tuple(self._extents.known)

    def _param(self, x: Any) -> Any:
        if type(x) is tuple:
            return tuple([self._param(y) for y in x])
        known = self._extents.known.get(x) if type(x) is int and x > 1 else None
        return exact(x) if known is None else ("extent", known)

    def twin(self, symbols: dict[int, SymNumber]) -> RuleCall:
        """The call with symbols for the extents that have some; under their ``ShapeEnv``.

        Raises:
            NoProgramError: a gradient is un-broadcast to the shape of what is no operand.
        """

        def aval_of(x: Any) -> Any:
            return with_symbols(x, symbols) if type(x) is Aval else x

        def param_of(x: Any) -> Any:
            if type(x) is tuple:
                return tuple([param_of(y) for y in x])
            return symbols.get(x, x) if type(x) is int else x

        call, context = self.call, self.call.context
        avals, outs = tuple(map(aval_of, context.avals)), tuple(map(aval_of, context.out_avals))
        shapes: list[tuple[int, ...] | None] = []
        for shape, aval in itertools.zip_longest(call.shapes, avals):
            if shape is not None and aval is None:
                raise NoProgramError("a gradient of a number")
            shapes.append(None if shape is None else aval.shape)
        return replaced(
            call,
            context=RuleContext(avals, outs, param_of(context.params), context.needs),
            grads=tuple(map(aval_of, call.grads)),
            saved=tuple(map(aval_of, call.saved)),
            shapes=tuple(shapes),
        )


@struct
class _PlanForAll:
    """What rules ask of the plan of an operation over symbolic layouts."""

    op: Op
    params: tuple[Any, ...]
    out_avals: tuple[Aval, ...]
    is_several: bool
    has_kernel: bool
    is_elsewhere: bool
    is_settled: bool


class _RecorderForAll(RuleRecorder):
    """Writes down what rules do with handles whose layouts are symbolic."""

    __slots__ = ()

    def plan_for(self, op: Op, operands: list[Any], params: tuple[Any, ...]) -> Any:
        if any(map(is_complex, operands)):
            raise NoProgramError("a complex operand")
        avals = [x if type(x) is Aval else value_of(x) for x in operands]  # shape rules look at numbers' types
        outs = aval_args(op, avals, params)
        is_several = isinstance(outs, tuple)
        outs = outs if is_several else (outs,)
        is_settled = takes_all_numbers(op, [x if type(x) is Aval else None for x in avals])
        return _PlanForAll(op, params, outs, is_several, _has_kernel(op, avals, outs, params), False, is_settled)


_has_kernel = advice(has_kernel)


@struct
class _Maker:
    """What will make an array of a symbolic layout."""

    aval: Aval


class _TextForAll(ProgramText):
    """A program's text, with symbolic layouts and numbers among its names."""

    def maker(self, aval: Aval) -> Any:
        return _Maker(aval)

    def run_steps(self, results: set[int]) -> None:
        raise NoProgramError("a list of calls")


def _derived(kind: _RuleKind, before: Sequence[int]) -> Member | None:
    """A member for extents that differ from those of ``before`` where these do; None: there is none.

    Raises:
        NoProgramError: nor is there one for other extents.
    """
    env = ShapeEnv()
    symbols, fixed = symbols_for(env, kind.extents, before)
    try:
        with env:
            call, recorder = kind.twin(symbols), _RecorderForAll()
            printer = _TextForAll(recorder, CPU)
            text = printer.printed(call, record(call, recorder), form_maker())
    except NoProgramError:
        raise
    except Exception as error:
        let_through(error)
        log("record", "%s has no rule program for all extents: %r", kind.call.op.name, error)
        return None
    made = _RulesForAll(text, printer.names)
    return Member(made, made.numbers, env, kind.extents, fixed)


class _RulesForAll:
    """A program with symbolic layouts and numbers.

    Attributes:
        numbers: all of these, for each name that extents decide.
    """

    __slots__ = ("_form", "_form_at", "_makers", "_names", "_text", "numbers")

    def __init__(self, text: str, names: dict[str, Any]) -> None:
        self._text = text
        self._names = {name: x for name, x in names.items() if not _is_made(x)}
        made = {name: x for name, x in names.items() if _is_made(x)}
        self._makers = [(name, _maker_of(x)) for name, x in made.items()]
        self.numbers = [_numbers_of(x) for x in made.values()]
        ((self._form_at, self._form),) = [(n, x) for n, x in enumerate(made.values()) if isinstance(x, StepForm)]

    def filled(self, found: tuple[Any, ...], call: RuleCall) -> Any:
        """The program for what the numbers are for the extents of a call.

        Raises:
            CompileError: ``config.verify`` finds that recording gives another.
        """
        names = self._names.copy()
        for (name, make), numbers in zip(self._makers, found, strict=True):
            names[name] = make(numbers)
        if config.verify:
            self._compare(call, names, found)
        return program_of_text(self._text, names)

    def _compare(self, call: RuleCall, names: dict[str, Any], found: tuple[Any, ...]) -> None:
        """CompileError unless recording gives the same."""
        segments: list[Segment] = []
        usual = step_maker()

        def make(segment: Segment) -> Any:
            segments.append(segment)
            return None if usual is None else usual(segment)

        recorder = RuleRecorder()
        printer = ProgramText(recorder, CPU)
        text = printer.printed(call, record(call, recorder), make)
        if text != self._text:
            raise CompileError(f"a rule program of a family is\n{self._text}\nwhere recording gives\n{text}")
        for name, x in printer.names.items():
            if type(x) in (Aval, tuple, int, float) and names[name] != x:
                raise CompileError(f"a rule program of a family has {names[name]} where recording gives {x}, {name}")
        self._form.check(found[self._form_at], segments[0])


def _is_made(x: Any) -> bool:
    """Whether extents decide what a name stands for."""
    if isinstance(x, StepForm | _Maker):
        return True
    if type(x) is Aval:
        return any([is_symbolic(n) for n in (*x.shape, *x.stride, x.offset)])
    return any(map(_is_made, x)) if type(x) is tuple else is_symbolic(x)


def _numbers_of(x: Any) -> Any:
    """The numbers that extents decide."""
    if isinstance(x, StepForm):
        return x.numbers
    aval = x.aval if isinstance(x, _Maker) else x
    if type(aval) is Aval:
        return aval.shape, None if aval.is_canonical else aval.stride, aval.offset
    return x


def _maker_of(x: Any) -> Callable[[Any], Any]:
    """What makes it of these numbers."""
    if isinstance(x, StepForm):
        return x.load
    if isinstance(x, _Maker):
        dtype = x.aval.dtype
        return lambda numbers: array_maker(make_aval(numbers[0], dtype, *numbers[1:]))
    if type(x) is Aval:
        dtype = x.dtype
        return lambda numbers: make_aval(numbers[0], dtype, *numbers[1:])
    return _as_it_is


def _as_it_is(numbers: Any) -> Any:
    return numbers
