"""The global random stream, and the tensors drawn from it.

Owns: ``manual_seed``, ``initial_seed``, the stream's state (``get_rng_state``, ``set_rng_state``, ``fork_rng``),
``rand``, ``randn``, ``randint``, ``randperm``, ``*_like``.

The stream is Philox, a counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
Drawing runs in Python at every call, compiled or not, so a seed gives the same numbers in every mode.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jitgrad.dtypes import DType, float32, get_default_dtype, int64
from jitgrad.functions.creation import from_array_copy
from jitgrad.functions.devices import placed
from jitgrad.locks import process_lock
from jitgrad.state import state as thread
from jitgrad.tensor_base import TensorBase

__all__ = [
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "randperm",
    "restore_stream",
    "set_rng_state",
    "stream",
    "stream_state",
]

_NUM_STATE_WORDS = 14


class _Generator:
    """A seed and the stream it starts; ``lock`` makes each draw whole.

    The stream is made by the first draw: NumPy imports its generators only then, a twentieth of ``import jitgrad``.
    """

    def __init__(self) -> None:
        self.lock = process_lock()
        self.seed(int.from_bytes(os.urandom(4), "little"))

    def seed(self, value: int) -> None:
        self.value = value
        self._stream: np.random.Generator | None = None

    @property
    def stream(self) -> np.random.Generator:
        if self._stream is None:
            self._stream = np.random.Generator(np.random.Philox(self.value))
        return self._stream

    def state(self) -> tuple[int, ...]:
        """The seed, and where the stream has got to: Philox's key, counter, buffer and half-used word."""
        philox: Any = self.stream.bit_generator.state
        inner = philox["state"]
        words = (*inner["key"], *inner["counter"], *philox["buffer"])
        return tuple(map(int, (self.value, *words, philox["buffer_pos"], philox["has_uint32"], philox["uinteger"])))

    def restore(self, state: tuple[int, ...]) -> None:
        """Go back to where ``state`` was taken."""
        self.seed(state[0])
        words = np.array(state[1:11], dtype=np.uint64)
        self.stream.bit_generator.state = {
            "bit_generator": "Philox",
            "state": {"key": words[:2], "counter": words[2:6]},
            "buffer": words[6:],
            "buffer_pos": state[11],
            "has_uint32": state[12],
            "uinteger": state[13],
        }


_generator = _Generator()


def manual_seed(seed: int) -> None:
    """Restart the global random stream."""
    with _generator.lock:
        _generator.seed(int(seed) & 0xFFFF_FFFF_FFFF_FFFF)


def initial_seed() -> int:
    """The seed that the global random stream was started with."""
    return _generator.value


def stream_state() -> tuple[int, ...]:
    """Where the global random stream is, as plain numbers; see ``restore_stream``."""
    with _generator.lock:
        return _generator.state()


def restore_stream(state: tuple[int, ...]) -> None:
    """Put the global random stream back to where ``stream_state`` found it."""
    with _generator.lock:
        _generator.restore(state)


def get_rng_state() -> Any:
    """The state of the global random stream, an int64 tensor for ``set_rng_state``."""
    return from_array_copy(np.array(stream_state(), dtype=np.uint64).astype(np.int64))


def set_rng_state(new_state: Any) -> None:
    """Continue the global random stream where ``get_rng_state`` found it.

    Raises:
        TypeError: no int64 tensor.
        RuntimeError: a tensor that is no state.
    """
    if not isinstance(new_state, TensorBase) or new_state._aval.dtype is not int64:
        raise TypeError("RNG state must be a jitgrad.int64 tensor, as get_rng_state() returns it")
    if new_state._aval.shape != (_NUM_STATE_WORDS,):
        raise RuntimeError("RNG state is wrong size")
    restore_stream(tuple(new_state.detach()._ndarray().astype(np.uint64).tolist()))


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, device_type: str = "cpu") -> Iterator[None]:
    """Whatever is drawn in the block, the stream goes on as if nothing had been.

    Args:
        devices, device_type: kept because PyTorch keeps them; there is one stream for all devices.
        enabled: False makes the block an ordinary one.
    """
    if not enabled:
        yield
        return
    before = stream_state()
    try:
        yield
    finally:
        restore_stream(before)


def stream(draw: Callable[[np.random.Generator], Any]) -> Any:
    """Draw from the global stream, alone: ``stream(lambda g: g.random(3))``."""
    with _generator.lock:
        return draw(_generator.stream)


def _shape(size: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(int(n) for n in (size[0] if len(size) == 1 and isinstance(size[0], list | tuple) else size))


def _drawn(
    draw: Callable[[np.random.Generator], Any], dtype: DType, requires_grad: bool = False, device: Any = None
) -> Any:
    """The host draws, whatever the device: a seed gives the same numbers everywhere."""
    if thread.handler is not None:  # inside vmap, each example may have to see numbers of its own
        return thread.handler.draws(lambda: _draw_once(draw, dtype, requires_grad, device))
    return _draw_once(draw, dtype, requires_grad, device)


def _draw_once(draw: Callable[[np.random.Generator], Any], dtype: DType, requires_grad: bool, device: Any) -> Any:
    out = placed(from_array_copy(np.asarray(stream(draw)).astype(dtype.np, copy=False)), device)
    return out.requires_grad_() if requires_grad else out


def _native(dtype: DType) -> Any:
    """Philox draws floats in the dtype itself."""
    return np.float32 if dtype is float32 else np.float64


def rand(*size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Uniform on [0, 1)."""
    dtype = dtype or get_default_dtype()
    return _drawn(lambda g: g.random(_shape(size), dtype=_native(dtype)), dtype, requires_grad, device)


def randn(*size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Standard normal."""
    dtype = dtype or get_default_dtype()
    return _drawn(lambda g: g.standard_normal(_shape(size), dtype=_native(dtype)), dtype, requires_grad, device)


def rand_like(
    input: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """``rand`` in a tensor's shape, dtype and device."""
    device = input.device if device is None else device
    return rand(input.shape, dtype=dtype or input.dtype, device=device, requires_grad=requires_grad)


def randn_like(
    input: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """``randn`` in a tensor's shape, dtype and device."""
    device = input.device if device is None else device
    return randn(input.shape, dtype=dtype or input.dtype, device=device, requires_grad=requires_grad)


def randint(low: int, high: Any = None, size: Any = None, *, dtype: DType | None = None, device: Any = None) -> Any:
    """Integers on [low, high), or [0, low) in the two-argument form ``randint(high, size)``."""
    if size is None:
        low, high, size = 0, low, high
    return _drawn(lambda g: g.integers(low, high, _shape((size,))), dtype or int64, device=device)


def randperm(n: int, *, dtype: DType | None = None, device: Any = None) -> Any:
    """A random permutation of 0 .. n-1."""
    return _drawn(lambda g: g.permutation(n), dtype or int64, device=device)
