"""Optimizers and learning-rate schedules, under PyTorch's names."""

from typing import TYPE_CHECKING

from jitgrad.lazy import late_module
from jitgrad.optim.adam import Adam, AdamW
from jitgrad.optim.optimizer import Optimizer
from jitgrad.optim.sgd import SGD

if TYPE_CHECKING:
    from jitgrad.optim import lr_scheduler, swa_utils
    from jitgrad.optim.adadelta import Adadelta
    from jitgrad.optim.adafactor import Adafactor
    from jitgrad.optim.adagrad import Adagrad
    from jitgrad.optim.adamax import Adamax
    from jitgrad.optim.asgd import ASGD
    from jitgrad.optim.lbfgs import LBFGS
    from jitgrad.optim.muon import Muon
    from jitgrad.optim.nadam import NAdam
    from jitgrad.optim.radam import RAdam
    from jitgrad.optim.rmsprop import RMSprop
    from jitgrad.optim.rprop import Rprop
    from jitgrad.optim.sparse_adam import SparseAdam
    from jitgrad.optim.stateless import swap_in_optimizer_params_and_state

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
    "swap_in_optimizer_params_and_state",
]

_LATE = {
    "ASGD": "jitgrad.optim.asgd",
    "Adadelta": "jitgrad.optim.adadelta",
    "Adafactor": "jitgrad.optim.adafactor",
    "Adagrad": "jitgrad.optim.adagrad",
    "Adamax": "jitgrad.optim.adamax",
    "LBFGS": "jitgrad.optim.lbfgs",
    "Muon": "jitgrad.optim.muon",
    "NAdam": "jitgrad.optim.nadam",
    "RAdam": "jitgrad.optim.radam",
    "RMSprop": "jitgrad.optim.rmsprop",
    "Rprop": "jitgrad.optim.rprop",
    "SparseAdam": "jitgrad.optim.sparse_adam",
    "lr_scheduler": "jitgrad.optim.lr_scheduler",
    "swa_utils": "jitgrad.optim.swa_utils",
    "swap_in_optimizer_params_and_state": "jitgrad.optim.stateless",
}
__getattr__, __dir__ = late_module(globals(), _LATE)
