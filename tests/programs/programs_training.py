"""Training loops with everything that people do to them: hooks, schedules, freezing, tying, averaging, resuming."""

from __future__ import annotations

import copy
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from program import Source, describe_error, fill, gradients, mlp, program


@program()
def truncated_bptt(lib: Any, step: Any) -> Iterator[Any]:
    """An LSTM over one long sequence: the state is carried over with detach_."""
    source, nn = Source(lib), lib.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(3, 5, num_layers=2, batch_first=True)
            self.head = nn.Linear(5, 2)

        def forward(self, x: Any, state: Any) -> Any:
            out, state = self.rnn(x, state)
            return self.head(out), state

    model = fill(lib, Net())
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-2)
    state = (lib.zeros(2, 4, 5, dtype=lib.float64), lib.zeros(2, 4, 5, dtype=lib.float64))

    @step
    def train(x: Any, y: Any, state: Any) -> Any:
        optimizer.zero_grad()
        out, state = model(x, state)
        loss = lib.nn.functional.cross_entropy(out.transpose(1, 2), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.25, norm_type=2.0)
        optimizer.step()
        for s in state:
            s.detach_()
        return loss, state

    for _ in range(5):
        loss, state = train(source(4, 3, 3), source.ints(2, 4, 3), state)
        yield loss, state, [s.is_leaf for s in state], gradients(model.parameters())


@program()
def recurrence_by_cell(lib: Any, step: Any) -> Iterator[Any]:
    """A GRU cell in a Python loop over sequences of several lengths; the state is rewritten in place."""
    source, nn = Source(lib), lib.nn
    cell, head = fill(lib, nn.GRUCell(2, 4), 1), fill(lib, nn.Linear(4, 1), 2)
    params = [*cell.parameters(), *head.parameters()]
    optimizer = lib.optim.Adagrad(params, lr=0.1)

    @step
    def train(xs: Any) -> Any:
        h, total = lib.zeros(xs.shape[1], 4, dtype=lib.float64), 0.0
        for t, x in enumerate(xs):
            h = cell(x, h)
            if t % 2:
                total = total + head(h).square().mean()
                h = h.detach()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        return total.item()

    for n in (4, 6, 4, 6, 4):
        yield train(source(n, 3, 2)), params, gradients(params)


@program(is_steady=False)  # every tree is another graph
def trees(lib: Any, step: Any) -> Iterator[Any]:
    """A recursive network over random binary trees: a new graph at every step."""
    source, F = Source(lib), lib.nn.functional
    embedding, join = source.leaf(7, 4), source.leaf(8, 4)
    optimizer = lib.optim.SGD([embedding, join], lr=0.1, weight_decay=1e-3)
    rng = np.random.default_rng(3)

    def random_tree(depth: int) -> Any:
        if depth == 0 or rng.random() < 0.3:
            return int(rng.integers(7))
        return random_tree(depth - 1), random_tree(depth - 1)

    def encode(tree: Any) -> Any:
        if isinstance(tree, int):
            return embedding[tree]
        left, right = tree
        return F.tanh(lib.cat([encode(left), encode(right)]) @ join)

    @step
    def train(tree: Any) -> Any:
        optimizer.zero_grad()
        loss = encode(tree).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(12):
        yield train(random_tree(3)), gradients([embedding, join])


@program()
def accumulation_over_microbatches(lib: Any, step: Any) -> Iterator[Any]:
    """Gradients of three backward calls add up; the update is a compiled function of its own."""
    source, model = Source(lib), mlp(lib, 3, 6, 2, activation="ReLU")
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
    calls: list[str] = []
    for name, p in model.named_parameters():
        p.register_post_accumulate_grad_hook(lambda p, name=name: calls.append(f"{name} {tuple(p.grad.shape)}"))

    @step
    def accumulate(x: Any, y: Any) -> Any:
        loss = lib.nn.functional.cross_entropy(model(x), y) / 3
        loss.backward()
        return loss.detach()

    @step
    def update() -> None:
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(4):
        losses = [accumulate(source(4, 3), source.ints(2, 4)) for _ in range(3)]
        seen = gradients(model.parameters())
        update()
        yield sum(losses), seen, calls[-12:], gradients(model.parameters()), list(model.parameters())


