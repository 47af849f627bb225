"""What several files of these tests look at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jitgrad.codegen import link
from jitgrad.codegen.families import families
from jitgrad.codegen.llvm.jit import KernelSource
from jitgrad.compiled import eager_kernels
from jitgrad.config import config
from jitgrad.runtime.eager.plan import plans


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


@pytest.fixture
def nothing_is_known() -> Iterator[None]:
    """No plan, kernel or family of another test; each program that a family gives is compared with a planned one."""
    families.forget()
    plans.clear()
    eager_kernels._known.clear()
    assert config.verify
    yield
    families.forget()
