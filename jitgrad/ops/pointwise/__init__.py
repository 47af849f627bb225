"""Operations on each element, and tensors made of nothing."""

from jitgrad.ops.pointwise import arithmetic, comparison, creation, gamma_functions, pointwise, powers

__all__ = ["arithmetic", "comparison", "creation", "gamma_functions", "pointwise", "powers"]
