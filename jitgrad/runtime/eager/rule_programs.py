"""Derivative rules of eager Nodes as programs: straight lists of calls over arrays.

Owns: recording a Node's rules, the text of a program, and which program a Node runs.
Must not know: the rules, what kernels are, when a program is one (``fused_rules.py``).
In: a Node that has run often. Out: functions of what it saved and of the gradients that come in.

# Note [Rule programs]
# ~~~~~~~~~~~~~~~~~~~~
# Derivative rules are written over Tensors, so that they can be differentiated again. Run as they are, each of their
# operations looks for its plan, makes a Tensor and enters NumPy's context, which costs more than it takes NumPy to
# multiply a thousand numbers. So when Nodes of one kind (they share a ``RuleContext``: operation, layouts, params,
# which inputs need a gradient) have run a few times, their rules run once more over handles without memory, and a
# recorder writes down the operations. What it wrote is printed as a Python function: the plans' functions, kernels
# among them, called one after another on arrays, and Tensors made of the results alone. Un-broadcasting the results
# belongs to the program. The calls are those that the rules make, in their order: so the bits are the same.
#
# On many elements a program is one native step instead, Note [Fused rules].
#
# A program begins with what it was recorded for: the layouts of the gradients and of the saved values, the values of
# saved numbers, and versions. Where anything differs it returns None before it has done anything, and the rules run
# as they are: they say what is wrong, or another program is made. Rules that read a value, write in place, draw, or
# use tensors of their own have no program. With ``create_graph``, under a handler and while a profiler looks, rules
# run as they are.
"""

from __future__ import annotations

import math
from types import CodeType
from typing import Any

import numpy as np

from jitgrad.devices import CPU, META, Device
from jitgrad.events import bump, log
from jitgrad.handler import Handler
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op
from jitgrad.probe import probe
from jitgrad.runtime.eager.device_ops import step_on
from jitgrad.runtime.eager.eager import split_args
from jitgrad.runtime.eager.fused_rules import FusedRules, RuleStep, fuse
from jitgrad.runtime.eager.kernel import array_maker
from jitgrad.runtime.eager.kernel_runs import RUNS
from jitgrad.runtime.eager.plan import EagerPlan, find_plan
from jitgrad.runtime.eager.quiet import quiet, run_anyway
from jitgrad.runtime.eager.results import MAKERS
from jitgrad.runtime.engine.graph.op_node import OpNode, edges_asked, run_rules, wanted_nodes
from jitgrad.runtime.engine.graph.saved_variable import RESULT, SavedVariable
from jitgrad.runtime.engine.graph.validate import is_expandable_to, sum_to_shape
from jitgrad.state import modes_in_use, switch_handler
from jitgrad.structs import struct
from jitgrad.tensor_base import TensorBase, new_tensor, tensor_class
from jitgrad.tracer.recording.recorder_state import new_tid
from jitgrad.user_line import is_called_from_outside
from jitgrad.version_counter import VERSION

__all__ = ["RulePrograms"]

_MAX_PROGRAMS = 4
"""Of one kind of Node; a kind whose gradients come in ever new layouts keeps to its rules."""

_MAX_FUSED = 16
"""Where programs are native steps, the oldest makes room for the next: there the rules have other bits."""


class NoProgramError(Exception):
    """The rules do something that a program cannot."""


@struct
class _Value:
    """A value of the rules: a gradient that comes in, a saved value, or what an operation computed.

    Attributes:
        name: the variable that holds its array; of a view, once it is needed.
        aval: its layout.
        tensor: of a value from outside, the variable that holds the tensor.
        source: of a view, the number of what it is a view of; else -1.
        has_base: of a view: it remembers its base.
        made: what the rules have made it by; None: it comes from outside.
    """

    name: str
    aval: Aval
    tensor: str = ""
    source: int = -1
    has_base: bool = False
    made: RuleStep | None = None

    @property
    def is_fresh(self) -> bool:
        """A step has made the array, and nobody else knows it."""
        return self.made is not None and self.source < 0


