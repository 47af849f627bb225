"""``jitgrad.verify``: a right step is right, planted errors are found where they are, nothing of it is left behind."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import nn, optim
from jitgrad.checking.rounding import terms_of
from jitgrad.codegen.primitives import simplify
from jitgrad.compiled.nodes import graph_nodes
from jitgrad.nn import functional as F
from jitgrad.ops.table import OPS, Vjp
from jitgrad.runtime.eager.plan import plans
from jitgrad.runtime.engine.graph import op_node
from jitgrad.state import state

sys.path.insert(0, str(Path(__file__).parent))

import planted
import planted_steps

HERE = Path(__file__).name


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _training() -> tuple[Callable[..., Any], tuple[Any, ...], list[Any], list[int]]:
    """A step with everything that a state is made of: parameters, moments, buffers, drawn numbers, a Python list."""
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.4), nn.ReLU(), nn.Linear(8, 3))
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    calls: list[int] = []

    def step(x: Any, y: Any) -> Any:
        calls.append(len(calls))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, (jg.randn(10, 6), jg.randint(0, 3, (10,))), [model, optimizer], calls


@pytest.mark.parametrize("num_before", [0, 3])
def test_a_right_step_is_right_and_has_not_happened(num_before: int) -> None:
    step, args, (model, optimizer), calls = _training()
    compiled = jg.compile(step)
    for _ in range(num_before):
        compiled(*args)
    before = {name: t.numpy().copy() for name, t in model.state_dict().items()}
    stream = jg.get_rng_state().numpy().copy()
    report = jg.verify(compiled, *args)
    assert report, str(report)
    assert report.checked > 30
    assert len(calls) == num_before
    assert len(optimizer.state) == (len(list(model.parameters())) if num_before else 0)
    assert np.array_equal(jg.get_rng_state().numpy(), stream)
    assert all(np.array_equal(before[name], t.numpy()) for name, t in model.state_dict().items())
    assert list(Path().iterdir()) == []


def test_training_goes_on_as_if_nothing_had_been_verified() -> None:
    losses = []
    for verifies in (False, True):
        jg.manual_seed(3)
        step, args, _, _ = _training()
        compiled = jg.compile(step)
        losses.append([])
        for nr in range(4):
            if verifies and nr == 2:
                assert jg.verify(compiled, *args)
            losses[-1].append(compiled(*args).item())
    assert losses[0] == losses[1]


def test_a_step_with_sparse_gradients() -> None:
    table = nn.Embedding(20, 4, sparse=True)
    optimizer = optim.SGD(table.parameters(), lr=0.1)

    def step(rows: Any) -> Any:
        optimizer.zero_grad()
        loss = table(rows).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    rows = jg.tensor([1, 3, 3])
    compiled = jg.compile(step)
    compiled(rows)
    before = table.weight.tolist()
    report = jg.verify(compiled, rows)
    assert report, str(report)
    assert table.weight.tolist() == before


def test_a_step_with_complex_numbers() -> None:
    w = jg.randn(64, requires_grad=True)
    spectrum = jg.fft.fft(jg.randn(64))

    def step(x: Any) -> Any:
        w.grad = None
        filtered = jg.fft.ifft(jg.fft.fft(x * w) * spectrum)
        loss = filtered.real.square().sum()
        loss.backward()
        return filtered.detach()

    report = jg.verify(step, jg.randn(64))
    assert report, str(report)


@pytest.mark.parametrize("dtype", [jg.float32, jg.float64, jg.bfloat16, jg.float16])
def test_rounding_is_no_error(dtype: Any) -> None:
    x = jg.randn(33, 65).to(dtype)

    def step() -> Any:
        centred = x - x.mean(1, keepdim=True)
        return (centred * centred).sum(1), x.softmax(1).log(), (x > 0.1).sum(), x.argmax(1), (x @ x.t()).tanh()

    report = jg.verify(step)
    assert report, str(report)


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_the_rounding_of_a_long_sum_is_no_error(shift: float) -> None:
    """A kernel adds in one chain where NumPy adds in pairs: 200,000 roundings of partial sums."""
    weight, x = jg.randn(8, 8, requires_grad=True), jg.randn(200_000, 8) + shift

    def step() -> Any:
        weight.grad = None
        loss = (x @ weight).tanh().sum()
        loss.backward()
        return loss, weight.grad

    report = jg.verify(step)
    assert report, str(report)


def test_terms_of_sums_and_products() -> None:
    assert terms_of("mm", [2 * 50, 50 * 3], 6) == 50.0
    assert terms_of("sum_dim", [400], 4) == 100.0
    assert terms_of("mul", [16, 16], 16) == terms_of("full", [], 16) == terms_of("sum", [0], 1) == 1.0


def test_a_wrong_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPS["sigmoid"], "lower", lambda b, x: b.tanh(x))
    x = jg.randn(4, 7)

    def step() -> Any:
        y = x * 2.0 + 1.0
        return (y.sigmoid() * 3.0).sum()

    report = jg.verify(step)
    assert not report
    assert (report.kind, report.operation) == ("kernel", "sigmoid")
    assert Path(report.where.rpartition(":")[0]).name == HERE
    assert report.expected is not None
    assert report.expected.minimum is not None
    assert report.expected.minimum > 0
    assert json.loads(json.dumps(report.to_json()))["operation"] == "sigmoid"
    assert report.program is not None
    assert report.program.exists()


def test_the_program_file_repeats_the_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    x = jg.randn(5, 4).t()
    step = jg.compile(lambda: (x.exp().cumsum(0) * x[1:2]).sum(1))
    with monkeypatch.context() as broken:
        broken.setattr(OPS["mul"], "lower", lambda b, x, y: b.mul(b.mul(x, y), 1.5))
        report = jg.verify(step)
        assert (report.kind, report.operation) == ("kernel", "mul")
        runpy.run_path(str(report.program))
        assert "elements differ" in capsys.readouterr().out
    runpy.run_path(str(report.program))
    assert "no difference" in capsys.readouterr().out


def test_an_error_of_fusion_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule applies only where the product has one reader, so a debug plan does not show it."""
    original = simplify.SIMPLIFY["sub"]
    rule = simplify.Rule(
        "planted", lambda b, v: b.add(*v.srcs) if v.srcs[0].op == "mul" and v.srcs[0].srcs[0].op == "exp" else None
    )
    monkeypatch.setitem(simplify.SIMPLIFY, "sub", (rule, *original))
    x, y = jg.randn(6), jg.randn(6)
    report = jg.verify(lambda: ((x.exp() * y - x) + 1.0).sum())
    assert (report.kind, report.operation) in {("fusion", "sub"), ("kernel", "sub")}


