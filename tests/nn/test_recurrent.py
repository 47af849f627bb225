"""Recurrent layers and cells beside PyTorch's: directions, projections, packed sequences, starting states, errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import events
from jitgrad.ops.dispatch_hook import call
from tests.modes import Mode
from tests.nn.libraries import assert_as_pytorch, raised

Case = Callable[[Any], Any]


def derived(module: Any, outputs: Any, *leaves: Any) -> Any:
    """The outputs with the gradients of a sum of their squares."""
    flat: list[Any] = []

    def collect(value: Any) -> None:
        if hasattr(value, "requires_grad"):
            flat.append(value)
        else:
            for part in value:
                collect(part)

    collect(outputs)
    sum((x * x).sum() for x in flat if x.requires_grad).backward()
    return [flat, [p.grad for p in module.parameters()], [x.grad for x in leaves]]


OPTIONS = [
    dict(zip(("num_layers", "bidirectional", "batch_first", "bias"), values, strict=True))
    for values in ((1, False, False, True), (2, True, False, True), (2, True, True, False), (1, True, True, True))
]


def layers(xp: Any, kind: str, options: dict[str, Any]) -> Any:
    m = getattr(xp.nn, kind)(3, 4, **options)
    shape = (2, 5, 3) if options["batch_first"] else (5, 2, 3)
    x = xp.randn(*shape, requires_grad=True)
    seen = [repr(m), list(m.state_dict()), derived(m, m(x), x)]
    m.zero_grad()
    directions = options["num_layers"] * (2 if options["bidirectional"] else 1)
    sizes = [options.get("proj_size") or 4, *([4] if kind == "LSTM" else [])]
    state = [xp.randn(directions, 2, n, requires_grad=True) for n in sizes]
    given = tuple(state) if kind == "LSTM" else state[0]
    x.grad = None
    seen.append(derived(m, m(x, given), x, *state))
    seen.append(m(x.detach().select(0 if options["batch_first"] else 1, 0)))
    return seen


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(str(v) for v in o.values()))
def test_layers(kind: str, options: dict[str, Any]) -> None:
    def case(xp: Any) -> Any:
        return layers(xp, kind, options)

    assert_as_pytorch(case)


def test_projections() -> None:
    for options in OPTIONS:

        def case(xp: Any, options: Any = options) -> Any:
            return layers(xp, "LSTM", {**options, "proj_size": 2})

        assert_as_pytorch(case, "LSTM with projections is not supported with oneDNN")


def packed(xp: Any, kind: str, options: dict[str, Any], is_sorted: bool) -> Any:
    m = getattr(xp.nn, kind)(3, 4, **options)
    lengths = [5, 3, 3, 1] if is_sorted else [3, 5, 1, 3]
    x = xp.randn(4, 5, 3, requires_grad=True)
    at = xp.nn.utils.rnn
    sequence = at.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=is_sorted)
    out, state = m(sequence)
    seen = [derived(m, [at.pad_packed_sequence(out, True), state], x)]
    m.zero_grad()
    again, _ = m(sequence, state if kind == "LSTM" else state.detach())
    return [*seen, again.data, again.batch_sizes]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_packed_sequences(kind: str) -> None:
    for options, is_sorted in itertools.product(({}, {"num_layers": 2, "bidirectional": True}), (True, False)):

        def case(xp: Any, options: Any = options, is_sorted: bool = is_sorted) -> Any:
            return packed(xp, kind, options, is_sorted)

        assert_as_pytorch(case)


def cells(xp: Any) -> Any:
    seen = []
    for make in (
        lambda: xp.nn.LSTMCell(3, 4), lambda: xp.nn.GRUCell(3, 4), lambda: xp.nn.RNNCell(3, 4),
        lambda: xp.nn.RNNCell(3, 4, bias=False, nonlinearity="relu"), lambda: xp.nn.RNNCell(3, 0),
    ):  # fmt: skip
        m = make()
        x = xp.randn(2, 3, requires_grad=True)
        first = m(x)
        seen += [repr(m), derived(m, m(x, first) if m.hidden_size else first, x), m(x[0].detach())]
    return seen


def wrong_cells(xp: Any) -> Any:
    seen = []
    for kind in ("LSTMCell", "GRUCell", "RNNCell"):
        m = getattr(xp.nn, kind)(3, 4)

        def state(*shape: int, m: Any = m) -> Any:
            return (xp.ones(*shape),) * 2 if isinstance(m, xp.nn.LSTMCell) else xp.ones(*shape)

        x = xp.ones(2, 3)
        for args in ((xp.ones(2, 2, 3),), (xp.ones(2, 4),), (x, state(1, 4)), (x, state(2, 5)), (x, state(2, 2, 4))):
            seen.append(raised(lambda m=m, args=args: m(*args)))
        seen.append(raised(lambda m=m, state=state: m(xp.ones(3), state(2, 4)))[0])
    return [*seen, raised(lambda: xp.nn.RNNCell(3, 4, nonlinearity="x")(xp.ones(2, 3)))]


def wrong_layers(xp: Any) -> Any:
    seen = []
    for kind in ("LSTM", "GRU", "RNN"):
        m = getattr(xp.nn, kind)(3, 4, num_layers=2)

        def state(*shape: int, kind: str = kind) -> Any:
            return (xp.ones(*shape),) * 2 if kind == "LSTM" else xp.ones(*shape)

        x = xp.ones(5, 2, 3)
        for args in (
            (xp.ones(3),), (xp.ones(5, 2, 4),), (x, state(2, 4)), (x, state(1, 2, 4)), (x, state(2, 1, 4)),
            (x, state(2, 2, 5)), (x[:, 0], state(2, 2, 4)),
        ):  # fmt: skip
            seen.append(raised(lambda m=m, args=args: m(*args)))
        seen.append(raised(lambda m=m, x=x: m(x.double()))[0])
        for arguments in (
            {"hidden_size": 0}, {"num_layers": 0}, {"input_size": 1.5}, {"dropout": 2}, {"bias": 3}, {"proj_size": 1},
            {"dropout": 0.5},
        ):  # fmt: skip
            if kind == "LSTM" and "proj_size" in arguments:
                arguments = {"proj_size": 4}
            given = {"input_size": 3, "hidden_size": 4, **arguments}
            seen.append(raised(lambda kind=kind, given=given: repr(getattr(xp.nn, kind)(**given))))
    return [*seen, raised(lambda: xp.nn.RNN(3, 4, nonlinearity="x"))]


def dropout_between_layers(xp: Any) -> Any:
    seen = []
    for options in ({}, {"bidirectional": True, "batch_first": True}):
        m = xp.nn.GRU(3, 4, num_layers=3, dropout=0.4, **options)
        seen += [m(xp.ones(5, 2, 3)), xp.rand(1), m.eval()(xp.ones(5, 2, 3))]
    sequence = xp.nn.utils.rnn.pack_sequence([xp.ones(4, 3), xp.ones(2, 3)])
    return [*seen, m.train()(sequence)[0].data, [len(w) for w in m.all_weights], m.flatten_parameters()]


@pytest.mark.parametrize(
    "case", [cells, wrong_cells, wrong_layers, dropout_between_layers], ids=lambda case: case.__name__
)
def test_as_pytorch(case: Case) -> None:
    assert_as_pytorch(case)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_packed_bidirectional_step(mode: Any, kind: str) -> None:
    def losses(run: Any) -> list[float]:
        jitgrad.manual_seed(0)
        m = getattr(jitgrad.nn, kind)(2, 3, bidirectional=True)
        optimizer = jitgrad.optim.SGD(m.parameters(), 0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            out, _ = m(jitgrad.nn.utils.rnn.pack_padded_sequence(x, [3, 1], True))
            loss = out.data.square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        call = run(step)
        return [call(jitgrad.linspace(-1, 1, 12).reshape(2, 3, 2)).item() for _ in range(4)]

    np.testing.assert_allclose(losses(mode.wrap), losses(lambda step: step), rtol=1e-5)


def test_a_layer_is_recorded_and_launched_as_one_operation_however_long_the_sequence(mode: Mode) -> None:
    class Unused(jitgrad.Tensor):
        """A class that overrides functions changes nothing for plain tensors."""

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError("no tensor is of this class")

    counts = []
    for kind, steps in itertools.product(("LSTM", "GRU", "RNN"), (4, 40)):
        module, x = getattr(jitgrad.nn, kind)(6, 5), jitgrad.randn(steps, 2, 6)
        names = ("hits", "misses", "launches", "fallbacks")
        before = jitgrad.stats()
        mode.run(lambda m, x: m(x)[0].sum().backward(), lambda module=module, x=x: (module, x))
        counts.append([jitgrad.stats()[name] - before[name] for name in names])
    for short, long in zip(counts[::2], counts[1::2], strict=True):
        assert short == long and not short[-1]
    if mode.name == "warm":
        assert max(launches for *_, launches, _ in counts) <= 3 * 16


def trained(xp: Any, kind: str, batches: list[list[int]], is_packed: bool) -> tuple[list[float], list[Any], list[int]]:
    """Losses and parameters of training steps on sequences of some lengths, and how much was planned for each."""
    xp.manual_seed(0)
    m = getattr(xp.nn, kind)(3, 20, 2, batch_first=True, bidirectional=True)
    optimizer, rnn = xp.optim.SGD(m.parameters(), 0.05), xp.nn.utils.rnn

    def step(x: Any, lengths: Any) -> Any:
        optimizer.zero_grad()
        if is_packed:
            packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            out, last = m(packed)
            out, _ = rnn.pad_packed_sequence(out, batch_first=True)
        else:
            out, last = m(x)
        loss = out.square().mean() + sum(part.mean() for part in (last if kind == "LSTM" else [last]))
        loss.backward()
        optimizer.step()
        return loss

    call = step if xp is not jitgrad else jitgrad.compile(step)
    losses, plans = [], []
    for lengths in batches:
        x = xp.linspace(-1, 1, len(lengths) * max(lengths) * 3).reshape(len(lengths), -1, 3)
        with events.count("plans") as made:
            losses.append(call(x, xp.tensor(lengths)).item())
        plans.append(made())
    return losses, [p.detach().numpy() for p in m.parameters()], plans


@pytest.mark.parametrize("is_packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_sequences_of_ever_other_lengths_are_one_path(kind: str, is_packed: bool) -> None:
    """After some lengths were recorded, new ones fill in numbers: they plan nothing."""
    torch = pytest.importorskip("torch")
    longest = (9, 30, 14, 22, 5, 27, 11, 18, *((9, 33, 25, 14) if is_packed else (13, 33, 25, 16)))
    shortest = (3, 7, 9, 5, 2, 19, 4, 6, 5, 31, 8, 10) if is_packed else longest
    batches = [[b, a, (a + b) // 2, b, a] for a, b in zip(longest, shortest, strict=True)]
    losses, parameters, plans = trained(jitgrad, kind, batches, is_packed)
    expected, theirs, _ = trained(torch, kind, batches, is_packed)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for got, want in zip(parameters, theirs, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
    assert sum(plans[6:]) == 0


@pytest.mark.parametrize("name", ["_lstm_layer_packed", "_gru_layer_packed", "_rnn_tanh_layer_packed"])
@pytest.mark.parametrize("sizes", [[3, 3], [4, 1], [2, 3], [3, 0, 2], [3, 3, -1], [3, 2, 0], [10**12, 2]], ids=str)
def test_wrong_numbers_of_packed_rows_give_nan(mode: Mode, name: str, sizes: list[int]) -> None:
    """Of the operation, which nothing calls with such; what lies beside its arrays is not touched."""
    gates = {"_lstm_layer_packed": 4, "_gru_layer_packed": 3}.get(name, 1)

    def step(x: Any, sizes: Any) -> Any:
        operands = [x, jitgrad.ones(2 * gates, 2), jitgrad.ones(2 * gates), *[jitgrad.ones(3, 2)] * (1 + (gates == 4))]
        return call(name, *operands, sizes, False)

    for result in mode.wrap(step)(jitgrad.ones(5, 2 * gates), jitgrad.tensor(sizes)):
        assert result.isnan().all()


def packed_gradients(xp: Any, kind: str, lengths: list[int], twice: bool) -> Any:
    draw = partial(xp.randn, dtype=xp.float64, requires_grad=True)
    m = getattr(xp.nn, kind)(3, 4, 2, bidirectional=True).double()
    x, state = draw(max(lengths), len(lengths), 3), [draw(4, len(lengths), 4) for _ in range(1 + (kind == "LSTM"))]
    packed = xp.nn.utils.rnn.pack_padded_sequence(x, xp.tensor(lengths), enforce_sorted=False)
    out, last = m(packed, tuple(state) if kind == "LSTM" else state[0])
    ends = list(last) if kind == "LSTM" else [last]
    total = (out.data**3).sum() + sum((part**2).sum() for part in ends)
    leaves = [x, *state, *m.parameters()]
    grads = xp.autograd.grad(total, leaves, create_graph=twice)
    more = xp.autograd.grad(sum((g * g).sum() for g in grads), leaves) if twice else []
    return [out.data, *ends, *grads, *more]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("lengths", [[1], [3, 3], [2, 6, 1, 3, 6], [1, 9, 4, 4, 2, 8, 7, 1, 5, 3, 9, 2, 6]], ids=len)
@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
def test_gradients_of_packed_sequences(mode: Mode, kind: str, lengths: list[int], twice: bool) -> None:
    assert_as_pytorch(in_mode(mode, packed_gradients, kind, lengths, twice))


@pytest.mark.parametrize("sizes", [[2, 3], [3, 0, 2], [2, 2], [3, 1]], ids=str)
def test_wrong_numbers_of_packed_rows_are_an_error(mode: Mode, sizes: list[int]) -> None:
    """Nobody but a caller who makes a ``PackedSequence`` by hand can have them; the next call works."""
    m = jitgrad.nn.LSTM(2, 3)

    def step(rows: Any, sizes: Any) -> Any:
        return m(jitgrad.nn.utils.rnn.PackedSequence(rows, sizes), (jitgrad.zeros(1, 3, 3),) * 2)[0].data

    run = mode.wrap(step)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            run(jitgrad.ones(5, 2), jitgrad.tensor(sizes))
        assert run(jitgrad.ones(5, 2), jitgrad.tensor([3, 2])).shape == (5, 3)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_cells_in_every_mode(kind: str, mode: Mode) -> None:
    """Values and gradients of what a cell's one operation does, also those of its state and of the gates themselves."""
    torch = pytest.importorskip("torch")

    def case(xp: Any, m: Any, x: Any, *state: Any) -> list[Any]:
        out, last = m(x, state if kind == "LSTM" else state[0])
        grads = xp.autograd.grad(out.square().sum(), (x, *state), create_graph=True)
        sum(g.square().sum() for g in grads).backward()
        return [out, *(last if kind == "LSTM" else [last]), *grads, x.grad, *(p.grad for p in m.parameters())]

    def given(xp: Any) -> tuple[Any, ...]:
        xp.manual_seed(3)
        m = getattr(xp.nn, kind)(3, 4)
        states = [(1, 2, 4)] * (2 if kind == "LSTM" else 1)
        return m, *(xp.randn(*shape, requires_grad=True) for shape in ((4, 2, 3), *states))

    expected = case(torch, *given(torch))
    for got, want in zip(mode.run(partial(case, jitgrad), lambda: given(jitgrad)), expected, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=2e-4, atol=1e-5)


