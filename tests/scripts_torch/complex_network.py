"""A complex-valued network that takes the distortion of a channel out of a received signal."""

import argparse

import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=15)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(3)


class ComplexLinear(nn.Module):
    def __init__(self, fan_in, fan_out):
        super().__init__()
        scale = (1.0 / (2 * fan_in)) ** 0.5
        self.weight = nn.Parameter(torch.complex(torch.randn(fan_out, fan_in), torch.randn(fan_out, fan_in)) * scale)
        self.bias = nn.Parameter(torch.zeros(fan_out, dtype=torch.cfloat))

    def forward(self, z):
        return z @ self.weight.T + self.bias


class ModReLU(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.full((features,), -0.05))

    def forward(self, z):
        size = z.abs()
        return torch.relu(size + self.bias) * z / (size + 1e-6)


def batch(count, n=16):
    """Symbols of four phases, and what a channel with an echo, a turn and noise makes of them."""
    symbols = torch.polar(torch.ones(count, n), torch.pi / 2 * torch.randint(0, 4, (count, n)) + torch.pi / 4)
    sent = torch.fft.ifft(symbols, norm="ortho")
    echo = torch.roll(sent, 2, dims=-1) * (0.4 - 0.3j)
    received = (sent + echo) * torch.exp(torch.tensor(0.7j))
    noise = torch.complex(torch.randn(count, n), torch.randn(count, n)) * 0.03
    return torch.fft.fft(received + noise, norm="ortho"), symbols


model = nn.Sequential(ComplexLinear(16, 48), ModReLU(48), ComplexLinear(48, 16))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for name, p in model.named_parameters():
    print(name, tuple(p.shape), "complex" if torch.is_complex(p) else "real")


def step(received, symbols):
    optimizer.zero_grad(set_to_none=True)
    out = model(received)
    loss = (out - symbols).abs().square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach(), out.detach()


if args.compile:
    step = torch.compile(step)

for epoch in range(args.epochs):
    received, symbols = batch(64)
    loss, out = step(received, symbols)
    right = ((out.real > 0) == (symbols.real > 0)) & ((out.imag > 0) == (symbols.imag > 0))
    print(f"epoch {epoch} loss {loss.item():.5f} symbols right {100 * right.float().mean().item():.1f} %")
