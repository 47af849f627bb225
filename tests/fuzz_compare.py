"""Comparing what the subjects of the fuzzer showed, and differences that are nobody's defect.

Owns: ``Failure``, what counts as equal, and the reasons why torch is not asked. Must not know: how programs are drawn.

Differences that say nothing about jitgrad:

- **Rounding decides.** A program may amplify rounding (``sin`` of 2e4, three derivatives deep) until two right answers
  differ in the second digit. ``check`` then runs the program again on inputs that differ in their last bits: a program
  that is as far from itself as the subjects are from each other is left out (``is_steady``).
- **Torch reads what it has just written.** ``x.add_(x.diagonal())``: torch refuses overlapping operands only where it
  can tell cheaply, else its kernel reads elements that it has overwritten, in an order that depends on vector width.
  jitgrad reads first. ``OverlapWatch`` sees such an operation while torch runs.
- **Torch refuses what it would do at another time** (``_ODD_REFUSALS``), and jitgrad does it.
- **What copies depends on the layout.** Results of torch keep the layout of their operands, jitgrad's are row-major: so
  ``contiguous()`` and ``reshape`` of a result may be the same memory for one, a copy for the other (``lays_out_anew``).
- **Replaced data and a transform.** After ``p.data = q`` a backward reads the new memory where a Node saved the tensor
  itself, and the old where it saved an alias. ``torch.func`` saves one or the other as its wrappers happen to be made.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

try:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves
except ImportError:
    torch = None  # type: ignore[assignment]
    TorchDispatchMode = object  # type: ignore[assignment, misc]

__all__ = [
    "UNSEEN",
    "Failure",
    "Flags",
    "Message",
    "OverlapWatch",
    "compare",
    "cut_at_error",
    "has_no_reference",
    "is_steady",
    "lays_out_anew",
    "of_inputs_only",
    "refuses_oddly",
]

UNSEEN = "cannot be looked at"

# what torch says otherwise by design: memory follows the operands' layout; or does not support: hooks on several leaves
# while grad() runs
TORCH_ONLY = ("view size is not compatible", "passed to _will_engine_execute_node")


# (text of torch's error, what the step has): torch refuses, and jitgrad need not
_ODD_REFUSALS = (
    # y = base[:2]; base.add_(p); y.add_(p): refused, but not if y.grad_fn is looked at in between
    ("a leaf Variable that requires grad is being used in an in-place operation", ""),
    # an expanded tensor may be filled in place, but not its gradient by the backward of that
    ("more than one element of the written-to tensor refers to a single memory location", "expand("),
    # make_dual copies the tangent into memory laid out as the primal's, be that expanded
    ("more than one element of the written-to tensor refers to a single memory location", "forward_ad"),
    # a batch of no examples has no first example to look at
    ("select(): index 0 out of range for tensor of size [0", "vmap"),
)


_ASKS_FOR_LAYOUT = re.compile(r"\.contiguous\(\)|\.reshape\(")


class Failure(AssertionError):
    """Two subjects disagree. ``kind`` is what a shrunk program must keep."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Flags(tuple[Any, ...]):
    """(requires_grad, is_leaf, _version) of a tensor."""


class Message(str):
    """The text of an exception, shown but not compared."""

    def __new__(cls, error: Any) -> Message:
        return str.__new__(cls, "" if error is None else f"{type(error).__name__}: {error}"[:600])


