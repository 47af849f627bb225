"""Programs from further corners: sequence models, mixtures, flows, hypernetworks, distillation, old idioms."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from program import Source, fill, gradients, mlp, program


@program()
def transformer_with_masks(lib: Any, step: Any) -> Iterator[Any]:
    """Causal and padding masks of batches of several lengths; warm-up schedule; weight decay on matrices only."""
    source, nn, F = Source(lib), lib.nn, lib.nn.functional

    class Block(nn.Module):
        def __init__(self, dim: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
            self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
            self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

        def forward(self, x: Any, padding: Any) -> Any:
            b, t, d = x.shape
            q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
            scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
            causal = lib.ones(t, t, dtype=lib.bool).triu(1)
            scores = scores.masked_fill(causal, float("-inf")).masked_fill(padding[:, None, None, :], -1e9)
            y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d)
            x = x + self.out(y)
            return x + self.mlp(self.norm2(x))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.place = nn.Embedding(11, 8), nn.Parameter(lib.zeros(6, 8))
            self.blocks = nn.ModuleList(Block(8, 2) for _ in range(2))
            self.head = nn.Linear(8, 11)

        def forward(self, tokens: Any) -> Any:
            x = self.token(tokens) + self.place[: tokens.shape[1]]
            for block in self.blocks:
                x = block(x, tokens == 0)
            return self.head(x)

    model = fill(lib, Model())
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = lib.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95))
    lr = lib.optim.lr_scheduler
    parts = [lr.LinearLR(optimizer, 0.1, total_iters=2), lr.CosineAnnealingLR(optimizer, 6)]
    scheduler = lr.SequentialLR(optimizer, parts, milestones=[2])

    @step
    def train(tokens: Any) -> Any:
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=0, reduction="none")
        loss = loss.sum() / (tokens[:, 1:] != 0).sum().clamp(min=1)
        loss.backward()
        norm = lib.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        return loss.detach(), norm

    for n in (5, 7, 5, 7, 5, 7):
        yield train(source.ints(11, 2, n)), scheduler.get_last_lr(), gradients(model.parameters())


@program()
def variational_autoencoder(lib: Any, step: Any) -> Iterator[Any]:
    """Reparameterised samples, KL annealing by a Python number, a mean-field posterior with softplus scales."""
    source, F = Source(lib), lib.nn.functional
    encoder, decoder = mlp(lib, 5, 8, 4), mlp(lib, 2, 8, 5, seed=1)
    params = [*encoder.parameters(), *decoder.parameters()]
    optimizer = lib.optim.Adam(params, lr=1e-2)
    scheduler = lib.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=10)

    @step
    def train(x: Any, noise: Any, beta: float) -> Any:
        mean, raw = encoder(x).chunk(2, dim=-1)
        std = F.softplus(raw) + 1e-4
        z = mean + std * noise
        target = x.gt(0).to(x.dtype)
        nll = F.binary_cross_entropy_with_logits(decoder(z), target, reduction="none").sum(-1)
        kl = 0.5 * (mean**2 + std**2 - 2 * std.log() - 1).sum(-1)
        loss = (nll + beta * kl).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item(), kl.mean().item()

    for i in range(7):
        seen = train(source(4, 5), source(4, 2), min(1.0, 0.1 + i / 5))
        scheduler.step()
        yield seen, scheduler.get_last_lr(), optimizer.param_groups[0]["betas"], gradients(params), params


@program(fallbacks=15)  # writes through views
def normalizing_flow(lib: Any, step: Any) -> Iterator[Any]:
    """Coupling layers that write halves of a tensor in place; the log determinant adds up in place."""
    source = Source(lib)
    nets = [mlp(lib, 2, 6, 4, seed=i) for i in range(3)]
    params = [p for net in nets for p in net.parameters()]
    optimizer = lib.optim.Adam(params, lr=1e-2)

    @step
    def train(x: Any) -> Any:
        total = x.new_zeros(x.shape[0])
        for i, net in enumerate(nets):
            a, b = (x[:, :2], x[:, 2:]) if i % 2 else (x[:, 2:], x[:, :2])
            scale, shift = net(a).chunk(2, 1)
            scale = scale.tanh()
            new = lib.empty_like(x)
            new[:, :2], new[:, 2:] = (a, b * scale.exp() + shift) if i % 2 else (b * scale.exp() + shift, a)
            total += scale.sum(1)
            x = new
        loss = (0.5 * x.pow(2).sum(1) - total).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(4):
        yield train(source(5, 4)), gradients(params)


@program()
def mixture_of_experts(lib: Any, step: Any) -> Iterator[Any]:
    """Hard routing: each expert gets the rows that chose it, by boolean masks; balanced by an auxiliary loss."""
    source, F = Source(lib), lib.nn.functional
    gate, experts = mlp(lib, 3, 2), [mlp(lib, 3, 4, 3, seed=i) for i in range(2)]
    params = [*gate.parameters(), *(p for e in experts for p in e.parameters())]
    optimizer = lib.optim.SGD(params, lr=0.1)
    batches = [(source(6, 3), source(6, 3)) for _ in range(2)]

    @step
    def train(x: Any, y: Any) -> Any:
        probabilities = F.softmax(gate(x), -1)
        weight, chosen = probabilities.max(dim=-1)
        out = lib.zeros_like(x)
        counts = []
        for i, expert in enumerate(experts):
            rows = (chosen == i).nonzero(as_tuple=True)[0]
            counts.append(len(rows))
            if len(rows):
                out = out.index_add(0, rows, expert(x[rows]) * weight[rows, None])
        balance = probabilities.mean(0).square().sum()
        loss = F.mse_loss(out, y) + 0.1 * balance
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, counts

    for i in range(8):
        yield train(*batches[i % 2]), gradients(params)


@program()
def hypernetwork(lib: Any, step: Any) -> Iterator[Any]:
    """A network makes the weights of another, which is called by functional_call; gradients reach the first only."""
    source = Source(lib)
    main, hyper = mlp(lib, 2, 3, 1), mlp(lib, 1, 8, 13, seed=1)
    shapes = {k: v.shape for k, v in main.named_parameters()}
    optimizer = lib.optim.Adam(hyper.parameters(), lr=1e-2)

    @step
    def train(task: Any, x: Any, y: Any) -> Any:
        flat, weights, at = hyper(task), {}, 0
        for name, shape in shapes.items():
            weights[name] = flat[at : at + math.prod(shape)].view(shape)
            at += math.prod(shape)
        loss = (lib.func.functional_call(main, weights, x) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(4):
        yield train(source(1), source(5, 2), source(5, 1)), gradients(hyper.parameters()), gradients(main.parameters())


@program()
def distillation_with_temperature(lib: Any, step: Any) -> Iterator[Any]:
    """Teacher in eval mode under no_grad; KL of tempered distributions; feature hooks; layer-wise learning rates."""
    source, F = Source(lib), lib.nn.functional
    teacher, student = mlp(lib, 4, 12, 3, activation="SiLU").eval(), mlp(lib, 4, 5, 3, seed=1)
    project = fill(lib, lib.nn.Linear(5, 12, bias=False), 2)
    features: dict[str, Any] = {}
    teacher[1].register_forward_hook(lambda m, i, o: features.__setitem__("teacher", o))
    student[1].register_forward_hook(lambda m, i, o: features.__setitem__("student", o))
    groups = [{"params": layer.parameters(), "lr": 0.01 * (i + 1)} for i, layer in enumerate([student[0], student[2]])]
    optimizer = lib.optim.RMSprop([*groups, {"params": project.parameters()}], lr=1e-3, momentum=0.9, centered=True)
    plateau = lib.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)

    @step
    def train(x: Any, y: Any, t: float) -> Any:
        with lib.no_grad():
            wanted = teacher(x)
        logits = student(x)
        tempered = F.log_softmax(logits / t, -1), F.log_softmax(wanted / t, -1)
        kl = F.kl_div(*tempered, reduction="batchmean", log_target=True)
        hint = F.smooth_l1_loss(project(features["student"]), features["teacher"], beta=0.5)
        loss = F.cross_entropy(logits, y) + t * t * kl + hint
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        return loss

    for i in range(5):
        loss = train(source(6, 4), source.ints(3, 6), 4.0 - i / 2)
        plateau.step(loss.item())
        yield loss, plateau.get_last_lr(), gradients(student.parameters()), list(student.parameters())


@program()
def old_idioms(lib: Any, step: Any) -> Iterator[Any]:
    """What tutorials of many years do: Variable, .data, volatile-like freezing, grad.data.zero_, manual updates."""
    source = Source(lib)
    variable = lib.autograd.Variable
    w1, w2 = variable(source(3, 5), requires_grad=True), variable(source(5, 2), requires_grad=True)

    @step
    def train(x: Any, y: Any) -> Any:
        x, y = variable(x), variable(y)
        prediction = x.mm(w1).clamp(min=0).mm(w2)
        loss = (prediction - y).pow(2).sum()
        loss.backward()
        w1.data -= 1e-2 * w1.grad.data
        w2.data.sub_(w2.grad.data * 1e-2)
        seen = [w1.grad.clone(), w2.grad.clone()]
        w1.grad.data.zero_()
        w2.grad.data.zero_()
        return loss.data, seen

    for _ in range(5):
        yield train(source(4, 3), source(4, 2)), w1, w2, w1.grad, w1._version


@program()
def adversarial_examples(lib: Any, step: Any) -> Iterator[Any]:
    """PGD in a loop: the input is the leaf, projected in place; the parameters' gradients are left alone; then training
    on what was found, and gradients of the input's norm."""
    source, F = Source(lib), lib.nn.functional
    model = mlp(lib, 4, 6, 3)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)

    @step
    def train(x: Any, y: Any) -> Any:
        for p in model.parameters():
            p.requires_grad_(False)
        d = lib.zeros_like(x, requires_grad=True)
        for _ in range(3):
            F.cross_entropy(model(x + d), y).backward()
            with lib.no_grad():
                d += 0.1 * d.grad.sign()
                d.clamp_(-0.2, 0.2)
            d.grad.zero_()
        for p in model.parameters():
            p.requires_grad_(True)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x + d.detach()), y)
        loss.backward()
        optimizer.step()
        return loss, d.detach(), d.grad, d.is_leaf

    for _ in range(4):
        yield train(source(5, 4), source.ints(3, 5)), gradients(model.parameters()), list(model.parameters())


