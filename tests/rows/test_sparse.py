"""Sparse tensors: what they are, how gradients of both kinds add up, and what they become in an optimizer."""

from __future__ import annotations

import copy
import gc
import itertools
import pickle

import numpy as np
import pytest
from modes import ARGUMENTS, HOOKED, SPARSE_GRAD, UNRECORDABLE, Mode

import jitgrad
from jitgrad import events, nn, optim
from jitgrad.nn import functional as F
from jitgrad.runtime.engine.run.input_buffer import InputBuffer

PLACES = [[0, 2, 0]]
ENTRIES = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
DENSE = [[6.0, 8.0], [0.0, 0.0], [3.0, 4.0]]


def _sparse(entries=ENTRIES):
    return jitgrad.sparse_coo_tensor(jitgrad.tensor(PLACES), jitgrad.tensor(entries), (3, 2))


def _embed(weight, places):
    return F.embedding(places, weight, sparse=True)


def _weight():
    return jitgrad.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)


@pytest.mark.row("B45")
@pytest.mark.parametrize("first, second", [("sparse", "sparse"), ("sparse", "dense"), ("dense", "sparse")])
def test_two_gradients_of_one_slot(mode: Mode, first: str, second: str) -> None:
    def step():
        made = {"sparse": _sparse(), "dense": jitgrad.ones(3, 2)}
        buffer = InputBuffer([None])
        buffer.add(0, made[first])
        buffer.add(0, _sparse() if second == first else made[second])
        total = buffer[0]
        # neither summand has changed
        return total.is_sparse, (total.to_dense()).tolist(), made["sparse"].to_dense().tolist(), made["dense"].tolist()

    is_sparse, total, sparse, dense = mode.run(step)
    assert is_sparse == (first == second == "sparse")
    other = np.array(DENSE) if is_sparse else np.ones((3, 2))
    assert total == (np.array(DENSE) + other).tolist()
    assert sparse == DENSE
    assert dense == np.ones((3, 2)).tolist()


@pytest.mark.row("B45")
@pytest.mark.parametrize("grad_mode", [False, True])
def test_many_gradients_of_one_slot(mode: Mode, grad_mode: bool) -> None:
    def step():
        totals = []
        for order in ("sss", "ssd", "sds", "dss", "dds", "dsd", "sdd"):
            buffer = InputBuffer([None])
            with jitgrad.set_grad_enabled(grad_mode):
                for kind in order:
                    buffer.add(0, _sparse() if kind == "s" else jitgrad.ones(3, 2))
            totals.append((order, buffer[0].is_sparse, buffer[0].to_dense().tolist()))
        return totals

    for order, is_sparse, total in mode.run(step):
        assert is_sparse == (order == "sss")
        assert total == (order.count("s") * np.array(DENSE) + order.count("d")).tolist(), order


@pytest.mark.row("B45")
@pytest.mark.parametrize("order", ["ss", "sd", "ds", "ssd", "dss"])
def test_accumulation_within_and_across_calls(mode: Mode, order: str) -> None:
    """``.grad`` keeps its identity except where a sparse one must become dense."""

    def step(weight, places):
        grads = []
        for kind in order:
            out = _embed(weight, places) if kind == "s" else weight * 1.0
            out.sum().backward()
            grads.append(weight.grad)
        (_embed(weight, places).sum() + (weight * 1.0).sum() + _embed(weight, places).sum()).backward()
        return [a is b for a, b in itertools.pairwise(grads)], grads[-1].is_sparse, weight.grad.to_dense()

    mode.states(engine=(SPARSE_GRAD, HOOKED) if order[0] == "s" else ())
    same, is_sparse, total = mode.run(step, lambda: (_weight(), jitgrad.tensor([0, 2, 0])))
    assert same == [pair != "sd" for pair in map("".join, itertools.pairwise(order))]
    assert is_sparse == ("d" not in order)
    sparse, dense = order.count("s") + 2, order.count("d") + 1
    assert total.tolist() == (sparse * np.array([[2, 2], [0, 0], [1, 1]]) + dense).tolist()