@program()
def clipping_by_hooks(lib: Any, step: Any) -> Iterator[Any]:
    """Tensor hooks clip gradients; one is removed and another added between steps."""
    source, model = Source(lib), mlp(lib, 3, 6, 2)
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-2)
    handles = [p.register_hook(lambda g: g.clamp(-0.01, 0.01)) for p in model.parameters()]
    norms: list[float] = []

    @step
    def train(x: Any) -> Any:
        optimizer.zero_grad()
        hidden = model[0](x)
        hidden.register_hook(lambda g: norms.append(g.norm().item()))
        hidden.retain_grad()
        loss = model[1:](hidden).square().sum()
        loss.backward()
        optimizer.step()
        return loss, hidden.grad

    for i in range(6):
        if i == 2:
            handles[0].remove()
        if i == 3:
            model[2].weight.register_hook(lambda g: g * 0.5)
        yield train(source(4, 3)), norms[-1:], gradients(model.parameters()), list(model.parameters())


@program()
def gradient_reversal(lib: Any, step: Any) -> Iterator[Any]:
    """Domain adaptation: a Function that multiplies gradients by a number which changes every step."""
    source, F = Source(lib), lib.nn.functional
    features, label, domain = mlp(lib, 3, 5), mlp(lib, 5, 2, seed=1), mlp(lib, 5, 2, seed=2)
    params = [p for m in (features, label, domain) for p in m.parameters()]
    optimizer = lib.optim.SGD(params, lr=0.1, momentum=0.9)

    class Reverse(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, alpha: float) -> Any:
            ctx.alpha = alpha
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            return grad_output.neg() * ctx.alpha, None

    @step
    def train(x: Any, y: Any, d: Any, alpha: float) -> Any:
        optimizer.zero_grad()
        h = features(x)
        loss = F.cross_entropy(label(h), y) + F.cross_entropy(domain(Reverse.apply(h, alpha)), d)
        loss.backward()
        optimizer.step()
        return loss

    for i in range(6):
        batch = source(6, 3), source.ints(2, 6), source.ints(2, 6)
        yield train(*batch, 2 / (1 + np.exp(-i)).item() - 1), gradients(params), params


@program()
def straight_through(lib: Any, step: Any) -> Iterator[Any]:
    """A binary network and a quantised code book: round() with the identity's gradient, two ways."""
    source, F = Source(lib), lib.nn.functional

    class Sign(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return lib.where(x >= 0, 1.0, -1.0).to(x.dtype)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g.masked_fill(x.abs() > 1, 0.0)

    w, codes = source.leaf(4, 3), source.leaf(5, 3)
    optimizer = lib.optim.Adam([w, codes], lr=1e-2)

    @step
    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        h = x @ Sign.apply(w)
        nearest = ((h.unsqueeze(1) - codes) ** 2).sum(-1).argmin(dim=1)
        q = codes[nearest]
        commitment = F.mse_loss(h, q.detach()) * 0.25 + F.mse_loss(q, h.detach())
        out = h + (q - h).detach()
        out = out + (out.round() - out).detach()
        loss = F.l1_loss(out, y) + commitment
        loss.backward()
        optimizer.step()
        return loss, nearest

    for _ in range(5):
        yield train(source(6, 4), source(6, 3)), gradients([w, codes]), w, codes


@program()
def averaged_weights(lib: Any, step: Any) -> Iterator[Any]:
    """Mean teacher: an average by .data, another by no_grad copy_, a schedule, evaluation in inference mode."""
    source, model = Source(lib), mlp(lib, 3, 6, 2, activation="ReLU")
    teacher, slow = copy.deepcopy(model), copy.deepcopy(model)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = lib.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)

    @step
    def train(x: Any, y: Any, decay: float) -> Any:
        optimizer.zero_grad(set_to_none=True)
        with lib.no_grad():
            wanted = teacher(x).softmax(-1)
        out = model(x)
        loss = lib.nn.functional.cross_entropy(out, y) + (out.softmax(-1) - wanted).square().sum()
        loss.backward()
        optimizer.step()
        for p, t in zip(model.parameters(), teacher.parameters(), strict=True):
            t.data.mul_(decay).add_(p.data, alpha=1 - decay)
        return loss.item()

    @lib.no_grad()
    def look_ahead() -> None:
        for p, s in zip(model.parameters(), slow.parameters(), strict=True):
            s += 0.5 * (p - s)
            p.copy_(s)

    for i in range(6):
        loss = train(source(5, 3), source.ints(2, 5), 1 - 1 / (i + 2))
        scheduler.step()
        if i % 2:
            look_ahead()
        teacher.eval()
        with lib.inference_mode():
            score = teacher(source(5, 3)).argmax(-1)
        yield loss, score, optimizer.param_groups[0]["lr"], [list(m.parameters()) for m in (model, teacher, slow)]


