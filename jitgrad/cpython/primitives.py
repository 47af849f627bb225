"""Primitives of native Python: what the subset cannot say in Python itself.

Owns: the functions as Python runs them. ``runtime_text.py`` has each as LLVM text, under the same name.
Must not know: what they are used for.

# Note [Native Python]
# ~~~~~~~~~~~~~~~~~~~~
# A hit of the recorder (``tracer/hits/hits.py``) is written once, in a small part of Python: slotted objects, lists,
# tuples, dictionaries, ints, ``if``, ``for``, ``while``. Python runs it as it is: before the first compile, on
# interpreters whose objects native code does not know, and with ``JITGRAD_NATIVE_HITS=0``. ``translate.py`` makes LLVM
# text of the same functions: a slot is a load at a known offset, a call of another such function a plain call,
# everything else a call of the C API. So there is one source for each rule, and both forms run the whole test suite.
# Example:
#
#     @native
#     def is_leaf(x: TensorBase) -> bool:
#         return x._graph is None and x._grad_fn is None
#
# becomes two loads and two comparisons. Why not two hand-kept forms: they were 800 lines twice, and each rule had to
# be found in both. Why not C: users have no compiler; LLVM is there anyway.
#
# The rules of the subset. A parameter, local or slot annotated with a class is read as that class, unchecked: test for
# None first. ``int`` and ``bool`` locals are machine words. An attribute that is no slot, and a call of anything
# unknown, go through the C API and may run Python. Locals own a reference; so does every intermediate result, until its
# statement ends. An exception leaves the function at once; there is no ``try``.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from jitgrad.cpython.liveness import ONE_PASSED, references
from jitgrad.layouts import Size

__all__ = [
    "DRAW_FUNCTION",
    "EAGER",
    "FRONTED",
    "INLINED",
    "NATIVE",
    "ONCE_PER_CALL",
    "OPTIMIZED",
    "PURE",
    "REMEMBERED",
    "Raised",
    "activate",
    "active",
    "advance",
    "array_over",
    "attempt",
    "attempt_pair",
    "attempt_row",
    "blank",
    "call_as_given",
    "call_inside",
    "call_rest",
    "counter",
    "draw_to",
    "eager_apart",
    "eager_native",
    "fresh_array",
    "has_front",
    "inlined",
    "install_driver",
    "install_handles",
    "is_atomic",
    "is_hashable",
    "is_word",
    "joined",
    "late_fronts",
    "make_as_usual",
    "native",
    "new_handle",
    "number_at",
    "once_per_call",
    "optimized",
    "packed",
    "packed_rest",
    "poke",
    "poke_float",
    "refcount",
    "renew_versions",
    "retire_all",
    "run_driver",
    "run_driver_released",
    "same",
    "take_last",
    "take_out",
    "this_frame",
    "thread_dict",
    "untrack",
    "was_set",
    "within",
    "word_at",
]

F = TypeVar("F", bound=Callable[..., Any])

NATIVE: list[Callable[..., Any]] = []
"""Every native function, in the order of definition."""


OPTIMIZED: set[Callable[..., Any]] = set()
"""The native functions that run once per operation. LLVM takes its time for these; all others, three quarters of the
text, it compiles fast: the module is compiled while the first call of the process waits."""


def native(function: F) -> F:
    """Mark a function as written in the subset, see Note [Native Python]; Python runs it as it is."""
    NATIVE.append(function)
    return function


def optimized(function: F) -> F:
    """``native``, of a function that runs once per operation: see ``OPTIMIZED``."""
    OPTIMIZED.add(function)
    return native(function)


INLINED: set[Callable[..., Any]] = set()
"""Those that are copied into every function that calls them."""


def inlined(function: F) -> F:
    """``optimized``, of a function of a few lines: a call would cost as much as what it does."""
    INLINED.add(function)
    return optimized(function)


ONCE_PER_CALL: set[Callable[..., Any]] = set()
"""Those that are optimized, but not into others: the native functions that run once per call, or are long."""


EAGER: list[Callable[..., Any]] = []
"""The functions of eager mode that are written in the subset: a module of their own, without those of ``NATIVE``."""


def eager_native(function: F) -> F:
    """``optimized``, of a function of eager mode: see ``EAGER``."""
    OPTIMIZED.add(function)
    EAGER.append(function)
    return function


def eager_apart(function: F) -> F:
    """``eager_native``, of a long function, or one that many call: it is not copied into those that call it."""
    ONCE_PER_CALL.add(function)
    EAGER.append(function)
    return function


REMEMBERED, PURE = "remembered", "pure"

FRONTED: list[tuple[str, Callable[..., Any], Any]] = []
"""(name of a front, a function of Python that it is for, the row)."""
late_fronts: list[Callable[[str, Callable[..., Any], Any], object]] = []
"""Puts a front before a function whose module is imported once the fronts are in place; empty before that."""


def has_front(name: str, row: Any = None) -> Callable[[F], F]:
    """Mark a Python function: from the first compile on, its callers call a native front first, Note [Native fronts].

    Args:
        name: of a front of ``method_fronts.METHOD_FRONTS``; or ``PURE``: its calls are operations, which are repeated
            whole, Note [Remembered calls]; or ``REMEMBERED``: there is a backward among them.
        row: what it must know of the function.
    """

    def note(function: F) -> F:
        FRONTED.append((name, function, row))
        for put in late_fronts:
            put(name, function, row)
        return function

    return note


def once_per_call(function: F) -> F:
    """``native``, of a function that runs once per call or input: see ``ONCE_PER_CALL``."""
    ONCE_PER_CALL.add(function)
    return native(function)


def refcount(obj: Any) -> int:
    """How many references an object has, but for the caller's local variable: the argument must be one.

    Very many where nobody knows, see Note [Reference counts].
    """
    return references(obj) - ONE_PASSED


def is_atomic() -> bool:
    """Whether no other thread runs between two statements of this function: native code keeps the GIL."""
    return False


def take_last(items: list[Any]) -> Any:
    """The last item, removed from its list; None if there is none. Threads may take from one list at a time."""
    try:
        return items.pop()
    except IndexError:
        return None


def take_out(table: dict[Any, Any], key: Any) -> None:
    """Remove a key from a dictionary, if it is there."""
    table.pop(key, None)


def thread_dict(local: threading.local) -> dict[str, Any]:
    """The dictionary that an object of ``threading.local`` has on this thread; it is never another one."""
    return local.__dict__


_ROWS = (tuple, Size)


def same(a: Any, b: Any) -> bool:
    """Whether two keys mean the same constant: equal, of one type, floats bit for bit, tuples item by item.

    A ``Size`` is as good as a plain tuple.
    """
    if a is b:
        return True
    if type(a) in _ROWS and type(b) in _ROWS:
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if type(a) is not type(b):
        return False
    if type(a) is float:
        return struct.pack("d", a) == struct.pack("d", b)
    return bool(a == b) if type(a) in (int, str) else False


def was_set(x: Any, name: str) -> bool:
    """Whether a slot has a value of its own; to look at the slot might give it one."""
    try:
        object.__getattribute__(x, name)
    except AttributeError:
        return False
    return True


def poke(address: int, index: int, value: int) -> None:
    """Store a 64-bit word at ``address + 8 * index``."""
    ctypes.c_int64.from_address(address + 8 * index).value = value


def poke_float(address: int, index: int, value: float) -> None:
    """Store a double at ``address + 8 * index``."""
    ctypes.c_double.from_address(address + 8 * index).value = value


def advance(series: Any, count: int) -> int:
    """The next number of an ``itertools.count``, which goes on ``count`` numbers later; -1: that takes several steps.

    So it does in Python: another thread might come between them.
    """
    return -1


def word_at(address: int) -> int:
    """The 64-bit word at an address."""
    return ctypes.c_int64.from_address(address).value


_NUMBERS = (ctypes.c_float, ctypes.c_double, ctypes.c_int64, ctypes.c_bool)


def number_at(address: int, kind: int) -> Any:
    """The number at an address, as an object. kind: 0 float32, 1 float64, 2 int64, 3 bool."""
    return _NUMBERS[kind].from_address(address).value


def array_over(kind: Any, shape: tuple[int, ...], stride: tuple[int, ...], size: int, address: int, owner: Any) -> Any:
    """A writable NumPy array over memory that ``owner`` keeps; None: to be made in another way, as Python has to.

    Args:
        kind: NumPy's dtype.
        stride: in elements of ``size`` bytes.
        owner: becomes the array's ``base``; of an array, that which owns the memory.
    """
    return None


def fresh_array(kind: Any, shape: tuple[int, ...]) -> Any:
    """``numpy.empty(shape, kind)``; None: to be made in another way, as Python has to."""
    return None


_handles: list[Any] = []


def install_handles(cls: type) -> None:
    """The class that ``new_handle`` makes; ``tensor.py`` installs it."""
    _handles[:] = [cls, cls.__new__]


def new_handle() -> Any:
    """A tensor none of whose slots is set."""
    return _handles[1](_handles[0])


def blank(cls: Any) -> Any:
    """An object of a slotted class, none of whose slots is set."""
    return cls.__new__(cls)


def retire_all(handles: list[Any]) -> None:
    """The list is about to be cleared: handles that nothing else holds may be used again. Python just lets them go."""


def active() -> Any:
    """The recorder whose hits native code may do on this thread, or None; only native code asks."""
    return None


def call_inside(context: Any, function: Any, args: tuple[Any, ...]) -> Any:
    """``context.run(function, *args)``; None if the context cannot be entered, because it is entered already."""
    try:
        return context.run(function, *args)
    except RuntimeError as error:
        if "cannot enter context" not in str(error):
            raise
    return None


def this_frame() -> Any:
    """The frame that has called the caller; where native code runs, the innermost one of Python.

    Not the caller's own: a variable of it that refers to it would keep alive what the frames before it hold.
    """
    return sys._getframe(2)


def untrack(obj: Any) -> None:
    """Nothing that an object refers to, now or later, leads back to it: the collector of cycles may pass it over."""


def is_hashable(x: Any) -> bool:
    """Whether an object can be a key."""
    try:
        hash(x)
    except TypeError:
        return False
    return True


def is_word(x: int) -> bool:
    """Whether an integer is a machine word."""
    return -(1 << 63) <= x < 1 << 63


def joined(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """``(*a, *b)``."""
    return a + b


def counter() -> list[Any]:
    """``[0]``."""
    return [0]


def activate(recorder: Any) -> None:
    """Let native code do hits for this recorder (None: for nobody's) on this thread; Python's hits ask nobody."""


class Raised:
    """What stands for the result of a call that raised."""

    __slots__ = ("error",)

    error: BaseException

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def raise_again(self) -> Any:
        """Raise what the call raised, for native code, which cannot."""
        try:
            raise self.error
        finally:
            del self  # the traceback has this frame


def packed(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments, for Python: in native code they are a C array."""
    return args


def packed_rest(args: tuple[Any, ...], first: int) -> tuple[Any, ...]:
    """``packed`` of the arguments from one on."""
    return args[first:]


def call_as_given(function: Any, args: tuple[Any, ...], names: tuple[str, ...] | None) -> Any:
    """What ``function`` returns of ``args``, the last ones given by name."""
    return call_rest(function, (None, *args), names)


def call_rest(function: Any, args: tuple[Any, ...], names: tuple[str, ...] | None) -> Any:
    """What ``function`` returns of all but the first of ``args``, the last ones given by name."""
    given = dict(zip(names or (), args[len(args) - len(names or ()) :], strict=True))
    return function(*args[1 : len(args) - len(given)], **given)


renew_versions: dict[type, Callable[[], None]] = {}
"""For each class whose calls have a front: what looks again whether the front may make its objects."""


def make_as_usual(cls: Any, args: tuple[Any, ...], names: tuple[str, ...] | None) -> Any:
    """An object of a class whose calls have a front, where that makes none."""
    renew = renew_versions.get(cls)
    if renew is not None:
        renew()
    given = dict(zip(names or (), args[len(args) - len(names or ()) :], strict=True))
    return type.__call__(cls, *args[: len(args) - len(given)], **given)


def attempt(function: Any, args: tuple[Any, ...], names: tuple[str, ...] | None) -> Any:
    """``call_rest``, or ``Raised``."""
    try:
        return call_rest(function, args, names)
    except BaseException as error:
        return Raised(error)


def attempt_row(function: Any, args: tuple[Any, ...], names: tuple[str, ...] | None) -> Any:
    """``attempt`` where the arguments are a tuple."""
    return attempt(function, args, names)


def attempt_pair(function: Any, a: Any, b: Any) -> Any:
    """``function(a, b)``, or ``Raised``."""
    try:
        return function(a, b)
    except BaseException as error:
        return Raised(error)


_driver: list[Callable[[int], int]] = []


def install_driver(driver: Callable[[int], int]) -> None:
    """What runs a program's record; ``runtime/native/executor.py`` installs it."""
    _driver[:] = [driver]


def run_driver(record: int) -> int:
    """Run the program record at an address; its status word."""
    return _driver[0](record)


DRAW_FUNCTION = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_double, ctypes.c_double
)
"""The type of the random kernel, Note [Random kernel]."""


def draw_to(kernel: int, stream: int, array: Any, count: int, params: int) -> None:
    """Draw numbers into an array, Note [Random kernel]; ``params``: the address of the kind, a and b."""
    kind, numbers = ctypes.c_int64.from_address(params).value, (ctypes.c_double * 3).from_address(params)
    DRAW_FUNCTION(kernel)(stream, array.ctypes.data, count, kind, numbers[1], numbers[2])


def within(address: int, count: int, low: int, high: int, allowed: int) -> bool:
    """Whether ``count`` 64-bit integers at an address all lie in ``range(low, high)``, or are ``allowed``."""
    values = (ctypes.c_int64 * count).from_address(address)
    return all(low <= value < high or value == allowed for value in values)


def run_driver_released(record: int) -> int:
    """``run_driver``; other threads may run Python meanwhile."""
    return run_driver(record)
