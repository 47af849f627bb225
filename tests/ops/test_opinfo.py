"""PyTorch's own sample inputs: values, gradients, tangents, what is saved, errors. ``python -m tests.opinfo --full``
runs all of them, compiled too; here are some of different kinds of each operation, as many as minutes allow."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")
pytest.importorskip("expecttest", reason="PyTorch's table imports it")

from opinfo.checks import CHECKS, Failure, applies, failures, operations, title  # noqa: E402
from opinfo.differences import LEFT_OUT, ROWS, known  # noqa: E402
from opinfo.errors import refusals  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

_OPS = {name: op for name, op in operations().items() if op.name not in LEFT_OUT}
_SAMPLES = 3
_CHECKS = (("values", "float32"), ("first", "float64"), ("values", "complex64"), ("first", "complex128"))
_IN_TURN = (
    ("second", "float64"), ("forward", "float64"), ("saved", "float64"), ("out", "float32"), ("values", "int64"),
    ("method", "float32"), ("inplace", "float32"), ("values", "bool"),
    ("second", "complex128"), ("forward", "complex128"), ("compiled", "complex128"), ("saved", "complex128"),
)  # fmt: skip
"""Each operation takes two of these, in turn."""
_COMPILED = (("compiled", "float64"), ("compiled values", "int64"))
_SPARSE = 16
"""Of so many operations, one is compiled: each is a kernel or more."""


def _unknown(found: list[Failure | None]) -> list[Failure]:
    return [one for one in found if one and not known(one)]


@pytest.mark.parametrize(("at", "name"), list(enumerate(_OPS)))
def test_operations_do_what_pytorchs_do(at: int, name: str) -> None:
    op = _OPS[name]
    for check, dtype in (*_CHECKS, *(_IN_TURN[(2 * at + i) % len(_IN_TURN)] for i in (0, 1))):
        limit = 1 if dtype.startswith("complex") else _SAMPLES
        assert not _unknown(list(failures(op, check, dtype, limit)))


@pytest.mark.parametrize("name", list(_OPS)[::_SPARSE])
def test_compiled_operations_do_what_pytorchs_do(name: str) -> None:
    check, dtype = next(((c, d) for c, d in _COMPILED if applies(_OPS[name], c, d)), (None, None))
    if check is not None:
        assert not _unknown(list(failures(_OPS[name], check, dtype, 1)))


_REFUSING = [name for name, op in _OPS.items() if op.error_inputs_func is not None and op.name != "multinomial"]


@pytest.mark.parametrize("name", _REFUSING)
def test_what_pytorch_refuses_is_refused(name: str) -> None:
    found = [Failure(name, "errors", "", index, text) if text else None for index, text in refusals(_OPS[name])]
    assert not _unknown(found)


def test_what_is_left_out_says_why() -> None:
    names = {op.name for op in operations().values()}
    assert not set(LEFT_OUT) - names
    assert all(LEFT_OUT.values())


def test_rows_of_differences_name_operations_and_checks() -> None:
    names = {part for op in operations().values() for part in (op.name, title(op))} | {"*"}
    for row in ROWS:
        assert set(row.ops.split()) <= names, row
        assert set(row.checks.split()) <= {*CHECKS, "errors"}, row