@program()
def groups_that_change(lib: Any, step: Any) -> Iterator[Any]:
    """Discriminative learning rates; a group is added, options change, layers are unfrozen in mid training."""
    source, nn = Source(lib), lib.nn
    model = fill(lib, nn.Sequential(OrderedDict(body=nn.Linear(3, 5), act=nn.GELU(), head=nn.Linear(5, 2))))
    model.body.requires_grad_(False)
    optimizer = lib.optim.AdamW(model.head.parameters(), lr=1e-2, weight_decay=0.1)
    schedulers = lib.optim.lr_scheduler

    @step
    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        return loss

    scheduler = schedulers.StepLR(optimizer, step_size=2, gamma=0.5)
    for i in range(10):
        if i == 3:
            model.body.requires_grad_(True)
            optimizer.add_param_group({"params": model.body.parameters(), "lr": 1e-3})
            scheduler = schedulers.ExponentialLR(optimizer, gamma=0.9)
        if i == 6:
            for group in optimizer.param_groups:
                group["weight_decay"] = 0.0
            model.head.bias.requires_grad_(False)
            model.head.bias.grad = None
        seen = train(source(4, 3), source.ints(2, 4))
        scheduler.step()
        yield seen, scheduler.get_last_lr(), gradients(model.parameters()), list(model.parameters())


@program()
def tied_weights(lib: Any, step: Any) -> Iterator[Any]:
    """A language model whose output layer is its embedding; weights counted once."""
    source, nn = Source(lib), lib.nn

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(9, 4, padding_idx=0)
            self.norm = nn.LayerNorm(4)
            self.head = nn.Linear(4, 9, bias=False)
            self.head.weight = self.embedding.weight
            self.register_buffer("scale", lib.tensor(0.5, dtype=lib.float64))

        def forward(self, x: Any) -> Any:
            return self.head(self.norm(self.embedding(x)) * self.scale)

    model = fill(lib, Model())
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-2)

    @step
    def train(x: Any) -> Any:
        optimizer.zero_grad()
        logits = model(x[:, :-1])
        loss = nn.functional.cross_entropy(logits.reshape(-1, 9), x[:, 1:].reshape(-1), ignore_index=0)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(5):
        loss = train(source.ints(9, 3, 6))
        state = model.state_dict()
        tied = model.head.weight is model.embedding.weight
        yield loss, tied, [n for n, _ in model.named_parameters()], dict(state), gradients(model.parameters())


