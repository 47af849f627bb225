"""From examples to batches."""

from __future__ import annotations

import collections
from typing import Any, NamedTuple

import numpy as np
import pytest

import jitgrad
from jitgrad.utils.data import DataLoader, StackDataset, Subset, TensorDataset, default_collate, default_convert
from jitgrad.utils.data._utils import collate as rules
from jitgrad.utils.data._utils.fetch import rows_at_once


class Point(NamedTuple):
    x: Any
    y: Any


class Labelled(dict):  # type: ignore[type-arg]
    """A mapping with something else in it."""

    label = "it"


# examples, made from a library's ``tensor``
BATCHES = {
    "tensors": lambda tensor: [tensor([1.0, 2.0]), tensor([3.0, 4.0])],
    "tensors without dimensions": lambda tensor: [tensor(1), tensor(2)],
    "tensors of two dtypes": lambda tensor: [tensor([1]), tensor([2.5])],
    "tensors of two shapes": lambda tensor: [tensor([1.0]), tensor([2.5, 1.0])],
    "one tensor": lambda tensor: [tensor([[1, 2], [3, 4]]).T],
    "arrays": lambda tensor: [np.array([1.0, 2.0]), np.array([3.0, 4.0])],
    "float32 arrays": lambda tensor: [np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)],
    "transposed arrays": lambda tensor: [np.arange(6).reshape(2, 3).T, np.arange(6).reshape(3, 2)],
    "arrays of two dtypes": lambda tensor: [np.array([1]), np.array([2.5])],
    "arrays of two shapes": lambda tensor: [np.ones(2), np.ones(3)],
    "arrays without dimensions": lambda tensor: [np.array(1.5), np.array(2.5)],
    "an array of strings": lambda tensor: [np.array(["a", "b"])],
    "an array of objects": lambda tensor: [np.array([None])],
    "NumPy's numbers": lambda tensor: [np.float32(1.5), np.float32(2)],
    "NumPy's doubles": lambda tensor: [np.float64(1.5), np.float64(2)],
    "NumPy's integers": lambda tensor: [np.int32(1), np.int32(2)],
    "NumPy's truth values": lambda tensor: [np.bool_(True), np.bool_(False)],
    "floats": lambda tensor: [1.0, 2.0],
    "floats and an int": lambda tensor: [1.0, 2],
    "ints": lambda tensor: [1, 2],
    "an int and a float": lambda tensor: [1, 2.5],
    "truth values": lambda tensor: [True, False],
    "strings": lambda tensor: ["a", "bc"],
    "bytes": lambda tensor: [b"a", b"bc"],
    "tuples": lambda tensor: [(1, 2.0, "a"), (3, 4.0, "b")],
    "lists": lambda tensor: [[1, 2.0], [3, 4.0]],
    "empty lists": lambda tensor: [[], []],
    "lists of two lengths": lambda tensor: [[1, 2], [3]],
    "tuples of two lengths": lambda tensor: [(1,), (2, 3)],
    "named tuples": lambda tensor: [Point(1, tensor([0.5])), Point(2, tensor([1.5]))],
    "dicts": lambda tensor: [{"a": 1, "b": [tensor([1.0]), "x"]}, {"a": 2, "b": [tensor([2.0]), "y"]}],
    "ordered dicts": lambda tensor: [collections.OrderedDict(b=1, a=2), collections.OrderedDict(b=3, a=4)],
    "labelled dicts": lambda tensor: [Labelled(a=1), Labelled(a=2)],
    "a missing key": lambda tensor: [{"a": 1}, {"b": 2}],
    "ranges": lambda tensor: [range(2), range(2, 4)],
    "user's lists": lambda tensor: [collections.UserList([1, 2]), collections.UserList([3, 4])],
    "deques": lambda tensor: [collections.deque([1, 2]), collections.deque([3, 4])],
    "nothing": lambda tensor: [],
    "None": lambda tensor: [None, None],
    "a set": lambda tensor: [{1}, {2}],
    "None in a tuple": lambda tensor: [(1, None)],
    "a large int": lambda tensor: [1 << 40],
}

