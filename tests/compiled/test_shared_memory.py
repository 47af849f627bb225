"""Memory that a step shares with NumPy arrays, and which Python writes between two statements: Note [Shared memory]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad as jg
from jitgrad.cpython.liveness import counts_references

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")


def read_after_a_write(lib: Any, x: Any) -> Any:
    a=x.detach().numpy()
    y=x*2
    a[...]=7
    return y.sum().item(), (x*1).sum().item()


def several_writes(lib: Any, x: Any) -> Any:
    a=x.detach().numpy()
    y=x*2
    a[...]=7
    z=x*3
    a[...]=1
    return y.tolist(), z.tolist(), (x*1).tolist()


def of_a_result(lib: Any, x: Any) -> Any:
    y=x*2
    a=y.detach().numpy()
    z=y+1
    a[...]=7
    w=y+1
    return z.tolist(), w.tolist(), y.tolist()


def of_a_view(lib: Any, x: Any) -> Any:
    v=x.detach()[1:]
    a=v.numpy()
    y=x*2
    a[...]=7
    z=x*2
    return y.tolist(), z.tolist()


def written_on_both_sides(lib: Any, x: Any) -> Any:
    a=x.detach().numpy()
    x2=x.detach()
    x2.mul_(2)
    y=x2+1
    a[0]=100
    z=x2+1
    x2.add_(1)
    a[1]=200
    return y.tolist(), z.tolist(), x2.tolist(), a.tolist()


def of_a_result_by_asarray(lib: Any, x: Any) -> Any:
    y=x*2
    a=np.asarray(y.detach())
    y.add_(1)
    a[0]=50
    z=y*2
    a[1]=60
    return y.tolist(), z.tolist()


def of_a_base(lib: Any, x: Any) -> Any:
    a=x.detach().numpy()
    y=x.reshape(-1)
    z=y*2
    a[...]=3
    w=y*2
    return z.tolist(), w.tolist()


def indexed(lib: Any, x: Any) -> Any:
    a=x.detach().numpy()
    idx=lib.tensor([0,1])
    y=x[idx]
    a[...]=3
    return y.tolist()


def joined(lib: Any, x: Any) -> Any:
    a=x.detach().numpy()
    y=lib.cat([x,x])
    a[...]=3
    s=y.sum()
    a[...]=4
    t=lib.stack([x,x])
    a[...]=5
    return y.tolist(), s.item(), t.tolist()


def from_numpy(lib: Any, x: Any) -> Any:
    arr=np.ones(3,np.float32)
    t=lib.from_numpy(arr)
    y=t*2
    arr[...]=5
    z=t*2
    arr[...]=9
    return y.tolist(), z.tolist(), t.tolist()


def saved_for_backward(lib: Any, x: Any) -> Any:
    w=x.detach().clone().requires_grad_()
    a=w.detach().numpy()
    y=w*w
    a[...]=7
    y.sum().backward()
    return w.grad.tolist()


def copied_over(lib: Any, x: Any) -> Any:
    a=x.detach().numpy()
    y=x.clone()
    y.add_(x)
    a[...]=7
    y.copy_(x)
    a[...]=8
    return y.tolist()


def of_a_gradient(lib: Any, x: Any) -> Any:
    p=x.detach().clone().requires_grad_()
    (p*2).sum().backward()
    g=p.grad.numpy()
    o=p.grad*2
    g[...]=9
    q=p.grad*2
    return o.tolist(), q.tolist()


def of_a_parameter(lib: Any, x: Any) -> Any:
    w=x.detach().clone().requires_grad_()
    a=w.detach().numpy()
    opt=lib.optim.SGD([w],lr=0.1)
    y=(w*3).sum()
    y.backward()
    a[...]=7
    opt.step()
    a[0]+=1
    return w.tolist()


def a_view_of_the_array_outlives_it(lib: Any, x: Any) -> Any:
    part = x.detach().numpy()[1:]
    y = x * 2
    part[...] = 7
    z = x * 2
    part[0] = 8
    return y.tolist(), z.tolist()


def under_saved_tensor_hooks(lib: Any, x: Any) -> Any:
    w = x.detach().clone().requires_grad_()
    a = w.detach().numpy()
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = w * 2 * w
        a[...] = 7
        z = w * w
    a[...] = 1
    (y + z).sum().backward()
    return y.tolist(), z.tolist(), w.grad.tolist()


STEPS: list[Callable[..., Any]] = [
    read_after_a_write, several_writes, of_a_result, of_a_view, written_on_both_sides, of_a_result_by_asarray,
    of_a_base, indexed, joined, from_numpy, saved_for_backward, copied_over, of_a_gradient, of_a_parameter,
    a_view_of_the_array_outlives_it, under_saved_tensor_hooks,
]  # fmt: skip


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_operations_see_the_memory_as_it_was_at_their_statement(step: Callable[..., Any], mode: Mode) -> None:
    want = step(torch, torch.tensor([1.0, 2.0, 3.0]))
    function = mode.wrap(lambda x: step(jg, x))
    for _ in range(3):
        assert function(jg.tensor([1.0, 2.0, 3.0])) == want


def test_an_array_that_has_died_costs_nothing() -> None:
    @jg.compile
    def step(x: Any) -> Any:
        largest = x.detach().numpy().max()
        for _ in range(10):
            x = x * 2
        return x, largest

    x = jg.ones(3)
    step(x)
    before = jg.stats()
    step(x)
    seen = {k: v - before[k] for k, v in jg.stats().items() if v != before[k]}
    assert seen["segments"] == 1
    assert "misses" not in seen


def test_operations_on_other_memory_are_recorded_as_ever() -> None:
    @jg.compile
    def step(x: Any, y: Any) -> Any:
        array = x.detach().numpy()
        z = x * 2  # at once
        for _ in range(10):
            y = y * 2
        return y + z, array

    x, y = jg.ones(3), jg.ones(3)
    step(x, y)
    before = jg.stats()["segments"]
    step(x, y)
    assert jg.stats()["segments"] - before == 2


def test_an_array_that_nobody_else_holds_ends_no_segment() -> None:
    """Data that a step makes of a temporary array is data like any other: one segment, and the next ones, too."""

    @jg.compile
    def step(x: Any) -> Any:
        y = x * 2
        z = jg.from_numpy(np.full(3, 5.0, np.float32))
        return (y * z + z).exp().sum()

    x = jg.ones(3)
    for _ in range(3):
        before = jg.stats()["segments"]
        assert float(step(x)) == pytest.approx(3 * np.exp(15.0), rel=1e-5)
        assert not counts_references or jg.stats()["segments"] == before + 1


def test_an_array_that_somebody_holds_may_be_written() -> None:
    kept: list[Any] = []

    def make() -> Any:
        kept.append(np.full(3, 5.0, np.float32))
        return kept[-1]

    @jg.compile
    def step(x: Any, view: bool) -> Any:
        z = jg.from_numpy(make())
        inside = kept[-1][1:] if view else kept[-1]
        if view:
            kept.clear()
        y = x * z
        inside[...] = 7
        return y, z * x

    for view in (False, True, False, True, False, True):
        y, z = step(jg.ones(3), view)
        assert y.tolist() == [5.0] * 3
        assert z.tolist() == ([5.0, 7.0, 7.0] if view else [7.0] * 3)
