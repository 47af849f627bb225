"""LLVM's passes over functions of scalars: inlining, SSA form, simplification.

Owns: ``cleaned``: which passes run.
Must not know: what the functions compute, where their text came from.
In: a module's text with ``@jitgrad_scalar``. Out: text that ``reader`` understands, if anything can make it so: every
loop has one way in, one way back, exits of its own, and what is used behind it goes through phis there; no switches.
"""

from __future__ import annotations

from typing import Any

from jitgrad.codegen.llvm.binding import binding
from jitgrad.codegen.llvm.target import host_target
from jitgrad.codegen.scalars.reader import ENTRY
from jitgrad.errors import CompileError

__all__ = ["cleaned"]


def cleaned(text: str) -> str:
    """The module after LLVM's passes.

    Raises:
        CompileError: LLVM refused the text (a bug of jitgrad).
    """
    llvm = binding()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"a function of scalars: {error}\n{text}") from error
    for function in module.functions:
        if not function.is_declaration and function.name != ENTRY:
            function.linkage = "private"
            if b"noinline" not in b" ".join(function.attributes):
                function.add_function_attribute("alwaysinline")
    target = host_target()
    machine = llvm.Target.from_triple(target.triple).create_target_machine(cpu=target.cpu, features=target.features)
    for passes in (_simplifying(llvm), _shaping(llvm)):
        passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    return str(module)


def _simplifying(llvm: Any) -> Any:
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_sroa_pass()
    for _ in range(2):
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.add_new_gvn_pass()
        passes.add_sccp_pass()
    passes.add_aggressive_dce_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    return passes


def _shaping(llvm: Any) -> Any:
    passes = llvm.create_new_module_pass_manager()
    passes.add_lower_switch_pass()
    passes.add_unify_function_exit_nodes_pass()
    passes.add_loop_simplify_pass()
    passes.add_lcssa_pass()
    passes.add_instruction_namer_pass()
    return passes
