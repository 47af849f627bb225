"""Matrix multiplication kernels: C[b, m, n] = sum_k A[b, m, k] * B[b, k, n], with what follows fused in.

Owns: the public names. The parts: ``spec`` (what a kernel depends on, epilogues), ``plan`` (shape to spec and launch),
``emit`` (the loop nest), ``tile`` (the register tile), ``dot`` (the tile for few rows), ``pack`` (copies of B's
panels), ``windows`` and ``emit_windows`` (products that read windows of an image), ``shuffle`` (transposes and sums in
registers), ``matmul_kernel`` (from a group of values to a spec).
Must not know: segments, programs, buffers.
"""

from jitgrad.codegen.gemm.emit import emit_gemm
from jitgrad.codegen.gemm.plan import choose_spec, gemm_launch, panel_columns, panels_spec
from jitgrad.codegen.gemm.spec import (
    GEMM_ARGS,
    Epilogue,
    GemmSpec,
    Operand,
    StoreEpilogue,
    load_arg,
    load_vector,
    store_vector,
)

__all__ = [
    "GEMM_ARGS",
    "Epilogue",
    "GemmSpec",
    "Operand",
    "StoreEpilogue",
    "choose_spec",
    "emit_gemm",
    "gemm_launch",
    "load_arg",
    "load_vector",
    "panel_columns",
    "panels_spec",
    "store_vector",
]
