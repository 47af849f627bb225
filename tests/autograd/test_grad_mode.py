"""Grad modes: contexts, decorators, generators, threads, exceptions."""

from __future__ import annotations

import threading

import pytest
from parity import J, attempt, leaf, same

from jitgrad.handler import Handler
from jitgrad.state import switch_handler


@pytest.mark.row("D10")
def test_contexts_nest_and_restore():
    def program(lib):
        x = leaf(lib, [1.0])
        seen = []
        with lib.no_grad():
            seen.append((x * 2).requires_grad)
            with lib.enable_grad():
                seen.append((x * 2).requires_grad)
                with lib.set_grad_enabled(False):
                    seen.append((x * 2).requires_grad)
                seen.append(lib.is_grad_enabled())
            seen.append(lib.is_grad_enabled())
        seen.append(lib.is_grad_enabled())
        try:
            with lib.no_grad():
                raise KeyError
        except KeyError:
            seen.append(lib.is_grad_enabled())
        lib.set_grad_enabled(False)
        seen.append(lib.is_grad_enabled())
        lib.set_grad_enabled(True)
        seen.append(lib.is_grad_enabled())
        with lib.inference_mode():
            seen.append((x * 2).requires_grad)
        with lib.inference_mode(False):
            seen.append((x * 2).requires_grad)
        return seen

    same(program)


def test_decorators():
    def program(lib):
        x = leaf(lib, [1.0])

        @lib.no_grad()
        def without(y):
            return (y * 2).requires_grad

        @lib.no_grad
        def bare(y):
            return (y * 2).requires_grad

        @lib.enable_grad()
        def with_grad(y):
            """Doc."""
            return (y * 2).requires_grad

        @lib.set_grad_enabled(False)
        def switched(y):
            return (y * 2).requires_grad

        @lib.inference_mode
        def inference(y):
            return (y * 2).requires_grad

        with lib.no_grad():
            inside = with_grad(x)
        names = with_grad.__name__, with_grad.__doc__
        return without(x), bare(x), with_grad(x), switched(x), inference(x), inside, names, lib.is_grad_enabled()

    same(program)


def test_generators_run_in_the_mode_and_their_consumers_do_not():
    def program(lib):
        log = []

        @lib.no_grad()
        def generate():
            try:
                got = yield lib.is_grad_enabled()
                log.append((got, lib.is_grad_enabled()))
                try:
                    yield 2
                except ValueError:
                    log.append(("caught", lib.is_grad_enabled()))
                yield 3
            finally:
                log.append(("closed", lib.is_grad_enabled()))

        generator = generate()
        log.append(next(generator))
        log.append(lib.is_grad_enabled())
        generator.send("sent")
        generator.throw(ValueError())
        generator.close()
        log.append(lib.is_grad_enabled())
        log.append(list(attempt(lambda: lib.no_grad()(lambda: iter([1, 2]))())))
        return log

    same(program)


def test_generator_return_value():
    @J.no_grad()
    def generate():
        yield 1
        return 5

    def outer():
        return (yield from generate())

    it = outer()
    assert next(it) == 1
    with pytest.raises(StopIteration) as stop:
        next(it)
    assert stop.value.value == 5


def test_one_object_entered_inside_itself():
    mode = J.no_grad()
    with mode:
        with mode:
            assert not J.is_grad_enabled()
        assert not J.is_grad_enabled()
    assert J.is_grad_enabled()


def test_modes_belong_to_the_thread():
    seen = []
    with J.no_grad():
        thread = threading.Thread(target=lambda: seen.append(J.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_a_recorder_is_told_of_changes():
    class Recorder(Handler):
        def __init__(self):
            self.modes = []

        def set_grad_mode(self, enabled):
            self.modes.append(enabled)

    recorder = Recorder()
    switch_handler(recorder)
    try:
        with J.no_grad(), J.no_grad(), J.enable_grad():
            pass
        with J.set_grad_enabled(False):
            pass
    finally:
        switch_handler(None)
    assert recorder.modes[:4] == [False, True, False, True]
    assert recorder.modes[-2:] == [False, True]


@pytest.mark.row("D11")
def test_updates_without_grad_record_nothing():
    def program(lib):
        w = leaf(lib, [1.0, 2.0])
        (w * w).sum().backward()
        with lib.no_grad():
            w -= 0.1 * w.grad
        return w, w.grad_fn, w.requires_grad, w._version

    same(program)
