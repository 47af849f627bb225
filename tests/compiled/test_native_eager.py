"""Eager mode in native code and the Python that it is made of do the same; counts of references are exact."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.compiled import native_eager
from jitgrad.config import config
from jitgrad.cpython.build import is_known_interpreter
from jitgrad.cpython.liveness import counts_references
from jitgrad.door import door
from jitgrad.ops.table import OPS
from jitgrad.runtime.eager import direct, direct_writes, results
from jitgrad.runtime.eager.quiet import has_context
from jitgrad.runtime.engine.graph.accumulate_grad import AccumulateGrad
from jitgrad.runtime.engine.graph.overwrites import caught
from jitgrad.runtime.engine.run import plain_graph
from jitgrad.state import write_checks

HERE = Path(__file__).parent
FILES = [HERE.parent / "runtime" / "test_engine_loops.py", HERE.parent / "runtime" / "test_eager_direct.py"]


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    native_eager.install()
    yield


needs_native = pytest.mark.skipif(
    not (config.native_hits and is_known_interpreter() and counts_references and has_context()),
    reason="Python's form runs on this interpreter",
)


def test_native_code_is_in_place() -> None:
    expected = config.native_hits and is_known_interpreter() and counts_references and has_context()
    assert native_eager.is_installed() == expected


def test_everything_holds_without_it() -> None:
    env = {**os.environ, "JITGRAD_NATIVE_HITS": "0"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, FILES)]
    done = subprocess.run(command, env=env, cwd=HERE.parents[1], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout[-3000:]


_X, _Y = np.array([[0.5, 2.0], [-1.0, 3.0]], np.float32), np.array([[1.5, 0.25], [4.0, -2.0]], np.float32)

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "two tensors": lambda x, y: x * y,
    "a tensor twice": lambda x, y: x * x,
    "a number": lambda x, y: (x + 1.5) * 2 + True,
    "a number first": lambda x, y: 2 - (1.5 * x) + 2 / (y + 3),
    "a number of NumPy": lambda x, y: np.float32(2) * x * np.int64(3),
    "a power": lambda x, y: x**2 + 2**x,
    "zeros of both signs": lambda x, y: (x * 0.0 + x * -0.0) / y,
    "a saved result": lambda x, y: x.exp() * y.tanh(),
    "a view": lambda x, y: x.t() * y[0],
    "broadcast": lambda x, y: x * y[:, :1],
    "matrices": lambda x, y: x @ y,
    "a matrix and a vector": lambda x, y: x @ y[0],
    "integers": lambda x, y: x * jitgrad.tensor([1, 2]),
    "parameters": lambda x, y: x.sum(1) + y.amax(0),
    "a comparison": lambda x, y: (x > y) * x,
    "minus": lambda x, y: -x * y.detach(),
    "three operands": lambda x, y: jitgrad.nn.functional.linear(x, y, y[0]),
    "three operands, one wanted": lambda x, y: jitgrad.addmm(x.detach(), y.detach(), x, beta=2.0),
    "a choice": lambda x, y: jitgrad.where(x > y, x, 0.5) + jitgrad.where(x > y, x.detach(), y),
    "a list": lambda x, y: jitgrad.cat([x, y, x.detach()], 1) * jitgrad.stack((x, y)).sum(),
    "a list of one": lambda x, y: jitgrad.cat([x * y]),
    "several views": lambda x, y: x.chunk(2)[1] * x.unbind()[0] + y.split(1, 1)[0],
    "several results": lambda x, y: x.max(0)[0] * y.sort(1)[0] + x.topk(1)[0],
    "several results of several": lambda x, y: jitgrad.nn.functional.layer_norm(x, (2,), y[0], y[1]),
    "halves": lambda x, y: jitgrad.cat([x.half(), y.half()]).float() * jitgrad.where(x.half() > 0, 1.0, 2.0).sum(),
    "strided": lambda x, y: x.as_strided((2,), (1,), 1) * y[0],
    "one element": lambda x, y: jitgrad.stack([x[0, 0], y[1, 1]]),
}


def _row(x: Any) -> Any:
    x[0] = 5.0
    return x


WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "a tensor": lambda x, y: x.add_(y),
    "itself": lambda x, y: x.mul_(x),
    "a number": lambda x, y: x.add_(1.5).mul_(2),
    "alpha": lambda x, y: x.sub_(y, alpha=0.5),
    "a function": lambda x, y: x.exp_().tanh_(),
    "maximum": lambda x, y: x.clamp_(min=0.25).relu_(),
    "another operand first": lambda x, y: x.copy_(y),
    "a row": lambda x, y: _row(x),
    "broadcast": lambda x, y: x.add_(y[0]),
    "another dtype": lambda x, y: x.add_(jitgrad.tensor([1, 2])),
    "transposed": lambda x, y: x.t().add_(y),
    "lerp": lambda x, y: x.lerp_(y, 0.25).addcmul_(y, y, value=0.5),
    "-=": lambda x, y: x.__isub__(y * 0.5),
}


def _bits(function: Callable[[Any, Any], Any]) -> list[Any]:
    """The result, its Node's name, and the gradients, three times: the last time by programs."""
    x, y = (jitgrad.tensor(a, requires_grad=True) for a in (_X, _Y))
    found: list[Any] = []
    for _ in range(5):
        x.grad = y.grad = None
        out = function(x, y)
        found += [out.numpy(force=True).tobytes(), out.dtype, out.grad_fn.name(), out.requires_grad]
        out.sum().backward()
        found += [None if leaf.grad is None else leaf.grad.numpy().tobytes() for leaf in (x, y)]
    with jitgrad.no_grad():
        found.append(function(x, y).requires_grad)
    return found


