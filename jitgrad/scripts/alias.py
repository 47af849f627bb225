"""``import torch`` means jitgrad.

Owns: ``as_torch``, the module that stands for ``torch``.
Must not know: which names jitgrad lacks (``advice.py``), where its modules are (``modules.py``).

# Note [Import of torch]
# ~~~~~~~~~~~~~~~~~~~~~~
# A finder in front of all others answers for ``torch`` and ``torch.*``. ``torch.nn.functional`` is the module
# ``jitgrad.nn.functional`` itself, so classes and functions are the same objects by both names. Only ``torch`` is a
# module of its own: it has jitgrad's names and PyTorch's version, which scripts compare. Names that jitgrad finds late
# are asked for at the first use. Libraries also import names from PyTorch's inside; ``private_names.py`` lists these.
# They ask for PyTorch's version by ``importlib.metadata``, too, so the finder has a distribution of that name.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import jitgrad
from jitgrad.dtypes import PACKAGE
from jitgrad.scripts.advice import advice_on
from jitgrad.scripts.modules import has_module, imported_module
from jitgrad.scripts.private_names import has_private_name, is_private_module, private_name
from jitgrad.version import TORCH_VERSION

__all__ = ["as_torch"]


class _Torch(ModuleType):
    """The module ``torch``."""

    def __init__(self) -> None:
        super().__init__("torch", jitgrad.__doc__)
        public = {name: value for name, value in vars(jitgrad).items() if not name.startswith("__")}
        self.__dict__.update({name: v for name, v in public.items() if not has_private_name("torch", name)})
        self.__path__: list[str] = []
        self.__version__ = TORCH_VERSION
        self.__all__ = jitgrad.__all__

    def __getattr__(self, name: str) -> Any:
        if has_private_name("torch", name):
            found = private_name("torch", name)
        elif is_private_module(f"torch.{name}"):
            return importlib.import_module(f"torch.{name}")
        else:
            found = getattr(jitgrad, name)
        setattr(self, name, found)
        return found

    def __dir__(self) -> list[str]:
        return dir(jitgrad)


class _Loader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return _Torch() if spec.name == "torch" else None

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ != "torch":  # Python takes what it finds there afterwards
            sys.modules[module.__name__] = imported_module(module.__name__)


class _Distribution(importlib.metadata.Distribution):
    """What ``importlib.metadata.version("torch")`` finds; libraries ask it whether PyTorch is installed, and which."""

    def read_text(self, filename: str) -> str | None:
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {TORCH_VERSION}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        return Path(jitgrad.__file__).parent / path


class _Finder(MetaPathFinder):
    def find_distributions(self, context: Any) -> list[_Distribution]:
        """For ``importlib.metadata``."""
        return [_Distribution()] if context.name == "torch" else []

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torch" and not fullname.startswith("torch."):
            return None
        if not has_module(fullname):
            advice = advice_on(fullname)
            raise ModuleNotFoundError(
                f"No module named '{fullname}': jitgrad, which stands for torch here, has no such module"
                + (f"; {advice}" if advice else ""),
                name=fullname,
            )
        return ModuleSpec(fullname, _Loader(), is_package=True)


def as_torch() -> ModuleType:
    """Let ``import torch`` (and ``torch.nn``, ``torch.utils.data``, ...) mean jitgrad in this process, from now on.

    Call it before anything imports torch: libraries that import torch themselves, such as einops, then work with
    jitgrad's tensors. Calling it again changes nothing.

    Returns:
        The module ``torch``: jitgrad's names, and PyTorch's version number with ``+jitgrad``. Dtypes are printed as
        ``torch.float32`` from now on.

    Raises:
        RuntimeError: PyTorch itself has been imported.
    """
    known = sys.modules.get("torch")
    if isinstance(known, _Torch):
        return known
    if known is not None:
        raise RuntimeError("as_torch() must come before the first import of torch; PyTorch itself is loaded already")
    sys.meta_path.insert(0, _Finder())
    PACKAGE[:] = ["torch"]
    torch = importlib.import_module("torch")
    for name in ("torch.nn.modules", "torch.optim"):  # what import makes of them is there without one
        importlib.import_module(name)
    return torch
