"""A backward while levels are active, see Note [Levels].

Owns: ``record_under_levels``.
Must not know: the levels' rules.
In: a request about handles. Out: handles.

The graph of a ``vmap`` is the graph of its whole batches: examples do not mix, so one backward of the batch, from a
batch of seeds, is the backward of every example. The request is brought down to whole batches, level by level, run
there, and its results are lifted again. What else is active - tangents, seeds that are batched where the graph is not,
as in ``jacrev`` - sees the rules' operations, because the engine runs with all levels in place. If nothing is, the
request goes to the bottom, where a compiled step records it as one event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.runtime.engine.graph.accumulate_grad import gradient_edge
from jitgrad.runtime.engine.graph.node import Edge
from jitgrad.runtime.engine.run.request import BackwardRequest, execute_request, fill_grads, output_edge
from jitgrad.state import switch_handler
from jitgrad.structs import replaced
from jitgrad.transforms.batched import Batching, nests
from jitgrad.transforms.level import Level, active_levels

__all__ = ["record_under_levels"]


def record_under_levels(top: Level, request: BackwardRequest) -> tuple[Any, ...]:
    """Carry out a request; ``top`` is the thread's recorder."""
    levels = active_levels()
    batches = [one for one in levels if isinstance(one, Batching) and any(nests(one, r) for r in request.roots)]
    if batches and request.accumulate:
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use functorch.grad or "
            "functorch.vjp instead or call backward() outside of functorch transforms."
        )
    if batches:
        request = replaced(request, grads=fill_grads(request.roots, request.grads))
    for batch in batches:
        request = _lowered(batch, request)
    if _is_plain(levels, request):
        results = _at_bottom(top, request)
    else:
        results = execute_request(_by_edges(top, request))
        if top.bottom is not None and not request.keep_graph:
            top.bottom.mark_released(
                (_known_ids(top.bottom, request.roots), _known_ids(top.bottom, request.inputs))
            )
    for batch in reversed(batches):
        results = tuple([None if g is None else batch.lift(g) for g in results])
    return results


def _lowered(batch: Batching, request: BackwardRequest) -> BackwardRequest:
    """The request about whole batches."""
    inputs = request.inputs
    if any(not isinstance(x, Edge) and not nests(batch, x) for x in inputs):
        raise RuntimeError(
            "grad() inside vmap with respect to a tensor that is not mapped over: its gradient differs from example to "
            "example. Use func.grad or func.vjp inside vmap instead."
        )

    def lower(x: Any) -> Any:
        return x if x is None or isinstance(x, Edge) else batch.lower(x)

    return replaced(
        request,
        roots=tuple(map(lower, request.roots)),
        grads=tuple(map(lower, request.grads)),
        inputs=tuple(map(lower, inputs)),
    )


def _is_plain(levels: list[Level], request: BackwardRequest) -> bool:
    """Whether no level has anything to do with the rules' operations."""
    for one in levels:
        if isinstance(one, Batching):
            if any(nests(one, g) for g in request.grads):
                return False
        elif not one.is_idle():
            return False
    return True


def _at_bottom(top: Level, request: BackwardRequest) -> tuple[Any, ...]:
    before = switch_handler(top.bottom)
    try:
        if top.bottom is None:
            return execute_request(request)
        return tuple(top.bottom.record_backward(request) or ())
    finally:
        switch_handler(before)


def _known_ids(recorder: Any, tensors: Sequence[Any]) -> tuple[int, ...]:
    return tuple([getattr(t, "_vid", -1) if getattr(t, "_tid", 0) == recorder.tid else -1 for t in tensors])


def _by_edges(top: Level, request: BackwardRequest) -> BackwardRequest:
    """The graph belongs to the bottom, so that is where its edges are looked up."""
    grads = fill_grads(request.roots, request.grads)
    before = switch_handler(top.bottom)
    try:
        roots = tuple([r if isinstance(r, Edge) else gradient_edge(r) for r in request.roots])
        inputs = tuple([output_edge(x, request.accumulate) for x in request.inputs])
    finally:
        switch_handler(before)
    return replaced(request, roots=roots, grads=grads, inputs=inputs)
