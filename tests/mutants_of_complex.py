"""Mutants of complex numbers in compiled steps, and of what steps meet: Notes [Complex values], [Shared memory]."""

from __future__ import annotations

from mutant import mutants_in as _in

__all__ = ["COMPLEX_MUTANTS"]

_KERNELS = "ops/test_complex_kernels.py"
_POINTS = f"{_KERNELS}::test_special_points"
_POINTWISE = f"{_KERNELS}::test_pointwise"
_MOVES = f"{_KERNELS}::test_movements_and_sums"
_NETWORK = f"{_KERNELS}::test_a_network_of_complex_numbers_is_one_segment"
_PROGRAMS = "ops/test_complex_programs.py"
_SHARED = "compiled/test_shared_memory.py"

COMPLEX_MUTANTS = [
    *_in(
        "ops/complex",
        ("complex_lowerings.py", "b.sub(b.mul(x0, y0), b.mul(x1, y1))", "b.add(b.mul(x0, y0), b.mul(x1, y1))",
         _POINTWISE),
        ("complex_lowerings.py", "    return Parts((re, b.neg(im)))", "    return Parts((re, im))", _POINTWISE),
        ("complex_lowerings.py", "    is_lost = b.and_(b.eq(re, infinity), b.isnan(cosine))",
         "    is_lost = b.and_(b.eq(re, zero), b.isnan(cosine))", _POINTS),
        ("complex_lowerings.py", "b.where(vanishes, zero, b.mul(b.mul(size, wave), scale))",
         "b.mul(b.mul(size, wave), scale)", _POINTS),
        ("complex_lowerings.py", "is_high = b.lt(limit, re)", "is_high = b.lt(re, re)", _POINTS),
        ("complex_lowerings.py", "b.where(is_high, b.const(0.25, real), one)", "one", _POINTS),
        ("complex_lowerings.py", "b.where(is_near, b.div(b.log1p(excess), two), b.add(b.log(size), back))",
         "b.add(b.log(size), back)", _POINTS),
        ("complex_lowerings.py", "is_steep = b.lt(b.abs(y0), b.abs(y1))", "is_steep = b.lt(y0, y1)", _POINTS),
        ("complex_lowerings.py", "x if i in indices else _part(b, real, x, nr)", "_part(b, real, x, nr)", _MOVES),
        ("complex_lowerings.py", "        return _update(op) if all(", "        return None if all(", _NETWORK),
        ("complex_lowerings.py", "b.sub(b.matmul(x0, y0), b.matmul(x1, y1))",
         "b.add(b.matmul(x0, y0), b.matmul(x1, y1))", f"{_KERNELS}::test_products"),
        ("complex_lowerings.py", "found if makes_complex is (name not in _REAL_RESULTS) else None", "found",
         f"{_KERNELS}::test_a_dtype_may_take_the_imaginary_part"),
        ("complex_rules.py", "np.where(size == 0, size.dtype.type(0), part / divisor)", "part / size", _POINTS),
    ),
    *_in(
        "codegen",
        ("piece.py", "    if has_complex(instr):\n", "    if False:\n", _NETWORK),
        ("build.py", "    if instr.avals[0].dtype.is_inexact:\n", "    if True:\n", _POINTWISE),
        ("primitives/simplify.py", "    part = x.srcs[starts[dim]]\n", "    part = x.srcs[0]\n", _POINTWISE),
        ("primitives/simplify.py", "    if x.op != \"cat\":\n", "    if True:\n",
         "ops/test_complex.py::test_complex_operations_join_the_kernels_of_real_ones"),
    ),
    *_in(
        "tracer",
        ("hits/known_calls.py", "instr.requires_grad and aval.dtype.is_inexact",
         "instr.requires_grad and aval.dtype.is_floating_point",
         f"{_PROGRAMS}::test_lists_of_complex_tensors_stay_in_the_graph"),
        ("misses/operations.py", "return instr.requires_grad and aval.dtype.is_inexact",
         "return instr.requires_grad and aval.dtype.is_floating_point", _POINTWISE),
        ("recording/ranges.py", "if need.low <= 0 <= number <= need.high else None", "",
         "compiled/test_early_checks.py::test_another_number_than_the_extent_is_no_count_from_the_end"),
        ("recording/ranges.py", "[Need(x, need.low - number, need.high)]", "[Need(x, 0, need.high)]",
         "compiled/test_early_checks.py::test_indices_counted_from_the_end"),
        ("shared_memory.py", "            if owner() is not None and not _is_out_of_reach(owner(), storage)\n",
         "            if owner() is not None\n", f"{_SHARED}::test_an_array_that_nobody_else_holds_ends_no_segment"),
        ("shared_memory.py", "    return references(array) <= ONE_LOCAL + 1 + (owner._array is array)",
         "    return True", f"{_SHARED}::test_an_array_that_somebody_holds_may_be_written"),
        ("recording/recorder_state.py", "        self.met[key] = leaf  # what", "        # what",
         "compiled/test_decorator.py::test_what_a_call_claims_lives_as_long"),
        ("recorder.py", "        if not is_new:\n", "        if True:\n",
         f"{_SHARED}::test_an_array_that_nobody_else_holds_ends_no_segment"),
    ),
    *_in(
        "ops/views",
        ("regions.py", "base.dtype is not view.dtype or ", "", f"{_PROGRAMS}::test_looks_at_one_memory"),
    ),
]
