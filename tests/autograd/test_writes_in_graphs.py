"""Random programs of in-place operations on tensors in a graph: values, gradients and refusals are PyTorch's."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import stats
from jitgrad.compiled import native_eager
from jitgrad.door import door

torch = pytest.importorskip("torch", reason="compares with torch")

Write = Callable[[Any, Any, Any], Any]

# what an operand in another layout reads of the memory that is written, PyTorch leaves open: hence the clones
WRITES: list[Write] = [
    lambda lib, x, y: x.add_(1.5),
    lambda lib, x, y: x.add_(y),
    lambda lib, x, y: x.add_(y, alpha=0.5),
    lambda lib, x, y: x.sub_(y),
    lambda lib, x, y: x.mul_(0.5),
    lambda lib, x, y: x.mul_(y),
    lambda lib, x, y: x.mul_(x),
    lambda lib, x, y: x.mul_(x.detach()),
    lambda lib, x, y: x.div_(2),
    lambda lib, x, y: x.add_(y.clone()[0]),
    lambda lib, x, y: x.mul_(y.clone()[:, :1]),
    lambda lib, x, y: x.add_(y.clone().t()),
    lambda lib, x, y: x.relu_(),
    lambda lib, x, y: lib.nn.functional.relu(x, inplace=True),
    lambda lib, x, y: x.tanh_(),
    lambda lib, x, y: x.sigmoid_(),
    lambda lib, x, y: x.clamp_(-0.5, 0.5),
    lambda lib, x, y: x.zero_(),
    lambda lib, x, y: x.copy_(y),
    lambda lib, x, y: x.copy_(y.clone()[0]),
    lambda lib, x, y: x.masked_fill_(y.detach() > 0, 0.25),
    lambda lib, x, y: x.addcmul_(x, y),
    lambda lib, x, y: x.lerp_(y, 0.3),
    lambda lib, x, y: x[0].mul_(0.5),
    lambda lib, x, y: x[1].add_(y.clone()[0]),
    lambda lib, x, y: x.t().mul_(y.clone()),
    lambda lib, x, y: x.__setitem__(0, y.clone()[1]),
    lambda lib, x, y: x.__setitem__((slice(None), 0), 2.0),
    lambda lib, x, y: x.detach().mul_(0.9),
    lambda lib, x, y: x.neg_(),
    lambda lib, x, y: x.abs_(),
    lambda lib, x, y: x.fill_(0.5),
    lambda lib, x, y: x.pow_(2),
    lambda lib, x, y: x.__setitem__(y.detach() > 0, 0.25),
    lambda lib, x, y: x.tril_(),
    lambda lib, x, y: x.cumsum_(0),
    lambda lib, x, y: x.fmod_(0.3),
    lambda lib, x, y: x.exp_(),
    lambda lib, x, y: x[0].tanh_(),
    lambda lib, x, y: x[1].masked_fill_(y.detach()[0] > 0, 0.5),
    lambda lib, x, y: x[:, 0].add_(1.0),
    lambda lib, x, y: x[0].pow_(2),
    lambda lib, x, y: x[1:].sigmoid_(),
    lambda lib, x, y: x[0].mul_(y.clone()[1]),
    lambda lib, x, y: x.t().tanh_(),
    lambda lib, x, y: x[:, 1].mul_(x.detach()[:, 1]),
    lambda lib, x, y: x[:, 1].exp_(),
    lambda lib, x, y: x.t()[1:].relu_(),
    lambda lib, x, y: x[0].cumsum_(0),
    lambda lib, x, y: x[1:].addcmul_(y.clone()[1:], y.clone()[1:]),
    lambda lib, x, y: x[0].clamp_(-0.25, 0.5),
]
MAKES: list[Write] = [
    lambda lib, x, y: x * y,
    lambda lib, x, y: x.tanh(),
    lambda lib, x, y: x.exp() * 0.1,
    lambda lib, x, y: x.t(),
    lambda lib, x, y: x[:],
    lambda lib, x, y: x.clone(),
    lambda lib, x, y: x.detach().clone(),
    lambda lib, x, y: lib.zeros(x.shape[0], x.shape[0]),
    lambda lib, x, y: x.sin() + y.cos(),
]


def _program(seed: int) -> list[tuple[Write, int, int, bool]]:
    rng = random.Random(seed)
    return [
        (rng.choice(WRITES if rng.random() < 0.6 else MAKES), rng.randrange(99), rng.randrange(99), rng.random() < 0.1)
        for _ in range(rng.randint(2, 9))
    ]


def _outcome(lib: Any, program: list[tuple[Write, int, int, bool]], size: int, turn: int) -> list[Any]:
    """Values, then gradients, or the type of an error."""
    rng = np.random.default_rng(turn)
    leaves = [lib.tensor(rng.normal(0, 0.5, (size, size)).astype(np.float32).tolist()) for _ in range(2)]
    for leaf in leaves:
        leaf.requires_grad_()
    values, found = [*leaves, leaves[0] * leaves[1]], []
    try:
        for call, i, j, without_graph in program:
            with lib.no_grad() if without_graph else lib.enable_grad():
                made = call(lib, values[i % len(values)], values[j % len(values)])
            if made is not None:
                values.append(made)
    except (RuntimeError, IndexError) as error:
        return [type(error).__name__]  # PyTorch may have written by then
    found += [v.detach().numpy().copy() for v in values]
    found += [v.requires_grad for v in values]
    try:
        sum((v * (0.5 + i)).sum() for i, v in enumerate(values[2:])).backward()
    except RuntimeError as error:
        found.append(type(error).__name__)
    return found + [None if leaf.grad is None else leaf.grad.numpy().copy() for leaf in leaves]


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("seed", range(250))
def test_random_programs(seed: int) -> None:
    program, size = _program(seed), (3, 40)[seed % 5 == 0]
    for turn in range(3):  # plans and kernels are known by then
        got, want = (_outcome(lib, program, size, turn) for lib in (jg, torch))
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            if isinstance(w, np.ndarray):
                np.testing.assert_allclose(g, w, rtol=2e-4, atol=1e-5 * max(1.0, float(np.abs(w).max())))
            else:
                assert g == w


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize(
    "write",
    [WRITES[0], WRITES[1], WRITES[5], WRITES[9], WRITES[12], WRITES[16], WRITES[18]],
    ids=["add number", "add", "mul", "add row", "relu", "clamp", "copy"],
)
def test_the_rules_of_written_tensors_become_programs_once(write: Write) -> None:
    """Their Nodes are alike from step to step, as those of other operations are."""
    x, y = jg.ones(4, 4, requires_grad=True), jg.ones(4, 4, requires_grad=True)

    def step() -> None:
        write(jg, x * 2, y).sum().backward()

    for _ in range(4):
        step()
    before = stats()["rule_programs"]
    for _ in range(4):
        step()
    assert stats()["rule_programs"] == before


def test_a_write_in_a_graph_is_native(monkeypatch: pytest.MonkeyPatch) -> None:
    native_eager.install()
    if not native_eager.is_installed():
        pytest.skip("this interpreter has no native code")
    x, y = jg.ones(4, 4, requires_grad=True), jg.ones(4, 4, requires_grad=True)
    writes = [WRITES[i] for i in (0, 1, 3, 4, 5, 8, 12, 15, 16, 17, 18)]
    for write in writes * 2:
        write(jg, x * 2, y)
    row = jg.ones(4, requires_grad=True)
    for _ in range(2):
        part = x * 2
        part[0], part[:, 1] = 1.5, row
    monkeypatch.setattr(door, "run_inplace", None)
    for write in writes:
        assert write(jg, x * 2, y).grad_fn is not None
    part = x * 2
    part[0], part[:, 1] = 1.5, row
    assert type(part.grad_fn).__name__ == "CopySlices"


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("other", [lambda x: x.t(), lambda x: x.data.t(), lambda x: x.detach().t()])
def test_an_operand_in_another_layout_of_what_is_written_is_refused(other: Callable[[Any], Any]) -> None:
    for _ in range(4):
        x = jg.arange(1600.0).reshape(40, 40)
        x.clone().mul_(x.t())  # of other memory: its plan is known then
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            x.mul_(other(x))
        assert np.array_equal(x.numpy(), np.arange(1600.0).reshape(40, 40))


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("turns", range(3))
def test_hooks_stay_with_the_old_value_and_retain_grad_moves_on(turns: int) -> None:
    def heard(lib: Any) -> list[Any]:
        found: list[Any] = []

        def hook(grad: Any) -> None:
            found.append(("hook", grad.tolist()))

        for _ in range(4):
            x = lib.ones(3, requires_grad=True)
            y, z = x * 2, x * 3
            y.register_hook(hook)
            z.retain_grad()
            for _ in range(turns):
                y.mul_(2), z.mul_(2)
            (y * 5 + z * 7).sum().backward()
            found += [z.grad.tolist(), x.grad.tolist()]
        return found

    assert heard(jg) == heard(torch)


def _refused_parts(lib: Any) -> dict[str, Callable[[Any, Any], Any]]:
    def of_a_view_made_without_grad(x: Any, y: Any) -> Any:
        with lib.no_grad():
            part = x[0]
        return part.copy_(y[0])

    def of_a_view_that_is_a_leaf(x: Any, y: Any) -> Any:
        leaf = x.detach()[:].requires_grad_()
        return leaf[0].copy_(y.detach()[0])

    return {
        "rows that overlap": lambda x, y: x[1:].copy_(x[:-1]),
        "an expanded row": lambda x, y: x[0].expand(4, 4).copy_(y),
        "of a leaf": lambda x, y: y[0].copy_(x[0]),
        "of a view made without grad": of_a_view_made_without_grad,
        "of a view that is a leaf": of_a_view_that_is_a_leaf,
    }


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("name", _refused_parts(jg))
def test_what_is_refused_of_a_part_is_refused_at_any_call(name: str) -> None:
    def outcomes(lib: Any) -> list[str]:
        found = []
        for _ in range(4):
            y = lib.ones(4, 4, requires_grad=True)
            x = y * 2
            x[1:].copy_(y[1:].clone())  # plans are known then
            x[0].copy_(y[0].clone())
            try:
                _refused_parts(lib)[name](x, y)
                found.append("done")
            except RuntimeError as error:
                found.append(str(error)[:40])
        return found

    assert outcomes(jg) == outcomes(torch)
    assert "done" not in outcomes(jg)
