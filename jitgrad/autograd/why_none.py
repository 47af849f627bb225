"""Why is ``.grad`` None?

Owns: ``why_none``.
Must not know: how the graph is run.
"""

from __future__ import annotations

from typing import Any

from jitgrad.runtime.engine.graph.accumulate_grad import AccumulateGrad, existing_accumulator, gradient_edge
from jitgrad.runtime.engine.graph.node import Node, name_of
from jitgrad.version_counter import is_inference

__all__ = ["why_none"]


def why_none(tensor: Any, loss: Any = None) -> str:
    """Say in words why ``tensor.grad`` is None, and what to do about it.

    Args:
        tensor: whose gradient is missing.
        loss: what ``backward()`` was called on; with it, the answer says whether the tensor is in its graph.

    Returns:
        A sentence or two; where several causes are possible, all of them.
    """
    if tensor._grad is not None:
        return "It is not None: tensor.grad holds a gradient."
    return _about_tensor(tensor) or (_about_loss(tensor, loss) if loss is not None else _about_graph(tensor))


def _about_tensor(tensor: Any) -> str:
    """What the tensor alone tells; nothing, for a leaf that could have a gradient."""
    if not tensor._aval.dtype.is_inexact:
        return f"Its dtype is {tensor.dtype}: only tensors of floating point dtype have gradients."
    if is_inference(tensor):
        return "It was made in inference_mode: such tensors take no part in autograd. Use no_grad, or clone it outside."
    if not tensor.requires_grad:
        return (
            "Its requires_grad is False: no graph is recorded for it. Either nobody asked (requires_grad=True, "
            "requires_grad_()), or it was computed under no_grad, from a detach()ed or .data tensor, or only from "
            "tensors that do not require grad."
        )
    if not tensor.is_leaf and not tensor.retains_grad:
        return (
            f"It is not a leaf: {name_of(tensor.grad_fn)} computed it, and backward() keeps .grad of leaves only. Call "
            "tensor.retain_grad() before backward(), or use autograd.grad(loss, tensor). If it was meant to be a leaf, "
            "make it one after its last operation: x = x.detach().requires_grad_()."
        )
    return ""


def _about_loss(tensor: Any, loss: Any) -> str:
    if not loss.requires_grad:
        return (
            "The loss does not require grad: nothing that it was computed from does, or it was computed under no_grad "
            "or from detached tensors."
        )
    wanted, root = gradient_edge(tensor).node, gradient_edge(loss).node
    assert root is not None
    found = _walk(root, wanted)
    if found.reached:
        if tensor.is_leaf:
            return (
                "It is in the graph of the loss, so loss.backward() would give it a gradient. Either backward() has "
                "not been called, or its inputs= named other tensors, or .grad was reset afterwards (zero_grad, "
                "grad = None), or a rule or hook returned None for it."
            )
        return (
            "It is in the graph of the loss and retains its gradient. Either backward() has not been called since "
            "retain_grad(), or its inputs= named other tensors."
        )
    return (
        f"It is not in the graph of the loss ({found.count} nodes, leaves: {found.leaves or 'none'}): no operation led "
        "from it to the loss with grad mode on. Look for detach(), .data, .item(), .numpy(), no_grad, a tensor made "
        "anew from values, or a copy that was used in its place."
    )


def _about_graph(tensor: Any) -> str:
    if not tensor.is_leaf:
        return (
            f"It retains its gradient, and {name_of(tensor.grad_fn)} has received none: backward() has not been called "
            "since retain_grad(), or what it was called on does not depend on this tensor. "
            "why_none(tensor, loss) looks at the graph."
        )
    if existing_accumulator(tensor) is None:
        return (
            "No graph refers to it now. Either no operation has used it with grad mode on (look for no_grad, detach() "
            "or a copy that was used in its place), or the graph that did is gone and its gradient was reset "
            "(zero_grad, grad = None) or never computed. why_none(tensor, loss) looks at the graph of a loss."
        )
    return (
        "It is part of a graph, but no backward has reached it: backward() has not been called, its inputs= named "
        "other tensors, or it was called on something else. why_none(tensor, loss) looks at the graph of a loss."
    )


class _Walk:
    """What a walk over a graph has met.

    Attributes:
        reached: the node that was looked for.
        count: nodes.
    """

    def __init__(self) -> None:
        self.reached = False
        self.count = 0
        self._shapes: list[str] = []

    @property
    def leaves(self) -> str:
        """Shapes of the first leaves."""
        more = f" and {len(self._shapes) - 5} more" if len(self._shapes) > 5 else ""
        return ", ".join(self._shapes[:5]) + more

    def meet(self, node: Node, wanted: Node | None) -> None:
        self.count += 1
        self.reached = self.reached or node is wanted
        if isinstance(node, AccumulateGrad):
            self._shapes.append(str(tuple(node.variable.shape)))


def _walk(root: Node, wanted: Node | None) -> _Walk:
    walk, seen, stack = _Walk(), {root}, [root]
    while stack:
        node = stack.pop()
        walk.meet(node, wanted)
        for target, _ in node.next_functions:
            if target is not None and target not in seen:
                seen.add(target)
                stack.append(target)
    return walk
