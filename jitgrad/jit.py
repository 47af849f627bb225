"""``torch.jit``: scripting and tracing ahead of time, of which nothing is left to do.

Owns: what decorators and functions of ``torch.jit`` do in scripts that also run without them: nothing, and they say so.
Must not know: how steps are compiled; that is ``jitgrad.compile``.

A scripted function means what it means in Python, and a traced one what it was traced from: both come back as they are,
with one warning. Only a traced function that branches on values differs: it takes the branch that its values ask for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from jitgrad.user_line import warn_once

__all__ = [
    "Error",
    "ScriptFunction",
    "ScriptModule",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "freeze",
    "fuser",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "trace",
    "trace_module",
    "unused",
]  # fmt: skip

_python_isinstance = isinstance


class Error(RuntimeError):
    """What a scripted program would raise; nothing does here."""


class ScriptModule:
    """No object is one: scripts ask ``isinstance(model, torch.jit.ScriptModule)``."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError("there are no scripted modules: use the module itself, or jitgrad.compile")


class ScriptFunction:
    """No object is one."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError("there are no scripted functions: use the function itself, or jitgrad.compile")


def _say(name: str) -> None:
    warn_once(f"torch.jit.{name} has nothing to do: Python runs the program; jitgrad.compile makes steps fast")


def script(
    obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None
) -> Any:
    """The module, function or class itself, with one warning."""
    _say("script")
    return obj


def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: Any = None,
    _store_inputs: bool = True,
) -> Any:
    """The module or function itself, with one warning; it is not called."""
    _say("trace")
    return func


def trace_module(
    mod: Any,
    inputs: Any,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
) -> Any:
    """The module itself, with one warning."""
    _say("trace_module")
    return mod


def script_if_tracing(fn: Any) -> Any:
    """The function itself."""
    return fn


def script_method(fn: Any) -> Any:
    """The method itself."""
    return fn


def export(fn: Any) -> Any:
    """The method itself."""
    return fn


def unused(fn: Any) -> Any:
    """The method itself."""
    return fn


def interface(obj: Any) -> Any:
    """The class itself."""
    return obj


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The method itself: ``@ignore``, ``@ignore()``."""
    return drop if callable(drop) else lambda fn: fn


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """As Python's."""
    return _python_isinstance(obj, target_type)


def is_scripting() -> bool:
    """False."""
    return False


def is_tracing() -> bool:
    """False."""
    return False


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """The module itself. RuntimeError while it is training, as in PyTorch."""
    if mod.training:
        raise RuntimeError("Freezing is only implemented for modules in evaluation mode: call .eval() first")
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """The module itself."""
    return mod


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """NotImplementedError: a program cannot be saved; its weights can."""
    raise NotImplementedError("there is no scripted program to save: use torch.save(model.state_dict(), f)")


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    """NotImplementedError: a file of a scripted program holds no Python; a state dict does without."""
    raise NotImplementedError("scripted programs cannot be loaded: save model.state_dict() with PyTorch, and load that")


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Nothing; the strategy comes back."""
    return strategy


def enable_onednn_fusion(enabled: bool) -> None:
    """Nothing."""


def onednn_fusion_enabled() -> bool:
    """False."""
    return False


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    """A block in which nothing is different."""
    yield


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A block in which nothing is different."""
    yield


