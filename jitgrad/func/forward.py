"""Forward mode: ``jvp``, ``jacfwd``, and ``hessian``, which is forward over reverse.

Owns: these, and ``linearize``; as ``torch.func``.
Must not know: tangent rules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.autograd.bases import split_columns, standard_basis
from jitgrad.autograd.forward_ad import make_dual
from jitgrad.func.arguments import check_tensors, chosen, replaced, unpack_aux
from jitgrad.func.reverse import jacrev, refuse_complex
from jitgrad.grad_mode import inference_mode, is_inference_mode_enabled, no_grad
from jitgrad.ops.dispatch_hook import call
from jitgrad.tensor_base import TensorBase
from jitgrad.transforms.dual import DualLevel
from jitgrad.transforms.level import level
from jitgrad.transforms.tree import flatten, tree_map, unflatten
from jitgrad.transforms.vmap import map_directions

__all__ = ["hessian", "jacfwd", "jvp", "linearize"]

_JVP = "jvp(f, primals, tangents)"


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> tuple[Any, ...]:
    """The outputs of ``func``, and how they move when the inputs move with ``tangents``.

    Args:
        func: Tensors to Tensors, both in nested tuples, lists, dictionaries.
        primals: a tuple, the arguments of ``func``.
        tangents: shaped as the primals.
        strict: raise if an output does not move, instead of giving zeros.
        has_aux: ``func`` returns ``(outputs, aux)``.

    Returns:
        ``(outputs, tangents of the outputs)``, and aux. Levels nest: the result may be differentiated again.
    """
    return _jvp(func, primals, tangents, None, strict, has_aux)


def _jvp(
    func: Callable[..., Any], args: Any, tangents: Any, argnums: Any, strict: bool, has_aux: bool
) -> tuple[Any, ...]:
    """``jvp`` with respect to some arguments; all, for ``argnums`` None."""
    if not isinstance(args, tuple):
        raise RuntimeError(
            f"{_JVP}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    if is_inference_mode_enabled():
        # an inner reverse-mode transform saves values and tangents, which inference tensors must not be
        with inference_mode(False), no_grad():
            args, tangents = tree_map(_outside_inference, args), tree_map(_outside_inference, tangents)
            return _jvp(func, args, tangents, argnums, strict, has_aux)
    leaves, spec = flatten(args if argnums is None else chosen(args, argnums))
    moves, move_spec = flatten(tangents)
    if move_spec != spec:
        raise RuntimeError(
            f"{_JVP}: Expected primals and tangents to have the same python structure. For example, if primals is a "
            f"tuple of 3 tensors, tangents also must be. Got primals with structure {spec} and tangents with structure "
            f"{move_spec}"
        )
    _check_leaves(leaves, "primals")
    _check_leaves(moves, "tangents")
    with level(DualLevel()) as here:
        inputs = unflatten([make_dual(x, t) for x, t in zip(leaves, moves, strict=True)], spec)
        result = func(*(inputs if argnums is None else replaced(args, argnums, inputs)))
        result, aux = unpack_aux(result, has_aux, _JVP)
        outputs, out_spec = flatten(result)
        check_tensors(outputs, _JVP)
        moved = [here.beneath(_tangent, here, y, strict) for y in outputs]
    found = unflatten(outputs, out_spec), unflatten(moved, out_spec)
    return (*found, aux) if has_aux else found


def _outside_inference(x: Any) -> Any:
    return x.clone() if isinstance(x, TensorBase) and x.is_inference() else x


def _tangent(here: DualLevel, y: Any, strict: bool) -> Any:
    tangent = here.tangent(y)
    if tangent is not None:
        return tangent
    if strict:
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed "
            "with strict=True."
        )
    return call("zeros_like", y)


def _check_leaves(values: Sequence[Any], name: str) -> None:
    if not values:
        raise RuntimeError(f"{_JVP}: Expected {name} to contain at least one Tensor.")
    for x in values:
        if not isinstance(x, TensorBase):
            raise RuntimeError(f"{_JVP}: Expected {name} to only contain Tensors, got {type(x)}")


def jacfwd(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """The Jacobian by forward mode: good where inputs are fewer than outputs. Arguments and result as ``jacrev``.

    Args:
        func: Tensors to Tensors.
        argnums: with respect to which positional arguments.
        has_aux: ``func`` returns ``(outputs, aux)``.
        randomness: of ``func``, as ``vmap`` has it.
    """

    @functools.wraps(func, updated=())
    def jacobian(*args: Any) -> Any:
        inputs, in_spec = flatten(chosen(args, argnums))
        refuse_complex("jacfwd", inputs, "inputs", "input")
        basis = unflatten(standard_basis(inputs), in_spec)
        kept: list[Any] = []

        def push(tangents: Any) -> Any:
            _, moved, *aux = _jvp(func, args, tangents, argnums, False, has_aux)
            kept.extend(aux)
            return moved

        columns, out_spec = flatten(map_directions(push, basis, randomness))
        blocks = [unflatten(split_columns(c, inputs), in_spec) for c in columns]
        found = unflatten(blocks, out_spec)
        return (found, kept[0]) if has_aux else found

    return jacobian


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """The second derivatives: ``jacfwd(jacrev(func))``, forward over reverse."""
    return jacfwd(jacrev(func, argnums), argnums)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The outputs of ``func``, and its derivative at ``primals`` as a function of tangents.

    The function runs ``func`` again whenever it is called; inside a compiled step, what does not depend on tangents is
    recorded once, because equal values are shared.
    """
    output = func(*primals)

    def jvp_fn(*tangents: Any) -> Any:
        return jvp(func, primals, tangents)[1]

    return output, jvp_fn
