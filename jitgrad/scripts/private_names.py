"""Names from the inside of PyTorch that libraries import, and where they are here.

Owns: ``private_name``, ``private_names``, ``has_private_name``, ``is_private_module``.
Must not know: imports of torch, scripts.

PyTorch does not document ``torch.nn.modules.utils._pair``; libraries for PyTorch use it nevertheless. A module gets its
names of this table when ``import torch.…`` first asks for it, so jitgrad itself has one name for one thing. A module
without a counterpart here, as ``torch._dynamo``, has these names only: libraries ask it whether anything is compiled,
keep functions out of graphs, and set options, which mean nothing here.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["has_private_name", "is_private_module", "private_name", "private_names"]

_PLACES = {
    "torch": {
        "Future": "futures:Future",
        "_assert": "scripts.stand_ins:assert_",
        "_assert_async": "scripts.stand_ins:assert_async",
        "_cast_Double": "scripts.stand_ins:cast_double",
        "_cast_Float": "scripts.stand_ins:cast_float",
        "_cast_Int": "scripts.stand_ins:cast_int",
        "_cast_Long": "scripts.stand_ins:cast_long",
        "_check": "scripts.stand_ins:check",
        "_check_index": "scripts.stand_ins:check_index",
        "_check_not_implemented": "scripts.stand_ins:check_not_implemented",
        "_check_type": "scripts.stand_ins:check_type",
        "_check_value": "scripts.stand_ins:check_value",
        "_shape_as_tensor": "scripts.stand_ins:shape_as_tensor",
        "_standard_gamma": "distributions.gamma:standard_gamma",
        "torch": "torch",
        "typename": "scripts.stand_ins:typename",
    },
    "torch.__config__": {
        "parallel_info": "scripts.stand_ins:parallel_info",
        "show": "scripts.stand_ins:show_config",
    },
    "torch._C": {
        "_LinAlgError": "linalg:LinAlgError",
        "_are_functorch_transforms_active": "scripts.stand_ins:in_transform",
        "_get_tracing_state": "scripts.stand_ins:nothing",
        "_log_api_usage_once": "scripts.stand_ins:nothing",
    },
    "torch._dynamo": {
        "allow_in_graph": "compiler:allow_in_graph",
        "config": "scripts.stand_ins:config",
        "disable": "compiler:disable",
        "is_compiling": "compiler:is_compiling",
        "mark_dynamic": "scripts.stand_ins:nothing",
        "mark_static": "scripts.stand_ins:nothing",
        "mark_static_address": "scripts.stand_ins:nothing",
        "maybe_mark_dynamic": "scripts.stand_ins:nothing",
        "reset": "compiler:reset",
    },
    "torch._inductor": {"config": "scripts.stand_ins:config"},
    "torch._vmap_internals": {"_vmap": "transforms.vmap:vmap", "vmap": "transforms.vmap:vmap"},
    "torch.cuda": {
        "Event": "scripts.stand_ins:Event",
        "Stream": "scripts.stand_ins:Stream",
        "nvtx": "torch.cuda.nvtx",
    },
    "torch.cuda.nvtx": {
        "mark": "scripts.stand_ins:nvtx_mark",
        "range": "scripts.stand_ins:nvtx_range",
        "range_pop": "scripts.stand_ins:nvtx_mark",
        "range_push": "scripts.stand_ins:nvtx_mark",
    },
    "torch.distributed": {
        "ProcessGroup": "scripts.stand_ins:ProcessGroup",
        "ReduceOp": "scripts.stand_ins:ReduceOp",
        "nn": "torch.distributed.nn",
    },
    "torch.distributed.nn": {
        name: f"distributed:{name}" for name in "all_gather all_reduce broadcast gather reduce scatter".split()
    },
    "torch.distributions.multivariate_normal": {
        "_batch_mahalanobis": "distributions.multivariate_normal:squared_distance",
        "_precision_to_scale_tril": "distributions.multivariate_normal:scale_tril_of_precision",
    },
    "torch.distributions.transforms": {"_clipped_sigmoid": "scripts.stand_ins:clipped_sigmoid"},
    "torch.distributions.utils": {
        "_standard_normal": "scripts.stand_ins:standard_normal",
        "_sum_rightmost": "distributions.utils:sum_rightmost",
    },
    "torch.fx": {
        "Graph": "scripts.stand_ins:Graph",
        "GraphModule": "scripts.stand_ins:GraphModule",
        "Node": "scripts.stand_ins:Node",
        "Tracer": "scripts.stand_ins:Tracer",
        "wrap": "scripts.stand_ins:wrap",
    },
    "torch.nn.modules.module": {"_IncompatibleKeys": "nn.state_dict:IncompatibleKeys"},
    "torch.nn.modules.utils": {
        "_list_with_default": "scripts.stand_ins:list_with_default",
        "_ntuple": "scripts.stand_ins:ntuple",
        "_pair": "scripts.stand_ins:pair",
        "_quadruple": "scripts.stand_ins:quadruple",
        "_reverse_repeat_tuple": "scripts.stand_ins:reverse_repeat_tuple",
        "_single": "scripts.stand_ins:single",
        "_triple": "scripts.stand_ins:triple",
    },
    "torch.nn.parallel.distributed": {"DistributedDataParallel": "nn.parallel:DistributedDataParallel"},
    "torch.nn.parallel": {"scatter_gather": "torch.nn.parallel.scatter_gather"},
    "torch.nn.parallel.scatter_gather": {
        "gather": "scripts.stand_ins:scatter",
        "scatter": "scripts.stand_ins:scatter",
        "scatter_kwargs": "scripts.stand_ins:scatter",
    },
    "torch.onnx": {"is_in_onnx_export": "compiler:is_exporting"},
    "torch.optim.lr_scheduler": {"_LRScheduler": "optim.lr_base:LRScheduler"},
    "torch.optim.optimizer": {"required": "scripts.stand_ins:required"},
    "torch.serialization": {"MAP_LOCATION": "scripts.stand_ins:MapLocation"},
}
"""Module of PyTorch -> name there -> module and name here, or the module of PyTorch that it is."""


def has_private_name(module: str, name: str) -> bool:
    """Whether a module ``torch.…`` has a name of this table; nothing is imported for it."""
    return name in _PLACES.get(module, {})


def is_private_module(name: str) -> bool:
    """Whether a module ``torch.…`` has names of this table."""
    return name in _PLACES


def private_names(module: str) -> dict[str, Any]:
    """The names of this table that a module ``torch.…`` has, with their values."""
    return {name: private_name(module, name) for name in _PLACES.get(module, {})}


def private_name(module: str, name: str) -> Any:
    """The value of a name of this table."""
    place = _PLACES[module][name]
    if place.partition(".")[0] == "torch":
        return importlib.import_module(place)
    ours, _, attribute = place.partition(":")
    return getattr(importlib.import_module(f"jitgrad.{ours}"), attribute)
