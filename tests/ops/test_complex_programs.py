"""Random programs over complex tensors, and tensors that look at one memory as real and as complex numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from complex_programs import program

import jitgrad

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

_SEEDS = range(40)


def _leaves(t: Any, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    pairs = [rng.uniform(0.5, 1.5, (3, 4)) + 1j * rng.uniform(-1, 1, (3, 4)) for _ in range(2)]
    return [t.tensor(a, requires_grad=True) for a in (*pairs, *rng.uniform(0.5, 1.5, (2, 3, 4)))]


def _answer(t: Any, function: Any, leaves: list[Any], wrap: Any) -> Any:
    def step(*xs: Any) -> Any:
        loss = function(t, *xs)
        loss.backward()
        return loss.detach()

    def once(*xs: Any) -> Any:
        for x in xs:
            x.grad = None
        return run(*xs)

    run = wrap(step)
    try:
        loss = once(*leaves) if wrap is not jitgrad.compile else [once(*leaves) for _ in range(3)][-1]
    except RuntimeError as error:
        return type(error)
    return [loss.numpy(), *[None if x.grad is None else x.grad.detach().resolve_conj().numpy() for x in leaves]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", _SEEDS)
def test_random_programs(seed: int) -> None:
    """Eagerly, cold and warm: losses, gradients and refusals are PyTorch's."""
    found: dict[str, Any] = {}
    exec(program(seed), found)
    want = _answer(torch, found["program"], _leaves(torch, seed), lambda step: step)
    for wrap in (lambda step: step, jitgrad.compile):
        got = _answer(jitgrad, found["program"], _leaves(jitgrad, seed), wrap)
        if isinstance(want, type) or isinstance(got, type):
            assert got is want, program(seed)
            continue
        for x, y in zip(got, want, strict=True):
            assert (x is None) == (y is None), program(seed)
            if y is not None:
                np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-10, err_msg=program(seed))


# --- two looks at one memory, which come into the step ---


def _pair(t: Any, kind: str, requires_grad: bool) -> tuple[Any, Any]:
    """(a tensor, a view of it with another dtype)."""
    z, _, p, _ = _leaves(t, 0)
    z, p = z.detach().requires_grad_(requires_grad), p.detach().requires_grad_(requires_grad)
    match kind:
        case "part of a leaf":
            return z, z.real
        case "part":
            w = z * 1
            return w, w.imag
        case "detached part":
            return z, z.detach().real
        case "complex view of a leaf":
            return p, t.view_as_complex(p.view(3, 2, 2))
        case _:
            q = p * 1
            return q, t.view_as_complex(q.view(6, 2))


def _read(base: Any, view: Any) -> Any:
    return (view * view).abs().sum() + base.abs().sum()


def _write_base(base: Any, view: Any) -> Any:
    with jitgrad.no_grad(), torch.no_grad():
        base.mul_(2)
    return (view * 1).abs().sum()


def _write_view(base: Any, view: Any) -> Any:
    with jitgrad.no_grad(), torch.no_grad():
        view.mul_(2)
    return (base * 1).abs().sum() + (view * 1).abs().sum()


def _write_in_turn(base: Any, view: Any) -> Any:
    before = (view * 3).abs().sum()
    with jitgrad.no_grad(), torch.no_grad():
        base.mul_(2)
        view.add_(1)
        base.mul_(2)
    return before + (view * 1).abs().sum() + (base * 1).abs().sum()


_USES: list[Callable[[Any, Any], Any]] = [_read, _write_base, _write_view, _write_in_turn]
_KINDS = ("part of a leaf", "part", "detached part", "complex view of a leaf", "complex view")


@pytest.mark.parametrize(("kind", "requires_grad"), list(itertools.product(_KINDS, (False, True))))
@pytest.mark.parametrize("use", _USES, ids=lambda f: f.__name__.strip("_"))
def test_looks_at_one_memory(use: Callable[[Any, Any], Any], kind: str, requires_grad: bool) -> None:
    def step(base: Any, view: Any) -> Any:
        loss = use(base, view)
        if loss.requires_grad:
            loss.backward()
        return loss.detach()

    want = _seen(step, torch, kind, requires_grad)
    assert _seen(step, jitgrad, kind, requires_grad) == pytest.approx(want)
    compiled = jitgrad.compile(step)
    for _ in range(3):
        assert _seen(compiled, jitgrad, kind, requires_grad) == pytest.approx(want)


def _seen(step: Any, t: Any, kind: str, requires_grad: bool) -> list[float]:
    """The loss, both tensors afterwards, and gradients, as numbers."""
    base, view = _pair(t, kind, requires_grad)
    found = [float(step(base, view))]
    for x in (base.detach(), view.detach(), base.grad if base.is_leaf else None):
        if x is not None:
            array = np.asarray(x.resolve_conj().numpy()).ravel()
            found += [*array.real.tolist(), *array.imag.tolist()]
    return found


# --- what is outside of the step, written to what is inside ---


@pytest.mark.parametrize("is_complex", [True, False])
def test_writes_of_what_is_elsewhere_reach_the_graph(is_complex: bool) -> None:
    """A tensor on another device is written into a value of the step: gradients go there, and none to what was."""

    def step(x: Any, y: Any) -> Any:
        h = x * 3
        h[1:].copy_((y * 2)[1:])
        return jitgrad.autograd.grad((h * h).abs().sum(), [x, y])

    kind = jitgrad.complex128 if is_complex else jitgrad.float64
    x = jitgrad.tensor([1.0, 2.0, 3.0], dtype=kind, requires_grad=True)
    y = jitgrad.tensor([1.0, -2.0, 0.5], dtype=kind, device="vcpu:0").requires_grad_()
    want = [g.cpu() for g in step(x, y)]
    compiled = jitgrad.compile(step)
    for _ in range(3):
        for got, w in zip(compiled(x, y), want, strict=True):
            np.testing.assert_allclose(got.cpu().numpy(), w.numpy(), rtol=1e-12)


def test_lists_of_complex_tensors_stay_in_the_graph() -> None:
    """The same operation on the same list twice in a call, once without a graph."""

    def step(z: Any, w: Any) -> Any:
        seen = jitgrad.cat([z, w]).detach()
        joined = jitgrad.cat([z, w])
        return seen, jitgrad.autograd.grad([joined], [z, w], [jitgrad.full_like(joined, 1 + 1j)])

    z, w = (jitgrad.ones(n, dtype=jitgrad.complex64, requires_grad=True) for n in (3, 2))
    compiled = jitgrad.compile(step)
    for _ in range(4):
        seen, (first, second) = compiled(z, w)
        assert seen.tolist() == [1 + 0j] * 5 and first.tolist() == [1 + 1j] * 3 and second.tolist() == [1 + 1j] * 2
