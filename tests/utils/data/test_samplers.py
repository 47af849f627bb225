"""Orders of indices. From the same seed they are PyTorch's."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import jitgrad
from jitgrad.utils import data
from jitgrad.utils.data.distributed import DistributedSampler


def test_in_order() -> None:
    sampler = data.SequentialSampler("abc")
    assert (list(sampler), len(sampler)) == ([0, 1, 2], 3)


def test_random_without_replacement() -> None:
    sampler = data.RandomSampler(range(20))
    assert sorted(sampler) == list(range(20))
    assert list(sampler) != list(sampler)
    longer = list(data.RandomSampler(range(4), num_samples=10))
    assert [sorted(longer[:4]), sorted(longer[4:8]), len(longer)] == [[0, 1, 2, 3], [0, 1, 2, 3], 10]


def test_random_with_replacement() -> None:
    drawn = list(data.RandomSampler(range(3), replacement=True, num_samples=100))
    assert (len(drawn), set(drawn)) == (100, {0, 1, 2})


def test_a_growing_data_set() -> None:
    examples = [0]
    sampler = data.RandomSampler(examples)
    examples.extend([1, 2])
    assert (len(sampler), sorted(sampler)) == (3, [0, 1, 2])


def test_some_in_random_order() -> None:
    sampler = data.SubsetRandomSampler([7, 8, 9])
    assert (sorted(sampler), len(sampler)) == ([7, 8, 9], 3)


def test_weights() -> None:
    assert set(data.WeightedRandomSampler([0.0, 1.0, 0.0, 2.0], 50)) == {1, 3}
    assert sorted(data.WeightedRandomSampler([1.0, 1.0, 0.0, 2.0], 3, replacement=False)) == [0, 1, 3]


@pytest.mark.parametrize(
    ("drop_last", "expected"), [(False, [[0, 1, 2], [3, 4, 5], [6]]), (True, [[0, 1, 2], [3, 4, 5]])]
)
def test_batches(drop_last: bool, expected: list[list[int]]) -> None:
    sampler = data.BatchSampler(range(7), 3, drop_last)
    assert (list(sampler), len(sampler)) == (expected, len(expected))
    exact = data.BatchSampler(iter(range(6)), 3, drop_last)
    assert list(exact) == [[0, 1, 2], [3, 4, 5]]


def test_nothing_is_drawn_before_the_first_index() -> None:
    """Loaders draw the workers' seed between the two."""
    generator = jitgrad.Generator().manual_seed(3)
    samplers = [
        data.RandomSampler(range(4), generator=generator),
        data.SubsetRandomSampler(range(4), generator=generator),
        data.WeightedRandomSampler([1.0, 1.0], 2, generator=generator),
    ]
    before = generator.get_state().tolist()
    passes = [iter(data.BatchSampler(sampler, 2, False)) for sampler in samplers]
    assert generator.get_state().tolist() == before
    for sampled in passes:
        state = generator.get_state().tolist()
        next(sampled)
        assert generator.get_state().tolist() != state


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("size", "replicas"), [(10, 2), (11, 3), (2, 3), (7, 4), (0, 2)])
def test_every_process_has_its_share(size: int, replicas: int, drop_last: bool) -> None:
    samplers = [
        DistributedSampler(range(size), replicas, rank, shuffle=False, drop_last=drop_last) for rank in range(replicas)
    ]
    shares = [list(sampler) for sampler in samplers]
    assert {len(share) for share in shares} == {len(samplers[0])}
    dealt = [i for turn in zip(*shares, strict=True) for i in turn]
    order = itertools.islice(itertools.cycle(range(size)), len(dealt)) if size else []
    assert dealt == list(order)
    assert drop_last or set(dealt) == set(range(size))


def test_an_epoch_has_an_order() -> None:
    samplers = [DistributedSampler(range(10), 2, rank, seed=5) for rank in range(2)]
    first = [list(sampler) for sampler in samplers]
    assert sorted(i for share in first for i in share) == list(range(10))
    assert [list(sampler) for sampler in samplers] == first
    for sampler in samplers:
        sampler.set_epoch(1)
    assert [list(sampler) for sampler in samplers] != first


