"""The native hits and the Python they stand before do the same: the tracer's own tests pass without them."""

from __future__ import annotations

import operator
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import jitgrad
from jitgrad.config import config
from jitgrad.cpython.build import is_known_interpreter
from jitgrad.cpython.liveness import counts_references
from jitgrad.state import native_cell
from jitgrad.tracer.misses.operations import Operations
from jitgrad.tracer.misses.writes import Writes

HERE = Path(__file__).parent
FILES = [HERE / "test_tracing.py", HERE / "test_storage.py", HERE / "test_decorator.py"]


def test_native_hits_are_in_place() -> None:
    jitgrad.compile(lambda x: x + 1)(jitgrad.ones(2))
    assert native_cell.is_installed == (config.native_hits and is_known_interpreter() and counts_references)


def test_everything_holds_without_them() -> None:
    env = {**os.environ, "JITGRAD_NATIVE_HITS": "0"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, FILES)]
    done = subprocess.run(command, env=env, cwd=HERE.parents[1], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout[-3000:]


def test_a_number_subclass_a_zero_and_nan_are_told_apart() -> None:
    @jitgrad.compile
    def scale(x, k):  # type: ignore[no-untyped-def]
        return x * k

    class Half(float):
        pass

    x = jitgrad.tensor([1.0, -2.0])
    for _ in range(3):
        assert scale(x, 0.0).numpy().tobytes() == (x * 0.0).numpy().tobytes()
        assert scale(x, -0.0).numpy().tobytes() == (x * -0.0).numpy().tobytes()
        assert scale(x, Half(0.5)).tolist() == [0.5, -1.0]
        assert scale(x, True).tolist() == [1.0, -2.0]
        assert all(v != v for v in scale(x, float("nan")).tolist())

_FIRST_CALLS = """
import sys, threading
import jitgrad
sys.setswitchinterval(1e-5)

@jitgrad.compile
def step(n):
    x = jitgrad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x
    for _ in range(n):
        y = (y * 1.01).sin() + x
    y.sum().backward()
    return x.grad

want = [step.fn(n).tolist() for n in range(4)]
errors = []

def work(first):
    try:
        for k in range(100):
            got = step((first + k) % 4).tolist()
            assert all(abs(a - b) < 1e-4 for a, b in zip(got, want[(first + k) % 4])), (got, want)
    except BaseException as error:
        errors.append(repr(error)[:200])

threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
sys.exit("; ".join(errors) or 0)
"""


def test_threads_that_compile_first_at_the_same_time() -> None:
    run = subprocess.run([sys.executable, "-c", _FIRST_CALLS], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]


_TARGETS = jitgrad.tensor([-1, 2, 0])
_PART = jitgrad.arange(6.0).reshape(2, 3)[1]


@pytest.mark.parametrize(
    "step",
    [
        *(lambda x, f=f: f(x * 2, x) for f in (operator.gt, operator.le, operator.eq, operator.ne)),
        lambda x: (x * 2 > 1) * x,
        lambda x: x // 2 + x % 2,
        lambda x: (x > 0) & (x < 1),
        lambda x: (x * 1).mul_(3).add_(x),
        lambda x: sum(part.t().reshape(-1) for part in (x * x[:, None]).chunk(3)),
        lambda x: jitgrad.nn.functional.layer_norm(x * 2, (3,)),
        lambda x: jitgrad.nn.functional.max_pool2d((x * x[:, None])[None], 2),
        lambda x: (x * 2).max(0)[0] + x,
        lambda x: jitgrad.nn.functional.cross_entropy(x[:, None] * x, _TARGETS, ignore_index=-1),
        lambda x: jitgrad.nn.functional.embedding(_TARGETS[1:], x[:, None] * x),
        lambda x: x * _PART,
    ],
)
def test_every_operator_is_a_hit_of_the_rules_of_hits(step: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With native hits and without: one that is not goes the general way at every call, and may choose another path."""
    compiled, x = jitgrad.compile(step), jitgrad.tensor([0.5, -2.0, 3.0])
    want = compiled(x).tolist()
    missed = []
    for part, name in ((Operations, "apply"), (Writes, "write")):
        general = getattr(part, name)
        monkeypatch.setattr(part, name, lambda *args, general=general: missed.append(args) or general(*args))
    for _ in range(2):
        assert compiled(x).tolist() == want
    assert not missed


def test_a_tensor_compared_with_something_else_is_not_entered() -> None:
    _assert_hits(lambda x, y, _: y * x if x != None else y, (3,), (3,))  # noqa: E711
    _assert_hits(lambda x, y, _: y if x == "x" else y * x, (3,), (3,))


def test_a_product_with_a_vector_enters_its_operands_in_their_order() -> None:
    """What it begins with is another operation than a product of matrices: that must not have entered anything."""
    _assert_hits(lambda x, m, is_short: (x * 2 if is_short else (x * 2) @ m) + m.sum(), (3,), (3, 3))


def _assert_hits(step: Any, *shapes: Any) -> None:
    """Whichever path a call takes, the second call that takes it is new nowhere."""
    compiled = jitgrad.compile(step)
    tensors = [jitgrad.ones(*shape) for shape in shapes]
    for nr in range(4):
        if nr == 2:
            before = jitgrad.stats()["misses"]
        compiled(*tensors, nr % 2 == 1)
    assert jitgrad.stats()["misses"] == before


def test_an_inference_tensor_somewhere_leaves_others_their_hits(monkeypatch: pytest.MonkeyPatch) -> None:
    with jitgrad.inference_mode():
        other = jitgrad.ones(3)

    @jitgrad.compile
    def step(x: Any, y: Any) -> Any:
        return (x * 2).mul_(3).add_(y)

    x, y = jitgrad.ones(3), jitgrad.ones(3)
    want = step(x, y).tolist()
    step(x, other)
    missed = []
    for part, name in ((Operations, "apply"), (Writes, "write")):
        general = getattr(part, name)
        monkeypatch.setattr(part, name, lambda *args, general=general: missed.append(args) or general(*args))
    assert step(x, y).tolist() == want
    assert not missed
    assert step(x, other).tolist() == want
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        jitgrad.compile(lambda t: t.mul_(2))(other)
