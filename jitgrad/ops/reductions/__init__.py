"""Sums and other reductions, running ones, orders and counts."""

from jitgrad.ops.reductions import extrema, reductions

__all__ = ["extrema", "reductions"]
