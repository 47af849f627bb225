"""Custom functions under ``vmap``, without a rule of their own (``generate_vmap_rule = True``).

Owns: ``apply_mapped``: a Function of whole batches, made of one for a single example; what ``vmap`` asks of Functions.
Must not know: how levels do operations.

A custom function's derivative is the user's, so its forward cannot simply be done on handles: the graph of a ``vmap``
belongs to whole batches. The function of a whole batch runs the user's forward, backward and jvp each in a ``vmap``
of its own, and is what joins the graph. (PyTorch does the same in torch/_functorch/autograd_function.py.)
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from jitgrad.autograd.function import Function, FunctionCtx, backward_of
from jitgrad.runtime.engine.graph.validate import sum_to_shape
from jitgrad.tensor_base import TensorBase
from jitgrad.transforms.level import level
from jitgrad.transforms.tree import TreeSpec, flatten, unflatten

__all__ = ["apply_mapped", "check_can_be_mapped"]

_NO_RULE = (
    "You tried to vmap over {0}, but it does not have vmap support. Please override and implement the vmap "
    "staticmethod or set generate_vmap_rule=True. For more details, please see "
    "https://pytorch.org/docs/main/notes/extending.func.html"
)
_NEEDS_SETUP_CONTEXT = (
    "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must override "
    "the setup_context staticmethod. For more details, please see "
    "https://pytorch.org/docs/main/notes/extending.func.html"
)
_AMBIGUOUS = (
    "You tried to vmap over {0}, but it has both generate_vmap_rule=True and an overridden vmap staticmethod. Please "
    "set generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid ambiguity. For more details, "
    "please see https://pytorch.org/docs/main/notes/extending.func.html"
)


class _Ctx(FunctionCtx):
    """The ``ctx`` of one example.

    Attributes:
        needs_input_grad: per argument.
        saved_tensors: what one example saved.
    """

    materialize_grads = True
    _materialize_non_diff_grads = True
    to_save: tuple[Any, ...] = ()
    saved_for_forward: tuple[Any, ...] = ()
    dirty_tensors: tuple[Any, ...] = ()
    non_differentiable: tuple[Any, ...] = ()
    saved_tensors: tuple[Any, ...] = ()
    needs_input_grad: tuple[bool, ...] = ()


class _Call:
    """One application to a batch.

    Attributes:
        cls: the user's Function.
        new_level: makes a ``vmap`` level like the one of the application.
        spec: how the tensors and others below stand in the arguments.
        mapped: which of them are batches.
        shapes: of one example of each; None for what is no tensor.
        is_single: forward returned no tuple.
    """

    def __init__(self, cls: Any, outside: Any, new_level: Callable[[], Any], spec: TreeSpec, leaves: Any) -> None:
        self.cls, self.new_level, self.spec = cls, new_level, spec
        self.mapped = [outside.concerns(x) for x in leaves]
        self.shapes = [x._aval.shape if isinstance(x, TensorBase) else None for x in leaves]
        self.is_single = False

    def level(self) -> AbstractContextManager[Any]:
        """Inside the block, handles stand for one example."""
        return level(self.new_level())

    def arguments(self, here: Any, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """What one example sees of whole batches."""
        return tuple(unflatten(_handles(here, leaves, self.mapped), self.spec))

    def outputs(self, here: Any, outs: tuple[Any, ...]) -> Any:
        """What one example's forward returned."""
        handles = tuple(_handles(here, outs, [isinstance(y, TensorBase) for y in outs]))
        return handles[0] if self.is_single else handles


def _handles(here: Any, batches: Sequence[Any], mapped: Sequence[bool]) -> list[Any]:
    return [here.wrap(x) if is_mapped and x is not None else x for x, is_mapped in zip(batches, mapped, strict=True)]


def _physical(here: Any, x: Any) -> Any:
    return here.beneath(here.physical, x) if isinstance(x, TensorBase) else x


def _bare(here: Any, xs: Sequence[Any]) -> list[Any]:
    """The batches behind handles of a level; a tensor that all its examples share stays as it is."""
    return [x._physical if here.concerns(x) else x for x in xs]


