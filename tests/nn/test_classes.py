"""The classes of ``nn`` beside PyTorch's: which are there, and which are subclasses of which."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import jitgrad
from jitgrad import nn

torch: Any = pytest.importorskip("torch")

LEFT_OUT = {
    "Container": "deprecated since version 0.2: an older name of Module",
}


KINDER = {
    "CrossMapLRN2d": "is the local response normalisation",
    "UninitializedBuffer": "is a buffer",
    **{f"Lazy{kind}{d}d": "is what it becomes" for kind in ("BatchNorm", "InstanceNorm") for d in (1, 2, 3)},
}
"""Classes with more bases than PyTorch's."""


def classes_of(library: Any) -> dict[str, type]:
    found = {name: getattr(library.nn, name, None) for name in dir(torch.nn)}
    return {name: kind for name, kind in found.items() if inspect.isclass(kind)}


def test_all_classes_are_there() -> None:
    missing = set(classes_of(torch)) - set(classes_of(jitgrad))
    assert missing == set(LEFT_OUT)


def test_subclasses_are_pytorchs() -> None:
    ours, theirs = classes_of(jitgrad), classes_of(torch)
    shared = sorted(set(ours) & set(theirs))
    wrong = [
        f"{a} of {b}"
        for a in shared
        for b in shared
        if not (a in KINDER and issubclass(ours[a], ours[b]))
        and issubclass(ours[a], ours[b]) is not issubclass(theirs[a], theirs[b])
    ]
    assert wrong == []


LEFT_OUT_FUNCTIONS = {
    "conv_tbc": "a convolution of (time, batch, channels) that only fairseq used",
    "grouped_mm": "of low precision on GPUs",
    "scaled_mm": "of low precision on GPUs",
    "scaled_grouped_mm": "of low precision on GPUs",
    "linear_cross_entropy": "a compiled step fuses a projection with its loss anyway",
    "multi_head_attention_forward": "the inside of MultiheadAttention, with 25 arguments",
    "native_channel_shuffle": "is channel_shuffle",
}
"""Public functions of PyTorch's that are not there, and why."""

INTERNAL = {"assert_int_or_pair", "boolean_dispatch", "handle_torch_function"}
"""Names in PyTorch's module that are no functions of networks."""


def test_names_of_functions() -> None:
    module = torch.nn.functional
    public = {name for name in dir(module) if name[0] != "_" and inspect.isroutine(getattr(module, name))}
    public = {name for name in public - INTERNAL if not name.startswith("has_torch_function")}
    missing = {name for name in public if not hasattr(nn.functional, name)}
    assert missing <= set(LEFT_OUT_FUNCTIONS)
