"""Forward mode: a level at which tensors have tangents.

Owns: ``DualLevel``: where tangents are kept, what operations and in-place writes do to them.
Must not know: the rules (``ops.tangents.jvps``), the public functions.
In: operations. Out: the same operations one level down, and the tangents of their results.

A tangent belongs to a value, and a value may have several handles: besides the tensor itself, what a Node saved of it.
A saved output is found by its Node and output number, a value of a trace by its value id. A handle that shares memory
with a tensor and is no view of it (``detach()``) shares the value id once either was written, but not the tangent: it
is noted without one.

A backward of a batch runs over the graph of the whole batch (``transforms.backward``), so it is whole batches that must
have tangents, with everything that a batching rule makes on the way. An operation on a handle of a ``vmap`` that began
outside this level is therefore done as if the level had begun outside the ``vmap``: the batching rule is run, and its
operations come back here.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from jitgrad import dispatch
from jitgrad.grad_mode import enable_grad
from jitgrad.lazy import LazyModule
from jitgrad.ops.aval import make_aval
from jitgrad.ops.dispatch_hook import call, filled
from jitgrad.ops.table import OPS, Op
from jitgrad.ops.tangents.jvps import JVPS, Use, add, fitted
from jitgrad.runtime.eager.eager import check_inplace, split_args
from jitgrad.runtime.eager.plan import find_plan
from jitgrad.runtime.engine.graph.copy_slices import is_in_graph
from jitgrad.runtime.engine.graph.op_node import backward_plan
from jitgrad.runtime.engine.graph.validate import sum_to_shape
from jitgrad.runtime.engine.run.request import BackwardRequest, execute_request
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase
from jitgrad.transforms.backward import record_under_levels
from jitgrad.transforms.batched import BatchedTensor
from jitgrad.transforms.level import Level, without

__all__ = ["DualLevel", "by_transposition", "jvp_rule", "moved_tangents"]

_CLONE, _COPY, _ZEROS, _AS_STRIDED, _SELECT = (
    OPS[n] for n in ("clone", "copy", "zeros_like", "as_strided", "strided_select")
)


def moved_tangents(
    op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], outs: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The tangents of an operation's outputs, see ``Use``; None where an output does not move."""
    rule = jvp_rule(op)
    if any(map(_is_complex, inputs)):
        op, row = _FORMS.tangent_form(op, None if rule is by_transposition else rule)
        rule = row or by_transposition
    moved: tuple[Any, ...] = rule(Use(op, inputs, params, outs, tangents))
    return moved


def jvp_rule(op: Op) -> Any:
    """The tangent rule of an operation that has derivatives, on real numbers."""
    return JVPS.get(op, by_transposition)


_FORMS = LazyModule("jitgrad.ops.complex.complex_forms")


def _is_complex(x: Any) -> bool:
    return x._aval.dtype.is_complex if isinstance(x, TensorBase) else isinstance(x, complex)


def by_transposition(use: Use) -> tuple[Any, ...]:
    """J t by the double backward trick: J^T u is linear in u, so its gradient with respect to u, for t, is J t."""
    probes = []
    with enable_grad():
        for y in use.outs:
            is_smooth = y._aval.dtype.is_inexact
            probes.append(dispatch.apply(_ZEROS, y).requires_grad_() if is_smooth else None)
        if all(p is None for p in probes):
            return tuple(probes)
        several = len(probes) > 1
        pulled = _pulled(use, tuple(probes) if several else probes[0])
    moved: list[Any] = [None] * len(probes)
    for gradient, x, t in pulled:
        if gradient is None or not gradient._requires_grad:
            continue
        gradient = sum_to_shape(gradient, x._aval.shape)
        wanted = tuple(p for p in probes if p is not None)
        request = BackwardRequest((gradient,), (t.to(gradient._aval.dtype),), True, True, wanted, True, False)
        recorder = state.handler
        parts = iter(execute_request(request) if recorder is None else recorder.record_backward(request))
        moved = [m if p is None else add(m, next(parts)) for m, p in zip(moved, probes, strict=True)]
    return tuple(moved)


def _pulled(use: Use, probe: Any) -> list[tuple[Any, Any, Any]]:
    """(J_i^T u, input, tangent) for every input that moves."""
    if use.op.num_inputs < 0:
        gradients = use.vjp(0)(probe)
        return [(g, x, t) for g, x, t in zip(gradients, use.inputs, use.tangents, strict=True) if t is not None]
    rules = [(use.vjp(i), x, t) for i, (x, t) in enumerate(zip(use.inputs, use.tangents, strict=True)) if t is not None]
    return [(_real_for(x, rule(probe)), x, t) for rule, x, t in rules if rule is not None]


