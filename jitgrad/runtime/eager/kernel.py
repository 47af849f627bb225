"""Eager operations on many elements, by kernels of their own.

Owns: when an operation has a kernel, and which arrays are given to it.
Must not know: how kernels are made (``compiled/eager_kernels.py`` installs the maker).
In: an operation and the avals of its operands. Out: functions that take the place of its NumPy rule.

# Note [Eager kernels]
# ~~~~~~~~~~~~~~~~~~~~
# NumPy's rule of an operation walks memory once for each step of a formula, on one core. From ``config.eager_kernels``
# elements on, an eager operation therefore runs as a program of one operation, made by the code generator of compiled
# steps: one pass, all cores, the same bits as in a compiled step where fusion changes no rounding. A rule of several
# calls (softmax, erf, cat) costs more than a kernel for any number of elements: native code calls a kernel in less time
# than Python takes for one call of NumPy. So does a product: NumPy's BLAS looks at its arguments for longer, and shares
# a larger one between threads that wait for each other, which takes a second where other processes have the cores.
# An optimizer's update is a dozen calls, on tensors whose shapes stay: it is always a kernel.
# Which of the two runs depends on the operation, its params and its operands' layouts, not on what ran before (but for
# that Note): so equal calls give equal bits. An operation without a lowering keeps its rule, as does one whose kernel
# LLVM refuses. A virtual device's worker runs the same kernels. A program is made at the first run of a plan, which
# takes about a millisecond where its kernels are known (the process or the disk has them), and then serves until plans
# are dropped; later where shapes keep changing, Note [Ever new shapes]. Arrays are given to it as they are: the driver
# reads from the array's object where its elements are, Note [Program ABI]. Bad data (an index out of range) are
# reported by the status word, before anything is written; the NumPy rule then runs, and raises what it raises.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jitgrad.abi import NativeStep
from jitgrad.config import config
from jitgrad.cpython.arrays import ARRAY_DATA
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.table import Op, RuleContext
from jitgrad.runtime.eager.kernel_runs import RUNS, ArrayKernel
from jitgrad.runtime.eager.new_shapes import pays, work_of
from jitgrad.runtime.native.executor import LoadedStep
from jitgrad.runtime.storage.storage import Storage
from jitgrad.tracer.recording.graph import Segment

__all__ = [
    "ArrayProgram", "KernelRequest", "StepForm", "array_maker", "form_maker", "function_of", "goes_by_steps",
    "has_kernel", "install_kernels", "is_due", "is_product", "kernel_of", "kernel_of_write", "programs_are_due",
    "step_maker",
]  # fmt: skip

_ONE_CALL = frozenset(["pow", "pow_scalar", "rsub", "where"])
"""Operations whose rules are as quick as one call of NumPy, besides those that are a ufunc."""
_SLOW_CALLS = frozenset(["acosh", "hypot", "logaddexp", "logaddexp2"])
"""Operations whose ufunc takes element by element, five to twenty times as long as a kernel."""

_SERIES = frozenset(["digamma", "erf", "erfc", "erfinv", "gelu", "i0", "lgamma", "polygamma", "special_i1"])
"""Operations whose rules sum series, for several arguments each."""
_BY_ELEMENT = ("index_add", "index_backward", "index_put_accumulate", "scatter_add", "scatter_reduce")
"""How the names of operations begin whose rules go from element to element, in ``ufunc.at``."""
_OF_A_FORMULA, _OF_AN_ELEMENT, _OF_A_SERIES = 5, 15, 40
"""What an element of a rule of several calls costs, in those of an addition; of one by element; of a series."""

_PRODUCTS = frozenset(["mm", "bmm", "addmm", "linear", "linear_nobias"])
_CONVOLUTIONS = frozenset(["conv2d", "conv2d_input", "conv2d_weight"])
_LAYERS = ("_lstm_layer", "_gru_layer", "_rnn_tanh_layer", "_rnn_relu_layer")
"""How the names of operations begin whose rules take some calls of NumPy for each of many steps."""
_OFTEN = 3
"""Without kernels, rules of one kind that run so often are made programs."""
_LARGE_NBYTES = 64 << 10
"""From here on the system's fresh pages cost more than a storage."""


