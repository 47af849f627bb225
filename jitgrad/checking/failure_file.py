"""The report of a step that fails compiled and works eagerly, for an issue.

Owns: ``write_failure``, ``write_refusal``.
Must not know: how the failure was found.
In: a compiled function and its error. Out: a text file, without values of tensors unless they are asked for.
"""

from __future__ import annotations

import platform
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from jitgrad.config import config
from jitgrad.events import stats
from jitgrad.tracer.recording.graph import Segment, segment_text
from jitgrad.tracer.recording.history import EndEvent

__all__ = ["write_failure", "write_refusal"]


def write_failure(folder: Path, site: Any, error: BaseException, tensors: dict[str, Any], has_data: bool) -> Path:
    """Write a file named after the function and ``_error.txt``.

    Args:
        site: the compiled function.
        tensors: name -> array, of what the step reaches: the report has shapes and dtypes.
        has_data: put the values into an ``.npz`` file beside it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{getattr(site, '__name__', 'step').strip('<>')}_error"
    segments = [segment_text(e.segment) for e in site.last_path() if isinstance(e, EndEvent) and e.program is not None]
    parts = [
        f"{type(error).__name__} in one mode only: {error}",
        *_surroundings(error),
        "tensors:\n" + "\n".join(f"  {n}: {a.dtype.name}{list(a.shape)}" for n, a in tensors.items()),
        *(f"segment {nr} of the last call that ended\n{text}" for nr, text in enumerate(segments)),
    ]
    if has_data:
        np.savez(folder / f"{name}.npz", **tensors)
    path = folder / f"{name}.txt"
    path.write_text("\n\n".join(parts) + "\n")
    return path


def write_refusal(segment: Segment, error: BaseException) -> Path | None:
    """Write what could not be compiled to the folder of temporary files; None if that is impossible."""
    parts = ["a segment that cannot be compiled", *_surroundings(error), segment_text(segment)]
    try:
        handle, name = tempfile.mkstemp(prefix="jitgrad-refusal-", suffix=".txt")
        with open(handle, "w") as file:
            file.write("\n\n".join(parts) + "\n")
    except OSError:
        return None
    return Path(name)


def _surroundings(error: BaseException) -> list[str]:
    """The traceback, versions, settings, counters."""
    settings = {k: getattr(config, k) for k in type(config).__match_args__ if k != "cache_dir"}
    counters = {name: value for name, value in stats().items() if value}
    return [
        "".join(traceback.format_exception(error)),
        f"Python {sys.version.split()[0]}, NumPy {np.__version__}, {platform.machine()}, {platform.system()}",
        f"settings: {settings}",
        f"counters: {counters}",
    ]
