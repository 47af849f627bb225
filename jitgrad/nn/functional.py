"""``jitgrad.nn.functional``: the functions of networks, under PyTorch's names."""

from __future__ import annotations

from jitgrad import functions
from jitgrad.functions import *  # noqa: F403

__all__ = list(functions.PUBLIC)
