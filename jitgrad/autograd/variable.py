"""``Variable``: PyTorch's old name of a tensor in a graph, and its door to the engine, ``_execution_engine``.

Owns: ``Variable``, which is every tensor, makes tensors, and has their methods as functions.
Must not know: how a backward is carried out.
"""

from __future__ import annotations

from typing import Any

from jitgrad.legacy import make_variable
from jitgrad.runtime.engine.run.imperative import ImperativeEngine, execution_engine
from jitgrad.tensor import Tensor
from jitgrad.tensor_base import TensorBase

__all__ = ["ImperativeEngine", "Variable"]


class _VariableMeta(type):
    """Every tensor is a Variable, and calling ``Variable`` makes a tensor."""

    def __instancecheck__(cls, obj: Any) -> bool:
        return isinstance(obj, TensorBase)

    def __getattr__(cls, name: str) -> Any:
        """``Variable.mm(a, b)`` is ``a.mm(b)``: every method of a tensor, by the name it has there."""
        return getattr(Tensor, name)

    def __call__(cls, data: Any, requires_grad: bool = False, volatile: bool | None = None) -> Any:
        return make_variable(data, requires_grad, volatile)


class Variable(metaclass=_VariableMeta):
    """A tensor that shares the memory of ``data``, as a leaf; see ``jitgrad.legacy.make_variable`` for arguments.

    Attributes:
        _execution_engine: what runs backward.
    """

    _execution_engine = execution_engine
