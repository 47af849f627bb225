"""Every table entry in forward mode and inside ``vmap``: against differences, and against one example at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import functions
from jitgrad.door import door
from jitgrad.ops.table import OPS
from jitgrad.ops.tangents.jvps import JVPS
from jitgrad.transforms import dual
from jitgrad.transforms.batch import BatchLevel
from jitgrad.transforms.batch_rules import RULES
from jitgrad.transforms.dual import DualLevel
from jitgrad.transforms.level import level
from tests.conftest import Mode
from tests.ops.op_specs import NO_DERIVATIVE, SPECS, Sample

CASES = [pytest.param(name, s, id=f"{name}-{i}") for name, samples in SPECS.items() for i, s in enumerate(samples)]
SMOOTH = [
    case
    for case in CASES
    if OPS[case.values[0]].vjps and case.values[0] not in NO_DERIVATIVE and case.values[1].is_smooth  # type: ignore[index, union-attr]
]  # type: ignore[index]


def _tensors(inputs: tuple[Any, ...]) -> list[Any]:
    def one(x: Any) -> Any:
        return [one(y) for y in x] if isinstance(x, list) else functions.tensor(x) if isinstance(x, np.ndarray) else x

    return [one(x) for x in inputs]


def _outputs(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]


def _directions(inputs: tuple[Any, ...]) -> list[Any]:
    """A random direction for every floating array, None for the rest."""
    rng = np.random.default_rng(5)

    def one(x: Any) -> Any:
        if isinstance(x, list):
            return [one(y) for y in x]
        return np.asarray(rng.standard_normal(x.shape)) if isinstance(x, np.ndarray) and x.dtype.kind in "fc" else None

    return [one(x) for x in inputs]


def _moved(x: Any, t: Any, eps: float) -> Any:
    if isinstance(x, list):
        return [_moved(y, s, eps) for y, s in zip(x, t, strict=True)]
    return x if t is None else np.asarray(x + eps * t)


def _is_constant(name: str, position: int) -> bool:
    vjps = OPS[name].vjps
    return OPS[name].num_inputs >= 0 and vjps[position] is None


def _numerical(name: str, sample: Sample, directions: list[Any], eps: float = 1e-6) -> list[Any]:
    sides = []
    for step in (eps, -eps):
        moved = tuple(_moved(x, t, step) for x, t in zip(sample.inputs, directions, strict=True))
        sides.append([y.numpy() for y in _outputs(door.apply(OPS[name], *_tensors(moved), *sample.params))])
    return [(a - b) / (2 * eps) if a.dtype.kind in "fc" else None for a, b in zip(*sides, strict=True)]


def _forward(name: str, sample: Sample, directions: list[Any]) -> list[Any]:
    """The outputs' tangents."""
    inputs = _tensors(sample.inputs)
    with level(DualLevel()) as here:
        for x, t in zip(inputs, directions, strict=True):
            for one, direction in zip(x, t, strict=True) if isinstance(x, list) else [(x, t)]:
                if direction is not None:
                    here.attach(one, functions.tensor(direction))
        outs = _outputs(door.apply(OPS[name], *inputs, *sample.params))
        return [here.tangent(y) for y in outs]


def _check(tangents: list[Any], expected: list[Any]) -> None:
    for got, want in zip(tangents, expected, strict=True):
        if want is None:
            assert got is None
            continue
        value = np.zeros(want.shape) if got is None else got.detach().numpy()
        assert value.shape == want.shape
        exact = want.dtype in (np.float64, np.complex128)  # differences of float32 results say little
        np.testing.assert_allclose(value, want, rtol=1e-6 if exact else 0.1, atol=1e-7 if exact else 0.05)


def _smooth_directions(name: str, sample: Sample) -> list[Any]:
    directions = _directions(sample.inputs)
    if name in ("linalg_cholesky_ex", "linalg_cholesky_info", "_linalg_eigh"):  # of symmetric matrices
        directions = [t + t.swapaxes(-1, -2) for t in directions]
    if OPS[name].num_inputs < 0:
        return directions
    return [None if t is not None and _is_constant(name, i) else t for i, t in enumerate(directions)]


@pytest.mark.parametrize(("name", "sample"), SMOOTH)
def test_tangents_are_directional_derivatives(name: str, sample: Sample) -> None:
    directions = _smooth_directions(name, sample)
    _check(_forward(name, sample, directions), _numerical(name, sample, directions))


# an embedding's padding row has zeros for its gradient, by definition, but it moves all the same
TRANSPOSED = [case for case in SMOOTH if case.values[0] != "embedding" or case.values[1].params[0] < 0]  # type: ignore[union-attr]


