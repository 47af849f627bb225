"""A normalizing flow of affine couplings (RealNVP) on two moons, with a base distribution from torch.distributions."""

import math
import sys

import torch
from torch import distributions, nn
from torch.nn.parameter import Parameter

torch.manual_seed(10)


def moons(n):
    t = math.pi * torch.rand(n)
    upper = torch.randint(0, 2, (n, 1)).bool()
    a = torch.stack([t.cos(), t.sin()], dim=1)
    b = torch.stack([1 - t.cos(), 0.5 - t.sin()], dim=1)
    return torch.where(upper, a, b) + 0.05 * torch.randn(n, 2)


class RealNVP(nn.Module):
    def __init__(self, nets, nett, mask, prior):
        super().__init__()
        self.prior = prior
        self.mask = nn.Parameter(mask, requires_grad=False)
        self.t = torch.nn.ModuleList([nett() for _ in range(len(mask))])
        self.s = torch.nn.ModuleList([nets() for _ in range(len(mask))])

    def g(self, z):
        x = z
        for i in range(len(self.t)):
            x_ = x * self.mask[i]
            s = self.s[i](x_) * (1 - self.mask[i])
            t = self.t[i](x_) * (1 - self.mask[i])
            x = x_ + (1 - self.mask[i]) * (x * torch.exp(s) + t)
        return x

    def f(self, x):
        log_det_J, z = x.new_zeros(x.shape[0]), x
        for i in reversed(range(len(self.t))):
            z_ = self.mask[i] * z
            s = self.s[i](z_) * (1 - self.mask[i])
            t = self.t[i](z_) * (1 - self.mask[i])
            z = (1 - self.mask[i]) * (z - t) * torch.exp(-s) + z_
            log_det_J -= s.sum(dim=1)
        return z, log_det_J

    def log_prob(self, x):
        z, logp = self.f(x)
        return self.prior.log_prob(z) + logp

    def sample(self, batch_size):
        z = self.prior.sample((batch_size,))
        return self.g(z)


nets = lambda: nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 16), nn.LeakyReLU(), nn.Linear(16, 2), nn.Tanh())
nett = lambda: nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 16), nn.LeakyReLU(), nn.Linear(16, 2))
masks = torch.tensor([[0, 1], [1, 0]] * 2, dtype=torch.float32)
prior = distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))
flow = RealNVP(nets, nett, masks, prior)
optimizer = torch.optim.Adam([p for p in flow.parameters() if p.requires_grad is True], lr=1e-3)


def step(x):
    loss = -flow.log_prob(x).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    return loss


if "--compile" in sys.argv:
    step = torch.compile(step)

for t in range(20):
    loss = step(moons(64))
    print(f"iter {t}: loss = {loss.item():.6f}")
with torch.no_grad():
    x = flow.sample(100)
    print("samples", tuple(x.shape), "mean", ["%.4f" % m for m in x.mean(0)])
    z, logdet = flow.f(x[:8])
    print("inverted", torch.allclose(flow.g(z), x[:8], atol=1e-4), isinstance(flow.mask, Parameter))
