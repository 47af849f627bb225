"""Options of functions that make tensors: ``layout`` and ``pin_memory``, and ``memory_format`` of some functions.

Owns: ``check_options``, ``call_without_options``. Which functions have them is in ``signatures``.
Must not know: functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.layouts import preserve_format, strided

__all__ = ["call_without_options", "check_options"]

def check_options(name: str, layout: Any, pin_memory: Any) -> None:
    """RuntimeError for memory that no accelerator copies from, and for a layout that is not strided."""
    if layout is not None and layout is not strided:
        raise RuntimeError(f"{name}: a new tensor is strided; to_sparse() makes a sparse one, not layout={layout}")
    if pin_memory:
        raise RuntimeError(
            "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator is available on "
            "this system."
        )


def call_without_options(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], options: frozenset[str]
) -> Any:
    """A call with some of these options. A memory format is made of the result."""
    rest = {name: value for name, value in kwargs.items() if name not in options}
    check_options(function.__name__, kwargs.get("layout"), kwargs.get("pin_memory"))
    wanted = kwargs.get("memory_format") if "memory_format" in options else None
    if wanted is None or wanted is preserve_format:
        return function(*args, **rest)
    is_leaf = rest.pop("requires_grad", False)
    made = function(*args, **rest).contiguous(memory_format=wanted)
    return made.requires_grad_() if is_leaf else made
