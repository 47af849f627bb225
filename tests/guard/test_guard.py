"""Operations on memory between unreadable pages: a sample of the cases of ``python -m tests.guard``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guard.__main__ import attack, numbers_of
from tests.guard.cases import Case, all_cases

pytestmark = pytest.mark.skipif(os.name != "posix", reason="POSIX")

_HEAD = """
import ctypes, os
import numpy as np
import jitgrad
from tests.guard.pages import AFTER, BEFORE, GuardedMemory
memory = GuardedMemory()
"""


def _run(body: str) -> tuple[int, str]:
    """(the exit status, what was printed)."""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", _HEAD + body], cwd=root, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr[-500:]


@pytest.mark.parametrize(
    "touch",
    [
        "memory.side = AFTER; x = memory.array(np.arange(7.0)); ctypes.string_at(x.ctypes.data + 56, 1)",
        "memory.side = BEFORE; x = memory.array(np.arange(7.0)); ctypes.string_at(x.ctypes.data - 1, 1)",
        "x = memory.array(np.arange(6.0).reshape(2, 3), (1, 0), (2, 1)); ctypes.string_at(x.ctypes.data + 80, 9)",
        "x = memory.array(np.arange(7.0)); at = x.ctypes.data; del x; ctypes.string_at(at, 1)",
        "with memory.for_numpy(): x = np.arange(7.0); ctypes.string_at(x.ctypes.data + 56, 1)",
        "with memory.for_storages(): x = jitgrad.compile(lambda y: y * 2)(jitgrad.ones(7))\n"
        "ctypes.string_at(x.data_ptr() + 28, 1)",
    ],
)
def test_a_byte_too_far_ends_the_process(touch: str) -> None:
    assert _run(touch + "; print('alive')") == (-signal.SIGSEGV, "")


def test_the_last_byte_can_be_read_and_a_store_beside_a_block_is_noticed() -> None:
    status, printed = _run("""
x = memory.array(np.arange(7.0))
ctypes.string_at(x.ctypes.data, 56)
ctypes.memset(x.ctypes.data - 1, 1, 1)
del x
print(memory.made, len(memory.spoiled), memory.spoiled[0])
os._exit(0)
""")
    assert (status, printed) == (0, "1 1 a store beside a block of 56 bytes (4040 bytes before, 0 after)\n")


def test_a_crash_is_counted_and_the_next_process_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker ends itself in the middle of one case, as a fault would."""
    first, second, third = numbers_of(ops=["exp"])[:3]
    monkeypatch.setenv("JITGRAD_GUARD_CRASH", str(second))
    counts, lines = attack([first, second, third])
    assert dict(counts) == {"tried": 3, "survived": 2, "crashed": 1}
    assert len(lines) == 1
    assert lines[0].startswith(f"{second} exp-0") and "exit status -11" in lines[0]


def test_cases_change_extents_and_keep_the_domain() -> None:
    case = Case("log", 0, ((5, 17),), "float32", "plain")
    (x,) = case.inputs()
    assert x.shape == (3, 17) and (x > 0).all()


FOUND = (
    ("_gru_layer_backward", 0, ((3, 4),), "a weight that has no three gates per hidden unit"),
    ("_lstm_layer_backward", 0, ((3, 4),), "a weight that has no four gates per hidden unit"),
    ("nll_loss", 3, ((5, 0),), "a table without rows"),
    ("clamp_tensor", 0, ((3, 0), (4, 0)), "a unit of work of a kernel that stores nothing"),
    ("index4", 0, ((4, 6),), "a gradient that counted once for six equal indices"),
    ("constant_pad", 0, ((3, 0),), "padding that cuts off what is not there, refused by one form alone"),
    ("max_pool2d", 1, ((5, 0),), "the largest of no elements"),
    ("eye", 0, (), "a write of what has no operands, in a compiled step"),
)
"""(operation, sample, change of extents): what the tool has found."""


def test_what_was_found_stays_mended() -> None:
    wanted = {found[:3] for found in FOUND}
    numbers = [nr for nr, case in enumerate(all_cases()) if (case.op, case.nr, case.change) in wanted]
    assert len(numbers) == len(FOUND)
    assert attack(numbers)[1] == []


def test_a_sample_of_all_operations_touches_nothing_else() -> None:
    """Some thirty cases of some 35,000."""
    wanted = numbers_of(every=1201, start=350)
    counts, lines = attack(wanted)
    assert not lines
    assert counts["tried"] == len(wanted) == counts["survived"] + counts["refused"]
    assert counts["survived"] > counts["tried"] // 2
