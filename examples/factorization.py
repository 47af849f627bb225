"""Matrix factorisation with sparse gradients: words and chapters of Python's own help, by how often they go together.

The table of counts is made from ``pydoc_data.topics``, the documentation behind ``help()``: it ships with every Python,
under the PSF licence. The logarithm of each count is explained by the product of two vectors and two biases; each step
touches the rows of its batch only, and so do the gradient and ``SparseAdam``. Run
``python examples/factorization.py [--epochs 8] [--plot factorization.png] [--json]``.
"""

from __future__ import annotations

import re
from collections import Counter
from pydoc_data.topics import topics
from typing import Any

import numpy as np
from common import Run, run_example

import jitgrad
from jitgrad import nn, optim
from jitgrad.nn import functional as F


def load() -> tuple[list[str], list[str], jitgrad.Tensor, jitgrad.Tensor]:
    """Words, chapters, pairs (n, 2) of their numbers, and the logarithm of one more than each pair's count."""
    counts = {name: Counter(re.findall(r"[a-z]{4,}", text.lower())) for name, text in sorted(topics.items())}
    total = sum(counts.values(), Counter())
    words = sorted(word for word, count in total.items() if count >= 8)
    number = {word: i for i, word in enumerate(words)}
    rows = [(number[w], c, n) for c, found in enumerate(counts.values()) for w, n in found.items() if w in number]
    table = np.array(rows)
    return words, list(counts), jitgrad.tensor(table[:, :2]), jitgrad.tensor(np.log1p(table[:, 2]).astype(np.float32))


class Factors(nn.Module):
    """A vector and a bias for each word and for each chapter."""

    def __init__(self, num_words: int, num_chapters: int, size: int) -> None:
        super().__init__()
        self.words, self.chapters = (nn.Embedding(n, size, sparse=True) for n in (num_words, num_chapters))
        self.word_bias, self.chapter_bias = (nn.Embedding(n, 1, sparse=True) for n in (num_words, num_chapters))
        for table in (self.words, self.chapters):
            nn.init.normal_(table.weight, std=0.1)
        for table in (self.word_bias, self.chapter_bias):
            nn.init.zeros_(table.weight)

    def forward(self, pairs: jitgrad.Tensor) -> jitgrad.Tensor:
        words, chapters = pairs.unbind(1)
        product = (self.words(words) * self.chapters(chapters)).sum(1)
        return 1.0 + product + self.word_bias(words).squeeze(1) + self.chapter_bias(chapters).squeeze(1)


def train(run: Run, options: Any) -> None:
    """Train; the root of the mean squared error on pairs that were kept back is a figure."""
    words, _, pairs, targets = load()
    order = jitgrad.randperm(len(pairs))
    kept, used = order[: len(order) // 10], order[len(order) // 10 :]
    model = Factors(len(words), len(topics), options.factors)
    optimizer = optim.SparseAdam(model.parameters(), lr=1e-2)

    @run.step
    def step(pairs: jitgrad.Tensor, targets: jitgrad.Tensor) -> jitgrad.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(pairs), targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in run.rounds(options.count):
        batches = used[jitgrad.randperm(len(used))].split(options.batch)
        run.losses.append(float(np.mean([step(pairs[rows], targets[rows]).item() for rows in batches])))
    with jitgrad.no_grad():
        run.figures["error on pairs kept back"] = F.mse_loss(model(pairs[kept]), targets[kept]).sqrt().item()
        centred = model.words.weight - model.words.weight.mean(0)
        axes = jitgrad.linalg.svd(centred, full_matrices=False).Vh[:2]
        run.drawn = {"words": words, "places": (centred @ axes.T).numpy()}


def draw(figure: Any, runs: list[Run]) -> None:
    """Words in the plane in which their vectors differ most."""
    axes, drawn = figure.subplots(), runs[1].drawn
    far = np.argsort(-np.linalg.norm(drawn["places"], axis=1))[:60]
    axes.scatter(*drawn["places"].T, s=2, color="0.8")
    for i in far:
        axes.annotate(drawn["words"][i], drawn["places"][i], size=7)


if __name__ == "__main__":
    run_example(__doc__, train, draw, name="factorization", unit="epochs", count=8, batch=256, factors=3)
