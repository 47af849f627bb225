"""Tensors on virtual devices and on meta: where they are made, moved, mixed and read."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad
from jitgrad import vcpu
from jitgrad.devices import CPU, META, Device
from jitgrad.nn import functional as F

pytestmark = pytest.mark.usefixtures("idle_devices")

V0, V1 = Device("vcpu:0"), Device("vcpu:1")


# --- names ---


def test_devices_are_spelled_as_in_pytorch() -> None:
    assert jitgrad.device is Device
    assert Device("vcpu", 1) is V1 is Device(V1)
    assert (V1.type, V1.index, str(V1), repr(V1)) == ("vcpu", 1, "vcpu:1", "device(type='vcpu', index=1)")
    assert Device("vcpu").index is None
    assert len({V0, V1, CPU, META}) == 4
    assert pickle.loads(pickle.dumps(V1)) is V1
    assert copy.deepcopy(V1) is V1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("gpu:0",), "Expected one of cpu, vcpu, meta, cuda, .* device type at start of device string: gpu"),
        (("vcpu:x",), "Invalid device string: 'vcpu:x'"),
        (("vcpu:0", 1), "type .string. must not include an index because index was passed: vcpu:0"),
        (("vcpu", -3), "Device index must not be negative"),
    ],
)
def test_devices_that_cannot_be(args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        Device(*args)


def test_devices_that_are_absent_can_be_named() -> None:
    gpu = Device("cuda:1")
    assert (gpu.type, gpu.index, str(gpu)) == ("cuda", 1, "cuda:1") and gpu is Device("cuda", 1) != CPU
    uses: list[Callable[[Any], Any]] = [
        lambda device: jitgrad.zeros(2, device=device),
        lambda device: jitgrad.tensor([1.0], device=device),
        lambda device: jitgrad.ones(2).to(device),
        lambda device: jitgrad.nn.Linear(1, 1).to(device),
        lambda device: jitgrad.rand(2, device=device),
    ]
    for use in uses:
        with pytest.raises(AssertionError, match=r"not compiled with CUDA enabled: .* torch\.cuda\.is_available"):
            use("cuda")
        with pytest.raises(RuntimeError, match="not linked with support for mps devices"):
            use(Device("mps"))
    with gpu, pytest.raises(AssertionError, match="CUDA"):
        jitgrad.zeros(2)
    assert jitgrad.zeros(2).device is CPU


def test_a_device_beyond_the_last() -> None:
    with pytest.raises(RuntimeError, match="invalid device ordinal: vcpu:9; this process has 2 virtual devices"):
        jitgrad.ones(2, device="vcpu:9")
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        vcpu.set_device(2)
    with pytest.raises(ValueError, match="Expected a vcpu device, but got: cpu"):
        vcpu.Stream("cpu")


def test_the_current_device() -> None:
    assert jitgrad.ones(1, device="vcpu").device is V0
    with vcpu.device(1):
        assert vcpu.current_device() == 1
        assert jitgrad.ones(1, device="vcpu").device is V1
        assert jitgrad.ones(1).vcpu().device is V1
        assert vcpu.current_stream().device is V1
        with vcpu.device(None):
            assert vcpu.current_device() == 1
        seen: list[int] = []
        other = threading.Thread(target=lambda: seen.append(vcpu.current_device()))
        other.start()
        other.join()
        assert seen == [0], "the current device is a thread's own"
    assert vcpu.current_device() == 0
    assert vcpu.is_available() and vcpu.device_count() == 2


# --- making and moving ---

FACTORIES: dict[str, Callable[[Any], Any]] = {
    "tensor": lambda d: jitgrad.tensor([1.0, 2.0], device=d),
    "as_tensor": lambda d: jitgrad.as_tensor([1.0, 2.0], device=d),
    "zeros": lambda d: jitgrad.zeros(2, 3, device=d),
    "ones": lambda d: jitgrad.ones((2, 3), device=d),
    "empty": lambda d: jitgrad.empty(3, device=d) * 0,
    "full": lambda d: jitgrad.full((2,), 7, device=d),
    "arange": lambda d: jitgrad.arange(5, device=d),
    "linspace": lambda d: jitgrad.linspace(0, 1, 5, device=d),
    "eye": lambda d: jitgrad.eye(3, device=d),
    "rand": lambda d: jitgrad.rand(4, device=d),
    "randn": lambda d: jitgrad.randn(4, device=d),
    "randint": lambda d: jitgrad.randint(0, 9, (4,), device=d),
    "randperm": lambda d: jitgrad.randperm(6, device=d),
    "zeros_like": lambda d: jitgrad.zeros_like(jitgrad.ones(3), device=d),
    "ones_like": lambda d: jitgrad.ones_like(jitgrad.ones(3), device=d),
    "full_like": lambda d: jitgrad.full_like(jitgrad.ones(3), 2.0, device=d),
    "rand_like": lambda d: jitgrad.rand_like(jitgrad.ones(3), device=d),
    "randn_like": lambda d: jitgrad.randn_like(jitgrad.ones(3), device=d),
    "new_zeros": lambda d: jitgrad.ones(3).new_zeros(2, device=d),
    "new_full": lambda d: jitgrad.ones(3).new_full((2,), 5.0, device=d),
    "new_tensor": lambda d: jitgrad.ones(3).new_tensor([1.0], device=d),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories(mode: Mode, name: str) -> None:
    def step():
        made = []
        for device in (None, "vcpu:1", "meta"):
            jitgrad.manual_seed(3)
            made.append(FACTORIES[name](device))
        here, there, nowhere = made
        assert (here.device, there.device, nowhere.device) == (CPU, V1, META)
        assert here.dtype is there.dtype is nowhere.dtype
        assert here.shape == there.shape == nowhere.shape
        return here.tolist(), there.tolist()

    here, there = mode.run(step)
    assert here == there


LIKES: dict[str, Callable[[Any], Any]] = {
    "zeros_like": jitgrad.zeros_like,
    "ones_like": jitgrad.ones_like,
    "full_like": lambda x: jitgrad.full_like(x, 2.0),
    "randn_like": jitgrad.randn_like,
    "new_ones": lambda x: x.new_ones(2),
    "new_tensor": lambda x: x.new_tensor([1.0]),
    "clone": lambda x: x.clone(),
    "tensor": jitgrad.tensor,
    "deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "view": lambda x: x.view(-1)[1:],
    "detach": lambda x: x.detach(),
}


@pytest.mark.filterwarnings("ignore:To copy construct from a tensor:UserWarning")
@pytest.mark.parametrize("name", LIKES)
@pytest.mark.parametrize("device", ["vcpu:0", "vcpu:1"])
def test_what_is_made_from_a_tensor_is_beside_it(mode: Mode, name: str, device: str) -> None:
    made = mode.run(lambda: LIKES[name](jitgrad.ones(4, device=device)))
    assert made.device is Device(device)
    assert made.requires_grad is False


def test_moving(mode: Mode) -> None:
    def step():
        x = jitgrad.arange(3, dtype=jitgrad.float32)
        v = x.to("vcpu:0")
        same = (v.to("vcpu:0") is v, v.vcpu(0) is v, x.cpu() is x, x.to("cpu") is x, v.to(v) is v)
        wide = jitgrad.float64
        moved = [v.to("vcpu:1", wide), x.to(device="vcpu:1", dtype=wide), x.to(v.double().vcpu(1))]
        x.mul_(10.0)  # the copies were made before
        copied = v.to("vcpu:0", copy=True)
        v.add_(1.0)
        return same, [(m.device, m.dtype.name, m.tolist()) for m in moved], v.cpu().tolist(), copied.tolist()

    same, moved, v, copied = mode.run(step)
    assert same == (True,) * 5
    assert moved == [(V1, "float64", [0.0, 1.0, 2.0])] * 3
    assert v == [1.0, 2.0, 3.0]
    assert copied == [0.0, 1.0, 2.0]


def test_gradients_come_back_to_the_source(mode: Mode) -> None:
    """y = (2x on vcpu:0) * (3x on vcpu:1), added up on the CPU: dy/dx = 12x."""

    def step():
        x = jitgrad.tensor([1.0, 2.0, 3.0], requires_grad=True)
        a, b = x.to("vcpu:0") * 2, x.to("vcpu:1") * 3
        y = (a.to("vcpu:1") * b).cpu()
        names = (a.to("vcpu:1").grad_fn.name(), x.to("vcpu:0", jitgrad.float64).grad_fn.name())
        y.sum().backward()
        return y.tolist(), x.grad.tolist(), x.grad.device, names

    y, grad, device, names = mode.run(step)
    assert y == [6.0, 24.0, 54.0]
    assert grad == [12.0, 24.0, 36.0]
    assert device is CPU
    assert names == ("ToCopyBackward0", "ToCopyBackward0")


def test_second_derivatives_across_devices(mode: Mode) -> None:
    def step():
        x = jitgrad.tensor([2.0], requires_grad=True)
        y = (x.to("vcpu:0") ** 3).cpu()
        (g,) = jitgrad.autograd.grad(y.sum(), x, create_graph=True)
        (h,) = jitgrad.autograd.grad(g.sum(), x)
        return g.item(), h.item()

    assert mode.run(step) == (12.0, 12.0)


# --- mixing ---


def _add(a: Any, b: Any) -> Any:
    return a + b


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        ("vcpu:0", "cpu", "found at least two devices, vcpu:0 and cpu!"),
        ("cpu", "vcpu:0", "found at least two devices, vcpu:0 and cpu!"),
        ("vcpu:1", "vcpu:0", "found at least two devices, vcpu:1 and vcpu:0!"),
        ("meta", "cpu", "Tensor on device cpu is not on the expected device meta!"),
        ("cpu", "meta", "Tensor on device meta is not on the expected device cpu!"),
    ],
)
@pytest.mark.parametrize("kind", ["operator", "in-place", "matmul", "cat"])
def test_operands_on_different_devices(mode: Mode, left: str, right: str, message: str, kind: str) -> None:
    operations = {
        "operator": _add,
        "in-place": lambda a, b: a.mul_(b),
        "matmul": lambda a, b: a @ b,
        "cat": lambda a, b: jitgrad.cat([a, b]),
    }

    def step():
        a, b = jitgrad.ones(2, 2, device=left), jitgrad.ones(2, 2, device=right)
        with pytest.raises(RuntimeError, match=message):
            operations[kind](a, b)
        ok = a + a  # the next operation works
        return ok if left == "meta" else ok.tolist()

    result = mode.run(step)
    assert left == "meta" or result == [[2.0, 2.0]] * 2


def test_numbers_on_the_cpu_go_with_any_device(mode: Mode) -> None:
    """A 0-dim tensor is a number: it is read when the operation is submitted."""

    def step():
        v = jitgrad.full((2,), 3.0, device="vcpu:0")
        number = jitgrad.tensor(2.0, requires_grad=True)
        y = v * number + number
        (gradient,) = jitgrad.autograd.grad(y.sum(), number)
        plain = jitgrad.tensor(1.0)
        z = v + plain
        plain.add_(100.0)
        w = v.clone()
        w.sub_(jitgrad.tensor(1.0))
        m = jitgrad.ones(2, device="meta") * number
        return y.tolist(), gradient.item(), gradient.device, z.tolist(), w.tolist(), str(m.device)

    assert mode.run(step) == ([8.0, 8.0], 8.0, CPU, [4.0, 4.0], [2.0, 2.0], "meta")


def test_a_number_on_a_device_does_not_go_with_the_cpu() -> None:
    with pytest.raises(RuntimeError, match="vcpu:0 and cpu"):
        jitgrad.ones(3) * jitgrad.tensor(2.0, device="vcpu:0")
    with pytest.raises(RuntimeError, match="vcpu:0 and cpu"):
        jitgrad.tensor(2.0).add_(jitgrad.tensor(2.0, device="vcpu:0"))


def test_indices_may_be_on_the_cpu(mode: Mode) -> None:
    def step():
        v = jitgrad.arange(6, device="vcpu:0").reshape(2, 3)
        at, mask = jitgrad.tensor([2, 0]), jitgrad.tensor([True, False])
        read = [x.tolist() for x in (v[:, at], v[mask], v[v > 3], v[1, [0, 2]], v[at.vcpu(0) > 1])]
        v[:, at] = 9
        v[0] = jitgrad.tensor([5, 5, 5])
        return read, v.tolist()

    read, written = mode.run(step)
    assert read == [[[2, 0], [5, 3]], [[0, 1, 2]], [4, 5], [3, 5], [[0, 1, 2]]]
    assert written == [[5, 5, 5], [9, 4, 9]]


def test_an_index_on_another_device() -> None:
    index = jitgrad.tensor([0], device="vcpu:0")
    with pytest.raises(RuntimeError, match=r"indices should be either on cpu or on the same device .* \(cpu\)"):
        jitgrad.ones(3)[index]
    with pytest.raises(RuntimeError, match=r"same device as the indexed tensor \(vcpu:1\)"):
        jitgrad.ones(3, device="vcpu:1")[index]


# --- in place, views ---


def test_writes_and_views_share_memory_on_a_device(mode: Mode) -> None:
    def step():
        x = jitgrad.zeros(2, 3, device="vcpu:1")
        row, column = x[0], x[:, 1]
        row.add_(1.0)
        column.mul_(5.0)
        x.t()[2].copy_(jitgrad.tensor([7.0, 8.0]))
        jitgrad.ones(2, 3).copy_(x)
        return x.tolist(), row.tolist(), x._version, row._version

    assert mode.run(step) == ([[1.0, 5.0, 7.0], [0.0, 0.0, 8.0]], [1.0, 5.0, 7.0], 3, 3)


def test_in_place_writes_join_the_graph(mode: Mode) -> None:
    def step():
        x = jitgrad.ones(3, device="vcpu:0", requires_grad=True)
        z = x * 2
        y = z[0]
        y *= 5
        (z.exp_() * 1.0).sum().backward()
        return z.tolist(), x.grad.tolist()

    z, grad = mode.run(step)
    e2, e10 = float(np.exp(np.float32(2))), float(np.exp(np.float32(10)))
    assert z == pytest.approx([e10, e2, e2], rel=1e-6)
    assert grad == pytest.approx([10 * e10, 2 * e2, 2 * e2], rel=1e-6)


def test_a_saved_value_that_was_overwritten(mode: Mode) -> None:
    def step():
        x = jitgrad.ones(2, device="vcpu:0", requires_grad=True)
        y = x.exp()
        y.add_(1)
        with pytest.raises(RuntimeError, match="at version 1; expected version 0"):
            y.sum().backward()
        return (x * 2).tolist()

    assert mode.run(step) == [2.0, 2.0]


# --- reading ---


def test_how_tensors_elsewhere_print() -> None:
    assert repr(jitgrad.tensor([1.0, 2.0], device="vcpu:1")) == "tensor([1., 2.], device='vcpu:1')"
    assert repr(jitgrad.ones(2, 3, device="meta")) == "tensor(..., device='meta', size=(2, 3))"
    assert repr(jitgrad.zeros(2, device="meta", dtype=jitgrad.float64)) == (
        "tensor(..., device='meta', size=(2,), dtype=jitgrad.float64)"
    )
    assert repr(jitgrad.ones(1, device="vcpu:0", requires_grad=True)) == (
        "tensor([1.], device='vcpu:0', requires_grad=True)"
    )


def test_numpy_wants_the_cpu() -> None:
    x = jitgrad.ones(2, device="vcpu:0")
    with pytest.raises(TypeError, match=r"can't convert vcpu:0 device type tensor to numpy. Use Tensor.cpu\(\)"):
        x.numpy()
    array = x.numpy(force=True)
    array[0] = 7
    assert x.tolist() == [1.0, 1.0], "a copy"


def test_a_gradient_stays_with_its_tensor() -> None:
    x = jitgrad.ones(2, device="vcpu:0", requires_grad=True)
    with pytest.raises(RuntimeError, match="Please ensure that the gradient and the tensor are on the same device"):
        x.grad = jitgrad.ones(2)
    with pytest.raises(RuntimeError, match="expected device vcpu:0 but got cpu"):
        (x * 2).backward(jitgrad.ones(2))
    assert x.grad is None


# --- meta ---


def test_meta_knows_shapes_only(mode: Mode) -> None:
    def step():
        x = jitgrad.ones(2, 3, device="meta", dtype=jitgrad.float64, requires_grad=True)
        y = F.softmax(x @ jitgrad.ones(3, 5, device="meta", dtype=jitgrad.float64), -1).sum(0, keepdim=True)
        z = y.expand(4, 5)[1:3].t()
        layout = z.shape, z.stride(), z.dtype.name, z.grad_fn is not None, z._is_view()
        y.sum().backward()
        target = jitgrad.zeros(2, device="meta")
        target.add_(1).copy_(jitgrad.ones(2))
        return layout, (x.grad.shape, x.grad.device, x.grad.dtype.name), target._version, x.data_ptr()

    layout, grad, version, address = mode.run(step)
    assert layout == ((5, 2), (1, 0), "float64", True, True)
    assert grad == ((2, 3), META, "float64")
    assert version == 2
    assert address == 0


READS: dict[str, tuple[Callable[[Any], Any], type, str]] = {
    "item": (lambda x: x.sum().item(), RuntimeError, r"Tensor.item\(\) cannot be called on meta tensors"),
    "bool": (lambda x: bool(x.sum()), RuntimeError, r"Tensor.item\(\) cannot be called on meta tensors"),
    "tolist": (lambda x: x.tolist(), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
    "cpu": (lambda x: x.cpu(), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
    "vcpu": (lambda x: x.to("vcpu:0"), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
    "copy_": (lambda x: jitgrad.ones(2).copy_(x), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
    "numpy": (lambda x: x.numpy(), TypeError, "can't convert meta device type tensor to numpy"),
    "nonzero": (lambda x: x.nonzero(), NotImplementedError, "meta"),
}


@pytest.mark.parametrize("name", READS)
def test_meta_cannot_be_read(mode: Mode, name: str) -> None:
    read, error, message = READS[name]

    def step():
        x = jitgrad.ones(2, device="meta")
        with pytest.raises(error, match=message):
            read(x)
        return (jitgrad.ones(2) + 1).tolist()

    assert mode.run(step) == [2.0, 2.0]


def test_shape_errors_come_at_once_everywhere(mode: Mode) -> None:
    def step():
        for device in ("vcpu:0", "meta"):
            with pytest.raises(RuntimeError, match="must match the size"):
                jitgrad.ones(2, device=device) + jitgrad.ones(3, device=device)
            with pytest.raises(RuntimeError):
                jitgrad.ones(2, 3, device=device) @ jitgrad.ones(2, 3, device=device)

    mode.run(step)
