"""Training loops of small models, as people write them: one form each.

Owns: ``LOOPS``, name -> ``make(xp, wrap)``, which returns a step. ``xp`` is a library, ``wrap`` its compiler or the
identity, for the model alone: losses, backwards and updates are plain Python.
Must not know: who is timed, and how.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from typing import Any

__all__ = ["LOOPS"]

Step = Callable[[], Any]
Wrap = Callable[[Any], Any]
Make = Callable[[Any, Wrap], Step]

LOOPS: dict[str, Make] = {}


def _loop(make: Make) -> Make:
    LOOPS[make.__name__.strip("_")] = make
    return make


def _model(xp: Any, layers: list[Any], forward: Callable[..., Any]) -> Any:
    """A module of these layers; ``forward(layers, *inputs)``."""

    class Model(xp.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layers = xp.nn.ModuleList(layers)

        def forward(self, *inputs: Any) -> Any:
            return forward(self.layers, *inputs)

    return Model()


def _train(xp: Any, wrap: Wrap, model: Any, inputs: Any, loss: Callable[[Any], Any], clips: bool = False) -> Step:
    optimizer, forward = xp.optim.Adam(model.parameters(), 1e-3), wrap(model)

    def step() -> None:
        optimizer.zero_grad()
        loss(forward(inputs)).backward()
        if clips:
            xp.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def _of_mlp(xp: Any, wrap: Wrap, forward: Callable[..., Any], *between: Any, clips: bool = False) -> Step:
    """Two linear layers, 16 to 32 to 8, and what comes between, on a batch of 32 with a squared error."""
    model = _model(xp, [xp.nn.Linear(16, 32), xp.nn.Linear(32, 8), *between], forward)
    target = xp.randn(32, 8)
    return _train(xp, wrap, model, xp.randn(32, 16), lambda y: xp.nn.functional.mse_loss(y, target), clips)


@_loop
def _plain(xp: Any, wrap: Wrap) -> Step:
    return _of_mlp(xp, wrap, lambda m, x: m[1](m[0](x).tanh()))


@_loop
def _clipped(xp: Any, wrap: Wrap) -> Step:
    return _of_mlp(xp, wrap, lambda m, x: m[1](m[0](x).tanh()), clips=True)


@_loop
def _dropout(xp: Any, wrap: Wrap) -> Step:
    return _of_mlp(xp, wrap, lambda m, x: m[1](m[2](m[0](x).relu())), xp.nn.Dropout(0.1))


@_loop
def _batch_norm(xp: Any, wrap: Wrap) -> Step:
    return _of_mlp(xp, wrap, lambda m, x: m[1](m[2](m[0](x)).relu()), xp.nn.BatchNorm1d(32))


@_loop
def _layer_norm(xp: Any, wrap: Wrap) -> Step:
    return _of_mlp(xp, wrap, lambda m, x: m[1](m[2](m[0](x)).relu()), xp.nn.LayerNorm(32))


@_loop
def _read_on_the_way(xp: Any, wrap: Wrap) -> Step:
    def forward(m: Any, x: Any) -> Any:
        hidden = m[0](x).tanh()
        return m[1](hidden * 2 if hidden.detach().abs().max().item() > 1e9 else hidden)

    return _of_mlp(xp, wrap, forward)


@_loop
def _check_of_the_result(xp: Any, wrap: Wrap) -> Step:
    def forward(m: Any, x: Any) -> Any:
        made = m[1](m[0](x).tanh())
        if made.isnan().any():
            raise ArithmeticError("no number")
        return made

    return _of_mlp(xp, wrap, forward)


@_loop
def _no_grad_inside(xp: Any, wrap: Wrap) -> Step:
    def forward(m: Any, x: Any) -> Any:
        hidden = m[0](x).tanh()
        with xp.no_grad():
            mean = hidden.mean()
        return m[1](hidden - mean)

    return _of_mlp(xp, wrap, forward)


@_loop
def _detached_inside(xp: Any, wrap: Wrap) -> Step:
    def forward(m: Any, x: Any) -> Any:
        hidden = m[0](x).tanh()
        return m[1](hidden) + m[1](hidden.detach())

    return _of_mlp(xp, wrap, forward)


@_loop
def _activations_in_place(xp: Any, wrap: Wrap) -> Step:
    return _of_mlp(xp, wrap, lambda m, x: m[1](xp.nn.functional.relu(m[0](x), inplace=True)).add_(1))


@_loop
def _parts_written(xp: Any, wrap: Wrap) -> Step:
    def forward(m: Any, x: Any) -> Any:
        made, hidden = xp.zeros(32, 8), m[0](x)
        made[:, :4], made[:, 4:] = hidden[:, :4], m[1](hidden)[:, 4:] * 2
        return made

    return _of_mlp(xp, wrap, forward)


@_loop
def _masked(xp: Any, wrap: Wrap) -> Step:
    mask = xp.rand(32, 8) > 0.5
    return _of_mlp(xp, wrap, lambda m, x: m[1](m[0](x).tanh()).masked_fill(mask, 0))


@_loop
def _sorted(xp: Any, wrap: Wrap) -> Step:
    return _of_mlp(xp, wrap, lambda m, x: m[1](m[0](x).tanh()).sort(-1)[0].cumsum(-1))


@_loop
def _einsum(xp: Any, wrap: Wrap) -> Step:
    return _of_mlp(xp, wrap, lambda m, x: xp.einsum("bi,bj->bij", m[1](m[0](x).tanh()), x).sum(-1))


@_loop
def _hook(xp: Any, wrap: Wrap) -> Step:
    def forward(m: Any, x: Any) -> Any:
        hidden = m[0](x).tanh()
        hidden.register_hook(lambda grad: grad * 1)
        return m[1](hidden)

    return _of_mlp(xp, wrap, forward)


@_loop
def _hook_of_a_module(xp: Any, wrap: Wrap) -> Step:
    layer, seen = xp.nn.Identity(), {}
    layer.register_forward_hook(lambda module, inputs, output: seen.__setitem__("hidden", output.detach()))
    return _of_mlp(xp, wrap, lambda m, x: m[1](m[2](m[0](x)).tanh()), layer)


@_loop
def _custom_function(xp: Any, wrap: Wrap) -> Step:
    class Clamped(xp.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.clamp(min=0)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * (x > 0)

    return _of_mlp(xp, wrap, lambda m, x: m[1](Clamped.apply(m[0](x))))


@_loop
def _checkpoint(xp: Any, wrap: Wrap) -> Step:
    run = importlib.import_module(f"{xp.__name__}.utils.checkpoint").checkpoint
    return _of_mlp(xp, wrap, lambda m, x: m[1](run(lambda h: m[0](h).tanh(), x, use_reentrant=False)))


@_loop
def _weight_norm(xp: Any, wrap: Wrap) -> Step:
    layer = xp.nn.utils.parametrizations.weight_norm(xp.nn.Linear(16, 32))
    return _of_mlp(xp, wrap, lambda m, x: m[1](m[2](x).tanh()), layer)


@_loop
def _running_mean(xp: Any, wrap: Wrap) -> Step:
    mean = xp.zeros(16)

    def forward(m: Any, x: Any) -> Any:
        with xp.no_grad():
            mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return m[1](m[0](x - mean))

    return _of_mlp(xp, wrap, forward)


@_loop
def _experts(xp: Any, wrap: Wrap) -> Step:
    def forward(m: Any, x: Any) -> Any:
        top, chosen = m[2](x).softmax(-1).topk(2)
        return sum((top * (chosen == i)).sum(-1, keepdim=True) * m[3 + i](x) for i in range(3))

    return _of_mlp(xp, wrap, forward, xp.nn.Linear(16, 3), *[xp.nn.Linear(16, 8) for _ in range(3)])


@_loop
def _quantized(xp: Any, wrap: Wrap) -> Step:
    """The nearest rows of a codebook, straight through."""

    def forward(m: Any, x: Any) -> Any:
        z, codes = m[0](x), m[2].weight
        nearest = (z.square().sum(1, keepdim=True) + codes.square().sum(1) - 2 * z @ codes.t()).argmin(1)
        return m[1](z + (m[2](nearest) - z).detach())

    return _of_mlp(xp, wrap, forward, xp.nn.Embedding(64, 32))


@_loop
def _convolution(xp: Any, wrap: Wrap) -> Step:
    nn, labels = xp.nn, xp.randint(0, 10, (8,))
    layers = [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.Linear(64, 10)]
    model = _model(xp, layers, lambda m, x: m[3](m[2](m[1](m[0](x)).relu()).flatten(1)))
    return _train(xp, wrap, model, xp.randn(8, 1, 8, 8), lambda y: nn.functional.cross_entropy(y, labels))


@_loop
def _embedding(xp: Any, wrap: Wrap) -> Step:
    labels = xp.randint(0, 5, (8,))
    model = _model(xp, [xp.nn.Embedding(50, 16), xp.nn.Linear(16, 5)], lambda m, x: m[1](m[0](x).mean(1)))
    return _train(xp, wrap, model, xp.randint(0, 50, (8, 12)), lambda y: xp.nn.functional.cross_entropy(y, labels))


def _of_sequences(xp: Any, wrap: Wrap, layer: Any, forward: Callable[..., Any], width: int) -> Step:
    model = _model(xp, [layer, xp.nn.Linear(16, 1)], forward)
    return _train(xp, wrap, model, xp.randn(4, 10, width), lambda y: y.square().mean())


@_loop
def _lstm(xp: Any, wrap: Wrap) -> Step:
    layer = xp.nn.LSTM(8, 16, batch_first=True)
    return _of_sequences(xp, wrap, layer, lambda m, x: m[1](m[0](x)[0][:, -1]), 8)


@_loop
def _gru(xp: Any, wrap: Wrap) -> Step:
    return _of_sequences(xp, wrap, xp.nn.GRU(8, 16, batch_first=True), lambda m, x: m[1](m[0](x)[1][0]), 8)


@_loop
def _attention(xp: Any, wrap: Wrap) -> Step:
    layer = xp.nn.MultiheadAttention(16, 2, batch_first=True)
    return _of_sequences(xp, wrap, layer, lambda m, x: m[1](m[0](x, x, x, need_weights=False)[0]), 16)


@_loop
def _encoder_layer(xp: Any, wrap: Wrap) -> Step:
    layer = xp.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return _of_sequences(xp, wrap, layer, lambda m, x: m[1](m[0](x)), 16)


def _mlp(xp: Any, *widths: int) -> Any:
    layers = [xp.nn.Linear(n, m) for n, m in itertools.pairwise(widths)]
    return _model(xp, layers, lambda m, x: m[1](m[0](x).tanh()))


@_loop
def _accumulated(xp: Any, wrap: Wrap) -> Step:
    model, batches, target = _mlp(xp, 16, 32, 8), [xp.randn(32, 16) for _ in range(4)], xp.randn(32, 8)
    forward, optimizer = wrap(model), xp.optim.Adam(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        for x in batches:
            (xp.nn.functional.mse_loss(forward(x), target) / 4).backward()
        optimizer.step()

    return step


@_loop
def _two_calls_in_a_loss(xp: Any, wrap: Wrap) -> Step:
    model, first, second = _mlp(xp, 16, 32, 8), xp.randn(32, 16), xp.randn(32, 16)
    forward, optimizer = wrap(model), xp.optim.Adam(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        (forward(first) - forward(second)).square().mean().backward()
        optimizer.step()

    return step


@_loop
def _batches_of_an_epoch(xp: Any, wrap: Wrap) -> Step:
    """The last batch is a shorter one."""
    model, data, target = _mlp(xp, 16, 32, 8), xp.randn(100, 16), xp.randn(100, 8)
    forward, optimizer = wrap(model), xp.optim.Adam(model.parameters())

    def step() -> None:
        for i in range(0, 100, 32):
            optimizer.zero_grad()
            xp.nn.functional.mse_loss(forward(data[i : i + 32]), target[i : i + 32]).backward()
            optimizer.step()

    return step


@_loop
def _gradient_in_the_loss(xp: Any, wrap: Wrap) -> Step:
    """A PINN whose model alone is compiled."""
    model, x = _mlp(xp, 2, 32, 1), xp.randn(32, 2).requires_grad_()
    forward, optimizer = wrap(model), xp.optim.Adam(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        u = forward(x)
        (grad,) = xp.autograd.grad(u.sum(), x, create_graph=True)
        (grad.square().mean() + u.square().mean()).backward()
        optimizer.step()

    return step


@_loop
def _maml(xp: Any, wrap: Wrap) -> Step:
    model, x, y = _mlp(xp, 1, 16, 1), xp.randn(10, 1), xp.randn(10, 1)
    optimizer, weights, functional = xp.optim.Adam(model.parameters()), [*model.parameters()], xp.nn.functional
    forward = wrap(lambda p, x: functional.linear(functional.linear(x, p[0], p[1]).tanh(), p[2], p[3]))

    def step() -> None:
        loss = functional.mse_loss(forward(weights, x), y)
        grads = xp.autograd.grad(loss, weights, create_graph=True)
        moved = [p - 0.1 * g for p, g in zip(weights, grads, strict=True)]
        optimizer.zero_grad()
        functional.mse_loss(forward(moved, x), y).backward()
        optimizer.step()

    return step


@_loop
def _gan(xp: Any, wrap: Wrap) -> Step:
    generator, critic, real = _mlp(xp, 8, 32, 16), _mlp(xp, 16, 32, 1), xp.randn(32, 16)
    make, judge = wrap(generator), wrap(critic)
    first, second = xp.optim.Adam(generator.parameters()), xp.optim.Adam(critic.parameters())
    loss, ones, zeros = xp.nn.functional.binary_cross_entropy_with_logits, xp.ones(32, 1), xp.zeros(32, 1)

    def step() -> None:
        fake = make(xp.randn(32, 8))
        second.zero_grad()
        (loss(judge(real), ones) + loss(judge(fake.detach()), zeros)).backward()
        second.step()
        first.zero_grad()
        loss(judge(fake), ones).backward()
        first.step()

    return step


@_loop
def _vae(xp: Any, wrap: Wrap) -> Step:
    encoder, decoder, x = _mlp(xp, 16, 32, 8), _mlp(xp, 4, 32, 16), xp.randn(32, 16)
    optimizer = xp.optim.Adam([*encoder.parameters(), *decoder.parameters()])

    def run(x: Any) -> Any:
        mean, log_var = encoder(x).chunk(2, 1)
        return decoder(mean + xp.randn_like(mean) * (log_var / 2).exp()), mean, log_var

    forward = wrap(run)

    def step() -> None:
        optimizer.zero_grad()
        made, mean, log_var = forward(x)
        divergence = -0.5 * (1 + log_var - mean.square() - log_var.exp()).mean()
        (xp.nn.functional.mse_loss(made, x) + divergence).backward()
        optimizer.step()

    return step


@_loop
def _q_learning(xp: Any, wrap: Wrap) -> Step:
    model, slow = _mlp(xp, 4, 32, 2), _mlp(xp, 4, 32, 2)
    forward, target, optimizer = wrap(model), wrap(slow), xp.optim.Adam(model.parameters())
    states, later, actions, rewards = xp.randn(32, 4), xp.randn(32, 4), xp.randint(0, 2, (32, 1)), xp.randn(32, 1)

    def step() -> None:
        with xp.no_grad():
            wanted = rewards + 0.99 * target(later).max(1, keepdim=True)[0]
        loss = xp.nn.functional.smooth_l1_loss(forward(states).gather(1, actions), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with xp.no_grad():
            for p, q in zip(slow.parameters(), model.parameters(), strict=True):
                p.mul_(0.99).add_(q, alpha=0.01)

    return step


@_loop
def _policy(xp: Any, wrap: Wrap) -> Step:
    """Ten actions of a policy, one by one, drawn from a categorical distribution."""
    model, states = _mlp(xp, 4, 32, 2), [xp.randn(1, 4) for _ in range(10)]
    forward, optimizer = wrap(model), xp.optim.Adam(model.parameters())
    categorical = importlib.import_module(f"{xp.__name__}.distributions").Categorical

    def step() -> None:
        losses = []
        for state in states:
            choice = categorical(logits=forward(state))
            action = choice.sample()
            losses.append(-choice.log_prob(action))
            int(action)
        optimizer.zero_grad()
        xp.cat(losses).sum().backward()
        optimizer.step()

    return step


@_loop
def _cell_in_a_loop(xp: Any, wrap: Wrap) -> Step:
    cell, head, inputs = xp.nn.GRUCell(8, 16), xp.nn.Linear(16, 1), xp.randn(10, 4, 8)
    forward, optimizer = wrap(cell), xp.optim.Adam([*cell.parameters(), *head.parameters()])

    def step() -> None:
        state = xp.zeros(4, 16)
        for x in inputs:
            state = forward(x, state)
        optimizer.zero_grad()
        head(state).square().mean().backward()
        optimizer.step()

    return step


@_loop
def _ode(xp: Any, wrap: Wrap) -> Step:
    """Ten steps of a second-order method through a model."""
    model, start = _mlp(xp, 2, 16, 2), xp.randn(8, 2)
    forward, optimizer = wrap(model), xp.optim.Adam(model.parameters())

    def step() -> None:
        y = start
        for _ in range(10):
            y = y + 0.1 * forward(y + 0.05 * forward(y))
        optimizer.zero_grad()
        y.square().mean().backward()
        optimizer.step()

    return step


@_loop
def _lbfgs(xp: Any, wrap: Wrap) -> Step:
    model, x, y = xp.nn.Linear(16, 8), xp.randn(32, 16), xp.randn(32, 8)
    forward = wrap(model)

    def step() -> None:
        optimizer = xp.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = xp.nn.functional.mse_loss(forward(x), y)
            loss.backward()
            return loss.detach()

        optimizer.step(closure)

    return step
