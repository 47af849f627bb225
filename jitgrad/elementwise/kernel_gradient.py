"""The derivative of a kernel, which the user gives: tensor code, or another kernel.

Owns: ``Derivative``: what it saves, how it is called, what it may return.
Must not know: how kernels are compiled.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.ops.dispatch_hook import call, filled
from jitgrad.ops.table import RuleContext

__all__ = ["Derivative", "no_derivative"]


def no_derivative(title: str) -> Callable[..., Any]:
    """The rule of a kernel without a derivative."""

    def rule(*_: Any) -> Any:
        raise RuntimeError(
            f"{title}() has no derivative. If it has one, give it by @{title}.derivative; if it has none, call it with "
            "x.detach()"
        )

    return rule


class Derivative:
    """A rule for ``Vjp``: one gradient per tensor operand.

    Attributes:
        saves: what the function asks for besides gradients, in the words of ``Vjp.saves``.
    """

    def __init__(
        self, title: str, names: Sequence[str], kinds: Sequence[str], results: Sequence[str], function: Any
    ) -> None:
        self._title, self._function, self._count = title, function, len(results)
        tensors = [n for n, kind in zip(names, kinds, strict=True) if kind in ("array", "float")]
        numbers = [n for n, kind in zip(names, kinds, strict=True) if kind not in ("array", "float")]
        self._operands = tensors
        grads = {f"grad_{r}": k for k, r in enumerate(results)} | ({"grad": 0} if len(results) == 1 else {})
        asked = list(getattr(function, "names", ())) or list(inspect.signature(function).parameters)
        self.saves: tuple[int | str, ...] = ()
        self._sources: list[tuple[str, int]] = []
        for name in asked:
            if name in tensors:
                self._save(tensors.index(name))
            elif name in results:
                number = list(results).index(name)
                self._save(f"out{number or ''}")
            elif name in numbers:
                self._sources.append(("number", numbers.index(name)))
            elif name in grads:
                self._sources.append(("grad", grads[name]))
            else:
                known = ", ".join([*grads, *names, *results])
                raise TypeError(f"the derivative of {title}() asks for {name!r}; there are {known}")

    def _save(self, key: int | str) -> None:
        self._sources.append(("saved", len(self.saves)))
        self.saves += (key,)

    def __call__(self, c: RuleContext, g: Any, *saved: Any) -> tuple[Any, ...]:
        given = g if isinstance(g, tuple) else (g,)
        grads = [filled(0.0, aval) if x is None else x for x, aval in zip(given, c.out_avals, strict=True)]
        (numbers,) = c.params
        where = {"saved": saved, "grad": grads, "number": numbers}
        returned = self._function(*[where[kind][n] for kind, n in self._sources])
        found = list(returned) if isinstance(returned, tuple | list) else [returned]
        floating = [n for n, aval in enumerate(c.avals) if aval is not None and aval.dtype.is_floating_point]
        if len(found) != len(c.avals):
            if len(found) != len(floating):
                raise TypeError(
                    f"the derivative of {self._title}() returned {len(found)} gradients; one is expected for each of "
                    f"{', '.join(self._operands)}"
                )
            own = dict(zip(floating, found, strict=True))
            found = [own.get(n) for n in range(len(c.avals))]
        return tuple(self._fitting(x, n, c) for n, x in enumerate(found))

    def _fitting(self, x: Any, n: int, c: RuleContext) -> Any:
        aval = c.avals[n]
        if x is None or aval is None or not c.needs[n]:
            return None
        if x._aval.shape != aval.shape:
            raise RuntimeError(
                f"the derivative of {self._title}() returned a gradient of shape {list(x._aval.shape)} for "
                f"{self._operands[n]!r} of shape {list(aval.shape)}"
            )
        return x if x._aval.dtype is aval.dtype else call("_to_copy", x, aval.dtype)