@pytest.mark.row("B45")
def test_a_sparse_gradient_is_a_copy(mode: Mode) -> None:
    def step(weight, places):
        _embed(weight, places).sum().backward()
        first = weight.grad.to_dense()
        with jitgrad.no_grad():
            places.fill_(1)
        return first, weight.grad.to_dense()

    first, second = mode.run(step, lambda: (_weight(), jitgrad.tensor([0, 2, 0])))
    assert first.tolist() == second.tolist() == [[2, 2], [0, 0], [1, 1]]


@pytest.mark.row("B45", engine=UNRECORDABLE)
def test_grad_returns_a_sparse_gradient(mode: Mode) -> None:
    def step(weight, places):
        out = _embed(weight, places)
        (grad,) = jitgrad.autograd.grad((out * out).sum(), weight)
        return grad, weight.grad

    grad, untouched = mode.run(step, lambda: (_weight(), jitgrad.tensor([0, 2, 0])))
    assert grad.is_sparse
    assert grad.layout is jitgrad.sparse_coo
    assert grad._nnz() == 3
    assert grad.to_dense().tolist() == [[4, 8], [0, 0], [10, 12]]
    assert untouched is None


@pytest.mark.row("B45", engine=ARGUMENTS)
def test_a_sparse_seed(mode: Mode) -> None:
    def step():
        x = jitgrad.ones(3, 2, requires_grad=True)
        (grad,) = jitgrad.autograd.grad(x * 2, x, _sparse())
        return grad.is_sparse, grad.to_dense()

    is_sparse, grad = mode.run(step)
    assert is_sparse
    assert grad.tolist() == (2 * np.array(DENSE)).tolist()


@pytest.mark.row("B45", "C3", engine=(UNRECORDABLE, HOOKED))
def test_the_values_of_a_sparse_gradient_are_differentiable(mode: Mode) -> None:
    def step(weight, places):
        out = _embed(weight, places)
        (grad,) = jitgrad.autograd.grad((out * out * out).sum(), weight, create_graph=True)
        (second,) = jitgrad.autograd.grad(grad.to_dense().sum(), weight)
        return grad.requires_grad, second.to_dense()

    requires_grad, second = mode.run(step, lambda: (_weight(), jitgrad.tensor([0, 2])))
    assert requires_grad
    assert second.tolist() == [[6, 12], [0, 0], [30, 36]]


@pytest.mark.parametrize("options", [{}, {"maximize": True}, {"momentum": 0.5}, {"weight_decay": 0.5}])
def test_sgd(mode: Mode, options: dict[str, float]) -> None:
    def make():
        weight = _weight()
        return weight, optim.SGD([weight], lr=0.5, **options), jitgrad.tensor([0, 2, 0])

    def train(is_sparse):
        def step(weight, optimizer, places):
            for _ in range(3):
                optimizer.zero_grad()
                out = F.embedding(places, weight, sparse=is_sparse)
                (out * out).sum().backward()
                optimizer.step()
            return weight

        return step

    sparse, dense = (mode.run(train(is_sparse), make).detach().numpy() for is_sparse in (True, False))
    np.testing.assert_allclose(sparse, dense, rtol=1e-6)
    assert not np.allclose(dense, _weight().detach().numpy())


@pytest.mark.parametrize("options", [{}, {"momentum": 0.5}, {"weight_decay": 0.5}])
def test_a_second_call_meets_nothing_new(options: dict[str, float]) -> None:
    """What the first call compiles keeps none of its frames alive: their tensors would survive their segments."""

    @jitgrad.compile
    def step(weight, optimizer, places):
        for _ in range(3):
            optimizer.zero_grad()
            F.embedding(places, weight, sparse=True).sum().backward()
            optimizer.step()

    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            weight = _weight()
            with events.count("misses") as misses:
                step(weight, optim.SGD([weight], lr=0.5, **options), jitgrad.tensor([0, 2, 0]))
    finally:
        gc.enable()
    assert misses() == 0


