"""Function transforms as their tutorials show them: per-sample gradients, ensembles, Jacobians, Hessians, tangent kernels."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(9)


class Net(nn.Module):
    def __init__(self, out=3):
        super().__init__()
        self.fc1 = nn.Linear(4, 6)
        self.fc2 = nn.Linear(6, out)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x)))


data, targets = torch.randn(8, 4), torch.randint(3, (8,))
model = Net()
params = {k: v.detach() for k, v in model.named_parameters()}
buffers = {k: v.detach() for k, v in model.named_buffers()}


def compute_loss(params, buffers, sample, target):
    predictions = functional_call(model, (params, buffers), (sample.unsqueeze(0),))
    return F.cross_entropy(predictions, target.unsqueeze(0))


ft_compute_sample_grad = vmap(grad(compute_loss), in_dims=(None, None, 0, 0))
per_sample = ft_compute_sample_grad(params, buffers, data, targets)
print({k: (tuple(v.shape), round(v.norm().item(), 5)) for k, v in per_sample.items()})
F.cross_entropy(model(data), targets).backward()
print(all(torch.allclose(per_sample[k].mean(0), p.grad, atol=1e-6) for k, p in model.named_parameters()))

# ensembles
models = [Net() for _ in range(4)]
stacked, stacked_buffers = stack_module_state(models)
base = Net().to("meta")


def fmodel(params, buffers, x):
    return functional_call(base, (params, buffers), (x,))


together = vmap(fmodel, in_dims=(0, 0, None))(stacked, stacked_buffers, data)
apart = torch.stack([m(data) for m in models])
print(tuple(together.shape), torch.allclose(together, apart, atol=1e-5), f"{together.sum().item():.5f}")

# Jacobians and Hessians
weight, bias, x = torch.randn(4, 4), torch.randn(4), torch.randn(4)


def predict(weight, bias, x):
    return F.linear(x, weight, bias).tanh()


print(torch.allclose(jacrev(predict, 2)(weight, bias, x), jacfwd(predict, 2)(weight, bias, x), atol=1e-6))
print(f"{hessian(predict, argnums=2)(weight, bias, x).pow(2).sum().item():.5f}")
_, vjp_fn = vjp(lambda x: predict(weight, bias, x), x)
print([round(v, 5) for v in vmap(vjp_fn)(torch.eye(4))[0].diagonal().tolist()])
primal, tangent = jvp(lambda x: predict(weight, bias, x), (x,), (torch.ones(4),))
print(f"{primal.sum().item():.5f} {tangent.sum().item():.5f}")


# neural tangent kernel
def empirical_ntk(params, x1, x2):
    def single(params, x):
        return functional_call(model, params, (x.unsqueeze(0),)).squeeze(0)

    jac1 = vmap(jacrev(single), (None, 0))(params, x1)
    jac2 = vmap(jacrev(single), (None, 0))(params, x2)
    return sum(torch.einsum("Naf,Mbf->NMab", jac1[k].flatten(2), jac2[k].flatten(2)) for k in jac1)


kernel = empirical_ntk(params, data[:3], data[3:5])
print(tuple(kernel.shape), f"{kernel.mean().item():.5f}")


# a step with per-sample clipping
def step(params, x, y):
    grads = ft_compute_sample_grad(params, buffers, x, y)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads.values()]).norm(dim=0)
    scale = (1.0 / norms).clamp(max=1.0)
    return {k: params[k] - 0.5 * torch.einsum("n,n...->...", scale, g) / len(x) for k, g in grads.items()}


if args.compile:
    step = torch.compile(step)
for _ in range(4):
    params = step(params, data, targets)
    print(f"loss {F.cross_entropy(functional_call(model, params, (data,)), targets).item():.5f}")
