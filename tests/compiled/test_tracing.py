"""What recording promises: how often it compiles, and that Python runs at every call."""

from __future__ import annotations

import math
from typing import Any

import agreement
import numpy as np
import pytest

import jitgrad as jg
from jitgrad import events


def leaf(*shape: int, seed: int = 0) -> jg.Tensor:
    return jg.tensor(np.random.default_rng(seed).normal(size=shape).astype(np.float32)).requires_grad_()


def const(*shape: int, seed: int = 1) -> jg.Tensor:
    return leaf(*shape, seed=seed).detach()


def descent(x: Any, w: Any, lr: float) -> Any:
    loss = ((x @ w).tanh() ** 2).mean()
    loss.backward()
    with jg.no_grad():
        w -= lr * w.grad
    w.grad = None
    return loss


# ---- counters -------------------------------------------------------------------------------------------------


def test_second_call_finds_everything() -> None:
    step = jg.compile(descent)
    x, w = const(4, 3), leaf(3, 2)
    step(x, w, 0.1)
    with events.count("compiles") as compiles, events.count("misses") as misses, events.count("hits") as hits:
        step(x, w, 0.1)
    assert (compiles(), misses()) == (0, 0)
    assert hits() > 5


def test_second_call_with_other_tensors_finds_everything() -> None:
    step = jg.compile(descent)
    step(const(4, 3), leaf(3, 2), 0.1)
    with events.count("compiles") as compiles, events.count("misses") as misses:
        for seed in range(3):
            step(const(4, 3, seed=seed), leaf(3, 2, seed=seed), 0.1)
    assert (compiles(), misses()) == (0, 0)


