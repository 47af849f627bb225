"""``backward()`` outside of the compiled function that made the graph: Note [Backward from outside].

Each program takes a function, compiled or not, and does the backward itself; what it returns must be the same, in the
first call of a compiled function and in the third.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
import jitgrad.nn.functional as F
from jitgrad import nn
from jitgrad.compiled import native_eager
from jitgrad.runtime.engine.run.engine import engine

Compiler = Callable[[Any], Any]
CALLS = 3


def same(function: Any) -> Any:
    return function


def numbers(values: Any) -> Any:
    if isinstance(values, jitgrad.Tensor):
        dense = values.to_dense() if values.is_sparse else values
        return np.array(dense.detach().numpy())
    return [numbers(v) for v in values] if isinstance(values, list | tuple) else values


def assert_same(got: Any, want: Any) -> None:
    if isinstance(want, list | tuple):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            assert_same(g, w)
    elif isinstance(want, np.ndarray):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    else:
        assert got == want


def programs_run(program: Callable[[Any, Any], Any], function: Callable[..., Any]) -> int:
    """Check a program against eager execution; how many backwards of its last call were programs."""
    want = numbers(program(function, data()))
    compiled = jitgrad.compile(function)
    count = 0
    for _ in range(CALLS):
        before = jitgrad.stats()
        assert_same(numbers(program(compiled, data())), want)
        after = jitgrad.stats()
        count = after["outside_backwards"] - before["outside_backwards"]
    assert after["compiles"] == before["compiles"], "the third call compiled something"
    return count


class data:
    """Two leaves, a batch, and another leaf."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.w = jitgrad.tensor(rng.normal(size=(4, 3)), requires_grad=True)
        self.b = jitgrad.tensor(rng.normal(size=3), requires_grad=True)
        self.x = jitgrad.tensor(rng.normal(size=(5, 4)))
        self.c = jitgrad.tensor(rng.normal(size=3), requires_grad=True)

    @property
    def grads(self) -> list[Any]:
        return [None if t.grad is None else t.grad.clone() for t in (self.w, self.b, self.c)]


def layer(x: Any, w: Any, b: Any) -> Any:
    return (x @ w + b).tanh().exp()


def test_one_program_for_a_whole_call() -> None:
    def program(f: Any, d: Any) -> Any:
        loss = f(d.x, d.w, d.b).sum()
        loss.backward()
        return loss, d.grads

    assert programs_run(program, layer) == 1


def test_a_loss_that_is_compiled_as_well() -> None:
    def loss_of(y: Any, c: Any) -> Any:
        return ((y - c) ** 2).mean()

    loss = jitgrad.compile(loss_of)

    def program(f: Any, d: Any) -> Any:
        g = loss_of if f is layer else loss
        for _ in range(2):
            g(f(d.x, d.w, d.b), d.c).backward()
        return d.grads

    assert programs_run(program, layer) == 4


def test_a_model_of_its_own_result() -> None:
    def program(f: Any, d: Any) -> Any:
        y = f(f(d.x, d.w, d.b) @ d.w.detach().T, d.w, d.b)
        y.sin().sum().backward()
        return y, d.grads

    assert programs_run(program, layer) == 2


def test_gradients_of_other_layouts_and_existing_gradients() -> None:
    def program(f: Any, d: Any) -> Any:
        f(d.x, d.w, d.b).sum().backward()
        f(d.x, d.w, d.b).T.contiguous().cos().sum().backward()
        f(d.x, d.w, d.b).backward(jitgrad.ones(3, 5, dtype=jitgrad.float64).T)
        f(d.x, d.w, d.b).backward(jitgrad.ones(10, 3, dtype=jitgrad.float64)[::2])
        return d.grads

    assert programs_run(program, layer) == 4


def test_a_result_that_is_a_view() -> None:
    def program(f: Any, d: Any) -> Any:
        y = f(d.x, d.w)
        y.sin().sum().backward()
        z = f(d.x, d.w)
        z.mul_(2)
        z.sum().backward()
        return y, z, d.grads, type(y.grad_fn).__name__

    assert programs_run(program, lambda x, w: (x @ w).reshape(-1)) == 1


