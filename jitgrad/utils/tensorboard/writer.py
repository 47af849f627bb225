"""``SummaryWriter``: a log directory for TensorBoard.

Owns: files and steps. What is written is made in ``summaries.py``.
Must not know: models. (Graphs, hyperparameters, embeddings, sound, films and meshes cannot be written yet.)
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np

from jitgrad.lazy import LazyModule
from jitgrad.utils.tensorboard.summaries import (
    histogram_summary,
    image_summary,
    pixels_of,
    scalar_summary,
    text_summary,
)

__all__ = ["FileWriter", "SummaryWriter"]

_events = LazyModule("tensorboard.compat.proto.event_pb2")
_files = LazyModule("tensorboard.summary.writer.event_file_writer")


class FileWriter:
    """One file of events.

    Args:
        log_dir: where it lies.
        max_queue: events that may wait before ``add_event`` does.
        flush_secs: how often waiting events are written.
        filename_suffix: of the file's name.

    Raises:
        ModuleNotFoundError: the package tensorboard is not installed.
    """

    def __init__(
        self, log_dir: Any, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""
    ) -> None:
        try:
            make = _files.EventFileWriter
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "jitgrad.utils.tensorboard needs the package tensorboard: pip install tensorboard", name=error.name
            ) from error
        self.event_writer = make(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> Any:
        """Where the file lies."""
        return self.event_writer.get_logdir()

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Write an event, at a step and a time (now)."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Any, global_step: Any = None, walltime: float | None = None) -> None:
        """Write a summary."""
        self.add_event(_events.Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Write what waits."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write what waits, and close the file."""
        self.event_writer.close()


class SummaryWriter:
    """Writes numbers, histograms, images and texts for TensorBoard; also a context manager.

    Args:
        log_dir: where; runs/<time>_<host><comment> if None.
        comment: see ``log_dir``.
        purge_step: events from this step on are forgotten, when a run goes on from an earlier state.
        max_queue, flush_secs, filename_suffix: see ``FileWriter``.

    Raises:
        ModuleNotFoundError: the package tensorboard is not installed.
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir, self.purge_step = str(log_dir), purge_step
        self.max_queue, self.flush_secs, self.filename_suffix = max_queue, flush_secs, filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] = {}
        self._get_file_writer()

    def _writer_in(self, log_dir: str) -> FileWriter:
        found = self.all_writers.get(log_dir)
        if found is None:
            found = FileWriter(log_dir, self.max_queue, self.flush_secs, self.filename_suffix)
            self.all_writers[log_dir] = found
        return found

    def _get_file_writer(self) -> FileWriter:
        """The main file, opened again if it has been closed."""
        if self.file_writer is None:
            self.file_writer = self._writer_in(self.log_dir)
            if self.purge_step is not None:
                start = _events.SessionLog(status=_events.SessionLog.START)
                self.file_writer.add_event(_events.Event(file_version="brain.Event:2"), self.purge_step)
                self.file_writer.add_event(_events.Event(session_log=start), self.purge_step)
                self.purge_step = None
        return self.file_writer

    def get_logdir(self) -> str:
        """Where the files lie."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Write a number: a tensor of one element, which is read, or a float. ``new_style`` changes nothing."""
        self._get_file_writer().add_summary(scalar_summary(tag, scalar_value), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write several numbers into one diagram, each as a run of its own."""
        for tag, value in tag_scalar_dict.items():
            place = f"{self.log_dir}/{main_tag.replace('/', '_')}_{tag}"
            self._writer_in(place).add_summary(scalar_summary(main_tag, value), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Write how values are distributed."""
        summary = histogram_summary(tag, values, bins, max_bins)
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Write an image: bytes, or floats in [0, 1]."""
        pixels = pixels_of(img_tensor, dataformats)
        self._get_file_writer().add_summary(image_summary(tag, pixels), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Write a batch of images, side by side."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self, tag: str, figure: Any, global_step: Any = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """Write a figure of matplotlib, or a list of them; ``close`` clears them afterwards."""
        figures = figure if isinstance(figure, list) else [figure]
        for one in figures:
            one.canvas.draw()
            pixels = np.asarray(one.canvas.buffer_rgba())
            self._get_file_writer().add_summary(image_summary(tag, pixels), global_step, walltime)
            if close:
                one.clear()

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Write a text, in Markdown."""
        self._get_file_writer().add_summary(text_summary(tag, text_string), global_step, walltime)

    def flush(self) -> None:
        """Write what waits."""
        for writer in self.all_writers.values():
            writer.flush()

    def close(self) -> None:
        """Write what waits, and close all files; a later call opens a new one."""
        for writer in self.all_writers.values():
            writer.close()
        self.file_writer, self.all_writers = None, {}

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
