"""A sample of ``python -m tests.attack``, and what it has found."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable
from typing import Any

import pytest

import jitgrad as jg
from jitgrad.functions.checked import checked
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


_QUAD = jg.ones(1, 1, 2, 2)
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "an element of no tensor": (lambda: jg.cartesian_prod([jg.ones(3)]), "TypeError: expected Tensor as element 0"),
    "a list in chain_matmul": (lambda: jg.chain_matmul([jg.ones(3, 3)]), "TypeError: expected Tensor as element 0"),
    "no equation": (lambda: jg.einsum(jg.ones(3), jg.ones(3)), "TypeError: einsum(): argument 'equation'"),
    "a number of widths": (lambda: jg.constant_pad_nd(jg.ones(3), 3), "TypeError: constant_pad_nd() received"),
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
    "no padding": (lambda: F.conv1d(jg.ones(1, 2, 5), jg.ones(1, 2, 2), padding=()), "RuntimeError: expected padding"),
    "no stride": (lambda: F.max_unpool2d(_QUAD, _QUAD.long(), 2, stride=()), "RuntimeError: max_unpool2d: stride"),
    "no dilation": (lambda: F.max_pool2d(_QUAD, 2, dilation=()), "RuntimeError: max_pool2d: dilation"),
    "no kernel": (lambda: F.max_pool2d(_QUAD, 0), "RuntimeError: max_pool2d: kernel size should be greater than zero"),
    "a weight of one element": (
        lambda: F.conv_transpose3d(jg.ones(1, 2, 3, 3, 3), jg.tensor(1.0)),
        "RuntimeError: Expected a 5-dimensional weight",
    ),
    "places that are real": (lambda: F.max_unpool2d(_QUAD, _QUAD, 2), "RuntimeError: max_unpool2d: indices should be"),
    "a matrix of places": (
        lambda: F.max_unpool2d(_QUAD[0, 0], _QUAD[0, 0].long(), 2),
        "RuntimeError: max_unpool2d: expected",
    ),
    "no boxes": (lambda: jg.histogramdd(jg.ones(4, 2), [0, 1]), "RuntimeError: torch.histogramdd(): bins must be > 0"),
    "a box without end": (
        lambda: jg.histogramdd(jg.ones(4, 2), 2, range=[0.0, 1.0, 0.0, float("inf")]),
        "RuntimeError: torch.histogramdd: dimension 1's range [0, inf] is not finite",
    ),
    "a complex permutation": (
        lambda: jg.randperm(3, dtype=jg.complex64),
        "NotImplementedError: \"randperm\" not implemented for 'ComplexFloat'",
    ),
    "a float for a bool": (
        lambda: jg.var_mean(jg.ones(3), unbiased=1e308),
        "TypeError: var_mean() received an invalid",
    ),
    "a bool for an int": (
        lambda: F.conv1d(jg.ones(1, 2, 5), jg.ones(1, 2, 2), stride=True), "TypeError: conv1d() received an invalid",
    ),
    "views of nothing": (lambda: jg.chunk(jg.zeros(3, 0), 2**31 - 1, 1), "RuntimeError: chunk: not enough memory for"),
    "parts of nothing": (
        lambda: jg.tensor_split(jg.ones(3), 2**31 - 1),
        "RuntimeError: tensor_split: not enough memory",
    ),
    "views of one element": (lambda: jg.ones(1).expand(2**40).unbind(), "RuntimeError: unbind: not enough memory for"),
    "pieces of one element": (lambda: jg.ones(1).expand(2**40).split(1), "RuntimeError: split: not enough memory for"),
    "an endless recurrence": (
        lambda: jg.special.legendre_polynomial_p(jg.ones(2) * 0.5, 10**18),
        "RuntimeError: special.legendre_polynomial_p:",
    ),
    "a window of no number": (lambda: jg.signal.windows.hann(2.5), "TypeError: hann(): argument 'M' must be int"),
    "a window by a word": (
        lambda: jg.signal.windows.general_hamming(5, alpha="x"), "TypeError: general_hamming(): argument 'alpha'",
    ),
    "a window without end": (lambda: jg.signal.windows.hann(10**18), "RuntimeError: "),
    "65 bits": (lambda: jg.linalg.vecdot(jg.ones(3), jg.ones(3), dim=2**63), "ValueError: Overflow when unpacking"),
    "endless layers": (lambda: jg.nn.GRU(1, 1, num_layers=2**40), "ValueError: GRU: num_layers="),
    "no such stride": (lambda: jg.ones(2, 3).stride(7), "IndexError: Dimension out of range"),
    "no edges": (lambda: jg.histogram(jg.ones(3), jg.zeros(0)), "RuntimeError: torch.histogramdd: bins tensor should"),
    "other batches": (
        lambda: jg.linalg.solve(jg.eye(3).expand(2, 3, 3), jg.ones(4, 3, 5)), "RuntimeError: The size of tensor a",
    ),
    "beyond one element": (
        lambda: jg.tensor(1.0).index_fill(0, jg.tensor([1]), 2.0), "IndexError: index 1 is out of bounds",
    ),
    "rows of a number": (
        lambda: jg.ones(2).index_add(0, jg.tensor([0]), jg.tensor(1.0)), "RuntimeError: source tensor shape must match",
    ),
    "another new extent": (
        lambda: jg.ones(2).repeat_interleave(jg.tensor([1, 2]), output_size=7),
        "RuntimeError: repeat_interleave: Invalid output_size",
    ),
    "a complex weight": (
        lambda: jg.ones(2).addcdiv_(jg.ones(2), jg.ones(2), value=1j), "RuntimeError: value cannot be converted",
    ),
    "half of the statistics": (
        lambda: F.batch_norm(jg.ones(2, 3), None, jg.ones(3), training=True),
        "ValueError: running_mean and running_var",
    ),
    "statistics of other channels": (
        lambda: F.instance_norm(jg.ones(2, 3, 4), weight=jg.ones(1)), "RuntimeError: weight should contain 3 elements",
    ),
    "a root that is none": (lambda: jg.autograd.backward([None], [jg.ones(())]), "TypeError: a root must be a Tensor"),
    "no groups": (lambda: F.group_norm(jg.ones(1, 6, 3), 0), "RuntimeError: Expected num groups to be greater"),
    "random complex integers": (lambda: jg.randint(0, 5, (2,), dtype=jg.complex64), "RuntimeError: check_random"),
    "lengths beyond the end": (
        lambda: jg.nn.utils.rnn.pack_padded_sequence(jg.ones(3, 2, 1), [2**40, 1]), "RuntimeError: a length in",
    ),
    "a factor without dimensions": (
        lambda: jg.orgqr(jg.eye(3), jg.tensor(1.5)), "RuntimeError: torch.linalg.householder_product: tau must",
    ),
    "pivots of another matrix": (
        lambda: jg.linalg.lu_solve(jg.ones(2, 3), jg.ones(3, dtype=jg.int32), jg.ones(3, 1)),
        "RuntimeError: torch.linalg.lu_solve: A must be batches of square matrices",
    ),
    "more pivots than rows": (
        lambda: jg.lu_unpack(jg.ones(2, 3), jg.ones(3, dtype=jg.int32)), "RuntimeError: 3 pivots are more than the",
    ),
    "fewer reflections": (
        lambda: jg.ormqr(jg.ones(3, 3), jg.ones(2), jg.ones(3, 3)), "RuntimeError: torch.ormqr: tau.shape[-1] must be",
    ),
    "repeats that nobody counts": (
        lambda: jg.ones(2).repeat_interleave(jg.tensor([2**62])), "RuntimeError: Storage size calculation overflowed",
    ),
    "strides of another rank": (
        lambda: jg.ones(3).set_(jg.ones(9), 0, (3,), (3, 1)), "RuntimeError: unequal size length (1) and stride length",
    ),
    "no trials": (
        lambda: jg.distributions.NegativeBinomial(None, probs=jg.tensor([0.5])), "ValueError: Input arguments must",
    ),
    "limits of nothing": (lambda: jg.iinfo(None), "TypeError: torch.iinfo() requires an integer input type"),
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


def _conv1d_that_tells(seen: list[Any]) -> Callable[..., Any]:
    """``conv1d`` with its arguments matched, which notes what it is called with."""

    def conv1d(
        input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1
    ) -> None:
        seen.append((stride, groups))

    return checked(conv1d)


def test_a_known_call_tells_nothing_of_other_elements() -> None:
    x, seen = jg.ones(1, 2, 5), list[Any]()
    call = _conv1d_that_tells(seen)
    call(x, x, stride=(1,))
    call(x, x, stride=(jg.tensor(2),))
    assert [tuple(map(type, stride)) for stride, _ in seen] == [(int,), (int,)]
    with pytest.raises(TypeError, match="conv1d"):
        F.conv1d(x, x[:, :, :2], stride=(1.0,))


def test_a_known_call_tells_nothing_of_large_numbers() -> None:
    x = jg.ones(1, 4, 2, 2)
    assert F.pixel_shuffle(x, 2).shape == (1, 1, 4, 4)
    for _ in range(2):
        with pytest.raises(ValueError, match="Overflow when unpacking"):
            F.pixel_shuffle(x, 2**63)


def test_a_call_that_is_converted_is_converted_each_time() -> None:
    x, seen = jg.ones(1, 2, 5), list[Any]()
    call = _conv1d_that_tells(seen)
    for _ in range(3):
        call(x, x, groups=jg.tensor(1))
    assert [type(groups) for _, groups in seen] == [int] * 3
    with pytest.raises(TypeError, match="conv1d"):
        F.conv1d(x, x[:, :, :2], groups=jg.tensor(1.0))


def test_a_fraction_that_would_not_settle_is_not_asked() -> None:
    assert jg.igammac(jg.ones(2), jg.tensor([1e38, 2.0])).tolist() == pytest.approx([0, 0.135335], abs=1e-5)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_what_was_found_is_right(mode: str) -> None:
    run: Callable[..., Any] = jg.compile if mode == "compiled" else lambda f: f
    windows = jg.signal.windows
    assert run(lambda: windows.general_hamming(jg.tensor(5), alpha=jg.tensor(0.5)))().tolist() == [0, 0.5, 1, 0.5, 0]
    assert run(lambda x: F.max_pool2d(x, 2, stride=()))(jg.ones(1, 4, 4)).shape == (1, 2, 2)
    assert run(lambda x: F.conv1d(x, x[:, :, :2], stride=jg.tensor(2)))(jg.ones(1, 2, 5)).shape == (1, 1, 2)
    x = jg.tensor([0.3, -0.8], dtype=jg.float64)
    for name, first in (("t", x), ("u", 2 * x), ("v", 2 * x - 1), ("w", 2 * x + 1)):
        before, now = jg.ones(2, dtype=jg.float64), first
        for _ in range(5000 - 1):
            before, now = now, 2 * x * now - before
        polynomial = getattr(jg.special, f"chebyshev_polynomial_{name}")
        assert jg.allclose(run(lambda x, f=polynomial: f(x, 5000))(x), now, rtol=1e-8, atol=1e-8)
    assert run(lambda x: x.histc(3))(jg.tensor([3e38, -3e38, 1e-40, 2e38])).tolist() == [1, 1, 2]
    assert run(jg.poisson)(jg.full((2,), float("inf"))).tolist() == [float("inf")] * 2
    assert run(lambda x: x.sub(1e308, alpha=0.0).isnan().all())(jg.ones(2)).item()  # the number is infinite in float32
    assert run(lambda x: x.unfold(1, 2, 2**62))(jg.ones(3, 4)).shape == (3, 1, 2)
    assert run(lambda x: jg.div(7, x, rounding_mode="trunc"))(jg.tensor(-3.5)).item() == -2
    assert run(lambda x: F.scaled_dot_product_attention(x, x, jg.ones(3, 2)))(jg.zeros(3, 0)).tolist() == [[1, 1]] * 3
    assert run(lambda x: jg.norm(x, jg.tensor(1.0)))(jg.ones(4)).item() == 4
    assert run(lambda x: F.lp_pool1d(x, 1.0, jg.tensor(2)))(jg.ones(1, 1, 4)).tolist() == [[[2, 2]]]
    assert run(lambda x: jg.split(x, [], 1))(jg.zeros(3, 0)) == ()
    assert run(lambda x: jg.nn.init.trunc_normal_(x, float("nan")).isfinite().all())(jg.empty(2, 3)).item()
    assert run(lambda x: jg.xlogy(x, 1e308))(jg.ones(2)).tolist() == [float("inf")] * 2
    assert run(lambda x: jg.special.xlog1py(x, 1e308))(jg.ones(2)).tolist() == [float("inf")] * 2
    assert run(lambda x: jg.special.legendre_polynomial_p(x, 1e38))(jg.ones(2)).tolist() == [0, 0]
    assert [tuple(x.shape) for x in run(jg.linalg.lu)(jg.zeros(2, 0, 3))] == [(2, 0, 0), (2, 0, 0), (2, 0, 3)]
    for diagonal in (2**63 - 1, 2**62, 1, -1, -(2**63)):
        wanted = jg.ones(3, 3) * (jg.arange(3)[None] - jg.arange(3)[:, None] >= diagonal)
        assert run(lambda x, d=diagonal: x.triu(d))(jg.ones(3, 3)).tolist() == wanted.tolist()
