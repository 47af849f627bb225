"""Checkpoints: recompute instead of saving.

Owns: ``checkpoint`` and its kin, as PyTorch spells them; the variant that runs backward inside backward.
Must not know: how tensors come back in the other variant (``recompute.py``).

The tensors that a checkpointed function would save are not saved; its arguments are, and the function runs again when
backward needs the rest. See Note [Recomputation].
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from jitgrad.autograd.backward import backward
from jitgrad.autograd.function import Function
from jitgrad.autograd.saved_tensors import saved_tensors_hooks
from jitgrad.generator import fork_rng, restore_stream, stream_state
from jitgrad.grad_mode import enable_grad, no_grad
from jitgrad.nn.containers import Sequential
from jitgrad.runtime.engine.run.engine import engine
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase
from jitgrad.utils.recompute import CheckpointError, Frame

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "detach_variable",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


class _Overrides(threading.local):
    """What the context managers of this module say, instead of the arguments of ``checkpoint``; None = nothing."""

    debug: bool | None = None
    early_stop: bool | None = None


_overrides = _Overrides()


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """In the block, ``checkpoint`` explains its errors (or not), whatever its ``debug`` says; None: as that says."""
    before, _overrides.debug = _overrides.debug, enabled
    try:
        yield
    finally:
        _overrides.debug = before


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """In the block, ``checkpoint`` makes functions whose second run stops early (or not), whatever its argument."""
    before, _overrides.early_stop = _overrides.early_stop, enable
    try:
        yield
    finally:
        _overrides.early_stop = before


def noop_context_fn() -> Contexts:
    """The default ``context_fn``: no surroundings."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The tensors as leaves that require grad as before; the rest as it is. RuntimeError for what is no tuple."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}"
        )
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, TensorBase) else x for x in inputs)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if no input requires grad."""
    if not any(x.requires_grad for x in inputs if isinstance(x, TensorBase)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


class CheckpointFunction(Function):
    """``checkpoint(use_reentrant=True)``: one Node, whose backward runs the function again, and backward through it."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.rng_state = stream_state() if preserve_rng_state else None
        ctx.args = tuple(None if isinstance(x, TensorBase) else x for x in args)
        ctx.tensor_indices = [i for i, x in enumerate(args) if isinstance(x, TensorBase)]
        ctx.save_for_backward(*(args[i] for i in ctx.tensor_indices))
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if not engine.is_checkpoint_valid():
            raise RuntimeError(
                "When use_reentrant=True, jitgrad.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
                ".backward() without passing the `inputs` argument."
            )
        args = list(ctx.args)
        for i, tensor in zip(ctx.tensor_indices, ctx.saved_tensors, strict=True):
            args[i] = tensor
        leaves = detach_variable(tuple(args))
        with _random_numbers_of(ctx.rng_state), enable_grad():
            outputs = ctx.run_function(*leaves)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [(x, g) for x, g in zip(outputs, grads, strict=True) if isinstance(x, TensorBase) and x.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([x for x, _ in pairs], [g for _, g in pairs])
        return None, None, *(x.grad if isinstance(x, TensorBase) else None for x in leaves)


@contextlib.contextmanager
def _random_numbers_of(rng_state: Any | None) -> Iterator[None]:
    """In the block, random numbers are those drawn from ``rng_state`` on; after it, nothing has been drawn."""
    with fork_rng(enabled=rng_state is not None):
        if rng_state is not None:
            restore_stream(rng_state)
        yield


def _metadata(x: Any) -> dict[str, Any]:
    """What is compared by ``determinism_check="default"``: quick to look at, and easy to understand."""
    return {"shape": x.shape, "dtype": x.dtype, "device": x.device}


_DETERMINISM_CHECKS: dict[str, Callable[[Any], Any]] = {"default": _metadata, "none": lambda x: None}

_NOT_PASSED = (
    "jitgrad.utils.{}: the use_reentrant parameter should be passed explicitly. use_reentrant=False is recommended, "
    "but if you need to preserve the current default behavior, you can pass use_reentrant=True."
)


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)``, whose intermediate values are recomputed in backward instead of being kept.

    Args:
        function: must do the same again when it is called again.
        args, kwargs: kept until backward; tensors in ``kwargs``, or that the function finds elsewhere, count too.
        preserve_rng_state: (keyword) the second run draws the same random numbers as the first. Defaults to True.
        use_reentrant: True: backward runs inside backward, which ``grad()`` and ``backward(inputs=)`` refuse, and only
            tensors in ``args`` get gradients through it by themselves. False (recommended): no such limits. None
            warns, and means True.
        context_fn: gives the surroundings of the first run and of the second.
        determinism_check: ``"default"`` compares shapes, dtypes and devices of what is recomputed, ``"none"`` nothing.
        debug: errors say where tensors were saved in both runs.
        early_stop: the second run stops when everything needed is there.

    Returns:
        What the function returns.

    Raises:
        ValueError: an argument that the variant does not take.
        CheckpointError: (in backward) the second run saved other tensors than the first.
    """
    if use_reentrant is None:
        warnings.warn(_NOT_PASSED.format("checkpoint"), stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        if determinism_check not in _DETERMINISM_CHECKS:
            raise ValueError(
                f"determinism_check should be one of {list(_DETERMINISM_CHECKS)}, but got {determinism_check}"
            )
        debug = debug if _overrides.debug is None else _overrides.debug
        early_stop = early_stop if _overrides.early_stop is None else _overrides.early_stop
        describe = _DETERMINISM_CHECKS[determinism_check]
        return _checkpoint(function, args, kwargs, context_fn(), preserve, (describe, early_stop, debug))
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if context_fn is not noop_context_fn or debug is not False:
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    return CheckpointFunction.apply(function, preserve, *args)


def _checkpoint(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    contexts: Contexts,
    preserve_rng_state: bool,
    options: tuple[Callable[[Any], Any], bool, bool],
) -> Any:
    """The variant that does not run backward inside backward. ``options`` are the last of ``Frame``'s."""
    if not state.grad_enabled:
        return function(*args, **kwargs)
    forward_context, recompute_context = contexts
    rng_state = stream_state() if preserve_rng_state else None

    def recompute(*again: Any) -> None:
        with _random_numbers_of(rng_state), recompute_context:
            function(*again, **kwargs)

    frame = Frame(recompute, args, *options)
    with saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        result = function(*args, **kwargs)
        frame.is_complete = True
    if not frame.is_complete:
        raise RuntimeError(
            "jitgrad.utils.checkpoint: the forward context provided by context_fn suppressed an exception raised "
            "during the checkpointed forward. This is not supported because checkpoint cannot return a value for a "
            "failed forward."
        )
    return result


def checkpoint_sequential(
    functions: Sequential | Sequence[Callable[[Any], Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """A chain of functions in ``segments`` parts, of which all but the last are checkpointed.

    Args:
        functions: each takes what the one before returned.
        segments: how many parts, as equal as they come.
        input: of the first function.
        use_reentrant: as for ``checkpoint``.
        **kwargs: ``preserve_rng_state`` only; ValueError for anything else.
    """
    if use_reentrant is None:
        warnings.warn(_NOT_PASSED.format("checkpoint.checkpoint_sequential"), stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    chain = list(functions)
    size = len(chain) // segments
    for first in range(0, size * (segments - 1), size):
        part = _chained(chain[first : first + size])
        input = checkpoint(part, input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return _chained(chain[size * (segments - 1) :])(input)


def _chained(functions: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        for function in functions:
            x = function(x)
        return x

    return run