@pytest.mark.parametrize("name", OPERATIONS)
def test_both_forms_give_the_same_bits(name: str) -> None:
    found = _bits(OPERATIONS[name])
    with native_eager.pythons_form():
        assert _bits(OPERATIONS[name]) == found


def _written(write: Callable[[Any, Any], Any]) -> list[Any]:
    """What a write leaves in its target, a view of it, and their versions, three times; then in a graph."""
    found: list[Any] = []
    for _ in range(3):
        x, y = jitgrad.tensor(_X), jitgrad.tensor(_Y)
        view = x[1]
        assert write(x, y) is not None
        found += [x.tolist(), view.tolist(), x._version, view._version]
    for reads in (False, True):  # the Node of a product has saved its operands
        x, y = jitgrad.tensor(_X, requires_grad=True), jitgrad.tensor(_Y, requires_grad=True)
        z = x * 1.0
        kept = z * z if reads else z.sum()
        write(z, y)
        try:
            (z.sum() + kept.sum()).backward()
            found += [None if leaf.grad is None else leaf.grad.tolist() for leaf in (x, y)]
        except RuntimeError as error:
            found.append(str(error).split(" by ")[0])
    leaf = jitgrad.tensor(_X, requires_grad=True)
    try:
        write(leaf, jitgrad.tensor(_Y))
    except RuntimeError as error:
        found.append(str(error))
    with jitgrad.no_grad():
        write(leaf, jitgrad.tensor(_Y))
    return [*found, leaf.tolist(), leaf._version]


@pytest.mark.parametrize("name", WRITES)
def test_both_forms_write_the_same(name: str) -> None:
    found = _written(WRITES[name])
    with native_eager.pythons_form():
        assert _written(WRITES[name]) == found


@needs_native
def test_a_native_write_is_named_where_a_backward_misses_the_value() -> None:
    x = jitgrad.ones(2, requires_grad=True)
    caught.go_on()
    for _ in range(3):
        y = x * 1.0
        z = y * y
        with jitgrad.no_grad():
            y.add_(1.0)
        with pytest.raises(RuntimeError, match=r"add_ at .*test_native_eager\.py:\d+"):
            z.sum().backward()


def test_what_stands_in_the_way_of_a_write_is_asked() -> None:
    x = jitgrad.zeros(2)
    x.add_(1.0)
    asked = []
    write_checks.append(asked.append)
    try:
        x.add_(1.0)
    finally:
        write_checks.remove(asked.append)
    assert len(asked) == 1 and asked[0] is x
    with jitgrad.inference_mode():
        y = jitgrad.zeros(2)
    with pytest.raises(RuntimeError, match="inference"):
        y.add_(1.0)


def test_other_threads_run_the_other_form() -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(_bits(OPERATIONS["a saved result"])))
    thread.start()
    thread.join()
    assert found == _bits(OPERATIONS["a saved result"])


