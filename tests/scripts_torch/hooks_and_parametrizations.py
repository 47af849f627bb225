"""Looking into a model: hooks on modules, tensors and gradients; parametrizations; weight and spectral norm; profiling."""

import argparse
from functools import partial

import torch
import torch.nn.utils.parametrize as parametrize
from torch import nn
from torch.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm
from torch.profiler import ProfilerActivity, profile, record_function, schedule

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(31)


class Symmetric(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).transpose(-1, -2)

    def right_inverse(self, A):
        return A.triu()


class MatrixExponential(nn.Module):
    def forward(self, X):
        return torch.matrix_exp(X)


activation, gradients, calls = {}, {}, []


def get_activation(name):
    def hook(model, input, output):
        activation[name] = output.detach()

    return hook


def keep_gradient(name, module, grad_input, grad_output):
    gradients[name] = grad_output[0].norm().item()


model = nn.Sequential(nn.Linear(5, 5), nn.Hardswish(), weight_norm(nn.Linear(5, 4)), nn.Tanh(), spectral_norm(nn.Linear(4, 2)))
parametrize.register_parametrization(model[0], "weight", Symmetric())
handles = [m.register_forward_hook(get_activation(f"{i}")) for i, m in enumerate(model)]
handles += [m.register_full_backward_hook(partial(keep_gradient, f"{i}")) for i, m in enumerate(model) if isinstance(m, nn.Linear)]
handles.append(model.register_forward_pre_hook(lambda module, inputs: calls.append(len(inputs))))
x, y = torch.randn(10, 5), torch.randn(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
print(sorted(name for name, _ in model.named_parameters()))


def step():
    optimizer.zero_grad()
    hidden = model[1](model[0](x))
    hidden.register_hook(lambda grad: grad * 2)
    loss = (model[4](model[3](model[2](hidden))) - y).square().mean()
    loss.backward()
    optimizer.step()
    return loss


if args.compile:
    step = torch.compile(step)
for _ in range(4):
    print(f"loss {step().item():.6f}")
model(x)
print(calls, {k: round(v.abs().sum().item(), 4) for k, v in activation.items()}, {k: round(v, 5) for k, v in gradients.items()})
for handle in handles:
    handle.remove()
print(torch.allclose(model[0].weight, model[0].weight.T), parametrize.is_parametrized(model[0]))
model[0].weight = torch.ones(5, 5)
print(model[0].weight.sum().item(), type(model[0]).__name__)
parametrize.remove_parametrizations(model[0], "weight", leave_parametrized=True)
print(type(model[0]).__name__, [name for name, _ in model[0].named_parameters()])
layer = orthogonal(nn.Linear(3, 3))
print(torch.dist(layer.weight.T @ layer.weight, torch.eye(3)).item() < 1e-5)
skew = nn.Linear(3, 3)
parametrize.register_parametrization(skew, "weight", MatrixExponential())
with parametrize.cached():
    print(skew.weight is skew.weight, tuple(skew(torch.ones(1, 3)).shape))

seen = []
with profile(
    activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=2, repeat=1),
    on_trace_ready=lambda prof: seen.append(prof.step_num),
) as prof:
    for _ in range(5):
        with record_function("a step"):
            step()
        prof.step()
print("profiled", seen, any("a step" in event.key for event in prof.key_averages()))
