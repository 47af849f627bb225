"""Optimizer updates as single operations: new parameter and new moments from old ones.

Owns: ``_sgd_update``, ``_sgd_momentum_update``, ``_adam_update``, ``_adam_amsgrad_update``, and the ``.._scheduled``
form of each. None is differentiable.
Must not know: Tensor, parameter groups, kernels.

Sources: Adam (Kingma and Ba 2015), AMSGrad (Reddi et al. 2018), AdamW (Loshchilov and Hutter 2019); the order of the
arithmetic is that of ``torch.optim``, so that losses agree to rounding.

Each formula is written once, over ``add sub mul div sqrt maximum`` of an *algebra*: NumPy arrays or primitives.
Names begin with an underscore: their numbers are run-time scalars from the first call on. In a ``.._scheduled`` form so
are the options that people put on a schedule (momentum, betas, weight decay).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.shapes import operand
from jitgrad.ops.table import define

__all__: list[str] = []


class Algebra(Protocol):
    """What the formulas need; both ``numpy`` (see ``_NumPy``) and the primitives provide it."""

    def add(self, x: Any, y: Any) -> Any: ...
    def sub(self, x: Any, y: Any) -> Any: ...
    def mul(self, x: Any, y: Any) -> Any: ...
    def div(self, x: Any, y: Any) -> Any: ...
    def max(self, x: Any, y: Any) -> Any: ...
    def sqrt(self, x: Any) -> Any: ...


class _NumPy:
    add, sub, mul, div = (
        staticmethod(np.add),
        staticmethod(np.subtract),
        staticmethod(np.multiply),
        staticmethod(np.divide),
    )
    max, sqrt = staticmethod(np.maximum), staticmethod(np.sqrt)


def _number(b: Algebra, value: Any, like: Any) -> Any:
    """A number in the parameter's dtype."""
    if isinstance(b, _NumPy):
        return like.dtype.type(value)
    return operand(b, value, like.dtype)


def _decayed(b: Algebra, p: Any, g: Any, weight_decay: Any, maximize: bool) -> Any:
    """The gradient with its L2 penalty. In a scheduled form ``weight_decay`` is a primitive, which counts as not 0."""
    if maximize:
        g = b.mul(g, _number(b, -1.0, p))
    return b.add(g, b.mul(p, _number(b, weight_decay, p))) if weight_decay else g


# --- SGD ---


def _sgd(b: Algebra, p: Any, g: Any, lr: Any, weight_decay: Any, maximize: bool) -> Any:
    g = _decayed(b, p, g, weight_decay, maximize)
    return b.sub(p, b.mul(g, _number(b, lr, p)))


def _sgd_momentum(
    b: Algebra,
    p: Any,
    g: Any,
    buf: Any,
    lr: Any,
    momentum: Any,
    gain: Any,
    weight_decay: Any,
    nesterov: bool,
    maximize: bool,
    first: bool,
) -> tuple[Any, Any]:
    g = _decayed(b, p, g, weight_decay, maximize)
    kept = g if first else b.add(b.mul(buf, _number(b, momentum, p)), b.mul(g, _number(b, gain, p)))
    step = b.add(g, b.mul(kept, _number(b, momentum, p))) if nesterov else kept
    return b.sub(p, b.mul(step, _number(b, lr, p))), kept


# --- Adam ---


def _moments(b: Algebra, g: Any, m: Any, v: Any, gain1: Any, beta2: Any, gain2: Any) -> tuple[Any, Any]:
    mean = b.add(m, b.mul(b.sub(g, m), _number(b, gain1, g)))
    return mean, b.add(b.mul(v, _number(b, beta2, g)), b.mul(b.mul(g, g), _number(b, gain2, g)))


def _adam_step(b: Algebra, p: Any, mean: Any, second: Any, lr: Any, bc1: Any, bc2: Any, eps: float) -> Any:
    root = b.div(b.sqrt(second), b.sqrt(_number(b, bc2, p)))
    step = b.div(_number(b, lr, p), _number(b, bc1, p))
    return b.sub(p, b.mul(step, b.div(mean, b.add(root, _number(b, eps, p)))))


