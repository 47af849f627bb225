"""``DataLoader`` without workers: its arguments, its batches, its passes."""

from __future__ import annotations

import collections
import pickle
from typing import Any

import pytest

import jitgrad
from jitgrad import nn, optim
from jitgrad.utils import data
from jitgrad.utils.data import DataLoader


def stream_class(module: Any) -> Any:
    class Stream(module.IterableDataset):  # type: ignore[misc]
        def __init__(self, size: int, told: int | None = None) -> None:
            self.size, self.told = size, told

        def __iter__(self) -> Any:
            return iter(range(self.size))

        def __len__(self) -> int:
            if self.told is None:
                raise TypeError("a stream without a length")
            return self.told

        def __repr__(self) -> str:
            return f"Stream({self.size})"

    return Stream


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value


# what a program makes of a module ``torch.utils.data``: values, or the first error
PROGRAMS = {
    "batches": lambda d: list(d.DataLoader(range(7), batch_size=3)),
    "whole batches": lambda d: list(d.DataLoader(range(7), batch_size=3, drop_last=True)),
    "batches of one": lambda d: list(d.DataLoader(["a", "b"])),
    "no batches": lambda d: list(d.DataLoader([1, (2, 3)], batch_size=None)),
    "a sampler": lambda d: list(d.DataLoader("abc", sampler=[2, 0], batch_size=2)),
    "a batch sampler": lambda d: list(d.DataLoader("abc", batch_sampler=[[2, 0], [1]])),
    "a collate function": lambda d: list(d.DataLoader(range(5), batch_size=2, collate_fn=sum)),
    "a collate function without batches": lambda d: list(d.DataLoader(range(3), batch_size=None, collate_fn=str)),
    "a stream": lambda d: list(d.DataLoader(stream_class(d)(7), batch_size=3)),
    "whole batches of a stream": lambda d: list(d.DataLoader(stream_class(d)(7), batch_size=3, drop_last=True)),
    "a stream without batches": lambda d: list(d.DataLoader(stream_class(d)(3), batch_size=None)),
    "a dict by key": lambda d: list(d.DataLoader({"a": 1, "b": 2}, sampler=["b", "a"])),
    "nothing": lambda d: list(d.DataLoader([])),
    "lengths": lambda d: [
        len(d.DataLoader(range(7), **kwargs))
        for kwargs in (
            {}, {"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None},
            {"sampler": [1, 2], "batch_size": 2}, {"batch_sampler": [[1], [2]]},
        )
    ],
    "lengths of a stream": lambda d: [
        len(d.DataLoader(stream_class(d)(7, 7), **kwargs))
        for kwargs in ({}, {"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None})
    ],
    "attributes": lambda d: [
        (x.batch_size, x.drop_last, x.num_workers, x.prefetch_factor, x.timeout, x.in_order, x.persistent_workers,
         x.pin_memory, x.generator, x.multiprocessing_context, x.collate_fn.__name__, type(x.sampler).__name__,
         type(x.batch_sampler).__name__)
        for x in (
            d.DataLoader(range(3)), d.DataLoader(range(3), batch_size=None), d.DataLoader(range(3), shuffle=True),
            d.DataLoader(range(3), num_workers=2, persistent_workers=True, timeout=3, in_order=False),
            d.DataLoader(range(3), num_workers=1, prefetch_factor=5), d.DataLoader(range(3), batch_sampler=[[1]]),
        )
    ],
    "an example that fails": lambda d: list(d.DataLoader([1, 2], sampler=[0, 5])),
    "negative workers": lambda d: d.DataLoader([1], num_workers=-1),
    "negative time": lambda d: d.DataLoader([1], timeout=-1),
    "prefetching without workers": lambda d: d.DataLoader([1], prefetch_factor=2),
    "negative prefetching": lambda d: d.DataLoader([1], num_workers=1, prefetch_factor=-2),
    "persistence without workers": lambda d: d.DataLoader([1], persistent_workers=True),
    "a sampler and shuffle": lambda d: d.DataLoader([1], shuffle=True, sampler=[0]),
    "a batch sampler and a size": lambda d: d.DataLoader([1], 2, batch_sampler=[[0]]),
    "a batch sampler and shuffle": lambda d: d.DataLoader([1], shuffle=True, batch_sampler=[[0]]),
    "a batch sampler and drop_last": lambda d: d.DataLoader([1], drop_last=True, batch_sampler=[[0]]),
    "drop_last without batches": lambda d: d.DataLoader([1], None, drop_last=True),
    "an odd size": lambda d: d.DataLoader([1], 0),
    "a shuffled stream": lambda d: d.DataLoader(stream_class(d)(3), shuffle=True),
    "a stream with a sampler": lambda d: d.DataLoader(stream_class(d)(3), sampler=[1]),
    "a stream with a batch sampler": lambda d: d.DataLoader(stream_class(d)(3), batch_sampler=[[1]]),
    "a stream that is not shuffled": lambda d: list(d.DataLoader(stream_class(d)(3), shuffle=False)),
    "a context without workers": lambda d: d.DataLoader([1], multiprocessing_context="fork"),
    "an odd context": lambda d: d.DataLoader([1], num_workers=1, multiprocessing_context=3),
    "an unknown context": lambda d: d.DataLoader([1], num_workers=1, multiprocessing_context="thread"),
    "nothing to shuffle": lambda d: d.DataLoader([], shuffle=True),
    "the length of an endless stream": lambda d: len(d.DataLoader(stream_class(d)(3))),
    "time without workers": lambda d: type(iter(d.DataLoader([1], timeout=3))),
    **{
        f"setting {name}": lambda d, name=name: setattr(d.DataLoader([1]), name, None)
        for name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
    },
}  # fmt: skip


def _outcome(program: Any, module: Any) -> Any:
    try:
        return _plain(program(module))
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("name", PROGRAMS)
def test_parity(name: str) -> None:
    theirs = pytest.importorskip("torch.utils.data")
    assert _outcome(PROGRAMS[name], data) == _outcome(PROGRAMS[name], theirs)


def _warnings(program: Any, module: Any, recwarn: pytest.WarningsRecorder) -> list[Any]:
    recwarn.clear()
    program(module)
    return [(w.category, str(w.message).split("Please see")[0].replace(" ", "")) for w in recwarn]


WARNINGS = {
    "pinned memory": lambda d: list(d.DataLoader([1], pin_memory=True)),
    "a longer stream than it told": lambda d: (lambda x: (len(x), list(x)))(d.DataLoader(stream_class(d)(4, 2))),
    "many workers": lambda d: d.DataLoader([1], num_workers=1000),
}


@pytest.mark.parametrize("name", WARNINGS)
@pytest.mark.filterwarnings("default")
def test_parity_of_warnings(name: str, recwarn: pytest.WarningsRecorder) -> None:
    theirs = pytest.importorskip("torch.utils.data")
    found = _warnings(WARNINGS[name], data, recwarn)
    assert found
    assert found == _warnings(WARNINGS[name], theirs, recwarn)


def test_passes_are_independent() -> None:
    loader = DataLoader(range(4), batch_size=2)
    first, second = iter(loader), iter(loader)
    assert [next(first).tolist(), next(second).tolist(), next(first).tolist()] == [[0, 1], [0, 1], [2, 3]]
    assert (len(first), iter(first) is first) == (2, True)
    with pytest.raises(StopIteration):
        next(first)
    with pytest.raises(NotImplementedError):
        pickle.dumps(first)


def test_a_shuffled_pass_has_every_example_once() -> None:
    loader = DataLoader(range(50), batch_size=7, shuffle=True)
    passes = [[x for batch in loader for x in batch.tolist()] for _ in range(2)]
    assert [sorted(order) for order in passes] == [list(range(50))] * 2
    assert passes[0] != passes[1]


def test_groups_are_asked_for_at_once() -> None:
    class Groups(data.Dataset):
        asked: list[list[int]]

        def __init__(self) -> None:
            self.asked = []

        def __len__(self) -> int:
            return 5

        def __getitems__(self, indices: list[int]) -> list[int]:
            self.asked.append(indices)
            return [10 * i for i in indices]

    groups = Groups()
    assert [batch.tolist() for batch in DataLoader(groups, batch_size=3)] == [[0, 10, 20], [30, 40]]
    assert groups.asked == [[0, 1, 2], [3, 4]]


def test_a_pass_shows_in_a_profile() -> None:
    with jitgrad.autograd.profiler.profile() as prof:
        list(DataLoader(range(4), batch_size=2))
    names = collections.Counter(event.name for event in prof.events())
    assert names["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"] == 3


def test_this_is_no_worker() -> None:
    assert data.get_worker_info() is None


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_compiled_step_finds_its_batches(num_workers: int) -> None:
    """Batches of one shape take one path, the last short one another; later passes compile and record nothing."""
    jitgrad.manual_seed(0)
    model = nn.Linear(64, 4)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    x = jitgrad.randn(600, 64)
    dataset = data.TensorDataset(x, (x[:, 0] > 0).long())

    @jitgrad.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    loader = DataLoader(dataset, batch_size=128, shuffle=True, num_workers=num_workers)
    losses = [sum(step(*batch).item() for batch in loader)]
    before = jitgrad.stats()
    losses += [sum(step(*batch).item() for batch in loader) for _ in range(4)]
    after = jitgrad.stats()
    assert losses[-1] < losses[0]
    assert {name: after[name] - before[name] for name in ("compiles", "misses", "fallbacks")} == {
        "compiles": 0, "misses": 0, "fallbacks": 0
    }  # fmt: skip


def test_a_loader_in_a_recorded_step(mode: Any) -> None:
    x = jitgrad.arange(6.0).reshape(6, 1)

    def step() -> Any:
        total = 0
        for (batch,) in DataLoader(data.TensorDataset(x), batch_size=4):
            total = total + (batch * batch).sum()
        return total

    assert mode.run(step).item() == 55.0
