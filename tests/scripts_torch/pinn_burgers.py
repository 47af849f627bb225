"""A physics-informed network for Burgers' equation with an unknown viscosity: Adam first, then L-BFGS."""

import sys
from collections import OrderedDict

import numpy as np
import torch

np.random.seed(1234)
torch.manual_seed(1234)
torch.set_default_dtype(torch.float64)


class DNN(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.depth = len(layers) - 1
        layer_list = []
        for i in range(self.depth - 1):
            layer_list.append(("layer_%d" % i, torch.nn.Linear(layers[i], layers[i + 1])))
            layer_list.append(("activation_%d" % i, torch.nn.Tanh()))
        layer_list.append(("layer_%d" % (self.depth - 1), torch.nn.Linear(layers[-2], layers[-1])))
        self.layers = torch.nn.Sequential(OrderedDict(layer_list))
        for layer in self.layers:
            if isinstance(layer, torch.nn.Linear):
                torch.nn.init.xavier_normal_(layer.weight)
                torch.nn.init.zeros_(layer.bias)

    def forward(self, x):
        return self.layers(x)


class PhysicsInformedNN:
    def __init__(self, X_u, u, X_f):
        self.x_u = torch.tensor(X_u[:, 0:1], requires_grad=True)
        self.t_u = torch.tensor(X_u[:, 1:2], requires_grad=True)
        self.x_f = torch.tensor(X_f[:, 0:1], requires_grad=True)
        self.t_f = torch.tensor(X_f[:, 1:2], requires_grad=True)
        self.u = torch.from_numpy(u)
        self.dnn = DNN([2, 12, 12, 1])
        self.lambda_ = torch.nn.Parameter(torch.tensor([0.0]))
        self.dnn.register_parameter("lambda_", self.lambda_)
        self.optimizer = torch.optim.LBFGS(
            self.dnn.parameters(), lr=1.0, max_iter=4, max_eval=8, history_size=10,
            tolerance_grad=1e-7, tolerance_change=1e-12, line_search_fn="strong_wolfe",
        )
        self.adam = torch.optim.Adam(self.dnn.parameters(), lr=1e-2)
        self.iter = 0

    def net_u(self, x, t):
        return self.dnn(torch.cat([x, t], dim=1))

    def net_f(self, x, t):
        u = self.net_u(x, t)
        u_t = torch.autograd.grad(u, t, grad_outputs=torch.ones_like(u), retain_graph=True, create_graph=True)[0]
        u_x = torch.autograd.grad(u, x, grad_outputs=torch.ones_like(u), retain_graph=True, create_graph=True)[0]
        u_xx = torch.autograd.grad(u_x, x, grad_outputs=torch.ones_like(u_x), retain_graph=True, create_graph=True)[0]
        return u_t + u * u_x - torch.exp(self.lambda_ - 3.0) * u_xx

    def losses(self):
        loss_u = torch.mean((self.u - self.net_u(self.x_u, self.t_u)) ** 2)
        loss_f = torch.mean(self.net_f(self.x_f, self.t_f) ** 2)
        return loss_u, loss_f

    def adam_step(self):
        loss_u, loss_f = self.losses()
        loss = loss_u + loss_f
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        return loss

    def closure(self):
        self.optimizer.zero_grad()
        loss_u, loss_f = self.losses()
        loss = loss_u + loss_f
        loss.backward()
        self.iter += 1
        return loss

    def train(self, compiled):
        step, closure = self.adam_step, self.closure
        if compiled:
            step, closure = torch.compile(step), torch.compile(closure)
        self.dnn.train()
        for epoch in range(20):
            loss = step()
            print("It: %d, Loss: %.6e, lambda: %.6f" % (epoch, loss.item(), self.lambda_.item()))
        for _ in range(3):
            loss = self.optimizer.step(closure)
            print(f"L-BFGS after {self.iter} evaluations, Loss: {loss.item():.5e}")


x = np.linspace(-1, 1, 20)[:, None]
X_u = np.hstack((x, np.zeros_like(x)))
u = -np.sin(np.pi * x)
X_f = np.hstack((np.random.uniform(-1, 1, (40, 1)), np.random.uniform(0, 1, (40, 1))))
model = PhysicsInformedNN(X_u, u, X_f)
model.train("--compile" in sys.argv)
with torch.no_grad():
    print("largest value %.5f" % model.net_u(model.x_f, model.t_f).abs().max().item())
