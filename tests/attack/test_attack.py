"""A sample of ``python -m tests.attack``, and what it has found."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable
from typing import Any

import pytest

import jitgrad as jg
from tests.attack.__main__ import attack
from tests.attack.draws import NAMES, STRANGE, draw
from tests.attack.worker import Inside, run_attack
from tests.guard.pages import GuardedMemory

F = jg.nn.functional
_IS_LONG = bool(os.environ.get("JITGRAD_LONG_TESTS"))


def test_every_public_function_is_called() -> None:
    assert len(NAMES) > 1200
    assert {draw(seed).name for seed in range(len(NAMES))} == set(NAMES)


def test_a_call_is_always_the_same() -> None:
    assert [str(draw(seed)) for seed in range(50)] == [str(draw(seed)) for seed in range(50)]
    assert any(draw(seed).is_strange for seed in range(200))
    assert all(eval(text, {"jg": jg}) is not NotImplemented for text in STRANGE)


def test_a_sample_of_calls_is_answered() -> None:
    """One of nine functions is called once. The long form is run by hand, 100,000 calls and more."""
    chosen = [at for at, name in enumerate(NAMES) if _IS_LONG or zlib.crc32(name.encode()) % 9 == 0]
    counts, lines = attack(chosen)
    print(dict(counts))
    assert not lines
    assert counts["survived"] + counts["refused"] == counts["tried"] == len(chosen) > 100
    assert counts["survived"] > len(chosen) // 4


@pytest.mark.parametrize("error", [KeyError("x"), AttributeError("x"), IndexError("of a list"), RecursionError("deep")])
def test_what_comes_out_of_the_inside_is_told(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(x: Any) -> Any:
        raise error

    monkeypatch.setattr(jg, "abs", broken)
    with pytest.raises(Inside, match=type(error).__name__):
        run_attack(draw(list(NAMES).index("jg.abs")), GuardedMemory())


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "an element of no tensor": (lambda: jg.cartesian_prod([jg.ones(3)]), "TypeError: expected Tensor as element 0"),
    "a list in chain_matmul": (lambda: jg.chain_matmul([jg.ones(3, 3)]), "TypeError: expected Tensor as element 0"),
    "no equation": (lambda: jg.einsum(jg.ones(3), jg.ones(3)), "TypeError: einsum(): argument 'equation'"),
    "a number of widths": (lambda: jg.constant_pad_nd(jg.ones(3), 3), "TypeError: pad(): argument 'pad'"),
    "rank of a vector": (lambda: jg.linalg.matrix_rank(jg.ones(3)), "RuntimeError: linalg.matrix_rank: The input"),
    "components of a vector": (lambda: jg.pca_lowrank(jg.ones(3)), "ValueError: pca_lowrank"),
    "edges in a matrix": (lambda: jg.histogram(jg.ones(3), jg.ones(2, 3)), "RuntimeError: torch.histogramdd: bins"),
    "a weight without rows": (lambda: F.bilinear(jg.ones(3), jg.ones(3), jg.ones(3)), "RuntimeError: bilinear()"),
    "no such dimension": (lambda: jg.diff(jg.arange(3.0), dim=4), "IndexError: Dimension out of range"),
    "NaN as an integer": (lambda: F.threshold(jg.tensor([1]), float("nan"), 3), "RuntimeError: value cannot be"),
    "infinitely large": (lambda: F.interpolate(jg.ones(1, 1, 3), scale_factor=1e30), "RuntimeError: value cannot be"),
    "a diagonal": (lambda: jg.ones(3, 3).triu(2**64), "RuntimeError: triu: 64 bits do not hold"),
    "uncounted elements": (lambda: jg.ones(1).expand([2**20] * 4), "RuntimeError: numel: integer multiplication"),
    "no elements, uncounted": (lambda: jg.zeros(0, 2**62, 2**62), "RuntimeError: Storage size calculation overflowed"),
    "more pairs than memory": (lambda: jg.combinations(jg.ones(1 << 20)), "RuntimeError: DefaultCPUAllocator"),
    "a huge count": (lambda: jg.bincount(jg.tensor([2**60])), "RuntimeError: Storage size calculation overflowed"),
    "short integers by 0": (lambda: jg.ones(3, dtype=jg.uint8) // 256, "RuntimeError: ZeroDivisionError"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_what_was_found_is_refused_in_words(name: str, mode: str) -> None:
    call, words = REFUSED[name]
    kind, _, message = words.partition(": ")
    with pytest.raises((RuntimeError, TypeError, ValueError, IndexError), match=f"^{re.escape(message)}") as caught:
        (jg.compile(call) if mode == "compiled" else call)()
    assert caught.type.__name__ == kind


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_what_was_found_is_right(mode: str) -> None:
    run: Callable[..., Any] = jg.compile if mode == "compiled" else lambda f: f
    assert run(lambda x: jg.xlogy(x, 1e308))(jg.ones(2)).tolist() == [float("inf")] * 2
    assert run(lambda x: jg.special.xlog1py(x, 1e308))(jg.ones(2)).tolist() == [float("inf")] * 2
    assert run(lambda x: jg.special.legendre_polynomial_p(x, 1e38))(jg.ones(2)).tolist() == [0, 0]
    assert [tuple(x.shape) for x in run(jg.linalg.lu)(jg.zeros(2, 0, 3))] == [(2, 0, 0), (2, 0, 0), (2, 0, 3)]
    for diagonal in (2**63 - 1, 2**62, 1, -1, -(2**63)):
        wanted = jg.ones(3, 3) * (jg.arange(3)[None] - jg.arange(3)[:, None] >= diagonal)
        assert run(lambda x, d=diagonal: x.triu(d))(jg.ones(3, 3)).tolist() == wanted.tolist()
