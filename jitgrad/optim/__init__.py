"""Optimizers and learning-rate schedules, under PyTorch's names."""

from jitgrad.optim import lr_scheduler
from jitgrad.optim.adagrad import Adagrad
from jitgrad.optim.adam import Adam, AdamW
from jitgrad.optim.lbfgs import LBFGS
from jitgrad.optim.optimizer import Optimizer
from jitgrad.optim.rmsprop import RMSprop
from jitgrad.optim.sgd import SGD
from jitgrad.optim.sparse_adam import SparseAdam

__all__ = ["LBFGS", "SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "SparseAdam", "lr_scheduler"]
