"""The operation table: one ``Op`` per operation, with every rule it needs.

Owns: ``Op``, ``Vjp``, ``RuleContext`` and the registry ``OPS``, which imports some of its entries late.
Must not know: Tensor, the tracer, LLVM, devices. A rule computes with its arguments and knows no more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import Aval
from jitgrad.structs import field, struct

__all__ = ["OPS", "Op", "OpTable", "RuleContext", "Vjp", "define"]


@struct
class RuleContext:
    """What a derivative rule may know without saving a value.

    Attributes:
        avals: of the tensor inputs; None where an input was a Python number.
        out_avals: of the outputs.
        params: the static parameters, as the operation received them.
        needs: which tensor inputs need a gradient.
    """

    avals: tuple[Aval | None, ...]
    out_avals: tuple[Aval, ...]
    params: tuple[Any, ...]
    needs: tuple[bool, ...]


@struct
class Vjp:
    """The derivative with respect to one input.

    Attributes:
        rule: ``rule(c, grad_output, *saved) -> grad_input``, over Tensors, so that it can be differentiated again.
            ``grad_output`` is a tuple (None = undefined) for an operation with several outputs. The result may have
            any shape that sums down to the input's: un-broadcasting happens once, in the engine.
        saves: what the rule needs: input positions (ints), or ``"out"``, ``"out1"`` ... for outputs.
            A saved Python number arrives as that number.
    """

    rule: Callable[..., Any]
    saves: tuple[int | str, ...] = ()


@struct
class Op:
    """One operation.

    ``inputs`` below are Tensors or Python numbers (a number only where PyTorch takes one); ``params`` are hashable
    and static.

    Attributes:
        name: PyTorch's name.
        aval: ``aval(*input_avals, *params) -> Aval | tuple[Aval, ...]``; the shape and dtype rule, which also raises
            PyTorch's errors for wrong arguments. A Python number arrives as itself.
        numpy: ``numpy(*arrays, *params) -> array or tuple of arrays``, exactly of the aval's shape and dtype
            (a wrong dtype is cast by the caller). None for views, which move no data.
        lower: ``lower(b, *values, *params) -> value or tuple of values`` over the primitives of
            ``codegen.primitives.builder.Builder``; None = no lowering: runs eagerly inside a compiled step.
        lowers: ``lowers(*params)``: whether ``lower`` can do an operation with these params; None if it always can.
        vjps: one entry per tensor input; None = not differentiable with respect to it. Empty = never differentiable.
        num_inputs: how many tensor-or-number inputs come before the params; -1 = one list of tensors: rules receive
            that list as their first argument, and ``vjps`` holds ONE entry, whose rule returns a tuple with one
            gradient (or None) per tensor of the list.
        is_view: the output shares the first input's storage; its aval carries stride and offset.
        is_complex: its results are complex where all inputs are real: a trace does not record it.
        is_unseen: of a view: its source is a temporary that nobody else sees, so the result is no view of it to users.
        node_name: the graph node's name, ``MulBackward0``.
        node_names: where PyTorch has other names for forms with a Python number: by the number's position.
        checks_values: integer or bool inputs may make it raise (an index out of range): it is run even where nobody
            uses what it computes.
        checks_reals: floating inputs may make it raise (a singular matrix): the same holds.
    """

    name: str
    aval: Callable[..., Any]
    numpy: Callable[..., Any] | None
    lower: Callable[..., Any] | None = None
    vjps: tuple[Vjp | None, ...] = ()
    num_inputs: int = 1
    is_view: bool = False
    node_name: str = ""
    checks_values: bool = False
    node_names: Mapping[int, str] = field(default_factory=dict)
    lowers: Callable[..., bool] | None = None
    checks_reals: bool = False
    is_unseen: bool = False
    is_complex: bool = False

    @property
    def is_differentiable(self) -> bool:
        return bool(self.vjps)

    @property
    def has_base(self) -> bool:
        """Whether results are views that remember their base, so that writes to them reach its graph."""
        return self.is_view and bool(self.vjps) and not self.is_unseen

    @property
    def is_update(self) -> bool:
        """Whether it is an optimizer's update: its numbers change at every step, and decide no shape."""
        return self.name.endswith(("_update", "_update_scheduled"))

    def __repr__(self) -> str:
        return f"Op({self.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (OPS.__getitem__, (self.name,))


class OpTable(dict[str, Op]):
    """Operations by name. Families that few scripts use are imported when one of them is asked for.

    Attributes:
        late: name of an operation -> the module that defines it, Note [Lazy modules].
    """

    def __init__(self) -> None:
        super().__init__()
        self.late: dict[str, str] = {}

    def __missing__(self, name: str) -> Op:
        """KeyError for a name that nobody defines."""
        _ = LazyModule(self.late[name]).__all__
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def load(self) -> None:
        """Import all families."""
        for name in self.late:
            self[name]


OPS = OpTable()


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.strip("_").split("_"))


def define(
    name: str,
    *,
    aval: Callable[..., Any],
    numpy: Callable[..., Any] | None = None,
    lower: Callable[..., Any] | None = None,
    vjps: Sequence[Vjp | None] = (),
    num_inputs: int = 1,
    is_view: bool = False,
    node_name: str | None = None,
    checks_values: bool = False,
    node_names: Mapping[int, str] | None = None,
    lowers: Callable[..., bool] | None = None,
    checks_reals: bool = False,
    is_unseen: bool = False,
    is_complex: bool = False,
) -> Op:
    """Register an operation and return it; ValueError if the name is taken."""
    if name in OPS:
        raise ValueError(f"operation {name!r} is defined twice")
    node_name = node_name or f"{_camel(name)}Backward0"
    op = Op(
        name,
        aval,
        numpy,
        lower,
        tuple(vjps),
        num_inputs,
        is_view,
        node_name,
        checks_values,
        node_names or {},
        lowers,
        checks_reals,
        is_unseen,
        is_complex,
    )
    OPS[name] = op
    return op
