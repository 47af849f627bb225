"""Operations that raise for some values do so in a compiled step too, whether or not anybody uses what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad as jg
import jitgrad.nn.functional as F
from jitgrad.door import door
from jitgrad.dtypes import from_numpy_dtype
from jitgrad.ops.aval import make_aval
from jitgrad.ops.table import OPS
from jitgrad.runtime.eager.numpy_rule import run_numpy
from tests.ops.op_specs import SPECS

HOSTILE = {
    "f": (-5.0, 7.0, 0.0, np.nan, np.inf), "i": (10**6, -(10**6), -1, 0), "b": (True, False),
    "c": (0j, 1e30j, complex(np.nan, np.inf)),
}  # fmt: skip
INTERNAL = "only derivatives and functions that have looked at the values use it"
UNCHECKED = {
    **dict.fromkeys(["_ctc_loss_backward", "masked_select", "max_pool_backward", "max_pool_read"], INTERNAL),
    **{f"index_backward{k}": INTERNAL for k in range(1, 7)},
}


def hostile_samples() -> dict[str, tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]]:
    """Per operation whose rule raises for some values of its sample's shapes: good inputs, bad ones, params."""
    found: dict[str, Any] = {}
    for name, samples in SPECS.items():
        for sample in samples if OPS[name].numpy is not None else ():
            for position, x in enumerate(sample.inputs):
                for value in HOSTILE[x.dtype.kind] if isinstance(x, np.ndarray) else ():
                    bad = (*sample.inputs[:position], np.full_like(x, value), *sample.inputs[position + 1 :])
                    if name not in found and raises(name, bad, sample.params):
                        found[name] = (sample.inputs, bad, sample.params)
    return found


def raises(name: str, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> bool:
    op = OPS[name]
    avals = [make_aval(x.shape, from_numpy_dtype(x.dtype)) if isinstance(x, np.ndarray) else x for x in inputs]
    if op.num_inputs < 0:
        return False
    out = op.aval(*avals, *params)
    try:
        run_numpy(op, list(inputs), params, out if isinstance(out, tuple) else (out,))
    except Exception:
        return True
    return False


SAMPLES = hostile_samples()


def test_every_operation_that_raises_for_some_values_says_so() -> None:
    silent = {name for name in SAMPLES if not (OPS[name].checks_values or OPS[name].checks_reals)}
    assert silent == set(UNCHECKED)


def tensors(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(jg.tensor(x) if isinstance(x, np.ndarray) else x for x in inputs)


def error_of(step: Callable[..., Any], *args: Any) -> tuple[str, str] | None:
    try:
        step(*args)
    except Exception as error:
        return type(error).__name__, str(error)
    return None


USES: dict[str, Callable[[Any], Any]] = {
    "unused": lambda out: None,
    "returned": lambda out: out,
    "a part is returned": lambda out: out.reshape(-1)[:1] if out.numel() else out,
    "a part of what follows": lambda out: (out * 2 + 1).reshape(-1)[1:2],
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", sorted(set(SAMPLES) - set(UNCHECKED)))
def test_an_error_is_raised_whoever_uses_the_value(name: str, use: str, mode: Mode) -> None:
    good, bad, params = SAMPLES[name]

    def step(x: Any, *inputs: Any) -> Any:
        y = x * 2
        out = door.apply(OPS[name], *inputs, *params)
        return y, USES[use](out[0] if isinstance(out, tuple) else out)

    x = jg.ones(3)
    want = error_of(step, x, *tensors(bad))
    assert want is not None
    function = mode.wrap(step)
    if mode.name == "warm":
        for _ in range(2):
            assert error_of(function, x, *tensors(good)) is None
    for _ in range(2):
        assert error_of(function, x, *tensors(bad)) == want
    assert error_of(function, x, *tensors(good)) is None


def bce_in_the_middle(lib: Any, functional: Any, x: Any, w: Any) -> Any:
    p = x * w
    functional.binary_cross_entropy(p, lib.ones(3))
    w.add_(1)
    return p


def bce_of_which_only_the_gradient_counts(lib: Any, functional: Any, x: Any, w: Any) -> Any:
    functional.binary_cross_entropy(x * w, lib.ones(3)).backward()
    return w.grad


def singular(lib: Any, functional: Any, x: Any, w: Any) -> Any:
    lib.linalg.inv((x * w).reshape(3, 1) * lib.zeros(3, 3))
    w.add_(1)
    return x


def index_computed_in_the_step(lib: Any, functional: Any, x: Any, w: Any) -> Any:
    x[(w * 3).long()]
    return x * 2


def caught_where_it_is_raised(lib: Any, functional: Any, x: Any, w: Any) -> Any:
    seen = []
    for p in (x * w, (x * w).sigmoid(), x * 0.5):
        try:
            functional.binary_cross_entropy(p, lib.ones(3))
        except RuntimeError:
            seen.append("bce")
    try:
        lib.linalg.inv(x.reshape(3, 1) * lib.ones(1, 3) * 0)
    except RuntimeError:
        seen.append("inv")
    raise KeyError(seen)


STEPS = [
    caught_where_it_is_raised, bce_in_the_middle, bce_of_which_only_the_gradient_counts, singular,
    index_computed_in_the_step,
]  # fmt: skip


@pytest.mark.parametrize("step", STEPS)
def test_steps_raise_what_pytorch_raises(step: Any, mode: Mode) -> None:
    def arguments(lib: Any) -> tuple[Any, Any]:
        w = lib.tensor([2.0, 3.0, 4.0], requires_grad=step is bce_of_which_only_the_gradient_counts)
        return lib.tensor([0.1, 0.2, 0.9]), w

    torch = pytest.importorskip("torch", reason="compares with torch")
    want = error_of(step, torch, torch.nn.functional, *arguments(torch))
    assert want is not None
    function = mode.wrap(lambda x, w: step(jg, F, x, w))
    for _ in range(3):
        got = error_of(function, *arguments(jg))
        assert got is not None
        assert got[0].lstrip("_") == want[0].lstrip("_")
        if want[0] == "KeyError":
            assert got == want


def test_a_cross_entropy_of_a_sigmoid_is_one_segment() -> None:
    @jg.compile
    def step(x: Any) -> Any:
        return F.binary_cross_entropy((x * 2).sigmoid().reshape(-1), jg.ones(3)) * 2

    before = jg.stats()["segments"]
    step(jg.ones(3, 1))
    assert jg.stats()["segments"] - before == 1
