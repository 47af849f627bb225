"""Whole derivatives, and gradcheck itself."""

from __future__ import annotations

import pytest
from parity import J, attempt, const, leaf, same

from jitgrad.autograd import GradcheckError, gradcheck, gradgradcheck
from jitgrad.runtime.engine.graph.accumulate_grad import gradient_edge
from jitgrad.runtime.engine.graph.node import Node


def functional(lib):
    return lib.autograd.functional


def test_jacobian():
    def program(lib):
        x, y = const(lib, [1.0, 2.0]), const(lib, [3.0, 4.0, 5.0])
        one = functional(lib).jacobian(lambda x: x.exp() * x.sum(), x)
        two = functional(lib).jacobian(lambda x, y: (x.sum() * y, x * 2), (x, y))
        scalar = functional(lib).jacobian(lambda x: (x * x).sum(), x)
        return one, two, scalar

    same(program)


def test_hessian_and_products():
    def program(lib):
        x, v = const(lib, [1.0, 2.0, 3.0]), const(lib, [0.5, -1.0, 2.0])

        def f(x):
            return (x * x * x).sum() * x.sum()

        fun = functional(lib)
        return (
            fun.hessian(f, x),
            fun.hvp(f, x, v),
            fun.vhp(f, x, v),
            fun.vjp(lambda x: x * x, x, v),
            fun.jvp(lambda x: x * x * x.sum(), x, v),
            fun.hessian(lambda a, b: (a * b).sum(), (x, v)),
        )

    same(program)


def test_create_graph():
    def program(lib):
        x = leaf(lib, [1.0, 2.0])
        jac = functional(lib).jacobian(lambda x: x * x * x, x, create_graph=True)
        jac.sum().backward()
        none = functional(lib).jacobian(lambda x: x * x, x)
        return jac, x.grad, none.requires_grad

    same(program)


def test_independent_outputs():
    def program(lib):
        x = const(lib, [1.0, 2.0])
        fun = functional(lib)
        return (
            fun.jacobian(lambda x: const(lib, [1.0, 2.0]), x),
            attempt(lambda: fun.jacobian(lambda x: const(lib, [1.0, 2.0]), x, strict=True)),
            attempt(lambda: fun.vjp(lambda x: x * x, x)),
            attempt(lambda: fun.vjp(lambda x: x * x, x, const(lib, [1.0]))),
        )

    same(program)


def test_gradcheck_accepts_what_is_right():
    x, y = leaf(J, [0.3, 0.7]), leaf(J, [[1.0], [2.0]])
    assert gradcheck(lambda x, y: (x * y).exp(), (x, y))
    assert gradgradcheck(lambda x, y: (x * y).exp(), (x, y))
    with pytest.raises(ValueError, match="at least one input"):
        gradcheck(lambda x: x, (const(J, [1.0]),))


def test_gradcheck_finds_what_is_wrong():
    class Wrong(Node):
        __slots__ = ()

        def apply(self, grad_outputs):
            return (grad_outputs[0] * 1.01,)

    def identity(x):
        out = x.detach().clone()
        out._requires_grad, out._grad_fn = True, Wrong((gradient_edge(x),), (x._aval,))
        return out

    x = leaf(J, [0.3, 0.7])
    assert not gradcheck(identity, x, raise_exception=False)
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(identity, x)


