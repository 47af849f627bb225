"""What belongs to the process, and must be after a test as it was before.

Owns: ``SETTINGS``, ``left_as_found``, ``read``, ``changes``.
Must not know: pytest.

A test that leaves a setting changed breaks no test but those that run after it in the same process, in some orders, or
none: with eager kernels left off, tests of eager kernels test NumPy's rules and pass. So ``conftest.py`` compares
after every test, and the very test fails that changed something; the setting is put back for those that follow.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from jitgrad import formatting, garbage, settings, user_line
from jitgrad.autograd.anomaly_mode import anomaly
from jitgrad.config import LOGS, Config, config
from jitgrad.dtypes import DEFAULT_DTYPE, set_default_dtype
from jitgrad.runtime.devices import device, stream
from jitgrad.runtime.eager import kernel
from jitgrad.runtime.native.pool import get_num_threads, set_num_threads
from jitgrad.state import State, autocasts, engine_watchers, modes_in_use, state, write_checks

__all__ = ["SETTINGS", "changes", "left_as_found", "read"]


class Setting(NamedTuple):
    """Something that belongs to the process or to its main thread.

    Attributes:
        get: what it is now; equal if nothing has changed.
        put: makes it what ``get`` returned.
    """

    get: Callable[[], Any]
    put: Callable[[Any], object]


def _attribute(owner: Any, name: str) -> Setting:
    return Setting(lambda: getattr(owner, name), lambda value: setattr(owner, name, value))


def _contents(box: Any) -> Setting:
    """Of a list or a dict that stays the same object."""
    kind = type(box)

    def put(value: Any) -> None:
        box.clear()
        box.extend(value) if kind is list else box.update(value)

    return Setting(lambda: kind(box), put)


_OF_OTHERS = ("PYTEST_", "KMP_", "TORCH")
"""How variables begin that are none of jitgrad's: pytest's, and what scikit-learn and PyTorch set when imported."""


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_OF_OTHERS)}


def _put_environment(value: dict[str, str]) -> None:
    for name in _environment().keys() - value.keys():
        del os.environ[name]
    os.environ.update(value)


def _streams() -> dict[Any, Any]:
    """The main thread's current ones; a default one is none."""
    return {device: found for device, found in stream._current.streams.items() if stream._defaults.get(device) != found}


def _put_streams(value: dict[Any, Any]) -> None:
    stream._current.streams.clear()
    stream._current.streams.update(value)


def _handler(number: int) -> Setting:
    """Of a signal."""
    return Setting(lambda: signal.getsignal(number), lambda value: signal.signal(number, value))


_LOGGERS = [logging.getLogger(name) for name in ("jitgrad", *(f"jitgrad.{artifact}" for artifact in LOGS))]


def _loggers() -> Any:
    return [(logger.level, logger.propagate, logger.disabled, [*logger.handlers]) for logger in _LOGGERS]


def _put_loggers(value: Any) -> None:
    for logger, (level, *flags, handlers) in zip(_LOGGERS, value, strict=True):
        logger.setLevel(level)
        logger.propagate, logger.disabled = flags
        logger.handlers[:] = handlers


def _collects() -> bool:
    """Once no work runs without collections: a virtual device's worker may plan an operation after the test's end."""
    end = time.monotonic() + 5
    while garbage._pauses and time.monotonic() < end:
        time.sleep(0.001)
    return gc.isenabled()


SETTINGS: dict[str, Setting] = {
    **{f"config.{name}": _attribute(config, name) for name in Config.__slots__},
    **{f"state.{name}": _attribute(state, name) for name in State.__annotations__},
    "anomaly": Setting(
        lambda: (anomaly.enabled, anomaly.check_nan),
        lambda value: [setattr(anomaly, n, v) for n, v in zip(("enabled", "check_nan"), value, strict=True)],
    ),
    "modes in use": _contents(modes_in_use),
    "checks of writes": _contents(write_checks),
    "watchers of the engine": _contents(engine_watchers),
    "autocast blocks": _contents(autocasts),
    "makers of eager kernels": _contents(kernel._make),
    "makers of eager steps": _contents(kernel._make_step),
    "default dtype": Setting(lambda: DEFAULT_DTYPE[0], set_default_dtype),
    "current device": _attribute(device._current, "index"),
    "streams": Setting(_streams, _put_streams),
    "threads of kernels": Setting(get_num_threads, set_num_threads),
    "switches that are kept": _contents(settings._kept),
    "print options": _contents(formatting._options),
    "whether warnings repeat": _attribute(user_line, "_always"),
    "NumPy's errors": Setting(np.geterr, lambda value: np.seterr(**value)),
    "NumPy's print options": Setting(np.get_printoptions, lambda value: np.set_printoptions(**value)),
    "loggers": Setting(_loggers, _put_loggers),
    "environment": Setting(_environment, _put_environment),
    "folder": Setting(os.getcwd, os.chdir),
    "whether cycles are collected": Setting(_collects, lambda value: gc.enable() if value else gc.disable()),
    "recursion limit": Setting(sys.getrecursionlimit, sys.setrecursionlimit),
    "SIGINT": _handler(signal.SIGINT),
    "SIGTERM": _handler(signal.SIGTERM),
}
"""Not here: what only fills (plans, caches, warnings given, late modules), what ``conftest.py`` sets before each test
(streams of random numbers), what pytest restores itself (filters of warnings), and collectors' thresholds, which
compiled calls raise for as long as a recording lives (``jitgrad/garbage.py``)."""

_GETS = [setting.get for setting in SETTINGS.values()]


def read() -> list[Any]:
    """All settings as they are now."""
    return [get() for get in _GETS]


def changes(before: list[Any]) -> list[str]:
    """The settings that are not what ``read()`` has returned, in words; they are put back."""
    now = read()
    if now == before:
        return []
    found = []
    for (name, setting), was, is_now in zip(SETTINGS.items(), before, now, strict=True):
        if was != is_now:
            found.append(f"{name}: was {_shown(was, is_now)}, is {_shown(is_now, was)}")
            setting.put(was)
    return found


def _shown(value: Any, other: Any) -> str:
    """Of a dict only what is not in the other."""
    if isinstance(value, dict):
        value = {name: entry for name, entry in value.items() if name not in other or other[name] != entry}
    return repr(value)


@contextmanager
def left_as_found() -> Iterator[None]:
    """A block that may change settings, and must put them back.

    Raises:
        AssertionError: it did not; it says what was changed.
    """
    before = read()
    yield
    left = changes(before)
    assert not left, "settings were left changed: " + "; ".join(left)
