"""Nested tuples, lists and dictionaries of tensors, as PyTorch's ``pytree`` sees them.

Owns: ``flatten``, ``unflatten``, ``TreeSpec``. Anything that is no container, None too, is a leaf.
Must not know: tensors.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["LEAF", "TreeSpec", "broadcast", "flatten", "tree_map", "unflatten"]


@dataclass(frozen=True, slots=True)
class TreeSpec:
    """The shape of a tree.

    Attributes:
        kind: the container's class; None for a leaf.
        keys: of a dictionary.
        children: their specs.
    """

    kind: type | None
    keys: tuple[Any, ...] | None = None
    children: tuple[TreeSpec, ...] = ()

    @property
    def num_leaves(self) -> int:
        return 1 if self.kind is None else sum(c.num_leaves for c in self.children)

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        keys = None if self.keys is None else list(self.keys)
        return f"TreeSpec({self.kind.__name__}, {keys}, [{', '.join(map(repr, self.children))}])"

    def outline(self) -> str:
        """The tree with stars for leaves, as it would be written."""
        if self.kind is None:
            return "*"
        parts = [c.outline() for c in self.children]
        if self.keys is not None:
            return "{" + ", ".join(f"{k!r}: {p}" for k, p in zip(self.keys, parts, strict=True)) + "}"
        if self.kind is list:
            return f"[{', '.join(parts)}]"
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


LEAF = TreeSpec(None)


def _children(tree: Any) -> tuple[tuple[Any, ...] | None, list[Any]] | None:
    """(keys, children) of a container; None for a leaf."""
    if isinstance(tree, (dict, OrderedDict)):
        return tuple(tree), list(tree.values())
    if type(tree) in (tuple, list) or (isinstance(tree, tuple) and hasattr(tree, "_fields")):
        return None, list(tree)
    return None


def flatten(tree: Any) -> tuple[list[Any], TreeSpec]:
    """(leaves from left to right, spec)."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list[Any]) -> TreeSpec:
    found = _children(tree)
    if found is None:
        leaves.append(tree)
        return LEAF
    keys, children = found
    return TreeSpec(type(tree), keys, tuple([_flatten(c, leaves) for c in children]))


def unflatten(leaves: Any, spec: TreeSpec) -> Any:
    """The tree of these leaves."""
    return _unflatten(iter(leaves), spec)


def _unflatten(leaves: Iterator[Any], spec: TreeSpec) -> Any:
    if spec.kind is None:
        return next(leaves)
    children = [_unflatten(leaves, c) for c in spec.children]
    if spec.keys is not None:
        return spec.kind(zip(spec.keys, children, strict=True))
    return spec.kind(*children) if hasattr(spec.kind, "_fields") else spec.kind(children)


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same tree of other leaves."""
    leaves, spec = flatten(tree)
    return unflatten([function(x) for x in leaves], spec)


def broadcast(tree: Any, spec: TreeSpec) -> list[Any] | None:
    """One leaf of ``tree`` per leaf of ``spec``: a leaf stands for a whole branch. None if they do not fit."""
    found = _children(tree)
    if found is None:
        return [tree] * spec.num_leaves
    keys, children = found
    if type(tree) is not spec.kind or keys != spec.keys or len(children) != len(spec.children):
        return None
    leaves: list[Any] = []
    for child, part in zip(children, spec.children, strict=True):
        below = broadcast(child, part)
        if below is None:
            return None
        leaves += below
    return leaves
