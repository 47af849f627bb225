"""How a program is written: once over ``lib`` (torch or jitgrad), a generator of what can be seen.

``@program`` registers a function ``(lib, step)``. It sets up a model as a user would, decorates what it calls again and
again with ``step`` (``jitgrad.compile``, or nothing), and yields after every iteration what should agree between the
libraries: tensors, numbers, names, lists of them. Numbers come from NumPy, as random numbers are the library's own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = [
    "PROGRAMS", "Program", "Source", "compiled_models", "describe_error", "fill", "gradients", "mlp", "program",
]  # fmt: skip

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Program:
    """One program.

    Attributes:
        run: ``run(lib, step)``, a generator.
        is_steady: its last iteration finds everything in the trie: nothing is new, nothing falls back to eager.
        fallbacks: operations of the last iteration that may run eagerly: those without a lowering, or on a virtual
            device.
        tolerance: relative, where float64 and chaos ask for more than the usual.
    """

    run: Callable[[Any, Decorator], Iterator[Any]]
    is_steady: bool
    fallbacks: int
    tolerance: float

    @property
    def name(self) -> str:
        return self.run.__name__


PROGRAMS: list[Program] = []


def program(*, is_steady: bool = True, fallbacks: int = 0, tolerance: float = 1e-9) -> Callable[[Any], Any]:
    """Register the decorated generator."""

    def register(run: Any) -> Any:
        PROGRAMS.append(Program(run, is_steady, fallbacks, tolerance))
        return run

    return register


class Source:
    """Numbers for a program: the same for every library. Everything is float64, so that agreement is tight."""

    def __init__(self, lib: Any, seed: int = 0) -> None:
        self.lib = lib
        self._rng = np.random.default_rng(seed)

    def __call__(self, *shape: int, scale: float = 1.0) -> Any:
        """A normal constant."""
        return self.lib.tensor(self._rng.normal(size=shape) * scale, dtype=self.lib.float64)

    def leaf(self, *shape: int, scale: float = 0.5) -> Any:
        """A normal parameter."""
        return self(*shape, scale=scale).requires_grad_()

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Any:
        return self.lib.tensor(self._rng.uniform(low, high, size=shape), dtype=self.lib.float64)

    def ints(self, high: int, *shape: int) -> Any:
        return self.lib.tensor(self._rng.integers(0, high, size=shape))


_compilers: list[Callable[[Any], Any]] = []


@contextmanager
def compiled_models(compile_model: Callable[[Any], Any]) -> Iterator[None]:
    """Inside, the models of programs are compiled, and nothing else is: backward and update are plain Python."""
    _compilers.append(compile_model)
    try:
        yield
    finally:
        _compilers.pop()


def fill(lib: Any, module: Any, seed: int = 0) -> Any:
    """The module in float64, its parameters the same for every library."""
    rng = np.random.default_rng(seed)
    module.double()
    with lib.no_grad():
        for p in module.parameters():
            p.copy_(lib.tensor(rng.normal(size=tuple(p.shape)) / max(1, p.shape[-1]) ** 0.5))
    for compile_model in _compilers:
        compile_model(module)
    return module


def mlp(lib: Any, *sizes: int, activation: str = "Tanh", seed: int = 0) -> Any:
    """Linear layers with activations between them."""
    layers: list[Any] = []
    for a, b in itertools.pairwise(sizes):
        layers += [lib.nn.Linear(a, b), getattr(lib.nn, activation)()]
    return fill(lib, lib.nn.Sequential(*layers[:-1]), seed)


def gradients(parameters: Any) -> list[Any]:
    """Copies of ``.grad``, or None where there is none."""
    return [None if p.grad is None else p.grad.clone() for p in parameters]


def describe_error(error: BaseException) -> str:
    """What must agree of an error: its type."""
    return type(error).__name__
