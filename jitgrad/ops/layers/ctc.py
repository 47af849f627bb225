"""Connectionist temporal classification: the negative log-likelihood of label sequences, and its gradient.

Owns: _ctc_loss, _ctc_loss_backward, over log-probabilities [T, N, C]. Neither has a lowering: sums over paths go step
by step through time, in NumPy, all sequences at once.
Must not know: Tensor, kernels.

Source: Graves et al., "Connectionist Temporal Classification", 2006: alpha and beta of section 4.1, and equation 16,
which is the gradient with respect to what a log-softmax is taken of. (PyTorch's derivative is the same one.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jitgrad.dtypes import FLOATING, INTEGER
from jitgrad.ops.aval import Aval, make_aval
from jitgrad.ops.dispatch_hook import call
from jitgrad.ops.table import RuleContext, Vjp, define

__all__: list[str] = []


class _Paths(NamedTuple):
    """What all paths go through: labels with blanks between them and around them.

    Attributes:
        labels: [N, L], L = 2 S + 1.
        may_skip: [N, L], whether a path may come from two places before.
        is_there: [N, L], places that belong to the sequence.
        lengths: [N], of the inputs.
        last: [N], the last place of each.
    """

    labels: Any
    may_skip: Any
    is_there: Any
    lengths: Any
    last: Any


def _check(log_probs: Aval, targets: Aval, input_lengths: Aval, target_lengths: Aval, blank: int, zero: bool) -> None:
    if log_probs.ndim != 3 or log_probs.dtype.category < FLOATING:
        raise RuntimeError("ctc_loss: expected log_probs to be a floating tensor of 3 dimensions")
    if targets.dtype.category is not INTEGER:
        raise RuntimeError("ctc_loss: targets must be of integral type")
    for name, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if lengths.dtype.category is not INTEGER:
            raise RuntimeError(f"{name} must be integral")
        if lengths.shape != (log_probs.shape[1],):
            raise RuntimeError(f"{name} must be of size batch_size")
    if not 0 <= blank < log_probs.shape[2]:
        raise RuntimeError("blank must be in label range")
    if targets.ndim not in (1, 2):
        raise RuntimeError(f"ctc_loss: expected 1D or 2D targets, got {targets.ndim}D")


def _loss_aval(log_probs: Aval, *rest: Any) -> Aval:
    _check(log_probs, *rest)
    return make_aval((log_probs.shape[1],), log_probs.dtype)


def _paths(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int) -> _Paths:
    time, batch, classes = log_probs.shape
    lengths, sizes = input_lengths.astype(np.int64), target_lengths.astype(np.int64)
    if (sizes < 0).any() or (lengths < 0).any():
        raise RuntimeError("ctc_loss: expected lengths to have value at least 0")
    if (lengths > time).any():
        raise RuntimeError(
            f"Expected input_lengths to have value at most {time}, but got value {int(lengths.max())} (while checking "
            "arguments for ctc_loss_allocate_outputs)"
        )
    longest = int(sizes.max()) if batch else 0
    rows = np.full((batch, longest), blank, np.int64)
    if targets.ndim == 1:
        if targets.shape[0] != sizes.sum():
            raise RuntimeError(
                f"Expected targets to have size {int(sizes.sum())} at dimension 0, but got size {targets.shape[0]}"
            )
        rows[np.arange(longest) < sizes[:, None]] = targets
    else:
        if targets.shape[1] < longest:
            raise RuntimeError(
                f"Expected tensor to have size at least {longest} at dimension 1, but got size {targets.shape}"
            )
        inside = np.arange(longest) < sizes[:, None]
        rows[inside] = targets[:, :longest][inside]
    if ((rows < 0) | (rows >= classes)).any():
        raise RuntimeError(f"ctc_loss: targets must be in [0, {classes - 1}]")
    labels = np.full((batch, 2 * longest + 1), blank, np.int64)
    labels[:, 1::2] = rows
    may_skip = np.zeros(labels.shape, bool)
    may_skip[:, 2:] = (labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2])
    is_there = np.arange(labels.shape[1]) <= 2 * sizes[:, None]
    return _Paths(labels, may_skip, is_there, lengths, 2 * sizes)


def _shifted(values: Any, places: int) -> Any:
    """Moved along dimension 1, with impossible places at the end that is free."""
    out = np.full_like(values, -np.inf)
    if places >= values.shape[1]:
        return out
    out[:, places:] = values[:, : values.shape[1] - places]
    return out


def _together(*terms: Any) -> Any:
    """The logarithm of a sum of exponentials, elementwise."""
    with np.errstate(invalid="ignore", divide="ignore"):
        peak = np.maximum.reduce(terms)
        finite = np.where(np.isneginf(peak), 0, peak)
        return finite + np.log(sum(np.exp(term - finite) for term in terms))


def _alphas(log_probs: Any, paths: _Paths) -> Any:
    """[T, N, L]: logarithms of the sums over all beginnings of paths that are at a place at a time."""
    time = log_probs.shape[0]
    alpha = np.full((time, *paths.labels.shape), -np.inf, log_probs.dtype)
    at = np.take_along_axis(log_probs, np.broadcast_to(paths.labels, (time, *paths.labels.shape)), 2)
    if not time:
        return alpha
    alpha[0, :, :2] = at[0, :, :2]
    alpha[0][~paths.is_there] = -np.inf
    for t in range(1, time):
        before = alpha[t - 1]
        skipped = np.where(paths.may_skip, _shifted(before, 2), -np.inf)
        alpha[t] = np.where(paths.is_there, _together(before, _shifted(before, 1), skipped) + at[t], -np.inf)
    return alpha


def _losses(alpha: Any, paths: _Paths) -> Any:
    """[N], from where paths may end."""
    batch = paths.labels.shape[0]
    rows = np.arange(batch)
    if not alpha.shape[0]:
        return np.where(paths.last == 0, 0.0, np.inf).astype(alpha.dtype)
    ends = alpha[np.maximum(paths.lengths - 1, 0), rows]
    final = ends[rows, paths.last]
    before = np.where(paths.last > 0, ends[rows, np.maximum(paths.last - 1, 0)], -np.inf)
    found = -_together(final, before.astype(alpha.dtype))
    nothing = np.where(paths.last == 0, 0.0, np.inf)
    return np.where(paths.lengths == 0, nothing, found).astype(alpha.dtype)


def _np_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int, zero_infinity: bool
) -> Any:
    paths = _paths(log_probs, targets, input_lengths, target_lengths, blank)
    found = _losses(_alphas(log_probs, paths), paths)
    return np.where(np.isposinf(found), 0, found).astype(found.dtype) if zero_infinity else found


def _betas(log_probs: Any, paths: _Paths) -> Any:
    """[T, N, L]: the same of all ends of paths."""
    time = log_probs.shape[0]
    beta = np.full((time, *paths.labels.shape), -np.inf, log_probs.dtype)
    at = np.take_along_axis(log_probs, np.broadcast_to(paths.labels, (time, *paths.labels.shape)), 2)
    places = np.arange(paths.labels.shape[1])
    is_end = (places == paths.last[:, None]) | ((places == paths.last[:, None] - 1) & (paths.last[:, None] > 0))
    skips = np.zeros_like(paths.may_skip)
    skips[:, :-2] = paths.may_skip[:, 2:]
    for t in range(time - 1, -1, -1):
        starts = (paths.lengths - 1 == t)[:, None] & is_end
        found = np.where(starts, at[t], -np.inf)
        if t + 1 < time:
            after = beta[t + 1]
            mirrored = after[:, ::-1]
            one, two = _shifted(mirrored, 1)[:, ::-1], _shifted(mirrored, 2)[:, ::-1]
            on = _together(after, one, np.where(skips, two, -np.inf)) + at[t]
            found = np.where((paths.lengths - 1 > t)[:, None] & paths.is_there, on, found)
        beta[t] = found
    return beta


def _np_backward(
    grad: Any,
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int,
    zero_infinity: bool,
) -> Any:
    paths = _paths(log_probs, targets, input_lengths, target_lengths, blank)
    alpha = _alphas(log_probs, paths)
    loss = _losses(alpha, paths)
    joint = alpha + _betas(log_probs, paths)
    time, batch, _ = log_probs.shape
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        peak = joint.max(2, keepdims=True, initial=-np.inf)
        peak = np.where(np.isneginf(peak), 0, peak)
        sums = np.zeros_like(log_probs)
        where = np.broadcast_to(paths.labels, joint.shape)
        np.add.at(sums, (np.arange(time)[:, None, None], np.arange(batch)[None, :, None], where), np.exp(joint - peak))
        by_label = np.log(sums) + peak
        out = (np.exp(log_probs) - np.exp(by_label + loss[None, :, None] - log_probs)) * grad[None, :, None]
    out[np.arange(time)[:, None] >= paths.lengths[None, :]] = 0
    if zero_infinity:
        out[:, np.isposinf(loss)] = 0
    return out.astype(log_probs.dtype)


def _rule(c: RuleContext, g: Any, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any) -> Any:
    return call("_ctc_loss_backward", g, log_probs, targets, input_lengths, target_lengths, *c.params)


def _no_second(c: RuleContext, g: Any) -> Any:
    raise RuntimeError("derivative for aten::_ctc_loss_backward is not implemented")


define(
    "_ctc_loss",
    aval=_loss_aval,
    numpy=_np_loss,
    vjps=[Vjp(_rule, (0, 1, 2, 3)), None, None, None],
    num_inputs=4,
    checks_values=True,
)
define(
    "_ctc_loss_backward",
    aval=lambda grad, log_probs, *rest: make_aval(log_probs.shape, log_probs.dtype),
    numpy=_np_backward,
    vjps=[Vjp(_no_second), Vjp(_no_second), None, None, None],
    num_inputs=5,
)
