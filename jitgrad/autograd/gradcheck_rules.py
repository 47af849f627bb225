"""What ``gradcheck`` looks at besides Jacobians: batches, linearity, gradients and tangents that are not there.

Owns: these checks.
Must not know: finite differences.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.autograd.backward import grad
from jitgrad.autograd.differences import vector_of
from jitgrad.autograd.forward_ad import dual_level, make_dual, unpack_dual
from jitgrad.autograd.function import Function
from jitgrad.autograd.gradcheck_jacobians import (
    Check,
    GradcheckError,
    as_tuple,
    differentiable,
    floating,
    like,
    tangents,
    unit_vector,
)
from jitgrad.ops.dispatch_hook import call
from jitgrad.tensor_base import TensorBase
from jitgrad.transforms.vmap import map_directions, vmap

__all__ = ["check_backward", "check_batched_forward", "check_undefined_forward"]

_BATCHED = (
    "gradcheck or gradgradcheck failed while testing batched gradient computation. To compute batched grads (e.g., "
    "jacobians, hessians), we vmap over the backward computation. The most common failure case is if there is a "
    "'vmap-incompatible operation' in the backward pass. Call with `check_batched_grad=False` to leave this out."
)
_BATCHED_FORWARD = (
    "gradcheck failed while testing batched gradient computation with forward-mode AD. Call with "
    "`check_batched_forward_grad=False` to leave this out."
)
_UNDEFINED_IS_NEW = (
    "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but it may break "
    'existing callers of this function. If this is true for you, you can call this function with "check_undefined_grad='
    'False" to disable the feature'
)


class _UndefinedGrad(Function):
    """The identity, whose gradient never arrives."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None


def check_backward(check: Check, batched: bool, undefined: bool) -> None:
    outputs = differentiable(check.outputs())
    if batched:
        for number, y in enumerate(outputs):
            _check_batched(check, y, number)
    _check_linear(check, outputs)
    if undefined:
        _check_undefined(check)


def _check_batched(check: Check, output: Any, number: int) -> None:
    inputs = check.checked()
    rng = np.random.default_rng(0)
    seeds = [like(rng.standard_normal(output.shape), output) for _ in range(2)]

    def vjp(v: Any) -> tuple[Any, ...]:
        grads = grad(output, inputs, v, retain_graph=True, allow_unused=True)
        return tuple(call("zeros_like", x) if g is None else g for g, x in zip(grads, inputs, strict=True))

    expected = zip(*map(vjp, seeds), strict=True)
    try:
        results = vmap(vjp)(call("stack", seeds, 0))
    except RuntimeError as error:
        raise GradcheckError(f"While computing batched gradients, got: {error}\n\n{_BATCHED}") from error
    _compare_batches(results, expected, number, _BATCHED)


def _compare_batches(results: Any, expected: Any, number: int, text: str) -> None:
    for i, (got, column) in enumerate(zip(results, expected, strict=True)):
        want = call("stack", list(column), 0)
        if not np.allclose(vector_of(got), vector_of(want), 1e-5, 1e-8):
            raise GradcheckError(f"For output {number} and input {i}:\n\n{text}\n\nGot:\n{got}\n\nExpected:\n{want}")


def check_batched_forward(check: Check) -> None:
    rng = np.random.default_rng(0)
    for number, x in enumerate(check.inputs):
        if not (isinstance(x, TensorBase) and x.requires_grad):
            continue

        def jvp(tangent: Any, number: int = number) -> tuple[Any, ...]:
            with dual_level():
                arguments = [a.detach() if isinstance(a, TensorBase) else a for a in check.inputs]
                arguments[number] = make_dual(arguments[number], tangent)
                pairs = [unpack_dual(y) for y in floating(as_tuple(check.func(*arguments)))]
                return tuple(call("zeros_like", y) if t is None else t for y, t in pairs)

        directions = [like(rng.standard_normal(x.shape), x) for _ in range(2)]
        expected = zip(*map(jvp, directions), strict=True)
        try:
            results = map_directions(jvp, call("stack", directions, 0))
        except RuntimeError as error:
            raise GradcheckError(f"While computing batched gradients, got: {error}\n\n{_BATCHED_FORWARD}") from error
        _compare_batches(results, expected, number, _BATCHED_FORWARD)


def _check_linear(check: Check, outputs: Sequence[Any]) -> None:
    """A backward of zeros must give zeros."""
    if not outputs:
        return
    inputs = check.checked()
    grads = grad(outputs, inputs, [call("zeros_like", y) for y in outputs], allow_unused=True)
    for g, x in zip(grads, inputs, strict=True):
        if g is None:
            continue
        values = vector_of(g.to_dense() if g.is_sparse else g)
        if not (np.allclose(values, 0) if check.masked else (values == 0).all()):
            raise GradcheckError("backward not multiplied by grad_output")
        if g.dtype is not x.dtype:
            raise GradcheckError("grad is incorrect type")
        if g.shape != x.shape:
            raise GradcheckError("grad is incorrect size")


def _check_undefined(check: Check) -> None:
    """All gradients of outputs may be undefined, and each alone."""
    count = len(differentiable(check.outputs()))
    if not count:
        return
    choices: list[set[int]] = [set(range(count))]
    if count > 1:
        choices += [{i} for i in range(count)]
    for chosen in choices:
        outputs = differentiable(check.outputs())
        outputs = tuple(_UndefinedGrad.apply(y) if i in chosen else y for i, y in enumerate(outputs))
        try:
            zeros = [call("zeros_like", y) for y in outputs]
            grads = grad(outputs, check.checked(), zeros, allow_unused=True)
        except RuntimeError as error:
            warnings.warn(_UNDEFINED_IS_NEW, stacklevel=2)
            raise GradcheckError(
                "Expected backward function to handle undefined output grads. Please look at "
                '"Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
            ) from error
        if any(g is not None and vector_of(g.to_dense() if g.is_sparse else g).any() for g in grads):
            warnings.warn(_UNDEFINED_IS_NEW, stacklevel=2)
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero. Please "
                'look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
            )


def check_undefined_forward(check: Check) -> None:
    """An input without a tangent must act as one with a tangent of zeros."""
    rng = np.random.default_rng(0)
    moves = [unit_vector(rng, x.numel()) for x in check.checked()]
    for i, x in enumerate(check.checked()):
        with_zeros = tangents(check, [np.zeros(x.numel()) if k == i else m for k, m in enumerate(moves)])
        without = tangents(check, [None if k == i else m for k, m in enumerate(moves)])
        for number, ((_, a), (_, b)) in enumerate(zip(with_zeros, without, strict=True)):
            if a is not None and b is not None and not np.allclose(vector_of(a), vector_of(b), 1e-5, 1e-8):
                raise GradcheckError(
                    "Mismatch in tangent values for output with index: ", number, " when input: ", x,
                    " has an undefined tangent value. ", " Got: ", a, " but expected: ", b,
                )  # fmt: skip