class _Mapped(Function):
    """The Function of whole batches; a subclass for each Function, for its name. It may be mapped again."""

    generate_vmap_rule = True

    @staticmethod
    def forward(call: _Call, *leaves: Any) -> Any:
        with call.level() as here:
            result = call.cls.forward(*call.arguments(here, leaves))
            call.is_single = not isinstance(result, tuple)
            return tuple(_physical(here, y) for y in ((result,) if call.is_single else result))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        call, leaves = inputs[0], inputs[1:]
        ctx.call, ctx.example = call, _Ctx()
        ctx.example.needs_input_grad = _per_argument(call.spec, ctx.needs_input_grad[1:], any)
        with call.level() as here:
            call.cls.setup_context(ctx.example, call.arguments(here, leaves), call.outputs(here, output))
            example = ctx.example
            ctx.saved_are_mapped = [here.concerns(x) for x in example.to_save]
            ctx.kept_are_mapped = [here.concerns(x) for x in example.saved_for_forward]
            ctx.save_for_backward(*_bare(here, example.to_save))
            ctx.save_for_forward(*_bare(here, example.saved_for_forward))
            ctx.mark_dirty(*_bare(here, example.dirty_tensors))
            ctx.mark_non_differentiable(*_bare(here, example.non_differentiable))
            ctx.set_materialize_grads(example.materialize_grads)
            ctx._materialize_non_diff_grads = example._materialize_non_diff_grads
            example.to_save = example.saved_for_forward = example.dirty_tensors = example.non_differentiable = ()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        call, saved = ctx.call, ctx.saved_tensors
        with call.level() as here:
            ctx.example.saved_tensors = tuple(_handles(here, saved, ctx.saved_are_mapped))
            try:
                result = backward_of(call.cls)(ctx.example, *_handles(here, grads, [True] * len(grads)))
            finally:
                ctx.example.saved_tensors = ()
            result = result if isinstance(result, tuple) else (result,)
            found = _per_leaf(call.spec, result)
            pairs = zip(found, call.mapped, call.shapes, strict=True)
            return None, *(_whole_gradient(here, g, is_mapped, shape) for g, is_mapped, shape in pairs)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        call, kept = ctx.call, ctx.saved_tensors
        with call.level() as here:
            ctx.example.saved_tensors = tuple(_handles(here, kept, ctx.kept_are_mapped))
            try:
                moved = unflatten(_handles(here, tangents[1:], call.mapped), call.spec)
                result = call.cls.jvp(ctx.example, *moved)
            finally:
                ctx.example.saved_tensors = ()
            return tuple(_physical(here, t) for t in (result if isinstance(result, tuple) else (result,)))


def _per_argument(spec: TreeSpec, leaves: Sequence[Any], join: Callable[[Sequence[Any]], Any]) -> tuple[Any, ...]:
    """One value per argument, joined of those of its leaves."""
    found, at = [], 0
    for child in spec.children:
        found.append(join(leaves[at : at + child.num_leaves]))
        at += child.num_leaves
    return tuple(found)


def _per_leaf(spec: TreeSpec, grads: tuple[Any, ...]) -> list[Any]:
    """Backward gives one gradient per argument; an argument that is a container has none."""
    if len(grads) != len(spec.children):
        return list(grads)  # the Node says what is wrong
    found: list[Any] = []
    for child, g in zip(spec.children, grads, strict=True):
        found += [g] if child.kind is None else [None] * child.num_leaves
    return found


def _whole_gradient(here: Any, grad: Any, is_mapped: bool, shape: Any) -> Any:
    """The gradient of a whole batch; of a tensor that all examples share, the sum over examples."""
    if not isinstance(grad, TensorBase) or shape is None:
        return grad
    if is_mapped:
        grad = sum_to_shape(grad, shape) if grad._aval.shape != shape else grad
        return _physical(here, grad)
    return here.beneath(lambda: here.physical(grad).sum(0))


_classes: weakref.WeakKeyDictionary[Any, type[_Mapped]] = weakref.WeakKeyDictionary()


def check_can_be_mapped(cls: Any) -> None:
    """RuntimeError for a Function without a rule, with two, or whose forward takes the ctx."""
    if cls.setup_context is Function.setup_context:
        raise RuntimeError(_NEEDS_SETUP_CONTEXT)
    if cls.generate_vmap_rule is (cls.vmap is not Function.vmap):
        raise RuntimeError((_AMBIGUOUS if cls.generate_vmap_rule else _NO_RULE).format(cls.__name__))


def apply_mapped(
    cls: Any, outside: Any, new_level: Callable[[], Any], args: tuple[Any, ...]
) -> tuple[tuple[Any, ...], bool]:
    """Apply a Function to every example of a batch.

    Args:
        cls: the Function, which has ``generate_vmap_rule``.
        outside: the ``vmap`` level of the batch, which is left out right now.
        new_level: makes one like it on top of whatever is active.
        args: handles of ``outside``, and others.

    Returns:
        The outputs, as whole batches; whether there is only one.
    """
    leaves, spec = flatten(args)
    mapped = _classes.get(cls)
    if mapped is None:
        mapped = _classes[cls] = type(f"Vmapped{cls.__name__}", (_Mapped,), {})
    call = _Call(cls, outside, new_level, spec, leaves)
    outs = mapped.apply(call, *_bare(outside, leaves))
    return outs, call.is_single
