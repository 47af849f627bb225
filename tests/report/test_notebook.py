"""What notebooks show of tensors and modules: well-formed HTML that says what ``print`` leaves out."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from html_page import Page
from modes import Mode

import jitgrad as jg
from jitgrad import nn


def _read(shown: Any) -> Page:
    page = Page(shown._repr_html_())
    assert page.open == []
    return page


def test_a_tensor(mode: Mode) -> None:
    def step(x: Any) -> list[str]:
        y = x * 2
        return [_read(y).text, _read(x).text, _read(x.sum()).text]

    result, leaf, number = mode.run(step, lambda: (jg.ones(2, 3, requires_grad=True),))
    assert result.startswith("float32, 2 × 3, 24 B, grad_fn MulBackward0tensor([[2., 2., 2.],")
    assert leaf.startswith("float32, 2 × 3, 24 B, a leaf that requires gradtensor(")
    assert number.startswith("float32, a number, 4 B, grad_fn SumBackward0tensor(6.")


@pytest.mark.parametrize("make", [
    lambda: jg.zeros(0, 3), lambda: jg.tensor(True), lambda: jg.arange(2000), lambda: jg.ones(2, dtype=jg.complex64),
    lambda: jg.ones(2, device="meta"), lambda: jg.ones(2, dtype=jg.bfloat16), lambda: nn.Parameter(jg.ones(2)),
])  # fmt: skip
def test_every_kind_of_tensor(make: Any) -> None:
    tensor = make()
    assert repr(tensor) in _read(tensor).text


def test_a_module() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2, bias=False))
    model[0].weight.requires_grad_(False)
    page = _read(model)
    assert "Sequential: 24 parameters, 96 B with gradients, 12 frozen" in page.text
    assert "weight 4×3, bias 4" in page.text
    assert repr(model) in page.text
    assert page.counts["tr"] == 1 + 4
    model(jg.ones(1, 3)).sum().backward()
    assert "24 parameters, 144 B with gradients" in _read(model).text


def test_names_are_text() -> None:
    class Net(nn.Module):
        def extra_repr(self) -> str:
            return "<script>alert(1)</script>"

    shown = Net()._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_shared_lazy_and_many() -> None:
    shared = nn.Linear(2, 2)
    assert "6 parameters" in _read(nn.Sequential(shared, nn.ReLU(), shared)).text
    lazy = nn.Sequential(nn.LazyLinear(3), nn.Linear(3, 1))
    text = _read(lazy).text
    assert "4 and more parameters" in text
    assert "not known yet" in text
    assert "and 101 more" in _read(nn.Sequential(*[nn.ReLU() for _ in range(200)])).text


def test_nothing_is_loaded_before_somebody_looks() -> None:
    script = "import sys, jitgrad, jitgrad.nn; print('jitgrad.report.notebook' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_what_is_shown_of_a_large_model_is_bounded() -> None:
    class Many(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for i in range(40):
                self.register_parameter(f"p{i}", nn.Parameter(jg.ones(2, 3)))
            self.blocks = nn.ModuleList([nn.Linear(1, 1) if i % 2 else nn.ReLU() for i in range(2000)])

    page = _read(Many())
    assert "p7 2×3, and 32 more" in page.text and "p8" not in page.text
    assert "more lines" in page.text
    assert len(page.text) < 40_000
