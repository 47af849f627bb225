"""``torch.utils.dlpack``: the older names of DLPack's functions.

Owns: ``to_dlpack``. Must not know: more than that.
"""

from __future__ import annotations

from typing import Any

from jitgrad.functions.exchange import DLDeviceType, dlpack_capsule, from_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Any) -> Any:
    """A capsule over the tensor's memory, to be read once.

    Raises:
        BufferError: the tensor requires grad, or is not on the CPU.
    """
    return dlpack_capsule(tensor)
