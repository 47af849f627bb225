"""What ``import jitgrad`` offers."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from types import ModuleType

import pytest

import jitgrad

MODULES = sorted(info.name for info in pkgutil.walk_packages(jitgrad.__path__, "jitgrad."))


def _public_names(module: ModuleType) -> list[str]:
    """Names without an underscore that the module itself defined as a function or class."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


@pytest.mark.parametrize("name", ["jitgrad", *MODULES])
def test_all_lists_what_exists(name: str) -> None:
    module = importlib.import_module(name)
    names = getattr(module, "__all__", [])
    assert len(names) == len(set(names)), "a name is listed twice"
    assert [n for n in names if not hasattr(module, n)] == []


@pytest.mark.parametrize("name", MODULES)
def test_modules_with_public_names_have_all(name: str) -> None:
    module = importlib.import_module(name)
    assert hasattr(module, "__all__") or not _public_names(module), f"public: {_public_names(module)}"


def test_version_is_the_distribution_s() -> None:
    assert jitgrad.__version__


_DOCUMENTED = [
    jitgrad, jitgrad.nn, jitgrad.nn.functional, jitgrad.optim, jitgrad.optim.lr_scheduler, jitgrad.autograd,
    jitgrad.autograd.functional, jitgrad.autograd.graph, jitgrad.func, jitgrad.overrides, jitgrad.profiler,
    jitgrad.distributions, jitgrad.utils, jitgrad.utils.data, jitgrad.vcpu,
]  # fmt: skip


@pytest.mark.parametrize("module", _DOCUMENTED, ids=lambda module: module.__name__)
def test_public_names_say_what_they_are(module: ModuleType) -> None:
    silent = [n for n in module.__all__ if callable(getattr(module, n)) and not inspect.getdoc(getattr(module, n))]
    assert silent == []


def test_attributes_of_tensors_say_what_they_are() -> None:
    names = [name for name in dir(jitgrad.Tensor) if not name.startswith("_")]
    assert len(names) > 200
    values = {"is_sparse", "layout", "volatile"}  # attributes of the class
    assert [n for n in names if not inspect.getdoc(getattr(jitgrad.Tensor, n)) and n not in values] == []


@pytest.mark.parametrize("name", ["compile", "tensor"])
def test_a_function_is_not_its_module(name: str) -> None:
    """There are submodules of these names as well."""
    assert f"jitgrad.{name}" in sys.modules
    assert not isinstance(getattr(jitgrad, name), ModuleType)
