"""The exceptions that jitgrad adds to Python's own.

Wrong arguments raise what PyTorch raises: ``RuntimeError``, ``TypeError``, ``ValueError``, ``IndexError``,
``NotImplementedError``. Only situations PyTorch does not have get a class here::

    RuntimeError
    ├── JitgradError
    │   ├── CompileError     a kernel could not be compiled (a bug of jitgrad: please report it)
    │   ├── DeviceError      a device queue was poisoned by an earlier error, or shut down
    │   └── ElsewhereError   a trace met a tensor that is not on the CPU; never leaves the recorder
    └── LinAlgError          a matrix is singular; ``torch.linalg.LinAlgError``
    NotImplementedError
    └── SparseOperandError   an operation asked a sparse tensor for its memory; Note [Sparse operands]
    AttributeError
    └── UnknownNameError     says which name was probably meant
"""

from __future__ import annotations

from jitgrad.lazy import LazyModule

__all__ = [
    "OTHER_THREAD",
    "STILL_RECORDED",
    "CompileError",
    "DeviceError",
    "ElsewhereError",
    "JitgradError",
    "LinAlgError",
    "SparseOperandError",
    "UnknownNameError",
    "closest",
]

OTHER_THREAD = (
    "two threads record compiled steps with one tensor at the same time, and one of them writes it: threads that share "
    "tensors must take turns, as with any memory that is written"
)

STILL_RECORDED = "this tensor belongs to a compiled step that another thread is still recording"

_difflib = LazyModule("difflib")


class JitgradError(RuntimeError):
    """Base of the errors that only jitgrad raises."""


class CompileError(JitgradError):
    """LLVM refused a kernel. The message holds the kernel's name and LLVM's own words."""


class DeviceError(JitgradError):
    """A device queue cannot take work: poisoned by an earlier error, or shut down."""


class ElsewhereError(JitgradError):
    """A trace met an operand that is not on the CPU. Recorders catch it and run the operation at once."""


class LinAlgError(RuntimeError):
    """A matrix is singular."""


class SparseOperandError(NotImplementedError):
    """An operation met a sparse tensor where it takes dense ones."""

    def __init__(self) -> None:
        super().__init__("a sparse tensor has no memory of its own; use to_dense() first")


class UnknownNameError(AttributeError):
    """A name that something does not have; the text says which of its names comes closest."""

    def __init__(self, what: str, name: str, owner: object) -> None:
        super().__init__(what, name)
        self._owner = owner

    def __str__(self) -> str:
        # here, and not before: ``hasattr`` fails often, and nobody reads what it would have said
        what, name = self.args
        close = closest(name, self._owner)
        return f"{what} has no attribute '{name}'" + (f". Did you mean: '{close}'?" if close else "")


_CLOSE = 0.8
"""Of two names that share less than this, one is hardly a slip of the other: ``jit`` is no ``int``."""


def closest(name: str, owner: object) -> str:
    """The public attribute that ``name`` was probably meant to be; empty if none is close."""
    names = [n for n in dir(owner) if not n.startswith("_")]
    found: list[str] = _difflib.get_close_matches(name, names, 1, _CLOSE)
    return found[0] if found else ""
