"""The text of the functions that run once per operation: what must not be in it."""

from __future__ import annotations

from typing import Any

import pytest

from jitgrad.cpython import expressions
from jitgrad.cpython.module_text import ModuleText, Unsupported
from jitgrad.cpython.primitives import NATIVE, OPTIMIZED, native, refcount
from jitgrad.cpython.translate import FunctionText
from jitgrad.tracer.hits import hits, search_hits
from jitgrad.tracer.hits.hits import Args  # noqa: F401  (the functions' annotations)
from jitgrad.tracer.recording.trie import TrieNode

PER_OPERATION = [hits.takes, hits.is_operand, hits.is_binary, hits.find_binary, hits.hit_binary, hits.handle_of,
                 hits.note_number, hits.fits, hits.find, hits.hit_apply, hits.operate, hits.through_door]  # fmt: skip


@pytest.mark.parametrize("function", PER_OPERATION, ids=lambda f: f.__name__)
def test_an_operation_that_repeats_looks_up_no_name(function) -> None:  # type: ignore[no-untyped-def]
    """A slot of a known class is one load; the C API's look-up by name costs as much as all the rest of a hit."""
    module = ModuleText(NATIVE)
    text = FunctionText(module, function).translate(expressions)
    assert ("api", "PyObject_GetAttr") not in module.objects, text
    assert function in OPTIMIZED


@pytest.mark.parametrize("function", [search_hits.likeliest, search_hits.following, hits.is_binary, hits.fits])
def test_what_lasts_is_not_counted(function) -> None:  # type: ignore[no-untyped-def]
    """Trie nodes outlive the functions that look at them, and so do their ids, Note [Lasting references]."""
    module = ModuleText(NATIVE)
    text = FunctionText(module, function).translate(expressions)
    counted = [line for line in text.splitlines() if "@incref" in line]
    assert not counted, text


@native
def _takes_another(node: TrieNode, others: list) -> Any:  # type: ignore[type-arg]
    """A local that must hold what lasts, and something else."""
    child: TrieNode = node.last
    child = others[0]
    return child


NATIVE.remove(_takes_another)  # only this file translates it


def test_a_local_that_owns_nothing_holds_nothing_else() -> None:
    with pytest.raises(Unsupported, match="child holds what outlives the function"):
        FunctionText(ModuleText([_takes_another]), _takes_another).translate(expressions)


@native
def _counts(x: Any) -> int:
    """An argument has no reference of this function's own."""
    return refcount(x)


NATIVE.remove(_counts)


def test_only_what_a_local_owns_is_counted() -> None:
    with pytest.raises(Unsupported, match="a local that owns no reference"):
        FunctionText(ModuleText([_counts]), _counts).translate(expressions)


@native
def _first_of(items: list) -> Any:  # type: ignore[type-arg]
    """The list may let go of its item while a local holds it."""
    found = items[0]
    items.clear()
    return found


NATIVE.remove(_first_of)


def test_an_item_of_a_list_is_owned() -> None:
    text = FunctionText(ModuleText([_first_of]), _first_of).translate(expressions)
    lines = text.splitlines()
    owned = next(nr for nr, line in enumerate(lines) if "@incref" in line)
    assert owned < next(nr for nr, line in enumerate(lines) if "@drain" in line)