CONVERTED = {
    "a tensor": lambda tensor: tensor([1.0]),
    "an array": lambda tensor: np.array([1, 2]),
    "NumPy's number": lambda tensor: np.float32(1.5),
    "NumPy's string": lambda tensor: np.str_("a"),
    "an array of strings": lambda tensor: np.array(["a"]),
    "a number": lambda tensor: 3,
    "a string": lambda tensor: "abc",
    "a list": lambda tensor: [np.array([1]), "a", 2.5],
    "a tuple": lambda tensor: (np.array([1]), 2),
    "a named tuple": lambda tensor: Point(np.array([1]), (1, 2)),
    "a dict": lambda tensor: {"a": np.array([1]), "b": {"c": (np.ones(1),)}},
    "a labelled dict": lambda tensor: Labelled(a=np.array([1])),
    "a range": lambda tensor: range(3),
    "a user's list": lambda tensor: collections.UserList([np.array([1]), 2]),
    "a set": lambda tensor: {1, 2},
    "None": lambda tensor: None,
}


def _described(value: Any) -> Any:
    """Classes, values and dtypes, comparable between libraries."""
    if hasattr(value, "requires_grad"):
        return "tensor", value.tolist(), str(value.dtype).split(".")[-1], tuple(value.shape)
    if isinstance(value, np.ndarray):
        return "array", value.tolist()
    if isinstance(value, dict):
        return type(value), [(key, _described(item)) for key, item in value.items()], getattr(value, "label", None)
    if isinstance(value, list | tuple | collections.UserList | collections.deque):
        return type(value), [_described(item) for item in value]
    return type(value), value


def _outcome(function: Any, examples: Any) -> Any:
    try:
        return _described(function(examples))
    except Exception as error:
        return type(error), "torch" in str(error) or str(error)


@pytest.mark.parametrize("name", BATCHES)
def test_parity_of_default_collate(name: str) -> None:
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("torch.utils.data").default_collate
    found = _outcome(default_collate, BATCHES[name](jitgrad.tensor))
    assert found == _outcome(theirs, BATCHES[name](torch.tensor))


@pytest.mark.parametrize("name", CONVERTED)
def test_parity_of_default_convert(name: str) -> None:
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("torch.utils.data").default_convert
    found = _outcome(default_convert, CONVERTED[name](jitgrad.tensor))
    assert found == _outcome(theirs, CONVERTED[name](torch.tensor))


def test_a_batch_has_memory_of_its_own() -> None:
    rows = [jitgrad.ones(3), jitgrad.zeros(3)]
    batch = default_collate(rows)
    batch.fill_(7)
    assert rows[0].tolist() == [1.0] * 3
    array = np.ones(3)
    default_collate([array, array]).zero_()
    assert array.tolist() == [1.0] * 3


def test_gradients_go_through_a_batch(mode: Any) -> None:
    def step(x: Any, y: Any) -> Any:
        batch = default_collate([(x, 1), (y, 2)])[0]
        (batch * jitgrad.tensor([[1.0], [10.0]])).sum().backward()
        return x.grad, y.grad

    def make() -> Any:
        return tuple(jitgrad.ones(2, requires_grad=True) for _ in range(2))

    assert [g.tolist() for g in mode.run(step, make)] == [[1.0, 1.0], [10.0, 10.0]]


def test_sparse_tensors_need_a_collate_fn() -> None:
    with pytest.raises(RuntimeError, match="Batches of sparse tensors are not currently supported"):
        default_collate([jitgrad.sparse_coo_tensor([[0]], [1.0], (2,))])


def test_the_table_can_be_extended() -> None:
    class Word(str):
        __slots__ = ()

    def joined(batch: Any, *, collate_fn_map: Any = None) -> str:
        return "".join(batch)

    table = {**rules.default_collate_fn_map}
    assert rules.collate([{"a": Word("x")}, {"a": Word("y")}], collate_fn_map={Word: joined, **table}) == {"a": "xy"}
    assert rules.collate([Word("x"), Word("y")], collate_fn_map=table) == ["x", "y"]


# --- Note [Rows at once] ---


def _tensors() -> tuple[Any, Any]:
    return jitgrad.arange(20.0).reshape(10, 2), jitgrad.arange(10)


ROW_DATASETS = {
    "tensors": lambda: TensorDataset(*_tensors()),
    "one tensor": lambda: TensorDataset(_tensors()[0]),
    "a transposed tensor": lambda: TensorDataset(_tensors()[0].T.contiguous().T),
    "a window": lambda: TensorDataset(jitgrad.arange(40.0).reshape(20, 2)[5:15]),
    "a subset": lambda: Subset(TensorDataset(*_tensors()), [9, 3, 3, 1, 0, 2, 5, 8, 7, 6]),
    "a stack": lambda: StackDataset(TensorDataset(*_tensors()), Subset(TensorDataset(_tensors()[1]), range(10))),
    "a named stack": lambda: StackDataset(a=TensorDataset(*_tensors()), b=TensorDataset(_tensors()[1])),
}


