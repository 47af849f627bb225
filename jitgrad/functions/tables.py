"""Which functions are public, which are methods: the bare functions, which do not look at their arguments.

Owns: ``PUBLIC``, ``METHODS``, ``PROPERTIES``, ``INPLACE_METHODS``, ``LAYERS``: bare functions by public name; ``LATE``
and ``LATE_METHODS``: those that are imported when they are first used (Note [Lazy modules]).
Must not know: signatures. What users call are the functions of ``_generated``, made from these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.functions import (
    activation,
    creation,
    devices,
    dropouts,
    einstein,
    from_data,
    indexing,
    inplace,
    joining,
    layers,
    linalg,
    losses,
    ordering,
    pointwise,
    reduction,
    sampling,
    scattering,
    views,
)
from jitgrad.functions.indexing import INPLACE_INDEXING
from jitgrad.functions.inplace_views import INPLACE_VIEWS
from jitgrad.functions.replacing import REPLACING_METHODS
from jitgrad.functions.scattering import INPLACE_SCATTERING
from jitgrad.lazy import LazyModule
from jitgrad.ops.table import OPS

__all__ = ["INPLACE_METHODS", "LATE", "LATE_METHODS", "LAYERS", "METHODS", "OPERATORS", "PROPERTIES", "PUBLIC"]

_MODULES = (
    activation,
    creation,
    dropouts,
    einstein,
    from_data,
    indexing,
    joining,
    layers,
    linalg,
    losses,
    ordering,
    pointwise,
    reduction,
    sampling,
    scattering,
    views,
)

_METHOD_NAMES = {
    pointwise: (
        "exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh sigmoid "
        "erf relu abs neg sign floor ceil trunc round isnan isinf isfinite logical_not bitwise_not mul maximum minimum "
        "remainder fmod floor_divide atan2 logaddexp eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and "
        "bitwise_or bitwise_xor add sub div pow square clamp clamp_min clamp_max clip lerp addcmul addcdiv isclose "
        "absolute negative subtract multiply divide true_divide greater greater_equal less less_equal not_equal arccos "
        "arcsin arctan arctan2 lgamma digamma erfinv acosh asinh atanh arccosh arcsinh arctanh erfc sinc logit rad2deg "
        "deg2rad frac fix positive sgn signbit nan_to_num isposinf isneginf isreal i0 copysign hypot fmax fmin "
        "heaviside nextafter ldexp logaddexp2 xlogy float_power gcd lcm bitwise_left_shift bitwise_right_shift"
    ),
    activation: "hardshrink prelu",
    reduction: (
        "sum mean prod var std amax amin max min argmax argmin any all count_nonzero cumsum cumprod cummax cummin "
        "logcumsumexp logsumexp softmax log_softmax norm aminmax diff nanmean nansum "
        "allclose equal is_complex is_floating_point is_nonzero "
        "is_same_size is_signed"
    ),
    views: (
        "reshape view view_as reshape_as flatten unflatten ravel transpose t permute movedim moveaxis expand expand_as "
        "broadcast_to squeeze unsqueeze select narrow unbind split chunk diagonal unfold as_strided detach flip roll "
        "adjoint repeat repeat_interleave tile swapaxes swapdims tensor_split unsafe_split unsafe_chunk"
    ),
    scattering: (
        "scatter index_copy index_fill masked_scatter put take select_scatter slice_scatter diagonal_scatter "
        "as_strided_scatter scatter_reduce"
    ),
    joining: (
        "diag diag_embed diagflat dsplit fliplr flipud hsplit kron rot90 split_with_sizes sum_to_size vsplit"
    ),
    linalg: (
        "matmul mm bmm mv dot addmm outer trace addbmm addmv addr baddbmm dist ger inner vdot "
        "cholesky cholesky_inverse cholesky_solve cross det inverse logdet lu_solve matrix_exp matrix_power pinverse "
        "qr slogdet svd triangular_solve"
    ),
    indexing: (
        "index_select gather take_along_dim scatter_add index_add index_put masked_fill masked_select nonzero tril "
        "triu argwhere"
    ),
    ordering: (
        "sort argsort msort topk kthvalue median nanmedian mode quantile nanquantile unique unique_consecutive "
        "bincount histc histogram"
    ),
    sampling: "bernoulli multinomial",
    creation: "new_zeros new_ones new_full new_empty new_empty_strided",
    devices: "clone contiguous cpu get_device is_contiguous storage untyped_storage record_stream to type_as vcpu",
}

_CONVERSIONS = ("bfloat16", "bool", "byte", "cdouble", "cfloat", "char", "half", "int", "long", "short")

METHODS: dict[str, Callable[..., Any]] = {
    **{name: getattr(module, name) for module, names in _METHOD_NAMES.items() for name in names.split()},
    **{name: value for name, value in REPLACING_METHODS.items() if not isinstance(value, property)},
    **{name: getattr(devices, f"to_{name}") for name in _CONVERSIONS},
    "cuda": devices.cuda,
    "new_tensor": from_data.new_tensor_method,
    "polygamma": pointwise.polygamma_method,
    "where": pointwise.where_method,
}

_PARTS = LazyModule("jitgrad.functions.real_parts")


def _part(name: str) -> property:
    """The property ``real`` or ``imag``."""

    def get(self: Any) -> Any:
        return getattr(_PARTS, name)(self)

    def write(self: Any, value: Any) -> None:
        getattr(_PARTS, f"set_{name}")(self, value)

    return property(get, write, doc=f"As ``{name}()``; what is assigned is copied into the view.")


def _inplace_operator(name: str) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        return self._inplace_binary(OPS[name], other)

    method.__doc__ = f"In-place ``{name}``."
    return method


OPERATORS: dict[str, Callable[..., Any]] = {
    "__iand__": _inplace_operator("bitwise_and"),
    "__ifloordiv__": _inplace_operator("floor_divide"),
    "__ilshift__": _inplace_operator("bitwise_left_shift"),
    "__imod__": _inplace_operator("remainder"),
    "__ior__": _inplace_operator("bitwise_or"),
    "__irshift__": _inplace_operator("bitwise_right_shift"),
    "__ixor__": _inplace_operator("bitwise_xor"),
}
"""In-place operators that few loops use; the others are written into the class."""

PROPERTIES: dict[str, property] = {
    **{name: property(getattr(devices, name)) for name in ("is_cpu", "is_meta", "is_vcpu")},
    **{name: property(devices.is_elsewhere) for name in devices.NOWHERE},
    **{name: value for name, value in REPLACING_METHODS.items() if isinstance(value, property)},
    "real": _part("real"),
    "imag": _part("imag"),
    "T": property(views.reverse_dims, doc="All dimensions in reverse order."),
    "H": property(views.conjugate_transpose, doc="A matrix with its dimensions swapped, conjugated."),
    "mH": property(views.conjugate_matrix_transpose, doc="The last two dimensions swapped, conjugated."),
    "mT": property(views.matrix_transpose, doc="The last two dimensions swapped."),
}

INPLACE_METHODS: dict[str, Any] = {
    **inplace.INPLACE_METHODS,
    **{function.__name__: function for function in (*INPLACE_INDEXING, *INPLACE_SCATTERING)},
    **INPLACE_VIEWS,
}

LAYERS: dict[str, Callable[..., Any]] = {
    "relu": activation.functional_relu,
    **{function.__name__: function for function in (*activation.WRITING, dropouts.rrelu_)},
}
"""Functions of ``nn.functional`` that take other arguments than the public function of their name."""

# what Tensor and its methods use, and users do not
_HIDDEN = frozenset(
    [
        "where_method",
        "polygamma_method",
        "new_tensor_method",
        "new_zeros",
        "new_ones",
        "new_full",
        "new_empty",
        "new_empty_strided",
        "slice_",
        "rounding_op",
        "getitem",
        "setitem",
        "finish",
        "from_array_copy",
        "own_array",
        "reverse_dims",
        "matrix_transpose",
        "conjugate_matrix_transpose",
        "conjugate_transpose",
        "conjugated",
        "ValuesIndices",
        "MinMax",
        "successes",
        "values_of",
        "constant_in",
    ]
)

_PUBLIC = {
    name: getattr(module, name)
    for module in _MODULES
    for name in module.__all__
    if name not in _HIDDEN and callable(getattr(module, name))
}
PUBLIC: dict[str, Callable[..., Any]] = {**_PUBLIC, "clone": devices.clone, "contiguous": devices.contiguous}

_LATE_BY_PLACE = {
    "functions.adaptive": "adaptive_avg_pool1d adaptive_max_pool1d",
    "functions.convolutions": "conv1d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "functions.counts": "binomial",
    "functions.cosine_windows": "bartlett_window blackman_window hamming_window hann_window kaiser_window",
    "functions.distances": "bilinear cdist cosine_similarity pairwise_distance pdist",
    "functions.gamma_products": "igamma igammac mvlgamma",
    "functions.normalizations": "group_norm instance_norm",
    "functions.memory_places": "get_device is_inference",
    "functions.plain_copies": "alias_copy as_strided_copy detach_copy diagonal_copy expand_copy narrow_copy "
    "permute_copy select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy "
    "unbind_copy unfold_copy unsqueeze_copy view_copy",
    "functions.pools": "avg_pool1d max_pool1d max_pool1d_with_indices max_pool3d",
    "functions.products": "addmv_ as_strided_ can_cast constant_pad_nd empty_permuted fill frobenius_norm index_reduce "
    "native_layer_norm nonzero_static norm_except_dim nuclear_norm numel renorm resize_as_ result_type tensordot",
    "functions.ranges": "logspace range scalar_tensor tril_indices triu_indices unravel_index vander",
    "functions.real_parts": "angle complex conj conj_physical conj_physical_ frexp imag is_conj is_neg polar real "
    "resolve_conj resolve_neg view_as_complex view_as_real",
    "functions.sliding": "channel_shuffle pixel_shuffle pixel_unshuffle",
    "functions.spectrograms": "istft stft",
    "functions.statistics": "corrcoef cov gradient histogramdd std_mean var_mean",
    "linalg.lobpcg": "lobpcg",
    "linalg.reflections": "geqrf lu orgqr ormqr pca_lowrank svd_lowrank",
}
LATE: dict[str, str] = {
    name: f"jitgrad.{place}" for place, names in _LATE_BY_PLACE.items() for name in names.split()
}
"""Public function -> the module where it is found."""


_CHECKING = LazyModule("jitgrad.functions.checked")


def _late_method(name: str, place: str) -> Callable[..., Any]:
    module = LazyModule(place)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _CHECKING.checked(getattr(module, name))(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"As ``{name}`` of ``{place}``."
    return method


_LATE_METHODS = {
    "functions.element_maps": "apply_ map2_ map_",
    "functions.gamma_products": "igamma igamma_ igammac igammac_ mvlgamma mvlgamma_",
    "functions.memory_places": "dim_order is_pinned is_set_to is_shared module_load pin_memory share_memory_",
    "functions.products": "addbmm_ addmv_ addr_ as_strided_ baddbmm_ index_reduce index_reduce_ nonzero_static renorm "
    "renorm_ resize_as_",
    "functions.plain_copies": "narrow_copy",
    "functions.real_parts": "angle conj conj_physical conj_physical_ frexp is_conj is_neg resolve_conj resolve_neg",
    "functions.spectrograms": "istft stft",
    "functions.statistics": "corrcoef cov",
    "linalg.reflections": "geqrf lu orgqr ormqr",
}
LATE_METHODS: dict[str, Callable[..., Any]] = {
    name: _late_method(name, f"jitgrad.{place}") for place, names in _LATE_METHODS.items() for name in names.split()
}
