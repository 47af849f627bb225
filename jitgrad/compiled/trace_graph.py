"""The graph behind results that escape a compiled step, built only if somebody asks.

Owns: ``TraceGraph``.

# Note [Escaping graphs]
# ~~~~~~~~~~~~~~~~~~~~~~
# Every differentiable handle of a call points at the call's one ``TraceGraph``. While the call runs, it answers from
# the recorder. Afterwards it holds what the survivors' graph needs - the end of the path, the saved values' storages,
# the leaves - and builds the Nodes on the first look at a ``grad_fn``. The versions that the saved tensors had when the
# segment ended are kept, so a later in-place change is noticed as in eager mode.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitgrad.compiled.graph_nodes import Sources, build_nodes, fresh_handle
from jitgrad.state import state, switch_recorder
from jitgrad.tracer.history import History

__all__ = ["TraceGraph"]


class TraceGraph:
    """What the escaped results of one call can be differentiated with.

    Attributes:
        tid: the call.
        recorder: the recorder while the call runs, then None.
        tip: the end of the path when a segment last left differentiable survivors.
    """

    __slots__ = (
        "_buffers",
        "_counters",
        "_inputs",
        "_nodes",
        "_outer",
        "_saves",
        "_scalars",
        "_versions",
        "recorder",
        "tid",
        "tip",
    )

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        self.tid = recorder.tid
        self.tip: Any = None
        self._saves = False
        self._buffers: dict[int, Any] = {}
        self._inputs: dict[int, Any] = {}
        self._outer: dict[int, Any] = {}
        self._scalars: list[int | float] = []
        self._nodes: dict[int, Any] = {}
        self._counters: dict[int, list[int]] = {}
        self._versions: dict[int, int] = {}

    def begin(self, recorder: Any) -> None:
        """Serve another call, when nothing of the last one escaped."""
        self.recorder = recorder
        self.tid = recorder.tid

    def keep(self, tip: Any, alive: list[Any], saves: bool) -> None:
        """Remember the path, and the versions of everything that may have been saved."""
        self.tip = tip
        if not saves:
            return
        self._saves = True
        self._note_versions([*self.recorder.inputs.values(), *alive])

    def _note_versions(self, tensors: Iterable[Any]) -> None:
        """Remember which version each value has, the first time it is seen."""
        for tensor in tensors:
            vid = tensor._vid
            if tensor._tid == self.tid and vid not in self._counters:
                self._counters[vid] = tensor._vc
                self._versions[vid] = tensor._vc[0]

    def close(self) -> None:
        """The call is over: hold on to what the graph needs, and to nothing else."""
        recorder, self.recorder = self.recorder, None
        if self.tip is None:
            return
        self.tip = recorder.node  # what came after the survivors counts: values overwritten, graphs used up
        self._inputs, self._scalars, self._outer = recorder.inputs, recorder.scalars, recorder.outer
        if self._saves:
            self._buffers = recorder.buffers
        else:  # a graph that has been used up: its shape, and its leaves
            self._inputs = {vid: t for vid, t in recorder.inputs.items() if t._requires_grad}

    def attach(self, tensor: Any) -> None:
        """Give an escaped tensor its ``grad_fn``."""
        tensor._grad_fn, tensor._output_nr = self._find(tensor._vid)

    def node_of(self, tensor: Any) -> Any:
        """The Node of a value, also while the call runs."""
        self.attach(tensor)
        return tensor._grad_fn

    def _find(self, vid: int) -> tuple[Any, int]:
        found = self._nodes.get(vid)
        if found is None:
            self._nodes.update(self._build(vid))
            found = self._nodes.get(vid) or self._outer_of(vid)
        return found

    def _outer_of(self, vid: int) -> tuple[Any, int]:
        """The Node of a value that is still an input's, written outside the graph."""
        recorder = self.recorder
        history = History.replay(recorder.node if recorder is not None else self.tip)
        outer = recorder.outer if recorder is not None else self._outer
        return outer[history.node_source(vid)]

    def _build(self, vid: int) -> dict[int, Any]:
        recorder = self.recorder
        if recorder is not None:
            if state.recorder is recorder:
                recorder.flush()  # the Nodes save values, and those must have storages
            self._note_versions(recorder.inputs.values())
            history = History.replay(recorder.node)
            buffers, inputs, scalars = recorder.buffers, recorder.inputs, recorder.scalars
            outer = recorder.outer
        else:
            history = History.replay(self.tip)
            buffers, inputs, scalars = self._buffers, self._inputs, self._scalars
            outer = self._outer
        active = switch_recorder(None)
        try:
            sources = Sources(
                lambda v: self._value(history, buffers, v),
                inputs.__getitem__,
                outer.__getitem__,
                scalars,
                lambda v: v in buffers or v not in history.defs,
            )
            nodes = build_nodes(history, [vid], sources, self._nodes)
        finally:
            switch_recorder(active)
        fresh = {v: pair for v, pair in nodes.items() if v not in self._nodes}
        self._restore_versions(fresh)
        return fresh

    def _value(self, history: History, buffers: dict[int, Any], vid: int) -> Any:
        handle = fresh_handle(history.aval_of(vid), buffers.get(vid), self.tid, vid)
        counter = self._counters.get(vid)
        if counter is not None and vid not in history.overwritten:
            handle._vc = counter
        return handle

    def _restore_versions(self, nodes: dict[int, Any]) -> None:
        """Saved at the end of the segment, not now."""
        for node, _ in nodes.values():
            for saved in node.saved or ():
                version = self._versions.get(getattr(getattr(saved, "tensor", None), "_vid", -1))
                if version is not None and saved.tensor._vc is self._counters.get(saved.tensor._vid):
                    saved.version = version
