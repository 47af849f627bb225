"""Products of matrices, factors, systems of equations."""

from jitgrad.ops.linalg import matmul

__all__ = ["matmul"]
