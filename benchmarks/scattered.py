"""``python -m benchmarks.scattered``: embeddings, gathers, scatters and sparse gradients against PyTorch."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks import alternating
from benchmarks.recurrent import calls, values_of

__all__ = ["CASES", "main"]

ROWS, WIDTH, PICKED = 1000, 64, 2048  # of a table, and how many of its rows are picked or added to
USERS, ITEMS, RANK, BATCH = 6000, 4000, 32, 1024  # of a matrix of ratings
NODES, EDGES, FEATURES = 1000, 8000, 32  # of a graph


class Operands:
    """The tensors of the cases of one operation: a table, what is added to it, and where."""

    def __init__(self, m: Any) -> None:
        rng = np.random.default_rng(0)
        self.table = values_of(m, ROWS, WIDTH)(rng).requires_grad_()
        self.source = values_of(m, PICKED, WIDTH)(rng).requires_grad_()
        self.rows = m.from_numpy(rng.integers(0, ROWS, PICKED))
        self.places = m.from_numpy(rng.integers(0, ROWS, (PICKED, WIDTH)))
        self.distinct = m.from_numpy(rng.permutation(ROWS)[: ROWS // 2])
        self.flat = values_of(m, ROWS * WIDTH)(rng).requires_grad_()
        self.line = values_of(m, ROWS)(rng).requires_grad_()


OPERATIONS: dict[str, Callable[[Operands], Any]] = {
    "table[rows]": lambda o: o.table[o.rows],
    "index_select": lambda o: o.table.index_select(0, o.rows),
    "index_add": lambda o: o.table.index_add(0, o.rows, o.source),
    "gather": lambda o: o.table.gather(0, o.places),
    "scatter_add": lambda o: o.table.scatter_add(0, o.places, o.source),
    "scatter_add, one dimension": lambda o: o.line.scatter_add(0, o.places.view(-1)[:8192], o.flat[:8192]),
    "scatter": lambda o: o.table.scatter(0, o.places, o.source),
    "index_copy": lambda o: o.table.index_copy(0, o.distinct, o.source[: ROWS // 2]),
    "index_put": lambda o: o.table.index_put((o.distinct,), o.source[: ROWS // 2]),
    "index_put, accumulate": lambda o: o.table.index_put((o.rows,), o.source, accumulate=True),
    "take": lambda o: o.flat.take(o.places),
    "computed rows": lambda o: o.table[(o.rows * 3) % ROWS],
    "rows from scores": lambda o: o.table[(o.source.detach()[:, 0].abs() * 100).long()],
    **{
        f"scatter_reduce, {kind}": lambda o, kind=kind: o.table.scatter_reduce(0, o.places, o.source, kind)  # type: ignore[misc]
        for kind in ("sum", "mean", "prod", "amax")
    },
}


def operation(name: str, subject: str, kind: str) -> Callable[[], list[Any]]:
    """A row of ``OPERATIONS``, and in a step the gradients of what it reads."""
    operands = Operands(importlib.import_module(subject))
    leaves = [operands.table, operands.source, operands.flat, operands.line]
    call = calls(subject, kind, leaves, lambda: OPERATIONS[name](operands))
    return lambda: [x for x in call() if x is not None]


def embedding(subject: str, kind: str) -> Callable[[], list[Any]]:
    m = importlib.import_module(subject)
    operands, functional = Operands(m), importlib.import_module(f"{subject}.nn.functional")
    return calls(subject, kind, [operands.table], lambda: functional.embedding(operands.rows, operands.table))


def training(subject: str, kind: str, parameters: list[Any], optimizer: Any, loss_of: Callable[[], Any]) -> Any:
    """A call of the loss; in a step, of it, its backward and the optimizer's step."""
    m = importlib.import_module(subject)

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = step if kind == "step" else lambda: loss_of().detach()
    compiled = m.compile(run) if subject == "jitgrad" else run
    return lambda: [compiled(), *(p.detach() for p in parameters)]


def factors(optimizer: str, is_sparse: bool, subject: str, kind: str) -> Callable[[], list[Any]]:
    """Factors of a matrix of ratings: two tables, of which a step touches few rows."""
    m, rng = importlib.import_module(subject), np.random.default_rng(0)
    functional = importlib.import_module(f"{subject}.nn.functional")
    tables = [values_of(m, n, RANK, scale=0.1)(rng).requires_grad_() for n in (USERS, ITEMS)]
    users, items = (m.from_numpy(rng.integers(0, n, BATCH)) for n in (USERS, ITEMS))
    ratings = values_of(m, BATCH)(rng)

    def loss_of() -> Any:
        left = functional.embedding(users, tables[0], sparse=is_sparse)
        right = functional.embedding(items, tables[1], sparse=is_sparse)
        return functional.mse_loss((left * right).sum(1), ratings)

    return training(subject, kind, tables, getattr(m.optim, optimizer)(tables, lr=1e-3), loss_of)


def graph(reduce: str, subject: str, kind: str) -> Callable[[], list[Any]]:
    """Two rounds of message passing: messages of edges, combined at the nodes where they end."""
    m, rng = importlib.import_module(subject), np.random.default_rng(0)
    functional = importlib.import_module(f"{subject}.nn.functional")
    weights = [values_of(m, FEATURES, FEATURES, scale=FEATURES**-0.5)(rng).requires_grad_() for _ in range(4)]
    nodes, targets = (values_of(m, NODES, FEATURES)(rng) for _ in range(2))
    starts, ends = (m.from_numpy(rng.integers(0, NODES, EDGES)) for _ in range(2))

    def combined(messages: Any) -> Any:
        zeros = m.zeros(NODES, FEATURES)
        if reduce == "sum":
            return zeros.index_add(0, ends, messages) / 8
        return zeros.scatter_reduce(0, ends.unsqueeze(1).expand(EDGES, FEATURES), messages, reduce)

    def loss_of() -> Any:
        h = nodes
        for own, other in zip(weights[::2], weights[1::2], strict=True):
            h = m.tanh(h @ own + combined((h @ other)[starts]))
        return functional.mse_loss(h, targets)

    return training(subject, kind, weights, m.optim.SGD(weights, lr=1e-3), loss_of)


CASES = (
    alternating.Case("embedding", embedding),
    *(alternating.Case(name, partial(operation, name)) for name in OPERATIONS),
    alternating.Case("factors, dense gradients, SGD", partial(factors, "SGD", False)),
    alternating.Case("factors, sparse gradients, SGD", partial(factors, "SGD", True)),
    alternating.Case("factors, sparse gradients, SparseAdam", partial(factors, "SparseAdam", True)),
    *(alternating.Case(f"graph network, {kind} of messages", partial(graph, kind)) for kind in ("sum", "mean", "amax")),
)


def main() -> int:
    return alternating.main("benchmarks.scattered", CASES, __doc__.splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())
