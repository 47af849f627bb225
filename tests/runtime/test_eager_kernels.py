"""Eager operations on many elements: kernels in place of NumPy's rules, Note [Eager kernels]."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from ops.op_specs import SPECS, Sample

import jitgrad as jg
from jitgrad.config import EAGER_KERNELS, config
from jitgrad.dispatch import door
from jitgrad.ops.table import OPS
from jitgrad.runtime.eager import plan as plan_module
from jitgrad.runtime.eager.plan import plans
from jitgrad.runtime.eager.quiet import run_quietly
from tests.eager_bounds import eager_kernels_from, forget_kernels


@pytest.fixture
def all_by_kernels() -> Iterator[None]:
    """However few elements an operation has."""
    with eager_kernels_from(1):
        yield


@pytest.fixture
def usual_bounds() -> Iterator[None]:
    """As without ``JITGRAD_EAGER``."""
    with eager_kernels_from(EAGER_KERNELS):
        yield


def by_rules(function: Any, *args: Any) -> Any:
    """What NumPy's rules make of it."""
    with eager_kernels_from(-1):
        return function(*args)


def kernels_made(function: Any) -> int:
    forget_kernels()
    before = jg.stats()["eager_kernels"]
    function()
    return int(jg.stats()["eager_kernels"] - before)


def tensors(value: Any) -> Any:
    if isinstance(value, list):
        return [tensors(v) for v in value]
    if not isinstance(value, np.ndarray):
        return value
    return jg.tensor(value, dtype=jg.float32 if value.dtype == np.float64 else None)


def flat(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple | list) else [results]


WITH_KERNELS = sorted(name for name, op in OPS.items() if op.lower and op.numpy and SPECS.get(name))


@pytest.mark.parametrize("part", range(8))
def test_kernels_and_rules_agree(all_by_kernels: None, part: int) -> None:
    """One sample of each operation: values, dtypes, strides."""
    for name in WITH_KERNELS[part::8]:
        sample: Sample = SPECS[name][0]
        args = [OPS[name], *map(tensors, sample.inputs), *sample.params]
        got, want = flat(door.apply(*args)), flat(by_rules(door.apply, *args))
        for a, b in zip(got, want, strict=True):
            assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride()), name
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=2e-5, err_msg=name)


def test_large_operations_have_kernels_and_small_ones_do_not(usual_bounds: None) -> None:
    x, small = jg.rand(config.eager_kernels + 1), jg.rand(config.eager_kernels - 1)
    assert kernels_made(lambda: [jg.exp(x), jg.exp(x), x * 2.5, x * 3.5, x + x]) == 3
    assert kernels_made(lambda: [jg.exp(small), small * 2.5]) == 0