def test_retained_graphs_and_used_up_ones() -> None:
    def program(f: Any, d: Any) -> Any:
        loss = f(d.x, d.w, d.b).sum()
        loss.backward(retain_graph=True)
        loss.backward(retain_graph=True)
        loss.backward()
        with pytest.raises(RuntimeError, match="a second time"):
            loss.backward()
        y = f(d.x, d.w, d.b)
        y.backward(jitgrad.ones_like(y))
        with pytest.raises(RuntimeError, match="a second time"):
            y.sum().backward()
        with pytest.raises(RuntimeError, match="a second time"):
            _ = y.grad_fn._saved_result
        return d.grads, type(y.grad_fn).__name__

    assert programs_run(program, layer) == 4


def test_parts_of_a_graph_are_used_up_apart() -> None:
    def two(x: Any, w: Any, b: Any) -> Any:
        return (x @ w).exp().sum() + b.exp().sum()

    def program(f: Any, d: Any) -> Any:
        loss = f(d.x, d.w, d.b)
        first = jitgrad.autograd.grad(loss, [d.w])
        second = jitgrad.autograd.grad(loss, [d.b])
        with pytest.raises(RuntimeError, match="a second time"):
            jitgrad.autograd.grad(loss, [d.w])
        return first, second, d.grads

    assert programs_run(program, two) == 1


def test_several_results() -> None:
    def two(x: Any, w: Any, b: Any) -> Any:
        y = x @ w + b
        return (y**2).mean(), y

    def program(f: Any, d: Any) -> Any:
        loss, y = f(d.x, d.w, d.b)
        loss.backward()
        both = f(d.x, d.w, d.b)
        (both[0] * both[1].sum()).backward()
        return loss, y, d.grads

    assert programs_run(program, two) == 2


def test_a_leaf_behind_a_result_without_a_gradient() -> None:
    def two(x: Any, w: Any, b: Any) -> Any:
        return (x @ w).exp(), b.exp()

    def program(f: Any, d: Any) -> Any:
        seen: list[str] = []
        d.b.register_hook(lambda g: seen.append("b"))
        y, z = f(d.x, d.w, d.b)
        y.sum().backward()
        z.sum().backward()
        return d.grads, seen

    programs_run(program, two)


def test_intermediate_inputs() -> None:
    def program(f: Any, d: Any) -> Any:
        y = f(d.x, d.w, d.b)
        z = f(y @ d.w.detach().T, d.w, d.b)
        found = jitgrad.autograd.grad(z.sum(), [y, d.w], retain_graph=True)
        (z * d.c).sum().backward(inputs=[d.w, d.c])
        return found, d.grads

    programs_run(program, layer)


def test_gradients_of_gradients() -> None:
    def program(f: Any, d: Any) -> Any:
        (g,) = jitgrad.autograd.grad(f(d.x, d.w, d.b).sum(), [d.w], create_graph=True)
        (g * g).sum().backward()
        return g, d.grads

    assert programs_run(program, layer) == 0


def test_hooks_of_results_and_leaves() -> None:
    def program(f: Any, d: Any) -> Any:
        seen: list[Any] = []
        for name in "wb":
            leaf = getattr(d, name)
            leaf.register_hook(lambda g, name=name: seen.append((name, g.clone())))
            leaf.register_post_accumulate_grad_hook(lambda t, name=name: seen.append(("after", name)))
        y = f(d.x, d.w, d.b)
        y.sum().backward(retain_graph=True)
        y.register_hook(lambda g: g * 2)
        y.retain_grad()
        y.sum().backward()
        return seen, y.grad, d.grads

    assert programs_run(program, layer) == 1


def test_a_hook_on_a_node_that_was_found_from_above() -> None:
    def program(f: Any, d: Any) -> Any:
        seen: list[Any] = []
        loss = f(d.x, d.w, d.b).sum()
        node = loss.grad_fn.next_functions[0][0]
        names = [type(node).__name__]
        node.register_hook(lambda gi, go: seen.append(go[0].clone()))
        while node is not None:
            names.append(type(node).__name__)
            node = node.next_functions[0][0] if node.next_functions else None
        loss.backward()
        return names, seen, d.grads

    assert programs_run(program, layer) == 0


