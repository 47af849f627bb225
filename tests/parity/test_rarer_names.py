"""Names that few scripts use, beside PyTorch: elementwise maps, places of memory, switches, factors of matrices."""

from __future__ import annotations

import copy
import os
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.conftest import Mode

torch = pytest.importorskip("torch")

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


def _both(program: Any) -> tuple[Any, Any]:
    """What the program gives with either library: its value, or the class of its error."""
    found = []
    for lib in (jitgrad, torch):
        try:
            value = program(lib)
        except Exception as error:
            value = type(error)
        found.append(value.numpy().tolist() if hasattr(value, "numpy") else value)
    return found[0], found[1]


MAPS = {
    "apply_": lambda lib, x: x.apply_(lambda v: v * 2),
    "apply_ to integers": lambda lib, x: lib.arange(3).apply_(lambda v: v * 1.5),
    "apply_ of what requires grad": lambda lib, x: x.requires_grad_().apply_(lambda v: v),
    "apply_ of no function": lambda lib, x: x.apply_(3),
    "apply_ to no number": lambda lib, x: x.apply_(lambda v: "a"),
    "apply_ to a transposed tensor": lambda lib, x: x.t().apply_(lambda v: v + 1),
    "map_": lambda lib, x: x.map_(lib.ones(3), lambda a, b: a + b),
    "map_ of another dtype": lambda lib, x: x.map_(lib.ones(3).double(), lambda a, b: a + b),
    "map_ of what requires grad": lambda lib, x: x.map_(lib.ones(3, requires_grad=True), lambda a, b: a + b),
    "map_ of a shape that does not fit": lambda lib, x: x.map_(lib.ones(4), lambda a, b: a + b),
    "map_ of a number": lambda lib, x: x.map_(1.0, lambda a, b: a + b),
    "map2_": lambda lib, x: x.map2_(lib.ones(3), x, lambda a, b, c: a + b * c),
}


@pytest.mark.parametrize("name", MAPS)
def test_maps(name: str) -> None:
    found, expected = _both(lambda lib: MAPS[name](lib, lib.tensor(X)))
    assert found == expected


def test_a_map_in_a_step(mode: Mode) -> None:
    def step(x: Any) -> Any:
        y = x * 2
        y.apply_(lambda v: v + 1)
        return y * x

    np.testing.assert_array_equal(mode.run(step, lambda: (jitgrad.tensor(X),)).numpy(), (X * 2 + 1) * X)


LAYOUTS = {
    "contiguous": lambda lib: lib.zeros(2, 3),
    "transposed": lambda lib: lib.zeros(2, 3).t(),
    "expanded": lambda lib: lib.zeros(3).expand(2, 3),
    "ones": lambda lib: lib.zeros(1, 3, 1, 5).transpose(1, 3),
    "permuted": lambda lib: lib.zeros(2, 3, 4, 5).permute(3, 1, 0, 2),
    "channels last": lambda lib: lib.zeros(2, 3, 4, 5).to(memory_format=lib.channels_last),
    "no element": lambda lib: lib.zeros(0, 3),
    "a number": lambda lib: lib.zeros(()),
    "every other": lambda lib: lib.zeros(4, 5, 6)[:, ::2].permute(2, 0, 1),
}