def _difference(got: Any, want: Any, rtol: float, path: str = "") -> str:
    """Where they differ; empty if they agree. rtol: 0 for equal bits."""
    if isinstance(want, Message):
        return ""
    if isinstance(want, np.ndarray):
        if not isinstance(got, np.ndarray) or got.shape != want.shape or got.dtype != want.dtype:
            return f"{path}: {got!r} instead of {want!r}"
        if got.tobytes() == want.tobytes():
            return ""
        if not rtol:
            same = np.array_equal(got, want, equal_nan=want.dtype.kind == "f")
            return "" if same else f"{path}: {got!r} instead of {want!r}"
        loose = 2e-3 if np.float32 in (got.dtype, want.dtype) else rtol
        with np.errstate(all="ignore"):
            same = np.allclose(got, want, rtol=loose, atol=loose / 10, equal_nan=True)
        return "" if same else f"{path}: {got!r} instead of {want!r}"
    if isinstance(want, Flags):
        same = isinstance(got, Flags) and all(a == b or None in (a, b) for a, b in zip(got, want, strict=False))
        return "" if same else f"{path}: Flags {got!r} instead of {want!r}"
    if isinstance(want, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(want):
            return f"{path}: {got!r} instead of {want!r}"
        found = (_difference(g, w, rtol, f"{path}[{i}]") for i, (g, w) in enumerate(zip(got, want, strict=True)))
        return next(filter(None, found), "")
    if isinstance(want, float) and isinstance(got, float):
        return _difference(np.array(got), np.array(want), rtol, path)
    if isinstance(want, str) and isinstance(got, str) and want.startswith(UNSEEN) and got.startswith(UNSEEN):
        return ""
    return "" if type(got) is type(want) and got == want else f"{path}: {got!r} instead of {want!r}"


def _without_versions(seen: Any, flags: int = 2) -> Any:
    """Version counters may tell how an operation is made, as well as how often a tensor was written."""
    if isinstance(seen, Flags):
        return Flags(seen[:flags])
    if type(seen) in (list, tuple):
        return type(seen)(_without_versions(x, flags) for x in seen)
    return seen


def _is_tame(seen: Any) -> bool:
    """Whether no number has grown so large that rounding decides what comes next (``sin`` of 1e12)."""
    if isinstance(seen, np.ndarray):
        return not seen.size or not np.abs(seen).max() > 1e5
    return all(map(_is_tame, seen)) if isinstance(seen, list | tuple) else True


def of_inputs_only(seen: list[Any]) -> list[Any]:
    """Without the versions of results: a gradient may be the engine's sum in place."""
    calls = [(_without_versions(c[0]), *c[1:6], _without_versions(c[6]), *c[7:]) for c in seen[:-1]]
    return [*calls, _without_versions(seen[-1], 0)]


def cut_at_error(ours: list[Any], theirs: list[Any]) -> tuple[list[Any], list[Any]]:
    """The calls before the first one that raised on both sides."""
    for nr, (a, b) in enumerate(zip(ours[:-1], theirs[:-1], strict=True)):
        if a[-1] and b[-1] and type(a[0][-1]) is str and a[0][-1] == b[0][-1]:
            return [*ours[:nr], []], [*theirs[:nr], []]
    return ours, theirs


def compare(kind: str, got: list[Any], want: list[Any], rtol: float) -> None:
    """Compare what two subjects showed, call by call.

    Raises:
        Failure: they disagree.
    """
    labels = [*(f"call {i}" for i in range(len(want) - 1)), "all results at the end"]
    for label, g, w in zip(labels, got, want, strict=True):
        if rtol and not _is_tame(w):
            return
        found = _difference(g, w, rtol)
        if found:
            errors = [m for side in (g, w) for m in side if isinstance(m, Message)]
            category = " and ".join(m.split(":")[0] or "a value" for m in errors) if any(errors) else "values"
            category = "flags" if "Flags" in found else category
            raise Failure(f"{kind}, {category}", f"{label} {found}\n" + "\n".join(errors))


# ---- differences that are nobody's defect ---------------------------------------------------------------------


def is_steady(seen: list[Any], nudged: list[Any], rtol: float) -> bool:
    """Whether a run on inputs with other last bits shows the same; else rounding decides what the program computes."""
    try:
        compare("nudged", nudged, seen, rtol)
    except Failure:
        return False
    return True


def has_no_reference(source: str, reference: list[Any]) -> bool:
    """Whether what torch showed is no reference for a program; for reasons, see above."""
    if any(words in call[-1] for words in TORCH_ONLY for call in reference[:-1]):
        return True
    if "layer_norm" in source and "create_graph" in source:
        return True  # the third derivative in PyTorch is not what finite differences say
    if "saved_tensors_hooks" in source and "create_graph" in source:
        return True  # how many tensors a derivative's own derivative saves depends on how its rule is written
    return ".data = " in source and "lib.func." in source


def refuses_oddly(source: str, ours: list[Any], theirs: list[Any]) -> bool:
    """Whether the first call that raised in one of them only did so in torch, with an error of ``_ODD_REFUSALS``."""
    for a, b in zip(ours[:-1], theirs[:-1], strict=True):
        if bool(a[-1]) is not bool(b[-1]):
            return not a[-1] and any(text in b[-1] and part in source for text, part in _ODD_REFUSALS)
    return False


def lays_out_anew(source: str, layouts: set[str]) -> bool:
    """Whether a step writes, and asks for other layouts of what it computes from inputs that are not row-major."""
    return bool(_ASKS_FOR_LAYOUT.search(source)) and not layouts <= {"plain", "offset"}


class OverlapWatch(TorchDispatchMode):  # type: ignore[misc]
    """While active: whether torch ran an operation that read memory which it wrote through another layout."""

    def __init__(self) -> None:
        super().__init__()
        self.has_seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        written = [
            args[nr]
            for nr, argument in enumerate(func._schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write and nr < len(args)
        ]
        targets = [t for t in tree_leaves(written) if isinstance(t, torch.Tensor)]
        for other in tree_leaves((args, kwargs or {})):
            if isinstance(other, torch.Tensor) and any(_overlap(t, other) for t in targets):
                self.has_seen = True
        return func(*args, **(kwargs or {}))


def _overlap(a: Any, b: Any) -> bool:
    """Whether two tensors share some, but not the very same, elements."""
    try:
        if a is b or a.untyped_storage().data_ptr() != b.untyped_storage().data_ptr() or not a.numel() * b.numel():
            return False
        if (a.shape, a.stride(), a.storage_offset()) == (b.shape, b.stride(), b.storage_offset()):
            return False
        return bool(np.may_share_memory(a.detach().numpy(), b.detach().numpy()))
    except RuntimeError:  # a batch of vmap has no memory of its own
        return False
