"""A cubic fitted to a sine, as tutorials begin: by hand, autograd, an own Function, nn, optim, own and dynamic modules."""

import argparse
import math
import random

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
dtype = torch.float
torch.manual_seed(0)
random.seed(0)

x = torch.linspace(-math.pi, math.pi, 200, dtype=dtype)
y = torch.sin(x)


class LegendrePolynomial3(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return 0.5 * (5 * input**3 - 3 * input)

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        return grad_output * 1.5 * (5 * input**2 - 1)


class DynamicNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for name in "abcde":
            setattr(self, name, torch.nn.Parameter(torch.randn(())))

    def forward(self, x):
        y = self.a + self.b * x + self.c * x**2 + self.d * x**3
        for exp in range(4, random.randint(4, 6)):
            y = y + self.e * x**exp
        return y

    def string(self):
        return f"y = {self.a.item():.4f} + {self.b.item():.4f} x + {self.c.item():.4f} x^2 + {self.d.item():.4f} x^3"


# by hand
a, b, c, d = (torch.randn((), dtype=dtype) for _ in range(4))
learning_rate = 1e-6
for t in range(60):
    y_pred = a + b * x + c * x**2 + d * x**3
    loss = (y_pred - y).pow(2).sum().item()
    grad_y_pred = 2.0 * (y_pred - y)
    a -= learning_rate * grad_y_pred.sum()
    b -= learning_rate * (grad_y_pred * x).sum()
    c -= learning_rate * (grad_y_pred * x**2).sum()
    d -= learning_rate * (grad_y_pred * x**3).sum()
print(f"by hand {loss:.4f} {a.item():.5f} {d.item():.5f}")

# an own Function
a, b, c, d = (torch.full((), value, dtype=dtype, requires_grad=True) for value in (0.0, -1.0, 0.0, 0.3))


def step():
    P3 = LegendrePolynomial3.apply
    y_pred = a + b * P3(c + d * x)
    loss = (y_pred - y).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        for parameter in (a, b, c, d):
            parameter -= 5e-6 * parameter.grad
            parameter.grad = None
    return loss


if args.compile:
    step = torch.compile(step)
for t in range(60):
    loss = step()
    if t % 20 == 19:
        print(t, f"{loss.item():.4f}")
print(f"Result: y = {a.item():.4f} + {b.item():.4f} * P3({c.item():.4f} + {d.item():.4f} x)")

# nn and optim
p = torch.tensor([1, 2, 3])
xx = x.unsqueeze(-1).pow(p)
model = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(0, 1))
loss_fn = torch.nn.MSELoss(reduction="sum")
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for t in range(60):
    loss = loss_fn(model(xx), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"nn {loss.item():.4f} {model[0].bias.item():.5f} {model[0].weight[:, 2].item():.5f}")

# a graph that changes
net = DynamicNet()
criterion = torch.nn.MSELoss(reduction="sum")
optimizer = torch.optim.SGD(net.parameters(), lr=1e-8, momentum=0.9)
for t in range(30):
    loss = criterion(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"dynamic {loss.item():.2f}", net.string())
