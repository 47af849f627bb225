"""An energy-based model with spectral normalisation, trained with Langevin samples from a buffer."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm

torch.manual_seed(99)


class EnergyNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            spectral_norm(nn.Linear(2, 16)), nn.SiLU(), spectral_norm(nn.Linear(16, 16)), nn.SiLU(), nn.Linear(16, 1)
        )

    def forward(self, x):
        return self.net(x).squeeze(-1)


def langevin(model, x, steps=4, step_size=0.1, noise=0.05):
    is_training = model.training
    model.eval()
    for p in model.parameters():
        p.requires_grad_(False)
    x = x.clone().requires_grad_(True)
    for _ in range(steps):
        energy = model(x).sum()
        (g,) = torch.autograd.grad(energy, x)
        with torch.no_grad():
            x -= step_size * g.clamp(-0.5, 0.5)
            x += noise * torch.randn_like(x)
            x.clamp_(-3, 3)
    for p in model.parameters():
        p.requires_grad_(True)
    model.train(is_training)
    return x.detach()


model = EnergyNet()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
buffer = torch.empty(64, 2).uniform_(-3, 3)


def step(real, start):
    fake = langevin(model, start)
    optimizer.zero_grad()
    e_real, e_fake = model(real), model(fake)
    cd = e_real.mean() - e_fake.mean()
    regularizer = 0.1 * (e_real**2 + e_fake**2).mean()
    (cd + regularizer).backward()
    optimizer.step()
    return cd, regularizer, fake


if "--compile" in sys.argv:
    step = torch.compile(step)

for i in range(20):
    real = torch.randn(16, 2) * 0.3 + torch.sign(torch.randn(16, 1)) * torch.tensor([1.0, -1.0])
    index = torch.randperm(64)[:16]
    cd, regularizer, fake = step(real, buffer[index])
    buffer[index] = fake
    print(f"step {i:2d} divergence {cd.item():.6f} regularizer {regularizer.item():.6f}")
print("largest singular value %.4f" % torch.linalg.matrix_norm(model.net[0].weight.detach(), 2).item())
print("buffer %.5f" % F.relu(buffer).mean().item())
