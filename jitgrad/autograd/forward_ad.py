"""Forward-mode derivatives: dual tensors, as ``torch.autograd.forward_ad`` has them.

Owns: the public level, making and unpacking dual tensors, PyTorch's messages.
Must not know: what operations do to tangents (``transforms.dual``, ``ops.tangents.jvps``).

There is one public level at a time, as in PyTorch; ``func.jvp`` nests.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jitgrad.grad_mode import decorate_with
from jitgrad.ops.dispatch_hook import call
from jitgrad.state import state, switch_handler
from jitgrad.transforms.batched import Batching, nests
from jitgrad.transforms.dual import DualLevel
from jitgrad.transforms.level import active_levels

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class PublicLevel(DualLevel):
    """The level of ``enter_dual_level``."""


class UnpackedDualTensor(NamedTuple):
    """What ``unpack_dual`` returns: the value, and its tangent or None."""

    primal: Any
    tangent: Any


def _current() -> DualLevel | None:
    """The innermost level at which tensors have tangents."""
    return next((one for one in active_levels() if isinstance(one, DualLevel)), None)


def enter_dual_level() -> int:
    """Begin a level at which tensors may have tangents; returns its number, 0.

    Raises:
        RuntimeError: there is one already.
    """
    if any(isinstance(one, PublicLevel) for one in active_levels()):
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    switch_handler(PublicLevel())
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level; every tangent is forgotten.

    Raises:
        RuntimeError: there is none, or ``level`` is another one.
    """
    top = state.handler
    is_open = any(isinstance(one, PublicLevel) for one in active_levels())
    if level is not None and level != (0 if is_open else -1):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    if not is_open:
        raise RuntimeError("Dual level must be a positive number.")
    if not isinstance(top, PublicLevel):
        raise RuntimeError("exit_dual_level() inside a transform (vmap, func.jvp) that began within the level")
    switch_handler(top.below)
    top.close()


class dual_level:
    """Forward-mode derivatives in the block: ``with dual_level(): ...``; also a decorator."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        exit_dual_level()

    def __call__(self, fn: Any) -> Any:
        """Decorate ``fn``."""
        return decorate_with(dual_level, fn)


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """A view of ``tensor`` that moves with ``tangent``. Differentiable with respect to both.

    Args:
        tensor: floating.
        tangent: floating, of the same shape.
        level: kept because PyTorch keeps it; there is one.

    Raises:
        RuntimeError: no level, shapes that differ, a tensor or tangent that has a tangent already, an expanded view.
        ValueError: dtypes that are not floating.
    """
    here = _current()
    if here is None or (level is not None and level < 0):
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    if not tensor.dtype.is_inexact:
        raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
    if not tangent.dtype.is_inexact:
        raise ValueError(f"Expected tangent to be floating point or complex, but got: {tangent.dtype}")
    if tensor._aval.shape != tangent._aval.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )
    layout = tensor._aval
    if tensor._base is not None and any(s == 0 and n > 1 for s, n in zip(layout.stride, layout.shape, strict=True)):
        # PyTorch gives the base of a view a tangent as well, by writing this one through the view
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
    batches = _batches_above(here, tensor, tangent)
    for batch in batches:
        tensor, tangent = batch.lower(tensor), batch.lower(tangent)
    if here.tangent(tensor) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not "
            "supported."
        )
    if here.tangent(tangent) is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level0 is not supported."
        )
    dual = here.beneath(call, "alias", tensor)
    here.beneath(here.attach, dual, tangent)
    for batch in reversed(batches):
        dual = batch.lift(dual)
    return dual


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The value of a dual tensor, without its tangent, and the tangent (None: it does not move)."""
    here = _current()
    if here is None or (level is not None and level < 0):
        return UnpackedDualTensor(tensor, None)
    batches = _batches_above(here, tensor)
    for batch in batches:
        tensor = batch.lower(tensor)
    tangent = here.tangent(tensor)
    primal = here.beneath(call, "alias", tensor)
    for batch in reversed(batches):
        primal = batch.lift(primal)
        tangent = None if tangent is None else batch.lift(tangent)
    return UnpackedDualTensor(primal, tangent)


def _batches_above(here: DualLevel, *tensors: Any) -> list[Batching]:
    """The ``vmap``s that began inside the level and batch one of the tensors: the level knows whole batches only."""
    levels = active_levels()
    inner = levels[: levels.index(here)]
    return [one for one in inner if isinstance(one, Batching) and any(nests(one, x) for x in tensors)]