def wide_cell(xp: Any, cell: Any, x: Any) -> list[Any]:
    """Outputs and gradients of a loop over a cell, whose weights are laid out for the products of all steps."""
    state, outputs = None, []
    for part in x.unbind(0):
        state = cell(part, state)
        outputs.append(state[0] if isinstance(state, tuple) else state)
    out = xp.stack(outputs)
    (out * out).sum().backward()
    return [out, x.grad, *(p.grad for p in cell.parameters())]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_weights_of_states_are_laid_out_once(kind: str, mode: Mode) -> None:
    def given(xp: Any) -> tuple[Any, ...]:
        xp.manual_seed(3)
        return getattr(xp.nn, kind + "Cell")(8, 96), xp.randn(6, 7, 8, requires_grad=True)

    torch = pytest.importorskip("torch")
    expected = wide_cell(torch, *given(torch))
    with events.count("shared_panels") as shared:
        found = mode.run(partial(wide_cell, jitgrad), lambda: given(jitgrad))
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-3, atol=1e-4)
    if mode.name == "warm":
        assert shared() == 11  # six steps forward; backward, the first state gets no gradient


def in_mode(mode: Mode, f: Callable[..., Any], *args: Any) -> Case:
    """A case from the same seed at each call."""

    def once(xp: Any) -> Any:
        xp.manual_seed(0)
        return f(xp, *args)

    def case(xp: Any) -> Any:
        return mode.run(lambda: once(xp)) if xp is jitgrad else once(xp)

    return case


