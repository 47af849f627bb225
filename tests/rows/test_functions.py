"""Rows about functions that users write: ``autograd.Function``, its Nodes, backward inside backward, checkpoints.

Every expected number is worked out by hand; ``tests/autograd/test_function.py`` compares with PyTorch.
"""

from __future__ import annotations

import gc
import inspect
import threading
import weakref
from typing import Any, ClassVar

import numpy as np
import pytest
from modes import ARGUMENTS, HOOKED, MISSED_WRITE, NOTHING_HELD, OUTSIDE, Mode, cpu_and

import jitgrad
from jitgrad.autograd import Function


class Product(Function):
    """``x * y``, with its derivatives written out; remembers what its backward saw."""

    seen: ClassVar[list[Any]] = []

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        Product.seen.append((ctx.needs_input_grad, jitgrad.is_grad_enabled()))
        return g * y, g * x


def _leaf(*values: float) -> Any:
    return jitgrad.tensor(list(values), requires_grad=True)


def _leaves(*rows: list[float]) -> Any:
    return lambda: tuple(_leaf(*row) for row in rows)


@pytest.mark.row("A9", engine=OUTSIDE)
def test_needs_input_grad_says_which(mode: Mode) -> None:
    def step(x: Any, y: Any) -> Any:
        Product.seen.clear()
        z = Product.apply(x, y)
        z.sum().backward()
        return Product.seen[:], x.grad.tolist(), y.grad

    seen, x_grad, y_grad = mode.run(step, lambda: (_leaf(1.0, 2.0), jitgrad.tensor([3.0, 4.0])))
    assert seen == [((True, False), False)]
    assert x_grad == [3.0, 4.0]
    assert y_grad is None


@pytest.mark.row("A9")
def test_no_input_needs_a_gradient_no_node(mode: Mode) -> None:
    def step(x: Any, y: Any) -> Any:
        z = Product.apply(x, y)
        return z.requires_grad, z.grad_fn, z.tolist()

    result = mode.run(step, lambda: (jitgrad.tensor([1.0]), jitgrad.tensor([3.0])))
    assert result == (False, None, [3.0])


class Swap(Function):
    """Gives its inputs back in the other order, times 2 and times 3."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        return y * 2, x * 3

    @staticmethod
    def backward(ctx: Any, g_y: Any, g_x: Any) -> Any:
        return g_x * 3, g_y * 2


@pytest.mark.row("A10", engine=HOOKED)
def test_next_functions_in_order_and_permuted_outputs(mode: Mode) -> None:
    def step(x: Any, y: Any) -> Any:
        a, b = x * 1.0, y * 1.0
        p, q = Swap.apply(a, b)
        node = p.grad_fn
        ordered = node.next_functions == ((a.grad_fn, 0), (b.grad_fn, 0))
        same_node = q.grad_fn is node
        (p * jitgrad.tensor([10.0, 20.0]) + q).sum().backward()
        return ordered, same_node, (p.output_nr, q.output_nr), x.grad.tolist(), y.grad.tolist()

    result = mode.run(step, _leaves([1.0, 2.0], [3.0, 4.0]))
    assert result == (True, True, (0, 1), [3.0, 3.0], [20.0, 40.0])


class SavesEverything(Function):
    """Saves an input, an intermediate and an output."""

    alive: ClassVar[list[weakref.ref[Any]]] = []

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        middle = x * 2
        out = middle.exp()
        ctx.save_for_backward(x, middle, out)
        SavesEverything.alive += [weakref.ref(ctx), weakref.ref(middle)]
        return out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        _, _, out = ctx.saved_tensors
        return g * out * 2


@pytest.mark.row("A11")
def test_dropping_the_output_frees_the_graph(mode: Mode) -> None:
    SavesEverything.alive.clear()

    def step(x: Any) -> Any:
        return SavesEverything.apply(x * 1.0).sum()

    gc.collect()
    gc.disable()
    try:
        y = mode.run(step, _leaves([0.0, 1.0]))
        y.backward()
        kept = mode.run(step, _leaves([0.0, 1.0]))
        assert kept.grad_fn is not None
        del y, kept
        assert [r() for r in SavesEverything.alive if r() is not None] == []
    finally:
        gc.enable()


class Elaborate(Function):
    """A forward of many steps, with grad mode on for some of them."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        with jitgrad.enable_grad():
            z = (x.exp() * y).tanh()
        for _ in range(3):
            z = z * x + y
        return z

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g, g * 2


