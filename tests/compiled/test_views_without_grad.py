"""Views that are made while no graph is: hits make them natively, and they are what eager mode's are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import jitgrad as jg
from jitgrad.runtime.engine.graph.creation_meta import CreationMeta
from jitgrad.tracer.misses.operations import Operations

VIEWS: dict[str, Callable[[Any], Any]] = {
    "view": lambda x: x.view(-1),
    "t": lambda x: x.t(),
    "row": lambda x: x[1],
    "rows": lambda x: x[1:3],
    "column": lambda x: x[:, 2],
    "view of a view": lambda x: x.t()[1:4],
    "unsqueeze": lambda x: x.unsqueeze(0),
    "chunk": lambda x: x.chunk(2, 1)[1],
    "unbind": lambda x: x.unbind(0)[2],
    "view of a part": lambda x: x.split(2, 0)[1].t(),
    "narrow of a diagonal": lambda x: x.diagonal().narrow(0, 1, 2),
}
MODES = {"no_grad": jg.no_grad, "inference_mode": jg.inference_mode, "grad": jg.enable_grad}
SOURCES: dict[str, Callable[[], Any]] = {
    "plain": lambda: jg.arange(24.0).reshape(4, 6),
    "leaf": lambda: jg.arange(24.0).reshape(4, 6).requires_grad_(),
    "integers": lambda: jg.arange(24).reshape(4, 6),
}


@contextmanager
def no_operation_in_python() -> Iterator[None]:
    """``Operations.apply`` must not be called: what comes there is no usual hit."""
    usual, seen = Operations.apply, []

    def apply(self: Any, op: Any, args: Any) -> Any:
        seen.append(op.name)
        return usual(self, op, args)

    Operations.apply = apply  # type: ignore[method-assign]
    try:
        yield
    finally:
        Operations.apply = usual  # type: ignore[method-assign]
    assert seen == []


def _told(view: Any, base: Any) -> dict[str, Any]:
    meta = view._creation_meta
    return {
        "values": view.tolist(), "stride": view.stride(), "base": view._base is base, "meta": meta,
        "requires_grad": view.requires_grad, "leaf": view.is_leaf, "inference": view.is_inference(),
    }  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", VIEWS)
def test_a_view_is_what_eager_mode_makes(kind: str, source: str, mode: str) -> None:
    view = VIEWS[kind]
    given = SOURCES[source]()

    def step(x: Any) -> Any:
        if x.dtype.is_floating_point and not x.requires_grad:
            x = x * 1.0  # a value of the call
        return x, view(x)

    compiled = jg.compile(step)
    with MODES[mode]():
        base, found = step(given)
        expected = _told(found, base)
        for _ in range(3):
            base, found = compiled(given)
            assert _told(found, base) == expected
        again = found.view_as(found)
        assert again._creation_meta is expected["meta"] or mode != "grad"


@pytest.mark.parametrize("kind", VIEWS)
def test_one_path_serves_no_grad_and_inference_mode(kind: str) -> None:
    """Which of them it is, is no part of a path; hits ask when they make a view."""
    view = VIEWS[kind]
    compiled = jg.compile(lambda x: view(x * 2.0))
    x = jg.arange(24.0).reshape(4, 6)
    for mode, meta in ((jg.no_grad, CreationMeta.NO_GRAD_MODE), (jg.inference_mode, CreationMeta.INFERENCE_MODE)) * 2:
        with mode():
            assert compiled(x)._creation_meta is meta
    with jg.no_grad():
        assert compiled(x)._creation_meta is CreationMeta.NO_GRAD_MODE


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_hits_and_new_paths_make_them_without_python(mode: str) -> None:
    def step(x: Any) -> list[Any]:
        y = x * 2.0
        made = [view(y) for view in VIEWS.values()]
        return [part + 1.0 for part in made]

    x = jg.arange(24.0).reshape(4, 6)
    with MODES[mode]():
        expected = [part.tolist() for part in step(x)]
        compiled = jg.compile(step)
        for _ in range(3):
            compiled(x)
        with no_operation_in_python():
            assert [part.tolist() for part in compiled(x)] == expected


def test_new_views_are_recorded_natively() -> None:
    """Kinds that were met before grow in no_grad mode, too: only the first of each is recorded in Python."""

    def step(x: Any, count: int) -> Any:
        total = x * 1.0
        for _ in range(count):
            total = total + x.t().t()
        return total

    with jg.no_grad():
        x = jg.ones(5, 5)
        usual, seen = Operations.apply, []

        def apply(self: Any, op: Any, args: Any) -> Any:
            seen.append(op.name)
            return usual(self, op, args)

        compiled = jg.compile(step)
        compiled(x, 2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Operations, "apply", apply)
            assert compiled(x, 40).tolist() == [[41.0] * 5] * 5
    assert len(seen) < 5, seen


@pytest.mark.parametrize("kind", [*VIEWS, "einsum", "index"])
def test_views_of_what_requires_grad_do_once_the_mode_is_on(kind: str) -> None:
    """Their gradient goes nowhere, but what is made of them requires grad: as in eager mode, and in PyTorch."""
    view = {"einsum": lambda x: jg.einsum("ij->ji", x), "index": lambda x: x[None, 1:, 2], **VIEWS}[kind]

    def step(w: Any) -> Any:
        base = w * 1.0
        with jg.no_grad():
            found = view(base)
            early = (found * 2.0).requires_grad
            again = found.view_as(found)
        late = [x.requires_grad for x in (found, again, found * 2.0, again * 2.0)]
        return early, late, found._base is base, (found * 2.0).sum() + base.sum()

    results = []
    compiled = [jg.compile(step) for _ in range(2)]  # the second records kinds that the first has met
    for run in (step, *compiled[:1] * 5, *compiled[1:] * 5):
        w = jg.arange(24.0).reshape(4, 6).requires_grad_()
        *told, total = run(w)
        total.backward()
        results.append((told, total.item(), w.grad.tolist()))
    assert results[0][0] == [False, [True] * 4, True]
    assert results[1:] == results[:1] * 10


def test_a_write_through_one_is_refused_as_in_eager_mode() -> None:
    def step(x: Any, w: Any) -> Any:
        base = x * 1.0
        with jg.no_grad():
            part = base[1:]
        part.mul_(w)
        return base

    compiled, said = jg.compile(step), []
    for run in (step, compiled, compiled, compiled):
        with pytest.raises(RuntimeError, match="A view was created in no_grad mode") as caught:
            run(jg.ones(3, 2), jg.ones(2, 2, requires_grad=True))
        said.append(str(caught.value))
    assert said == said[:1] * 4
