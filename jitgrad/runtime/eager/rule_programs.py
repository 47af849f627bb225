"""Derivative rules of eager Nodes as programs: straight lists of calls over arrays.

Owns: which program a Node runs.
Must not know: the rules, what kernels are, when a program is one (``fused_rules.py``), its text (``rule_text.py``).
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
# On many elements a program is one native step instead, Note [Fused rules]; those of Nodes that differ in their
# extents alone are filled in, Note [Rule families].
#
# A program begins with what it was recorded for: the layouts of the gradients and of the saved values, the values of
# saved numbers, and versions. Where anything differs it returns None before it has done anything, and the rules run
# as they are: they say what is wrong, or another program is made. Rules that read a value, write in place, draw, or
# use tensors of their own have no program. With ``create_graph``, under a handler and while a profiler looks, rules
# run as they are.
"""

from __future__ import annotations

from typing import Any

from jitgrad.devices import CPU, META, Device
from jitgrad.events import bump, log
from jitgrad.probe import probe
from jitgrad.runtime.eager.quiet import quiet, run_anyway
from jitgrad.runtime.eager.rule_families import family_program
from jitgrad.runtime.eager.rule_recording import NoProgramError, RuleRecorder, call_of, record
from jitgrad.runtime.eager.rule_text import ProgramText, program_of_text
from jitgrad.runtime.engine.graph.op_node import OpNode, edges_asked, wanted_nodes
from jitgrad.runtime.engine.graph.saved_variable import SavedVariable
from jitgrad.state import modes_in_use
from jitgrad.tensor_base import tensor_class
from jitgrad.version_counter import VERSION

__all__ = ["RulePrograms"]

_MAX_PROGRAMS = 4
"""Of one kind of Node; a kind whose gradients come in ever new layouts keeps to its rules."""

_MAX_FUSED = 16
"""Where programs are native steps, the oldest makes room for the next: there the rules have other bits."""


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
    call = call_of(node, grads)
    known = family_program(call) if device is CPU else None
    if known is not None:
        return known, True
    recorder = RuleRecorder()
    results = record(call, recorder)
    printer = ProgramText(recorder, device)
    text = printer.printed(call, results)
    return program_of_text(text, printer.names), printer.is_fused
