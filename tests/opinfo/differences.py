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
ROWS: tuple[Row, ...] = (
    Row("*", "saved", _KINDER, "the backward needs less than PyTorch's saves, and is right"),
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
