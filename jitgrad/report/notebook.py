"""How tensors and modules look in a notebook: HTML.

Owns: ``tensor_html``, ``module_html``.
Must not know: the classes of what it shows; notebooks ask for it by ``_repr_html_``.
"""

from __future__ import annotations

import html
from typing import Any

from jitgrad.report.tables import Table
from jitgrad.report.units import nbytes_text

__all__ = ["module_html", "tensor_html"]

_MAX_ROWS = 100
"""Modules in the table of a model."""
_MAX_SHAPES, _MAX_LINES = 8, 400
"""Parameters in a row of it, and lines of ``repr`` below it."""


def tensor_html(tensor: Any) -> str:
    """What ``print`` shows, below a line of what it leaves out: dtype, shape, bytes, and the part in a graph."""
    shape = " × ".join(map(str, tensor.shape)) or "a number"
    facts = [str(tensor.dtype).rpartition(".")[2], shape, nbytes_text(tensor.nbytes)]
    if str(tensor.device) != "cpu":
        facts.append(str(tensor.device))
    if tensor.grad_fn is not None:
        facts.append(f"grad_fn {tensor.grad_fn.name()}")
    elif tensor.requires_grad:
        facts.append("a leaf that requires grad")
    return f"<div><small>{html.escape(', '.join(facts))}</small><pre>{html.escape(repr(tensor))}</pre></div>"


def module_html(module: Any) -> str:
    """A table of the modules inside with their own parameters, and ``repr`` behind a click."""
    rows, own = [], []
    for name, child in module.named_modules():
        mine = list(child.parameters(recurse=False))
        rows.append((name or type(module).__name__, type(child).__name__, _count(mine), _shapes(child)))
        own += mine
    more = len(rows) - _MAX_ROWS
    if more > 0:
        rows[_MAX_ROWS:] = [(f"and {more} more", "", "", "")]
    table = Table(_title(module, own), ("module", "class", "parameters", "shapes"), rows, are_texts=True)
    text = html.escape(_bounded(repr(module)))
    return f"{table.to_html()}<details><summary>repr</summary><pre>{text}</pre></details>"


def _shapes(module: Any) -> str:
    """Name and extents of the first parameters."""
    found = [f"{name} {_extents(p)}" for name, p in module.named_parameters(recurse=False)]
    more = len(found) - _MAX_SHAPES
    return ", ".join([*found[:_MAX_SHAPES], f"and {more} more"] if more > 0 else found)


def _bounded(text: str) -> str:
    lines = text.splitlines()
    more = len(lines) - _MAX_LINES
    return "\n".join([*lines[:_MAX_LINES], f"... {more:,} more lines"]) if more > 0 else text


def _title(module: Any, parameters: list[Any]) -> str:
    """How many parameters a model has, how many of them do not learn, what they and their gradients take."""
    distinct = {id(p): p for p in parameters}.values()
    known = [p for p in distinct if _is_known(p)]
    frozen = sum([p.numel() for p in known if not p.requires_grad])
    held = sum([p.nbytes for p in known]) + sum([p.grad.nbytes for p in known if p.grad is not None])
    text = f"{type(module).__name__}: {_count(distinct)} parameters, {nbytes_text(held)} with gradients"
    return f"{text}, {frozen:,} frozen" if frozen else text


def _is_known(parameter: Any) -> bool:
    """Not that of a lazy module that has not run yet."""
    return hasattr(parameter, "numel") and not type(parameter).__name__.startswith("Uninitialized")


def _extents(parameter: Any) -> str:
    return "×".join(map(str, parameter.shape)) or "()" if _is_known(parameter) else "not known yet"


def _count(parameters: Any) -> str:
    total = sum([p.numel() for p in parameters if _is_known(p)])
    return f"{total:,}" + (" and more" if any(not _is_known(p) for p in parameters) else "")
