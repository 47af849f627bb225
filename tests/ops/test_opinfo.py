"""PyTorch's own sample inputs: values, gradients, tangents, what is saved, errors. ``python -m tests.opinfo --full``
runs all of them, compiled too; here is a sample of each operation, as many checks as a minute allows.
``JITGRAD_LONG_TESTS=1`` takes some minutes: all checks, three samples of different kinds."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")
pytest.importorskip("expecttest", reason="PyTorch's table imports it")

from opinfo.checks import CHECKS, Failure, applies, failures, operations, title  # noqa: E402
from opinfo.differences import LEFT_OUT, ROWS, known  # noqa: E402
from opinfo.errors import refusals  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

_OPS = {name: op for name, op in operations().items() if op.name not in LEFT_OUT}
_IS_LONG = bool(os.environ.get("JITGRAD_LONG_TESTS"))
_SAMPLES = 3 if _IS_LONG else 1
_CHECKS = (("values", "float32"), ("first", "float64"))
_IN_TURN = (
    ("values", "complex64"), ("first", "complex128"), ("second", "float64"), ("forward", "float64"),
    ("saved", "float64"), ("out", "float32"), ("values", "int64"), ("method", "float32"), ("inplace", "float32"),
    ("values", "bool"), ("second", "complex128"), ("forward", "complex128"), ("compiled", "complex128"),
    ("saved", "complex128"), ("values", "uint8"), ("values", "bfloat16"),
)  # fmt: skip
"""Each operation takes the next one of these that it has, in turn; in the long form all."""
_COMPILED = (("compiled", "float64"), ("compiled values", "int64"))
_SPARSE = 8 if _IS_LONG else 32
"""Of so many operations, one is compiled: each is a kernel or more."""


def _unknown(found: list[Failure | None]) -> list[Failure]:
    return [one for one in found if one and not known(one)]


@pytest.mark.parametrize(("at", "name"), list(enumerate(_OPS)))
def test_operations_do_what_pytorchs_do(at: int, name: str) -> None:
    op = _OPS[name]
    turned = _IN_TURN[at % len(_IN_TURN) :] + _IN_TURN[: at % len(_IN_TURN)]
    extra = [pair for pair in turned if applies(op, *pair)]
    for check, dtype in (*_CHECKS, *(extra if _IS_LONG else extra[:1])):
        assert not _unknown(list(failures(op, check, dtype, _SAMPLES)))


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