def test_hooks_see_the_order_of_eager_execution() -> None:
    def deep(x: Any, w: Any, b: Any, c: Any) -> Any:
        return ((x @ w) * c + b).tanh() * c

    def program(f: Any, d: Any) -> Any:
        seen: list[str] = []
        for name in "wbc":
            getattr(d, name).register_hook(lambda g, name=name: seen.append(name))
        f(d.x, d.w, d.b, d.c).sum().backward()
        return seen, d.grads

    assert programs_run(program, deep) == 1


@pytest.mark.parametrize("who", ["w", "y"])
def test_what_was_saved_and_is_written_since(who: str) -> None:
    def program(f: Any, d: Any) -> Any:
        y = f(d.x, d.w, d.b)
        loss = y.sum()
        with jitgrad.no_grad():
            (d.w if who == "w" else y).mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
        return d.grads

    def needs_w(x: Any, w: Any, b: Any) -> Any:
        return (w @ w.T * x.sum()).exp()

    assert programs_run(program, needs_w) == 0


def test_a_write_by_a_hook_in_the_middle_of_a_backward() -> None:
    def program(f: Any, d: Any) -> Any:
        def write(g: Any) -> None:
            with jitgrad.no_grad():
                d.w.add_(1)

        y = f(d.x, d.w, d.b)
        z = y * d.c
        z.register_hook(write)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()
        return d.w.grad

    assert programs_run(program, lambda x, w, b: (w @ w.T).sum() * (x @ w) + b) == 0


def test_data_that_was_replaced_and_a_result_that_was_detached() -> None:
    def program(f: Any, d: Any) -> Any:
        loss = f(d.x, d.w, d.b).sum()
        d.w.data = d.w.data * 2
        loss.backward()
        return d.grads

    assert programs_run(program, lambda x, w, b: (w * w).sum() * b) == 0


def test_anomaly_mode_and_eager_blocks() -> None:
    def program(f: Any, d: Any) -> Any:
        loss = f(d.x, d.w, d.b).sum()
        with pytest.warns(UserWarning, match="Anomaly"), jitgrad.autograd.detect_anomaly():
            loss.backward()
        loss = f(d.x, d.w, d.b).sum()
        with jitgrad.eager():
            loss.backward()
        return d.grads

    assert programs_run(program, layer) == 0


