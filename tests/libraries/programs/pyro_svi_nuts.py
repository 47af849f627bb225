import pyro
import pyro.distributions as dist
import torch
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from pyro.infer.autoguide import AutoNormal

pyro.set_rng_seed(1)
x = torch.randn(50, 2)
y = x @ torch.tensor([1.0, -2.0]) + 0.3 + torch.randn(50) * 0.1


def model(x, y=None):
    w = pyro.sample("w", dist.Normal(torch.zeros(2), 1.0).to_event(1))
    b = pyro.sample("b", dist.Normal(0.0, 1.0))
    s = pyro.sample("s", dist.HalfNormal(1.0))
    with pyro.plate("d", x.shape[0]):
        return pyro.sample("y", dist.Normal(x @ w + b, s), obs=y)


g = AutoNormal(model)
svi = SVI(model, g, pyro.optim.Adam({"lr": 0.02}), Trace_ELBO())
for i in range(10):
    print(svi.step(x, y))
print(g.median())
pyro.clear_param_store()
k = NUTS(model, step_size=0.05, adapt_step_size=False, max_tree_depth=3)
mc = MCMC(k, num_samples=3, warmup_steps=2, disable_progbar=True)
mc.run(x, y)
print(mc.get_samples()["b"])
