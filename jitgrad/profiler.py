"""``jitgrad.profiler``: the profiler under the names of ``torch.profiler``, by steps where a schedule says so.

Owns: ``profile`` with a schedule, ``schedule``, ``ProfilerAction``, ``tensorboard_trace_handler``.
Must not know: how ranges are timed (``autograd.profiler``).
"""

from __future__ import annotations

import enum
import gzip
import os
import socket
import time
from collections.abc import Callable
from typing import Any

from jitgrad.autograd.profiler import ProfilerActivity, emit_ranges, record_function
from jitgrad.autograd.profiler import profile as profile_block
from jitgrad.user_line import warn_user

__all__ = [
    "ProfilerAction", "ProfilerActivity", "emit_ranges", "profile", "record_function", "schedule",
    "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip


class ProfilerAction(enum.Enum):
    """What the profiler does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """What there is to profile."""
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """A function of a step's number for ``profile``: cycles of steps that are waited for, warmed up, recorded.

    Args:
        wait, warmup, active: how many steps of each; the last active one saves.
        repeat: how many cycles; 0: without end.
        skip_first: steps before the first cycle.
        skip_first_wait: not 0: the first cycle has no waiting.

    Raises:
        AssertionError: negative numbers, or no active step.
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warn_user("Profiler won't be using warmup, this can skew profiler results")

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step += (wait if skip_first_wait else 0) - skip_first
        length = wait + warmup + active
        if 0 < repeat <= step / length or step % length < wait:
            return ProfilerAction.NONE
        if step % length < wait + warmup:
            return ProfilerAction.WARMUP
        return _RECORDING[step % length == length - 1]

    return action


class profile(profile_block):
    """``with profile(schedule=..., on_trace_ready=...) as prof:``, and ``prof.step()`` at each step's end.

    Args:
        activities, profile_memory, with_stack, with_flops, with_modules, experimental_config, acc_events: accepted for
            PyTorch's sake.
        schedule: see ``schedule``; None: everything is recorded.
        on_trace_ready: called with the profiler after a step that saves, and at the end of a recording.
        record_shapes: keep the shapes of operations' arguments.
        kernels: time every task of every kernel on its thread: ``export_chrome_trace`` writes a timeline.

    Attributes:
        step_num: how many steps there were.
    """

    def __init__(
        self,
        *,
        activities: Any = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[Any], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        acc_events: bool = False,
        kernels: bool = False,
    ) -> None:
        super().__init__(record_shapes=record_shapes, activities=activities, kernels=kernels)
        self._schedule, self.on_trace_ready, self.step_num = schedule, on_trace_ready, 0
        self.current_action = self._action()

    def _action(self) -> ProfilerAction:
        return ProfilerAction.RECORD if self._schedule is None else self._schedule(self.step_num)

    def start(self) -> None:
        """As at the beginning of the block."""
        if self.current_action in _RECORDING:
            self._forget()
            super().start()

    def stop(self) -> None:
        """As at its end."""
        if self._session is not None:
            super().stop()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)

    def step(self) -> None:
        """The next step begins."""
        before = self.current_action
        self.step_num += 1
        self.current_action = self._action()
        if before is ProfilerAction.RECORD_AND_SAVE:
            self.stop()
        elif before is ProfilerAction.RECORD and self.current_action not in _RECORDING:
            warn_user("Incorrect schedule: RECORD followed by NONE")
            profile_block.stop(self)
        if self._session is None:
            self.start()

    def events(self) -> Any:
        """The ranges of the last recording."""
        return super().events()


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[Any], None]:
    """For ``on_trace_ready``: each recording becomes a file for chrome://tracing.

    Args:
        dir_name: where; made if it is not there.
        worker_name: the files' names begin so; host and process if None.
        use_gzip: compress them.
    """

    def handle(prof: Any) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        path = os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.json")
        prof.export_chrome_trace(path)
        if use_gzip:
            with open(path, "rb") as plain, gzip.open(f"{path}.gz", "wb") as packed:
                packed.write(plain.read())
            os.remove(path)

    return handle
