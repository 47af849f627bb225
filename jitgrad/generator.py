"""``jitgrad.random``: generators, the default one, and its state.

Owns: ``Generator``, ``default_generator``, ``manual_seed``, ``seed``, ``initial_seed``, ``get_rng_state``,
``set_rng_state``, ``fork_rng``.
Must not know: distributions.

# Note [Random streams]
# ~~~~~~~~~~~~~~~~~~~~~
# A generator is PyTorch's CPU generator: a Mersenne Twister, whose words make numbers by PyTorch's rules. So a seed
# gives PyTorch's numbers: integers, uniform numbers and everything made of them by comparing, sorting or counting are
# equal bit by bit, and so are the others where PyTorch runs its AVX2 code over glibc; elsewhere their last bits differ.
# What draws, and in which order, is PyTorch's too: modules draw their parameters in its order, ``normal_`` of 16
# contiguous numbers or more draws in blocks, a tensor that is not contiguous is filled in the order of its memory.
#
# Drawing runs at its statement, in every mode: a compiled step calls the same kernel between two recorded operations,
# and what was drawn enters the trace as a tensor from outside. So the numbers do not depend on hits or misses, and a
# step that is recorded draws as often as one that is found. The kernel (Note [Random kernel] in abi.py) runs on one
# thread: the stream is sequential, and the number of threads changes nothing.
#
# A process that draws little never loads LLVM: NumPy does the same, bit by bit, until that has taken some ten
# milliseconds (``runtime/random/twister.py``). States are PyTorch's 5056 bytes, and may be exchanged with it.
# Devices have no generators of their own: the host draws, and copies.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from jitgrad.devices import Device
from jitgrad.dtypes import from_numpy_dtype
from jitgrad.functions.from_data import from_array_copy
from jitgrad.lazy import LazyModule
from jitgrad.runtime.devices.device import META, canonical
from jitgrad.runtime.eager.makings import DRAWING
from jitgrad.tensor_base import TensorBase

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "restore_stream",
    "seed",
    "set_rng_state",
    "stream_state",
]

_DEFAULT_SEED = 67280421310721
_draws = LazyModule("jitgrad.runtime.random.draws")
_twister = LazyModule("jitgrad.runtime.random.twister")
_kernel = LazyModule("jitgrad.codegen.random.kernel")
_STATE_NBYTES = 5056


def _new_stream(seed: int) -> Any:
    """Streams come with the first draw of a process; ``import jitgrad`` needs none."""
    _twister.install_opener(_open_kernel)
    return _draws.RandomStream(seed)


def _open_kernel() -> tuple[int, object]:
    """The kernel that draws random numbers: its address, and what owns its code; Note [Random kernel].

    Raises:
        CompileError: LLVM refused it.
        ImportError: there is no LLVM.
    """
    kernel = _kernel.load()
    return kernel.address, kernel


class Generator:
    """A stream of random numbers, for the ``generator=`` of functions that draw.

    Args:
        device: where its tensors are; the host draws for all of them.

    Raises:
        RuntimeError: for ``meta``, whose tensors have no numbers.
    """

    __slots__ = ("__weakref__", "_device", "_stream")

    def __init__(self, device: Any = "cpu") -> None:
        self._device = canonical(device)
        if self._device is META:
            raise RuntimeError("META device type not an accelerator.")
        self._stream = _new_stream(_DEFAULT_SEED)

    def __getattr__(self, name: str) -> Any:
        """The default generator's stream, which is started when somebody asks for it."""
        if name != "_stream":
            raise AttributeError(f"'Generator' object has no attribute {name!r}")
        with DRAWING:
            try:
                return object.__getattribute__(self, name)  # another thread was quicker
            except AttributeError:
                self._stream = _new_stream(int.from_bytes(os.urandom(8), "little"))
        return self._stream

    @property
    def device(self) -> Device:
        """As it was made."""
        return self._device

    @property
    def address(self) -> int:
        """Of the stream's state; it never changes."""
        return self._stream.address

    def draw(self, distribution: str, address: int, count: int, dtype: Any, *params: Any) -> None:
        """``RandomStream.draw``, alone."""
        with DRAWING:
            self._stream.draw(distribution, address, count, dtype, *params)

    def fractions(self, count: int, is_double: bool) -> Any:
        """``RandomStream.fractions``, alone."""
        with DRAWING:
            return self._stream.fractions(count, is_double)

    def manual_seed(self, seed: int) -> Generator:
        """Start anew. Returns the generator.

        Args:
            seed: between -2^63 and 2^64; a negative one is 2^64 plus it.

        Raises:
            RuntimeError: no int.
            ValueError: out of range.
        """
        if not isinstance(seed, int):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        if not -(1 << 63) <= seed < 1 << 64:
            raise ValueError("Overflow when unpacking long long")
        value = seed & 0xFFFF_FFFF_FFFF_FFFF
        with DRAWING:
            self._stream.seed(value)
        return self

    def seed(self) -> int:
        """Start anew with a seed from the system, and return that."""
        value = int.from_bytes(os.urandom(8), "little")
        with DRAWING:
            self._stream.seed(value)
        return value

    def initial_seed(self) -> int:
        """The seed it was started with."""
        return self._stream.initial_seed

    def get_state(self) -> Any:
        """The state as PyTorch has it: 5056 bytes in a tensor."""
        return _as_tensor(self.state_bytes())

    def set_state(self, new_state: Any) -> Any:
        """Go on where ``get_state`` was called, here or in PyTorch. Returns the generator.

        Args:
            new_state: a tensor or a NumPy array of 5056 bytes.

        Raises:
            TypeError: neither of the two.
            RuntimeError: it is no state.
        """
        self.restore_bytes(_as_bytes(new_state))
        return self

    def clone_state(self) -> Generator:
        """A new generator in the same state."""
        clone = Generator(self._device)
        clone.restore_bytes(self.state_bytes())
        return clone

    def state_bytes(self) -> Any:
        """The state as an array of uint8."""
        with DRAWING:
            return self._stream.state()

    def restore_bytes(self, state: Any) -> None:
        """Undo what was drawn since ``state_bytes``."""
        with DRAWING:
            self._stream.set_state(state)

    def get_offset(self) -> int:
        """Raises: such generators have no offset."""
        raise RuntimeError("CPU Generator does not use offset")

    def set_offset(self, offset: int) -> Generator:
        """Raises: such generators have no offset."""
        raise RuntimeError("CPU Generator does not use offset")

    def graphsafe_get_state(self) -> Generator:
        """Raises: it is for CUDA graphs."""
        raise NotImplementedError("graphsafe_get_state is not supported in this Generator")

    def graphsafe_set_state(self, state: Any) -> Generator:
        """Raises: it is for CUDA graphs."""
        raise NotImplementedError("graphsafe_set_state is not supported in this Generator")

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (str(self._device), self.state_bytes().tobytes()))

    def __deepcopy__(self, memo: dict[int, Any]) -> Generator:
        return self.clone_state()