@pytest.mark.parametrize("check", ["no", "yes", "contiguous", "either", "a word"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_order_of_dimensions(name: str, check: str) -> None:
    def program(lib: Any) -> Any:
        given = {
            "no": False, "yes": True, "contiguous": [lib.contiguous_format],
            "either": [lib.contiguous_format, lib.channels_last], "a word": "contiguous",
        }[check]  # fmt: skip
        return LAYOUTS[name](lib).dim_order(ambiguity_check=given)

    found, expected = _both(program)
    assert found == expected


PLACES = {
    "is_pinned": lambda lib, x: x.is_pinned(),
    "pin_memory": lambda lib, x: x.pin_memory(),
    "is_set_to itself": lambda lib, x: x.is_set_to(x),
    "is_set_to a view": lambda lib, x: x.is_set_to(x[:]),
    "is_set_to another layout": lambda lib, x: x.is_set_to(x.t()),
    "is_set_to other rows": lambda lib, x: x[:1].is_set_to(x[1:]),
    "is_set_to a copy": lambda lib, x: x.is_set_to(x.clone()),
    "is_set_to a number": lambda lib, x: x.is_set_to(3),
    "is_shared": lambda lib, x: (x.is_shared(), x.share_memory_().is_shared(), x.is_shared()),
    "module_load": lambda lib, x: x.module_load(lib.ones(2, 3)),
    "module_load, assigned": lambda lib, x: x.module_load(lib.ones(2, 3), assign=True),
    "get_device": lambda lib, x: lib.get_device(x),
    "is_inference": lambda lib, x: lib.is_inference(x),
    "to_dlpack": lambda lib, x: lib.from_dlpack(lib.to_dlpack(x)),
    "debug mode": lambda lib, x: (
        lib.set_deterministic_debug_mode("warn"), lib.get_deterministic_debug_mode(),
        lib.are_deterministic_algorithms_enabled(), lib.set_deterministic_debug_mode(2),
        lib.get_deterministic_debug_mode(), lib.set_deterministic_debug_mode(0), lib.get_deterministic_debug_mode(),
    ),
    "debug mode that is none": lambda lib, x: lib.set_deterministic_debug_mode("strict"),
    "debug mode of a number that is none": lambda lib, x: lib.set_deterministic_debug_mode(3),
    "debug mode of a float": lambda lib, x: lib.set_deterministic_debug_mode(1.0),
    "anomaly mode": lambda lib, x: (
        lib.set_anomaly_enabled(True, False), lib.is_anomaly_enabled(), lib.is_anomaly_check_nan_enabled(),
        lib.set_anomaly_enabled(False), lib.is_anomaly_enabled(), lib.is_anomaly_check_nan_enabled(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_places_and_switches(name: str) -> None:
    found, expected = _both(lambda lib: PLACES[name](lib, lib.tensor(X)))
    assert found == expected


def test_numbers_below_the_smallest_normal_one_may_be_zero() -> None:
    def quotients(lib: Any) -> list[Any]:
        found = []
        for mode in (True, False):
            try:
                found += [lib.set_flush_denormal(mode), (lib.tensor(1e-38) / 1000).item() > 0.0]
            finally:
                lib.set_flush_denormal(False)
        return found

    found, expected = _both(quotients)
    assert found == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked")
def test_a_forked_process_writes_to_shared_parameters() -> None:
    layer = jitgrad.nn.Linear(2, 2).share_memory()
    x = jitgrad.ones(1, 2)
    compiled = jitgrad.compile(lambda: layer(x).sum())
    before = [compiled().item() for _ in range(3)][-1]
    child = os.fork()
    if not child:
        with jitgrad.no_grad():
            layer.weight.add_(1.0)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert layer.weight.is_shared()
    assert compiled().item() == pytest.approx(before + 4.0)


def test_memory_that_others_look_at_stays() -> None:
    x = jitgrad.zeros(4)
    y = x[:2]
    with pytest.raises(RuntimeError, match="cannot be moved while other tensors look at it"):
        x.share_memory_()
    x[0] = 3.0
    assert y[0].item() == 3.0
    del y
    assert x.share_memory_().tolist() == [3.0, 0.0, 0.0, 0.0]


# --- numbers ---


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_of_successes(dtype: str) -> None:
    generator = np.random.default_rng(0)
    counts = generator.integers(0, 300, 3000).astype(dtype)
    probs = generator.uniform(-0.1, 1.1, 3000).astype(dtype)
    counts[:2], probs[2:4] = (-1.0, 0.0), (np.nan, 0.5)
    jitgrad.manual_seed(3)
    torch.manual_seed(3)
    found, expected = (lib.binomial(lib.tensor(counts), lib.tensor(probs)).numpy() for lib in (jitgrad, torch))
    np.testing.assert_array_equal(found, expected)
    assert jitgrad.rand(1).item() == torch.rand(1).item()  # both have drawn as much


def test_numbers_of_successes_in_a_step(mode: Mode) -> None:
    def step(x: Any) -> Any:
        return jitgrad.binomial(x + 20.0, (x * 0).sigmoid()) * 2

    jitgrad.manual_seed(3)
    torch.manual_seed(3)
    calls = 3 if mode.name == "warm" else 1
    expected = [torch.binomial(torch.tensor(X) + 20, torch.full((2, 3), 0.5)) * 2 for _ in range(calls)][-1]
    np.testing.assert_array_equal(mode.run(step, lambda: (jitgrad.tensor(X),)).numpy(), expected.numpy())


BAD_COUNTS = {
    "integers": lambda lib: lib.binomial(lib.tensor([3]), lib.tensor([0.3])),
    "integer probabilities": lambda lib: lib.binomial(lib.tensor([3.0]), lib.tensor([1])),
    "two dtypes": lambda lib: lib.binomial(lib.tensor([3.0]), lib.tensor([0.3]).double()),
    "shapes": lambda lib: lib.binomial(lib.tensor([3.0, 4.0]), lib.tensor([0.3, 0.2, 0.1])),
    "halves": lambda lib: lib.binomial(lib.tensor([3.0]).half(), lib.tensor([0.3]).half()),
}


@pytest.mark.parametrize("name", BAD_COUNTS)
def test_misuses_of_binomial(name: str) -> None:
    found, expected = _both(BAD_COUNTS[name])
    assert found == expected
    assert isinstance(found, type)


# --- matrices ---


@pytest.mark.parametrize("n", [1, 2, 5, 9, 70])
def test_factors_of_an_indefinite_matrix(n: int) -> None:
    a = np.random.default_rng(n).standard_normal((3, n, n))
    a = a + a.swapaxes(-1, -2)
    a[0] -= np.eye(n) * a[0].diagonal() if n > 1 else 0  # zeros on the diagonal ask for blocks of two
    b = np.random.default_rng(n).standard_normal((n, 2))
    found, expected = (lib.linalg.ldl_factor_ex(lib.tensor(a)) for lib in (jitgrad, torch))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-9, atol=1e-9)
    right = jitgrad.tensor(b, requires_grad=True)
    x = jitgrad.linalg.ldl_solve(found.LD, found.pivots, right)
    np.testing.assert_allclose(x.detach().numpy(), np.linalg.solve(a, np.broadcast_to(b, (3, n, 2))), rtol=1e-7)
    x.sum().backward()
    np.testing.assert_allclose(right.grad.numpy(), np.linalg.solve(a, np.ones((3, n, 2))).sum(0), rtol=1e-7)


@pytest.mark.parametrize("hermitian", [True, False])
@pytest.mark.parametrize("n", [2, 3, 6])
def test_factors_of_complex_matrices(n: int, hermitian: bool) -> None:
    rng = np.random.default_rng(n)
    a = rng.standard_normal((4, n, n)) + 1j * rng.standard_normal((4, n, n))
    mirrored = a.swapaxes(-1, -2)
    a = a + (mirrored.conj() if hermitian else mirrored)
    a[:2, range(n), range(n)] *= 0.01  # small numbers on the diagonal ask for blocks of two
    b = rng.standard_normal((n, 2)) + 0j
    found, expected = (lib.linalg.ldl_factor(lib.tensor(a), hermitian=hermitian) for lib in (jitgrad, torch))
    assert found.pivots.tolist() == expected.pivots.tolist()
    np.testing.assert_allclose(found.LD.numpy(), expected.LD.numpy(), rtol=1e-9, atol=1e-9)
    right = jitgrad.tensor(b, requires_grad=True)
    x = jitgrad.linalg.ldl_solve(*found, right, hermitian=hermitian)
    np.testing.assert_allclose(x.detach().numpy(), np.linalg.solve(a, np.broadcast_to(b, (4, n, 2))), rtol=1e-7)
    x.backward(jitgrad.ones_like(x) * 1j)
    slopes = np.linalg.solve(a.conj().swapaxes(-1, -2), np.full((4, n, 2), 1j)).sum(0)
    np.testing.assert_allclose(right.grad.numpy(), slopes, rtol=1e-7)


def test_factors_that_there_are_not(mode: Mode) -> None:
    def step(a: Any) -> Any:
        return jitgrad.linalg.ldl_factor_ex(a * 0).info

    assert mode.run(step, lambda: (jitgrad.eye(2),)).item() == 1
    with pytest.raises(jitgrad.linalg.LinAlgError, match="block 1 of D is zero"):
        jitgrad.linalg.ldl_factor(jitgrad.zeros(2, 2))
    with pytest.raises(RuntimeError, match="batches of square matrices"):
        jitgrad.linalg.ldl_factor(jitgrad.zeros(2, 3))
    a = jitgrad.eye(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="derivative for linalg_ldl_factor_ex is not implemented"):
        jitgrad.linalg.ldl_factor(a).LD.sum().backward()


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_a_few_eigenpairs(batch: tuple[int, ...], largest: bool) -> None:
    a = np.random.default_rng(1).standard_normal((*batch, 30, 30))
    a = (a + a.swapaxes(-1, -2)) / 2
    found = []
    for lib in (jitgrad, torch):
        lib.manual_seed(0)
        matrix = lib.tensor(a, requires_grad=True)
        values, vectors = lib.lobpcg(matrix, k=3, largest=largest)
        (values.sum() + (vectors**4).sum()).backward()
        found.append((values.detach().numpy(), np.abs(vectors.detach().numpy()), matrix.grad.numpy()))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_a_few_eigenpairs_of_two_matrices_and_of_a_sparse_one() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((30, 30)), np.diag(rng.uniform(1, 2, 30))
    a = a + a.T
    values = jitgrad.lobpcg(jitgrad.tensor(a), k=2, B=jitgrad.tensor(b), largest=False)[0]
    expected = np.sort(np.linalg.eigvals(np.linalg.solve(b, a)).real)[:2]
    np.testing.assert_allclose(values.numpy(), expected, rtol=1e-6)
    steps = []
    sparse = jitgrad.tensor(np.diag(np.arange(30.0))).to_sparse()
    values, _ = jitgrad.lobpcg(sparse, k=2, tracker=lambda worker: steps.append(worker.ivars["istep"]))
    np.testing.assert_allclose(values.numpy(), [29.0, 28.0], rtol=1e-6)
    assert steps == list(range(len(steps)))
    with pytest.raises(ValueError, match="3 x the number of requested eigenpairs"):
        jitgrad.lobpcg(jitgrad.eye(5), k=2)


# --- attention and the joint loss, over given weights ---


def _attention(lib: Any, case: str) -> Any:
    rng = np.random.default_rng(0)

    def made(*shape: int) -> Any:
        return lib.tensor(rng.standard_normal(shape)).requires_grad_()

    q, k, v = made(4, 2, 6), made(5, 2, 6), made(5, 2, 6)
    packed, bias, out, out_bias = made(18, 6), made(18), made(6, 6), made(6)
    extra: dict[str, Any] = {}
    if case == "separate":
        extra = {"use_separate_proj_weight": True, "q_proj_weight": packed[:6], "k_proj_weight": packed[6:12],
                 "v_proj_weight": packed[12:]}  # fmt: skip
    elif case == "static":
        extra = {"static_k": made(4, 7, 3), "static_v": made(4, 7, 3)}
    elif case == "no weights":
        extra = {"need_weights": False, "attn_mask": lib.ones(4, 5).triu(2).bool()}
    elif case == "padding":
        extra = {"key_padding_mask": lib.tensor([[False] * 4 + [True]] * 2), "average_attn_weights": False}
    rows = (made(1, 1, 6), made(1, 1, 6)) if case == "appended" else (None, None)
    found, weights = lib.nn.functional.multi_head_attention_forward(
        q, k, v, 6, 2, None if case == "separate" else packed, bias, *rows, case == "appended", 0.0, out, out_bias,
        training=True, **extra,
    )  # fmt: skip
    loss = found.square().sum() + (0.0 if weights is None else weights.square().sum())
    loss.backward()
    return [loss.item(), q.grad.numpy(), out.grad.numpy()]


@pytest.mark.parametrize("case", ["packed", "separate", "static", "no weights", "padding", "appended"])
def test_attention_over_given_weights(case: str) -> None:
    for found, expected in zip(_attention(jitgrad, case), _attention(torch, case), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def _joint_loss(lib: Any, options: dict[str, Any] | None, out_features: tuple[int, ...] = (), **kwargs: Any) -> Any:
    lib.manual_seed(0)
    layer = lib.nn.LinearCrossEntropyLoss(
        5, 7, out_features=out_features, bias=True,
        options=None if options is None else lib.nn.LinearCrossEntropyOptions(**options), **kwargs,
    )  # fmt: skip
    x = lib.randn(6, 5).requires_grad_()
    target = lib.randint(0, 7, (6, *out_features))
    target[0] = -100
    found = layer(x, target)
    found.sum().backward()
    return [found.detach().numpy(), x.grad.numpy(), layer.linear.weight.grad.numpy(), layer.linear.bias.grad.numpy()]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", [None, {}, {"batch_chunk_size": 4}, {"chunking_method": "aspect_ratio"}])
def test_the_loss_of_a_linear_layer(options: dict[str, Any] | None, weighted: bool, reduction: str) -> None:
    found, expected = (
        _joint_loss(
            lib, options, reduction=reduction, weight=lib.linspace(0.5, 2.0, 7) if weighted else None
        )
        for lib in (jitgrad, torch)
    )
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_the_loss_of_a_linear_layer_in_more_dimensions() -> None:
    found, expected = (_joint_loss(lib, None, (2, 3), label_smoothing=0.1) for lib in (jitgrad, torch))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_the_loss_of_a_linear_layer_in_a_step(mode: Mode) -> None:
    def make() -> Any:
        jitgrad.manual_seed(0)
        layer = jitgrad.nn.LinearCrossEntropyLoss(
            5, 7, options=jitgrad.nn.LinearCrossEntropyOptions(batch_chunk_size=4)
        )
        return layer, jitgrad.randn(6, 5), jitgrad.randint(0, 7, (6,))

    def step(layer: Any, x: Any, target: Any) -> Any:
        loss = layer(x, target)
        loss.backward()
        return loss, layer.linear.weight.grad

    loss, grad = mode.run(step, make, is_steady=False)
    layer, x, target = make()
    expected = jitgrad.nn.functional.cross_entropy(layer.linear(x), target)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    np.testing.assert_allclose(grad.numpy(), layer.linear.weight.grad.numpy(), rtol=1e-4, atol=1e-6)


BAD_OPTIONS = [
    {"acc_policy": "quick"}, {"chunking_method": "rows"}, {"chunking_method": "aspect_ratio:0"},
    {"batch_chunk_size": 0}, {"batch_chunk_size": 3, "chunking_method": "aspect_ratio"}, {"acc_dtype": "int64"},
]  # fmt: skip


@pytest.mark.parametrize("options", BAD_OPTIONS, ids=str)
def test_options_that_there_are_not(options: dict[str, Any]) -> None:
    def program(lib: Any) -> Any:
        given = {key: getattr(lib, value) if key == "acc_dtype" else value for key, value in options.items()}
        return _joint_loss(lib, given)

    assert _both(program) == (ValueError, ValueError)


def test_an_optimizer_with_other_parameters_for_a_while() -> None:
    def program(lib: Any) -> Any:
        p, other = (lib.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
        optimizer = lib.optim.Adam([p], lr=0.1)
        p.square().sum().backward()
        optimizer.step()
        other.sum().backward()
        state = copy.deepcopy(optimizer.state_dict())
        with lib.optim.swap_in_optimizer_params_and_state(optimizer, {"p": other}, state):
            optimizer.step()
            inside = list(optimizer.state) == [other]
        optimizer.step()
        return [inside, p.tolist(), other.tolist(), list(optimizer.state) == [p]]

    found, expected = _both(program)
    assert found[0] is expected[0] is True
    assert found[3] is expected[3] is True
    np.testing.assert_allclose(np.array(found[1:3]), np.array(expected[1:3]), rtol=1e-6)
    no_state = _both(
        lambda lib: lib.optim.swap_in_optimizer_params_and_state(
            lib.optim.SGD([lib.zeros(1)], lr=0.1), {}, {}
        ).__enter__()
    )
    assert no_state == (RuntimeError, RuntimeError)


def test_batch_norms_without_statistics() -> None:
    def program(lib: Any) -> Any:
        model = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.BatchNorm1d(2))
        lib.func.replace_all_batch_norm_modules_(model)
        norm = model[1]
        return [norm.running_mean, norm.track_running_stats, sorted(model.state_dict())]

    found, expected = _both(program)
    assert found == expected
