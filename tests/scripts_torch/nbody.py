"""Find masses and starting velocities of three bodies from their noisy tracks: leapfrog, and gradients through it."""

import sys

import torch

torch.manual_seed(2)
torch.set_default_dtype(torch.double)


def acceleration(x, m, softening=0.05):
    d = x.unsqueeze(0) - x.unsqueeze(1)                       # (n, n, 2): d[i, j] points from i to j
    r2 = d.square().sum(-1) + softening**2
    return torch.einsum("ij,ijk->ik", m * r2.pow(-1.5), d)


def simulate(x, v, m, dt=0.02, steps=25):
    track = []
    a = acceleration(x, m)
    for _ in range(steps):
        v = v + 0.5 * dt * a
        x = x + dt * v
        a = acceleration(x, m)
        v = v + 0.5 * dt * a
        track.append(x)
    return torch.stack(track), v


def energy(x, v, m):
    d = torch.cdist(x, x) + torch.eye(len(x)) * 1e9
    return 0.5 * (m[:, None] * v**2).sum() - 0.5 * (m[:, None] * m / d).sum()


x0 = torch.tensor([[0.97, -0.24], [-0.97, 0.24], [0.0, 0.0]])
v0 = torch.tensor([[0.47, 0.43], [0.47, 0.43], [-0.93, -0.86]])
m0 = torch.ones(3)
with torch.no_grad():
    observed, v_end = simulate(x0, v0, m0)
    print(f"energy {energy(x0, v0, m0):.5f} -> {energy(observed[-1], v_end, m0):.5f}")
    observed = observed + 1e-3 * torch.randn(observed.shape)

log_m = torch.zeros(3).add_(0.1 * torch.randn(3)).requires_grad_()
v = (v0 + 0.05 * torch.randn(3, 2)).clone().detach().requires_grad_(True)
optimizer = torch.optim.Adam([{"params": [log_m], "lr": 2e-2}, {"params": [v], "lr": 1e-2}])


def step():
    optimizer.zero_grad(set_to_none=False)
    track, _ = simulate(x0, v, log_m.exp())
    loss = (track - observed).pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss


if "--compile" in sys.argv:
    step = torch.compile(step)

history = []
for i in range(20):
    history.append(step().item())
    print(f"{i:3d} misfit {history[-1]:.6e} masses {[round(m, 5) for m in log_m.exp().tolist()]}")
print("falls", history[-1] < history[0])
