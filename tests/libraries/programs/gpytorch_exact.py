import math

import gpytorch
import torch

torch.manual_seed(0)
x = torch.linspace(0, 1, 40)
y = torch.sin(x * 2 * math.pi) + torch.randn(40) * 0.2


class M(gpytorch.models.ExactGP):
    def __init__(s, x, y, lik):
        super().__init__(x, y, lik)
        s.mean_module = gpytorch.means.ConstantMean()
        s.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(s, x):
        return gpytorch.distributions.MultivariateNormal(s.mean_module(x), s.covar_module(x))


lik = gpytorch.likelihoods.GaussianLikelihood()
m = M(x, y, lik)
m.train()
lik.train()
opt = torch.optim.Adam(m.parameters(), lr=0.1)
mll = gpytorch.mlls.ExactMarginalLogLikelihood(lik, m)
for i in range(8):
    opt.zero_grad()
    l = -mll(m(x), y)
    l.backward()
    opt.step()
    print(l.item(), m.covar_module.base_kernel.lengthscale.item())
m.eval()
lik.eval()
with torch.no_grad():
    p = lik(m(torch.linspace(0, 1, 5)))
    print(p.mean, p.variance)
