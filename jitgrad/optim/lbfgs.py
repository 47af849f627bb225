"""L-BFGS, with an optional strong Wolfe line search.

Sources: Nocedal and Wright, "Numerical Optimization", 2006, algorithm 7.4 (two loops over the last steps) and 3.5, 3.6
(bracket, then zoom); the interpolation and its safeguards are those of Schmidt's minFunc, which PyTorch has too, so
that both take the same steps. All of it is tensors and Python: there is no fused operation here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from jitgrad.functions.creation import zeros
from jitgrad.functions.joining import cat
from jitgrad.grad_mode import enable_grad, no_grad
from jitgrad.ops.dispatch_hook import call
from jitgrad.optim.optimizer import Optimizer
from jitgrad.tensor import Tensor

__all__ = ["LBFGS"]

_ARMIJO, _CURVATURE = 1e-4, 0.9


class LBFGS(Optimizer):
    """Steps along minus the gradient times an inverse Hessian, which the last steps' changes of the gradient suggest.

    ``step(closure)`` needs the closure: it clears gradients, computes the loss, runs backward and returns the loss, and
    is called several times. Compile the closure rather than the call of ``step``, which looks at every loss.

    Args:
        params: see ``Optimizer``; one group.
        lr: the length of a step, or the first that the line search tries.
        max_iter: iterations per call of ``step``.
        max_eval: evaluations of the closure per call of ``step``; 1.25 times ``max_iter`` unless given.
        tolerance_grad: stop when no element of the gradient is larger.
        tolerance_change: stop when neither the loss nor a parameter changes by more.
        history_size: how many steps are remembered.
        line_search_fn: ``"strong_wolfe"``, or None for steps of length ``lr``.

    Raises:
        ValueError: for a negative learning rate, or for several groups.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if not lr >= 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Up to ``max_iter`` iterations.

        Args:
            closure: evaluates the model again and returns the loss.

        Returns:
            What the first call of ``closure`` returned.

        Raises:
            TypeError: without a closure.
            RuntimeError: for a line search of another name.
        """
        if closure is None:
            raise TypeError("LBFGS.step() missing 1 required positional argument: 'closure'")
        with no_grad():
            return self._minimize(closure)

    def _minimize(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        state = self.state.setdefault(group["params"][0], {"func_evals": 0, "n_iter": 0})
        first_loss, loss, gradient = self._evaluate(closure)
        state["func_evals"] += 1
        evals = 1
        if _largest(gradient) <= group["tolerance_grad"]:
            return first_loss
        for i in range(group["max_iter"]):
            state["n_iter"] += 1
            direction = self._direction(state, gradient, group["history_size"])
            length = float(group["lr"])
            if state["n_iter"] == 1:
                length *= min(1.0, 1.0 / gradient.abs().sum().item())
            previous = loss
            state.update(d=direction, t=length, prev_flat_grad=gradient, prev_loss=loss)
            slope = gradient.dot(direction).item()
            if slope > -group["tolerance_change"]:
                break
            used = 0
            if group["line_search_fn"] is not None:
                start = _Point(0.0, loss, gradient, slope)
                found, used = self._search(closure, start, direction, length, group["max_eval"] - evals)
                length, loss, gradient = found.step, found.loss, found.gradient
                state["t"] = length
                self._move(direction, length)
            else:
                self._move(direction, length)
                if i + 1 < group["max_iter"]:  # nobody needs the loss after the last one
                    _, loss, gradient = self._evaluate(closure)
                    used = 1
            evals += used
            state["func_evals"] += used
            if evals >= group["max_eval"] or _largest(gradient) <= group["tolerance_grad"]:
                break
            change = min(abs(length) * _largest(direction), abs(loss - previous))
            if change <= group["tolerance_change"]:
                break
        return first_loss

    def _direction(self, state: dict[str, Any], gradient: Tensor, history_size: int) -> Tensor:
        """Minus the gradient, times what is known of the inverse Hessian."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            return gradient.neg()
        changes, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        y, s = gradient - state["prev_flat_grad"], state["d"] * state["t"]
        ys = y.dot(s)
        if ys.item() > 1e-10:
            if len(changes) == history_size:
                del changes[0], steps[0], ro[0]
            changes.append(y)
            steps.append(s)
            ro.append(1.0 / ys)
            state["H_diag"] = ys / y.dot(y)
        q = gradient.neg()
        weights = []
        for i in reversed(range(len(changes))):
            weights.append(steps[i].dot(q) * ro[i])
            q = q - weights[-1] * changes[i]
        r = q * state["H_diag"]
        for i in range(len(changes)):
            r = r + (weights[-1 - i] - changes[i].dot(r) * ro[i]) * steps[i]
        return r

    def _evaluate(self, closure: Callable[[], Any]) -> tuple[Any, float, Tensor]:
        """What ``closure`` returned, the loss as a number, and the gradient of all parameters as one vector."""
        with enable_grad():
            result = closure()
        parts = []
        for p in self.param_groups[0]["params"]:
            g = p.grad
            if g is None:
                g = zeros(p.shape, dtype=p.dtype, device=p.device)
            parts.append(_as_reals(g.to_dense() if g.is_sparse else g).detach().reshape(-1))
        return result, float(result), cat(parts)

    def _move(self, direction: Tensor, length: float) -> None:
        at = 0
        for p in self.param_groups[0]["params"]:
            reals = _as_reals(p)
            reals.add_(direction[at : at + reals.numel()].view_as(reals), alpha=length)
            at += reals.numel()

    def _search(
        self, closure: Callable[[], Any], start: _Point, direction: Tensor, length: float, max_trials: int
    ) -> tuple[_Point, int]:
        """The point that the line search found, and how often it called ``closure``; the parameters stay."""
        group = self.param_groups[0]
        if group["line_search_fn"] != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        kept = [p.clone() for p in group["params"]]

        def look(step: float) -> _Point:
            self._move(direction, step)
            _, loss, gradient = self._evaluate(closure)
            for p, value in zip(group["params"], kept, strict=True):
                p.copy_(value)
            return _Point(step, loss, gradient, gradient.dot(direction).item())

        search = _StrongWolfe(look, start, max_trials)
        narrow = group["tolerance_change"] / max(_largest(direction), 1e-300)
        return search.run(length, narrow), search.num_looks


