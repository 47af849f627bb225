"""Every layer and loss against PyTorch's: values, input gradients, parameter gradients, in every mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

Make = Callable[[Any], Any]


def _after_linear(nn: Any, activation: Any) -> Any:
    return nn.Sequential(nn.Linear(5, 5), activation)


LAYERS: dict[str, tuple[Make, tuple[int, ...]]] = {
    "linear": (lambda nn: nn.Linear(5, 3), (4, 5)),
    "linear-batched": (lambda nn: nn.Linear(5, 3, bias=False), (2, 4, 5)),
    "mlp": (lambda nn: nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2)), (4, 5)),
    "relu": (lambda nn: nn.ReLU(), (4, 5)),
    "relu-inplace": (lambda nn: nn.Sequential(nn.Linear(5, 5), nn.ReLU(inplace=True)), (4, 5)),
    "relu6": (lambda nn: nn.ReLU6(), (4, 5)),
    "mish": (lambda nn: nn.Mish(), (4, 5)),
    "hardsigmoid": (lambda nn: nn.Hardsigmoid(), (4, 5)),
    "hardswish": (lambda nn: nn.Hardswish(), (4, 5)),
    "tanhshrink": (lambda nn: nn.Tanhshrink(), (4, 5)),
    "celu": (lambda nn: nn.CELU(0.7), (4, 5)),
    "softmin": (lambda nn: nn.Softmin(1), (4, 5)),
    "relu6-inplace": (lambda nn: _after_linear(nn, nn.ReLU6(inplace=True)), (4, 5)),
    "silu-inplace": (lambda nn: _after_linear(nn, nn.SiLU(inplace=True)), (4, 5)),
    "selu-inplace": (lambda nn: _after_linear(nn, nn.SELU(inplace=True)), (4, 5)),
    "mish-inplace": (lambda nn: _after_linear(nn, nn.Mish(inplace=True)), (4, 5)),
    "hardswish-inplace": (lambda nn: _after_linear(nn, nn.Hardswish(inplace=True)), (4, 5)),
    "elu-inplace": (lambda nn: _after_linear(nn, nn.ELU(0.7, inplace=True)), (4, 5)),
    "celu-inplace": (lambda nn: _after_linear(nn, nn.CELU(0.7, inplace=True)), (4, 5)),
    "leaky-relu-inplace": (lambda nn: _after_linear(nn, nn.LeakyReLU(0.2, inplace=True)), (4, 5)),
    "hardtanh-inplace": (lambda nn: _after_linear(nn, nn.Hardtanh(-0.5, 0.7, inplace=True)), (4, 5)),
    "dropout-inplace": (lambda nn: _after_linear(nn, nn.Dropout(1.0, inplace=True)), (4, 5)),
    "tanh": (lambda nn: nn.Tanh(), (4, 5)),
    "sigmoid": (lambda nn: nn.Sigmoid(), (4, 5)),
    "silu": (lambda nn: nn.SiLU(), (4, 5)),
    "selu": (lambda nn: nn.SELU(), (4, 5)),
    "logsigmoid": (lambda nn: nn.LogSigmoid(), (4, 5)),
    "softsign": (lambda nn: nn.Softsign(), (4, 5)),
    "gelu": (lambda nn: nn.GELU(), (4, 5)),
    "gelu-tanh": (lambda nn: nn.GELU(approximate="tanh"), (4, 5)),
    "elu": (lambda nn: nn.ELU(0.7), (4, 5)),
    "leaky-relu": (lambda nn: nn.LeakyReLU(0.2), (4, 5)),
    "hardtanh": (lambda nn: nn.Hardtanh(-0.5, 0.7), (4, 5)),
    "softplus": (lambda nn: nn.Softplus(2.0, 1.5), (4, 5)),
    "glu": (lambda nn: nn.GLU(), (4, 6)),
    "softmax": (lambda nn: nn.Softmax(dim=1), (4, 5)),
    "log-softmax": (lambda nn: nn.LogSoftmax(dim=-1), (4, 5)),
    "layer-norm": (lambda nn: nn.LayerNorm(5), (4, 5)),
    "layer-norm-2d": (lambda nn: nn.LayerNorm((3, 5), elementwise_affine=False), (4, 3, 5)),
    "layer-norm-no-bias": (lambda nn: nn.LayerNorm(5, bias=False), (4, 5)),
    "rms-norm": (lambda nn: nn.RMSNorm(5, eps=1e-5), (4, 5)),
    "batch-norm-1d": (lambda nn: nn.BatchNorm1d(5), (4, 5)),
    "batch-norm-2d": (lambda nn: nn.BatchNorm2d(3), (4, 3, 5, 2)),
    "batch-norm-eval": (lambda nn: nn.BatchNorm1d(5).eval(), (4, 5)),
    "conv": (lambda nn: nn.Conv2d(2, 4, 3), (2, 2, 7, 6)),
    "conv-options": (lambda nn: nn.Conv2d(2, 4, (3, 2), (2, 1), (1, 2), groups=2, bias=False), (2, 2, 7, 6)),
    "max-pool": (lambda nn: nn.MaxPool2d(2), (2, 3, 6, 5)),
    "avg-pool": (lambda nn: nn.AvgPool2d((3, 2), stride=1, padding=1), (2, 3, 6, 5)),
    "flatten": (lambda nn: nn.Flatten(), (4, 3, 5)),
    "unflatten": (lambda nn: nn.Unflatten(1, (2, 3)), (4, 6)),
    "identity": (lambda nn: nn.Identity(3, unused=True), (4, 5)),
    "dropout-eval": (lambda nn: nn.Dropout(0.5).eval(), (4, 5)),
    "dropout-none": (lambda nn: nn.Dropout(0.0), (4, 5)),
}

SEQUENCES: dict[str, tuple[Make, tuple[int, ...]]] = {
    "lstm": (lambda nn: nn.LSTM(3, 4), (5, 2, 3)),
    "lstm-layers": (lambda nn: nn.LSTM(3, 4, num_layers=2, batch_first=True), (2, 5, 3)),
    "lstm-unbatched": (lambda nn: nn.LSTM(3, 4, bias=False), (5, 3)),
    "gru": (lambda nn: nn.GRU(3, 4, num_layers=2), (5, 2, 3)),
    "lstm-cell": (lambda nn: nn.LSTMCell(3, 4), (2, 3)),
    "gru-cell": (lambda nn: nn.GRUCell(3, 4), (2, 3)),
    "rnn": (lambda nn: nn.RNN(3, 4, 2), (5, 2, 3)),
    "rnn-relu": (lambda nn: nn.RNN(3, 4, nonlinearity="relu", batch_first=True), (2, 5, 3)),
    "rnn-cell": (lambda nn: nn.RNNCell(3, 4), (2, 3)),
    "rnn-cell-relu": (lambda nn: nn.RNNCell(3, 4, nonlinearity="relu"), (2, 3)),
}

REAL, UNIT, LABELS = "real", "unit", "labels"
LOSSES: dict[str, tuple[Make, str, str]] = {
    "mse": (lambda nn: nn.MSELoss(), REAL, REAL),
    "mse-none": (lambda nn: nn.MSELoss(reduction="none"), REAL, REAL),
    "l1": (lambda nn: nn.L1Loss(reduction="sum"), REAL, REAL),
    "smooth-l1": (lambda nn: nn.SmoothL1Loss(beta=0.5), REAL, REAL),
    "huber": (lambda nn: nn.HuberLoss(delta=0.5), REAL, REAL),
    "nll": (lambda nn: nn.NLLLoss(), REAL, LABELS),
    "cross-entropy": (lambda nn: nn.CrossEntropyLoss(), REAL, LABELS),
    "cross-entropy-sum": (lambda nn: nn.CrossEntropyLoss(reduction="sum"), REAL, LABELS),
    "cross-entropy-none": (lambda nn: nn.CrossEntropyLoss(reduction="none"), REAL, LABELS),
    "cross-entropy-ignore": (lambda nn: nn.CrossEntropyLoss(ignore_index=1), REAL, LABELS),
    "cross-entropy-smooth": (lambda nn: nn.CrossEntropyLoss(label_smoothing=0.1), REAL, LABELS),
    "bce": (lambda nn: nn.BCELoss(), UNIT, UNIT),
    "bce-logits": (lambda nn: nn.BCEWithLogitsLoss(), REAL, UNIT),
    "kl-div": (lambda nn: nn.KLDivLoss(reduction="sum"), REAL, UNIT),
}


def _layer(xp: Any, make: Make, state: dict[str, Any] | None) -> Any:
    """The layer, with weights that both libraries share."""
    module = make(xp.nn)
    if state is not None:
        module.load_state_dict({name: xp.from_numpy(array.copy()) for name, array in state.items()})
    return module


def _forward_backward(module: Any, x: Any, weights: Any) -> list[Any]:
    out = module(x * 1.0)
    (out * weights).sum().backward()
    return [out.detach(), x.grad, *(p.grad for p in module.parameters())]


@pytest.mark.parametrize("case", LAYERS)
def test_layer(case: str, mode: Any, rng: np.random.Generator) -> None:
    make, shape = LAYERS[case]
    x = rng.standard_normal(shape).astype(np.float32)
    reference = make(torch.nn)
    state = {name: value.numpy().copy() for name, value in reference.state_dict().items()}
    weights = rng.standard_normal(tuple(reference(torch.from_numpy(x)).shape)).astype(np.float32)

    def arguments(xp: Any) -> tuple[Any, ...]:
        return _layer(xp, make, state), xp.from_numpy(x.copy()).requires_grad_(), xp.from_numpy(weights)

    expected = _forward_backward(*arguments(torch))
    _assert_close(mode.run(_forward_backward, lambda: arguments(jitgrad)), expected)


def _assert_close(found: list[Any], expected: list[Any]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-5, atol=2e-6)


def _flat(result: Any) -> list[Any]:
    if isinstance(result, tuple | list):
        return [tensor for part in result for tensor in _flat(part)]
    return [result]


def _sequence_backward(module: Any, x: Any) -> list[Any]:
    outputs = _flat(module(x))
    total = sum((out * out).sum() for out in outputs)
    total.backward()
    return [*(out.detach() for out in outputs), x.grad, *(p.grad for p in module.parameters())]


def _state_of(reference: Any) -> dict[str, Any]:
    return {name: value.numpy().copy() for name, value in reference.state_dict().items()}


@pytest.mark.parametrize("case", SEQUENCES)
def test_recurrent(case: str, mode: Any, rng: np.random.Generator) -> None:
    make, shape = SEQUENCES[case]
    x = rng.standard_normal(shape).astype(np.float32)
    state = _state_of(make(torch.nn))

    def arguments(xp: Any) -> tuple[Any, ...]:
        return _layer(xp, make, state), xp.from_numpy(x.copy()).requires_grad_()

    _assert_close(mode.run(_sequence_backward, lambda: arguments(jitgrad)), _sequence_backward(*arguments(torch)))


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_attention(batch_first: bool, masked: bool, mode: Any, rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 3, 8)).astype(np.float32)
    mask = np.triu(np.ones((3, 3), bool), 1)

    def make(nn: Any) -> Any:
        return nn.MultiheadAttention(8, 2, batch_first=batch_first)

    def attend(module: Any, x: Any, mask: Any) -> list[Any]:
        out, _ = module(x, x * 0.5, x, need_weights=False, attn_mask=mask)
        (out * out).sum().backward()
        return [out.detach(), x.grad, *(p.grad for p in module.parameters())]

    state = _state_of(make(torch.nn))

    def arguments(xp: Any) -> tuple[Any, ...]:
        leaf = xp.from_numpy(x.copy()).requires_grad_()
        return _layer(xp, make, state), leaf, xp.from_numpy(mask) if masked else None

    _assert_close(mode.run(attend, lambda: arguments(jitgrad)), attend(*arguments(torch)))


def test_batch_norm_s_statistics(mode: Any, rng: np.random.Generator) -> None:
    x = rng.standard_normal((6, 3)).astype(np.float32)

    def statistics(xp: Any, call: Any) -> list[Any]:
        layer = xp.nn.BatchNorm1d(3, momentum=0.3)
        step = call(lambda x: layer(x).sum())
        for _ in range(4):
            step(xp.from_numpy(x))
        return [layer.running_mean, layer.running_var, layer.num_batches_tracked]

    _assert_close(statistics(jitgrad, mode.wrap), statistics(torch, lambda f: f))


def _draw(kind: str, rng: np.random.Generator) -> Any:
    if kind == LABELS:
        return rng.integers(0, 3, 6).astype(np.int64)
    if kind == UNIT:
        return rng.uniform(0.05, 0.95, (6, 3)).astype(np.float32)
    return rng.standard_normal((6, 3)).astype(np.float32)


def _loss_backward(loss: Any, x: Any, target: Any) -> list[Any]:
    value = loss(x, target)
    (value * value).sum().backward()
    return [value.detach(), x.grad]


@pytest.mark.parametrize("case", LOSSES)
def test_loss(case: str, mode: Any, rng: np.random.Generator) -> None:
    make, input_kind, target_kind = LOSSES[case]
    x, target = _draw(input_kind, rng), _draw(target_kind, rng)

    def arguments(xp: Any) -> tuple[Any, ...]:
        return make(xp.nn), xp.from_numpy(x.copy()).requires_grad_(), xp.from_numpy(target)

    _assert_close(
        mode.run(_loss_backward, lambda: arguments(jitgrad)), _loss_backward(*arguments(torch))
    )


@pytest.mark.parametrize("padding_idx", [None, 2, -1])
def test_embedding(padding_idx: int | None, mode: Any, rng: np.random.Generator) -> None:
    indices = rng.integers(0, 5, (3, 4)).astype(np.int64)

    def lookup(module: Any, indices: Any) -> list[Any]:
        out = module(indices)
        (out * out).sum().backward()
        return [out.detach(), module.weight.grad]

    reference = torch.nn.Embedding(5, 2, padding_idx=padding_idx)
    state = {"weight": reference.weight.detach().numpy().copy()}

    def arguments(xp: Any) -> tuple[Any, ...]:
        return _layer(xp, lambda nn: nn.Embedding(5, 2, padding_idx=padding_idx), state), xp.from_numpy(indices)

    _assert_close(mode.run(lookup, lambda: arguments(jitgrad)), lookup(*arguments(torch)))


def test_embedding_s_padding_row_starts_at_zero() -> None:
    assert jitgrad.nn.Embedding(4, 3, padding_idx=1).weight.detach()[1].tolist() == [0.0, 0.0, 0.0]


def test_dropout_keeps_the_mean_and_draws_anew(mode: Any) -> None:
    layer = jitgrad.nn.Dropout(0.25)
    step = mode.wrap(lambda x: layer(x))
    x = jitgrad.ones(200, 100)
    first, second = (step(x).numpy().copy() for _ in range(2))
    assert set(np.unique(first)) == {np.float32(0.0), np.float32(1 / 0.75)}
    assert abs(first.mean() - 1.0) < 0.02
    assert not np.array_equal(first, second)


def test_dropout_s_argument() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        jitgrad.nn.Dropout(1.5)


def test_linear_s_error_is_pytorch_s(mode: Any) -> None:
    layer = jitgrad.nn.Linear(3, 2)
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        mode.run(lambda: layer(jitgrad.ones(2, 4)))


def test_an_unknown_nonlinearity_is_refused() -> None:
    with pytest.raises(ValueError, match="Unknown nonlinearity 'sin'"):
        jitgrad.nn.RNN(3, 4, nonlinearity="sin")
