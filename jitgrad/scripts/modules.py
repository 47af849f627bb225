"""Which module of jitgrad a module of PyTorch is.

Owns: ``our_module``, ``imported_module``, ``has_module``.
Must not know: imports of torch, scripts.

A package is the package of the same name, and so is a file where jitgrad has one. PyTorch's files of layers, optimizers
and distributions hold other names than ours: such a file is a module made at its first import, which looks a name up in
our file of that name, then in the package.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import Any

from jitgrad.scripts.private_names import is_private_module, private_names

__all__ = ["has_module", "imported_module", "our_module"]

_FILES = {
    "torch.nn.modules": (
        "jitgrad.nn",
        "activation adaptive batchnorm channelshuffle container conv distance dropout flatten fold instancenorm lazy "
        "linear loss module normalization padding pixelshuffle pooling rnn sparse transformer upsampling utils",
    ),
    "torch.optim": ("jitgrad.optim", "adamw"),
    "torch.distributions": (
        "jitgrad.distributions",
        "bernoulli beta binomial categorical cauchy chi2 constraint_registry continuous_bernoulli dirichlet exp_family "
        "exponential fishersnedecor generalized_pareto geometric gumbel half_cauchy half_normal independent "
        "inverse_gamma kumaraswamy laplace lkj_cholesky log_normal logistic_normal lowrank_multivariate_normal "
        "mixture_same_family multinomial negative_binomial normal one_hot_categorical pareto poisson relaxed_bernoulli "
        "relaxed_categorical studentT transformed_distribution uniform von_mises weibull wishart",
    ),
    "torch.nn": ("jitgrad.nn", "modules"),
}
"""Packages of PyTorch -> our package, and files of theirs whose names may be anywhere in it.

Python's import sets the file as an attribute of the package: no file may have the name of anything else in ours.
``torch.nn.modules`` is a module made here as well, so its files become attributes of that and not of ``jitgrad.nn``."""

_OURS = {
    "torch.autograd.grad_mode": "jitgrad.grad_mode",
    "torch.nn.modules": "jitgrad.nn",
    "torch.nn.modules.batchnorm": "jitgrad.nn.normalization",
    "torch.nn.modules.container": "jitgrad.nn.containers",
    "torch.nn.modules.dropout": "jitgrad.nn.misc",
    "torch.nn.modules.instancenorm": "jitgrad.nn.group_norm",
    "torch.nn.modules.rnn": "jitgrad.nn.recurrent",
    "torch.nn.modules.sparse": "jitgrad.nn.linear",
}
"""Modules of PyTorch that have another name here."""

_BASES = {
    "_DropoutNd": "_Dropout",
}
"""Base classes of PyTorch's layers -> ours where more than the underscore differs; scripts ask
``isinstance(m, nn.modules.batchnorm._BatchNorm)``."""


class _File(ModuleType):
    """A file of PyTorch."""

    def __init__(self, name: str, places: tuple[ModuleType, ...]) -> None:
        super().__init__(name)
        self._places = places

    def __getattr__(self, name: str) -> Any:
        if _is_file(f"{self.__name__}.{name}"):
            return imported_module(f"{self.__name__}.{name}")
        for place in self._places:
            for wanted in (_BASES.get(name, name), name.removeprefix("_")):
                if hasattr(place, wanted):
                    return getattr(place, wanted)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({name for place in self._places for name in dir(place)})


def has_module(name: str) -> bool:
    """Whether ``torch.…`` has a counterpart here; nothing that is late is imported for it but its parents."""
    return _is_file(name) or is_private_module(name) or _exists(_our_name(name))


def our_module(name: str) -> ModuleType:
    """The module that stands for ``torch.…``; of a file of PyTorch a new one at each call.

    Raises:
        ModuleNotFoundError: there is none.
    """
    own = _our_name(name)
    places = (importlib.import_module(own),) if _exists(own) else ()
    if _is_file(name):
        return _File(name, (*places, importlib.import_module(_FILES[name.rpartition(".")[0]][0])))
    if is_private_module(name) and not places:
        return _File(name, ())
    return importlib.import_module(own)


def imported_module(name: str) -> ModuleType:
    """``our_module`` with what libraries look for in it.

    Raises:
        ModuleNotFoundError: there is none.
    """
    module = our_module(name)
    vars(module).update(private_names(name))
    vars(module).setdefault("__path__", [])  # Python asks for it before it imports a module below this one
    if name == "torch.optim":  # libraries look for optimizers in its __dict__
        for each in dir(module):
            getattr(module, each)
    return module


def _our_name(name: str) -> str:
    if name in _OURS:
        return _OURS[name]
    parent, _, last = name.rpartition(".")
    return f"{_our_name(parent)}.{last}" if parent else "jitgrad"


def _is_file(name: str) -> bool:
    parent, _, last = name.rpartition(".")
    return parent in _FILES and last in _FILES[parent][1].split()


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # its parent is no package
        return False
