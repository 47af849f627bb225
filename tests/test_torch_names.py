"""The public names of PyTorch, and their arguments: what is not as there stands in a table, with a reason."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest
from torch_signatures import OTHER_ARGUMENTS

import jitgrad
from jitgrad.functions._parse import read_signatures
from jitgrad.functions.signatures import SIGNATURES
from jitgrad.scripts.left_out import GROUPS, LATER, group_of
from tools import left_out


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def test_every_name_that_is_missing_is_in_the_table(torch: Any) -> None:
    missing = left_out.missing_names(torch)
    assert [name for name in missing if group_of(name) is None and name not in LATER] == []


def test_the_table_names_nothing_that_is_there() -> None:
    exact = [name for group in GROUPS for name in group.names if "*" not in name]
    assert [name for name in exact if left_out.exists(name)] == [], "take it out of jitgrad/scripts/left_out.py"
    there = [name for name in LATER if left_out.exists(name)]
    assert there == [], "run `python -m tools.left_out --prune`"


def test_every_row_of_the_table_leaves_something_out(torch: Any) -> None:
    """A pattern, where names are compared one by one, fits some that are missing; other names are PyTorch's."""
    missing = left_out.missing_names(torch)
    for name in [name for group in GROUPS for name in group.names] + list(LATER):
        if "*" not in name:
            assert _is_in(torch, name), name
        elif name.rpartition(".")[0] in left_out.NAMESPACES:
            assert any(fnmatchcase(m, name) and m.count(".") == name.count(".") for m in missing), name


def _is_in(torch: Any, name: str) -> bool:
    try:
        left_out.find(torch, name)
    except (AttributeError, ImportError):
        return name in ("nn.intrinsic", "nn.qat", "nn.quantizable", "nn.quantized", "onnx")  # need other packages
    return True


def test_a_name_is_left_out_for_one_reason() -> None:
    names = [name for group in GROUPS for name in group.names] + list(LATER)
    assert len(names) == len(set(names))
    assert [name for name in LATER if group_of(name)] == []


def test_the_page_is_fresh() -> None:
    assert left_out.PAGE.read_text() == left_out.page(), "run `python -m tools.left_out`"


# --- arguments ---


Parameters = list[tuple[str, Any]]
"""Name and default of each argument."""


def _of_pytorch(torch: Any, function: Any, name: str) -> list[Parameters]:
    """The forms of a function of PyTorch: what Python says, or the schemas of what is written in C++."""
    try:
        return [_of_signature(inspect.signature(function))]
    except (TypeError, ValueError):
        schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name.rpartition('.')[2]}")
    return [_of_schema(schema) for schema in schemas if _is_ordinary(schema)]


def _is_ordinary(schema: Any) -> bool:
    """Of tensors, and not a form with results to write to, of TorchScript's numbers, or with names of dimensions."""
    arguments = schema.arguments
    if not arguments or str(arguments[0].type) not in ("Tensor", "List[Tensor]", "List[int]"):
        return False
    writes = [a.alias_info is not None and a.alias_info.is_write for a in arguments]
    return not any(writes[1:]) and not any("Dimname" in str(a.type) or a.name == "out_dtype" for a in arguments)


def _of_signature(signature: inspect.Signature) -> Parameters:
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [(p.name.removesuffix("_"), p.default) for p in signature.parameters.values() if p.kind not in kinds]


def _of_schema(schema: Any) -> Parameters:
    empty = inspect.Parameter.empty
    return [(a.name, a.default_value if a.has_default_value() else empty) for a in schema.arguments]


def _ours(function: Any, name: str) -> Parameters | None:
    """Python's signature, then the forms that its parser takes; None for what hands all that it gets to another."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # an exception
        return []
    found, last = _of_signature(signature), name.rpartition(".")[2]
    for row in {last, last.rstrip("_")} & SIGNATURES.keys():
        found += [(p.name, ...) for form in read_signatures(SIGNATURES[row]) for p in form.parameters]
    takes_anything = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    return None if takes_anything and len(found) < 2 else found


_IGNORED = frozenset("self input out layout pin_memory memory_format dtype device requires_grad generator".split())
"""The first argument has no name in common; the others are accepted, and left out of schemas here and there."""


def _functions(torch: Any) -> Iterator[tuple[str, Any, Any]]:
    """What both have and can be called: name, PyTorch's, ours."""
    for namespace in left_out.NAMESPACES:
        for last in left_out.public_names(torch, namespace):
            name = f"{namespace}.{last}".removeprefix(".")
            if left_out.exists(name):
                theirs, ours = left_out.find(torch, name), left_out.find(jitgrad, name)
                if callable(theirs) and callable(ours):
                    yield name, theirs, ours


def _difference(forms: list[Parameters], got: Parameters | None) -> str:
    """How the arguments differ; empty if they do not, or if it is not known."""
    if got is None:
        return ""
    have = dict(reversed(got))
    wanted = [[(n, default) for n, default in form if n not in _IGNORED and not n.startswith("_")] for form in forms]
    lacking = sorted({name for form in wanted for name, _ in form if name not in have})
    if lacking:
        return f"lacks {' '.join(lacking)}"
    for form in wanted[:1]:
        names = [name for name, _ in form]
        order = list(dict.fromkeys(name for name, _ in got if name in names))
        if order != names:
            return f"order {' '.join(order)}"
        for name, default in form:
            if not _is_same(default, have[name]):
                return f"{name}={have[name]!r} and not {default!r}"
    return ""


def _is_same(a: Any, b: Any) -> bool:
    if b is ... or not isinstance(a, bool | int | float | str | tuple | list | type(None)):
        return True
    if isinstance(a, list):  # [1, 1] is 1, [] is None
        return not a or b in (a, tuple(a), a[0])
    return bool(a == b) or (isinstance(b, str) and isinstance(a, int))  # names of reductions are numbers in C++


def test_arguments_have_pytorchs_names_order_and_defaults(torch: Any) -> None:
    known = {name for names in OTHER_ARGUMENTS.values() for name in names.split()}
    functions = list(_functions(torch))
    assert len(functions) > 1000
    found = {}
    for name, theirs, ours in functions:
        difference = _difference(_of_pytorch(torch, theirs, name), _ours(ours, name))
        if difference:
            found[name] = difference
    assert {name: what for name, what in found.items() if name not in known} == {}
    assert known - found.keys() == set(), "take it out of tests/torch_signatures.py"
