"""``nn.functional`` against PyTorch: values, first and second derivatives, in every mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import functions
from tests.conftest import Mode

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

Function = Callable[..., Any]
_rng = np.random.default_rng(11)


def r(*shape: int) -> Any:
    return _rng.standard_normal(shape)


WEIGHT = r(5) ** 2
TARGET = np.array([1, 0, 4, 2])
CASES: dict[str, tuple[Function, tuple[Any, ...]]] = {
    **{
        name: ((lambda F, t, x, name=name: getattr(F, name)(x)), (r(4, 5) * 3,))
        for name in [
            "relu",
            "relu6",
            "gelu",
            "silu",
            "softplus",
            "elu",
            "selu",
            "celu",
            "leaky_relu",
            "hardswish",
            "logsigmoid",
            "mish",
            "softsign",
            "tanhshrink",
        ]
    },
    **{
        f"{name}-{how}": (
            lambda F, t, x, name=name, how=how: getattr(t, name)(x, 0.3, 1, interpolation=how),
            (r(4, 5),),
        )
        for name in ("quantile", "nanquantile")
        for how in ("linear", "lower", "higher", "midpoint", "nearest")
    },
    "quantile-several": (lambda F, t, x, q: t.quantile(x, q, -1, True), (r(3, 4), np.array([0.0, 0.35, 1.0]))),
    "quantile-all": (lambda F, t, x: t.quantile(x, 0.7, keepdim=True), (r(3, 4),)),
    "quantile-missing": (
        lambda F, t, x: t.nanquantile(t.where(x > 0.3, float("nan"), x), 0.4, 0),
        (r(6, 3) - 1,),
    ),
    **{
        f"{name}-{rank}": (lambda F, t, x, name=name: getattr(t, name)(x), (r(*range(2, 2 + rank)),))
        for name in ("atleast_1d", "atleast_2d", "atleast_3d", "diagflat")
        for rank in range(4)
    },
    **{
        f"{name}-{rank}": (
            lambda F, t, x, y, name=name: getattr(t, name)([x, y, x * 2]),
            (r(*(2, 3, 4)[:rank]), r(*(2, 3, 4)[:rank])),
        )
        for name in ("hstack", "vstack", "dstack", "column_stack", "row_stack")
        for rank in range(4)
    },
    "block_diag": (lambda F, t, *xs: t.block_diag(*xs), (r(2), r(), r(2, 3), r(0, 2), r(2, 0))),
    "kron": (lambda F, t, x, y: t.kron(x, y), (r(2, 3), r(2, 1))),
    "kron-ranks": (lambda F, t, x, y: t.kron(x, y), (r(3), r(2, 1, 2))),
    "kron-number": (lambda F, t, x, y: t.kron(x, y), (r(), r(2))),
    "cartesian_prod": (lambda F, t, *xs: t.cartesian_prod(*xs), (r(2), r(3), r(1))),
    "cartesian_prod-one": (lambda F, t, x: t.cartesian_prod(x) * x, (r(3),)),
    **{
        f"combinations-{count}-{again}": (
            lambda F, t, x, count=count, again=again: t.combinations(x, count, again),
            (r(4),),
        )
        for count in (1, 2, 3)
        for again in (False, True)
    },
    "broadcast_tensors": (lambda F, t, x, y: sum(t.broadcast_tensors(x, y)), (r(2, 1), r(3))),
    **{f"rot90-{k}": (lambda F, t, x, k=k: t.rot90(x, k, (0, -1)), (r(2, 3, 4),)) for k in range(-3, 5)},
    "fliplr": (lambda F, t, x: t.fliplr(x), (r(2, 3),)),
    "flipud": (lambda F, t, x: t.flipud(x), (r(2, 3),)),
    **{
        f"diag-{rank}-{k}": (lambda F, t, x, k=k: t.diag(x, k), (r(*(3, 4)[:rank]),))
        for rank in (1, 2)
        for k in (-1, 0, 2)
    },
    **{
        f"diag_embed-{dims}": (lambda F, t, x, dims=dims: t.diag_embed(x, *dims), (r(2, 3),))
        for dims in ((), (1,), (-2, 0, 2), (0, 2, 0), (1, -1, 1))
    },
    **{
        f"{name}-{cuts}": (
            lambda F, t, x, name=name, cuts=cuts: t.cat([y * k for k, y in enumerate(getattr(t, name)(x, cuts))], -1),
            (r(4, 4, 4),),
        )
        for name in ("hsplit", "vsplit", "dsplit")
        for cuts in (2, [2])
    },
    "sum_to_size": (lambda F, t, x: x.sum_to_size(3, 1), (r(2, 3, 4),)),
    "sum_to_size-same": (lambda F, t, x: x.sum_to_size((2, 3)) * x, (r(2, 3),)),
    "mH": (lambda F, t, x: x.mH @ x[0].H @ t.adjoint(x), (r(2, 3, 3),)),
    **{
        f"inner-{a}-{b}": (lambda F, t, x, y: t.inner(x, y), (r(*a, 3) if a != "0" else r(), r(*b, 3)))
        for a in ((), (2,), (2, 4), "0")
        for b in ((), (2,))
    },
    "vdot": (lambda F, t, x, y: t.vdot(x, y), (r(3), r(3))),
    "ger": (lambda F, t, x, y: t.ger(x, y), (r(3), r(2))),
    **{
        f"{name}-{beta}-{alpha}": (
            lambda F, t, x, a, b, name=name, beta=beta, alpha=alpha: (
                getattr(t, name)(x, a, b, beta=beta, alpha=alpha) + 0 * x
            ),
            shapes,
        )
        for name, shapes in (
            ("addmv", (r(2), r(2, 3), r(3))),
            ("addr", (r(2, 3), r(2), r(3))),
            ("addbmm", (r(2, 4), r(3, 2, 3), r(3, 3, 4))),
            ("baddbmm", (r(2, 4), r(3, 2, 3), r(3, 3, 4))),
        )
        for beta, alpha in ((1, 1), (0, 2.0), (0.5, -2))
    },
    **{f"dist-{p}": (lambda F, t, x, y, p=p: t.dist(x, y, p), (r(2, 3), r(3))) for p in (1, 2, 3, float("inf"))},
    **{
        f"pairwise_distance-{p}": (lambda F, t, x, y, p=p: F.pairwise_distance(x, y, p, 1e-5, True), (r(2, 3), r(3)))
        for p in (1.0, 2.0, 3.0)
    },
    **{
        f"cosine_similarity-{dim}": (lambda F, t, x, y, dim=dim: F.cosine_similarity(x, y, dim), (r(2, 3), r(3)))
        for dim in (0, 1, -1)
    },
    "cosine_similarity-short": (lambda F, t, x, y: F.cosine_similarity(x, y, 0, 5.0), (r(3), r(3))),
    "aminmax": (lambda F, t, x: t.stack(tuple(t.aminmax(x))), (r(3, 4),)),
    "aminmax-dim": (lambda F, t, x: t.cat(tuple(t.aminmax(x, dim=1, keepdim=True))), (r(3, 4).round(0),)),
    **{
        f"{name}-{args}": (
            lambda F, t, x, name=name, args=args: getattr(t, name)(t.where(x > 0.5, float("nan"), x), *args),
            (r(5, 4) - 0.7,),
        )
        for name in ("nansum", "nanmean")
        for args in ((), (0,), ((0, 1), True))
    },
    **{
        f"diff-{n}-{dim}": (lambda F, t, x, n=n, dim=dim: t.diff(x, n, dim) + 0 * x.sum(), (r(4, 3),))
        for n in (0, 1, 2, 3)
        for dim in (0, -1)
    },
    "diff-more": (lambda F, t, x, a, b: t.diff(x, 1, 0, a, b), (r(4, 3), r(1, 3), r(2, 3))),
    **{
        f"{name}-{kind}": (
            lambda F, t, x, y, name=name, kind=kind: (
                getattr(t, name)(y, dx=0.3, dim=0) + 0 * x.sum()
                if kind == "dx"
                else getattr(t, name)(y, x[0] if kind == "vector" else x, dim=1)
            ),
            (r(2, 4), r(2, 4)),
        )
        for name in ("trapezoid", "cumulative_trapezoid")
        for kind in ("dx", "vector", "matrix")
    },
    "msort": (lambda F, t, x: t.msort(x), (r(4, 5),)),
    "glu": (lambda F, t, x: F.glu(x, 0), (r(4, 5),)),
    "softmin": (lambda F, t, x: F.softmin(x, 1), (r(4, 5),)),
    "layer_norm": (lambda F, t, x, w, b: F.layer_norm(x, (4, 5), w, b), (r(3, 4, 5), r(4, 5), r(4, 5))),
    "layer_norm-plain": (lambda F, t, x: F.layer_norm(x, (5,)), (r(3, 4, 5),)),
    "layer_norm-weight": (lambda F, t, x, w: F.layer_norm(x, (5,), w), (r(3, 4, 5), r(5))),
    "rms_norm": (lambda F, t, x, w: F.rms_norm(x, (5,), w), (r(3, 4, 5), r(5))),
    "batch_norm": (lambda F, t, x, w, b: F.batch_norm(x, None, None, w, b, training=True), (r(3, 4, 5), r(4), r(4))),
    "normalize": (lambda F, t, x: F.normalize(x), (r(4, 5),)),
    "embedding": (lambda F, t, w, i: F.embedding(i, w, padding_idx=1), (r(6, 3), np.array([[1, 2], [5, 2]]))),
    "attention": (
        lambda F, t, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (r(2, 3, 4, 5), r(2, 3, 4, 5), r(2, 3, 4, 6)),
    ),
    "attention-shared-heads": (
        lambda F, t, q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        (r(2, 6, 4, 5), r(2, 3, 4, 5), r(2, 2, 4, 6)),
    ),
    "attention-mask": (
        lambda F, t, q, k, v: F.scaled_dot_product_attention(q, k, v, q @ k.transpose(-1, -2) > -1, scale=0.3),
        (r(2, 4, 5), r(2, 4, 5), r(2, 4, 6)),
    ),
    "conv2d": (
        lambda F, t, x, w, b: F.conv2d(x, w, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2)),
        (r(2, 3, 7, 8), r(4, 3, 3, 2), r(4)),
    ),
    "conv2d-same": (lambda F, t, x, w: F.conv2d(x, w, padding="same"), (r(2, 3, 5, 4), r(4, 3, 3, 3))),
    "conv2d-groups": (lambda F, t, x, w: F.conv2d(x, w, groups=2), (r(2, 4, 5, 4), r(6, 2, 3, 2))),
    "max_pool2d": (lambda F, t, x: F.max_pool2d(x, 2), (r(2, 4, 7, 8),)),
    "max_pool2d-overlap": (lambda F, t, x: F.max_pool2d(x, 3, 2, 1), (r(2, 4, 7, 8),)),
    "avg_pool2d": (lambda F, t, x: F.avg_pool2d(x, (3, 2), 2, 1), (r(2, 4, 7, 8),)),
    "pad": (lambda F, t, x: F.pad(x, (1, -2, 0, 3), value=2.0), (r(2, 4, 7),)),
    "smooth-labels": (lambda F, t, x, y: F.cross_entropy(x, y, label_smoothing=0.1), (r(4, 5), TARGET)),
}
for _red in ("mean", "sum", "none"):
    _losses: dict[str, tuple[Function, tuple[Any, ...]]] = {
        "mse": (lambda F, t, x, y, k=_red: F.mse_loss(x, y, reduction=k), (r(4, 5), r(4, 5))),
        "l1": (lambda F, t, x, y, k=_red: F.l1_loss(x, y, reduction=k), (r(4, 5), r(4, 5))),
        "bce-logits": (
            lambda F, t, x, y, k=_red: F.binary_cross_entropy_with_logits(
                x, y, weight=t.tensor(WEIGHT), pos_weight=t.tensor(WEIGHT + 1), reduction=k
            ),
            (r(4, 5), np.abs(r(4, 5))),
        ),
        "kl": (
            lambda F, t, x, y, k=_red: F.kl_div(
                x.log_softmax(1), y.softmax(1), reduction="batchmean" if k == "mean" else k
            ),
            (r(4, 5), r(4, 5)),
        ),
        "cross_entropy": (lambda F, t, x, y, k=_red: F.cross_entropy(x, y, reduction=k), (r(4, 5), TARGET)),
        "cross_entropy-weight": (
            lambda F, t, x, y, k=_red: F.cross_entropy(
                x, y, weight=t.tensor(WEIGHT), reduction=k, ignore_index=4, label_smoothing=0.1
            ),
            (r(4, 5), TARGET),
        ),
        "cross_entropy-soft": (
            lambda F, t, x, y, k=_red: F.cross_entropy(x, y.softmax(1), reduction=k, label_smoothing=0.1),
            (r(4, 5), r(4, 5)),
        ),
        "cross_entropy-4d": (
            lambda F, t, x, y, k=_red: F.cross_entropy(x, y, reduction=k),
            (r(2, 3, 4, 2), _rng.integers(0, 3, (2, 4, 2))),
        ),
        "cross_entropy-1d": (lambda F, t, x, y, k=_red: F.cross_entropy(x, y, reduction=k), (r(3), np.array(2))),
    }
    CASES.update({f"{name}-{_red}": case for name, case in _losses.items()})


def _use(function: Function, library: Any, functional: Any, grad: Any, tensors: list[Any]) -> list[Any]:
    """The value, its gradients, and the gradients of their squares."""
    out = function(functional, library, *tensors)
    weights = library.tensor(np.random.default_rng(3).uniform(0.5, 1.5, tuple(out.shape)))
    leaves = [x for x in tensors if x.requires_grad]
    first = grad((out * weights).sum(), leaves, create_graph=True)
    square = sum((g * g).sum() for g in first)
    second = grad(square, leaves, allow_unused=True) if square.requires_grad else [None] * len(leaves)
    return [out.detach(), *(g.detach() for g in first), *second]


def _leaf(x: Any) -> Any:
    return x.requires_grad_() if x.is_floating_point() else x


@pytest.mark.parametrize("name", CASES)
def test_function_is_torchs_to_second_order(name: str, mode: Mode) -> None:
    function, arrays = CASES[name]
    got = mode.run(
        lambda *tensors: _use(function, functions, jitgrad.nn.functional, jitgrad.autograd.grad, list(tensors)),
        lambda: tuple(_leaf(functions.tensor(a)) for a in arrays),
    )
    theirs = [_leaf(torch.tensor(a)) for a in arrays]
    want = _use(function, torch, torch.nn.functional, torch.autograd.grad, theirs)
    for x, y in zip(got, want, strict=True):
        a = np.zeros(()) if x is None else x.numpy()
        b = np.zeros(()) if y is None else y.numpy(force=True)
        np.testing.assert_allclose(a + 0 * b, b + 0 * a, rtol=1e-8, atol=1e-9)


def test_batch_norm_moves_its_statistics() -> None:
    x = r(6, 4)
    ours = functions.zeros(4, dtype=jitgrad.float64), functions.ones(4, dtype=jitgrad.float64)
    theirs = torch.zeros(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
    functions.batch_norm(functions.tensor(x), *ours, training=True)
    torch.nn.functional.batch_norm(torch.tensor(x), *theirs, training=True)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


def test_dropout_keeps_the_mean_and_repeats_with_the_seed() -> None:
    x = functions.ones(10_000)
    jitgrad.manual_seed(1)
    first = functions.dropout(x, 0.25)
    jitgrad.manual_seed(1)
    assert functions.equal(first, functions.dropout(x, 0.25))
    assert abs(first.mean().item() - 1.0) < 0.02
    assert set(first.numpy().tolist()) == {0.0, np.float32(1 / 0.75).item()}
    assert functions.dropout(x, 0.25, training=False) is x
