"""Programs that lean on the engine: checkpoints, threads, graphs that leave a step, errors in the middle of one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from program import Source, describe_error, fill, gradients, mlp, program


def _checkpointed(lib: Any, step: Any, use_reentrant: bool) -> Iterator[Any]:
    """Dropout in every checkpointed block: the mask of the second run is the first's, or gradients do not fit.

    The masks are the library's own, so what is compared is that y's gradient is what the kept elements say.
    """
    from importlib import import_module

    checkpoint = import_module(f"{lib.__name__}.utils.checkpoint").checkpoint
    source, F = Source(lib), lib.nn.functional
    model = mlp(lib, 4, 6, 6, 4)
    kept: list[Any] = []

    def block(x: Any) -> Any:
        mask = F.dropout(lib.ones_like(x), 0.5)
        kept.append(mask.detach())
        return model(x) + x * mask

    @step
    def train(x: Any) -> Any:
        model.zero_grad()
        kept.clear()
        out = checkpoint(block, x, use_reentrant=use_reentrant)
        out.sum().backward()
        return out

    for i in range(5):
        lib.manual_seed(i)
        x = source(3, 4).requires_grad_()
        train(x)
        first, second = kept
        direct = lib.autograd.grad(model(x).sum(), x)[0]
        yield bool((first == second).all()), lib.allclose(x.grad - direct, first), gradients(model.parameters())


@program()
def checkpointed_with_dropout(lib: Any, step: Any) -> Iterator[Any]:
    yield from _checkpointed(lib, step, use_reentrant=False)


@program()
def checkpointed_reentrant_with_dropout(lib: Any, step: Any) -> Iterator[Any]:
    yield from _checkpointed(lib, step, use_reentrant=True)


@program()
def deep_checkpointed_chain(lib: Any, step: Any) -> Iterator[Any]:
    """checkpoint_sequential, then the same with a second derivative outside of the step."""
    from importlib import import_module

    sequential = import_module(f"{lib.__name__}.utils.checkpoint").checkpoint_sequential
    source, model = Source(lib), mlp(lib, *[4] * 9)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1)

    @step
    def train(x: Any) -> Any:
        optimizer.zero_grad()
        loss = sequential(list(model), 3, x, use_reentrant=False).square().mean()
        (g,) = lib.autograd.grad(loss, x, create_graph=True)
        total = loss + g.square().sum()
        total.backward()
        optimizer.step()
        return total

    for _ in range(4):
        yield train(source(3, 4).requires_grad_()), gradients(model.parameters())


@program(is_steady=False)  # threads finish in any order
def hogwild(lib: Any, step: Any) -> Iterator[Any]:
    """Threads train one model without locks: each on rows of its own, so that the result is defined."""
    source = Source(lib)
    table, data = source.leaf(4, 5), [source(6, 5) for _ in range(4)]
    views = [table[i].detach() for i in range(4)]
    views = [v.requires_grad_() for v in views]

    @step
    def train(w: Any, x: Any) -> Any:
        loss = (x @ w - 1.0).square().mean()
        (g,) = lib.autograd.grad(loss, w)
        with lib.no_grad():
            w -= 0.05 * g
        return loss.detach()

    losses: list[Any] = [None] * 4

    def work(i: int) -> None:
        for _ in range(10):
            losses[i] = train(views[i], data[i])

    for _ in range(3):
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        yield losses, table


@program(is_steady=False)  # threads finish in any order
def data_parallel(lib: Any, step: Any) -> Iterator[Any]:
    """Replicas on threads compute gradients of their shards; the main thread averages and updates."""
    import copy

    source, model = Source(lib), mlp(lib, 3, 5, 1)
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-2)
    replicas = [copy.deepcopy(model) for _ in range(3)]

    @step
    def shard(replica: Any, x: Any) -> Any:
        replica.zero_grad()
        loss = replica(x).square().mean()
        loss.backward()
        return loss.detach()

    for _ in range(4):
        for r in replicas:
            r.load_state_dict(model.state_dict())
        shards, losses = source(9, 3).chunk(3), [None] * 3

        def work(i: int, shards: Any = shards, losses: Any = losses) -> None:
            losses[i] = shard(replicas[i], shards[i])

        threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for p, *copies in zip(model.parameters(), *(r.parameters() for r in replicas), strict=True):
            p.grad = lib.stack([c.grad for c in copies]).mean(0)
        optimizer.step()
        yield losses, list(model.parameters())


@program(fallbacks=100)  # what runs on a virtual device is eager
def model_parallel(lib: Any, step: Any) -> Iterator[Any]:
    """Two halves of a model on two devices, and a branch on each."""
    first, second = ("cpu", "cpu") if lib.__name__ == "torch" else ("vcpu:0", "vcpu:1")
    source = Source(lib)
    a, b, c = mlp(lib, 3, 5).to(first), mlp(lib, 5, 2, seed=1).to(second), mlp(lib, 3, 2, seed=2).to(second)
    params = [p for m in (a, b, c) for p in m.parameters()]
    optimizer = lib.optim.SGD(params, lr=0.1, momentum=0.9)

    @step
    def train(x: Any) -> Any:
        optimizer.zero_grad()
        out = b(a(x.to(first)).relu().to(second)) + c(x.to(second))
        loss = out.to("cpu").square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(4):
        yield train(source(4, 3)), gradients(params), params


@program()
def backward_outside(lib: Any, step: Any) -> Iterator[Any]:
    """Losses leave a compiled forward and are differentiated outside: once, twice, with hooks, after more forwards."""
    source, model = Source(lib), mlp(lib, 3, 5, 1)
    params = list(model.parameters())

    @step
    def forward(x: Any) -> Any:
        h = model[:2](x)
        return model[2](h).square().mean(), h

    for i in range(5):
        x = source(4, 3).requires_grad_()
        loss, h = forward(x)
        other, _ = forward(source(4, 3))
        seen: list[str] = []
        h.register_hook(lambda g, seen=seen: seen.append(f"hook {tuple(g.shape)}"))
        (g,) = lib.autograd.grad(loss + other, x, create_graph=True)
        penalty = g.square().sum()
        model.zero_grad()
        penalty.backward(retain_graph=bool(i % 2))
        once = gradients(params)
        try:
            loss.backward()
        except RuntimeError as error:
            seen.append(str(error)[:44])
        yield loss, h, penalty, seen, x.grad, once, gradients(params), loss.grad_fn.name()


@program()
def nested_functions(lib: Any, step: Any) -> Iterator[Any]:
    """Compiled functions that call each other, as layers of a module and as a training step."""
    source, nn = Source(lib), lib.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)
            self.compiled = step(self.mix)

        def mix(self, x: Any) -> Any:
            return x + nn.functional.silu(self.inner(x))

        def forward(self, x: Any) -> Any:
            return self.compiled(x)

    model = fill(lib, nn.Sequential(Block(), Block(), nn.Linear(4, 1)))
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-2)

    @step
    def gradient_norm(x: Any) -> Any:
        x = x.detach().requires_grad_()
        return lib.autograd.grad(model(x).sum(), x, create_graph=True)[0].norm()

    @step
    def train(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean() + gradient_norm(x)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(4):
        x = source(3, 4)
        yield gradient_norm(x), model(x), train(x), gradients(model.parameters())


@program()
def errors_and_going_on(lib: Any, step: Any) -> Iterator[Any]:
    """Exceptions of the user's, of the library's and of hooks, in the middle of a step; the next step is fine."""
    source, model = Source(lib), mlp(lib, 3, 5, 2)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    class Refuse(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, refuse: bool) -> Any:
            ctx.refuse = refuse
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            if ctx.refuse:
                raise ArithmeticError("no gradient today")
            return g, None

    @step
    def train(x: Any, what: str) -> Any:
        optimizer.zero_grad()
        h = model(x)
        if what == "user":
            raise KeyError("data")
        if what == "shape":
            h = h + lib.ones(7, dtype=h.dtype)
        if what == "index":
            h = h[:, 5]
        if what == "type":
            h = h.index_select(0, h)
        loss = Refuse.apply(h, what == "backward").square().mean()
        if what == "twice":
            loss.backward()
        if what == "in-place":
            w = model[2].weight
            w += 1
        if what == "vector":
            loss = h
        loss.backward()
        optimizer.step()
        return loss

    for what in ("", "user", "", "shape", "index", "type", "", "backward", "twice", "in-place", "vector", "", ""):
        try:
            seen = train(source(4, 3), what)
        except Exception as error:
            seen = describe_error(error)
        yield seen, gradients(model.parameters()), list(model.parameters())


@program()
def finding_a_nan(lib: Any, step: Any) -> Iterator[Any]:
    """Anomaly mode names the operation; without it the NaN goes through; skipping the bad step keeps the model."""
    source = Source(lib)
    w = source.leaf(3)
    optimizer = lib.optim.SGD([w], lr=0.1)

    @step
    def train(x: Any) -> Any:
        optimizer.zero_grad()
        loss = lib.sqrt((x * w).clamp(min=0)).sum()
        loss.backward()
        if not lib.isfinite(w.grad).all():
            return "skipped"
        optimizer.step()
        return loss

    good, bad = w.detach().sign(), lib.zeros(3, dtype=lib.float64)
    for x in (good, bad, good, bad, good):
        try:
            with lib.autograd.detect_anomaly(check_nan=True):
                seen = train(x)
        except RuntimeError as error:
            seen = str(error)
        yield seen, w
        yield train(x), w, w.grad


@program()
def multi_grad_hooks(lib: Any, step: Any) -> Iterator[Any]:
    """Hooks of every kind on one graph; what they see, and in which order."""
    source, model = Source(lib), mlp(lib, 3, 4, 4, 2)
    calls: list[Any] = []
    graph = lib.autograd.graph

    @step
    def train(x: Any) -> Any:
        model.zero_grad()
        a = model[0](x)
        b = model[1](a)
        c = model[2](b)
        a.register_hook(lambda g: calls.append("a") or g * 2)
        b.register_hook(lambda g: calls.append("b"))
        a.grad_fn.register_prehook(lambda gs: calls.append("pre a"))
        a.grad_fn.register_hook(lambda gi, go: calls.append("post a"))
        c.retain_grad()
        graph.register_multi_grad_hook((a, b, c), lambda gs: calls.append([g is None for g in gs]))
        graph.register_multi_grad_hook((b, c), lambda g: calls.append("any"), mode="any")
        handle = b.register_hook(lambda g: calls.append("never"))
        handle.remove()
        loss = model[3:](c).square().sum()
        loss.backward()
        return loss, c.grad

    for _ in range(4):
        calls.clear()
        yield train(source(2, 3)), list(calls), gradients(model.parameters())
