"""``torch.hub``: models of repositories. Nothing is fetched: directories and files that are here are used.

Owns: where files lie, entry points of a ``hubconf.py``, and the errors for what would have to be fetched.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlparse

from jitgrad.serialization import load as load_file

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

_chosen: dict[str, str] = {}


def get_dir() -> str:
    """Where files lie: what ``set_dir`` said, or ``hub`` in $TORCH_HOME, which is ``~/.cache/torch`` by default."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("TORCH_HOME", os.path.join(cache, "torch"))
    return _chosen.get("dir") or os.path.expanduser(os.path.join(home, "hub"))


def set_dir(d: str | os.PathLike[str]) -> None:
    """Look for files there."""
    _chosen["dir"] = os.path.expanduser(d)


def _entries(repo_or_dir: Any, source: str) -> ModuleType:
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        raise RuntimeError(
            f"torch.hub does not fetch {repo_or_dir}: clone it, and load it with source='local' and the directory"
        )
    path = Path(repo_or_dir) / "hubconf.py"
    spec = importlib.util.spec_from_file_location("hubconf", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _entry(repo_or_dir: Any, name: str, source: str) -> Any:
    found = getattr(_entries(repo_or_dir, source), name, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return found


def list(
    github: Any, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = "check",
    verbose: bool = True,
) -> Any:  # fmt: skip
    """RuntimeError: nothing is fetched."""
    return _entries(github, "github")


def help(
    github: Any, model: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = "check"
) -> Any:
    """RuntimeError: nothing is fetched."""
    return _entries(github, "github")


def load(
    repo_or_dir: Any, model: str, *args: Any, source: str = "github", trust_repo: Any = "check",
    force_reload: bool = False, verbose: bool = True, skip_validation: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """What an entry point of a directory's ``hubconf.py`` makes of the arguments.

    Raises:
        RuntimeError: ``source`` is not "local", or there is no such entry point.
        ValueError: another source.
    """
    return _entry(repo_or_dir, model, source)(*args, **kwargs)


def load_state_dict_from_url(
    url: str, model_dir: Any = None, map_location: Any = None, progress: bool = True, check_hash: bool = False,
    file_name: str | None = None, weights_only: bool = False,
) -> Any:  # fmt: skip
    """The weights of a file that an earlier download has left in ``model_dir``, or in ``get_dir() + "/checkpoints"``.

    Raises:
        RuntimeError: it is not there: nothing is fetched.
    """
    folder = Path(model_dir) if model_dir is not None else Path(get_dir()) / "checkpoints"
    path = folder / (file_name or os.path.basename(urlparse(url).path))
    if not path.exists():
        raise RuntimeError(f"nothing is fetched from the network: download {url} to {path}")
    return load_file(path, map_location=map_location)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """RuntimeError: nothing is fetched."""
    raise RuntimeError(f"nothing is fetched from the network: download {url} to {dst}")
