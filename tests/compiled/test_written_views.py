"""Views that are written without grad mode, and then asked for their graph: every kind of view, write and question."""

from __future__ import annotations

from itertools import product
from typing import Any

import agreement
import pytest
from modes import Mode

import jitgrad

VIEWS = {
    "a row": "{x}[0]",
    "one of several": "{x}.unbind()[0]",
    "one of chunks": "{x}.chunk(2)[1]",
    "of one of several": "{x}.unbind()[0][1:]",
    "transposed": "{x}.t()",
    "a diagonal": "{x}.diagonal()",
    "made without grad mode": "without_grad(lambda: {x}[0])",
}
WRITES = ("v.mul_(2)", "v[0] = 1.0", "v.copy_(v * 3)", "{x}.mul_(2)", "v.detach().mul_(2)", "v.data.mul_(3)")
QUESTIONS = ("", "out.append((v * v).sum().item())", "out.append(v.grad_fn is None)", "(v * v).sum().backward()")
STEP = """
def step(p, out):
    q = p * 1
    v = {view}
    with jitgrad.no_grad(): {write}
    {question}
    return v
"""


def _without_grad(make: Any) -> Any:
    with jitgrad.no_grad():
        return make()


def _seen(step: Any) -> Any:
    p = jitgrad.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    seen: list[Any] = []
    try:
        v = step(p, seen)
        seen += [v.requires_grad, v.detach().tolist()]
        seen.append(jitgrad.autograd.grad((v * v).sum(), p)[0].tolist())
    except RuntimeError as error:
        seen.append(agreement.observe(error))
    return agreement.observe([*seen, p])


@pytest.mark.parametrize("source", ["p", "q"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_that_was_written_without_grad_mode(view: str, source: str) -> None:
    for write, question in product(WRITES, QUESTIONS):
        text = STEP.format(view=VIEWS[view].format(x=source), write=write.format(x=source), question=question)
        scope: dict[str, Any] = {"jitgrad": jitgrad, "without_grad": _without_grad}
        exec(text, scope)
        step = scope["step"]
        compiled, wanted = jitgrad.compile(step), _seen(step)
        for _ in range(3):
            agreement.assert_same(_seen(compiled), wanted)


@pytest.mark.parametrize("source", ["value", "leaf", "argument"])
@pytest.mark.parametrize("write", ["mul_", "addcmul_", "copy_", "set", "part"])
@pytest.mark.parametrize("view", ["diagonal", "column", "every fourth", "detached diagonal"])
def test_a_tensor_written_again_and_again_with_its_own_view(mode: Mode, view: str, write: str, source: str) -> None:
    """The second time, the view is known as memory of its own: it is the memory that is written."""

    def step(given: Any) -> Any:
        x = given * 1 if source == "value" else given
        with jitgrad.no_grad():
            v = {
                "diagonal": lambda: x.diagonal(),
                "column": lambda: x[:, 1],
                "every fourth": lambda: x.view(-1)[::4],
                "detached diagonal": lambda: x.detach().diagonal(),
            }[view]()
            for _ in range(3):
                if write == "set":
                    x[1:] = v
                elif write == "part":
                    x[1:].add_(v)
                else:
                    getattr(x, write)(*([v, v] if write == "addcmul_" else [v]))
        return x.tolist(), v.tolist()

    def given() -> Any:
        return (jitgrad.arange(9.0).reshape(3, 3) / 7 + 0.1).clone().requires_grad_(source == "leaf")

    want = step(given())
    function = mode.wrap(step)
    for _ in range(3):
        assert function(given()) == (_about(want[0]), _about(want[1]))


def _about(numbers: Any) -> Any:
    return [_about(n) for n in numbers] if isinstance(numbers, list) else pytest.approx(numbers, rel=1e-5)


@pytest.mark.parametrize("write", ["x.mul_(0)", "x[:, 1] = 0", "x.t().mul_(0)", "x.detach().mul_(0)"])
def test_a_backward_reads_a_saved_view_before_its_memory_is_written(mode: Mode, write: str) -> None:
    """The view was saved by a Node in an earlier segment, and no handle looks at it any more."""

    def step(p: Any) -> Any:
        x = p * 1
        y = x @ (x.t() @ p)
        assert y.sum().item() == y.sum().item()
        (grad,) = jitgrad.autograd.grad((y * y).sum(), p, create_graph=True)
        with jitgrad.no_grad():
            exec(write, {"x": x})
        return grad

    def given() -> Any:
        return jitgrad.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)

    want = step(given()).tolist()
    function = mode.wrap(step)
    for _ in range(3):
        assert function(given()).tolist() == _about(want)
