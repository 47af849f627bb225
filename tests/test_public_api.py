"""What ``import jitgrad`` offers, and what it costs."""

from __future__ import annotations

import importlib
import json
import pkgutil
import statistics
import subprocess
import sys
from types import ModuleType

import pytest

import jitgrad

MODULES = sorted(info.name for info in pkgutil.walk_packages(jitgrad.__path__, "jitgrad."))
IMPORT_LIMIT_SECONDS = 0.2

_REPORT = """
import json, sys, time
start = time.process_time()
import numpy
numpy_seconds = time.process_time() - start
import jitgrad
seconds = time.process_time() - start
heavy = [name for name in ("torch", "jax", "numba", "scipy", "matplotlib", "sklearn") if name in sys.modules]
print(json.dumps({"seconds": seconds, "numpy_seconds": numpy_seconds, "heavy": heavy}))
"""


def _import_in_a_new_process() -> dict[str, object]:
    out = subprocess.run([sys.executable, "-c", _REPORT], check=True, capture_output=True, text=True)
    found: dict[str, object] = json.loads(out.stdout)
    return found


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


def test_import_is_light() -> None:
    assert _import_in_a_new_process()["heavy"] == []


def test_import_is_fast() -> None:
    samples = [_import_in_a_new_process() for _ in range(5)]
    seconds, numpy_seconds = (
        statistics.median(float(str(sample[key])) for sample in samples) for key in ("seconds", "numpy_seconds")
    )
    # on a slow or busy machine NumPy, which is most of it, is the yardstick
    assert seconds < max(IMPORT_LIMIT_SECONDS, 2.5 * numpy_seconds), samples


def test_version_is_the_distribution_s() -> None:
    assert jitgrad.__version__
