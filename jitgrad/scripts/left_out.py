"""The public names of PyTorch that jitgrad does not have, in groups: why, and what to use instead.

Owns: ``GROUPS``, ``LATER``, ``group_of``.
Must not know: scripts.

``--check`` and errors take their advice from here, ``docs/left_out.md`` is made of it by ``python -m tools.left_out``,
and a test compares it with the installed PyTorch: what is missing must be named here, and what is here must be missing.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

__all__ = ["GROUPS", "LATER", "LeftOut", "group_of"]


class LeftOut(NamedTuple):
    """Names that are left out for one reason.

    Attributes:
        title: what they are.
        why: they are left out.
        instead: what to use; empty if there is nothing.
        names: with dots, and without ``torch.`` in front; ``*`` stands for anything. A name stands for what is in it.
    """

    title: str
    why: str
    instead: str
    names: tuple[str, ...]


def _group(title: str, why: str, instead: str, names: str) -> LeftOut:
    return LeftOut(title, why, instead, tuple(names.split()))


GROUPS = (
    _group(
        "Scripting and tracing ahead of time",
        "Python runs at every call of a compiled step, so there is nothing to script.",
        "use jitgrad.compile, which needs no scripting",
        """
        jit.* compiler.* _dynamo _inductor CompilationUnit Script* LiteScriptModule ConcreteModuleType* parse_ir
        parse_schema parse_type_comment merge_type_from_type_comment import_ir_module* unify_type_list fork
        wait Future GraphExecutorState StaticModule cond while_loop sym_* Sym* *Type TracingState
        func.functionalize func.rearrange func.debug_unwrap nn.functional.boolean_dispatch
        nn.functional.BroadcastingList*
        """,
    ),
    _group(
        "Graphs as data",
        "A step has no graph of its own.",
        "jitgrad.explain shows what a compiled step does",
        """
        fx
        """,
    ),
    _group(
        "Export",
        "Programs run on Python.",
        "jitgrad runs on Python; there is no export",
        """
        export onnx
        """,
    ),
    _group(
        "Several processes",
        "Training runs in one process.",
        "jitgrad trains in one process",
        """
        distributed.* is_distributed Tensor.is_distributed thread_safe_generator random.thread_safe_generator
        """,
    ),
    _group(
        "Shared memory between processes",
        "Tensors reach another process as copies.",
        "use jitgrad.multiprocessing, and send results back; DataLoader has workers of its own",
        """
        prepare_multiprocessing_environment
        """,
    ),
    _group(
        "Quantisation",
        "Kernels compute in float32 and float64.",
        "there is no quantisation",
        """
        quantization ao quantize_* quantized_* qint* quint* QInt*Storage QUInt*Storage q_* qscheme
        per_tensor_* per_channel_* int_repr dequantize fake_quantize_* fused_moving_avg_obs_fake_quant
        fbgemm_* choose_qparams_optimized empty_quantized Tensor.q_* Tensor.qscheme Tensor.int_repr
        Tensor.dequantize nn.functional.scaled_* nn.functional.grouped_mm nn.functional.ScalingType
        nn.functional.SwizzleType nn.intrinsic nn.qat nn.quantizable nn.quantized
        """,
    ),
    _group(
        "GPUs and libraries of their makers",
        "There is no GPU.",
        "there is no GPU: guard it by torch.cuda.is_available()",
        """
        cuda.* cudnn_* miopen_* mkldnn_* is_vulkan_available get_device_module profiler_allow_cudagraph_*
        Stream StreamObjType Event DeviceObjType OutOfMemoryError AcceleratorError Tensor.ipu Tensor.mtia
        Tensor.xpu Tensor.to_mkldnn batch_norm_backward_* batch_norm_elemt batch_norm_gather_stats*
        batch_norm_stats batch_norm_update_stats backends.cuda.* nn.attention.*_impl*
        nn.attention.WARN_FOR_UNFUSED_KERNELS autograd.graph.set_*_stream* autograd.graph.set_override_*
        autograd.graph.region_activation_memory_budget
        """,
    ),
    _group(
        "Selective checkpointing",
        "Operations are not intercepted one by one.",
        "checkpoint the parts of the model that are cheap to run again",
        """
        utils.checkpoint.CheckpointPolicy utils.checkpoint.SelectiveCheckpointContext
        utils.checkpoint.create_selective_checkpoint_contexts utils.checkpoint.SAC_IGNORED_OPS
        utils.checkpoint.GraphExecGroup utils.checkpoint.DefaultDeviceType utils.checkpoint.get_device_states
        utils.checkpoint.set_device_states
        """,
    ),
    _group(
        "Other dtypes",
        "Kernels compute in float32 and float64, int32 and int64.",
        "use float32, int32 or int64",
        """
        bit bits* int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7 uint16 uint32
        uint64 float4_* float8_*
        """,
    ),
    _group(
        "Complex numbers",
        "Parts are float32 or float64.",
        "use complex64",
        """
        complex32 chalf Tensor.chalf ComplexDoubleStorage ComplexFloatStorage view_as_complex_* view_as_real_*
        """,
    ),
    _group(
        "Compressed sparse tensors",
        "Sparse tensors are gradients of embeddings, in coordinate form.",
        "use sparse_coo_tensor, or SciPy's matrices",
        """
        sparse_csr* sparse_csc* sparse_bsr* sparse_bsc* sparse_compressed_tensor jagged *_indices_copy
        indices_copy values_copy hsmm hspmm spmm smm saddmm sspaddmm dsmm resize_as_sparse_
        Tensor.ccol_indices Tensor.col_indices Tensor.crow_indices Tensor.row_indices Tensor.dense_dim
        Tensor.sparse_dim Tensor.sparse_mask Tensor.sparse_resize_* Tensor.smm Tensor.sspaddmm
        Tensor.resize_as_sparse_ Tensor.to_sparse_* Tensor.to_padded_tensor
        """,
    ),
    _group(
        "Parts of PyTorch's own runtime",
        "They are C++ objects, and functions for its tests.",
        "",
        """
        AVG AggregationType AliasDb Argument ArgumentSpec Benchmark* Block BufferDict CallStack Capsule Code
        CompleteArgumentSpec DeepCopyMemoTable DeserializationStorageContext DispatchKey* ErrorReport
        ExcludeDispatchKeyGuard ExecutionPlan FatalError FileCheck FunctionSchema Gradient Graph IODescriptor
        JITException LockingLogger LoggerBase ModuleDict Node NoopLogger OperatorInfo PRIVATE_OPS
        ParameterDict PyTorchFileReader PyTorchFileWriter SUM SerializationStorageContext Tag
        ThroughputBenchmark USE_GLOBAL_DEPS USE_RTLD_GLOBAL_WITH_LIBTORCH Use Value classproperty
        compiled_with_cxx11_abi get_file_path has_lapack has_mkl has_openmp has_spectral hash_tensor
        Tensor.hash_tensor init_num_threads Tensor.const_data_ptr segment_reduce DisableTorchFunction
        DisableTorchFunctionSubclass slice_inverse Tensor.slice_inverse autograd.enforce_grad_layout_policy
        autograd.NestedIOFunction Tensor.grad_dtype linalg.common_notes fft.Tensor
        overrides.enable_reentrant_dispatch overrides.get_ignored_functions overrides.get_testing_overrides
        overrides.is_tensor_method_or_property overrides.redispatch_function overrides.resolve_name
        overrides.wrap_torch_function utils.ThroughputBenchmark utils.cmake_prefix_path
        utils.generate_methods_for_privateuse1_backend utils.get_cpp_backtrace
        utils.rename_privateuse1_backend utils.set_module utils.hooks.BackwardHook
        """,
    ),
    _group(
        "Storages and tensor types by dtype",
        "They are old names.",
        "use a dtype, and Tensor.untyped_storage()",
        """
        *Storage StorageBase is_storage Tensor.storage_type set_default_tensor_type legacy_contiguous_format
        typename
        """,
    ),
    _group(
        "Functions behind functions",
        "PyTorch's layers call them; they take enumerations and lists of weights.",
        "use torch.nn.functional, or the layer",
        """
        affine_grid_generator alpha_dropout_ dropout_ feature_dropout feature_dropout_ feature_alpha_dropout_
        conv_tbc convolution cosine_embedding_loss ctc_loss embedding_bag embedding_renorm_ grid_sampler
        grid_sampler_2d grid_sampler_3d gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh
        rnn_tanh_cell hinge_embedding_loss margin_ranking_loss triplet_margin_loss poisson_nll_loss native_*
        nn.functional.native_channel_shuffle nn.functional.conv_tbc nn.functional.assert_int_or_pair
        nn.functional.GRID_SAMPLE_* nn.functional.*_notes nn.functional.Callable nn.functional.Optional
        nn.functional.DType nn.functional.Tensor nn.functional.handle_torch_function
        nn.functional.has_torch_function* detach_ unsafe_split_with_sizes
        Tensor.unsafe_split_with_sizes nn.factory_kwargs linalg.matmul
        """,
    ),
    _group(
        "What PyTorch itself has given up",
        "They warn there, or raise.",
        "use the name that PyTorch's documentation gives",
        """
        eig lstsq matrix_rank solve symeig Tensor.eig Tensor.lstsq Tensor.solve Tensor.symeig Tensor.reinforce
        Tensor.name Tensor.resize Tensor.resize_as nn.Container
        """,
    ),
    _group(
        "Settings of mixed precision",
        "They switch what torch.autocast switches.",
        "use torch.autocast",
        """
        autocast_*crement_nesting clear_autocast_cache get_autocast_cpu_dtype get_autocast_gpu_dtype
        get_autocast_ipu_dtype get_autocast_xla_dtype set_autocast_* is_autocast_cache_enabled
        is_autocast_cpu_enabled is_autocast_ipu_enabled is_autocast_xla_enabled
        """,
    ),
    _group(
        "Data pipes",
        "PyTorch no longer develops them.",
        "use torch.utils.data.Dataset and IterableDataset",
        """
        utils.data.DFIterDataPipe utils.data.DataChunk utils.data.IterDataPipe utils.data.MapDataPipe
        utils.data.argument_validation utils.data.functional_datapipe
        utils.data.guaranteed_datapipes_determinism utils.data.non_deterministic
        utils.data.runtime_validation*
        """,
    ),
    _group(
        "Models from the network",
        "Nothing is fetched.",
        "load the model's own Python, and its weights with jitgrad.load",
        """
        utils.model_zoo
        """,
    ),
    _group(
        "Dimensions as objects",
        "Operations take numbers of dimensions.",
        "use einsum, or func.vmap over a dimension",
        """
        Tensor.index
        """,
    ),
)

LATER: tuple[str, ...] = tuple(
    """
    """.split()
)
"""Names that are missing for no reason but time; ``python -m tools.left_out --prune`` drops those that have come."""


def group_of(name: str) -> LeftOut | None:
    """The group of nn.init.eye or jit.script, or None: it is there, or nobody knows about it."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        path = ".".join(parts[:end])
        for group in GROUPS:
            if any(fnmatchcase(path, pattern) for pattern in group.names if pattern.count(".") == path.count(".")):
                return group
    return None
