"""Mutants of what is done for ever new shapes, Note [Ever new shapes]."""

from __future__ import annotations

from mutant import mutants_in as _in

__all__ = ["SHAPES_MUTANTS"]

_EVER = "ops/test_ever_new_shapes.py"
_ANY = "codegen/test_any_extent.py"

SHAPES_MUTANTS = [
    *_in(
        "runtime/eager",
        ("new_shapes.py", "run < OFTEN and ", "", f"{_EVER}::test_a_kind_has_so_many_programs_for_the_asking"),
        ("new_shapes.py", "made >= AT_ONCE and ", "", f"{_EVER}::test_a_kind_has_so_many_programs_for_the_asking"),
        ("new_shapes.py", "(a.dtype, a.ndim) if", "a.ndim if",
         f"{_EVER}::test_a_kind_has_so_many_programs_for_the_asking"),
        ("new_shapes.py", "run * work < _WORTH and ", "", f"{_EVER}::test_much_work_has_its_kernel_at_once"),
        ("new_shapes.py", "if is_product and", "if False and", f"{_EVER}::test_much_work_has_its_kernel_at_once"),
        ("new_shapes.py", "(_holders or config.same_bits)", "_holders",
         f"{_EVER}::test_same_bits_make_every_program_at_once"),
        ("new_shapes.py", "(_holders or config.same_bits)", "config.same_bits",
         f"{_EVER}::test_gradcheck_compares_bits"),
        ("kernel.py", "if op.is_update or op.name in _CONVOLUTIONS:", "if False:",
         f"{_EVER}::test_updates_and_convolutions_have_theirs_at_once"),
        ("plan.py", "if not mine.numel or _kind_of(mine) != _kind_of(other):", "if False:",
         f"{_EVER}::test_plans_that_differ_in_extents_are_what_new_ones_are"),
        ("plan.py", "        plan.is_exact = plan._is_exact()  # this plan's kernel may have run\n",
         "        plan.is_exact = True\n", f"{_EVER}::test_plans_that_differ_in_extents_are_what_new_ones_are"),
        ("plan.py", "if not is_for_any and has_kernel(", "if False and has_kernel(",
         f"{_EVER}::test_plans_that_differ_in_extents_are_what_new_ones_are"),
    ),
    *_in(
        "ops",
        ("linalg/numpy_products.py", "        out += np.matmul(x[:, whole:], y[whole:])\n", "        pass\n",
         f"{_EVER}::test_products_are_cut_into_parts_that_one_thread_computes"),
        ("linalg/numpy_products.py", "if m * k * n <= _ALONE or", "if m * k * n <= 8 * _ALONE or",
         f"{_EVER}::test_products_are_cut_into_parts_that_one_thread_computes"),
    ),
    *_in(
        "codegen",
        ("schedule/arg_words.py", '"add", "sub", "max", "min", "where",', '"add", "sub", "max", "min",', _ANY),
        ("loops/emit_instrs.py", 'if instr.dtype == "int32":', "if False:", _ANY),
    ),
]  # fmt: skip
