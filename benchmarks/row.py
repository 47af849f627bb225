"""What a benchmark row is.

Owns: ``Row`` (how a step is found, sized and checked), ``Training`` (a step that is ready to run) and ``Wrap``.
Must not know: any tensor library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["Row", "Training", "Wrap"]


def _identity(function: Any) -> Any:
    return function


class Wrap(NamedTuple):
    """Where a subject puts its decorator: on the loss only (``torch.compile``) or on the whole step (``jitgrad``).

    ``part`` is for functions that are alike in all steps, of a step whose graph is another one each time.
    """

    loss: Callable[[Any], Any] = _identity
    step: Callable[[Any], Any] = _identity
    part: Callable[[Any], Any] = _identity


class Training(NamedTuple):
    """A training step and what it changes.

    Attributes:
        step: runs forward, backward and update once, and returns the loss (a tensor that nobody has read yet).
        state: the tensors the step produced (parameters, or gradients where nothing is updated), for the comparison.
    """

    step: Callable[[], Any]
    state: Callable[[], list[Any]]


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        name: for ``--only``.
        title: for people.
        module: ``benchmarks/rows/<module>.py`` has ``make(xp, seed, wrap, **sizes)``, ``rows_jax/`` has
            ``make(seed, **sizes)``.
        sizes: passed to ``make``.
        check_steps: how many steps are compared across subjects before anything is timed.
        small: what replaces some of ``sizes`` in a test.
        rtol: how far losses and mean magnitudes of the state may differ, relatively: float32 sums in another order.
    """

    name: str
    title: str
    module: str
    sizes: dict[str, Any] = field(default_factory=dict)
    check_steps: int = 5
    rtol: float = 2e-4
    small: dict[str, Any] = field(default_factory=dict)
