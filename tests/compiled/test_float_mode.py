"""Numbers below the smallest normal one: computed, or taken for zero by ``set_flush_denormal``; Note [Float mode]."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad as jg
from tests.modes import Mode

HAS_SWITCH = platform.machine().lower() in ("x86_64", "amd64")


@pytest.fixture(autouse=True)
def computed_afterwards() -> Iterator[None]:
    threads = jg.get_num_threads()
    yield
    jg.set_flush_denormal(False)
    jg.set_num_threads(threads)


def _tiny(x: Any, y: Any) -> Any:
    product = x * y
    product.sum().backward()
    return product.detach(), x.grad


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [3, 3_000_000])
def test_all_threads_of_a_kernel_are_set_as_their_caller(n: int, threads: int, mode: Mode) -> None:
    """Products and gradients of 1e-40, by one thread and by workers; the switch goes both ways."""
    jg.set_num_threads(threads)
    x = np.full(n, 1e-20, np.float32)

    def arguments() -> tuple[Any, Any]:
        return jg.tensor(x).requires_grad_(), jg.tensor(x)

    for flush in (False, True, False, True):
        assert jg.set_flush_denormal(flush) is HAS_SWITCH
        product, _ = mode.run(_tiny, arguments)
        found = product.numpy().view(np.uint32)  # the numbers themselves compare as zero while the switch is on
        assert (found == 0).all() if flush and HAS_SWITCH else (found == np.float32(1e-40).view(np.uint32)).all()


@pytest.mark.skipif(not HAS_SWITCH, reason="the processor has no such switch")
def test_operands_are_flushed_too(mode: Mode) -> None:
    x = np.full(5, 1e-40, np.float32)
    jg.set_flush_denormal(True)
    total = mode.run(lambda x: x * 1e10, lambda: (jg.tensor(x),))
    assert (total.numpy() == 0).all()
    jg.set_flush_denormal(False)
    total = mode.run(lambda x: x * 1e10, lambda: (jg.tensor(x),))
    np.testing.assert_allclose(total.numpy(), 1e-30, rtol=1e-4)


def test_what_is_no_bool_is_refused() -> None:
    for wrong in (1, "on", None):
        with pytest.raises(RuntimeError, match="flush_denormal expects a bool, but got"):
            jg.set_flush_denormal(wrong)  # type: ignore[arg-type]