def _examples(dataset: Any, indices: list[Any]) -> Any:
    return _outcome(default_collate, [dataset[i] for i in indices])


@pytest.mark.parametrize("name", ROW_DATASETS)
def test_rows_at_once_are_what_collating_makes(name: str) -> None:
    dataset = ROW_DATASETS[name]()
    for indices in ([3], [0, 9, 4, 4], list(range(10))):
        batch = rows_at_once(dataset, indices)
        assert batch is not None
        assert _described(batch) == _examples(dataset, indices)
    loader = DataLoader(dataset, batch_size=4)
    parts = ([0, 1, 2, 3], [4, 5, 6, 7], [8, 9])
    assert [_described(batch) for batch in loader] == [_examples(dataset, part) for part in parts]


class _Doubled(TensorDataset):
    def __getitem__(self, index: Any) -> Any:
        return tuple(2 * x for x in super().__getitem__(index))


class _InGroups(TensorDataset):
    def __getitems__(self, indices: Any) -> Any:
        return [(-1,)] * len(indices)


class _Odd(jitgrad.Tensor):
    pass


@pytest.mark.parametrize(
    "dataset",
    [
        _Doubled(*_tensors()),
        Subset(_Doubled(*_tensors()), range(10)),
        StackDataset(TensorDataset(*_tensors()), _Doubled(*_tensors())),
        _InGroups(*_tensors()),
        TensorDataset(jitgrad.ones(10, 2, requires_grad=True)),
        TensorDataset(jitgrad.ones(10).as_subclass(_Odd)),
        TensorDataset(jitgrad.ones(10, device="meta")),
    ],
    ids=["subclass", "subset of one", "stack with one", "in groups", "leaf", "tensor subclass", "meta"],
)
def test_whatever_is_special_takes_the_ordinary_way(dataset: Any) -> None:
    whole = next(iter(DataLoader(dataset, batch_size=10)))
    if isinstance(dataset, _InGroups):
        assert whole[0].tolist() == [-1] * 10
        return
    by_hand = default_collate([dataset[i] for i in range(10)])
    leaf = whole
    while isinstance(leaf, list):
        leaf, by_hand = leaf[-1], by_hand[-1]
    assert type(leaf) is type(by_hand)
    assert leaf.requires_grad == by_hand.requires_grad
    assert leaf.device == by_hand.device
    if leaf.device.type != "meta":
        assert leaf.tolist() == by_hand.tolist()


@pytest.mark.parametrize("indices", [[-1, 2], [10], [-11], [True], [1.5], [jitgrad.tensor(1)], ["a"], []])
def test_indices_that_are_not_plain_mean_what_they_always_mean(indices: list[Any]) -> None:
    dataset = TensorDataset(*_tensors())
    assert rows_at_once(dataset, indices) is None
    loader = DataLoader(dataset, batch_sampler=[indices])
    assert _outcome(lambda _: next(iter(loader)), None) == _outcome(
        lambda _: default_collate([dataset[i] for i in indices]), None
    )


def test_a_changed_table_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    def total(batch: Any, *, collate_fn_map: Any = None) -> Any:
        return sum(batch).sum()

    monkeypatch.setitem(rules.default_collate_fn_map, jitgrad.Tensor, total)
    (batch,) = DataLoader(TensorDataset(jitgrad.ones(3, 2)), batch_size=3)
    assert batch[0].item() == 6.0


def test_batches_of_rows_cost_no_operation_per_example() -> None:
    loader = DataLoader(TensorDataset(*_tensors()), batch_size=5)
    with jitgrad.autograd.profiler.profile() as prof:
        batches = list(loader)
    assert len(batches) == 2
    assert {"select", "stack", "slice"}.isdisjoint(event.name for event in prof.events())


def test_rows_in_a_recorded_step(mode: Any) -> None:
    x, y = _tensors()

    def step() -> Any:
        x.add_(1)  # not yet done when the batch is made
        return [(batch[0] * 2).sum() for batch in DataLoader(TensorDataset(x, y), batch_size=5)]

    def expected() -> list[float]:
        return [2 * float(x[:5].sum()), 2 * float(x[5:].sum())]

    assert [loss.item() for loss in mode.run(step)] == expected()
