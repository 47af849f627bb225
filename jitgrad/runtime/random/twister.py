"""``Twister``: a random stream, PyTorch's number by number; the draws from it, and its state in PyTorch's bytes.

Owns: the memory of a stream, the choice between native code and NumPy, the 5056 bytes of a state.
Must not know: distributions, tensors, how the kernel is compiled (``install_opener``).
In: a kind of draw, Note [Random kernel], and an address. Out: numbers there.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.abi import (
    RANDOM_CACHED,
    RANDOM_FRESH,
    RANDOM_HAS_CACHED,
    RANDOM_LIBM,
    RANDOM_LIBM_NAMES,
    RANDOM_MAP,
    RANDOM_NORMAL32,
    RANDOM_POSITION,
    RANDOM_SEED,
    RANDOM_STATE_WORDS,
    RANDOM_WORDS,
)
from jitgrad.cpython.primitives import DRAW_FUNCTION
from jitgrad.lazy import LazyModule
from jitgrad.locks import process_lock
from jitgrad.runtime.eager.makings import DRAW_KERNEL
from jitgrad.runtime.eager.quiet import run_quietly
from jitgrad.user_line import let_through

__all__ = ["STATE_NBYTES", "Twister", "install_opener", "is_native", "use_numpy"]

STATE_NBYTES = 5056
_BLOCK = 624
# 64-bit words of PyTorch's bytes, after which come the block's words, each in one of these
_SEED, _LEFT, _NEXT, _FIRST = 0, 1, 2, 3
_CACHED, _HAS_CACHED = 628, 630
_SEEDED = 1 << 32

# Microseconds of draws by NumPy after which native code is loaded, which takes some tens of milliseconds; and what
# draws take: a call, and each number.
_PATIENCE = 10_000.0
_CALL, _NUMBER = 15.0, 0.05
_CALL_NORMAL, _NUMBER_NORMAL = 450.0, 1.0

Fill = Callable[[int, "int | None", int, int, float, float], None]


class _Native:
    """The kernel, once there is one.

    Attributes:
        fill: the kernel; None: NumPy draws.
        open: loads the kernel: its address, and what owns its code; None: it cannot be asked any more.
        is_set: it has been said what loads the kernel.
        spent: microseconds of draws by NumPy.
    """

    def __init__(self) -> None:
        self.fill: Fill | None = None
        self.open: Callable[[], tuple[int, Any]] | None = None
        self.is_set = False
        self.spent = 0.0


    def use(self, fill: Fill | None) -> None:
        """Let ``fill`` draw, or NumPy."""
        self.fill = fill
        function: Any = fill
        DRAW_KERNEL.address = ctypes.cast(function, ctypes.c_void_p).value or 0


numpy_form = LazyModule("jitgrad.runtime.random.numpy_form")
_native = _Native()
_lock = process_lock()


def install_opener(open_kernel: Callable[[], tuple[int, Any]]) -> None:
    """Set what loads the kernel, once: a function that returns its address and the owner of its code, or raises."""
    if not _native.is_set:
        _native.open, _native.is_set = open_kernel, True


def is_native() -> bool:
    """Whether the kernel draws from now on; it is loaded if that is possible."""
    with _lock:
        if _native.fill is None and _native.open is not None and _can_be_native():
            open_kernel, _native.open = _native.open, None
            try:
                address, keep_alive = open_kernel()
            except Exception as error:  # it is an accelerator: without it NumPy draws the same numbers
                let_through(error)
                return False
            fill: Any = DRAW_FUNCTION(address)
            fill.keep_alive = keep_alive
            _native.use(fill)
    return _native.fill is not None


def _can_be_native() -> bool:
    """The kernel calls the C library, and takes the words of a pair as little-endian machines lay them out."""
    return sys.byteorder == "little" and all(_libm_addresses())


def use_numpy(fill: Fill | None = None) -> Fill | None:
    """Let NumPy draw, or the kernel that an earlier call returned; for tests. Returns the kernel in use until now."""
    before = _native.fill
    _native.use(fill)
    _native.spent = 0.0
    return before


def _libm_addresses() -> list[int]:
    """Of the C library's functions; 0 where there is none."""
    library = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
    functions = (getattr(library, name, None) for name in RANDOM_LIBM_NAMES)
    return [0 if f is None else ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions]


def _address_of(array: Any) -> int:
    """Of the first element; three times faster than ``array.ctypes.data``."""
    return ctypes.addressof(ctypes.c_char.from_buffer(array))


