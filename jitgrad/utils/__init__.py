"""Helpers around training: ``checkpoint``, ``swap_tensors``."""

from jitgrad.functions.replacing import swap_tensors
from jitgrad.utils import checkpoint

__all__ = ["checkpoint", "swap_tensors"]
