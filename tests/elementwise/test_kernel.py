"""``@jitgrad.kernel``: what functions of whole arrays compute, in every mode and under every transformation."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from array_functions import extremes, pick, running_sum, smooth, smooth_back
from modes import VIRTUAL, Mode
from threads import run_threads

import jitgrad
from jitgrad.utils.checkpoint import checkpoint

pytest.importorskip("numba", reason="jitgrad.kernel compiles by Numba")

SMOOTH = jitgrad.kernel(smooth, units=lambda x, decay: x.shape[0])
SMOOTH_BACK = jitgrad.kernel(smooth_back, results=lambda grad, x, out, decay: [x, ((), jitgrad.float64)])
SMOOTH.derivative(SMOOTH_BACK)
RUNNING = jitgrad.kernel(running_sum)
EXTREMES = jitgrad.kernel(
    extremes, results=lambda x, bins, is_wide: [x.shape[1], (x.size(1),), ((bins,), jitgrad.int64)]
)
PICK = jitgrad.kernel(pick, results=lambda x, at: (at.shape, x.dtype))


@RUNNING.derivative
def _running_back(grad: Any) -> Any:
    return grad.flip(0).cumsum(0).flip(0)


def _smooth_by_tensors(x: Any, decay: Any) -> Any:
    columns: list[Any] = []
    state = 0.0
    for i in range(x.shape[1]):
        state = decay * state + (1 - decay) * x[:, i]
        columns.append(state)
    return jitgrad.stack(columns, 1)


def _leaf(x: Any) -> Any:
    return jitgrad.tensor(x, requires_grad=True)


def test_values_and_gradients_by_another_kernel(mode: Mode, rng: Any) -> None:
    x, decay = rng.standard_normal((5, 9)), np.float64(0.7)

    def step(function: Any, x: Any, decay: Any) -> Any:
        y = function(x * 2.0, decay)
        (y * y).sum().backward()
        return y.detach(), x.grad, decay.grad

    found = mode.run(lambda *args: step(SMOOTH, *args), lambda: (_leaf(x), _leaf(decay)))
    wanted = step(_smooth_by_tensors, _leaf(x), _leaf(decay))
    for got, exact in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got.numpy(), exact.numpy(), rtol=1e-12, atol=1e-13)


def test_a_derivative_in_tensor_code_can_be_differentiated_again(mode: Mode, rng: Any) -> None:
    x, w = rng.standard_normal((2, 8))

    def step(x: Any, w: Any) -> Any:
        y = RUNNING(x * x)
        (first,) = jitgrad.autograd.grad((y * w).sum(), x, create_graph=True)
        (second,) = jitgrad.autograd.grad((first * first).sum(), x)
        return first.detach(), second

    first, second = mode.run(step, lambda: (_leaf(x), jitgrad.tensor(w)))
    behind = np.cumsum(w[::-1])[::-1]
    np.testing.assert_allclose(first.numpy(), 2 * x * behind, rtol=1e-12)
    np.testing.assert_allclose(second.numpy(), 8 * x * behind * behind, rtol=1e-12)


def test_gradcheck(rng: Any) -> None:
    x, decay = _leaf(rng.standard_normal((2, 4))), _leaf(np.float64(0.4))
    assert jitgrad.autograd.gradcheck(SMOOTH, (x, decay))
    row = _leaf(rng.standard_normal(5))
    assert jitgrad.autograd.gradcheck(RUNNING, (row,), check_forward_ad=True, check_batched_grad=True)
    assert jitgrad.autograd.gradgradcheck(RUNNING, (row,))


def test_several_results_ints_and_bools(mode: Mode, rng: Any) -> None:
    x = rng.uniform(-0.5, 1.5, (6, 3))

    def step(x: Any) -> Any:
        low, high, counts = EXTREMES(x, 4, False)
        return low, high + 1, counts * 2, EXTREMES(x, bins=2, is_wide=True)[2]

    low, high, counts, wide = mode.run(step, lambda: (jitgrad.tensor(x),))
    np.testing.assert_array_equal(low.numpy(), x.min(0))
    np.testing.assert_array_equal(high.numpy(), x.max(0) + 1)
    np.testing.assert_array_equal(counts.numpy(), 2 * np.histogram(x, 4, (0, 1))[0])
    assert counts.dtype is jitgrad.int64 and wide.tolist() == [(x < 0.5).sum(), (x >= 0.5).sum()]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "int16", "int8", "uint8"])
def test_every_dtype_that_numba_has(mode: Mode, dtype: str) -> None:
    x = jitgrad.arange(6).to(getattr(jitgrad, dtype))
    y = mode.run(lambda x: RUNNING(x), lambda: (x,))
    assert y.dtype is x.dtype and y.tolist() == [0, 1, 3, 6, 10, 15]


def test_operands_that_are_not_row_major_arrive_row_major(mode: Mode, rng: Any) -> None:
    x = rng.standard_normal((6, 8))

    def step(x: Any) -> Any:
        views = x.t(), x[1::2, ::3], x[2:4], x[:, :1].expand(6, 5), x.flip(1)
        return [SMOOTH(v, 0.5) for v in views], RUNNING(x[:, 2]), RUNNING(x[3, 1:])

    (*found, column, row) = (lambda found: (*found[0], *found[1:]))(mode.run(step, lambda: (jitgrad.tensor(x),)))
    for got, view in zip(found, (x.T, x[1::2, ::3], x[2:4], np.tile(x[:, :1], 5), x[:, ::-1]), strict=True):
        wanted = _smooth_by_tensors(jitgrad.tensor(view.copy()), 0.5)
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-12)
    np.testing.assert_allclose(column.numpy(), np.cumsum(x[:, 2]), rtol=1e-12)
    np.testing.assert_allclose(row.numpy(), np.cumsum(x[3, 1:]), rtol=1e-12)


def test_results_go_where_they_are_asked_for(mode: Mode, rng: Any) -> None:
    """Into storages, parts of a concatenation, through a view, into a reduction, to nobody."""
    x = rng.standard_normal(6)

    def step(x: Any, kept: Any) -> Any:
        y = RUNNING(x)
        kept.copy_(RUNNING(kept))
        RUNNING(x + 1)
        return jitgrad.cat([y, RUNNING(y)]), y.view(2, 3).t(), y.sum(), kept.clone(), EXTREMES(x[:, None], 3, True)[2]

    both, view, total, kept, counts = mode.run(step, lambda: (jitgrad.tensor(x), jitgrad.tensor(x * 2)))
    y = np.cumsum(x)
    np.testing.assert_allclose(both.numpy(), np.concatenate([y, np.cumsum(y)]), rtol=1e-12)
    np.testing.assert_allclose(view.numpy(), y.reshape(2, 3).T, rtol=1e-12)
    np.testing.assert_allclose(total.numpy(), y.sum(), rtol=1e-12)
    np.testing.assert_allclose(kept.numpy(), 2 * y, rtol=1e-12)
    assert counts.sum() == 6


def test_empty_arrays(mode: Mode) -> None:
    none, no_columns, low = mode.run(
        lambda x, y, z: (SMOOTH(x, 0.5), SMOOTH(y, 0.5), EXTREMES(z, 2, True)[0]),
        lambda: (jitgrad.ones(0, 3), jitgrad.ones(3, 0), jitgrad.ones(2, 0)),
    )
    assert none.shape == (0, 3) and no_columns.shape == (3, 0) and low.shape == (0,)


def test_a_warm_step_calls_it_inside_its_program(rng: Any) -> None:
    x = rng.standard_normal((5, 9))

    @jitgrad.compile
    def step(x: Any, decay: float) -> Any:
        y = SMOOTH(x * 2.0, decay).relu()
        y.sum().backward()
        return y.detach()

    leaf = _leaf(x)
    for decay in (0.1, 0.2, 0.3, 0.4):
        step(leaf, decay)
    before = jitgrad.stats()
    step(leaf, 0.6)
    after = {name: value - before[name] for name, value in jitgrad.stats().items() if value != before[name]}
    assert set(after) == {"traces", "hits", "segments", "launches"} and after["segments"] == 1
    shown = str(jitgrad.explain(step, leaf, 0.7))
    assert "smooth: a function of whole arrays, one native call, 5 units of work" in shown
    assert "kernel routine_smooth_back_" in shown


def test_the_same_bits_for_any_number_of_threads(rng: Any) -> None:
    x = jitgrad.tensor(rng.standard_normal((400, 300)))
    threads = jitgrad.get_num_threads()
    found = []
    try:
        for count in (1, 2, 3):
            jitgrad.set_num_threads(count)
            step = jitgrad.compile(lambda x: SMOOTH(x.sin(), 0.9))
            found += [step(x) for _ in range(3)]
    finally:
        jitgrad.set_num_threads(threads)
    assert all(jitgrad.equal(found[0], other) for other in found)


def test_several_threads_at_once(rng: Any) -> None:
    x = jitgrad.tensor(rng.standard_normal((20, 30)))
    step = jitgrad.compile(lambda x: SMOOTH(x, 0.9) * 2)
    wanted = SMOOTH(x, 0.9) * 2
    for found in run_threads(lambda _: [step(x) for _ in range(5)], 4):
        assert all(jitgrad.equal(wanted, other) for other in found)


@pytest.mark.row(fallbacks=VIRTUAL, no_launch=VIRTUAL)
def test_on_a_virtual_device(mode: Mode, rng: Any) -> None:
    x = jitgrad.tensor(rng.standard_normal((4, 6)))
    y = mode.run(lambda x: SMOOTH(x + 1, 0.5) * 2, lambda: (x.to("vcpu:0"),))
    assert str(y.device) == "vcpu:0"
    np.testing.assert_allclose(y.cpu().numpy(), (SMOOTH(x + 1, 0.5) * 2).numpy(), rtol=1e-14)


def test_without_grad_with_hooks_and_in_a_checkpoint(mode: Mode, rng: Any) -> None:
    x = rng.standard_normal((3, 4))

    def step(x: Any) -> Any:
        with jitgrad.no_grad():
            assert not SMOOTH(x, 0.5).requires_grad
        y = SMOOTH(x, 0.5)
        y.register_hook(lambda grad: grad * 3)
        (y.sum() + checkpoint(lambda x: SMOOTH(x, 0.5).sin(), x, use_reentrant=False).sum()).backward()
        return x.grad

    grad = mode.run(step, lambda: (_leaf(x),))
    leaf = _leaf(x)
    (3 * _smooth_by_tensors(leaf, 0.5) + _smooth_by_tensors(leaf, 0.5).sin()).sum().backward()
    np.testing.assert_allclose(grad.numpy(), leaf.grad.numpy(), rtol=1e-12, atol=1e-13)


def test_vmap_and_jvp(mode: Mode, rng: Any) -> None:
    x, v = (jitgrad.tensor(rng.standard_normal((3, 5))) for _ in range(2))

    def step(x: Any, v: Any) -> Any:
        return (
            jitgrad.vmap(RUNNING)(x),
            jitgrad.func.jvp(RUNNING, (x[0],), (v[0],))[1],
            jitgrad.func.grad(lambda x: (RUNNING(x) ** 2).sum())(x[1]),
        )

    rows, tangent, grad = mode.run(step, lambda: (x, v))
    np.testing.assert_allclose(rows.numpy(), np.cumsum(x.numpy(), 1), rtol=1e-12)
    np.testing.assert_allclose(tangent.numpy(), np.cumsum(v.numpy()[0]), rtol=1e-12)
    behind = 2 * np.cumsum(np.cumsum(x.numpy()[1])[::-1])[::-1]
    np.testing.assert_allclose(grad.numpy(), behind, rtol=1e-12)


def test_exceptions_of_the_function_and_nothing_half_applied(mode: Mode) -> None:
    x = jitgrad.arange(4.0)

    def step(x: Any, at: Any, kept: Any) -> Any:
        kept += 1
        y = PICK(x, at) * 2
        kept.copy_(y)
        return y

    fine = jitgrad.tensor([3, 0, -1, 2])
    wrapped = mode.wrap(step)
    for _ in range(3):
        kept = jitgrad.zeros(4)
        wrapped(x, fine, kept)
        assert kept.tolist() == [6, 0, 6, 4]
    kept = jitgrad.zeros(4)
    with pytest.raises(ValueError, match=r"^an index of more than a million") as caught:
        wrapped(x, jitgrad.tensor([3, 0, 2_000_000, 2]), kept)
    assert any("array_functions.py:" in note for note in caught.value.__notes__)
    assert kept.tolist() == [1, 1, 1, 1]  # what came before has happened, what came after has not
    assert wrapped(x, fine, kept).tolist() == [6, 0, 6, 4]


def test_the_debug_mode_checks_every_index(mode: Mode) -> None:
    checked = jitgrad.kernel(pick, results=lambda x, at: (at.shape, x.dtype), debug=True)
    wrapped = mode.wrap(lambda x, at: checked(x, at) + 1)
    x = jitgrad.arange(4.0)
    for _ in range(3):
        assert wrapped(x, jitgrad.tensor([3, -4])).tolist() == [4, 1]
    line = pick.__code__.co_firstlineno + 5
    for wrong in (4, -5):
        with pytest.raises(IndexError, match=rf"pick\(\): index is out of bounds \(.*array_functions.py:{line}\)"):
            wrapped(x, jitgrad.tensor([0, wrong]))


def test_copies_are_by_name() -> None:
    assert copy.deepcopy(SMOOTH) is SMOOTH
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(SMOOTH)  # its name stands for the plain function
    assert repr(SMOOTH) == "<kernel smooth(x, decay) -> out>"


def test_a_float_may_change_and_may_be_a_tensor(mode: Mode) -> None:
    x = jitgrad.ones(1, 2)
    wrapped = mode.wrap(lambda x, decay: SMOOTH(x, decay))
    for decay in (0.25, 0.5, 0.75, jitgrad.tensor(0.125), 1, jitgrad.tensor(0.5, dtype=jitgrad.float64)):
        first = 1 - float(decay)
        assert wrapped(x, decay).tolist() == [[first, float(decay) * first + first]]
