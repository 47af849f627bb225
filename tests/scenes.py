"""The command line of suites that are scenes, each played in a process of its own."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

__all__ = ["scene_options"]


def scene_options(about: str | None, scenes: Iterable[str]) -> argparse.Namespace:
    """``share``: how much of each scene; ``scene``: which, all if None; ``inside``: the one that this process plays."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--scene", choices=scenes, action="append")
    parser.add_argument("--inside", choices=scenes, help=argparse.SUPPRESS)
    return parser.parse_args()
