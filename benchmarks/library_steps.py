"""Training steps with libraries over PyTorch, written as their users write them.

``python benchmarks/library_steps.py NAME`` times one with PyTorch, ``python -m jitgrad benchmarks/library_steps.py NAME
[--compile]`` with jitgrad; ``python -m benchmarks.libraries`` runs both. Prints JSON: seconds of each call, losses.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

__all__ = ["STEPS"]

Step = Callable[[], Any]
CALLS, SECONDS = 12, 2.0
"""At least so many calls, and until so much time has passed."""


def _training(parameters: Any, loss_of: Step, lr: float = 1e-3) -> Step:
    optimizer = torch.optim.Adam(parameters, lr=lr)

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss

    return step


def gpt2() -> Step:
    """transformers: GPT-2 of 2 layers, width 64, 4 texts of 64 tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=256, n_positions=64, n_embd=64, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0
    )
    model, tokens = GPT2LMHeadModel(config), torch.randint(0, 256, (4, 64))
    return _training(model.parameters(), lambda: model(tokens, labels=tokens).loss)


def bert() -> Step:
    """transformers: BERT of 2 layers, width 64, classifies 4 texts of 64 tokens."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=256, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128
    )
    model, tokens = BertForSequenceClassification(config), torch.randint(0, 256, (4, 64))
    mask, labels = torch.ones_like(tokens), torch.tensor([0, 1, 0, 1])
    return _training(model.parameters(), lambda: model(tokens, attention_mask=mask, labels=labels).loss)


def graph() -> Step:
    """PyTorch Geometric: a graph convolution and an attention layer, 200 nodes, 800 edges."""
    from torch_geometric.nn import GATConv, GCNConv

    x, edges, labels = torch.randn(200, 16), torch.randint(0, 200, (2, 800)), torch.randint(0, 4, (200,))
    first, second = GCNConv(16, 32), GATConv(32, 4)
    parameters = [*first.parameters(), *second.parameters()]
    return _training(parameters, lambda: F.cross_entropy(second(first(x, edges).relu(), edges), labels))


def neural_ode() -> Step:
    """torchdiffeq: a neural ODE, Runge and Kutta's method, 8 trajectories, 4 steps."""
    from torchdiffeq import odeint

    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    start, times, target = torch.rand(8, 2), torch.linspace(0, 1, 5), torch.rand(5, 8, 2)

    def loss() -> Any:
        return (odeint(lambda t, y: net(y), start, times, method="rk4") - target).pow(2).mean()

    return _training(net.parameters(), loss)


def spline_flow() -> Step:
    """zuko: a conditional neural spline flow, 64 points."""
    import zuko

    flow = zuko.flows.NSF(2, context=1, transforms=2, hidden_features=(16, 16))
    context, x = torch.randn(64, 1), torch.randn(64, 2)
    return _training(flow.parameters(), lambda: -flow(context).log_prob(x).mean())


def autoregressive_flow() -> Step:
    """nflows: two masked affine autoregressive layers, 64 points."""
    from nflows.distributions.normal import StandardNormal
    from nflows.flows.base import Flow
    from nflows.transforms.autoregressive import MaskedAffineAutoregressiveTransform
    from nflows.transforms.base import CompositeTransform
    from nflows.transforms.permutations import ReversePermutation

    layers = [part for _ in range(2) for part in (ReversePermutation(2), MaskedAffineAutoregressiveTransform(2, 8))]
    flow, x = Flow(CompositeTransform(layers), StandardNormal([2])), torch.randn(64, 2) * 0.5 + 1
    return _training(flow.parameters(), lambda: -flow.log_prob(x).mean())


def x_transformer() -> Step:
    """x-transformers: a decoder of 2 layers with rotary embeddings, width 32, 2 texts of 32 tokens."""
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=2, heads=2, rotary_pos_emb=True)
    model = AutoregressiveWrapper(TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=layers))
    tokens = torch.randint(0, 64, (2, 33))
    return _training(model.parameters(), lambda: model(tokens))


def gaussian_process() -> Step:
    """GPyTorch: the marginal likelihood of an exact Gaussian process, 40 points."""
    import gpytorch

    x = torch.linspace(0, 1, 40)
    y = torch.sin(x * 6) + torch.randn(40) * 0.2
    likelihood = gpytorch.likelihoods.GaussianLikelihood()

    class Process(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model = Process()
    model.train()
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    return _training(model.parameters(), lambda: -marginal(model(x), y))


STEPS = {make.__name__: make for make in (
    gpt2, bert, x_transformer, graph, neural_ode, spline_flow, autoregressive_flow, gaussian_process,
)}  # fmt: skip


def main() -> None:
    """Time one step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=STEPS)
    parser.add_argument("--compile", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    step = STEPS[given.name]()
    run = torch.compile(step) if given.compile else step
    times, losses = [], []
    begin = time.perf_counter()
    while len(times) < CALLS or time.perf_counter() - begin < SECONDS:
        start = time.perf_counter()
        losses.append(float(run()))
        times.append(time.perf_counter() - start)
    print(json.dumps({"times": times, "losses": losses[:CALLS]}))


if __name__ == "__main__":
    main()
