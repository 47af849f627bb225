"""The rest of the library on virtual devices: modules, optimizers, traces, transforms, sparse gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad
from jitgrad import nn, optim, vcpu
from jitgrad.devices import CPU, META, Device
from jitgrad.nn import functional as F
from jitgrad.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("idle_devices")

V0, V1 = Device("vcpu:0"), Device("vcpu:1")


# --- modules, optimizers, bits ---


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(6, 8), nn.BatchNorm1d(8)
        self.last = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        return self.last(F.dropout(F.gelu(self.norm(self.first(x))), 0.25))


def _train(mode: Mode, device: str, make_optimizer: Callable[[Any], Any]) -> list[Any]:
    jitgrad.manual_seed(7)
    net = Net().to(device)
    optimizer = make_optimizer(net.parameters())
    x, target = jitgrad.randn(16, 6, device=device), jitgrad.randint(0, 3, (16,), device=device)

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), target)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss

    function = mode.wrap(step)
    losses = [function().item() for _ in range(4)]
    assert {p.device for p in net.parameters()} == {b.device for b in net.buffers()} == {Device(device)}
    return [losses, *[v.cpu().numpy() for v in net.state_dict().values()]]


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: optim.Adam(p, lr=0.01),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_on_a_device_gives_the_bits_of_the_cpu(mode: Mode, name: str) -> None:
    """What runs on a device is never compiled, so the reference is the eager CPU in every mode."""
    expected = _train(Mode("eager"), "cpu", OPTIMIZERS[name])
    found = _train(mode, "vcpu:1", OPTIMIZERS[name])
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_hundred_runs_give_the_same_bits() -> None:
    def run(device: str) -> Any:
        jitgrad.manual_seed(5)
        x = jitgrad.randn(8, 16, device=device, requires_grad=True)
        w = jitgrad.randn(16, 4, device=device, requires_grad=True)
        y = F.log_softmax(jitgrad.tanh(x @ w), -1)
        (y * y).mean().backward()
        return x.grad.cpu().numpy().tobytes() + w.grad.cpu().numpy().tobytes() + y.detach().cpu().numpy().tobytes()

    expected = run("cpu")
    assert all(run(f"vcpu:{i % 2}") == expected for i in range(100))


def test_a_module_moves_its_parameters_in_place() -> None:
    net = nn.Linear(3, 2)
    weight, values = net.weight, net.weight.tolist()
    optimizer = optim.SGD(net.parameters(), lr=1.0)
    net(jitgrad.ones(1, 3)).sum().backward()
    assert net.vcpu(1) is net
    assert net.weight is weight and weight.device is V1 and weight.is_leaf and weight.requires_grad
    assert weight.grad.device is V1 and weight.tolist() == values
    optimizer.step()
    assert weight.tolist() == pytest.approx(np.asarray(values) - 1.0)
    optimizer.zero_grad()
    net(jitgrad.ones(1, 3, device="vcpu:1")).sum().backward()
    assert weight.grad.tolist() == [[1.0] * 3] * 2
    net.cpu().to(jitgrad.float64)
    assert net.weight is weight and weight.device is CPU and weight.dtype is jitgrad.float64
    assert weight.grad.dtype is jitgrad.float64
    with pytest.raises(TypeError, match="only accepts floating point"):
        net.to(jitgrad.int64)


def test_parameters_on_several_devices(mode: Mode) -> None:
    """Norm of six ones: sqrt(6); one optimizer updates all of them."""

    def step():
        p, q, r = (nn.Parameter(jitgrad.ones(2, device=d)) for d in ("cpu", "vcpu:0", "vcpu:1"))
        optimizer = optim.SGD([p, q, r], lr=1.0)
        (p.sum() + q.sum().cpu() + r.sum().cpu()).backward()
        norm = nn.utils.clip_grad_norm_([q, p, r], 1.0)
        optimizer.step()
        return norm.device, norm.item(), [x.tolist() for x in (p, q, r)]

    device, norm, values = mode.run(step)
    assert device is V0
    assert norm == pytest.approx(6**0.5)
    assert values == [pytest.approx([1 - 6**-0.5] * 2, abs=1e-5)] * 3


def test_state_goes_to_its_parameter() -> None:
    here, there = nn.Linear(2, 2), nn.Linear(2, 2).vcpu(1)
    there.load_state_dict(here.state_dict())
    assert there.weight.device is V1 and there.weight.tolist() == here.weight.tolist()
    first, second = optim.Adam(here.parameters()), optim.Adam(there.parameters())
    here(jitgrad.ones(1, 2)).sum().backward()
    first.step()
    second.load_state_dict(first.state_dict())
    assert second.state[there.weight]["exp_avg"].device is V1
    there(jitgrad.ones(1, 2, device="vcpu:1")).sum().backward()
    second.step()
    assert second.state[there.weight]["exp_avg"].tolist() == pytest.approx(np.full((2, 2), 0.19))


@pytest.mark.parametrize("depth", [1, 3])
def test_a_model_split_over_devices(mode: Mode, depth: int) -> None:
    """What the layers compute does not depend on where they are."""

    def train(run: Mode, devices: list[str]) -> list[float]:
        jitgrad.manual_seed(1)
        layers = [nn.Linear(4, 4).to(d) for d in devices]
        optimizer = optim.SGD([p for layer in layers for p in layer.parameters()], lr=0.1)
        x = jitgrad.randn(5, 4)

        def step():
            y = x
            for layer in layers:
                y = jitgrad.tanh(layer(y.to(layer.weight.device)))
            loss = y.cpu().square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        function = run.wrap(step)
        return [function().item() for _ in range(4)]

    expected = train(Mode("eager"), ["cpu"] * (2 * depth))
    assert train(mode, ["vcpu:0", "vcpu:1"] * depth) == pytest.approx(expected, rel=1e-5)


def test_buffers_keep_their_integers() -> None:
    norm = nn.BatchNorm1d(2).to("vcpu:0", jitgrad.float64)
    assert norm.num_batches_tracked.dtype is jitgrad.int64
    assert norm.num_batches_tracked.device is norm.running_mean.device is V0
    assert norm.running_mean.dtype is jitgrad.float64


# --- traces ---


def test_a_trace_goes_on_around_a_device() -> None:
    """What is on the CPU is compiled, what is elsewhere runs eagerly; a copy to the CPU is an input of the trace."""

    @jitgrad.compile
    def step(x, w):
        a = (x * 2 + 1).sum()
        v = (w * 3).exp()
        b = v.cpu()
        return a * b.sum(), v

    x, w = jitgrad.ones(4), jitgrad.zeros(2, device="vcpu:0")
    for _ in range(3):
        before = jitgrad.stats()["fallbacks"]
        out, v = step(x, w)
        assert jitgrad.stats()["fallbacks"] - before == 3
        assert out.item() == 24.0
        assert v.tolist() == [1.0, 1.0]
    compiles = jitgrad.stats()["compiles"]
    w.add_(1.0)
    assert step(x, w)[0].item() == pytest.approx(12 * 2 * np.exp(3.0), rel=1e-6)
    assert jitgrad.stats()["compiles"] == compiles


def test_a_default_device(mode: Mode) -> None:
    """``with jitgrad.device(...)`` decides about what is made from nothing, as in PyTorch."""

    def step():
        here = jitgrad.ones(2)
        with jitgrad.device("vcpu:1"):
            made = [jitgrad.ones(2), jitgrad.tensor([1.0]), jitgrad.arange(3), jitgrad.rand(2), nn.Linear(2, 2).weight]
            likes = [jitgrad.zeros_like(here), here + 1, jitgrad.ones(1, device="cpu"), here[[1, 0]]]
            here[[0]] = 3.0
            with jitgrad.device("meta"):
                inner = jitgrad.zeros(2)
            again = jitgrad.eye(2)
        return [x.device for x in made], [x.device for x in likes], inner.device, again.device, jitgrad.ones(1).device

    assert mode.run(step) == ([V1] * 5, [CPU] * 4, META, V1, CPU)
    with pytest.raises(ZeroDivisionError), jitgrad.device("meta"):
        raise ZeroDivisionError
    assert jitgrad.ones(1).device is CPU


# --- the rest of the library ---


def test_sparse_gradients_on_a_device(mode: Mode) -> None:
    def step():
        w = jitgrad.ones(4, 2, device="vcpu:1", requires_grad=True)
        at = jitgrad.tensor([1, 3, 1], device="vcpu:1")
        F.embedding(at, w, sparse=True).sum().backward()
        return w.grad.is_sparse, w.grad.device, w.grad.coalesce().values().tolist(), w.grad.to_dense().tolist()

    sparse, device, values, dense = mode.run(step)
    assert sparse and device is V1
    assert values == [[2.0, 2.0], [1.0, 1.0]]
    assert dense == [[0.0, 0.0], [2.0, 2.0], [0.0, 0.0], [1.0, 1.0]]


_seen_streams: list[Any] = []


class _Square(jitgrad.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        _seen_streams.append(vcpu.current_stream(0))
        return 2 * x * g


def test_a_custom_function_on_a_stream(mode: Mode) -> None:
    def step():
        stream = vcpu.Stream("vcpu:0")
        x = jitgrad.full((2,), 3.0, device="vcpu:0", requires_grad=True)
        x.tolist()
        with vcpu.stream(stream):
            y = _Square.apply(x)
        vcpu.current_stream(0).wait_stream(stream)
        y.sum().backward()
        return x.grad.tolist(), y.grad_fn.stream() is _seen_streams.pop() is stream

    assert mode.run(step) == ([6.0, 6.0], True)


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_on_a_device(mode: Mode, reentrant: bool) -> None:
    def step():
        x = jitgrad.tensor([0.5, 1.0], device="vcpu:0", requires_grad=True)
        y = checkpoint(lambda a: a.exp().sin(), x, use_reentrant=reentrant)
        y.sum().backward()
        return x.grad.tolist()

    expected = np.exp([0.5, 1.0]) * np.cos(np.exp([0.5, 1.0]))
    assert mode.run(step) == pytest.approx(list(expected), rel=1e-6)


def test_memory_of_another_tensor_is_on_its_device(mode: Mode) -> None:
    def step():
        x, y = jitgrad.zeros(2, device="vcpu:0"), jitgrad.ones(3, device="vcpu:0")
        x.set_(y)
        y.add_(1.0)
        with pytest.raises(RuntimeError, match='tensor on device "vcpu:0" to a storage on different device "cpu"'):
            x.set_(jitgrad.ones(3))
        z = jitgrad.arange(2, device="vcpu:1").resize_(2, 2)
        return x.tolist(), z.tolist(), z.device, jitgrad.ones(2, device="meta").resize_(3).shape

    assert mode.run(step) == ([2.0] * 3, [[0, 1], [0, 0]], V1, (3,))


def test_functional_derivatives_on_a_device() -> None:
    x = jitgrad.tensor([1.0, 2.0], device="vcpu:1")
    jacobian = jitgrad.autograd.functional.jacobian(lambda a: a**3, x)
    hessian = jitgrad.autograd.functional.hessian(lambda a: (a**3).sum(), x)
    assert jacobian.device is hessian.device is V1
    assert jacobian.tolist() == [[3.0, 0.0], [0.0, 12.0]]
    assert hessian.tolist() == [[6.0, 0.0], [0.0, 12.0]]


TRANSFORMS: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "batched grad": (
        lambda x: jitgrad.autograd.grad((y := x.clone().requires_grad_()) ** 2, y, jitgrad.eye(2, device=x.device),
                                        is_grads_batched=True)[0],
        [[2.0, 0.0], [0.0, 4.0]],
    ),
    "jacrev": (jitgrad.func.jacrev(lambda a: a**3), [[3.0, 0.0], [0.0, 12.0]]),
    "jacfwd": (jitgrad.func.jacfwd(lambda a: a**3), [[3.0, 0.0], [0.0, 12.0]]),
    "hessian": (jitgrad.func.hessian(lambda a: (a**3).sum()), [[6.0, 0.0], [0.0, 12.0]]),
    "vmap of grad": (jitgrad.func.vmap(jitgrad.func.grad(lambda a: a**3)), [3.0, 12.0]),
    "there and back": (jitgrad.func.jacrev(lambda a: (a.to("vcpu:1") ** 2).to(a.device)), [[2.0, 0.0], [0.0, 4.0]]),
    "tangent there and back": (
        lambda x: jitgrad.func.jvp(lambda a: (a.to("vcpu:1") ** 2).cpu(), (x,), (jitgrad.ones_like(x),))[1],
        [2.0, 4.0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("device", ["cpu", "vcpu:0"])
def test_transforms_across_devices(mode: Mode, name: str, device: str) -> None:
    function, expected = TRANSFORMS[name]
    found = mode.run(lambda: function(jitgrad.tensor([1.0, 2.0], device=device)).tolist())
    assert found == expected


def test_attributes() -> None:
    x, v, m = jitgrad.ones(1), jitgrad.ones(1, device="vcpu:1"), jitgrad.ones(1, device="meta")
    assert [(t.is_cpu, t.is_vcpu, t.is_meta) for t in (x, v, m)] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
    ]
    assert [t.get_device() for t in (x, v, m)] == [-1, 1, -1]
    v.record_stream(vcpu.Stream("vcpu:1"))
