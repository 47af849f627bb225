"""What the tests of custom Functions make their programs of: classes of either library, and how a program ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parity import leaf, plain

__all__ = ["Program", "declares", "function", "once", "outcome", "saves", "second_backward"]

Program = Callable[[Any], Any]
"""Runs on a library, jitgrad or PyTorch; what it returns is compared."""


def function(lib: Any, forward: Any, backward: Any = lambda ctx, g: g, **attributes: Any) -> Any:
    """A Function class of a library."""
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward), **attributes}
    return type("F", (lib.autograd.Function,), body)


def outcome(program: Program, lib: Any) -> Any:
    """What a program returns, or the type and text of its exception."""
    lib.autograd.set_grad_enabled(True)
    try:
        return plain(program(lib))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def saves(*picks: str) -> Any:
    """A forward that computes ``exp(2 x)`` and saves some of what it has seen."""

    def forward(ctx: Any, x: Any) -> Any:
        middle = x * 2
        out = middle.exp()
        ctx.save_for_backward(*({"x": x, "middle": middle, "out": out, "none": None}[p] for p in picks))
        return out

    return forward


def once(lib: Any, backward: Any) -> Any:
    return lib.autograd.function.once_differentiable(backward)


def declares(**declarations: Any) -> Any:
    """A forward with an unusual declaration; what it returns is chosen by ``returns``."""

    def forward(ctx: Any, x: Any) -> Any:
        y = x * 2
        names = {"x": x, "y": y, "3": 3, "pair": (x, y)}
        for name in ("save_for_backward", "mark_dirty", "mark_non_differentiable", "save_for_forward"):
            if name in declarations:
                getattr(ctx, name)(*(names[d] for d in declarations[name]))
        if declarations.get("writes"):
            x.mul_(2)
        return tuple(names[r] for r in declarations["returns"]) if "returns" in declarations else y

    return forward


def second_backward(forward: Any, backward: Any) -> Program:
    def program(lib: Any) -> Any:
        y = function(lib, forward, backward).apply(leaf(lib, [1.0, 2.0]))
        y.sum().backward(retain_graph=False)
        return y.sum().backward()

    return program
