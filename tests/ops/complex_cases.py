"""Small expressions of complex numbers; jitgrad must give what PyTorch gives, or raise what it raises.

Owns: ``CASES``, by name; ``t`` is the module ``torch`` or ``jitgrad``.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["CASES"]


def numbers(t: Any) -> Any:
    return t.tensor([[1 + 2j, 3 - 1j], [0.5j, 2]])


def _seeded(t: Any, draw: Callable[[Any], Any]) -> Any:
    t.manual_seed(0)
    return draw(t)


def _files(t: Any) -> Any:
    buffer = io.BytesIO()
    t.save({"a": numbers(t), "v": numbers(t).t(), "parts": numbers(t).real}, buffer)
    buffer.seek(0)
    return list(t.load(buffer).values())


def _steps(t: Any, name: str, **options: Any) -> Any:
    p = t.tensor([1 + 2j, 3 - 1j], dtype=t.cdouble, requires_grad=True)
    optimizer = getattr(t.optim, name)([p], lr=0.1, **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = ((p - 1j).abs() ** 2 * t.tensor([1.0, 2.0], dtype=t.double)).sum()
        loss.backward()
        return loss

    for _ in range(4):
        optimizer.step(closure)
    return p.detach()


def _clipped(t: Any) -> Any:
    p = t.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    (p.abs() ** 2).sum().backward()
    return t.nn.utils.clip_grad_norm_([p], 1.0), p.grad


def _written(t: Any, change: Callable[[Any], Any]) -> Any:
    z = numbers(t)
    change(z)
    return z


def _checked(t: Any, check: str, function: Callable[..., Any], **options: Any) -> Any:
    z = t.tensor([1 + 0.2j, 0.3 - 1j], dtype=t.cdouble, requires_grad=True)
    x = t.tensor([0.2, 0.3], dtype=t.double, requires_grad=True)
    return getattr(t.autograd, check)(function, (z, x), **options)


CASES: dict[str, Callable[[Any], Any]] = {
    "item": lambda t: (numbers(t)[0, 0].item(), numbers(t).tolist()),
    "iinfo": lambda t: t.iinfo(t.cfloat),
    "cancast": lambda t: (
        t.can_cast(t.cfloat, t.float32),
        t.can_cast(t.float64, t.cfloat),
        t.can_cast(t.int32, t.cfloat),
    ),
    "result_type": lambda t: (
        t.result_type(t.ones(2), 1j),
        t.result_type(t.ones(2, dtype=t.double), 1j),
        t.result_type(t.tensor(1j), t.ones(2, dtype=t.double)),
        t.result_type(t.ones(2, dtype=t.int32), 1j),
        t.promote_types(t.float64, t.complex64),
        t.promote_types(t.half, t.complex64),
    ),
    "lt": lambda t: numbers(t) < 1,
    "floor": lambda t: numbers(t).floor(),
    "sort": lambda t: numbers(t).sort(),
    "max": lambda t: numbers(t).max(),
    "amax": lambda t: numbers(t).amax(),
    "argmax": lambda t: numbers(t).argmax(),
    "clamp": lambda t: numbers(t).clamp(0, 1),
    "relu": lambda t: t.relu(numbers(t)),
    "maximum": lambda t: t.maximum(numbers(t), numbers(t)),
    "remainder": lambda t: numbers(t) % 2,
    "floordiv": lambda t: numbers(t) // 2,
    "bitand": lambda t: numbers(t) & 1,
    "round": lambda t: numbers(t).round(),
    "sign": lambda t: numbers(t).sign(),
    "erf": lambda t: numbers(t).erf(),
    "softmax": lambda t: numbers(t).softmax(0),
    "gelu": lambda t: t.nn.functional.gelu(numbers(t)),
    "median": lambda t: numbers(t).median(),
    "cummax": lambda t: numbers(t).cummax(0),
    "atan2": lambda t: t.atan2(numbers(t), numbers(t)),
    "fmod": lambda t: t.fmod(numbers(t), 2),
    "nan_to_num": lambda t: numbers(t).nan_to_num(),
    "signbit": lambda t: numbers(t).signbit(),
    "copysign": lambda t: numbers(t).copysign(1.0),
    "hypot": lambda t: t.hypot(numbers(t), numbers(t)),
    "lgamma": lambda t: numbers(t).lgamma(),
    "histc": lambda t: numbers(t).histc(),
    "quantile": lambda t: numbers(t).quantile(0.5),
    "layer_norm": lambda t: t.nn.functional.layer_norm(numbers(t), (2,)),
    "mse": lambda t: t.nn.functional.mse_loss(numbers(t), numbers(t) * 2),
    "l1": lambda t: t.nn.functional.l1_loss(numbers(t), numbers(t) * 2),
    "cross_entropy": lambda t: t.nn.functional.cross_entropy(numbers(t), t.tensor([0, 1])),
    "linspace": lambda t: t.linspace(0, 1j, 3),
    "linspace2": lambda t: t.linspace(0, 1, 3, dtype=t.cfloat),
    "logspace": lambda t: t.logspace(0, 1, 3, dtype=t.cfloat),
    "arange": lambda t: t.arange(3, dtype=t.cfloat),
    "eye": lambda t: t.eye(2, dtype=t.cfloat),
    "full": lambda t: (t.full((2,), 1j), t.full((2,), 1j, dtype=t.cdouble)),
    "full2": lambda t: t.full((2,), 1j, dtype=t.float32),
    "full3": lambda t: t.full((2,), 1 + 0j, dtype=t.float32),
    "fillr": lambda t: t.ones(2).fill_(2j),
    "float_call": lambda t: float(t.tensor(1 + 0j)),
    "float_j": lambda t: float(t.tensor(1 + 1j)),
    "int_j": lambda t: int(t.tensor(1 + 1j)),
    "complex_call": lambda t: complex(t.tensor(1 + 1j)),
    "complex_real": lambda t: complex(t.tensor(2.0)),
    "bool": lambda t: bool(t.tensor(1j)),
    "to_float": lambda t: numbers(t).float(),
    "to_int": lambda t: numbers(t).long(),
    "H": lambda t: (numbers(t).H, numbers(t).mH, numbers(t).adjoint()),
    "pow": lambda t: (
        numbers(t) ** 2,
        numbers(t) ** 1j,
        2 ** numbers(t),
        t.ones(2) ** 1j,
        numbers(t) ** -1,
        numbers(t) ** 0.5,
    ),
    "mulinplace": lambda t: t.ones(2).mul_(1j),
    "alpha": lambda t: t.add(t.ones(2), t.ones(2), alpha=1j),
    "alphac": lambda t: t.add(numbers(t), numbers(t), alpha=1j),
    "where": lambda t: t.where(t.tensor([True, False]), 1j, 2.0),
    "masked_fill": lambda t: numbers(t).masked_fill(numbers(t).abs() > 1, 2j),
    "masked_fillr": lambda t: t.ones(2).masked_fill(t.tensor([True, False]), 2j),
    "backward": lambda t: numbers(t).requires_grad_().sum().backward(),
    "einsum": lambda t: t.einsum("ij,jk->ik", numbers(t), numbers(t)),
    "mixed_matmul": lambda t: numbers(t) @ t.ones(2, 2),
    "sum_dtype": lambda t: t.ones(2).sum(dtype=t.cfloat),
    "sum_real_dtype": lambda t: numbers(t).sum(dtype=t.float32),
    "unique": lambda t: numbers(t).unique(),
    "isin": lambda t: t.isin(numbers(t), numbers(t)),
    "topk": lambda t: numbers(t).topk(1),
    "nonzero": lambda t: numbers(t).nonzero(),
    "contains": lambda t: (1 + 2j in numbers(t), 7j in numbers(t)),
    "imag_real": lambda t: t.ones(2).imag,
    "real_real": lambda t: t.ones(2).real,
    "is_complex": lambda t: (
        numbers(t).is_complex(),
        t.is_complex(t.ones(1)),
        numbers(t).is_floating_point(),
        t.cfloat.is_complex,
        t.cfloat.is_signed,
        t.cfloat.to_real(),
        t.float64.to_complex(),
        t.cfloat.itemsize,
        numbers(t).is_conj(),
        numbers(t).is_signed(),
    ),
    "numpy": lambda t: (
        numbers(t).numpy().dtype,
        t.from_numpy(np.array([1j])).dtype,
        t.as_tensor(np.array([1j], np.complex64)).dtype,
        t.tensor(np.complex64(1j)).dtype,
        t.tensor([np.complex128(1j)]).dtype,
    ),
    "vmap_mm": lambda t: t.func.vmap(lambda z: t.linalg.vector_norm(z @ z.t) * 1j)(
        t.stack([numbers(t), numbers(t) * 2])
    ),
    "grad": lambda t: t.func.grad(lambda z: (z * z.conj()).real.sum())(numbers(t)),
    "jvp": lambda t: t.func.jvp(lambda z: z * z, (numbers(t),), (numbers(t),)),
    "jacrev": lambda t: t.func.jacrev(lambda z: z * z)(t.tensor([1j, 2])),
    "jacfwd": lambda t: t.func.jacfwd(lambda z: z * z)(t.tensor([1j, 2])),
    "autograd_grad_realseed": lambda t: (lambda z: t.autograd.grad((z * z), z, t.ones(2)))(
        t.tensor([1j, 2], requires_grad=True)
    ),
    "nn_Linear": lambda t: (t.manual_seed(0), t.nn.Linear(2, 2, dtype=t.cfloat)(numbers(t)))[1],
    "conv": lambda t: t.nn.functional.conv1d(numbers(t)[None], numbers(t)[None] * 1j),
    "module_to": lambda t: next(t.nn.Linear(2, 2).to(t.cfloat).parameters()).dtype,
    "np_ufunc": lambda t: np.exp(numbers(t)).dtype,
    "eqcomplex": lambda t: (t.ones(2) == 1j, numbers(t) == 1 + 2j, numbers(t) != 2),
    "sumto": lambda t: (numbers(t).sum((0, 1)), numbers(t).mean(0, True)),
    "eig": lambda t: t.linalg.eigvals(t.tensor([[0.0, -1], [1, 0]])),
    "view_as_complex_err": lambda t: t.view_as_complex(t.ones(3)),
    "view_as_real_err": lambda t: t.view_as_real(t.ones(3)),
    "complex_err": lambda t: t.complex(t.ones(3), t.ones(3).double()),
    "retain": lambda t: (lambda z: (z * 2j).retain_grad())(t.tensor([1j, 2], requires_grad=True)),
    "Parameter": lambda t: t.nn.Parameter(numbers(t)),
    "randn": lambda t: _seeded(t, lambda t: t.randn(3, 4, dtype=t.cfloat)),
    "rand": lambda t: _seeded(t, lambda t: t.rand(3, dtype=t.cfloat)),
    "randn_double": lambda t: _seeded(t, lambda t: t.randn(20, dtype=t.cdouble)),
    "normal_": lambda t: _seeded(t, lambda t: t.empty(30, dtype=t.cfloat).normal_(1, 2)),
    "uniform_": lambda t: _seeded(t, lambda t: t.empty(30, dtype=t.cfloat).uniform_(1, 2)),
    "randn_like": lambda t: _seeded(t, lambda t: t.randn_like(numbers(t).t())),
    "files": _files,
    "pickle": lambda t: pickle.loads(pickle.dumps(numbers(t))),
    "deepcopy": lambda t: copy.deepcopy(numbers(t)),
    "clip": _clipped,
    "fill": lambda t: _written(t, lambda z: z.fill_(2j)),
    "setitem": lambda t: _written(t, lambda z: z.__setitem__((0, 0), 5j)),
    "set_real": lambda t: _written(t, lambda z: setattr(z, "real", t.zeros(2, 2))),
    "add_to_imag": lambda t: _written(t, lambda z: z.imag.add_(3)),
    "gradcheck": lambda t: _checked(t, "gradcheck", lambda z, x: (z * x).exp() * z.conj()),
    "gradgradcheck": lambda t: _checked(t, "gradgradcheck", lambda z, x: (z * x).exp() * z.abs()),
    "gradcheck_forward": lambda t: _checked(
        t, "gradcheck", lambda z, x: (z * z * x).sum(0), check_forward_ad=True, check_batched_grad=True
    ),
    "gradcheck_wrong": lambda t: _checked(t, "gradcheck", lambda z, x: z * z.detach() * x),
    **{
        name: lambda t, name=name: _steps(t, name)  # type: ignore[misc]
        for name in ("SGD Adam AdamW RMSprop Adagrad Adadelta Adamax NAdam RAdam ASGD Rprop LBFGS".split())
    },
    "SGD_momentum": lambda t: _steps(t, "SGD", momentum=0.9, nesterov=True, weight_decay=0.1),
    "Adam_amsgrad": lambda t: _steps(t, "Adam", amsgrad=True, weight_decay=0.1),
}
