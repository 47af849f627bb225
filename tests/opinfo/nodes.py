"""The graphs that operations make: names of nodes, and where their edges lead.

Owns: ``graph_of``, ``node_failures``; ``OTHER_NODES``, operations whose nodes differ for a reason.
Must not know: gradients.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from opinfo.calls import Call, tensors_of
from opinfo.checks import applies, pairs

import jitgrad

__all__ = ["OTHER_NODES", "graph_of", "node_failures"]

_MAX_DEPTH = 12


def graph_of(call: Call) -> list[Any]:
    """Per result: its node as (name, (node, output number) per edge), leaves by number; None without a graph."""
    outs = list(tensors_of(call.t, call.run()))
    known: dict[int, int] = {}
    found = [_node(y.grad_fn, known, call.leaves(), 0) if y.requires_grad else None for y in outs]
    del outs  # the graph lives as long as its numbers are in use
    return found


def _node(node: Any, known: dict[int, int], leaves: list[Any], depth: int) -> Any:
    if node is None:
        return None
    if hasattr(node, "variable"):
        return f"leaf {next((i for i, x in enumerate(leaves) if x is node.variable), '?')}"
    if id(node) in known:
        return f"node {known[id(node)]} again"
    known[id(node)] = len(known)
    if depth > _MAX_DEPTH:
        return node.name()
    assert node.name().removeprefix("torch::autograd::") == type(node).__name__
    return (node.name(), *((_node(n, known, leaves, depth + 1), nr) for n, nr in node.next_functions))


def node_failures(op: Any, limit: int = 1, compiled: bool = False) -> Iterator[tuple[Any, Any] | None]:
    """Per sample in float64: None, or both graphs if they differ."""
    if not applies(op, "first", "float64"):
        return
    for pair in itertools.islice(pairs(op, torch.float64, "graph", limit), limit):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                expected = graph_of(pair.theirs())
            except (RuntimeError, NotImplementedError, TypeError):
                continue
            got = _warm(pair.ours()) if compiled else graph_of(pair.ours())
        yield None if got == expected else (got, expected)


def _warm(call: Call) -> Any:
    step = jitgrad.compile(lambda: graph_of(call))
    step(), step()
    return step()


_SEVERAL = "several operations here, one with a derivative of its own in PyTorch"
_OTHERS = "composed of other operations than PyTorch composes it of"

OTHER_NODES: dict[str, str] = {
    **dict.fromkeys(
        (
            "addmv addbmm baddbmm vdot addr block_diag cdist cross diff expand_copy diag diag_embed diagonal_copy "
            "alias_copy lu_unpack lu_solve var_mean var_mean/unbiased std_mean std_mean/unbiased aminmax "
            "as_strided_copy native_layer_norm nn.functional.adaptive_avg_pool2d nn.functional.adaptive_avg_pool3d "
            "nn.functional.binary_cross_entropy_with_logits nn.functional.conv_transpose1d "
            "nn.functional.conv_transpose2d nn.functional.conv_transpose3d nn.functional.conv1d nn.functional.conv2d "
            "nn.functional.conv3d nn.functional.group_norm nn.functional.pad/reflect nn.functional.pad/replicate "
            "nn.functional.pad/replicate_negative nn.functional.interpolate/area nn.functional.soft_margin_loss "
            "nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss nn.functional.fractional_max_pool2d "
            "nn.functional.fractional_max_pool3d nn.functional.rrelu nn.functional.batch_norm "
            "nn.functional.binary_cross_entropy mvlgamma/mvlgamma_p_1 mvlgamma/mvlgamma_p_3 mvlgamma/mvlgamma_p_5 "
            "narrow_copy view_copy dist ormqr permute_copy rot90 split_with_sizes_copy rsub slice index_reduce/mean "
            "index_reduce/prod index_reduce/amin index_reduce/amax bfloat16 double float half cdouble cfloat normal "
            "normal/number_mean bernoulli unbind_copy unfold_copy renorm squeeze_copy fill unsqueeze_copy "
            "transpose_copy t_copy nn.functional.embedding_bag nansum nn.functional.pdist nn.functional.pixel_shuffle "
            "nn.functional.pixel_unshuffle nn.functional.channel_shuffle linalg.cross linalg.vecdot "
            "linalg.householder_product linalg.lstsq linalg.lstsq/grad_oriented linalg.lu linalg.lu_solve linalg.solve "
            "linalg.solve_ex linalg.solve_triangular linalg.pinv nn.functional.linear_cross_entropy/chunked_none"
        ).split(),
        _SEVERAL,
    ),
    **dict.fromkeys(
        (
            "combinations cartesian_prod cholesky cholesky_inverse cholesky_solve clamp cov stft gradient matmul "
            "quantile nanquantile nn.functional.normalize nn.functional.cosine_similarity "
            "nn.functional.adaptive_max_pool1d nn.functional.avg_pool1d nn.functional.instance_norm "
            "nn.functional.rms_norm nn.functional.local_response_norm nn.functional.pad/circular "
            "nn.functional.margin_ranking_loss nn.functional.max_pool1d nn.functional.max_unpool1d "
            "nn.functional.max_unpool1d/grad nn.functional.linear nn.functional.bilinear "
            "nn.functional.scaled_dot_product_attention nn.functional.triplet_margin_loss "
            "nn.functional.triplet_margin_with_distance_loss __rmatmul__ triangular_solve einsum svd_lowrank "
            "pca_lowrank atleast_3d index_add dstack trapz trapezoid cumulative_trapezoid kron inner tensordot logdet "
            "nanmean nn.functional.ctc_loss nn.functional.cosine_embedding_loss nn.functional.gaussian_nll_loss "
            "nn.functional.hinge_embedding_loss nn.functional.poisson_nll_loss nn.functional.pairwise_distance "
            "diagflat fft.ihfft2 fft.ihfftn linalg.cholesky linalg.cholesky_ex linalg.cond linalg.matrix_power "
            "linalg.multi_dot linalg.norm/subgradients_at_zero linalg.matrix_norm linalg.vander linalg.pinv/singular "
            "linalg.tensorinv linalg.tensorsolve special.ndtr"
        ).split(),
        _OTHERS,
    ),
    "sort": "PyTorch numbers the overload with ``stable``",
    "to": "the sample casts to the dtype of another tensor",
}
"""Operation of PyTorch's table -> why its graph has other nodes or edges."""