@pytest.mark.row("A12", engine=OUTSIDE)
def test_apply_adds_exactly_one_node(mode: Mode) -> None:
    def step(x: Any, y: Any) -> Any:
        out = Elaborate.apply(x, y)
        kinds = [type(node).__name__ for node, _ in out.grad_fn.next_functions]
        below = [node.variable is leaf for (node, _), leaf in zip(out.grad_fn.next_functions, (x, y), strict=True)]
        out.sum().backward()
        return out.grad_fn.name(), kinds, below, x.grad.tolist(), y.grad.tolist()

    result = mode.run(step, _leaves([1.0], [2.0]))
    assert result == ("ElaborateBackward", ["AccumulateGrad"] * 2, [True, True], [1.0], [2.0])


class Sum2(Function):
    """``x + y``; hands the very same object to both inputs."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        return x + y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g, g


@pytest.mark.row("A17", engine=HOOKED)
def test_one_object_for_two_gradients(mode: Mode) -> None:
    def step(x: Any, y: Any) -> Any:
        # x is used twice: what arrives at it is added up, while y holds the same object
        a, b = x * 1.0, y * 1.0
        (Sum2.apply(a, b).sum() + (a * 10.0).sum()).backward()
        Sum2.apply(x, y).sum().backward()
        x.grad.mul_(2.0)
        return x.grad.tolist(), y.grad.tolist()

    assert mode.run(step, _leaves([1.0, 1.0], [1.0, 1.0])) == ([24.0, 24.0], [2.0, 2.0])


class SinCos(Function):
    """Two outputs."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.sin(), x.cos()

    @staticmethod
    def backward(ctx: Any, g_sin: Any, g_cos: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g_sin * x.cos() - g_cos * x.sin()


@pytest.mark.row("A18", engine=(OUTSIDE, HOOKED))
def test_only_the_second_output_is_used(mode: Mode) -> None:
    def step(x: Any) -> Any:
        _, cos = SinCos.apply(x)
        cos.sum().backward()
        _, second = (x * 3.0).chunk(2)
        second.sum().backward()
        return x.grad

    grad = mode.run(step, _leaves([0.5, 1.0]))
    np.testing.assert_allclose(grad.numpy(), [-np.sin(0.5), -np.sin(1.0) + 3.0], rtol=1e-6)


@pytest.mark.row("B17", engine=OUTSIDE)
@pytest.mark.parametrize("create_graph", [False, True])
def test_grad_mode_inside_backward(mode: Mode, create_graph: bool) -> None:
    mode.states(no_launch=NOTHING_HELD)
    def step(x: Any, y: Any) -> Any:
        Product.seen.clear()
        z = Product.apply(x, y)
        gx, _ = jitgrad.autograd.grad(z.sum(), (x, y), create_graph=create_graph)
        return [enabled for _, enabled in Product.seen], gx.requires_grad, jitgrad.is_grad_enabled()

    assert mode.run(step, _leaves([1.0], [2.0])) == ([create_graph], create_graph, True)


class L(Function):
    """The loss of the tutorial: its Node is named after it."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.factor = 5.0
        return (x * ctx.factor).sum()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.factor * jitgrad.ones(2)


@pytest.mark.row("D22", engine=ARGUMENTS)
def test_the_node_is_named_after_its_class(mode: Mode) -> None:
    def step(x: Any) -> Any:
        loss = L.apply(x)
        node = loss.grad_fn
        text = repr(node).startswith("<LBackward object at 0x")
        node.factor = 7.0  # the ctx is the node
        loss.backward()
        return node.name(), type(node).__name__, text, x.grad.tolist()

    assert mode.run(step, _leaves([1.0, 2.0])) == ("LBackward", "LBackward", True, [7.0, 7.0])


class DoubleInPlace(Function):
    """``x *= 2`` on the memory, which nobody counts unless it is said."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x.data.mul_(2.0)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2.0


@pytest.mark.row("D23", engine=HOOKED, fallbacks=MISSED_WRITE)
def test_an_inplace_function_returns_its_input_one_version_later(mode: Mode) -> None:
    def step(x: Any) -> Any:
        y = x * 3.0
        before = y._version
        out = DoubleInPlace.apply(y)
        counted = y._version - before
        (out * out).sum().backward()
        return out is y, counted, y.grad_fn is out.grad_fn, y.tolist(), x.grad.tolist()

    assert mode.run(step, _leaves([1.0, 2.0])) == (True, 1, True, [6.0, 12.0], [72.0, 144.0])


@pytest.mark.row("D23", engine=HOOKED, fallbacks=MISSED_WRITE)
def test_values_saved_before_an_inplace_function_are_checked(mode: Mode) -> None:
    def step(x: Any) -> Any:
        y = x * 3.0
        square = y * y  # saves y
        DoubleInPlace.apply(y)
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation") as caught:
            square.sum().backward()
        return "is at version 1; expected version 0 instead" in str(caught.value), x.grad

    assert mode.run(step, _leaves([1.0, 2.0])) == (True, None)


class ReentrantBackward(Function):
    """The example of the document: a backward that differentiates by running backward."""

    @staticmethod
    def forward(ctx: Any, input: Any) -> Any:
        ctx.save_for_backward(input)
        return input.sum()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (input,) = ctx.saved_tensors
        input = input.detach().requires_grad_()
        with jitgrad.enable_grad():
            out = input.sum()
        out.backward()
        return input.grad * grad


@pytest.mark.row("C21", engine=ARGUMENTS)
@cpu_and("vcpu:0")
def test_backward_inside_backward(mode: Mode, device: str) -> None:
    def step(x: Any) -> Any:
        ReentrantBackward.apply(x).backward()
        return x.grad.tolist(), str(x.grad.device)

    def make() -> tuple[Any, ...]:
        return (jitgrad.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True),)

    assert mode.run(step, make) == ([1.0, 1.0, 1.0], device)


