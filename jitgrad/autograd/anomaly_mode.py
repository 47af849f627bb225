"""Switching anomaly mode on and off.

Owns: ``detect_anomaly``, ``set_detect_anomaly``, ``set_anomaly_enabled``, ``is_anomaly_enabled``,
``is_anomaly_check_nan_enabled``.
Must not know: what the mode does (``runtime.engine.anomaly``, see Note [Anomaly mode]).
"""

from __future__ import annotations

import warnings

from jitgrad.state import anomaly

__all__ = [
    "detect_anomaly", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_anomaly_enabled", "set_detect_anomaly",
]  # fmt: skip


class detect_anomaly:
    """Inside the block, an error in a backward names the line of the forward that it belongs to.

    Nodes made inside remember where they were made. When a backward inside fails, a warning shows the traceback of the
    failing node's forward, and the exception gets the line as a note. The mode belongs to the process.

    Args:
        check_nan: a NaN among the gradients is an error too.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.prev = anomaly.enabled
        self.check_nan = check_nan
        self.prev_check_nan = anomaly.check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        anomaly.enabled, anomaly.check_nan = True, self.check_nan

    def __exit__(self, *exc_info: object) -> None:
        anomaly.enabled, anomaly.check_nan = self.prev, self.prev_check_nan


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """``set_detect_anomaly`` as a plain function, for good."""
    anomaly.enabled, anomaly.check_nan = bool(mode), bool(check_nan)


class set_detect_anomaly:
    """Switch anomaly mode on or off: at once and for good, or for a ``with`` block. It gives no warning.

    Args:
        mode: on or off.
        check_nan: as for ``detect_anomaly``.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.prev = anomaly.enabled
        self.prev_check_nan = anomaly.check_nan
        anomaly.enabled, anomaly.check_nan = mode, check_nan

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc_info: object) -> None:
        anomaly.enabled, anomaly.check_nan = self.prev, self.prev_check_nan


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return anomaly.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode, when it is on, looks for NaN."""
    return anomaly.check_nan
