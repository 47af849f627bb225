"""``SummaryWriter``: what TensorBoard reads back; and a clear error without TensorBoard."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.utils.tensorboard import SummaryWriter
from jitgrad.utils.tensorboard.summaries import pixels_of


def test_without_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ModuleNotFoundError, match="pip install tensorboard"):
        SummaryWriter(tmp_path)


def test_pixels() -> None:
    image = jitgrad.tensor([[[0.0, 1.0], [2.0, 0.5]]])
    assert pixels_of(image, "CHW")[..., 0].tolist() == [[0, 255], [255, 127]]
    assert pixels_of(image[0], "HW").shape == (2, 2, 3)
    assert pixels_of(jitgrad.ones(2, 3, 4, 5), "NCHW").shape == (4, 10, 3)
    with pytest.raises(ValueError, match="format"):
        pixels_of(image, "NCHW")


def _read(place: Path) -> Any:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(place))
    events.Reload()
    return events


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    with SummaryWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalar("loss", jitgrad.tensor(1.5) * step, step)
        writer.add_scalars("both", {"a": 1.0, "b": 2.0}, 1)
        writer.add_histogram("weights", jitgrad.arange(10.0), 2)
        writer.add_image("image", jitgrad.rand(3, 4, 5), 0)
        writer.add_text("note", "*hello*", 0)
        with pytest.raises(ValueError, match="one number"):
            writer.add_scalar("loss", jitgrad.ones(2), 3)
    events = _read(tmp_path)
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(0, 0.0), (1, 1.5), (2, 3.0)]
    (histogram,) = events.Histograms("weights")
    assert (histogram.histogram_value.num, histogram.histogram_value.max) == (10.0, 9.0)
    assert np.isclose(sum(histogram.histogram_value.bucket), 10.0)
    (image,) = events.Images("image")
    assert (image.height, image.width) == (4, 5)
    assert image.encoded_image_string.startswith(b"\x89PNG")
    assert "note/text_summary" in events.Tags()["tensors"]
    assert [e.value for e in _read(tmp_path / "both_b").Scalars("both")] == [2.0]
