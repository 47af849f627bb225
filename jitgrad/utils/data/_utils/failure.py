"""``Failure``: an exception of a worker, on its way to the loader's process.

Owns: what of it travels, and how it is raised again.
Must not know: workers, pipes.
"""

from __future__ import annotations

import traceback
from typing import NoReturn

__all__ = ["Failure"]


class _KeyErrorMessage(str):
    """A KeyError shows the ``repr`` of its argument, which would put a traceback on one line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Failure:
    """The class of an exception, and its traceback as text.

    Attributes:
        exc_type: the class.
        exc_name: its name.
        exc_msg: the traceback.
        where: "in DataLoader worker process 0".
    """

    def __init__(self, error: BaseException, where: str) -> None:
        self.exc_type: type[BaseException] = type(error)
        self.exc_name = self.exc_type.__name__
        self.exc_msg = "".join(traceback.format_exception(error))
        self.where = where

    def make_plain(self) -> None:
        """Let it be a RuntimeError: the class cannot be pickled."""
        self.exc_type = RuntimeError

    def reraise(self) -> NoReturn:
        """Raise an exception of the same class, whose message holds the worker's traceback.

        A class that cannot be made from a message becomes a RuntimeError.
        """
        text = f"Caught {self.exc_name} {self.where}.\nOriginal {self.exc_msg}"
        message = _KeyErrorMessage(text) if self.exc_type is KeyError else text
        try:
            if getattr(self.exc_type, "message", None):  # its constructor's argument, with classes that have it
                error = self.exc_type(message=message)  # type: ignore[call-arg]
            else:
                error = self.exc_type(message)
        except Exception:
            raise RuntimeError(message) from None
        raise error
