"""The first versions' names: ``Variable`` and ``volatile``."""

from __future__ import annotations

from typing import Any

import pytest
from modes import Mode

import jitgrad
from jitgrad import nn
from jitgrad.autograd import Variable


@pytest.mark.row("A3", "A19")
def test_the_example_of_the_source(mode: Mode) -> None:
    """``Variable.mm(a, b)`` is ``a.mm(b)``, and so is every other method by its name."""

    def step() -> Any:
        a = Variable(jitgrad.FloatTensor([[2]]), requires_grad=True)
        b = Variable(jitgrad.FloatTensor([[3]]))
        loss = Variable.mm(a, b).sum()
        Variable.backward(loss)
        same = Variable.mm is jitgrad.Tensor.mm and Variable.add_ is jitgrad.Tensor.add_
        with pytest.raises(AttributeError, match="no_method"):
            _ = Variable.no_method
        return a.grad.tolist(), b.grad, loss.item(), same

    assert mode.run(step) == ([[3.0]], None, 6.0, True)


@pytest.mark.row("A8")
def test_volatile_acts_as_no_grad(mode: Mode) -> None:
    """One volatile input is enough, wherever it stands, as in the first version; the weights stay as they are."""

    def step(x, weight):
        with pytest.warns(DeprecationWarning, match="volatile is deprecated: it acts as no_grad"):
            v = Variable(x, volatile=True)
        results = [weight * v, v * weight, jitgrad.mm(weight, v), weight.mm(v), (v @ weight).exp().sum(), 1 - v]
        plain = (weight * x).sum()
        plain.backward()
        return [(r.requires_grad, r.grad_fn, r.volatile) for r in results], results[0], weight.grad, plain.volatile

    flags, product, gradient, volatile = mode.run(
        step, lambda: (jitgrad.full((2, 2), 3.0), jitgrad.full((2, 2), 2.0, requires_grad=True))
    )
    assert flags == [(False, None, True)] * 6
    assert product.tolist() == [[6, 6], [6, 6]]
    assert gradient.tolist() == [[3, 3], [3, 3]]
    assert volatile is False


@pytest.mark.row("A8")
def test_nothing_volatile_has_a_gradient(mode: Mode) -> None:
    def step(x):
        with pytest.warns(DeprecationWarning):
            v = Variable(x, volatile=True)
        out = (nn.Linear(2, 1)(v) * 2).sum()
        with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad"):
            out.backward()
        return out.requires_grad, jitgrad.is_grad_enabled()

    assert mode.run(step, lambda: (jitgrad.ones(1, 2),), is_steady=False) == (False, True)


@pytest.mark.row("A8")
def test_a_variable_is_a_tensor(mode: Mode) -> None:
    def step(x):
        v = Variable(x, requires_grad=True)
        (v * v).sum().backward()
        return type(v), v.is_leaf, v.grad, x.requires_grad, v.data_ptr() == x.data_ptr()

    kind, is_leaf, grad, requires_grad, shares = mode.run(step, lambda: (jitgrad.full((2,), 3.0),))
    assert kind is jitgrad.Tensor
    assert is_leaf
    assert grad.tolist() == [6, 6]
    assert not requires_grad
    assert shares


def test_volatile_false_only_warns() -> None:
    with pytest.warns(DeprecationWarning):
        v = Variable(jitgrad.ones(1), requires_grad=True, volatile=False)
    assert v.requires_grad
    assert (v * 2).requires_grad


def test_wrong_arguments() -> None:
    with pytest.warns(DeprecationWarning), pytest.raises(RuntimeError, match="can't be volatile and require_grad"):
        Variable(jitgrad.ones(1), requires_grad=True, volatile=True)
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got list"):
        Variable([1.0])
    with pytest.raises(RuntimeError, match="only Tensors of floating point dtype can require gradients"):
        Variable(jitgrad.ones(1, dtype=jitgrad.int64), requires_grad=True)
