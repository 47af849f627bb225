"""Where jitgrad differs from PyTorch's samples, and why.

Owns: ``LEFT_OUT``, operations without an equivalent; ``known``, samples that differ for a reason.
"""

from __future__ import annotations

from typing import Any

__all__ = ["LEFT_OUT", "known"]

_COMPLEX = (
    "cdouble cfloat chalf complex conj_physical imag polar view_as_complex view_as_real stft istft linalg.eig "
    "linalg.eigvals"
)
_FFT = " ".join(
    f"fft.{name}"
    for name in "fft fft2 fftn hfft hfft2 hfftn rfft rfft2 rfftn ifft ifft2 ifftn ihfft ihfft2 ihfftn irfft irfft2 "
    "irfftn fftshift ifftshift".split()
)
_SPARSE = "sparse.sampled_addmm sparse.mm to_sparse"
_INSIDE = (
    "_softmax_backward_data native_batch_norm _native_batch_norm_legit _batch_norm_with_update native_group_norm "
    "_upsample_bilinear2d_aa max_pool2d_with_indices_backward torch._scaled_mm_v2 torch._scaled_mm "
    "torch.ops.aten._safe_softmax.default torch.ops.aten._flash_attention_forward "
    "torch.ops.aten._efficient_attention_forward _unsafe_masked_index _unsafe_masked_index_put_accumulate _chunk_cat "
    "native_dropout_backward grid_sampler_2d grid_sampler_3d hash_tensor _segment_reduce jiterator_unary "
    "jiterator_binary jiterator_4inputs_with_extra_args jiterator_binary_return_by_ref jiterator_2inputs_2outputs "
)
LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(_COMPLEX.split(), "complex numbers"),
    **dict.fromkeys(_FFT.split(), "complex numbers"),
    **dict.fromkeys(_SPARSE.split(), "sparse layouts have tests of their own"),
    **dict.fromkeys(_INSIDE.split(), "no public name: a part of PyTorch's own implementation"),
}
"""Operation of PyTorch's table -> why jitgrad has none."""


def known(failure: Any) -> str | None:
    """Why this difference is there; None: it should not be."""
    return None
