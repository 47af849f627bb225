"""Views that are written without grad mode, and then asked for their graph: every kind of view, write and question."""

from __future__ import annotations

from itertools import product
from typing import Any

import agreement
import pytest

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
