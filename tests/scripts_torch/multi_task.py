"""Two tasks with learnt uncertainties: a shared trunk, parameters in groups, gradients that are looked at by hooks."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(21)


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 24), nn.CELU(), nn.Linear(24, 16), nn.CELU())
        self.heads = nn.ModuleDict({"regression": nn.Linear(16, 1), "classification": nn.Linear(16, 3)})
        self.log_vars = nn.ParameterDict({name: nn.Parameter(torch.zeros(())) for name in self.heads})

    def forward(self, x):
        shared = self.trunk(x)
        return {name: head(shared) for name, head in self.heads.items()}


def weighted(losses, log_vars):
    return sum(torch.exp(-log_vars[name]) * loss + log_vars[name] for name, loss in losses.items())


x = torch.randn(128, 6)
targets = {"regression": (x @ torch.randn(6, 1)).tanh(), "classification": torch.argmax(x[:, :3] + x[:, 3:], dim=1)}
model = MultiTask()
optimizer = torch.optim.Adam(
    [
        {"params": model.trunk.parameters(), "lr": 1e-2},
        {"params": model.heads.parameters(), "lr": 2e-2, "weight_decay": 1e-3},
        {"params": list(model.log_vars.values()), "lr": 5e-2},
    ]
)
scheduler = torch.optim.lr_scheduler.CyclicLR(
    optimizer, base_lr=[5e-3, 1e-2, 2e-2], max_lr=[1e-2, 2e-2, 5e-2], step_size_up=5, cycle_momentum=False
)
seen = []
model.trunk[0].weight.register_hook(lambda grad: seen.append(grad.abs().mean().item()))


def step(xb, regression, classification):
    optimizer.zero_grad()
    out = model(xb)
    losses = {
        "regression": F.mse_loss(out["regression"], regression),
        "classification": F.cross_entropy(out["classification"], classification),
    }
    total = weighted(losses, model.log_vars)
    total.backward()
    optimizer.step()
    return total, losses


if args.compile:
    step = torch.compile(step)

for i in range(20):
    index = torch.randint(0, 128, (32,))
    total, losses = step(x[index], *(t[index] for t in targets.values()))
    scheduler.step()
    parts = ", ".join(f"{name} {loss.item():.6f}" for name, loss in losses.items())
    print(f"step {i} total {total.item():.6f} ({parts}) trunk gradient {seen[-1]:.7f}")
print({name: round(p.item(), 5) for name, p in model.log_vars.items()}, len(seen))
