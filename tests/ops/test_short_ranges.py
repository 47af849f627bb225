"""What PyTorch's samples found: integer ranges, short dtypes, empty tensors, with what PyTorch 2.13 computes."""

from __future__ import annotations

from typing import Any

import pytest
from modes import Mode

import jitgrad
import jitgrad.nn.functional as F


@pytest.mark.parametrize(
    ("args", "dtype", "expected"),
    [
        ((0.0, -8.000001, -4.0), "int64", [0, -4]),
        ((0.0, 8.000001, 4.0), "int8", [0, 4, 8]),
        ((0.6, 7.9, 1.3), "int32", [0, 1, 2, 3, 4, 5]),
        ((0.6, 7.9, 1.3), "int64", [0, 1, 2, 3, 4, 5, 6]),
        ((0.7, 3.5, 0.6), "int16", [0, 0, 0, 0, 0]),
        ((0.7, 0.7, 0.1), "int16", []),
    ],
)
def test_integer_ranges_count_with_whole_numbers(args: tuple[float, ...], dtype: str, expected: list[int]) -> None:
    assert jitgrad.arange(*args, dtype=getattr(jitgrad, dtype)).tolist() == expected


def test_one_number_of_a_logarithmic_range_is_its_start() -> None:
    assert jitgrad.logspace(0, -3, 1, dtype=jitgrad.int64).tolist() == [1]


def test_a_logarithmic_range_of_integers_is_exact_and_one_of_complex_numbers_is_not_cut(mode: Mode) -> None:
    def ranges() -> tuple[Any, ...]:
        whole = jitgrad.logspace(0, 4.3, 5, 3, dtype=jitgrad.int64)
        return whole, jitgrad.logspace(0.5, 1.5, 2, 4.0, dtype=jitgrad.cdouble)

    whole, between = mode.run(ranges, lambda: ())
    assert whole.tolist() == [1, 3, 9, 27, 81]
    assert between.tolist() == pytest.approx([2 + 0j, 8 + 0j])


def test_differences_of_order_zero_join_nothing() -> None:
    x = jitgrad.arange(3.0)
    assert jitgrad.diff(x, 0, 0, x).tolist() == [0.0, 1.0, 2.0]


def test_a_circle_is_closed_after_it_was_cropped() -> None:
    found = F.pad(jitgrad.arange(4.0).reshape(1, 1, 4), (-1, 2), "circular")
    assert found.flatten().tolist() == [1.0, 2.0, 3.0, 1.0, 2.0]


def test_running_sums_have_the_dtype_that_is_asked_for() -> None:
    step = jitgrad.compile(lambda x: x.cumsum(0, dtype=jitgrad.int16))
    for function in (lambda x: x.cumsum(0, dtype=jitgrad.int16), step, step, step):
        found = function(jitgrad.arange(4))
        assert found.dtype is jitgrad.int16
        assert found.tolist() == [0, 1, 3, 6]


def test_squares_of_halves_do_not_overflow() -> None:
    x = jitgrad.tensor([300.0, 400.0], dtype=jitgrad.float16)
    for function in (F.rms_norm, *[jitgrad.compile(F.rms_norm)] * 3):
        found = function(x, (2,))
        assert found.dtype is jitgrad.float16
        assert found.tolist() == pytest.approx([0.8486, 1.1318], abs=2e-3)


def test_windows_of_the_least_integers_are_found_where_they_begin() -> None:
    x = jitgrad.full((1, 1, 2, 2), -(2**63), dtype=jitgrad.int64)
    step = jitgrad.compile(lambda x: F.max_pool2d(x, 2, 2, 1, return_indices=True))
    for function in (lambda x: F.max_pool2d(x, 2, 2, 1, return_indices=True), step, step, step):
        values, at = function(x)
        assert values.flatten().tolist() == [-(2**63)] * 4
        assert at.flatten().tolist() == [0, 1, 2, 3]
