"""Functions that users write in Python, applied element by element: ``@jitgrad.vectorize``.

Owns: one operation per number of operands, from 1 to 8; its param says which function.
Must not know: Tensor, Numba, how functions are compiled or differentiated. The param is a
``jitgrad.elementwise.evaluation.Evaluation``: it evaluates, differentiates and describes itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from jitgrad.dtypes import BOOLEAN, FLOATING, INTEGER, DType, bool_, float64, get_default_dtype, int64
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.shapes import broadcast, dtype_of, float_dtype, is_number, np_cast, operand, shape_of
from jitgrad.ops.table import RuleContext, define, joint_vjp

__all__ = ["MAX_OPERANDS", "op_name"]

MAX_OPERANDS = 8
_HIGHEST = {"float": FLOATING, "int": INTEGER, "bool": BOOLEAN}
_DTYPES = {"float": float64, "int": int64, "bool": bool_}


def op_name(count: int) -> str:
    """The operation for so many operands."""
    return f"_elementwise{count}"


def _result_dtype(inputs: tuple[Any, ...], program: Any) -> DType:
    """The joint floating dtype of the operands of floating parameters; without one, the default dtype."""
    floats = [x for x, kind in zip(inputs, program.kinds, strict=True) if kind == "float"]
    return float_dtype(*floats) if floats else get_default_dtype()


def _check_kinds(inputs: tuple[Any, ...], program: Any) -> None:
    for x, kind, name in zip(inputs, program.kinds, program.names, strict=True):
        category = dtype_of(x).category
        if category > _HIGHEST[kind] or (kind == "bool" and category is not BOOLEAN):
            what = type(x).__name__ if is_number(x) else f"a tensor of {dtype_of(x).name}"
            article = "an int" if kind == "int" else f"a {kind}"
            raise TypeError(f"{program.title}(): parameter {name!r} is {article}, got {what}")


def _aval(*args: Any) -> Aval | tuple[Aval, ...]:
    *inputs, program = args
    _check_kinds(tuple(inputs), program)
    shape = broadcast(program.title, *map(shape_of, inputs))
    aval = make_aval(shape, _result_dtype(tuple(inputs), program))
    return aval if program.count == 1 else (aval,) * program.count


def _numpy(*args: Any) -> Any:
    *inputs, program = args
    dtype = _result_dtype(tuple(inputs), program)
    arrays = [_array(x, _DTYPES[kind]) for x, kind in zip(inputs, program.kinds, strict=True)]
    shape = np.broadcast_shapes(*[a.shape for a in arrays])
    arrays = [np.ascontiguousarray(np.broadcast_to(a, shape)).reshape(shape) for a in arrays]
    outs = [np_cast(out, dtype) for out in program.evaluate(arrays)]
    return outs[0] if program.count == 1 else tuple(outs)


def _array(x: Any, dtype: DType) -> Any:
    return np.asarray(x, dtype.np) if is_number(x) else np.asarray(np_cast(np.asarray(x), dtype))


def _lower(b: Any, *args: Any) -> Any:
    *inputs, program = args
    dtype = _result_dtype(tuple(inputs), program)
    values = [operand(b, x, _DTYPES[kind]) for x, kind in zip(inputs, program.kinds, strict=True)]
    outs = tuple(b.cast(b.call(function, component, values), dtype.compute) for function, component in program.calls)
    return outs[0] if program.count == 1 else outs


def _joint(c: RuleContext, g: Any, wanted: list[int], *inputs: Any) -> dict[int, Any]:
    """The outputs' gradients times the function's own derivatives, which are functions again: one evaluation of all."""
    grads = g if isinstance(g, tuple) else (g,)
    used = tuple(k for k, grad in enumerate(grads) if grad is not None)
    found = call(op_name(len(inputs)), *inputs, c.params[0].derivatives(tuple(wanted), used))
    slopes = iter(found if isinstance(found, tuple) else (found,))
    return {i: _total(grads[k] * next(slopes) for k in used) for i in wanted}


def _total(terms: Iterable[Any]) -> Any:
    total = None
    for term in terms:
        total = term if total is None else total + term
    return total


for _count in range(1, MAX_OPERANDS + 1):
    define(
        op_name(_count),
        aval=_aval,
        numpy=_numpy,
        lower=_lower,
        vjps=[joint_vjp(_joint, i, tuple(range(_count))) for i in range(_count)],
        num_inputs=_count,
        node_name="VectorizeBackward",
        joint=_joint,
    )