@program()
def influence_by_functional(lib: Any, step: Any) -> Iterator[Any]:
    """autograd.functional inside a step: hvp, jacobian with create_graph, vjp; a Hessian trace by Hutchinson."""
    source, functional = Source(lib), lib.autograd.functional
    w = source.leaf(4)

    @step
    def look(x: Any, v: Any) -> Any:
        def loss(w: Any) -> Any:
            return (x @ w).tanh().pow(2).mean() + 0.1 * w.pow(4).sum()

        value, product = functional.hvp(loss, w, v)
        jacobian = functional.jacobian(lambda w: (x @ w).sin(), w, create_graph=True)
        penalty = jacobian.square().sum()
        w.grad = None
        penalty.backward()
        trace = sum(u @ functional.vhp(loss, w, u)[1] for u in lib.eye(4, dtype=x.dtype))
        hessian = functional.hessian(loss, w, vectorize=True)
        with lib.no_grad():
            w.sub_(0.01 * w.grad)
        return value, product, penalty, trace - hessian.trace(), hessian

    for _ in range(4):
        yield look(source(6, 4), source(4)), w, w.grad


@program()
def reversible_network(lib: Any, step: Any) -> Iterator[Any]:
    """A Function that stores only its output and rebuilds inputs in backward; backward() is called inside it."""
    source = Source(lib)
    f, g = mlp(lib, 2, 4, 2), mlp(lib, 2, 4, 2, seed=1)

    class Reversible(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            a, b = x.chunk(2, dim=-1)
            a = a + f(b)
            b = b + g(a)
            out = lib.cat([a, b], -1)
            ctx.save_for_backward(out.detach())
            return out

        @staticmethod
        @lib.autograd.function.once_differentiable
        def backward(ctx: Any, grad: Any) -> Any:
            (y,) = ctx.saved_tensors
            a2, b2 = y.chunk(2, dim=-1)
            ga, gb = grad.chunk(2, dim=-1)
            with lib.enable_grad():
                a = a2.detach().requires_grad_()
                ga_part = g(a)
                ga_part.backward(gb)
            with lib.no_grad():
                b1 = b2 - ga_part
                ga = ga + a.grad
            with lib.enable_grad():
                b = b1.detach().requires_grad_()
                f(b).backward(ga)
            return lib.cat([ga, gb + b.grad], -1)

    params = [*f.parameters(), *g.parameters()]
    optimizer = lib.optim.Adagrad(params, lr=0.1)

    @step
    def train(x: Any) -> Any:
        optimizer.zero_grad()
        for _ in range(3):
            x = Reversible.apply(x)
        loss = x.square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(4):
        x = source(3, 4).requires_grad_()
        yield train(x), x.grad, gradients(params), params
