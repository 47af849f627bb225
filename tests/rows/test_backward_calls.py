"""``backward`` and ``grad``: arguments, which nodes run, what is captured, and the messages of their errors."""

from __future__ import annotations

from typing import Any

import pytest
from modes import ARGUMENTS, HOOKED, NOTHING_HELD, OUTSIDE, UNRECORDABLE, Mode
from watched import By, by_both

import jitgrad
from jitgrad import autograd, events, nn
from jitgrad.autograd import Function, engine
from jitgrad.config import config
from jitgrad.nn import functional as F
from jitgrad.runtime.engine.graph.current import current_graph_task


def _leaf(*values: float) -> Any:
    return jitgrad.tensor(list(values), requires_grad=True)


def _pair() -> tuple[Any, Any]:
    """The documents' example: x = [0.5, 0.75], y = [0.1, 0.9]."""
    return _leaf(0.5, 0.75), _leaf(0.1, 0.9)


# --- arguments ---


@pytest.mark.row("C1")
@pytest.mark.parametrize("options", [{}, {"retain_graph": True}, {"create_graph": True}], ids=str)
def test_method_and_function_give_the_same_grads(mode: Mode, options: dict[str, bool]) -> None:
    def step(x, y, weights):
        grads = []
        for call in (
            lambda z: z.backward(weights, **options),
            lambda z: autograd.backward(z, weights, **options),
            lambda z: autograd.backward([z], [weights], **options),
            lambda z: z.backward(gradient=weights, inputs=[x, y], **options),
            lambda z: autograd.backward((z,), grad_tensors=(weights,), inputs=(x, y), **options),
        ):
            x.grad = y.grad = None
            call(jitgrad.exp(x * y))
            grads.append((x.grad.detach(), y.grad.detach()))
        x.grad = y.grad = None
        return grads

    grads = mode.run(step, lambda: (*_pair(), jitgrad.tensor([1.0, 10.0])))
    for x_grad, y_grad in grads:
        assert x_grad.tolist() == pytest.approx([0.105127, 17.676296], rel=1e-5)
        assert y_grad.tolist() == pytest.approx([0.525636, 14.730246], rel=1e-5)


@pytest.mark.row("C1")
def test_the_old_name_of_the_gradients(mode: Mode) -> None:
    def step(x, y):
        z = x * y
        weights = jitgrad.tensor([1.0, 10.0])
        with pytest.warns(FutureWarning, match="`grad_variables` is deprecated"):
            autograd.backward([z], None, True, False, [weights])  # its place among the arguments, too
        first, x.grad = x.grad, None
        with pytest.warns(FutureWarning), pytest.raises(RuntimeError, match="`grad_tensors` and `grad_variables`"):
            autograd.backward([z], [weights], grad_variables=[weights])
        untouched = x.grad
        autograd.backward([z], [weights])
        return first, untouched, x.grad

    first, untouched, second = mode.run(step, _pair)
    assert untouched is None
    assert first.tolist() == second.tolist() == pytest.approx([0.1, 9.0])


@pytest.mark.row("C2")
def test_empty_inputs(mode: Mode) -> None:
    def step(x, y):
        z = (x * y).sum()
        messages = []
        for attempt in (
            lambda: z.backward(inputs=[]),
            lambda: autograd.backward([z], inputs=()),
            lambda: autograd.grad(z, []),
        ):
            with pytest.raises(RuntimeError, match="cannot be empty") as caught:
                attempt()
            messages.append(str(caught.value))
        z.backward()  # the graph is as it was
        return messages, x.grad

    messages, grad = mode.run(step, _pair)
    assert messages[:2] == ["`inputs` argument to `backward()` cannot be empty."] * 2
    assert messages[2] == "`inputs` argument to `grad()` cannot be empty."
    assert grad.tolist() == pytest.approx([0.1, 0.9])


