"""Anomaly mode: an error in a backward names the line of the forward."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
from modes import ANOMALY, Mode

import jitgrad
from jitgrad.autograd import Function, detect_anomaly, grad, set_detect_anomaly
from jitgrad.state import anomaly


@pytest.fixture(autouse=True)
def _is_left_off() -> Iterator[None]:
    yield
    assert not anomaly.enabled
    assert anomaly.check_nan


def _leaf(*values: float):
    return jitgrad.tensor(list(values) or [1.0, 2.0], requires_grad=True)


def _root(x):
    return x.sqrt()  # the line to find


class Fails(Function):
    """Its backward has a bug."""

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        raise KeyError("a bug")


def _fails(x):
    return Fails.apply(x)  # the other line to find


def _report(call, kind, match: str) -> tuple[BaseException, str]:
    """The error of ``call()``, and the warnings that came with it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(kind, match=match) as error:
            call()
    texts = [str(w.message) for w in caught if "Anomaly Detection has been enabled" not in str(w.message)]
    return error.value, "\n".join(texts)


NAN = r"Function 'SqrtBackward0' returned nan values in its 0th output\."


@pytest.mark.row("C25", no_launch="Every backward of it raises, and nothing is returned.")
def test_nan_is_an_error_that_names_the_forward(mode: Mode) -> None:
    """A compiled step that is called in the mode; warm: after it has been compiled."""

    def step(x):
        _root(x).sum().backward()

    function = mode.wrap(step)
    for _ in range(2 if mode.name == "warm" else 0):
        function(_leaf(-1.0, 2.0))

    def call():
        with set_detect_anomaly(True):
            function(_leaf(-1.0, 2.0))

    error, text = _report(call, RuntimeError, NAN)
    assert "Error detected in SqrtBackward0. Traceback of forward call that caused the error:" in text
    assert "the line to find" in text
    assert text.rstrip().endswith("# the line to find")
    assert "the line to find" in "".join(error.__notes__)


@pytest.mark.row("C25")
def test_any_error_of_a_node_names_the_forward(mode: Mode) -> None:
    def step(x):
        _fails(x).sum().backward()

    def call():
        with set_detect_anomaly(True):
            mode.run(step, lambda: (_leaf(),))

    error, text = _report(call, KeyError, "a bug")
    assert "Error detected in FailsBackward. Traceback of forward call that caused the error:" in text
    assert text.rstrip().endswith("# the other line to find")
    assert "the other line to find" in "".join(error.__notes__)


@pytest.mark.row("C25", engine=ANOMALY)
def test_the_mode_switched_on_inside_a_step(mode: Mode) -> None:
    def step(x):
        with set_detect_anomaly(True):
            _root(x).sum().backward()

    function = mode.wrap(step)
    for _ in range(3 if mode.name == "warm" else 1):
        _, text = _report(lambda: function(_leaf(-1.0, 2.0)), RuntimeError, NAN)
        assert text.rstrip().endswith("# the line to find")


@pytest.mark.row("C25")
def test_a_graph_from_a_step_that_ran_before(mode: Mode) -> None:
    """Eagerly nobody remembers where the node was made; a recording does."""
    function = mode.wrap(lambda x: _root(x).sum())
    for _ in range(3 if mode.name == "warm" else 1):
        loss = function(_leaf(-1.0, 2.0))

    def call():
        with set_detect_anomaly(True):
            loss.backward()

    _, text = _report(call, RuntimeError, NAN)
    if mode.is_compiled:
        assert text.rstrip().endswith("# the line to find")
    else:
        assert text == (
            "Error detected in SqrtBackward0. No forward pass information available. Enable detect anomaly during "
            "forward pass for more information."
        )


def test_a_node_made_in_a_backward_names_that_ones_forward_too() -> None:
    def call():
        with set_detect_anomaly(True):
            x = _leaf(4.0, 0.0)
            (first,) = grad((x**1.5).sum(), x, create_graph=True)  # 1.5 sqrt(x)
            first.grad_fn.register_hook(lambda gi, go: 1 / 0)
            first.sum().backward()

    _, text = _report(call, ZeroDivisionError, "division by zero")
    assert "Previous calculation was induced by PowBackward0. Traceback of forward call that induced" in text


def test_nan_may_be_allowed(mode: Mode) -> None:
    def step(x):
        with set_detect_anomaly(True, check_nan=False):
            _root(x).sum().backward()
        return x.grad

    x_grad = mode.run(step, lambda: (_leaf(-1.0, 4.0),)).tolist()
    assert x_grad[0] != x_grad[0]
    assert x_grad[1] == 0.25


def test_without_the_mode_nothing_is_remembered(mode: Mode) -> None:
    def step(x):
        y = _root(x)
        y.sum().backward()
        return y.grad_fn.metadata, x.grad

    metadata, x_grad = mode.run(step, lambda: (_leaf(-1.0, 4.0),))
    assert metadata == {}
    assert x_grad.tolist()[1] == 0.25


def test_switches() -> None:
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        mode = detect_anomaly(check_nan=False)
    assert not jitgrad.is_anomaly_enabled()
    with mode:
        assert jitgrad.is_anomaly_enabled()
        assert not jitgrad.is_anomaly_check_nan_enabled()
        with set_detect_anomaly(False):
            assert not jitgrad.is_anomaly_enabled()
    set_detect_anomaly(True)
    assert jitgrad.is_anomaly_enabled()
    set_detect_anomaly(False)
    assert not jitgrad.is_anomaly_enabled()


def test_an_overwritten_value_points_to_the_traceback() -> None:
    def call():
        with set_detect_anomaly(True):
            x = _leaf()
            y = x.exp()
            with jitgrad.no_grad():
                y.mul_(2)
            y.sum().backward()

    _, text = _report(call, RuntimeError, "Hint: the backtrace further above shows the operation")
    assert "Error detected in ExpBackward0. Traceback of forward call" in text


def test_where_warnings_are_errors_the_error_itself_is_raised() -> None:
    x = _leaf()
    with set_detect_anomaly(True), pytest.raises(KeyError, match="a bug") as error:
        Fails.apply(x).sum().backward()
    assert "in the backward of FailsBackward" in "".join(error.value.__notes__)
