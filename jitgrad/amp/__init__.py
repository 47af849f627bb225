"""``torch.amp``: autocast and gradient scaling, on a machine without a GPU.

``autocast`` for a GPU is disabled with PyTorch's warning; for the CPU it computes products in bfloat16 or float16.
"""

from __future__ import annotations

from jitgrad.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from jitgrad.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
