"""A small causal language model of pre-norm transformer layers, trained by Adam.

Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019 (the GPT-2 block).
"""

from __future__ import annotations

from typing import Any

from benchmarks.row import Training, Wrap
from benchmarks.rows import data

__all__ = ["HEADS", "LENGTH", "VOCABULARY", "make"]

LENGTH, HEADS, VOCABULARY = 64, 4, 64


def make(xp: Any, seed: int, wrap: Wrap, depth: int, batch: int, width: int) -> Training:
    """Cross entropy of the next token over every position."""
    arrays, tokens, targets = data.transformer(seed, depth, VOCABULARY, width, LENGTH, batch)
    w = {name: xp.from_numpy(array).requires_grad_() for name, array in arrays.items()}
    inputs, labels = xp.from_numpy(tokens), xp.from_numpy(targets).reshape(-1)
    functional = xp.nn.functional
    linear, layer_norm = functional.linear, functional.layer_norm
    optimizer = xp.optim.Adam(w.values(), lr=1e-3, fused=True)

    def heads(x: Any) -> Any:
        return x.reshape(batch, LENGTH, HEADS, width // HEADS).transpose(1, 2)

    def attention(x: Any, i: int) -> Any:
        query, key, value = linear(x, w[f"{i}.qkv"]).split(width, -1)
        mixed = functional.scaled_dot_product_attention(heads(query), heads(key), heads(value), is_causal=True)
        return linear(mixed.transpose(1, 2).reshape(batch, LENGTH, width), w[f"{i}.project"])

    def normalise(x: Any, name: str) -> Any:
        return layer_norm(x, (width,), w[f"{name}.weight"], w[f"{name}.bias"])

    def feed_forward(x: Any, i: int) -> Any:
        up = functional.gelu(linear(x, w[f"{i}.up.weight"], w[f"{i}.up.bias"]), approximate="tanh")
        return linear(up, w[f"{i}.down.weight"], w[f"{i}.down.bias"])

    @wrap.loss
    def loss_fn(inputs: Any, labels: Any) -> Any:
        x = functional.embedding(inputs, w["token"]) + w["position"]
        for i in range(depth):
            x = x + attention(normalise(x, f"{i}.norm1"), i)
            x = x + feed_forward(normalise(x, f"{i}.norm2"), i)
        logits = linear(normalise(x, "norm"), w["head"])
        return functional.cross_entropy(logits.reshape(-1, VOCABULARY), labels)

    @wrap.step
    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_fn(inputs, labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Training(step, lambda: list(w.values()))
