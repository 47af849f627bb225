"""What scripts ask of ``torch.jit``, ``compiler``, ``distributed``, ``hub``, ``cpu``: answers, or clear errors."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import jitgrad as jg


def test_decorators_of_jit_leave_functions_alone() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")

        @jg.jit.script
        def twice(x: Any) -> Any:
            return x + x

        @jg.jit.ignore(drop=True)
        def ignored(x: Any) -> Any:
            return x

        model = jg.nn.Linear(2, 2).eval()
        assert jg.jit.script(model) is model is jg.jit.trace(model, jg.ones(1, 2)) is jg.jit.freeze(model)
    assert twice(jg.ones(2)).tolist() == [2.0, 2.0] and ignored(3) == 3
    assert not jg.jit.is_scripting() and not jg.jit.is_tracing() and not isinstance(model, jg.jit.ScriptModule)
    assert jg.jit.annotate(int, 3) == 3
    for call in (lambda: jg.jit.save(model, "x.pt"), lambda: jg.jit.load("x.pt")):
        with pytest.raises(NotImplementedError, match="state_dict"):
            call()


def test_what_is_disabled_runs_eagerly_in_a_compiled_step() -> None:
    seen: list[bool] = []

    @jg.compiler.disable
    def noted(x: Any) -> Any:
        seen.append(jg.compiler.is_compiling())
        return x * 2

    @jg.compile
    def step(x: Any) -> Any:
        seen.append(jg.compiler.is_compiling())
        return noted(x + 1).sum()

    x = jg.ones(3)
    assert [step(x).item() for _ in range(3)] == [12.0] * 3
    assert seen == [True, False] * 3
    assert not jg.compiler.is_compiling()


def test_compile_takes_pytorchs_keywords() -> None:
    step = jg.compile(model=lambda x: x + 1, mode="max-autotune", fullgraph=True, backend="inductor", name="step")
    assert step(jg.ones(1)).item() == 2.0


def test_one_process() -> None:
    dist = jg.distributed
    assert not (dist.is_available() or dist.is_initialized())
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        dist.get_rank()
    with pytest.raises(RuntimeError, match="one process"):
        dist.init_process_group("gloo")


def test_the_hub_uses_what_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hubconf.py").write_text("def small(width=2):\n    return ['model', width]\n")
    assert jg.hub.load(str(tmp_path), "small", width=3, source="local") == ["model", 3]
    with pytest.raises(RuntimeError, match="Cannot find callable large"):
        jg.hub.load(str(tmp_path), "large", source="local")
    with pytest.raises(RuntimeError, match="does not fetch pytorch/vision"):
        jg.hub.load("pytorch/vision", "resnet18")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    folder = Path(jg.hub.get_dir()) / "checkpoints"
    assert folder == tmp_path / "hub" / "checkpoints"
    with pytest.raises(RuntimeError, match="nothing is fetched"):
        jg.hub.load_state_dict_from_url("https://example.org/w.pth")
    folder.mkdir(parents=True)
    jg.save({"w": jg.ones(2)}, folder / "w.pth")
    assert jg.hub.load_state_dict_from_url("https://example.org/w.pth")["w"].tolist() == [1.0, 1.0]


def test_the_cpu_is_a_device() -> None:
    assert jg.cpu.is_available() and jg.cpu.device_count() == 1 and jg.cpu.current_device() == "cpu"
    with jg.cpu.stream(jg.cpu.current_stream()):
        jg.cpu.synchronize()


def test_attention_and_its_switches() -> None:
    with jg.nn.attention.sdpa_kernel(jg.nn.attention.SDPBackend.MATH):
        assert jg.nn.functional.scaled_dot_product_attention(*[jg.ones(1, 2, 2)] * 3).tolist() == [[[1.0, 1.0]] * 2]
    jg.backends.cuda.enable_flash_sdp(False)
    assert not jg.backends.cuda.flash_sdp_enabled()
    with jg.backends.cuda.sdp_kernel(enable_flash=True):
        assert jg.backends.cuda.flash_sdp_enabled()
    assert not jg.backends.cuda.flash_sdp_enabled()
    jg.backends.cuda.enable_flash_sdp(True)
