"""Version counters: how often a tensor's memory was written.

Owns: what a counter is, and the mark of inference tensors, which is on it.
Must not know: where versions are compared (``runtime/engine/graph/saved_variable.py``, ``tracer/``).

# Note [Version counters]
# ~~~~~~~~~~~~~~~~~~~~~~~
# A counter is ``TensorBase._vc``. Views and ``detach()`` share it, ``.data`` does not; whether two tensors do is asked
# by ``a._vc is b._vc``. Its item ``VERSION`` is the version; behind that are the writes that an error message may name
# (``remember_write``). It is a list, and no object of a class: every result of an eager operation has one, and where
# ``[0]`` takes 35 ns, an object with an ``__init__`` takes 125, which is 5 % of ``x * y``, and one without still 65.
# Made on demand, by ``TensorBase.__getattr__``, it spares ``x * y`` 2 % and costs ``(w * x) * (w * y)``, which saves
# its operands and so asks for their versions, 15 %: so only handles and tensors over a storage have it made like that.
# Code that runs at every eager operation, and native hits, take the item themselves: a call is 2 % of ``w * x``.
"""

from __future__ import annotations

from typing import Any

from jitgrad.state import state

__all__ = [
    "VERSION",
    "InferenceVersion",
    "VersionCounter",
    "check_inference_write",
    "count_write",
    "inference_tensors",
    "is_inference",
    "new_version",
    "plain_version",
    "remember_write",
    "version_of",
    "writes_after",
]

VersionCounter = list[Any]

VERSION = 0
"""The place of the version in a counter."""

_MAX_WRITES = 4


class InferenceVersion(VersionCounter):
    """The version counter of an inference tensor: nobody may rely on it.

    Its class is the tensor's mark, so that views and detached aliases, which share counters, are marked with it.
    """

    __slots__ = ()


inference_tensors: list[bool] = []
"""Not empty once an inference tensor has been made: operations that refuse one look here first."""


def is_inference(tensor: Any) -> bool:
    """Whether a tensor was made in inference mode."""
    return type(tensor._vc) is InferenceVersion


def check_inference_write(tensor: Any) -> None:
    """RuntimeError if an inference tensor is to be written outside inference mode."""
    if is_inference(tensor) and not state.inference_mode:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a "
            "normal tensor before doing inplace update. See https://github.com/pytorch/rfcs/pull/17 for more details."
        )


def plain_version() -> VersionCounter:
    """The version counter of a new tensor, whatever the mode."""
    return [0]


def new_version() -> VersionCounter:
    """The version counter of a new tensor; in inference mode it says so."""
    if not state.inference_mode:
        return [0]
    if not inference_tensors:
        inference_tensors.append(True)
    return InferenceVersion((0,))


def version_of(tensor: Any) -> int:
    """How often a tensor's memory was written."""
    version: int = tensor._vc[VERSION]
    return version


def count_write(tensor: Any) -> None:
    """A tensor's memory was written once more."""
    tensor._vc[VERSION] += 1


def remember_write(counter: VersionCounter, name: str, place: Any) -> None:
    """The write that was counted last was done by operation ``name`` at ``place``; only the last few are kept."""
    if len(counter) > _MAX_WRITES:
        del counter[VERSION + 1]
    counter.append((counter[VERSION], name, place))


def writes_after(tensor: Any, version: int) -> list[tuple[str, Any]]:
    """(operation, place) of the writes since a version, as far as they are known, the oldest first."""
    return [(name, place) for at, name, place in tensor._vc[VERSION + 1 :] if at > version]
