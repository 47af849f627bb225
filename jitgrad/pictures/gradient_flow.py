"""How large the gradients of a module's parameters are, layer by layer.

Owns: ``gradient_flow``, ``GradientFlow``.
Must not know: how gradients are made.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from jitgrad.lazy import LazyModule
from jitgrad.nn.module import Module
from jitgrad.report.tables import Report, Table

__all__ = ["GradientFlow", "ParameterFlow", "gradient_flow"]

_pyplot: Any = LazyModule("matplotlib.pyplot")
_VANISHED, _EXPLODED = 1e-4, 1e4
"""Of the root mean square of a parameter's gradient, by the median of all: further away is worth a sentence."""
_DEAD = 0.9
"""So large a part of a gradient is exactly 0: worth a sentence."""


@dataclass(frozen=True, slots=True)
class ParameterFlow:
    """The gradient of one parameter.

    Attributes:
        name, shape: of the parameter.
        rms, largest: of the gradient's elements: root mean square, largest magnitude; None: there is no gradient.
        relative: the gradient's norm by the parameter's; None without a gradient, or for a parameter that is 0.
        zeros: the part of the gradient's elements that are exactly 0.
        not_finite: how many elements are NaN or infinite.
        requires_grad: whether a gradient is wanted.
    """

    name: str
    shape: tuple[int, ...]
    rms: float | None
    largest: float | None
    relative: float | None
    zeros: float
    not_finite: int
    requires_grad: bool


@dataclass(frozen=True)
class GradientFlow(Report):
    """What ``gradient_flow`` returns.

    Attributes:
        parameters: in the module's order.
    """

    parameters: list[ParameterFlow]

    def tables(self) -> list[Table]:
        """A row per parameter."""
        rows = []
        for p in self.parameters:
            figures = (_figure(p.rms), _figure(p.largest), _figure(p.relative))
            zeros = f"{100 * p.zeros:.0f}%" if p.rms is not None else "-"
            rows.append([p.name, "x".join(map(str, p.shape)) or "1", *figures, zeros])
        header = ["parameter", "shape", "rms of gradient", "largest", "gradient / weight", "zeros"]
        return [Table("gradients", header, rows)]

    def notes(self) -> list[str]:
        """What is out of the ordinary."""
        found = []
        sizes = [p.rms for p in self.parameters if p.rms and math.isfinite(p.rms)]
        middle = float(np.median(sizes)) if sizes else 0.0
        for p in self.parameters:
            if p.rms is None:
                why = "jitgrad.why_none(parameter, loss) says why" if p.requires_grad else "it does not require grad"
                found.append(f"{p.name} has no gradient: {why}.")
            elif p.not_finite:
                found.append(f"NOT FINITE: {p.not_finite} elements of the gradient of {p.name}; see jitgrad.watch_nan.")
            elif p.rms == 0:
                found.append(f"ZERO: the gradient of {p.name} is 0 everywhere.")
            elif p.rms < _VANISHED * middle:
                found.append(f"VANISHING: the gradient of {p.name} is {p.rms / middle:.1e} of the median.")
            elif p.rms > _EXPLODED * middle:
                found.append(f"EXPLODING: the gradient of {p.name} is {p.rms / middle:.1e} times the median.")
            elif p.zeros > _DEAD:
                share = f"{100 * p.zeros:.0f}%"
                found.append(f"MOSTLY ZERO: {share} of the gradient of {p.name}: units that are never active?")
        return found

    def to_json(self) -> dict[str, Any]:
        """Every figure."""
        return {"parameters": [asdict(p) for p in self.parameters], "notes": self.notes()}

    def plot(self, path: Any = None) -> Any:
        """Bars of root mean squares, on a logarithmic axis.

        Args:
            path: a file to write it to; None: just return it.

        Returns:
            The matplotlib figure. ImportError without matplotlib.
        """
        figure, axes = _pyplot.subplots(figsize=(8, 0.3 * len(self.parameters) + 1.2), layout="constrained")
        names = [p.name for p in self.parameters]
        for field, colour in (("largest", "lightblue"), ("rms", "tab:blue")):
            axes.barh(names, [getattr(p, field) or 0.0 for p in self.parameters], color=colour, label=field)
        axes.invert_yaxis()
        if any(p.rms for p in self.parameters):
            axes.set_xscale("log")
        axes.set_xlabel("gradient")
        axes.legend()
        if path is not None:
            figure.savefig(path, dpi=150)
            _pyplot.close(figure)
        return figure


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def gradient_flow(module: Module) -> GradientFlow:
    """How large the gradient of each parameter is, after a backward: what vanishes, explodes, is missing or is 0.

    Args:
        module: its parameters' ``.grad`` are looked at, and not changed.

    Raises:
        TypeError: it is not a module.
    """
    if not isinstance(module, Module):
        raise TypeError(f"gradient_flow() takes a module, not {type(module).__name__}")
    return GradientFlow([_flow_of(name, p) for name, p in module.named_parameters()])


def _flow_of(name: str, parameter: Any) -> ParameterFlow:
    shape = tuple(parameter.shape)
    if parameter.grad is None:
        return ParameterFlow(name, shape, None, None, None, 0.0, 0, parameter.requires_grad)
    grad = parameter.grad.detach()
    if grad.is_sparse:
        grad = grad.to_dense()
    values, weights = _magnitudes(grad), _magnitudes(parameter.detach())
    with np.errstate(all="ignore"):
        norm, size = float(np.sqrt((values * values).sum())), float(np.sqrt((weights * weights).sum()))
        rms = norm / math.sqrt(values.size) if values.size else 0.0
    return ParameterFlow(
        name, shape, rms, float(values.max(initial=0.0)), norm / size if size else None,
        float((values == 0).mean()) if values.size else 0.0, int(values.size - np.isfinite(values).sum()),
        parameter.requires_grad,
    )  # fmt: skip


def _magnitudes(tensor: Any) -> Any:
    """Absolute values in double precision."""
    return tensor.abs().double().numpy()