@pytest.mark.row("C3")
def test_create_graph_alone_keeps_the_graph(mode: Mode) -> None:
    def step(w):
        cube = w**3
        (first,) = autograd.grad(cube, w, create_graph=True)
        (second,) = autograd.grad(first, w, retain_graph=True)
        (again,) = autograd.grad(cube, w)  # not freed by the call above
        return first.detach(), first.requires_grad, second, again

    first, requires_grad, second, again = mode.run(step, lambda: (_leaf(1.0),))
    assert first.tolist() == again.tolist() == [3]
    assert requires_grad
    assert second.tolist() == [6]


@pytest.mark.row("C3")
def test_create_graph_of_backward(mode: Mode) -> None:
    def step(w):
        (w**3).sum().backward(create_graph=True)
        gradient, w.grad = w.grad, None
        gradient.sum().backward()
        second, w.grad = w.grad, None
        return gradient.detach(), second

    gradient, second = mode.run(step, lambda: (_leaf(1.0),))
    assert gradient.tolist() == [3]
    assert second.tolist() == [6]


@pytest.mark.row("C4")
def test_gradients_that_do_not_fit(mode: Mode) -> None:
    def step(x, y):
        z = x * y
        messages = []
        for attempt in (
            lambda: autograd.backward([z, z], [jitgrad.ones(2)]),
            lambda: autograd.backward([z], [jitgrad.ones(2), jitgrad.ones(2)]),
            lambda: z.backward(jitgrad.ones(3)),
            lambda: autograd.grad(z, x, jitgrad.ones(2, 1)),
            lambda: autograd.backward([z.sum(), z], [None, jitgrad.ones(1)]),
            lambda: z.backward(),
        ):
            with pytest.raises(RuntimeError) as caught:
                attempt()
            messages.append(str(caught.value))
        with pytest.raises(TypeError, match="gradients can be either Tensors or None, but got int"):
            z.backward(1)
        untouched = x.grad is None and y.grad is None
        z.backward(jitgrad.ones(2))
        return messages, untouched, x.grad

    messages, untouched, grad = mode.run(step, _pair)
    assert messages[0] == "got 2 tensors and 1 gradients"
    assert messages[1] == "got 1 tensors and 2 gradients"
    assert messages[2].startswith("Mismatch in shape: grad_output[0] has a shape of ")
    assert "torch.Size([3])" in messages[2]
    assert messages[3].startswith("Mismatch in shape: grad_output[0]")
    assert messages[4].startswith("Mismatch in shape: grad_output[1]")
    assert messages[5] == "grad can be implicitly created only for scalar outputs"
    assert untouched
    assert grad.tolist() == pytest.approx([0.1, 0.9])


@pytest.mark.row("C5", "B27")
def test_backward_into_a_subset(mode: Mode) -> None:
    def step(x, y):
        z = jitgrad.exp(x * y).sum()
        autograd.backward([z], inputs=[x])
        return x.grad, y.grad

    x_grad, y_grad = mode.run(step, _pair)
    assert [round(g, 4) for g in x_grad.tolist()] == [0.1051, 1.7676]
    assert y_grad is None


@pytest.mark.row("C6")
def test_grad_returns_a_tuple_and_leaves_grad_alone(mode: Mode) -> None:
    def step(x, y):
        x.grad = jitgrad.tensor([7.0, 7.0])
        z = jitgrad.exp(x * y).sum()
        grads = autograd.grad([z], [x, y])
        return grads, x.grad, y.grad

    grads, x_grad, y_grad = mode.run(step, _pair)
    assert type(grads) is tuple
    assert [round(g, 4) for g in grads[0].tolist()] == [0.1051, 1.7676]
    assert x_grad.tolist() == [7, 7]
    assert y_grad is None