class Twister:
    """One stream. Callers see to it that one thread at a time draws.

    Attributes:
        address: of its state; it never changes.
        initial_seed: what it was started with, as PyTorch reports it: between 0 and 2^64.
    """

    __slots__ = ("_state", "address", "initial_seed")

    def __init__(self, seed: int) -> None:
        self._state: Any = np.zeros(RANDOM_STATE_WORDS, np.uint64)
        self._state[RANDOM_LIBM:] = _libm_addresses()
        self.address = _address_of(self._state)
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Start anew. The low 32 bits decide; the others are only remembered."""
        self.initial_seed = seed
        self.fill(0, seed & 0xFFFFFFFF, RANDOM_SEED)

    def fill(self, address: int, count: int, kind: int, a: float = 0.0, b: float = 1.0) -> None:
        """Draw ``count`` numbers to ``address``, Note [Random kernel]."""
        fill = _native.fill
        if fill is not None:
            fill(self.address, address, count, kind, a, b)
        else:
            self._fill_slowly(address, count, kind, a, b)

    def _fill_slowly(self, address: int, count: int, kind: int, a: float, b: float) -> None:
        if kind != RANDOM_SEED:
            is_normal = kind == RANDOM_NORMAL32
            _native.spent += _CALL_NORMAL + count * _NUMBER_NORMAL if is_normal else _CALL + count * _NUMBER
            if _native.spent > _PATIENCE and is_native():
                self.fill(address, count, kind, a, b)
                return
        numpy_form.fill(self._state, address, count, kind, a, b)

    def array(self, count: int, kind: int, dtype: Any, a: float = 0.0, b: float = 1.0) -> Any:
        """``fill`` into a new array."""
        out = run_quietly(np.empty, count, dtype)
        if count:
            self.fill(_address_of(out), count, kind, a, b)
        return out

    def words(self, count: int) -> Any:
        """32-bit draws."""
        return self.array(count, RANDOM_WORDS, np.uint32)

    def wide_words(self, count: int) -> Any:
        """64-bit draws: the first 32 bits are the upper half."""
        pairs = self.words(2 * count).view(np.uint64)
        return pairs if sys.byteorder == "big" else (pairs << np.uint64(32)) | (pairs >> np.uint64(32))

    def map(self, name: str, values: Any) -> Any:
        """The C library's function ``name`` of an array of doubles; draws nothing."""
        out = np.ascontiguousarray(values, np.float64)
        if out is values:
            out = out.copy()
        if out.size:
            address = _address_of(out)
            self.fill(address, out.size, RANDOM_MAP + RANDOM_LIBM_NAMES.index(name))
        return out

    @staticmethod
    def fma(values: Any, times: float, plus: float) -> Any:
        """``values * times + plus`` of an array of doubles, rounded once."""
        return numpy_form.fma64(values, times, plus)

    def kept(self) -> float | None:
        """The second number of the last pair of normal ones, if it was not drawn yet."""
        return float(self._kept_words[:1].view(np.float64)[0]) if self._kept_words[1] else None

    def keep(self, normal: float | None) -> None:
        """Let ``normal`` be drawn next, or none."""
        self._kept_words[:1].view(np.float64)[0], self._kept_words[1] = normal or 0.0, normal is not None

    @property
    def _kept_words(self) -> Any:
        return self._state[RANDOM_CACHED : RANDOM_HAS_CACHED + 1]

    def state(self) -> Any:
        """PyTorch's 5056 bytes, a new uint8 array."""
        out = np.zeros(STATE_NBYTES // 8, np.uint64)
        position = int(self._state[RANDOM_POSITION])
        out[_SEED] = self.initial_seed
        out[_LEFT] = _SEEDED | (1 if position == RANDOM_FRESH else _BLOCK + 1 - position)
        out[_NEXT] = 0 if position == RANDOM_FRESH else position
        out[_FIRST : _FIRST + _BLOCK] = self._state[:RANDOM_POSITION].view(np.uint32)
        out[_CACHED], out[_HAS_CACHED] = self._state[RANDOM_CACHED], self._state[RANDOM_HAS_CACHED]
        return out.view(np.uint8)

    def set_state(self, state: Any) -> None:
        """Go on where ``state()`` was taken, here or in PyTorch.

        Raises:
            RuntimeError: it is no state.
        """
        words = np.ascontiguousarray(state).view(np.uint64)
        left, position = int(words[_LEFT]) & 0xFFFFFFFF, int(words[_NEXT])
        is_fresh = left == 1 and not position
        if not int(words[_LEFT]) >> 32 or not (is_fresh or (position <= _BLOCK and left + position == _BLOCK + 1)):
            raise RuntimeError("Invalid mt19937 state")
        self.initial_seed = int(words[_SEED])
        self._state[:RANDOM_POSITION].view(np.uint32)[:] = words[_FIRST : _FIRST + _BLOCK]
        self._state[RANDOM_POSITION] = RANDOM_FRESH if is_fresh else position
        self._state[RANDOM_CACHED], self._state[RANDOM_HAS_CACHED] = words[_CACHED], int(words[_HAS_CACHED]) & 0xFF
