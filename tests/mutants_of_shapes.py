"""Mutants of what is done for ever new shapes, Note [Ever new shapes]."""

from __future__ import annotations

from mutant import mutants_in as _in

__all__ = ["SHAPES_MUTANTS"]

_EVER = "ops/test_ever_new_shapes.py"
_MOVES = "codegen/test_moves.py"
_ANY = "codegen/test_any_extent.py"
_SYMBOLS = "test_symbols.py"
_FAMILIES = "codegen/test_program_families.py"
_PATHS = "compiled/test_path_families.py"
_ADVICE = "compiled/test_advice.py"
_REGIONS = "ops/test_convolution_regions.py"

SHAPES_MUTANTS = [
    *_in(
        "runtime/eager",
        ("new_shapes.py", "run < OFTEN and ", "", f"{_EVER}::test_a_kind_has_so_many_programs_for_the_asking"),
        ("new_shapes.py", "made >= AT_ONCE and ", "", f"{_EVER}::test_a_kind_has_so_many_programs_for_the_asking"),
        ("new_shapes.py", "(a.dtype, a.ndim) if", "a.ndim if",
         f"{_EVER}::test_a_kind_has_so_many_programs_for_the_asking"),
        ("new_shapes.py", "run * work < _WORTH and ", "", f"{_EVER}::test_much_work_has_its_kernel_at_once"),
        ("new_shapes.py", "return weight * max(", "return max(", f"{_EVER}::test_much_work_has_its_kernel_at_once"),
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
        "ops/windows",
        ("regions.py", " and bool(place < self.extent)", "", _REGIONS),
        ("regions.py", "positions=axis.positions - found[longest].first - behind", "positions=found[longest].positions",
         f"{_REGIONS}::test_ever_new_extents"),
        ("regions.py", "_replace(first=more + region.first)", "_replace(first=region.first)",
         f"{_REGIONS}::test_ever_new_extents"),
        ("regions.py", "r.first * axis.step + r.tap * axis.tap_step", "r.first * axis.step", _REGIONS),
        ("regions.py", "weight.start + sum(r.tap * s", "weight.start + sum(0 * s", _REGIONS),
        ("regions.py", "if images < _FEW_IMAGES:", "if False:",
         f"{_REGIONS}::test_where_it_does_not_pay_images_are_padded"),
        ("regions.py", "if products > _MOST_PRODUCTS:", "if False:",
         f"{_REGIONS}::test_products_of_one_convolution_are_bounded"),
        ("regions.py", "at = sum(first * s for", "at = sum(0 * s for",
         f"{_REGIONS}::test_a_tap_has_a_product_of_its_own_for_the_weight"),
        ("regions.py", "_TURN_COST * lanes)", "0 * lanes)", f"{_REGIONS}::test_few_images_pad_for_the_weight"),
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
        ("gemm/windows.py", "return not _is_crowded(", "return True or not _is_crowded(",
         f"{_REGIONS}::test_channels_in_few_sets_of_the_cache_are_copied"),
        ("schedule/arg_words.py", '"max", "min", "where",', '"max", "min",', _ANY),
        ("loops/emit_instrs.py", 'if instr.dtype == "int32":', "if False:", _ANY),
        ("loops/emit_instrs.py", "is_padded and other.static[0] in _ZEROS and", "is_padded and", _MOVES),
        ("schedule/arg_words.py", "return id(buffer), i.dtype.itemsize, *map(number_key, i.address[1:]),",
         "return id(buffer), i.dtype.itemsize,", _MOVES),
        ("schedule/arg_words.py", "key = (number_key(r.lo), number_key(r.hi))", "key = number_key(r.lo)", _MOVES),
        ("fusion/lower.py", "combined(x, y, -1 if v.op == \"sub\" else 1)", "combined(x, y, 1)", _ANY),
        ("vmath/basic.py", "return first + second - select(", "return first + second - 0 * select(",
         "codegen/test_vmath.py"),
        ("vmath/basic.py", "    rest = rest - second * y\n", "", "codegen/test_vmath.py"),
        ("schedule/arg_words.py", '"mul", "div", "floordiv", "mod", "fmod", "max",', '"max",', _ANY),
        ("schedule/nest.py", " or similar(extents[vec]) > _SHORT_ROW:", ":", _MOVES),
        ("schedule/nest.py", "for d in units[:-1]]) >= _LEAST_UNITS", "for d in units[:-1]]) >= 0", _MOVES),
        ("loops/emit_memory.py", "    move = scope.moves[instr.like] = self._move", "    move = self._move", _MOVES),
    ),
    *_in(
        "symbols",
        ("number.py", "            self.guards.append(Guard(op, x, y, answer))\n", "",
         f"{_SYMBOLS}::test_random_arithmetic"),
        ("number.py", "return low > 0 or (low == 0 and op in", "return low > -5 or (low == 0 and op in",
         f"{_SYMBOLS}::test_random_arithmetic"),
        ("number.py", "    return 0 if op == \"%\"", "    return 1 if op == \"%\"",
         f"{_SYMBOLS}::test_random_arithmetic"),
        ("number.py", "return np.array(self.settled(), dtype)", "return np.array(self.value, dtype)",
         f"{_SYMBOLS}::test_what_cannot_keep_an_expression_asks_for_the_value"),
        ("number.py", "not c or a % c or", "not c or", f"{_SYMBOLS}::test_random_arithmetic"),
        ("number.py", "        x.env.asking(True, x.env.ask, \"==\", x.bit_length(), x.value.bit_length())\n", "",
         f"{_SYMBOLS}::test_similar_is_the_value_between_two_powers_of_two"),
        ("number.py", "self.env.asking(False, self.env.ask,", "self.env.asking(True, self.env.ask,",
         f"{_ADVICE}::test_a_value_that_is_needed_is_a_guard_under_advice_too"),
        ("advice.py", "else _is_within(x, most) and bool(x <= most)", "else _is_within(x, most)",
         f"{_ADVICE}::test_what_is_asked_under_advice_is_no_guard"),
        ("advice.py", "    env.differ(x, y)\n", "", f"{_ADVICE}::test_what_is_asked_under_advice_is_no_guard"),
        ("evaluator.py", "{'not ' * answer}", "{'not ' * (not answer)}",
         f"{_SYMBOLS}::test_guards_come_before_what_they_protect"),
    ),
    *_in(
        "codegen",
        ("families.py", "return n if n < 2 else 2 +", "return n if n < 1 else 2 +",
         f"{_FAMILIES}::test_a_kind_is_all_but_extents"),
        ("families.py", "or self.pinned >= _MAX_PINNED", "",
         f"{_FAMILIES}::test_kinds_that_hold_for_one_set_of_extents_are_given_up"),
        ("schedule/memory.py", "if x.last < lifetime.first), None)", "if x.last <= lifetime.first), None)",
         f"{_FAMILIES}::test_arenas_by_exact_size_never_overlap"),
    ),
    *_in(
        "compiled/extents",
        ("copies.py", "before.copying.again()", "before.copying",
         f"{_PATHS}::test_a_copy_goes_on_again_from_where_it_was"),
        ("node_copies.py", " if at in looked_at", "", f"{_PATHS}::test_other_extents_are_copied[policy]"),
        ("node_copies.py", "\"is_simple\", \"is_view\", \"bounds\",", "\"is_simple\", \"bounds\",",
         f"{_PATHS}::test_a_copy_is_what_recording_makes[text]"),
        ("copies.py", "        if self._has_strayed(values):\n            return None\n", "",
         f"{_ADVICE}::test_a_program_that_asks_for_sizes_itself_is_learned"),
        ("node_copies.py", "r if at is None else r._replace(aval=table[at])", "r",
         f"{_PATHS}::test_a_copy_is_what_recording_makes[residual]"),
        ("copies.py", "n < 2 or ", "", f"{_PATHS}::test_an_extent_of_one_is_another_path"),
        ("derivation.py", "            self._check_demands(event, instr, params)\n", "            pass\n",
         f"{_PATHS}::test_positions_that_the_step_computes_are_checked_at_their_statement"),
        ("forks.py", "            fork.families, fork.refusals = [], _MAX_REFUSALS\n", "            pass\n",
         f"{_PATHS}::test_a_function_that_does_many_things_is_not_copied_for_ever"),
        ("forks.py", "        trie.drop([oldest], frozenset(running))\n", "", f"{_PATHS}::test_old_copies_go"),
    ),
    *_in(
        "tracer/recording",
        ("numbers.py", "for source in (node, self.shadow, peer):", "for source in (node, self.shadow):",
         f"{_PATHS}::test_other_extents_are_copied[normed]"),
    ),
    *_in(
        "runtime/native",
        ("executor.py", "return -(-nbytes // part) * part", "return nbytes",
         "runtime/test_executor.py::test_arenas_of_nearly_one_size_are_lent_at_one"),
    ),
]  # fmt: skip