class KernelRequest(NamedTuple):
    """What an eager kernel is made for.

    Attributes:
        op: the operation.
        avals: of the operands, each beginning at its array's first element; None for numbers.
        numbers: for each number operand, whether it is a float.
        params: the static parameters.
        outs: avals of the results.
        targets: for each result, the operand that it is written into; or empty, and results are new arrays.
    """

    op: Op
    avals: tuple[Aval | None, ...]
    numbers: tuple[bool, ...]
    params: tuple[Any, ...]
    outs: tuple[Aval, ...]
    targets: tuple[int, ...]


class ArrayProgram(NamedTuple):
    """A program that takes arrays.

    Attributes:
        step: it.
        order, numbers: as of ``ArrayKernel``.
    """

    step: LoadedStep
    order: tuple[int, ...]
    numbers: tuple[int, ...]


class StepForm(NamedTuple):
    """A native step with symbolic extents, Note [Rule families].

    Attributes:
        step: it, with symbolic numbers; it takes arrays.
        numbers: all of these.
        load: makes a step of what the numbers are for some extents.
        check: raises CompileError unless planning a segment gives the step of these numbers.
    """

    step: NativeStep
    numbers: Any
    load: Callable[[Any], LoadedStep | None]
    check: Callable[[Any, Segment], None]


_make: list[Callable[[KernelRequest], ArrayProgram | None]] = []
_make_step: list[Callable[[Segment], LoadedStep | None]] = []
_make_form: list[Callable[[Segment], StepForm | None]] = []


def install_kernels(
    make: Callable[[KernelRequest], ArrayProgram | None],
    make_step: Callable[[Segment], LoadedStep | None],
    make_form: Callable[[Segment], StepForm | None],
) -> None:
    """Let ``make(request)`` make programs, ``make_step(segment)`` native steps that take arrays, and
    ``make_form(segment)`` such steps with symbolic extents.

    They return None where there is none.
    """
    _make[:], _make_step[:], _make_form[:] = [make], [make_step], [make_form]


def step_maker() -> Callable[[Segment], LoadedStep | None] | None:
    """What makes a native step of a segment; None: eager execution has no kernels."""
    return _make_step[0] if _make_step and config.eager_kernels >= 0 and ARRAY_DATA >= 0 else None


def form_maker() -> Callable[[Segment], StepForm | None] | None:
    """What makes a native step of a segment with symbolic extents; None: eager execution has no kernels."""
    return None if step_maker() is None else _make_form[0]


def programs_are_due(op: Op, context: RuleContext) -> bool:
    """Whether the rules of a kind of Node are made programs now: at once, as they may become a native step, Note [Fused
    rules], unless Note [Ever new shapes] says later."""
    avals, outs = context.avals, context.out_avals
    if config.eager_kernels < 0 or not any([a is not None and a.numel for a in (*avals, *outs)]):
        return context.num_runs == _OFTEN
    return is_due(op, avals, outs, context.num_runs, "derivative")


def is_due(op: Op, operands: Sequence[Any], outs: tuple[Aval, ...], run: int, what: str = "operation") -> bool:
    """Whether a shape has its program now, at its ``run``-th run: at the first one, but for Note [Ever new shapes].

    Args:
        what: the operation's own program, or its derivative's: each is a kind.
    """
    weight = _weight_of(op, what)
    if not weight:
        return True
    return pays((what, op.name), operands, work_of(operands, outs, is_product(op), weight), run)


@functools.cache
def _weight_of(op: Op, what: str) -> int:
    """What an element costs by NumPy's rule, in those of an addition; 0: the program is made at once."""
    if op.is_update or op.name in _CONVOLUTIONS or goes_by_steps(op):  # shapes that stay; rules that take long
        return 0
    if op.name in _SERIES:
        return _OF_A_SERIES
    if op.name.startswith(_BY_ELEMENT):
        return _OF_AN_ELEMENT
    return _OF_A_FORMULA if what != "operation" or not (is_product(op) or _is_one_call(op)) else 1


