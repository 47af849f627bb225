"""A value id is one leaf's, or nobody's: handles on a storage that differ in ``requires_grad`` never share one.

Found by the fuzzer (seeds 501091 and 601321): a call whose argument is a parameter took the path that was recorded with
the parameter's detached alias, and left out its gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import Tensor


def leaf() -> Tensor:
    return jitgrad.ones(3, requires_grad=True)


def test_an_alias_among_the_arguments() -> None:
    def step(p: Any, q: Any, w: Any) -> None:
        (p * w).sum()
        (q * w).sum().backward()

    compiled = jitgrad.compile(step)
    for is_detached in (True, False, True, False):
        p = leaf()
        compiled(p, p.detach() if is_detached else p, leaf())
        assert (p.grad is None) == is_detached


def test_an_alias_made_and_written_inside() -> None:
    def step(p: Any, w: Any, uses_leaf: bool) -> None:
        d = p.detach()
        d.mul_(2.0)
        ((p if uses_leaf else d) * w).sum().backward()

    compiled = jitgrad.compile(step)
    for uses_leaf in (False, True, False, True):
        p, w = leaf(), leaf()
        compiled(p, w, uses_leaf)
        assert p.tolist() == [2.0] * 3
        assert w.grad is not None and w.grad.tolist() == [2.0] * 3
        assert (p.grad is not None) == uses_leaf


def test_a_write_through_an_alias_happens_once() -> None:
    def step(p: Any, w: Any) -> Any:
        p.detach().add_(0.1)
        return w @ p

    compiled = jitgrad.compile(step)
    for _ in range(3):
        p = jitgrad.zeros(2, 2, dtype=jitgrad.float64, requires_grad=True)
        result = compiled(p, jitgrad.ones(2, 2, dtype=jitgrad.float64, requires_grad=True))
        assert p.tolist() == [[0.1, 0.1], [0.1, 0.1]]
        assert result.tolist() == [[0.2, 0.2], [0.2, 0.2]]


@pytest.mark.parametrize("outer", ["sin", "tanh", "sigmoid", "exp", "softmax"])
@pytest.mark.parametrize("first", ["twice", "with a graph", "grad"])
def test_a_saved_result_from_outside_gets_its_history_back(outer: str, first: str) -> None:
    """A backward of the step reads what a Node outside has saved of its result; one with a graph reads it again."""

    def step(y: Any, p: Any) -> Any:
        v = y - p * p
        if first == "grad":
            jitgrad.autograd.grad(v.sum(), p, retain_graph=True)
        else:
            v.sum().backward(retain_graph=True, create_graph=first == "with a graph")
        (v * v).mean().backward(create_graph=True)

    def run(function: Any) -> list[Any]:
        found = []
        for _ in range(3):
            p = jitgrad.linspace(-0.5, 0.9, 6).view(2, 3).requires_grad_()
            inner = p.sin()
            function(inner.softmax(1) if outer == "softmax" else getattr(inner, outer)(), p)
            grad = p.grad
            p.grad = None
            found += [grad.detach(), *jitgrad.autograd.grad(grad.square().sum(), p)]
        return found

    for got, want in zip(run(jitgrad.compile(step)), run(step), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-6)
