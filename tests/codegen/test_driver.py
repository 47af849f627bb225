"""The native driver and worker are written for every target, not only for this machine."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest

from jitgrad.codegen.driver.driver import driver_source
from jitgrad.codegen.driver.worker import worker_source
from jitgrad.codegen.llvm.target import Target

TRIPLES = ["x86_64-unknown-linux-gnu", "x86_64-apple-darwin", "aarch64-unknown-linux-gnu", "arm64-apple-darwin"]


@pytest.mark.parametrize("source", [driver_source, worker_source])
@pytest.mark.parametrize("triple", TRIPLES)
def test_compiles_for_other_targets(source, triple: str) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = Target("", "", triple, 4, 32, True, True, False)
    module = llvm.parse_assembly(source(target).text())
    module.verify()
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=2, reloc="pic")
    assert len(machine.emit_object(module)) > 500


def test_an_unknown_architecture_gets_plain_code() -> None:
    text = driver_source(Target("", "", "riscv64-unknown-linux-gnu", 1, 16, False, False, False)).text()
    assert "x86" not in text and "aarch64" not in text
    llvm.parse_assembly(text).verify()
