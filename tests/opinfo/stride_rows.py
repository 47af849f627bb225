"""Where strides of results and of ``.grad`` differ from PyTorch's, and why. Values do not.

Owns: ``STRIDE_ROWS``.
"""

from __future__ import annotations

__all__ = ["STRIDE_ROWS"]

_COMPOSED = "composed of operations whose results are laid out otherwise than those that PyTorch composes it of"
_OTHER_ROUTINE = "computed by another routine than LAPACK's of this name, whose result is not stored by columns"
_ONE_ELEMENT = "the stride of a dimension with one element or none, which nothing depends on"
_ROW_MAJOR_TRANSFORMS = "PyTorch sorts the transformed dimensions to the front; transforms are row-major here"

STRIDE_ROWS: dict[str, dict[str, str]] = {
    "results": {
        **dict.fromkeys(
            "nn.functional.instance_norm nn.functional.rms_norm nn.functional.batch_norm renorm addr "
            "nn.functional.pixel_shuffle nn.functional.pixel_unshuffle nn.functional.channel_shuffle "
            "nn.functional.conv1d nn.functional.conv3d nn.functional.conv_transpose1d nn.functional.conv_transpose2d "
            "nn.functional.adaptive_avg_pool2d nn.functional.adaptive_max_pool1d nn.functional.adaptive_max_pool2d "
            "nn.functional.avg_pool1d nn.functional.avg_pool2d nn.functional.max_pool1d nn.functional.max_pool2d "
            "nn.functional.max_pool3d nn.functional.max_unpool2d nn.functional.max_unpool2d/grad "
            "nn.functional.interpolate/bilinear nn.functional.interpolate/bicubic nn.functional.interpolate/trilinear "
            "nn.functional.interpolate/area nn.functional.upsample_bilinear "
            "nn.functional.pad/replicate_negative".split(),
            _COMPOSED,
        ),
        **dict.fromkeys(
            "cholesky linalg.cholesky linalg.cholesky_ex geqrf lu_unpack lu_solve linalg.lu linalg.lu_solve "
            "linalg.lu_factor linalg.householder_product linalg.lstsq linalg.lstsq/grad_oriented ormqr svd_lowrank "
            "pca_lowrank triangular_solve linalg.eig linalg.ldl_factor linalg.ldl_factor_ex linalg.ldl_solve".split(),
            _OTHER_ROUTINE,
        ),
        **dict.fromkeys("unsafe_chunk unsafe_split".split(), "the pieces are copies here, and views in PyTorch"),
        **dict.fromkeys(
            "select_scatter slice_scatter diagonal_scatter".split(),
            "PyTorch's copy has the gaps of what it copies",
        ),
        **dict.fromkeys(
            "stft fft.fft fft.hfft fft.rfft fft.ifft fft.ihfft fft.ihfft2 fft.ihfftn fft.irfft".split(),
            _ROW_MAJOR_TRANSFORMS,
        ),
        "as_strided_scatter": "reads its operand as if it were row-major",
        "__getitem__": "PyTorch walks through index and operand together; here what is picked is row-major",
        **dict.fromkeys("frexp nn.functional.prelu nn.functional.relu6 roll nan_to_num isreal".split(), _ONE_ELEMENT),
    },
    "gradients": {
        "cdist": "with p = 0 the gradient is undefined here, as the norm's; PyTorch's is zeros",
        **dict.fromkeys(
            "broadcast_tensors block_diag nn.functional.conv3d constant_pad_nd nn.functional.pad/constant einsum "
            "squeeze squeeze/multiple squeeze_copy transpose_copy t_copy tensordot linalg.matrix_power "
            "linalg.lu_factor linalg.pinv/singular".split(),
            _ONE_ELEMENT,
        ),
    },
    "asked": {
        **dict.fromkeys(
            "nn.functional.bilinear addr nn.functional.instance_norm nn.functional.batch_norm renorm logcumsumexp "
            "nn.functional.rms_norm nn.functional.adaptive_max_pool1d nn.functional.avg_pool1d "
            "nn.functional.conv_transpose1d nn.functional.conv_transpose3d nn.functional.conv1d "
            "nn.functional.interpolate/area nn.functional.max_pool1d nn.functional.adaptive_avg_pool2d "
            "nn.functional.adaptive_max_pool2d nn.functional.pad/replicate_negative "
            "nn.functional.interpolate/bilinear nn.functional.interpolate/trilinear nn.functional.upsample_bilinear "
            "nn.functional.avg_pool2d nn.functional.max_pool2d nn.functional.max_pool3d "
            "nn.functional.multi_margin_loss nn.functional.poisson_nll_loss var_mean var_mean/unbiased std_mean "
            "std_mean/unbiased nn.functional.pixel_shuffle nn.functional.channel_shuffle nn.functional.linear "
            "nn.functional.linear_cross_entropy/chunked_none nn.functional.multi_head_attention_forward".split(),
            _COMPOSED,
        ),
        **dict.fromkeys(
            "ormqr qr pinverse linalg.qr linalg.pinv linalg.pinv/hermitian linalg.lstsq linalg.lstsq/grad_oriented "
            "linalg.householder_product lu_solve svd_lowrank pca_lowrank".split(),
            _OTHER_ROUTINE,
        ),
        **dict.fromkeys("stft fft.fft fft.hfft fft.rfft fft.ifft fft.ihfft fft.irfft".split(), _ROW_MAJOR_TRANSFORMS),
        **dict.fromkeys("as_strided as_strided_copy".split(), "gathered into a row-major tensor"),
        "block_diag": "copies of the blocks here, windows of the whole gradient in PyTorch",
        "sgn": "zeros; PyTorch's are row-major",
        "clamp": "the bounds' gradients are laid out as the bounds here, as the operand in PyTorch",
        "cdist": "with p = 0 the gradient is undefined here, as the norm's; PyTorch's is zeros",
        **dict.fromkeys(
            "squeeze squeeze/multiple roll linalg.det linalg.matrix_power linalg.lu_factor".split(), _ONE_ELEMENT
        ),
    },
}
"""Question -> operation of PyTorch's table -> why some of its strides differ."""
