"""The functions of networks under PyTorch's names: activations, layers, losses.

Owns: the list, and which dimension softmax and its kin choose. What each computes is in ``jitgrad.functions``.
"""

from typing import TYPE_CHECKING, Any

from jitgrad import functions
from jitgrad.functions import (
    INPLACE_METHODS,
    LAYERS,
    alpha_dropout,
    avg_pool2d,
    batch_norm,
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    celu,
    conv2d,
    cross_entropy,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    elu,
    embedding,
    feature_alpha_dropout,
    gelu,
    glu,
    gumbel_softmax,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    huber_loss,
    kl_div,
    l1_loss,
    layer_norm,
    leaky_relu,
    linear,
    logsigmoid,
    max_pool2d,
    mish,
    mse_loss,
    nll_loss,
    normalize,
    one_hot,
    pad,
    prelu,
    relu6,
    rms_norm,
    rrelu,
    scaled_dot_product_attention,
    selu,
    sigmoid,
    silu,
    smooth_l1_loss,
    softplus,
    softshrink,
    softsign,
    tanh,
    tanhshrink,
    threshold,
)
from jitgrad.lazy import LazyModule, late_module
from jitgrad.user_line import warn_user

if TYPE_CHECKING:
    from jitgrad.functions.adaptive import (
        adaptive_avg_pool1d,
        adaptive_avg_pool2d,
        adaptive_avg_pool3d,
        adaptive_max_pool1d,
        adaptive_max_pool1d_with_indices,
        adaptive_max_pool2d,
        adaptive_max_pool2d_with_indices,
        adaptive_max_pool3d,
        adaptive_max_pool3d_with_indices,
    )
    from jitgrad.functions.bags import embedding_bag
    from jitgrad.functions.convolutions import conv1d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d
    from jitgrad.functions.distances import bilinear, cosine_similarity, pairwise_distance, pdist
    from jitgrad.functions.fractional_pools import (
        fractional_max_pool2d,
        fractional_max_pool2d_with_indices,
        fractional_max_pool3d,
        fractional_max_pool3d_with_indices,
    )
    from jitgrad.functions.grids import affine_grid, grid_sample
    from jitgrad.functions.margin_losses import (
        cosine_embedding_loss,
        gaussian_nll_loss,
        hinge_embedding_loss,
        margin_ranking_loss,
        multi_margin_loss,
        multilabel_margin_loss,
        multilabel_soft_margin_loss,
        poisson_nll_loss,
        soft_margin_loss,
        triplet_margin_loss,
        triplet_margin_with_distance_loss,
    )
    from jitgrad.functions.normalizations import group_norm, instance_norm, local_response_norm
    from jitgrad.functions.pools import (
        avg_pool1d,
        avg_pool3d,
        lp_pool1d,
        lp_pool2d,
        lp_pool3d,
        max_pool1d,
        max_pool1d_with_indices,
        max_pool2d_with_indices,
        max_pool3d,
        max_pool3d_with_indices,
        max_unpool1d,
        max_unpool2d,
        max_unpool3d,
    )
    from jitgrad.functions.resampling import interpolate, upsample, upsample_bilinear, upsample_nearest
    from jitgrad.functions.sequence_losses import ctc_loss
    from jitgrad.functions.sliding import channel_shuffle, fold, pixel_shuffle, pixel_unshuffle, unfold
    from jitgrad.nn.attention_forward import multi_head_attention_forward
    from jitgrad.nn.linear_cross_entropy import linear_cross_entropy

relu = LAYERS["relu"]
relu_ = INPLACE_METHODS["relu_"]
celu_, elu_, selu_, hardtanh_ = (LAYERS[name] for name in ("celu_", "elu_", "selu_", "hardtanh_"))
leaky_relu_, rrelu_, threshold_ = (LAYERS[name] for name in ("leaky_relu_", "rrelu_", "threshold_"))

_LATE_BY_PLACE = {
    "adaptive": "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
    "adaptive_max_pool1d_with_indices adaptive_max_pool2d adaptive_max_pool2d_with_indices "
    "adaptive_max_pool3d adaptive_max_pool3d_with_indices",
    "bags": "embedding_bag",
    "convolutions": "conv1d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "distances": "bilinear cosine_similarity pairwise_distance pdist",
    "fractional_pools": "fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d "
    "fractional_max_pool3d_with_indices",
    "sequence_losses": "ctc_loss",
    "grids": "affine_grid grid_sample",
    "margin_losses": "cosine_embedding_loss gaussian_nll_loss hinge_embedding_loss margin_ranking_loss "
    "multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss poisson_nll_loss "
    "soft_margin_loss triplet_margin_loss triplet_margin_with_distance_loss",
    "normalizations": "group_norm instance_norm local_response_norm",
    "pools": "avg_pool1d avg_pool3d lp_pool1d lp_pool2d lp_pool3d max_pool1d max_pool1d_with_indices "
    "max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool1d max_unpool2d max_unpool3d",
    "resampling": "interpolate upsample upsample_bilinear upsample_nearest",
    "sliding": "channel_shuffle fold pixel_shuffle pixel_unshuffle unfold",
}
_LATE = {name: f"jitgrad.functions.{place}" for place, names in _LATE_BY_PLACE.items() for name in names.split()}
_LATE["linear_cross_entropy"] = "jitgrad.nn.linear_cross_entropy"
_LATE["multi_head_attention_forward"] = "jitgrad.nn.attention_forward"
_checking = LazyModule("jitgrad.functions.checked")
__getattr__, __dir__ = late_module(globals(), _LATE, lambda function: _checking.checked(function))

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "rrelu",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]


def _implicit_dim(name: str, input: Any) -> int:
    """The first of 0, 1 or 3 dimensions, else the second."""
    warn_user(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument."
    )
    return 0 if input.ndim in (0, 1, 3) else 1


def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """exp(x), normalised along ``dim``; same shape. Without ``dim`` it warns, and chooses."""
    return functions.softmax(input, _implicit_dim("softmax", input) if dim is None else dim, dtype)


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """softmax(-x) along ``dim``; same shape. Without ``dim`` it warns, and chooses."""
    return functions.softmax(-input, _implicit_dim("softmin", input) if dim is None else dim, dtype)


def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """log(softmax(x)) along ``dim``; same shape. Without ``dim`` it warns, and chooses."""
    return functions.log_softmax(input, _implicit_dim("log_softmax", input) if dim is None else dim, dtype)
