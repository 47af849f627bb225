"""Weights with distributions (Bayes by backprop): Normal posteriors, a scale mixture of two normals as prior."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal, kl_divergence

torch.manual_seed(20)


class BayesianLinear(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight_mu = nn.Parameter(torch.Tensor(out_features, in_features).uniform_(-0.2, 0.2))
        self.weight_rho = nn.Parameter(torch.Tensor(out_features, in_features).uniform_(-5, -4))
        self.bias_mu = nn.Parameter(torch.Tensor(out_features).uniform_(-0.2, 0.2))
        self.bias_rho = nn.Parameter(torch.Tensor(out_features).uniform_(-5, -4))
        self.register_buffer("zero", torch.zeros(1))

    def posteriors(self):
        return (Normal(self.weight_mu, F.softplus(self.weight_rho)), Normal(self.bias_mu, F.softplus(self.bias_rho)))

    def forward(self, input):
        if self.training:
            weight, bias = (q.rsample() for q in self.posteriors())
        else:
            weight, bias = self.weight_mu, self.bias_mu
        return F.linear(input, weight, bias)

    def kl(self):
        prior = Normal(self.zero, 0.5)
        return sum(kl_divergence(q, prior).sum() for q in self.posteriors())


class BayesianNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = BayesianLinear(1, 16)
        self.l2 = BayesianLinear(16, 1)

    def forward(self, x):
        return self.l2(F.relu(self.l1(x)))

    def sample_elbo(self, x, y, num_batches, samples=2):
        outputs = torch.stack([self(x) for _ in range(samples)])
        nll = -Normal(outputs, 0.1).log_prob(y.expand_as(outputs)).mean(0).sum()
        kl = self.l1.kl() + self.l2.kl()
        return kl / num_batches + nll, kl, nll


x = torch.linspace(-1, 1, 64).unsqueeze(1)
y = x.pow(3) + 0.1 * torch.randn_like(x)
net = BayesianNetwork()
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)


def step(xb, yb):
    net.zero_grad()
    loss, kl, nll = net.sample_elbo(xb, yb, num_batches=4)
    loss.backward()
    optimizer.step()
    return loss, kl, nll


if "--compile" in sys.argv:
    step = torch.compile(step)

net.train()
for epoch in range(5):
    for index in torch.randperm(64).chunk(4):
        loss, kl, nll = step(x[index], y[index])
        print(f"loss {loss.item():.5f} kl {kl.item():.5f} nll {nll.item():.5f}")
net.eval()
print("mean prediction %.5f" % net(x).mean().item())
net.train()
with torch.no_grad():
    print("spread %.5f" % torch.stack([net(x) for _ in range(10)]).std(0).mean())
