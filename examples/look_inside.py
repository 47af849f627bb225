"""Look inside a backward: who ran, in which order, on what; why a gradient is missing; where the time went.

A small network that uses one layer twice, with a mistake in it. Everything shown works the same in a compiled step; the
last part shows what is left of the operations there. Run ``python examples/look_inside.py``; the drawing of the graph
goes to ``graph.dot`` (``dot -Tsvg graph.dot -o graph.svg`` makes a picture).
"""

from __future__ import annotations

from pathlib import Path

import jitgrad
from jitgrad import nn, optim
from jitgrad.autograd import engine
from jitgrad.autograd.graph import to_dot, why_none
from jitgrad.profiler import profile, record_function


class Twice(nn.Module):
    """``outer(relu(inner(x)) + inner(x))``, and a scale that somebody detached."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.outer = nn.Linear(3, 1)
        self.scale = nn.Parameter(jitgrad.ones(1))

    def forward(self, x: jitgrad.Tensor) -> jitgrad.Tensor:
        """(n, 3) to (n, 1)."""
        hidden = self.inner(x)
        return self.outer(hidden.relu() + self.inner(hidden)) * self.scale.detach()


def look_at_the_graph(loss: jitgrad.Tensor, model: nn.Module) -> None:
    """The Nodes before anything runs: names, edges, what they saved."""
    print("--- the graph, from the loss down")
    node = loss.grad_fn
    for _ in range(4):
        edges = ", ".join("-" if target is None else target.name() for target, _ in node.next_functions)
        print(f"{node.name():16} -> {edges}")
        node = node.next_functions[0][0]
    Path("graph.dot").write_text(to_dot(loss, params=dict(model.named_parameters())))
    print("drawn in graph.dot")


def watch_the_engine(loss: jitgrad.Tensor) -> None:
    """What the engine does, event by event: the layer that is used twice waits for both of its gradients."""
    print("\n--- the engine")
    with engine.trace() as trace:
        loss.backward(retain_graph=True)
    print(trace)
    print(f"executed: {', '.join(trace.names('exec'))}")


def find_missing_gradients(loss: jitgrad.Tensor, model: nn.Module) -> None:
    """For every parameter without a gradient, the reason in words."""
    print("\n--- who has no gradient, and why")
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            print(f"{name}: {why_none(parameter, loss)}")


def see_where_time_goes(model: nn.Module, x: jitgrad.Tensor) -> None:
    """The same step, eagerly and compiled, under the profiler."""

    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        with record_function("forward"):
            loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()

    compiled = jitgrad.compile(step)
    compiled()  # records and compiles
    for name, run in (("eager", step), ("compiled", compiled)):
        with profile() as prof:
            run()
        print(f"\n--- {name}: {len(prof.function_events)} ranges")
        print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=6))


def main() -> None:
    """Print it all."""
    jitgrad.manual_seed(0)
    model, x = Twice(), jitgrad.randn(5, 3)
    loss = (model(x) ** 2).mean()
    look_at_the_graph(loss, model)
    watch_the_engine(loss)
    find_missing_gradients(loss, model)
    see_where_time_goes(model, x)


if __name__ == "__main__":
    main()
