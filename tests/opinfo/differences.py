"""Where jitgrad differs from PyTorch's samples, and why.

Owns: ``LEFT_OUT``, operations without an equivalent; ``ROWS``, samples that differ for a reason.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

__all__ = ["LEFT_OUT", "ROWS", "known"]

_SPARSE = "sparse.sampled_addmm sparse.mm to_sparse"
_INSIDE = (
    "_softmax_backward_data native_batch_norm _native_batch_norm_legit _batch_norm_with_update native_group_norm "
    "_upsample_bilinear2d_aa max_pool2d_with_indices_backward torch._scaled_mm_v2 torch._scaled_mm "
    "torch.ops.aten._safe_softmax.default torch.ops.aten._flash_attention_forward "
    "torch.ops.aten._efficient_attention_forward _unsafe_masked_index _unsafe_masked_index_put_accumulate _chunk_cat "
    "native_dropout_backward grid_sampler_2d grid_sampler_3d hash_tensor _segment_reduce jiterator_unary "
    "jiterator_binary jiterator_4inputs_with_extra_args jiterator_binary_return_by_ref jiterator_2inputs_2outputs "
)
_MASKED = " ".join(
    f"masked.{name}"
    for name in "sum prod cumsum cumprod amax amin argmax argmin mean median norm var std softmax log_softmax softmin "
    "normalize logaddexp logsumexp".split()
)
LEFT_OUT: dict[str, str] = {
    "chalf": "complex numbers of two halves: see docs/complex.md",
    **dict.fromkeys(_SPARSE.split(), "sparse layouts have tests of their own"),
    **dict.fromkeys(_MASKED.split(), "torch.masked is a prototype"),
    **dict.fromkeys(_INSIDE.split(), "no public name: a part of PyTorch's own implementation"),
}
"""Operation of PyTorch's table -> why jitgrad has none."""


class Row(NamedTuple):
    """Samples that differ from PyTorch's, and why.

    Attributes:
        ops: names of operations, by title or without the variant; ``*``: all.
        checks: of these checks; "compiled": of all compiled ones.
        text: a regular expression for the whole difference.
    """

    ops: str
    checks: str
    text: str
    reason: str


