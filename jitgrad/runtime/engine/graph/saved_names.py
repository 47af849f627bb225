"""PyTorch's names for what a node has saved: ``grad_fn._saved_self``, ``_saved_mat2``, ``_saved_dim``.

Owns: the names, per operation.
Must not know: nodes (``op_node.py`` looks names up here), how values are saved.

PyTorch names a saved value after the argument in its schema. Most operations call their tensors ``self`` and ``other``
and their result ``result``; the table has the others. Static parameters are named by the operation's own shape rule.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from jitgrad.ops.table import Op

__all__ = ["ALL_NAMES", "saved_parameter", "saved_parameters", "saved_tensors", "shows_sizes", "tensor_name"]

_TENSORS: dict[str, dict[int | str, str]] = {
    "addcdiv": {1: "tensor1", 2: "tensor2", 3: "value"},
    "addcmul": {1: "tensor1", 2: "tensor2", 3: "value"},
    "add_scaled": {2: "alpha"},
    "addmm": {1: "mat1", 2: "mat2"},
    "batch_norm_by": {0: "input", 1: "running_mean", 2: "running_var", 3: "weight"},
    "batch_norm_by_plain": {0: "input", 1: "running_mean", 2: "running_var"},
    "bmm": {1: "mat2"},
    "clamp": {1: "min", 2: "max"},
    "clamp_max": {1: "max"},
    "clamp_min": {1: "min"},
    "clamp_tensor": {1: "min", 2: "max"},
    "conv2d": {0: "input", 1: "weight"},
    "dot": {1: "tensor"},
    "embedding": {1: "indices"},
    "gather": {1: "index"},
    **{name: {0: "input", 1: "grid"} for name in ("grid_sampler_2d", "grid_sampler_3d")},
    "index_copy": {1: "index"},
    "index_fill": {1: "index"},
    "index_select": {1: "index"},
    "lerp": {1: "end", 2: "weight"},
    "linear": {1: "mat1", 2: "weight"},
    "linear_nobias": {1: "weight"},
    "masked_fill": {1: "mask"},
    "masked_scatter": {1: "mask"},
    "max_dim": {"out1": "indices"},
    **{f"{kind}max_pool{n}d": {"out1": "result1"} for kind in ("", "adaptive_") for n in (1, 2, 3)},
    **{f"max_unpool{n}d": {1: "indices"} for n in (2, 3)},
    "min_dim": {"out1": "indices"},
    "mm": {1: "mat2"},
    "mv": {1: "vec"},
    "native_batch_norm": {0: "input", 1: "weight", "out1": "result1", "out2": "result2"},
    "native_batch_norm_plain": {0: "input", "out1": "result1", "out2": "result2"},
    "native_group_norm": {0: "input", 1: "weight", "out1": "result1", "out2": "result2"},
    "native_group_norm_plain": {0: "input", "out1": "result1", "out2": "result2"},
    "native_layer_norm": {0: "input", 1: "weight", "out1": "result1", "out2": "result2"},
    "native_layer_norm_plain": {0: "input", "out1": "result1", "out2": "result2"},
    "nll_loss": {1: "target", "out1": "total_weight"},
    "nll_loss_weighted": {1: "target", 2: "weight", "out1": "total_weight"},
    "pow": {1: "exponent"},
    "put": {1: "index"},
    "scatter": {1: "index"},
    "scatter_add": {1: "index"},
    "scatter_reduce": {1: "index", 2: "src"},
    "sort": {"out1": "indices"},
    "sub_scaled": {2: "alpha"},
    "take": {1: "index"},
    "topk": {"out1": "indices"},
    "threshold_backward": {0: "grad_output", 1: "self"},
    "where": {0: "condition", 1: "self", 2: "other"},
}
_LOSSES = "binary_cross_entropy binary_cross_entropy_with_logits huber_loss mse_loss smooth_l1_loss"
_TENSORS.update({name: {1: "target"} for name in _LOSSES.split()})
_USUAL: dict[int | str, str] = {0: "self", 1: "other", "out": "result", "out0": "result"}

_SAME = (
    "alpha approximate beta correction diagonal dilation dim dim0 dim1 dim2 dims exponent groups index keepdim padding "
    "padding_idx reduction repeats shifts sparse start step stride"
)
_PARAMETERS = {**{name: name for name in _SAME.split()}, "order": "ord", "size": "split_size", "stop": "end"}

_LIST_OF_DIMS = frozenset("amax amin linalg_vector_norm logsumexp mean_dim std sum_dim var".split())
_SHOW_SIZES = frozenset(
    "amax amin diagonal embedding expand gather index_select max_dim mean mean_dim min_dim repeat select slice sort "
    "split split_with_sizes squeeze squeeze_dim sum sum_dim topk unfold unsafe_view view".split()
)

_REDUCTIONS = ("none", "mean", "sum")
_ENDS = {"_saved_start": 0, "_saved_end": 2**63 - 1}
_SIZES = "_saved_self_sym_sizes"
_OF_TENSORS = [f"saved_{name}" for names in (_USUAL, *_TENSORS.values()) for name in names.values()]
ALL_NAMES = frozenset(
    [_SIZES, *[f"_{x}" for x in _OF_TENSORS], *[f"_raw_{x}" for x in _OF_TENSORS]]
    + [f"_saved_{name}" for name in _PARAMETERS.values()]
)
"""Every name that the node of some operation has."""


def tensor_name(op: Op, key: int | str) -> str:
    """What PyTorch calls the tensor with this key of ``Vjp.saves``; after all names where that is not known."""
    return _TENSORS.get(op.name, {}).get(key) or _USUAL.get(key) or f"~{key}"


@functools.cache
def saved_tensors(op: Op) -> dict[str, int | str]:
    """``_saved_...`` name -> key of ``Vjp.saves``, for everything that a node of this operation may save."""
    names = {**_USUAL, **_TENSORS.get(op.name, {})}
    keys = {key for vjp in op.vjps if vjp is not None for key in vjp.saves}
    return {f"_saved_{names[key]}": key for key in sorted(keys, key=str) if key in names}


def saved_parameter(op: Op, name: str, params: tuple[Any, ...]) -> Any:
    """The parameter of this ``_saved_...`` name; KeyError if there is none."""
    value = params[saved_parameters(op)[name]]
    if name == "_saved_reduction":
        return _REDUCTIONS.index(value)
    if op.name == "slice" and name in _ENDS:
        return _ENDS[name] if value is None else value % 2**64  # PyTorch reads them as unsigned
    return (value,) if name == "_saved_dim" and isinstance(value, int) and op.name in _LIST_OF_DIMS else value


@functools.cache
def saved_parameters(op: Op) -> dict[str, int]:
    """``_saved_...`` name -> position among the parameters."""
    parameters = list(inspect.signature(op.aval).parameters.values())
    first = op.num_inputs if op.num_inputs >= 0 else 1
    plain = [p.name for p in parameters[first:] if p.kind is not inspect.Parameter.VAR_POSITIONAL]
    return {f"_saved_{_PARAMETERS[name]}": i for i, name in enumerate(plain) if name in _PARAMETERS}


def shows_sizes(op: Op) -> bool:
    """Whether PyTorch's node keeps the input's shape, as ``_saved_self_sym_sizes``."""
    return op.name in _SHOW_SIZES
