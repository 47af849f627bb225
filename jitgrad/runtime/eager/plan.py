"""What eager execution knows of an operation before it looks at any value.

Owns: ``EagerPlan`` and the table of plans, by operation and avals.
Must not know: tensors' data, the dispatcher.

Avals are interned, so a plan is found by one dict look-up. It holds what the shape rule said, the NumPy function
without its dtype promotion where none is needed, and the graph side: one ``RuleContext`` serves every node of the plan.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.config import config
from jitgrad.cpython.primitives import eager_native
from jitgrad.devices import CPU, META, Device
from jitgrad.dtypes import DType, bool_, on_new_default
from jitgrad.layouts import plain
from jitgrad.lazy import BeingImportedError, LazyModule
from jitgrad.ops.aval import Aval, check_allocatable, make_aval
from jitgrad.ops.shapes import check_fits, check_width
from jitgrad.ops.table import POINTWISE, Op, RuleContext
from jitgrad.runtime.eager.kernel import (
    array_maker,
    function_of,
    has_kernel,
    is_due,
    is_product,
    kernel_of,
    kernel_of_write,
    programs_are_due,
)
from jitgrad.runtime.eager.kernel_runs import RUNS, ArrayKernel
from jitgrad.runtime.eager.numpy_rule import is_laid_out, own, own_inside, rule_for, run_numpy_inside
from jitgrad.runtime.eager.operands import (
    are_elsewhere,
    aval_args,
    is_complex,
    is_wide,
    number_key,
    on_device,
    takes_all_numbers,
    values_of,
    without_device,
)
from jitgrad.runtime.eager.quiet import run_quietly
from jitgrad.runtime.engine.graph.op_node import BackwardPlan, backward_plan, install_programs
from jitgrad.tensor_base import TensorBase
from jitgrad.user_line import let_through

__all__ = ["EagerPlan", "find_plan", "has_few", "plan_for", "plan_if_right", "plans"]

_MAX_PLANS = 32_768
"""Then the older half is dropped: shapes that keep changing must not fill the memory. A plan takes some 4 KB with what
belongs to it, and a block of a transformer, trained, has a hundred per length of its sequences."""
_MAX_PASSING = 4096
"""Plans that are made again at little cost: from here on the oldest one makes room."""
_MAX_CONSTANTS = 16
_FEW = 512
"""Below so many elements NumPy's rule runs a hundred times while a kernel is made."""