@pytest.mark.row("C6", engine=(UNRECORDABLE, ARGUMENTS))
def test_unused_inputs(mode: Mode) -> None:
    def step(x, unused):
        z = (x * 2).sum()
        with pytest.raises(RuntimeError, match=r"appears to not have been used in the graph\. Set allow_unused=True"):
            autograd.grad(z, [x, unused], retain_graph=True)
        allowed = autograd.grad(z, [x, unused], allow_unused=True, retain_graph=True)
        zeros = autograd.grad(z, [x, unused], materialize_grads=True, retain_graph=True)
        z.backward(inputs=[x, unused])  # backward allows what it cannot reach
        return allowed, zeros, x.grad, unused.grad

    allowed, zeros, x_grad, unused_grad = mode.run(step, lambda: (_leaf(1.0), _leaf(1.0, 1.0)))
    assert allowed[0].tolist() == [2]
    assert allowed[1] is None
    assert zeros[1].tolist() == [0, 0]
    assert x_grad.tolist() == [2]
    assert unused_grad is None


@pytest.mark.row("C11")
def test_a_root_outside_every_graph(mode: Mode) -> None:
    def step(x, plain):
        messages = []
        for attempt in (
            lambda: (plain * 2).sum().backward(),
            lambda: autograd.grad((plain * 2).sum(), x),
            lambda: autograd.backward([(x * 2).sum(), (plain * 2).sum()]),
            lambda: plain.sum().detach().backward(),
        ):
            with pytest.raises(RuntimeError) as caught:
                attempt()
            messages.append(str(caught.value))
        untouched = x.grad is None
        (x * plain).sum().backward()
        return messages, untouched, x.grad

    messages, untouched, grad = mode.run(step, lambda: (_leaf(1.0), jitgrad.tensor([3.0])))
    text = "element {} of tensors does not require grad and does not have a grad_fn"
    assert messages == [text.format(i) for i in (0, 0, 1, 0)]
    assert untouched
    assert grad.tolist() == [3]


@pytest.mark.row("D4")
def test_requires_grad_marks_a_leaf(mode: Mode) -> None:
    def step(x):
        before = x.requires_grad
        same = x.requires_grad_()
        (x * x).sum().backward()
        made = jitgrad.ones(2).requires_grad_()
        (made * 3).sum().backward()
        refused = []
        for dtype in (jitgrad.int64, jitgrad.int32, jitgrad.bool):
            with pytest.raises(RuntimeError) as caught:
                jitgrad.ones(2, dtype=dtype).requires_grad_()
            refused.append(str(caught.value))
        with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
            (x * 2).requires_grad_(False)
        grad, x.grad = x.grad, None
        x.requires_grad_(False)
        return before, same is x, x.is_leaf, grad, made.grad, refused, (x * 2).requires_grad

    before, is_same, is_leaf, grad, made_grad, refused, after = mode.run(step, lambda: (jitgrad.tensor([1.0, 2.0]),))
    assert not before
    assert is_same
    assert is_leaf
    assert grad.tolist() == [2, 4]
    assert made_grad.tolist() == [3, 3]
    assert refused == ["only Tensors of floating point dtype can require gradients"] * 3
    assert not after


# --- which nodes run ---


@pytest.mark.row("B13", engine=UNRECORDABLE)
def test_keep_graph(mode: Mode) -> None:
    def step(x):
        loss = (x.exp() * x).sum()
        loss.backward(retain_graph=True)
        once = x.grad.clone()
        loss.backward()  # the last time
        twice = x.grad.clone()
        with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
            loss.backward()
        return once, twice, x.grad

    once, twice, after = mode.run(step, lambda: (_leaf(0.5, -1.0),))
    assert twice.tolist() == [2 * g for g in once.tolist()]
    assert after.tolist() == twice.tolist()


@pytest.mark.row("B13", engine=UNRECORDABLE)
def test_keep_graph_of_grad(mode: Mode) -> None:
    def step(x):
        out = x.exp()
        kept = [autograd.grad(out, x, jitgrad.ones(1), retain_graph=True)[0] for _ in range(3)]
        (last,) = autograd.grad(out, x, jitgrad.ones(1))
        with pytest.raises(RuntimeError, match="second time"):
            autograd.grad(out, x, jitgrad.ones(1))
        return [*kept, last]

    assert [g.item() for g in mode.run(step, lambda: (_leaf(0.0),))] == [1, 1, 1, 1]


