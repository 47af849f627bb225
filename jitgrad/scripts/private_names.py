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
import sys
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
        "finfo": "scripts.absent_dtypes:finfo",
        "ops": "scripts.stand_ins:ops",
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
        "_disabled_torch_function_impl": "overrides:disabled_torch_function",
        "_get_tracing_state": "scripts.stand_ins:nothing",
        "_log_api_usage_once": "scripts.stand_ins:nothing",
    },
    "torch._C._distributed_rpc": {"_is_current_rpc_agent_set": "distributed:is_initialized"},
    "torch._dynamo": {
        **{
            name: f"compiler:{name}"
            for name in "allow_in_graph assume_constant_result disable is_compiling list_backends reset".split()
        },
        **{name: "scripts.stand_ins:nothing" for name in "mark_dynamic mark_static maybe_mark_dynamic".split()},
        "config": "scripts.stand_ins:config",
        "mark_static_address": "scripts.stand_ins:nothing",
    },
    "torch._dynamo._trace_wrapped_higher_order_op": {
        "TransformGetItemToIndex": "contextlib:nullcontext",
    },
    "torch._inductor": {"config": "scripts.stand_ins:config"},
    "torch._subclasses": {"fake_tensor": "torch._subclasses.fake_tensor"},
    "torch._subclasses.fake_tensor": {
        "FakeTensor": "scripts.stand_ins:FakeTensor",
        "is_fake": "scripts.stand_ins:is_fake",
    },
    "torch._tensor_str": {"PRINT_OPTS": "scripts.stand_ins:PRINT_OPTS", "_tensor_str": "scripts.stand_ins:tensor_str"},
    "torch._vmap_internals": {"_vmap": "transforms.vmap:vmap", "vmap": "transforms.vmap:vmap"},
    "torch.cuda": {
        **{name: f"scripts.stand_ins:{name}" for name in "CUDAGraph Event MemPool Stream StreamContext graph".split()},
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
        "rpc": "torch.distributed.rpc",
    },
    "torch.distributed.rpc": {"is_available": "distributed:is_available"},
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
    "torch.fx.experimental": {"proxy_tensor": "torch.fx.experimental.proxy_tensor"},
    "torch.fx.experimental.proxy_tensor": {"get_proxy_mode": "scripts.stand_ins:nothing"},
    "torch.fx": {
        "Graph": "scripts.stand_ins:Graph",
        "GraphModule": "scripts.stand_ins:GraphModule",
        "Node": "scripts.stand_ins:Node",
        "Tracer": "scripts.stand_ins:Tracer",
        "wrap": "scripts.stand_ins:as_it_is",
    },
    "torch.hub": {"HASH_REGEX": "scripts.stand_ins:HASH_REGEX"},
    "torch.jit": {"_overload": "scripts.stand_ins:as_it_is", "_overload_method": "scripts.stand_ins:as_it_is"},
    "torch.nn.attention": {"flex_attention": "torch.nn.attention.flex_attention"},
    "torch.nn.attention.flex_attention": {
        "_DEFAULT_SPARSE_BLOCK_SIZE": "scripts.stand_ins:SPARSE_BLOCK_SIZE",
        "AuxRequest": "scripts.stand_ins:AuxRequest",
        "BlockMask": "scripts.stand_ins:BlockMask",
        "create_block_mask": "scripts.stand_ins:flex_attention",
        "flex_attention": "scripts.stand_ins:flex_attention",
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
    "torch.utils.data.dataloader": {
        "_BaseDataLoaderIter": "utils.data._utils.iterators:BaseDataLoaderIter",
        "_MultiProcessingDataLoaderIter": "utils.data._utils.workers:MultiProcessingDataLoaderIter",
        "_SingleProcessDataLoaderIter": "utils.data._utils.iterators:SingleProcessDataLoaderIter",
    },
    "torch.utils._pytree": {
        "MappingKey": "scripts.stand_ins:MappingKey",
        "_dict_flatten": "scripts.stand_ins:dict_flatten",
        "_dict_flatten_with_keys": "scripts.stand_ins:dict_flatten_with_keys",
        "_dict_unflatten": "scripts.stand_ins:dict_unflatten",
    },
}
"""Module of PyTorch -> name there -> module and name here, or the module of PyTorch that it is."""
_DTYPES = (
    "bits8 bits16 bits1x8 bits2x4 bits4x2 complex32 float4_e2m1fn_x2 float8_e4m3fn float8_e4m3fnuz float8_e5m2 "
    "float8_e5m2fnuz float8_e8m0fnu uint16 uint32 uint64"
).split()
_PLACES["torch"] |= {name: f"scripts.absent_dtypes:{name}" for name in _DTYPES}
_LAYOUTS = "jagged sparse_bsc sparse_bsr sparse_csc sparse_csr".split()
_PLACES["torch"] |= {name: f"scripts.stand_ins:{name}" for name in _LAYOUTS}


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
    package = "" if ours in sys.stdlib_module_names else "jitgrad."
    return getattr(importlib.import_module(package + ours), attribute)
