"""What of a result is defined, where PyTorch leaves the rest open: which of equal elements, the signs of vectors.

Owns: ``settled``.
"""

from __future__ import annotations

from typing import Any

__all__ = ["settled"]

_PICKS = {"sort": 0, "topk": 1, "kthvalue": 1, "median": 0, "nanmedian": 0, "mode": 0, "argsort": 0}
"""Operations that say where they found an element -> which argument is the dimension."""
_FACTORS = frozenset("svd linalg.svd linalg.eigh linalg.eig qr linalg.qr svd_lowrank pca_lowrank".split())


def _picked(x: Any, found: Any, dim: int) -> Any:
    """The elements at the positions that were found, in the place of the positions."""
    parts = [found] if hasattr(found, "shape") else list(found)
    at = parts[-1]
    if x.ndim and at.ndim < x.ndim:
        at = at.unsqueeze(dim)
    parts[-1] = x.gather(dim, at) if x.ndim else x.expand(at.shape)
    return parts


def _product(name: str, found: Any) -> Any:
    """The product of the factors, and of each with itself, in the place of vectors."""
    if name == "linalg.eigh":
        w, v = found
        return [w, (v * w.unsqueeze(-2)) @ v.mH, v.mH @ v]
    if name == "linalg.eig":  # an eigenvector's phase is open
        return [found[0], found[1].abs()]
    if any(not y.numel() or not bool((y != 0).any()) for y in found):
        return found
    if name.endswith("qr"):
        q, r = found
        return [q.mH @ q, q @ r, r.abs()]
    u, s, v = found
    v = v.mH if name == "linalg.svd" else v
    k = s.shape[-1]
    return [s, (u[..., :k] * s.unsqueeze(-2)) @ v[..., :k].mH, u.mH @ u, v.mH @ v]


def settled(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], x: Any, found: Any) -> Any:
    """What of ``found``, the result of the operation ``name`` on ``x``, must be equal everywhere.

    Args:
        args, kwargs: the operation's, without ``x``.
    """
    if name in _PICKS and (name == "argsort" or isinstance(found, tuple | list)):
        at = _PICKS[name]
        return _picked(x, found, kwargs.get("dim", args[at] if len(args) > at else -1))
    if name in _FACTORS and isinstance(found, tuple | list):
        return _product(name, found)
    return found