class _Point(NamedTuple):
    """A point on the line: how far, the loss and gradient there, and the slope along the line."""

    step: float
    loss: float
    gradient: Tensor
    slope: float


class _StrongWolfe:
    """Finds a step with enough descent that is flat enough: the strong Wolfe conditions.

    Args:
        look: the point at a step.
        start: the point at 0.
        max_trials: of both phases together, after the first look.
    """

    def __init__(self, look: Callable[[float], _Point], start: _Point, max_trials: int) -> None:
        self._look = look
        self._start = start
        self._max_trials = max_trials
        self._num_trials = 0
        self.num_looks = 0

    def run(self, step: float, narrow: float) -> _Point:
        """The best point seen; ``narrow``: the width at which a bracket is not divided further."""
        ends = self._bracket(step)
        if len(ends) == 2 and self._num_trials < self._max_trials:
            self._zoom(ends, narrow)
        return min(ends, key=lambda p: p.loss)

    def _at(self, step: float) -> _Point:
        self.num_looks += 1
        return self._look(step)

    def _is_high(self, p: _Point) -> bool:
        return p.loss > self._start.loss + _ARMIJO * p.step * self._start.slope

    def _is_flat(self, p: _Point) -> bool:
        return abs(p.slope) <= -_CURVATURE * self._start.slope

    def _bracket(self, step: float) -> list[_Point]:
        """One point that will do, or two with one between them."""
        before, new = self._start, self._at(step)
        while self._num_trials < self._max_trials:
            if self._is_high(new) or (self._num_trials > 1 and new.loss >= before.loss):
                return [before, new]
            if self._is_flat(new):
                return [new]
            if new.slope >= 0:
                return [before, new]
            low, high = new.step + 0.01 * (new.step - before.step), new.step * 10
            before, new = new, self._at(_interpolate(before, new, low, high))
            self._num_trials += 1
        return [self._start, new]

    def _zoom(self, ends: list[_Point], narrow: float) -> None:
        """Move the ends together until one of them will do."""
        low = 0 if ends[0].loss <= ends[1].loss else 1
        is_stuck = False
        while self._num_trials < self._max_trials and abs(ends[1].step - ends[0].step) >= narrow:
            left, right = sorted(p.step for p in ends)
            step = _interpolate(ends[0], ends[1], left, right)
            margin = 0.1 * (right - left)
            if min(right - step, step - left) >= margin:
                is_stuck = False
            elif is_stuck or step >= right or step <= left:
                step = right - margin if abs(step - right) < abs(step - left) else left + margin
                is_stuck = False
            else:
                is_stuck = True
            new = self._at(step)
            self._num_trials += 1
            if self._is_high(new) or new.loss >= ends[low].loss:
                ends[1 - low] = new
                low = 0 if ends[0].loss <= ends[1].loss else 1
                continue
            is_done = self._is_flat(new)
            if not is_done and new.slope * (ends[1 - low].step - ends[low].step) >= 0:
                ends[1 - low] = ends[low]
            ends[low] = new
            if is_done:
                return


def _as_reals(x: Any) -> Any:
    """A tensor; a complex one as pairs of real numbers."""
    return call("view_as_real", x) if x.dtype.is_complex else x


def _interpolate(a: _Point, b: _Point, low: float, high: float) -> float:
    """Where the cubic through both points, with their slopes, is least; the middle if it has no minimum."""
    if a.step > b.step:
        a, b = b, a
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.step - b.step)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    d2 = square**0.5
    rise = b.slope - a.slope + 2 * d2
    least = b.step - (b.step - a.step) * ((b.slope + d2 - d1) / rise) if rise else high
    return min(max(least, low), high)


def _largest(x: Tensor) -> float:
    """The largest magnitude."""
    largest: float = x.abs().max().item()
    return largest
