"""``SavedVariable``: a tensor that waits for its backward.

Owns: the version check, saving an output without a reference cycle, and saving what a pack hook makes of a tensor.
Must not know: operations, the engine.

# Note [Saved-tensor hooks]
# ~~~~~~~~~~~~~~~~~~~~~~~~~
# ``state.saved_tensor_hooks`` is the stack of default hooks; the innermost pair counts. A Node is made as always; once
# its outputs have their history, ``pack_saved`` replaces what it saved by what the pack hook returned. (PyTorch packs
# inputs before the operation runs; the hook cannot tell, but for an operation that then fails. In-place operations do
# so here too, unless they save their result: a hook that raises leaves the target as it was.) Nodes are made where
# operations run, so the places that call ``pack_saved`` are few: ``runtime/eager/eager.py``, ``py_node.py``, and
# ``compiled/nodes/trace_graph.py`` for recorded operations. Without hooks all this costs a look at an empty list.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jitgrad.cpython.primitives import blank, eager_native
from jitgrad.grad_mode import no_grad
from jitgrad.ops.aval import Aval
from jitgrad.runtime.engine.graph.accumulate_grad import AccumulateGrad, gradient_edge
from jitgrad.runtime.engine.graph.join import give_back_history
from jitgrad.runtime.engine.graph.overwrites import modified_message
from jitgrad.state import state
from jitgrad.tensor_base import TensorBase, new_result, new_tensor
from jitgrad.version_counter import VERSION, inference_tensors, is_inference

if TYPE_CHECKING:
    from jitgrad.runtime.engine.graph.node import Node

__all__ = [
    "RELEASED_MESSAGE",
    "PackedVariable",
    "SavedTensor",
    "SavedVariable",
    "check_no_inference",
    "new_saved",
    "pack",
    "pack_saved",
    "packed_in_use",
]

RELEASED_MESSAGE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved "
    "tensors after calling backward."
)
_HOOKS_AFTER_RELEASE = (
    "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph are "
    "freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through "
    "the graph a second time or if you need to access saved variables after calling backward."
)
_HOOKS_TWICE = (
    "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks is "
    "allowed at a time."
)
_DETACHED = (
    "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().This is not supported, please "
    "use out-of-place `.detach()` instead"
)
_PACK_WRITES = (
    "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot be "
    "modified by in-place operations as this can lead to unexpected side-effects. Please open an issue if you need to "
    "perform in-place operations on the input to a pack hook."
)
_INFERENCE_TENSOR = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
    "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in "
    "autograd, or use `jitgrad.no_grad()` instead of `jitgrad.inference_mode()`."
)


RESULT = -2
"""``SavedVariable.output_nr`` of an input that an operation of a graph had made."""


def check_no_inference(tensor: Any) -> None:
    """RuntimeError for an inference tensor, which no graph may save."""
    if is_inference(tensor):
        raise RuntimeError(_INFERENCE_TENSOR)


def _is_strict(saved_by: Node | None) -> bool:
    """As in PyTorch, a custom Function is given the detached tensor: only operations refuse it."""
    return saved_by is not None and saved_by.refuses_detached


class SavedVariable:
    """A tensor saved by a node, and the version it had then.

    An input is kept as it is: it holds the graph below the node, never the node. An output would hold its own node,
    so it is kept as a detached alias and gets its history back when it is unpacked.

    Attributes:
        tensor: the tensor, or the alias.
        version: of the storage, when saved.
        output_nr: which output of the saving node; -1 for an input, ``RESULT`` for one that was no leaf.
    """

    __slots__ = ("output_nr", "tensor", "version")

    output_nr: int
    tensor: Any
    version: int

    def __init__(self, tensor: Any, output_nr: int = -1) -> None:
        note_saved(self, tensor, output_nr)

    def unpack(self, saved_by: Node, with_history: bool) -> Any:
        """The tensor, after checking that nothing has written over it.

        Args:
            saved_by: the node that saved it.
            with_history: the caller may differentiate the result.

        Raises:
            RuntimeError: an in-place operation has changed the value, or ``detach_()`` has taken its history.
        """
        tensor = self.tensor
        if self.output_nr == RESULT and tensor._grad_fn is None and tensor._graph is None and _is_strict(saved_by):
            raise RuntimeError(_DETACHED)
        if tensor._vc[VERSION] != self.version:
            raise RuntimeError(modified_message(self, saved_by))
        if with_history and self.output_nr >= 0:
            node, number = self.history(saved_by)
            tensor = _detached(tensor) if _is_as_known(tensor, node) else _unstamped(tensor)
            tensor._requires_grad = True
            tensor._grad_fn, tensor._output_nr = node, number
        return tensor

    def history(self, saved_by: Node) -> tuple[Node, int]:
        """Where the gradient of a saved output flows."""
        return saved_by, self.output_nr


def _is_as_known(alias: Any, node: Node) -> bool:
    """Whether an alias that gets its history back is to the running trace what it was without one.

    Example: a graph began outside a step, and a backward of the step has read what ``tanh`` saved of its result. The
    trace knows that value, without a gradient. In the next backward, with ``create_graph=True``, it leads to the Node.
    """
    handler = state.handler
    if handler is None or int(handler.tid) != int(alias._tid):
        return True
    is_pending = alias._array is None and (alias._storage is None or alias._storage.addr == 0)
    return is_pending or handler.has_node_of(alias._vid, node)


def _unstamped(tensor: Any) -> Any:
    """``_detached``, as a tensor that no trace has met."""
    alias = new_tensor(tensor._aval, tensor._storage, tensor._array)
    alias._vc = tensor._vc
    return alias


@eager_native
def note_saved(saved: SavedVariable, tensor: TensorBase, output_nr: int) -> None:
    """Let ``saved`` keep a tensor, ``__init__`` of it; ``output_nr``: which output of the Node it is, -1: an input."""
    if inference_tensors:
        check_no_inference(tensor)
    versions: list[Any] = tensor._vc
    saved.version = versions[VERSION]
    aval: Aval = tensor._aval
    if output_nr < 0 or not aval.dtype.is_inexact:  # positions have no history
        saved.tensor = tensor
        saved.output_nr = -1 if tensor._grad_fn is None else RESULT
    else:
        saved.tensor = _detached(tensor)
        saved.output_nr = output_nr


@eager_native
def new_saved(tensor: TensorBase, output_nr: int) -> Any:
    """``SavedVariable(tensor, output_nr)``."""
    saved: SavedVariable = blank(SavedVariable)
    note_saved(saved, tensor, output_nr)
    return saved


packed_in_use: list[bool] = []
"""Not empty once there was a ``PackedVariable``: nobody need look for them before."""


class PackedVariable(SavedVariable):
    """What a pack hook made of a saved tensor; the unpack hook makes a tensor of it again.

    Versions cannot be followed through the hooks, so they are not checked. See Note [Saved-tensor hooks].

    Attributes:
        packed: what the pack hook returned.
    """

    __slots__ = ("_as_output", "_edge", "_unpack_hook", "packed")

    def __init__(self, saved: SavedVariable, hooks: tuple[Callable[..., Any], Callable[..., Any]], tensor: Any) -> None:
        """``saved``: as it was; ``tensor``: what the pack hook is to see."""
        original = saved.tensor
        self.version, self.output_nr, self.tensor = saved.version, saved.output_nr, None
        self._as_output: Any = saved if saved.output_nr >= 0 else None
        self._edge = gradient_edge(original) if saved.output_nr < 0 else None
        pack_hook, self._unpack_hook = hooks
        before = tensor._vc[VERSION]
        with no_grad():
            self.packed = pack_hook(tensor)
        if tensor._vc[VERSION] != before:
            raise RuntimeError(_PACK_WRITES)
        if not packed_in_use:
            packed_in_use.append(True)
        if self._edge is None:
            saved.tensor = new_tensor(original._aval, None)  # its layout is part of the history, its memory is not

    def unpack(self, saved_by: Node, with_history: bool) -> Any:
        """What the unpack hook returns, with the history of the tensor that was saved.

        Raises:
            TypeError: it returned no tensor.
        """
        tensor = self._unpack_hook(self.packed)
        if not isinstance(tensor, TensorBase):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(tensor).__name__}"
            )
        if not with_history:
            return tensor
        node, nr = self._edge if self._edge is not None else self._as_output.history(saved_by)
        if node is None and not tensor.requires_grad:
            return tensor
        tensor = _detached(tensor)
        if node is not None and state.handler is not None:
            give_back_history(tensor, node, nr)  # to the trace, what the hook returned is another value
        elif isinstance(node, AccumulateGrad):
            tensor._requires_grad, tensor._accumulator = True, weakref.ref(node)
        elif node is not None:
            tensor._requires_grad, tensor._grad_fn, tensor._output_nr = True, node, nr
        return tensor


def pack(saved: SavedVariable, node: Node, hooks: tuple[Callable[..., Any], Callable[..., Any]]) -> SavedVariable:
    """A saved tensor after its pack hook; itself, if it has been overwritten already (its backward will say so)."""
    if isinstance(saved, PackedVariable) or saved.tensor._vc[VERSION] != saved.version:
        return saved
    return PackedVariable(saved, hooks, _as_user_sees_it(saved, node))


def _as_user_sees_it(saved: SavedVariable, node: Node) -> Any:
    """The tensor for the pack hook; of a leaf that a trace has a handle on, the leaf itself."""
    tensor = saved.unpack(node, True)
    leaf = getattr(tensor._grad_fn, "variable", None)
    if leaf is not None and saved.output_nr < 0 and (leaf._tid, leaf._vid) == (tensor._tid, tensor._vid):
        return leaf
    return tensor


def pack_saved(node: Any) -> None:
    """Have the innermost default hooks pack what an operation's node has saved; its outputs have their history."""
    if node.saved and state.saved_tensor_hooks:
        hooks = state.saved_tensor_hooks[-1]
        node.saved = tuple([pack(x, node, hooks) if isinstance(x, SavedVariable) else x for x in node.saved])


