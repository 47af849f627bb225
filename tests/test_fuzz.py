"""A few seconds of the fuzzer, and the programs that once failed. ``python -m tests.fuzz`` does more."""

from __future__ import annotations

import pytest
from fuzz import Call, Program, check, find_failure, generate, interpreted, shrink

import jitgrad

NATIVE, INTERPRETED = range(40), range(1000, 1120)


def _check(seed: int, *, with_torch: bool) -> None:
    program = generate(seed)
    failure = find_failure(program, with_torch=with_torch)
    if failure is not None:
        small = shrink(program, failure.kind, with_torch=with_torch, seconds=10)
        pytest.fail(f"{find_failure(small, with_torch=with_torch) or failure}\n{small}")


@pytest.mark.parametrize("seeds", [NATIVE[i : i + 10] for i in range(0, len(NATIVE), 10)], ids=lambda r: f"from {r.start}")
def test_random_programs(seeds: range) -> None:
    for seed in seeds:
        _check(seed, with_torch=True)


@pytest.mark.parametrize("seeds", [INTERPRETED[i : i + 30] for i in range(0, len(INTERPRETED), 30)],
                         ids=lambda r: f"from {r.start}")  # fmt: skip
def test_random_programs_of_the_tracer_alone(seeds: range) -> None:
    with interpreted():
        for seed in seeds:
            _check(seed, with_torch=False)


def test_programs_are_reproducible() -> None:
    assert [generate(s) for s in range(5)] == [generate(s) for s in range(5)]
    program = generate(3)
    namespace: dict[str, object] = {}
    exec(str(program).split("\ncheck(")[0].replace("tests.fuzz", "fuzz"), namespace)
    text = str(program).split("\ncheck(")[1].rstrip()[:-1]
    assert eval(text, namespace) == program


def test_a_failure_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    statements = ("v1 = s.x0 * 2", "v2 = v1.sin()", "v3 = s.p0 + 1", "out.append(v1.sum().item())")
    program = Program(statements, (Call(), Call(a0=0.25), Call(keep=("v2",))), 7)
    assert find_failure(program) is None
    real = jitgrad.Tensor.sin
    # compiled steps see a wrong sine
    monkeypatch.setattr(jitgrad.Tensor, "sin", lambda x: real(x) + 0.5 if jitgrad.stats()["traces"] % 2 == 0 else real(x))
    jitgrad.reset_stats()
    failure = find_failure(program, with_torch=False)
    if failure is not None:  # which calls are wrong depends on the counter
        small = shrink(program, failure.kind, with_torch=False, seconds=5)
        assert len(small.statements) <= len(statements)


REGRESSIONS = {
    "saved view of an input": Program(
        ("v1 = s.p0 @ s.p0.transpose(-1, -2)", "v5 = v1.sum()"), (Call(keep=("v5",), after=1),), 12
    ),
    "accumulating onto a gradient with a graph": Program(
        ("s.p0.sum().backward()", "v3 = s.x1 @ s.p0", "(v3 * v3).mean().backward(create_graph=True)"),
        (Call(), Call(), Call()),
        136,
    ),
    "grad_fn of an input leaf": Program(("out.append(s.p1.grad_fn is None)", "repr(s.p1)"), (Call(), Call()), 39),
    "write to a value with a detached sibling": Program(
        ("v2 = s.x0.expand(1, *s.x0.shape)", "v4 = v2.detach().requires_grad_()", "v2.mul_(-1.5)"), (Call(),), 186
    ),
    "view of an input gets a graph": Program(("s.x0[:1] += s.p1",), (Call(), Call()), 102),
}


@pytest.mark.parametrize("program", REGRESSIONS.values(), ids=REGRESSIONS)
def test_programs_that_once_failed(program: Program) -> None:
    check(program)