def test_sparse_adam_moves_only_the_rows_it_meets(mode: Mode) -> None:
    def make():
        weight = _weight()
        return weight, optim.SparseAdam([weight], lr=0.5)

    def step(weight, optimizer):
        for places in ([0, 2, 0], [2], [0]):
            optimizer.zero_grad()
            (_embed(weight, jitgrad.tensor(places)) ** 2).sum().backward()
            optimizer.step()
        return weight.detach()

    # what torch.optim.SparseAdam gives
    expected = [[0.14348, 1.11852], [3.0, 4.0], [4.00206, 5.0016]]
    np.testing.assert_allclose(mode.run(step, make).numpy(), expected, atol=1e-4)


def test_sparse_adam_is_one_step_for_all_batches() -> None:
    """How many rows a batch names twice is nothing that the step depends on."""
    batches = ([0, 2, 0, 1], [2, 2, 2, 2], [1, 0, 2, 1], [0, 0, 1, 1])
    weights = _weight(), _weight()
    by_steps = [optim.SparseAdam([w], lr=0.1) for w in weights]

    def step(weight, optimizer, places):
        optimizer.zero_grad()
        (_embed(weight, places) ** 2).sum().backward()
        optimizer.step()

    compiled = jitgrad.compile(step)
    for number, batch in enumerate(batches * 2):
        before = events.stats()
        compiled(weights[0], by_steps[0], jitgrad.tensor(batch))
        risen = {name: count - before[name] for name, count in events.stats().items()}
        assert number < 3 or risen["misses"] == 0
        assert (risen["segments"], risen["fallbacks"], risen["engine_runs"]) == (1, 0, 0)
        step(weights[1], by_steps[1], jitgrad.tensor(batch))
        np.testing.assert_allclose(weights[0].detach().numpy(), weights[1].detach().numpy(), rtol=1e-6)


def test_optimizers_that_refuse_leave_everything_as_it_was() -> None:
    weight = _weight()
    for make in (optim.Adam, optim.AdamW, optim.RMSprop):
        optimizer = make([weight])
        weight.grad = None
        _embed(weight, jitgrad.tensor([0])).sum().backward()
        with pytest.raises(RuntimeError, match="does not support sparse gradients"):
            optimizer.step()
        assert not optimizer.state
        assert weight.tolist() == _weight().tolist()
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients"):
        weight.grad = jitgrad.ones(3, 2)
        optim.SparseAdam([weight]).step()


def test_embedding_module() -> None:
    layer = nn.Embedding(4, 2, padding_idx=1, sparse=True)
    layer(jitgrad.tensor([[0, 1], [3, 0]])).sum().backward()
    assert layer.weight.grad.is_sparse
    assert layer.weight.grad.to_dense().tolist() == [[2, 2], [0, 0], [0, 0], [1, 1]]
    layer.zero_grad(set_to_none=False)
    assert layer.weight.grad.to_dense().tolist() == [[0, 0]] * 4
    assert repr(layer) == "Embedding(4, 2, padding_idx=1, sparse=True)"


# --- the tensors themselves ---


def test_form() -> None:
    x = _sparse()
    assert (x.shape, x.dtype, x.ndim, x.sparse_dim(), x.dense_dim()) == ((3, 2), jitgrad.float32, 2, 1, 1)
    assert x.is_sparse
    assert not jitgrad.ones(2).is_sparse
    assert jitgrad.ones(2).layout is jitgrad.strided
    assert not x.is_coalesced()
    with pytest.raises(RuntimeError, match="Cannot get indices on an uncoalesced tensor"):
        x.indices()
    once = x.coalesce()
    assert once.is_coalesced()
    assert once.coalesce() is once
    assert once.indices().tolist() == [[0, 2]]
    assert once.values().tolist() == [[6, 8], [3, 4]]
    assert "nnz=3, layout=torch.sparse_coo" in repr(x)
    assert x.tolist() == DENSE


