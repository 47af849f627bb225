"""``torch.distributed`` in one process: the questions that scripts ask before they do without it.

Owns: those, and the errors of what needs several processes.
"""

from __future__ import annotations

import os
from typing import Any

__all__ = [
    "all_gather", "all_gather_object", "all_reduce", "barrier", "broadcast", "broadcast_object_list",
    "destroy_process_group", "gather", "get_backend", "get_rank", "get_world_size", "init_process_group",
    "is_available", "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "new_group", "recv", "reduce", "reduce_scatter", "scatter", "send",
]  # fmt: skip


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_nccl_available() -> bool:
    """False."""
    return False


def is_gloo_available() -> bool:
    """False."""
    return False


def is_mpi_available() -> bool:
    """False."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether a launcher started this process, by its variable."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def init_process_group(*args: Any, **kwargs: Any) -> None:
    """RuntimeError: training runs in one process."""
    raise RuntimeError("jitgrad trains in one process: guard this by torch.distributed.is_available()")


def _needing_a_group(name: str) -> Any:
    def needs_a_group(*args: Any, **kwargs: Any) -> Any:
        raise ValueError(
            f"{name}: Default process group has not been initialized, please make sure to call init_process_group."
        )

    needs_a_group.__name__ = needs_a_group.__qualname__ = name
    needs_a_group.__doc__ = "ValueError: there is no group of processes."
    return needs_a_group


all_gather, all_gather_object, all_reduce, barrier, broadcast = (
    _needing_a_group(name) for name in ("all_gather", "all_gather_object", "all_reduce", "barrier", "broadcast")
)
broadcast_object_list, gather, get_backend, get_rank, get_world_size = (
    _needing_a_group(name)
    for name in ("broadcast_object_list", "gather", "get_backend", "get_rank", "get_world_size")
)
new_group, recv, reduce, reduce_scatter, scatter, send, destroy_process_group = (
    _needing_a_group(name)
    for name in ("new_group", "recv", "reduce", "reduce_scatter", "scatter", "send", "destroy_process_group")
)
