"""Differential equations: networks that solve them, and simulations that are differentiated."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from program import Source, fill, gradients, program


def _network(lib: Any, num_inputs: int) -> Any:
    nn = lib.nn
    return fill(lib, nn.Sequential(nn.Linear(num_inputs, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)))


@program()
def burgers(lib: Any, step: Any) -> Iterator[Any]:
    """u_t + u u_x = nu u_xx, with the coordinates as two leaves."""
    source, model = Source(lib), _network(lib, 2)
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-2)
    grad = lib.autograd.grad

    def residual(x: Any, t: Any) -> Any:
        u = model(lib.cat([x, t], dim=1))
        u_x, u_t = grad(u, [x, t], grad_outputs=lib.ones_like(u), create_graph=True)
        u_xx = grad(u_x, x, grad_outputs=lib.ones_like(u_x), create_graph=True)[0]
        return u_t + u * u_x - (0.01 / math.pi) * u_xx

    @step
    def train(x: Any, t: Any, x0: Any) -> Any:
        optimizer.zero_grad()
        x.requires_grad_(True)
        t.requires_grad_(True)
        inside = (residual(x, t) ** 2).mean()
        initial = ((model(lib.cat([x0, lib.zeros_like(x0)], 1)) + lib.sin(math.pi * x0)) ** 2).mean()
        loss = inside + initial
        loss.backward()
        optimizer.step()
        return loss.item(), inside.detach(), initial.detach()

    for _ in range(5):
        seen = train(source.uniform(9, 1, low=-1), source.uniform(9, 1), source.uniform(5, 1, low=-1))
        yield seen, gradients(model.parameters()), list(model.parameters())


@program()
def korteweg_de_vries(lib: Any, step: Any) -> Iterator[Any]:
    """u_t + 6 u u_x + u_xxx = 0: three derivatives, and one more to train."""
    source, model = Source(lib), _network(lib, 2)
    optimizer = lib.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def diff(u: Any, x: Any) -> Any:
        return lib.autograd.grad(u.sum(), x, create_graph=True)[0]

    @step
    def train(xt: Any) -> Any:
        xt = xt.clone().requires_grad_()
        optimizer.zero_grad(set_to_none=False)
        u = model(xt)
        du = diff(u, xt)
        u_x, u_t = du[:, 0:1], du[:, 1:2]
        u_xx = diff(u_x, xt)[:, 0:1]
        u_xxx = diff(u_xx, xt)[:, 0:1]
        loss = lib.nn.functional.mse_loss(u_t + 6 * u * u_x + u_xxx, lib.zeros_like(u))
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(5):
        loss = train(source(6, 2))
        yield loss, loss.item(), gradients(model.parameters()), list(model.parameters())


@program()
def poisson_by_forward_over_forward(lib: Any, step: Any) -> Iterator[Any]:
    """A Laplacian by two nested jvps, under vmap; trained with functional_call."""
    source, model = Source(lib), _network(lib, 2)
    params = {k: v.detach().clone().requires_grad_() for k, v in model.named_parameters()}
    func = lib.func

    def u(p: Any, x: Any) -> Any:
        return func.functional_call(model, p, (x,)).squeeze(-1)

    def laplacian(p: Any, x: Any) -> Any:
        basis = lib.eye(2, dtype=x.dtype)

        def second(v: Any) -> Any:
            return func.jvp(lambda y: func.jvp(lambda z: u(p, z), (y,), (v,))[1], (x,), (v,))[1]

        return second(basis[0]) + second(basis[1])

    @step
    def train(points: Any) -> Any:
        loss = (func.vmap(laplacian, in_dims=(None, 0))(params, points) + 1.0).square().mean()
        grads = lib.autograd.grad(loss, list(params.values()), allow_unused=True, materialize_grads=True)
        with lib.no_grad():
            for p, g in zip(params.values(), grads, strict=True):
                p -= 0.01 * g
        return loss

    for _ in range(5):
        yield train(source(4, 2)), params


@program()
def pendulum(lib: Any, step: Any) -> Iterator[Any]:
    """Fit length and damping by differentiating through a leapfrog loop."""
    length = lib.tensor(1.3, dtype=lib.float64, requires_grad=True)
    damping = lib.tensor(0.2, dtype=lib.float64, requires_grad=True)
    optimizer = lib.optim.Adam([{"params": [length], "lr": 0.05}, {"params": [damping]}], lr=0.01)

    def simulate(length: Any, damping: Any, n: int) -> Any:
        angle, speed, dt, path = lib.tensor(0.5, dtype=lib.float64), lib.zeros((), dtype=lib.float64), 0.05, []
        for _ in range(n):
            speed = speed - dt * (9.81 / length * angle.sin() + damping * speed)
            angle = angle + dt * speed
            path.append(angle)
        return lib.stack(path)

    with lib.no_grad():
        wanted = simulate(lib.tensor(1.0, dtype=lib.float64), lib.tensor(0.05, dtype=lib.float64), 40)

    @step
    def train(n: int) -> Any:
        optimizer.zero_grad()
        loss = (simulate(length, damping, n) - wanted[:n]).pow(2).sum()
        loss.backward()
        optimizer.step()
        with lib.no_grad():
            length.clamp_(min=0.1)
        return loss.item()

    for n in (8, 16, 8, 16, 16):  # a curriculum: the horizon grows
        yield train(n), length, damping, length.grad, damping.grad


@program(fallbacks=64)  # writes through views
def mass_spring(lib: Any, step: Any) -> Iterator[Any]:
    """In-place state: positions and velocities are buffers that index assignment and add_ update."""
    source = Source(lib)
    stiffness = lib.full((5,), 3.0, dtype=lib.float64, requires_grad=True)
    state = {"x": source(6, 2), "v": source(6, 2, scale=0.1)}

    @step
    def train(dt: float) -> Any:
        x, v = state["x"].clone(), state["v"].clone()
        for _ in range(4):
            spring = (x[1:] - x[:-1]) * stiffness.unsqueeze(1)
            force = lib.zeros_like(x)
            force[:-1] += spring
            force[1:] -= spring
            force[0] = 0.0  # the first mass is pinned
            v.add_(force, alpha=dt).mul_(0.99)
            x += dt * v
        loss = x[-1].square().sum()
        stiffness.grad = None
        loss.backward()
        with lib.no_grad():
            stiffness.sub_(0.1 * stiffness.grad)
            state["x"].copy_(x)
            state["v"].copy_(v)
        return loss

    for dt in (0.02, 0.02, 0.03, 0.04, 0.05):
        yield train(dt), stiffness, stiffness.grad, state


@program(fallbacks=108)  # writes through views and masks
def cloth(lib: Any, step: Any) -> Iterator[Any]:
    """A grid of springs, collisions by masks and torch.where, wind as the parameter."""
    source = Source(lib)
    wind = source.leaf(3)
    rest = lib.stack(lib.meshgrid(lib.arange(4.0), lib.arange(4.0), indexing="ij"), -1).double()
    grid = lib.cat([rest, lib.zeros(4, 4, 1, dtype=lib.float64)], -1)

    def spring_forces(x: Any) -> Any:
        force = lib.zeros_like(x)
        for a, b in ((slice(1, None), slice(None, -1)),):
            for dim in (0, 1):
                first = x[a] if dim == 0 else x[:, a]
                second = x[b] if dim == 0 else x[:, b]
                d = first - second
                stretch = d * (1.0 - 1.0 / d.norm(dim=-1, keepdim=True).clamp(min=1e-6))
                if dim == 0:
                    force[a] -= stretch
                    force[b] += stretch
                else:
                    force[:, a] -= stretch
                    force[:, b] += stretch
        return force

    @step
    def train(n: int) -> Any:
        x, v = grid.clone(), lib.zeros_like(grid)
        for _ in range(n):
            v = v + 0.1 * (20.0 * spring_forces(x) + wind)
            v[0, 0] = 0
            x = x + 0.1 * v
            below = x[..., 2] < -0.02
            x = lib.where(below.unsqueeze(-1), x * x.new_tensor([1.0, 1.0, 0.5]), x)
            v[below] *= 0.5
        loss = (x - grid).norm() + wind.abs().sum() * 0.01
        wind.grad = None
        loss.backward()
        wind.data.add_(wind.grad, alpha=-0.05)
        return loss.detach(), below.sum()

    for _ in range(5):
        yield train(4), wind, wind.grad


@program()
def n_body_to_a_target(lib: Any, step: Any) -> Iterator[Any]:
    """Initial velocities that bring bodies somewhere; L-BFGS with a strong Wolfe search calls the closure."""
    source = Source(lib)
    start, mass, goal = source(4, 2), source.uniform(4, low=0.5, high=1.5), source(4, 2)
    velocity = lib.nn.Parameter(source(4, 2, scale=0.1))
    optimizer = lib.optim.LBFGS([velocity], lr=0.5, max_iter=6, line_search_fn="strong_wolfe")

    def end() -> Any:
        x, v = start, velocity
        for _ in range(5):
            d = x.unsqueeze(0) - x.unsqueeze(1)
            pull = (mass[None, :, None] * d / (d.square().sum(-1, keepdim=True) + 0.1) ** 1.5).sum(1)
            v = v + 0.05 * pull
            x = x + 0.05 * v
        return x

    @step
    def closure() -> Any:
        optimizer.zero_grad()
        loss = lib.nn.functional.mse_loss(end(), goal)
        loss.backward()
        return loss

    for _ in range(3):
        yield optimizer.step(closure), velocity, velocity.grad


@program()
def neural_ode_by_the_adjoint(lib: Any, step: Any) -> Iterator[Any]:
    """A Function whose backward integrates the adjoint equation backwards with autograd.grad inside."""
    source = Source(lib)
    nn = lib.nn
    field = fill(lib, nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 3)))
    params = tuple(field.parameters())

    class OdeSolve(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, z: Any, n: int, *params: Any) -> Any:
            with lib.no_grad():
                for _ in range(n):
                    z = z + 0.1 * field(z)
            ctx.save_for_backward(z, *params)
            ctx.n = n
            return z

        @staticmethod
        def backward(ctx: Any, a: Any) -> Any:
            z, *params = ctx.saved_tensors
            totals = [lib.zeros_like(p) for p in params]
            for _ in range(ctx.n):
                with lib.enable_grad():
                    z = z.detach().requires_grad_(True)
                    f = field(z)
                    g_z, *g_params = lib.autograd.grad(f, (z, *params), a, allow_unused=True)
                a = a + 0.1 * g_z
                totals = [t + 0.1 * g for t, g in zip(totals, g_params, strict=True)]
                z = z.detach() - 0.1 * f.detach()
            return (a, None, *totals)

    optimizer = lib.optim.RMSprop(field.parameters(), lr=1e-2)

    @step
    def train(x: Any, y: Any, n: int) -> Any:
        optimizer.zero_grad()
        out = OdeSolve.apply(x, n, *params)
        loss = (out - y).abs().mean()
        loss.backward()
        optimizer.step()
        return loss, out.grad_fn.name()

    for _ in range(6):
        x = source(4, 3).requires_grad_()
        yield train(x, source(4, 3), 3), x.grad, gradients(params), params
