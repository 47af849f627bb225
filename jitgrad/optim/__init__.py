"""Optimizers and learning-rate schedules, under PyTorch's names."""

from jitgrad.optim import lr_scheduler
from jitgrad.optim.optimizer import Optimizer

__all__ = ["Optimizer", "lr_scheduler"]
