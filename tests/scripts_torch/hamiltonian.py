"""A Hamiltonian neural network: the field is a gradient of the network, made with torch.func, batched by vmap."""

import argparse

import torch
from torch.func import functional_call, grad, vmap

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(30)


class HNN(torch.nn.Module):
    def __init__(self, hidden_dim=24):
        super().__init__()
        self.linear1 = torch.nn.Linear(2, hidden_dim)
        self.linear2 = torch.nn.Linear(hidden_dim, hidden_dim)
        self.linear3 = torch.nn.Linear(hidden_dim, 1, bias=None)
        for l in [self.linear1, self.linear2, self.linear3]:
            torch.nn.init.orthogonal_(l.weight)
        self.register_buffer("M", torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))

    def forward(self, x):
        h = self.linear1(x).tanh()
        h = self.linear2(h).tanh()
        return self.linear3(h)

    def time_derivative(self, x):
        params = dict(self.named_parameters())
        energy = lambda z: functional_call(self, params, (z,)).squeeze()
        return vmap(grad(energy))(x) @ self.M.t()


def field(x):
    q, p = x[:, 0], x[:, 1]
    return torch.stack([p, -torch.sin(q)], dim=1)


x = torch.rand(60, 2) * 4 - 2
dx = field(x) + 0.05 * torch.randn(60, 2)
model = HNN()
optim = torch.optim.Adam(model.parameters(), 5e-3, weight_decay=1e-4)


def step(x, dx):
    loss = (model.time_derivative(x) - dx).pow(2).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
    return loss


if args.compile:
    step = torch.compile(step)

for i in range(20):
    ixs = torch.randperm(x.shape[0])[:20]
    loss = step(x[ixs], dx[ixs])
    print("step {}, train_loss {:.6e}".format(i, loss.item()))
with torch.no_grad():
    drift = model(torch.tensor([[1.0, 0.0]])) - model(torch.tensor([[0.0, 1.0]]))
print(f"difference of energies {drift.item():.5f}")