def _rebuild(device: str, state: bytes) -> Generator:
    generator = Generator(device)
    generator.restore_bytes(np.frombuffer(state, np.uint8))
    return generator


def _as_tensor(state: Any) -> Any:
    """Bytes in a uint8 tensor; where that dtype does not exist, in an int64 one."""
    try:
        from_numpy_dtype(state.dtype)
    except TypeError:
        state = state.view(np.int64)
    return from_array_copy(state)


def _as_bytes(state: Any) -> Any:
    array = state.detach()._ndarray() if isinstance(state, TensorBase) else state
    if not isinstance(array, np.ndarray) or array.dtype not in (np.uint8, np.int64):
        raise TypeError("RNG state must be a jitgrad.ByteTensor")
    if array.nbytes != _STATE_NBYTES or array.ndim != 1:
        raise RuntimeError(
            f"Expected a CPUGeneratorImplState of size {_STATE_NBYTES} but found the input RNG state size to be "
            f"{array.nbytes}"
        )
    return np.ascontiguousarray(array).view(np.uint8)


default_generator = Generator.__new__(Generator)
default_generator._device = canonical("cpu")


def manual_seed(seed: int) -> Generator:
    """Restart the default generator, which it returns. ValueError for a seed outside [-2^63, 2^64)."""
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Restart the default generator with a seed from the system, and return that."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the default generator was started with."""
    return default_generator.initial_seed()


def stream_state() -> Any:
    """Where the default generator is; see ``restore_stream``."""
    return default_generator.state_bytes()


def restore_stream(state: Any) -> None:
    """Put the default generator back to where ``stream_state`` found it."""
    default_generator.restore_bytes(state)


def get_rng_state() -> Any:
    """The default generator's state, as ``Generator.get_state``."""
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Put the default generator into a state, as ``Generator.set_state``, which says what is raised."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(
    devices: Any = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: Any = None,
) -> Iterator[None]:
    """Whatever is drawn in the block, the default generator goes on as if nothing had been.

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
