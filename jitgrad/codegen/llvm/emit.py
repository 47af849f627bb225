"""LLVM text to object code.

Owns: ``Emitter``.
Must not know: the rest of jitgrad: a process beside this one runs this file alone, Note [Builders].
"""

from __future__ import annotations

from typing import Any

__all__ = ["Emitter"]


class Emitter:
    """LLVM's compiler for one target.

    Args:
        llvm: the module ``llvmlite.binding``.
        triple, cpu, features: as LLVM names them.
    """

    def __init__(self, llvm: Any, triple: str, cpu: str, features: str) -> None:
        self._llvm = llvm
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._target = llvm.Target.from_triple(triple)
        self._options = {"cpu": cpu, "features": features, "reloc": "pic", "codemodel": "small"}
        self._machine = self.make_machine()

    def make_machine(self) -> Any:
        """A new target machine."""
        return self._target.create_target_machine(opt=2, **self._options)

    def emit(self, text: str, needs_passes: bool) -> bytes:
        """Object code of a module, straight from the text: kernels are printed vectorised, passes gain nothing.

        Args:
            needs_passes: the text keeps variables in memory and calls small functions: LLVM's passes clean that up.

        Raises:
            RuntimeError: LLVM refuses the text.
        """
        module = self._llvm.parse_assembly(text)
        module.verify()
        if needs_passes:
            self._clean_up(module)
        obj: bytes = self._machine.emit_object(module)
        return obj

    def _clean_up(self, module: Any) -> None:
        llvm = self._llvm
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_jump_threading_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.run(module, llvm.create_pass_builder(self._machine, llvm.create_pipeline_tuning_options()))
