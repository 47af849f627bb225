"""Layers with weights that are one product or one look-up: ``Linear``, ``Embedding``; and ``Identity``.

Must not know: how a product runs.
"""

from __future__ import annotations

import math
from typing import Any

from jitgrad.dtypes import DType
from jitgrad.functions import empty
from jitgrad.nn import functional as F
from jitgrad.nn import init
from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter
from jitgrad.tensor import Tensor

__all__ = ["Embedding", "Identity", "Linear"]


class Identity(Module):
    """Returns its input; takes and ignores any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """The input itself."""
        return input


class Linear(Module):
    """``x @ weight.T + bias``.

    Args:
        in_features: the last extent of the input, (*, in_features).
        out_features: the last extent of the output, (*, out_features).
        bias: whether there is one.
        device, dtype: of the parameters; the default ones if None.

    Both start uniform in +-1/sqrt(in_features), as PyTorch's.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        self.bias: Parameter | None
        offset = Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None
        self.register_parameter("bias", offset)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters again."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """(*, in_features) to (*, out_features)."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    """A row of ``weight`` for each index.

    Args:
        num_embeddings: rows.
        embedding_dim: the extent added to the input's shape.
        padding_idx: a row that starts at zero and gets no gradient.
        max_norm: rows that are looked up and have a larger norm are scaled to it first.
        norm_type: p of that norm.
        scale_grad_by_freq: a row's gradient is the mean over its uses, instead of the sum.
        sparse: the weight's gradient is a sparse tensor; ``SGD`` and ``SparseAdam`` take those.
        _weight: the first values; else they are standard normal.
        _freeze: the weight does not require grad.
        device, dtype: of the weight.

    Raises:
        AssertionError: ``padding_idx`` is no row, or ``_weight`` has another shape.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise AssertionError("Padding_idx must be within num_embeddings")
        self.num_embeddings, self.embedding_dim, self.sparse = num_embeddings, embedding_dim, sparse
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        if _weight is None:
            drawn = empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.weight = Parameter(drawn, requires_grad=not _freeze)
            self.reset_parameters()
        elif tuple(_weight.shape) != (num_embeddings, embedding_dim):
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        else:
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Draw the weight again."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            init.zeros_(self.weight.detach()[self.padding_idx])

    def forward(self, input: Tensor) -> Tensor:
        """(*) integers to (*, embedding_dim)."""
        if self.max_norm is None and not self.scale_grad_by_freq:
            return F.embedding(input, self.weight, self.padding_idx, sparse=self.sparse)
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        usual = {"padding_idx": None, "max_norm": None, "norm_type": 2, "scale_grad_by_freq": False}
        given = {name: getattr(self, name) for name in usual}
        options = "".join(f", {name}={value}" for name, value in given.items() if value != usual[name])
        return f"{self.num_embeddings}, {self.embedding_dim}{options}{', sparse=True' if self.sparse else ''}"

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """A layer of rows that exist, which stay as they are if ``freeze``; AssertionError unless they are a matrix."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, features = embeddings.shape
        return cls(
            rows, features, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, embeddings, freeze
        )
