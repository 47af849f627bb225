"""Operations on tensors that are not on the CPU, and copies between devices.

Owns: where an operation runs (``placement``), ``run_elsewhere`` and its in-place twin, native steps on a device.
Must not know: graphs, traces, how streams run work.
In: an operation's plan and inputs. Out: tensors whose values will be there in the stream's order.

A worker runs what eager execution on the CPU runs, a kernel or the NumPy rule, so the bits are the same. Operands on
the CPU (numbers in a 0-dim tensor, or data on their way to a device) are copied when the operation is submitted: the
host may write to them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.devices import CPU, META, Device
from jitgrad.ops.aval import Aval
from jitgrad.ops.table import Op
from jitgrad.runtime.devices.device_storage import DeviceStorage, MetaStorage
from jitgrad.runtime.devices.stream import Stream, current_stream
from jitgrad.runtime.eager.numpy_rule import own, run_numpy
from jitgrad.runtime.native.executor import LoadedStep
from jitgrad.runtime.storage.storage import Storage
from jitgrad.tensor_base import TensorBase, new_tensor

__all__ = ["different_devices", "placement", "run_elsewhere", "step_on", "write_elsewhere"]


def placement(avals: Sequence[Any], params: tuple[Any, ...]) -> Device:
    """The device of an operation's results: the Device among its params, else that of its operands.

    Raises:
        RuntimeError: the operands are on different devices. A 0-dim tensor on the CPU goes with any.
    """
    if Device in map(type, params):
        return next(p for p in params if type(p) is Device)
    devices = dict.fromkeys(a.device for a in avals if type(a) is Aval)
    if len(devices) < 2:
        return next(iter(devices), CPU)
    if CPU in devices and not any(type(a) is Aval and a.device is CPU and a.shape for a in avals):
        del devices[CPU]
    if len(devices) == 1:
        return next(iter(devices))
    if META in devices:
        expected, other, *_ = devices
        raise RuntimeError(f"Tensor on device {other} is not on the expected device {expected}!")
    # the CPU is named last, as TensorIterator does
    first, second, *_ = sorted(devices, key=lambda d: d is CPU)
    raise different_devices(first, second)


def different_devices(first: Device, second: Device) -> RuntimeError:
    """PyTorch's error for operands that are not together."""
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}!"
    )


Compute = Callable[[list[Any]], list[Any]]
"""The results of an operation, of its operands' arrays and numbers."""


def run_elsewhere(
    op: Op, inputs: Sequence[Any], params: tuple[Any, ...], out_avals: tuple[Aval, ...], compute: Compute | None = None
) -> tuple[Any, ...]:
    """Run an operation whose inputs or results are not on the CPU, by ``compute`` or its NumPy rule.

    Returns:
        New tensors, outside any graph.

    Raises:
        NotImplementedError: a value is to be copied out of ``meta``.
        DeviceError: the stream is poisoned, see Note [Poisoned queue].
    """
    device = out_avals[0].device
    if device is META:
        return tuple(new_tensor(a, MetaStorage(a.nbytes)) for a in out_avals)
    sources = dict.fromkeys(x._aval.device for x in inputs if isinstance(x, TensorBase))
    if META in sources:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if device is CPU or list(sources) == [CPU]:
        return _run_on_host(op, inputs, params, out_avals)
    source = next((d for d in sources if d is not CPU), device)
    storages = [DeviceStorage(a.nbytes) for a in out_avals]
    work = _work(op, inputs, params, out_avals, list(zip(storages, out_avals, strict=True)), compute)
    stream = current_stream(device)
    if source is device:
        stream.launch(work, storages)
    else:
        _launch_between(current_stream(source), stream, work, storages)
    return tuple(new_tensor(a, s) for a, s in zip(out_avals, storages, strict=True))


def _run_on_host(
    op: Op, inputs: Sequence[Any], params: tuple[Any, ...], out_avals: tuple[Aval, ...]
) -> tuple[Any, ...]:
    """A copy to or from the CPU, done when this returns: no stream has to be waited for."""
    arrays = [x._ndarray() if isinstance(x, TensorBase) else x for x in inputs]
    outs = []
    for aval, result in zip(out_avals, run_numpy(op, arrays, params, out_avals), strict=True):
        if aval.device is CPU:
            storage = Storage.from_array(own(result, aval, arrays))
        else:
            storage = DeviceStorage(aval.nbytes)
            np.copyto(storage.memory(aval), result)
        outs.append(new_tensor(aval, storage))
    return tuple(outs)


def write_elsewhere(
    op: Op,
    targets: Sequence[Any],
    inputs: Sequence[Any],
    params: tuple[Any, ...],
    out_avals: tuple[Aval, ...],
    compute: Compute | None = None,
) -> None:
    """The same for an in-place form: the results are written into ``targets``, in the stream's order."""
    device = targets[0]._aval.device
    if device is META:
        return
    storages = [t._storage for t in targets]
    work = _work(op, inputs, params, out_avals, [(t._storage, t._aval) for t in targets], compute)
    current_stream(device).launch(work, (), storages)


def step_on(
    device: Device, step: LoadedStep, out_avals: Sequence[Aval], numbers: Sequence[Any]
) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """A function of tensors on a device that runs a native step there, and returns its results, outside any graph.

    Args:
        step: one that takes arrays: those of the tensors, then those of the results.
        out_avals: of the results, on any device.
        numbers: its run-time scalars.
    """
    avals = [a.on(device) for a in out_avals]

    def start(inputs: Sequence[Any]) -> tuple[Any, ...]:
        storages = [DeviceStorage(a.nbytes) for a in avals]
        places = [*[(x._storage, x._aval) for x in inputs], *zip(storages, avals, strict=True)]

        def work() -> None:
            arrays = [storage.memory(aval) for storage, aval in places]
            if step.run_on(arrays, numbers):
                shapes = [list(a.shape) for a in avals]
                raise RuntimeError(f"a derivative rule, gradients {shapes}: an index is out of range since its forward")

        current_stream(device).launch(work, storages)
        return tuple([new_tensor(a, s) for a, s in zip(avals, storages, strict=True)])

    return start


def _work(
    op: Op,
    inputs: Sequence[Any],
    params: tuple[Any, ...],
    out_avals: tuple[Aval, ...],
    places: list[tuple[DeviceStorage, Aval]],
    compute: Compute | None,
) -> Callable[[], None]:
    """What the worker does. It holds storages, not tensors: a tensor may be given another storage meanwhile."""
    operands = [_operand(x) for x in inputs]

    def work() -> None:
        arrays = [x[0].memory(x[1]) if type(x) is tuple else x for x in operands]
        outs = [storage.memory(aval) for storage, aval in places]
        results = run_numpy(op, arrays, params, out_avals) if compute is None else compute(arrays)
        for out, result in zip(outs, results, strict=True):
            np.copyto(out, result, casting="unsafe")

    return work


def _operand(x: Any) -> Any:
    """(storage, aval) of a tensor on a device, a copy of one on the CPU, a number as it is."""
    if not isinstance(x, TensorBase):
        return x
    if x._aval.device is CPU:
        return x._ndarray().copy()
    return (x._storage, x._aval)


def _launch_between(source: Stream, target: Stream, work: Callable[[], None], storages: list[DeviceStorage]) -> None:
    """A copy from device to device: on the source's stream, in order with what both streams were given before and are
    given after (as CUDA's peer copies)."""
    source.wait_stream(target)
    source.launch(work, storages)
    target.wait_stream(source)
