"""Activations as modules: each holds its arguments and calls the function of the same name.

Must not know: how a function runs.
"""

from __future__ import annotations

import warnings

from jitgrad.nn import functional as F
from jitgrad.nn.module import Module
from jitgrad.tensor import Tensor

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmin",
    "Softplus",
    "Softsign",
    "Tanh",
    "Tanhshrink",
]


class _InPlace(Module):
    """An activation that writes into its input if ``inplace`` is set."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return "inplace=True" if self.inplace else ""

    def _inplace_repr(self) -> str:
        return ", inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """max(x, 0)."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return input.relu_() if self.inplace else F.relu(input)


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.tanh(input)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.sigmoid(input)


class SiLU(_InPlace):
    """x * sigmoid(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.silu(input, self.inplace)


class SELU(_InPlace):
    """Scaled ELU with its two fixed constants."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.selu(input, self.inplace)


class LogSigmoid(Module):
    """log(sigmoid(x))."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.logsigmoid(input)


class Softsign(Module):
    """x / (1 + abs(x))."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.softsign(input)


class GELU(Module):
    """x times the normal distribution function of x; ``approximate`` is "none" or "tanh"."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"approximate={self.approximate!r}"


class Mish(_InPlace):
    """x * tanh(softplus(x))."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.mish(input, self.inplace)


class _HiddenInPlace(_InPlace):
    """An activation whose ``repr`` does not show ``inplace``."""

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return ""


class Hardsigmoid(_HiddenInPlace):
    """relu6(x + 3) / 6."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.hardsigmoid(input, self.inplace)


class Hardswish(_HiddenInPlace):
    """x * relu6(x + 3) / 6."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.hardswish(input, self.inplace)


class Tanhshrink(Module):
    """x - tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.tanhshrink(input)


class _WithAlpha(_InPlace):
    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"alpha={self.alpha}" + self._inplace_repr()


class ELU(_WithAlpha):
    """x above zero, alpha * (exp(x) - 1) below."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.elu(input, self.alpha, self.inplace)


class CELU(_WithAlpha):
    """max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(_InPlace):
    """x above zero, negative_slope * x below."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"negative_slope={self.negative_slope}" + self._inplace_repr()


class RReLU(_InPlace):
    """x above zero; below, a slope times x, which is drawn from [lower, upper) for each element while training."""

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.lower, self.upper = lower, upper

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"lower={self.lower}, upper={self.upper}" + self._inplace_repr()


class Hardtanh(_InPlace):
    """x clamped to [min_val, max_val]."""

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__(inplace)
        for name, old in (("min_val", min_value), ("max_val", max_value)):
            if old is not None:
                warnings.warn(
                    f"keyword argument `{name}ue` is deprecated and rename to `{name}`", FutureWarning, stacklevel=2
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        if not self.max_val > self.min_val:
            raise AssertionError("max_val must be larger than min_val")

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"min_val={self.min_val}, max_val={self.max_val}" + self._inplace_repr()


class ReLU6(Hardtanh):
    """min(max(x, 0), 6)."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.relu6(input, self.inplace)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return self._inplace_repr().removeprefix(", ")


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x is above ``threshold``."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"beta={self.beta}, threshold={self.threshold}"


class GLU(Module):
    """The first half along ``dim`` times the sigmoid of the second."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Half the extent along ``dim``."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"dim={self.dim}"


class _AlongDim(Module):
    """A function along one dimension; without one, ``nn.functional`` chooses, and warns."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """exp(x), normalised along ``dim``."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.softmax(input, self.dim)


class LogSoftmax(_AlongDim):
    """log(softmax(x)) along ``dim``."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.log_softmax(input, self.dim)


class Softmin(_AlongDim):
    """softmax(-x) along ``dim``."""

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return F.softmin(input, self.dim)
