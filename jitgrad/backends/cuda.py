"""``torch.backends.cuda`` on a machine without a GPU: its flags can be set and change nothing."""

from __future__ import annotations

__all__ = ["is_built", "matmul"]


class _Matmul:
    """Flags of products on a GPU."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True


matmul = _Matmul()


def is_built() -> bool:
    """Whether CUDA is built in: False."""
    return False
