"""What libraries for PyTorch import from its inside, and do to its objects."""

from __future__ import annotations

import importlib
import sys
from collections import OrderedDict
from typing import Any

import pytest

import jitgrad
from jitgrad import nn
from jitgrad.scripts import private_names
from jitgrad.scripts.check import check_source

NAMES = [(module, name) for module, names in private_names._PLACES.items() for name in names]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_name_is_there_and_is_pytorchs(module: str, name: str) -> None:
    place = private_names._PLACES[module][name]
    if place.partition(".")[0] == "torch":
        assert place == "torch" or private_names.is_private_module(place)
    else:
        assert private_names.private_name(module, name) is not NotImplemented
    pytest.importorskip("torch", reason="names are compared with it")
    theirs = importlib.import_module(module)
    assert hasattr(theirs, name) or importlib.import_module(f"{module}.{name}"), "PyTorch has no such name any more"


LIBRARY = """
import torch
import torch.nn as nn
from torch import fx
from torch.distributed import nn as dist_nn
from torch.distributions.utils import _standard_normal, _sum_rightmost
from torch.futures import Future, wait_all
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.loss import _WeightedLoss
from torch.nn.modules.utils import _pair, _reverse_repeat_tuple
from torch.nn.parallel.distributed import DistributedDataParallel
from torch.optim.lr_scheduler import _LRScheduler
from torch.optim.optimizer import required

assert nn.modules.container.Sequential is nn.Sequential and torch.torch is torch
assert issubclass(nn.Conv2d, _ConvNd) and issubclass(nn.NLLLoss, _WeightedLoss)
assert _pair(3) == (3, 3) and _reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
assert nn.init._calculate_fan_in_and_fan_out(torch.zeros(4, 3, 2)) == (6, 8)
assert not isinstance(nn.Linear(1, 1), (fx.GraphModule, DistributedDataParallel))
assert not torch._C._get_tracing_state() and not torch.onnx.is_in_onnx_export()
assert "LBFGS" in vars(torch.optim) and issubclass(torch.optim.lr_scheduler.StepLR, _LRScheduler)
torch._dynamo.config.suppress_errors = True
torch._check(True)
print("all there", repr(required), torch.typename(torch.zeros(1)), "USE_MKL=OFF" in torch.__config__.show())
"""


def test_a_library_imports_and_uses_them(tmp_path: Any, run_python: Any) -> None:
    script = tmp_path / "library.py"
    script.write_text(LIBRARY)
    assert run_python("-m", "jitgrad", str(script)) == "all there <required parameter> torch.FloatTensor False\n"
    assert [f.name for f in check_source(LIBRARY)] == []


def test_errors_of_what_is_not_there_say_so() -> None:
    with pytest.raises(NotImplementedError, match="GraphModule: a step has no graph as data"):
        private_names.private_name("torch.fx", "GraphModule")()
    with pytest.raises(RuntimeError, match="Expected cond to be True"):
        private_names.private_name("torch", "_check")(False)
    with pytest.raises(ValueError, match="too big"):
        private_names.private_name("torch", "_check_value")(False, lambda: "too big")
    with pytest.raises(RuntimeError, match="one element"):
        private_names.private_name("torch", "_assert_async")(jitgrad.tensor(0), "one element")


def test_a_registry_that_is_assigned_has_the_members() -> None:
    """Higher replaces ``_parameters`` and ``_modules`` of a copy, past ``Module.__setattr__``."""
    model, other = nn.Sequential(nn.Linear(2, 3)), nn.Linear(2, 5)
    object.__setattr__(model, "_modules", OrderedDict(head=other))
    assert model(jitgrad.ones(1, 2)).shape == (1, 5)
    assert not hasattr(model, "0") and model.head is other
    model._modules["head"] = nn.Linear(2, 7)
    assert model(jitgrad.ones(1, 2)).shape == (1, 7)
    weight = other.weight
    other._parameters = {"bias": other.bias}
    assert "weight" not in vars(other) and [n for n, _ in other.named_parameters()] == ["bias"]
    other._parameters["weight"] = weight
    assert other.weight is weight and other.__getattr__("weight") is weight


def test_the_version_is_found_where_pytorch_is_not_installed(run_python: Any) -> None:
    """Transformers asks ``importlib.metadata`` and ``find_spec`` whether there is PyTorch."""
    program = (
        "import importlib.metadata, importlib.util, jitgrad; jitgrad.as_torch(); import torch\n"
        "print(importlib.metadata.version('torch') == torch.__version__, bool(importlib.util.find_spec('torch')))\n"
        "print(importlib.metadata.version('numpy') > '1')"
    )
    assert run_python("-c", program) == "True True\nTrue\n"


def test_late_names_do_not_change_a_dictionary_in_a_loop(run_python: Any) -> None:
    """Pyro wraps every optimizer that it finds in ``torch.optim.__dict__``."""
    program = (
        "import jitgrad; jitgrad.as_torch(); import torch\n"
        "print(sum(isinstance(v, type) and issubclass(v, torch.optim.Optimizer) and v is not torch.optim.LBFGS\n"
        "    for v in torch.optim.__dict__.values()) > 10)"
    )
    assert run_python("-c", program) == "True\n"


@pytest.fixture
def run_python() -> Any:
    import subprocess

    def run(*args: str) -> str:
        done = subprocess.run([sys.executable, *args], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
