import torch
from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

torch.manual_seed(0)
X = torch.rand(8, 2, dtype=torch.double)
Y = 1 - (X - 0.5).norm(dim=-1, keepdim=True)
gp = SingleTaskGP(X, Y)
fit_gpytorch_mll(ExactMarginalLogLikelihood(gp.likelihood, gp))
print(gp.posterior(X[:2]).mean)
a = UpperConfidenceBound(gp, beta=0.1)
c, v = optimize_acqf(
    a, bounds=torch.stack([torch.zeros(2), torch.ones(2)]).double(), q=1, num_restarts=2, raw_samples=8
)
print(c, v)
a = LogExpectedImprovement(gp, best_f=Y.max())
c, v = optimize_acqf(
    a, bounds=torch.stack([torch.zeros(2), torch.ones(2)]).double(), q=1, num_restarts=2, raw_samples=8
)
print(c, v)
