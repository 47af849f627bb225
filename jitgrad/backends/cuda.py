"""``torch.backends.cuda`` on a machine without a GPU: its flags can be set and change nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = [
    "cudnn_sdp_enabled", "enable_cudnn_sdp", "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp",
    "flash_sdp_enabled", "is_built", "is_flash_attention_available", "math_sdp_enabled", "matmul",
    "mem_efficient_sdp_enabled", "preferred_linalg_library", "sdp_kernel",
]  # fmt: skip


class _Matmul:
    """Flags of products on a GPU."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True


matmul = _Matmul()


def is_built() -> bool:
    """Whether CUDA is built in: False."""
    return False


_sdp = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}
"""Which of PyTorch's ways to compute attention are allowed; here it is always computed in the same way."""


def enable_flash_sdp(enabled: bool) -> None:
    """Kept for ``flash_sdp_enabled``."""
    _sdp["flash"] = enabled


def flash_sdp_enabled() -> bool:
    """What ``enable_flash_sdp`` said."""
    return _sdp["flash"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Kept for ``mem_efficient_sdp_enabled``."""
    _sdp["mem_efficient"] = enabled


def mem_efficient_sdp_enabled() -> bool:
    """What ``enable_mem_efficient_sdp`` said."""
    return _sdp["mem_efficient"]


def enable_math_sdp(enabled: bool) -> None:
    """Kept for ``math_sdp_enabled``."""
    _sdp["math"] = enabled


def math_sdp_enabled() -> bool:
    """What ``enable_math_sdp`` said."""
    return _sdp["math"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Kept for ``cudnn_sdp_enabled``."""
    _sdp["cudnn"] = enabled


def cudnn_sdp_enabled() -> bool:
    """What ``enable_cudnn_sdp`` said."""
    return _sdp["cudnn"]


def is_flash_attention_available() -> bool:
    """False."""
    return False


def preferred_linalg_library(backend: Any = None) -> Any:
    """Nothing: there is no choice."""


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[dict[str, bool]]:
    """A block with these ways allowed."""
    before = dict(_sdp)
    _sdp.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield {}
    finally:
        _sdp.update(before)
