"""How NumPy's LAPACK is called, and how many threads it uses.

Owns: ``lapack``, which NumPy rules that call ``np.linalg`` are wrapped in; ``quickly``, its functions without what
stands around them.
Must not know: operations.

A function of ``np.linalg`` spends two thirds of a small matrix's time on looks at its arguments and on NumPy's error
state. What it then calls is a ufunc of matrices in a module that is NumPy's own affair: ``quickly`` takes it where it
is, and the public function where it is not, or where there is a NaN among the results: that may be an error.

NumPy's wheels bring OpenBLAS, whose threads wait for each other in loops. Where other processes have the cores, such a
call takes a hundred times as long as on one thread (a Cholesky factor of 300x300: 0.5 ms, and 450 ms beside two busy
processes), and where nobody has, small matrices gain little. So a matrix that is not large is factored by one thread,
and no call uses more threads than ``set_num_threads`` allows. What NumPy itself is asked for is left alone: the number
is set back after each call. Another BLAS (MKL, Accelerate) decides for itself.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.config import config
from jitgrad.locks import process_lock

__all__ = ["lapack", "like_columns", "quickly"]

_SMALL, _LARGE = 64 * 64, 512 * 512
"""Elements of a matrix that OpenBLAS does not share anyway; of one that several threads factor."""
_PREFIXES = ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "openblas_{}_num_threads")


class _Threads:
    """The number of OpenBLAS's threads while calls run that use fewer.

    Attributes:
        get, set: OpenBLAS's functions.
        lock: held while these numbers change.
        calls: how many run.
        before: what the number was when the first of them began.
    """

    __slots__ = ("before", "calls", "get", "lock", "set")

    def __init__(self, get: Callable[[], int], put: Callable[[int], None]) -> None:
        self.get, self.set, self.lock = get, put, process_lock()
        self.calls = self.before = 0

    def enter(self, count: int) -> None:
        with self.lock:
            if not self.calls:
                self.before = self.get()
            self.calls += 1
            self.set(min(count, self.before))

    def leave(self) -> None:
        with self.lock:
            self.calls -= 1
            if not self.calls:
                self.set(self.before)


@functools.cache
def _threads() -> _Threads | None:
    """OpenBLAS's, if that is what NumPy's module of linear algebra is linked to."""
    module: Any = getattr(np.linalg, "_umath_linalg", None)
    try:
        library = ctypes.CDLL(module.__file__)  # symbols of what it is linked to are found, too
    except (AttributeError, OSError, TypeError):
        return None
    for prefix in _PREFIXES:
        try:
            return _Threads(getattr(library, prefix.format("get")), getattr(library, prefix.format("set")))
        except AttributeError:
            continue
    return None


def lapack(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy rule whose first operand is what LAPACK works on."""

    @functools.wraps(rule)
    def run(a: Any, *rest: Any) -> Any:
        matrix = a.shape[-1] * a.shape[-2] if a.ndim >= 2 else 0
        threads = _threads() if matrix > _SMALL else None
        if threads is None:
            return rule(a, *rest)
        threads.enter(config.num_threads if matrix >= _LARGE else 1)
        try:
            return rule(a, *rest)
        finally:
            threads.leave()

    return run


def quickly(name: str, public: Callable[..., Any]) -> Callable[..., Any]:
    """A function of matrices with several results, as ``np.linalg`` has it, for a rule that NumPy is quiet for.

    Args:
        name: of the ufunc that does it.
        public: the function of ``np.linalg``. It has the same results and raises the errors.

    Returns:
        ``call(a, out=...)``, of float32, float64 or complex arrays; ``out`` is a hint.
    """
    ufunc = getattr(getattr(np.linalg, "_umath_linalg", None), name, None)
    if not isinstance(ufunc, np.ufunc):
        return lambda a, **given: public(a)

    def call(a: Any, **given: Any) -> Any:
        found = ufunc(a, **given)
        total = np.add.reduce(found[0], axis=None)
        return found if total == total else public(a)

    return call


def like_columns(a: Any) -> Any:
    """Memory for matrices shaped as square ones, whose columns lie one after another, as PyTorch's results do."""
    return np.empty_like(np.ascontiguousarray(a).swapaxes(-1, -2))
