"""What ``import jitgrad`` offers."""

from __future__ import annotations

import importlib
import pkgutil
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
