"""``autograd.Function`` against PyTorch: the same programs, misuses included, and what only the Node shows."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from modes import Mode
from parity import J as _J
from parity import assert_same, const, leaf, plain, same, torch

import jitgrad
from jitgrad.autograd import Function, gradcheck, gradgradcheck
from jitgrad.autograd.function import InplaceFunction

Program = Callable[[Any], Any]


def function(lib: Any, forward: Any, backward: Any = lambda ctx, g: g, **attributes: Any) -> Any:
    """A Function class of a library."""
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward), **attributes}
    return type("F", (lib.autograd.Function,), body)


def outcome(program: Program, lib: Any) -> Any:
    """What a program returns, or the type and text of its exception."""
    lib.autograd.set_grad_enabled(True)
    try:
        return plain(program(lib))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _saves(*picks: str) -> Any:
    """A forward that computes ``exp(2 x)`` and saves some of what it has seen."""

    def forward(ctx: Any, x: Any) -> Any:
        middle = x * 2
        out = middle.exp()
        ctx.save_for_backward(*({"x": x, "middle": middle, "out": out, "none": None}[p] for p in picks))
        return out

    return forward


def _declares(**declarations: Any) -> Any:
    """A forward with an unusual declaration; what it returns is chosen by ``returns``."""

    def forward(ctx: Any, x: Any) -> Any:
        y = x * 2
        names = {"x": x, "y": y, "3": 3, "pair": (x, y)}
        for name in ("save_for_backward", "mark_dirty", "mark_non_differentiable", "save_for_forward"):
            if name in declarations:
                getattr(ctx, name)(*(names[d] for d in declarations[name]))
        if declarations.get("writes"):
            x.mul_(2)
        return tuple(names[r] for r in declarations["returns"]) if "returns" in declarations else y

    return forward


def _once(lib: Any, backward: Any) -> Any:
    return lib.autograd.function.once_differentiable(backward)


def _backward_returns(make: Any, forward: Any = lambda ctx, x: x * 2) -> Program:
    return lambda lib: function(lib, forward, lambda ctx, g: make(lib, g)).apply(leaf(lib, [1.0, 2.0])).sum().backward()


def _two_inputs(make: Any) -> Program:
    def program(lib: Any) -> Any:
        fn = function(lib, lambda ctx, x, y: x * 2, lambda ctx, g: make(lib, g))
        return fn.apply(leaf(lib, [1.0, 2.0]), 3.0).sum().backward()

    return program


def _applied(forward: Any, **attributes: Any) -> Program:
    return lambda lib: function(lib, forward, **attributes).apply(leaf(lib, [1.0, 2.0]) * 1)


def _second_backward(forward: Any, backward: Any) -> Program:
    def program(lib: Any) -> Any:
        y = function(lib, forward, backward).apply(leaf(lib, [1.0, 2.0]))
        y.sum().backward(retain_graph=False)
        return y.sum().backward()

    return program


def _written_later(which: str) -> Program:
    def program(lib: Any) -> Any:
        x = leaf(lib, [1.0, 2.0]) * 1
        y = function(lib, _saves(which), lambda ctx, g: g * ctx.saved_tensors[0]).apply(x)
        loss = y.sum()
        (x if which == "x" else y).add_(1)
        loss.backward()

    return program


def _differentiated_twice(lib: Any) -> Any:
    x, seed = leaf(lib, [1.0, 2.0]), leaf(lib, [1.0, 1.0])
    y = function(lib, _saves("out"), _once(lib, lambda ctx, g: g * ctx.saved_tensors[0])).apply(x)
    (g,) = lib.autograd.grad(y, x, seed, create_graph=True)
    g.sum().backward()


def _written_output(forward: Any, write: Callable[[Any, Any], None]) -> Program:
    def program(lib: Any) -> Any:
        x = leaf(lib, [1.0, 2.0]) * 1
        write(x, function(lib, forward).apply(x))

    return program


def _setup_saves_returned_input(lib: Any) -> Any:
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    return function(lib, lambda x: x, setup_context=staticmethod(setup_context)).apply(leaf(lib, [1.0]))


def _vjp_and_backward(lib: Any) -> Any:
    function(lib, lambda ctx, x: x * 2, vjp=staticmethod(lambda ctx, g: g)).apply(leaf(lib, [1.0])).sum().backward()


def _reads_saved_twice(lib: Any) -> Any:
    fn = function(lib, _saves("x"), clear_saved_tensors_on_access=True)
    node = fn.apply(leaf(lib, [1.0])).grad_fn
    return node.saved_tensors, node.saved_tensors


MISUSES: dict[str, Program] = {
    "no forward": lambda lib: type("F", (lib.autograd.Function,), {}).apply(leaf(lib, [1.0])),
    "no backward": lambda lib: type("F", (lib.autograd.Function,), {"forward": staticmethod(lambda ctx, x: x * 2)})
    .apply(leaf(lib, [1.0]))
    .sum()
    .backward(),
    "backward and vjp": _vjp_and_backward,
    "called": lambda lib: lib.autograd.Function.__call__(None, 3),
    "too many gradients": _backward_returns(lambda lib, g: (g, g)),
    "too few gradients": _two_inputs(lambda lib, g: (g,)),
    "a gradient for a number": _two_inputs(lambda lib, g: (g, g)),
    "a number as gradient": _backward_returns(lambda lib, g: 3.0),
    "a list of gradients": _backward_returns(lambda lib, g: [g]),
    "a gradient of another shape": _backward_returns(lambda lib, g: lib.ones(3)),
    "a gradient too small": _backward_returns(lambda lib, g: lib.ones(1)),
    "saved number": _applied(_declares(save_for_backward=("x", "3"))),
    "saved tuple": _applied(_declares(save_for_backward=("pair",))),
    "saved for jvp: a number": _applied(_declares(save_for_forward=("3",))),
    "dirty, not returned": _applied(_declares(mark_dirty=("x",), writes=True)),
    "dirty leaf": lambda lib: function(lib, _declares(mark_dirty=("x",), returns=("x",))).apply(leaf(lib, [1.0])),
    "dirty view of a leaf": lambda lib: function(lib, _declares(mark_dirty=("x",), returns=("x",), writes=True)).apply(
        leaf(lib, [1.0, 2.0])[:1]
    ),
    "dirty view, two outputs": lambda lib: function(
        lib, _declares(mark_dirty=("x",), returns=("x", "y"), writes=True)
    ).apply((leaf(lib, [1.0, 2.0]) * 1)[:1]),
    "graph freed": _second_backward(_saves("out"), lambda ctx, g: g * ctx.saved_tensors[0]),
    "graph freed, nothing saved": _second_backward(_saves(), lambda ctx, g: (ctx.saved_tensors, g)[1]),
    "differentiated twice": _differentiated_twice,
    "saved for setup_context and returned": _setup_saves_returned_input,
    "saved tensors read twice": _reads_saved_twice,
    "boxed gradients returned": lambda lib: function(lib, lambda ctx, x: x * 2, boxed_grads_call=True)
    .apply(leaf(lib, [1.0]))
    .sum()
    .backward(),
    "returned input is written": _written_output(lambda ctx, x: x, lambda x, y: y.add_(1)),
    "source of a returned input is written": _written_output(lambda ctx, x: x, lambda x, y: (x.add_(1), y.grad_fn)),
    "returned view is written": _written_output(lambda ctx, x: x.view(2, 1), lambda x, y: y.add_(1)),
    "one of two returned views is written": _written_output(lambda ctx, x: (x, x), lambda x, y: y[0].add_(1)),
}


@pytest.mark.parametrize("name", MISUSES)
def test_misuse_is_refused_in_pytorch_s_words(name: str) -> None:
    expected, got = outcome(MISUSES[name], torch), outcome(MISUSES[name], _J)
    assert isinstance(expected, str), f"PyTorch accepts it: {expected}"
    assert got == expected


@pytest.mark.parametrize("which", ["x", "out"])
def test_overwritten_saved_tensor(which: str) -> None:
    expected, got = outcome(_written_later(which), torch), outcome(_written_later(which), _J)
    assert got.replace("jitgrad.", "torch.").split("[")[0] == expected.split("[")[0]
    assert "is at version 1; expected version 0 instead" in got


@pytest.mark.parametrize("declaration", ["mark_dirty", "mark_non_differentiable"])
def test_declared_what_is_no_tensor(declaration: str) -> None:
    program = _applied(_declares(**{declaration: ("3",)}))
    # PyTorch's text ends in a type name that it prints as nothing
    expected = outcome(program, torch)
    assert expected.startswith("RuntimeError: mark_")
    assert outcome(program, _J).startswith(expected)


def _class_attributes(lib: Any) -> Any:
    class Scale(lib.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, k: float, name: str) -> Any:
            ctx.k, ctx.name = k, name
            ctx.save_for_backward(x, None)
            return x * k

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.k, None, None, None  # superfluous None is fine

    x = leaf(lib, [1.0, 2.0])
    y = Scale.apply(x, 3.0, "mine")
    node = y.grad_fn
    seen = [
        type(node).__name__,
        node.k,
        node.name,
        repr(node).split(" object")[0].split(".")[-1].strip("<"),
        node.needs_input_grad,
        node.metadata,
        node.saved_tensors[0] is x,
        node.saved_tensors[1],
        len(node.next_functions),
        node.next_functions[0][1],
        Scale._backward_cls._forward_cls is Scale,
        node.requires_grad,
        plain(node.apply(const(lib, [1.0, 1.0]))[0]),
    ]
    y.sum().backward()
    return [*seen, x.grad]


def _keyword_arguments(lib: Any) -> Any:
    fn = function(lib, lambda ctx, x, y=2.0: x * y, lambda ctx, g: (g, g * 2))
    x, y = leaf(lib, [1.0]), leaf(lib, [3.0])
    out = fn.apply(x, y=y)
    out.sum().backward()
    return x.grad, y.grad, out.grad_fn.needs_input_grad


def _setup_context(lib: Any) -> Any:
    seen: list[Any] = []

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, k = inputs
        seen.extend([k, output.requires_grad, lib.is_grad_enabled()])
        ctx.k = k
        ctx.save_for_backward(x, output)

    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * ctx.k * y / x, None

    fn = function(lib, lambda x, k=3.0: x**k, backward, setup_context=staticmethod(setup_context))
    x = leaf(lib, [1.0, 2.0])
    (g,) = lib.autograd.grad(fn.apply(x).sum(), x, create_graph=True)
    g.sum().backward()
    return seen, g, x.grad, fn.apply(x, k=2.0)


def _outputs_of_all_kinds(lib: Any) -> Any:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        counts = lib.ones(2, dtype=lib.int64)
        extra = x * 5
        ctx.mark_non_differentiable(extra)
        return x * 2, "text", None, counts, extra

    def backward(ctx: Any, *grads: Any) -> Any:
        seen.extend(grads)
        return grads[0] * 2

    outs = function(lib, forward, backward).apply(leaf(lib, [1.0, 2.0]))
    outs[0].sum().backward()
    return seen, outs[1:3], [x.requires_grad for x in (outs[0], outs[3], outs[4])], outs[4].grad_fn


def _undefined_gradients(lib: Any) -> Any:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any, materialize: bool) -> Any:
        ctx.set_materialize_grads(materialize)
        return x * 1, x * 2

    def backward(ctx: Any, first: Any, second: Any) -> Any:
        seen.append((first, second))
        return second, None

    fn = function(lib, forward, backward)
    for materialize in (True, False):
        fn.apply(leaf(lib, [1.0, 2.0]), materialize)[1].sum().backward()
    return seen


def _returned_inputs(lib: Any) -> Any:
    x, free = leaf(lib, [1.0, 2.0]), const(lib, [1.0, 2.0])
    fn = function(lib, lambda ctx, x: x, lambda ctx, g: g * 3)
    y, z = fn.apply(x), fn.apply(free)
    with lib.no_grad():
        w = fn.apply(x)
    y.sum().backward()
    facts = [y is x, y._is_view(), y._base is x, z is free, z._is_view(), z.requires_grad, w.requires_grad, w is x]
    return facts, x.grad, y.grad_fn.next_functions[0][1]


def _one_output_twice(lib: Any) -> Any:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        y = x * 2
        return y, y

    def backward(ctx: Any, a: Any, b: Any) -> Any:
        seen.append((a, b))
        return a + b * 2

    x = leaf(lib, [1.0])
    a, b = function(lib, forward, backward).apply(x)
    (a + b * 10).sum().backward()
    return a is b, a.output_nr, seen, x.grad


def _saved_of_all_kinds(lib: Any) -> Any:
    x = leaf(lib, [0.5, 1.0]) * 1
    y = function(lib, _saves("x", "middle", "out", "none")).apply(x)
    saved = y.grad_fn.saved_tensors
    histories = [saved[0].grad_fn is x.grad_fn, saved[1].requires_grad, saved[2].grad_fn is y.grad_fn]
    return histories, saved[2] is y, saved[3], saved[:3]


def _double_backward(picks: str) -> Program:
    """The derivative of exp(2x) from its input or from its output; differentiated twice."""

    def program(lib: Any) -> Any:
        def backward(ctx: Any, g: Any) -> Any:
            (saved,) = ctx.saved_tensors
            return g * 2 * ((saved * 2).exp() if picks == "x" else saved)

        x = leaf(lib, [0.1, 0.2])
        y = function(lib, _saves(picks), backward).apply(x)
        (first,) = lib.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = lib.autograd.grad(first.sum(), x, create_graph=True)
        (third,) = lib.autograd.grad(second.sum(), x)
        return first, second, third

    return program


def _writes(lib: Any) -> Any:
    """In place: on a tensor, on a view, and used for the second derivative."""

    def forward(ctx: Any, x: Any) -> Any:
        x.exp_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    fn = function(lib, forward, lambda ctx, g: g * ctx.saved_tensors[0])
    results = []
    for pick in (lambda t: t, lambda t: t[:2], lambda t: t[1:3].view(2, 1)):
        z = leaf(lib, [0.1, 0.2, 0.3])
        base = z * 1
        view = pick(base)
        out = fn.apply(view)
        (g,) = lib.autograd.grad((base * base).sum(), z, create_graph=True)
        (h,) = lib.autograd.grad(g.sum(), z)
        results += [out is view, view._version, out._is_view(), base, g, h]
    return results


def _dirty_without_gradient(lib: Any) -> Any:
    x = const(lib, [1.0, 2.0])
    (out,) = function(lib, _declares(mark_dirty=("x",), returns=("x",), writes=True)).apply(x)
    return out is x, x, x._version, out.requires_grad


def _foreign_leaf(lib: Any) -> Any:
    inner = leaf(lib, [5.0])
    x = leaf(lib, [1.0])
    y = function(lib, lambda ctx, x: inner, lambda ctx, g: g * 7).apply(x)
    y.sum().backward()
    return y is inner, inner.is_leaf, x.grad


def _gradients_are_cast_and_summed(lib: Any) -> Any:
    results = []
    for make in (lambda: lib.ones(2), lambda: lib.ones(5, 2), lambda: lib.ones(2, dtype=lib.int64), lambda: None):
        x = leaf(lib, [1.0, 2.0])
        function(lib, lambda ctx, x: x * 2, lambda ctx, g, make=make: make()).apply(x).sum().backward()
        results.append(x.grad)
    return results


def _hooks(lib: Any) -> Any:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        ctx.register_hook(lambda grad_inputs, grad_outputs: seen.append(("forward's", *grad_inputs, *grad_outputs)))
        return x * 2

    x = leaf(lib, [1.0])
    y = function(lib, forward, lambda ctx, g: g * 2).apply(x)
    y.register_hook(lambda g: seen.append(("tensor", g)))
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 10,))
    y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: (grad_inputs[0] + 1,))
    y.sum().backward()
    return seen, x.grad


def _errors_leave_nothing_behind(lib: Any) -> Any:
    def fails(ctx: Any, *args: Any) -> Any:
        raise ZeroDivisionError("no")

    x = leaf(lib, [1.0])
    results = []
    for fn in (function(lib, fails), function(lib, lambda ctx, x: x * 2, fails)):
        try:
            fn.apply(x).sum().backward()
        except ZeroDivisionError as error:
            results.append(str(error))
        results.append(lib.is_grad_enabled())
    return results, x.grad


def _boxed(lib: Any) -> Any:
    seen: list[Any] = []

    def backward(ctx: Any, grads: Any) -> Any:
        seen.append(type(grads).__name__)
        return grads.pop() * 2

    x = leaf(lib, [1.0])
    function(lib, lambda ctx, x: x * 2, backward, boxed_grads_call=True).apply(x).sum().backward()
    return seen, x.grad


def _no_graph(lib: Any) -> Any:
    x = leaf(lib, [1.0])
    kept: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        kept.append(ctx)
        ctx.save_for_backward(x)
        return x * 2

    fn = function(lib, forward)
    with lib.no_grad():
        y = fn.apply(x)
    z = fn.apply(3.0 if lib is None else const(lib, [1.0]))
    in_list = function(lib, lambda ctx, xs: xs[0] * 2).apply([x])
    return (
        [y.requires_grad, z.requires_grad, in_list.requires_grad],
        [(ctx.needs_input_grad, ctx.saved_tensors, ctx.to_save) for ctx in kept],
    )


BEHAVIOURS: dict[str, Program] = {
    "attributes of the node": _class_attributes,
    "keyword arguments": _keyword_arguments,
    "setup_context": _setup_context,
    "outputs of all kinds": _outputs_of_all_kinds,
    "undefined gradients": _undefined_gradients,
    "returned inputs": _returned_inputs,
    "one output twice": _one_output_twice,
    "saved of all kinds": _saved_of_all_kinds,
    "double backward from the input": _double_backward("x"),
    "double backward from the output": _double_backward("out"),
    "writes in place": _writes,
    "dirty without gradient": _dirty_without_gradient,
    "foreign leaf": _foreign_leaf,
    "gradients are cast and summed": _gradients_are_cast_and_summed,
    "hooks": _hooks,
    "errors leave nothing behind": _errors_leave_nothing_behind,
    "boxed gradients": _boxed,
    "no graph": _no_graph,
    "second backward without saved tensors": lambda lib: _second_backward(_saves(), lambda ctx, g: g)(lib),
}


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_same_as_pytorch(name: str) -> None:
    same(BEHAVIOURS[name])


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_same_in_a_compiled_step(name: str, mode: Mode) -> None:
    torch.set_grad_enabled(True)
    expected = plain(BEHAVIOURS[name](torch))
    assert_same(plain(mode.run(lambda: BEHAVIOURS[name](_J), is_steady=False)), expected)


@pytest.mark.parametrize("name", MISUSES)
def test_misuse_in_a_compiled_step(name: str, mode: Mode) -> None:
    assert mode.run(lambda: outcome(MISUSES[name], _J), is_steady=False) == outcome(MISUSES[name], torch)


WARNINGS: dict[str, tuple[Program, type[Warning]]] = {
    "an instance": (lambda lib: type("F", (lib.autograd.Function,), {})(), DeprecationWarning),
    "dirty, no input": (
        _applied(lambda ctx, x: (y := x * 2, ctx.mark_dirty(y))[0]),
        UserWarning,
    ),
    "shared storage": (
        _applied(lambda ctx, x: (x * 2, ctx.mark_shared_storage())[0]),
        FutureWarning,
    ),
    "saved_variables": (lambda lib: _applied(lambda ctx, x: x * 2)(lib).grad_fn.saved_variables, DeprecationWarning),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings(name: str) -> None:
    program, category = WARNINGS[name]
    with pytest.warns(category) as expected:
        program(torch)
    with pytest.warns(category) as got:
        program(_J)
    text = str(expected[0].message).split(" (Triggered")[0]
    assert str(got[0].message).replace("__main__.", "") == text
    assert got[0].filename == __file__ or name in ("dirty, no input", "saved_variables", "shared storage")


def _exp_from_output(ctx: Any, g: Any) -> Any:
    return g * 2 * ctx.saved_tensors[0]


def _write_in_place(ctx: Any, x: Any) -> Any:
    x.exp_()
    ctx.mark_dirty(x)
    ctx.save_for_backward(x)
    return x


FREED: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "inputs, intermediates and outputs": (_saves("x", "middle", "out"), lambda x: x * 1),
    "a leaf": (_saves("x"), lambda x: x),
    "an output written in place": (_write_in_place, lambda x: x * 1),
    "a view written in place": (_write_in_place, lambda x: (x * 1)[:1]),
    "an input returned": (lambda ctx, x: (ctx.save_for_backward(x), x)[1], lambda x: x * 1),
    "a view of an input": (lambda ctx, x: (y := x.view(2), ctx.save_for_backward(y))[0], lambda x: x * 1),
}


@pytest.mark.parametrize("name", FREED)
@pytest.mark.parametrize("runs_backward", [False, True])
def test_no_reference_cycles(mode: Mode, name: str, runs_backward: bool) -> None:
    forward, prepare = FREED[name]
    fn = function(_J, forward, lambda ctx, g: g * 2)
    alive: list[weakref.ref[Any]] = []

    def step(x: Any) -> Any:
        y = fn.apply(prepare(x)).sum()
        alive.append(weakref.ref(y.grad_fn.next_functions[0][0]))
        if runs_backward:
            y.backward()
        return y

    gc.collect()
    gc.disable()
    try:
        y = mode.run(step, lambda: (leaf(_J, [1.0, 2.0]),))
        del y
        assert [r() for r in alive if r() is not None] == []
    finally:
        gc.enable()


@pytest.mark.parametrize("picks", ["x", "out"])
def test_gradcheck(picks: str) -> None:
    def backward(ctx: Any, g: Any) -> Any:
        (saved,) = ctx.saved_tensors
        return g * 2 * (saved if picks == "out" else (saved * 2).exp())

    fn = function(_J, _saves(picks), backward)
    assert gradcheck(fn.apply, (leaf(_J, [0.1, 0.2]),))
    assert gradgradcheck(fn.apply, (leaf(_J, [0.1, 0.2]),))


def test_a_warm_step_compiles_nothing_and_falls_back_nowhere() -> None:
    """Custom functions are Python; their operations are recorded and compiled like any others."""
    fn = function(_J, _saves("out"), _exp_from_output)

    @jitgrad.compile
    def step(x: Any) -> Any:
        y = fn.apply(x * 0.5)
        (first,) = _J.autograd.grad(y.sum(), x, create_graph=True)
        (first * first).sum().backward()
        return y.detach()

    for _ in range(3):
        step(leaf(_J, [0.1, 0.2]))
    jitgrad.reset_stats()
    x = leaf(_J, [0.1, 0.2])
    step(x)
    stats = jitgrad.stats()
    assert stats["compiles"] == 0
    assert stats["fallbacks"] == 0
    assert stats["launches"] <= 2
    # y = exp(x), y' = y, the gradient of sum(y'^2) is 2 y'^2
    assert_same(plain(x.grad), plain(2 * (2 * leaf(_J, [0.1, 0.2])).exp()))


def test_old_classes() -> None:
    class Old(InplaceFunction):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        assert Old(inplace=True).inplace
    assert issubclass(Old, Function)
    assert Old.apply(leaf(_J, [1.0])).grad_fn.name() == "OldBackward"


@pytest.mark.parametrize("name", ["next_functions", "saved_tensors", "hooks"])
def test_names_that_belong_to_the_node_cannot_be_taken(name: str) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        setattr(ctx, name, ())
        return x * 2

    with pytest.raises(AttributeError, match=name):
        function(_J, forward).apply(leaf(_J, [1.0]))


def test_the_example_of_the_documents() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "functions.md").read_text()
    example = re.search(r"```python\n(.*?)```", text, re.S)
    assert example is not None
    names: dict[str, Any] = {"jitgrad": jitgrad, "x": leaf(_J, [0.5])}
    exec(compile(example.group(1), "functions.md", "exec"), names)
    names["y"].sum().backward()
    assert_same(plain(names["x"].grad), plain(names["y"]))


def test_a_deep_graph_is_freed_without_recursion() -> None:
    fn = function(_J, lambda ctx, x: (ctx.save_for_backward(x), x * 1)[1], lambda ctx, g: g * 1)
    x = y = leaf(_J, [1.0])
    for _ in range(50_000):
        y = fn.apply(y)
    node = weakref.ref(y.grad_fn)
    y.backward()
    assert x.grad.tolist() == [1.0]
    del y
    assert node() is None


class _Reentrant(Function):
    """``x * x``, by a backward inside backward over another handle on the saved value."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with jitgrad.enable_grad():
            y = (x * x * g.detach()).sum()
        y.backward()
        return x.grad


