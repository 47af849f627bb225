"""Jacobians by both modes against finite differences: the heart of ``gradcheck``.

Owns: ``Check``, ``check_every_element``, and ``check_a_direction``, which is faster: a random one on either side.
Must not know: what else ``gradcheck`` looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitgrad.autograd.backward import grad
from jitgrad.autograd.differences import directional_derivatives, numerical_jacobians, vector_of
from jitgrad.autograd.forward_ad import dual_level, make_dual, unpack_dual
from jitgrad.functions.from_data import tensor
from jitgrad.tensor_base import TensorBase

__all__ = [
    "Check",
    "GradcheckError",
    "as_tuple",
    "check_a_direction",
    "check_every_element",
    "differentiable",
    "floating",
    "like",
    "tangents",
    "unit_vector",
]

_FAST_FAIL_SLOW_OK = (
    "\nFast gradcheck failed but element-wise differences are small. This means that the test might've passed in "
    "slow_mode! Call with `fast_mode=False` as a keyword argument.\n"
)


class GradcheckError(RuntimeError):
    """An analytical derivative differs from the numerical one, or a derivative is not what it must be."""


@dataclass(frozen=True)
class Check:
    """What is checked, and how closely."""

    func: Callable[..., Any]
    inputs: tuple[Any, ...]
    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_grad_dtypes: bool
    masked: bool

    def outputs(self) -> tuple[Any, ...]:
        return as_tuple(self.func(*self.inputs))

    def checked(self) -> list[Any]:
        """The inputs to differentiate with respect to."""
        return [x for x in self.inputs if isinstance(x, TensorBase) and x.requires_grad]


def as_tuple(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, (tuple, list)) else (values,)


def differentiable(result: Any) -> tuple[Any, ...]:
    return tuple(y for y in as_tuple(result) if y.requires_grad)


def like(values: Any, x: Any) -> Any:
    """Values as a tensor of another's dtype, on its device."""
    return tensor(values, dtype=x.dtype, device=x.device)


def _check_dense(outputs: Sequence[Any]) -> None:
    if any(y.is_sparse for y in outputs):
        raise ValueError(
            "Sparse output is not supported at gradcheck yet. Please call to_dense(masked_grad=...) on the output of "
            "fn for gradcheck."
        )


def floating(outputs: Sequence[Any]) -> list[Any]:
    return [y for y in outputs if isinstance(y, TensorBase) and y.is_floating_point()]


# --- every element: [input elements, output elements] ---


def check_every_element(check: Check, is_forward: bool) -> None:
    outputs = check.outputs()
    _check_dense(differentiable(outputs))
    followed = [i for i, y in enumerate(outputs) if y.requires_grad]
    numerical = [_numerical(check, x) for x in check.checked()]
    if not followed:
        if any(jacobian.any() for jacobians in numerical for jacobian in jacobians):
            raise GradcheckError("Numerical gradient for function expected to be zero")
        return
    forward = _forward_jacobians(check) if is_forward else None
    for o, number in enumerate(followed):
        analytical = (
            [rows[number] for rows in forward] if forward is not None else _backward_jacobians(check, outputs[number])
        )
        for i, got in enumerate(analytical):
            want = numerical[i][number]
            if not np.allclose(got, want, check.rtol, check.atol):
                raise GradcheckError(_mismatch(got, want, o, i, is_forward))


def _numerical(check: Check, x: Any) -> list[Any]:
    return numerical_jacobians(check.outputs, x, [y.numel() for y in check.outputs()], check.eps)


def _mismatch(analytical: Any, numerical: Any, output: int, position: int, is_forward: bool) -> str:
    mode = "computed with forward mode " if is_forward else ""
    return (
        f"Jacobian {mode}mismatch for output {output} with respect to input {position},\n"
        f"numerical:{tensor(numerical)}\nanalytical:{tensor(analytical)}\n"
    )


def _backward_jacobians(check: Check, output: Any) -> list[Any]:
    """A column per output element, by one backward each; twice, because that must give the same."""
    first = [_columns(check, output, k) for k in range(output.numel())]
    second = [_columns(check, output, k) for k in range(output.numel())]
    inputs = check.checked()
    found = []
    for i, x in enumerate(inputs):
        shape = (x.numel(), output.numel())
        a, b = (np.array([c[i] for c in columns]).T.reshape(shape) for columns in (first, second))
        _check_reentrant(check, a, b)
        found.append(a)
    return found


def _check_reentrant(check: Check, a: Any, b: Any) -> None:
    if a.size and np.abs(a - b).max() > check.nondet_tol:
        raise GradcheckError(
            "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
            "different values, although analytical gradient matches numerical gradient.The tolerance for "
            f"nondeterminism was {check.nondet_tol}."
        )


def _columns(check: Check, output: Any, k: int) -> list[Any]:
    seed = np.zeros(output.numel())
    seed[k] = 1
    return _pulled(check, output, seed)


