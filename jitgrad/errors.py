"""The exceptions that jitgrad adds to Python's own.

Wrong arguments raise what PyTorch raises: ``RuntimeError``, ``TypeError``, ``ValueError``, ``IndexError``,
``NotImplementedError``. Only situations PyTorch does not have get a class here::

    RuntimeError
    └── JitgradError
        ├── CompileError     a kernel could not be compiled (a bug of jitgrad: please report it)
        └── DeviceError      a device queue was poisoned by an earlier error, or shut down
"""

from __future__ import annotations

__all__ = ["CompileError", "DeviceError", "JitgradError"]


class JitgradError(RuntimeError):
    """Base of the errors that only jitgrad raises."""


class CompileError(JitgradError):
    """LLVM refused a kernel. The message holds the kernel's name and LLVM's own words."""


class DeviceError(JitgradError):
    """A device queue cannot take work: poisoned by an earlier error, or shut down."""
