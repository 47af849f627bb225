"""Losses and layers over sequences, rare classes and random windows, beside PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.nn.libraries import assert_as_pytorch, raised

Case = Callable[[Any], Any]


def _logits(xp: Any, *shape: int) -> Any:
    return xp.randn(*shape, dtype=xp.float64, requires_grad=True)


def ctc(xp: Any) -> Any:
    seen = []
    padded = xp.tensor([[1, 2, 2], [3, 1, 0], [2, 0, 0], [0, 0, 0]])
    joined = xp.tensor([1, 2, 2, 3, 1, 2])
    for targets, blank, options in (
        (padded, 0, {}), (joined, 0, {"reduction": "sum"}), (padded.int(), 3, {"reduction": "none"}),
        (joined, 0, {"zero_infinity": True}),
    ):  # fmt: skip
        for lengths in ([6, 6, 6, 6], [6, 4, 3, 1], [6, 2, 1, 6]):
            x = _logits(xp, 6, 4, 5)
            found = xp.nn.functional.ctc_loss(
                x.log_softmax(2), targets, tuple(lengths), (3, 2, 1, 0), blank=blank, **options
            )
            found.sum().backward()
            seen += [found, x.grad]
    return seen


def ctc_of_one_sequence(xp: Any) -> Any:
    x = _logits(xp, 5, 4)
    loss = xp.nn.CTCLoss(reduction="none")
    found = loss(x.log_softmax(1), xp.tensor([1, 1]), xp.tensor(5), xp.tensor(2))
    found.backward()
    return [repr(loss), found, x.grad]


def ctc_that_cannot_be(xp: Any) -> Any:
    seen = []
    for zero_infinity in (False, True):
        x = _logits(xp, 2, 2, 3)
        loss = xp.nn.CTCLoss(reduction="none", zero_infinity=zero_infinity)
        found = loss(x.log_softmax(2), xp.tensor([[1, 1], [1, 2]]), (2, 2), (2, 2))
        found[1:].sum().backward()
        seen += [found, x.grad]
    return seen


def wrong_ctc(xp: Any) -> Any:
    x, y = xp.zeros(4, 2, 3), xp.tensor([[1, 2], [1, 2]])
    call = xp.nn.functional.ctc_loss
    return [
        raised(lambda: call(x, y, (5, 4), (2, 2)))[0],
        raised(lambda: call(x, y, (4, 4), (3, 2)))[0],
        raised(lambda: call(x, y, (4,), (2, 2)))[0],
        raised(lambda: call(x, y, (4, 4), (2, 2), blank=3)),
        raised(lambda: call(x, y, (4, 4), (2, 2), reduction="x"))[0],
    ]


def adaptive_softmax(xp: Any) -> Any:
    m = xp.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 6], div_value=2.0, head_bias=True)
    x = xp.randn(6, 8, requires_grad=True)
    out = m(x, xp.tensor([0, 3, 11, 2, 7, 5]))
    out.loss.backward()
    seen = [repr(m), out.output, out.loss, x.grad, [p.grad for p in m.parameters()], m.log_prob(x), m.predict(x)]
    seen += list(m(x[0], xp.tensor(4)))
    return [
        *seen,
        m(x[:2], xp.tensor([7, 8])).output,
        raised(lambda: m(x, xp.tensor([0, 3, 12, 2, 7, 5]))),
        raised(lambda: m(x, xp.tensor([0])))[0],
        raised(lambda: m(x, xp.zeros(6, 1, dtype=xp.int64)))[0],
        raised(lambda: xp.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [])),
        raised(lambda: xp.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 12])),
    ]


def fractional_pools(xp: Any) -> Any:
    seen = []
    for dims, shape in ((2, (2, 3, 7, 8)), (3, (1, 2, 6, 7, 8))):
        pool = getattr(xp.nn, f"FractionalMaxPool{dims}d")
        x = xp.randn(*shape, requires_grad=True)
        out, at = pool(2, output_size=3, return_indices=True)(x)
        out.square().sum().backward()
        seen += [out, at, x.grad, pool((2,) * dims, output_ratio=0.5)(x[0]), xp.rand(1), repr(pool(2, output_size=3))]
        samples = xp.full((*shape[:2], dims), 0.3)
        seen.append(pool(3, output_size=2, _random_samples=samples)(x))
        seen += [raised(lambda pool=pool: pool(2)), raised(lambda pool=pool: pool(2, 3, 0.5))]
        seen += [raised(lambda pool=pool: pool(2, output_ratio=1.5)), raised(lambda pool=pool, x=x: pool(5, 6)(x))[0]]
    return seen


def embeddings(xp: Any) -> Any:
    seen = []
    at = xp.tensor([[1, 2, 1], [4, 1, 0]])
    for options in (
        {"max_norm": 1.0}, {"max_norm": 0.7, "norm_type": 1.0, "padding_idx": 1}, {"scale_grad_by_freq": True},
        {"scale_grad_by_freq": True, "padding_idx": 1}, {"_freeze": True},
    ):  # fmt: skip
        m = xp.nn.Embedding(5, 3, **options)
        out = m(at)
        if "_freeze" not in options:
            out.square().sum().backward()
        seen += [repr(m), out, m.weight, m.weight.grad, m.weight.requires_grad]
    rows = xp.nn.Embedding.from_pretrained(xp.ones(3, 2), freeze=False)
    return [*seen, rows.weight, rows.weight.requires_grad, raised(lambda: xp.nn.Embedding.from_pretrained(xp.ones(2)))]


def bags(xp: Any) -> Any:
    seen = []
    # PyTorch's sum counts the uses of another row where a row before the last one comes twice
    at = xp.tensor([[4, 2, 4], [4, 1, 0]])
    for mode in ("sum", "mean"):
        for options in ({"max_norm": 1.0}, {"scale_grad_by_freq": True}):
            m = xp.nn.EmbeddingBag(5, 3, mode=mode, **options)
            out = m(at)
            out.square().sum().backward()
            flat = m(at.reshape(-1), xp.tensor([0, 2]))
            seen += [repr(m), out, m.weight, m.weight.grad, flat]
    m = xp.nn.EmbeddingBag(5, 3, mode="max", max_norm=0.5)
    wrong = raised(lambda: xp.nn.EmbeddingBag(5, 3, mode="max", scale_grad_by_freq=True)(at))
    return [*seen, m(at), m.weight, wrong]


def resampled(xp: Any) -> Any:
    seen = []
    for mode in ("bilinear", "bicubic"):
        for options in (
            {"size": (3, 4)}, {"size": (9, 7)}, {"scale_factor": 0.4}, {"scale_factor": (1.7, 0.6)},
            {"size": (3, 5), "align_corners": True},
        ):  # fmt: skip
            x = xp.randn(2, 2, 8, 9, requires_grad=True)
            out = xp.nn.functional.interpolate(x, mode=mode, antialias=True, **options)
            out.square().sum().backward()
            seen += [out, x.grad]
    wrong = raised(lambda: xp.nn.functional.interpolate(xp.ones(1, 1, 4), size=2, mode="linear", antialias=True))
    return [*seen, wrong]


def cubic_grids(xp: Any) -> Any:
    seen = []
    for padding in ("zeros", "border", "reflection"):
        for aligned in (False, True):
            x = xp.randn(2, 3, 5, 6, dtype=xp.float64, requires_grad=True)
            grid = (xp.rand(2, 4, 3, 2, dtype=xp.float64) * 3 - 1.5).requires_grad_()
            out = xp.nn.functional.grid_sample(x, grid, "bicubic", padding, aligned)
            out.square().sum().backward()
            seen += [out, x.grad, grid.grad]
    five = raised(lambda: xp.nn.functional.grid_sample(
        xp.ones(1, 1, 2, 2, 2), xp.zeros(1, 2, 2, 2, 3), "bicubic", align_corners=True))[0]  # fmt: skip
    return [*seen, five]


def weighted_losses(xp: Any) -> Any:
    F, nn, seen = xp.nn.functional, xp.nn, []
    x, y = xp.rand(3, 4, dtype=xp.float64), xp.rand(3, 4, dtype=xp.float64)
    w = xp.rand(3, 4, dtype=xp.float64)
    for reduction in ("mean", "sum", "none"):
        for loss in (F.mse_loss, F.l1_loss, F.huber_loss, F.binary_cross_entropy, F.binary_cross_entropy_with_logits):
            leaf = x.clone().requires_grad_()
            out = loss(leaf, y, reduction=reduction, weight=w)
            out.sum().backward()
            seen += [out, leaf.grad]
        seen.append(nn.BCELoss(w, reduction=reduction)(x, y))
        seen.append(nn.BCEWithLogitsLoss(w, reduction=reduction, pos_weight=w[0] * 3)(x, y))
    for old in ({"size_average": False}, {"reduce": False}, {"size_average": True}):
        for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.kl_div, F.binary_cross_entropy):
            seen.append(loss(x, y, **old))
        seen.append(F.nll_loss(x.log(), xp.tensor([0, 1, 3]), **old))
        seen.append(F.cross_entropy(x, xp.tensor([0, 1, 3]), **old))
        seen.append(nn.MSELoss(**old).reduction)
    seen += [raised(lambda: F.mse_loss(x, y, weight=w[0])), raised(lambda: F.huber_loss(x, y, weight=w[0]))]
    return [*seen, list(nn.BCEWithLogitsLoss(pos_weight=w[0]).state_dict()), F.mse_loss(x, y[:1]), F.l1_loss(x, y[0])]


CASES: list[Case] = [
    ctc, ctc_of_one_sequence, ctc_that_cannot_be, wrong_ctc, adaptive_softmax, fractional_pools, embeddings, bags,
    resampled, cubic_grids, weighted_losses,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_as_pytorch(case: Case) -> None:
    assert_as_pytorch(case)


def _ctc_step(x: Any) -> Any:
    loss = jitgrad.nn.functional.ctc_loss(x.log_softmax(2), jitgrad.tensor([[1, 2]]), (3,), (2,))
    loss.backward()
    return loss.detach(), x.grad


def _limited_step(x: Any) -> Any:
    at = jitgrad.tensor([1, 0, 1])
    out = jitgrad.nn.functional.embedding(at, x, max_norm=0.5, scale_grad_by_freq=True)
    out.square().sum().backward()
    return out.detach(), x.grad, x.detach()


def _resampled_step(x: Any) -> Any:
    out = jitgrad.nn.functional.interpolate(x.reshape(1, 1, 3, 4), size=(2, 3), mode="bicubic", antialias=True)
    out.square().sum().backward()
    return out.detach(), x.grad


def _sampled_step(x: Any) -> Any:
    grid = jitgrad.linspace(-1.2, 1.2, 8).reshape(1, 2, 2, 2)
    image = x.reshape(1, 1, 3, 4)
    out = jitgrad.nn.functional.grid_sample(image, grid, "bicubic", "reflection", False)
    out.square().sum().backward()
    return out.detach(), x.grad


@pytest.mark.parametrize("step", [_ctc_step, _limited_step, _resampled_step, _sampled_step])
def test_in_a_step(mode: Any, step: Any) -> None:
    shape = (3, 1, 4) if step is _ctc_step else (3, 4)

    def make() -> tuple[Any, ...]:
        jitgrad.manual_seed(0)
        return (jitgrad.randn(*shape).requires_grad_(),)

    for ours, eager in zip(mode.run(step, make), step(*make()), strict=True):
        np.testing.assert_allclose(ours.numpy(), eager.numpy(), rtol=1e-5, atol=1e-6)
