"""A few seconds of the fuzzer, and the programs that once failed. ``python -m tests.fuzz`` does more."""

from __future__ import annotations

from typing import Any

import pytest
from fuzz import Call, Program, check, find_failure, generate, interpreted, leaving, shrink
from fuzz_found import FOUND
from fuzz_run import Twin, compiled_rounds

import jitgrad

NATIVE, INTERPRETED = range(40), range(1000, 1120)


def _check(seed: int, *, with_torch: bool) -> None:
    program = generate(seed)
    failure = find_failure(program, with_torch=with_torch)
    if failure is not None:
        small = shrink(program, failure.kind, with_torch=with_torch, seconds=10)
        pytest.fail(f"{find_failure(small, with_torch=with_torch) or failure}\n{small}")


def _chunks(seeds: range, size: int) -> Any:
    chunks = [seeds[i : i + size] for i in range(0, len(seeds), size)]
    return pytest.mark.parametrize("seeds", chunks, ids=lambda chunk: f"from {chunk.start}")


@pytest.mark.looks_for_torch
@_chunks(NATIVE, 10)
def test_random_programs(seeds: range) -> None:
    for seed in seeds:
        _check(seed, with_torch=True)


@_chunks(INTERPRETED, 30)
def test_random_programs_of_the_tracer_alone(seeds: range) -> None:
    with interpreted():
        for seed in seeds:
            _check(seed, with_torch=False)


@pytest.mark.parametrize("limit", [3, 9, 25])
def test_random_programs_whose_calls_leave_their_recording(limit: int) -> None:
    with leaving(limit):
        for seed in range(5):
            _check(limit * 1000 + seed, with_torch=False)


def test_programs_are_reproducible() -> None:
    assert [generate(s) for s in range(5)] == [generate(s) for s in range(5)]
    program = generate(3)
    namespace: dict[str, object] = {}
    exec(str(program).split("\ncheck(")[0].replace("tests.fuzz", "fuzz"), namespace)
    text = str(program).split("\ncheck(")[1].rstrip()[:-1]
    assert eval(text, namespace) == program


@pytest.mark.looks_for_torch
def test_a_failure_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_wrongly(step: Any) -> Any:
        def wrong(lib: Any, s: Any) -> Any:
            result = step(lib, s)
            if s.n0 == 3:
                with lib.no_grad():
                    s.p0.add_(1.0)
            return result

        return wrong

    statements = ("v1 = s.x0 * 2", "v2 = v1.sin()", "v3 = s.p0 + 1", "out.append(v1.sum().item())")
    program = Program(statements, (Call(), Call(a0=0.25, n0=3), Call(keep=("v2",))), 7)
    assert find_failure(program) is None
    monkeypatch.setattr(jitgrad, "compile", compile_wrongly)
    failure = find_failure(program)
    assert failure is not None
    assert failure.kind == "first round against eager, values"
    small = shrink(program, failure.kind)
    assert (small.statements, small.calls) == ((), (Call(n0=3),))


def test_a_process_without_native_hits_shows_and_counts_the_same() -> None:
    twin = Twin()
    try:
        for seed in range(200, 204):
            check(generate(seed), with_torch=False, twin=twin)
        for seed in (9500252, 9500576, 9603514):  # which once took other paths there
            check(FOUND[seed], with_torch=False, twin=twin)
        twin.start(generate(204))
        shown = twin.result()
        assert [counted["hits"] for _, counted in shown] == [
            counted["hits"] for _, counted in compiled_rounds(generate(204))
        ]
    finally:
        twin.close()


def test_a_program_that_rounding_decides_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """``sin`` of large numbers: a relative change of 1e-14 shows in the second digit."""
    grown = ("v1 = s.p1 * 1e6", "v2 = (v1 * v1 * 3).sin()", "v3 = v1 * 1e-6")
    monkeypatch.setattr(jitgrad, "compile", lambda step: lambda lib, s: [x * 1.01 for x in step(lib, s)])
    assert find_failure(Program(grown, (Call(keep=("v2",)),)), with_torch=False) is None
    assert find_failure(Program(grown, (Call(keep=("v3",)),)), with_torch=False) is not None


def test_what_torch_leaves_undefined_is_no_reference() -> None:
    """An operand that overlaps with what is written: torch's kernel may read what it has written."""
    pytest.importorskip("torch")
    overlapping = Program(("v1 = s.p0 * 1\nv2 = v1.diagonal()\nv1.addcmul_(v2, v2)",), (Call(keep=("v1",)),), 3002859)
    assert find_failure(overlapping) is None


@pytest.mark.looks_for_torch
@pytest.mark.parametrize("seed", FOUND)
def test_programs_that_once_failed(seed: int) -> None:
    check(FOUND[seed])
