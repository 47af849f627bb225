"""What a function of whole arrays may not do: errors that name the line, and the cache of other processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from array_functions import running_sum, smooth
from modes import Mode

import jitgrad
from jitgrad.elementwise import array_source, source_key

ROOT = Path(__file__).resolve().parents[2]


def test_without_numba_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(source_key.metadata, "version", missing)
    function = jitgrad.kernel(running_sum)
    with pytest.raises(ImportError, match=r"pip install 'jitgrad\[numba\]'"):
        function(jitgrad.ones(3))


def test_a_broken_numba_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "numba"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(ImportError, match=r"pip install 'jitgrad\[numba\]'"):
        array_source.compile_arrays(
            lambda x, out: None, [array_source.RoutineParam("array", "float32", 1)] * 2, 1, False
        )


_SOURCES: dict[str, tuple[str, str, int]] = {
    "a new array": (
        "def g(x, out):\n    y = x\n    t = np.zeros(3)\n    out[0] = y[0] + t[1]\n",
        "allocates memory",
        3,
    ),
    "a list": ("def g(x, out):\n    a = [x[0], x[1]]\n    a.append(x[0])\n    out[0] = a[2]\n", "allocates memory", 2),
    "an expression of arrays": ("def g(x, out):\n    out[:] = x * 2\n", "allocates memory", 2),
    "a write to an operand": ("def g(x, out):\n    out[0] = 1\n    x[0] = 1\n", "only results can be written", 3),
    "calls itself": (
        "def g(x, out):\n    out[0] = x[0]\n    g(x, out)\n",
        "is recursive, or uses its own name: a kernel has no stack",
        3,
    ),
    "a type": ("def g(x, out):\n    y = x[0]\n    out[0] = y + 'a'\n", "cannot be compiled", 3),
    "a name": ("def g(x, out):\n    y = x[0]\n    out[0] = y + zz\n", "uses a name that is not defined", 3),
    "a print": ("def g(x, out):\n    print(x[0])\n    out[0] = x[0]\n", "calls Python", 0),
    "a result": ("def g(x, out):\n    out[0] = 1\n    return x[0]\n", "returns float64; it fills its results", 0),
}


def _function_of(case: str, folder: Path) -> tuple[Any, str]:
    np = pytest.importorskip("numpy")
    pytest.importorskip("numba")
    source, _, line = _SOURCES[case]
    path = folder / "user.py"
    path.write_text(source)
    space: dict[str, Any] = {"np": np}
    exec(compile(source, str(path), "exec"), space)
    return jitgrad.kernel(space["g"]), f"({path}:{line or 1})"


@pytest.mark.parametrize("case", _SOURCES)
def test_refused_at_the_call_with_the_line(case: str, tmp_path: Path) -> None:
    function, place = _function_of(case, tmp_path)
    with pytest.raises(TypeError, match=_SOURCES[case][1]) as caught:
        function(jitgrad.ones(3, dtype=jitgrad.float64))
    assert place in str(caught.value) and "x: float64[:], out: float64[:]" in str(caught.value)


def test_refused_in_a_step_at_the_same_statement(mode: Mode, tmp_path: Path) -> None:
    function, place = _function_of("a type", tmp_path)
    with pytest.raises(TypeError, match="cannot be compiled") as caught:
        mode.run(lambda x: function(x) + 1, lambda: (jitgrad.ones(3),))
    assert place in str(caught.value)


def _two(x: Any, low: Any, high: Any) -> None:
    low[0] = high[0] = x[0]


def test_rules_that_do_not_fit() -> None:
    with pytest.raises(TypeError, match="tells 1 results, but 2 are expected: low, high"):
        jitgrad.kernel(_two, results=lambda x: x)(jitgrad.ones(2))
    with pytest.raises(TypeError, match=r"says 'x' for 'low'; an operand, a shape or \(shape, dtype\)"):
        jitgrad.kernel(_two, results=lambda x: ["x", x])(jitgrad.ones(2))
    with pytest.raises(TypeError, match=r"'low' cannot be an array of shape \(-1,\)"):
        jitgrad.kernel(_two, results=lambda x: [(-1,), x])(jitgrad.ones(2))
    with pytest.raises(TypeError, match=r"units= says 2\.5; a number of units"):
        jitgrad.kernel(smooth, units=lambda x, decay: 2.5)(jitgrad.ones(2, 2), 0.5)
    with pytest.raises(TypeError, match="takes the kernel's operands, one by one"):
        jitgrad.kernel(_two, results=lambda *xs: xs)
    with pytest.raises(TypeError, match=r"of its 3 parameters .* 3 are operands"):
        jitgrad.kernel(_two, results=lambda x, low, high: x)
    with pytest.raises(TypeError, match="at least one array"):
        jitgrad.kernel(lambda x, y: None, results=lambda x: x).__class__(_number, lambda n: (n,), None, None)
    with pytest.raises(TypeError, match=r"\*xs is no parameter"):
        jitgrad.kernel(lambda *xs: None)


def _number(n: int, out: Any) -> None:
    out[0] = n


def test_operands_that_do_not_fit() -> None:
    function = jitgrad.kernel(smooth, units=lambda x, decay: x.shape[0])
    x = jitgrad.ones(2, 2)
    with pytest.raises(TypeError, match=r"smooth\(\): parameter 'x' must be Tensor, not float"):
        function(1.0, 0.5)
    with pytest.raises(TypeError, match="parameter 'decay' must be a number or a 0-d tensor, not str"):
        function(x, "a")
    with pytest.raises(TypeError, match="parameter 'decay' is a float, got a tensor of float32 with 2 dimensions"):
        function(x, x)
    with pytest.raises(TypeError, match="Numba has no arrays of float16"):
        function(x.half(), 0.5)
    with pytest.raises(TypeError, match="Numba has no arrays of complex64"):
        function(x.to(jitgrad.complex64), 0.5)
    with pytest.raises(TypeError, match="missing a required argument: 'decay'"):
        function(x)
    number = jitgrad.kernel(_times, results=lambda x, n: x)
    with pytest.raises(TypeError, match="parameter 'n' is an int, got float"):
        number(x, 2.0)
    with pytest.raises(TypeError, match="parameter 'n' is an int, got bool"):
        number(x, True)


def _times(x: Any, n: int, out: Any) -> None:
    out[0, 0] = x[0, 0] * n


def test_derivatives_that_do_not_fit(mode: Mode) -> None:
    pytest.importorskip("numba")

    def step(function: Any) -> Any:
        x = jitgrad.ones(3, requires_grad=True)
        function(x).sum().backward()

    with pytest.raises(RuntimeError, match=r"running_sum\(\) has no derivative.*@running_sum.derivative"):
        mode.run(lambda: step(jitgrad.kernel(running_sum)))
    wrong, several, shape = (jitgrad.kernel(running_sum) for _ in range(3))
    with pytest.raises(TypeError, match="asks for 'y'; there are grad_out, grad, x, out"):
        wrong.derivative(lambda grad, y: grad)
    several.derivative(lambda grad: (grad, grad))
    with pytest.raises(TypeError, match="returned 2 gradients; one is expected for each of x"):
        mode.run(lambda: step(several))
    shape.derivative(lambda grad: grad[:2])
    with pytest.raises(RuntimeError, match=r"gradient of shape \[2\] for 'x' of shape \[3\]"):
        mode.run(lambda: step(shape))


_SECOND = """
import json, sys
import jitgrad