def _real_for(x: Any, gradient: Any) -> Any:
    """A gradient, or its real part where the input is real, Note [Complex forms]."""
    if gradient is None or x._aval.dtype.is_complex or not gradient._aval.dtype.is_complex:
        return gradient
    return call("select", call("view_as_real", gradient), -1, 0)


def _or_zeros(x: Any, tangent: Any) -> Any:
    """What ``jvp`` of a custom Function gets for an argument."""
    if tangent is not None or not isinstance(x, TensorBase) or not x._aval.dtype.is_inexact:
        return tangent
    return dispatch.apply(_ZEROS, x)


def _check_tangent(y: Any, tangent: Any, given: dict[int, Any]) -> None:
    """PyTorch's refusals of what ``jvp`` returned for the output ``y``; ``given``: the arguments' tangents, by id."""
    if id(y) in given:  # only an argument that forward has written is returned as it is
        if tangent is not given[id(y)]:
            raise RuntimeError(
                "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is "
                "modifying an input inplace, then the jvp function must modify the corresponding gradient inplace."
            )
    elif y._base is not None and tangent._base is None:
        raise RuntimeError(
            "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view."
        )
    if tangent._aval.shape != y._aval.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(y.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )


def _steps(aval: Any) -> list[int]:
    """The strides that matter."""
    return [s for n, s in zip(aval.shape, aval.stride, strict=True) if n != 1]


class _TensorRef(ref):  # type: ignore[type-arg]
    """A tensor that has a tangent; forgotten with it."""

    __slots__ = ("key", "tangent")

    key: int
    tangent: Any