def _forget_rules() -> None:
    op_node._PLANS.clear()
    graph_nodes._NEEDS.clear()
    plans.clear()


@pytest.fixture
def _forgets_rules() -> Iterator[None]:
    """What is remembered of an operation's rules is forgotten before and behind a test that changes them."""
    _forget_rules()
    yield
    _forget_rules()


@pytest.mark.usefixtures("_forgets_rules")
def test_a_wrong_derivative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPS["tanh"], "vjps", (Vjp(lambda c, g, out: g * (1 + out * out), ("out",)),))
    x = jg.randn(5).requires_grad_()

    def step() -> Any:
        return jg.autograd.grad((x * 2.0).tanh().sum(), [x])

    assert jg.verify(step), "both modes have it, so comparing them says nothing"
    report = jg.Verification(derivatives=True)(step)
    assert (report.kind, report.operation) == ("derivative", "tanh")


def test_errors_of_one_mode_make_a_report_without_data() -> None:
    secret = jg.full((3,), 1234.5)

    def step() -> Any:
        if state.handler is not None:
            raise ValueError("only when recorded")
        return secret * 2.0

    report = jg.verify(step)
    assert (report.kind, report.operation) == ("error", "ValueError")
    assert Path(report.where.rpartition(":")[0]).name == HERE
    assert report.program is not None
    text = report.program.read_text()
    assert "only when recorded" in text
    assert "secret: float32[3]" in text
    assert "1234.5" not in text
    assert not report.program.with_suffix(".npz").exists()
    jg.Verification(data=True)(step)
    with np.load(report.program.with_suffix(".npz")) as data:
        assert data["secret"].tolist() == [1234.5] * 3


def test_what_both_modes_raise_is_raised() -> None:
    with pytest.raises(RuntimeError, match="must match"):
        jg.verify(lambda: jg.ones(3) + jg.ones(4))


def test_compile_verifies_its_first_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    x = jg.randn(4)
    runs: list[int] = []

    @jg.compile(verify=2)
    def step() -> Any:
        runs.append(0)
        return x.erf()

    for _ in range(4):
        assert np.allclose(step(), x.erf())
    assert len(runs) == 4
    monkeypatch.setattr(OPS["erf"], "lower", lambda b, x: b.tanh(x))
    broken = jg.compile(lambda: x.erf(), verify=True)
    with pytest.raises(jg.VerificationError, match="wrong in its kernel: erf") as caught:
        broken()
    assert caught.value.report.operation == "erf"


def test_compile_refuses_to_verify_a_module() -> None:
    with pytest.raises(TypeError, match="takes a function"):
        jg.compile(nn.Linear(2, 2), verify=True)


def test_a_profiler_is_in_the_way() -> None:
    with jg.profiler.profile(), pytest.raises(RuntimeError, match="only one may be at a time"):
        jg.verify(lambda: jg.ones(2) + 1.0)


@pytest.mark.parametrize(
    "name", ["classifier", "perceptron", "functions", "arithmetic", "movement", "scaling", "summing"]
)
def test_the_planted_steps_are_right_without_an_error(name: str) -> None:
    step, calls = getattr(planted_steps, name)()
    report = jg.Verification(derivatives=True)(step, *calls[-1])
    assert report, str(report)


STALE = next(p for p in planted.PLANTED if p.operation == "sum_dim")


def test_a_planted_error_is_found(tmp_path: Path) -> None:
    """``python tests/checking/planted.py`` plants all of them; here is the one that needs a new process most."""
    planted.copy_tree(tmp_path)
    is_found, report = planted.try_error(tmp_path, STALE)
    assert is_found, report


def test_the_list_of_planted_errors_fits_the_source() -> None:
    root = Path(jg.__file__).parent
    for row in planted.PLANTED:
        assert (root / row.path).read_text().count(row.old) == 1, row
    assert len(planted.PLANTED) >= 30
