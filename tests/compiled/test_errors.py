"""Bad input: the same exception, at the same statement, with the same effects, in every mode."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

import agreement
import numpy as np
import pytest
from modes import Mode

import jitgrad as jg
from jitgrad import autograd
from jitgrad.nn import functional


def leaf(*shape: int, seed: int = 0) -> jg.Tensor:
    return jg.tensor(np.random.default_rng(seed).normal(size=shape).astype(np.float32)).requires_grad_()


def const(*shape: int, seed: int = 1) -> jg.Tensor:
    return leaf(*shape, seed=seed).detach()


Bad = tuple[Callable[[], Any], type[Exception], str]

# what torch raises, and words that its message or ours must share: the operation, the shapes
BAD: dict[str, Bad] = {
    "add shapes": (lambda: const(3) + const(4), RuntimeError, r"size of tensor a \(3\) must match.*b \(4\)"),
    "mul shapes": (lambda: const(2, 3) * const(2), RuntimeError, r"\(3\) must match"),
    "matmul shapes": (lambda: const(2, 3) @ const(2, 3), RuntimeError, r"2x3 and 2x3"),
    "matmul scalar": (lambda: const(2, 3) @ jg.tensor(1.0), RuntimeError, "at least 1D"),
    "matmul batch": (lambda: const(2, 3, 4) @ const(3, 4, 2), RuntimeError, "must match|batch"),
    "dot": (lambda: const(3) @ const(4), RuntimeError, "3|4"),
    "reshape": (lambda: const(2, 3).reshape(4), RuntimeError, r"shape '\[4\]' is invalid for input of size 6"),
    "view strides": (lambda: const(2, 3).t().view(6), RuntimeError, "view size is not compatible"),
    "transpose": (lambda: const(2, 3).transpose(0, 2), IndexError, "Dimension out of range"),
    "sum dim": (lambda: const(2, 3).sum(3), IndexError, "Dimension out of range"),
    "sum twice": (lambda: const(2, 3).sum((0, 0)), RuntimeError, "multiple times"),
    "cat": (lambda: jg.cat([const(2, 3), const(2, 4)]), RuntimeError, "Sizes of tensors must match"),
    "cat nothing": (lambda: jg.cat([]), (RuntimeError, ValueError), "non-empty"),
    "stack": (lambda: jg.stack([const(2), const(3)]), RuntimeError, "equal size"),
    "expand": (lambda: const(2, 3).expand(2, 4), RuntimeError, r"expanded size.*\(4\)|must match"),
    "squeeze dim": (lambda: const(2).squeeze(4), IndexError, "Dimension out of range"),
    "permute": (lambda: const(2, 3).permute(0, 0), RuntimeError, "repeated|duplicate"),
    "split": (lambda: const(5).split([2, 2]), RuntimeError, "split"),
    "index int": (lambda: const(3)[3], IndexError, "out of bounds"),
    "index too many": (lambda: const(3)[0, 0], IndexError, "too many indices"),
    "index float": (lambda: const(3)[1.0], (IndexError, TypeError), "ind"),
    "mask shape": (lambda: const(3)[jg.ones(4) > 0], IndexError, "mask"),
    "float index": (lambda: const(3)[const(2)], IndexError, "tensors used as indices"),
    "bitwise": (lambda: const(3) & const(3), RuntimeError, "not implemented for"),
    "bool minus": (lambda: (const(3) > 0) - (const(3) > 0), RuntimeError, "bool"),
    "max empty": (lambda: const(0).max(), RuntimeError, "numel|empty"),
    "argmax empty": (lambda: const(0).argmax(), (RuntimeError, IndexError), "reduction|empty"),
    "mean of ints": (lambda: jg.arange(3).mean(), RuntimeError, "mean.*dtype|floating"),
    "item": (lambda: const(3).item(), RuntimeError, "3 elements cannot be converted to Scalar"),
    "bool": (lambda: bool(const(3)), RuntimeError, "ambiguous"),
    "iterate": (lambda: list(jg.tensor(1.0)), TypeError, "0-d"),
    "len": (lambda: len(jg.tensor(1.0)), TypeError, "0-d"),
    "layer norm": (lambda: functional.layer_norm(const(2, 3), (4,)), RuntimeError, r"normalized_shape.*4"),
    "linear": (lambda: functional.linear(const(2, 3), const(4, 5)), RuntimeError, "2x3 and 5x4"),
    "cross entropy shapes": (lambda: functional.cross_entropy(const(2, 3), jg.arange(3)), ValueError, "batch_size"),
    "loss shapes": (
        lambda: functional.binary_cross_entropy(const(2).sigmoid(), const(3).sigmoid()),
        ValueError,
        "size",
    ),
    "inplace shape": (lambda: const(1).add_(const(3)), RuntimeError, r"output with shape \[1\].*broadcast shape \[3\]"),
    "inplace dtype": (lambda: jg.arange(3).add_(0.5), RuntimeError, "can't be cast"),
    "leaf in place": (lambda: leaf(3).add_(1), RuntimeError, "leaf Variable that requires grad"),
    "view of leaf in place": (lambda: leaf(3)[0].add_(1), RuntimeError, "leaf Variable that requires grad"),
    "ints require grad": (lambda: jg.arange(3).requires_grad_(), RuntimeError, "floating point"),
    "backward vector": (lambda: (leaf(3) * 2).backward(), RuntimeError, "implicitly created only for scalar"),
    "backward constant": (lambda: const(3).sum().backward(), RuntimeError, "does not require grad"),
    "backward gradient": (lambda: (leaf(3) * 2).backward(const(4)), RuntimeError, "Mismatch in shape"),
    "grad unused": (lambda: autograd.grad(leaf(3).sum(), leaf(3)), RuntimeError, "to not have been used"),
    "grad assigned": (lambda: setattr(leaf(3), "grad", const(4)), RuntimeError, "size"),
    "numpy of a leaf": (lambda: leaf(3).numpy(), RuntimeError, "requires grad"),
    "where": (lambda: jg.where(const(3) > 0, const(3), const(4)), RuntimeError, "must match"),
    "setitem shape": (lambda: const(3).__setitem__(slice(0, 2), const(3)), RuntimeError, "expand|match|broadcast"),
    "repeat": (lambda: const(2, 3).repeat(2), RuntimeError, "repeat"),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_bad_input_raises_what_torch_raises(bad: Bad, mode: Mode) -> None:
    make, kind, words = bad
    reached = []

    def step() -> None:
        good = const(3).exp()
        reached.append("before")
        try:
            make()
        finally:
            reached.append(good.sum().item())
        reached.append("after")

    function = mode.wrap(step)
    for _ in range(3):
        reached.clear()
        with pytest.raises(kind, match=words):
            function()
        assert reached == ["before", pytest.approx(const(3).exp().sum().item(), rel=1e-5)]


def test_bad_input_agrees_with_torch() -> None:
    torch = pytest.importorskip("torch", reason="compares with torch")
    programs: list[Callable[[Any], Any]] = [
        lambda lib: lib.ones(3) + lib.ones(4),
        lambda lib: lib.ones(2, 3) @ lib.ones(2, 3),
        lambda lib: lib.ones(2, 3).reshape(4),
        lambda lib: lib.ones(2, 3).t().view(6),
        lambda lib: lib.ones(2, 3).sum(3),
        lambda lib: lib.cat([lib.ones(2, 3), lib.ones(2, 4)]),
        lambda lib: lib.ones(3)[3],
        lambda lib: lib.ones(3)[0, 0],
        lambda lib: lib.ones(3).requires_grad_().add_(1),
        lambda lib: lib.arange(3).add_(0.5),
        lambda lib: lib.ones(1).add_(lib.ones(3)),
        lambda lib: (lib.ones(3).requires_grad_() * 2).backward(),
        lambda lib: lib.ones(3).sum().backward(),
    ]
    for program in programs:
        messages = []
        for lib in (torch, jg):
            with pytest.raises(Exception) as caught:
                program(lib)
            messages.append((caught.type, str(caught.value).split("\n")[0][:40]))
        assert messages[0] == messages[1]


def test_the_users_line_is_named() -> None:
    def step(x: Any) -> Any:
        y = x * 2
        return y + jg.ones(4)  # the line

    line = inspect.getsourcelines(step)[1] + 2
    function = jg.compile(step)
    for _ in range(3):
        with pytest.raises(RuntimeError) as caught:
            function(jg.ones(3))
        notes = "\n".join(caught.value.__notes__)
        assert f"{__file__}:{line}" in notes
        assert "add" in notes


# ---- effects ------------------------------------------------------------------------------------------------------


class StopError(Exception):
    """Raised by a step in the middle."""


@pytest.mark.parametrize("where", range(6))
def test_an_exception_leaves_what_eager_mode_leaves(where: int) -> None:
    def step(x: Any, w: Any, state: dict[str, Any], where: int) -> Any:
        def here(nr: int) -> None:
            if nr == where:
                raise StopError

        x += 1
        here(0)
        loss = ((x * w) ** 2).sum()
        here(1)
        loss.backward()
        here(2)
        with jg.no_grad():
            w -= 0.1 * w.grad
            here(3)
            x[0] = 7.0
        state["kept"] = loss.detach()
        here(4)
        w.grad = None
        state["kept"] = state["kept"] * 2
        return loss

    def change(args: Any, nr: int) -> Any:
        return (*args[:3], where if nr % 2 else 99)

    agreement.agree(step, lambda: (const(3), leaf(3), {}, where), 5, change)


def test_bad_input_in_the_middle_leaves_what_eager_mode_leaves() -> None:
    def step(x: Any, w: Any, other: Any) -> Any:
        x += 1
        (w * 2).sum().backward()
        with jg.no_grad():
            w -= w.grad
        z = x + other
        x.zero_()
        return z

    others = [jg.ones(3), jg.ones(4), jg.ones(3), jg.ones(5), jg.ones(4), jg.ones(1)]
    agreement.agree(step, lambda: (const(3), leaf(3), others[0]), len(others), lambda args, nr: (*args[:2], others[nr]))


def test_grad_mode_is_restored_after_an_exception() -> None:
    @jg.compile
    def step(x: Any, fail: bool) -> Any:
        with jg.no_grad():
            y = x * 2
            if fail:
                raise StopError
        return y

    for fail in (False, True, False, True):
        if fail:
            with pytest.raises(StopError):
                step(leaf(2), fail)
        else:
            step(leaf(2), fail)
        assert jg.is_grad_enabled()
    assert (leaf(2) * 2).requires_grad


def test_exceptions_caught_inside_a_step() -> None:
    def step(x: Any) -> Any:
        try:
            x @ x.unsqueeze(0).unsqueeze(0)[:, :, :2]
        except RuntimeError:
            x = x * 2
        try:
            x += jg.ones(7)
        except RuntimeError:
            x = x + 1
        return x.sum()

    agreement.agree(step, lambda: (const(3),), 3)


def test_results_made_before_an_exception_are_usable() -> None:
    kept: list[Any] = []

    @jg.compile
    def step(w: Any) -> None:
        kept.append(w * 3)
        kept.append((w * w).sum())
        raise StopError

    for _ in range(3):
        kept.clear()
        w = leaf(3)
        with pytest.raises(StopError):
            step(w)
        np.testing.assert_allclose(kept[0].detach().numpy(), 3 * w.detach().numpy(), rtol=1e-6)
        kept[1].backward()
        np.testing.assert_allclose(w.grad.numpy(), 2 * w.detach().numpy(), rtol=1e-6)


def test_keyboard_interrupt_and_exit_pass_through() -> None:
    @jg.compile
    def step(x: Any, error: type[BaseException]) -> None:
        x += 1
        raise error

    x = jg.zeros(1)
    for error in (KeyboardInterrupt, SystemExit, GeneratorExit):
        with pytest.raises(error):
            step(x, error)
    assert x.item() == 3.0


def test_a_thread_that_fails_leaves_others_alone() -> None:
    step = jg.compile(lambda x, bad: x + (jg.ones(4) if bad else 1.0))
    seen: list[Any] = []

    def work() -> None:
        try:
            step(jg.ones(3), True)
        except RuntimeError as error:
            seen.append(type(error))

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        assert step(jg.ones(3), False).tolist() == [2.0] * 3
        thread.join(30)
    assert seen == [RuntimeError] * 3


# ---- errors that are in the data ------------------------------------------------------------------------------------


def _with_rows_zeroed(x: Any, i: Any) -> Any:
    x[i] = 0.0
    return x


DATA: dict[str, Callable[[Any, Any], Any]] = {
    "rows": lambda x, i: x[i],
    "second axis": lambda x, i: x[:, i],
    "two tensors": lambda x, i: x[i, i],
    "embedding": lambda x, i: functional.embedding(i, x),
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i.unsqueeze(1)),
    "scatter_add": lambda x, i: jg.zeros(3, 3).scatter_add(0, i.unsqueeze(1), x),
    "index_add": lambda x, i: jg.zeros(3, 3).index_add(0, i, x[:2]),
    "nll_loss": lambda x, i: functional.nll_loss(x[:2].log_softmax(1), i),
    "one_hot": lambda x, i: functional.one_hot(i, 3) * x[:2],
    "cross_entropy": lambda x, i: functional.cross_entropy(x[:2], i),
    "setitem": lambda x, i: _with_rows_zeroed(x * 1, i),
    "take_along_dim": lambda x, i: x.take_along_dim(i.unsqueeze(1), 0),
}


@pytest.mark.parametrize("op", DATA.values(), ids=DATA)
@pytest.mark.parametrize("bad", [3, 1000, -4, 2**40, -(2**62)])
def test_indices_out_of_range(op: Callable[[Any, Any], Any], bad: int) -> None:
    def step(x: Any, i: Any, log: Any) -> Any:
        log += 1
        y = op(x, i)
        log += 10
        (y * y).sum().backward()
        return y.detach()

    good, wrong = jg.tensor([2, 0]), jg.tensor([1, bad])

    def run(step: Any) -> Any:
        x, log, seen = leaf(3, 3), jg.zeros(1), []
        for i in (good, wrong, good, wrong, wrong, good):
            try:
                seen.append(agreement.observe(step(x, i, log)))
            except (IndexError, RuntimeError) as error:
                seen.append(type(error).__name__)
            seen.append(log.tolist())
        return seen, agreement.observe(x)

    want = run(step)
    assert "IndexError" in want[0] or "RuntimeError" in want[0]
    agreement.assert_same(run(jg.compile(step)), want)


def test_an_index_error_names_the_line() -> None:
    def step(x: Any, i: Any) -> Any:
        y = x * 2
        return y[i] + 1

    function = jg.compile(step)
    line = inspect.getsourcelines(step)[1] + 2
    for _ in range(3):
        with pytest.raises(IndexError) as caught:
            function(const(3), jg.tensor([5]))
        assert f"{__file__}:{line}" in "\n".join(getattr(caught.value, "__notes__", []))


def test_negative_indices_count_from_the_end() -> None:
    agreement.agree(lambda x, i: (x[i], x[:, i]), lambda: (const(3, 3), jg.tensor([-1, -3, 0])), 3)
