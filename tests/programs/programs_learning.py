"""Derivatives of derivatives and of decisions: GANs, meta learning, Newton's method, reinforcement learning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from program import Source, fill, gradients, mlp, program


@program()
def wgan_with_gradient_penalty(lib: Any, step: Any) -> Iterator[Any]:
    source = Source(lib)
    critic, generator = mlp(lib, 3, 8, 1, activation="LeakyReLU"), mlp(lib, 2, 8, 3, seed=1)
    c_opt = lib.optim.Adam(critic.parameters(), lr=1e-2, betas=(0.0, 0.9))
    g_opt = lib.optim.Adam(generator.parameters(), lr=1e-2, betas=(0.0, 0.9))

    def penalty(real: Any, fake: Any, alpha: Any) -> Any:
        mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
        score = critic(mixed)
        (g,) = lib.autograd.grad(
            outputs=score, inputs=mixed, grad_outputs=lib.ones_like(score), create_graph=True, retain_graph=True
        )
        return ((g.norm(2, dim=1) - 1) ** 2).mean()

    @step
    def train_critic(real: Any, z: Any, alpha: Any) -> Any:
        c_opt.zero_grad()
        fake = generator(z).detach()
        loss = critic(fake).mean() - critic(real).mean() + 10.0 * penalty(real, fake, alpha)
        loss.backward()
        c_opt.step()
        return loss

    @step
    def train_generator(z: Any) -> Any:
        g_opt.zero_grad()
        for p in critic.parameters():
            p.requires_grad_(False)
        loss = -critic(generator(z)).mean()
        loss.backward()
        for p in critic.parameters():
            p.requires_grad_(True)
        g_opt.step()
        return loss

    for _ in range(5):
        losses = [train_critic(source(6, 3), source(6, 2), source.uniform(6, 1)).item() for _ in range(2)]
        losses.append(train_generator(source(6, 2)).item())
        yield losses, gradients(critic.parameters()), list(critic.parameters()), list(generator.parameters())


@program()
def maml(lib: Any, step: Any) -> Iterator[Any]:
    """Inner SGD steps with create_graph, functionally; a number of inner steps that changes."""
    source, F = Source(lib), lib.nn.functional
    params = [source.leaf(1, 8), source.leaf(8), source.leaf(8, 1), source.leaf(1)]
    meta = lib.optim.Adam(params, lr=1e-2)

    def forward(ps: Any, x: Any) -> Any:
        w1, b1, w2, b2 = ps
        return lib.tanh(x @ w1 + b1) @ w2 + b2

    @step
    def train(tasks: Any, num_inner: int) -> Any:
        meta.zero_grad()
        total = 0.0
        for x, y, x_test, y_test in tasks:
            fast = params
            for _ in range(num_inner):
                grads = lib.autograd.grad(F.mse_loss(forward(fast, x), y), fast, create_graph=True)
                fast = [p - 0.1 * g for p, g in zip(fast, grads, strict=True)]
            total = total + F.mse_loss(forward(fast, x_test), y_test)
        total.backward()
        meta.step()
        return total

    for n in (1, 2, 1, 2, 2):
        tasks = [tuple(source(5, 1) for _ in range(4)) for _ in range(2)]
        yield train(tasks, n), gradients(params), params


@program()
def implicit_function(lib: Any, step: Any) -> Iterator[Any]:
    """A deep equilibrium layer: the fixed point is found under no_grad, its derivative by a hook that iterates too."""
    source = Source(lib)
    cell = fill(lib, lib.nn.Linear(4, 4), 1)
    with lib.no_grad():
        cell.weight.mul_(0.3)
    head = fill(lib, lib.nn.Linear(4, 1), 2)
    optimizer = lib.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.05)
    iterations: list[int] = []

    def solve(f: Any, z: Any) -> Any:
        for count in range(50):
            new = f(z)
            if (new - z).norm().item() < 1e-8:
                iterations.append(count)
                break
            z = new
        return z

    def equilibrium(x: Any) -> Any:
        with lib.no_grad():
            z = solve(lambda z: lib.tanh(cell(z) + x), lib.zeros_like(x))
        z = lib.tanh(cell(z) + x)
        z0 = z.detach().requires_grad_()
        f0 = lib.tanh(cell(z0) + x)

        def backward_hook(g: Any) -> Any:
            return solve(lambda y: lib.autograd.grad(f0, z0, y, retain_graph=True)[0] + g, g)

        z.register_hook(backward_hook)
        return z

    @step
    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = (head(equilibrium(x)) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    x, y = source(3, 4), source(3, 1)
    for _ in range(7):
        yield train(x, y), iterations[-2:], gradients(cell.parameters()), list(cell.parameters())


class _Implicit:
    """argmin_z of a strongly convex function of (z, theta), as a Function with a linear solve in backward."""

    @staticmethod
    def make(lib: Any, gradient: Any) -> Any:
        class Argmin(lib.autograd.Function):
            @staticmethod
            def forward(theta: Any) -> Any:
                z = lib.zeros_like(theta)
                for _ in range(60):
                    z = z - 0.2 * gradient(z, theta)
                return z

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                ctx.save_for_backward(*inputs, output)

            @staticmethod
            def backward(ctx: Any, v: Any) -> Any:
                theta, z = ctx.saved_tensors
                with lib.enable_grad():
                    z, theta = z.detach().requires_grad_(), theta.detach().requires_grad_()
                    g = gradient(z, theta)
                u = lib.zeros_like(v)
                for _ in range(60):  # (d gradient / d z) u = v
                    u = u - 0.2 * (lib.autograd.grad(g, z, u, retain_graph=True)[0] - v)
                return -lib.autograd.grad(g, theta, u)[0]

        return Argmin


@program()
def bilevel(lib: Any, step: Any) -> Iterator[Any]:
    """Hyperparameters trained through an inner argmin: a Function with setup_context, grad() in its backward."""
    source = Source(lib)
    a = source(4, 4, scale=0.3)
    a = a @ a.T + lib.eye(4, dtype=lib.float64)
    argmin = _Implicit.make(lib, lambda z, theta: a @ z + z.pow(3) - theta)
    theta, goal = source.leaf(4), source(4)
    optimizer = lib.optim.SGD([theta], lr=0.5, momentum=0.9, nesterov=True)

    @step
    def train() -> Any:
        optimizer.zero_grad()
        loss = (argmin.apply(theta) - goal).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(4):
        yield train(), theta, theta.grad


@program(is_steady=False)  # the number of iterations is data
def newton_by_conjugate_gradients(lib: Any, step: Any) -> Iterator[Any]:
    """Hessian-vector products by double backward; conjugate gradients stop when the residual is small."""
    source = Source(lib)
    x, y = source(12, 4), source(12).gt(0).to(lib.float64)
    w = source.leaf(4)

    def objective() -> Any:
        return lib.nn.functional.binary_cross_entropy_with_logits(x @ w, y) + 0.05 * w.dot(w)

    @step
    def newton() -> Any:
        loss = objective()
        (g,) = lib.autograd.grad(loss, w, create_graph=True)

        def hvp(v: Any) -> Any:
            return lib.autograd.grad(g, w, grad_outputs=v, retain_graph=True)[0]

        d = lib.zeros_like(w)
        r = p = -g.detach()
        rr, count = r @ r, 0
        while rr.sqrt() > 1e-10 and count < 10:
            hp = hvp(p)
            alpha = rr / (p @ hp)
            d = d + alpha * p
            r = r - alpha * hp
            rr, old = r @ r, rr
            p = r + (rr / old) * p
            count += 1
        with lib.no_grad():
            w.add_(d)
        return loss.item(), count

    for _ in range(5):
        yield newton(), w


@program(tolerance=1e-7, fallbacks=18)  # writes through views
def gauss_newton(lib: Any, step: Any) -> Iterator[Any]:
    """Levenberg-Marquardt with func.jacrev, func.jacfwd and vmap(jvp); elimination in place."""
    func = lib.func
    t = lib.linspace(0.0, 2.0, 12, dtype=lib.float64)
    wanted = 2.0 * lib.exp(-1.3 * t) + 0.5
    p = lib.tensor([1.0, 0.5, 0.0], dtype=lib.float64)

    def residual(p: Any) -> Any:
        return p[0] * lib.exp(-p[1] * t) + p[2] - wanted

    def solve(a: Any, b: Any) -> Any:
        ab = lib.cat([a, b.unsqueeze(1)], 1)
        for i in range(len(a)):
            ab[i] /= ab[i, i].clone()
            for j in range(len(a)):
                if i != j:
                    ab[j] -= ab[j, i].clone() * ab[i]
        return ab[:, -1]

    @step
    def iterate(p: Any, damping: float) -> Any:
        r = residual(p)
        j = func.jacrev(residual)(p)
        basis = lib.eye(3, dtype=lib.float64)
        columns = func.vmap(lambda v: func.jvp(residual, (p,), (v,))[1])(basis)
        a = j.T @ func.jacfwd(residual)(p) + damping * basis
        return p - solve(a, j.T @ r), columns.T - j, r.square().sum()

    for i in range(5):
        p, difference, loss = iterate(p, 1e-2 * 0.5**i)
        yield p, difference, loss


@program()
def per_sample_gradients(lib: Any, step: Any) -> Iterator[Any]:
    """DP-SGD: per-example gradients by vmap(grad), clipped per example, summed."""
    source, func, F = Source(lib), lib.func, lib.nn.functional
    model = mlp(lib, 4, 6, 3)
    params = {k: v.detach() for k, v in model.named_parameters()}

    def loss_of(params: Any, x: Any, y: Any) -> Any:
        out = func.functional_call(model, params, (x.unsqueeze(0),))
        return F.cross_entropy(out, y.unsqueeze(0))

    each = func.vmap(func.grad_and_value(loss_of), in_dims=(None, 0, 0))

    @step
    def train(params: Any, x: Any, y: Any) -> Any:
        grads, losses = each(params, x, y)
        norms = lib.stack([g.flatten(1).norm(dim=1) for g in grads.values()], 1).norm(dim=1)
        scale = (1.0 / (norms + 1e-6)).clamp(max=1.0)
        new = {k: p - 0.1 * lib.einsum("b,b...->...", scale, grads[k]) / len(x) for k, p in params.items()}
        return new, losses.mean(), norms

    for n in (5, 5, 3, 5, 3, 3):
        params, loss, norms = train(params, source(n, 4), source.ints(3, n))
        yield params, loss, norms


@program()
def deep_q_learning(lib: Any, step: Any) -> Iterator[Any]:
    """Double DQN: gather, a target network under no_grad with soft updates, Huber loss, norm clipping."""
    import copy

    source = Source(lib)
    online = mlp(lib, 4, 8, 3, activation="ReLU")
    target = copy.deepcopy(online)
    target.requires_grad_(False)
    optimizer = lib.optim.AdamW(online.parameters(), lr=1e-2, amsgrad=True)

    @step
    def learn(s: Any, a: Any, r: Any, s2: Any, done: Any) -> Any:
        q = online(s).gather(1, a.unsqueeze(1)).squeeze(1)
        with lib.no_grad():
            best = online(s2).argmax(dim=1, keepdim=True)
            wanted = r + 0.99 * target(s2).gather(1, best).squeeze(1) * (~done)
        loss = lib.nn.functional.smooth_l1_loss(q, wanted)
        optimizer.zero_grad()
        loss.backward()
        norm = lib.nn.utils.clip_grad_norm_(online.parameters(), 0.5)
        optimizer.step()
        with lib.no_grad():
            for p, t in zip(online.parameters(), target.parameters(), strict=True):
                t.mul_(0.9).add_(0.1 * p)
        return loss, norm

    for _ in range(5):
        batch = source(7, 4), source.ints(3, 7), source(7), source(7, 4), source(7).gt(0.5)
        yield learn(*batch), list(online.parameters()), list(target.parameters()), online.state_dict().keys()


@program(is_steady=False)  # episodes have lengths of their own
def reinforce(lib: Any, step: Any) -> Iterator[Any]:
    """Policy gradients: an episode ends when the state says so; log probabilities in a list."""
    source, F = Source(lib), lib.nn.functional
    policy = mlp(lib, 2, 8, 2)
    optimizer = lib.optim.Adam(policy.parameters(), lr=0.05)

    @step
    def episode(noise: Any) -> Any:
        state, log_probs, rewards = lib.tensor([0.1, -0.2], dtype=lib.float64), [], []
        for u in noise:
            log_p = F.log_softmax(policy(state), dim=-1)
            action = int(u > log_p[0].exp())
            log_probs.append(log_p[action])
            state = state + lib.tensor([0.3, 0.1 * (1 - 2 * action)], dtype=lib.float64)
            rewards.append(-abs(state[1].item()))
            if state[0].item() > 1.0 + 0.2 * u.item():
                break
        returns, total = [], 0.0
        for r in reversed(rewards):
            total = r + 0.9 * total
            returns.insert(0, total)
        g = lib.tensor(returns, dtype=lib.float64)
        g = (g - g.mean()) / (g.std() + 1e-8)
        loss = -(lib.stack(log_probs) * g).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return len(rewards), loss.item()

    for _ in range(8):
        yield episode(source.uniform(8)), list(policy.parameters())


@program()
def actor_critic(lib: Any, step: Any) -> Iterator[Any]:
    """PPO over a fixed batch: ratios, clipping, entropy, two heads on one trunk, several epochs of minibatches."""
    source, F = Source(lib), lib.nn.functional

    class ActorCritic(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.trunk = lib.nn.Sequential(lib.nn.Linear(4, 8), lib.nn.Tanh())
            self.actor, self.critic = lib.nn.Linear(8, 3), lib.nn.Linear(8, 1)

        def forward(self, x: Any) -> Any:
            h = self.trunk(x)
            return F.log_softmax(self.actor(h), -1), self.critic(h).squeeze(-1)

    model = fill(lib, ActorCritic())
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-2)
    scheduler = lib.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.9**epoch)

    @step
    def update(s: Any, a: Any, old: Any, advantage: Any, returns: Any) -> Any:
        log_p, value = model(s)
        ratio = (log_p.gather(-1, a[:, None])[:, 0] - old).exp()
        surrogate = lib.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        entropy = -(log_p.exp() * log_p).sum(-1)
        loss = -surrogate.mean() + 0.5 * F.mse_loss(value, returns) - 0.01 * entropy.mean()
        optimizer.zero_grad()
        loss.backward()
        lib.nn.utils.clip_grad_value_(model.parameters(), 0.2)
        optimizer.step()
        return loss

    for _ in range(3):
        s, a, r = source(8, 4), source.ints(3, 8), source(8)
        with lib.inference_mode():
            log_p, value = model(s)
            old = log_p.gather(-1, a[:, None])[:, 0]
        advantage = r - value
        losses = []
        for part in lib.arange(8).split(4):
            losses.append(update(s[part], a[part], old[part].clone(), advantage[part].clone(), r[part]).item())
        scheduler.step()
        yield losses, scheduler.get_last_lr(), list(model.parameters())
