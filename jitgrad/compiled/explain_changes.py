"""Where two calls of a compiled function part, in words.

Owns: ``what_changed``.
Must not know: what the calls computed.
In: the trie nodes where two calls ended. Out: the first event that differs, with its line and both forms.
"""

from __future__ import annotations

from typing import Any

from jitgrad.tracer.recording.graph import Const, Instr
from jitgrad.tracer.recording.history import EndEvent, InputEvent
from jitgrad.tracer.recording.trie import TrieNode

__all__ = ["what_changed"]


def what_changed(before: TrieNode | None, now: TrieNode | None) -> list[str]:
    """Sentences about the first event in which a call differs from the call before; nothing if there is none."""
    if before is None or now is None or before is now:
        return []
    old, new = _path(before), _path(now)
    for nr, (was, has) in enumerate(zip(old, new, strict=False)):
        if was is not has:
            return [_difference(was, has, new[nr:])]
    if len(new) > len(old):
        return [f"the call went on where the one before had ended, with {_shown(new[len(old)].event, new[len(old) :])}"]
    return [f"the call ended before {_shown(old[len(new)].event, old[len(new) :])} of the one before"]


def _path(node: TrieNode | None) -> list[TrieNode]:
    found = []
    while node is not None:
        found.append(node)
        node = node.parent
    return found[::-1]


def _difference(was: TrieNode, has: TrieNode, rest: list[TrieNode]) -> str:
    old, new = was.event, has.event
    a, b = _instr(old), _instr(new)
    if a is not None and b is not None and a.op is b.op:
        pairs = [
            f"{_value(y)} instead of {_value(x)}"
            for x, y in [*zip(a.inputs, b.inputs, strict=False), *zip(a.params, b.params, strict=False)]
            if type(x) is not type(y) or (x != y and not isinstance(x, int)) or (x != y and x in a.params)
        ]
        if pairs:
            return f"{_line(b.where)}{b.op.name}: {', '.join(pairs)}"
    if isinstance(old, InputEvent) and isinstance(new, InputEvent):
        return _inputs(old, new, rest)
    if isinstance(old, EndEvent) and isinstance(new, EndEvent):
        return f"other results were still held at the end of a segment ({new.reason}): the call before kept others"
    return f"{_shown(new, rest)} instead of {_shown(old, rest)}"


def _inputs(old: InputEvent, new: InputEvent, rest: list[TrieNode]) -> str:
    """Two tensors from outside: their sizes, if these are what differs."""
    where = next((i.where for i in map(_instr, [n.event for n in rest]) if i is not None and i.where), "")
    x, y = old.aval, new.aval
    if x.dtype is y.dtype and x.ndim == y.ndim and x.shape != y.shape:
        pairs = enumerate(zip(x.shape, y.shape, strict=True))
        sizes = [f"size {m} instead of {n} (dimension {d})" for d, (n, m) in pairs if n != m]
        return f"{_line(where)}a tensor from outside has {', '.join(sizes)}"
    if x is not y:
        return f"{_line(where)}a tensor from outside is {y!r} instead of {x!r}"
    kinds = f"{new.kind.name.lower()} instead of {old.kind.name.lower()}"
    return f"{_line(where)}a tensor from outside, {y!r}, has another part in the graph: {kinds}"


def _instr(event: Any) -> Instr | None:
    found = getattr(event, "instr", None)
    return found if isinstance(found, Instr) else None


def _value(x: Any) -> str:
    return repr(x.value) if isinstance(x, Const) else "a number that changes" if hasattr(x, "slot") else repr(x)


def _line(where: str) -> str:
    return f"{where}: " if where else ""


def _shown(event: Any, rest: list[TrieNode]) -> str:
    instr = _instr(event)
    if instr is not None:
        return f"{instr.op.name} at {instr.where}" if instr.where else instr.op.name
    if isinstance(event, InputEvent):
        return f"a tensor from outside, {event.aval!r}"
    if isinstance(event, EndEvent):
        return f"the end of a segment ({event.reason})"
    return type(event).__name__.strip("_").removesuffix("Event").lower() or "an event"
