"""What notebooks show of tensors and modules: well-formed HTML that says what ``print`` leaves out."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import pytest
from modes import Mode

import jitgrad as jg
from jitgrad import nn


class _Page(HTMLParser):
    """Text, and tags that must be closed in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def _read(shown: Any) -> _Page:
    page = _Page()
    page.feed(shown._repr_html_())
    page.close()
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
    assert page.tags.count("tr") == 1 + 4
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
