"""Operations at computed or given positions are part of the segment: no fallback, one order of combination."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.codegen.llvm.target import host_target
from tests.modes import Mode

ROWS, WIDTH, PICKED = 7, 20, 40
RNG = np.random.default_rng(3)
TABLE, SOURCE = (RNG.standard_normal((n, WIDTH)).astype(np.float32) for n in (ROWS, PICKED))
PLACES, GRID = RNG.integers(0, ROWS, PICKED), RNG.integers(0, ROWS, (PICKED, WIDTH))

Case = Callable[[Any, Any, Any, Any, Any], Any]
"""Of the package, a table, a source of rows, positions of rows, positions of elements."""
CASES: dict[str, Case] = {
    "index_add": lambda t, x, s, i, at: x.index_add(0, i, s),
    "index_add of columns": lambda t, x, s, i, at: x.t().index_add(1, i, s.t()),
    "index_copy": lambda t, x, s, i, at: x.index_copy(0, i, s),
    "index_copy of a number": lambda t, x, s, i, at: x[:, 0].index_copy(0, i[:1], s[3, 2]),
    "index_fill": lambda t, x, s, i, at: x.index_fill(0, i[:3], s[0, 0]),
    "index_put": lambda t, x, s, i, at: x.index_put((i, at[:, 0]), s[:, 0]),
    "index_put, accumulate": lambda t, x, s, i, at: x.index_put((i,), s[:1], accumulate=True),
    "index_put, one dimension": lambda t, x, s, i, at: x[:, 0].index_put((i,), s[:, 0]),
    "gather": lambda t, x, s, i, at: x.gather(0, at),
    "scatter": lambda t, x, s, i, at: x.scatter(0, at, s),
    "scatter of a number": lambda t, x, s, i, at: x.scatter(0, at, 2.5),
    "scatter_add": lambda t, x, s, i, at: x.scatter_add(0, at[:9], s[:9]),
    "scatter_add, along rows": lambda t, x, s, i, at: s.scatter_add(1, at, s * s),
    "take": lambda t, x, s, i, at: x.take(at),
    "put": lambda t, x, s, i, at: x.put(at, s),
    "put, accumulate": lambda t, x, s, i, at: x.t().put(at, s, accumulate=True),
    "one of few columns": lambda t, x, s, i, at: s[:, :ROWS].index_put((t.arange(PICKED), i), s[:, 9]),
    "scatter and its reader": lambda t, x, s, i, at: (x.scatter(0, at, s).scatter_add(0, at, s) * x).sum(0),
    **{
        f"scatter_reduce, {kind}{'' if own else ' without self'}": (
            lambda t, x, s, i, at, kind=kind, own=own: x.scatter_reduce(0, at, s, kind, include_self=own)  # type: ignore[misc]
        )
        for kind in ("sum", "mean", "prod", "amax", "amin")
        for own in (True, False)
    },
}


def step_of(name: str) -> Callable[..., Any]:
    def step(t: Any, x: Any, s: Any, i: Any, at: Any) -> Any:
        y = CASES[name](t, x, s, i, at)
        (y * y).sum().backward()
        return [v for v in (y.detach(), x.grad, s.grad) if v is not None]

    return step


def operands(t: Any) -> tuple[Any, ...]:
    return *(t.from_numpy(a.copy()).requires_grad_() for a in (TABLE, SOURCE)), t.tensor(PLACES), t.tensor(GRID)


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_in_one_segment(name: str, mode: Mode) -> None:
    torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")
    step = step_of(name)
    theirs = step(torch, *operands(torch))
    before = jitgrad.stats()
    ours = mode.run(lambda *args: step(jitgrad, *args), lambda: operands(jitgrad))
    after = jitgrad.stats()
    for found, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=2e-5, atol=1e-5)
    if mode.is_compiled:
        assert after["fallbacks"] == before["fallbacks"]
        assert after["segments"] - before["segments"] == after["traces"] - before["traces"]


_DTYPES = ("float64", "float16", "bfloat16", "int64", "int32", "uint8")
_KINDS = ("sum", "mean", "prod", "amax", "amin", "set")


@pytest.mark.parametrize("kind, dtype", [*itertools.product(_KINDS, _DTYPES), ("set", "bool")])
def test_dtypes(kind: str, dtype: str, mode: Mode) -> None:
    torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

    def step(t: Any) -> Any:
        x = t.tensor([3, 1, 2, 7, 0]).to(getattr(t, dtype))
        source = t.tensor([2, 5, 200, 3, 100, 9]).to(getattr(t, dtype))
        at = t.tensor([0, 1, 4, 1, 4, 1])
        y = x.scatter(0, at, source) if kind == "set" else x.scatter_reduce(0, at, source, kind)
        return y.to(t.float64).tolist()

    assert mode.run(lambda: step(jitgrad)) == step(torch)


@pytest.mark.parametrize("name", ["index_add", "scatter_add", "put, accumulate", "scatter_reduce, prod"])
def test_the_order_is_the_index_s(name: str) -> None:
    """Each element is combined in index order, by any number of threads: the bits are those of NumPy's loop."""

    def run(*args: Any) -> Any:
        return CASES[name](jitgrad, *args)

    given = [v.detach() for v in operands(jitgrad)]
    plain = run(*given).numpy()
    threads = jitgrad.get_num_threads()
    compiled = jitgrad.compile(run)
    try:
        for count in (1, 2, 3):
            jitgrad.set_num_threads(count)
            found = compiled(*given)
            assert found.numpy().tobytes() == np.ascontiguousarray(plain).tobytes()
    finally:
        jitgrad.set_num_threads(threads)


