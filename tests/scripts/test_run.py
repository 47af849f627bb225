"""``python -m jitgrad script``: ``import torch`` means jitgrad, the rest of Python is as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SCRIPT = '''
import argparse
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.backends.cudnn as cudnn
from torch import optim
from torch.nn.modules.linear import Linear
from torch.optim.lr_scheduler import StepLR
import helper_beside_the_script

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = Linear(4, 16), nn.Linear(16, 3)

    def forward(self, x):
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    assert isinstance(torch.float32, torch.dtype) and not torch.ones(1).is_cuda
    model = Net().to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    scheduler = StepLR(optimizer, 1, gamma=0.7)
    x, y = torch.randn(32, 4), torch.randint(0, 3, (32,))
    for epoch in range(args.epochs):
        optimizer.zero_grad()
        loss = F.nll_loss(model(x.to(device)), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        print(epoch, round(loss.item(), 3))
    print(type(x).__module__, torch.__version__.split("+")[0], sys.argv[1:])

if __name__ == "__main__":
    main()
'''


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True, timeout=120)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "helper_beside_the_script.py").write_text("import torch\nassert torch.nn.Linear\n")
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_runs_as_it_is(script: Path, tmp_path: Path) -> None:
    done = _run(tmp_path, "-m", "jitgrad", str(script), "--epochs", "2")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert lines[2] == "jitgrad.tensor 2.13.0 ['--epochs', '2']"


def test_it_prints_what_pytorch_prints(script: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    ours, theirs = _run(tmp_path, "-m", "jitgrad", str(script)), _run(tmp_path, str(script))
    assert ours.returncode == theirs.returncode == 0, ours.stderr + theirs.stderr
    assert ours.stdout.splitlines()[:3] == theirs.stdout.splitlines()[:3]


def test_a_module_runs_as_it_is(script: Path, tmp_path: Path) -> None:
    done = _run(tmp_path, "-m", "jitgrad", "-m", "train", "--epochs", "1")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2


def test_errors_and_exit_codes_are_the_scripts(tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text("import torch\ntorch.ones(2) + torch.ones(3)\n")
    done = _run(tmp_path, "-m", "jitgrad", "fails.py")
    assert done.returncode == 1
    assert 'File "' in done.stderr
    assert "fails.py" in done.stderr
    assert "RuntimeError" in done.stderr
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(7)\n")
    assert _run(tmp_path, "-m", "jitgrad", "exits.py").returncode == 7


def test_a_module_that_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "far.py").write_text("import torch.export\n")
    done = _run(tmp_path, "-m", "jitgrad", "far.py")
    assert "ModuleNotFoundError: No module named 'torch.export'" in done.stderr
    assert "there is no export" in done.stderr


AS_TORCH = """
import jitgrad
torch = jitgrad.as_torch()
import torch.nn.functional as F
import torch as again
from torch.nn import Linear
assert torch is again is jitgrad.as_torch() and Linear is jitgrad.nn.Linear and F is jitgrad.nn.functional
assert torch.explain is jitgrad.explain and torch.Tensor is jitgrad.Tensor and "sin" in dir(torch)
assert isinstance(torch.ones(2), torch.Tensor)
"""


def test_as_torch(tmp_path: Path) -> None:
    assert _run(tmp_path, "-c", AS_TORCH).stderr == ""


def test_as_torch_comes_before_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = _run(tmp_path, "-c", "import torch, jitgrad\njitgrad.as_torch()")
    assert "RuntimeError: as_torch() must come before the first import of torch" in done.stderr


@pytest.mark.parametrize("argument", ["--check", ""])
def test_a_file_that_is_not_there(tmp_path: Path, argument: str) -> None:
    done = _run(tmp_path, "-m", "jitgrad", *filter(None, [argument]), "nothing.py")
    assert done.returncode != 0
    assert "FileNotFoundError" in done.stderr


FILES = """
import jitgrad
jitgrad.as_torch()
import torch.nn.modules.utils, torch.nn.modules.linear, torch.distributions.normal, torch.optim.adamw
import torch.nn.modules as modules
from torch.nn.modules.batchnorm import _BatchNorm, BatchNorm2d
from torch.nn.modules.conv import Conv1d
from torch.nn.modules.dropout import *
from torch.autograd.grad_mode import no_grad
from torch.optim.adamw import AdamW
from torch.distributions.normal import Normal
nn = jitgrad.nn
assert Conv1d is nn.Conv1d is modules.conv.Conv1d and issubclass(BatchNorm2d, _BatchNorm) and Dropout is nn.Dropout
assert no_grad is jitgrad.no_grad and AdamW is jitgrad.optim.AdamW and Normal is jitgrad.distributions.Normal
assert nn.utils.clip_grad_norm_ and nn.linear.Linear and nn.linear.__name__ == "jitgrad.nn.linear"
try:
    from torch.nn.modules.conv import Nothing
except ImportError as error:
    assert "Nothing" in str(error)
"""


def test_files_of_pytorch_that_are_elsewhere_here(tmp_path: Path) -> None:
    """And importing them leaves jitgrad's own modules where they are."""
    assert _run(tmp_path, "-c", FILES).stderr == ""


def test_dtypes_are_printed_as_pytorchs(tmp_path: Path) -> None:
    text = "import jitgrad; jitgrad.as_torch(); x = jitgrad.ones(1).double(); print(x, x.dtype, x.type())"
    done = _run(tmp_path, "-c", text)
    assert done.stdout == "tensor([1.], dtype=torch.float64) torch.float64 torch.DoubleTensor\n", done.stderr
