"""Mutants of routines that walk rows, of the gamma function's kernels and of LAPACK's threads, see ``mutants.py``."""

from __future__ import annotations

from mutant import mutants_in as _in

__all__ = ["WALK_MUTANTS"]

_WALKS = "parity/test_walks.py"
_VALUES = f"{_WALKS}::test_values_are_pytorch_s"
_SPECIAL = "ops/test_special_kernels.py"
_LAYERS = "nn/test_recurrent.py"
_LAYER_VALUES = "nn/test_recurrent.py::test_gradients_of_packed_sequences"
_GAMMA = "ops/test_gamma_kernels.py::test_values_are_right_to_the_last_bits"
_LAPACK = "ops/test_lapack.py"

WALK_MUTANTS = [
    *_in(
        "codegen",
        ("routines/rows.py", "add i64 {self.inner}, {LANES - 1}", "add i64 {self.inner}, 0", _VALUES),
        ("routines/rows.py", "f\"add i64 {begin}, {start}\"", "f\"add i64 {begin}, 0\"", _VALUES),
        ("routines/scans.py", "return \"-0.0\" if", "return \"1.0\" if", _VALUES),
        ("routines/scans.py", "    return k.combine(b, before, total)", "    return total", _VALUES),
        ("routines/scans.py", "{is_beyond}, {is_nan}", "{is_beyond}, {is_beyond}", _VALUES),
        ("routines/scans.py", "order = \"ge\" if self.kind == \"max\" else \"le\"",
         "order = \"gt\" if self.kind == \"max\" else \"lt\"", _VALUES),
        ("routines/sorting.py", "{b.op(f'fadd {kind} {x}, 0.0')}", "{x}", _VALUES),
        ("routines/sorting.py", "        word = b.op(f\"select i1 {is_nan}, {own} -1, {own} {word}\")\n", "", _VALUES),
        ("routines/sorting.py", "'true' if nr > lane else 'false'", "'true' if nr < lane else 'false'", _VALUES),
        ("routines/sorting.py", "icmp ne i64 {size}, {b.n}", "icmp ne i64 {size}, {size}", _VALUES),
        ("routines/sorting.py", "after[:] = [*lists[half:], *lists[:half]]", "after[:] = lists", _VALUES),
        ("routines/sorting.py", "icmp ult i64 {pair[0]}, {bound[0]}", "icmp ult i64 {pair[0]}, 0", _VALUES),
        ("primitives/simplify.py", "not is_reversed) if _flips(v, dim) and _flips(x, dim) else None",
         "not is_reversed) if False else None",
         f"{_WALKS}::test_the_derivative_of_a_running_sum_is_one_that_runs_backwards"),
        ("primitives/simplify.py", "if _flips(v, dim) and _flips(x, dim) else None", "if _flips(v, dim) else None",
         f"{_WALKS}::test_gradients_are_pytorch_s_to_second_order"),
        ("routines/walks.py", "    if 0 in v.shape or (is_place and", "    if (is_place and",
         "codegen/test_decompose.py::test_none_of_one_element_has_no_elements"),
    ),
    *_in(
        "ops",
        ("formulas/gamma_formulas.py", "size.gt(0.5).where(", "size.gt(2.0).where(", f"{_GAMMA}[erfinv-float64]"),
        ("formulas/gamma_formulas.py", "    high = size.cast(float32).cast(float64)\n", "    high = size\n",
         f"{_GAMMA}[erfc-float64]"),
        ("formulas/normal_formulas.py", "    high = near.cast(float32).cast(float64)\n", "    high = near\n",
         f"{_GAMMA}[erfcx-float64]"),
        ("formulas/normal_formulas.py", "half * scaled * half", "(x.abs()).exp() * scaled",
         "ops/test_gamma_kernels.py::test_ends_of_the_normal_distribution_and_of_bessel_functions"),
        ("formulas/gamma_formulas.py", "    out = x.eq(1.0).or_(x.eq(2.0)).where(0.0, out)\n", "",
         "ops/test_gamma_kernels.py::test_zeros_and_ends_are_exact"),
        ("formulas/incomplete_gamma_formulas.py", "_UNIFORM_FROM = 12.0", "_UNIFORM_FROM = 2.0",
         f"{_SPECIAL}::test_incomplete_gamma_functions"),
        ("formulas/incomplete_gamma_formulas.py", "later * ((k + 1.0) * inverse)", "later * (k * inverse)",
         f"{_SPECIAL}::test_incomplete_gamma_functions"),
        ("formulas/zeta_formulas.py", "where(-1.0, s.like(1.0))", "where(1.0, s.like(1.0))",
         f"{_SPECIAL}::test_zeta_and_polygamma"),
        ("formulas/zeta_formulas.py", "k.lt(_LEAST_TERMS).or_(y.le(_FROM))", "y.le(_FROM)",
         f"{_SPECIAL}::test_zeta_and_polygamma"),
        ("formulas/bessel_formulas.py", "(minus, -plus) if order else (plus, minus)", "(plus, minus)",
         f"{_SPECIAL}::test_functions_of_bessel_and_airy_are_right_to_the_last_bits"),
        ("formulas/polynomial_formulas.py", "degree.gt(_MOST_TURNS + 1.0)", "degree.gt(math.inf)",
         f"{_SPECIAL}::test_a_degree_that_takes_too_long_says_so"),
        ("formulas/formula_arrays.py", "            left = left[goes_on]\n", "",
         f"{_SPECIAL}::test_polynomials"),
        ("linalg/lapack.py", "config.num_threads if matrix >= _LARGE else 1", "config.num_threads",
         f"{_LAPACK}::test_a_matrix_that_is_not_large_is_factored_by_one_thread"),
        ("linalg/lapack.py", "            if not self.calls:\n                self.set(self.before)",
         "            self.set(self.before)",
         f"{_LAPACK}::test_the_number_is_set_back_after_an_error_and_by_the_last_of_several_calls"),
    ),
    *_in(
        "codegen",
        ("routines/recurrent.py", "of_hidden, panels, of_h, adds=True", "of_hidden, panels, of_h, adds=False",
         f"{_LAYERS}::test_gradients_of_packed_sequences"),
        ("routines/recurrent.py", "    x.copy_state(grad_c, of_c)\n", "    x.copy_state(grad_h, of_c)\n",
         f"{_LAYERS}::test_gradients_of_packed_sequences"),
        ("routines/recurrent.py", "{b.op(f'icmp sgt i64 {count}, 0')}", "true",
         f"{_LAYERS}::test_wrong_numbers_of_packed_rows_give_nan"),
        ("routines/recurrent_text.py", "i64 {self.first}\", f\"i64 {turn.following}\"",
         "i64 {self.first}\", f\"i64 {turn.known}\"", f"{_LAYERS}::test_gradients_of_packed_sequences"),
        ("routines/recurrent_text.py", "if not (self.form.is_packed and self.form.is_back):", "if True:",
         f"{_LAYERS}::test_gradients_of_packed_sequences"),
        ("routines/recurrent_tiles.py", "add i64 {b.op(f'mul i64 {row}, {PANELS}')}, {panel}",
         "add i64 {b.op(f'mul i64 {row}, {PANELS}')}, 0", f"{_LAYERS}::test_gradients_of_packed_sequences"),
        ("routines/walks.py", "(0, blocks * lanes - hidden, 0)", "(blocks * lanes - hidden, 0, 0)", _LAYER_VALUES),
    ),
    *_in(
        "ops",
        ("layers/recurrent_layers.py", "thread.grad_enabled or of_before is not None or", "of_before is not None or",
         f"{_LAYERS}::test_gradients_of_packed_sequences"),
        ("layers/recurrent_layers.py", "_joined(steps.narrow(0, place, min(known, count)), start.narrow(0, 0, count))",
         "steps.narrow(0, place, count)", f"{_LAYERS}::test_gradients_of_packed_sequences"),
    ),
]  # fmt: skip