@needs_native
def test_operations_are_native(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's form is not called for what it has a plan for."""
    x, y = jitgrad.tensor(_X, requires_grad=True), jitgrad.tensor(_Y)
    w = jitgrad.tensor(_X)

    def results() -> list[Any]:
        w.add_(1.0).sub_(1.0)
        many = jitgrad.cat([x, y]), *x.chunk(2), jitgrad.where(w > 0, x, y), *x.max(0), w
        return [a.tolist() for a in (x * y, x.exp(), *many)]

    first = results()
    for name in ("result_of", "run_many"):
        monkeypatch.setattr(direct, name, None)
    monkeypatch.setattr(direct_writes, "write_alike", None)
    assert results() == first


def test_what_no_operator_takes_is_refused() -> None:
    x = jitgrad.ones(2)
    for other in ("a", None, [1.0], object()):
        with pytest.raises(TypeError):
            x * other
    with pytest.raises(RuntimeError, match="size of tensor"):
        x * jitgrad.ones(3)


def test_a_subclass_with_operators_of_its_own_is_asked() -> None:
    class Loud(jitgrad.Tensor):
        def __rmul__(self, other: Any) -> Any:
            return "asked"

    assert 2.0 * jitgrad.ones(2).as_subclass(Loud) == "asked"


def test_sparse_operands_take_their_own_way() -> None:
    x = jitgrad.sparse_coo_tensor(jitgrad.tensor([[0, 1]]), jitgrad.tensor([1.0, 2.0]), (2,))
    dense = jitgrad.ones(2)
    _ = dense * dense  # a plan for operands of this layout
    assert (x * 2.0).to_dense().tolist() == [2.0, 4.0]
    assert (x + x).to_dense().tolist() == [2.0, 4.0]
    for _ in range(3):
        dense.add_(jitgrad.ones(2)).add_(x, alpha=2.0).sub_(x)
    assert dense.tolist() == [7.0, 10.0]
    assert jitgrad.where(dense > 0, dense, dense.clone()).tolist() == [7.0, 10.0]
    large = jitgrad.zeros(1 << 14, 1)
    for _ in range(3):
        large.add_(jitgrad.ones(1 << 14, 1), alpha=0.5)
        large.add_(jitgrad.sparse_coo_tensor(jitgrad.tensor([[3]]), jitgrad.ones(1, 1), (1 << 14, 1)), alpha=0.5)
    assert (large.sum().item(), large[3].item()) == (1.5 * (1 << 14) + 1.5, 3.0)
    square = jitgrad.eye(2).to_sparse()
    _ = jitgrad.eye(2).t(), jitgrad.eye(2) @ jitgrad.eye(2)
    assert square.t().to_dense().tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert (jitgrad.eye(2) @ square).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_a_compiled_step_after_it_and_it_after_a_compiled_step() -> None:
    step = jitgrad.compile(lambda a: (a * 2.0 + a).exp())
    x = jitgrad.tensor([0.5, 1.0])
    for _ in range(4):
        assert step(x).tolist() == (x * 2.0 + x).exp().tolist()


def test_the_functions_of_the_door_see_every_operation() -> None:
    """The profiler, or another watcher, puts its own there."""
    x, seen = jitgrad.ones(2), []
    _ = x * x
    before = door.run_two
    door.run_two = lambda op, *operands: (seen.append(op.name), before(op, *operands))[1]
    try:
        _ = x * x
        _ = door.apply(OPS["add"], x, x)
    finally:
        door.run_two = before
    assert seen == ["mul", "add"]
    many = door.run_many
    door.run_many = lambda op, *operands: (seen.append(op.name), many(op, *operands))[1]
    try:
        _ = jitgrad.cat([x, x])
    finally:
        door.run_many = many
    assert seen == ["mul", "add", "cat"]


def _steps(x: Any, y: Any) -> None:
    x.grad = None
    z = (x * y).exp() * 2.0 + x
    parts = jitgrad.cat([z, x]).chunk(2)
    a = jitgrad.where(parts[0] > 0, parts[1], z) + x.max(0)[0]
    a.detach().add_(y).mul_(0.5)
    (a * z).sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        z.sum().backward()
    w = (x * y).exp()
    (first,) = jitgrad.autograd.grad((w * w).sum(), x, create_graph=True)
    jitgrad.autograd.grad((first * z.detach()).sum(), [x, w])
    with pytest.raises(RuntimeError, match="have been used"):
        jitgrad.autograd.grad((x * y).sum(), [x, z])
    (x * x).sum().backward(inputs=[x])


def _collect_until_nothing_changes() -> None:
    count = -1
    while count != (count := len(gc.get_objects())):
        gc.collect()


@needs_native
def test_counts_of_references_are_exact() -> None:
    x, y = jitgrad.tensor(_X, requires_grad=True), jitgrad.tensor(_Y)
    for _ in range(20):
        _steps(x, y)
    plan = next(p for p in direct.plans.values() if p.op is OPS["mul"])
    here = direct.here.here
    watched = [x, y, x._aval, x._array, plan, plan.op, plan.aval, here, here.context, (), 0.5]
    watched += [results.INVALID_EDGE, plan_class := type((x * y).grad_fn), direct.MISSED, plain_graph.PlainRun]
    assert isinstance(plan_class, type)
    _collect_until_nothing_changes()  # each collection stops watching tuples of tuples that it does not watch any more
    before, objects = [sys.getrefcount(o) for o in watched], len(gc.get_objects())
    for _ in range(200):
        _steps(x, y)
    _collect_until_nothing_changes()
    after = [sys.getrefcount(o) for o in watched]
    assert max(abs(a - b) for a, b in zip(after, before, strict=True)) < 20, (before, after)
    assert abs(len(gc.get_objects()) - objects) < 100


@needs_native
def test_results_and_nodes_die_at_once() -> None:
    x = jitgrad.tensor(_X, requires_grad=True)
    gc.disable()
    try:
        y = (x * 2.0).exp()
        node, value, grad = weakref.ref(y.grad_fn), weakref.ref(y), None
        loss = y.sum()
        loss.backward()
        grad = weakref.ref(x.grad)
        del y, loss
        assert node() is None
        assert value() is None
        x.grad = None
        assert grad() is None
    finally:
        gc.enable()


@needs_native
def test_only_a_gradient_that_somebody_else_holds_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    x = jitgrad.tensor(_X, requires_grad=True)
    seed = jitgrad.ones(2, 2)
    for _ in range(5):  # the rule is a program then
        x.grad = None
        (x * 3.0).backward(seed)
    x.grad = None
    (x + 0.0).backward(seed)
    assert x.grad._array is not seed._array
    x.grad = None
    monkeypatch.setattr(AccumulateGrad, "apply", None)  # what copies
    (x * 3.0).backward(seed)
    assert x.grad.tolist() == [[3.0, 3.0], [3.0, 3.0]]
    x.grad = None
    with pytest.raises(TypeError, match="not callable"):
        (x + 0.0).backward(seed)


@pytest.mark.parametrize("in_python", [False, True])
def test_a_release_takes_tensors_alone(in_python: bool) -> None:
    x, y = jitgrad.tensor(_X, requires_grad=True), jitgrad.tensor(_Y)
    runs_on = [jitgrad.lerp(x, y, 0.25), jitgrad.add(y, x, alpha=3), jitgrad.sub(x, x, alpha=0.5), x + 1.0]
    ends = [jitgrad.addcmul(y, x, y, value=2), jitgrad.lerp(x, y, y), x * 2.0, x.sgn(), jitgrad.addcdiv(x, y, y)]
    with native_eager.pythons_form() if in_python else contextlib.nullcontext():
        for z in runs_on + ends:
            z.sum().backward()
        for z in runs_on:
            z.sum().backward()
        for z in ends:
            with pytest.raises(RuntimeError, match="a second time"):
                z.sum().backward()
    assert (runs_on[0].grad_fn._saved_weight, ends[0].grad_fn._saved_value) == (0.25, 2)


def test_a_leaf_has_one_accumulator_whoever_makes_it() -> None:
    """Threads that run Python's form and the main thread, at once, on a leaf that no graph has reached."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(30):
            x, made = jitgrad.ones(2, requires_grad=True), []
            start = threading.Barrier(3)

            def use(x: Any = x, made: list[Any] = made, start: Any = start) -> None:
                start.wait()
                made.append(x * 2.0)

            threads = [threading.Thread(target=use) for _ in range(2)]
            for thread in threads:
                thread.start()
            use()
            for thread in threads:
                thread.join()
            assert len({id(y.grad_fn.next_functions[0][0]) for y in made}) == 1
    finally:
        sys.setswitchinterval(before)


def test_hooks_of_a_leaf_come_before_its_accumulator_or_after() -> None:
    seen: list[str] = []
    x, y = (jitgrad.ones(2, requires_grad=True) for _ in range(2))
    x.register_hook(lambda grad: seen.append("before"))
    z = x * y
    y.register_hook(lambda grad: seen.append("after"))
    z.sum().backward()
    assert sorted(seen) == ["after", "before"]
    x.grad = None
    (x * 1.0).sum().backward()
    assert sorted(seen) == ["after", "before", "before"]


def test_views_of_views_show_the_memory_of_their_base() -> None:
    x = jitgrad.arange(12, dtype=jitgrad.float32).reshape(3, 4)
    y = (x * 1.0)[1:].t()[2]
    assert y.tolist() == [6.0, 10.0]
    assert y._base is not None
    base = x * 1.0
    window = base[1:].t()[1:, 1]
    window.mul_(2.0)
    assert base.tolist()[2] == [8.0, 18.0, 20.0, 22.0]
    assert jitgrad.ones(2, 3, dtype=jitgrad.bfloat16)[1].tolist() == [1.0, 1.0, 1.0]
    assert jitgrad.ones(2, 0)[1:].shape == (1, 0)
