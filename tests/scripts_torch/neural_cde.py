"""A neural controlled differential equation: cubic-spline-like paths of irregular data drive a hidden state by RK4."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(17)
torch.set_default_dtype(torch.float64)


class CDEFunc(nn.Module):
    def __init__(self, input_channels, hidden_channels):
        super().__init__()
        self.input_channels, self.hidden_channels = input_channels, hidden_channels
        self.linear1 = nn.Linear(hidden_channels, 10)
        self.linear2 = nn.Linear(10, input_channels * hidden_channels)

    def forward(self, t, z):
        z = self.linear2(self.linear1(z).relu()).tanh()
        return z.view(z.size(0), self.hidden_channels, self.input_channels)


class HermitePath:
    """Piecewise cubic, through the data, with backward differences."""

    def __init__(self, t, x):
        self.t, self.x = t, x
        slope = (x[:, 1:] - x[:, :-1]) / (t[1:] - t[:-1]).unsqueeze(-1)
        self.m = torch.cat([slope[:, :1], slope], dim=1)

    def derivative(self, s):
        i = torch.bucketize(torch.as_tensor(s), self.t, right=True).clamp(1, len(self.t) - 1) - 1
        h = self.t[i + 1] - self.t[i]
        u = (s - self.t[i]) / h
        d = (6 * u**2 - 6 * u) / h * (self.x[:, i] - self.x[:, i + 1])
        return d + (3 * u**2 - 4 * u + 1) * self.m[:, i] + (3 * u**2 - 2 * u) * self.m[:, i + 1]


class NeuralCDE(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.func = CDEFunc(channels, hidden)
        self.initial = nn.Linear(channels, hidden)
        self.readout = nn.Linear(hidden, 1)

    def forward(self, path, steps=6):
        z = self.initial(path.x[:, 0])

        def f(t, z):
            return (self.func(t, z) @ path.derivative(t).unsqueeze(-1)).squeeze(-1)

        dt = 1.0 / steps
        for k in range(steps):
            t = k * dt
            k1 = f(t, z)
            k2 = f(t + dt / 2, z + dt * k1 / 2)
            k3 = f(t + dt / 2, z + dt * k2 / 2)
            k4 = f(min(t + dt, 1 - 1e-9), z + dt * k3)
            z = z + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return self.readout(z).squeeze(-1)


t = torch.cat([torch.zeros(1), torch.rand(7).sort().values, torch.ones(1)])
direction = torch.randint(0, 2, (16,)).mul(2).sub(1)
angle = direction.unsqueeze(1) * t * 4 + torch.rand(16, 1) * 6
x = torch.stack([t.expand(16, -1), angle.cos(), angle.sin()], dim=-1)
y = (direction > 0).to(x.dtype)
model = NeuralCDE(3, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
path = HermitePath(t, x)


def step():
    optimizer.zero_grad()
    loss = nn.functional.binary_cross_entropy_with_logits(model(path), y)
    loss.backward()
    optimizer.step()
    return loss


if args.compile:
    step = torch.compile(step)
for epoch in range(5):
    print(f"Epoch: {epoch}   Training loss: {step().item():.6f}")
with torch.no_grad():
    accuracy = ((model(path) > 0) == (y > 0)).double().mean()
print(f"Test Accuracy: {accuracy.item():.4f}")
