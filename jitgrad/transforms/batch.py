"""``vmap``: a level at which tensors stand for one example of a batch.

Owns: ``BatchLevel``: which operations are done on whole batches, and the loop over examples for those without a rule.
Must not know: the rules (``batch_rules``), the public function.
In: operations on handles. Out: the same operations on whole batches, one level down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jitgrad import dispatch
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.table import OPS, Op
from jitgrad.runtime.eager.eager import check_inplace, split_args
from jitgrad.runtime.eager.plan import find_plan
from jitgrad.runtime.engine.graph.copy_slices import is_in_graph
from jitgrad.runtime.engine.run.request import BackwardRequest
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase
from jitgrad.transforms.backward import record_under_levels
from jitgrad.transforms.batch_rules import RULES, BatchUse
from jitgrad.transforms.batched import BatchedTensor, Batching
from jitgrad.transforms.custom import apply_mapped, check_can_be_mapped
from jitgrad.transforms.tree import broadcast, flatten, unflatten

__all__ = ["BatchLevel", "VmapInfo", "to_front"]

_COPY, _CLONE = OPS["copy"], OPS["clone"]


class VmapInfo(NamedTuple):
    """The first argument of ``Function.vmap``."""

    batch_size: int
    randomness: str


def to_front(x: Any, dim: int) -> Any:
    """Dimension ``dim`` of ``x`` moved to the front."""
    rank = x._aval.ndim
    dim %= rank
    return call("permute", x, (dim, *(d for d in range(rank) if d != dim))) if dim else x


class BatchLevel(Batching):
    """The examples of one ``vmap``.

    Attributes:
        randomness: what random numbers examples see; see ``vmap``.
    """

    def __init__(self, size: int, randomness: str = "error", maps_values: bool = True) -> None:
        super().__init__(size, maps_values)
        self.randomness = randomness

    def draws(self, draw: Callable[[tuple[int, ...]], Any]) -> Any:
        """Random numbers, as ``randomness`` says."""
        if self.randomness == "error":
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
                "'different' randomness flags on vmap or perform the randomness operation out of vmap"
            )
        if self.randomness == "same":
            return super().draws(draw)
        return self.wrap(super().draws(lambda sizes: draw((*sizes, self.size))))

    def custom_function(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``Function.apply``: the class says itself what it does to a batch."""
        args = (*args, *kwargs.values())
        if not any(map(self.concerns, flatten(args)[0])):
            return self.beneath(cls.apply, *args)
        return self.beneath(self.do_custom_function, cls, args)

    def do_custom_function(self, cls: Any, args: tuple[Any, ...]) -> Any:
        """``custom_function`` for whole batches, by the thread's recorder."""
        check_can_be_mapped(cls)
        if cls.generate_vmap_rule:
            outs, is_single = apply_mapped(cls, self, lambda: BatchLevel(self.size, self.randomness), args)
            handles = tuple([self.wrap(y) if isinstance(y, TensorBase) else y for y in outs])
            return handles[0] if is_single else handles
        leaves, spec = flatten(args)
        in_dims = unflatten([0 if self.concerns(x) else None for x in leaves], spec)
        physical = unflatten([x._physical if self.concerns(x) else x for x in leaves], spec)
        info = VmapInfo(self.size, self.randomness)
        result = cls.vmap(info, in_dims, *physical)
        if not isinstance(result, tuple) or len(result) != 2:
            raise RuntimeError(
                "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure "
                f"compatible with the output. Got a {type(result)} instead"
            )
        outputs, out_dims = result
        found, out_spec = flatten(outputs)
        dims = broadcast(out_dims, out_spec)
        if dims is None:
            raise RuntimeError(f"{cls.__name__}.vmap returned out_dims={out_dims}, which do not fit its outputs")
        moved = [y if d is None else self.wrap(to_front(y, d)) for y, d in zip(found, dims, strict=True)]
        return unflatten(moved, out_spec)

    def concerns(self, tensor: Any) -> bool:
        return isinstance(tensor, BatchedTensor) and tensor._level is self

    def apply(self, op: Op, args: tuple[Any, ...]) -> Any:
        inputs, _ = split_args(op, args)
        if not any(map(self.concerns, inputs)):
            return self.beneath(dispatch.apply, op, *args)
        return self.beneath(self.do, op, args)

    def do(self, op: Op, args: tuple[Any, ...]) -> Any:
        """An operation on handles, by operations on whole batches, which the thread's recorder does."""
        inputs, params = split_args(op, args)
        outs, several = self._out_avals(op, inputs, params)
        handles = tuple([self.wrap(y) for y in self._run(op, inputs, params, outs)])
        return handles if several else handles[0]

    def _out_avals(self, op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> tuple[Any, bool]:
        """What the operation makes of one example. Raises what it raises for one example."""
        plan = find_plan(op, [x._aval if isinstance(x, TensorBase) else x for x in inputs], params)
        return plan.out_avals, plan.is_several

    def _run(self, op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], outs: Any) -> list[Any]:
        """The whole batches of the results."""
        use = BatchUse(self, op, inputs, params, outs)
        rule = RULES.get(op)
        found = rule(use) if rule is not None else None
        if found is None:
            found = _loop(use)
        found = list(found) if isinstance(found, tuple | list) else [found]
        for i, (y, aval) in enumerate(zip(found, outs, strict=True)):
            if y._aval.dtype is not aval.dtype:
                found[i] = y.to(aval.dtype)  # a batch of 0-d tensors weighs more in a promotion than one of them
            if y._aval.shape != (self.size, *aval.shape):
                found[i] = found[i].reshape((self.size, *aval.shape))
        return found

    def apply_inplace(self, op: Op, targets: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
        inputs, _ = split_args(op, args)
        if not any(map(self.concerns, (*inputs, *targets))):
            return super().apply_inplace(op, targets, args)
        done: tuple[Any, ...] = self.beneath(self.do_inplace, op, targets, args)
        return done

    def do_inplace(self, op: Op, targets: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """An in-place operation on handles, by operations on whole batches."""
        inputs, params = split_args(op, args)
        if not all(map(self.concerns, targets)):
            raise RuntimeError(
                f"vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in "
                f"extra_args that has more elements than `self`. This happened due to `other` being vmapped over but "
                f"`self` not being vmapped over in a vmap. Please try to use out-of-place operators instead of inplace "
                f"arithmetic. If said operator is being called inside the PyTorch framework, please file a bug report "
                f"instead. (in-place {op.name})"
            )
        outs, _ = self._out_avals(op, inputs, params)
        for target, aval in zip(targets, outs, strict=True):
            check_inplace(op, target, aval)
        if state.grad_enabled and any(isinstance(x, TensorBase) and is_in_graph(x) for x in inputs):
            # the Node may save what is about to be overwritten
            inputs = tuple([self.do(_CLONE, (x,)) if any(x is t for t in targets) else x for x in inputs])
        for target, y in zip(targets, self._run(op, inputs, params, outs), strict=True):
            dispatch.apply_inplace(_COPY, (target._physical,), target._physical, y)
            self.renew(target)
        return targets

    def read(self, tensor: Any) -> None:
        if isinstance(tensor, BatchedTensor):
            raise RuntimeError(
                "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow, or calling "
                ".item() on a Tensor. We don't support vmap over that: every example has a value of its own. Please "
                "try to rewrite what you're doing with other operations."
            )
        super().read(tensor)

    def grad_fn_of(self, tensor: Any) -> Any:
        if self.concerns(tensor):
            return self.beneath(lambda: tensor._physical.grad_fn)
        return super().grad_fn_of(tensor)

    def set_requires_grad(self, tensor: Any, requires_grad: bool) -> None:
        if self.concerns(tensor):
            self.beneath(tensor._physical.requires_grad_, requires_grad)
        else:
            super().set_requires_grad(tensor, requires_grad)

    def record_backward(self, request: BackwardRequest) -> Any:
        return record_under_levels(self, request)


def _loop(use: BatchUse) -> list[Any]:
    """Example by example: right for every operation."""
    rows = []
    for i in range(use.size):
        inputs = [call("select", x, 0, i) if batched else x for x, batched in zip(use.values, use.batched, strict=True)]
        if use.op.name == "as_strided":  # strides are those of one example on its own
            inputs[0] = dispatch.apply(_CLONE, inputs[0])
        row = use.apply(inputs)
        rows.append(row if isinstance(row, tuple | list) else (row,))
    return [call("stack", list(column), 0) for column in zip(*rows, strict=True)]
