"""Saving and loading a module's state.

Owns: what is in a state dictionary, how it is matched, and the errors.
Must not know: ``Module`` (which imports this): it is handed any tree with ``named_modules()``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from jitgrad.grad_mode import no_grad
from jitgrad.tensor import Tensor

__all__ = ["IncompatibleKeys", "collect_state", "load_state"]


class IncompatibleKeys(NamedTuple):
    """What ``load_state_dict(strict=False)`` could not match."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys!r}, unexpected_keys={self.unexpected_keys!r})"


def _entries(module: Any, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """Parameters and persistent buffers with their keys, in PyTorch's order; shared ones under every name."""
    for path, owner in module.named_modules(remove_duplicate=False):
        names = [*owner._parameters, *(name for name in owner._buffers if name not in owner._transient)]
        for name in names:
            value = owner.__dict__[name]
            if value is not None:
                yield prefix + (f"{path}.{name}" if path else name), value


def collect_state(module: Any, prefix: str, keep_vars: bool) -> dict[str, Tensor]:
    """The state dictionary of ``module``."""
    return {key: value if keep_vars else value.detach() for key, value in _entries(module, prefix)}


def load_state(module: Any, state: Mapping[str, Tensor], strict: bool) -> IncompatibleKeys:
    """Copy ``state`` into ``module``; nothing is copied when anything is wrong with it."""
    own = dict(_entries(module, ""))
    keys = IncompatibleKeys([k for k in own if k not in state], [k for k in state if k not in own])
    problems = [
        f"size mismatch for {key}: copying a param with shape {_size(state[key])} from checkpoint, "
        f"the shape in current model is {_size(value)}."
        for key, value in own.items()
        if key in state and tuple(state[key].shape) != tuple(value.shape)
    ]
    if strict:
        problems = [*_complaints(keys), *problems]
    if problems:
        listed = "\n\t".join(problems)
        raise RuntimeError(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t{listed}")
    with no_grad():
        for key, value in own.items():
            if key in state:
                value.copy_(state[key])
    return keys


def _complaints(keys: IncompatibleKeys) -> Iterator[str]:
    for kind, names in (("Unexpected", keys.unexpected_keys), ("Missing", keys.missing_keys)):
        if names:
            yield f"{kind} key(s) in state_dict: {', '.join(map(repr, names))}. ".replace("'", '"')


def _size(tensor: Tensor) -> str:
    return f"torch.Size({list(tensor.shape)})"
