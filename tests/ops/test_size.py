"""``Size``: what it prints, what it computes, and that operations take it as the tuple it is."""

from __future__ import annotations

import copy
import operator
import pickle
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.door import door
from jitgrad.ops.aval import make_aval
from jitgrad.ops.table import OPS
from tests.modes import Mode

torch = pytest.importorskip("torch")

EXPRESSIONS = {
    "repr": lambda t: repr(t.ones(7, 109).shape),
    "repr of none": lambda t: repr(t.Size()),
    "str": lambda t: f"{t.zeros(2, 0).size()} {t.Size([4])!s}",
    "slice": lambda t: repr(t.ones(2, 3, 4).shape[1:]) + repr(t.ones(2, 3, 4).shape[::-2]),
    "item": lambda t: repr(t.ones(2, 3).shape[-1]),
    "sum": lambda t: repr(t.ones(2).shape.__add__((3,))) + repr(t.Size([1]) + t.Size([2])),
    "sum with a tuple before it": lambda t: repr(operator.add((1,), t.ones(2).shape)),
    "product": lambda t: repr(t.Size([1, 2]) * 2) + repr(2 * t.Size([1, 2])),
    "numel": lambda t: (t.Size([2, 3]).numel(), t.Size().numel(), t.ones(4, 0).shape.numel()),
    "equal": lambda t: (t.ones(2, 3).shape == (2, 3), t.ones(2).shape != t.Size([3]), hash(t.Size([2])) == hash((2,))),
    "is a tuple": lambda t: isinstance(t.ones(2).shape, tuple),
    "class": lambda t: (isinstance(t.ones(2).shape, t.Size), isinstance((2,), t.Size)),
    "unpacked": lambda t: [*t.ones(2, 3).shape],
    "from integers of NumPy": lambda t: repr(t.Size([np.int64(2), np.int32(3)])),
    "broadcast_shapes": lambda t: repr(t.broadcast_shapes((2, 1), t.Size([3]))),
    "copied": lambda t: repr(copy.deepcopy(t.Size([2]))) + repr(copy.copy(t.Size([2]))),
    "pickled": lambda t: repr(pickle.loads(pickle.dumps(t.Size([2, 3])))),
    "batch_shape": lambda t: repr(t.distributions.Normal(t.zeros(3), t.ones(3)).batch_shape),
    "event_shape": lambda t: repr(t.distributions.Normal(0.0, 1.0).event_shape),
    "sample": lambda t: repr(t.distributions.Normal(t.zeros(3), 1.0).sample(t.Size([2])).shape),
    "index": lambda t: t.arange(6).reshape(2, 3)[t.Size([1, 2])].item(),
    "extents of the old constructor": lambda t: repr(t.Tensor(t.Size([2, 3])).shape),
    "no extents": lambda t: repr(t.Tensor(t.Size([])).shape),
    "typed": lambda t: repr(t.FloatTensor(t.Size([2, 3])).shape),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_size_is_what_it_is_in_torch(name: str) -> None:
    assert EXPRESSIONS[name](jitgrad) == EXPRESSIONS[name](torch)


@pytest.mark.parametrize("wrong", [[1.5], ["2"], [None], [True, 2.0]])
def test_a_size_holds_integers(wrong: Any) -> None:
    for t in (jitgrad, torch):
        with pytest.raises(TypeError, match=r"torch.Size\(\) takes an iterable of 'int'"):
            t.Size(wrong)
    for t in (jitgrad, torch):
        with pytest.raises(TypeError):
            t.Size([1]).__add__((1.5,))
        with pytest.raises(TypeError):
            operator.add(t.Size([1]), [2])


TAKERS = {
    "zeros": lambda t, x, s: t.zeros(s) + x.sum(),
    "full": lambda t, x, s: t.full(s, 2.0) * x,
    "view": lambda t, x, s: (x * 2).reshape(-1).view(s),
    "reshape": lambda t, x, s: t.reshape(x.t(), s),
    "expand": lambda t, x, s: x.sum(0).expand(s),
    "broadcast_to": lambda t, x, s: t.broadcast_to(x.sum(0), s),
    "new_zeros": lambda t, x, s: x.new_zeros(s) + x,
    "layer_norm": lambda t, x, s: t.nn.functional.layer_norm(x, s),
    "as_strided": lambda t, x, s: x.as_strided(s, (3, 1)),
    "sum_to_size": lambda t, x, s: x.repeat(2, 1, 1).sum_to_size(s),
    "unflatten": lambda t, x, s: x.reshape(-1).unflatten(0, s),
    "repeat": lambda t, x, s: x.repeat(s),
    "split": lambda t, x, s: x.reshape(-1, 1).repeat(1, 2)[:5].split(s)[1],
    "permute": lambda t, x, s: x.sum() * t.zeros(1, 2, 3, 4).permute(t.Size([3, 1, 0, 2])),
}


@pytest.mark.parametrize("name", TAKERS)
def test_functions_take_a_size_as_a_tuple(name: str, mode: Mode) -> None:
    take, values = TAKERS[name], np.arange(6.0).reshape(2, 3)
    x = jitgrad.tensor(values, requires_grad=True)

    def step() -> Any:
        y = take(jitgrad, x, x.shape)
        (grad,) = jitgrad.autograd.grad((y * y).sum(), x)
        return (y * 1).detach(), grad

    y, grad = mode.run(step)
    xt = torch.tensor(values, requires_grad=True)
    yt = take(torch, xt, xt.shape)
    (grad_t,) = torch.autograd.grad((yt * yt).sum(), xt)
    assert repr(y.shape) == repr(yt.shape)
    np.testing.assert_allclose(y.numpy(), yt.detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(grad.numpy(), grad_t.numpy(), rtol=1e-6, atol=1e-12)


def test_a_size_among_params_is_the_tuple_of_the_event() -> None:
    """Rules hand shapes on as they get them: an event with a plain tuple and one with a ``Size`` are one event."""
    x, expand, turn = jitgrad.ones(3), OPS["expand"], [jitgrad.Size([2, 3])]

    @jitgrad.compile
    def step() -> Any:
        return door.apply(expand, x * 2, turn[0]) + 1

    def misses(shape: Any) -> int:
        before, turn[0] = jitgrad.stats()["misses"], shape
        assert repr(step().shape) == repr(jitgrad.Size(shape))
        missed: int = jitgrad.stats()["misses"] - before
        return missed

    assert misses(jitgrad.Size([2, 3])) > 0
    assert [misses(shape) for shape in [(2, 3), jitgrad.Size([2, 3]), (2, 3)]] == [0, 0, 0]
    assert misses((4, 3)) > 0
    assert [misses(shape) for shape in [jitgrad.Size([4, 3]), (2, 3), jitgrad.Size([2, 3])]] == [0, 0, 0]


def test_avals_hold_plain_tuples() -> None:
    for x in (jitgrad.zeros(jitgrad.Size([2, 3])), door.apply(OPS["full"], 1, jitgrad.Size([5, 7]), jitgrad.float32)):
        assert type(x._aval.shape) is tuple
        assert type(x.shape) is jitgrad.Size
        assert x.shape is x.size()


def test_a_size_without_extents_is_a_size() -> None:
    """Not the same as no argument, with keywords either."""
    empty, number = jitgrad.Size([]), jitgrad.ones(1)
    for make in (jitgrad.zeros, jitgrad.ones, jitgrad.empty, jitgrad.rand, jitgrad.randn, number.new_zeros):
        assert make(empty).shape == make(empty, dtype=jitgrad.float64).shape == ()
    for call in (number.view, number.reshape, number.sum().expand, number[0].repeat):
        assert call(empty).shape == ()


@pytest.mark.parametrize("size", [True, np.int64(1)])
def test_a_size_that_equals_an_integer_becomes_one(size: Any) -> None:
    """Layouts are kept: the next tensor of this shape must not get an extent of True, which NumPy refuses."""
    wide = 40_000 + int(size) + isinstance(size, bool)  # shapes that no other test has
    layout = make_aval((wide, size), jitgrad.float32, (size, size), np.int64(0))
    assert [type(n) for n in (*layout.shape, *layout.stride, layout.offset)] == [int] * 5
    assert make_aval((wide, 1), jitgrad.float32) is make_aval((wide, size), jitgrad.float32)
    assert jitgrad.zeros(wide, 1).t().t().contiguous().numpy().shape == (wide, 1)
    with pytest.raises(TypeError):
        make_aval((wide, 1.5), jitgrad.float32)  # type: ignore[arg-type]
