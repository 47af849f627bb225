"""The text of the functions that run once per operation: what must not be in it."""

from __future__ import annotations

import pytest

from jitgrad.cpython import expressions
from jitgrad.cpython.module_text import ModuleText
from jitgrad.cpython.primitives import NATIVE, OPTIMIZED
from jitgrad.cpython.translate import FunctionText
from jitgrad.tracer import hits
from jitgrad.tracer.hits import Args  # noqa: F401  (the functions' annotations)

PER_OPERATION = [hits.takes, hits.is_operand, hits.is_binary, hits.find_binary, hits.hit_binary, hits.handle_of,
                 hits.note_number, hits.fits, hits.find, hits.hit_apply, hits.operate, hits.through_door]  # fmt: skip


@pytest.mark.parametrize("function", PER_OPERATION, ids=lambda f: f.__name__)
def test_an_operation_that_repeats_looks_up_no_name(function) -> None:  # type: ignore[no-untyped-def]
    """A slot of a known class is one load; the C API's look-up by name costs as much as all the rest of a hit."""
    module = ModuleText(NATIVE)
    text = FunctionText(module, function).translate(expressions)
    assert ("api", "PyObject_GetAttr") not in module.objects, text
    assert function in OPTIMIZED