def second_derivatives(xp: Any, kind: str, options: dict[str, Any]) -> Any:
    draw = partial(xp.randn, dtype=xp.float64, requires_grad=True)
    m = getattr(xp.nn, kind)(3, 4, **options).double()
    x = draw(2, 5, 3) if options["batch_first"] else draw(5, 2, 3)
    directions = options["num_layers"] * (2 if options["bidirectional"] else 1)
    state = [draw(directions, 2, 4) for _ in range(2 if kind == "LSTM" else 1)]
    out, last = m(x, tuple(state) if kind == "LSTM" else state[0])
    total = (out**3).sum() + sum((part**2).sum() for part in (last if kind == "LSTM" else [last]))
    leaves = [x, *state, *m.parameters()]
    grads = xp.autograd.grad(total, leaves, create_graph=True)
    return [*grads, xp.autograd.grad(sum((g * g).sum() for g in grads), leaves)]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(str(v) for v in o.values()))
def test_second_derivatives(mode: Mode, kind: str, options: dict[str, Any]) -> None:
    assert_as_pytorch(in_mode(mode, second_derivatives, kind, options))


def test_second_derivatives_through_relu(mode: Mode) -> None:
    assert_as_pytorch(in_mode(mode, second_derivatives, "RNN", {**OPTIONS[1], "nonlinearity": "relu"}))