class _TanhInPlace(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x.tanh_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * (1 - ctx.saved_tensors[0] ** 2)


def test_views_of_two_handles_on_one_value(mode: Mode) -> None:
    """Found by fuzzing: the saved value's handle got memory of its own, and the views of the other one none."""

    def step(x: Any, y: Any) -> Any:
        a, b = x * 1.0, y * 1.0
        c, d = _saved_exp(a), _Reentrant.apply(b)
        loss = (a + b).sum() + (c + d).sum() + (b[:, :1] * d).sum()
        gx, gy = _J.autograd.grad(loss, (x, y), create_graph=True)
        ((gx * gx).sum() + (gy * gy).sum()).backward()
        return a.detach(), b.detach(), c.detach(), d.detach()

    def make() -> tuple[Any, ...]:
        return leaf(_J, [[0.1, 0.2], [0.3, 0.4]]), leaf(_J, [[0.5, 0.6], [0.7, 0.8]])

    x, y = (plain(t) for t in make())
    expected = [x, y, plain(leaf(_J, x).exp()), y * y]
    assert_same(plain(mode.run(step, make, is_steady=False)), expected)


def _saved_exp(x: Any) -> Any:
    return function(_J, lambda ctx, x: (y := x.exp(), ctx.save_for_backward(y))[0], _exp_gradient).apply(x)


def _exp_gradient(ctx: Any, g: Any) -> Any:
    return g * ctx.saved_tensors[0]


def test_a_column_written_in_place_is_differentiated_twice(mode: Mode) -> None:
    """Found by fuzzing: the saved column was written, without its stride, into the memory of the whole."""

    def step(x: Any) -> Any:
        a = x * 1.0
        column = _TanhInPlace.apply(a[:, :1])
        (g,) = _J.autograd.grad(column.sum() + a.sum(), x, create_graph=True)
        (g * g).sum().backward()
        return a.detach(), x.grad

    def make() -> tuple[Any, ...]:
        return (leaf(_J, [[0.1, 0.2], [0.3, 0.4]]),)

    expected = plain(leaf(_J, [[0.1, 0.2], [0.3, 0.4]]))
    tanh = plain(leaf(_J, [0.1, 0.3]).tanh())
    gradient = expected * 0
    # the gradient is 2 tanh' = 2 (1 - tanh^2) in the first column, 1 in the second; this is d/dx of its square
    gradient[:, 0] = -16 * tanh * (1 - tanh**2) ** 2
    expected[:, 0] = tanh
    a, x_grad = mode.run(step, make, is_steady=False)
    assert_same(plain(a), expected)
    assert_same(plain(x_grad), gradient)
