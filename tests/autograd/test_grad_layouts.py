"""The layout of gradients: ``.grad`` has its leaf's strides where the leaf has no gaps, as PyTorch's has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.modes import HOOKED, Mode

torch = pytest.importorskip("torch")

VALUES = np.random.default_rng(3).uniform(0.5, 1.5, 120)


def _of(t: Any, shape: tuple[int, ...]) -> Any:
    return t.tensor(VALUES[: int(np.prod(shape))].reshape(shape))


LEAVES: dict[str, Callable[[Any], Any]] = {
    "row-major": lambda t: _of(t, (2, 3, 4, 5)),
    "transposed": lambda t: _of(t, (4, 3)).t(),
    "permuted": lambda t: _of(t, (5, 2, 4, 3)).permute(1, 3, 2, 0),
    "channels last": lambda t: _of(t, (2, 3, 4, 5)).contiguous(memory_format=t.channels_last),
    "one extent": lambda t: _of(t, (1, 3, 1, 5)).contiguous(memory_format=t.channels_last),
    "expanded": lambda t: _of(t, (3, 1)).expand(3, 4),
    "sliced": lambda t: _of(t, (4, 6))[:, ::2],
    "sliced and transposed": lambda t: _of(t, (4, 6))[1:, :3].t(),
    "overlapping": lambda t: _of(t, (10,)).as_strided((3, 4), (2, 1)),
    "with an offset": lambda t: _of(t, (3, 4, 5))[1].t(),
}

LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda t, p: p.sum(),
    "product": lambda t, p: (p * p).sum(),
    "row-major factor": lambda t, p: (p * _of(t, tuple(p.shape))).sum(),
    "transposed": lambda t, p: (p.transpose(0, 1) * 3.0).exp().sum(),
    "copied": lambda t, p: (p.contiguous() * p.clone()).sum(),
    "one element": lambda t, p: p[0, 1].sum() * 2,
    "product of matrices": lambda t, p: (p @ p.transpose(-1, -2)).sum(),
    "itself": lambda t, p: p.reshape(-1)[3] + p.sum(0).sum() * 2,
}


def _leaf(t: Any, name: str) -> Any:
    return LEAVES[name](t).detach().requires_grad_()


def _seen(*grads: Any) -> list[tuple[Any, ...]]:
    return [(tuple(g.stride()), np.asarray(g.detach().numpy()).round(6).tolist()) for g in grads]


def _once(t: Any, p: Any, loss: Any) -> Any:
    p.grad = None
    loss(t, p).backward()
    return _seen(p.grad)


def _twice(t: Any, p: Any, loss: Any) -> Any:
    p.grad = None
    loss(t, p).backward()
    first = p.grad
    loss(t, p).backward()
    assert p.grad is first
    return _seen(p.grad)


def _zeroed(t: Any, p: Any, loss: Any) -> Any:
    p.grad = None
    optimizer = t.optim.SGD([p], lr=0.0)
    loss(t, p).backward()
    optimizer.zero_grad(set_to_none=False)
    loss(t, p).backward()
    return _seen(p.grad)


def _assigned(t: Any, p: Any, loss: Any) -> Any:
    """As DDP does: gradients are windows of one bucket, whatever layout the leaf has."""
    count = p.numel()
    bucket = t.zeros(count + 3, dtype=t.float64)
    p.grad = bucket[3:].view(tuple(p.shape))
    loss(t, p).backward()
    return _seen(p.grad, bucket)


def _asked(t: Any, p: Any, loss: Any) -> Any:
    (grad,) = t.autograd.grad(loss(t, p), p)
    return [values for _, values in _seen(grad)]


def _created(t: Any, p: Any, loss: Any) -> Any:
    p.grad = None
    loss(t, p).backward(create_graph=True)
    first = p.grad.detach()
    loss(t, p).backward(create_graph=True)
    return _seen(first, p.grad)


SCENES = {
    "once": _once, "twice": _twice, "zeroed": _zeroed, "assigned": _assigned, "asked": _asked, "created": _created,
}  # fmt: skip


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.filterwarnings("ignore:Using backward", "ignore:grad and param do not obey")
def test_gradients_are_laid_out_as_pytorchs(leaf: str, scene: str, mode: Mode) -> None:
    for name, loss in LOSSES.items():
        theirs = _leaf(torch, leaf)
        expected = SCENES[scene](torch, theirs, loss)
        ours = _leaf(jitgrad, leaf)
        assert ours.stride() == theirs.stride()
        got = _tried(SCENES[scene], ours, loss, mode)
        assert got == expected, name


def _tried(scene: Any, p: Any, loss: Any, mode: Mode) -> Any:
    def step() -> Any:
        return scene(jitgrad, p, loss)

    call = jitgrad.compile(step) if mode.is_compiled else step
    for _ in range({"eager": 0, "cold": 0, "warm": 2}[mode.name]):
        call()
    return call()


@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.row(engine=HOOKED)
def test_hooks_see_gradients_as_they_arrive(leaf: str, mode: Mode) -> None:
    def step(t: Any, p: Any) -> Any:
        seen: list[Any] = []
        p.register_hook(lambda g: seen.append(_seen(g)[0][1]))
        p.register_post_accumulate_grad_hook(lambda q: seen.append(tuple(q.grad.stride())))
        (p * p).sum().backward()
        return seen

    got = mode.run(lambda p: step(jitgrad, p), lambda: (_leaf(jitgrad, leaf),))
    assert got == step(torch, _leaf(torch, leaf))


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD", "RMSprop", "Adagrad"])
@pytest.mark.parametrize("leaf", ["transposed", "channels last", "sliced"])
def test_what_optimizers_keep_is_laid_out_as_the_parameter(leaf: str, name: str, mode: Mode) -> None:
    options = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}

    def run(t: Any, wrap: Any) -> Any:
        p = _leaf(t, leaf)
        optimizer = getattr(t.optim, name)([p], lr=0.1, **options)

        def step() -> None:
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()

        step = wrap(step)
        for _ in range(3):
            step()
        state = {k: v for k, v in optimizer.state[p].items() if getattr(v, "ndim", 0)}
        return {k: tuple(v.stride()) for k, v in state.items()}, p.stride(), p.detach().numpy().round(5).tolist()

    assert run(jitgrad, jitgrad.compile if mode.is_compiled else lambda f: f) == run(torch, lambda f: f)


def test_a_gradient_laid_out_for_its_leaf_is_not_copied() -> None:
    """The only holder of a gradient hands it over."""
    for make in (LEAVES["channels last"], LEAVES["transposed"], LEAVES["row-major"]):
        p = make(jitgrad).detach().requires_grad_()
        seen = []
        y = p * p.detach()
        p.register_hook(lambda g: seen.append(g.data_ptr()))  # noqa: B023
        y.sum().backward()
        assert p.grad.stride() == p.stride()
        assert seen == [p.grad.data_ptr()]


def test_sparse_gradients_are_as_they_were() -> None:
    for t in (jitgrad, torch):
        table = _of(t, (4, 6)).t().detach().requires_grad_()
        t.nn.functional.embedding(t.tensor([1, 1, 4]), table, sparse=True).sum().backward()
        assert table.grad.is_sparse
        assert tuple(table.grad.to_dense().shape) == (6, 4)
