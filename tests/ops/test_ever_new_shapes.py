"""Shapes that come once: the first runs by NumPy's rules, Note [Ever new shapes], against the kernels."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import nn
from jitgrad.config import config
from jitgrad.door import door
from jitgrad.nn import functional as F
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.linalg.numpy_products import product
from jitgrad.ops.table import OPS
from jitgrad.runtime.eager import new_shapes
from jitgrad.runtime.eager.new_shapes import AT_ONCE, OFTEN, at_once
from jitgrad.runtime.eager.plan import EagerPlan, plans
from tests.eager_bounds import eager_kernels_from
from tests.ops.op_specs import NO_DERIVATIVE, SPECS, Sample

OPS.load()
CASES = [
    pytest.param(name, s, id=f"{name}-{i}")
    for name, samples in SPECS.items()
    for i, s in enumerate(samples)
    if OPS[name].numpy is not None
]


@pytest.fixture
def none_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each shape of each kind is one too many."""
    monkeypatch.setattr(new_shapes, "AT_ONCE", 0)
    plans.clear()


def _tensors(inputs: tuple[Any, ...]) -> list[Any]:
    def one(x: Any) -> Any:
        if isinstance(x, list):
            return [one(y) for y in x]
        return jg.tensor(x, requires_grad=x.dtype.kind == "f") if isinstance(x, np.ndarray) else x

    return [one(x) for x in inputs]


