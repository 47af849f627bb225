"""What functions that are imported at their first use accept: PyTorch's signatures, in the notation of ``signatures``.

Owns: ``LATE_SIGNATURES``. Those of linear algebra and its like have the name of their module in front.
Must not know: what the functions do, how calls are matched (``checked``).

The first half are PyTorch's schemas, the second are functions that PyTorch has in Python: only what it refuses itself.
"""

from __future__ import annotations

__all__ = ["LATE_SIGNATURES"]

LATE_SIGNATURES: dict[str, str] = {
    name: text
    for names, text in {
        "adaptive_avg_pool1d": "Tensor input, int[1] output_size",
        "conv1d": "Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, int[1] "
        "dilation=1, int groups=1 | Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, str "
        "padding='valid', int[1] dilation=1, int groups=1",
        "conv3d": "Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, int[1] "
        "dilation=1, int groups=1 | Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, str "
        "padding='valid', int[1] dilation=1, int groups=1",
        "conv_transpose1d": "Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, "
        "int[1] output_padding=0, int groups=1, int[1] dilation=1",
        "conv_transpose2d": "Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, "
        "int[1] output_padding=0, int groups=1, int[1] dilation=1",
        "conv_transpose3d": "Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, "
        "int[1] output_padding=0, int groups=1, int[1] dilation=1",
        "binomial": "Tensor count, Tensor prob, any? generator=None",
        "bartlett_window blackman_window hann_window": "int window_length, *, dtype? dtype=None | int "
        "window_length, bool periodic, *, dtype? dtype=None",
        "hamming_window": "int window_length, *, dtype? dtype=None | int window_length, bool periodic, *, dtype? "
        "dtype=None | int window_length, bool periodic, float alpha, *, dtype? dtype=None | int window_length, bool "
        "periodic, float alpha, float beta, *, dtype? dtype=None",
        "kaiser_window": "int window_length, *, dtype? dtype=None | int window_length, bool periodic, *, dtype? "
        "dtype=None | int window_length, bool periodic, float beta, *, dtype? dtype=None",
        "bilinear": "Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None",
        "cosine_similarity": "Tensor x1, Tensor x2, int dim=1, float eps=1e-08",
        "pairwise_distance": "Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool keepdim=False",
        "pdist": "Tensor input, float p=2.0",
        "igamma igammac igamma_ igammac_ special.gammainc special.gammaincc": "Tensor input, Tensor other",
        "mvlgamma mvlgamma_ special.multigammaln": "Tensor input, int p",
        "get_device is_inference alias_copy detach_copy t_copy numel angle conj conj_physical conj_physical_ frexp "
        "imag is_conj is_neg real resolve_conj resolve_neg view_as_complex view_as_real corrcoef geqrf linalg.eig "
        "linalg.eigvals linalg.matrix_exp special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1 "
        "special.digamma special.entr special.erf special.erfc special.erfcx special.erfinv special.exp2 "
        "special.expit special.expm1 special.gammaln special.i0 special.i0e special.i1 special.i1e special.log1p "
        "special.log_ndtr special.modified_bessel_i0 special.modified_bessel_i1 special.modified_bessel_k0 "
        "special.modified_bessel_k1 special.ndtr special.ndtri special.psi special.sinc": "Tensor input",
        "as_strided_copy as_strided_": "Tensor input, int[] size, int[] stride, int? storage_offset=None",
        "diagonal_copy": "Tensor input, int offset=0, int dim1=0, int dim2=1",
        "expand_copy": "Tensor input, int[] size, *, bool implicit=False",
        "narrow_copy": "Tensor input, int dim, int start, int length",
        "permute_copy": "Tensor input, int[] dims",
        "select_copy": "Tensor input, int dim, int index",
        "slice_copy": "Tensor input, int dim=0, int? start=None, int? end=None, int step=1",
        "split_copy": "Tensor input, int split_size, int dim=0",
        "split_with_sizes_copy": "Tensor input, int[] split_sizes, int dim=0",
        "squeeze_copy": "Tensor input | Tensor input, int dim | Tensor input, int[] dim",
        "transpose_copy": "Tensor input, int dim0, int dim1",
        "unbind_copy": "Tensor input, int dim=0",
        "unfold_copy": "Tensor input, int dimension, int size, int step",
        "unsqueeze_copy": "Tensor input, int dim",
        "view_copy": "Tensor input, int[] size | Tensor input, dtype dtype",
        "avg_pool1d": "Tensor input, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, bool ceil_mode=False, "
        "bool count_include_pad=True",
        "addmv_": "Tensor input, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1",
        "can_cast": "dtype from_, dtype to",
        "constant_pad_nd": "Tensor input, int[] pad, Scalar value=0",
        "empty_permuted": "int[] size, int[] physical_layout, *, dtype? dtype=None",
        "fill": "Tensor input, Scalar value | Tensor input, Tensor value",
        "frobenius_norm special.logsumexp": "Tensor input, int[1] dim, bool keepdim=False",
        "index_reduce index_reduce_": "Tensor input, int dim, Tensor index, Tensor source, str reduce, *, bool "
        "include_self=True",
        "native_layer_norm": "Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps",
        "nonzero_static": "Tensor input, *, int size, int fill_value=-1",
        "norm_except_dim": "Tensor v, int pow=2, int dim=0",
        "nuclear_norm": "Tensor input, bool keepdim=False | Tensor input, int[1] dim, bool keepdim=False",
        "renorm renorm_": "Tensor input, Scalar p, int dim, Scalar maxnorm",
        "resize_as_": "Tensor input, Tensor the_template, *, any? memory_format=None",
        "result_type": "Tensor tensor, Tensor other | Tensor tensor, Scalar other | Scalar scalar, Tensor tensor | "
        "Scalar scalar1, Scalar scalar2",
        "logspace": "Tensor start, Tensor end, int steps, float base=10.0, *, dtype? dtype=None | Tensor start, "
        "Scalar end, int steps, float base=10.0, *, dtype? dtype=None | Scalar start, Tensor end, int steps, float "
        "base=10.0, *, dtype? dtype=None | Scalar start, Scalar end, int steps, float base=10.0, *, dtype? "
        "dtype=None",
        "range": "Scalar start, Scalar end, Scalar step=1, *, dtype? dtype=None | Scalar start, Scalar end, *, "
        "dtype? dtype=None",
        "scalar_tensor": "Scalar s, *, dtype? dtype=None",
        "tril_indices triu_indices": "int row, int col, int offset=0, *, dtype? dtype=None",
        "vander": "Tensor x, int? N=None, bool increasing=False",
        "complex": "Tensor real, Tensor imag",
        "polar": "Tensor abs, Tensor angle",
        "channel_shuffle": "Tensor input, int groups",
        "pixel_shuffle": "Tensor input, int upscale_factor",
        "pixel_unshuffle": "Tensor input, int downscale_factor",
        "istft": "Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool "
        "center=True, bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False",
        "cov": "Tensor input, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None",
        "gradient": "Tensor input, *, Scalar? spacing=None, int? dim=None, int edge_order=1 | Tensor input, *, "
        "Scalar spacing, int[] dim, int edge_order=1 | Tensor input, *, int[] dim, int edge_order=1 | Tensor input, "
        "*, any spacing, int? dim=None, int edge_order=1 | Tensor input, *, any spacing, int[] dim, int "
        "edge_order=1 | Tensor input, *, Tensor[] spacing, int? dim=None, int edge_order=1 | Tensor input, *, "
        "Tensor[] spacing, int[] dim, int edge_order=1",
        "histogramdd": "Tensor input, int[] bins, any? range=None, Tensor? weight=None, bool density=False | Tensor "
        "input, int bins, any? range=None, Tensor? weight=None, bool density=False | Tensor input, Tensor[] bins, "
        "any? range=None, Tensor? weight=None, bool density=False",
        "std_mean var_mean": "Tensor input, bool unbiased=True | Tensor input, int[1]? dim, bool unbiased=True, "
        "bool keepdim=False | Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False",
        "orgqr": "Tensor input, Tensor input2",
        "ormqr": "Tensor input, Tensor input2, Tensor input3, bool left=True, bool transpose=False",
        "avg_pool3d": "Tensor input, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, bool ceil_mode=False, "
        "bool count_include_pad=True, int? divisor_override=None",
        "is_pinned pin_memory": "Tensor input, any? device=None",
        "is_set_to": "Tensor input, Tensor tensor",
        "addbmm_ baddbmm_": "Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1",
        "addr_": "Tensor input, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1",
        "linalg.cholesky": "Tensor input, *, bool upper=False",
        "linalg.cholesky_ex": "Tensor input, *, bool upper=False, bool check_errors=False",
        "linalg.cond": "Tensor input, Scalar? p=None | Tensor input, str p",
        "linalg.cross": "Tensor input, Tensor other, *, int dim=-1",
        "linalg.det linalg.inv linalg.slogdet": "Tensor A",
        "linalg.diagonal": "Tensor A, *, int offset=0, int dim1=-2, int dim2=-1",
        "linalg.eigh linalg.eigvalsh": "Tensor input, str UPLO='L'",
        "linalg.householder_product householder_product": "Tensor input, Tensor tau",
        "linalg.inv_ex": "Tensor A, *, bool check_errors=False",
        "linalg.ldl_factor": "Tensor input, *, bool hermitian=False",
        "linalg.ldl_factor_ex": "Tensor input, *, bool hermitian=False, bool check_errors=False",
        "linalg.ldl_solve": "Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False",
        "linalg.lstsq": "Tensor input, Tensor b, float? rcond=None, *, str? driver=None",
        "linalg.lu linalg.lu_factor": "Tensor A, *, bool pivot=True",
        "linalg.lu_factor_ex": "Tensor A, *, bool pivot=True, bool check_errors=False",
        "linalg.lu_solve": "Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False",
        "linalg.matrix_norm": "Tensor input, Scalar ord, int[] dim=(-2, -1), bool keepdim=False, *, dtype? "
        "dtype=None | Tensor input, str ord='fro', int[] dim=(-2, -1), bool keepdim=False, *, dtype? dtype=None",
        "linalg.matrix_power": "Tensor input, int n",
        "linalg.matrix_rank": "Tensor input, float tol, bool hermitian=False | Tensor input, Tensor tol, bool "
        "hermitian=False | Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False | Tensor "
        "input, *, float? atol=None, float? rtol=None, bool hermitian=False",
        "linalg.multi_dot": "Tensor[] tensors",
        "linalg.norm": "Tensor input, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None "
        "| Tensor input, str ord, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None",
        "linalg.pinv": "Tensor input, float rcond, bool hermitian=False | Tensor input, *, float? atol=None, float? "
        "rtol=None, bool hermitian=False | Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool "
        "hermitian=False | Tensor input, Tensor rcond, bool hermitian=False",
        "linalg.qr": "Tensor A, str mode='reduced'",
        "linalg.solve": "Tensor A, Tensor B, *, bool left=True",
        "linalg.solve_ex": "Tensor A, Tensor B, *, bool left=True, bool check_errors=False",
        "linalg.solve_triangular": "Tensor input, Tensor B, *, bool upper, bool left=True, bool unitriangular=False",
        "linalg.svd": "Tensor A, bool full_matrices=True, *, str? driver=None",
        "linalg.svdvals": "Tensor A, *, str? driver=None",
        "linalg.tensorinv": "Tensor input, int ind=2",
        "linalg.tensorsolve": "Tensor input, Tensor other, int[]? dims=None",
        "linalg.vander": "Tensor x, *, int? N=None",
        "linalg.vecdot": "Tensor x, Tensor y, *, int dim=-1",
        "linalg.vector_norm": "Tensor input, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, dtype? "
        "dtype=None",
        "special.airy_ai special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1 "
        "special.spherical_bessel_j0": "Tensor x",
        "special.chebyshev_polynomial_t special.chebyshev_polynomial_u special.chebyshev_polynomial_v "
        "special.chebyshev_polynomial_w special.hermite_polynomial_h special.hermite_polynomial_he "
        "special.laguerre_polynomial_l special.legendre_polynomial_p special.shifted_chebyshev_polynomial_t "
        "special.shifted_chebyshev_polynomial_u special.shifted_chebyshev_polynomial_v "
        "special.shifted_chebyshev_polynomial_w": "Tensor x, Tensor n | Tensor x, Scalar n | Scalar x, Tensor n",
        "special.log_softmax": "Tensor input, int dim, *, dtype? dtype=None",
        "special.logit": "Tensor input, float? eps=None",
        "special.polygamma": "int n, Tensor input",
        "special.round": "Tensor input, *, int decimals=0",
        "special.softmax": "Tensor input, int dim, dtype? dtype=None",
        "special.xlog1py special.xlogy special.zeta": "Tensor input, Tensor other | Tensor input, Scalar other | "
        "Scalar input, Tensor other",
        "cdist": "Tensor x1, Tensor x2, float p=2.0, any compute_mode='use_mm_for_euclid_dist_if_necessary'",
        "stft": "Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, any "
        "center=True, any pad_mode='reflect', bool normalized=False, bool? onesided=None, bool? "
        "return_complex=None, bool? align_to_window=None",
        "lu": "Tensor input, bool pivot=True, any get_infos=False",
        "pca_lowrank": "Tensor input, int? q=None, any center=True, int niter=2",
        "svd_lowrank": "Tensor input, int? q=6, int? niter=2, Tensor? M=None",
        "adaptive_avg_pool2d adaptive_avg_pool3d": "Tensor input, any output_size",
        "adaptive_max_pool1d adaptive_max_pool1d_with_indices": "Tensor input, int[1] output_size, any "
        "return_indices=False",
        "max_pool1d max_pool1d_with_indices max_pool3d": "Tensor input, int[1] kernel_size, int[1]? stride=None, "
        "int[1] padding=0, int[1] dilation=1, bool ceil_mode=False, any return_indices=False",
        "group_norm": "Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05",
        "instance_norm": "Tensor input, Tensor? running_mean=None, Tensor? running_var=None, Tensor? weight=None, "
        "Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float eps=1e-05",
        "ctc_loss": "Tensor log_probs, Tensor targets, any input_lengths, any target_lengths, int blank=0, any "
        "reduction='mean', bool zero_infinity=False",
        "embedding_bag": "Tensor input, Tensor weight, Tensor? offsets=None, float? max_norm=None, float "
        "norm_type=2, bool scale_grad_by_freq=False, any mode='mean', bool sparse=False, Tensor? "
        "per_sample_weights=None, bool include_last_offset=False, int? padding_idx=None",
        "adaptive_max_pool2d adaptive_max_pool2d_with_indices adaptive_max_pool3d adaptive_max_pool3d_with_indices": ""
        "Tensor input, any output_size, any return_indices=False",
        "max_pool2d_with_indices max_pool3d_with_indices": "Tensor input, int[1] kernel_size, int[1]? stride=None, "
        "int[1] padding=0, int[1] dilation=1, bool ceil_mode=False, any return_indices=False",
        "max_unpool1d max_unpool2d max_unpool3d": "Tensor input, Tensor indices, any kernel_size, any stride=None, "
        "any padding=0, any output_size=None",
        "lp_pool1d lp_pool2d lp_pool3d": "Tensor input, float norm_type, any kernel_size, any stride=None, bool "
        "ceil_mode=False",
        "fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d "
        "fractional_max_pool3d_with_indices": "Tensor input, any kernel_size, any output_size=None, any "
        "output_ratio=None, any return_indices=False, Tensor? _random_samples=None",
        "upsample": "Tensor input, any size=None, any scale_factor=None, any mode='nearest', any align_corners=None",
        "interpolate": "Tensor input, any size=None, any scale_factor=None, any mode='nearest', any "
        "align_corners=None, any recompute_scale_factor=None, any antialias=False",
        "upsample_nearest upsample_bilinear": "Tensor input, any size=None, any scale_factor=None",
        "fold": "Tensor input, int[1] output_size, int[1] kernel_size, int[1] dilation=1, int[1] padding=0, int[1] "
        "stride=1",
        "unfold": "Tensor input, int[1] kernel_size, int[1] dilation=1, int[1] padding=0, int[1] stride=1",
        "affine_grid": "Tensor theta, int[] size, bool? align_corners=None",
        "grid_sample": "Tensor input, Tensor grid, any mode='bilinear', any padding_mode='zeros', bool? "
        "align_corners=None",
        "local_response_norm": "Tensor input, int size, float alpha=0.0001, float beta=0.75, float k=1.0",
        "cosine_embedding_loss": "Tensor input1, Tensor input2, Tensor target, float margin=0, any "
        "size_average=None, any reduce=None, str reduction='mean'",
        "margin_ranking_loss": "Tensor input1, Tensor input2, Tensor target, float margin=0, any size_average=None, "
        "any reduce=None, str reduction='mean'",
        "hinge_embedding_loss": "Tensor input, Tensor target, float margin=1.0, any size_average=None, any "
        "reduce=None, str reduction='mean'",
        "multilabel_margin_loss soft_margin_loss": "Tensor input, Tensor target, any size_average=None, any "
        "reduce=None, str reduction='mean'",
        "multilabel_soft_margin_loss": "Tensor input, Tensor target, Tensor? weight=None, any size_average=None, "
        "any reduce=None, str reduction='mean'",
        "multi_margin_loss": "Tensor input, Tensor target, Scalar p=1, Scalar margin=1.0, Tensor? weight=None, any "
        "size_average=None, any reduce=None, str reduction='mean'",
        "triplet_margin_loss": "Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2, float "
        "eps=1e-06, bool swap=False, any size_average=None, any reduce=None, str reduction='mean'",
        "poisson_nll_loss": "Tensor input, Tensor target, bool log_input=True, bool full=False, any "
        "size_average=None, float eps=1e-08, any reduce=None, str reduction='mean'",
        "gaussian_nll_loss": "Tensor input, Tensor target, Tensor|Scalar var, any full=False, float eps=1e-06, str "
        "reduction='mean'",
    }.items()
    for name in names.split()
}
