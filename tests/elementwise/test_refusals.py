"""What a function of scalars may not do: errors at decoration that name the line, and Ctrl-C at run time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import jitgrad
from jitgrad.elementwise import numba_source, source_key

ROOT = Path(__file__).resolve().parents[2]


def test_without_numba_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(source_key.metadata, "version", missing)
    with pytest.raises(ImportError, match=r"pip install 'jitgrad\[numba\]'"):
        jitgrad.vectorize(lambda x: x)


def test_a_broken_numba_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "numba"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(ImportError, match=r"pip install 'jitgrad\[numba\]'"):
        numba_source.compile_scalar(lambda x: x, ["float"])


_SOURCES: dict[str, tuple[str, str, int]] = {
    "calls itself": ("def g(x):\n    if x < 1:\n        return x\n    return g(x - 1)\n", "is recursive", 1),
    "njit that calls itself": (
        "@numba.njit\ndef h(x):\n    if x < 1:\n        return x\n    return 0.5 * h(x - 1)\n"
        "def g(x):\n    y = x + 1\n    return h(y)\n", "is recursive: a kernel has no stack", 8,
    ),
    "list": ("def g(x):\n    a = [x, 2 * x]\n    a.append(3.0)\n    return a[1]\n", "allocates memory", 2),
    "array": ("def g(x):\n    y = x\n    a = np.zeros(3)\n    a[1] = y\n    return a.sum()\n", "allocates memory", 3),
    "raise": ("def g(x):\n    if x < 0:\n        raise ValueError('no')\n    return x\n", "may raise an exception", 3),
    "print": ("def g(x):\n    y = x\n    print(y)\n    return x\n", "Python objects", 3),
    "unknown call": ("def g(x):\n    y = x\n    return math.nextafter(y, 2.0)\n", "calls nextafter", 3),
    "typing": ("def g(x):\n    y = x + 'a'\n    return y\n", "cannot be compiled", 1),
    "nothing": ("def g(x):\n    return None\n", "not a number or a tuple of numbers", 1),
    "varargs": ("def g(*x):\n    return 1.0\n", "no parameter that a kernel can take", 0),
    "no parameters": ("def g():\n    return 1.0\n", "1 to 8 scalars", 0),
}  # fmt: skip


@pytest.mark.parametrize("case", _SOURCES)
def test_refused_at_decoration_with_the_line(case: str, tmp_path: Path) -> None:
    math, numba, np = (pytest.importorskip(name) for name in ("math", "numba", "numpy"))
    source, reason, line = _SOURCES[case]
    path = tmp_path / "user.py"
    path.write_text(source)
    space: dict[str, Any] = {"math": math, "numba": numba, "np": np}
    exec(compile(source, str(path), "exec"), space)
    with pytest.raises(TypeError, match=reason) as caught:
        jitgrad.vectorize(space["g"])
    assert not line or f"({path}:{line})" in str(caught.value)


def test_what_has_no_derivative_says_the_way_out() -> None:
    np = pytest.importorskip("numpy")
    pytest.importorskip("numba")

    def bits(x: float) -> float:
        return float(np.float64(x).view(np.int64) >> 52)

    with pytest.raises(TypeError, match=r"bits of a float.*@jitgrad.vectorize\(derivative=False\).*@bits.derivative"):
        jitgrad.vectorize(bits)
    exponent = jitgrad.vectorize(bits, derivative=False)
    assert exponent(jitgrad.tensor([1.0, 8.0])).tolist() == [1023.0, 1026.0]

    @exponent.derivative
    def slope(x: float) -> float:
        return 0.0 * x

    x = jitgrad.tensor([1.0, 8.0], requires_grad=True)
    exponent(x).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]
    with pytest.raises(TypeError, match="returns 2 numbers; 1 are expected"):
        exponent.derivative(lambda x: (x, x))
    with pytest.raises(TypeError, match="takes the same 1 parameters"):
        exponent.derivative(lambda x, y: x)


def test_kinds_of_operands() -> None:
    pytest.importorskip("numba")

    def power(x: float, n: int, is_on: bool) -> float:
        return x**n if is_on else x

    function, x = jitgrad.vectorize(power), jitgrad.ones(3)
    with pytest.raises(TypeError, match=r"power\(\): parameter 'n' is an int, got a tensor of float32"):
        function(x, x, True)
    with pytest.raises(TypeError, match=r"power\(\): parameter 'n' is an int, got float"):
        function(x, 2.5, True)
    with pytest.raises(TypeError, match=r"power\(\): parameter 'is_on' is a bool, got int"):
        function(x, 2, 1)
    with pytest.raises(NotImplementedError, match="not implemented for 'ComplexFloat'"):
        function(x.to(jitgrad.complex64), 2, True)
    with pytest.raises(TypeError, match=r"power\(\): parameter 'x' must be Tensor or number, not str"):
        function("x", 2, True)
    with pytest.raises(TypeError, match="missing a required argument: 'is_on'"):
        function(x, 2)
    with pytest.raises(RuntimeError, match="must match the size"):
        function(x, jitgrad.ones(4, dtype=jitgrad.int64), True)


_ENDLESS = """
import os, signal, threading, time
import jitgrad

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

@jitgrad.vectorize
def forever(x):
    while x > 0.0:
        x = x + 1.0
    return x

@jitgrad.compile
def step(x):
    y = forever(x) * 2
    y.sum().backward()
    return y.detach()

fine, stuck = (jitgrad.tensor([s, -2.0, s], requires_grad=True) for s in (-1.0, 1.0))
for _ in range(3):
    fine.grad = None
    step(fine)
for run in (lambda: forever(stuck), lambda: step(stuck)):
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        run()
    except KeyboardInterrupt:
        print("interrupted")
fine.grad = None
print(step(fine).tolist())
"""


@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
def test_ctrl_c_ends_a_loop_that_does_not_end(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    path = tmp_path / "endless.py"  # Numba wants source lines
    path.write_text(textwrap.dedent(_ENDLESS))
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120, env=env)
    assert done.stdout.split("\n")[:3] == ["interrupted", "interrupted", "[-2.0, -4.0, -2.0]"], done.stderr


_SECOND = """
import json, math, sys
import jitgrad

COEFFICIENTS = (0.5, 0.25)

@jitgrad.vectorize
def curve(x):
    total = 0.0
    for c in COEFFICIENTS:
        total = total * x + c
    return math.sin(total)

@jitgrad.compile
def step(x):
    y = curve(x)
    y.sum().backward()
    return y.detach()

for _ in range(3):
    x = jitgrad.tensor([0.3, 1.5], dtype=jitgrad.float64, requires_grad=True)
    step(x)
curve(x)
print(json.dumps([jitgrad.stats()["compiles"], "numba" in sys.modules, x.grad.tolist()]))
"""


def test_a_second_process_compiles_nothing_and_imports_no_numba(tmp_path: Path) -> None:
    pytest.importorskip("numba")

    path = tmp_path / "cached.py"
    path.write_text(_SECOND)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JITGRAD_CACHE_DIR": str(tmp_path / "cache")}
    runs = []
    for text in (_SECOND, _SECOND, _SECOND.replace("0.25)", "0.75)")):
        path.write_text(text)
        done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120, env=env)
        assert not done.returncode, done.stderr
        runs.append(json.loads(done.stdout))
    first, second, changed = runs
    assert first[0] > 0 and first[1]
    assert second[0] == 0 and not second[1] and second[2] == first[2]
    assert changed[1] and changed[2] != first[2]  # a constant that the function uses is part of the key