@pytest.mark.row("B25", engine=ARGUMENTS)
def test_plain_backward_runs_every_reachable_node(mode: Mode) -> None:
    def step(x, y):
        loss = (x * y).exp().sum() + y.sin().sum()
        with engine.trace() as trace:
            tasks = []
            loss.grad_fn.register_prehook(lambda grads: tasks.append(dict(current_graph_task().exec_info)))
            loss.backward()
        return sorted(trace.names("exec")), tasks, trace.names("skip")

    executed, tasks, skipped = mode.run(step, _pair)
    assert executed == sorted(
        ["AddBackward0", "SumBackward0", "SumBackward0", "ExpBackward0", "SinBackward0", "MulBackward0"]
        + ["torch::autograd::AccumulateGrad"] * 2
    )
    assert tasks == [{}]
    assert skipped == []


@pytest.mark.row("B26", engine=HOOKED)
@pytest.mark.parametrize("call", ["grad", "backward"])
def test_only_nodes_on_the_way_to_an_input_run(mode: Mode, call: str) -> None:
    if call == "grad":
        mode.states(no_launch=NOTHING_HELD)
    def step(x, y):
        fired = []
        wanted, other = x.exp(), y.sin()
        other.register_hook(lambda g: fired.append("other"))
        wanted.register_hook(lambda g: fired.append("wanted"))
        loss = (wanted * 2).sum() + (other * 3).sum()
        with engine.trace() as trace:
            if call == "grad":
                autograd.grad(loss, x)
            else:
                loss.backward(inputs=[x])
        return fired, trace.names("exec"), x.grad is None, y.grad is None

    fired, executed, x_is_none, y_is_none = mode.run(step, _pair)
    assert fired == ["wanted"]
    ends = [] if call == "grad" else ["torch::autograd::AccumulateGrad"]
    assert executed == ["AddBackward0", "SumBackward0", "MulBackward0", "ExpBackward0", *ends]
    assert x_is_none == (call == "grad")
    assert y_is_none


@pytest.mark.row("B27")
@by_both
def test_a_captured_node_does_not_run(mode: Mode, by: By) -> None:
    if by.name == "engine":
        mode.states(engine=ARGUMENTS)

    def step(x):
        h = x.exp()
        loss = (h * 3).sum()
        with engine.trace() as captured:
            (to_leaf,) = autograd.grad(loss, x, retain_graph=True)
        with engine.trace() as inner:
            (to_inner,) = autograd.grad(loss, h, retain_graph=True)
        before = x.grad
        with engine.trace() as accumulated:
            loss.backward(inputs=[x])
        return to_leaf, to_inner, before, x.grad, (captured, inner, accumulated)

    to_leaf, to_inner, before, after, traces = mode.run(step, lambda: (by.leaf(0.0),))
    assert to_leaf.item() == 3
    assert to_inner.item() == 3
    assert before is None
    assert after.item() == 3
    if by.is_repeated(mode, *traces):
        return
    runs = [trace.names("exec") for trace in traces]
    assert runs[0] == ["SumBackward0", "MulBackward0", "ExpBackward0"]
    assert runs[1] == ["SumBackward0", "MulBackward0"]
    assert runs[2] == ["SumBackward0", "MulBackward0", "ExpBackward0", "torch::autograd::AccumulateGrad"]


@pytest.mark.row("B28", engine=ARGUMENTS)
def test_a_deep_chain(mode: Mode) -> None:
    """100,000 nodes: which of them are to run is found without recursion."""
    x, y = _leaf(1.0), _leaf(1.0)
    total = _deep(x) + y * 3

    def step():
        return [g.item() for g in autograd.grad(total, [y], retain_graph=True)]  # all are looked at, few run

    assert mode.run(step) == [3]