class _RuleRecorder(Handler):
    """Writes down what rules do with handles that have no memory.

    Attributes:
        tid: stamp of the handles; ``_vid`` of one is the number of its value.
        values: by number.
        steps: what computes, in order: all but views.
    """

    __slots__ = ("steps", "tid", "values")

    def __init__(self) -> None:
        self.tid = new_tid()
        self.values: list[_Value] = []
        self.steps: list[RuleStep] = []

    def refuse(self, what: str) -> Any:
        raise NoProgramError(what)

    def makes_sparse(self) -> None:
        self.refuse("a sparse gradient")

    def draws(self, draw: Any) -> Any:
        self.refuse("random numbers")

    def add(self, value: _Value) -> Any:
        """A handle on a new value."""
        handle = new_tensor(value.aval, None)
        handle._tid, handle._vid = self.tid, len(self.values)
        self.values.append(value)
        return handle

    def number_of(self, x: Any) -> int:
        """The number of a handle's value."""
        if not isinstance(x, TensorBase) or x._tid != self.tid:
            raise NoProgramError("a tensor that the rules have made by themselves")
        return x._vid

    def binary(self, op: Op, a: Any, b: Any) -> Any:
        if isinstance(b, complex):
            self.refuse("a complex number")
        return self.apply(op, (a, b)) if isinstance(b, TensorBase | int | float) else NotImplemented

    def reflected(self, op: Op, number: int | float | complex, x: Any) -> Any:
        if isinstance(number, complex):
            self.refuse("a complex number")
        return self.apply(op, (number, x))

    def apply(self, op: Op, args: tuple[Any, ...]) -> Any:
        if is_called_from_outside(_record.__code__):
            raise NoProgramError("a finalizer or a signal handler has come in between")
        inputs, params = split_args(op, args)
        operands = tuple([self.number_of(x) if isinstance(x, TensorBase) else [x] for x in inputs])
        plan = find_plan(op, [x._aval if isinstance(x, TensorBase) else x for x in inputs], params)
        if plan.is_elsewhere or not plan.is_settled:
            raise NoProgramError(f"{op.name} on other devices, or with a default dtype that may change")
        first = len(self.values)
        step = RuleStep(plan, operands, tuple(range(first, first + len(plan.out_avals))))
        if op.is_view:
            if op.name == "as_strided" or len(operands) != 1:  # its operand is a value: views take no number
                raise NoProgramError(op.name)
            source: Any = operands[0]
            made = [self.add(_Value("", a, "", source, op.has_base, step)) for a in plan.out_avals]
        else:
            made = [self.add(_Value(f"v{first + nr}", a, made=step)) for nr, a in enumerate(plan.out_avals)]
            self.steps.append(step)
        return tuple(made) if plan.is_several else made[0]


def _record(node: OpNode, grads: list[Any]) -> tuple[_RuleRecorder, list[Any], list[Any]]:
    """Run the rules of a Node over handles on the CPU: the recorder, the saved values, the gradients made to fit."""
    recorder = _RuleRecorder()
    avals = [None if g is None else g._aval.on(CPU) for g in grads]
    given = [None if a is None else recorder.add(_Value(f"a{i}", a, f"g{i}")) for i, a in enumerate(avals)]
    saved: list[Any] = []
    for i, x in enumerate(node.saved or ()):
        is_tensor = type(x) is SavedVariable
        saved.append(recorder.add(_Value(f"b{i}", x.tensor._aval.on(CPU), f"x{i}")) if is_tensor else x)
    before = switch_handler(recorder)
    try:
        found = list(run_rules(node.op, node.plan, node.context, given, saved, node.asked_edges()))
        for index, (target, input_nr) in enumerate(node.next_edges):
            grad = found[index]
            if target is not None and grad is not None and node.hooks is None:
                # not the edge's: what was written through a view has its base's edge, see ``CopySlices``
                operand = node.context.avals[index]
                shape = target.input_metadata[input_nr].shape if operand is None else operand.shape
                if grad._aval.shape != shape and is_expandable_to(shape, grad._aval.shape):
                    found[index] = sum_to_shape(grad, shape)
    finally:
        switch_handler(before)
    return recorder, saved, found


_codes: dict[str, CodeType] = {}
"""By text: programs for other extents have the same, and compiling one takes most of the time that making it takes."""
_MAX_CODES = 1024


