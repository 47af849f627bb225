import gpytorch
import torch

torch.manual_seed(0)
x = torch.rand(100, 1)
y = torch.sin(x[:, 0] * 6) + torch.randn(100) * 0.1


class G(gpytorch.models.ApproximateGP):
    def __init__(s, z):
        q = gpytorch.variational.CholeskyVariationalDistribution(z.size(0))
        super().__init__(gpytorch.variational.VariationalStrategy(s, z, q, learn_inducing_locations=True))
        s.mean_module = gpytorch.means.ConstantMean()
        s.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(2.5))

    def forward(s, x):
        return gpytorch.distributions.MultivariateNormal(s.mean_module(x), s.covar_module(x))


m = G(x[:10])
lik = gpytorch.likelihoods.GaussianLikelihood()
m.train()
opt = torch.optim.Adam([*m.parameters(), *lik.parameters()], lr=0.05)
mll = gpytorch.mlls.VariationalELBO(lik, m, 100)
for i in range(6):
    opt.zero_grad()
    l = -mll(m(x), y)
    l.backward()
    opt.step()
    print(l.item())
