"""The text of a rule program.

Owns: ``ProgramText``, which prints it.
Must not know: rules, which Node runs which program.
In: recorded rules. Out: a Python function of what a Node saved and of the gradients that come in, Note [Rule programs].
"""

from __future__ import annotations

import math
from types import CodeType
from typing import Any

import numpy as np

from jitgrad.devices import CPU, Device
from jitgrad.ops.aval import Aval
from jitgrad.runtime.eager.device_ops import step_on
from jitgrad.runtime.eager.fused_rules import FusedRules, RuleStep, StepMaker, fuse
from jitgrad.runtime.eager.kernel import array_maker
from jitgrad.runtime.eager.kernel_runs import RUNS
from jitgrad.runtime.eager.plan import EagerPlan
from jitgrad.runtime.eager.results import MAKERS
from jitgrad.runtime.eager.rule_recording import NoProgramError, RuleCall, RuleRecorder
from jitgrad.runtime.engine.graph.saved_variable import RESULT, SavedVariable
from jitgrad.tensor_base import tensor_class
from jitgrad.version_counter import VERSION

__all__ = ["ProgramText", "program_of_text"]

_codes: dict[str, CodeType] = {}
"""By text: programs for other extents have the same, and compiling one takes most of the time that making it takes."""
_MAX_CODES = 1024


class ProgramText:
    """Prints a program.

    Attributes:
        names: what the text's capital letters with numbers stand for.
        lines: of the function.
        is_fused: the program is one native step, Note [Fused rules].
        saves_numbers: it is made for the values of saved numbers.
        device: where gradients and saved values are.
    """

    def __init__(self, recorder: RuleRecorder, device: Device) -> None:
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

    def check(self, call: RuleCall, results: list[int | None]) -> None:
        """Return None where gradients or saved values are others than those that the program was recorded with.

        Either may begin elsewhere in its storage, if no result is a view of it, Note [Operands that begin elsewhere]:
        gradients of elements that were picked one by one and then stacked lie one behind the other.
        """
        seen = {self._root(n) for n in results if n is not None and self.values[n].source >= 0}
        number = 0  # of the recorder's values: gradients are the first, what is saved follows
        for i, aval in enumerate(call.grads):
            self.lines.append(f"g{i} = grads[{i}]")
            if aval is None:
                self._require(f"g{i} is None")
                continue
            self._require(f"type(g{i}) is Tensor and {self._lies_as(f'g{i}', aval, number in seen)}")
            number += 1
        for i, value in enumerate(call.saved):
            self.lines.append(f"s{i} = saved[{i}]")
            if type(value) is Aval:
                self._check_saved(i, value, number in seen)
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
        name = self.constant("A", aval.on(self.device))
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
            first = self.constant("L", (value.aval.offset - root.aval.offset) * size)
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

    def maker(self, aval: Aval) -> Any:
        """What makes a result's array."""
        return array_maker(aval)

    def run_at_once(self, fused: FusedRules) -> None:
        """One native step; where it finds bad data the rules run, and say so."""
        for number in fused.outputs:
            value = self.values[number]
            self.lines.append(f"{value.name} = {self.constant('O', self.maker(value.aval))}()")
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

    def printed(self, call: RuleCall, results: list[int | None], make: StepMaker | None = None) -> str:
        """The function's text.

        Args:
            call: what was recorded.
            results: numbers of the gradients, None where there is none.
            make: what makes a native step of a segment, if not the usual maker.
        """
        self.check(call, results)
        leaving = {self._root(n) for n in results if n is not None}
        fused = fuse(self.values, leaving, self.saves_numbers, make)
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
        return "\n ".join(["def program(saved, grads):", *self.lines])


def program_of_text(text: str, names: dict[str, Any]) -> Any:
    """The function; ``names``: what the text's capital letters with numbers stand for."""
    code = _codes.get(text)
    if code is None:
        if len(_codes) >= _MAX_CODES:
            _codes.clear()
        code = _codes[text] = compile(text, "<rule program>", "exec")
    exec(code, names)
    return names.pop("program")  # its globals would hold it: a cycle


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


