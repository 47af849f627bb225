"""Running the instructions of a recorded segment one after the other, as eager mode runs operations.

Owns: ``run_usual`` and ``last_uses``, once, in the subset of Note [Native Python]; ``INSTR_RUNS``: the form in use.
Must not know: segments, buffers, what becomes of an error (``compiled/interpret.py``).

A graph that is new runs its first call this way (Note [New graphs]). What stands between two kernels counts then, so
usual operations - one result, a plan that eager mode has - are run by native code, Note [Eager in native code]. It
stops at the first one that is anything else, and goes on behind it when it is called again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.cpython.primitives import call_inside, eager_apart, eager_native, is_hashable, joined, take_out
from jitgrad.ops.aval import Aval
from jitgrad.runtime.eager.kernel_runs import run_kernel
from jitgrad.runtime.eager.numpy_rule import is_own, own
from jitgrad.runtime.eager.plan import EagerPlan, has_few, plans
from jitgrad.runtime.eager.results import Here, constant_of, run_all
from jitgrad.tracer.recording.graph import Const, Instr, RuntimeScalar

__all__ = ["INSTR_RUNS", "PYTHONS_INSTR_RUNS", "InstrRuns", "last_uses", "run_usual"]


@eager_native
def is_laid_out_alike(known: Any, wanted: Aval) -> bool:
    """Whether an array of the layout ``known``, None if that is not known, lies in memory as an aval says."""
    if known is None:
        return False
    aval: Aval = known
    return aval is wanted or (aval.is_contiguous and wanted.is_contiguous)


@eager_native
def number_of(x: Any, scalars: list[Any]) -> Any:
    """A number operand of an instruction."""
    if isinstance(x, RuntimeScalar):
        return scalars[int(x.slot)]
    constant: Const = x
    return constant.value


@eager_apart
def by_rule(thread: Here, plan: EagerPlan, rule: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    """The result of a function of NumPy's, in memory of its own."""
    given: Any = joined(operands, plan.params)
    array = call_inside(thread.context, rule, given)
    if array is None:  # a finalizer has come here in the middle of another operation
        array = run_all(rule, given)
    return array if is_own(array, plan.aval, operands) else own(array, plan.aval, operands)


@eager_apart
def plan_of(instr: Instr, kinds: list[Any]) -> Any:
    """The plan that eager mode has for an instruction; None: it has none, or it takes more than this."""
    params: tuple[Any, ...] = instr.params
    if len(params) > 0 and not is_hashable(params):
        return None
    known: dict[Any, Any] = plans
    found = known.get(joined((instr.op, params), tuple(kinds)))
    if found is None:
        return None
    plan: EagerPlan = found
    return found if plan.is_plain is True else None


@eager_apart
def result_of_plan(thread: Here, plan: EagerPlan, operands: tuple[Any, ...], are_laid_out: bool) -> Any:
    """The result for arrays and numbers, see ``EagerPlan.run_anyhow``; None: somebody has to look."""
    if plan.has_kernel is not True:
        return by_rule(thread, plan, plan.function, operands)
    if has_few(plan):
        return None if plan.rule is None else by_rule(thread, plan, plan.rule, operands)
    if plan.kernel is None or not are_laid_out:
        return None
    found = run_kernel(plan.kernel, operands)
    if found is None:
        return None
    outs: list[Any] = found
    return outs[0]


@eager_apart
def run_one_instr(
    thread: Here, instr: Instr, values: dict[Any, Any], layouts: dict[Any, Any], scalars: list[Any]
) -> bool:
    """Run an instruction if it is a usual one; False: nothing has happened."""
    operands: list[Any] = []
    kinds: list[Any] = []
    are_laid_out = True
    for x, aval in zip(instr.inputs, instr.input_avals, strict=True):
        if aval is None:
            number = number_of(x, scalars)
            operands.append(number)
            kinds.append(type(number))
        else:
            array = values.get(x)
            if array is None:
                return False
            operands.append(array)
            kinds.append(aval)
            are_laid_out = are_laid_out and is_laid_out_alike(layouts.get(x), aval)
    found = plan_of(instr, kinds)
    if found is None:
        return False
    plan: EagerPlan = found
    avals: tuple[Any, ...] = instr.input_avals
    for i in range(len(avals)):
        if avals[i] is None:
            operands[i] = constant_of(plan, operands[i])
    result = result_of_plan(thread, plan, tuple(operands), are_laid_out)
    if result is None:
        return False
    outputs: tuple[Any, ...] = instr.outputs
    values[outputs[0]] = result
    layouts[outputs[0]] = plan.aval
    return True


@eager_apart
def run_usual(thread: Here, instrs: list[Any], dead: list[Any], tables: tuple[Any, ...], at: list[Any]) -> None:
    """Run instructions, from the one at ``at[0]`` on, as long as they are usual ones.

    Args:
        thread: of the caller.
        instrs: in order.
        dead: per instruction, the value ids that nobody needs behind it: they leave ``values``.
        tables: ``(values, layouts, scalars)``: value id -> array; value id -> the layout that its array is known to
            have; run-time scalars by their slots.
        at: a list of one number: which instruction is run next, also where this raises.
    """
    values: dict[Any, Any] = tables[0]
    layouts: dict[Any, Any] = tables[1]
    scalars: list[Any] = tables[2]
    i = int(at[0])
    while i < len(instrs):
        if not run_one_instr(thread, instrs[i], values, layouts, scalars):
            return
        gone: list[Any] = dead[i]
        for vid in gone:
            take_out(values, vid)
        i += 1
        at[0] = i


@eager_native
def note_uses(vids: tuple[Any, ...], needed: set[Any], used: list[Any]) -> None:
    """Values among ``vids`` that nobody behind needs: they are needed from here on, backwards."""
    for x in vids:
        if type(x) is int and x not in needed:
            needed.add(x)
            used.append(x)


@eager_apart
def last_uses(instrs: list[Any], needed: set[Any], made_by: dict[Any, Any]) -> Any:
    """Per instruction, last to first, the values that nobody needs behind it, in a list of lists.

    Args:
        needed: value ids that are needed behind all of them; changed.
        made_by: value id -> a tuple of those that it replaces, which are needed up to the instruction that makes it.
    """
    dead: list[Any] = []
    i = len(instrs) - 1
    while i >= 0:
        instr: Instr = instrs[i]
        outputs: tuple[Any, ...] = instr.outputs
        used: list[Any] = []
        dead.append(used)
        if made_by:
            for vid in outputs:
                replaced = made_by.get(vid)
                if replaced is not None:
                    note_uses(replaced, needed, used)
        note_uses(instr.inputs, needed, used)
        for vid in outputs:
            if vid not in needed:
                used.append(vid)
        i -= 1
    return dead


class InstrRuns:
    """These functions in the form that is in use."""

    __slots__ = ("last_uses", "run_usual")

    last_uses: Callable[..., list[list[int]]]
    run_usual: Callable[..., None]

    def __init__(self) -> None:
        self.use(PYTHONS_INSTR_RUNS)

    def use(self, functions: dict[str, Any]) -> None:
        """Put these forms in use."""
        self.last_uses, self.run_usual = functions["last_uses"], functions["run_usual"]

    def is_native(self) -> bool:
        """Whether they run as native code."""
        return self.run_usual is not run_usual


PYTHONS_INSTR_RUNS: dict[str, Any] = {"last_uses": last_uses, "run_usual": run_usual}


INSTR_RUNS = InstrRuns()
