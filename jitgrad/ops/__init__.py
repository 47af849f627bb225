"""What operations are: importing this package fills the table ``jitgrad.ops.table.OPS``."""

from jitgrad.ops import (
    activations,
    arithmetic,
    comparison,
    creation,
    extrema,
    gathering,
    indexing,
    joining,
    matmul,
    pointwise,
    powers,
    reductions,
    softmax,
    view_grads,
    views,
)

__all__ = [
    "activations",
    "arithmetic",
    "comparison",
    "creation",
    "extrema",
    "gathering",
    "indexing",
    "joining",
    "matmul",
    "pointwise",
    "powers",
    "reductions",
    "softmax",
    "view_grads",
    "views",
]