class _ProgramText:
    """Prints a program.

    Attributes:
        names: what the text's capital letters with numbers stand for.
        lines: of the function.
        is_fused: the program is one native step, Note [Fused rules].
        saves_numbers: it is made for the values of saved numbers.
        device: where gradients and saved values are.
    """

    def __init__(self, recorder: _RuleRecorder, device: Device) -> None:
        self.values, self.steps, self.device = recorder.values, recorder.steps, device
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "Tensor": tensor_class(), "SavedVariable": SavedVariable, "ndarray": np.ndarray, "several": _several,
            "MAKERS": MAKERS, "RUNS": RUNS,
        }  # fmt: skip
        self._tensors: dict[int, str] = {}
        self.is_fused = self.saves_numbers = False

    def constant(self, letter: str, value: Any) -> str:
        """A name for an object."""
        name = f"{letter}{len(self.names)}"
        self.names[name] = value
        return name

    # --- what the program was made for ---

    def check(self, grads: list[Any], saved: list[Any], results: list[int | None]) -> None:
        """Return None where gradients or saved values are others than those that the program was recorded with.

        Either may begin elsewhere in its storage, if no result is a view of it, Note [Operands that begin elsewhere]:
        gradients of elements that were picked one by one and then stacked lie one behind the other.
        """
        seen = {self._root(n) for n in results if n is not None and self.values[n].source >= 0}
        number = 0  # of the recorder's values: gradients are the first, what is saved follows
        for i, grad in enumerate(grads):
            self.lines.append(f"g{i} = grads[{i}]")
            if grad is None:
                self._require(f"g{i} is None")
                continue
            self._require(f"type(g{i}) is Tensor and {self._lies_as(f'g{i}', grad._aval, number in seen)}")
            number += 1
        for i, value in enumerate(saved):
            self.lines.append(f"s{i} = saved[{i}]")
            if isinstance(value, TensorBase):
                self._check_saved(i, value._aval.on(self.device), number in seen)
                number += 1
            elif type(value) in (int, float) and value and not math.isnan(value):
                kind, self.saves_numbers = type(value).__name__, True
                self._require(f"type(s{i}) is {kind} and s{i} == {self.constant('N', value)}")
            elif type(value) is bool or value is None:
                self._require(f"s{i} is {value}")
            else:
                raise NoProgramError("a number that is no good key")

    def _check_saved(self, i: int, aval: Aval, is_seen: bool) -> None:
        """What ``SavedVariable.unpack`` looks at."""
        self._require(f"type(s{i}) is SavedVariable")
        self.lines.append(f"x{i} = s{i}.tensor")
        self._require(f"{self._lies_as(f'x{i}', aval, is_seen)} and x{i}._vc[{VERSION}] == s{i}.version")
        self._require(f"s{i}.output_nr != {RESULT} or x{i}._grad_fn is not None or x{i}._graph is not None")

    def _lies_as(self, tensor: str, aval: Aval, is_seen: bool) -> str:
        """Whether a tensor is laid out as ``aval``, with its device; ``is_seen``: some result is a view of it."""
        name = self.constant("A", aval)
        same = f"{tensor}._aval is {name}"
        is_strict = is_seen or self.device is not CPU
        return same if is_strict else f"({same} or MAKERS.are_alike({tensor}._aval, {name}))"

    def _require(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): return None")

    # --- arrays ---

    def load_arrays(self, numbers: set[int]) -> None:
        """The arrays of those values among ``numbers`` that come from outside."""
        for number in sorted(numbers):
            value = self.values[number]
            if value.tensor:
                self.lines.append(f"{value.name} = {value.tensor}._array")
                self.lines.append(f"if {value.name} is None: {value.name} = {value.tensor}._ndarray()")

    def _root(self, number: int) -> int:
        while self.values[number].source >= 0:
            number = self.values[number].source
        return number

    def array(self, number: int) -> str:
        """The variable with a value's array; of a view it is made here, over the memory of what it looks at."""
        value = self.values[number]
        if value.source >= 0 and not value.name:
            made = self._view(number)
            value.name = f"v{number}"
            self.lines.append(f"{value.name} = {made}")
        return value.name

    def _view(self, number: int) -> str:
        value = self.values[number]
        root, source = self.values[self._root(number)], self.values[value.source]
        if root.aval.is_contiguous and value.aval.numel:
            size = value.aval.dtype.itemsize
            strides = tuple([s * size for s in value.aval.stride])
            layout = (value.aval.shape, value.aval.dtype.np, strides)
            shape, dtype, steps = (self.constant("L", part) for part in layout)
            first = (value.aval.offset - root.aval.offset) * size
            return f"ndarray({shape}, {dtype}, {root.name}, {first}, {steps})"
        order = _permutation(source.aval, value.aval)
        if order is None:
            raise NoProgramError("a view of what is no row-major array")
        return f"{self.array(value.source)}.transpose({order})"

    # --- steps ---

    def run_steps(self, results: set[int]) -> None:
        """The calls; ``results``: numbers of values that leave the program."""
        last: dict[int, int] = {}
        for at, step in enumerate(self.steps):
            last.update((self._root(n), at) for n in step.operands if type(n) is int)
        kept = results | {self._root(n) for n, value in enumerate(self.values) if value.source >= 0}
        for at, step in enumerate(self.steps):
            used = [n for n in step.operands if type(n) is int and self.values[n].is_fresh]
            self._run_step(step, [n for n in used if last[n] == at and n not in kept])

    def _run_step(self, step: RuleStep, dying: list[int]) -> None:
        plan = step.plan
        operands = [self._operand(plan, x) for x in step.operands]
        names = [self.values[n].name for n in step.results]
        params = [self.constant("P", x) for x in plan.params]
        if plan.list_rule is not None:
            rule, aval = self.constant("F", plan.list_rule), self.constant("A", plan.aval)
            listed = ", ".join(operands)
            given = "".join(f", {name}" for name in params)
            self.lines.append(f"{names[0]} = MAKERS.owned({rule}([{listed}]{given}), {aval}, ({listed},))")
            return
        if not plan.is_plain:
            self.lines.append(f"{', '.join(names)}, = several({self.constant('E', plan)}, [{', '.join(operands)}])")
            return
        # a kernel's plan has another function from its first run on
        function = f"{self.constant('E', plan)}.function" if plan.has_kernel else self.constant("F", plan.function)
        args = ", ".join([*operands, *params])
        if not plan.is_exact:
            aval = self.constant("A", plan.aval)
            given = "".join(f"{x}, " for x in operands)
            self.lines.append(f"{names[0]} = MAKERS.owned({function}({args}), {aval}, ({given}))")
            return
        place = "" if plan.has_kernel else self._place(plan.aval, dying)
        self.lines.append(f"{names[0]} = {function}({args}{place})")

    def _place(self, aval: Aval, dying: list[int]) -> str:
        """Write into an operand that is not needed any more, where it has the result's layout."""
        for number in dying:
            if self.values[number].aval is aval:
                return f", out={self.values[number].name}"
        return ""

    def _operand(self, plan: EagerPlan, x: Any) -> str:
        return self.array(x) if type(x) is int else self.constant("C", plan.constant(x[0]))

    def run_at_once(self, fused: FusedRules) -> None:
        """One native step; where it finds bad data the rules run, and say so."""
        for number in fused.outputs:
            value = self.values[number]
            self.lines.append(f"{value.name} = {self.constant('O', array_maker(value.aval))}()")
        arrays = "".join(f"{self.values[n].name}, " for n in (*fused.inputs, *fused.outputs))
        step, numbers = self.constant("R", fused.step), self.constant("N", fused.numbers)
        self.lines.append(f"if RUNS.run_step({step}, ({arrays}), {numbers}): return None")

    def run_on_device(self, fused: FusedRules) -> None:
        """The same on a virtual device, whose stream fills the results."""
        avals = [self.values[n].aval for n in fused.outputs]
        self._tensors.update({n: f"t{n}" for n in fused.outputs})
        made = "".join(f"t{n}, " for n in fused.outputs)
        given = "".join(f"{self.values[n].tensor}, " for n in fused.inputs)
        start = self.constant("D", step_on(self.device, fused.step, avals, fused.numbers))
        self.lines.append(f"{made}= {start}(({given}))")

    # --- results ---

    def tensor(self, number: int) -> str:
        """The variable with a value's tensor, made here if there is none yet."""
        name = self.values[number].tensor or self._tensors.get(number)
        if name is None:
            value = self.values[number]
            aval = self.constant("A", value.aval.on(self.device))
            if value.source < 0:
                made = f"MAKERS.new_result({aval}, {value.name})"
            else:
                made = f"MAKERS.make_view({self.tensor(value.source)}, {aval}, {value.has_base}, False)"
            name = self._tensors[number] = f"t{number}"
            self.lines.append(f"{name} = {made}")
        return name

    def program(self, results: list[int | None]) -> Any:
        """The function; ``results``: numbers of the gradients, None where there is none."""
        leaving = {self._root(n) for n in results if n is not None}
        fused = fuse(self.values, leaving, self.saves_numbers)
        self.is_fused = fused is not None
        if self.device is not CPU:
            if fused is None:
                raise NoProgramError("a list of calls on another device")
            self.run_on_device(fused)
        elif fused is not None:
            self.load_arrays({*fused.inputs})
            self.run_at_once(fused)
        else:
            self.load_arrays({self._root(n) for step in self.steps for n in step.operands if type(n) is int})
            self.run_steps(leaving)
        made = ["None" if n is None else self.tensor(n) for n in results]
        self.lines.append(f"return ({''.join(f'{name}, ' for name in made)})")
        text = "\n ".join(["def program(saved, grads):", *self.lines])
        code = _codes.get(text)
        if code is None:
            if len(_codes) >= _MAX_CODES:
                _codes.clear()
            code = _codes[text] = compile(text, "<rule program>", "exec")
        exec(code, self.names)
        return self.names["program"]


