"""What the tracer hands to codegen: a segment in SSA form.

Owns: ``Instr`` and ``Segment``.
Must not know: LLVM, buffers, Tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.table import Op
from jitgrad.structs import field, struct, value

__all__ = ["Const", "Instr", "RuntimeScalar", "Segment", "instrs_later", "segment_text"]


@value
class RuntimeScalar:
    """A Python number that changed between calls: an argument of the program, not a constant of it.

    Attributes:
        slot: position among the trace's run-time scalars.
        is_float: a Python float (passed as a double), else an int (passed as an int64).
    """

    slot: int
    is_float: bool


@struct
class Instr:
    """One recorded operation.

    Attributes:
        op: the operation.
        inputs: one entry per input: a value id (int), or a ``Const`` / ``RuntimeScalar`` for a Python number.
        params: the static parameters.
        outputs: value ids, one per output.
        avals: of the outputs, same order.
        input_avals: of the inputs at recording time; None for numbers.
        requires_grad: whether the outputs join the graph.
        needs: which inputs needed a gradient when it was recorded.
        where: ``file:line`` of the user's statement (empty inside a backward).
        origin: of an instruction inside a recorded backward: the Node whose rule it belongs to, and the line of that
            Node's forward; for people who read reports.
    """

    op: Op
    inputs: tuple[Any, ...]
    params: tuple[Any, ...]
    outputs: tuple[int, ...]
    avals: tuple[Aval, ...]
    input_avals: tuple[Aval | None, ...]
    requires_grad: bool = False
    needs: tuple[bool, ...] = ()
    where: str = ""
    origin: str = ""

    def fields(self) -> tuple[Any, ...]:
        """All of them: two instructions that are the same have the same."""
        return tuple([getattr(self, name) for name in _FIELDS])


_FIELDS = tuple(Instr.__annotations__)


@value
class Const:
    """A Python number that is part of the program."""

    value: bool | int | float


def instrs_later(owner: Any, name: str) -> Any:
    """The attribute ``instrs`` of an object that makes them when it is asked for them for the first time."""
    if name != "instrs" or owner.later is None:
        raise AttributeError(f"{type(owner).__name__} has no attribute {name!r}")
    owner.instrs = owner.later()
    return owner.instrs


@struct
class Segment:
    """A stretch of a trace between two reads: everything one native call computes.

    Attributes:
        instrs: in recording order; inputs are earlier outputs or ``inputs``.
        inputs: value id -> aval (with stride and offset) of each buffer that the segment may read.
        outputs: value ids to be stored into fresh buffers.
        writes: (value id, target input id): store the value into that input's storage, through the input's layout,
            after every read of the old contents.
        write_log: the same for every write that was recorded, in order; ``writes`` has only each input's last.
        layouts: value id -> aval, of outputs that are not row-major; see Note [Strides of results].
        later: of a copied path, makes ``instrs`` when somebody looks at them, Note [Path families].
    """

    instrs: list[Instr]
    inputs: dict[int, Aval]
    outputs: tuple[int, ...]
    writes: tuple[tuple[int, int], ...] = ()
    write_log: tuple[tuple[int, int], ...] = ()
    layouts: dict[int, Aval] = field(default_factory=dict)
    later: Callable[[], list[Instr]] | None = None
    if not TYPE_CHECKING:
        __getattr__ = instrs_later

    def stored_aval(self, vid: int, aval: Aval) -> Aval:
        """How a value that the segment computes lies in memory; ``aval``: its shape and dtype."""
        return self.layouts.get(vid) or make_aval(aval.shape, aval.dtype)


def segment_text(segment: Segment) -> str:
    """The segment as SSA, a line per instruction: ``%5:float32[3] = mul(%1, %2)  # step.py:12``."""
    lines = [f"  {_instr_text(i)}" for i in segment.instrs]
    return "\n".join([*lines, f"  outputs {list(segment.outputs)}, writes {list(segment.writes)}"])


def _instr_text(instr: Instr) -> str:
    outs = ", ".join(f"%{v}:{a!r}" for v, a in zip(instr.outputs, instr.avals, strict=True))
    ins = ", ".join(f"%{v}" if isinstance(v, int) else repr(v) for v in instr.inputs)
    params = f" {instr.params}" if instr.params else ""
    where = f"  # {instr.where}" if instr.where else ""
    return f"{outs} = {instr.op.name}({ins}){params}{where}"
