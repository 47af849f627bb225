"""What derivative rules record, copied where they would record it again.

Owns: ``Templates``: which work is alike, and the copies.
Must not know: what the rules are, in which order they run.

# Note [Rule templates]
# ~~~~~~~~~~~~~~~~~~~~~
# What the rules of a Node record follows from the kind of the Node (operation, layouts, params, which inputs need a
# gradient), the layouts of the gradients that come in, and the numbers that it has saved. So rules run once per kind,
# over handles; the instructions become a *template*, and the next Node of the kind gets a copy with other value ids.
# Example: the rules of ``x * w`` have recorded ``%7 = mul(%6, %2); %8 = mul(%6, %1)``, where %6 is the gradient that
# came in, and %1 and %2 are saved. Of the template ``mul(0, 2); mul(0, 1)`` a Node with the gradient %20 that has saved
# %11 and %12 gets ``%21 = mul(%20, %12); %22 = mul(%20, %11)``. Sums of gradients have templates, too.
# Operands that are the same value (``x * x``) are a kind of their own, since the template could not tell them apart.
# Rules that make tensors of their own, or that return what was not recorded, have no template: they run each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jitgrad.compiled.backward.inner_recorder import InnerRecorder
from jitgrad.dtypes import on_new_default
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op
from jitgrad.symbols.number import current_env
from jitgrad.tracer.recording.graph import Const, Instr

__all__ = ["Gradient", "NeedsNodesError", "Templates"]


class NeedsNodesError(Exception):
    """The backward is one for Nodes and the engine."""


class Gradient(NamedTuple):
    """A gradient on its way.

    Attributes:
        vid, aval: its value id, and its layout as rules see it.
        tensor: a handle on it; None: none was needed yet.
    """

    vid: int
    aval: Aval
    tensor: Any


class _TemplateStep(NamedTuple):
    """An ``Instr`` without value ids: operands and results are places among the template's values."""

    op: Op
    params: tuple[Any, ...]
    operands: tuple[Any, ...]
    results: tuple[int, ...]
    avals: tuple[Aval, ...]
    input_avals: tuple[Aval | None, ...]
    needs: tuple[bool, ...]


class _Template(NamedTuple):
    """What was recorded.

    Attributes:
        steps: the instructions.
        num_values: how many value ids they take.
        results: (place, layout) of each result, or None.
    """

    steps: tuple[_TemplateStep, ...]
    num_values: int
    results: tuple[tuple[int, Aval] | None, ...]


_templates: dict[Any, _Template] = {}
on_new_default.append(_templates.clear)
_MAX_TEMPLATES = 4096


class Templates:
    """Has an ``InnerRecorder`` record work, or copies what it has recorded of the same kind.

    Attributes:
        inner: the recorder; ``inner.origin`` is that of the next instructions.
        num_copies: how often work was copied.
    """

    __slots__ = ("inner", "num_copies")

    def __init__(self, inner: InnerRecorder) -> None:
        self.inner = inner
        self.num_copies = 0

    def record(self, kind: Any, operands: list[Any], work: Callable[[], Sequence[Any]]) -> list[Gradient | None]:
        """The results of some work.

        Args:
            kind: everything that decides what the work records, but for its operands' values.
            operands: value ids, or run-time scalars: what the work may use.
            work: does it, under the recorder; returns handles, or None.
        """
        same = () if len({*operands}) == len(operands) else tuple([operands.index(x) for x in operands])
        key = (kind, same)
        template = _templates.get(key)
        if template is not None:
            self.num_copies += 1
            return self._copy(template, operands)
        inner = self.inner
        start, first, consts = len(inner.instrs), inner.next_vid, len(inner.consts)
        found = [None if x is None else self.taken(x) for x in work()]
        if len(inner.consts) == consts and current_env() is None:
            template = _as_template(inner.instrs[start:], first, inner.next_vid, operands, found)
            if template is not None:
                if len(_templates) >= _MAX_TEMPLATES:
                    _templates.clear()
                _templates[key] = template
        return found

    def taken(self, tensor: Any) -> Gradient:
        """A gradient as rules return it."""
        if getattr(tensor, "_tid", 0) != self.inner.tid:  # a sparse one, for example
            raise NeedsNodesError
        return Gradient(tensor._vid, tensor._aval, tensor)

    def handle(self, gradient: Gradient) -> Any:
        """A handle on a gradient."""
        tensor = gradient.tensor
        return self.inner.handle(gradient.vid, gradient.aval) if tensor is None else tensor

    def _copy(self, template: _Template, operands: list[Any]) -> list[Gradient | None]:
        inner = self.inner
        first, origin, add = inner.next_vid, inner.origin or "", inner.instrs.append
        inner.next_vid = after = first + template.num_values
        values = [*operands, *range(first, after)]
        for op, params, inputs, results, avals, input_avals, needs in template.steps:
            ids = tuple([values[x] if type(x) is int else x for x in inputs])
            outputs = tuple([values[x] for x in results])
            add(Instr(op, ids, params, outputs, avals, input_avals, False, needs, "", origin))
        return [None if found is None else Gradient(values[found[0]], found[1], None) for found in template.results]


def _as_template(
    instrs: Sequence[Instr], first: int, after: int, operands: list[Any], found: Sequence[Gradient | None]
) -> _Template | None:
    """The instructions over places: those of the operands, then of new values; None if they use anything else."""
    places: dict[Any, int] = {}
    for place, x in enumerate([*operands, *range(first, after)]):
        places.setdefault(x, place)
    steps = []
    for instr in instrs:
        if instr.requires_grad or any([type(x) is not Const and x not in places for x in instr.inputs]):
            return None
        ids = tuple([x if type(x) is Const else places[x] for x in instr.inputs])
        made = tuple([places[vid] for vid in instr.outputs])
        steps.append(_TemplateStep(instr.op, instr.params, ids, made, instr.avals, instr.input_avals, instr.needs))
    results: list[tuple[int, Aval] | None] = []
    for gradient in found:
        if gradient is not None and gradient.vid not in places:
            return None
        results.append(None if gradient is None else (places[gradient.vid], gradient.aval))
    return _Template(tuple(steps), after - first, tuple(results))
