"""``Handler``: what may stand in ``state.handler`` and is asked to apply operations, Note [One door].

Owns: every question that code outside a handler asks it, when it is asked, and what it must do.
Must not know: recorders, levels, tensors' fields.

The handlers: ``tracer.recorder.Recorder`` records a call of a compiled function; ``NodeMakingRecorder`` stands in front
of it while saved-tensor hooks are active; ``InnerRecorder`` records the rules of a backward; ``transforms.level.Level``
reinterprets operations and does others on the handler below. ``docs/architecture.md`` lists the code
that assigns the slot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn

__all__ = ["ForwardingHandler", "Handler"]


class Handler:
    """Applies this thread's operations while it is in ``state.handler``.

    What a handler does not define it refuses, if the question changes something that it would have to know of; else the
    default is what eager execution does.

    Attributes:
        tid: tensors whose ``_tid`` it is are values of this handler; its negative: views that must be looked at afresh.
        is_hot: native hits may answer in its place, Note [Native hits].
        reinterprets: operations mean something else, as derivatives' or batches' (``transforms``).
        stays_on_thread: the engine runs all nodes of a backward on this thread, also those of devices.
    """

    __slots__ = ()

    tid: int
    is_hot: ClassVar[bool] = False
    reinterprets: ClassVar[bool] = False
    stays_on_thread: ClassVar[bool] = False

    def refuse(self, what: str) -> NoReturn:
        """Raise: the handler cannot do this."""
        raise NotImplementedError(f"{type(self).__name__}: {what}")

    # --- operations ---

    def binary(self, op: Any, a: Any, b: Any) -> Any:
        """``a op b`` from an operator of Tensor: ``a`` is a tensor, ``b`` anything.

        NotImplemented if ``b`` is neither a tensor nor a number.
        """
        self.refuse("an operator")

    def reflected(self, op: Any, number: int | float, x: Any) -> Any:
        """``number op x`` from a reflected operator of Tensor."""
        self.refuse("a reflected operator")

    def apply(self, op: Any, args: tuple[Any, ...]) -> Any:
        """``op(*args)``, see ``door.apply``: a Tensor, or a tuple of them. Raises what eager execution raises."""
        self.refuse("an operation")

    def apply_inplace(self, op: Any, targets: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Write ``op(*args)`` into ``targets`` and return them, see ``door.apply_inplace``."""
        self.refuse("an operation in place")

    def apply_update(
        self, op: Any, rows: Sequence[tuple[Any, ...]], writes: tuple[int, ...], numbers: tuple[Any, ...], params: Any
    ) -> None:
        """An optimizer's step, see ``dispatch.apply_update``; there is at least one row."""
        self.refuse("an optimizer's step")

    def custom_function(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``Function.apply``. NotImplemented: do as always, the operations in ``forward`` are seen one by one."""
        return NotImplemented

    def draws(self, draw: Callable[[tuple[int, ...]], Any]) -> Any:
        """A random tensor is made: what the caller gets instead of ``draw(())``.

        ``draw(sizes)`` draws, now, a tensor with these dimensions in front.
        """
        return draw(())

    # --- modes ---

    def set_grad_mode(self, enabled: bool) -> None:
        """The thread's grad mode has changed."""
        self.refuse("a change of the grad mode")

    def set_default_dtype(self, dtype: Any) -> None:
        """The default dtype has changed."""
        self.refuse("a change of the default dtype")

    def saved_hooks_changed(self) -> None:
        """The thread's saved-tensor hooks have changed, or the handler begins while there are some."""
        self.refuse("saved-tensor hooks")

    # --- values ---

    def read(self, tensor: Any) -> None:
        """Somebody is about to look at the tensor's memory: it must hold the value."""
        self.refuse("a read of a value")

    def flush(self) -> None:
        """Run what has been recorded so far."""
        self.refuse("the end of a segment")

    def shares(self, tensor: Any, owner: Any, is_new: bool = False) -> None:
        """Somebody may write to the tensor's memory, unseen, as long as ``owner`` lives; Note [Shared memory].

        ``is_new``: no other tensor has had this memory.
        """

    def adopt(self, handle: Any) -> None:
        """A second handle on one of the handler's values was made (``handle._tid == tid``)."""

    def take_over(self, handle: Any) -> None:
        """The caller gets ``handle`` instead of a result that it was copied from (``handle._tid == tid``)."""
        self.refuse("a result of another class")

    def twin(self, tensor: Any) -> Any:
        """A handle on the tensor's value and Node that keeps nothing else alive, for a Node to save."""
        self.refuse("a custom Function")

    def look_afresh(self, view: Any) -> None:
        """``refresh``, if it is for this handler; a level hands the question on to the trace that it maps over."""
        if view._tid == -self.tid:
            self.refresh(view)

    def refresh(self, view: Any) -> None:
        """The graph of a view is looked at, and its base was written since (``view._tid == -tid``)."""
        self.refuse("a look at a view from before a write")

    def has_node_of(self, vid: int, node: Any) -> bool:
        """Whether the Node of a value of this handler is ``node``; False: the value came in without its history."""
        return True

    def lookers(self, tensor: Any) -> list[Any]:
        """The handles on values of this handler that look at a tensor's storage."""
        return []

    def note_pick(self, part: Any, whole: Any, read: Callable[[Any], Any], write: Callable[[Any, Any], None]) -> None:
        """``part`` is ``read(whole)``, a copy where eager execution makes a view; Note [Picked parts]."""

    def makes_sparse(self) -> None:
        """A derivative rule returns a sparse gradient."""

    # --- graphs ---

    def grad_fn_of(self, tensor: Any) -> Any:
        """``tensor.grad_fn`` for a value of this handler that has no Node yet."""
        self.refuse("a look at a graph")

    def add_hooks(self, tensor: Any) -> None:
        """A tensor gets a hook."""
        self.refuse("a new hook")

    def set_requires_grad(self, tensor: Any, requires_grad: bool) -> None:
        """``requires_grad`` of a tensor is about to change; ``tensor`` still has the old one."""
        self.refuse("a change of requires_grad")

    def detached(self, tensor: Any) -> None:
        """``tensor.detach_()`` was done: the tensor has no derivatives any more, of whatever kind."""

    def join_outer(self, tensor: Any, node: Any, output_nr: int) -> None:
        """Make a tensor output ``output_nr`` of a Node that Python has made, see ``set_history``."""
        self.refuse("a custom Function")

    def repeat_backward(self, root: Any, keep_graph: bool, create_graph: bool) -> bool:
        """Do ``root.backward(...)`` of a value of this handler if that is quick; False: it was not done."""
        return False

    def record_backward(self, request: Any) -> Any:
        """Carry out a ``BackwardRequest``: the gradients it captures, or None."""
        self.refuse("a backward")

    def mark_released(self, key: Any) -> None:
        """A backward that ran over this handler's Nodes has used them up; ``key`` says which backward it was."""

    def reached_leaves(self, roots: Sequence[Any]) -> list[Any] | None:
        """The leaves below ``roots``; None: walk the graph to find them."""
        return None

    # --- what goes past the handler ---

    def carries_level(self) -> None:
        """A level begins above: it refers to this handler until the call ends, Note [Long calls]."""

    def go_outside(self) -> None:
        """Until ``come_inside``, Nodes are made and operations run that the handler does not see."""

    def come_inside(self) -> None:
        """The end of ``go_outside``."""

    def leave(self) -> Any:
        """The handler is about to be taken out of the slot for a while; the result is for ``come_back``."""
        self.refuse("an eager block")

    def come_back(self, left: Any) -> None:
        """The handler is in the slot again: it must read again what was written meanwhile."""
        self.refuse("an eager block")

    def note_write(self, tensor: Any) -> None:
        """A tensor's memory was written by something that is no operation; its version counts that already."""
        self.refuse("a write that is no operation")

    def note_data(self, source: Any, tensor: Any) -> None:
        """``tensor`` is ``source.data``: the same memory, another version counter."""
        self.refuse("a look at .data")

    def data_source(self, tensor: Any) -> Any:
        """What ``tensor.data`` is made of: the tensor, or a handle on the same memory that has its value."""
        return tensor

    def replace_data(self, tensor: Any, value: Any) -> None:
        """``tensor.data = value`` is about to be done."""
        self.refuse("a new storage")

    def forget(self, tensor: Any) -> None:
        """A tensor is about to look at other memory: no value of the handler is in it any more."""
        self.refuse("a new storage")

    def view_inplace(self, tensor: Any, make: Callable[[Any], Any], name: str, take: Callable[..., None]) -> None:
        """Do ``take(tensor, make, name)``: a tensor becomes a view of itself, see ``functions.inplace_views``."""
        self.refuse("a change of a tensor's layout")


class ForwardingHandler(Handler):
    """A handler in front of another one: it hands on every question that it does not answer itself."""

    __slots__ = ()

    def pass_on(self, name: str, *args: Any) -> Any:
        """Ask the handler behind this one the question ``name``."""
        raise NotImplementedError


def _passing(name: str) -> Callable[..., Any]:
    def method(self: ForwardingHandler, *args: Any) -> Any:
        return self.pass_on(name, *args)

    method.__name__ = name
    method.__doc__ = f"As the handler behind this one: see ``Handler.{name}``."
    return method


for _name, _question in vars(Handler).copy().items():
    if callable(_question) and not _name.startswith("__") and _name != "refuse":
        setattr(ForwardingHandler, _name, _passing(_name))
