"""``nn.utils`` that change how a module's weight is made: parametrizations, weight and spectral norms, pruning."""

from __future__ import annotations

import copy
import importlib
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.nn.libraries import assert_as_pytorch, raised

Case = Callable[[Any], Any]


def stepped(xp: Any, module: Any, *shape: int, count: int = 2) -> Any:
    """Outputs and gradients of some calls, with a step of gradient descent after each, then the state."""
    out = []
    optimizer = xp.optim.SGD(module.parameters(), 0.1)
    for _ in range(count):
        optimizer.zero_grad()
        x = xp.linspace(-1, 1, int(np.prod(shape))).reshape(shape)
        found = module(x.to(next(module.parameters()).dtype))
        found.square().sum().backward()
        out.append([found, [p.grad for p in module.parameters()]])
        optimizer.step()
    return [out, dict(module.state_dict())]


def symmetric(xp: Any) -> Any:
    class Symmetric(xp.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).transpose(-1, -2)

        def right_inverse(self, x: Any) -> Any:
            return x.triu()

    return Symmetric()


def scaled(xp: Any) -> Any:
    class Scaled(xp.nn.Module):
        def forward(self, x: Any) -> Any:
            return 2 * x

    return Scaled()


def of_rank_one(xp: Any) -> Any:
    class RankOne(xp.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x.unsqueeze(-1) @ y.unsqueeze(-2)

        def right_inverse(self, z: Any) -> Any:
            return z.sum(1), z.sum(0)

    return RankOne()


def registered(xp: Any) -> Any:
    at = xp.nn.utils.parametrize
    m = xp.nn.Linear(3, 3)
    weight = m.weight
    seen = [at.register_parametrization(m, "weight", symmetric(xp)) is m, m.parametrizations.weight.original is weight]
    seen += [type(m).__name__, at.is_parametrized(m), at.is_parametrized(m, "bias"), repr(m)]
    seen += stepped(xp, m, 2, 3)
    m.weight = xp.eye(3)
    seen += [m.weight, raised(lambda: setattr(m, "weight", xp.eye(3, dtype=xp.float64)))[0]]
    at.register_parametrization(m, "weight", scaled(xp), unsafe=True)
    seen += [m.weight, raised(lambda: setattr(m, "weight", xp.eye(3)))]
    at.remove_parametrizations(m, "weight")
    return [*seen, m.weight, type(m).__name__, m.weight is weight, list(m.state_dict())]


def of_a_buffer(xp: Any) -> Any:
    m = xp.nn.BatchNorm1d(2)
    xp.nn.utils.parametrize.register_parametrization(m, "running_mean", scaled(xp))
    seen = [m.running_mean, list(m.state_dict()), [name for name, _ in m.named_buffers()]]
    xp.nn.utils.parametrize.remove_parametrizations(m, "running_mean", leave_parametrized=False)
    return [*seen, m.running_mean, list(m.state_dict())]


def of_several_tensors(xp: Any) -> Any:
    at = xp.nn.utils.parametrize
    m = xp.nn.Linear(3, 2)
    at.register_parametrization(m, "weight", of_rank_one(xp))
    seen = stepped(xp, m, 2, 3)
    m.weight = xp.ones(2, 3)
    seen += [m.weight, raised(lambda: at.remove_parametrizations(m, "weight", leave_parametrized=False))]
    at.remove_parametrizations(m, "weight")
    return [*seen, m.weight, type(m.weight).__name__, m.weight.requires_grad]


def refused(xp: Any) -> Any:
    at, nn = xp.nn.utils.parametrize, xp.nn

    class Odd(nn.Module):
        def __init__(self, fn: Any) -> None:
            super().__init__()
            self.fn = fn

        def forward(self, x: Any) -> Any:
            return self.fn(x)

    m = nn.Linear(2, 2)
    first = [
        raised(lambda fn=fn: at.register_parametrization(nn.Linear(2, 2), "weight", Odd(fn)))[0]
        for fn in (lambda x: x.double(), lambda x: x[0], lambda x: 3)
    ]
    at.register_parametrization(m, "weight", nn.Identity())
    further = [
        raised(lambda fn=fn: at.register_parametrization(m, "weight", Odd(fn)))[0]
        for fn in (lambda x: x.double(), lambda x: x[0], lambda x: 3)
    ]
    return [
        first, further,
        raised(lambda: at.register_parametrization(m, "none", nn.Identity()))[0],
        raised(lambda: at.remove_parametrizations(m, "bias"))[0],
        raised(lambda: at.ParametrizationList([], m.bias)),
    ]  # fmt: skip


def kept_while_cached(xp: Any) -> Any:
    calls = []

    class Counted(xp.nn.Module):
        def forward(self, x: Any) -> Any:
            calls.append(1)
            return x

    m = xp.nn.Linear(2, 2)
    xp.nn.utils.parametrize.register_parametrization(m, "weight", Counted())
    calls.clear()
    with xp.nn.utils.parametrize.cached():
        a = m.weight
        seen = [a is m.weight, len(calls)]
    return [*seen, m.weight is m.weight, len(calls)]


def transferred(xp: Any) -> Any:
    at = xp.nn.utils.parametrize
    a, b = xp.nn.Linear(2, 2), xp.nn.Linear(2, 2)
    at.register_parametrization(a, "weight", symmetric(xp))
    at.transfer_parametrizations_and_params(a, b)
    same = a.parametrizations.weight.original is b.parametrizations.weight.original
    return [same, b.weight, at.type_before_parametrizations(b).__name__]


def weight_norms(xp: Any) -> Any:
    seen = []
    for layer, shape in ((xp.nn.Linear(3, 2), (2, 3)), (xp.nn.Conv1d(2, 3, 2), (1, 2, 4))):
        for dim in (0, 1, None):
            m = xp.nn.utils.parametrizations.weight_norm(copy.deepcopy(layer), dim=dim)
            seen += stepped(xp, m, *shape)
    return seen


def older_weight_norm(xp: Any) -> Any:
    m = xp.nn.utils.weight_norm(xp.nn.Linear(3, 2), dim=0)
    seen = [[name for name, _ in m.named_parameters()], *stepped(xp, m, 2, 3)]
    seen.append(raised(lambda: xp.nn.utils.weight_norm(m))[0])
    new = xp.nn.utils.parametrizations.weight_norm(xp.nn.Linear(3, 2))
    seen += [str(new.load_state_dict(m.state_dict())), new.weight]
    xp.nn.utils.remove_weight_norm(m)
    return [*seen, m.weight, list(m.state_dict()), raised(lambda: xp.nn.utils.remove_weight_norm(m))[0]]


def spectral_norms(xp: Any) -> Any:
    seen = []
    layers = ((xp.nn.Linear(3, 2), (2, 3)), (xp.nn.ConvTranspose1d(2, 3, 2), (1, 2, 4)))
    for layer, shape in layers:
        m = xp.nn.utils.parametrizations.spectral_norm(layer, n_power_iterations=2)
        seen += [*stepped(xp, m, *shape), m.eval().weight, m.weight]
    vector = xp.nn.utils.parametrizations.spectral_norm(xp.nn.LayerNorm(3))
    wrong = raised(lambda: xp.nn.utils.parametrizations.spectral_norm(xp.nn.Linear(2, 2), n_power_iterations=0))
    return [*seen, vector.weight, wrong]


def older_spectral_norm(xp: Any) -> Any:
    m = xp.nn.utils.spectral_norm(xp.nn.Conv2d(1, 5, 2).double())
    seen = [*stepped(xp, m, 1, 1, 3, 3), m.state_dict()._metadata[""]]
    twin = xp.nn.utils.spectral_norm(xp.nn.Conv2d(1, 5, 2).double())
    seen.append(str(twin.load_state_dict(m.state_dict())))
    old = {key: value for key, value in m.state_dict().items() if key != "weight_v"}
    old["weight"] = m.weight.detach()
    seen += [str(twin.load_state_dict(old)), twin.weight_v, raised(lambda: xp.nn.utils.spectral_norm(m))[0]]
    xp.nn.utils.remove_spectral_norm(m)
    return [*seen, m.weight, list(m.state_dict()), str(xp.nn.Conv2d(1, 5, 2).double().load_state_dict(m.state_dict()))]


def orthogonals(xp: Any) -> Any:
    seen = []
    for map_name in ("matrix_exp", "cayley", "householder"):
        for rows, columns in ((3, 3), (4, 2), (2, 4)):
            m = xp.nn.utils.parametrizations.orthogonal(xp.nn.Linear(columns, rows), orthogonal_map=map_name)
            seen += stepped(xp, m, 2, columns)
    return seen


def orthogonal_without_trivialization(xp: Any) -> Any:
    seen = []
    at = xp.nn.utils.parametrizations
    for rows, columns in ((3, 3), (4, 2), (2, 4)):
        layer = xp.nn.Linear(columns, rows)
        xp.nn.init.orthogonal_(layer.weight)
        m = at.orthogonal(layer, orthogonal_map="householder", use_trivialization=False)
        seen += stepped(xp, m, 2, columns)
        free = at.orthogonal(xp.nn.Linear(columns, rows), orthogonal_map="cayley", use_trivialization=False)
        seen.append(raised(lambda free=free: setattr(free, "weight", free.weight.detach())))
    return [
        *seen,
        raised(lambda: at.orthogonal(xp.nn.Linear(2, 2), orthogonal_map="x")),
        raised(lambda: at.orthogonal(xp.nn.Linear(2, 2), "bias")),
        raised(lambda: at.orthogonal(m, "none"))[0],
    ]


def pruned(xp: Any) -> Any:
    prune = importlib.import_module(f"{xp.__name__}.nn.utils.prune")
    seen = []
    layer = xp.nn.Conv1d(4, 3, 2)
    for apply in (
        lambda m: prune.identity(m, "weight"),
        lambda m: prune.random_unstructured(m, "weight", 5),
        lambda m: prune.l1_unstructured(m, "weight", 0.4),
        lambda m: prune.l1_unstructured(m, "weight", 3, importance_scores=xp.arange(24.0).reshape(3, 4, 2)),
        lambda m: prune.random_structured(m, "weight", 2, 1),
        lambda m: prune.ln_structured(m, "weight", 0.5, n=2, dim=1),
        lambda m: prune.ln_structured(m, "weight", 1, n=float("inf"), dim=0),
        lambda m: prune.custom_from_mask(m, "bias", xp.tensor([1.0, 0.0, 1.0])),
    ):
        m = copy.deepcopy(layer)
        apply(m)
        seen += [prune.is_pruned(m), list(m.state_dict()), *stepped(xp, m, 1, 4, 3)]
    m = copy.deepcopy(layer)
    prune.l1_unstructured(m, "weight", 6)
    prune.ln_structured(m, "weight", 1, n=1, dim=1)
    prune.random_unstructured(m, "weight", 2)
    hook = next(iter(m._forward_pre_hooks.values()))
    seen += [type(hook).__name__, [type(part).__name__ for part in hook], m.weight_mask, m.weight]
    prune.remove(m, "weight")
    seen += [m.weight, list(m.state_dict()), prune.is_pruned(m)]
    pair = [xp.nn.Linear(3, 2), xp.nn.Linear(2, 3)]
    prune.global_unstructured([(pair[0], "weight"), (pair[1], "weight")], prune.L1Unstructured, amount=5)
    seen += [part.weight_mask for part in pair]
    return [
        *seen,
        raised(lambda: prune.remove(m, "weight"))[0],
        raised(lambda: prune.l1_unstructured(m, "weight", -1)),
        raised(lambda: prune.l1_unstructured(m, "weight", 1.5)),
        raised(lambda: prune.l1_unstructured(m, "weight", "x")),
        raised(lambda: prune.l1_unstructured(m, "weight", 100)),
        raised(lambda: prune.ln_structured(m, "bias", 1, 2, 0))[0],
        raised(lambda: prune.ln_structured(m, "weight", 1, 2, 5))[0],
        raised(lambda: prune.global_unstructured(3, prune.L1Unstructured)),
        list(m.state_dict()),
    ]


def others(xp: Any) -> Any:
    at = xp.nn.utils
    m = at.skip_init(xp.nn.Linear, 3, 2)
    conv, bn = xp.nn.Conv2d(2, 3, 2), xp.nn.BatchNorm2d(3)
    x = xp.randn(4, 2, 5, 5)
    bn(conv(x))
    conv.eval(), bn.eval()
    fused = at.fuse_conv_bn_eval(conv, bn)
    linear, flat = xp.nn.Linear(3, 2, bias=False), xp.nn.BatchNorm1d(2)
    flat(linear(xp.randn(4, 3)))
    linear.eval(), flat.eval()
    y = xp.randn(2, 3)
    return [
        list(m.weight.shape), xp.rand(1),
        fused(x), bn(conv(x)), at.fuse_linear_bn_eval(linear, flat)(y), flat(linear(y)),
        raised(lambda: at.fuse_conv_bn_eval(conv.train(), bn)), raised(lambda: at.skip_init(dict)),
        at.convert_conv2d_weight_memory_format(conv, xp.channels_last).weight,
    ]  # fmt: skip


CASES: list[Case] = [
    registered, of_a_buffer, of_several_tensors, refused, kept_while_cached, transferred, weight_norms,
    older_weight_norm, spectral_norms, older_spectral_norm, orthogonals, orthogonal_without_trivialization, pruned,
    others,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_as_pytorch(case: Case) -> None:
    assert_as_pytorch(case)


def test_copies_of_a_parametrized_module() -> None:
    m = jitgrad.nn.utils.parametrizations.weight_norm(jitgrad.nn.Linear(2, 2))
    twin = copy.deepcopy(m)
    with jitgrad.no_grad():
        twin.parametrizations.weight.original0.mul_(2.0)
    np.testing.assert_allclose(twin.weight.detach().numpy(), 2 * m.weight.detach().numpy(), rtol=1e-6)
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(m)


@pytest.mark.parametrize("kind", ["weight_norm", "spectral_norm", "orthogonal"])
def test_training_a_parametrized_layer(mode: Any, kind: str) -> None:
    def losses(run: Any) -> list[float]:
        jitgrad.manual_seed(0)
        m = getattr(jitgrad.nn.utils.parametrizations, kind)(jitgrad.nn.Linear(3, 3))
        optimizer = jitgrad.optim.SGD(m.parameters(), 0.05)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = (m(x) - 1).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        call = run(step)
        return [call(jitgrad.linspace(-1, 1, 12).reshape(4, 3)).item() for _ in range(4)]

    np.testing.assert_allclose(losses(mode.wrap), losses(lambda step: step), rtol=1e-5)