SCALE = 2.0

@jitgrad.kernel(units=lambda x, by: x.shape[0])
def scaled(i, x, by: float, out):
    if x[i] > 100:
        raise ValueError("more than 100")
    out[i] = SCALE * x[i] * by

@scaled.derivative
def scaled_back(grad, x, by):
    return grad * SCALE * by, (grad * SCALE * x).sum()

@jitgrad.compile
def step(x):
    y = scaled(x + 1, 3.0)
    y.sum().backward()
    return y.detach()

for _ in range(3):
    x = jitgrad.tensor([0.5, 1.5], requires_grad=True)
    y = step(x)
scaled(x, 0.5)
try:
    step(jitgrad.tensor([0.5, 100.5], requires_grad=True))
except ValueError as error:
    said = [str(error), *error.__notes__]
print(json.dumps([jitgrad.stats()["compiles"], "numba" in sys.modules, y.tolist(), x.grad.tolist(), said]))
"""


def test_a_second_process_compiles_nothing_and_imports_no_numba(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    path = tmp_path / "cached.py"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JITGRAD_CACHE_DIR": str(tmp_path / "cache")}
    runs = []
    for text in (_SECOND, "\n\n" + _SECOND, _SECOND.replace("SCALE = 2.0", "SCALE = 4.0")):
        path.write_text(text)
        done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=300, env=env)
        assert not done.returncode, done.stderr
        runs.append(json.loads(done.stdout))
    first, second, changed = runs
    assert first[0] > 0 and first[1] and first[2:4] == [[9.0, 15.0], [6.0, 6.0]]
    assert first[4][0] == "more than 100" and "cached.py:10" in first[4][1]
    assert second[:4] == [0, False, *first[2:4]] and "cached.py:12" in second[4][1]
    assert changed[1] and changed[2] == [18.0, 30.0]  # a constant that the function uses is part of the key


_ENDLESS = """
import os, signal, threading
import jitgrad

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

@jitgrad.kernel
def forever(x, out):
    for i in range(x.shape[0]):
        value = x[i]
        while value > 0.0:
            value = value + 1.0
        while True:
            value -= 0.5
            if value < -5:
                break
        out[i] = value

@jitgrad.compile
def step(x, kept):
    kept.copy_(forever(x) * 2)
    return kept + 1

kept = jitgrad.zeros(3)
fine, stuck = (jitgrad.tensor([s, -2.0, s]) for s in (-1.0, 1.0))
for _ in range(3):
    step(fine, kept)
for run in (lambda: forever(stuck), lambda: step(stuck, kept)):
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        run()
    except KeyboardInterrupt:
        print("interrupted")
print(kept.tolist(), step(fine, kept).tolist())
"""


@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
def test_ctrl_c_ends_a_loop_that_does_not_end(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    path = tmp_path / "endless.py"
    path.write_text(_ENDLESS)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120, env=env)
    assert done.stdout.split("\n")[:2] == ["interrupted", "interrupted"], done.stderr
    assert done.stdout.split("\n")[2] == "[-11.0, -11.0, -11.0] [-10.0, -10.0, -10.0]"