def test_changing_learning_rate_compiles_once() -> None:
    step = jg.compile(descent)
    x, w, eager = const(4, 3), leaf(3, 2), leaf(3, 2)
    rates = [0.1 / (1 + 0.01 * i) for i in range(1000)]
    for lr in rates[:2]:
        step(x, w, lr)
    with events.count("compiles") as compiles, events.count("misses") as misses, events.count("plans") as plans:
        for lr in rates[2:]:
            step(x, w, lr)
    assert (compiles(), misses(), plans()) == (0, 0, 0)
    for lr in rates:
        descent(x, eager, lr)
    np.testing.assert_allclose(w.detach().numpy(), eager.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_several_numbers_that_change_at_once_cost_one_recompilation() -> None:
    def step(x: Any, a: float, b: float, c: float) -> Any:
        return ((x * a + b).sin() * c).sum()

    function, x = jg.compile(step), const(5)
    function(x, 0.5, 0.25, 2.0)
    with events.count("plans") as plans:
        for i in range(1, 20):
            args = (0.5 + i, 0.25 * i + 3, 2.0 - i / 7)
            assert function(x, *args).item() == pytest.approx(step(x, *args).item(), rel=1e-4, abs=1e-5)
    assert plans() == 1


def test_branches_alternate_without_recompiling() -> None:
    def step(x: Any, up: bool) -> Any:
        return (x * 2).sum() if up else (x - 1).exp().mean()

    function, x = jg.compile(step), const(5)
    function(x, True), function(x, False)
    with events.count("misses") as misses:
        for i in range(10):
            up = bool(i % 3)
            assert function(x, up).item() == pytest.approx(step(x, up).item(), rel=1e-5)
    assert misses() == 0


def test_loops_of_changing_length() -> None:
    def step(x: Any, n: int) -> Any:
        for _ in range(n):
            x = (x * 1.25).sin()
        return x

    function, x = jg.compile(step), const(5)
    for n in (0, 1, 5, 2):
        function(x, n)
    with events.count("misses") as misses:
        for n in (5, 0, 2, 1, 5):
            np.testing.assert_allclose(function(x, n).numpy(), step(x, n).numpy(), rtol=1e-5)
    assert misses() == 0


def test_the_last_short_batch_compiles_no_kernel() -> None:
    step, w = jg.compile(descent), leaf(24, 16)
    for rows in (64, 40):
        step(const(rows, 24), w, 0.1)
    with events.count("compiles") as compiles:
        for rows in (56, 48, 24):
            step(const(rows, 24), w, 0.1)
    assert compiles() == 0


def test_a_number_that_alternates_between_int_and_float() -> None:
    values = [1, 1.0, 2, 0.5, True, 3, 1, False, 1.0, 0, 0.0, -0.0]
    agreement.agree(
        lambda x, i, k: (x * k, i * k, i + k, k - x),
        lambda: (const(3), jg.arange(3), 2),
        len(values),
        lambda args, nr: (*args[:2], values[nr]),
    )


def test_the_type_of_a_number_chooses_the_dtype() -> None:
    for k in (1, 1.0, True, 1, True, 1.0):
        step = jg.compile(lambda i, k=k: i * k)
        assert step(jg.arange(3)).dtype is (jg.float32 if isinstance(k, float) else jg.int64)
    step = jg.compile(lambda i, k: i * k)
    dtypes = [step(jg.arange(3), k).dtype for k in (1, 1.0, True, 1, 1.0, True)]
    assert dtypes == [jg.int64, jg.float32, jg.int64] * 2


@pytest.mark.parametrize("name", ["clamp_min", "full_like", "fill"])
def test_the_type_of_a_static_parameter_chooses_the_dtype(name: str) -> None:
    steps = {
        "clamp_min": lambda i, k: i.clamp(min=k),
        "full_like": lambda i, k: jg.full((3,), k) + i,
        "fill": lambda i, k: jg.where(i > 0, i, k),
    }
    values = [1, 1.0, True, 1, 1.0, 2, 2.5, -0.0, 0.0, 0]
    agreement.agree(steps[name], lambda: (jg.arange(3), 1), len(values), lambda args, nr: (args[0], values[nr]))


@pytest.mark.parametrize("value", [-0.0, 0.0, math.nan, math.inf, -math.inf, 1e-300, 1e300, 3e38])
def test_special_numbers(value: float) -> None:
    agreement.agree(lambda x: (x * value, value / x, x + value, jg.full((2,), value)), lambda: (const(4),), 3)


def test_negative_zero_is_not_zero() -> None:
    step = jg.compile(lambda x, k: 1.0 / (x * k))
    x = jg.ones(2)
    assert [step(x, k).tolist()[0] for k in (0.0, -0.0, 0.0, -0.0, 0, 1.5)] == [
        math.inf, -math.inf, math.inf, -math.inf, math.inf, pytest.approx(1 / 1.5)]  # fmt: skip


def test_nan_numbers_do_not_miss_for_ever() -> None:
    step, x = jg.compile(lambda x, k: x * k), const(3)
    for _ in range(3):
        step(x, float("nan"))
    with events.count("misses") as misses:
        assert all(math.isnan(v) for v in step(x, float("nan")).tolist())
    assert misses() == 0


def test_integers_too_large_for_a_tensor() -> None:
    agreement.agree(lambda x, k: x * k, lambda: (const(3), 2**40), 3, lambda a, nr: (a[0], 2 ** (40 + nr)))


def test_exponents_stay_static() -> None:
    with events.count("promotions") as promotions:
        agreement.agree(lambda x, k: x**k, lambda: (const(3), 2), 6, lambda a, nr: (a[0], (2, 3, 0.5, -1, 2.0, 0)[nr]))
    assert promotions() == 0


# ---- reading values -----------------------------------------------------------------------------------------------

READS: dict[str, Any] = {
    "item": lambda t: t.sum().item(),
    "bool": lambda t: bool(t.sum() > 0),
    "repr": lambda t: repr(t.detach()),
    "str": lambda t: f"{t.detach()}",
    "numpy": lambda t: t.detach().numpy().sum().item(),
    "tolist": lambda t: t.tolist(),
    "float": lambda t: float(t.sum()),
    "int": lambda t: int(t.sum() * 10),
    "asarray": lambda t: np.asarray(t.detach()).max().item(),
    "contains": lambda t: 0.0 in t.detach(),
    "format": lambda t: f"{t.sum().detach():.3f}",
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reads_anywhere(read: Any) -> None:
    def step(x: Any, w: Any) -> Any:
        seen = [read(x)]
        h = (x @ w).tanh()
        seen.append(read(h))
        loss = (h * h).sum()
        seen.append(read(loss))
        loss.backward()
        seen += [read(w.grad), read(h)]
        with jg.no_grad():
            w -= 0.1 * w.grad
        seen += [read(w), read(h)]
        w.grad = None
        return seen, loss

    function = agreement.agree(step, lambda: (const(4, 3), leaf(3, 2)))
    args = const(4, 3), leaf(3, 2)
    function(*args)
    with events.count("compiles") as compiles, events.count("misses") as misses:
        function(*args)
    assert (compiles(), misses()) == (0, 0)


def test_branch_on_a_value() -> None:
    def step(x: Any) -> Any:
        y = x * 3
        return y.exp() if y.sum() > 0 else y.abs().sqrt() if (y < -1).any() else y

    xs = [jg.tensor(v) for v in ([1.0, 2.0], [-1.0, -2.0], [-0.1, -0.2], [3.0, 1.0], [-0.2, 0.1], [-4.0, 0.0])]
    function = agreement.agree(step, lambda: (xs[0],), len(xs), lambda args, nr: (xs[nr],))
    with events.count("misses") as misses:
        for x in xs:
            function(x)
    assert misses() == 0


def test_print_inside_a_step(capsys: Any) -> None:
    @jg.compile
    def step(x: Any) -> None:
        y = x * 2
        print(y, y.sum().item())

    for _ in range(3):
        step(jg.ones(2))
    assert capsys.readouterr().out == "tensor([2., 2.]) 4.0\n" * 3


def test_python_runs_at_every_call() -> None:
    seen: list[int] = []
    step = jg.compile(lambda x: (seen.append(len(seen)), x + len(seen))[1])
    assert [step(jg.zeros(1)).item() for _ in range(4)] == [1, 2, 3, 4]
    assert seen == [0, 1, 2, 3]


def test_a_value_read_and_used_again() -> None:
    def step(x: Any) -> Any:
        total = x.sum()
        return x / total.item() + total, total * int(total.item() > 0)

    agreement.agree(step, lambda: (const(6),), 5, lambda args, nr: (args[0] * nr,))


# ---- what escapes -------------------------------------------------------------------------------------------------


def test_only_what_is_held_is_stored() -> None:
    def step(x: Any) -> Any:
        a = x.exp()
        b = a.sum()
        return b

    explained = jg.explain(jg.compile(step), const(1000))
    assert len(explained.segments) == 1
    assert len(explained.segments[0].segment.outputs) == 1


def test_held_results_escape_and_stay() -> None:
    held: list[Any] = []

    @jg.compile
    def step(x: Any, keep: bool) -> Any:
        a = x * 2
        b = a + 1
        if keep:
            held.append(a)
        return b

    x = jg.ones(3)
    results = [step(x, keep) for keep in (False, True, False, True, True)]
    assert [h.tolist() for h in held] == [[2.0] * 3] * 3
    assert [r.tolist() for r in results] == [[3.0] * 3] * 5
    assert len({h.data_ptr() for h in held}) == 3


def test_results_are_never_overwritten_later() -> None:
    step = jg.compile(lambda x, k: (x * k, (x * k).sum()))
    kept = [step(jg.ones(4), float(k)) for k in range(20)]
    assert [(a.tolist(), b.item()) for a, b in kept] == [([float(k)] * 4, 4.0 * k) for k in range(20)]


def test_results_held_in_attributes_globals_and_generators() -> None:
    class Box:
        pass

    box, several = Box(), {}

    @jg.compile
    def step(x: Any) -> Any:
        box.value = x + 1
        several["k"] = [x + 2, {"z": x + 3}]
        return (t for t in [x + 4])

    for _ in range(3):
        result = step(jg.zeros(1))
        assert box.value.item() == 1.0
        assert (several["k"][0].item(), several["k"][1]["z"].item()) == (2.0, 3.0)
        assert next(result).item() == 4.0


def test_an_unused_computation_costs_no_kernel() -> None:
    explained = jg.explain(jg.compile(lambda x: (x.exp().sum(), x * 2)[1]), const(5))
    assert [i.op.name for s in explained.segments for i in s.segment.instrs] == ["mul"]


# ---- shapes, dtypes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (0,), (1,), (0, 3), (3, 0), (2, 1, 3)])
def test_odd_shapes(shape: tuple[int, ...]) -> None:
    def step(x: Any, w: Any) -> Any:
        y = (x * w + 1).exp()
        loss = y.sum() + (y * 0.5).mean() if y.numel() else y.sum()
        loss.backward()
        return y, loss, y.reshape(-1), y.unsqueeze(0), (y > 1).any()

    agreement.agree(step, lambda: (const(*shape), leaf(*shape)), 3)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool"])
def test_dtypes(dtype: str) -> None:
    def step(x: Any, y: Any) -> Any:
        sums = (x.sum(), x.float().mean(), x.to(jg.int64).amax())
        return sums, x == y, jg.where(x == y, x, y), x * y, x.to(jg.float64) / 3, (x > 0) & (y > 0), x.tolist()

    def make() -> tuple[Any, ...]:
        x = jg.arange(6) % 3 - 1
        return x.to(getattr(jg, dtype)), x.flip(0).to(getattr(jg, dtype))

    agreement.agree(step, make, 3)


def test_dtype_and_shape_of_an_input_change() -> None:
    inputs = [jg.arange(4), jg.arange(4).double(), jg.ones(2, 2), jg.arange(4) > 1, jg.ones(4), jg.arange(4)]
    agreement.agree(lambda x: (x + 1, x.sum(), x * 0.5), lambda: (inputs[0],), 6, lambda args, nr: (inputs[nr],))


def test_strides_of_an_input_change() -> None:
    base = const(4, 4)
    inputs = [base, base.t(), base[::2], base[:, 1:], base.expand(2, 4, 4), base[0].expand(4, 4), base.flip(0)]
    agreement.agree(
        lambda x: (x * 2, x.sum(0), x.reshape(-1), x[0], x @ x.transpose(-1, -2)),
        lambda: (inputs[0],),
        2 * len(inputs),
        lambda args, nr: (inputs[nr % len(inputs)],),
    )


def test_requires_grad_of_an_input_changes() -> None:
    def step(x: Any, w: Any) -> Any:
        y = (x * w).sum()
        if y.requires_grad:
            y.backward()
        return y.requires_grad, y.detach()

    def change(args: Any, nr: int) -> Any:
        x, w = args
        w.requires_grad_(bool(nr % 2))
        x.requires_grad_(nr % 3 == 0)
        return x, w

    agreement.agree(step, lambda: (const(3), leaf(3)), 7, change)


def test_default_dtype_is_part_of_the_path() -> None:
    step = jg.compile(lambda i: (i * 0.5, jg.zeros(2), jg.tensor([1.0]), i / 2))
    try:
        for dtype in (jg.float32, jg.float64, jg.float32, jg.float64):
            jg.set_default_dtype(dtype)
            assert [t.dtype for t in step(jg.arange(2))] == [dtype] * 4
    finally:
        jg.set_default_dtype(jg.float32)


def test_default_dtype_changes_inside_a_step() -> None:
    @jg.compile
    def step(i: Any, dtype: Any) -> Any:
        jg.set_default_dtype(dtype)
        return i * 0.5

    try:
        for dtype in (jg.float32, jg.float64, jg.float32):
            assert step(jg.arange(2), dtype).dtype is dtype
            jg.set_default_dtype(jg.float32)
    finally:
        jg.set_default_dtype(jg.float32)


def test_the_grad_mode_around_a_call_is_part_of_the_path() -> None:
    step, w = jg.compile(lambda w: (w * 2).sum()), leaf(3)
    assert [step(w).requires_grad, _without_grad(step, w), step(w).requires_grad] == [True, False, True]


def _without_grad(step: Any, w: Any) -> bool:
    with jg.no_grad():
        return bool(step(w).requires_grad)


def test_fresh_tensors_made_inside() -> None:
    def step(n: int) -> Any:
        a = jg.ones(n, 2) * jg.arange(n, dtype=jg.float32).unsqueeze(1)
        return a + jg.tensor([[1.0, 2.0]]) + jg.from_numpy(np.full((n, 2), n, dtype=np.float32))

    agreement.agree(step, lambda: (3,), 5, lambda args, nr: ((3, 4, 3, 1, 4)[nr],))


def test_the_trie_is_bounded() -> None:
    step, limit = jg.compile(lambda x, n: x.reshape(n, -1).sum() * n), 60
    step.trie.limit = limit
    x = jg.ones(5040)
    divisors = [n for n in range(1, 5041) if 5040 % n == 0]
    with events.count("evictions") as evictions:
        for n in divisors + divisors[:5]:
            assert step(x, n).item() == 5040.0 * n
    assert evictions() > 0
    assert step.trie.size <= limit + 10
