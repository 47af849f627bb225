"""Reverse mode: ``grad``, ``vjp``, ``jacrev``.

Owns: these three and ``grad_and_value``; as ``torch.func``.
Must not know: the engine, levels' rules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from jitgrad.autograd.backward import grad as autograd_grad
from jitgrad.autograd.bases import split_rows, standard_basis
from jitgrad.func.arguments import check_tensors, chosen, replaced, unpack_aux
from jitgrad.grad_mode import enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, set_grad_enabled
from jitgrad.ops.dispatch_hook import call
from jitgrad.tensor_base import TensorBase
from jitgrad.transforms.inputs import Borders
from jitgrad.transforms.tree import flatten, tree_map, unflatten
from jitgrad.transforms.vmap import vmap

__all__ = ["grad", "grad_and_value", "jacrev", "vjp"]


@contextmanager
def _recording() -> Iterator[None]:
    """Grad mode, within inference mode as well: a transform differentiates what it has recorded itself."""
    with inference_mode(False) if is_inference_mode_enabled() else nullcontext(), enable_grad():
        yield


def _gradients(
    outputs: Sequence[Any],
    inputs: Sequence[Any],
    seeds: Sequence[Any] | None,
    retain_graph: bool | None,
    create_graph: bool,
) -> list[Any]:
    """``autograd.grad``, with zeros where an output does not depend on an input."""
    given = seeds if seeds is not None else (None,) * len(outputs)
    pairs = [(y, s) for y, s in zip(outputs, given, strict=True) if y.requires_grad]
    grads: Sequence[Any] = (None,) * len(inputs)
    if pairs:
        ys, ss = zip(*pairs, strict=True)
        grads = autograd_grad(ys, inputs, ss, retain_graph, create_graph, allow_unused=True)
    return [call("zeros_like", x) if g is None else g for g, x in zip(grads, inputs, strict=True)]


def grad(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The gradient of a function that returns one element.

    Args:
        func: Tensors (in nested tuples, lists, dictionaries) to a 0-d Tensor; or to such a Tensor and anything else.
        argnums: with respect to which positional arguments.
        has_aux: ``func`` returns ``(output, aux)``.

    Returns:
        A function of the same arguments: the gradient, shaped as the argument (a tuple, for a tuple of arguments);
        with ``has_aux``, ``(gradient, aux)``. It may be differentiated again.

    Raises:
        RuntimeError: the output is no 0-d Tensor.
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func, updated=())
    def gradient(*args: Any, **kwargs: Any) -> Any:
        gradients, value = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return gradient


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """As ``grad``, returning ``(gradient, output)``, or ``(gradient, (output, aux))``."""

    @functools.wraps(func, updated=())
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = flatten(chosen(args, argnums))
        borders = Borders(leaves)
        with _recording():
            result = func(*replaced(args, argnums, unflatten(borders.inputs, spec)), **kwargs)
            output, aux = unpack_aux(result, has_aux, "grad_and_value(f)(*args)")
            _check_scalar(output)
            keeps = borders.keeps_graph([output])
            gradients = _gradients([output], borders.inputs, None, None, keeps)
        leave = functools.partial(borders.leave, keeps_graph=keeps)
        found = unflatten([leave(g) for g in gradients], spec)
        return (found, (leave(output), tree_map(leave, aux))) if has_aux else (found, leave(output))

    return wrapper


def _check_scalar(output: Any) -> None:
    if not isinstance(output, TensorBase):
        raise RuntimeError(
            f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(output)}"
        )
    if output.ndim:
        raise RuntimeError(
            "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
            f"{output.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
        )


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The outputs of ``func``, and the function that takes cotangents of them to cotangents of the inputs.

    Args:
        func: Tensors to Tensors, both in nested tuples, lists, dictionaries.
        primals: the arguments of ``func``.
        has_aux: ``func`` returns ``(outputs, aux)``.

    Returns:
        ``(outputs, vjp_fn)`` or ``(outputs, vjp_fn, aux)``. ``vjp_fn(cotangents)``, shaped as the outputs, returns a
        tuple shaped as the primals; it may be called again, and inside ``vmap``.
    """
    return _vjp(func, primals, None, has_aux)


def _vjp(func: Callable[..., Any], args: tuple[Any, ...], argnums: Any, has_aux: bool) -> tuple[Any, ...]:
    """``vjp`` with respect to some arguments; all, for ``argnums`` None."""
    leaves, spec = flatten(args if argnums is None else chosen(args, argnums))
    borders = Borders(leaves)
    with _recording():
        inputs = unflatten(borders.inputs, spec)
        result = func(*(inputs if argnums is None else replaced(args, argnums, inputs)))
        result, aux = unpack_aux(result, has_aux, "vjp(f, *primals)")
        outputs, out_spec = flatten(result)
        check_tensors(outputs, "vjp(f, *primals)")
        for y in outputs:
            if not y.dtype.is_inexact:
                raise RuntimeError(
                    "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                    f"{y.dtype}"
                )
        keeps = borders.keeps_graph(outputs)
    leave = functools.partial(borders.leave, keeps_graph=keeps)

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        seeds, seed_spec = flatten(cotangents)
        if seed_spec != out_spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {seed_spec.outline()}, primal output: {out_spec.outline()}"
            )
        may_keep = is_grad_enabled() if create_graph is None else create_graph
        stays = may_keep and (keeps or any(s.requires_grad for s in seeds))
        with inference_mode(False) if is_inference_mode_enabled() else nullcontext(), set_grad_enabled(may_keep):
            grads = _gradients(outputs, borders.inputs, seeds, retain_graph, stays)
        return unflatten([Borders.leave(g, stays) for g in grads], spec)

    values = unflatten([leave(y) for y in outputs], out_spec)
    return (values, vjp_fn, tree_map(leave, aux)) if has_aux else (values, vjp_fn)


def refuse_complex(name: str, tensors: list[Any], several: str, one: str) -> None:
    """RuntimeError for complex tensors among the inputs or outputs of a function whose Jacobian is wanted."""
    for index, x in enumerate(tensors):
        if x.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {several} to be real but received complex tensor at flattened {one} idx: {index}"
            )


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """The Jacobian by reverse mode: good where outputs are fewer than inputs.

    Args:
        func: Tensors to Tensors.
        argnums: with respect to which positional arguments.
        has_aux: ``func`` returns ``(outputs, aux)``.
        chunk_size: how many rows to compute at a time; None = all.

    Returns:
        A function of the same arguments: for each output and argument a Tensor [*output, *argument], in the structure
        of the outputs, each holding the structure of the arguments.
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func, updated=())
    def jacobian(*args: Any) -> Any:
        values, vjp_fn, *aux = _vjp(func, args, argnums, has_aux)
        outputs, out_spec = flatten(values)
        inputs, in_spec = flatten(chosen(args, argnums))
        refuse_complex("jacrev", inputs, "inputs", "input")
        refuse_complex("jacrev", outputs, "outputs", "output")
        basis = unflatten(standard_basis(outputs), out_spec)
        rows = flatten(vmap(vjp_fn, chunk_size=chunk_size)(basis))[0]
        blocks = [split_rows(r, outputs, x) for r, x in zip(rows, inputs, strict=True)]
        found = unflatten([unflatten(list(block), in_spec) for block in zip(*blocks, strict=True)], out_spec)
        return (found, aux[0]) if has_aux else found

    return jacobian
