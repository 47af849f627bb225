"""A deep equilibrium layer: the fixed point of a cell, and its gradient by the implicit function theorem."""

import argparse

import torch
import torch.autograd as autograd
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

parser = argparse.ArgumentParser()
parser.add_argument("--max_iter", type=int, default=15)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(0)


class Cell(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.linear1 = nn.Linear(d, d, bias=False)
        self.linear2 = nn.Linear(d, d)
        self.norm = nn.LayerNorm(d)
        self.linear1.weight.data.normal_(0, 0.05)

    def forward(self, z, x):
        return self.norm(torch.tanh(self.linear1(z) + self.linear2(x)))


def forward_iteration(f, x0, max_iter=50):
    f0 = f(x0)
    for _ in range(max_iter):
        x = f0
        f0 = f(x)
    return f0, (f0 - x).norm() / (1e-5 + f0.norm())


class DEQFixedPoint(nn.Module):
    def __init__(self, f, solver, **kwargs):
        super().__init__()
        self.f = f
        self.solver = solver
        self.kwargs = kwargs

    def forward(self, x):
        # compute forward pass and re-engage autograd tape
        with torch.no_grad():
            z, self.forward_res = self.solver(lambda z: self.f(z, x), torch.zeros_like(x), **self.kwargs)
        z = self.f(z, x)
        # set up Jacobian vector product (without additional forward calls)
        z0 = z.clone().detach().requires_grad_()
        f0 = self.f(z0, x)

        def backward_hook(grad):
            g, self.backward_res = self.solver(
                lambda y: autograd.grad(f0, z0, y, retain_graph=True)[0] + grad, grad, **self.kwargs
            )
            return g

        z.register_hook(backward_hook)
        return z


class ImplicitSqrt(autograd.Function):
    """The root of y**2 = x by Newton's method; the derivative follows from the equation."""

    @staticmethod
    def forward(ctx, x):
        y = torch.ones_like(x)
        for _ in range(12):
            y = 0.5 * (y + x / y)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output / (2 * y)


deq = DEQFixedPoint(Cell(8), forward_iteration, max_iter=args.max_iter)
model = nn.Sequential(nn.Linear(4, 8), deq, nn.Linear(8, 1))
optimizer = optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(48, 4)
y = x.square().sum(1, keepdim=True).sqrt()


def step(xb, yb):
    optimizer.zero_grad()
    out = model(xb)
    loss = ImplicitSqrt.apply(F.mse_loss(out, yb) + 1e-8)
    loss.backward()
    optimizer.step()
    return loss, deq.forward_res


if args.compile:
    step = torch.compile(step)

for i in range(20):
    index = torch.randperm(48)[:24]
    loss, residual = step(x[index], y[index])
    print(f"step {i} rmse {loss.item():.6f} converged {residual.item() < 1e-4}")
x64 = torch.rand(5, dtype=torch.double, requires_grad=True)
print("gradcheck", autograd.gradcheck(ImplicitSqrt.apply, x64))
