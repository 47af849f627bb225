"""``torch.backends``: which libraries there are. Flags can be set, as scripts do, and change nothing."""

from __future__ import annotations

from jitgrad.backends import cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
