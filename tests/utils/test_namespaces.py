"""Namespaces that are imported when they are first used: what they hold does what PyTorch's does."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.utils import benchmark
from tests.modes import Mode


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="parity tests compare with PyTorch")


# --- testing.make_tensor ---

MADE: dict[str, dict[str, Any]] = {
    "floats": {"dtype": "float32"},
    "doubles": {"dtype": "float64", "low": 0, "high": 1},
    "complex numbers": {"dtype": "complex64"},
    "integers": {"dtype": "int64"},
    "bytes": {"dtype": "uint8", "low": 3},
    "bools": {"dtype": "bool"},
    "without zeros": {"dtype": "int64", "low": -1, "high": 2, "exclude_zero": True},
    "apart": {"dtype": "float32", "noncontiguous": True},
    "everything": {"dtype": "float64", "low": float("-inf"), "high": float("inf")},
    "no limits": {"dtype": "float32", "low": 2, "high": 1},
    "beyond": {"dtype": "uint8", "low": 300, "high": 400},
    "integers with a gradient": {"dtype": "int64", "requires_grad": True},
}


def _made(t: Any, options: dict[str, Any]) -> Any:
    t.manual_seed(3)
    try:
        x = t.testing.make_tensor(3, 4, device="cpu", **{**options, "dtype": getattr(t, options["dtype"])})
    except ValueError as error:
        return type(error)
    return tuple(x.shape), x.is_contiguous(), x.tolist()


@pytest.mark.parametrize("name", MADE)
def test_make_tensor_draws_pytorchs_numbers(name: str, torch: Any) -> None:
    assert _made(jitgrad, MADE[name]) == _made(torch, MADE[name])


# --- nn.grad ---


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_gradients_of_convolutions(dims: int, torch: Any, mode: Mode) -> None:
    rng = np.random.default_rng(5)
    x, weight = rng.normal(size=(2, 4, *[6] * dims)), rng.normal(size=(6, 2, *[3] * dims))
    g = rng.normal(size=(2, 6, *[3] * dims))

    def both(t: Any) -> Any:
        by_input, by_weight = (getattr(t.nn.grad, f"conv{dims}d_{name}") for name in ("input", "weight"))
        a, w, out = (t.from_numpy(value) for value in (x, weight, g))
        options = {"stride": 2, "padding": 1, "groups": 2}
        return by_input(a.shape, w, out, **options), by_weight(a, w.shape, out, **options)

    for got, expected in zip(mode.run(lambda: both(jitgrad)), both(torch), strict=True):
        np.testing.assert_allclose(got.numpy(), expected.numpy(), 1e-10, 1e-12)


# --- library ---


def _cubed(t: Any) -> Any:
    def cubed(x: Any, scale: Any = 2.0) -> Any:
        return x * x * x * scale

    cubed.__annotations__ = {"x": t.Tensor, "scale": float, "return": t.Tensor}
    cube = t.library.custom_op("jitgradtests::cube", cubed, mutates_args=())

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.scale = inputs[1]

    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x * ctx.scale, None

    cube.register_autograd(backward, setup_context=keep)
    cube.register_fake(lambda x, scale=2.0: t.empty_like(x))
    return cube


def test_a_custom_operation_and_its_derivative(torch: Any, mode: Mode) -> None:
    def step(t: Any, cube: Any) -> Any:
        x = t.arange(1.0, 4.0).requires_grad_()
        y = cube(x, scale=0.5)
        y.sum().backward()
        return y.detach(), x.grad

    cube = _cubed(jitgrad)
    got = mode.run(lambda: step(jitgrad, cube))
    for a, b in zip(got, step(torch, _cubed(torch)), strict=True):
        assert a.tolist() == b.tolist()
    assert cube(jitgrad.empty(3, device="meta")).device.type == "meta"


def test_what_a_custom_operation_must_not_do(torch: Any) -> None:
    for t in (torch, jitgrad):
        with pytest.raises((ValueError, RuntimeError)):
            t.library.custom_op("cube", _same(t), mutates_args=())
        same = t.library.custom_op("jitgradtests::same", mutates_args=())(_same(t))
        with pytest.raises(RuntimeError, match="must not also be an input"):
            same(t.ones(2))
        writes = t.library.custom_op("jitgradtests::writes", mutates_args=("x",))(_writes(t))
        with pytest.raises(RuntimeError, match="non-functional"):
            writes.register_autograd(lambda ctx, g: g)
        x = t.ones(2)
        writes(x)
        assert x.tolist() == [2, 2]


def _same(t: Any) -> Any:
    def same(x: Any) -> Any:
        return x

    same.__annotations__ = {"x": t.Tensor, "return": t.Tensor}
    return same


def _writes(t: Any) -> Any:
    def writes(x: Any) -> None:
        x.add_(1)

    writes.__annotations__ = {"x": t.Tensor, "return": None}
    return writes


def test_another_kernel_for_a_device() -> None:
    made = jitgrad.library.custom_op("jitgradtests::where", lambda x: x + 1, mutates_args=(), device_types="cpu")
    assert made(jitgrad.ones(1)).tolist() == [2]
    with pytest.raises(NotImplementedError, match="device"):
        made(jitgrad.ones(1, device="vcpu:0"))
    jitgrad.library.register_kernel("jitgradtests::where", "vcpu", lambda x: x + 2)
    assert made(jitgrad.ones(1, device="vcpu:0")).tolist() == [3]
    with pytest.raises(RuntimeError, match="does not exist"):
        jitgrad.library.register_fake("jitgradtests::nothing")


# --- return_types, accelerator ---


def test_classes_of_named_results() -> None:
    x = jitgrad.eye(3)
    assert type(x.max(0)) is jitgrad.return_types.max
    assert type(jitgrad.linalg.svd(x)) is jitgrad.return_types.linalg_svd
    assert type(jitgrad.linalg.lstsq(x, x)) is jitgrad.return_types.linalg_lstsq
    for name in jitgrad.return_types.__all__:
        assert issubclass(getattr(jitgrad.return_types, name), tuple)
    with pytest.raises(AttributeError):
        _ = jitgrad.return_types.nothing


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_there_is_no_accelerator(torch: Any) -> None:
    for name in set(torch.accelerator.__all__) - {"Graph", "set_stream", "device_index"}:
        for args in ((), (0,)):
            try:
                expected: Any = getattr(torch.accelerator, name)(*args)
            except RuntimeError as error:
                with pytest.raises(RuntimeError, match="accelerator"):
                    getattr(jitgrad.accelerator, name)(*args)
                assert "accelerator" in str(error)
            except TypeError:
                continue
            else:
                assert getattr(jitgrad.accelerator, name)(*args) == expected


# --- utils.benchmark ---


def test_a_timer_counts_what_it_runs() -> None:
    runs: list[int] = []
    timer = benchmark.Timer("runs.append(1)", globals={"runs": runs}, label="appending", description="list")
    found = timer.timeit(200)
    assert (found.number_per_run, len(found.times), len(runs)) == (200, 1, 202)
    assert found.median == found.mean > 0
    blocks = timer.blocked_autorange(min_run_time=0.001)
    assert blocks.number_per_run * len(blocks.times) <= len(runs)
    with pytest.raises(ValueError, match="statements are Python"):
        benchmark.Timer(language="c++")


def test_a_table_compares_measurements() -> None:
    rows = [
        benchmark.Measurement(10, [seconds], benchmark.TaskSpec("x", "pass", "products", row, column))
        for row, column, seconds in (("small", "ours", 1e-4), ("small", "theirs", 2e-4), ("large", "ours", 3e-2))
    ]
    lines = str(benchmark.Compare(rows)).splitlines()
    assert "[products]" in lines[0]
    assert [part.strip() for part in lines[1].split("|")] == ["", "ours", "theirs"]
    assert [part.strip() for part in lines[3].split("|")] == ["small", "10.0", "20.0"]
    assert [part.strip() for part in lines[4].split("|")] == ["large", "3000.0", ""]
    assert benchmark.select_unit(2e-5) == ("us", 1e-6)
    assert len(benchmark.Measurement.merge([*rows, rows[0]])) == 3


# --- multiprocessing ---


def _send(i: int, queue: Any, x: Any) -> None:
    queue.put((i, x * i, os.getpid()))


def _raise(i: int) -> None:
    if i == 1:
        raise ValueError("a sentence to look for")


def test_processes_take_tensors_and_send_them_back() -> None:
    multiprocessing = jitgrad.multiprocessing
    queue = multiprocessing.get_context("spawn").SimpleQueue()
    multiprocessing.spawn(_send, (queue, jitgrad.arange(3.0)), nprocs=1)
    i, found, pid = queue.get()
    assert (i, found.tolist()) == (0, [0, 0, 0]) and pid != os.getpid()


def test_an_error_in_a_process_is_raised_here() -> None:
    multiprocessing = jitgrad.multiprocessing
    with pytest.raises(multiprocessing.ProcessRaisedException, match="a sentence to look for") as caught:
        multiprocessing.start_processes(_raise, nprocs=2, start_method="fork")
    assert caught.value.error_index == 1
    with pytest.raises(ValueError, match="expected one of"):
        multiprocessing.set_sharing_strategy("by hand")