def has_kernel(op: Op, operands: Sequence[Any], outs: tuple[Aval, ...], params: tuple[Any, ...]) -> bool:
    """Whether an operation on such operands, avals and Python numbers, runs as a kernel."""
    least = config.eager_kernels
    if least < 0 or op.lower is None or op.is_view or ARRAY_DATA < 0 or not _make:
        return False
    avals = [x for x in operands if type(x) is Aval]
    if op.is_update or op.name in _PRODUCTS or (avals and not _is_one_call(op)):  # what has no operands fills memory
        least = 0
    if max([a.numel for a in (*avals, *outs)]) < least or any([a.numel == 0 for a in outs]):
        return False
    if len(avals) < len(operands) and not _takes_numbers(op, operands):
        return False
    return op.has_lowering([x if type(x) is Aval else None for x in operands], params)


def goes_by_steps(op: Op) -> bool:
    """Whether the rule of an operation takes some calls of NumPy for each of many steps."""
    return op.name.startswith(_LAYERS)


def is_product(op: Op) -> bool:
    """Whether the rule of an operation is a matrix product by NumPy's BLAS, or several."""
    return op.name in _PRODUCTS or op.name in _CONVOLUTIONS


def _is_one_call(op: Op) -> bool:
    """Whether a rule is one call of NumPy, or as quick as one."""
    if op.name in _SLOW_CALLS:
        return False
    return isinstance(getattr(op.numpy, "direct", op.numpy), np.ufunc) or op.name in _ONE_CALL


def _takes_numbers(op: Op, operands: Sequence[Any]) -> bool:
    """Whether the numbers may be run-time scalars; a power's exponent chooses the formula."""
    return op.name != "pow" and all([type(x) in (Aval, int, float) for x in operands])


def _program(
    op: Op, operands: Sequence[Any], params: tuple[Any, ...], outs: tuple[Aval, ...], targets: tuple[int, ...] = ()
) -> ArrayProgram | None:
    """Avals say where a view begins; an array begins at its first element."""
    avals = tuple([x.at_start() if type(x) is Aval else None for x in operands])
    numbers = tuple([type(x) is float for x in operands if type(x) is not Aval])
    return _make[0](KernelRequest(op, avals, numbers, params, tuple([a.at_start() for a in outs]), targets))


def kernel_of(
    op: Op, operands: Sequence[Any], params: tuple[Any, ...], outs: tuple[Aval, ...]
) -> ArrayKernel | None:
    """The kernel of an operation, which makes new arrays laid out as ``outs``; None if there is none.

    Args:
        operands: avals, or Python numbers.
    """
    program = _program(op, operands, params, outs)
    return None if program is None else ArrayKernel(*program, map(array_maker, outs))


def function_of(call: ArrayKernel, rule: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel with one result as a function of arrays and numbers, then params, as a NumPy rule is.

    Args:
        rule: what runs where the kernel finds bad data.
    """

    def kernel(*args: Any) -> Any:
        made = RUNS.run_kernel(call, args)
        return rule(*args) if made is None else made[0]

    return kernel


def kernel_of_write(
    op: Op, operands: Sequence[Any], params: tuple[Any, ...], outs: tuple[Aval, ...], targets: tuple[int, ...]
) -> ArrayKernel | None:
    """The kernel that writes the results into the operands at ``targets``, and makes no arrays. None: there is none."""
    program = _program(op, operands, params, outs, targets)
    return None if program is None else ArrayKernel(*program, ())


def array_maker(aval: Aval) -> Callable[[], Any]:
    """Makes arrays laid out as ``aval``, without gaps. Large ones lie in storages, whose memory is warm."""
    shape, dtype, nbytes = aval.shape, aval.dtype.np, aval.nbytes
    if nbytes >= _LARGE_NBYTES:
        laid_out = make_aval(shape, aval.dtype, aval.stride)
        return lambda: Storage(nbytes).array(laid_out)
    if aval.is_contiguous:
        return functools.partial(np.empty, shape, dtype)
    memory = np.empty(1, dtype)
    alike = np.lib.stride_tricks.as_strided(memory, shape, [s * dtype.itemsize for s in aval.stride], writeable=False)
    return functools.partial(np.empty_like, alike)
