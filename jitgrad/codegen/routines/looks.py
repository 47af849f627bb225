"""Loops that may not end look at the program's status word.

Owns: ``with_looks``, the text that such a loop begins with.
Must not know: Numba's Python side, when the word is set (Note [Interrupting a native step]).
In: LLVM IR of a function of whole arrays, before optimization. Out: the same with looks.

The first argument of the function, ``%retptr``, points to two words in its caller (Note [Array kernels]): room for the
result, and the address of the program's ``bufs``, whose first word is the status. It stands in no other argument,
because these are Numba's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from jitgrad.codegen.llvm.binding import binding

__all__ = ["parsed", "with_looks"]

_LOOK = """  %look.{label}.at = getelementptr ptr, ptr %retptr, i64 1
  %look.{label}.bufs = load ptr, ptr %look.{label}.at, align 8
  %look.{label}.word = load atomic i64, ptr %look.{label}.bufs monotonic, align 8
  %look.{label}.go = icmp eq i64 %look.{label}.word, 0
  br i1 %look.{label}.go, label %{label}.looked, label %{label}.stop

{label}.stop:
  ret i32 1

{label}.looked:"""


def with_looks(text: str, symbol: str, labels: Iterable[str]) -> str | None:
    """The module with a look at the beginning of these blocks of a function; None if it has none of them."""
    start = re.search(rf'^define [^@\n]*@"?{re.escape(symbol)}"?\(.*%retptr', text, re.M)
    if start is None:
        return None
    end = text.index("\n}", start.end())
    body = text[start.start() : end]
    found = False
    for label in labels:
        block = re.search(rf"^{label}:[^\n]*\n(?: *%\S+ = phi [^\n]*\n)*", body, re.M)
        if block is not None:
            found = True
            body = body[: block.end()] + _LOOK.format(label=label) + "\n" + body[block.end() :]
            lines = [
                re.sub(rf"%{label} \]", f"%{label}.looked ]", x) if " = phi " in x else x for x in body.split("\n")
            ]
            body = "\n".join(lines)
    return text[: start.start()] + body + text[end:] if found else None


def parsed(text: str) -> Any:
    """The module of a text.

    Raises:
        RuntimeError: it is none.
    """
    module = binding().parse_assembly(text)
    module.verify()
    return module