def test_python_in_the_forward() -> None:
    class Twice(jitgrad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    def odd(x: Any, w: Any, b: Any) -> Any:
        y = Twice.apply(x @ w)
        y.register_hook(lambda g: g * 3)
        return (y + b).exp()

    def program(f: Any, d: Any) -> Any:
        f(d.x * 0.1, d.w, d.b).sum().backward()
        return d.grads

    programs_run(program, odd)


def test_a_custom_function_outside() -> None:
    class Twice(jitgrad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * x * 2

    def program(f: Any, d: Any) -> Any:
        Twice.apply(f(d.x, d.w, d.b)).sum().backward()
        return d.grads

    programs_run(program, layer)


def test_sparse_gradients_and_rules_that_read() -> None:
    def lookup(x: Any, w: Any, b: Any) -> Any:
        rows = jitgrad.tensor([0, 2, 2])
        return F.embedding(rows, w, sparse=True).sum() * b.exp()

    def program(f: Any, d: Any) -> Any:
        f(d.x, d.w, d.b).sum().backward()
        return d.w.grad.is_sparse, d.grads[1], d.w.grad

    programs_run(program, lookup)


def test_a_second_reader_inside_a_compiled_function() -> None:
    """The graph of a result goes on in another call, which does the backward itself."""
    def program(f: Any, d: Any) -> Any:
        def finish(y: Any, c: Any) -> Any:
            loss = (y * c).sum()
            loss.backward()
            return loss

        done = jitgrad.compile(finish)(f(d.x, d.w, d.b), d.c)
        return done, d.grads

    programs_run(program, layer)


def test_numbers_that_change() -> None:
    def scaled(x: Any, w: Any, b: Any, s: float) -> Any:
        return (x @ w * s).tanh() * s + b

    def program(f: Any, d: Any) -> Any:
        for s in (0.5, 0.25, 0.125, 2.0):
            f(d.x, d.w, d.b, s).sum().backward()
        return d.grads

    assert programs_run(program, scaled) == 4


def test_what_was_saved_is_freed_after_the_backward() -> None:
    """A loss that lives on, for a mean over an epoch, keeps no batch and no activations alive."""
    f = jitgrad.compile(layer)
    for _ in range(CALLS):
        d = data()
        x = d.x
        loss = f(x, d.w, d.b).sum()
        batch = weakref.ref(x)
        del x
        d.x = None
        gc.collect()
        assert batch() is not None
        loss.backward()
        gc.collect()
        assert batch() is None
        assert d.w.grad is not None


def test_activations_are_freed_after_the_backward() -> None:
    """Of all memory that the graph refers to, only the leaves' and the result's own outlive the backward."""
    f = jitgrad.compile(layer)
    d = data()
    x = jitgrad.ones(20_000, 4, dtype=jitgrad.float64)  # too large to be kept for the next call
    for _ in range(CALLS):
        y = f(x, d.w, d.b)
        loss = y.sum()
        known = {id(t._storage) for t in (x, d.w, d.b, y)}
        buffers = y._graph.table or y._graph._buffers
        saved = [weakref.ref(s) for s in buffers.values() if id(s) not in known]
        del buffers
        assert saved and all(s() is not None for s in saved)
        loss.backward()
        assert all(s() is None for s in saved)


def test_many_steps_do_not_grow() -> None:
    native_eager.install()  # else it may come in the middle: so many operations may have run before this test
    d = data()
    f = jitgrad.compile(layer)
    for _ in range(20):
        f(d.x, d.w, d.b).sum().backward()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(200):
        f(d.x, d.w, d.b).sum().backward()
    gc.collect()
    assert len(gc.get_objects()) - before < 100


def test_several_threads() -> None:
    f = jitgrad.compile(layer)
    d = data()
    layer(d.x, d.w, d.b).sum().backward()
    want = numbers(d.grads[:2])
    found: list[Any] = []

    def work() -> None:
        for _ in range(30):
            mine = data()
            f(mine.x, mine.w, mine.b).sum().backward()
            found.append(numbers(mine.grads[:2]))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 120
    for got in found:
        assert_same(got, want)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_optimizers_outside(name: str) -> None:
    def train(compiler: Compiler) -> Any:
        jitgrad.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        optimizer = getattr(jitgrad.optim, name)(model.parameters(), lr=1e-2)
        forward = compiler(model)
        x = jitgrad.tensor(np.random.default_rng(0).normal(size=(6, 4)), dtype=jitgrad.float32)
        labels = jitgrad.tensor([0, 1, 2, 0, 1, 2])
        for _ in range(8):
            before = jitgrad.stats()
            optimizer.zero_grad()
            loss = F.cross_entropy(forward(x), labels)
            loss.backward()
            optimizer.step()
        after = jitgrad.stats()
        counted = {key: after[key] - before[key] for key in ("misses", "compiles", "outside_backwards", "traces")}
        return numbers([loss, *model.parameters()]), counted

    want, _ = train(same)
    got, counted = train(jitgrad.compile)
    assert_same(got, want)
    assert counted["outside_backwards"] == 1
    assert not counted["misses"] and not counted["compiles"]
    assert counted["traces"] == 1, "the model; eager mode has kernels for the rest"


def test_a_call_whose_gradients_go_to_leaves_needs_no_graph_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual training loop: the model is compiled, the rest is not."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    function, x = jitgrad.compile(lambda x: model(x).square().mean()), jitgrad.ones(2, 3)
    for _ in range(3):
        function(x).backward()
    want = [p.grad.clone() for p in model.parameters()]
    kept = model[0].weight.grad
    model[0].bias.grad, model[2].bias.requires_grad = None, False
    function(x).backward()
    model[2].bias.requires_grad = True

    def execute(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("a graph task was made")

    monkeypatch.setattr(engine, "execute", execute)
    for p in model.parameters():
        p.grad = None
    kept.zero_()
    model[0].weight.grad = kept  # it is added to, the others are new
    for _ in range(3):
        function(x).backward()
    assert model[0].weight.grad is kept
    assert_same(numbers([p.grad for p in model.parameters()]), numbers(want))
    hook = model[0].weight.register_hook(lambda g: g * 0)
    with pytest.raises(AssertionError, match="a graph task was made"):
        function(x).backward()
    hook.remove()
