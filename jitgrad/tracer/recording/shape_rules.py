"""Shape rules, for events recorded for the first time.

Owns: ``out_avals_of``, ``known_avals`` (the same, remembered), ``Kind`` (what else follows from the operands' kinds),
``recorded_op``, ``has_no_place``, and ``name_line``.
"""

from __future__ import annotations

from typing import Any

from jitgrad.cpython.primitives import once_per_call
from jitgrad.devices import Device
from jitgrad.dtypes import on_new_default
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import Aval, check_allocatable
from jitgrad.ops.table import OPS, Op
from jitgrad.ops.views.strided import COPY_SLICES
from jitgrad.ops.views.view_grads import is_inside
from jitgrad.state import state
from jitgrad.structs import struct
from jitgrad.symbols.number import current_env
from jitgrad.tensor_base import TensorBase
from jitgrad.tracer.recording.trie import DETACHED, SEVERAL, TRACKED, UNTRACKED, ViewKind
from jitgrad.user_line import user_line

__all__ = ["Kind", "has_no_place", "kind_key", "kind_of", "kinds", "known_avals", "known_kind", "name_line",
           "out_avals_of", "recorded_op"]  # fmt: skip

_AS_STRIDED = OPS["as_strided"]
_FORMS = LazyModule("jitgrad.ops.complex.complex_forms")
_MAX_KNOWN = 4096
_known: dict[tuple[Any, ...], tuple[tuple[Aval, ...], bool]] = {}
on_new_default.append(_known.clear)


def _number(x: Any) -> Any:
    """What a shape rule may know of a number; those that stand for run-time scalars have no value."""
    kind = type(x)
    return (kind, x) if kind is float or kind is int or kind is bool else kind