# rows of tables


def _program(function: Callable[..., Any], *args: Any) -> Any:
    """What one call of a function runs."""
    (segment,) = jitgrad.explain(jitgrad.compile(function), *args).segments
    return segment.program


@pytest.mark.skipif(host_target().width == 1, reason="rows that are read lane by lane")
@pytest.mark.parametrize("form", ["map", "row"])
def test_rows_that_are_gathered_are_asked_for_ahead(form: str) -> None:
    """The index of a later unit is read where it exists only; negative ones do no harm."""
    table = jitgrad.tensor(RNG.standard_normal((50, 3 * WIDTH)).astype(np.float32))

    def rows(t: Any, i: Any) -> Any:
        found = t[i]
        return found * found.sum(1, keepdims=True) if form == "row" else found * 2

    for count in (1, 7, 8, 9, 100):
        at = RNG.integers(-50, 50, count)
        program = _program(rows, table, jitgrad.tensor(at))
        (name,) = [name for name in program.kernel_names if "gather" in name]
        assert count < 100 or "llvm.prefetch" in program.text[name]
        found = jitgrad.compile(rows)(table, jitgrad.tensor(at)).numpy()
        np.testing.assert_allclose(found, rows(table.numpy(), at), rtol=1e-5)
    with pytest.raises(IndexError):
        jitgrad.compile(rows)(table, jitgrad.tensor([3, 4, 50]))


def test_a_scatter_reads_its_indices_once_for_a_row_of_several_vectors() -> None:
    """Units of work are columns, as many as fit in a few registers."""
    for columns, most in ((40, 2), (64, 1), (300, 5)):
        table, rows = jitgrad.zeros(30, columns), jitgrad.ones(PICKED, columns)
        at = jitgrad.tensor(RNG.integers(0, 30, PICKED))
        program = _program(lambda t, i, v: t.index_add(0, i, v), table, at, rows)
        launches = [launch for step in program.steps for stage in step.stages for launch in stage]
        (units,) = [launch.units for launch in launches if launch.name.startswith("col_")]
        assert units <= max(most, -(-columns // (4 * host_target().width)))
