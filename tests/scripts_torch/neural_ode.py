"""A neural ODE on a spiral, with Runge-Kutta steps and the adjoint method as a custom Function."""

import argparse

import torch
import torch.nn as nn

parser = argparse.ArgumentParser("ODE demo")
parser.add_argument("--niters", type=int, default=20)
parser.add_argument("--data_size", type=int, default=40)
parser.add_argument("--batch_time", type=int, default=6)
parser.add_argument("--batch_size", type=int, default=8)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(0)

true_y0 = torch.tensor([[2.0, 0.0]])
t = torch.linspace(0.0, 5.0, args.data_size)
true_A = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])


def rk4_step(func, t, dt, y):
    k1 = func(t, y)
    k2 = func(t + dt / 2, y + dt * k1 / 2)
    k3 = func(t + dt / 2, y + dt * k2 / 2)
    k4 = func(t + dt, y + dt * k3)
    return y + dt * (k1 + 2 * k2 + 2 * k3 + k4) / 6


class Lambda(nn.Module):
    def forward(self, t, y):
        return torch.mm(y**3, true_A)


class ODEFunc(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 20), nn.Tanh(), nn.Linear(20, 2))
        for m in self.net.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, mean=0, std=0.1)
                nn.init.constant_(m.bias, val=0)

    def forward(self, t, y):
        return self.net(y**3)


class ODEAdjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, func, y0, t, *params):
        ctx.func = func
        with torch.no_grad():
            ys = [y0]
            for i in range(len(t) - 1):
                ys.append(rk4_step(func, t[i], t[i + 1] - t[i], ys[-1]))
            ys = torch.stack(ys)
        ctx.save_for_backward(t, ys, *params)
        return ys

    @staticmethod
    def backward(ctx, grad_y):
        t, ys, *params = ctx.saved_tensors
        func = ctx.func
        with torch.no_grad():
            adj_y = grad_y[-1]
            adj_params = [torch.zeros_like(p) for p in params]

            def augmented(t, y, a):
                with torch.enable_grad():
                    y = y.detach().requires_grad_(True)
                    out = func(t, y)
                    grads = torch.autograd.grad(out, (y, *params), a, allow_unused=True)
                return out.detach(), [torch.zeros_like(p) if g is None else g for g, p in zip(grads, (y, *params))]

            for i in range(len(t) - 1, 0, -1):
                dt = t[i - 1] - t[i]
                f1, g1 = augmented(t[i], ys[i], adj_y)
                f2, g2 = augmented(t[i] + dt / 2, ys[i] + dt / 2 * f1, adj_y - dt / 2 * g1[0])
                adj_y = adj_y - dt * g2[0] + grad_y[i - 1]
                adj_params = [a - dt * g for a, g in zip(adj_params, g2[1:])]
        return (None, adj_y, None, *adj_params)


def odeint_adjoint(func, y0, t):
    return ODEAdjoint.apply(func, y0, t, *func.parameters())


def odeint(func, y0, t):
    ys = [y0]
    for t0, t1 in zip(t[:-1], t[1:]):
        ys.append(rk4_step(func, t0, t1 - t0, ys[-1]))
    return torch.stack(ys, 0)


class RunningAverageMeter(object):
    """Computes and stores the average and current value"""

    def __init__(self, momentum=0.99):
        self.momentum = momentum
        self.val, self.avg = None, 0

    def update(self, val):
        self.avg = val if self.val is None else self.avg * self.momentum + val * (1 - self.momentum)
        self.val = val


with torch.no_grad():
    true_y = odeint(Lambda(), true_y0, t)


def get_batch():
    s = torch.randperm(args.data_size - args.batch_time)[: args.batch_size]
    batch_y0 = true_y[s]
    batch_t = t[: args.batch_time]
    batch_y = torch.stack([true_y[s + i] for i in range(args.batch_time)], dim=0)
    return batch_y0, batch_t, batch_y


func = ODEFunc()
optimizer = torch.optim.RMSprop(func.parameters(), lr=1e-3)
loss_meter = RunningAverageMeter(0.97)


def step(batch_y0, batch_t, batch_y):
    optimizer.zero_grad()
    pred_y = odeint_adjoint(func, batch_y0, batch_t)
    loss = torch.mean(torch.abs(pred_y - batch_y))
    loss.backward()
    optimizer.step()
    return loss


if args.compile:
    step = torch.compile(step)

for itr in range(1, args.niters + 1):
    loss = step(*get_batch())
    loss_meter.update(loss.item())
    print("Iter {:04d} | Loss {:.6f} | Average {:.6f}".format(itr, loss.item(), loss_meter.avg))
    if itr % 10 == 0:
        with torch.no_grad():
            pred_y = odeint(func, true_y0, t)
            print("Iter {:04d} | Total Loss {:.6f}".format(itr, torch.mean(torch.abs(pred_y - true_y)).item()))