@pytest.mark.row("C21", engine=HOOKED)
def test_grad_inside_backward_of_a_larger_graph(mode: Mode) -> None:
    class Cube(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with jitgrad.enable_grad():
                y = x * x * x
            return jitgrad.autograd.grad(y, x, grad)

    def step(x: Any) -> Any:
        y = Cube.apply(x * 2.0) + Cube.apply(x) * 10.0
        y.sum().backward()
        return x.grad.tolist()

    # (8 + 10) * 3 x^2
    assert mode.run(step, _leaves([1.0, 2.0])) == [54.0, 216.0]


def _stack_depth() -> int:
    frame, depth = inspect.currentframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


class Deeper(Function):
    """``2 x``, by as many nested backwards as ``depth`` says."""

    depths: ClassVar[list[int]] = []
    stacks: ClassVar[dict[int, int]] = {}

    @staticmethod
    def forward(ctx: Any, x: Any, depth: int) -> Any:
        ctx.depth = depth
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        Deeper.depths.append(ctx.depth)
        here = threading.get_ident()
        Deeper.stacks[here] = max(Deeper.stacks.get(here, 0), _stack_depth())
        if ctx.depth == 0:
            return grad * 2, None
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with jitgrad.enable_grad():
            Deeper.apply(x, ctx.depth - 1).sum().backward()
        return x.grad * grad, None


@pytest.mark.row("C22", engine=(OUTSIDE, HOOKED))
def test_two_hundred_levels_of_backward(mode: Mode) -> None:
    def step(x: Any) -> Any:
        Deeper.depths.clear()
        Deeper.stacks.clear()
        Deeper.apply(x, 200).sum().backward()
        return x.grad.tolist(), Deeper.depths[:], max(Deeper.stacks.values())

    grad, depths, stack = mode.run(step, _leaves([1.0, 2.0]))
    assert grad == [2.0, 2.0]
    assert depths == list(range(200, -1, -1))
    assert stack < _stack_depth() + 800, "no thread's stack holds all the levels"


class Fails(Function):
    """Raises in backward, ``depth`` levels down."""

    @staticmethod
    def forward(ctx: Any, x: Any, depth: int, text: str) -> Any:
        ctx.depth, ctx.text = depth, text
        ctx.save_for_backward(x)
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if ctx.depth == 0:
            raise LookupError(ctx.text)
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with jitgrad.enable_grad():
            Fails.apply(x, ctx.depth - 1, ctx.text).sum().backward()
        return x.grad, None, None


@pytest.mark.row("C23", engine=(OUTSIDE, HOOKED))
@pytest.mark.parametrize("depth", [0, 1, 70])
def test_an_error_reaches_the_caller(mode: Mode, depth: int) -> None:
    def step(x: Any, y: Any) -> Any:
        loss = Fails.apply(x, depth, "from the depth").sum()
        with pytest.raises(LookupError, match=r"^from the depth$"):
            loss.backward()
        (y * y).sum().backward()  # the next one works
        return x.grad, y.grad.tolist(), jitgrad.is_grad_enabled()

    assert mode.run(step, _leaves([1.0], [3.0])) == (None, [6.0], True)


@pytest.mark.row("C23", engine=OUTSIDE)
def test_the_first_error_wins(mode: Mode) -> None:
    mode.states(no_launch=NOTHING_HELD)
    def step(x: Any) -> Any:
        early = Fails.apply(x, 0, "early").sum()
        late = Fails.apply(x, 0, "late").sum()  # made later, so it runs first
        with pytest.raises(LookupError, match="late"):
            (early + late).backward()
        return x.grad

    assert mode.run(step, _leaves([1.0])) is None


@pytest.mark.row("C23", engine=(OUTSIDE, HOOKED))
def test_an_error_leaves_the_rest_of_the_step_in_order(mode: Mode) -> None:
    def step(x: Any, y: Any) -> Any:
        kept = y * 2.0
        try:
            (Fails.apply(x, 1, "inside") * kept).sum().backward()
        except LookupError as error:
            text = str(error)
        after = kept * 3.0
        after.sum().backward()
        return text, after.tolist(), y.grad.tolist()

    assert mode.run(step, _leaves([1.0], [3.0])) == ("inside", [18.0], [6.0])


@pytest.mark.row("C23")
@pytest.mark.parametrize("depth", [0, 1, 70])
def test_an_error_is_freed_with_its_graph(mode: Mode, depth: int) -> None:
    """What the traceback leads to must not lead back to the error: the graph would live until the next collection."""
    mode.states(no_launch=NOTHING_HELD)
    mode.states(engine=(ARGUMENTS, HOOKED) if depth else ARGUMENTS)
    alive: list[weakref.ref[Any]] = []

    def step(x: Any) -> None:
        loss = Fails.apply(x, depth, "gone").sum()
        alive.append(weakref.ref(loss.grad_fn.next_functions[0][0]))
        try:
            loss.backward()
        except LookupError:
            return
        raise AssertionError("there was an error")

    gc.collect()
    gc.disable()
    try:
        mode.run(step, _leaves([1.0]))
        assert [r() for r in alive if r() is not None] == []
    finally:
        gc.enable()
