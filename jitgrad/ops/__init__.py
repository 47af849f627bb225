"""What operations are: importing this package fills the table ``jitgrad.ops.table.OPS``."""

from jitgrad.ops import indexing, layers, linalg, pointwise, reductions, views, windows
from jitgrad.ops.table import OPS

__all__ = ["indexing", "layers", "linalg", "pointwise", "reductions", "views", "windows"]

_LATE = {
    "layers.batch_normalization": "batch_norm_by batch_norm_by_plain native_batch_norm native_batch_norm_plain",
    "pointwise.binary": "bitwise_left_shift bitwise_right_shift copysign fmax fmin gcd heaviside hypot lcm ldexp "
    "logaddexp2 nextafter xlogy",
    "pointwise.bessel_functions": " ".join(
        f"special_{name}"
        for name in (
            "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 chebyshev_polynomial_t chebyshev_polynomial_u "
            "chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he "
            "laguerre_polynomial_l legendre_polynomial_p modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 "
            "modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 shifted_chebyshev_polynomial_t "
            "shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w "
            "spherical_bessel_j0"
        ).split()
    ),
    "pointwise.special_functions": "igamma igammac special_entr special_erfcx special_i0e special_i1e "
    "special_log_ndtr special_ndtri special_xlog1py special_zeta angle frexp",
    "complex.complex_numbers": "_conj complex conj_physical polar view_as_complex view_as_real",
    "reductions.counting": "_unique2 histc histogram isin searchsorted unique_consecutive unique_dim",
    "reductions.ordering": "kthvalue median median_dim mode nanmedian nanmedian_dim sort topk",
    "fourier": "_fft_c2c _fft_c2r _fft_r2c fft_c2r_backward fft_r2c_backward",
    "windows.grid_sampling": "grid_sampler_2d grid_sampler_3d grid_sampler_spread",
    "layers.group_normalization": "native_group_norm native_group_norm_plain",
    "linalg.linear_systems": "linalg_cholesky_ex linalg_inv_ex linalg_solve_ex",
    "layers.ctc": "_ctc_loss _ctc_loss_backward",
    "pointwise.elementwise": " ".join(f"_elementwise{n}" for n in range(1, 9)),
    "linalg.factored_systems": "cholesky_inverse cholesky_solve linalg_lu_solve lu_exchanges lu_unpack",
    "linalg.indefinite": "linalg_ldl_factor_ex linalg_ldl_solve",
    "linalg.reflections": "geqrf linalg_householder_product ormqr",
    "linalg.matrix_factors": "_linalg_eigh _linalg_svd linalg_cholesky_info linalg_eig linalg_lu_factor_ex linalg_qr "
    "lu_permutation",
    "linalg.matrix_functions": "_linalg_det _linalg_slogdet linalg_cofactors linalg_matrix_exp linalg_pinv "
    "linalg_pinv_rank linalg_solve_triangular",
    "windows.pooling": "adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d "
    "adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d avg_pool_backward max_pool1d max_pool2d max_pool3d "
    "max_pool_backward max_pool_read max_unpool2d max_unpool3d",
    "linalg.vector_products": "linalg_cross",
    "layers.recurrent_cells": "_gru_cell _lstm_cell",
    "layers.recurrent_layers": " ".join(
        f"_{kind}_layer{packed}{backward}"
        for kind in ("gru", "lstm", "rnn_relu", "rnn_tanh")
        for packed in ("", "_packed")
        for backward in ("", "_backward")
    ),
    "windows.sliding_blocks": "col2im im2col",
    "reductions.scans": "cummax cummin cumprod logcumsumexp",
    "windows.upsampling": "upsample_backward upsample_bicubic2d upsample_bilinear2d upsample_linear1d "
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_nearest_exact1d upsample_nearest_exact2d "
    "upsample_nearest_exact3d upsample_trilinear3d",
}
"""Modules that are imported when one of their operations is asked for."""
OPS.late.update({name: f"jitgrad.ops.{module}" for module, names in _LATE.items() for name in names.split()})