def known_avals(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> tuple[tuple[Aval, ...], bool]:
    """``out_avals_of``, asked once per kind of operands: loops repeat what they do long before a call is a hit."""
    key = (op, params, *[x._aval if isinstance(x, TensorBase) else _number(x) for x in inputs])
    if params:  # equal ones may differ in type: 1, 1.0, True
        key = (tuple(map(type, params)), key)
    try:
        found = _known.get(key)
    except TypeError:  # a parameter that cannot be hashed
        return out_avals_of(op, inputs, params)
    if found is None:
        found = out_avals_of(op, inputs, params)
        if len(_known) >= _MAX_KNOWN:
            _known.clear()
        _known[key] = found
    return found


@struct
class Kind:
    """What is known of an operation by the kinds of its operands: layouts, which require grad, and the grad mode.

    Attributes:
        op: the operation as it is recorded: its complex form where an operand is complex, Note [Complex forms].
        avals, several: see ``out_avals_of``.
        in_avals: of the operands, at the start of a storage unless the operation is a view; None for numbers.
        needs: which operands require grad.
        joins: whether the operation has a place in the graph.
        requires_grad: whether the (first) result does.
        is_outside: the results have no place in a trace.
        is_plain: one result, and nothing that depends on values: no second look is needed.
        is_view: the result is a view of the first operand, as far as anybody sees.
        window: what such a view is to the graph.
        param_types: of the params, where equal ones of other types would mean something else; else None.
    """

    op: Op
    avals: tuple[Aval, ...]
    several: bool
    in_avals: tuple[Aval | None, ...]
    needs: tuple[bool, ...]
    joins: bool
    requires_grad: bool
    is_outside: bool
    is_plain: bool
    is_view: bool
    window: ViewKind
    param_types: tuple[type, ...] | None


kinds: dict[tuple[Any, ...], Kind] = {}
"""``kind_key`` -> what ``kind_of`` has said."""
on_new_default.append(kinds.clear)


@once_per_call
def start_of(aval: Aval) -> Any:
    """``aval.at_start()``: where an operand begins is no matter, unless the result is a view of it."""
    if int(aval.offset) == 0:
        return aval
    return aval.at_start() if aval.start is None else aval.start


@once_per_call
def kind_key(op: Op, is_enabled: Any, inputs: tuple, params: tuple) -> Any:  # type: ignore[type-arg]
    """All that a ``Kind`` depends on. is_enabled: the grad mode."""
    key: list = []  # type: ignore[type-arg]
    key.append(op)
    key.append(params)
    key.append(is_enabled)
    for x in inputs:
        if isinstance(x, TensorBase):
            key.append(x._aval if op.is_view else start_of(x._aval))
            key.append(x._requires_grad)
        elif type(x) is float or type(x) is int or type(x) is bool:
            key.append((type(x), x))
        else:
            key.append(type(x))
    for param in params:
        key.append(type(param))  # equal ones may differ in type: 1, 1.0, True
    return tuple(key)


def known_kind(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Kind | None:
    """What ``kind_of`` has said of such operands before; None if it has not been asked."""
    try:
        return kinds.get(kind_key(op, state.grad_enabled, inputs, params))
    except TypeError:  # a parameter that cannot be hashed
        return None


def kind_of(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Kind:
    """Shape rule and graph membership. Raises what the shape rule raises."""
    if current_env() is not None:  # symbolic extents are no keys
        own = recorded_op(op, inputs)
        return _kind(own, inputs, params, *out_avals_of(own, inputs, params), own is not op)
    found = known_kind(op, inputs, params)
    if found is not None:
        return found
    own = recorded_op(op, inputs)
    found = _kind(own, inputs, params, *known_avals(own, inputs, params), own is not op)
    try:
        if len(kinds) >= _MAX_KNOWN:
            kinds.clear()
        kinds[kind_key(op, state.grad_enabled, inputs, params)] = found
    except TypeError:
        pass
    return found


def _kind(
    op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], avals: tuple[Aval, ...], several: bool, is_form: bool
) -> Kind:
    """What follows from the operands' kinds, and from the shape rule's answer. ``is_form``: see ``recorded_op``."""
    needs = tuple([isinstance(x, TensorBase) and x._requires_grad for x in inputs])
    joins = True in needs and state.grad_enabled and bool(op.vjps) and any(a.dtype.is_inexact for a in avals)
    in_avals = _avals_of(op, inputs)
    is_outside = has_no_place(op, inputs, params)
    window = _window(op, several) if avals else DETACHED
    is_special = several or op.checks_values or op.checks_reals or op.is_update or op is COPY_SLICES or is_form
    return Kind(
        op,
        avals,
        several,
        in_avals,
        needs,
        joins,
        joins and avals[0].dtype.is_inexact,
        is_outside,
        op.num_inputs > 0 and not (is_special or is_outside),
        op.is_view and not op.is_unseen,
        window,
        tuple(map(type, params)) if any([type(p) in (float, bool) for p in params]) else None,
    )


def _avals_of(op: Op, inputs: tuple[Any, ...]) -> tuple[Aval | None, ...]:
    """See ``Kind.in_avals``."""
    avals = [x._aval if isinstance(x, TensorBase) else None for x in inputs]
    return tuple(avals if op.is_view else [None if a is None else a.at_start() for a in avals])


def _window(op: Op, several: bool) -> ViewKind:
    """What a view is to the graph."""
    if not (op.is_view and op.has_base):
        return DETACHED
    return SEVERAL if several else TRACKED if state.grad_enabled else UNTRACKED


def out_avals_of(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> tuple[tuple[Aval, ...], bool]:
    """(avals of the outputs, whether the operation returns a tuple). Raises what the shape rule raises.

    An error inside a compiled step names the user's line, since the step may be far from where it is called.
    """
    args = [x._aval if isinstance(x, TensorBase) else x for x in inputs]
    try:
        out = op.aval(args, *params) if op.num_inputs < 0 else op.aval(*args, *params)
        if not op.is_view:
            check_allocatable(out if isinstance(out, tuple) else (out,))
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
        name_line(error, op)
        raise
    return (out, True) if isinstance(out, tuple) else ((out,), False)


def has_no_place(op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> bool:
    """Whether results have no place in a trace: on a device that is among the params, or outside of the tensor."""
    if params and Device in map(type, params):
        return True
    return op is _AS_STRIDED and not is_inside(inputs[0]._aval, *params)


def recorded_op(op: Op, inputs: tuple[Any, ...]) -> Op:
    """The operation, or its complex form where an operand is complex. Raises what is refused for complex numbers."""
    for x in inputs:
        if x._aval.dtype.is_complex if isinstance(x, TensorBase) else type(x) is complex:
            found: Op = _FORMS.complex_form(op, [x._aval if isinstance(x, TensorBase) else x for x in inputs])
            return found
    return op


def name_line(error: BaseException, op: Op) -> None:
    """Note the user's line on an error inside a compiled step."""
    line = user_line()
    if line:
        error.add_note(f"in jitgrad operation {op.name!r}, recorded at {line}")
