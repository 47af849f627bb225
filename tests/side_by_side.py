"""Runs a snippet on PyTorch and on jitgrad, side by side, and says where they differ.

Owns: what is compared: values, dtypes, shapes, flags, names of nodes, types of exceptions, kinds of warnings.
Must not know: what a snippet is about.

A snippet is a function of the library: ``lambda t: t.ones(3).sum()``. It makes its own inputs, so that it can run as a
compiled step as well. Whatever it returns is compared; what it raises, too.

    python -m tests.side_by_side tests.parity.edge_cases   # all differences of a module's SNIPPETS
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import jitgrad

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

__all__ = ["Seen", "Snippet", "difference", "observe"]

Snippet = Callable[[Any], Any]

_RTOL = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 3e-6, "float64": 1e-9, "complex64": 3e-6}


@dataclass(frozen=True)
class Seen:
    """What a snippet showed.

    Attributes:
        value: what it returned, as plain Python and NumPy objects.
        error: the type's name of what it raised; empty if nothing.
        message: of the error.
        warnings: the categories of the warnings, sorted.
    """

    value: Any
    error: str
    message: str
    warnings: tuple[str, ...]


@contextmanager
def _recorded() -> Iterator[list[Any]]:
    """Every warning, be it one that PyTorch gives only once in a process."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if torch is not None:
            torch.set_warn_always(True)
        jitgrad.set_warn_always(True)
        try:
            yield caught
        finally:
            if torch is not None:
                torch.set_warn_always(False)
            jitgrad.set_warn_always(False)


def observe(call: Callable[[], Any]) -> Seen:
    """Run it, and keep what it shows."""
    value: Any = None
    error = message = ""
    with _recorded() as caught:
        try:
            value = _plain(call())
        except Exception as raised:
            error, message = type(raised).__name__.lstrip("_"), str(raised)
    kinds = {w.category.__name__ for w in caught} - {"DeprecationWarning"}  # PyTorch's functorch gives hundreds
    return Seen(value, error, message, tuple(sorted(kinds)))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, jitgrad.Tensor) or (torch is not None and isinstance(value, torch.Tensor))


def _plain(value: Any) -> Any:
    """Of either library, the same plain thing."""
    if _is_tensor(value):
        node = value.grad_fn
        facts = (tuple(value.shape), value.requires_grad, value.is_leaf, node and node.name())
        dtype = str(value.dtype).rpartition(".")[2]
        bare = value.detach()
        if torch is not None and isinstance(bare, torch.Tensor) and bare._is_zerotensor():
            bare = torch.zeros(bare.shape, dtype=bare.dtype)
        return ("tensor", dtype, *facts, np.array((bare.float() if dtype == "bfloat16" else bare * 1).tolist()))
    if isinstance(value, dict):
        return {_plain(key): _plain(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(x) for x in value]
    if type(value).__name__ == "dtype" or type(value).__name__ == "DType":
        return str(value).rpartition(".")[2]
    if value is None or isinstance(value, bool | int | float | str | np.ndarray):
        return value
    if isinstance(value, type):
        return value.__name__
    return type(value).__name__


def _differs(got: Any, want: Any, path: str, rtol: float | None = None) -> str:
    if isinstance(want, list) and isinstance(got, list) and len(got) == len(want):
        pairs = enumerate(zip(got, want, strict=True))
        return next(filter(None, (_differs(g, w, f"{path}[{i}]", rtol) for i, (g, w) in pairs)), "")
    if isinstance(want, tuple) and isinstance(got, tuple) and len(got) == len(want) == 7:
        if got[:-1] != want[:-1]:
            return f"{path}: {got[1:-1]} instead of {want[1:-1]}"
        return _differs(got[-1], want[-1], path, _RTOL.get(want[1], 0))
    if isinstance(want, dict) and isinstance(got, dict) and list(got) == list(want):
        return next(filter(None, (_differs(got[k], want[k], f"{path}[{k!r}]", rtol) for k in want)), "")
    if isinstance(want, np.ndarray | float) and isinstance(got, np.ndarray | float):
        got, want = np.asarray(got), np.asarray(want)
        if got.shape == want.shape and got.dtype == want.dtype:
            if want.dtype.kind not in "fc":
                return "" if np.array_equal(got, want) else f"{path}: {got} instead of {want}"
            loose = 1e-6 if rtol is None else rtol
            with np.errstate(all="ignore"):
                if np.allclose(got, want, rtol=loose, atol=loose, equal_nan=True):
                    return ""
        return f"{path}: {got} instead of {want}"
    same = type(got) is type(want) and (got == want)
    return "" if same else f"{path}: {got!r} instead of {want!r}"


def difference(got: Seen, want: Seen, *, with_warnings: bool = True) -> str:
    """Where what jitgrad showed differs from what PyTorch showed; empty if nowhere. Messages are not compared."""
    if got.error != want.error:
        return f"raised {got.error or 'nothing'} ({got.message}) instead of {want.error or 'nothing'} ({want.message})"
    if with_warnings and got.warnings != want.warnings:
        return f"warned {got.warnings} instead of {want.warnings}"
    return "" if want.error else _differs(got.value, want.value, "result")


def _first_difference(snippet: Snippet) -> str:
    """Of four runs, eagerly and then three times compiled; empty if all show what PyTorch shows."""
    want = observe(lambda: snippet(torch))
    compiled = jitgrad.compile(lambda: snippet(jitgrad))
    calls = {"eager": lambda: snippet(jitgrad), "cold": compiled, "second": compiled, "warm": compiled}
    for mode, call in calls.items():
        found = difference(observe(call), want)
        if found:
            return f"{mode}: {found}"
    return ""


def main(names: list[str]) -> int:
    """Print the differences of modules' ``SNIPPETS``."""
    count = 0
    for module in names:
        for name, snippet in importlib.import_module(module).SNIPPETS.items():
            found = _first_difference(snippet)
            if found:
                print(f"{name}, {found}", flush=True)
                count += 1
    print(f"{count} differences")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
