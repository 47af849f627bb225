"""Losses of sequences: ``ctc_loss``.

Owns: its signature and reductions; the sums over paths are in ``ops/layers/ctc.py``.
Must not know: modules. Imported late, by ``nn.functional``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.door import door
from jitgrad.dtypes import COMPLEX_DTYPES, HALVES, WHOLE
from jitgrad.functions.devices import moved
from jitgrad.functions.from_data import from_array_copy
from jitgrad.functions.precision import float32_in_autocast
from jitgrad.ops.layers.losses import check_reduction
from jitgrad.ops.shapes import refuse
from jitgrad.ops.table import OPS
from jitgrad.tensor_base import TensorBase

__all__ = ["ctc_loss"]


def _lengths(given: Any, like: Any) -> Any:
    """Lengths as a vector on the device of ``like``, of its own: later writes to ``given`` change no gradient."""
    if isinstance(given, TensorBase):
        found: Any = given.clone()
    else:
        if not isinstance(given, tuple | list) or not all(isinstance(n, int) for n in given):
            raise TypeError(f"ctc_loss(): lengths must be Tensor or tuple of ints, not {type(given).__name__}")
        found = from_array_copy(np.asarray(given, np.int64))
    return moved(found.reshape(-1), like.device)


@float32_in_autocast
def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """The negative log-likelihood of label sequences without an alignment.

    Its derivative is the one with respect to what a log-softmax is taken of, as PyTorch's: give it log-probabilities
    that come from ``log_softmax``. There is no second derivative.

    Args:
        log_probs: (T, N, C), or (T, C) for one sequence: logarithms of probabilities.
        targets: (N, S) labels, padded; or all of them one after the other, (sum of lengths).
        input_lengths: (N), of the sequences in ``log_probs``: a tensor, or numbers.
        target_lengths: (N), of the targets, likewise.
        blank: the label between labels.
        reduction: "mean" (each loss divided by its target's length, then the mean), "sum" or "none".
        zero_infinity: losses of targets that are too long count as 0, and have no gradient.

    Returns:
        A scalar, or (N) losses.

    Raises:
        RuntimeError: for lengths and labels that do not fit.
        ValueError: for another reduction.
    """
    check_reduction(reduction)
    refuse("ctc_loss_cpu", log_probs, (*WHOLE, *HALVES, *COMPLEX_DTYPES))
    is_batch = log_probs.ndim == 3
    if not is_batch:
        log_probs = log_probs.unsqueeze(1)
        targets = targets.unsqueeze(0) if targets.ndim == 1 else targets
    sizes = _lengths(target_lengths, log_probs)
    loss = door.apply(
        OPS["_ctc_loss"], log_probs, moved(targets, log_probs.device), _lengths(input_lengths, log_probs), sizes,
        int(blank), bool(zero_infinity),
    )  # fmt: skip
    if reduction == "mean":
        return (loss / sizes.to(loss.dtype).clamp_min(1)).mean()
    if reduction == "sum":
        return loss.sum()
    return loss if is_batch else loss.squeeze(0)
