"""Windows over images: convolutions, pools, resampling."""

from jitgrad.ops.windows import convolution

__all__ = ["convolution"]
