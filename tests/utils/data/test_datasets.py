"""Data sets: what is at an index, what they refuse; PyTorch has the same examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.utils import data


class Squares(data.Dataset):
    def __init__(self, size: int = 5) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        return index * index


class Count(data.IterableDataset):
    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers

    def __iter__(self) -> Any:
        return iter(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)


class InGroups(Squares):
    """Is asked for a batch at once; a wrong number of examples is for tests of who checks it."""

    def __init__(self, size: int = 5, surplus: int = 0) -> None:
        super().__init__(size)
        self.surplus = surplus
        self.asked: list[list[int]] = []

    def __getitems__(self, indices: list[int]) -> list[int]:
        self.asked.append(list(indices))
        return [-i for i in indices] + [0] * self.surplus


def rows() -> tuple[jitgrad.Tensor, jitgrad.Tensor]:
    return jitgrad.arange(12.0).reshape(6, 2), jitgrad.arange(6)


def test_a_tensor_dataset_has_rows() -> None:
    dataset = data.TensorDataset(*rows())
    x, y = dataset[2]
    assert len(dataset) == 6
    assert (x.tolist(), y.item()) == ([4.0, 5.0], 2)
    assert [part.tolist() for part in dataset[1:3]] == [[[2.0, 3.0], [4.0, 5.0]], [1, 2]]


def test_rows_of_a_tensor_dataset_share_its_memory() -> None:
    x, y = rows()
    data.TensorDataset(x, y)[0][0].zero_()
    assert x[0].tolist() == [0.0, 0.0]


def test_a_tensor_dataset_wants_equal_lengths() -> None:
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        data.TensorDataset(jitgrad.ones(3), jitgrad.ones(4))


def test_a_stack_has_tuples_or_dicts() -> None:
    assert data.StackDataset(Squares(), range(5))[3] == (9, 3)
    assert data.StackDataset(a=Squares(), b=range(5))[3] == {"a": 9, "b": 3}


def test_a_stack_asks_for_groups_where_it_can() -> None:
    groups = InGroups()
    assert data.StackDataset(groups, Squares()).__getitems__([1, 2]) == [(-1, 1), (-2, 4)]
    assert data.StackDataset(a=groups, b=Squares()).__getitems__([4]) == [{"a": -4, "b": 16}]
    assert groups.asked == [[1, 2], [4]]


def test_a_stack_counts_what_it_gets() -> None:
    with pytest.raises(ValueError, match="Expected 2, got 3"):
        data.StackDataset(InGroups(surplus=1)).__getitems__([1, 2])


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "At least one dataset"),
        ((range(2),), {"a": range(2)}, "both types are given"),
        ((range(2), range(3)), {}, "Size mismatch"),
        ((), {"a": range(2), "b": range(3)}, "Size mismatch"),
    ],
)
def test_a_stack_refuses(args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        data.StackDataset(*args, **kwargs)


def test_datasets_one_after_the_other() -> None:
    both = Squares(3) + Squares(4)
    assert [both[i] for i in range(-7, 7)] == [0, 1, 4, 0, 1, 4, 9] * 2
    assert both.cumulative_sizes == [3, 7]
    with pytest.raises(ValueError, match="absolute value of index"):
        both[-8]
    with pytest.warns(FutureWarning, match="renamed"):
        assert both.cummulative_sizes == [3, 7]


@pytest.mark.parametrize(("datasets", "message"), [([], "empty"), ([Count(1)], "does not support IterableDataset")])
def test_what_cannot_be_concatenated(datasets: list[Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        data.ConcatDataset(datasets)


def test_streams_one_after_the_other() -> None:
    chain = Count(1, 2) + Count(3)
    assert (list(chain), len(chain)) == ([1, 2, 3], 3)
    broken = data.ChainDataset([Count(1), Squares()])
    with pytest.raises(AssertionError, match="only supports IterableDataset"):
        list(broken)
    with pytest.raises(AssertionError, match="only supports IterableDataset"):
        len(broken)


def test_a_subset() -> None:
    subset = data.Subset(Squares(), [4, 0, 2])
    assert (len(subset), subset[0], subset[2]) == (3, 16, 4)
    assert subset.__getitems__([1, 0]) == [0, 16]
    groups = InGroups()
    assert data.Subset(groups, [4, 0, 2]).__getitems__([0, 2]) == [-4, -2]
    assert groups.asked == [[4, 2]]


def test_a_subset_of_arrays_takes_lists() -> None:
    assert data.Subset(np.arange(10) * 10, [4, 0, 2])[[0, 2]].tolist() == [40, 20]


def test_a_subset_s_subclass_defines_both() -> None:
    class Half(data.Subset):
        def __getitem__(self, idx: Any) -> Any:
            return super().__getitem__(idx) / 2

    with pytest.raises(NotImplementedError, match="overrides __getitem__ but not __getitems__"):
        Half(Squares(), [1])


def test_a_base_class_has_no_examples() -> None:
    with pytest.raises(NotImplementedError, match="should implement __getitem__"):
        data.Dataset()[0]
    with pytest.raises(NotImplementedError):
        iter(data.IterableDataset())  # type: ignore[abstract]


def _lengths(splits: list[Any]) -> list[int]:
    return [len(split) for split in splits]


@pytest.mark.parametrize(
    ("size", "lengths", "expected"),
    [
        (10, [3, 7], [3, 7]),
        (10, [0.3, 0.3, 0.4], [3, 3, 4]),
        (11, [0.5, 0.5], [6, 5]),
        (7, [1 / 3, 1 / 3, 1 / 3], [3, 2, 2]),
    ],
)
def test_a_split_has_every_example_once(size: int, lengths: list[float], expected: list[int]) -> None:
    splits = data.random_split(range(size), lengths)
    assert _lengths(splits) == expected
    assert sorted(i for split in splits for i in split.indices) == list(range(size))


def test_a_split_may_be_empty() -> None:
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        assert _lengths(data.random_split(range(1), [0.5, 0.5])) == [1, 0]


@pytest.mark.parametrize(
    ("lengths", "message"), [([3, 3], "Sum of input lengths"), ([1.5, -0.5], "Fraction at index 0 is not between")]
)
def test_a_split_refuses(lengths: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        data.random_split(range(10), lengths)


def test_a_split_follows_its_generator() -> None:
    first, second = (data.random_split(range(30), [10, 20], jitgrad.Generator().manual_seed(4)) for _ in range(2))
    assert [split.indices for split in first] == [split.indices for split in second]


PROGRAMS = {
    "tensors": lambda lib, d: d.TensorDataset(lib.arange(6.0).reshape(3, 2), lib.arange(3)),
    "stack": lambda lib, d: d.StackDataset(range(3), [4, 5, 6]),
    "named stack": lambda lib, d: d.StackDataset(a=range(3), b=[4, 5, 6]),
    "concat": lambda lib, d: d.ConcatDataset([range(3), [7, 8]]),
    "subset": lambda lib, d: d.Subset([1, 2, 3, 4], [3, 0]),
    "different tensors": lambda lib, d: d.TensorDataset(lib.ones(2), lib.ones(3)),
    "no stack": lambda lib, d: d.StackDataset(),
    "uneven stack": lambda lib, d: d.StackDataset(range(3), range(4)),
    "no concat": lambda lib, d: d.ConcatDataset([]),
}


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, tuple | list):
        return type(value)(map(_plain, value))
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def _outcome(program: Any, lib: Any) -> Any:
    """All examples, and those at indices that are out of range; or the errors."""
    try:
        dataset = program(lib, lib.utils.data)
        examples: list[Any] = [len(dataset)]
    except Exception as error:
        return type(error), str(error)
    for index in (*range(-len(dataset) - 1, len(dataset)), len(dataset) + 2):
        try:
            examples.append(_plain(dataset[index]))
        except Exception as error:
            examples.append(type(error))
    return examples


@pytest.mark.parametrize("name", PROGRAMS)
def test_parity(name: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch.utils.data")
    assert _outcome(PROGRAMS[name], jitgrad) == _outcome(PROGRAMS[name], torch)
