"""``torch.testing``, the profiler by steps, and what ``torch`` has in places that scripts look at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.profiler import ProfilerAction, profile, record_function, schedule, tensorboard_trace_handler
from tests.conftest import Mode

torch = pytest.importorskip("torch")
NAN = float("nan")

PAIRS = {
    "close": lambda t: (t.tensor([1.0, 2.0]), t.tensor([1.0, 2.000001]), {}),
    "not close": lambda t: (t.tensor([1.0, 2.0]), t.tensor([1.0, 2.1]), {}),
    "not equal": lambda t: (t.tensor([1, 2]), t.tensor([1, 3]), {}),
    "no dimension": lambda t: (t.tensor(1.0), t.tensor(2.0), {}),
    "floats": lambda t: (1.0, 1.1, {}),
    "ints": lambda t: (1, 2, {}),
    "an int and a float": lambda t: (1, 1.0, {}),
    "shapes": lambda t: ([t.ones(2)], [t.ones(3)], {}),
    "lengths": lambda t: ([t.ones(2)], [], {}),
    "keys": lambda t: ({"a": 1}, {"b": 1}, {}),
    "nested": lambda t: ({"a": [1, (2, 3.0)]}, {"a": [1, (2, 4.0)]}, {}),
    "dtypes": lambda t: (t.ones(1), t.ones(1).double(), {}),
    "dtypes that are not checked": lambda t: (t.ones(1), t.ones(1).double(), {"check_dtype": False}),
    "strides": lambda t: (t.ones(2, 3), t.ones(3, 2).t(), {"check_stride": True}),
    "nan": lambda t: (t.tensor([NAN]), t.tensor([NAN]), {}),
    "nan is nan": lambda t: (t.tensor([NAN]), t.tensor([NAN]), {"equal_nan": True}),
    "infinite": lambda t: (t.tensor([1e9, float("inf")]), t.tensor([1e9 + 1, float("inf")]), {}),
    "tolerances": lambda t: (t.tensor([1.0]), t.tensor([1.2]), {"rtol": 0.0, "atol": 0.3}),
    "one tolerance": lambda t: (t.ones(1), t.ones(1), {"rtol": 1.0}),
    "halves": lambda t: (t.ones(2).bfloat16(), t.ones(2).bfloat16() * 1.01, {}),
    "own words": lambda t: (1, 2, {"msg": "hm"}),
    "own words around": lambda t: (1, 2, {"msg": lambda text: f"[{text[:7]}]"}),
    "None": lambda t: (None, 1, {}),
    "text": lambda t: ("a", "a", {}),
    "an array": lambda t: (t.ones(1), np.ones(1, np.float32), {}),
    "arrays": lambda t: (np.ones(2), np.array([1.0, 2.0]), {}),
    "a tensor and a number": lambda t: (t.ones(2), 1.0, {}),
}


@pytest.mark.parametrize("name", PAIRS)
def test_assert_close(name: str) -> None:
    def outcome(lib: Any) -> Any:
        actual, expected, rules = PAIRS[name](lib)
        try:
            lib.testing.assert_close(actual, expected, **rules)
        except Exception as error:
            return type(error), str(error).split("\n")[0].replace("jitgrad.", "torch.")
        return "close"

    found, expected = outcome(jitgrad), outcome(torch)
    if isinstance(expected, tuple) and expected[0] is AssertionError:
        assert found == expected
    else:
        assert found == expected or found[0] is expected[0]


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_query_that_may_look_nowhere(kind: str, mode: Mode) -> None:
    """It finds zeros, and gradients are numbers, as PyTorch's: a padded batch with a causal mask has such rows."""
    array = np.random.default_rng(0).standard_normal((2, 4, 3))

    def make(lib: Any) -> Any:
        mask = lib.ones(4, 4).tril().bool()
        mask[:, 0] = False
        if kind == "float":
            mask = lib.zeros(4, 4, dtype=lib.float64).masked_fill(~mask, float("-inf"))
        return lib.tensor(array, requires_grad=True), mask

    def step(x: Any, mask: Any) -> Any:
        lib = jitgrad if isinstance(x, jitgrad.Tensor) else torch
        found = lib.nn.functional.scaled_dot_product_attention(x, x * 2, x, mask)
        (found * found).sum().backward()
        return found, x.grad

    found, grad = mode.run(step, lambda: make(jitgrad))
    expected, expected_grad = step(*make(torch))
    assert not found[:, 0].any()
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(grad.numpy(), expected_grad.numpy(), rtol=1e-8, atol=1e-12)


# --- the profiler by steps ---

SCHEDULES = [
    {"wait": 1, "warmup": 1, "active": 2, "repeat": 1}, {"wait": 0, "warmup": 1, "active": 1},
    {"wait": 2, "warmup": 1, "active": 2, "skip_first": 3}, {"wait": 2, "warmup": 1, "active": 1, "skip_first_wait": 1},
]  # fmt: skip


@pytest.mark.parametrize("options", SCHEDULES, ids=str)
def test_schedules(options: dict[str, int]) -> None:
    ours, theirs = schedule(**options), torch.profiler.schedule(**options)
    assert [ours(i).name for i in range(20)] == [theirs(i).name for i in range(20)]


def test_steps_that_are_recorded(tmp_path: Path) -> None:
    ready = []

    def on_ready(prof: Any) -> None:
        names = [event.name for event in prof.events() if event.category == "user"]
        ready.append((prof.step_num, names))
        tensorboard_trace_handler(str(tmp_path), "me", use_gzip=len(ready) > 1)(prof)

    with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=on_ready) as prof:
        for i in range(9):
            with record_function(f"step {i}"):
                jitgrad.ones(2) + 1
            prof.step()
    assert ready == [(4, ["step 2", "step 3"]), (8, ["step 6", "step 7"])]
    assert prof.current_action is ProfilerAction.NONE
    plain, packed = sorted(tmp_path.iterdir(), key=lambda path: path.suffix == ".gz")
    assert json.loads(plain.read_text())["traceEvents"]
    assert packed.suffix == ".gz"
    with pytest.raises(AssertionError, match="Invalid profiler schedule"):
        schedule(wait=0, warmup=1, active=0)


def test_without_a_schedule_everything_is_recorded() -> None:
    ready = []
    with profile(on_trace_ready=ready.append) as prof:
        jitgrad.ones(2) + 1
        prof.step()
        jitgrad.ones(2) * 2
    assert ready == [prof]
    assert {"add", "mul"} <= {event.name for event in prof.events()}
