"""``torch.compiler``: what scripts say to the compiler.

Owns: ``disable``, which keeps a function out of compiled steps, and questions and hints that change nothing.
Must not know: how steps are compiled.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from jitgrad.compile import compile, eager
from jitgrad.state import state

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
    "get_default_backend", "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "reset",
    "set_default_backend", "set_stance", "substitute_in_graph",
]  # fmt: skip


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Let a function run eagerly, also when a compiled step calls it; a module gets such a ``forward``.

    Args:
        fn: the function; None: a decorator is returned.
        recursive: accepted: what the function calls runs eagerly, too.
        reason: for the reader.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if hasattr(fn, "forward") and hasattr(fn, "parameters"):
        fn.forward = disable(fn.forward)
        return fn

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        with eager():
            return fn(*args, **kwargs)

    return run


def is_compiling() -> bool:
    """Whether a compiled step is being recorded, which it is at every call."""
    return state.handler is not None


def is_dynamo_compiling() -> bool:
    """As ``is_compiling``."""
    return is_compiling()


def is_exporting() -> bool:
    """False: there is no export."""
    return False


def reset() -> None:
    """Nothing: what a compiled function knows goes with the function."""


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The one compiler."""
    return ["jitgrad"]


def get_default_backend() -> str:
    """The one compiler."""
    return "jitgrad"


def set_default_backend(backend: Any) -> None:
    """Nothing: there is one compiler."""


@contextlib.contextmanager
def set_stance(
    stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
) -> Iterator[None]:
    """A block in which nothing is different, but with ``"force_eager"``: there compiled functions run eagerly."""
    with eager() if stance == "force_eager" else contextlib.nullcontext():
        yield


def cudagraph_mark_step_begin() -> None:
    """Nothing: there is no GPU."""


def allow_in_graph(fn: Any) -> Any:
    """The function itself: every function may be called in a compiled step."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function itself: it runs at every call."""
    return fn


def substitute_in_graph(original_fn: Any, **kwargs: Any) -> Any:
    """A decorator that returns its function: the original one runs."""
    return lambda fn: fn
