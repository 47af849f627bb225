"""``jitgrad.benchmark``: what it says of a step, and that the step is as it was. No test depends on times."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
import slow_steps

import jitgrad
from jitgrad import nn, optim
from jitgrad.benchmark import main
from jitgrad.measuring.benchmark_report import BenchmarkReport, TimeShares, agree, largest_difference
from jitgrad.measuring.causes import WarmCalls
from jitgrad.measuring.subject import FIRST_CALLS, Subject, loss_of
from jitgrad.state import state

SOURCE = Path(slow_steps.__file__).read_text().splitlines()


def _line(mark: str) -> str:
    """``file:line`` of the statement that is marked so."""
    number = next(nr for nr, line in enumerate(SOURCE, 1) if line.endswith(f"# slow: {mark}"))
    return f"{slow_steps.__file__}:{number}"


def _benchmark(step: Any, *args: Any, **options: Any) -> Any:
    return jitgrad.benchmark(step, *args, seconds=0.0, **options)


def _causes(report: Any) -> list[str]:
    return [note for note in report.notes() if note.partition(":")[0].isupper()]


def test_a_steady_step_has_no_causes_to_name() -> None:
    report = _benchmark(slow_steps.fast, *slow_steps.some)
    assert report.agrees
    assert _causes(report) == []
    assert report.warm.per_call("segments") == 1
    assert report.warm.counters["misses"] == 0


def test_an_exponent_that_counts_up_is_found() -> None:
    (cause,) = _causes(_benchmark(slow_steps.counting, batches=slow_steps.many))[:1]
    assert cause.startswith("NEW GRAPHS")
    assert f"First at {_line('counting')}" in cause
    assert "pow" in cause


def test_a_read_in_the_middle_is_found() -> None:
    (cause,) = _causes(_benchmark(slow_steps.reading, *slow_steps.some))
    assert cause.startswith("READS: a call is 2 segments")
    assert f"at {_line('reading')}." in cause


def test_a_hook_that_reads_is_found() -> None:
    causes = _causes(_benchmark(slow_steps.hooked, *slow_steps.some))
    assert [cause.partition(":")[0] for cause in causes] == ["A HOOK READS", "BACKWARD NODE BY NODE"]
    assert f"at {_line('hooked')}:" in causes[0]
    assert "hooked" in causes[1]


def test_operations_outside_of_a_trace_are_named() -> None:
    weight = jitgrad.ones(8, requires_grad=True)

    def step(x: Any) -> Any:
        loss = ((x * weight).to("vcpu:0").exp().to("cpu") * 2).sum()
        loss.backward()
        weight.grad = None
        return loss

    causes = {cause.partition(":")[0]: cause for cause in _causes(_benchmark(step, jitgrad.randn(8)))}
    assert "exp" in causes["NO KERNEL"]
    assert "see NO KERNEL" in causes["READS"]
    assert "A HOOK READS" not in causes, "backward() itself is no hook"


@pytest.mark.parametrize("is_on", [False, True])
def test_numbers_that_are_slow_because_they_are_small_are_found(is_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """How slow they are depends on the processor: a call is as long as the switch says."""
    if not jitgrad.set_flush_denormal(False):
        pytest.skip("the processor has no such switch")

    def seconds(self: Subject) -> float:
        return 1.0 if (jitgrad.tensor(1e-30) * 1e-10).item() == 0.0 else 4.0

    monkeypatch.setattr(Subject, "seconds_of_one", seconds)
    jitgrad.set_flush_denormal(is_on)
    try:
        notes = _causes(_benchmark(slow_steps.fast, *slow_steps.some))
        assert ((jitgrad.tensor(1e-30) * 1e-10).item() == 0.0) is is_on  # the switch is as it was
    finally:
        jitgrad.set_flush_denormal(False)
    assert [note.partition(":")[0] for note in notes] == ([] if is_on else ["SMALL NUMBERS"])
    assert is_on or "4.0 times as long" in notes[0]


def test_everything_is_as_it_was_afterwards() -> None:
    jitgrad.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.BatchNorm1d(3))
    optimizer = optim.Adam(model.parameters())

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    x = jitgrad.randn(5, 3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    stream = jitgrad.get_rng_state()
    report = _benchmark(step, x)
    assert all((value == before[name]).all() for name, value in model.state_dict().items())
    assert optimizer.state_dict()["state"] == {}
    assert all(p.grad is None for p in model.parameters())
    assert (jitgrad.get_rng_state() == stream).all()
    assert report.agrees, "dropout draws the same numbers in both runs"


def test_a_compiled_step_is_taken_as_it_was_written() -> None:
    compiled = jitgrad.compile(slow_steps.fast)
    report = _benchmark(compiled, *slow_steps.some)
    assert compiled.last is None, "its own recordings are left alone"
    assert report.name == "fast"


def test_a_module_is_not_changed() -> None:
    module = nn.Linear(3, 1)
    assert _benchmark(module, jitgrad.ones(1, 3)).agrees
    assert "forward" not in vars(module)


def test_losses_that_differ_are_said_first() -> None:
    def step(x: Any) -> Any:
        return (x * (2.0 if state.handler is not None else 1.0)).sum()

    report = _benchmark(step, jitgrad.ones(3))
    assert report.agrees is False
    assert report.difference == 0.5
    assert report.notes()[0].startswith("LOSSES DIFFER by 5.0e-01")


def test_a_state_that_cannot_be_put_back_is_said() -> None:
    numbers = itertools.count(1)
    report = _benchmark(lambda x: (x * next(numbers)).sum(), jitgrad.ones(3))
    assert report.notes()[0].startswith("LOSSES NOT COMPARED: two eager runs")
    assert report.notes()[1].startswith("NO STATE FOUND")


def test_a_step_without_a_loss_is_said() -> None:
    assert _benchmark(lambda x: x * 2, jitgrad.ones(3)).notes()[0].startswith("LOSSES NOT COMPARED: the step returns")


def test_other_callables_are_timed_beside() -> None:
    def fails(x: Any) -> Any:
        raise KeyError("no weights")

    report = _benchmark(
        slow_steps.fast, *slow_steps.some, compare={"constant": lambda: 0.25, "eager": slow_steps.fast, "fails": fails}
    )
    assert list(report.subjects) == ["eager", "compiled", "constant", "eager (compared)", "fails"]
    assert report.subjects["constant"].losses == [0.25] * FIRST_CALLS
    assert any(note.startswith("fails raised KeyError") for note in report.notes())
    assert "fails" not in report.tables()[0].header


def test_arguments_are_one_kind() -> None:
    with pytest.raises(TypeError, match="not both"):
        jitgrad.benchmark(slow_steps.fast, 1, batches=[(1,)])
    with pytest.raises(ValueError, match="at least one"):
        jitgrad.benchmark(slow_steps.fast, batches=[])
    with pytest.raises(TypeError, match="takes a function"):
        jitgrad.benchmark(3)


def test_forms(tmp_path: Path) -> None:
    report = _benchmark(slow_steps.reading, *slow_steps.some)
    document = json.loads(json.dumps(report.to_json()))
    assert [s["name"] for s in document["subjects"]] == ["eager", "compiled"]
    assert document["warm_counters"]["segments"] == 2 * document["warm_calls"]
    assert "<table>" in report._repr_html_()
    assert "a warm compiled call" in str(report)
    pytest.importorskip("matplotlib", reason="plot() draws by it").use("Agg")
    report.plot(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    step = f"{slow_steps.__file__}:counting"
    assert main([step, "--batches", "many", "--seconds", "0", "--html", str(page), "--compare", "counting"]) == 0
    shown = capsys.readouterr().out
    assert "NEW GRAPHS" in shown
    assert "call 10" in page.read_text()
    assert main([f"{slow_steps.__file__}:fast", "--args", "some", "--seconds", "0", "--json", "--cold"]) == 0
    assert json.loads(capsys.readouterr().out)["agrees"] is True
    with pytest.raises(SystemExit):
        main(["train.py"])


def test_losses_of_results() -> None:
    assert loss_of(jitgrad.tensor([[2.0]])) == 2.0
    assert loss_of({"hidden": jitgrad.ones(3), "loss": (None, 1)}) == 1.0
    assert loss_of(jitgrad.ones(2)) is None
    assert loss_of(True) is None


def test_differences() -> None:
    assert largest_difference([1.0, math.nan], [1.0, math.nan]) == 0.0
    assert largest_difference([1.0, 2.0], [1.0, math.nan]) == math.inf
    assert largest_difference([1.0], []) == math.inf
    assert agree([1.0, 1.0], [1.0, 1.00001])
    assert not agree([1.0, 1.0], [1.00002, 1.0])


def _report(eager: tuple[list[float], float], compiled: tuple[list[float], float]) -> BenchmarkReport:
    """Of given seconds: the first calls' and each later step's."""
    ways = {}
    for name, (calls, step) in (("eager", eager), ("compiled", compiled)):
        ways[name] = Subject(name, lambda: 0.0, [()], {}, [1.0], calls + [step] * (FIRST_CALLS - len(calls)), [step])
    return BenchmarkReport("step", ways, 0.0, WarmCalls(), TimeShares(*[0.0] * 6), {}, 1, 1)


@pytest.mark.parametrize(
    ("eager", "compiled", "calls", "said"),
    [
        (([], 2.0), ([101.0], 1.0), 100, "2.00 times as fast"),
        (([], 2.0), ([3.0], 1.0), 2, "pays after 2 calls"),
        (([], 1.0), ([9.0], 2.0), None, "2.00 times SLOWER"),
        (([], 1.0), ([9.0], 1.0), None, "no faster"),
    ],
)
def test_break_even(eager: Any, compiled: Any, calls: int | None, said: str) -> None:
    report = _report(eager, compiled)
    assert report.break_even == calls
    assert any(said in note for note in report.notes())