def _pulled(check: Check, output: Any, seed: Any) -> list[Any]:
    """J^T v, one vector per input."""
    inputs = check.checked()
    v = like(seed.reshape(output.shape), output)
    grads = grad(output, inputs, v, retain_graph=True, allow_unused=True)
    for g, x in zip(grads, inputs, strict=True):
        if g is not None and g.shape != x.shape:
            raise GradcheckError("Analytical gradient has incorrect size")
        if g is not None and g.dtype is not x.dtype and check.check_grad_dtypes:
            raise GradcheckError("Gradient has dtype mismatch")
    return [
        np.zeros(x.numel()) if g is None else vector_of(g.to_dense() if g.is_sparse else g)
        for g, x in zip(grads, inputs, strict=True)
    ]


def _forward_jacobians(check: Check) -> list[list[Any]]:
    """For each input and output, by one run per input element."""
    found = []
    for i, x in enumerate(check.checked()):
        rows = []
        for k in range(x.numel()):
            direction = np.zeros(x.numel())
            direction[k] = 1
            rows.append(_pushed(check, i, direction))
        sizes = [y.numel() for y in check.outputs()]
        found.append([np.array([r[o] for r in rows]).reshape(len(rows), n) for o, n in enumerate(sizes)])
    return found


def _pushed(check: Check, position: int, direction: Any) -> list[Any]:
    """J u, one vector per output, when the input number ``position`` moves."""
    moves = [np.zeros(x.numel()) for x in check.checked()]
    moves[position] = direction
    found = []
    for y, t in tangents(check, list(moves)):
        if check.check_grad_dtypes and t is not None and t.dtype is not y.dtype:
            raise GradcheckError("Forward AD gradient has dtype mismatch.")
        found.append(np.zeros(y.numel()) if t is None else vector_of(t))
    return found


def tangents(check: Check, moves: list[Any]) -> list[tuple[Any, Any]]:
    """(output, its tangent or None), when the checked inputs move; None: such an input has no tangent at all."""
    pending = iter(moves)
    with dual_level():
        arguments = []
        for x in check.inputs:
            if isinstance(x, TensorBase) and x.requires_grad:
                move = next(pending)
                x = x.detach()
                if move is not None:
                    x = make_dual(x, like(move.reshape(x.shape), x))
            arguments.append(x)
        return [tuple(unpack_dual(y)) for y in as_tuple(check.func(*arguments))]


# --- one random direction on either side ---


def check_a_direction(check: Check, is_forward: bool) -> None:
    rng = np.random.default_rng(0)
    outputs = check.outputs()
    _check_dense(differentiable(outputs))
    inputs = check.checked()
    us = [unit_vector(rng, x.numel()) for x in inputs]
    vs = [None if is_forward else unit_vector(rng, y.numel()) for y in outputs]
    followed = [i for i, y in enumerate(outputs) if y.requires_grad]
    pulled = {} if is_forward else {n: _pulled_twice(check, outputs[n], vs[n]) for n in followed}
    for i, (x, u) in enumerate(zip(inputs, us, strict=True)):
        numerical = directional_derivatives(check.outputs, x, u, check.eps)
        if not followed and any(n.size and np.abs(n).max() > check.nondet_tol for n in numerical):
            raise GradcheckError("Numerical gradient for function expected to be zero")
        pushed = _pushed(check, i, u) if is_forward else None
        for o, number in enumerate(followed):
            v = vs[number]
            got = pushed[number] if pushed is not None else pulled[number][i] @ u
            want = numerical[number] if v is None else numerical[number] @ v
            atol = check.atol * u.sum() * (1.0 if v is None else v.sum())
            if not np.allclose(got, want, check.rtol, atol):
                text = _mismatch(np.asarray(got), np.asarray(want), o, i, is_forward)
                raise GradcheckError(text + _slow_mode_says(check, x, i, number, is_forward))


def unit_vector(rng: np.random.Generator, size: int) -> Any:
    vector = rng.random(size)
    return vector / np.linalg.norm(vector) if size else vector


def _pulled_twice(check: Check, output: Any, v: Any) -> list[Any]:
    first, second = _pulled(check, output, v), _pulled(check, output, v)
    for a, b in zip(first, second, strict=True):
        _check_reentrant(check, a, b)
    return first


def _slow_mode_says(check: Check, x: Any, position: int, output: int, is_forward: bool) -> str:
    numerical = _numerical(check, x)[output]
    if is_forward:
        analytical = _forward_jacobians(check)[position][output]
    else:
        analytical = _backward_jacobians(check, check.outputs()[output])[position]
    text = (
        "\nThe above quantities relating the numerical and analytical jacobians are computed \nin fast mode. See: "
        "https://github.com/pytorch/pytorch/issues/53876 for more background \nabout fast mode. Below, we recompute "
        f"numerical and analytical jacobians in slow mode:\n\nNumerical:\n {tensor(numerical)}\nAnalytical:\n"
        f"{tensor(analytical)}\n\nThe max per-element difference (slow mode) is: "
        f"{np.abs(numerical - analytical).max()}.\n"
    )
    return text + (_FAST_FAIL_SLOW_OK if np.allclose(analytical, numerical, check.rtol, check.atol) else "")