def some_are_frozen(xp: Any, kind: str, frozen: str) -> Any:
    m, x = getattr(xp.nn, kind)(3, 4, bidirectional=True), xp.randn(5, 2, 3, requires_grad=frozen == "_l0")
    for name, p in m.named_parameters():
        p.requires_grad_(frozen not in name)
    out, _ = m(x)
    out.square().sum().backward()
    return [out, x.grad, [p.grad for p in m.parameters()]]


@pytest.mark.parametrize("frozen", ["_l0", "bias", "weight", "weight_hh", "reverse", "l0_reverse"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_parameters_that_are_frozen(mode: Mode, kind: str, frozen: str) -> None:
    assert_as_pytorch(in_mode(mode, some_are_frozen, kind, frozen))


def _nodes(out: Any) -> int:
    seen, left = set(), [out.grad_fn]
    while left:
        node = left.pop()
        if node is not None and node not in seen:
            seen.add(node)
            left += [following for following, _ in node.next_functions]
    return len(seen)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_in_eager_mode_a_layer_is_one_node_however_long_the_sequence(kind: str) -> None:
    m = getattr(jitgrad.nn, kind)(3, 4, 2)
    counts = [_nodes(m(jitgrad.randn(steps, 2, 3))[0]) for steps in (5, 50)]
    assert counts[0] == counts[1] < 40


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_hooks_see_what_a_layer_saves(kind: str) -> None:
    """Whoever keeps saved values elsewhere gets all of them: nothing that grows with the sequence stays with a node."""
    m, x = getattr(jitgrad.nn, kind)(3, 4), jitgrad.randn(6, 2, 3)

    def gradients() -> list[Any]:
        m.zero_grad()
        m(x)[0].square().sum().backward()
        return [p.grad.tolist() for p in m.parameters()]

    plain, packed = gradients(), []

    def pack(t: Any) -> Any:
        packed.append(t.shape)
        return t.numpy().copy()

    with jitgrad.autograd.graph.saved_tensors_hooks(pack, jitgrad.from_numpy):
        assert gradients() == plain
    assert len([shape for shape in packed if shape[0] == 6]) >= {"LSTM": 3, "GRU": 3, "RNN": 1}[kind]
