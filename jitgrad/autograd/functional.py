"""Whole derivatives of functions: Jacobians, Hessians, and products with them.

Owns: ``jacobian``, ``hessian``, ``vjp``, ``jvp``, ``vhp``, ``hvp``.
Must not know: the engine; everything here is calls of ``grad``.

``jvp`` differentiates a backward with respect to its own seed (the "double backward trick",
https://j-towns.github.io/2017/06/12/A-new-trick.html): J^T u is linear in u, so its derivative in u applied to v is
J v.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.autograd.backward import grad
from jitgrad.grad_mode import enable_grad
from jitgrad.ops.dispatch_hook import call
from jitgrad.tensor_base import TensorBase

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


class _Call:
    """One evaluation of a function on inputs that are ready to be differentiated.

    Attributes:
        inputs: the arguments; part of the caller's graph if ``create_graph``, else fresh leaves.
        outputs: the results.
    """

    def __init__(self, func: Callable[..., Any], inputs: Any, create_graph: bool, name: str) -> None:
        self.create_graph = create_graph
        self.single_input = isinstance(inputs, TensorBase)
        given = (inputs,) if self.single_input else tuple(inputs)
        _check_tensors(given, "inputs", name)
        self.inputs = tuple(_ready(x, create_graph) for x in given)
        outputs = func(*self.inputs)
        self.single_output = isinstance(outputs, TensorBase)
        self.outputs = (outputs,) if self.single_output else tuple(outputs)
        _check_tensors(self.outputs, "outputs", name)

    def like_inputs(self, values: tuple[Any, ...]) -> Any:
        return values[0] if self.single_input else values

    def like_outputs(self, values: tuple[Any, ...]) -> Any:
        return values[0] if self.single_output else values

    def result(self) -> Any:
        return self.like_outputs(tuple(self.finish(y) for y in self.outputs))

    def finish(self, value: Any) -> Any:
        """What the caller gets: differentiable only if that was asked for."""
        return value if self.create_graph or not value._requires_grad else value.detach()


def _check_tensors(values: tuple[Any, ...], what: str, name: str) -> None:
    for i, x in enumerate(values):
        if not isinstance(x, TensorBase):
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the value at index {i} "
                f"has type {type(x)}."
            )


def _ready(x: Any, create_graph: bool) -> Any:
    """With ``create_graph``, an alias in the caller's graph (so that the derivative is with respect to this use)."""
    if create_graph and x._requires_grad:
        return call("alias", x)
    return x.detach().requires_grad_()


def _grad(
    outputs: tuple[Any, ...],
    inputs: tuple[Any, ...],
    seeds: tuple[Any, ...] | None,
    create_graph: bool,
    strict: bool,
    retain_graph: bool | None = None,
) -> tuple[Any, ...]:
    """``grad`` with zeros for what does not depend, or with ``strict`` an error."""
    given = seeds if seeds is not None else (None,) * len(outputs)
    pairs = [(y, s) for y, s in zip(outputs, given, strict=True) if y._requires_grad]
    if strict and len(pairs) != len(outputs):
        raise RuntimeError("An output of the user-provided function is independent of the inputs (strict mode).")
    grads: tuple[Any, ...] = (None,) * len(inputs)
    if pairs:
        ys, ss = zip(*pairs, strict=True)
        grads = grad(ys, inputs, ss, retain_graph, create_graph, allow_unused=True)
    if strict and any(g is None for g in grads):
        raise RuntimeError("The output of the user-provided function is independent of an input (strict mode).")
    return tuple(call("zeros_like", x) if g is None else g for g, x in zip(grads, inputs, strict=True))


