"""Fixtures that every test may use.

``mode`` runs a step three ways, because each has its own way to be wrong; see ``modes.py``.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

_TESTS = Path(__file__).parent
_FILES = [*_TESTS.glob("*.py"), *_TESTS.glob("[!s]*/[!_]*.py")]  # scripts run in other processes
HELPERS = {path.stem for path in _FILES} | {f"tests.{path.stem}" for path in _TESTS.iterdir()}
HELPERS -= sys.modules.keys()  # this file, and what ``-p`` has named
"""Modules beside the tests, and folders with some, by the names that import them."""

# before jitgrad is imported: tests must not read or fill the user's own cache
_KEPT_CACHE = os.environ.pop("KEPT_CACHE", None)
"""A folder for the kernels of several runs; LLVM is asked once. In CI: a change of a setting or of the interpreter
changes few kernels."""
_CACHE_DIR = _KEPT_CACHE or tempfile.mkdtemp(prefix="jitgrad-tests-")
os.environ["JITGRAD_CACHE_DIR"] = _CACHE_DIR
# and every pass of codegen is checked: Note [Verification]
os.environ.setdefault("JITGRAD_VERIFY", "1")
# and kernels do not depend on measurements, Note [Measured tiles]
os.environ["JITGRAD_TUNE"] = "0"
# nor on whether a process beside has answered yet, Note [Builders]
os.environ["JITGRAD_BUILDERS"] = "0"

# what helpers assert is checked as in a test module: told in full, and under ``python -O``, too
pytest.register_assert_rewrite(*HELPERS)

from left_behind import changes, left_as_found, read  # noqa: E402
from modes import MODES, Mode, Shown  # noqa: E402
from ran_before import (  # noqa: E402, F401
    pytest_collection_modifyitems,
    pytest_runtest_logreport,
    pytest_sessionfinish,
)
from threads import wait_for_devices  # noqa: E402
from torch_quickly import quicken  # noqa: E402

import jitgrad  # noqa: E402
from jitgrad.compiled import native_eager  # noqa: E402
from jitgrad.runtime.eager import new_shapes, rule_families  # noqa: E402
from jitgrad.runtime.random import twister  # noqa: E402

_SETTINGS = read()


def pytest_collection_finish() -> None:
    """Importing the tests changes no setting.

    Twenty thousand test items are no garbage: without them collections, and forks of this process, are quick.
    """
    if left := changes(_SETTINGS):
        raise pytest.UsageError("importing the tests changed settings: " + "; ".join(left))
    _freeze()


def _freeze() -> None:
    """What lives now is no garbage for any collection that follows."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _module_leaves_settings() -> Iterator[None]:
    """As they were before the fixtures of a whole file.

    What earlier files have left (reports, caches, libraries) is frozen: tests that collect would go through it all.
    """
    _freeze()
    with left_as_found():
        yield


@pytest.fixture(autouse=True)
def _test_leaves_settings() -> Iterator[None]:
    """As they were before the test and its fixtures: otherwise this very test fails, not one that happens to follow."""
    with left_as_found():
        yield


@pytest.fixture(autouse=True)
def _shapes_are_new() -> None:
    """A test is a program of its own, whose shapes are none too many, Note [Ever new shapes]."""
    new_shapes.forget()
    rule_families.forget()


@pytest.fixture(params=["native", "python"])
def form(request: pytest.FixtureRequest) -> Iterator[str]:
    """Both forms of eager mode, Note [Eager in native code]."""
    native_eager.install()
    if request.param == "native":
        yield request.param
        return
    with native_eager.pythons_form():
        yield request.param


@pytest.fixture(params=list(MODES))
def mode(request: pytest.FixtureRequest) -> Iterator[Mode]:
    """``eager``, ``cold`` and ``warm`` in turn. The warm call of a row's test shows what its marker states."""
    found = replace(MODES[request.param], shown=Shown())
    yield found
    rows = list(request.node.iter_markers("row"))
    if rows:
        stated = {name: value for mark in rows for name, value in mark.kwargs.items()}
        found.shown.check(**{**stated, **found.shown.stated})


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same in every run."""
    return np.random.default_rng(20240607)


def _seed() -> None:
    jitgrad.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    if hasattr(torch := sys.modules.get("torch"), "manual_seed"):
        quicken(torch)
        torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _same_random_numbers() -> None:
    """In every run and every order of tests: weights of layers, masks of dropout, and what NumPy and PyTorch draw."""
    _seed()


def pytest_collectstart(collector: pytest.Collector) -> None:
    """A module that makes layers while it is imported makes the same ones in every run, too."""
    if isinstance(collector, pytest.Module):
        _seed()


@pytest.fixture(scope="session", autouse=True)
def _remove_cache() -> Iterator[None]:
    jitgrad.manual_seed(0)
    twister.is_native()  # else some test's step would compile the kernel that draws
    yield
    if not _KEPT_CACHE:
        shutil.rmtree(_CACHE_DIR, ignore_errors=True)


@pytest.fixture
def idle_devices() -> Iterator[None]:
    """A test of devices leaves them idle, whatever it did."""
    yield
    wait_for_devices()


class _Collect(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "without kernels" in record.msg:
            self.messages.append(record.getMessage())


@pytest.fixture(autouse=True)
def _everything_is_compiled(request: pytest.FixtureRequest) -> Iterator[None]:
    """A segment that could not be compiled runs all the same, only slower: here it is an error."""
    handler = _Collect()
    logger = logging.getLogger("jitgrad")
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)
    if {"no_kernels", "no_room_for_kernels"}.isdisjoint(request.fixturenames):
        assert not handler.messages
