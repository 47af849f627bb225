"""``device=`` and ``dtype=`` of every layer that has parameters: as if it had been made and then moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jitgrad
from jitgrad import nn
from tests.modes import Mode

Make = Callable[..., Any]

MAKES: dict[str, tuple[Make, tuple[int, ...]]] = {
    "linear": (lambda nn, **to: nn.Linear(3, 4, **to), (2, 3)),
    "linear-no-bias": (lambda nn, **to: nn.Linear(3, 4, False, **to), (2, 3)),
    "conv2d": (lambda nn, **to: nn.Conv2d(3, 4, 2, **to), (1, 3, 4, 4)),
    "layer-norm": (lambda nn, **to: nn.LayerNorm(3, **to), (2, 3)),
    "layer-norm-plain": (lambda nn, **to: nn.LayerNorm(3, elementwise_affine=False, **to), (2, 3)),
    "rms-norm": (lambda nn, **to: nn.RMSNorm(3, eps=1e-5, **to), (2, 3)),
    "batch-norm-1d": (lambda nn, **to: nn.BatchNorm1d(3, **to), (4, 3)),
    "batch-norm-2d": (lambda nn, **to: nn.BatchNorm2d(3, **to), (2, 3, 2, 2)),
    "lstm": (lambda nn, **to: nn.LSTM(3, 4, 2, **to), (2, 1, 3)),
    "gru": (lambda nn, **to: nn.GRU(3, 4, **to), (2, 1, 3)),
    "lstm-cell": (lambda nn, **to: nn.LSTMCell(3, 4, **to), (2, 3)),
    "gru-cell": (lambda nn, **to: nn.GRUCell(3, 4, **to), (2, 3)),
    "rnn": (lambda nn, **to: nn.RNN(3, 4, **to), (2, 1, 3)),
    "rnn-cell": (lambda nn, **to: nn.RNNCell(3, 4, **to), (2, 3)),
}
OTHERS: dict[str, Make] = {
    "embedding": lambda nn, **to: nn.Embedding(3, 4, padding_idx=1, **to),
    "attention": lambda nn, **to: nn.MultiheadAttention(4, 2, **to),
}
ALL: dict[str, Make] = {**{name: make for name, (make, _) in MAKES.items()}, **OTHERS}


def layout(module: Any) -> dict[str, tuple[Any, ...]]:
    return {k: (tuple(v.shape), str(v.device), str(v.dtype).split(".")[-1]) for k, v in module.state_dict().items()}


def first(result: Any) -> Any:
    while isinstance(result, tuple):
        result = result[0]
    return result


@pytest.mark.parametrize("device", ["cpu", "meta", "vcpu:0"])
@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_parameters_and_buffers_are_where_pytorch_has_them(make: Make, device: str) -> None:
    torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")
    ours = layout(make(nn, device=device, dtype=jitgrad.float64))
    theirs = layout(make(torch.nn, device="meta" if device == "meta" else "cpu", dtype=torch.float64))
    assert ours == {k: (shape, device, dtype) for k, (shape, _, dtype) in theirs.items()}


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_the_same_numbers_are_drawn(make: Make) -> None:
    jitgrad.manual_seed(3)
    expected = make(nn).state_dict()
    jitgrad.manual_seed(3)
    found = make(nn, device="cpu", dtype=None).state_dict()
    assert all(jitgrad.equal(found[name], value) for name, value in expected.items())


@pytest.mark.parametrize("device", ["cpu", "vcpu:0"])
@pytest.mark.parametrize(("make", "shape"), MAKES.values(), ids=MAKES)
def test_a_step_with_such_a_layer(make: Make, shape: tuple[int, ...], device: str, mode: Mode) -> None:
    def arguments() -> tuple[Any, ...]:
        jitgrad.manual_seed(5)
        layer = make(nn, device=device, dtype=jitgrad.float64)
        return layer, jitgrad.randn(*shape, dtype=jitgrad.float64).to(device)

    def step(layer: Any, x: Any) -> Any:
        x.requires_grad_()
        y = first(layer(x))
        (y * y).sum().backward()
        return y, x.grad, [p.grad for p in layer.parameters()]

    layer, x = arguments()
    expected = step(layer.to("cpu"), x.cpu())
    found = mode.run(step, arguments, is_steady=device == "cpu")
    for ours, wanted in ((found[0], expected[0]), (found[1], expected[1]), *zip(found[2], expected[2], strict=True)):
        assert str(ours.device) == device
        assert ours.dtype is jitgrad.float64
        assert jitgrad.allclose(ours.cpu(), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("convert", "dtype"), [("float", jitgrad.float32), ("double", jitgrad.float64)])
def test_conversions_of_a_module(convert: str, dtype: Any) -> None:
    layer = nn.BatchNorm1d(3, dtype=jitgrad.float64 if convert == "float" else jitgrad.float32)
    assert getattr(layer, convert)() is layer
    kinds = {name: str(value.dtype) for name, value in layer.state_dict().items()}
    assert set(kinds.values()) == {str(dtype), "jitgrad.int64"}
    assert kinds["num_batches_tracked"] == "jitgrad.int64"


def test_a_parameter_of_nothing() -> None:
    parameter = nn.Parameter()
    assert parameter.shape == (0,)
    assert parameter.requires_grad