def _deep(x: Any) -> Any:
    for _ in range(100_000):
        x = -x
    return x


def _gradients_of_a_deep_chain(x: Any, y: Any) -> Any:
    return autograd.grad(_deep(x) + y * 3, [x, y])


@pytest.fixture(scope="module")
def deep_step() -> Any:
    """The step, compiled, and what its first call returned; to record 100,000 operations takes a while."""
    limit, config.max_new_values = config.max_new_values, 1 << 20  # record it whole, at the first call
    try:
        function = jitgrad.compile(_gradients_of_a_deep_chain)
        return function, function(_leaf(1.0), _leaf(1.0))
    finally:
        config.max_new_values = limit


@pytest.mark.row("B28")
def test_a_deep_chain_of_the_step_s_own(mode: Mode, request: pytest.FixtureRequest) -> None:
    """100,000 nodes made by the step: the engine runs over all of them, then the step repeats what it recorded."""
    if mode.is_compiled:
        function, grads = request.getfixturevalue("deep_step")
        if mode.name == "warm":
            with events.count("misses") as misses, events.count("fallbacks") as fallbacks:
                grads = function(_leaf(1.0), _leaf(1.0))
            assert (misses(), fallbacks()) == (0, 0)
    else:
        grads = _gradients_of_a_deep_chain(_leaf(1.0), _leaf(1.0))
    assert [g.item() for g in grads] == [1, 3]


@pytest.mark.row("B29")
def test_two_outputs_on_one_path(mode: Mode) -> None:
    def step(x):
        h = 2 * x
        return autograd.grad(3 * h, [h, x])

    to_h, to_x = mode.run(step, lambda: (jitgrad.tensor(5.0, requires_grad=True),))
    assert (to_h.item(), to_x.item()) == (3, 6)


@pytest.mark.row("B30", engine=ARGUMENTS)
def test_nodes_older_than_every_input_are_not_looked_at(mode: Mode) -> None:
    def step(x):
        old = (x * 2).exp()
        h = old.sin()
        loss = h.cos().sum()
        seen = []

        def look(grads):
            info = current_graph_task().exec_info
            seen.append(sorted(node.name() for node in info))
            seen.append(sorted(node.name() for node, entry in info.items() if entry.needed))
            seen.append(sorted(node.name() for node in current_graph_task().dependencies))

        loss.grad_fn.register_prehook(look)
        autograd.grad(loss, h)
        return seen, h.grad_fn.topological_nr > old.grad_fn.topological_nr

    seen, is_above = mode.run(step, lambda: (_leaf(1.0),))
    # an edge leads to the node below the input, which is counted and not looked behind
    below = ["CosBackward0", "ExpBackward0", "SinBackward0"]
    assert seen == [["CosBackward0", "SinBackward0", "SumBackward0"], ["CosBackward0", "SumBackward0"], below]
    assert is_above


@pytest.mark.row("B31")
def test_results_follow_the_order_of_inputs(mode: Mode) -> None:
    def step(x, y):
        h = x * y
        loss = (h * h).sum()
        orders = ([x, y, h], [h, y, x], [y, x, y], [h, h])
        return [[g.tolist() for g in autograd.grad(loss, order, retain_graph=True)] for order in orders]

    results = mode.run(step, lambda: (_leaf(2.0), _leaf(5.0)))
    assert results == [[[100], [40], [20]], [[20], [40], [100]], [[40], [100], [40]], [[20], [20]]]


@pytest.mark.row("B31")
def test_the_second_output_of_a_node_is_captured(mode: Mode) -> None:
    def step(x):
        a, b = (x * 1).chunk(2)
        grads = autograd.grad((a * 2 + b * 3).sum(), [b, a])
        return [g.tolist() for g in grads]

    assert mode.run(step, lambda: (_leaf(1.0, 2.0),)) == [[3.0], [2.0]]


