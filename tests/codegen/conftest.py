"""What several files of these tests look at."""

from __future__ import annotations

import pytest

from jitgrad.codegen import link
from jitgrad.codegen.llvm.jit import KernelSource


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The text of each kernel that is asked for."""
    found: list[str] = []
    plain = link.compile_kernels

    def noted(sources: list[KernelSource]) -> object:
        found.extend(source.text() for source in sources)
        return plain(sources)

    monkeypatch.setattr(link, "compile_kernels", noted)
    return found