def _permutation(source: Aval, view: Aval) -> tuple[int, ...] | None:
    """Which dimension of ``source`` each one of a view is, if the view does no more than to reorder them."""
    dims = [*zip(source.shape, source.stride, strict=True)]
    order = []
    for dim in zip(view.shape, view.stride, strict=True):
        if dim not in dims:
            return None
        order.append(dims.index(dim))
        dims[order[-1]] = (-1, -1)  # taken
    return tuple(order) if len(order) == len(dims) and source.offset == view.offset else None


def _several(plan: EagerPlan, arrays: list[Any]) -> list[Any]:
    """The results of an operation with several results or a list of operands, as new arrays."""
    made = plan.run_several(arrays)
    return plan.compute_inside(arrays) if made is None else made


class RulePrograms:
    """The programs of one kind of Node.

    Attributes:
        by_asked: for what ``edges_asked`` returns (None: all edges), the programs, for different layouts of
            gradients. Those of a Node with hooks stand under another key: hooks see what the rules return, before
            it is un-broadcast.
        is_open: more may be made.
        fuses: one of them is a native step: all others will be, so that equal Nodes have equal bits, Note [Fused
            rules].
    """

    __slots__ = ("by_asked", "fuses", "is_open")

    def __init__(self) -> None:
        self.by_asked: dict[Any, list[Any]] = {}
        self.is_open = True
        self.fuses = False

    def run(self, node: OpNode, grads: list[Any]) -> tuple[Any, ...] | None:
        """The gradients; None: the rules must run."""
        if probe.session is not None:
            return None
        asked = edges_asked(node, wanted_nodes())
        key = asked if node.hooks is None else ("hooked", asked)
        programs = self.by_asked.get(key)
        if programs is None:
            programs = self.by_asked[key] = []
            node.context.programs_by_asked = self.by_asked
        for program in programs:
            found = _run(program, node, grads)
            if found is not None:
                return found
        made = self._make(node, grads, programs) if self.is_open and not modes_in_use else None
        return None if made is None else _run(made, node, grads)

    def _make(self, node: OpNode, grads: list[Any], programs: list[Any]) -> Any:
        """A program for this Node and those like it; None: there is none, for the reason that the log has."""
        cls, saved = tensor_class(), node.saved or ()
        if any(g is not None and type(g) is not cls for g in grads) or not all(map(_is_as_saved, saved)):
            return None
        tensors = [*filter(_is_defined, grads), *[x.tensor for x in saved if isinstance(x, SavedVariable)]]
        devices = {x._aval.device for x in tensors}
        if not any(map(_is_defined, grads)) or len(devices) > 1 or META in devices:
            return None
        if len(programs) >= _MAX_PROGRAMS and not self.fuses:
            self.is_open = False
            return None
        try:
            program, is_fused = _make_program(node, grads, *devices)
        except NoProgramError as reason:
            log("record", "%s keeps its rules: %s", node.op.name, reason)
            self.is_open = self.fuses
            return None
        self.fuses |= is_fused
        if len(programs) >= _MAX_FUSED:
            del programs[0]
        programs.append(program)
        bump("rule_programs")
        return program


def _run(program: Any, node: OpNode, grads: list[Any]) -> tuple[Any, ...] | None:
    """What a program makes of a Node's gradients; None: it was made for others."""
    found: tuple[Any, ...] | None
    try:
        found = quiet.run(program, node.saved, grads)
    except RuntimeError as error:
        found = run_anyway(error, program, node.saved, grads)
    return found


def _is_defined(grad: Any) -> bool:
    return grad is not None


def _is_as_saved(x: Any) -> bool:
    """Whether a saved value is a number, or a tensor that no hook has packed and nobody has written."""
    if not isinstance(x, SavedVariable):
        return True
    return type(x) is SavedVariable and x.tensor._vc[VERSION] == x.version


def _make_program(node: OpNode, grads: list[Any], device: Device) -> tuple[Any, bool]:
    """(the program, whether it is a native step)."""
    recorder, saved, found = _record(node, grads)
    printer = _ProgramText(recorder, device)
    results = [None if g is None else recorder.number_of(g) for g in found]
    printer.check(grads, saved, results)
    return printer.program(results), printer.is_fused