def test_rules_of_several_calls_have_kernels_for_any_number_of_elements(usual_bounds: None) -> None:
    x, one = jg.rand(config.eager_kernels // 2), jg.rand(1)
    for few in (x, one):
        assert kernels_made(lambda x=few: [jg.erf(x), jg.erf(x), jg.softmax(x, 0), jg.cat([x, x])]) == 3
        assert kernels_made(lambda x=few: [jg.exp(x), x * 2.5, 2.5 - x, x**2, jg.where(x > x, x, x)]) == 0


@pytest.mark.parametrize("name", ["logaddexp", "hypot", "cumsum", "sort", "topk", "median", "lgamma", "erfinv"])
def test_slow_rules_have_kernels_for_any_number_of_elements(usual_bounds: None, name: str) -> None:
    x = jg.rand(4, 5)
    arguments = {"logaddexp": (x,), "hypot": (x,), "cumsum": (1,), "topk": (2,)}.get(name, ())
    assert kernels_made(lambda: getattr(x, name)(*arguments)) == 1


def test_bits_are_those_of_a_compiled_step(usual_bounds: None) -> None:
    x = jg.randn(100, 211)
    for function in (jg.exp, jg.erf, jg.tanh, lambda t: jg.softmax(t, 1), lambda t: t.sum(0), lambda t: t @ t.t()):
        np.testing.assert_array_equal(function(x).numpy(), jg.compile(function)(x).numpy())


def test_the_first_call_gives_the_bits_of_the_hundredth() -> None:
    x = jg.randn(20_000)
    plans.clear()
    first = jg.sigmoid(x).numpy()
    for _ in range(3):
        np.testing.assert_array_equal(jg.sigmoid(x).numpy(), first)


def test_threads_do_not_change_bits() -> None:
    x = jg.randn(700, 300)
    count = jg.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            jg.set_num_threads(threads)
            results.append((jg.log_softmax(x, 1).sum(0) * 3).numpy())
    finally:
        jg.set_num_threads(count)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


def test_views_and_layouts(all_by_kernels: None) -> None:
    x = jg.arange(48, dtype=jg.float32).reshape(6, 8)
    np.testing.assert_array_equal((x[1:, ::2] * x[:-1, 1::2]).numpy(), x.numpy()[1:, ::2] * x.numpy()[:-1, 1::2])
    turned = x.t() + 1.0
    assert turned.stride() == (1, 8)
    np.testing.assert_array_equal(turned.numpy(), x.numpy().T + 1)
    np.testing.assert_array_equal((x[0].expand(3, 8) - x[:3]).numpy(), x.numpy()[0] - x.numpy()[:3])


def test_writes(all_by_kernels: None) -> None:
    x = jg.arange(24, dtype=jg.float32).reshape(4, 6) / 8
    part = x[1:3, ::2]
    version = x._version
    part.mul_(part).add_(1.0)
    part.exp_()
    want = np.arange(24, dtype=np.float32).reshape(4, 6) / 8
    want[1:3, ::2] = np.exp(want[1:3, ::2] ** 2 + 1)
    np.testing.assert_allclose(x.numpy(), want, rtol=1e-6)
    assert x._version == version + 3


def test_an_integer_target_refuses_a_float_result(all_by_kernels: None) -> None:
    x = jg.ones(3, dtype=jg.int64)
    with pytest.raises(RuntimeError, match="can't be cast"):
        x.mul_(0.5)
    x.mul_(2)
    assert x.tolist() == [2, 2, 2]


def test_training(all_by_kernels: None) -> None:
    """Layers, losses, optimizers: the same losses as by NumPy's rules."""

    def losses() -> list[float]:
        jg.manual_seed(3)
        model = jg.nn.Sequential(jg.nn.Linear(6, 16), jg.nn.GELU(), jg.nn.LayerNorm(16), jg.nn.Linear(16, 3))
        optimizer = jg.optim.AdamW(model.parameters(), lr=1e-2)
        x, y = jg.randn(20, 6), jg.randint(0, 3, (20,))
        found = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = jg.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    np.testing.assert_allclose(losses(), by_rules(losses), rtol=1e-5)


def test_a_bad_index_raises_what_the_rule_raises_and_writes_nothing(all_by_kernels: None) -> None:
    table, indices = jg.rand(5, 3), jg.tensor([0, 7])
    for _ in range(2):
        with pytest.raises(IndexError):
            table.index_select(0, indices)
    target = jg.zeros(5)
    with pytest.raises((IndexError, RuntimeError)):
        target.scatter_add_(0, indices, jg.ones(2))
    assert target.tolist() == [0.0] * 5
    assert table.index_select(0, jg.tensor([4])).shape == (1, 3)


TABLES_WITHOUT_ROWS: dict[str, Any] = {
    "gather": lambda zeros: jg.zeros(4, 0).gather(1, zeros.reshape(4, 1)),
    "take_along_dim": lambda zeros: jg.take_along_dim(jg.zeros(4, 0), zeros.reshape(4, 1), 1),
    "embedding": lambda zeros: jg.nn.functional.embedding(zeros, jg.zeros(0, 3)),
    "embedding_bag": lambda zeros: jg.nn.functional.embedding_bag(zeros.reshape(2, 2), jg.zeros(0, 3)),
    "nll_loss": lambda zeros: jg.nn.functional.nll_loss(jg.zeros(4, 0), zeros),
    "cross_entropy": lambda zeros: jg.nn.functional.cross_entropy(jg.zeros(4, 0), zeros),
    "scatter_add": lambda zeros: jg.zeros(0).scatter_add(0, zeros, jg.ones(4)),
}


@pytest.mark.parametrize("name", TABLES_WITHOUT_ROWS)
def test_a_kernel_reads_nothing_of_a_table_without_rows(all_by_kernels: None, name: str) -> None:
    """A bad index reads row 0 instead, and here is none: without memory at the table's address that was a fault."""
    for _ in range(2):
        with pytest.raises((IndexError, RuntimeError), match=r"out of (bounds|range)"):
            TABLES_WITHOUT_ROWS[name](jg.zeros(4, dtype=jg.int64))


def test_a_write_after_a_kernel_of_the_same_operation(all_by_kernels: None) -> None:
    """The plan has a kernel that no target fits, and its NumPy rule is no ufunc."""
    x, target = jg.rand(8) + 1, jg.zeros(8)
    want = jg.xlogy(2.5, x)
    for _ in range(2):
        door.apply_inplace(OPS["xlogy"], (target,), 2.5, x)
        np.testing.assert_allclose(target.numpy(), want.numpy(), rtol=1e-6)


def test_numbers_of_one_plan(all_by_kernels: None) -> None:
    x = jg.tensor([1.0, -2.0, 0.0])
    assert (x * 2).tolist() == [2.0, -4.0, 0.0]
    assert (x * 3).tolist() == [3.0, -6.0, 0.0]
    assert (x * -0.0).numpy().tobytes() == (x.numpy() * np.float32(-0.0)).tobytes()
    assert (x**2).tolist() == [1.0, 4.0, 0.0]
    assert (2**x).tolist() == [2.0, 0.25, 1.0]
    assert jg.where(x > 0, x, 7.0).tolist() == [1.0, 7.0, 7.0]


def test_large_results_share_memory_with_numpy_and_views() -> None:
    x = jg.ones(200, 200)
    y = x + 1
    array, row = y.numpy(), y[3]
    array[3] = 5
    assert row.tolist() == [5.0] * 200
    assert y.data_ptr() == array.ctypes.data
    del x, y
    assert array[0, 0] == 2
    assert row[0].item() == 5


def test_a_gradient_is_taken_over_without_a_copy_and_never_shared() -> None:
    x = jg.ones(100, 200, requires_grad=True)
    kept: list[Any] = []
    (x * 3).sum().backward()
    assert x.grad is not None
    first = x.grad
    y = x * 2
    y.register_hook(kept.append)
    (y * y).sum().backward()
    assert first.unique().tolist() == [11.0]
    kept[0].mul_(0)
    assert first.unique().tolist() == [11.0]


def test_the_environment_can_forbid_kernels() -> None:
    code = "import jitgrad as jg; jg.exp(jg.ones(100000)).sum(); print(jg.stats()['eager_kernels'])"
    for value, least in (("numpy", 0), ("", 1)):
        env = {**os.environ, "JITGRAD_EAGER": value}
        out = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True)
        assert (int(out.stdout) > 0) == bool(least)


