"""Symbolic extents: Note [Symbolic extents]. What is computed of symbols is what is computed of plain numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitgrad.dtypes import float32
from jitgrad.ops.aval import contiguous_strides, make_aval
from jitgrad.symbols.evaluator import evaluator, symbols_in
from jitgrad.symbols.number import (
    ShapeEnv,
    SymNumber,
    current_env,
    greatest,
    is_symbolic,
    lifted,
    similar,
    smallest,
    value_of,
    whole,
    without_tokens,
)

Program = Callable[[list[Any], list[bool]], list[Any]]


_ARITHMETIC: list[Callable[[Any, Any, int], Any]] = [
    lambda x, y, n: x + y, lambda x, y, n: x - y, lambda x, y, n: x * y, lambda x, y, n: x * n,
    lambda x, y, n: x // n, lambda x, y, n: x % n, lambda x, y, n: -(-x // n), lambda x, y, n: greatest(x, y),
    lambda x, y, n: smallest(x, n), lambda x, y, n: whole(x * 1.5 / n), lambda x, y, n: n - x,
    lambda x, y, n: max(x, y), lambda x, y, n: abs(x - y),
]  # fmt: skip


def _random_program(seed: int) -> Program:
    """Some arithmetic, and questions; what it has answered is appended to its second argument."""
    rng = random.Random(seed)
    steps = [(rng.randrange(16), rng.random(), rng.random(), rng.choice([1, 2, 3, 4, 7, 16, 64])) for _ in range(14)]

    def run(numbers: list[Any], answers: list[bool]) -> list[Any]:
        known = [*numbers, 1, 16]
        for kind, a, c, n in steps:
            x, y = known[int(a * len(known))], known[int(c * len(known))]
            if kind == 13:
                answers.append(bool(x < y))
                continue
            if kind == 14:
                answers.append(bool(x == y * n))
                continue
            if kind == 15:
                answers.append(bool(x))
                continue
            known.append(_ARITHMETIC[kind](x, y, n))
        return known

    return run


@pytest.mark.parametrize("seed", range(150))
def test_random_arithmetic(seed: int) -> None:
    """Where all answers are the same, numbers are right; where one is another, a guard says so."""
    program, rng = _random_program(seed), random.Random(seed)
    env, values = ShapeEnv(), [rng.randrange(2, 90) for _ in range(2)]
    answers: list[bool] = []
    with env:
        found = program([env.symbol(n) for n in values], answers)
    plain: list[bool] = []
    assert [value_of(x) for x in found] == program(list(values), plain)
    assert answers == plain
    evaluate = evaluator(env.guards, 2, [x for x in found if is_symbolic(x)])
    for _ in range(30):
        others = [rng.randrange(2, 120) for _ in range(2)]
        again: list[bool] = []
        wanted = program(list(others), again)
        got = evaluate(*others)
        if got is not None:
            assert again == answers
            assert list(got) == [x for x, mine in zip(wanted, found, strict=True) if is_symbolic(mine)]
        elif again == answers:  # ``max`` asks, too
            assert any(g.op in ("<", ">", "<=", ">=") for g in env.guards)
    assert evaluate(*values) == tuple([value_of(x) for x in found if is_symbolic(x)])


def test_equal_expressions_are_one_and_ask_nothing() -> None:
    env = ShapeEnv()
    n, m = env.symbol(37), env.symbol(52)
    assert n * 16 * 4 is 64 * n
    assert (n + 3) - 3 is n and n - n == 0 and (n * m) // m is n and (n * 12) % 4 == 0
    assert (n * 2 + m) * 3 is m * 3 + n * 6
    assert -(-(n * 6) // n) == 6
    assert n > 1 and n != 0 and n * m >= 4 and n * 16 < n * 17 and not n + m < n and n - 1 >= 1
    assert contiguous_strides((n, 4, m)) == (4 * m, m, 1)
    assert not env.guards


def test_what_cannot_keep_an_expression_asks_for_the_value() -> None:
    uses: list[Callable[[Any], Any]] = [
        lambda n: list(range(n)), lambda n: [0] * n, int, float, lambda n: np.zeros(n), math.sqrt, lambda n: "ab"[n:],
        lambda n: np.arange(3) * n, lambda n: n + np.ones(2), lambda n: np.array([n, 2]), lambda n: np.add(1.5, n),
    ]  # fmt: skip
    for use in uses:
        env = ShapeEnv()
        n = env.symbol(5)
        made = use(n)
        assert not isinstance(made, np.ndarray) or made.dtype.kind in "if", "addresses of objects are no numbers"
        assert [(g.op, g.x is n, g.y, g.answer) for g in env.guards] == [("==", True, 5, True)]
        assert evaluator(env.guards, 1, [n])(6) is None
        assert evaluator(env.guards, 1, [n])(5) == (5,)


def test_it_looks_like_its_value() -> None:
    env = ShapeEnv()
    n = env.symbol(12)
    assert isinstance(n, int) and isinstance(n / 5, float) and type(n) is SymNumber
    assert f"{n:04d}" == "0012"
    assert not env.guards
    assert n in {n: 1} and 12 not in {n: 1}


def test_calls_are_kept() -> None:
    env = ShapeEnv()
    n = env.symbol(100)
    found = lifted(math.gcd)(n, 24), whole(n / 7), round(n / 7), math.ceil(n / 7), n.bit_length()
    assert tuple(map(value_of, found)) == (4, 14, 14, 15, 7)
    assert evaluator(env.guards, 1, found)(36) == (12, 5, 5, 6, 6)
    assert not env.guards


def test_similar_is_the_value_between_two_powers_of_two() -> None:
    env = ShapeEnv()
    assert similar(env.symbol(100)) == 100 and similar(7) == 7
    assert not env.guards
    evaluate = evaluator(env.advice, 1, [])
    assert [evaluate(n) is not None for n in (63, 64, 100, 127, 128)] == [False, True, True, True, False]


def test_guards_come_before_what_they_protect() -> None:
    env = ShapeEnv()
    n = env.symbol(10)
    quotient = 100 // (n - 4) if n > 4 else 0
    evaluate = evaluator(env.guards, 1, [quotient])
    assert evaluate(4) is None and evaluate(6) == (50,)


def test_how_many_symbols_a_number_is_made_of() -> None:
    env = ShapeEnv()
    n, m = env.symbol(3), env.symbol(4)
    assert [symbols_in(x) for x in (5, n, m, n * 2 + 1, (n, (m, 1)), whole(m / 2))] == [0, 1, 2, 1, 2, 2]


def test_layouts_of_symbols_are_interned_in_their_planning_alone() -> None:
    env = ShapeEnv()
    with env:
        assert current_env() is env
        n = env.symbol(6)
        x = make_aval((n, 4), float32)
        assert x is make_aval((n, 4), float32) and x.is_contiguous and value_of(x.numel) == 24
        turned = make_aval((4, n), float32, (1, 4))
        assert not turned.is_contiguous
        assert x is not make_aval((6, 4), float32)
    assert current_env() is None
    other = ShapeEnv()
    with other:
        assert make_aval((other.symbol(6), 4), float32) is not x
    assert n != other.symbols[0], "a cache that has both keeps them apart"


def test_what_people_read_of_them() -> None:
    env = ShapeEnv()
    n = env.symbol(37)
    assert without_tokens(f"visits {[n, 16]}, not {[n * 2 + 1]} or {[n / 8]}") == "visits [n, 16], not [n] or [n]"
    assert without_tokens("visits [37, 16]") == "visits [37, 16]"
