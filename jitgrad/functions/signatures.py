"""What the public functions accept: PyTorch's signatures, in its notation.

Owns: ``SIGNATURES``: per function, its overloads (`` | `` between them). ``*size`` may also be several ints;
``...``: the function tells its forms apart itself.
Must not know: what the functions do. How calls are matched is in ``_parse``; Note [Argument parsing].

The first parameter of a method is the tensor itself. After a change here run ``python -m tools.signatures``.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["MAKES_FROM_NOTHING", "NOT_PARSED", "SIGNATURES", "TAKES_OUT", "options_of"]

_MAKES = frozenset({"device", "dtype", "requires_grad"})


def options_of(name: str, parameters: Iterable[str]) -> frozenset[str]:
    """What a function that makes a new tensor takes besides its parameters: ``making_options`` looks at these."""
    own = frozenset(parameters)
    takes_format = name.endswith("_like") or name == "empty"
    options = frozenset({"layout", "pin_memory", "memory_format"} if takes_format else {"layout", "pin_memory"})
    return options - own if own >= _MAKES else frozenset()


def _rows(table: dict[str, str]) -> dict[str, str]:
    """One entry per name; a row of the table holds the names of all functions with one signature."""
    return {name: text for names, text in table.items() for name in names.split()}


NOT_PARSED = frozenset({"as_tensor", "from_numpy", "tensor", "to"})
"""Functions without a signature. Three take any data and nothing overrides them, as in PyTorch; ``to`` looks itself."""

MAKES_FROM_NOTHING = frozenset("arange empty eye full linspace ones rand randint randn randperm zeros".split())
"""Functions that make a tensor in the dtype that ``out=`` has."""

TAKES_OUT = MAKES_FROM_NOTHING | frozenset(
    (
        "abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr all amax amin aminmax any arccos arccosh "
        "arcsin arcsinh arctan arctan2 arctanh argmax argmin argsort asin asinh atan atan2 atanh baddbmm bernoulli "
        "bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor bmm bucketize cat ceil "
        "chain_matmul cholesky cholesky_inverse cholesky_solve clamp clamp_max clamp_min clip column_stack concat "
        "concatenate copysign cos cosh cross cummax cummin cumprod cumsum deg2rad diag diff digamma div divide dot "
        "dstack eq erf erfc erfinv exp exp2 expm1 fix float_power floor floor_divide fmax fmin fmod frac gather gcd "
        "ge ger greater greater_equal gt hardshrink hardsigmoid hardtanh heaviside histc histogram hstack hypot i0 "
        "index_add index_copy index_select inner inverse isin isneginf isposinf kron kthvalue lcm ldexp le leaky_relu "
        "lerp less less_equal lgamma log log10 log1p log2 log_softmax logaddexp logaddexp2 logcumsumexp logical_and "
        "logical_not logical_or logical_xor logit logsumexp lt lu_solve lu_unpack masked_select matmul matrix_power "
        "max maximum mean median min minimum mm mode msort mul multinomial multiply mv nan_to_num nanmean nanmedian "
        "nanquantile nansum ne neg negative nextafter nonzero normal not_equal outer polygamma pow prod qr quantile "
        "rad2deg reciprocal remainder round row_stack rsqrt scatter scatter_add scatter_reduce searchsorted sgn "
        "sigmoid sign signbit sin sinc sinh slice_scatter slogdet softmax sort sqrt square stack std sub subtract sum "
        "svd take take_along_dim tan tanh threshold topk triangular_solve tril triu true_divide trunc var vdot vstack "
        "where xlogy avg_pool2d gelu linear logsigmoid norm normalize softplus softshrink vector_norm"
    ).split()
)
"""Functions with ``out=``."""

_MAKING = "dtype? dtype=None, any device=None, bool requires_grad=False"

_DRAWING = f"any generator=None, {_MAKING}"

SIGNATURES: dict[str, str] = _rows(
    {
        "abs absolute acos arccos arcsin arctan asin atan bitwise_not ceil cos cosh erf exp exp2 expm1 floor isfinite "
        "isinf isnan log log10 log1p log2 logical_not neg negative reciprocal relu rsqrt sigmoid sign sin sinh sqrt "
        "square tan tanh trunc abs_ acos_ asin_ atan_ bitwise_not_ ceil_ cos_ cosh_ erf_ exp_ exp2_ expm1_ floor_ "
        "log_ log10_ log1p_ log2_ logical_not_ neg_ reciprocal_ relu_ rsqrt_ sigmoid_ sign_ sin_ sinh_ sqrt_ square_ "
        "tan_ tanh_ trunc_ argwhere cpu detach detach_ get_device ravel "
        "storage t t_ trace untyped_storage zero_": "Tensor input",
        "bfloat16 bool byte cdouble cfloat char half int long short": "Tensor input, *, any memory_format=None",
        "digamma erfinv lgamma digamma_ erfinv_ lgamma_ acosh asinh atanh arccosh arcsinh arctanh erfc sinc rad2deg "
        "deg2rad frac fix positive sgn signbit isposinf isneginf isreal i0 acosh_ asinh_ atanh_ arccosh_ arcsinh_ "
        "arctanh_ erfc_ sinc_ rad2deg_ deg2rad_ frac_ fix_ sgn_ i0_ absolute_ negative_ arccos_ arcsin_ "
        "arctan_": "Tensor input",
        "hypot fmax fmin logaddexp2 ldexp gcd lcm nextafter hypot_ ldexp_ gcd_ lcm_ nextafter_ "
        "is_same_size": "Tensor input, Tensor other",
        "copysign copysign_ xlogy_ bitwise_left_shift_ bitwise_right_shift_": "Tensor input, Tensor|Scalar other",
        "xlogy bitwise_left_shift bitwise_right_shift": "Tensor input, Tensor|Scalar other | Scalar input, "
        "Tensor other",
        "heaviside heaviside_": "Tensor input, Tensor values",
        "float_power": "Tensor input, Tensor|Scalar exponent | Scalar input, Tensor exponent",
        "float_power_": "Tensor input, Tensor|Scalar exponent",
        "is_complex is_floating_point is_nonzero is_signed": "Tensor input",
        "logit logit_": "Tensor input, float? eps=None",
        "nan_to_num nan_to_num_": "Tensor input, float? nan=None, float? posinf=None, float? neginf=None",
        "polygamma_": "Tensor input, int n",
        "polygamma_method": "Tensor self, int n",
        "hardshrink softshrink": "Tensor input, Scalar lambd=0.5",
        "threshold": "Tensor input, Scalar threshold, Scalar value, any inplace=False",
        "prelu": "Tensor input, Tensor weight",
        "functional_relu": "Tensor input, any inplace=False",
        "mul multiply floor_divide mul_ multiply_ floor_divide_": "Tensor|Scalar input, Tensor|Scalar other",
        "eq ne lt le gt ge fmod greater greater_equal less less_equal not_equal eq_ ne_ lt_ le_ gt_ ge_ remainder_ "
        "fmod_ bitwise_and_ bitwise_or_ bitwise_xor_ greater_ greater_equal_ less_ less_equal_ "
        "not_equal_": "Tensor input, Tensor|Scalar other",
        "remainder bitwise_and bitwise_or bitwise_xor": "Tensor input, Tensor|Scalar other | Scalar input, "
        "Tensor other",
        "atan2 logaddexp logical_and logical_or logical_xor maximum minimum arctan2 atan2_ logical_and_ logical_or_ "
        "arctan2_ logical_xor_ equal expand_as view_as reshape_as type_as": "Tensor input, Tensor other",
        "add sub subtract add_ sub_ subtract_": "Tensor|Scalar input, Tensor|Scalar other, *, Scalar alpha=1",
        "rsub": "Tensor input, Tensor|Scalar other, *, Scalar alpha=1 | Tensor input, Scalar other, Scalar alpha=1",
        "div divide true_divide div_ divide_ true_divide_": "Tensor|Scalar input, Tensor|Scalar other | "
        "Tensor|Scalar input, Tensor|Scalar other, *, str? rounding_mode",
        "pow": "Tensor input, Tensor|Scalar exponent | Scalar input, Tensor exponent",
        "pow_": "Tensor input, Tensor|Scalar exponent",
        "polygamma": "int n, Tensor input",
        "clamp clip clamp_ clip_": "Tensor input, Tensor? min=None, Tensor? max=None | Tensor input, "
        "Scalar? min=None, Scalar? max=None",
        "clamp_min clamp_min_": "Tensor input, Tensor|Scalar min",
        "clamp_max clamp_max_": "Tensor input, Tensor|Scalar max",
        "lerp lerp_": "Tensor input, Tensor end, Tensor|Scalar weight",
        "addcmul addcdiv addcmul_ addcdiv_": "Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1",
        "round round_": "Tensor input | Tensor input, *, int decimals",
        "isclose allclose": "Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False",
        "sum mean": "Tensor input, *, dtype? dtype=None | Tensor input, int[1]? dim, bool keepdim=False, *, "
        "dtype? dtype=None",
        "prod": "Tensor input, *, dtype? dtype=None | Tensor input, int dim, bool keepdim=False, *, dtype? dtype=None",
        "amax amin": "Tensor input, int[1]? dim=(), bool keepdim=False",
        "var std": "Tensor input, int[1]? dim, bool unbiased, bool keepdim=False | Tensor input, int[1]? dim=None, *, "
        "Scalar? correction=None, bool keepdim=False | Tensor input, bool unbiased | Tensor input, int[1]? dim, "
        "bool unbiased=True, bool keepdim=False",
        "max min": "Tensor input, Tensor other | Tensor input | Tensor input, int dim, bool keepdim=False",
        "argmax argmin": "Tensor input, int? dim=None, bool keepdim=False",
        "any all": "Tensor input | Tensor input, int[1]? dim=None, bool keepdim=False",
        "count_nonzero": "Tensor input, int? dim=None | Tensor input, int[1] dim",
        "cummax cummin logcumsumexp": "Tensor input, int dim",
        "cumsum cumprod cumsum_ cumprod_": "Tensor input, int dim, *, dtype? dtype=None",
        "sort": "Tensor input, int dim=-1, bool descending=False, *, bool? stable=None",
        "argsort": "Tensor input, int dim=-1, bool descending=False, *, bool stable=False",
        "msort": "Tensor input",
        "topk": "Tensor input, int k, int dim=-1, bool largest=True, bool sorted=True",
        "kthvalue": "Tensor input, int k, int dim=-1, bool keepdim=False",
        "median nanmedian": "Tensor input | Tensor input, int dim, bool keepdim=False",
        "mode": "Tensor input, int dim=-1, bool keepdim=False",
        "quantile nanquantile": "Tensor input, Tensor|Scalar q, int? dim=None, bool keepdim=False, *, "
        "str interpolation='linear'",
        "unique": "Tensor input, bool sorted=True, bool return_inverse=False, bool return_counts=False, int? dim=None",
        "unique_consecutive": "Tensor input, bool return_inverse=False, bool return_counts=False, int? dim=None",
        "searchsorted": "Tensor sorted_sequence, Tensor|Scalar input, *, bool out_int32=False, bool right=False, "
        "str? side=None, Tensor? sorter=None",
        "bucketize": "Tensor|Scalar input, Tensor boundaries, *, bool out_int32=False, bool right=False",
        "isin": "Tensor elements, Tensor|Scalar test_elements, *, bool assume_unique=False, bool invert=False | "
        "Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False | Scalar element, "
        "Tensor test_elements, *, bool assume_unique=False, bool invert=False",
        "bincount": "Tensor input, Tensor? weights=None, int minlength=0",
        "histc": "Tensor input, int bins=100, Scalar min=0, Scalar max=0",
        "histogram": "Tensor input, Tensor bins, *, Tensor? weight=None, bool density=False | Tensor input, "
        "int bins=100, *, any range=None, Tensor? weight=None, bool density=False",
        "logsumexp": "Tensor input, int[1] dim, bool keepdim=False",
        "softmax log_softmax": "Tensor input, int dim, dtype? dtype=None",
        "flatten": "Tensor input, int start_dim=0, int end_dim=-1",
        "reshape": "Tensor input, int[] *shape",
        "view": "Tensor input, int[] *size | Tensor input, dtype dtype",
        "expand": "Tensor input, int[] *size",
        "permute": "Tensor input, int[] *dims",
        "flip": "Tensor input, int[] *dims",
        "repeat": "Tensor input, int[] *repeats",
        "tile": "Tensor input, int[] *dims",
        "resize_": "Tensor input, int[] *size",
        "broadcast_to": "Tensor input, int[] size",
        "transpose swapdims transpose_ swapdims_": "Tensor input, int dim0, int dim1",
        "swapaxes swapaxes_": "Tensor input, int axis0, int axis1",
        "movedim moveaxis": "Tensor input, int source, int destination | Tensor input, int[] source, "
        "int[] destination",
        "squeeze squeeze_": "Tensor input | Tensor input, int[1] dim",
        "unsqueeze unsqueeze_": "Tensor input, int dim",
        "unbind": "Tensor input, int dim=0",
        "select": "Tensor input, int dim, int index",
        "narrow": "Tensor input, int dim, Tensor start, int length | Tensor input, int dim, int start, int length",
        "chunk unsafe_chunk": "Tensor input, int chunks, int dim=0",
        "unsafe_split": "Tensor input, int split_size, int dim=0",
        "tensor_split": "Tensor input, Tensor tensor_indices_or_sections, int dim=0 | Tensor input, int sections, "
        "int dim=0 | Tensor input, int[] indices, int dim=0",
        "diagonal": "Tensor input, int offset=0, int dim1=0, int dim2=1",
        "diagonal_scatter": "Tensor input, Tensor src, int offset=0, int dim1=0, int dim2=1",
        "select_scatter": "Tensor input, Tensor src, int dim, int index",
        "slice_scatter": "Tensor input, Tensor src, int dim=0, int? start=None, int? end=None, int step=1",
        "as_strided": "Tensor input, int[] size, int[] stride, int? storage_offset=None",
        "as_strided_scatter": "Tensor input, Tensor src, int[] size, int[] stride, int? storage_offset=None",
        "unflatten": "Tensor input, int dim, any sizes",
        "norm": "Tensor input, any p='fro', int[1]? dim=None, bool keepdim=False, dtype? dtype=None",
        "unfold": "Tensor input, int dimension, int size, int step",
        "roll": "Tensor input, int[1] shifts, int[1]? dims=()",
        "repeat_interleave": "Tensor input, Tensor repeats, int? dim=None, *, int? output_size=None | Tensor input, "
        "int repeats, int? dim=None, *, int? output_size=None",
        "matmul": "Tensor input, Tensor other",
        "mm bmm": "Tensor input, Tensor mat2",
        "det slogdet logdet inverse matrix_exp": "Tensor input",
        "pinverse": "Tensor input, float rcond=1e-15",
        "matrix_power": "Tensor input, int n",
        "chain_matmul": "...",
        "cross": "Tensor input, Tensor other, int? dim=None",
        "svd": "Tensor input, bool some=True, bool compute_uv=True",
        "qr": "Tensor input, bool some=True",
        "cholesky cholesky_inverse": "Tensor input, bool upper=False",
        "cholesky_solve": "Tensor input, Tensor input2, bool upper=False",
        "triangular_solve": "Tensor input, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False",
        "lu_solve": "Tensor input, Tensor LU_data, Tensor LU_pivots",
        "lu_unpack": "Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True",
        "mv": "Tensor input, Tensor vec",
        "dot": "Tensor input, Tensor tensor",
        "outer": "Tensor input, Tensor vec2",
        "addmm": "Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1",
        "index_select": "Tensor input, int dim, Tensor index",
        "gather": "Tensor input, int dim, Tensor index, *, bool sparse_grad=False",
        "take_along_dim": "Tensor input, Tensor indices, int? dim=None",
        "scatter_add scatter_add_": "Tensor input, int dim, Tensor index, Tensor src",
        "index_add index_add_": "Tensor input, int dim, Tensor index, Tensor source, *, Scalar alpha=1",
        "index_copy index_copy_": "Tensor input, int dim, Tensor index, Tensor source",
        "index_fill index_fill_": "Tensor input, int dim, Tensor index, Tensor|Scalar value",
        "index_put index_put_": "Tensor input, Tensor[] indices, Tensor values, bool accumulate=False",
        "masked_fill masked_fill_": "Tensor input, Tensor mask, Tensor|Scalar value",
        "masked_select": "Tensor input, Tensor mask",
        "masked_scatter masked_scatter_": "Tensor input, Tensor mask, Tensor source",
        "tril triu tril_ triu_": "Tensor input, int diagonal=0",
        "scatter scatter_": "Tensor input, int dim, Tensor index, Tensor src | Tensor input, int dim, Tensor index, "
        "Tensor src, *, str reduce | Tensor input, int dim, Tensor index, Scalar value | Tensor input, int dim, "
        "Tensor index, Scalar value, *, str reduce",
        "put put_": "Tensor input, Tensor index, Tensor source, bool accumulate=False",
        "take": "Tensor input, Tensor index",
        "scatter_reduce scatter_reduce_": "Tensor input, int dim, Tensor index, Tensor src, str reduce, *, "
        "bool include_self=True",
        "copy_": "Tensor input, Tensor|Scalar src, bool non_blocking=False | Tensor input, Tensor|Scalar other, "
        "bool non_blocking=False",
        "fill_": "Tensor input, Tensor|Scalar value",
        "cat concat concatenate stack": "Tensor[] tensors, int dim=0",
        "hstack vstack dstack column_stack row_stack": "Tensor[] tensors",
        "inner vdot": "Tensor input, Tensor other",
        "ger": "Tensor input, Tensor vec2",
        "addmv": "Tensor input, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1",
        "addr": "Tensor input, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1",
        "addbmm baddbmm": "Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, "
        "Scalar alpha=1",
        "dist": "Tensor input, Tensor other, Scalar p=2",
        "aminmax": "Tensor input, *, int? dim=None, bool keepdim=False",
        "nansum nanmean": "Tensor input, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None",
        "diff": "Tensor input, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None",
        "trapezoid trapz cumulative_trapezoid": "Tensor y, Tensor x, *, int dim=-1 | Tensor y, *, Scalar dx=1, "
        "int dim=-1",
        "addmm_": "Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1",
        "fill_diagonal_": "Tensor input, Scalar fill_value, bool wrap=False",
        "adjoint fliplr flipud": "Tensor input",
        "hsplit vsplit dsplit": "Tensor input, int sections | Tensor input, int[] indices",
        "split_with_sizes": "Tensor input, int[] split_sizes, int dim=0",
        "rot90": "Tensor input, int k=1, int[] dims=()",
        "diag": "Tensor input, int diagonal=0",
        "diag_embed": "Tensor input, int offset=0, int dim1=-2, int dim2=-1",
        "diagflat": "Tensor input, int offset=0",
        "kron": "Tensor input, Tensor other",
        "combinations": "Tensor input, int r=2, bool with_replacement=False",
        "sum_to_size": "Tensor input, int[] *size",
        "full": f"int[] size, Scalar fill_value, *, {_MAKING}",
        "zeros ones empty": f"int[] *size, *, {_MAKING}",
        "new_zeros new_ones new_empty": f"Tensor input, int[] *size, *, {_MAKING}",
        "new_full": f"Tensor input, int[] size, Scalar fill_value, *, {_MAKING}",
        "zeros_like ones_like empty_like": f"Tensor input, *, {_MAKING}, any memory_format=None",
        "clone": "Tensor input, *, any memory_format=None",
        "contiguous is_contiguous": "Tensor input, *, any memory_format=None",
        "empty_strided": f"int[] size, int[] stride, *, {_MAKING}",
        "new_empty_strided": f"Tensor input, int[] size, int[] stride, *, {_MAKING}",
        "full_like": f"Tensor input, Scalar fill_value, *, {_MAKING}, any memory_format=None",
        "arange": f"Scalar end, *, {_MAKING} | Scalar start, Scalar end, Scalar step=1, *, {_MAKING}",
        "eye": f"int n, *, {_MAKING} | int n, int m, *, {_MAKING}",
        "linspace": f"Tensor|Scalar start, Tensor|Scalar end, int steps, *, {_MAKING}",
        "gelu": "Tensor input, str approximate='none'",
        "silu mish hardswish hardsigmoid relu6 selu": "Tensor input, any inplace=False",
        "logsigmoid softsign tanhshrink": "Tensor input",
        "elu celu": "Tensor input, Scalar alpha=1.0, any inplace=False",
        "elu_ celu_": "Tensor input, Scalar alpha=1.0",
        "selu_": "Tensor input",
        "leaky_relu_": "Tensor input, Scalar negative_slope=0.01",
        "hardtanh_": "Tensor input, Scalar min_val=-1.0, Scalar max_val=1.0",
        "threshold_": "Tensor input, Scalar threshold, Scalar value",
        "rrelu_": "Tensor input, float lower=0.125, float upper=0.3333333333333333, bool training=False",
        "leaky_relu": "Tensor input, Scalar negative_slope=0.01, any inplace=False",
        "hardtanh": "Tensor input, Scalar min_val=-1.0, Scalar max_val=1.0, any inplace=False",
        "softplus": "Tensor input, Scalar beta=1.0, Scalar threshold=20.0",
        "glu": "Tensor input, int dim=-1",
        "softmin": "Tensor input, int dim, dtype? dtype=None",
        "dropout dropout1d dropout2d dropout3d": "Tensor input, float p=0.5, bool training=True, any inplace=False",
        "alpha_dropout feature_alpha_dropout": "Tensor input, float p=0.5, bool training=False, any inplace=False",
        "rrelu": "Tensor input, float lower=0.125, float upper=0.3333333333333333, bool training=False, "
        "any inplace=False",
        "gumbel_softmax": "Tensor logits, float tau=1, bool hard=False, float eps=1e-10, int dim=-1",
        "linear": "Tensor input, Tensor weight, Tensor? bias=None",
        "embedding": "Tensor input, Tensor weight, int? padding_idx=None, float? max_norm=None, "
        "float norm_type=2.0, bool scale_grad_by_freq=False, bool sparse=False",
        "one_hot": "Tensor tensor, int num_classes=-1",
        "layer_norm": "Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05",
        "rms_norm": "Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None",
        "batch_norm": "Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, "
        "Tensor? bias=None, bool training=False, float momentum=0.1, float eps=1e-05",
        "normalize": "Tensor input, any p=2.0, int[1] dim=1, float eps=1e-12",
        "pad": "Tensor input, int[] pad, str mode='constant', Scalar? value=None",
        "conv2d": "Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, "
        "int[1] dilation=1, int groups=1 | Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, "
        "str padding='valid', int[1] dilation=1, int groups=1",
        "max_pool2d": "Tensor input, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, int[1] dilation=1, "
        "bool ceil_mode=False, bool return_indices=False",
        "avg_pool2d": "Tensor input, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, "
        "bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None",
        "scaled_dot_product_attention": "Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
        "float dropout_p=0.0, bool is_causal=False, float? scale=None, bool enable_gqa=False",
        "mse_loss l1_loss": "Tensor input, Tensor target, any size_average=None, any reduce=None, "
        "any reduction='mean', Tensor? weight=None",
        "smooth_l1_loss": "Tensor input, Tensor target, any size_average=None, any reduce=None, "
        "any reduction='mean', float beta=1.0",
        "huber_loss": "Tensor input, Tensor target, any reduction='mean', float delta=1.0, Tensor? weight=None",
        "kl_div": "Tensor input, Tensor target, any size_average=None, any reduce=None, any reduction='mean', "
        "bool log_target=False",
        "binary_cross_entropy": "Tensor input, Tensor target, Tensor? weight=None, any size_average=None, "
        "any reduce=None, any reduction='mean'",
        "binary_cross_entropy_with_logits": "Tensor input, Tensor target, Tensor? weight=None, any size_average=None, "
        "any reduce=None, any reduction='mean', Tensor? pos_weight=None",
        "nll_loss": "Tensor input, Tensor target, Tensor? weight=None, any size_average=None, int ignore_index=-100, "
        "any reduce=None, any reduction='mean'",
        "cross_entropy": "Tensor input, Tensor target, Tensor? weight=None, any size_average=None, "
        "int ignore_index=-100, any reduce=None, any reduction='mean', float label_smoothing=0.0",
        "nonzero": "Tensor input, *, bool as_tuple=False",
        "vector_norm": "Tensor x, any ord=2, any dim=None, any keepdim=False, *, dtype? dtype=None",
        "split": "Tensor tensor, any split_size_or_sections, int dim=0",
        "split_method": "Tensor input, any split_size, int dim=0",
        "record_stream": "Tensor input, any stream",
        "vcpu": "Tensor input, any device=None",
        "cuda": "Tensor input, any device=None, bool non_blocking=False, any memory_format=None",
        "set_": "Tensor input, any source=None, int? storage_offset=None, int[]? size=None, int[]? stride=None",
        "new_tensor": "Tensor input, any data, *, dtype? dtype=None, any device=None, bool requires_grad=False",
        "rand randn": f"int[] *size, *, {_DRAWING}",
        "rand_like randn_like": f"Tensor input, *, {_DRAWING}",
        "randint_like": f"Tensor input, int high, *, {_DRAWING} | Tensor input, int low, int high, *, {_DRAWING}",
        "randperm": f"int n, *, {_DRAWING}",
        "normal": "Tensor mean, Tensor std, *, any generator=None | Tensor mean, float std=1.0, *, any generator=None "
        "| float mean, Tensor std, *, any generator=None | float mean, float std, int[] size, *, "
        f"{_DRAWING}, any layout=None, bool pin_memory=False",
        "bernoulli": "Tensor input, *, any generator=None | Tensor input, float p, *, any generator=None",
        "multinomial": "Tensor input, int num_samples, bool replacement=False, *, any generator=None",
        "poisson": "Tensor input, any generator=None",
        "uniform_": "Tensor input, float from=0.0, float to=1.0, *, any generator=None",
        "normal_": "Tensor input, float mean=0.0, float std=1.0, *, any generator=None",
        "bernoulli_": "Tensor input, Tensor p, *, any generator=None | Tensor input, float p=0.5, *, "
        "any generator=None",
        "random_": "Tensor input, *, any generator=None | Tensor input, int to, *, any generator=None | "
        "Tensor input, int from, int? to, *, any generator=None",
        "exponential_": "Tensor input, float lambd=1.0, *, any generator=None",
        "geometric_": "Tensor input, float p, *, any generator=None",
        "cauchy_": "Tensor input, float median=0.0, float sigma=1.0, *, any generator=None",
        "log_normal_": "Tensor input, float mean=1.0, float std=2.0, *, any generator=None",
        "einsum meshgrid randint atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors "
        "cartesian_prod": "...",
        "where_method": "Tensor self, Tensor condition, Tensor|Scalar other",
        "where": "Tensor condition | Tensor condition, Tensor|Scalar input, Tensor|Scalar other",
    }
)
