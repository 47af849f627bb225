"""A character-level GPT on the text of Python's own help, which samples a few lines at the end.

The text is that of ``pydoc_data.topics``, the documentation behind ``help()``: it ships with every Python, under the
PSF licence. Run ``python examples/gpt.py [--steps 400] [--plot gpt.png] [--json]``.
"""

from __future__ import annotations

import math
from pydoc_data.topics import topics
from typing import Any

from common import Run, run_example

import jitgrad
from jitgrad import nn, optim
from jitgrad.nn import functional as F

CONTEXT, WIDTH, HEADS, LAYERS = 32, 48, 4, 2
TOPICS = ("if", "while", "for", "try", "with", "function", "class", "lambda", "assignment", "import", "del", "return")


class Block(nn.Module):
    """Attention, then a network of two layers, each added to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: jitgrad.Tensor) -> jitgrad.Tensor:
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, WIDTH)
        x = x + self.out(mixed)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Token and place, blocks, scores of the next character."""

    def __init__(self, num_chars: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(num_chars, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, num_chars)

    def forward(self, ids: jitgrad.Tensor) -> jitgrad.Tensor:
        x = self.token(ids) + self.place(jitgrad.arange(ids.shape[1]))
        return self.head(self.norm(self.blocks(x)))


@jitgrad.no_grad()
def sample(model: GPT, ids: jitgrad.Tensor, length: int, temperature: float = 0.8) -> jitgrad.Tensor:
    """``ids`` and ``length`` characters more."""
    for _ in range(length):
        scores = model(ids[:, -CONTEXT:])[:, -1] / temperature
        ids = jitgrad.cat([ids, jitgrad.multinomial(scores.softmax(-1), 1)], 1)
    return ids


def train(run: Run, options: Any) -> None:
    """Train on random pieces; perplexity per character is a figure."""
    text = "\n".join(topics[name] for name in TOPICS)
    chars = sorted(set(text))
    data = jitgrad.tensor([chars.index(c) for c in text])
    model = GPT(len(chars))
    optimizer = optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.01)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, options.count, eta_min=3e-4)

    @run.step
    def step(pieces: jitgrad.Tensor) -> jitgrad.Tensor:
        optimizer.zero_grad()
        scores = model(pieces[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), pieces[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    for _ in run.rounds(options.count):
        starts = jitgrad.randint(0, len(data) - CONTEXT - 1, (options.batch, 1))
        run.losses.append(step(data[starts + jitgrad.arange(CONTEXT + 1)]).item())
        schedule.step()
    last = run.losses[-10:]
    run.figures["perplexity"] = math.exp(sum(last) / len(last))
    ids = sample(model, data[None, :8], 160 if options.count > 50 else 8)
    run.drawn["text"] = "".join(chars[i] for i in ids[0].tolist())
    if run.mode == "compiled":
        run.report(f"\n{run.drawn['text']}\n")


def draw(figure: Any, runs: list[Run]) -> None:
    """What the network writes."""
    axes = figure.subplots()
    axes.axis("off")
    axes.text(0, 1, runs[1].drawn["text"].replace("$", r"\$"), va="top", family="monospace", size=8, wrap=True)


if __name__ == "__main__":
    run_example(__doc__, train, draw, name="gpt", unit="steps", count=400, batch=16)
