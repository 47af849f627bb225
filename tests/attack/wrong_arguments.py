"""Calls that work, with one argument replaced by something that nobody would give.

Owns: ``calls``, ``WRONG``: what is called, and with what instead.
Must not know: how a call is run, what may come of it.

``good_calls.txt`` is made of PyTorch's tables (``sample_calls.py``), ``own_calls.txt`` is written by hand: what those
lack, with every option of a geometry, a window, a constructor. In both, ``jg`` means either library.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

__all__ = ["WRONG", "calls", "function_of", "good_calls"]

_FILES = ("good_calls.txt", "own_calls.txt")

WRONG = (
    # of another kind
    "None", "'x'", "1.5", "1j", "True", "object()", "{}", "jg.float32", "jg.complex64", "b'xy'", "slice(0, 1)",
    # numbers that are none, or too large: counts, degrees, extents
    "0", "-1", "7", "2**31 - 1", "2**62", "-(2**63)", "2**63", "10**30", "1e18", "1e308", "float('nan')",
    "float('inf')",
    # lists of another length, and of other things
    "()", "[]", "(1,)", "(0, 0)", "(-1, -1)", "(1, 1, 1, 1)", "(2**40, 2**40)", "(None,)", "(1.5,)", "('x',)",
    "[[1], [1, 2]]", "[jg.ones(2)]", "[None, jg.ones(2)]",
    # tensors for numbers; other ranks, extents, dtypes
    "jg.tensor(1.5)", "jg.tensor(2)", "jg.tensor(1e18)", "jg.ones(2)", "jg.zeros(0)", "jg.zeros(0, 3)",
    "jg.zeros(2, 0, 3)", "jg.zeros(3, 0)", "jg.ones(1, 2, 3, 4, 5, 6)", "jg.ones(3, dtype=jg.complex64)",
    "jg.ones(3).bool()", "jg.tensor([5, -7])", "jg.full((2, 3), float('nan'))", "jg.ones(2, requires_grad=True)",
)  # fmt: skip


@functools.cache
def good_calls() -> tuple[str, ...]:
    """All that both libraries take."""
    lines = [Path(__file__).with_name(name).read_text().splitlines() for name in _FILES]
    return tuple(dict.fromkeys(line for one in lines for line in one))


def function_of(call: str) -> str:
    """What a call calls: ``jg.nn.functional.conv2d``."""
    return ast.unparse(_parsed(call).func)


def _parsed(call: str) -> ast.Call:
    found = ast.parse(call, mode="eval").body
    assert isinstance(found, ast.Call)
    return found


def calls(call: str) -> list[str]:
    """A call with each of its arguments replaced in turn by each of ``WRONG``, and without it."""
    parsed = _parsed(call)
    name, args = ast.unparse(parsed.func), [ast.unparse(arg) for arg in parsed.args]
    kwargs = [(word.arg, ast.unparse(word.value)) for word in parsed.keywords]

    def text(args: list[str], kwargs: list[tuple[str | None, str]]) -> str:
        return f"{name}({', '.join([*args, *(f'{key}={value}' for key, value in kwargs)])})"

    found = [text(args[:-1], kwargs), text([*args, "None"], kwargs), text(args, [*kwargs, ("nothing_such", "1")])]
    is_method = name.startswith("jg.Tensor.")
    for at in range(is_method, len(args)):
        found += [text([*args[:at], wrong, *args[at + 1 :]], kwargs) for wrong in WRONG]
    if is_method:
        tensors = [wrong for wrong in WRONG if wrong.startswith("jg.") and "(" in wrong]
        found += [text([wrong, *args[1:]], kwargs) for wrong in tensors]
    for at, (key, _) in enumerate(kwargs):
        found += [text(args, [*kwargs[:at], (key, wrong), *kwargs[at + 1 :]]) for wrong in WRONG]
    return list(dict.fromkeys(found))
