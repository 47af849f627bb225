"""Model-agnostic meta-learning on sine waves: second derivatives through inner steps, functional_call."""

import argparse
import math

import torch
from torch import nn, optim
from torch.func import functional_call

parser = argparse.ArgumentParser()
parser.add_argument("--inner-steps", type=int, default=2)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(17)


class SineTask:
    def __init__(self):
        self.amplitude = torch.empty(1).uniform_(0.1, 5.0)
        self.phase = torch.empty(1).uniform_(0, math.pi)

    def sample(self, k):
        x = torch.empty(k, 1).uniform_(-5, 5)
        return x, self.amplitude * torch.sin(x + self.phase)


model = nn.Sequential(nn.Linear(1, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 1))
criterion = nn.MSELoss()
meta_optimizer = optim.Adam(model.parameters(), lr=2e-3)


def adapt(params, x, y):
    for _ in range(args.inner_steps):
        loss = criterion(functional_call(model, params, (x,)), y)
        grads = torch.autograd.grad(loss, params.values(), create_graph=True)
        params = {name: p - 0.01 * g for (name, p), g in zip(params.items(), grads)}
    return params


def meta_step(tasks):
    meta_optimizer.zero_grad()
    meta_loss = 0.0
    for x_support, y_support, x_query, y_query in tasks:
        fast = adapt(dict(model.named_parameters()), x_support, y_support)
        meta_loss = meta_loss + criterion(functional_call(model, fast, (x_query,)), y_query)
    meta_loss = meta_loss / len(tasks)
    meta_loss.backward()
    meta_optimizer.step()
    return meta_loss


if args.compile:
    meta_step = torch.compile(meta_step)

for iteration in range(20):
    tasks = [SineTask() for _ in range(2)]
    batch = [(*task.sample(6), *task.sample(6)) for task in tasks]
    loss = meta_step(batch)
    print(f"iteration {iteration:2d} meta loss {loss.item():.6f}")
print("parameters", {name: tuple(p.shape) for name, p in model.named_parameters() if "weight" in name})
