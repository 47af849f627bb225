"""Where did it start? The initial condition of a Kuramoto-Sivashinsky solution is fitted through a pseudo-spectral solver."""

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--iterations", type=int, default=15)
parser.add_argument("--points", type=int, default=64)
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(0)
torch.set_default_dtype(torch.float64)

length, dt = 22.0, 0.1
n = args.points
x = torch.arange(n) * (length / n)
k = 2 * torch.pi * torch.fft.rfftfreq(n, d=length / n)
linear = k**2 - k**4
forward_half = torch.exp(dt * linear)
weight = torch.where(linear.abs() < 1e-9, torch.full_like(linear, dt), (forward_half - 1) / torch.where(linear.abs() < 1e-9, 1.0, linear))
dealias = k.abs() < k.max() * 2 / 3


def solve(u0):
    """Exponential time differencing of first order; all states."""
    v = torch.fft.rfft(u0, norm="forward")
    states = [u0]
    for _ in range(args.steps):
        u = torch.fft.irfft(v, n=n, norm="forward")
        nonlinear = -0.5j * k * torch.fft.rfft(u * u, norm="forward")
        v = forward_half * v + weight * nonlinear * dealias
        states.append(torch.fft.irfft(v, n=n, norm="forward"))
    return torch.stack(states)


truth = torch.cos(2 * torch.pi * x / length) * (1 + torch.sin(4 * torch.pi * x / length))
with torch.no_grad():
    observed = solve(truth)[args.steps // 2 :: 2]

guess = torch.zeros(n, requires_grad=True)
optimizer = torch.optim.Adam([guess], lr=0.1)


def smoothness(u):
    """Energy in high frequencies, by Parseval's theorem."""
    spectrum = torch.fft.fft(u, norm="ortho")
    frequency = torch.fft.fftfreq(n)
    return ((frequency.abs() > 0.25) * spectrum.abs() ** 2).sum() / n


def step():
    optimizer.zero_grad()
    states = solve(guess)
    misfit = (states[args.steps // 2 :: 2] - observed).square().mean()
    loss = misfit + 1e-3 * smoothness(guess)
    loss.backward()
    optimizer.step()
    return misfit.detach(), loss.detach()


if args.compile:
    step = torch.compile(step)

for i in range(args.iterations):
    misfit, loss = step()
    error = torch.linalg.vector_norm(guess.detach() - truth) / torch.linalg.vector_norm(truth)
    print(f"iteration {i:2d} misfit {misfit.item():.6f} loss {loss.item():.6f} error {error.item():.4f}")
spectrum = torch.fft.fftshift(torch.fft.fft(guess.detach())).abs()
print("strongest frequencies:", sorted((spectrum.topk(4).indices - n // 2).tolist()))
