"""The user's line: the innermost frame outside jitgrad.

Owns: ``PACKAGE``, the folder whose frames are not the user's, ``user_line``, ``user_call``, ``is_called_from_outside``,
which errors are the user's, and warnings that name that line.
"""

from __future__ import annotations

import os
import sys
import warnings
from types import CodeType, FrameType, TracebackType

__all__ = [
    "INSIDE", "LINES", "PACKAGE", "WARNED", "OwnErrorsIgnored", "came_between", "is_called_from_outside",
    "is_warn_always_enabled", "let_through", "set_warn_always", "user_call", "user_line", "warn_of_cycle",
    "warn_of_missing_grad", "warn_of_number", "warn_once", "warn_user",
]  # fmt: skip

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


INSIDE: set[str] = set()
"""Files of jitgrad that were met on a stack: to find one here costs half of what comparing its path does."""


def _is_inside(path: str) -> bool:
    if path.startswith(PACKAGE):
        INSIDE.add(path)
        return True
    return False


def is_called_from_outside(end: CodeType) -> bool:
    """Whether a frame outside jitgrad is between the caller and the innermost call of ``end``.

    Where jitgrad calls no code of the user, that frame is a signal handler or a finalizer.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code is end:
            return False
        path = code.co_filename
        if path not in INSIDE and not _is_inside(path):
            return True
        frame = frame.f_back
    return False


_CALLED = sys.stdlib_module_names | {"jitgrad", "llvmlite", "numpy"}
"""Packages whose code runs where jitgrad calls no code of the user."""


def came_between(error: BaseException, place: TracebackType | None) -> bool:
    """Whether the user's code has raised an error in the middle of jitgrad's.

    Where jitgrad calls no code of the user, that is what a signal handler or a finalizer has raised: its own frame is
    the last one outside the packages that jitgrad calls, or it is of a class of the user's, which another thread may
    have had raised here. An OSError with a number is the system's, whoever stands in for the system.

    Args:
        place: the part of its traceback from which on jitgrad calls no code of the user.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return False
    was_inside = is_inside = False
    while place is not None:
        name = str(place.tb_frame.f_globals.get("__name__", "jitgrad")).partition(".")[0]
        if name == "jitgrad" or name not in _CALLED:
            is_inside = name == "jitgrad"
            was_inside = was_inside or is_inside
        place = place.tb_next
    is_of_user = type(error).__module__.partition(".")[0] not in _CALLED
    return was_inside and (is_of_user or not is_inside)


def let_through(error: BaseException) -> None:
    """Raise an error again if it ``came_between``, where jitgrad is about to do without what has raised."""
    if came_between(error, error.__traceback__):
        raise error


class OwnErrorsIgnored:
    """``contextlib.suppress`` of errors that are not the user's, see ``let_through``."""

    def __init__(self, *kinds: type[Exception]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        return isinstance(error, self._kinds) and not came_between(error, error.__traceback__)


LINES: dict[tuple[int, int], tuple[CodeType, str]] = {}
"""(id of a function's code, which is kept, instruction) -> where it is: to find its line takes the longer, the longer
the function, and to hash its code takes it all."""
_MAX_LINES = 4096


def user_line(skip: int = 0) -> str:
    """``file:line`` of the innermost frame outside jitgrad; empty if there is none.

    Args:
        skip: how many of the caller's callers, from the innermost on, are known to be jitgrad's.
    """
    frame = sys._getframe(skip + 1)
    while frame is not None:
        code = frame.f_code
        path = code.co_filename
        if path not in INSIDE and not _is_inside(path):
            place = (id(code), frame.f_lasti)
            found = LINES.get(place)
            if found is None:
                if len(LINES) >= _MAX_LINES:
                    LINES.clear()
                found = LINES[place] = code, f"{path}:{frame.f_lineno}"
            return found[1]
        frame = frame.f_back  # type: ignore[assignment]
    return ""


_WRAPPERS = frozenset({"call", "function", "wrapped", "wrapper"})
"""What functions of jitgrad are called that stand for the one they were made of: ``optimizer.step`` is one."""


def user_call() -> tuple[str, str]:
    """(the function of jitgrad that the user's innermost frame has called, ``file:line`` of that frame).

    The function of a wrapper is the one inside it; that of a class's ``__init__`` is the class.
    """
    frame: FrameType | None = sys._getframe(1)
    name = ""
    while frame is not None:
        code = frame.f_code
        if code.co_filename not in INSIDE and not _is_inside(code.co_filename):
            return name, f"{code.co_filename}:{frame.f_lineno}"
        if code.co_name == "__init__":
            name = type(frame.f_locals.get("self")).__name__
        elif code.co_name not in _WRAPPERS:
            name = code.co_name
        frame = frame.f_back
    return name, ""


WARNED: list[int] = [0]
"""How many warnings functions have given, shown or not."""


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of what the user's line does: Python shows that line, and shows the warning once for each such line."""
    WARNED[0] += 1
    frame: FrameType | None = sys._getframe(1)
    depth = 2
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
        depth += 1
    warnings.warn(message, category, stacklevel=depth)


_given: set[str] = set()
_always = False


def warn_once(message: str) -> None:
    """``warn_user``, but once in a process, as PyTorch gives some warnings; see ``set_warn_always``."""
    if _always or message not in _given:
        _given.add(message)
        warn_user(message)


def set_warn_always(b: bool, /) -> None:
    """Whether warnings that are given once in a process are given each time, for tests."""
    global _always
    _always = b


def is_warn_always_enabled() -> bool:
    """What ``set_warn_always`` set."""
    return _always


def warn_of_cycle() -> None:
    """``backward(create_graph=True)``: ``.grad`` refers to the graph, and the graph to the leaf."""
    warn_once(
        "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient "
        "which can cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this. If you "
        "have to use this function, make sure to reset the .grad fields of your parameters to None after use to break "
        "the cycle and avoid the leak."
    )


def warn_of_missing_grad() -> None:
    """``.grad`` of a tensor that is no leaf and retains none: PyTorch's advice."""
    warn_user(
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
        "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
        "Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure "
        "you access the leaf Tensor instead."
    )


def warn_of_number() -> None:
    """``float(x)`` of a tensor that requires grad: the number has no history."""
    warn_once(
        "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior. Consider using "
        "tensor.detach() first."
    )