_DIFFER = r"\d+ of \d+ elements differ.*"
_KINDER = r"((operand|result) \d+: 'right', not '(raises|wrong)'(; )?)+"
_SHAPE_ALONE = (
    "__getitem__ complex div fft.fft fft.ifft fft.ihfft fft.ihfft2 fft.ihfftn fft.rfft fft.rfft2 fft.rfftn gather "
    "index_add index_copy index_put masked_select nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d "
    "nn.functional.adaptive_avg_pool3d nn.functional.avg_pool1d nn.functional.avg_pool2d nn.functional.avg_pool3d "
    "nn.functional.interpolate nn.functional.pad put stft take take_along_dim combinations"
)
_POSITIONS = (
    "nn.functional.adaptive_max_pool1d nn.functional.adaptive_max_pool2d nn.functional.adaptive_max_pool3d "
    "nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d nn.functional.max_pool1d "
    "nn.functional.max_pool2d nn.functional.max_pool3d nn.functional.embedding_bag"
)
_FROM_RESULT = (
    "angle cholesky cholesky_solve linalg.cholesky linalg.cholesky_ex linalg.det linalg.householder_product "
    "linalg.lstsq linalg.lu linalg.lu_solve linalg.matrix_power linalg.pinv linalg.slogdet linalg.solve_triangular "
    "lu_solve ormqr sgn svd svd_lowrank triangular_solve"
)
_FROM_COPY = (
    "nanmean nansum native_layer_norm nn.functional.batch_norm nn.functional.instance_norm nn.functional.layer_norm "
    "nn.functional.binary_cross_entropy_with_logits nn.functional.ctc_loss nn.functional.multi_margin_loss "
    "nn.functional.multilabel_margin_loss nn.functional.nll_loss nn.functional.soft_margin_loss nn.functional.rrelu"
)
_COMPOSITE = (
    "cdist cross dist linalg.cross linalg.vecdot mvlgamma nn.functional.bilinear nn.functional.conv1d "
    "nn.functional.conv3d nn.functional.conv_transpose3d nn.functional.grid_sample nn.functional.linear_cross_entropy "
    "nn.functional.pdist nn.functional.scaled_dot_product_attention tensordot vdot"
)
ROWS: tuple[Row, ...] = (
    Row(_SHAPE_ALONE, "saved", _KINDER, "linear in the operand, of which PyTorch saves all and reads the shape"),
    Row(_POSITIONS, "saved", _KINDER, "the positions suffice: PyTorch saves the operand too, and reads its shape"),
    Row(_FROM_RESULT, "saved", _KINDER, "the backward works with the result, or with factors that the forward made"),
    Row(_FROM_COPY, "saved", _KINDER, "what it needs is a value that the forward computed from the operand"),
    Row(_COMPOSITE, "saved", _KINDER, "several operations where PyTorch has one, or the reverse"),
    Row("nn.functional.linear_cross_entropy", "saved", r"(operand [01]: 'raises', not 'right'(; )?)+",
        "pieces run again in the backward; PyTorch's prototype has its gradients from the forward"),
    Row("kron", "saved", "(operand . ?: 'raises', not 'wrong'(; )?)+", "PyTorch's gradient is wrong after the write"),
    Row(
        "nn.functional.scaled_dot_product_attention nn.functional.instance_norm", "saved",
        "(operand 0: 'right', not 'raises'; )?operand [13]: 'raises', not 'right'",
        "PyTorch saves a scaled copy of the key, a repeated copy of the weight",
    ),
    Row("matmul __rmatmul__ cdist", "saved", r"operand [01]: 'raises', not 'right'(; result 0: 'right', not 'raises')?",
        "PyTorch folds its operand, and saves the copy that this makes"),
    Row("nn.functional.max_unpool1d nn.functional.max_unpool2d nn.functional.max_unpool3d", "forward compiled", _DIFFER,
        "which of equal positions is written last is not defined"),
    Row("as_strided_scatter", "first compiled", _DIFFER, "PyTorch's gradient is wrong; its own gradcheck fails"),
    Row("logcumsumexp", "forward first compiled", _DIFFER, "PyTorch's slopes are good to three digits in float32"),
    Row("special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1", "values out compiled", _DIFFER,
        "PyTorch's approximations are good to six digits"),
    Row("igamma igammac", "values method out first", _DIFFER, "PyTorch's series is good to nine digits near a = x"),
    Row("cholesky_inverse", "forward compiled", _DIFFER,
        "PyTorch's tangent is wrong: difference quotients agree with ours"),
    Row("linalg.norm", "second compiled", r".*\(0\.0\), not np.float64\(nan\).*",
        "at zero, where the norm's second derivative is undefined: 0, not NaN"),
    Row("nn.functional.linear_cross_entropy", "second compiled", "something, not nothing",
        "PyTorch's loss in chunks has no second derivative, and says nothing"),
    Row("polygamma", "values method out inplace compiled", r".*inf\), not np.float32\(\d\S+\d\) .*",
        "at a pole: PyTorch's sine of a multiple of pi is not zero"),
    Row("addbmm", "inplace", "RuntimeError: output with shape .*", "PyTorch's resizes its operand without a word"),
    Row("amax amin aminmax", "errors", "ValueError: maximum supported dimension.*", "NumPy's limit, found before"),
    Row("__radd__ __rmul__ __rand__ __ror__ __rxor__", "errors", "nothing, not TypeError: descriptor.*",
        "Python's own message for a call through the class"),
    Row("fft.ihfft2 fft.ihfftn", "out", _DIFFER, "PyTorch's leaves out as it is"),
    Row("istft", "first second compiled", "something, not nothing",
        "the window is a view that PyTorch's table makes in no_grad mode, and a leaf here"),
    Row("cov", "compiled", r"1 of 2 elements differ: np\.float32\(-?0\.000\d+\), not np\.float32\(0\.0\) .*",
        "a gradient that is zero as a difference of sums near 20, rounded in another order"),
    Row("cov", "compiled", r".*float64\(-10\.83076\d+\), not np\.float64\(-10\.83077\d+\) .*",
        "the weights are float32 in a sample of float64, and their sum is rounded in another order"),
    Row("narrow_copy", "errors", "IndexError.*Expected dim <.*", "an internal assertion of PyTorch"),
)  # fmt: skip


def known(failure: Any) -> str | None:
    """Why this difference is there; None: it should not be."""
    for row in ROWS:
        names = row.ops.split()
        is_meant = row.ops == "*" or failure.op in names or failure.op.split("/")[0] in names
        is_checked = failure.check.split()[0] in row.checks.split()
        if is_meant and is_checked and re.fullmatch(row.text, failure.text, re.DOTALL):
            return row.reason
    return None