MISUSES = {
    "no replacement": lambda d: d.RandomSampler(range(3), replacement=1),
    "no samples": lambda d: d.RandomSampler(range(3), num_samples=0),
    "half a sample": lambda d: d.RandomSampler(range(3), num_samples=1.5),
    "nothing to draw from": lambda d: d.RandomSampler([]),
    "no weighted samples": lambda d: d.WeightedRandomSampler([1.0], 0),
    "a true number of samples": lambda d: d.WeightedRandomSampler([1.0], True),
    "weights with two dimensions": lambda d: d.WeightedRandomSampler([[1.0]], 1),
    "no weighted replacement": lambda d: d.WeightedRandomSampler([1.0], 1, replacement=0),
    "no batch size": lambda d: d.BatchSampler(range(3), 0, False),
    "a true batch size": lambda d: d.BatchSampler(range(3), True, False),
    "no drop_last": lambda d: d.BatchSampler(range(3), 1, 1),
    "too high a rank": lambda d: d.distributed.DistributedSampler(range(3), 2, 2),
    "too low a rank": lambda d: d.distributed.DistributedSampler(range(3), 2, -1),
    "a base class": lambda d: list(d.Sampler()),
    "too many without replacement": lambda d: list(d.WeightedRandomSampler([1.0, 1.0], 3, replacement=False)),
}


def _error(program: Any, module: Any) -> Any:
    with pytest.raises(Exception) as caught:
        program(module)
    return caught.type, str(caught.value)


@pytest.mark.parametrize("name", MISUSES)
def test_parity_of_misuses(name: str) -> None:
    theirs = pytest.importorskip("torch.utils.data")
    assert _error(MISUSES[name], data) == _error(MISUSES[name], theirs)


def test_processes_must_be_counted() -> None:
    with pytest.raises(RuntimeError, match="Requires distributed package"):
        DistributedSampler(range(3))


# drawn twice from one seed, and then something else, which shows where the stream is
ORDERS = {
    "random": lambda lib, d, g: d.RandomSampler(range(100)),
    "random, of a generator": lambda lib, d, g: d.RandomSampler(range(100), generator=g),
    "several passes": lambda lib, d, g: d.RandomSampler(range(7), num_samples=20, generator=g),
    "with replacement": lambda lib, d, g: d.RandomSampler(range(7), replacement=True, num_samples=70),
    "with replacement, of a generator": lambda lib, d, g: d.RandomSampler(range(7), True, 64, generator=g),
    "a subset": lambda lib, d, g: d.SubsetRandomSampler([5, 3, 1, 8]),
    "a subset, of a generator": lambda lib, d, g: d.SubsetRandomSampler(range(40), generator=g),
    "weights": lambda lib, d, g: d.WeightedRandomSampler([0.5, 1.0, 2.0, 0.0], 30),
    "weights, of a generator": lambda lib, d, g: d.WeightedRandomSampler([0.5, 1.0, 2.0, 0.0], 30, generator=g),
    "weights without replacement": lambda lib, d, g: d.WeightedRandomSampler([0.5, 1.0, 2.0, 3.0], 3, False),
    "batches": lambda lib, d, g: d.BatchSampler(d.RandomSampler(range(10), generator=g), 3, False),
    "one of three processes": lambda lib, d, g: d.distributed.DistributedSampler(range(20), 3, 1, seed=7),
    "a loader": lambda lib, d, g: d.DataLoader(range(20), shuffle=True),
    "a loader, of a generator": lambda lib, d, g: d.DataLoader(range(20), shuffle=True, generator=g, batch_size=3),
    "a loader of rows": lambda lib, d, g: d.DataLoader(d.TensorDataset(lib.arange(50)), shuffle=True, batch_size=7),
    "a loader with a sampler": lambda lib, d, g: d.DataLoader(range(9), sampler=d.RandomSampler(range(9), True, 30)),
    "a loader in order": lambda lib, d, g: d.DataLoader(range(9), generator=g),
    "a loader with workers": lambda lib, d, g: d.DataLoader(range(20), shuffle=True, num_workers=2, batch_size=3),
    "a loader without batches": lambda lib, d, g: d.DataLoader(range(9), batch_size=None, shuffle=True, generator=g),
    "a split": lambda lib, d, g: [part.indices for part in d.random_split(range(20), [0.3, 0.7], g)],
    "a split of the default stream": lambda lib, d, g: [part.indices for part in d.random_split(range(9), [4, 5])],
}


def _tolist(value: Any) -> Any:
    if isinstance(value, list):
        return [_tolist(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _drawn(name: str, lib: Any) -> list[Any]:
    lib.manual_seed(1234)
    generator = lib.Generator()
    generator.manual_seed(77)
    order = ORDERS[name](lib, lib.utils.data, generator)
    passes = [_tolist(list(order)) for _ in range(2)]
    return [passes, lib.randperm(1000).tolist(), lib.randperm(1000, generator=generator).tolist()]


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_parity_of_orders(name: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch.utils.data")
    assert _drawn(name, jitgrad) == _drawn(name, torch)
