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
        sparse: the weight's gradient is a sparse tensor; ``SGD`` and ``SparseAdam`` take those.
        device, dtype: of the weight, which starts standard normal.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        sparse: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise AssertionError("Padding_idx must be within num_embeddings")
        self.num_embeddings, self.embedding_dim, self.sparse = num_embeddings, embedding_dim, sparse
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.weight = Parameter(empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weight again."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            init.zeros_(self.weight.detach()[self.padding_idx])

    def forward(self, input: Tensor) -> Tensor:
        """(*) integers to (*, embedding_dim)."""
        return F.embedding(input, self.weight, self.padding_idx, sparse=self.sparse)

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}{', sparse=True' if self.sparse else ''}"
