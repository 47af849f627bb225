"""Methods of PyTorch's classes, and arguments of its Python functions: names, order, kinds and defaults to the letter.

``test_torch_names.py`` compares what has a schema; here both sides say themselves what they take.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from types import ModuleType
from typing import Any

import pytest
from torch_signatures import OTHER_METHODS, OTHER_PARAMETERS

import jitgrad
from jitgrad.scripts.left_out import group_of
from tools import left_out

torch = pytest.importorskip("torch", reason="compares with torch")
pytestmark = pytest.mark.filterwarnings("ignore")

MORE = (
    "distributions.constraints", "distributions.transforms", "serialization", "utils._pytree",
)  # fmt: skip
"""Looked at besides ``left_out.NAMESPACES``."""
_TENSORS = ("Tensor", "Parameter", "Buffer", "UninitializedParameter", "UninitializedBuffer", "TypedStorage",
            "UntypedStorage", "dtype", "Generator", "Size", "DType")  # fmt: skip


def _callables() -> Iterator[tuple[str, Any, Any]]:
    """(name, PyTorch's, ours) of functions, classes, and methods of classes; ours is None where there is none."""
    for namespace in (*left_out.NAMESPACES, *MORE):
        place, own = left_out.find(torch, namespace), left_out.find(jitgrad, namespace)
        for last in left_out.public_names(torch, namespace):
            theirs, ours = getattr(place, last, None), getattr(own, last, None)
            if callable(theirs) and callable(ours) and _is_of_pytorch(theirs):
                name = f"{namespace}.{last}".removeprefix(".")
                yield name, theirs, ours
                if inspect.isclass(theirs) and inspect.isclass(ours) and last not in _TENSORS:
                    yield from _methods(name, theirs, ours)


def _is_of_pytorch(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).partition(".")[0] == "torch"


def _methods(name: str, theirs: type, ours: type) -> Iterator[tuple[str, Any, Any]]:
    for last in dir(theirs):
        method = getattr(theirs, last, None)
        if last[0] != "_" and callable(method) and not isinstance(method, ModuleType) and _is_of_pytorch(method):
            yield f"{name}.{last}", method, getattr(ours, last, None)


def _parameters(function: Any) -> list[inspect.Parameter] | None:
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [p for p in found if p.name[0] != "_"]


def _difference(theirs: Any, ours: Any) -> str:
    wanted, have = _parameters(theirs), _parameters(ours)
    if wanted is None or have is None or _takes_anything(wanted) or _takes_anything(have):
        return ""
    if [(p.name, p.kind) for p in wanted] != [(p.name, p.kind) for p in have]:
        return f"{_shown(have)} and not {_shown(wanted)}"
    for a, b in zip(wanted, have, strict=True):
        if _text(a.default) != _text(b.default):
            return f"{b} and not {a}"
    return ""


def _takes_anything(parameters: list[inspect.Parameter]) -> bool:
    return any(p.kind is p.VAR_POSITIONAL for p in parameters) or any(p.kind is p.VAR_KEYWORD for p in parameters)


def _shown(parameters: list[inspect.Parameter]) -> str:
    return "(" + ", ".join(f"{p.name}{'*' if p.kind is p.KEYWORD_ONLY else ''}" for p in parameters) + ")"


def _text(default: Any) -> str:
    """A default as both print it: 1 and 1.0, and sizes and tuples, are the same."""
    if isinstance(default, int | float) and not isinstance(default, bool):
        return repr(float(default))
    if isinstance(default, tuple):
        return repr(tuple(default))
    if callable(default) or not isinstance(default, str | list | dict | bool | type(None)):
        return type(default).__name__ if not callable(default) else "function"
    return re.sub(r"torch\.|jitgrad\.", "", repr(default))


def _reason(table: dict[str, str], name: str) -> bool:
    """Whether the name, or its last parts, stand in the table."""
    rows = [row for rows in table.values() for row in rows.split()]
    return any(fnmatchcase(name, row) or fnmatchcase(name, f"*.{row}") for row in rows)


def test_classes_have_pytorchs_methods() -> None:
    missing = [name for name, _, ours in _callables() if ours is None]
    unknown = [n for n in missing if not _reason(OTHER_METHODS, n) and group_of(n) is None]
    assert unknown == []
    for row in (row for rows in OTHER_METHODS.values() for row in rows.split()):
        assert any(fnmatchcase(name, f"*{row}") for name in missing), f"take {row} out of tests/torch_signatures.py"


def test_functions_of_python_take_pytorchs_arguments() -> None:
    found = {name: _difference(theirs, ours) for name, theirs, ours in _callables() if ours is not None}
    assert len(found) > 2000
    differ = {name: what for name, what in found.items() if what}
    assert {name: what for name, what in differ.items() if not _reason(OTHER_PARAMETERS, name)} == {}
    for row in (row for rows in OTHER_PARAMETERS.values() for row in rows.split()):
        assert any(fnmatchcase(name, f"*{row}") for name in differ), f"take {row} out of tests/torch_signatures.py"
