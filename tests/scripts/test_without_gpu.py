"""What has no meaning on a CPU answers as PyTorch does on a machine without a GPU."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import pytest

import jitgrad

QUESTIONS = [
    "cuda.is_available()", "cuda.device_count()", "cuda.is_initialized()", "cuda.memory_allocated()",
    "cuda.max_memory_allocated()", "cuda.empty_cache()", "cuda.manual_seed(3)", "cuda.manual_seed_all(3)",
    "backends.mps.is_available()", "backends.cudnn.is_available()", "backends.cudnn.version()",
    "backends.cuda.is_built()", "xpu.is_available()", "xpu.device_count()", "accelerator.is_available()",
    "accelerator.device_count()", "accelerator.current_accelerator()", "version.cuda", "version.hip",
    "ones(2).is_cuda", "ones(2).is_mps", "ones(2).is_xpu", "ones(2).is_quantized", "ones(2).is_sparse_csr",
    "ones(2).is_mkldnn", "ones(2).is_nested", "get_float32_matmul_precision()", "set_float32_matmul_precision('high')",
    "are_deterministic_algorithms_enabled()", "is_deterministic_algorithms_warn_only_enabled()",
    "is_autocast_enabled()", "get_default_device().type", "set_default_device(None)", "mps.is_available",
    "amp.is_autocast_available('cpu')", "amp.is_autocast_available('cuda')",
]  # fmt: skip

ERRORS = ["cuda.init()", "cuda.synchronize()", "nn.Linear(1, 1).cuda()", "amp.is_autocast_available('nothing')",
          "cuda.current_stream()", "xpu.synchronize()", "cuda.current_device()", "cuda.get_device_name(0)",
          "ones(2).cuda()", "autocast('nothing')", "autocast(3)",
          "set_default_device('nothing')"]  # fmt: skip


def _answer(module: Any, text: str) -> Any:
    for name in ("cuda", "backends", "xpu", "accelerator", "version", "mps", "amp"):
        if text.startswith(f"{name}."):
            importlib.import_module(f"{module.__name__}.{name}")
    found = eval(f"module.{text}", {"module": module})
    return "function" if callable(found) else found


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_are_pytorchs(question: str) -> None:
    torch = pytest.importorskip("torch")
    try:
        assert _answer(jitgrad, question) == _answer(torch, question)
    finally:
        for module in (torch, jitgrad):
            module.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("question", ERRORS)
def test_errors_are_pytorchs(question: str) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(Exception) as theirs:
        _answer(torch, question)
    with pytest.raises(theirs.type):
        _answer(jitgrad, question)


def test_flags_can_be_set() -> None:
    jitgrad.backends.cudnn.benchmark = True
    jitgrad.backends.cuda.matmul.allow_tf32 = True
    jitgrad.use_deterministic_algorithms(True, warn_only=True)
    assert jitgrad.are_deterministic_algorithms_enabled()
    assert jitgrad.is_deterministic_algorithms_warn_only_enabled()
    jitgrad.use_deterministic_algorithms(False)
    assert not jitgrad.are_deterministic_algorithms_enabled()


def test_an_unknown_precision_is_a_warning() -> None:
    with pytest.warns(UserWarning, match="low is not one of 'highest', 'high'"):
        jitgrad.set_float32_matmul_precision("low")
    assert jitgrad.get_float32_matmul_precision() == "highest"


def test_default_device() -> None:
    try:
        jitgrad.set_default_device("meta")
        assert jitgrad.ones(2).device.type == jitgrad.get_default_device().type == "meta"
    finally:
        jitgrad.set_default_device(None)
    assert jitgrad.ones(2).is_cpu


def test_autocast_for_a_gpu_warns_and_does_nothing() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available. Disabling"), jitgrad.autocast("cuda"):
        assert (jitgrad.ones(2) * 2).dtype == jitgrad.float32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with jitgrad.amp.autocast("cpu"), jitgrad.autocast("cuda", enabled=False):
            assert (jitgrad.ones(2) @ jitgrad.ones(2)).item() == 2.0

        @jitgrad.autocast("cpu")
        def double(x: Any) -> Any:
            return x * 2

        assert double(jitgrad.ones(1)).item() == 2.0


def _scaled_training(module: Any, poison: int, **settings: Any) -> list[Any]:
    """Weights, scales and what ``step`` returned, of some iterations of which one has an infinite gradient."""
    w = module.tensor([1.0, -2.0], requires_grad=True)
    optimizer = module.optim.SGD([w], lr=0.1)
    scaler = module.amp.GradScaler("cpu", **settings)
    seen: list[Any] = []
    for nr in range(6):
        optimizer.zero_grad()
        loss = (w * w).sum() * (float("inf") if nr == poison else 1.0)
        scaler.scale(loss).backward()
        if nr % 2:
            scaler.unscale_(optimizer)
            module.nn.utils.clip_grad_norm_([w], 0.5)
        seen.append(scaler.step(optimizer))
        scaler.update()
        seen += [w.detach().tolist(), scaler.get_scale()]
    return [*seen, scaler.state_dict()]


@pytest.mark.parametrize("poison", [1, 2, -1])
@pytest.mark.parametrize("settings", [{}, {"init_scale": 4.0, "growth_interval": 2}, {"enabled": False}], ids=str)
def test_grad_scaler_is_pytorchs(poison: int, settings: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    if settings.get("enabled") is False and poison >= 0:
        poison = -1  # nothing keeps infinite gradients out
    for got, want in zip(_scaled_training(jitgrad, poison, **settings), _scaled_training(torch, poison, **settings),
                         strict=True):  # fmt: skip
        if isinstance(want, list | float):
            np.testing.assert_allclose(got, want, rtol=1e-6)
        else:
            assert got == want


@pytest.mark.parametrize("wrong", ["step twice", "unscale twice", "unscale after step", "update first"])
def test_grad_scaler_refuses_what_pytorch_refuses(wrong: str) -> None:
    torch = pytest.importorskip("torch")

    def run(module: Any) -> None:
        w = module.tensor([1.0], requires_grad=True)
        optimizer, scaler = module.optim.SGD([w], lr=0.1), module.amp.GradScaler("cpu")
        scaler.scale((w * w).sum()).backward()
        if wrong == "update first":
            scaler.update()
        elif wrong == "unscale twice":
            scaler.unscale_(optimizer)
            scaler.unscale_(optimizer)
        else:
            scaler.step(optimizer)
            scaler.step(optimizer) if wrong == "step twice" else scaler.unscale_(optimizer)

    with pytest.raises((RuntimeError, AssertionError)) as theirs:
        run(torch)
    with pytest.raises(theirs.type, match=str(theirs.value)[:20].replace("(", r"\(").replace(")", r"\)")):
        run(jitgrad)


def test_a_scaler_for_a_gpu_is_disabled() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available"):
        scaler = jitgrad.cuda.amp.GradScaler()
    assert not scaler.is_enabled()
    assert scaler.get_scale() == 1.0
    assert scaler.state_dict() == {}
    x = jitgrad.ones(1)
    assert scaler.scale(x) is x


def test_print_options() -> None:
    x = jitgrad.tensor([1.23456789, 2.0])
    try:
        jitgrad.set_printoptions(precision=2)
        assert str(x) == "tensor([1.23, 2.00])"
        jitgrad.set_printoptions(profile="full")
        assert "..." not in str(jitgrad.zeros(2000))
    finally:
        jitgrad.set_printoptions(profile="default")
    assert str(x) == "tensor([1.2346, 2.0000])"
