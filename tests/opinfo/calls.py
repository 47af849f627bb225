"""One use of an operation, in either library: what it computes, and its derivatives.

Owns: running a sample; nothing here is compared.
Must not know: which library is right. ``t`` is the module ``torch`` or ``jitgrad``: both run the same statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from opinfo.defined import settled

__all__ = ["Call", "after_writes", "first", "results", "second", "tangents", "tensors_of"]


class Call(NamedTuple):
    """An operation with its arguments.

    Attributes:
        t: the library.
        function: ``function(input, *args, **kwargs)``.
        process: what is done to the result before it is differentiated.
        name: the operation's.
    """

    t: Any
    function: Callable[..., Any]
    input: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    process: Callable[[Any], Any] = lambda y: y
    name: str = ""

    def run(self) -> Any:
        """The result, drawn from the same seed every time."""
        before = self.t.get_rng_state()
        self.t.manual_seed(42)
        try:
            return self.function(self.input, *self.args, **self.kwargs)
        finally:
            self.t.set_rng_state(before)

    def leaves(self) -> list[Any]:
        """The arguments that require grad, each once."""
        found = {id(x): x for x in tensors_of(self.t, (self.input, self.args, self.kwargs)) if x.requires_grad}
        return list(found.values())

    def wider(self) -> Call | None:
        """The same with float64 in the place of shorter floating dtypes, or None."""
        t = self.t
        new = {id(x): x.detach().to(t.float64).requires_grad_(x.requires_grad) for x in self.tensors() if _is_short(x)}
        return self.replaced(new) if new else None

    def tensors(self) -> list[Any]:
        return list({id(x): x for x in tensors_of(self.t, (self.input, self.args, self.kwargs))}.values())

    def replaced(self, new: dict[int, Any]) -> Call:
        """The same with other tensors in the place of some, by their id."""
        swapped = _swapped(self.t, (self.input, self.args, self.kwargs), new)
        return self._replace(input=swapped[0], args=swapped[1], kwargs=swapped[2])


def _is_short(x: Any) -> bool:
    return bool(x.dtype.is_floating_point) and x.element_size() < 8


def tensors_of(t: Any, value: Any) -> Iterator[Any]:
    """The tensors in a structure."""
    if isinstance(value, t.Tensor):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from tensors_of(t, one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors_of(t, one)
    elif isinstance(value, slice):
        yield from tensors_of(t, (value.start, value.stop, value.step))


def _swapped(t: Any, value: Any, new: dict[int, Any]) -> Any:
    if isinstance(value, t.Tensor):
        return new.get(id(value), value)
    if isinstance(value, dict):
        return {key: _swapped(t, one, new) for key, one in value.items()}
    if isinstance(value, list):
        return [_swapped(t, one, new) for one in value]
    if isinstance(value, tuple):
        parts = [_swapped(t, one, new) for one in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def _random_like(t: Any, x: Any, seed: int) -> Any:
    array = np.random.default_rng(seed).uniform(0.5, 1.5, tuple(x.shape)) * (1 if seed % 2 else -1)
    if x.dtype.is_complex:
        array = array + 1j * np.random.default_rng(seed + 100).uniform(-1.5, 1.5, tuple(x.shape))
    return t.from_numpy(np.array(array)).to(x.dtype)


def _slopes(t: Any, outs: list[Any], inputs: list[Any], seed: int, create_graph: bool) -> list[Any]:
    weights = [_random_like(t, y, seed + i) for i, y in enumerate(outs)]
    if not outs or not inputs:
        return [None] * len(inputs)
    found = t.autograd.grad(outs, inputs, weights, allow_unused=True, create_graph=create_graph)
    return list(found)


def _outputs(call: Call) -> list[Any]:
    return [y for y in tensors_of(call.t, call.process(call.run())) if y.requires_grad]


def results(call: Call) -> Any:
    """What the operation returns, as far as it is defined."""
    return settled(call.name, call.args, call.kwargs, call.input, call.run())


def first(call: Call, create_graph: bool = False) -> list[Any]:
    """A gradient per leaf, or None."""
    return _slopes(call.t, _outputs(call), call.leaves(), 3, create_graph)


def second(call: Call) -> list[Any]:
    """The gradients of a weighted sum of the gradients."""
    slopes = [g for g in first(call, True) if g is not None and g.requires_grad]
    return _slopes(call.t, slopes, call.leaves(), 11, False)


def tangents(call: Call) -> list[Any]:
    """The outputs' tangents, or None."""
    forward_ad = call.t.autograd.forward_ad
    with forward_ad.dual_level():
        leaves = call.leaves()
        plain = [x.detach() for x in leaves]
        duals = {
            id(x): forward_ad.make_dual(y, _random_like(call.t, x, 5 + i))
            for i, (x, y) in enumerate(zip(leaves, plain, strict=True))
        }
        moved = call.replaced(duals)
        outs = tensors_of(call.t, moved.process(moved.run()))
        return [forward_ad.unpack_dual(y).tangent for y in outs]


def after_writes(call: Call) -> dict[str, str]:
    """For each tensor that the call takes or returns, what the backward does after a write to it.

    ``raises``; ``right`` or ``wrong``, by what it computes without the write.
    """
    found: dict[str, str] = {}
    t = call.t
    own = call.tensors()
    count = len(own) + len(list(tensors_of(t, call.run())))
    for victim in range(-1, count):
        fresh = {id(x): x.detach().requires_grad_() if x.requires_grad else x.clone() for x in own}
        leaves = [x for x in fresh.values() if x.requires_grad]
        inner = {key: x.clone() if x.requires_grad else x for key, x in fresh.items()}
        used = call.replaced(inner)
        raw = used.run()
        outs = list(tensors_of(t, raw))
        try:
            if victim >= 0:
                with t.no_grad():
                    _overwrite([*inner.values(), *outs][victim])
        except RuntimeError:
            continue
        targets = [y for y in outs if y.requires_grad]
        name = f"operand {victim}" if victim < len(own) else f"result {victim - len(own)}"
        try:
            slopes = _slopes(t, targets, leaves, 3, False)
        except RuntimeError as error:
            if "modified by an inplace operation" not in str(error):
                raise
            found[name] = "raises"
            continue
        if victim < 0:
            usual = slopes
        else:
            found[name] = "right" if _all_equal(slopes, usual) else "wrong"
    return found


def _overwrite(x: Any) -> None:
    if x.dtype.is_floating_point or x.dtype.is_complex:
        x.mul_(2).add_(1)
    else:
        x.zero_()


def _all_equal(a: list[Any], b: list[Any]) -> bool:
    pairs = zip(a, b, strict=True)
    return all(x is y or np.allclose(x.numpy(force=True), y.numpy(force=True), 1e-9, equal_nan=True) for x, y in pairs)
