"""``EmbeddingBag``."""

from __future__ import annotations

from typing import Any

from jitgrad.dtypes import DType
from jitgrad.functions import empty
from jitgrad.nn import functional as F
from jitgrad.nn import init
from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter
from jitgrad.tensor import Tensor

__all__ = ["EmbeddingBag"]


class EmbeddingBag(Module):
    """The sum, mean or maximum of rows of ``weight``, per bag of numbers.

    Args:
        num_embeddings: rows.
        embedding_dim: features.
        max_norm, norm_type, scale_grad_by_freq: see ``functional.embedding_bag``.
        mode: "sum", "mean" or "max".
        sparse: the weight's gradient is a sparse tensor.
        include_last_offset: the last offset is the end of the last bag.
        padding_idx: a row that starts at zero, and does not count.
        device, dtype: of the weight, which starts standard normal.

    Raises:
        AssertionError: ``padding_idx`` is no row.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise AssertionError("padding_idx must be within num_embeddings")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        if _weight is None:
            self.weight = Parameter(empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
            self.reset_parameters()
        elif tuple(_weight.shape) != (num_embeddings, embedding_dim):
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        else:
            self.weight = Parameter(_weight)
        self.mode, self.sparse, self.include_last_offset = mode, sparse, include_last_offset

    def reset_parameters(self) -> None:
        """Draw the weight again."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            init.zeros_(self.weight.detach()[self.padding_idx])

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """(B, L), or (N) and offsets (B), to (B, embedding_dim)."""
        found: Tensor = F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )
        return found

    def extra_repr(self) -> str:
        """As PyTorch prints it."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        options = (("max_norm", None), ("norm_type", 2), ("scale_grad_by_freq", False))
        text += "".join(f", {name}={getattr(self, name)!r}" for name, usual in options if getattr(self, name) != usual)
        text += f", mode={self.mode!r}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx!r}"

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """A layer of rows that exist, which stay as they are if ``freeze``; AssertionError unless they are a matrix."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, features = embeddings.shape
        made = cls(
            rows,
            features,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        made.weight.requires_grad_(not freeze)
        return made
