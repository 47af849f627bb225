"""What a process costs before its first loss: imports, and compiles when the object cache is empty or full."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

IMPORT_LIMIT_SECONDS = 0.2
IMPORT_LIMIT_MODULES = 257
"""Each module of jitgrad costs 0.15 ms of every start: what few scripts need is imported late, Note [Lazy modules]."""

LATE = {"LLVM and other libraries": {"llvmlite", "numba", "torch", "jax", "scipy", "numpy.random"}}
LATE["what the first compile needs"] = {"jitgrad.codegen"}
LATE["what debugging needs"] = {"jitgrad.compiled.explain", "logging", "traceback", "difflib", "sysconfig"}
LATE["what tools need"] = {f"jitgrad.{name}" for name in "benchmark checking measuring pictures report tune".split()}
_NN = (
    "attention conv_other distance embedding_bag group_norm margin_loss padding parameter_dict pooling "
    "recurrent shrinking transformer vision"
)
_FUNCTIONS = (
    "adaptive bags convolutions distances grids margin_losses normalizations padding_modes "
    "pools resampling sliding windows"
)
LATE["what few models need"] = {"jitgrad.optim.lr_scheduler"} | {f"jitgrad.nn.{name}" for name in _NN.split()}
LATE["what few models need"] |= {f"jitgrad.functions.{name}" for name in _FUNCTIONS.split()}
_OPTIM = "adadelta adafactor adagrad adamax asgd dense lbfgs nadam radam rmsprop rprop sparse_adam swa_utils"
LATE["what few trainings need"] = {f"jitgrad.optim.{name}" for name in _OPTIM.split()}

_IMPORT = """
import json, sys, time
start = time.process_time()
import numpy
numpy_seconds, before = time.process_time() - start, set(sys.modules)
import jitgrad
seconds = time.process_time() - start
print(json.dumps({"seconds": seconds, "numpy_seconds": numpy_seconds, "modules": list(sys.modules.keys() - before)}))
"""

_FIRST_LOSS = """
import json
import jitgrad
from jitgrad import nn, optim

jitgrad.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = optim.Adam(model.parameters(), lr=1e-2)

@jitgrad.compile
def step(x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss

x, y = jitgrad.randn(32, 16), jitgrad.randint(0, 4, (32,))
first = step(x, y).item()
compiles = jitgrad.stats()["compiles"]
second = step(x, y).item()
print(json.dumps({"losses": [first.hex(), second.hex()], "compiles": compiles, "stats": jitgrad.stats()}))
"""

Start = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Start:
    """Run a program in a new process that finds its bytecode, as an ordinary user's second one does."""
    own: Path = tmp_path_factory.mktemp("start")
    env = {**os.environ, "JITGRAD_CACHE_DIR": str(own / "objects"), "PYTHONPYCACHEPREFIX": str(own / "bytecode")}
    for name in ("PYTHONDONTWRITEBYTECODE", "JITGRAD_EAGER"):
        env.pop(name, None)

    def run(program: str) -> dict[str, Any]:
        out = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=env)
        found: dict[str, Any] = json.loads(out.stdout)
        return found

    run("import json, jitgrad; print(json.dumps({}))")
    return run


@pytest.mark.parametrize("kind", LATE)
def test_import_is_light(kind: str, start: Start) -> None:
    assert LATE[kind].isdisjoint(start(_IMPORT)["modules"])


def test_the_number_of_modules_is_bounded(start: Start) -> None:
    modules = [name for name in start(_IMPORT)["modules"] if name.split(".")[0] == "jitgrad"]
    assert len(modules) <= IMPORT_LIMIT_MODULES


@pytest.mark.parametrize("name", ["jitgrad.nn", "jitgrad.optim", "jitgrad.autograd", "jitgrad.utils", "jitgrad"])
def test_names_that_come_late_are_there(name: str, start: Start) -> None:
    """Each by itself and all by ``import *``, in a process that has not imported them."""
    program = f"""
import json, {name} as package
shown, public = dir(package), list(package.__all__)
missing = [n for n in [*public, *package._LATE] if n not in shown or not hasattr(package, n)]
exec("from {name} import *")
print(json.dumps({{"missing": missing + [n for n in public if n not in globals()]}}))
"""
    assert start(program)["missing"] == []


def test_import_is_fast(start: Start) -> None:
    # on a slow machine NumPy, which is most of it, is the yardstick; on a busy one, some start is undisturbed
    samples = []
    for _ in range(15):
        samples.append(start(_IMPORT))
        seconds, numpy_seconds = (min(s[key] for s in samples) for key in ("seconds", "numpy_seconds"))
        if seconds < max(IMPORT_LIMIT_SECONDS, 2.5 * numpy_seconds):
            return
    raise AssertionError(f"{seconds:.3f} s, of which NumPy takes {numpy_seconds:.3f} s")


def test_a_second_process_compiles_nothing(start: Start) -> None:
    cold, warm = start(_FIRST_LOSS), start(_FIRST_LOSS)
    assert cold["compiles"] > 0
    assert cold["stats"]["compiles"] == cold["compiles"], "the second call of the step compiled"
    assert warm["stats"]["compiles"] == 0
    assert warm["stats"]["cache_reads"] == cold["compiles"]
    assert warm["losses"] == cold["losses"]
