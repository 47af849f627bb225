"""Complex numbers in ``gradcheck``: they are checked as pairs of real ones.

Owns: ``over_parts``. Imported when something complex is checked.
Must not know: how anything is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.functions.real_parts import view_as_complex, view_as_real
from jitgrad.tensor_base import TensorBase

__all__ = ["over_parts", "parts_of"]


def parts_of(result: Any) -> Any:
    """The outputs, complex ones as [..., 2] real ones."""
    if isinstance(result, (tuple, list)):
        return tuple(parts_of(y) for y in result)
    return view_as_real(result) if isinstance(result, TensorBase) and result._aval.dtype.is_complex else result


def over_parts(func: Callable[..., Any], inputs: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """``func`` with real outputs, of inputs that are real where they require grad.

    Example: f(z) with z complex [3] becomes g(p) = view_as_real(f(view_as_complex(p))) with p real [3, 2].
    """
    places = [
        i for i, x in enumerate(inputs) if isinstance(x, TensorBase) and x.requires_grad and x._aval.dtype.is_complex
    ]

    def of_parts(*arguments: Any) -> Any:
        return parts_of(func(*[view_as_complex(x) if i in places else x for i, x in enumerate(arguments)]))

    parts = [view_as_real(x.detach()).clone().requires_grad_() if i in places else x for i, x in enumerate(inputs)]
    return of_parts, tuple(parts)
