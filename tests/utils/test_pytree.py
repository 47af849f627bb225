"""``utils._pytree`` against PyTorch's: leaves, shapes, maps, containers of one's own, errors."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

import pytest

from jitgrad.utils import _pytree as ours

pytest.importorskip("torch", reason="compares with torch")
theirs = pytest.importorskip("torch.utils._pytree")

Point = namedtuple("Point", ["x", "y"])

TREES: list[Any] = [
    3, None, [], (), {}, [1, (2, 3), {"b": 4, "a": [5]}], OrderedDict(z=1, a=(2,)), defaultdict(list, a=[1], b=[]),
    deque([1, [2]], maxlen=4), Point(1, [2, Point(3, 4)]), {"p": Point([1], ())},
]  # fmt: skip


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_leaves_and_maps(tree: Any) -> None:
    leaves, spec = ours.tree_flatten(tree)
    want, their_spec = theirs.tree_flatten(tree)
    assert leaves == want == ours.tree_leaves(tree)
    assert spec.num_leaves == their_spec.num_leaves and spec.is_leaf() == their_spec.is_leaf()
    back = ours.tree_unflatten(leaves, spec)
    assert back == tree and type(back) is type(tree)
    mapped = ours.tree_map(lambda x: (x, 1), tree)
    assert mapped == theirs.tree_map(lambda x: (x, 1), tree) and (spec.is_leaf() or type(mapped) is type(tree))
    assert ours.tree_structure(tree) == spec


def test_several_trees_and_classes() -> None:
    first, second = [1, {"a": 2, "b": "x"}], [(5, 6), {"b": 7, "a": 8}]
    for lib in (ours, theirs):
        assert lib.tree_map(lambda a, b: (a, b), first, second) == [(1, (5, 6)), {"a": (2, 8), "b": ("x", 7)}]
        assert lib.tree_map_only(int, lambda x: -x, first) == [-1, {"a": -2, "b": "x"}]
        assert lib.tree_map_only((int, str), lambda x: x * 2, first) == [2, {"a": 4, "b": "xx"}]
        assert lib.tree_map_only(lambda x: x == 1, lambda x: "one", first) == ["one", {"a": 2, "b": "x"}]
        assert lib.tree_any(lambda x: x == "x", first) and not lib.tree_all(lambda x: x == "x", first)
        assert lib.tree_all_only(int, lambda x: x < 3, first) and not lib.tree_any_only(str, str.isupper, first)
        assert lib.tree_leaves(first, is_leaf=lambda x: isinstance(x, dict)) == [1, {"a": 2, "b": "x"}]


@pytest.mark.parametrize(
    "call",
    [
        lambda lib: lib.tree_unflatten([1], lib.tree_structure([1, 2])),
        lambda lib: lib.tree_map(lambda a, b: a, [1, 2], [1]),
        lambda lib: lib.tree_map(lambda a, b: a, [1], (1,)),
        lambda lib: lib.tree_map(lambda a, b: a, {"a": 1}, {"b": 1}),
        lambda lib: lib.register_pytree_node(list, lambda x: (x, None), lambda x, _: x),
    ],
)
def test_what_is_refused(call: Any) -> None:
    for lib in (theirs, ours):
        with pytest.raises(ValueError):
            call(lib)


def test_a_container_of_ones_own() -> None:
    class Pair:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

    for lib in (ours, theirs):
        assert lib.tree_is_leaf(Pair(1, 2))
        lib.register_pytree_node(Pair, lambda p: ((p.a, p.b), "pair"), lambda children, _: Pair(*children))
        found = lib.tree_map(lambda x: x + 1, [Pair(1, (2, 3))])[0]
        assert type(found) is Pair and (found.a, found.b) == (2, (3, 4))
