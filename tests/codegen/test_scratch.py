"""What kernels take for themselves, Note [Scratch memory]: little of the stack, and they say where there is no more."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from gemm_jit import load

from jitgrad.codegen.gemm import Operand, StoreEpilogue
from jitgrad.codegen.gemm.core_model import TILES
from jitgrad.codegen.gemm.emit import emit_gemm
from jitgrad.codegen.gemm.plan import choose_spec, gemm_launch
from jitgrad.codegen.llvm.scratch import STACK_NBYTES
from jitgrad.codegen.llvm.target import host_target
from jitgrad.dtypes import float32

_SIZES = {"i8": 1, "i32": 4, "i64": 8, "float": 4, "double": 8, "ptr": 8}

IN_A_THREAD = """
import sys, threading
import jitgrad as jg
from jitgrad import nn
from jitgrad.nn import functional as F

def products(dtype):
    for m, k, n in ((512, 512, 512), (64, 4096, 576), (20, 256, 1024), (1000, 700, 30), (3, 5, 7)):
        a, b = jg.randn(m, k, dtype=dtype), jg.randn(k, n, dtype=dtype)
        yield a @ b
        yield a.t().contiguous().t() @ b
        yield a @ b.t().contiguous().t()

def layers(dtype):
    x = jg.randn(4, 64, 16, 16, dtype=dtype)
    for stride, groups in ((1, 1), (2, 1), (1, 64)):
        w = jg.randn(64, 64 // groups, 3, 3, dtype=dtype, requires_grad=True)
        y = F.conv2d(x, w, padding=1, stride=stride, groups=groups)
        yield y
        y.sum().backward()
        yield w.grad
    for width in (100, 1024, 1025, 8192, 8193):
        rows = jg.randn(5, width, dtype=dtype, requires_grad=True)
        y = F.softmax(rows, 1) * F.layer_norm(rows, (width,)) + F.log_softmax(rows.t(), 0).t()
        yield y
        y.square().sum().backward()
        yield rows.grad
    q = jg.randn(2, 2, 300, 32, dtype=dtype)
    yield F.scaled_dot_product_attention(q, q, q, is_causal=True)
    yield jg.randn(3000, dtype=dtype).sort()[0].cumsum(0)
    yield jg.linalg.solve(jg.randn(30, 30, dtype=dtype) + 30 * jg.eye(30, dtype=dtype), jg.randn(30, 4, dtype=dtype))

def work():
    for dtype in (jg.float32, jg.float64):
        for function in (products, layers):
            assert all(x.isfinite().all() for x in function(dtype))
            step = jg.compile(lambda: [x.sum() for x in function(dtype)])
            for _ in range(3):
                assert all(x.isfinite() for x in step())
    done.append(True)

done = []
threading.stack_size(int(sys.argv[1]))
thread = threading.Thread(target=work)
thread.start()
thread.join()
assert done == [True]
"""


@pytest.mark.parametrize("nbytes", [1 << 18, 1 << 20])
def test_threads_with_little_stack(nbytes: int) -> None:
    ran = subprocess.run([sys.executable, "-c", IN_A_THREAD, str(nbytes)], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr[-2000:]


def stack_nbytes(text: str) -> int:
    """What a kernel's text takes of the stack by name."""
    found = 0
    for count, lanes, kind in re.findall(r"alloca \[(\d+) x (?:<(\d+) x )?(\w+)>?\]", text):
        found += int(count) * int(lanes or 1) * _SIZES[kind]
    return found


@pytest.mark.parametrize("copy_rows", [False, True])
def test_no_product_takes_more_of_the_stack(copy_rows: bool) -> None:
    for rows, vectors in TILES[32]:
        for dtype in ("float32", "float64"):
            spec = replace(SPEC, dtype_name=dtype, rows=rows, vectors=vectors, copy=True, copy_rows=copy_rows)
            for cost in (1, 100):
                epilogue = StoreEpilogue(dtype)
                epilogue.cost = cost
                assert 0 < stack_nbytes(emit_gemm(spec, "kernel", epilogue)) <= STACK_NBYTES


M, N, K = 40, 48, 2000
SPEC = choose_spec(float32, M, N, K, 1, (0, K, 1), (0, N, 1), "store", host_target())
"""Of several passes, if it copies."""


def test_where_there_is_no_memory_nothing_is_written() -> None:
    """The kernel says so, and whoever called it runs the operation in another way."""
    spec, epilogue = replace(SPEC, copy=True, copy_rows=False), StoreEpilogue("float32")
    operands = Operand(1, 0, (0, K, 1)), Operand(2, 0, (0, N, 1))
    words, units, _, _ = gemm_launch(spec, M, N, K, 1, *operands, epilogue.args(3, 0, M * N, N))
    assert words[18]  # the stride of sums: there are several passes
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((M, K), (K, N)))
    text = emit_gemm(spec, "kernel", epilogue)
    nothing = "define internal ptr @malloc(i64 %n) noinline {\n  ret ptr null\n}\n"
    for is_empty in (False, True):
        out = np.zeros((M, N), np.float32)
        kernel = load(text.replace("declare ptr @malloc(i64)", nothing) if is_empty else text, host_target())
        bufs = (ctypes.c_int64 * 4)(0, *(x.ctypes.data for x in (a, b, out)))
        args = (ctypes.c_int64 * len(words))(*words)
        kernel(ctypes.addressof(bufs), ctypes.addressof(args), 0, units)
        assert bufs[0] == is_empty
        if is_empty:
            assert not out.any()
        else:
            np.testing.assert_allclose(out, a @ b, atol=1e-3)
