"""What takes time in PyTorch on a machine without accelerators, and changes nothing there.

``conftest.py`` calls ``quicken`` before each test that finds PyTorch imported: a test before may have imported it.
"""

from __future__ import annotations

from typing import Any

__all__ = ["quicken"]


def quicken(torch: Any) -> None:
    """Let ``torch.manual_seed`` seed the CPU's generator alone.

    For each kind of accelerator it would note a call to be made later, with the text of the whole stack: 2 ms for each
    test, and for each comparison that draws.
    """

    def seed_cpu(seed: Any) -> Any:
        return torch.default_generator.manual_seed(int(seed))

    torch.random._manual_seed_impl = seed_cpu
