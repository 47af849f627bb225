"""``torch.utils._pytree``: functions over nested containers, which many projects use though its name is private.

Owns: ``tree_flatten``, ``tree_map`` and their kin, the specs of trees, and the table of containers.
Must not know: tensors. Functions of ``func`` have a tree of their own (``transforms.tree``), which is faster.

A container is one of exactly these classes, or a named tuple; anything else is a leaf.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

__all__ = [
    "LeafSpec", "TreeSpec", "register_pytree_node", "tree_all", "tree_all_only", "tree_any", "tree_any_only",
    "tree_flatten", "tree_is_leaf", "tree_iter", "tree_leaves", "tree_map", "tree_map_", "tree_map_only",
    "tree_map_only_", "tree_structure", "tree_unflatten",
]  # fmt: skip

PyTree = Any
IsLeaf = Callable[[Any], bool] | None


class _Kind(NamedTuple):
    """How a container is taken apart, and made again of (children, context)."""

    flatten: Callable[[Any], tuple[list[Any], Any]]
    unflatten: Callable[[Iterable[Any], Any], Any]


def _of_mapping(x: Any) -> tuple[list[Any], Any]:
    return list(x.values()), list(x)


_KINDS: dict[type, _Kind] = {
    list: _Kind(lambda x: (list(x), None), lambda children, _: list(children)),
    tuple: _Kind(lambda x: (list(x), None), lambda children, _: tuple(children)),
    dict: _Kind(_of_mapping, lambda children, keys: dict(zip(keys, children, strict=True))),
    OrderedDict: _Kind(_of_mapping, lambda children, keys: OrderedDict(zip(keys, children, strict=True))),
    defaultdict: _Kind(
        lambda x: (list(x.values()), [x.default_factory, list(x)]),
        lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
    ),
    deque: _Kind(lambda x: (list(x), x.maxlen), lambda children, maxlen: deque(children, maxlen=maxlen)),
}
_NAMED = _Kind(lambda x: (list(x), type(x)), lambda children, kind: kind(*children))


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_fn: Callable[[Iterable[Any], Any], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Any = None,
    from_dumpable_context: Any = None,
    flatten_with_keys_fn: Any = None,
) -> None:
    """Make a class a container.

    Args:
        cls: the class; subclasses are leaves.
        flatten_fn: (children, context) of an object.
        unflatten_fn: an object of children and a context.
        serialized_type_name, to_dumpable_context, from_dumpable_context, flatten_with_keys_fn: accepted: shapes are not
            written to files.

    Raises:
        ValueError: it is one already.
    """
    if cls in _KINDS:
        raise ValueError(f"{cls} is already registered as pytree node.")

    def flatten(x: Any) -> tuple[list[Any], Any]:
        children, context = flatten_fn(x)
        return list(children), context

    _KINDS[cls] = _Kind(flatten, unflatten_fn)


def _kind_of(x: Any) -> _Kind | None:
    own = type(x)
    found = _KINDS.get(own)
    if found is None and issubclass(own, tuple) and isinstance(getattr(own, "_fields", None), tuple):
        return _NAMED
    return found


class TreeSpec:
    """The shape of a tree.

    Attributes:
        type: the class of its container; None of a leaf.
        context: what else the container is made of: keys, for instance.
        children_specs: of its children.
        num_leaves: how many leaves there are below.
    """

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]) -> None:
        self.type, self.context, self.children_specs = type, context, children_specs
        self.num_leaves: int = sum(spec.num_leaves for spec in children_specs) if type is not None else 1
        self.num_children = len(children_specs)

    def is_leaf(self) -> bool:
        """Whether it is that of a leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """Of its children."""
        return self.children_specs

    def child(self, index: int) -> TreeSpec:
        """Of one child."""
        return self.children_specs[index]

    def flatten_up_to(self, tree: PyTree) -> list[Any]:
        """The parts of a tree that stand where this has leaves. ValueError if it has another container somewhere."""
        return _flatten_up_to(self, tree)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """``tree_unflatten(leaves, self)``."""
        return tree_unflatten(leaves, self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        own, theirs = ((s.type, s.context, s.children_specs) for s in (self, other))
        return own == theirs

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if self.is_leaf():
            return "*"
        return f"TreeSpec({self.type.__name__}, {self.context}, {self.children_specs})"


class LeafSpec(TreeSpec):
    """The shape of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether it is no container, or ``is_leaf`` says that it is to count as none."""
    return (is_leaf is not None and is_leaf(tree)) or _kind_of(tree) is None


def _flatten(tree: PyTree, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    kind = None if is_leaf is not None and is_leaf(tree) else _kind_of(tree)
    if kind is None:
        leaves.append(tree)
        return LeafSpec()
    children, context = kind.flatten(tree)
    return TreeSpec(type(tree), context, [_flatten(child, leaves, is_leaf) for child in children])


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """(leaves, shape)."""
    leaves: list[Any] = []
    spec = _flatten(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The tree of that shape. ValueError for another number of leaves."""
    given = list(leaves)
    if len(given) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(given)} but the spec refers to a pytree that "
            f"holds {treespec.num_leaves} items ({treespec})."
        )
    return _unflatten(iter(given), treespec)


def _unflatten(leaves: Any, spec: TreeSpec) -> Any:
    if spec.is_leaf():
        return next(leaves)
    kind = _KINDS.get(spec.type, _NAMED)
    return kind.unflatten([_unflatten(leaves, child) for child in spec.children_specs], spec.context)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves, in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Any:
    """An iterator over the leaves."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """The shape."""
    return tree_flatten(tree, is_leaf)[1]


def _flatten_up_to(spec: TreeSpec, tree: PyTree) -> list[Any]:
    """The parts of a tree that stand where the shape has leaves. ValueError if it has another container somewhere."""
    if spec.is_leaf():
        return [tree]
    kind = _kind_of(tree)
    if kind is None or type(tree) is not spec.type:
        raise ValueError(f"Node type mismatch; expected {spec.type}, but got {type(tree)}.")
    children, context = kind.flatten(tree)
    if len(children) != spec.num_children:
        raise ValueError(f"Node arity mismatch; expected {spec.num_children}, but got {len(children)}.")
    if isinstance(tree, dict) and spec.type is not defaultdict and set(context) != set(spec.context):
        raise ValueError(f"Node keys mismatch; expected {spec.context}, but got {context}.")
    if isinstance(tree, dict):
        keys = spec.context[1] if spec.type is defaultdict else spec.context
        children = [tree[key] for key in keys]
    rows = zip(children, spec.children_specs, strict=True)
    return [part for child, below in rows for part in _flatten_up_to(below, child)]


def tree_map(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """The same tree of other leaves: ``func`` of each, and of what stands in ``rests`` at its place."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [_flatten_up_to(spec, rest) for rest in rests]
    return _unflatten(iter([func(*row) for row in zip(leaves, *others, strict=True)]), spec)


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Call ``func`` for each leaf, as ``tree_map``; the tree itself comes back."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _only(kinds: Any, func: Callable[[Any], Any]) -> Callable[[Any], Any]:
    if isinstance(kinds, type | tuple) or hasattr(kinds, "__args__"):
        return lambda x: func(x) if isinstance(x, kinds) else x
    return lambda x: func(x) if kinds(x) else x


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """``tree_map`` of leaves of a class, of one of several, or for which a function says so."""
    return tree_map(_only(type_or_types_or_pred, func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """``tree_map_`` of such leaves."""
    return tree_map_(_only(type_or_types_or_pred, func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves are so."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether some leaf is so."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves of a class are so."""
    return all(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether some leaf of a class is so."""
    return any(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, type_or_types))
