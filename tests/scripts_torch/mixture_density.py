"""A mixture density network: an inverse problem whose answers are several."""

import argparse

import torch
import torch.nn as nn
import torch.optim as optim
from torch.distributions import Categorical, MixtureSameFamily, Normal

parser = argparse.ArgumentParser()
parser.add_argument("--n-iterations", type=int, default=20)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(1)


class MDN(nn.Module):
    def __init__(self, hidden=20, components=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, components)
        self.mu = nn.Linear(hidden, components)
        self.sigma = nn.Linear(hidden, components)

    def forward(self, x):
        h = self.body(x)
        mix = Categorical(logits=self.pi(h))
        comp = Normal(self.mu(h), nn.functional.softplus(self.sigma(h)) + 1e-3)
        return MixtureSameFamily(mix, comp)


y = torch.rand(128, 1) * 2 - 1
x = y + 0.3 * torch.sin(6.28 * y) + 0.05 * torch.randn(128, 1)
model = MDN()
optimizer = optim.Adam(model.parameters(), lr=0.02)


def step():
    dist = model(x)
    loss = -dist.log_prob(y.squeeze(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


if args.compile:
    step = torch.compile(step)

for i in range(args.n_iterations):
    loss = step()
    if i % 1 == 0:
        print(f"Iter: {i}\t NLL: {loss.item():.6f}")
with torch.no_grad():
    dist = model(torch.zeros(1, 1))
    print(f"mean {dist.mean.item():.5f} variance {dist.variance.item():.5f} cdf {dist.cdf(torch.zeros(1)).item():.5f}")
    print("samples", [f"{s:.4f}" for s in dist.sample((4,)).flatten().tolist()])
