"""Version numbers, as ``torch.version``."""

from __future__ import annotations

__all__ = ["TORCH_VERSION", "__version__", "cuda", "debug", "git_version", "hip", "xpu"]

TORCH_VERSION = "2.13.0+jitgrad"
"""The version of PyTorch whose semantics these are, as ``torch.__version__`` where ``torch`` means jitgrad."""

__version__ = TORCH_VERSION
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
git_version: str | None = None
debug = False
