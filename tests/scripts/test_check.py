"""``python -m jitgrad --check``: the names that a script uses and jitgrad does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from jitgrad.__main__ import main
from jitgrad.scripts.check import check_source
from jitgrad.scripts.tensor_names import TENSOR_NAMES

BAD = """
import torch, numpy as np
from torch import nn
from torch.export import save
import torchvision.datasets as sets
import torch.nn.functional as F

model = torch.fx.symbolic_trace(nn.Linear(2, 2))
nn.Linaer(2, 3)
torch.ones(2).hash_tensor()
np.linalg.hash_tensor
[3, 1].sort()
F.rellu(torch.ones(2)).sum().sspaddmm
torch.nn.modules.module.Module
nn.Module.to
"""


def test_what_is_missing_is_found_with_its_line() -> None:
    found = [(f.line, f.name, f.is_certain) for f in check_source(BAD)]
    assert found == [
        (4, "torch.export", True),
        (5, "torchvision", False),
        (8, "torch.fx.symbolic_trace", True),
        (9, "torch.nn.Linaer", True),
        (10, "Tensor.hash_tensor", False),
        (13, "Tensor.sspaddmm", False),
        (13, "torch.nn.functional.rellu", True),
    ]


def test_it_says_what_to_use_instead() -> None:
    advice = {f.name: f.advice for f in check_source(BAD)}
    assert "jitgrad.explain" in advice["torch.fx.symbolic_trace"]
    assert advice["torch.nn.Linaer"] == "did you mean torch.nn.Linear?"
    assert advice["torch.nn.functional.rellu"] == "did you mean torch.nn.functional.relu?"


def test_names_that_are_bound_by_other_imports_are_left_alone() -> None:
    assert check_source("import numpy as torch\ntorch.jit\nfrom numpy import linalg\nlinalg.hash_tensor\n") == []


def test_attributes_that_the_script_makes_are_its_own() -> None:
    text = "import torch\nclass Net(torch.nn.Module):\n    def hash_tensor(self): self.sspaddmm = 1; self.sspaddmm\n"
    assert check_source(text + "Net().hash_tensor()\n") == []


def test_status_and_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, guess = tmp_path / "good.py", tmp_path / "bad.py", tmp_path / "guess.py"
    good.write_text("import torch\nx = torch.ones(2).exp()\n")
    bad.write_text(BAD)
    guess.write_text("import torch\nx = torch.ones(2).hash_tensor()\n")
    assert main(["--check", str(good), str(guess)]) == 0
    assert main(["--check", str(bad)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("good.py: jitgrad has every name of PyTorch that it uses")
    assert lines[1].endswith("guess.py:2: Tensor.hash_tensor is not there, if a tensor is meant")
    finding = "bad.py:8: torch.fx.symbolic_trace is not there; jitgrad.explain shows what a compiled step does"
    assert any(line.endswith(finding) for line in lines)


def test_the_examples_have_all_they_need() -> None:
    for path in sorted((Path(__file__).parents[2] / "examples").glob("*.py")):
        certain = [f for f in check_source(path.read_text().replace("jitgrad", "torch"), str(path)) if f.is_certain]
        names = {f.name.removeprefix("torch.") for f in certain}
        assert not [name for name in names if not name.startswith(("compile", "explain", "stats"))], (path, certain)


def test_names_of_tensors_are_those_of_the_installed_torch() -> None:
    torch = pytest.importorskip("torch")
    assert {name for name in dir(torch.Tensor) if not name.startswith("_")} == TENSOR_NAMES
