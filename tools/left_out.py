"""``docs/left_out.md``: what of PyTorch jitgrad does not have, and why; made of ``jitgrad.scripts.left_out``.

``python -m tools.left_out`` writes the page. With ``--prune`` it first drops the names from ``LATER`` that jitgrad has
by now, which takes an installed PyTorch to know nothing: only names that are written there are looked at.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jitgrad
from jitgrad.scripts.left_out import GROUPS, LATER

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "left_out.md"
TABLE = ROOT / "jitgrad" / "scripts" / "left_out.py"

NAMESPACES = (
    "", "Tensor", "nn", "nn.functional", "nn.init", "nn.utils", "optim", "optim.lr_scheduler", "utils.data", "linalg",
    "special", "func", "autograd", "distributions", "fft", "jit", "compiler", "hub", "cpu", "amp", "cuda.amp",
    "backends", "backends.cuda", "autograd.functional", "autograd.graph", "autograd.forward_ad", "nn.attention",
    "nn.utils.rnn", "nn.utils.parametrize", "nn.utils.parametrizations", "nn.utils.prune", "nn.utils.stateless",
    "optim.swa_utils", "overrides", "random", "storage", "utils", "utils.checkpoint", "utils.dlpack", "utils.hooks",
)  # fmt: skip
"""What is compared with PyTorch, name by name."""

_HEAD = """# What is left out

Public names of PyTorch 2.13 that jitgrad does not have, without `torch.` in front; `*` stands for anything, and a name
stands for what is in it. `python -m jitgrad --check script.py` says which of them a script uses. This page is made by
`python -m tools.left_out`; a test compares it with the installed PyTorch.
"""


def find(package: ModuleType, name: str) -> Any:
    """``nn.init`` of torch or jitgrad.

    Raises:
        AttributeError, ModuleNotFoundError: there is no such thing.
    """
    found: Any = package
    for part in filter(None, name.split(".")):
        if not hasattr(found, part):
            importlib.import_module(f"{found.__name__}.{part}")
        found = getattr(found, part)
    return found


def exists(name: str) -> bool:
    """Whether jitgrad has the name."""
    try:
        find(jitgrad, name)
    except (AttributeError, ModuleNotFoundError):
        return False
    return True


def public_names(torch: ModuleType, namespace: str) -> list[str]:
    """The names that PyTorch offers there: those of ``__all__``, else all without an underscore; no modules."""
    place = find(torch, namespace)
    listed = namespace not in ("", "nn.functional", "nn.utils", "cuda.amp") and getattr(place, "__all__", None)
    names = listed or [name for name in dir(place) if not name.startswith("_")]
    return sorted({n for n in names if n[0] != "_" and not isinstance(getattr(place, n, None), ModuleType)})


def missing_names(torch: ModuleType) -> list[str]:
    """What PyTorch has in ``NAMESPACES`` and jitgrad has not."""
    found = []
    for namespace in NAMESPACES:
        names = (f"{namespace}.{name}".removeprefix(".") for name in public_names(torch, namespace))
        found += [name for name in names if not exists(name)]
    return found


def page() -> str:
    """The text of ``docs/left_out.md``."""
    parts = [_HEAD]
    for group in GROUPS:
        instead = f" Instead: {group.instead}." if group.instead else ""
        names = ", ".join(f"`{name}`" for name in group.names)
        parts.append(f"## {group.title}\n\n{group.why}{instead}\n\n{names}\n")
    if LATER:
        names = ", ".join(f"`{name}`" for name in LATER)
        parts.append(f"## Not yet\n\nThese are missing for no reason but time.\n\n{names}\n")
    return "\n".join(parts)


def write_later(names: list[str]) -> None:
    """Put these names into ``LATER``."""
    lines, line = [], "   "
    for name in sorted(names):
        if len(line) + 1 + len(name) > 116:
            lines.append(line)
            line = "   "
        line += f" {name}"
    body = "\n".join([*lines, line]) if names else ""
    text = re.sub(
        r'LATER = tuple\(\n    """\n.*?    """\.split', lambda _: f'LATER = tuple(\n    """\n{body}\n    """.split',
        TABLE.read_text(), flags=re.S,
    )  # fmt: skip
    TABLE.write_text(text)


def main() -> None:
    """Write the page."""
    if "--prune" in sys.argv[1:]:
        global LATER
        LATER = tuple(name for name in LATER if not exists(name))
        write_later(list(LATER))
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
