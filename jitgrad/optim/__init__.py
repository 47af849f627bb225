"""Optimizers and learning-rate schedules, under PyTorch's names."""

from typing import TYPE_CHECKING, Any

from jitgrad.lazy import late_names
from jitgrad.optim.adam import Adam, AdamW
from jitgrad.optim.optimizer import Optimizer
from jitgrad.optim.sgd import SGD

if TYPE_CHECKING:
    from jitgrad.optim import lr_scheduler
    from jitgrad.optim.adagrad import Adagrad
    from jitgrad.optim.lbfgs import LBFGS
    from jitgrad.optim.rmsprop import RMSprop
    from jitgrad.optim.sparse_adam import SparseAdam

__all__ = ["LBFGS", "SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "SparseAdam", "lr_scheduler"]

_LATE = {
    "Adagrad": "jitgrad.optim.adagrad",
    "LBFGS": "jitgrad.optim.lbfgs",
    "RMSprop": "jitgrad.optim.rmsprop",
    "SparseAdam": "jitgrad.optim.sparse_adam",
    "lr_scheduler": "jitgrad.optim.lr_scheduler",
}
_find_late = late_names(globals(), _LATE)


def __getattr__(name: str) -> Any:
    """Names that are imported at their first use, Note [Lazy modules]."""
    if name in _LATE:
        return _find_late(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})
