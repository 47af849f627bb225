"""Gaussian-process regression: hyperparameters by the marginal likelihood, through a Cholesky factor."""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(0)


class RBF(nn.Module):
    def __init__(self):
        super().__init__()
        self.raw_lengthscale = nn.Parameter(torch.tensor(0.0, dtype=torch.float64))
        self.raw_outputscale = nn.Parameter(torch.tensor(0.0, dtype=torch.float64))

    def forward(self, a, b):
        lengthscale, outputscale = F.softplus(self.raw_lengthscale), F.softplus(self.raw_outputscale)
        squared = (a.unsqueeze(-2) - b.unsqueeze(-3)).pow(2).sum(-1)
        return outputscale * torch.exp(-0.5 * squared / lengthscale**2)


class GP(nn.Module):
    def __init__(self, kernel):
        super().__init__()
        self.kernel = kernel
        self.raw_noise = nn.Parameter(torch.tensor(-2.0, dtype=torch.float64))
        self.mean = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def factor(self, x):
        k = self.kernel(x, x) + (F.softplus(self.raw_noise) + 1e-6) * torch.eye(len(x), dtype=x.dtype)
        return torch.linalg.cholesky(k)

    def negative_log_likelihood(self, x, y):
        chol = self.factor(x)
        residual = (y - self.mean).unsqueeze(-1)
        alpha = torch.cholesky_solve(residual, chol)
        fit = 0.5 * (residual * alpha).sum()
        complexity = chol.diagonal().log().sum()
        return fit + complexity + 0.5 * len(x) * math.log(2 * math.pi)

    @torch.no_grad()
    def predict(self, x, y, new):
        chol = self.factor(x)
        cross = self.kernel(x, new)
        mean = self.mean + cross.T @ torch.cholesky_solve((y - self.mean)[:, None], chol)
        half = torch.linalg.solve_triangular(chol, cross, upper=False)
        return mean.squeeze(1), (self.kernel(new, new) - half.T @ half).diagonal()


x = torch.linspace(0, 1, 20, dtype=torch.float64)[:, None] * 6
y = torch.sin(x).squeeze() + 0.5 + 0.1 * torch.randn(20, dtype=torch.float64)
model = GP(RBF())
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)


def step():
    optimizer.zero_grad()
    loss = model.negative_log_likelihood(x, y)
    loss.backward()
    optimizer.step()
    return loss


if args.compile:
    step = torch.compile(step)

for i in range(20):
    loss = step()
    print(f"Iter {i + 1}/20 - Loss: {loss.item():.8f}   lengthscale: {F.softplus(model.kernel.raw_lengthscale):.6f}"
          f"   noise: {F.softplus(model.raw_noise).item():.6f}")
mean, variance = model.predict(x, y, torch.tensor([[1.5], [7.0]], dtype=torch.float64))
print("mean", mean, "std", variance.clamp_min(0).sqrt())