@pytest.mark.usefixtures("all_by_kernels")
def test_rows_of_a_matrix_share_a_kernel() -> None:
    """Views that begin elsewhere have plans of their own, and ask for the same program."""
    rows, weights = jg.randn(40, 200, 300), jg.randn(20, 300)
    made = kernels_made(lambda: [jg.nn.functional.linear(rows[i], weights) for i in range(40)])
    assert made == 1


@pytest.mark.parametrize("write", ["mul_", "add_", "copy_", "maximum"])
@pytest.mark.parametrize("view", ["diagonal", "column"])
def test_a_target_is_written_as_if_operands_were_read_first(view: str, write: str) -> None:
    """A view of what is written is read as it was, however many elements there are."""
    for side in (3, 120):
        x = jg.arange(float(side * side)).reshape(side, side) / side + 0.5
        want = x.numpy().copy()
        seen = {"diagonal": np.diagonal(want), "column": want[:, 1]}[view].copy()
        v = {"diagonal": x.diagonal(), "column": x[:, 1]}[view]
        if write == "maximum":
            jg.maximum(x, v, out=x)
            want = np.maximum(want, seen)
        else:
            getattr(x, write)(v)
            want = {"mul_": want * seen, "add_": want + seen, "copy_": np.broadcast_to(seen, want.shape)}[write]
        np.testing.assert_array_equal(x.numpy(), want)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_numbers_of_more_than_64_bits_are_the_rules(dtype: str) -> None:
    few, many = (jg.ones(n, dtype=getattr(jg, dtype)) for n in (4, 20_000))

    def outcome(call: Any, x: Any) -> Any:
        try:
            return call(x)[:4].tolist()
        except (RuntimeError, OverflowError) as error:
            return type(error), str(error)

    for call in (lambda x: x + 2**63, lambda x: x * 2**70, lambda x: x < 2**63, lambda x: x.clone().add_(2**64)):
        assert outcome(call, few) == outcome(call, many)


@pytest.mark.parametrize("name", ["mm", "bmm", "addmm", "linear", "linear_nobias"])
def test_products_are_kernels(usual_bounds: None, name: str) -> None:
    """Threads of a BLAS wait for each other, and cores may be taken; of a small product NumPy's call takes longer."""

    def product(n: int) -> Any:
        x, y, b = jg.randn(n, n), jg.randn(n, n), jg.randn(n)
        made = {
            "mm": lambda: x @ y,
            "bmm": lambda: jg.bmm(x[None], y[None]),
            "addmm": lambda: jg.addmm(b, x, y),
            "linear": lambda: jg.nn.functional.linear(x, y, b),
            "linear_nobias": lambda: jg.nn.functional.linear(x, y),
        }
        return made[name]

    for n in (1, 3, 64):
        call = product(n)
        assert kernels_made(call) == 1
        np.testing.assert_allclose(call().numpy(), by_rules(call).numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["product", "convolution"])
def test_interpreted_products_are_kernels(usual_bounds: None, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A call that is not compiled yet copies views, so operands lie otherwise than eager mode's do: also then."""
    by_blas: list[Any] = []

    def watched(function: Any, *args: Any) -> Any:
        if function is np.matmul or function is OPS["conv2d"].numpy:
            by_blas.append([x.shape for x in args[:2]])
        return run_quietly(function, *args)

    monkeypatch.setattr(plan_module, "run_quietly", watched)

    def step(x: Any, w: Any) -> Any:
        y = x
        for _ in range(3 * config.compile_at_once):
            y = y * 0.9
        if kind == "product":
            return (y @ w.transpose(1, 2)).sum()
        return jg.nn.functional.conv2d(y.transpose(0, 1), w.transpose(0, 1)).sum()

    x, w = jg.randn(4, 80, 80), jg.randn(4, 80, 80)
    if kind == "convolution":
        x, w = jg.randn(4, 3, 30, 30), jg.randn(4, 5, 3, 3)
    compiled = jg.compile(step)
    first = compiled(x, w).item()
    assert jg.stats()["eager_kernels"] and not by_blas
    np.testing.assert_allclose([first, compiled(x, w).item(), compiled(x, w).item()], step(x, w).item(), rtol=1e-4)
