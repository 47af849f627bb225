"""What PyTorch refuses for a dtype, or for a number that a dtype does not hold, is refused; the rest has its dtype.

A few operations here; ``python -m tests.opinfo.kinds`` runs all. Losses, pools and sliding windows are in three modes.
"""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad
from tests.modes import Mode

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")
pytest.importorskip("expecttest", reason="PyTorch's table imports it")

from opinfo.checks import operations  # noqa: E402
from opinfo.differences import LEFT_OUT  # noqa: E402
from opinfo.kinds import ROWS, kind_failures, known_kind  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

_OPS = {name: op for name, op in operations().items() if op.name not in LEFT_OUT}


@pytest.mark.parametrize("name", list(_OPS)[5::60])
def test_dtypes_are_accepted_where_pytorch_accepts_them(name: str) -> None:
    found = [one for one in kind_failures(_OPS[name]) if one is not None and known_kind(name, one) is None]
    assert not found


def test_rows_name_operations() -> None:
    names = {part for row in ROWS for part in row.ops.split()}
    assert names <= operations().keys()


CALLS: dict[str, Any] = {
    "BCE with logits, integer target": lambda t, F: F.binary_cross_entropy_with_logits(t.ones(3), t.ones(3).long()),
    "BCE with logits, bool target": lambda t, F: F.binary_cross_entropy_with_logits(t.ones(3), t.ones(3).bool()),
    "BCE with logits, half target": lambda t, F: F.binary_cross_entropy_with_logits(t.ones(3), t.ones(3).half()),
    "BCE with logits, weight": lambda t, F: F.binary_cross_entropy_with_logits(
        t.ones(3), t.ones(3).long(), pos_weight=t.ones(3)
    ),
    "hinge of integers": lambda t, F: F.hinge_embedding_loss(t.tensor([-2, 3]), t.tensor([-1, 1]), 1.5),
    "multi margin of integers": lambda t, F: F.multi_margin_loss(t.ones(2, 3).long(), t.tensor([0, 1])),
    "variance of integers": lambda t, F: F.gaussian_nll_loss(t.ones(3), t.ones(3), t.ones(3).long()),
    "mean of byte windows": lambda t, F: F.avg_pool2d(t.ones(1, 1, 4, 4).byte(), 2),
    "mean of long windows": lambda t, F: F.avg_pool2d(t.ones(1, 1, 4, 4).long(), 2),
    "mean of half cubes": lambda t, F: F.avg_pool3d(t.ones(1, 1, 4, 4, 4).half(), 2),
    "adaptive maximum of integers": lambda t, F: F.adaptive_max_pool2d(t.ones(1, 1, 4, 4).long(), 2),
    "integer columns": lambda t, F: F.fold(t.ones(1, 4, 4).long(), (3, 3), (2, 2)),
    "integer windows": lambda t, F: F.unfold(t.ones(1, 1, 3, 3).long(), (2, 2)),
    "bool windows": lambda t, F: F.unfold(t.ones(1, 1, 3, 3).bool(), (2, 2)),
    "a float kernel": lambda t, F: F.max_pool1d(t.ones(1, 1, 4), 1.5),
    "a negative stride": lambda t, F: F.max_pool1d(t.ones(1, 1, 4), 2, -1),
    "fill beyond a byte": lambda t, F: t.zeros(3, dtype=t.uint8).fill_(300),
    "fill of a byte with -1": lambda t, F: t.zeros(3, dtype=t.uint8).fill_(-1),
    "a full byte of -1.5": lambda t, F: t.full((2,), -1.5, dtype=t.uint8),
    "index_fill beyond a byte": lambda t, F: t.zeros(3, dtype=t.uint8).index_fill(0, t.tensor([0]), 300),
    "masked_fill beyond a byte": lambda t, F: t.zeros(3, dtype=t.uint8).masked_fill(t.ones(3).bool(), 300),
    "where beyond a byte": lambda t, F: t.where(t.ones(3).bool(), t.zeros(3, dtype=t.uint8), 300),
    "clamp beyond a byte": lambda t, F: t.zeros(3, dtype=t.uint8).clamp(0, 300),
    "comparison beyond a byte": lambda t, F: t.zeros(3, dtype=t.uint8) < 300,
    "addmv of two dtypes": lambda t, F: t.addmv(t.ones(2).double(), t.ones(2, 3), t.ones(3)),
    "addmv beyond a byte": lambda t, F: t.addmv(
        t.ones(2).byte(), t.ones(2, 3).byte(), t.ones(3).byte(), beta=300
    ),
    "cross of two dtypes": lambda t, F: t.linalg.cross(t.ones(3), t.ones(3).double()),
    "bool product": lambda t, F: t.ones(2, 2).bool() @ t.ones(2, 2).bool(),
    "inverse of halves": lambda t, F: t.linalg.inv(t.eye(2).half()),
    "pseudo-inverse of halves": lambda t, F: t.linalg.pinv(t.eye(2).half()),
    "polygamma of a high order": lambda t, F: t.polygamma(2**40, t.ones(2)),
    "cubic image of complex numbers": lambda t, F: F.interpolate(
        t.ones(1, 1, 4, 4, dtype=t.complex64), (2, 2), mode="bicubic"
    ),
}


def _answer(call: Any, t: Any) -> Any:
    try:
        found = call(t, t.nn.functional)
    except Exception as error:
        return type(error)
    return str(found.dtype).rpartition(".")[2], found.tolist()


@pytest.mark.parametrize("name", CALLS)
def test_numbers_and_dtypes_beyond_a_kernel(name: str, mode: Mode) -> None:
    expected, got = _answer(CALLS[name], torch), _answer(lambda t, F: mode.run(lambda: CALLS[name](t, F)), jitgrad)
    assert got == expected or issubclass(got, expected)
