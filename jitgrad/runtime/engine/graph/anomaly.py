"""Anomaly mode: where in the forward the node was made whose backward goes wrong.

Owns: what a node remembers while the mode is on, the NaN check, the report.
Must not know: where the mode is switched on, how the engine runs.
In: nodes as they are made, and as they run. Out: entries of ``node.metadata``, a warning, a note on the exception.

# Note [Anomaly mode]
# ~~~~~~~~~~~~~~~~~~~
# ``anomaly.enabled`` (state.py) is looked at where Nodes are made: operations', custom functions', ``CopySlices``. They
# then keep the stack under ``metadata["traceback_"]`` and, made inside a backward, the node that was running under
# ``metadata["parent_"]``: PyTorch's names. The engine asks ``check_nan`` about what a node returned, and has
# ``report`` tell of the node whose run failed, whatever the error was. A compiled function that is called in the mode
# runs eagerly; the Nodes of one that was called before know the line that its trace recorded.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jitgrad.grad_mode import no_grad
from jitgrad.lazy import LazyModule
from jitgrad.ops.dispatch_hook import call
from jitgrad.state import anomaly
from jitgrad.user_line import PACKAGE

if TYPE_CHECKING:
    from jitgrad.runtime.engine.graph.node import Node

__all__ = ["check_nan", "report", "store_line", "store_stack"]

_traceback = LazyModule("traceback")
_PARENT, _TRACEBACK = "parent_", "traceback_"


def store_stack(node: Node, parent: Node | None) -> None:
    """Keep where ``node`` is made: the stack down to the user's last line; ``parent``: the node whose run makes it."""
    frames = _traceback.extract_stack()
    while frames and frames[-1].filename.startswith(PACKAGE):
        frames.pop()
    node.metadata[_TRACEBACK] = _traceback.format_list(frames)
    if parent is not None:
        node.metadata[_PARENT] = parent


def store_line(node: Node, where: str) -> None:
    """``store_stack`` for a node whose operation was recorded: all that is known is ``file:line``."""
    if where:
        name, _, line = where.rpartition(":")
        node.metadata[_TRACEBACK] = _traceback.format_list([_traceback.FrameSummary(name, int(line), "compiled step")])


def check_nan(node: Node, outputs: Sequence[Any]) -> None:
    """RuntimeError if a gradient that ``node`` has computed has a NaN in it, unless nobody wants to know."""
    if not (anomaly.enabled and anomaly.check_nan):
        return
    for index, grad in enumerate(outputs):
        if grad is not None and grad.dtype.is_inexact and _has_nan(grad):
            raise RuntimeError(f"Function '{_name_of(node)}' returned nan values in its {index}th output.")


def _has_nan(grad: Any) -> bool:
    with no_grad():
        values = grad.coalesce().values() if grad.is_sparse else grad.detach()
        return bool(call("ne", values, values).any())


def report(node: Node, error: BaseException | None = None) -> None:
    """Warn of the node whose backward failed, with its forward's traceback; the error gets the line as a note.

    Where warnings are errors the error itself is more important, and the note says the same.
    """
    name = _name_of(node)
    frames = node.metadata.get(_TRACEBACK)
    if not frames:
        text = (
            f"Error detected in {name}. No forward pass information available. Enable detect anomaly during forward "
            "pass for more information."
        )
    else:
        text = f"Error detected in {name}. Traceback of forward call that caused the error:\n{''.join(frames)}"
        if error is not None:
            error.add_note(f"in the backward of {name}, whose forward is here:\n{frames[-1].rstrip()}")
    _warn(text)
    parent, seen = node.metadata.get(_PARENT), {id(node)}
    while parent is not None and id(parent) not in seen:
        seen.add(id(parent))
        _warn(_induced_by(parent))
        parent = parent.metadata.get(_PARENT)


def _induced_by(parent: Node) -> str:
    name, frames = _name_of(parent), parent.metadata.get(_TRACEBACK)
    head = f"\n\nPrevious calculation was induced by {name}. "
    if not frames:
        return (
            f"{head}No forward pass information available. Enable detect anomaly during forward pass for more "
            "information."
        )
    return f"{head}Traceback of forward call that induced the previous calculation:\n{''.join(frames)}"


def _warn(text: str) -> None:
    try:
        warnings.warn(text, UserWarning, stacklevel=2)
    except UserWarning:
        return


def _name_of(node: Node) -> str:
    return type(node).name(node)  # whatever the user of a custom function keeps under ``ctx.name``