class DualLevel(Level):
    """Tensors with tangents, for as long as the level lasts."""

    def __init__(self) -> None:
        super().__init__()
        self._handles: dict[int, _TensorRef] = {}
        self._by_node: dict[tuple[int, int], tuple[Any, Any]] = {}
        self._by_vid: dict[int, Any] = {}

    def close(self) -> None:
        self._handles.clear()
        self._by_node.clear()
        self._by_vid.clear()

    # --- where tangents are ---

    def tangent(self, x: Any) -> Any:
        """The tangent of a tensor, or None."""
        if isinstance(x, BatchedTensor):
            whole = self.tangent(x._physical)
            return None if whole is None else x._level.lift(whole)
        entry = self._handles.get(id(x))
        if entry is not None and entry.tangent is not None:
            return entry.tangent
        if x._base is not None:
            whole = self._handles.get(id(x._base))
            if whole is not None and whole.tangent is not None:
                return self._part(x, whole.tangent)
        if entry is not None:  # noted without one
            return None
        if x._grad_fn is not None:
            saved = self._by_node.get((id(x._grad_fn), x._output_nr))
            if saved is not None:
                return saved[1]
        return self._by_vid.get(x._vid) if x._tid == self.base_tid else None

    def _part(self, view: Any, whole: Any) -> Any:
        """The tangent of a view that is older than its base's tangent: the same window, on that."""
        aval, base, have = view._aval, view._base._aval, whole._aval
        if have.shape == base.shape and _steps(have) == _steps(base):
            offset = aval.offset - base.offset + have.offset
            args: tuple[Any, ...] = (_AS_STRIDED, whole, aval.shape, aval.stride, offset)
        else:
            args = (_SELECT, whole, base, aval)
        part = self.beneath(dispatch.apply, *args) if state.handler is self else dispatch.apply(*args)
        self.attach(view, part)
        return part

    def attach(self, x: Any, tangent: Any) -> None:
        """Make ``tangent`` the tangent of the value that ``x`` is a handle on."""
        while isinstance(x, BatchedTensor):
            x, tangent = x._physical, x._level.lower(tangent)
        self._note(x, tangent)
        node = x._grad_fn
        if node is not None:
            for saved in getattr(node, "saved", None) or ():
                if getattr(saved, "output_nr", -1) == x._output_nr and saved.tensor is not None:
                    self._note(saved.tensor, tangent)
                    self._by_node[id(node), x._output_nr] = (node, tangent)
        if x._tid == self.base_tid and x._vid >= 0:
            self._by_vid[x._vid] = tangent

    def _note(self, x: Any, tangent: Any) -> None:
        handle = _TensorRef(x, self._drop)
        handle.key, handle.tangent = id(x), tangent
        self._handles[id(x)] = handle

    def _drop(self, handle: _TensorRef) -> None:
        if self._handles.get(handle.key) is handle:
            del self._handles[handle.key]

    def concerns(self, tensor: Any) -> bool:
        while isinstance(tensor, BatchedTensor):
            tensor = tensor._physical
        return isinstance(tensor, TensorBase) and self.tangent(tensor) is not None

    def is_idle(self) -> bool:
        """Whether no tensor has a tangent."""
        return all(handle.tangent is None for handle in self._handles.values())

    def _batch_of(self, inputs: tuple[Any, ...]) -> Any:
        """The innermost ``vmap`` that one of the tensors belongs to, or None."""
        levels = [x._level for x in inputs if isinstance(x, BatchedTensor)]
        return max(levels, key=lambda one: one.depth) if levels else None

    def _tangents(self, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        tangents = tuple([self.tangent(x) if isinstance(x, TensorBase) else None for x in inputs])
        return tangents if any(t is not None for t in tangents) else None

    # --- what operations do to them ---

    def apply(self, op: Op, args: tuple[Any, ...]) -> Any:
        inputs, params = split_args(op, args)
        if not op.vjps or not any(map(self.concerns, inputs)):
            return self.beneath(dispatch.apply, op, *args)
        batch = self._batch_of(inputs)
        if batch is not None:
            with without(self, batch):
                return batch.do(op, args)
        return self.beneath(self._apply, op, args, inputs, params, self._tangents(inputs))

    def _apply(self, op: Op, args: Any, inputs: Any, params: Any, tangents: tuple[Any, ...]) -> Any:
        result = dispatch.apply(op, *args)
        if self.bottom is not None:
            for x, t in zip(inputs, tangents, strict=True):
                if t is not None:
                    self._number(x, t)  # a trace gives some tensors their value ids when they are used
        outs = tuple(result) if isinstance(result, tuple | list) else (result,)
        moved = moved_tangents(op, inputs, params, outs, tangents)
        for y, t in zip(outs, moved, strict=True):
            if t is not None and y._aval.dtype.is_inexact:
                self.attach(y, t if op.is_view else self._own(t, tangents))
        return result

    @staticmethod
    def _own(tangent: Any, others: tuple[Any, ...]) -> Any:
        """Memory of its own: an in-place write to the result must not move the input."""
        shared = any(t is not None and t._vc is tangent._vc for t in others)
        return dispatch.apply(_CLONE, tangent) if shared else tangent

    def apply_inplace(self, op: Op, targets: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
        inputs, params = split_args(op, args)
        if not any(map(self.concerns, (*inputs, *targets))):
            return super().apply_inplace(op, targets, args)
        batch = self._batch_of((*inputs, *targets))
        if batch is not None:
            with without(self, batch):
                done: tuple[Any, ...] = batch.do_inplace(op, targets, args)
                return done
        tangents = self._tangents(inputs) if op.vjps else None
        self.beneath(self._apply_inplace, op, targets, args, inputs, params, tangents)
        return targets

    def _apply_inplace(self, op: Op, targets: Any, args: Any, inputs: Any, params: Any, tangents: Any) -> None:
        aliases = [x for target in targets for x in self._aliases(target)]
        if tangents is not None and self._is_saved(op, targets, inputs):
            moved = self._by_copy(op, targets, args, inputs, params)
        elif tangents is None:
            dispatch.apply_inplace(op, targets, *args)
            moved = (None,) * len(targets)
        else:
            # the rules want the operands as they were
            before = tuple([self._before(x, targets) for x in inputs])
            dispatch.apply_inplace(op, targets, *args)
            moved = moved_tangents(op, before, params, targets, tangents)
        for alias in aliases:
            if id(alias) not in self._handles:
                self._note(alias, None)
        for target, t in zip(targets, moved, strict=True):
            self._write(target, t)

    def _is_saved(self, op: Op, targets: Any, inputs: Any) -> bool:
        """Whether the operation's Node keeps the target as it was or as it is written: both have tangents."""
        if not state.grad_enabled or len(targets) != 1 or op.num_inputs < 0:
            return False
        needs = tuple([is_in_graph(x) for x in inputs])
        if not any(needs):
            return False
        plan = backward_plan(op, needs)
        return bool(plan.outputs) or any(inputs[i] is targets[0] for i in plan.inputs)

    def _by_copy(self, op: Op, targets: Any, args: Any, inputs: Any, params: Any) -> tuple[Any, ...]:
        """The operation on copies of the target, whose result is copied into it; how the target moves.

        What the Node saves is a tensor of its own then, which has the tangent it had when the Node was made.
        """
        (target,) = targets
        check_inplace(op, target, find_plan(op, [getattr(x, "_aval", x) for x in inputs], params).out_avals[0])
        old = dispatch.apply(_CLONE, target)
        tangent = self.tangent(target)
        if tangent is not None:
            self.attach(old, dispatch.apply(_CLONE, tangent))
        before = tuple([old if x is target else x for x in inputs])
        new = self._apply(op, (*before, *params), before, params, self._tangents(before) or (None,) * len(before))
        moved = self.tangent(new)
        dispatch.apply_inplace(_COPY, targets, target, new)
        return (moved,)

    def _aliases(self, target: Any) -> list[Any]:
        """Handles of a compiled step that share memory with a target and are no relatives of it."""
        if self.bottom is None:
            return []
        root = target if target._base is None else target._base
        return [x for x in self.bottom.lookers(target) if (x if x._base is None else x._base) is not root]

    @staticmethod
    def _before(x: Any, targets: tuple[Any, ...]) -> Any:
        is_written = isinstance(x, TensorBase) and any(x._vc is target._vc for target in targets)
        return dispatch.apply(_CLONE, x) if is_written else x

    def _write(self, target: Any, t: Any) -> None:
        """Give a target that has been written its new tangent: in place where other windows may look at the old one."""
        have = self.tangent(target)
        if have is None:
            if t is None:
                return
            base = target._base
            if base is None:
                self.attach(target, dispatch.apply(_CLONE, fitted(t, target._aval)))
                return
            self.attach(base, self._zeros_like(base, t))
            have = self.tangent(target)
        new = dispatch.apply(_ZEROS, have) if t is None else fitted(t, target._aval)
        dispatch.apply_inplace(_COPY, (have,), have, new)
        self.attach(target, have)
        if self.bottom is not None:
            self._renumber(target)

    def _renumber(self, target: Any) -> None:
        """A write gives every handle on its memory another value id in a trace."""
        for handle in tuple(self._handles.values()):
            x = handle()
            if x is not None and x._vc is target._vc and handle.tangent is not None:
                self._number(x, handle.tangent)

    def _number(self, x: Any, tangent: Any) -> None:
        """What a Node saves of a value of the trace has its tangent, unless an alias without one shares the id."""
        if x._tid == self.base_tid and not self._aliases(x):
            self._by_vid[x._vid] = tangent

    @staticmethod
    def _zeros_like(base: Any, tangent: Any) -> Any:
        """Zeros that are laid out as ``base`` is: what is written to a window on them must arrive there.

        They are a batch where ``tangent``, which will be written, is one.
        """
        aval = base._aval
        if aval.is_contiguous or isinstance(tangent, BatchedTensor):
            if not isinstance(tangent, BatchedTensor):
                return dispatch.apply(_ZEROS, base)
            zero = call("sum", dispatch.apply(_ZEROS, tangent), None, False, None)
            return dispatch.apply(_CLONE, call("expand", zero, aval.shape))
        extent = 1 + sum((n - 1) * s for n, s in zip(aval.shape, aval.stride, strict=True))
        return dispatch.apply(_AS_STRIDED, filled(0, make_aval((extent,), aval.dtype)), aval.shape, aval.stride, 0)

    def view_inplace(self, tensor: Any, make: Any, name: str, take: Any) -> None:
        tangent = None if isinstance(tensor, BatchedTensor) else self.tangent(tensor)
        moved = None if tangent is None else self.beneath(make, tangent)
        super().view_inplace(tensor, make, name, take)
        if moved is not None:
            self.attach(tensor, moved)

    def custom_function(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``Function.apply``: the class says itself what it does to tangents."""
        inputs = (*args, *kwargs.values())
        tangents = self._tangents(inputs)
        if tangents is None:
            return self.beneath(lambda: cls.apply(*args, **kwargs))
        batch = self._batch_of(inputs)
        if batch is not None:
            with without(self, batch):
                return batch.do_custom_function(cls, inputs)
        return self.beneath(self._custom_function, cls, args, kwargs, tangents)

    def _custom_function(self, cls: Any, args: Any, kwargs: Any, tangents: tuple[Any, ...]) -> Any:
        ctx, result = cls._apply_with_ctx(args, kwargs)
        outs = result if isinstance(result, tuple) else (result,)
        inputs = (*args, *kwargs.values())
        given = tangents
        if ctx.materialize_grads:
            given = tuple([_or_zeros(x, t) for x, t in zip(inputs, tangents, strict=True)])
        moved = ctx.apply_jvp(*given)
        ctx.saved_for_forward = None
        moved = moved if isinstance(moved, tuple) else (moved,)
        if len(moved) != len(outs):
            raise RuntimeError(
                f"A custom Function's forward is returning {len(outs)} outputs but the jvp is returning {len(moved)}: "
                "they should return the same number."
            )
        for y, t in zip(outs, moved, strict=True):
            if t is not None and isinstance(y, TensorBase):
                _check_tangent(y, t, dict(zip(map(id, inputs), given, strict=True)))
                self.attach(y, t)
        return result

    def detached(self, tensor: Any) -> None:
        while isinstance(tensor, BatchedTensor):
            tensor = tensor._physical
        self._note(tensor, None)
        super().detached(tensor)

    def record_backward(self, request: BackwardRequest) -> Any:
        return record_under_levels(self, request)