def test_dense_to_sparse_and_back() -> None:
    dense = jitgrad.tensor([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
    both = dense.to_sparse()
    assert both.indices().tolist() == [[0, 1], [1, 0]]
    rows = dense.to_sparse(1)
    assert rows.values().tolist() == [[0, 1], [2, 0]]
    for x in (both, rows):
        assert x.to_dense().tolist() == dense.tolist()
    assert dense.to_dense() is dense
    with pytest.raises(RuntimeError, match="coalesce expected sparse coordinate tensor layout but got Strided"):
        dense.coalesce()


@pytest.mark.parametrize(
    "indices, values, size, message",
    [
        ([[1, 1]], [1.0], (3,), "must have same nnz, but got nnz from indices: 2, nnz from values: 1"),
        ([[1, 1]], [1.0, 2.0], (3, 4), "'len\\(size\\) == sparse_dim \\+ dense_dim' is not satisfied"),
        ([1, 1], [1.0, 2.0], (3,), "indices must be sparse_dim x nnz"),
        ([[0]], [[1.0, 2.0]], (3, 3), "values has incorrect size"),
    ],
)
def test_parts_that_do_not_fit(indices, values, size, message) -> None:
    with pytest.raises(RuntimeError, match=message):
        jitgrad.sparse_coo_tensor(indices, values, size)


def test_size_from_the_indices() -> None:
    assert jitgrad.sparse_coo_tensor(PLACES, ENTRIES).shape == (3, 2)


def test_an_index_outside(mode: Mode) -> None:
    def step():
        return jitgrad.sparse_coo_tensor([[5]], [1.0], (3,)).to_dense().sum().item()

    with pytest.raises(IndexError):
        mode.run(step)


def test_arithmetic(mode: Mode) -> None:
    def step(x, dense):
        s = jitgrad.sparse_coo_tensor(jitgrad.tensor(PLACES), x, (3, 2))
        results = [s * 2, 2 * s, -s, s / 2, s - s, s + s * 3, s * dense, dense * s, s * s, dense + s, s + dense]
        results += [dense - s, jitgrad.add(dense, s, alpha=3), dense.clone().add_(s), dense.clone().add_(s, alpha=2)]
        results += [s.double(), s.detach(), s.abs(), s.coalesce(), s.sum()]
        return [(r.is_sparse, r.to_dense()) for r in results]

    x, ones = np.array(DENSE), np.full((3, 2), 2.0)
    expected = [x * 2, x * 2, -x, x / 2, x - x, x * 4, x * 2, x * 2, x * x, x + 2, x + 2, ones - x, ones + 3 * x]
    expected += [x + 2, 2 * x + 2, x, x, x, x, x.sum()]
    results = mode.run(step, lambda: (jitgrad.tensor(ENTRIES), jitgrad.full((3, 2), 2.0)))
    for nr, ((is_sparse, got), want) in enumerate(zip(results, expected, strict=True)):
        np.testing.assert_array_equal(got.numpy(), want, err_msg=str(nr))
        assert is_sparse == (nr < 9 or nr in (15, 16, 17, 18)), nr


def test_matrix_product(mode: Mode) -> None:
    def step(x):
        s = jitgrad.sparse_coo_tensor(jitgrad.tensor([[0, 1, 1], [2, 0, 0]]), x, (2, 3))
        dense = jitgrad.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        product = s @ dense
        product.sum().backward()
        turned = dense.t() @ s.t()
        assert s.t().t().to_dense().tolist() == s.to_dense().tolist()
        with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
            s @ s.to_dense()
        return product.detach(), turned.detach(), x.grad

    product, turned, grad = mode.run(step, lambda: (jitgrad.tensor([1.0, 2.0, 3.0], requires_grad=True),))
    assert product.tolist() == [[5, 6], [5, 10]]
    assert turned.tolist() == [[5, 5], [6, 10]]
    assert grad.tolist() == [11, 3, 3]


def test_what_is_not_supported_says_so(mode: Mode) -> None:
    def step():
        messages = []
        for attempt in (
            lambda: _sparse().exp(),
            lambda: jitgrad.exp(_sparse()),
            lambda: _sparse()[0],
            lambda: _sparse().view(6),
            lambda: _sparse() + 1,
            lambda: _sparse() == 1,
            lambda: jitgrad.cat([_sparse(), _sparse()]),
            lambda: _sparse().requires_grad_(),
        ):
            with pytest.raises(NotImplementedError) as caught:
                attempt()
            messages.append(str(caught.value))
        # and nothing is the worse for it
        return messages, (_sparse() + jitgrad.ones(3, 2)).tolist()

    messages, after = mode.run(step)
    assert all("to_dense()" in message for message in messages[:-1])
    assert "Could not run 'exp' with arguments from the 'SparseCPU' backend" in messages[0]
    assert after == (np.array(DENSE) + 1).tolist()


def test_copies() -> None:
    x = _sparse()
    for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone()):
        assert twin.to_dense().tolist() == DENSE
        twin.zero_()
        assert twin._nnz() == 0
    assert x.to_dense().tolist() == DENSE


def test_agreement_with_torch() -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    rng = np.random.default_rng(3)
    torch.sparse.check_sparse_tensor_invariants.disable()  # or it warns that nobody said
    indices, values = rng.integers(0, 3, (2, 7)), rng.normal(size=(7, 2))
    results = []
    for lib in (jitgrad, torch):
        x = lib.sparse_coo_tensor(lib.tensor(indices), lib.tensor(values), (3, 3, 2))
        dense = lib.tensor(rng.normal(size=(3, 3, 2)) * 0 + 1.5)
        made = [x, x.coalesce(), x * 3, x + x, dense + x, x * dense, x.sin(), x.abs(), x / 2, -x]
        results.append([t.to_dense().numpy() for t in made] + [x.coalesce().indices().numpy()])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.row("B45")
@pytest.mark.parametrize("seed", range(6))
def test_random_uses_give_what_dense_gradients_give(mode: Mode, seed: int) -> None:
    """Rows by number, the whole matrix, and functions of it, in any order, in one call of backward and in several."""
    rng = np.random.default_rng(seed)
    uses_of = ["rows", "rows of a function", "whole"]
    rounds = [
        [(rng.choice(uses_of), rng.integers(0, 5, rng.integers(1, 6))) for _ in range(count)]
        for count in rng.integers(1, 4, 3)
    ]

    def step(weight, is_sparse):
        kinds = []
        for uses in rounds:
            terms = []
            for kind, places in uses:
                source = weight.tanh() * 2 if kind == "rows of a function" else weight
                part = source * 3 if kind == "whole" else F.embedding(jitgrad.tensor(places), source, sparse=is_sparse)
                terms.append((part * part).sum())
            total = terms[0]
            for term in terms[1:]:
                total = total + term
            total.backward()
            kinds.append(weight.grad.is_sparse)
        return weight.grad.to_dense(), kinds

    start = rng.normal(size=(5, 2))
    starts_sparse = all(kind != "whole" for kind, _ in rounds[0])
    mode.states(engine=(SPARSE_GRAD, HOOKED) if starts_sparse else ())
    (sparse, kinds), (dense, _) = (
        mode.run(step, lambda flag=flag: (jitgrad.tensor(start, requires_grad=True), flag)) for flag in (True, False)
    )
    np.testing.assert_allclose(sparse.numpy(), dense.numpy(), rtol=1e-12)
    whole = [any(kind == "whole" for kind, _ in uses) for uses in rounds]
    assert kinds == [not any(whole[: i + 1]) for i in range(len(rounds))]
