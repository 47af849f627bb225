"""Running the scripts of ``tests/scripts_torch`` in this process, with PyTorch or with jitgrad as ``torch``.

Owns: ``SCRIPTS``, ``REFERENCE``, ``printed_by_jitgrad``, ``printed_by_torch``, ``difference``.

The scripts are what users bring: nothing in them is for a test. They draw everything from seeds, print their losses,
and with ``--compile`` decorate their steps by ``torch.compile``. What is compared is what they print: the text must be
the same, numbers may differ by rounding.

``python tests/scripts/whole_scripts.py`` writes the outputs of the installed PyTorch to ``REFERENCE``.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import random
import re
import runpy
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

__all__ = ["REFERENCE", "SCRIPTS", "difference", "printed_by_jitgrad", "printed_by_torch", "read_reference"]

SCRIPTS = sorted((Path(__file__).parents[1] / "scripts_torch").glob("*.py"))
REFERENCE = Path(__file__).with_name("whole_scripts.json")
_NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")


def read_reference() -> dict[str, str]:
    """Name of a script -> what it prints with PyTorch."""
    return {name: "\n".join(lines) + "\n" for name, lines in json.loads(REFERENCE.read_text()).items()}


@contextlib.contextmanager
def _without_torch() -> Iterator[None]:
    """``sys.modules`` and ``sys.meta_path`` as if nothing had imported torch; PyTorch's own modules are put back."""
    theirs = {name: module for name, module in sys.modules.items() if name == "torch" or name.startswith("torch.")}
    finders = list(sys.meta_path)
    for name in theirs:
        del sys.modules[name]
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name == "torch" or name.startswith("torch.")]:
            del sys.modules[name]
        sys.meta_path[:] = finders
        sys.modules.update(theirs)


def _run(path: Path, *arguments: str) -> str:
    """What the script prints, as if it was the program."""
    out, argv = io.StringIO(), sys.argv
    random.seed(0)
    np.random.seed(0)
    sys.argv = [str(path), *arguments]
    try:
        with contextlib.redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scripts warn as they like
            runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.argv = argv
    return out.getvalue()


def printed_by_jitgrad(path: Path, *arguments: str) -> str:
    """What ``python -m jitgrad path arguments`` prints; default dtype and streams of random numbers are put back."""
    import jitgrad
    from jitgrad.dtypes import PACKAGE

    dtype = jitgrad.get_default_dtype()
    with _without_torch():
        jitgrad.as_torch()
        try:
            return _run(path, *arguments)
        finally:
            jitgrad.set_default_dtype(dtype)
            PACKAGE[:] = ["jitgrad"]


def printed_by_torch(path: Path) -> str:
    """What ``python path`` prints with PyTorch, eagerly; its default dtype is put back."""
    import torch

    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_num_threads(1)  # for so little, threads only wait for each other
    try:
        return _run(path)
    finally:
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)


def difference(got: str, want: str, tolerance: float) -> str:
    """The first line that differs by more than ``tolerance``, relative, and the last digit printed; empty if none."""
    got_lines, want_lines = got.splitlines(), want.splitlines()
    for nr, (ours, theirs) in enumerate(zip(got_lines, want_lines, strict=False), 1):
        if not _is_same_line(ours, theirs, tolerance):
            return f"line {nr}:\n  {ours}\nand not\n  {theirs}"
    if len(got_lines) != len(want_lines):
        return f"{len(got_lines)} lines, and not {len(want_lines)}"
    return ""


def _is_same_line(ours: str, theirs: str, tolerance: float) -> bool:
    if " ".join(_NUMBER.sub("#", ours).split()) != " ".join(_NUMBER.sub("#", theirs).split()):
        return False
    for a, b in zip(_NUMBER.findall(ours), _NUMBER.findall(theirs), strict=True):
        if not math.isclose(float(a), float(b), rel_tol=tolerance, abs_tol=1.01 * max(_last_digit(a), _last_digit(b))):
            return False
    return True


def _last_digit(text: str) -> float:
    """What one more in the last digit is worth; 0 for an integer, which has to be the same."""
    mantissa, _, exponent = text.lower().partition("e")
    digits = mantissa.partition(".")[2]
    return 10.0 ** (int(exponent or 0) - len(digits)) if digits or exponent else 0.0


def main() -> None:
    """Write the reference."""
    found = {path.stem: printed_by_torch(path).splitlines() for path in SCRIPTS}
    REFERENCE.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