@program()
def watching_modules(lib: Any, step: Any) -> Iterator[Any]:
    """Forward hooks collect statistics, pre-hooks and full backward hooks change what passes; the order of calls."""
    source, model = Source(lib), mlp(lib, 3, 6, 6, 2, activation="ReLU")
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
    calls: list[str] = []
    means: dict[str, Any] = {}

    def watch(name: str, module: Any) -> None:
        def forward(module: Any, args: Any, output: Any) -> None:
            calls.append(f"forward {name}")
            means[name] = output.detach().abs().mean()

        def backward(module: Any, grad_input: Any, grad_output: Any) -> None:
            calls.append(f"backward {name} {[g is None for g in grad_input]} {tuple(grad_output[0].shape)}")

        module.register_forward_hook(forward)
        module.register_full_backward_hook(backward)

    for name, module in model.named_modules():
        if name:
            watch(name, module)
    model[2].register_forward_pre_hook(lambda module, args: (args[0] * 1.5,))
    model[0].register_full_backward_pre_hook(lambda module, grads: (grads[0] * 0.5,))
    model[4].register_forward_hook(lambda m, args, kwargs, out: out + 1, with_kwargs=True)

    @step
    def train(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(5):
        calls.clear()
        yield train(source(4, 3)), list(calls), dict(means), gradients(model.parameters())


@program()
def offload_to_disk(lib: Any, step: Any) -> Iterator[Any]:
    """saved_tensors_hooks keep big activations in files."""
    source, model = Source(lib), mlp(lib, 3, 6, 6, 2, activation="Sigmoid")
    counts = {"pack": 0, "unpack": 0}
    with tempfile.TemporaryDirectory() as folder:

        def pack(x: Any) -> Any:
            if x.numel() < 20:
                return x
            counts["pack"] += 1
            path = Path(folder) / f"{counts['pack']}.npy"
            np.save(path, x.detach().numpy())
            return path

        def unpack(x: Any) -> Any:
            if not isinstance(x, Path):
                return x
            counts["unpack"] += 1
            return lib.from_numpy(np.load(x))

        @step
        def train(x: Any) -> Any:
            model.zero_grad()
            with lib.autograd.graph.saved_tensors_hooks(pack, unpack):
                loss = model(x).square().mean()
            loss.backward()
            with lib.no_grad():
                for p in model.parameters():
                    p.sub_(p.grad, alpha=0.1)
            return loss

        for _ in range(4):
            yield train(source(4, 3)), dict(counts), gradients(model.parameters())


@program()
def save_and_resume(lib: Any, step: Any) -> Iterator[Any]:
    """A checkpoint of model, optimizer and schedule; another model goes on from the file."""
    source, F = Source(lib), lib.nn.functional
    batches = [(source(4, 3), source.ints(2, 4)) for _ in range(4)]

    def make() -> Any:
        model = mlp(lib, 3, 6, 2, activation="ReLU")
        optimizer = lib.optim.Adam(model.parameters(), lr=1e-2)
        return model, optimizer, lib.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)

    @step
    def train(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/checkpoint.pt"
        model, optimizer, scheduler = make()
        for i, (x, y) in enumerate(batches):
            yield train(model, optimizer, x, y), list(model.parameters())
            scheduler.step()
            lib.save(
                {
                    "epoch": i,
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(),
                },
                path,
            )
            checkpoint = lib.load(path)
            model, optimizer, scheduler = make()
            missing = model.load_state_dict(checkpoint["model"], strict=True)
            optimizer.load_state_dict(checkpoint["optimizer"])
            scheduler.load_state_dict(checkpoint["scheduler"])
            yield checkpoint["epoch"], list(missing.missing_keys), scheduler.get_last_lr()
        try:
            model.load_state_dict({"0.weight": checkpoint["model"]["0.weight"]})
        except Exception as error:
            yield describe_error(error), str(error)
        yield train(model, optimizer, *batches[0]), list(model.parameters())


@program()
def last_batch_is_short(lib: Any, step: Any) -> Iterator[Any]:
    """Epochs of 10 examples in batches of 4, with batch norm; evaluation in inference mode between."""
    source, nn = Source(lib), lib.nn
    model = fill(lib, nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2)))
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-2)
    data, labels = source(10, 3), source.ints(2, 10)
    evaluate = step(lambda x: model(x).argmax(-1))

    @step
    def train(x: Any, y: Any) -> Any:
        model.train()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y, reduction="sum")
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(3):
        total = 0.0
        for x, y in zip(data.split(4), labels.split(4), strict=True):
            total += train(x, y).item()
        model.eval()
        with lib.inference_mode():
            accuracy = (evaluate(data) == labels).double().mean().item()
        with lib.no_grad():
            again = evaluate(data)
        yield total, accuracy, again, dict(model.state_dict())


@program(fallbacks=4)
def sparse_embeddings(lib: Any, step: Any) -> Iterator[Any]:
    """word2vec with sparse gradients and SparseAdam; a dense head with its own optimizer."""
    source, nn = Source(lib), lib.nn
    words, contexts = nn.Embedding(12, 4, sparse=True), nn.Embedding(12, 4, sparse=True)
    model = fill(lib, nn.ModuleList([words, contexts]))
    optimizers = [lib.optim.SparseAdam(list(model.parameters()), lr=0.05)]

    @step
    def train(a: Any, b: Any, negative: Any) -> Any:
        for o in optimizers:
            o.zero_grad()
        center = words(a)
        good = (center * contexts(b)).sum(-1)
        bad = lib.bmm(contexts(negative), center.unsqueeze(2)).squeeze(2)
        loss = -(nn.functional.logsigmoid(good).mean() + nn.functional.logsigmoid(-bad).mean())
        loss.backward()
        for o in optimizers:
            o.step()
        return loss, words.weight.grad.is_sparse

    batches = [(source.ints(12, 5), source.ints(12, 5), source.ints(12, 5, 3)) for _ in range(2)]
    for i in range(8):
        seen = train(*batches[i % 2])
        yield seen, [p.grad.coalesce().indices() for p in model.parameters()], list(model.parameters())
