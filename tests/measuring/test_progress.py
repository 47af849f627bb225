"""Progress bars around compiled steps: what they print does not disturb the step."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import slow_steps

import jitgrad
from jitgrad.utils.data import DataLoader, TensorDataset

_EPOCHS = 3


def _tqdm(batches: Iterable[Any], shown: io.StringIO) -> Iterator[tuple[Any, Callable[[float], None]]]:
    bar = pytest.importorskip("tqdm").tqdm(batches, file=shown, mininterval=0)
    for batch in bar:
        yield batch, lambda loss: bar.set_postfix(loss=loss)


def _rich(batches: Iterable[Any], shown: io.StringIO) -> Iterator[tuple[Any, Callable[[float], None]]]:
    progress = pytest.importorskip("rich.progress")
    console = pytest.importorskip("rich.console").Console(file=shown, force_terminal=True, width=80)
    with progress.Progress(console=console) as bar:
        task = bar.add_task("loss", total=None)
        for batch in batches:
            yield batch, lambda loss: bar.update(task, advance=1, description=f"loss={loss:.3g}")


@pytest.mark.parametrize("progress", [_tqdm, _rich])
def test_a_bar_that_shows_the_loss_costs_no_recording(progress: Any) -> None:
    step = jitgrad.compile(slow_steps.fast)
    batches = DataLoader(TensorDataset(slow_steps.DATA[:64]), batch_size=16)
    shown = io.StringIO()
    for epoch in range(_EPOCHS):
        before = jitgrad.stats()
        for (x,), show in progress(batches, shown):
            show(step(x).item())
        risen = {name: value - before[name] for name, value in jitgrad.stats().items()}
        assert epoch < _EPOCHS - 1 or (risen["misses"], risen["segments"], risen["traces"]) == (0, 4, 4)
    assert "loss=" in shown.getvalue()