@pytest.mark.parametrize(("name", "sample"), TRANSPOSED)
def test_what_has_no_tangent_rule_is_transposed(name: str, sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dual, "jvp_rule", lambda op: JVPS[op] if op is not OPS[name] else dual.by_transposition)
    directions = _smooth_directions(name, sample)
    _check(_forward(name, sample, directions), _numerical(name, sample, directions))


def test_only_what_has_gradients_has_tangent_rules() -> None:
    assert not [op.name for op in JVPS if not op.vjps]


@pytest.mark.parametrize(("name", "sample"), SMOOTH)
def test_tangents_in_a_compiled_step(name: str, sample: Sample, mode: Mode) -> None:
    directions = _smooth_directions(name, sample)

    def step(*tensors: Any) -> Any:
        inputs, moves = list(tensors[: len(sample.inputs)]), tensors[len(sample.inputs) :]
        with level(DualLevel()) as here:
            for x, t in zip(inputs, moves, strict=True):
                for one, direction in zip(x, t, strict=True) if isinstance(x, list) else [(x, t)]:
                    if direction is not None:
                        here.attach(one, direction)
            outs = _outputs(door.apply(OPS[name], *inputs, *sample.params))
            return [here.tangent(y) for y in outs]

    def arguments() -> tuple[Any, ...]:
        return (*_tensors(sample.inputs), *_tensors(tuple(directions)))

    _check(mode.run(step, arguments), _numerical(name, sample, directions))


BATCH = 3


def _stacked(x: Any, rng: np.random.Generator) -> Any:
    """A batch of variations of an array that are as valid as the array itself."""
    if isinstance(x, list):
        return [_stacked(y, rng) for y in x]
    if not isinstance(x, np.ndarray):
        return x
    factors = rng.uniform(0.7, 1.0, (BATCH, *(1,) * x.ndim))
    return (x * factors) if x.dtype.kind == "f" else np.stack([x] * BATCH)


def _example(x: Any, i: int, is_batched: bool) -> Any:
    if isinstance(x, list):
        return [_example(y, i, is_batched) for y in x]
    return np.asarray(x[i]) if is_batched and isinstance(x, np.ndarray) else x


def _masks(sample: Sample) -> list[tuple[bool, ...]]:
    """Which inputs are batched: all, and each alone."""
    arrays = [isinstance(x, np.ndarray | list) for x in sample.inputs]
    masks = [tuple(arrays)] if any(arrays) else []
    if sum(arrays) > 1:
        masks += [tuple(k == i for k in range(len(arrays))) for i, is_array in enumerate(arrays) if is_array]
    return masks


BATCHED = [case for case in CASES if _masks(case.values[1]) and "_update" not in case.values[0]]  # type: ignore[arg-type, operator]


@pytest.mark.parametrize("has_rule", [True, False], ids=["rule", "loop"])
@pytest.mark.parametrize(("name", "sample"), BATCHED)
def test_a_batch_is_its_examples_stacked(
    name: str, sample: Sample, has_rule: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    op = OPS[name]
    if not has_rule:
        if op not in RULES:
            return  # the other half of the test has looped
        monkeypatch.delitem(RULES, op)
    whole = tuple(_stacked(x, np.random.default_rng(11)) for x in sample.inputs)
    for mask in _masks(sample):
        inputs = [w if m else x for w, x, m in zip(whole, sample.inputs, mask, strict=True)]
        with level(BatchLevel(BATCH)) as here:
            handles = [_wrapped(here, x) if m else x for x, m in zip(_tensors(tuple(inputs)), mask, strict=True)]
            got = [y._physical for y in _outputs(door.apply(op, *handles, *sample.params))]
        rows = []
        for i in range(BATCH):
            example = tuple(_example(x, i, m) for x, m in zip(inputs, mask, strict=True))
            rows.append(_outputs(door.apply(op, *_tensors(example), *sample.params)))
        for y, column in zip(got, zip(*rows, strict=True), strict=True):
            assert y.dtype is column[0].dtype
            np.testing.assert_allclose(y.numpy(), np.stack([r.numpy() for r in column]), rtol=1e-12, atol=1e-12)


def _wrapped(here: Any, x: Any) -> Any:
    return [here.wrap(y) for y in x] if isinstance(x, list) else here.wrap(x)


def test_every_result_of_a_batch_may_be_differentiated() -> None:
    x = jitgrad.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    with level(BatchLevel(2)) as here:
        y = (here.wrap(x) ** 2).sum()
    y._physical.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[2, 4], [6, 8]])