def _results(name: str, sample: Sample) -> list[Any]:
    """The results, and the gradients of the inputs."""
    inputs = _tensors(sample.inputs)
    made = door.apply(OPS[name], *inputs, *sample.params)
    outs = [*made] if isinstance(made, tuple) else [made]
    leaves = [x for item in inputs for x in (item if isinstance(item, list) else [item]) if isinstance(x, jg.Tensor)]
    followed = [] if name in NO_DERIVATIVE else [y for y in outs if y is not None and y.requires_grad]
    total: Any = 0
    for y in followed:
        y = jg.view_as_real(y) if y.is_complex() else y
        total = total + (y * jg.tensor(np.random.default_rng(3).uniform(0.5, 1.5, y.shape), dtype=y.dtype)).sum()
    if followed and sample.is_smooth and name != "linalg_eig":  # the phase of an eigenvector is undefined
        total.backward()
    found = [*outs, *(x.grad for x in leaves)]
    return [None if x is None else x.detach().numpy().copy() for x in found]


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_first_runs_compute_what_the_kernel_computes(
    name: str, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at_once():
        expected = _results(name, sample)
    monkeypatch.setattr(new_shapes, "AT_ONCE", 0)
    plans.clear()
    for _ in range(OFTEN + 1):
        for x, y in zip(_results(name, sample), expected, strict=True):
            assert (x is None) is (y is None)
            if x is not None:
                assert (x.shape, x.dtype) == (y.shape, y.dtype)
                close = (1e-9, 1e-11) if x.dtype.itemsize >= 8 else (1e-5, 1e-6)
                np.testing.assert_allclose(x, y, *close)


# ---- which runs are the first ----


def _kernels(call: Callable[[], Any]) -> int:
    before = jg.stats()["eager_kernels"]
    call()
    return jg.stats()["eager_kernels"] - before


def test_a_kind_has_so_many_programs_for_the_asking() -> None:
    plans.clear()
    made = [_kernels(lambda n=n: jg.ones(1, n, 2).erfinv()) for n in range(1, AT_ONCE + 6)]
    assert made[:AT_ONCE] == [1] * AT_ONCE
    assert made[AT_ONCE:] == [0] * 5
    assert _kernels(lambda: jg.ones(AT_ONCE, 2).erfinv()) == 1, "another kind"
    assert _kernels(lambda: jg.ones(1, AT_ONCE, 2, dtype=jg.float64).erfinv()) == 1, "another kind"
    last = jg.ones(1, AT_ONCE + 5, 2)
    assert [_kernels(last.erfinv) for _ in range(OFTEN)] == [0] * (OFTEN - 2) + [1, 0]


@pytest.mark.usefixtures("none_at_once")
def test_much_work_has_its_kernel_at_once() -> None:
    for name, most in (("exp", 18), ("sigmoid", 16), ("erfinv", 13)):  # one call of NumPy, some, a series
        assert _kernels(getattr(jg.full((1 << most,), 0.5), name)) == 1
        half = jg.full((1 << (most - 1),), 0.5)
        assert [_kernels(getattr(half, name)) for _ in range(3)] == [0, 1, 0]
    x, y = jg.ones(256, 256), jg.ones(256, 8)
    assert [_kernels(lambda: x @ x), _kernels(lambda: x @ y)] == [1, 0]


@pytest.mark.usefixtures("none_at_once")
def test_updates_and_convolutions_have_theirs_at_once() -> None:
    p = nn.Parameter(jg.ones(7))
    p.grad = jg.ones(7)
    adam = jg.optim.Adam([p])
    assert _kernels(adam.step) == 1
    x, w = jg.ones(1, 2, 5, 5), jg.ones(3, 2, 3, 3)
    assert _kernels(lambda: F.conv2d(x, w)) == 1


@pytest.mark.usefixtures("none_at_once")
def test_same_bits_make_every_program_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x = jg.full((9,), 0.5, requires_grad=True)
    monkeypatch.setattr(config, "same_bits", True)
    before = jg.stats()["fused_rules"]
    assert _kernels(lambda: F.gelu(x).sum().backward()) == 2  # gelu and the sum
    assert jg.stats()["fused_rules"] > before


@pytest.mark.usefixtures("none_at_once")
def test_gradcheck_compares_bits() -> None:
    x = jg.linspace(-1, 1, 5, dtype=jg.float64).requires_grad_()
    for _ in range(OFTEN):
        assert jg.autograd.gradcheck(lambda x: F.softmax(F.gelu(x) * x, 0), (x,))
    assert not new_shapes._holders


# ---- programs whose shapes change ----


def _layer(rng: random.Random, n: int, weights: list[Any]) -> Any:
    """A graph of ``n`` nodes and twice as many edges, as graph networks have: gathers, sums by index, a product."""
    ends = jg.tensor([[rng.randrange(n) for _ in range(2 * n)] for _ in range(2)])
    x = jg.linspace(-1, 1, 3 * n).reshape(n, 3)
    messages = F.linear(x[ends[0]], weights[0], weights[1])
    h = jg.zeros(n, 4).index_add_(0, ends[1], messages).tanh()
    alike = (h @ h.t()).softmax(1)
    h = F.layer_norm(alike @ h, (4,)) * weights[2]
    h[0] = 2 * h[-1].detach()
    return F.cross_entropy(h, ends[0][:n] % 4) + h.sort(0).values[n // 2].square().mean() + h.amax()


def _train(step: Callable[..., Any]) -> tuple[list[float], list[Any]]:
    rng = random.Random(1)
    jg.manual_seed(2)
    weights = [jg.randn(4, 3).requires_grad_(), jg.randn(4).requires_grad_(), jg.randn(4).requires_grad_()]
    optimizer = jg.optim.Adam(weights, lr=1e-2)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = step(rng, rng.randint(2, 40), weights)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, weights


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("wrap", [lambda f: f, jg.compile], ids=["eager", "compiled"])
def test_training_on_graphs_of_any_size(wrap: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with at_once():
        losses, weights = _train(_layer)
    monkeypatch.setattr(new_shapes, "AT_ONCE", 3)
    plans.clear()
    before = jg.stats()["eager_kernels"]
    found, others = _train(wrap(_layer))
    np.testing.assert_allclose(found, losses, rtol=2e-4)
    for x, y in zip(others, weights, strict=True):
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=2e-3, atol=1e-5)
    assert jg.stats()["eager_kernels"] - before < 150


@pytest.mark.usefixtures("none_at_once")
def test_errors_are_those_of_kernels() -> None:
    x = jg.ones(3, 4, requires_grad=True)
    for _ in range(OFTEN + 1):
        with pytest.raises(IndexError, match="out of "):
            x[jg.tensor([0, 3])]
        with pytest.raises(IndexError, match="out of "):
            F.embedding(jg.tensor([4]), jg.ones(4, 2))


# ---- products by BLAS ----


def test_products_are_cut_into_parts_that_one_thread_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, calls = np.random.default_rng(4), []
    matmul = np.matmul

    def watched(x: Any, y: Any, **options: Any) -> Any:
        calls.append(x.shape[-2] * x.shape[-1] * y.shape[-1])
        return matmul(x, y, **options)

    monkeypatch.setattr("jitgrad.ops.linalg.numpy_products.np.matmul", watched)
    for _ in range(150):
        m, k, n = (int(2 ** rng.uniform(0, 11)) for _ in range(3))
        dtype = [np.float32, np.float64, np.complex64, np.int64][int(rng.integers(4))]
        m, k, n = (min(e, 40) for e in (m, k, n)) if dtype is np.int64 else (m, k, n)
        x = rng.standard_normal((m, k) if rng.random() < 0.5 else (k, m)).astype(dtype)
        y = rng.standard_normal((k, n) if rng.random() < 0.5 else (n, k)).astype(dtype)
        x, y = (x if x.shape == (m, k) else x.T), (y if y.shape == (k, n) else y.T)
        calls.clear()
        found = product(x, y)
        assert found.dtype == x.dtype
        np.testing.assert_allclose(found, matmul(x, y), rtol=1e-3, atol=1e-3)
        if m * k * n <= 1 << 24 and (1 << 18) * max(m, k, n) >= 8 * m * k * n:
            assert max(calls) <= 1 << 18


# ---- plans of other extents ----

_OWN = frozenset({"_constants", "_graph", "_operands", "_taken", "_writes", "_runs", "kernel", "zero"})
"""What runs fill in, and what operands say themselves."""


def _with_other_extents(avals: list[Any], change: Callable[[int], int]) -> list[Any]:
    def one(x: Any) -> Any:
        return make_aval(tuple([change(n) for n in x.shape]), x.dtype) if type(x) is Aval else x

    return [one(x) for x in avals]


def test_without_kernels_no_plan_of_the_kind_has_one() -> None:
    with eager_kernels_from(-1):
        assert [_kernels(jg.ones(4, n).erfinv) for n in (5, 6)] == [0, 0]
    assert [_kernels(jg.ones(4, n).erfinv) for n in (7, 8)] == [1, 1]


def _kind(a: Aval) -> Any:
    return a.ndim, a.dtype, a.is_contiguous, a.numel > 0


def _alike(x: Any, y: Any) -> bool:
    """Whether two slots are the same, or functions made by one definition."""
    return x is y or x == y or (callable(x) and getattr(x, "__code__", 0) is getattr(y, "__code__", 1))


def test_plans_that_differ_in_extents_are_what_new_ones_are() -> None:
    """Each operation's samples with other extents: the plan made from the sample's plan, against a plan of its own."""
    checked = 0
    changes: list[Callable[[int], int]] = [lambda n: 2 * n, lambda n: n + 3, lambda n: max(n - 1, 0), lambda n: 600 * n]
    for case in CASES:
        name, sample = case.values
        op = OPS[name]
        avals = [x._aval if isinstance(x, jg.Tensor) else x for x in _tensors(sample.inputs)]
        if op.num_inputs < 0 or any(isinstance(x, list) for x in avals) or not any(type(x) is Aval for x in avals):
            continue
        for change in changes:
            try:
                others = _with_other_extents(avals, change)
                fresh = EagerPlan(op, others, sample.params)
            except Exception:  # these extents do not go together
                continue
            known = EagerPlan(op, avals, sample.params)
            if op.is_view or not all(a.numel for a in known.out_avals):
                continue
            plan = known.for_extents(others)
            if plan is None:
                are_alike = [*map(_kind, fresh.out_avals)] == [*map(_kind, known.out_avals)]
                assert fresh.has_kernel is not known.has_kernel or not are_alike, name
                continue
            for slot in set(EagerPlan.__slots__) - _OWN:
                assert _alike(getattr(plan, slot), getattr(fresh, slot)), (name, slot)
            checked += 1
    assert checked > 500
