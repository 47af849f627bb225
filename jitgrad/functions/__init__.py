"""The public functions, and the tables of methods that ``tensor.py`` attaches to Tensor.

Owns: which functions are methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.functions import (
    activation,
    creation,
    devices,
    einstein,
    indexing,
    joining,
    layers,
    linalg,
    losses,
    pointwise,
    reduction,
    scattering,
    storages,
    views,
)
from jitgrad.functions._parse import parsed
from jitgrad.functions.activation import *  # noqa: F403
from jitgrad.functions.creation import *  # noqa: F403
from jitgrad.functions.einstein import *  # noqa: F403
from jitgrad.functions.indexing import *  # noqa: F403
from jitgrad.functions.indexing import INPLACE_INDEXING
from jitgrad.functions.inplace import INPLACE_METHODS
from jitgrad.functions.inplace_views import INPLACE_VIEWS
from jitgrad.functions.joining import *  # noqa: F403
from jitgrad.functions.layers import *  # noqa: F403
from jitgrad.functions.linalg import *  # noqa: F403
from jitgrad.functions.losses import *  # noqa: F403
from jitgrad.functions.pointwise import *  # noqa: F403
from jitgrad.functions.reduction import *  # noqa: F403
from jitgrad.functions.replacing import REPLACING_METHODS
from jitgrad.functions.scattering import *  # noqa: F403
from jitgrad.functions.scattering import INPLACE_SCATTERING
from jitgrad.functions.signatures import SIGNATURES
from jitgrad.functions.views import *  # noqa: F403

_MODULES = (
    activation,
    creation,
    einstein,
    indexing,
    joining,
    layers,
    linalg,
    losses,
    pointwise,
    reduction,
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
        "arcsin arctan arctan2"
    ),
    reduction: (
        "sum mean prod var std amax amin max min argmax argmin any all count_nonzero cumsum logsumexp softmax "
        "log_softmax norm allclose equal"
    ),
    views: (
        "reshape view view_as reshape_as flatten unflatten ravel transpose t permute movedim moveaxis expand expand_as "
        "broadcast_to squeeze unsqueeze select narrow unbind split chunk diagonal unfold as_strided detach flip roll "
        "repeat repeat_interleave tile swapaxes swapdims tensor_split unsafe_split unsafe_chunk"
    ),
    scattering: (
        "scatter index_copy index_fill masked_scatter put take select_scatter slice_scatter diagonal_scatter "
        "as_strided_scatter scatter_reduce"
    ),
    linalg: "matmul mm bmm mv dot addmm outer trace",
    indexing: (
        "index_select gather take_along_dim scatter_add index_add index_put masked_fill masked_select nonzero tril "
        "triu argwhere"
    ),
    creation: "clone contiguous new_zeros new_ones new_full new_empty",
    storages: "storage untyped_storage",
    devices: "cpu get_device record_stream to type_as vcpu",
}

METHODS: dict[str, Any] = {
    name: getattr(module, name) for module, names in _METHOD_NAMES.items() for name in names.split()
}
_WRITING: tuple[Any, ...] = (*INPLACE_INDEXING, *INPLACE_SCATTERING)
INPLACE_METHODS.update({function.__name__: function for function in _WRITING})
INPLACE_METHODS.update(INPLACE_VIEWS)
METHODS.update(REPLACING_METHODS)
METHODS["bool"] = devices.to_bool
METHODS.update((name, property(getattr(devices, name))) for name in ("is_cpu", "is_meta", "is_vcpu"))
METHODS["new_tensor"] = creation.new_tensor_method
METHODS["T"] = property(views.reverse_dims, doc="All dimensions in reverse order.")
METHODS["mT"] = property(views.matrix_transpose, doc="The last two dimensions swapped.")


# what Tensor and its methods use, and users do not
_HIDDEN = frozenset(
    [
        "where_method",
        "new_tensor_method",
        "new_zeros",
        "new_ones",
        "new_full",
        "new_empty",
        "slice_",
        "rounding_op",
        "getitem",
        "setitem",
        "from_array_copy",
        "reverse_dims",
        "matrix_transpose",
        "ValuesIndices",
    ]
)

PUBLIC: dict[str, Callable[..., Any]] = {
    name: getattr(module, name)
    for module in _MODULES
    for name in module.__all__
    if name not in _HIDDEN and callable(getattr(module, name))
}


def _wrap() -> None:
    """Put the functions that check their arguments in the place of the bare ones; other names of one stay one."""
    made: dict[Any, Any] = {}
    for table in (PUBLIC, METHODS, INPLACE_METHODS):
        for name, function in table.items():
            text = SIGNATURES.get(name)
            if text is not None and not isinstance(function, property):
                if (function, text) not in made:
                    made[function, text] = parsed(function, text)
                table[name] = made[function, text]


_wrap()
METHODS["where"] = parsed(pointwise.where_method, "Tensor self, Tensor condition, Tensor|Scalar other")
globals().update(PUBLIC)
__all__ = ["INPLACE_METHODS", "METHODS", "PUBLIC", *PUBLIC]