class SavedTensor:
    """One saved value of a node, as ``grad_fn._raw_saved_self`` gives it: for hooks of its own."""

    __slots__ = ("_attribute", "_node", "_position")

    def __init__(self, node: Node, attribute: str, position: int) -> None:
        self._node, self._attribute, self._position = node, attribute, position

    def _value(self) -> Any:
        values = getattr(self._node, self._attribute)
        return values[self._position] if values and self._position >= 0 else None

    def register_hooks(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        """Replace the saved tensor by ``pack_hook(tensor)``; backward reads ``unpack_hook`` of that.

        Raises:
            RuntimeError: the value has been freed, has hooks already, or was written by the pack hook.
        """
        values = getattr(self._node, self._attribute)
        if not values:
            raise RuntimeError(_HOOKS_AFTER_RELEASE)
        saved = values[self._position] if self._position >= 0 else None
        if not isinstance(saved, SavedVariable):
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        if isinstance(saved, PackedVariable):
            raise RuntimeError(_HOOKS_TWICE)
        packed = PackedVariable(saved, (pack_hook, unpack_hook), _detached(saved.tensor))
        setattr(self._node, self._attribute, (*values[: self._position], packed, *values[self._position + 1 :]))

    def unpack(self) -> Any:
        """The tensor, with its history. RuntimeError once freed."""
        if not getattr(self._node, self._attribute):
            raise RuntimeError(RELEASED_MESSAGE)
        saved = self._value()
        return saved.unpack(self._node, True) if isinstance(saved, SavedVariable) else saved


@eager_native
def _detached(tensor: TensorBase) -> Any:
    """``tensor.detach()`` without the dispatcher: this is the eager hot path, and no event of a trace."""
    array = tensor._array
    made: Any = None
    if array is not None and array.base is None:
        made = new_result(tensor._aval, array)  # it has the same storage: Note [Storage on demand]
    else:
        made = new_tensor(tensor._aval, tensor._storage, array)
    alias: TensorBase = made
    alias._vc = tensor._vc
    alias._requires_grad = False  # the first rule looks at this and the next: cheaper here than by default
    alias._base = None
    if tensor._tid:
        alias._tid = tensor._tid
        alias._vid = tensor._vid
        recorder = state.handler
        if recorder is not None and int(recorder.tid) == int(alias._tid):
            recorder.adopt(alias)
    return alias
