"""Products of matrices and vectors.

Owns: mm, bmm, mv, dot, addmm, linear. ``matmul`` of any rank is composed of them in ``functions``, as in PyTorch, so
that graph nodes have PyTorch's names.
Must not know: Tensor, kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dtypes import FLOATING, DType
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.linalg.numpy_products import product
from jitgrad.ops.shapes import operand
from jitgrad.ops.table import RuleContext, Vjp, define

__all__: list[str] = []

def _same_dtype(x: Aval, y: Aval) -> DType:
    if x.dtype is not y.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {x.dtype.c_name} != {y.dtype.c_name}"
        )
    return x.dtype


def _cannot_multiply(x: Aval, rows: int, columns: int) -> RuntimeError:
    return RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({x.shape[0]}x{x.shape[1]} and {rows}x{columns})")


def _product(b: Any, x: Any, y: Any) -> Any:
    """[..., M, K] @ [..., K, N]; integers by multiply and sum, for which no GEMM exists."""
    if x.dtype.category is FLOATING:
        return b.matmul(x, y)
    left = b.reshape(x, (*x.shape, 1))
    right = b.reshape(y, (*y.shape[:-2], 1, *y.shape[-2:]))
    return b.sum(b.mul(left, right), (len(x.shape) - 1,), False)


# --- mm, bmm ---


def _mm_aval(x: Aval, y: Aval) -> Aval:
    if x.ndim != 2:
        raise RuntimeError("self must be a matrix")
    if y.ndim != 2:
        raise RuntimeError("mat2 must be a matrix")
    if x.shape[1] != y.shape[0]:
        raise _cannot_multiply(x, *y.shape)
    return make_aval((x.shape[0], y.shape[1]), _same_dtype(x, y))


def _by_columns(aval: Aval | None) -> bool:
    """Whether a matrix is stored column by column, as the transpose of a row-major one is."""
    assert aval is not None
    return aval.stride == (1, aval.shape[0])


def product_grad(c: RuleContext, nr: int, left: Any, right: Any) -> Any:
    """The product ``left @ right``, the gradient of operand ``nr``; it is stored by columns where the operand is."""
    if _by_columns(c.avals[nr]):
        return call("mm", right.t(), left.t()).t()
    return call("mm", left, right)


def _mm_left_rule(c: RuleContext, g: Any, y: Any) -> Any:
    return product_grad(c, 0, g, y.t())


def _mm_right_rule(c: RuleContext, g: Any, x: Any) -> Any:
    return product_grad(c, 1, x.t(), g)


define(
    "mm",
    aval=_mm_aval,
    numpy=product,
    lower=_product,
    vjps=[Vjp(_mm_left_rule, (1,)), Vjp(_mm_right_rule, (0,))],
    num_inputs=2,
)


def _bmm_aval(x: Aval, y: Aval) -> Aval:
    if x.ndim != 3:
        raise RuntimeError("batch1 must be a 3D tensor")
    if y.ndim != 3:
        raise RuntimeError("batch2 must be a 3D tensor")
    if x.shape[0] != y.shape[0] or x.shape[2] != y.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{x.shape[0]}, {x.shape[2]}] but got: "
            f"[{y.shape[0]}, {y.shape[1]}]."
        )
    return make_aval((x.shape[0], x.shape[1], y.shape[2]), _same_dtype(x, y))


define(
    "bmm",
    aval=_bmm_aval,
    numpy=np.matmul,
    lower=_product,
    vjps=[
        Vjp(lambda c, g, y: call("bmm", g, y.transpose(1, 2)), (1,)),
        Vjp(lambda c, g, x: call("bmm", x.transpose(1, 2), g), (0,)),
    ],
    num_inputs=2,
)


# --- mv, dot, outer ---


def _mv_aval(x: Aval, v: Aval) -> Aval:
    if not x.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    if x.ndim != 2 or v.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {x.ndim}, {v.ndim}")
    if x.shape[1] != v.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({x.shape[0]}), mat ({x.shape[0]}x{x.shape[1]}), vec ({v.shape[0]})"
        )
    return make_aval((x.shape[0],), _same_dtype(x, v))


define(
    "mv",
    aval=_mv_aval,
    numpy=np.matmul,
    lower=lambda b, x, v: b.reshape(_product(b, x, b.reshape(v, (*v.shape, 1))), x.shape[:1]),
    vjps=[
        Vjp(lambda c, g, v: g.unsqueeze(1) * v, (1,)),
        Vjp(lambda c, g, x: call("mv", x.t(), g), (0,)),
    ],
    num_inputs=2,
)


def _dot_aval(x: Aval, y: Aval) -> Aval:
    if x.ndim != 1 or y.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {x.ndim}D and {y.ndim}D tensors")
    if x.shape != y.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{x.shape[0]}] and src [{y.shape[0]}] to have the same number "
            f"of elements, but got {x.shape[0]} and {y.shape[0]} elements respectively"
        )
    if x.dtype is not y.dtype:
        raise RuntimeError(
            f"dot : expected both vectors to have same dtype, but found {x.dtype.type_name} and "
            f"{y.dtype.type_name}"
        )
    return make_aval((), x.dtype)


define(
    "dot",
    aval=_dot_aval,
    numpy=np.dot,
    lower=lambda b, x, y: b.sum(b.mul(x, y), (0,)),
    vjps=[Vjp(lambda c, g, y: g * y, (1,)), Vjp(lambda c, g, x: g * x, (0,))],
    num_inputs=2,
)


# --- addmm(bias, x, y, beta, alpha) and linear(bias, x, weight), edges in PyTorch's order: a bias's hooks run first ---


def _check_expands(name: str, bias: Aval, shape: tuple[int, ...]) -> None:
    padded = (1,) * (len(shape) - bias.ndim) + bias.shape
    if len(padded) != len(shape) or any(n not in (1, m) for n, m in zip(padded, shape, strict=True)):
        raise RuntimeError(
            f"The expanded size of the tensor ({shape[-1]}) must match the existing size "
            f"({bias.shape[-1] if bias.ndim else 1}) at non-singleton dimension {len(shape) - 1}.  Target sizes: "
            f"{list(shape)}.  Tensor sizes: {list(bias.shape)} ({name})"
        )


def _addmm_aval(bias: Aval, x: Aval, y: Aval, beta: float, alpha: float) -> Aval:
    out = _mm_aval(x, y)
    _same_dtype(bias, x)
    _check_expands("addmm", bias, out.shape)
    return out


def _scaled(g: Any, factor: float) -> Any:
    return g if factor == 1 else g * factor


def _np_addmm(bias: Any, x: Any, y: Any, beta: float, alpha: float) -> Any:
    number = x.dtype.type
    found = product(x, y)
    found = found if alpha == 1 else found * number(alpha)
    return found + (bias if beta == 1 else bias * number(beta))


def _lower_addmm(b: Any, bias: Any, x: Any, y: Any, beta: float, alpha: float) -> Any:
    product = _product(b, x, y)
    product = product if alpha == 1 else b.mul(product, operand(b, alpha, x.dtype))
    return b.add(product, bias if beta == 1 else b.mul(bias, operand(b, beta, x.dtype)))


define(
    "addmm",
    aval=_addmm_aval,
    numpy=_np_addmm,
    lower=_lower_addmm,
    vjps=[
        Vjp(lambda c, g: _scaled(g, c.params[0])),
        Vjp(lambda c, g, y: _scaled(product_grad(c, 1, g, y.t()), c.params[1]), (2,)),
        Vjp(lambda c, g, x: _scaled(product_grad(c, 2, x.t(), g), c.params[1]), (1,)),
    ],
    num_inputs=3,
)


def _linear_nobias_aval(x: Aval, weight: Aval) -> Aval:
    if x.ndim != 2 or weight.ndim != 2:
        raise RuntimeError(f"linear: expected matrices, got shapes {list(x.shape)} and {list(weight.shape)}")
    if x.shape[1] != weight.shape[1]:
        raise _cannot_multiply(x, weight.shape[1], weight.shape[0])
    return make_aval((x.shape[0], weight.shape[0]), _same_dtype(x, weight))


def _linear_aval(bias: Aval, x: Aval, weight: Aval) -> Aval:
    out = _linear_nobias_aval(x, weight)
    _same_dtype(bias, x)
    _check_expands("linear", bias, out.shape)
    return out


def _linear_x_rule(c: RuleContext, g: Any, weight: Any) -> Any:
    return product_grad(c, len(c.avals) - 2, g, weight)


def _linear_weight_rule(c: RuleContext, g: Any, x: Any) -> Any:
    return product_grad(c, len(c.avals) - 1, g.t(), x)


define(
    "linear",
    aval=_linear_aval,
    numpy=lambda bias, x, weight: product(x, weight.T) + bias,
    lower=lambda b, bias, x, weight: b.add(_product(b, x, b.permute(weight, (1, 0))), bias),
    vjps=[Vjp(lambda c, g: g), Vjp(_linear_x_rule, (2,)), Vjp(_linear_weight_rule, (1,))],
    num_inputs=3,
    node_name="AddmmBackward0",
)
define(
    "linear_nobias",
    aval=_linear_nobias_aval,
    numpy=lambda x, weight: product(x, weight.T),
    lower=lambda b, x, weight: _product(b, x, b.permute(weight, (1, 0))),
    vjps=[Vjp(_linear_x_rule, (1,)), Vjp(_linear_weight_rule, (0,))],
    num_inputs=2,
    node_name="MmBackward0",
)
