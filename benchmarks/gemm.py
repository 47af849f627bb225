"""``python -m benchmarks.gemm``: our matrix multiplication against NumPy's BLAS and PyTorch, one thread and more.

Each subject is called through its own shortest path: NumPy by ``np.matmul(a, b, out=c)``, PyTorch by ``torch.mm(a, b,
out=c)``, each in a process of its own with as many threads, ours as a program of one kernel on the worker pool. Turns
alternate; figures are lower quartiles, with one thread of the process's own time, which others that run on the machine
hardly change. Products are checked against NumPy's before anything is timed. The ratio is the
better peer's time over ours. Without PyTorch installed, NumPy is the only peer.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from jitgrad.abi import Launch, NativeStep
from jitgrad.codegen.driver import driver
from jitgrad.codegen.gemm import GemmSpec, Operand, StoreEpilogue, choose_spec, emit_gemm, gemm_launch
from jitgrad.codegen.llvm.jit import CompiledKernel, KernelSource, compile_kernels
from jitgrad.codegen.llvm.target import host_target
from jitgrad.dtypes import from_numpy_dtype
from jitgrad.runtime.native import executor
from jitgrad.runtime.native.pool import set_num_threads

__all__ = ["main"]

_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_SECONDS_PER_TURN = 0.03  # a core that was idle takes some milliseconds to be fast
_LINE = 64
_PAUSE = 0.01  # lets the other subject's workers fall asleep


class Shape(NamedTuple):
    """[m, k] @ [k, n]; ``form``: N or T for each operand, T being a transposed view of a contiguous array."""

    m: int
    n: int
    k: int
    form: str = "NN"
    dtype: str = "float32"


SQUARES = tuple(Shape(n, n, n) for n in (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024))
LAYERS = tuple(
    Shape(*extents, form)
    for batch, fan_in, fan_out in ((32, 64, 128), (64, 784, 128), (256, 784, 1024), (256, 1024, 1024))
    for *extents, form in (
        (batch, fan_out, fan_in, "NN"),  # x @ w
        (batch, fan_out, fan_in, "NT"),  # x @ w.T, a Linear layer
        (batch, fan_in, fan_out, "NN"),  # g @ w, its input's gradient
        (fan_out, fan_in, batch, "TN"),  # g.T @ x, its weight's gradient
    )
)
RECURRENT = tuple(  # a layer of 256 units: a batch of 20, 64, 256; forward, and the weight's gradient
    Shape(*extents, form)
    for extents, forms in (
        ((20, 1024, 256), ("NN", "NT")), ((256, 1024, 20), ("NN", "TN")), ((64, 1024, 256), ("NN", "NT")),
        ((256, 1024, 256), ("NN", "NT")), ((20, 256, 64), ("NN", "NT")), ((1024, 256, 20), ("TN",)),
    )
    for form in forms
)  # fmt: skip
LONG = (Shape(64, 576, 4096, "TN"), Shape(128, 1152, 4096, "TN"), Shape(512, 32, 1024, "TN"))  # of convolutions
DOUBLES = tuple(Shape(n, n, n, "NN", "float64") for n in (64, 256, 512))


@dataclass(slots=True)
class Result:
    """Seconds per product, lower quartiles; of the peers by name."""

    shape: Shape
    threads: int
    ours: float
    peers: dict[str, float]
    compile_ms: float

    @property
    def ratio(self) -> float:
        return min(self.peers.values()) / self.ours

    @property
    def gflops(self) -> float:
        return 2e-9 * self.shape.m * self.shape.n * self.shape.k / self.ours


def aligned(extents: tuple[int, int], dtype: str) -> np.ndarray:
    """Memory that begins with a line of the cache, as that of PyTorch's and of our tensors does."""
    nbytes = extents[0] * extents[1] * np.dtype(dtype).itemsize
    memory = np.empty(nbytes + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    return memory[start : start + nbytes].view(dtype).reshape(extents)


def operands(shape: Shape) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same two matrices in every process, and room for their product."""
    rng = np.random.default_rng(0)

    def matrix(rows: int, columns: int, form: str) -> np.ndarray:
        values = aligned((columns, rows) if form == "T" else (rows, columns), shape.dtype)
        values[...] = rng.standard_normal(values.shape)
        return values.T if form == "T" else values

    left, right = matrix(shape.m, shape.k, shape.form[0]), matrix(shape.k, shape.n, shape.form[1])
    return left, right, aligned((shape.m, shape.n), shape.dtype)


def seconds_per_call(call: Callable[[], Any], repeats: int, threads: int) -> float:
    clock = time.process_time if threads == 1 else time.perf_counter
    for _ in range(repeats // 2):  # untimed: wakes the workers, fills the caches
        call()
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) / repeats


# the peer


def product_of(name: str, shape: Shape) -> Callable[[], Any]:
    """A call of the peer's product."""
    a, b, out = operands(shape)
    if name == "numpy":
        return lambda: np.matmul(a, b, out=out)
    import torch

    tensors = [torch.from_numpy(x) for x in (a, b, out)]
    return lambda: torch.mm(tensors[0], tensors[1], out=tensors[2])


def serve(name: str, threads: int) -> None:
    """Answer lines of [shape, repeats] with seconds per call."""
    if name == "torch":
        import torch

        torch.set_num_threads(threads)
    ready: dict[Shape, Callable[[], Any]] = {}
    for line in sys.stdin:
        fields, repeats = json.loads(line)
        shape = Shape(*fields)
        if shape not in ready:
            ready[shape] = product_of(name, shape)
            ready[shape]()
        print(seconds_per_call(ready[shape], repeats, threads), flush=True)


@contextmanager
def peer_process(name: str, threads: int) -> Iterator[Callable[[Shape, int], float]]:
    """A process that times a peer with ``threads`` threads."""
    env = dict(os.environ, **dict.fromkeys(_THREAD_VARIABLES, str(threads)))
    command = [sys.executable, "-m", "benchmarks.gemm", "--serve", name, "--threads", str(threads)]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None

        def timed(shape: Shape, repeats: int) -> float:
            process.send_signal(signal.SIGCONT)
            print(json.dumps([shape, repeats]), file=process.stdin, flush=True)
            seconds = float(process.stdout.readline())
            process.send_signal(signal.SIGSTOP)  # BLAS threads go on spinning for a while, on the cores that we need
            return seconds

        yield timed
        process.send_signal(signal.SIGCONT)
        process.stdin.close()


# ours


class Ours:
    """Programs of one product each."""

    def __init__(self) -> None:
        loops = driver.load()
        executor.install(loops.driver, loops.worker, loops)
        self._kernels: dict[GemmSpec, CompiledKernel] = {}
        self.compile_ms: dict[GemmSpec, float] = {}

    def _kernel(self, spec: GemmSpec) -> CompiledKernel:
        if spec not in self._kernels:
            start = time.perf_counter()
            epilogue = StoreEpilogue(spec.dtype_name)
            source = KernelSource("gemm", f"benchmark {spec}", lambda: emit_gemm(spec, "gemm", epilogue))
            (self._kernels[spec],) = compile_kernels([source])
            self.compile_ms[spec] = 1e3 * (time.perf_counter() - start)
        return self._kernels[spec]

    def program(self, shape: Shape) -> tuple[Callable[[], Any], GemmSpec]:
        """A call that runs the product, after checking it against NumPy."""
        a, b, out = operands(shape)
        dtype = from_numpy_dtype(a.dtype)
        a_strides, b_strides = ((0, *(s // x.itemsize for s in x.strides)) for x in (a, b))
        epilogue = StoreEpilogue(dtype.name)
        size = (shape.m, shape.n, shape.k, 1)
        spec = choose_spec(dtype, *size, a_strides, b_strides, epilogue.key, host_target())
        words, units, grain, cost = gemm_launch(
            spec, *size, Operand(1, 0, a_strides), Operand(2, 0, b_strides), epilogue.args(3, 0, 0, shape.n)
        )
        kernel = self._kernel(spec)
        launch = Launch(kernel.address, words, units, grain, cost, "gemm")
        step = executor.LoadedStep(NativeStep((0, 1), ((2, out.nbytes),), 0, (), ((launch,),), kernel))
        inputs, outputs = [a.ctypes.data, b.ctypes.data], [out.ctypes.data]
        step.run(inputs, outputs)
        np.testing.assert_allclose(out, a @ b, rtol=1e-3, atol=1e-3)
        keep = (a, b, out)
        return lambda: (step.run(inputs, outputs), keep), spec


def compare(
    ours: Ours, peers: dict[str, Callable[[Shape, int], float]], shape: Shape, threads: int, turns: int
) -> Result:
    """Alternate the subjects on one shape."""
    call, spec = ours.program(shape)
    guess = 2.0 * shape.m * shape.n * shape.k / (1e11 * threads) + 1e-6
    repeats = max(2, int(_SECONDS_PER_TURN / guess))
    mine: list[float] = []
    theirs: dict[str, list[float]] = {name: [] for name in peers}
    for peer in peers.values():
        peer(shape, 1)
    for _ in range(turns):
        mine.append(seconds_per_call(call, repeats, threads))
        for name, peer in peers.items():
            time.sleep(_PAUSE)
            theirs[name].append(peer(shape, repeats))
    quartiles = {name: float(np.quantile(x, 0.25)) for name, x in theirs.items()}
    return Result(shape, threads, float(np.quantile(mine, 0.25)), quartiles, ours.compile_ms[spec])


def run(shapes: tuple[Shape, ...], thread_counts: list[int], turns: int) -> Iterator[Result]:
    ours = Ours()
    names = ["numpy", "torch"] if importlib.util.find_spec("torch") else ["numpy"]
    for threads in thread_counts:
        set_num_threads(threads)
        with ExitStack() as stack:
            peers = {name: stack.enter_context(peer_process(name, threads)) for name in names}
            for shape in shapes:
                yield compare(ours, peers, shape, threads, turns)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gemm", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a document instead of a table")
    parser.add_argument("--turns", type=int, default=15, help="per subject and shape (default: 15)")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2], help="thread counts (default: 1 2)")
    parser.add_argument("--squares", action="store_true", help="square float32 products only")
    parser.add_argument("--serve", choices=["numpy", "torch"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.threads[0])
        return 0
    shapes = SQUARES if options.squares else SQUARES + LAYERS + RECURRENT + LONG + DOUBLES
    results = []
    for result in run(shapes, options.threads, options.turns):
        results.append({**asdict(result), "shape": result.shape._asdict(), "ratio": result.ratio})
        if not options.json:
            m, n, k, form, dtype = result.shape
            peers = "  ".join(f"{name} {1e6 * seconds:9.1f} us" for name, seconds in result.peers.items())
            print(
                f"{m:5}x{n:<5}k={k:<5}{form} {dtype} {result.threads} thread(s)  ours {1e6 * result.ours:9.1f} us"
                f" {result.gflops:6.1f} GFLOP/s  {peers}  {result.ratio:5.2f}x",
                flush=True,
            )
    if not options.json:
        for threads in options.threads:
            ratios = [r["ratio"] for r in results if r["threads"] == threads]
            print(f"{threads} thread(s): geometric mean {np.exp(np.mean(np.log(ratios))):.2f}, least {min(ratios):.2f}")
    if options.json:
        print(json.dumps({"numpy": np.__version__, "target": host_target().key, "results": results}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