def _vectors(v: Any, like: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    """The vector of a product, one tensor per entry of ``like``; may be left out for a single one-element tensor."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None in {name} if there is one tensor with a single element.")
        return (call("ones_like", like[0].detach()),)
    given = (v,) if isinstance(v, TensorBase) else tuple(v)
    if len(given) != len(like):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(given)}.")
    for i, (a, b) in enumerate(zip(given, like, strict=True)):
        if a.shape != b.shape:
            raise RuntimeError(f"Entry {i} in v has invalid size: should be {b.shape} but got {a.shape}.")
    return given


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(inputs), v^T J).

    Args:
        func: Tensors to a Tensor or a tuple.
        inputs: a Tensor or a tuple.
        v: shaped as the outputs; may be left out for one element.
        create_graph: make the results differentiable.
        strict: raise where an output does not depend on an input, instead of giving zeros.
    """
    with enable_grad():
        this = _Call(func, inputs, create_graph, "vjp")
        seeds = _vectors(v, this.outputs, "vjp")
        grads = _grad(this.outputs, this.inputs, seeds, create_graph, strict)
    return this.result(), this.like_inputs(tuple(this.finish(g) for g in grads))


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(inputs), J v); ``v`` is shaped as the inputs. Arguments as ``vjp``."""
    with enable_grad():
        this = _Call(func, inputs, create_graph, "jvp")
        vector = _vectors(v, this.inputs, "jvp")
        seeds = tuple(call("zeros_like", y).requires_grad_() for y in this.outputs)
        grads = _grad(this.outputs, this.inputs, seeds, True, strict)
        products = _grad(grads, seeds, vector, create_graph, strict, retain_graph=True)
    return this.result(), this.like_outputs(tuple(this.finish(p) for p in products))


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian, one Tensor of shape [*output, *input] per output and input.

    Args:
        func: Tensors to a Tensor or a tuple.
        inputs: a Tensor or a tuple.
        create_graph: make the result differentiable.
        strict: raise where an output does not depend on an input.
        vectorize: accepted; rows are computed one at a time.
        strategy: "reverse-mode" (a row per output element).

    Returns:
        A Tensor; nested tuples (outputs, then inputs) where there are several.
    """
    if strategy != "reverse-mode":
        raise NotImplementedError(f"jacobian: strategy {strategy!r} is not available; use 'reverse-mode'")
    with enable_grad():
        this = _Call(func, inputs, create_graph, "jacobian")
        blocks = tuple(_jacobian_of(this, y, strict) for y in this.outputs)
    return this.like_outputs(tuple(this.like_inputs(block) for block in blocks))


def _jacobian_of(this: _Call, output: Any, strict: bool) -> tuple[Any, ...]:
    """For each input, [*output, *input]."""
    flat = output.reshape(-1)
    rows = [_grad((flat[k],), this.inputs, None, this.create_graph, strict, True) for k in range(output.numel())]
    if not rows:
        return tuple(call("zeros_like", x)[None][:0].reshape(output.shape + x.shape) for x in this.inputs)
    columns = zip(*rows, strict=True)
    return tuple(
        this.finish(call("stack", list(column), 0).reshape(output.shape + x.shape))
        for column, x in zip(columns, this.inputs, strict=True)
    )


def _gradient_of(func: Callable[..., Any], strict: bool, name: str) -> Callable[..., tuple[Any, ...]]:
    """The gradient of a scalar function, as a function of the same inputs."""

    def gradient(*inputs: Any) -> tuple[Any, ...]:
        output = func(*inputs)
        if not isinstance(output, TensorBase) or output.numel() != 1:
            raise RuntimeError(f"The function given to {name} should return a single Tensor with a single element.")
        return _grad((output.reshape(()),), inputs, None, True, strict)

    return gradient


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
) -> Any:
    """The Hessian of a scalar function: [*input_i, *input_j] per pair of inputs. Arguments as ``jacobian``."""
    blocks = jacobian(_gradient_of(func, strict, "hessian"), inputs, create_graph, strict, vectorize)
    return blocks[0] if isinstance(inputs, TensorBase) else blocks


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(inputs), H v) of a scalar function. Arguments as ``vjp``.

    The Hessian is symmetric, so this is ``vhp``, without the second use of the double backward trick.
    """
    return vhp(func, inputs, v, create_graph, strict)


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(inputs), v^T H) of a scalar function. Arguments as ``vjp``."""
    with enable_grad():
        this = _Call(func, inputs, create_graph, "vhp")
        if not this.single_output or this.outputs[0].numel() != 1:
            raise RuntimeError("The function given to vhp should return a single Tensor with a single element.")
        vector = _vectors(v, this.inputs, "vhp")
        gradients = _grad((this.outputs[0].reshape(()),), this.inputs, None, True, strict)
        products = _grad(gradients, this.inputs, vector, create_graph, strict)
    return this.result(), this.like_inputs(tuple(this.finish(p) for p in products))

