"""``autocast`` on the CPU: what computes in bfloat16, what in float32, and whole steps, as PyTorch's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad as jg

torch = pytest.importorskip("torch", reason="compares with torch")


def square(lib: Any) -> Any:
    return lib.tensor(np.random.default_rng(0).normal(0, 1, (6, 6)).astype(np.float32))


def classes(lib: Any) -> Any:
    return lib.tensor([0, 1, 2, 3, 4, 5])


LOWERED: dict[str, Callable[[Any, Any], Any]] = {
    "mm": lambda lib, x: lib.mm(x, x), "operator": lambda lib, x: x @ x, "vector": lambda lib, x: x @ x[0],
    "addmm": lambda lib, x: lib.addmm(x, x, x), "bmm": lambda lib, x: lib.bmm(x[None], x[None]), "baddbmm":
    lambda lib, x: lib.baddbmm(x[None], x[None], x[None]), "linear": lambda lib, x:
    lib.nn.functional.linear(x, x, x[0]),
    "einsum": lambda lib, x: lib.einsum("ij,jk->ik", x, x), "rows": lambda lib, x: lib.einsum("ij,ij->i", x, x),
    "conv1d": lambda lib, x: lib.nn.functional.conv1d(x[None], x[:, :, None]), "conv2d": lambda lib, x:
    lib.nn.functional.conv2d(x[None, None], x[None, None, :2, :2], x[0, :1]), "conv_transpose2d": lambda lib, x:
    lib.nn.functional.conv_transpose2d(x[None, None], x[None, None, :2, :2]), "attention": lambda lib, x:
    lib.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]), "mixed": lambda lib, x:
    lib.mm(x, x.bfloat16()), "double": lambda lib, x: lib.mm(x.double(), x.double()), "mv": lambda lib, x:
    lib.mv(x, x[0]), "dot": lambda lib, x: lib.dot(x[0], x[1]), "add": lambda lib, x: x + x.bfloat16(), "cat":
    lambda lib, x: lib.cat([x, x.bfloat16()]), "exp": lambda lib, x: x.exp(), "layer_norm": lambda lib, x:
    lib.nn.functional.layer_norm(x @ x, (6,), lib.ones(6), lib.zeros(6)), "batch_norm": lambda lib, x:
    lib.nn.functional.batch_norm(x @ x, lib.zeros(6), lib.ones(6), lib.ones(6), lib.zeros(6), training=True),
    "vecdot": lambda lib, x: lib.linalg.vecdot(x, x), "inner": lambda lib, x: lib.inner(x[0], x[0]), "prelu":
    lambda lib, x: lib.nn.functional.prelu(x, x[0, :1]), "group_norm": lambda lib, x:
    lib.nn.functional.group_norm(x @ x, 2, lib.ones(6), lib.zeros(6)), "index_copy": lambda lib, x:
    x.index_copy(0, lib.tensor([1]), x[:1].bfloat16()),
}  # fmt: skip
RAISED: dict[str, Callable[[Any, Any], Any]] = {
    "mse_loss": lambda lib, b: lib.nn.functional.mse_loss(b, b * 2), "l1_loss": lambda lib, b:
    lib.nn.functional.l1_loss(b, b * 2), "smooth_l1_loss": lambda lib, b: lib.nn.functional.smooth_l1_loss(b, b * 2),
    "huber_loss": lambda lib, b: lib.nn.functional.huber_loss(b, b * 2), "cross_entropy": lambda lib, b:
    lib.nn.functional.cross_entropy(b, classes(lib)), "nll_loss": lambda lib, b:
    lib.nn.functional.nll_loss(b, classes(lib)), "kl_div": lambda lib, b:
    lib.nn.functional.kl_div(b, b.sigmoid(), reduction="sum"), "bce": lambda lib, b:
    lib.nn.functional.binary_cross_entropy(b.sigmoid(), b.sigmoid()), "bce_logits": lambda lib, b:
    lib.nn.functional.binary_cross_entropy_with_logits(b, b.sigmoid()), "soft_margin": lambda lib, b:
    lib.nn.functional.soft_margin_loss(b, b.sign()), "triplet": lambda lib, b:
    lib.nn.functional.triplet_margin_loss(b, b * 2, b + 1), "multi_margin": lambda lib, b:
    lib.nn.functional.multi_margin_loss(b, classes(lib)), "prod": lambda lib, b: b.prod(1), "trace": lambda lib, b:
    b.trace(), "quantile": lambda lib, b: lib.quantile(b, 0.5), "softmax": lambda lib, b: b.softmax(1), "sum":
    lambda lib, b: b.sum(), "gelu": lambda lib, b: lib.nn.functional.gelu(b),
}  # fmt: skip
RARE: dict[str, Callable[[Any, Any], Any]] = {
    "avg_pool3d": lambda lib, b: lib.nn.functional.avg_pool3d(b[None, None], 2), "cdist": lambda lib, b:
    lib.cdist(b, b), "inv": lambda lib, b: lib.linalg.inv(b), "svdvals": lambda lib, b: lib.linalg.svdvals(b),
    "lstsq": lambda lib, b: lib.linalg.lstsq(b, b)[0], "solve": lambda lib, b: lib.linalg.solve(b, b),
    "cholesky_solve": lambda lib, b: lib.cholesky_solve(b, lib.eye(6).bfloat16()), "triangular_solve": lambda lib, b:
    lib.triangular_solve(b, lib.eye(6).bfloat16())[0], "stft": lambda lib, b:
    lib.stft(b.reshape(-1), 8, return_complex=True).real, "fft": lambda lib, b: lib.fft.fft(b).real, "reflect":
    lambda lib, b: lib.nn.functional.pad(b[None], (1, 1), mode="reflect"), "grid_sample": lambda lib, b:
    lib.nn.functional.grid_sample(b[None, None], b[None, :, :2, None].expand(1, 6, 2, 2), align_corners=False),
    "bilinear": lambda lib, b: lib.nn.functional.bilinear(b.float(), b.float(), b.float()[None]) * 0, "lstm":
    lambda lib, b: lib.nn.LSTM(6, 2)(b.float())[0].detach() * 0,
}  # fmt: skip
"""Of bfloat16 operands too, and not compiled: what PyTorch computes in float32, and its one recurrent layer."""


def check(got: Any, want: Any, note: str) -> None:
    assert f"torch.{got.dtype.name}" == str(want.dtype), note
    tolerance = 3e-2 if want.dtype is torch.bfloat16 else 1e-5
    np.testing.assert_allclose(got.double().numpy(), want.double().numpy(), tolerance, tolerance, err_msg=note)


def test_what_computes_in_which_dtype(mode: Mode) -> None:
    def step(lib: Any, x: Any, b: Any) -> list[Any]:
        with lib.autocast("cpu"):
            inside = [run(lib, x) for run in LOWERED.values()] + [run(lib, b) for run in RAISED.values()]
            with lib.autocast("cpu", enabled=False):
                inside.append(x @ x)
            with lib.autocast("cpu", dtype=lib.float16):
                inside.append(x @ x)
        return [*inside, x @ x]

    def given(lib: Any) -> tuple[Any, Any]:
        return square(lib), square(lib).bfloat16()

    got, want = mode.run(lambda *args: step(jg, *args), lambda: given(jg)), step(torch, *given(torch))
    for name, g, w in zip((*LOWERED, *RAISED, "off", "float16", "outside"), got, want, strict=True):
        check(g.float() if name == "float16" else g, w.float() if name == "float16" else w, name)


@pytest.mark.parametrize("name", RARE)
def test_rare_operations_under_autocast(name: str) -> None:
    found = []
    for lib in (jg, torch):
        with warnings.catch_warnings(), lib.autocast("cpu"):
            warnings.simplefilter("ignore")
            given = square(lib).repeat(2, 1, 1) if name == "avg_pool3d" else square(lib)
            found.append(RARE[name](lib, given.bfloat16()))
    assert f"torch.{found[0].dtype.name}" == str(found[1].dtype)
    np.testing.assert_allclose(found[0].double().numpy(), found[1].double().numpy(), 1e-3, 1e-3)


def test_training_under_autocast(mode: Mode) -> None:
    def build(lib: Any) -> tuple[Any, ...]:
        lib.manual_seed(0)
        model = lib.nn.Sequential(lib.nn.Linear(6, 16), lib.nn.LayerNorm(16), lib.nn.ReLU(), lib.nn.Linear(16, 6))
        return model, lib.optim.AdamW(model.parameters(), lr=0.01), square(lib), classes(lib)

    def step(lib: Any, model: Any, optimizer: Any, x: Any, y: Any) -> list[Any]:
        scaler, losses = lib.amp.GradScaler("cpu"), []
        for _ in range(3):
            optimizer.zero_grad()
            with lib.autocast("cpu", dtype=lib.bfloat16):
                loss = lib.nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.detach())
        return losses

    built = build(torch)
    got, want = mode.run(lambda *args: step(jg, *args), lambda: build(jg)), step(torch, *built)
    for g, w in zip(got, want, strict=True):
        assert g.dtype is jg.float32
        np.testing.assert_allclose(g.item(), w.item(), rtol=5e-3)
    assert all(p.grad.dtype is torch.float32 for p in built[0].parameters())


def test_a_leaf_is_cast_once_in_a_block() -> None:
    weight = jg.nn.Parameter(square(jg))
    with jg.autocast("cpu"):
        first, second = weight @ weight, weight @ weight
        assert first.grad_fn.next_functions[0][0] is second.grad_fn.next_functions[0][0]
        with jg.no_grad():
            weight.add_(1)
        np.testing.assert_array_equal((weight @ weight).tolist(), (weight.bfloat16() @ weight.bfloat16()).tolist())
    first = weight @ weight
    assert first.dtype is jg.float32
    first.sum().backward()
    assert weight.grad.dtype is jg.float32


def test_what_is_asked_of_autocast() -> None:
    for lib in (jg, torch):
        with lib.autocast("cpu", dtype=lib.float16):
            assert lib.is_autocast_enabled("cpu") and lib.get_autocast_dtype("cpu") is lib.float16
            assert not lib.is_autocast_enabled()
        assert not lib.is_autocast_enabled("cpu") and lib.autocast("cpu").fast_dtype is lib.bfloat16
        with pytest.warns(UserWarning, match="the target dtype is not supported"):
            block = lib.autocast("cpu", dtype=lib.float32)
        with block:
            assert (lib.ones(2, 2) @ lib.ones(2, 2)).dtype is lib.float32

        @lib.autocast("cpu")
        def product(x: Any) -> Any:
            return x @ x

        assert product(lib.ones(2, 2)).dtype is lib.bfloat16
        with pytest.raises(ZeroDivisionError), lib.autocast("cpu"):
            1 / 0  # noqa: B018
        assert not lib.is_autocast_enabled("cpu")


def test_custom_functions_under_autocast() -> None:
    for lib in (jg, torch):
        seen: list[Any] = []

        class Product(lib.autograd.Function):  # type: ignore[name-defined, misc]
            @staticmethod
            @lib.amp.custom_fwd(device_type="cpu", cast_inputs=lib.float32)
            def forward(ctx: Any, x: Any, seen: Any = seen, lib: Any = lib) -> Any:
                seen.append((x.dtype is lib.float32, lib.is_autocast_enabled("cpu")))
                return x @ x

            @staticmethod
            @lib.amp.custom_bwd(device_type="cpu")
            def backward(ctx: Any, g: Any, seen: Any = seen, lib: Any = lib) -> Any:
                seen.append(lib.is_autocast_enabled("cpu"))
                return g

        x = lib.ones(2, 2, dtype=lib.bfloat16, requires_grad=True)
        with lib.autocast("cpu"):
            y = Product.apply(x)
        y.sum().backward()
        assert y.dtype is lib.float32 and x.grad.dtype is lib.bfloat16
        assert seen == [(True, False), False]


def test_float16_gradients_are_not_unscaled() -> None:
    for lib in (jg, torch):
        weight = lib.nn.Parameter(lib.ones(2, dtype=lib.float16))
        optimizer = lib.optim.SGD([weight], lr=0.1)
        scaler = lib.amp.GradScaler("cpu")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scaler.scale(weight.sum()).backward()
        with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
            scaler.unscale_(optimizer)
