"""Steps through which gradients flow: ``differentiable=True``.

Owns: one rule per optimizer, in tensors throughout, and what runs them.
Must not know: how the other steps are made. State is never written in place: a graph may have saved it.

A rule returns the parameter's new value and puts new tensors into the state. Learning rates, betas and the like may be
tensors of one element that require grad.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.functions import maximum, where

__all__ = ["update"]

Kept = dict[str, Any]
Rule = Callable[[Any, Any, Kept, dict[str, Any]], Any]


def update(optimizer: Any) -> None:
    """One step of every parameter that has a gradient; grad mode is on.

    Raises:
        AssertionError: for ``foreach=True``.
        RuntimeError: for sparse gradients; for a leaf that requires grad, which cannot be written.
    """
    rule = next(_RULES[base.__name__] for base in type(optimizer).__mro__ if base.__name__ in _RULES)
    for group in optimizer.param_groups:
        if group.get("foreach"):
            raise AssertionError("_foreach ops don't support autograd")
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            if grad.is_sparse:
                raise RuntimeError(f"{type(optimizer).__name__} with differentiable=True takes no sparse gradients")
            old, kept = p.clone(), optimizer.state[p]
            kept["step"] = kept.get("step", 0) + 1
            p.copy_(rule(old, -grad if group["maximize"] else grad, kept, group))


def _is_given(option: Any) -> bool:
    return bool(option != 0)


def _decayed(p: Any, grad: Any, group: dict[str, Any]) -> Any:
    return grad + group["weight_decay"] * p if _is_given(group["weight_decay"]) else grad


def _decay_apart(p: Any, grad: Any, group: dict[str, Any]) -> tuple[Any, Any]:
    """Parameter and gradient, one of them with the decay."""
    if not group.get("decoupled_weight_decay"):
        return p, _decayed(p, grad, group)
    return p * (1 - group["lr"] * group["weight_decay"]), grad


def _mean(kept: Kept, name: str, new: Any, share: Any) -> Any:
    """A running mean, of which ``share`` is kept."""
    old = kept.get(name)
    kept[name] = (1 - share) * new if old is None else share * old + (1 - share) * new
    return kept[name]


def _sgd(p: Any, grad: Any, kept: Kept, group: dict[str, Any]) -> Any:
    kept.pop("step")
    momentum, grad = group["momentum"], _decayed(p, grad, group)
    if not _is_given(momentum):
        return p - group["lr"] * grad
    before = kept.get("momentum_buffer")
    step = grad if before is None else momentum * before + (1 - group["dampening"]) * grad
    kept["momentum_buffer"] = step
    return p - group["lr"] * (grad + momentum * step if group["nesterov"] else step)


def _adam(p: Any, grad: Any, kept: Kept, group: dict[str, Any]) -> Any:
    (beta1, beta2), lr, step = group["betas"], group["lr"], kept["step"]
    p, grad = _decay_apart(p, grad, group)
    mean, square = _mean(kept, "exp_avg", grad, beta1), _mean(kept, "exp_avg_sq", grad * grad, beta2)
    if group["amsgrad"]:
        before = kept.get("max_exp_avg_sq")
        kept["max_exp_avg_sq"] = square = square if before is None else maximum(before, square)
    root = square.sqrt() / (1 - beta2**step) ** 0.5 + group["eps"]
    return p - lr / (1 - beta1**step) * mean / root


def _adagrad(p: Any, grad: Any, kept: Kept, group: dict[str, Any]) -> Any:
    grad = _decayed(p, grad, group)
    start = kept["sum"] if "sum" in kept else grad * 0 + group["initial_accumulator_value"]
    kept["sum"] = total = start + grad * grad
    rate = group["lr"] / (1 + (kept["step"] - 1) * group["lr_decay"])
    return p - rate * grad / (total.sqrt() + group["eps"])


def _adadelta(p: Any, grad: Any, kept: Kept, group: dict[str, Any]) -> Any:
    rho, eps, grad = group["rho"], group["eps"], _decayed(p, grad, group)
    square = _mean(kept, "square_avg", grad * grad, rho)
    before = kept.get("acc_delta", 0.0 * grad)
    delta = (before + eps).sqrt() / (square + eps).sqrt() * grad
    _mean(kept, "acc_delta", delta * delta, rho)
    return p - group["lr"] * delta


def _adamax(p: Any, grad: Any, kept: Kept, group: dict[str, Any]) -> Any:
    (beta1, beta2), grad = group["betas"], _decayed(p, grad, group)
    mean, size = _mean(kept, "exp_avg", grad, beta1), grad.abs() + group["eps"]
    before = kept.get("exp_inf")
    kept["exp_inf"] = largest = size if before is None else maximum(before * beta2, size)
    return p - group["lr"] / (1 - beta1 ** kept["step"]) * mean / largest


def _nadam(p: Any, grad: Any, kept: Kept, group: dict[str, Any]) -> Any:
    (beta1, beta2), lr, step = group["betas"], group["lr"], kept["step"]
    p, grad = _decay_apart(p, grad, group)
    now, following = (beta1 * (1.0 - 0.5 * 0.96 ** (n * group["momentum_decay"])) for n in (step, step + 1))
    kept["mu_product"] = product = kept.get("mu_product", 1.0) * now
    mean, square = _mean(kept, "exp_avg", grad, beta1), _mean(kept, "exp_avg_sq", grad * grad, beta2)
    root = (square / (1 - beta2**step)).sqrt() + group["eps"]
    return p - lr * ((1.0 - now) / (1.0 - product) * grad + following / (1.0 - product * following) * mean) / root


def _radam(p: Any, grad: Any, kept: Kept, group: dict[str, Any]) -> Any:
    (beta1, beta2), step = group["betas"], kept["step"]
    p, grad = _decay_apart(p, grad, group)
    mean, square = _mean(kept, "exp_avg", grad, beta1), _mean(kept, "exp_avg_sq", grad * grad, beta2)
    rate, longest = group["lr"] / (1 - beta1**step), 2 / (1 - beta2) - 1
    length = longest - 2 * step * beta2**step / (1 - beta2**step)
    if not length > 5.0:
        return p - rate * mean
    ratio = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    return p - rate * (ratio * (1 - beta2**step)) ** 0.5 * mean / (square.sqrt() + group["eps"])


def _rmsprop(p: Any, grad: Any, kept: Kept, group: dict[str, Any]) -> Any:
    alpha, grad = group["alpha"], _decayed(p, grad, group)
    variance = _mean(kept, "square_avg", grad * grad, alpha)
    if group["centered"]:
        mean = _mean(kept, "grad_avg", grad, alpha)
        variance = variance - mean * mean
    step = grad / (variance.sqrt() + group["eps"])
    if _is_given(group["momentum"]):
        before = kept.get("momentum_buffer")
        kept["momentum_buffer"] = step = step if before is None else group["momentum"] * before + step
    return p - group["lr"] * step


def _rprop(p: Any, grad: Any, kept: Kept, group: dict[str, Any]) -> Any:
    (shrink, grow), (smallest, largest) = group["etas"], group["step_sizes"]
    agreement = grad * kept.get("prev", 0.0 * grad)
    turned = agreement < 0
    size = kept["step_size"] if "step_size" in kept else 0.0 * grad + group["lr"]
    size = (size * where(turned, shrink, where(agreement > 0, grow, 1.0))).clamp(smallest, largest)
    kept["step_size"], kept["prev"] = size, where(turned, 0.0, grad)
    return p - kept["prev"].sign() * size


def _asgd(p: Any, grad: Any, kept: Kept, group: dict[str, Any]) -> Any:
    lr, lambd, eta, mu = group["lr"], group["lambd"], kept.get("eta", group["lr"]), kept.get("mu", 1.0)
    grad = _decayed(p, grad, group)
    p = p * (1 - lambd * eta) - eta * grad
    before = kept.get("ax")
    kept["ax"] = p if before is None or mu == 1 else before + (p - before) * mu
    kept["eta"] = lr / (1 + lambd * lr * kept["step"]) ** group["alpha"]
    kept["mu"] = 1 / max(1, kept["step"] - group["t0"])
    return p


_RULES: dict[str, Rule] = {
    "SGD": _sgd, "Adam": _adam, "Adagrad": _adagrad, "Adadelta": _adadelta, "Adamax": _adamax, "NAdam": _nadam,
    "RAdam": _radam, "RMSprop": _rmsprop, "Rprop": _rprop, "ASGD": _asgd,
}  # fmt: skip