def _prepared(
    b: Algebra, p: Any, g: Any, lr: Any, weight_decay: Any, decoupled: bool, maximize: bool
) -> tuple[Any, Any]:
    """Parameter and gradient after weight decay, which AdamW applies to the parameter itself."""
    if not (decoupled and weight_decay):
        return p, _decayed(b, p, g, weight_decay, maximize)
    shrink = b.sub(_number(b, 1.0, p), b.mul(_number(b, lr, p), _number(b, weight_decay, p)))
    return b.mul(p, shrink), _decayed(b, p, g, 0.0, maximize)


def _adam(
    b: Algebra,
    p: Any,
    g: Any,
    m: Any,
    v: Any,
    lr: Any,
    bc1: Any,
    bc2: Any,
    gain1: Any,
    beta2: Any,
    gain2: Any,
    weight_decay: Any,
    eps: float,
    decoupled: bool,
    maximize: bool,
) -> tuple[Any, Any, Any]:
    p, g = _prepared(b, p, g, lr, weight_decay, decoupled, maximize)
    mean, second = _moments(b, g, m, v, gain1, beta2, gain2)
    return _adam_step(b, p, mean, second, lr, bc1, bc2, eps), mean, second


def _adam_amsgrad(
    b: Algebra,
    p: Any,
    g: Any,
    m: Any,
    v: Any,
    vmax: Any,
    lr: Any,
    bc1: Any,
    bc2: Any,
    gain1: Any,
    beta2: Any,
    gain2: Any,
    weight_decay: Any,
    eps: float,
    decoupled: bool,
    maximize: bool,
) -> tuple[Any, Any, Any, Any]:
    p, g = _prepared(b, p, g, lr, weight_decay, decoupled, maximize)
    mean, second = _moments(b, g, m, v, gain1, beta2, gain2)
    top = b.max(vmax, second)
    return _adam_step(b, p, mean, top, lr, bc1, bc2, eps), mean, second, top


# --- entries ---


def _define_update(name: str, formula: Any, num_tensors: int, num_numbers: int, num_options: int) -> None:
    """``formula(b, p, g, *state, *numbers, *options, *params)`` returns the new parameter and states.

    The options are params; in the ``.._scheduled`` form they are numbers.
    """
    num_outputs = num_tensors - 1

    def aval(p: Aval, g: Aval, *rest: Any) -> Any:
        if p.shape != g.shape:
            raise RuntimeError(f"{name}: the gradient has shape {list(g.shape)}, the parameter {list(p.shape)}")
        out = make_aval(p.shape, p.dtype)
        return (out,) * num_outputs if num_outputs > 1 else out

    def numpy(p: Any, g: Any, *rest: Any) -> Any:
        return formula(_NUMPY, p, g.astype(p.dtype, copy=False), *rest)

    def lower(b: Any, p: Any, g: Any, *rest: Any) -> Any:
        return formula(b, p, b.cast(g, p.dtype), *rest)

    num_inputs = num_tensors + num_numbers
    define(name, aval=aval, numpy=numpy, lower=lower, num_inputs=num_inputs)
    define(f"{name}_scheduled", aval=aval, numpy=numpy, lower=lower, num_inputs=num_inputs + num_options)


_NUMPY = _NumPy()
# (p, g, lr | weight_decay, maximize)
_define_update("_sgd_update", _sgd, 2, 1, 1)
# (p, g, buf, lr | momentum, 1 - dampening, weight_decay, nesterov, maximize, first)
_define_update("_sgd_momentum_update", _sgd_momentum, 3, 1, 3)
# (p, g, m, v, lr, bias_correction1, bias_correction2
#  | 1 - beta1, beta2, 1 - beta2, weight_decay, eps, decoupled, maximize)
_define_update("_adam_update", _adam, 4, 3, 4)
# (p, g, m, v, vmax, lr, bias_correction1, bias_correction2 | as above)
_define_update("_adam_amsgrad_update", _adam_amsgrad, 5, 3, 4)