class EagerPlan:
    """An operation on inputs of given avals.

    Attributes:
        op: the operation; its complex form where an input is complex, see Note [Complex forms].
        out_avals: of the outputs.
        is_several: the operation returns a tuple.
        direct: the bare NumPy function, if the inputs share one floating dtype; else None.
        context_avals: of the inputs; None for numbers.
        params: the static parameters.
        differentiable: which inputs have a derivative rule.
        is_plain: one result, in memory of its own, on the CPU.
        is_one_view: one result, over the memory of the operand, on the CPU.
        aval: of the first output.
        by_place: an element of the result is a function of those at its place.
        function: ``direct``, or the operation's NumPy rule.
        views: avals of the results, all over the memory of the first operand, on the CPU and inside it; else None.
        list_rule: the NumPy rule of an operation with one result that takes a list, if it may run as it is; else None.
        has_base: ``op.has_base``.
        into: ``into(*arrays, out)`` writes the result over ``out``, an array laid out alike, and returns it; None if
            there is no such function.
        is_exact: what ``function`` returns is what ``aval`` says; else somebody has to look.
        has_kernel: it runs as a kernel, or will at its first run, Note [Eager kernels].
        kernel: that kernel, once it is made.
        rule: what ``function`` is where there is no kernel.
        is_elsewhere: inputs or results are not on the CPU.
        is_settled: the plan holds for all numbers of these types, until another default dtype is set. Integers to the
            power of a number may not, nor may int8 be clamped by 300: their shape rules look at the number.
        zero: what ``constant`` has made of the integer 0, or None.
    """

    __slots__ = (
        "_constants",
        "_dtype",
        "_graph",
        "_is_exact_rule",
        "_operands",
        "_runs",
        "_taken",
        "_writes",
        "aval",
        "by_place",
        "context_avals",
        "differentiable",
        "direct",
        "function",
        "has_base",
        "has_kernel",
        "into",
        "is_elsewhere",
        "is_exact",
        "is_one_view",
        "is_plain",
        "is_settled",
        "is_several",
        "kernel",
        "list_rule",
        "op",
        "out_avals",
        "params",
        "rule",
        "views",
        "zero",
    )

    def __init__(self, op: Op, avals: Sequence[Any], params: tuple[Any, ...]) -> None:
        if any(map(is_complex, avals)):
            op = _FORMS.complex_form(op, avals)
        out_avals = aval_args(op, avals, params)
        self.op = op
        self.is_several = isinstance(out_avals, tuple)
        self.out_avals: tuple[Aval, ...] = out_avals if self.is_several else (out_avals,)
        if not op.is_view:
            check_allocatable(self.out_avals)
        self.is_elsewhere = are_elsewhere(self.out_avals) or are_elsewhere(avals)
        self.params = without_device(params)
        self.context_avals = tuple(a if isinstance(a, Aval) else None for a in avals)
        vjps = op.vjps * len(avals) if op.num_inputs < 0 else op.vjps
        self.differentiable = tuple(vjp is not None for vjp in vjps)
        self.aval = self.out_avals[0]
        self.has_base = op.has_base
        self._operands = avals
        self._begin()
        is_inside = op.is_view and op.name != "as_strided" and not self.is_elsewhere
        self.views = self.out_avals if is_inside else None
        self.is_one_view = is_inside and not self.is_several
        self.direct: Any = None
        self.function: Any = None
        self.into: Any = None
        self.list_rule: Any = None
        self.rule: Any = None
        self._dtype: Any = None
        self.by_place = self.is_plain = self.is_exact = self._is_exact_rule = self.has_kernel = False
        self.is_settled = takes_all_numbers(op, self.context_avals)
        self._constants: dict[int | float, Any] = {}
        self.zero: Any = None
        if not op.is_view:  # views are planned often: ``data[i]``, for each ``i``
            self._plan_computing()

    def _begin(self) -> None:
        """What runs fill in."""
        self.kernel: ArrayKernel | None = None
        self._runs = 0
        self._writes: dict[tuple[int, ...], Any] = {}
        self._taken: set[tuple[Any, ...]] | None = None
        self._graph: dict[tuple[bool, ...], tuple[BackwardPlan, RuleContext] | None] = {}

    def for_extents(self, avals: Sequence[Any]) -> EagerPlan | None:
        """The plan for operands that differ from this plan's in their extents alone; None: it must be made anew.

        That is where other extents make results of another kind, or decide about the kernel. The operands are on the
        CPU, the operation is no view. Raises what the shape rule raises.
        """
        op = self.op
        found = op.aval(avals, *self.params) if op.num_inputs < 0 else op.aval(*avals, *self.params)
        outs: tuple[Aval, ...] = found if self.is_several else (found,)
        if len(outs) != len(self.out_avals):
            return None
        for mine, other in zip(outs, self.out_avals, strict=True):
            if not mine.numel or _kind_of(mine) != _kind_of(other):
                return None
        is_for_any = self.has_kernel and op.lowers is None and not self.direct and config.eager_kernels >= 0
        if not is_for_any and has_kernel(op, avals, outs, self.params) is not self.has_kernel:
            return None
        check_allocatable(outs)
        plan = self._of_same_kind()
        plan.out_avals, plan.aval, plan._operands = outs, outs[0], avals
        plan.context_avals = tuple([a if type(a) is Aval else None for a in avals])
        plan.function = plan._first_run if plan.has_kernel and plan.is_plain else self.rule
        plan._begin()
        return plan

    def _of_same_kind(self) -> EagerPlan:
        """A plan with what plans share whose operands differ in their extents alone."""
        plan = EagerPlan.__new__(EagerPlan)
        plan.op, plan.params, plan.is_several, plan.is_elsewhere = self.op, self.params, self.is_several, False
        plan.differentiable, plan.has_base, plan.is_settled = self.differentiable, self.has_base, self.is_settled
        plan.views, plan.is_one_view, plan.by_place, plan.is_plain = None, False, self.by_place, self.is_plain
        plan.direct, plan.rule, plan.list_rule, plan.into = self.direct, self.rule, self.list_rule, self.into
        plan.is_exact = plan._is_exact_rule = self._is_exact_rule  # this plan's kernel may have run
        plan.has_kernel, plan._dtype, plan._constants, plan.zero = (
            self.has_kernel, self._dtype, self._constants, self.zero,
        )  # fmt: skip
        return plan

    def _plan_computing(self) -> None:
        """What says how the results are computed."""
        op = self.op
        self.direct = self._direct()
        self._dtype = next((a.dtype.np for a in self.context_avals if a is not None), None)
        self.by_place = self.direct is not None or op.is_update or op.name in POINTWISE
        self.is_plain = not (self.is_several or self.is_elsewhere or op.num_inputs < 0)
        self.function = self.direct or (rule_for(op, filter(None, self.context_avals)) if self.is_plain else None)
        self.is_exact = self._is_exact_rule = self._is_exact()
        self.into = _into(self.direct) if self.is_exact else None
        self.has_kernel = not self.is_elsewhere and has_kernel(op, self._operands, self.out_avals, self.params)
        self.list_rule = self._list_rule()
        self.rule = self.function
        if self.has_kernel and self.is_plain:
            if self.direct and not self._values()[0].dtype.is_inexact and None in self.context_avals:
                # a kernel's numbers come as they are, and NumPy refuses an integer that does not fit, where it wraps
                self.rule, self.into = rule_for(op, filter(None, self.context_avals)), None
            self.function = self._first_run
        elif self._makes_nothing():
            make = array_maker(self.aval)
            self.function = self.rule = lambda *args: make()

    def _makes_nothing(self) -> bool:
        """Whether the result has no elements, and no value can be an error: there is nothing to compute."""
        op = self.op
        has_rule = self.is_plain and self.direct is None and op.lower is not None
        return has_rule and not (self.aval.numel or op.checks_values or op.is_update)

    def _values(self) -> list[Aval]:
        """Of the tensor inputs, but for the mask of an operation that selects by one."""
        return values_of(self.op, self.context_avals)

    def _direct(self) -> Callable[..., Any] | None:
        """See ``direct``. Python numbers do not promote a floating dtype."""
        values, rule = self._values(), self.op.numpy
        if self.is_elsewhere or not values or values[0].dtype.is_half:
            return None
        if any(a.dtype is not values[0].dtype for a in values) or self._number_widens(values[0]):
            return None
        if not values[0].dtype.is_inexact:
            return self._direct_of_integers(values[0].dtype)
        return rule if isinstance(rule, np.ufunc) else getattr(rule, "direct", None)

    def _direct_of_integers(self, dtype: DType) -> Callable[..., Any] | None:
        """``direct`` of tensors of one dtype, integers or bools, and of numbers that do not promote it."""
        direct = getattr(self.op.numpy, "direct", None)
        dtype_of_inputs = getattr(self.op.numpy, "dtype_of_inputs", None)
        if dtype_of_inputs is None or not isinstance(direct, np.ufunc) or self.aval.dtype not in (bool_, dtype):
            return None
        return direct if dtype_of_inputs(*self._operands) is dtype else None

    def _list_rule(self) -> Callable[..., Any] | None:
        """See ``list_rule``."""
        if self.op.num_inputs >= 0 or self.is_several or self.is_elsewhere or self.has_kernel or self.op.is_view:
            return None
        rule = rule_for(self.op, filter(None, self.context_avals))
        return rule if rule is self.op.numpy else None

    def _number_widens(self, value: Aval) -> bool:
        """Whether a complex number is among the inputs, and makes the result of real ones complex."""
        return not value.dtype.is_complex and self.aval.dtype.is_complex

    def _is_exact(self) -> bool:
        """See ``is_exact``; NumPy would choose other layouts for other layouts, and scalars for 0-d results."""
        values = self._values()
        is_row_major = self.aval.ndim > 0 and all(a.is_contiguous for a in values)
        return isinstance(self.direct, np.ufunc) and is_row_major and self.aval.dtype in (bool_, values[0].dtype)

    def look_at_numbers(self, avals: Sequence[Any], params: tuple[Any, ...]) -> None:
        """Raise what the shape rule raises for the numbers of a call, of a plan that is not settled."""
        numbers = tuple([(type(a), a) for a in avals if type(a) is not Aval])
        if self._taken is None or numbers not in self._taken:
            aval_args(self.op, avals, params)
            if self._taken is None or len(self._taken) >= _MAX_CONSTANTS:
                self._taken = set()
            self._taken.add(numbers)

    def constant(self, number: Any) -> Any:
        """A number operand; for a ufunc as a 0-d array, which it takes up at half the cost, kept for next time."""
        array = self._constants.get(number)
        if array is None:
            check_width(number)
            if is_wide(number) and "narrow" in getattr(self.op.aval, "checks_numbers", ()):
                check_fits(number, self.aval.dtype)
            is_kept = (
                isinstance(self.direct, np.ufunc)
                and type(number) in (int, float)
                and not self.has_kernel  # a kernel takes numbers as they are
            )
            if is_kept and type(number) is int and not number:
                self.zero = run_quietly(self._as_array, 0)
                return self.zero
            if not is_kept or not number:  # 0.0 and -0.0 would be one entry
                return number
            if len(self._constants) >= _MAX_CONSTANTS:
                self._constants.clear()
            array = self._constants[number] = run_quietly(self._as_array, number)
        return array

    def _as_array(self, number: int | float) -> Any:
        """A number as a 0-d array; an integer that the dtype does not hold wraps."""
        return np.asarray(number).astype(self._dtype) if type(number) is int else np.array(number, self._dtype)

    def ufunc_operands(self, arrays: list[Any]) -> list[Any]:
        """Arrays and numbers as ``direct`` takes them."""
        if None not in self.context_avals or self._values()[0].dtype.is_inexact:
            return arrays
        return [self._as_array(x) if type(x) is int else x for x in arrays]

    def _first_run(self, *args: Any) -> Any:
        """Make the kernel, Note [Eager kernels]; run it. A signal's handler may come in the middle of that."""
        if not self._is_due():
            return self.rule(*args)
        try:
            self.kernel = kernel_of(self.op, self._operands, self.params, self.out_avals)
        except BeingImportedError:
            return self.rule(*args)
        if self.kernel is None:
            self.has_kernel = False
            self.function = self.rule
        else:
            self.is_exact = True
            self.function = function_of(self.kernel, self.rule)
        return self.function(*args)

    def _is_due(self) -> bool:
        """Whether the kernel is to be made now: at the first run, but for Note [Ever new shapes]."""
        self._runs += 1
        return is_due(self.op, self._operands, self.out_avals, self._runs)

    def run_anyhow(self, args: list[Any]) -> Any:
        """The result for arrays that may lie in memory in another way than their avals say, as a trace's values do.

        A kernel knows one layout; NumPy's rule takes any. It may be slow for a product, which has another kernel then.
        A call that is not compiled yet comes by here once: a kernel for a few elements would not pay for its making.
        """
        if self.has_kernel and self.rule and has_few(self):
            return own(run_quietly(self.rule, *args, *self.params), self.aval, args)
        rule, known = self.rule, zip(self.context_avals, args, strict=True)
        if self.has_kernel and rule and not all([aval is None or is_laid_out(x, aval) for aval, x in known]):
            if is_product(self.op) and (found := self._as_laid_out(args)).has_kernel:
                rule = found.function
            return own(run_quietly(rule, *args, *self.params), self.aval, args)
        out = run_quietly(self.function, *args, *self.params)
        return out if self.is_exact else own(out, self.aval, args)

    def _as_laid_out(self, args: list[Any]) -> EagerPlan:
        """The plan for operands that lie in memory as these arrays do."""
        avals: list[Any] = []
        for aval, x in zip(self.context_avals, args, strict=True):
            stride = () if aval is None else tuple([s // x.itemsize for s in x.strides])
            avals.append(x if aval is None else make_aval(aval.shape, aval.dtype, stride))
        return find_plan(self.op, avals, self.params)

    def compute(self, arrays: list[Any]) -> list[Any]:
        """The results as new arrays, in a list. Raises what the NumPy rule raises."""
        made = self.run_several(arrays)
        return run_quietly(self.compute_inside, arrays) if made is None else made

    def on_host(self) -> Callable[[list[Any]], list[Any]] | None:
        """What computes the results of an operation on a device, where the CPU has a kernel for it: the same bits."""
        if META in [a.device for a in (*self.out_avals, *self._operands) if type(a) is Aval]:
            return None
        host = find_plan(self.op, [on_device(CPU, a) for a in self._operands], self.params)
        return host.compute if host.has_kernel else None

    def compute_inside(self, arrays: list[Any]) -> list[Any]:
        """``compute`` by the NumPy rule, for a caller that NumPy is quiet for."""
        results = run_numpy_inside(self.op, arrays, self.params, self.out_avals)
        return [own_inside(r, a, arrays) for r, a in zip(results, self.out_avals, strict=True)]

    def run_several(self, arrays: list[Any]) -> list[Any] | None:
        """``compute``; None if there is no kernel, or it found bad data."""
        if not self.has_kernel:
            return None
        if self.kernel is None:
            if not self._is_due():
                return None
            try:
                self.kernel = kernel_of(self.op, self._operands, self.params, self.out_avals)
            except BeingImportedError:  # as in ``_first_run``
                return None
            if self.kernel is None:
                self.has_kernel = False
                return None
        made: list[Any] | None = RUNS.run_kernel(self.kernel, tuple(arrays))
        return made

    def write(self, arrays: list[Any], targets: tuple[int, ...]) -> bool:
        """Write the results into the operands at ``targets``, by the kernel; False if nothing is written.

        They must be shaped as the results are, and of their dtypes.
        """
        if not self.has_kernel:
            return False
        if targets not in self._writes:
            if not self._is_due():
                return False
            parts = self.op, self._operands, self.params, self.out_avals
            try:
                self._writes[targets] = kernel_of_write(*parts, targets)
            except BeingImportedError:  # as in ``_first_run``
                return False
        kernel = self._writes[targets]
        return kernel is not None and RUNS.run_kernel(kernel, tuple(arrays)) is not None

    def graph(self, needs: tuple[bool, ...]) -> tuple[BackwardPlan, RuleContext] | None:
        """What a node needs, for one choice of inputs that require grad; None: no gradient will come or go."""
        try:
            return self._graph[needs]
        except KeyError:
            wanted = tuple([need and has_rule for need, has_rule in zip(needs, self.differentiable, strict=True)])
            context = RuleContext(self.context_avals, self.out_avals, self.params, wanted)
            is_useful = True in wanted and any([a.dtype.is_inexact for a in self.out_avals])
            found = (backward_plan(self.op, wanted), context) if is_useful else None
            self._graph[needs] = found
            return found


@eager_native
def has_few(plan: EagerPlan) -> bool:
    """Whether all operands and results are small."""
    results: tuple[Any, ...] = plan.out_avals
    for made in results:
        out: Aval = made
        if int(out.numel) >= _FEW:
            return False
    operands: tuple[Any, ...] = plan.context_avals
    for given in operands:
        if given is not None:
            aval: Aval = given
            if int(aval.numel) >= _FEW:
                return False
    return True


_FORMS = LazyModule("jitgrad.ops.complex.complex_forms")
_RULE_PROGRAMS = LazyModule("jitgrad.runtime.eager.rule_programs")
install_programs(lambda: _RULE_PROGRAMS.RulePrograms(), programs_are_due)


_NO_THIRD = (np.maximum, np.minimum)
"""Ufuncs that deprecate a result by position."""


def _into(ufunc: Any) -> Callable[..., Any]:
    """See ``EagerPlan.into``."""
    return (lambda *args: ufunc(*args[:-1], out=args[-1])) if ufunc in _NO_THIRD else ufunc


# Note [Operands that begin elsewhere]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# ``data[i : i + n]`` is another layout for each ``i``: it begins elsewhere in the storage. Where an operand begins
# means nothing to an operation but a view, as an array begins at its first element. So there is one plan, with its
# kernel, contexts and rule programs, for operands that begin at 0; the table has it under the keys of others, too.
# Those keys, and the plans of views, which are cheap, stay for a while only (``_passing``): an epoch over a data set
# must not push out what every step needs. A rule program asks for saved values and gradients that lie alike, not for
# the same layout, unless a result is a view of one.

plans: dict[tuple[Any, ...], EagerPlan] = {}
_passing: deque[tuple[Any, ...]] = deque()
"""Keys of ``plans``, oldest first."""
on_new_default.append(plans.clear)
on_new_default.append(_passing.clear)


def plan_for(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> EagerPlan:
    """The plan for these tensors and numbers.

    Raises:
        Whatever the shape rule raises.
    """
    if len(inputs) == 2:
        x, y = inputs
        key: tuple[Any, ...] = (
            op,
            params,
            x._aval if isinstance(x, TensorBase) else number_key(op, x),
            y._aval if isinstance(y, TensorBase) else number_key(op, y),
        )
    else:
        key = (op, params, *[x._aval if isinstance(x, TensorBase) else number_key(op, x) for x in inputs])
    try:
        plan = plans.get(key)
    except TypeError:  # a parameter that cannot be hashed
        plan = None
    return plan or find_plan(op, [x._aval if isinstance(x, TensorBase) else x for x in inputs], params)


def plan_if_right(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> EagerPlan | None:
    """The plan for these tensors and numbers; None where that raises: the general way says what is wrong, and when."""
    try:
        return find_plan(op, [x._aval if isinstance(x, TensorBase) else x for x in inputs], params)
    except Exception as error:
        let_through(error)
        return None


def find_plan(op: Op, avals: Sequence[Any], params: tuple[Any, ...]) -> EagerPlan:
    """The plan for these avals and numbers.

    Raises:
        Whatever the shape rule raises.
    """
    params = plain(params)
    key = (op, params, *[a if type(a) is Aval else number_key(op, a) for a in avals])
    try:
        plan = plans.get(key)
    except TypeError:  # a parameter that cannot be hashed
        return EagerPlan(op, avals, params)
    if plan is not None:
        return plan
    if not op.is_view and any([type(a) is Aval and a.offset and a.device is CPU for a in avals]):
        plan = find_plan(op, [_at_start(a) for a in avals], params)
        if plan.is_settled:
            _keep_for_a_while(key, plan)
        return plan
    looked_at = ("looked at", *key)  # the shape rule has to look at the numbers of each call
    plan = plans.get(looked_at)
    if plan is not None:
        plan.look_at_numbers(avals, params)
        return plan
    plan = _new_plan(op, avals, params)
    if op.is_view:
        _keep_for_a_while(key, plan)
    else:
        key = key if plan.is_settled else looked_at
        if len(plans) >= _MAX_PLANS:
            for old in [*plans][: _MAX_PLANS // 2]:
                plans.pop(old, None)
        plans[key] = plan
    return plan


_kinds: dict[tuple[Any, ...], EagerPlan] = {}
"""Of each kind of operands a plan, for ``for_extents``: it takes half the time of a new one."""
_MAX_KINDS = 2048
on_new_default.append(_kinds.clear)


def _kind_of(x: Aval) -> Any:
    """What of an operand or a result decides more than extents."""
    return x.dtype, len(x.shape), x.is_contiguous


def _new_plan(op: Op, avals: Sequence[Any], params: tuple[Any, ...]) -> EagerPlan:
    """A plan that no table has; that of the same kind with other extents says most of it."""
    given = [a for a in avals if type(a) is Aval]
    if op.is_view or not given or Device in map(type, params) or any([a.device is not CPU for a in given]):
        return EagerPlan(op, avals, params)
    kind = (op, params, *[_kind_of(a) if type(a) is Aval else number_key(op, a) for a in avals])
    known = _kinds.get(kind)
    plan = None if known is None else known.for_extents(avals)
    if plan is None:
        plan = EagerPlan(op, avals, params)
        if all([a.numel and a.device is CPU for a in plan.out_avals]):
            if len(_kinds) >= _MAX_KINDS:
                _kinds.clear()
            _kinds[kind] = plan
    return plan


def _at_start(x: Any) -> Any:
    """An aval that begins at 0; a number as it is."""
    return x.at_start() if type(x) is Aval and x.device is CPU else x


def _keep_for_a_while(key: tuple[Any, ...], plan: EagerPlan) -> None:
    """See Note [Operands that begin elsewhere]."""
    _passing.append(key)
    plans[key] = plan
    if len(_passing) > _MAX_PASSING:
        plans.pop(_passing.popleft(), None)
