"""Operations that layers, losses and optimizers are made of."""

from jitgrad.ops.layers import activations, losses, normalization, optimizers, softmax

__all__ = ["activations", "losses", "normalization", "optimizers", "softmax"]