# --- graphs of every iteration ---


@pytest.mark.row("E1")
def test_a_branch_that_alternates(mode: Mode) -> None:
    def step(w, flag):
        loss = (w * 2).exp().sum() if flag else (w * w).sum()
        loss.backward()
        grad, w.grad = w.grad, None
        return grad

    run = mode.wrap(step)
    jitgrad.reset_stats()
    grads = []
    w = _leaf(0.0, 1.0)
    for call in range(6):
        if call == 2:
            compiled_before = jitgrad.stats()
        grads.append(run(w, call % 2 == 0).tolist())
    for call, grad in enumerate(grads):
        assert grad == pytest.approx([2, 2 * 7.389056] if call % 2 == 0 else [0, 2])
    stats = jitgrad.stats()
    if mode.is_compiled:
        assert stats["plans"] == 2
        assert stats["compiles"] == compiled_before["compiles"]
        assert stats["misses"] == compiled_before["misses"]
    else:
        assert stats["plans"] == stats["traces"] == 0


@pytest.mark.row("E4")
def test_a_layer_used_twice(mode: Mode) -> None:
    """The weight's gradient is the sum of those of its uses: w(wx + b) + b."""

    def step(layer, x):
        layer(layer(x)).sum().backward()
        return layer.weight.grad, layer.bias.grad, x.grad

    def make():
        layer = nn.Linear(1, 1)
        with jitgrad.no_grad():
            layer.weight.fill_(3.0)
            layer.bias.fill_(0.5)
        return layer, jitgrad.full((1, 1), 2.0, requires_grad=True)

    weight, bias, x = mode.run(step, make)
    assert weight.tolist() == [[3 * 2 + (3 * 2 + 0.5)]]
    assert bias.tolist() == [3 + 1]
    assert x.tolist() == [[9]]


class Linear(Function):
    """The documents' ``LinearFunction``."""

    @staticmethod
    def forward(ctx: Any, input: Any, weight: Any, bias: Any) -> Any:
        ctx.save_for_backward(input, weight)
        return input @ weight.t() + bias

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> tuple[Any, ...]:
        input, weight = ctx.saved_tensors
        return grad_output @ weight, grad_output.t() @ input, grad_output.sum(0)


@pytest.mark.row("E5")
@pytest.mark.parametrize("is_built_in", [False, True], ids=["custom", "built-in"])
def test_linear_backward_is_ordered_input_weight_bias(mode: Mode, is_built_in: bool) -> None:
    """The built-in operation is PyTorch's ``AddmmBackward0``, whose bias comes first (so its hooks run first); and it
    leaves it to the engine to undo the broadcast of the bias."""
    mode.states(engine=HOOKED if is_built_in else OUTSIDE)

    def step(x, weight, bias):
        out = (F.linear if is_built_in else Linear.apply)(x, weight, bias)
        seen = []
        out.grad_fn.register_hook(lambda grad_inputs, grad_outputs: seen.extend(g.tolist() for g in grad_inputs))
        out.sum().backward()
        targets = [node.variable for node, _ in out.grad_fn.next_functions]
        order = (bias, x, weight) if is_built_in else (x, weight, bias)
        return seen, [t is u for t, u in zip(targets, order, strict=True)], weight.grad, bias.grad

    def make():
        x = jitgrad.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
        weight = jitgrad.tensor([[1.0, 0.0, 2.0]], requires_grad=True)
        return x, weight, jitgrad.tensor([7.0], requires_grad=True)

    grads, are_in_order, weight, bias = mode.run(step, make)
    inputs = [[[1, 0, 2], [1, 0, 2]], [[5, 7, 9]]]
    assert grads == ([[[1], [1]], *inputs] if is_built_in else [*inputs, [2]])
    assert are_in_order == [True] * 3
    assert weight.tolist() == [[5, 7, 9]]
    assert bias.tolist() == [2]
