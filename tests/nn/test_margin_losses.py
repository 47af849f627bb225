"""Losses about margins, distances and distributions against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nn.compare import Case, assert_same, assert_same_error, assert_same_face

import jitgrad

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

SIGNS = np.array([1.0, -1.0, -1.0, 1.0, 1.0, -1.0])
SIGN_ROWS = np.where(np.arange(18).reshape(6, 3) % 4 < 2, 1.0, -1.0)
CLASSES = np.array([0, 2, 1, 1, 0, 2])
COUNTS = np.arange(18.0).reshape(6, 3) % 4
LABELS = np.array([[2, 0, -1], [-1, 1, 0], [1, -1, 2], [0, 1, 2], [1, -1, -1], [2, 2, -1]])
WEIGHTS = np.array([0.5, 2.0, 1.25])
ROWS = (6, 3)
ONES = np.ones((6, 3))

CASES: dict[str, Case] = {
    "soft-margin": (lambda xp: xp.nn.SoftMarginLoss(), [ROWS, SIGN_ROWS]),
    "soft-margin-none": (lambda xp: xp.nn.SoftMarginLoss(reduction="none"), [ROWS, SIGN_ROWS]),
    "hinge": (lambda xp: xp.nn.HingeEmbeddingLoss(), [ROWS, SIGN_ROWS]),
    "hinge-margin": (lambda xp: xp.nn.HingeEmbeddingLoss(0.3, reduction="sum"), [ROWS, SIGN_ROWS]),
    "hinge-other": (lambda xp: xp.nn.HingeEmbeddingLoss(reduction="none"), [ROWS, SIGN_ROWS * 2]),
    "ranking": (lambda xp: xp.nn.MarginRankingLoss(), [(6,), (6,), SIGNS]),
    "ranking-margin": (lambda xp: xp.nn.MarginRankingLoss(0.4, reduction="none"), [(6,), (6,), SIGNS]),
    "cosine": (lambda xp: xp.nn.CosineEmbeddingLoss(), [ROWS, ROWS, SIGNS]),
    "cosine-margin": (lambda xp: xp.nn.CosineEmbeddingLoss(-0.3, reduction="sum"), [ROWS, ROWS, SIGNS]),
    "cosine-vector": (lambda xp: xp.nn.CosineEmbeddingLoss(0.1), [(3,), (3,), np.array(-1.0)]),
    "poisson": (lambda xp: xp.nn.PoissonNLLLoss(), [ROWS, COUNTS]),
    "poisson-full": (lambda xp: xp.nn.PoissonNLLLoss(full=True, reduction="sum"), [ROWS, COUNTS]),
    "poisson-rate": (
        lambda xp: lambda x, y: xp.nn.functional.poisson_nll_loss(x.exp(), y, False, eps=1e-3),
        [ROWS, COUNTS],
    ),
    "gaussian": (lambda xp: lambda x, y, v: xp.nn.GaussianNLLLoss()(x, y, v.exp()), [ROWS, ROWS, ROWS]),
    "gaussian-full": (
        lambda xp: lambda x, y, v: xp.nn.GaussianNLLLoss(full=True, eps=0.7, reduction="none")(x, y, v.exp()),
        [ROWS, ROWS, (6, 1)],
    ),
    "gaussian-short": (lambda xp: lambda x, y, v: xp.nn.GaussianNLLLoss()(x, y, v.exp()), [ROWS, ROWS, (6,)]),
    "gaussian-number": (lambda xp: lambda x, y: xp.nn.functional.gaussian_nll_loss(x, y, 0.5), [ROWS, ROWS]),
    "multi-margin": (lambda xp: xp.nn.MultiMarginLoss(), [ROWS, CLASSES]),
    "multi-margin-2": (lambda xp: xp.nn.MultiMarginLoss(2, 0.7, reduction="sum"), [ROWS, CLASSES]),
    "multi-margin-weight": (
        lambda xp: xp.nn.MultiMarginLoss(weight=xp.from_numpy(WEIGHTS), reduction="none"),
        [ROWS, CLASSES],
    ),
    "multi-margin-vector": (lambda xp: xp.nn.MultiMarginLoss(reduction="none"), [(4,), np.array(2)]),
    "multi-margin-one": (lambda xp: xp.nn.MultiMarginLoss(reduction="none"), [(4,), np.array([2])]),
    "multi-label": (lambda xp: xp.nn.MultiLabelMarginLoss(), [ROWS, LABELS]),
    "multi-label-none": (lambda xp: xp.nn.MultiLabelMarginLoss(reduction="none"), [ROWS, LABELS]),
    "multi-label-vector": (lambda xp: xp.nn.MultiLabelMarginLoss(reduction="none"), [(3,), LABELS[0]]),
    "multi-label-soft": (lambda xp: xp.nn.MultiLabelSoftMarginLoss(), [ROWS, (SIGN_ROWS + 1) / 2]),
    "multi-label-soft-weight": (
        lambda xp: xp.nn.MultiLabelSoftMarginLoss(xp.from_numpy(WEIGHTS), reduction="none"),
        [ROWS, (SIGN_ROWS + 1) / 2],
    ),
    "triplet": (lambda xp: xp.nn.TripletMarginLoss(), [ROWS, ROWS, ROWS]),
    "triplet-all": (lambda xp: xp.nn.TripletMarginLoss(2.0, 3, swap=True, reduction="none"), [ROWS, ROWS, ROWS]),
    "triplet-distance": (lambda xp: xp.nn.TripletMarginWithDistanceLoss(swap=True), [ROWS, ROWS, ROWS]),
    "triplet-own": (
        lambda xp: xp.nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().sum(-1), margin=3),
        [ROWS, ROWS, ROWS],
    ),
    "cosine-similarity": (lambda xp: xp.nn.CosineSimilarity(), [ROWS, ROWS]),
    "cosine-similarity-dim": (lambda xp: xp.nn.CosineSimilarity(0, 5.0), [ROWS, (6, 1)]),
    "pairwise": (lambda xp: xp.nn.PairwiseDistance(), [ROWS, ROWS]),
    "pairwise-all": (lambda xp: xp.nn.PairwiseDistance(3.0, 1e-2, True), [ROWS, (3,)]),
    "bilinear": (lambda xp: xp.nn.Bilinear(3, 2, 4), [(5, 3), (5, 2)]),
    "bilinear-batched": (lambda xp: xp.nn.Bilinear(3, 2, 4, bias=False), [(2, 5, 3), (2, 5, 2)]),
}


@pytest.mark.parametrize("case", CASES)
def test_values_and_derivatives(case: str, mode: Any, rng: np.random.Generator) -> None:
    assert_same(torch, CASES[case], mode, rng)


FACES: dict[str, Any] = {
    "bilinear": lambda xp: xp.nn.Bilinear(3, 2, 4),
    "cosine": lambda xp: xp.nn.CosineSimilarity(0),
    "pairwise": lambda xp: xp.nn.PairwiseDistance(1.0),
    "triplet": lambda xp: xp.nn.TripletMarginWithDistanceLoss(),
    "weighted": lambda xp: xp.nn.MultiMarginLoss(weight=xp.ones(3)),
}


@pytest.mark.parametrize("case", FACES)
def test_face(case: str) -> None:
    assert_same_face(torch, FACES[case])


ERRORS: dict[str, Any] = {
    "reduction": lambda xp: xp.nn.functional.soft_margin_loss(xp.ones(2), xp.ones(2), reduction="middle"),
    "ranking": lambda xp: xp.nn.functional.margin_ranking_loss(xp.ones(2), xp.ones(2), xp.ones(1, 2)),
    "cosine": lambda xp: xp.nn.functional.cosine_embedding_loss(xp.ones(2), xp.ones(2), xp.ones(2)),
    "poisson": lambda xp: xp.nn.functional.poisson_nll_loss(xp.ones(2), xp.ones(2), reduction="middle"),
    "gaussian-negative": lambda xp: xp.nn.functional.gaussian_nll_loss(xp.ones(2), xp.ones(2), -xp.ones(2)),
    "gaussian-shape": lambda xp: xp.nn.functional.gaussian_nll_loss(xp.ones(2), xp.ones(2), xp.ones(3)),
    "multi-margin-p": lambda xp: xp.nn.MultiMarginLoss(3),
    "multi-margin-shape": lambda xp: xp.nn.functional.multi_margin_loss(xp.ones(2, 3), xp.tensor([0])),
    "multi-margin-class": lambda xp: xp.nn.functional.multi_margin_loss(xp.ones(2, 3), xp.tensor([0, 3])),
    "multi-label-shape": lambda xp: xp.nn.functional.multilabel_margin_loss(xp.ones(2, 3), xp.tensor([0])),
    "triplet-margin": lambda xp: xp.nn.TripletMarginLoss(0.0),
    "triplet-rank": lambda xp: xp.nn.functional.triplet_margin_loss(xp.ones(2, 3), xp.ones(2, 3), xp.ones(3)),
    "bilinear": lambda xp: xp.nn.functional.bilinear(xp.ones(2, 3), xp.ones(2, 3), xp.ones(4, 3, 2)),
    "bilinear-none": lambda xp: xp.nn.Bilinear(0, 2, 3),
}


@pytest.mark.parametrize("case", ERRORS)
def test_error(case: str) -> None:
    assert_same_error(torch, ERRORS[case])


def test_old_names_of_reduction() -> None:
    for old in ({"size_average": False}, {"reduce": False}, {"size_average": True}):
        with pytest.warns(UserWarning):
            expected = torch.nn.SoftMarginLoss(**old).reduction
        with pytest.warns(UserWarning):
            assert jitgrad.nn.SoftMarginLoss(**old).reduction == expected


def test_the_old_name_of_nll_loss() -> None:
    with pytest.warns(FutureWarning, match="NLLLoss2d"):
        assert isinstance(jitgrad.nn.NLLLoss2d(), jitgrad.nn.NLLLoss)
