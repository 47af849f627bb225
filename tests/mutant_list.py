"""The mutants of ``mutants.py``: where, what the text becomes, and which tests must notice."""

from __future__ import annotations

from mutant import Mutant
from mutant import mutants_in as _in
from mutants_of_calls import CALL_MUTANTS
from mutants_of_complex import COMPLEX_MUTANTS
from mutants_of_engine import ENGINE_MUTANTS
from mutants_of_growth import GROWTH_MUTANTS
from mutants_of_shapes import SHAPES_MUTANTS
from mutants_of_walks import WALK_MUTANTS

__all__ = ["MUTANTS", "Mutant"]

_CALLS = "rows/test_backward_calls.py"
_GRAPH = "rows/test_engine_graph.py"
_HOOKS = "rows/test_hooks.py"
_FUSED = "runtime/test_fused_rules.py"
_TRACING = "compiled/test_tracing.py"
_TUNING = "codegen/test_tuning.py"
_FAULTS = "attack/test_faults.py::test_faults_are_survived"

_NATIVE = _in(
    "cpython",
    ("known_modules.py", "    found = names.get(id(value))\n    module,", "    found = None\n    module,",
     "cpython/test_known_modules.py::test_what_the_caller_gives_is_that_of_this_process"),
    ("known_modules.py", "and x.isidentifier())", "and True)",
     "cpython/test_known_modules.py::test_other_processes_find_what_they_would_have_made"),
    ("known_modules.py", "forms, instead, handles, given))", "forms, instead, handles))",
     "cpython/test_known_modules.py::test_what_the_caller_gives_is_that_of_this_process"),
    ("known_modules.py", "return repr((sources, sys.version", "return repr((sys.version",
     "cpython/test_known_modules.py::test_a_note_of_something_else_is_not_used"),
)

_CODEGEN = _in(
    "codegen",
    ("primitives/simplify.py", "kind(n) for kind, n", "n for kind, n",
     "codegen/test_simplify.py::test_constants_fold_in_their_dtype"),
    ("primitives/simplify.py", "    if v.dtype.category is INTEGER:\n        return x if",
     "    if True:\n        return x if", "codegen/test_simplify.py::test_rule"),
    ("primitives/simplify.py", "return v.srcs[0].srcs[0] if v.srcs[0].op == \"neg\" else None", "return None",
     "codegen/test_simplify.py::test_rule"),
    ("primitives/indexed_rows.py", "if not identical(at[dim], table[len(others)]):", "if False:",
     "codegen/test_indexed_rows.py::test_other_indices_stay"),
    ("primitives/indexed_rows.py", "if not is_position or any([", "if not is_position or False and any([",
     "codegen/test_indexed_rows.py::test_other_indices_stay"),
    ("plan.py", "if d not in own] or", "if True] or",
     "codegen/test_indexed_rows.py::test_lanes_and_units_of_scatters"),
    ("fusion/lower.py", "test.op == \"lt\" and test.srcs[0] == own and", "test.op == \"lt\" and",
     "codegen/test_indexed_rows.py"),
    ("loops/emit_memory.py", "if instr.static != (False,):", "if False:",
     "codegen/test_indexed_rows.py::test_an_index_that_may_not_be_negative_is_looked_at_once"),
    ("driver/placement.py", "{PLACE_MOVED}\")):\n", "{PLACE_MOVED + 9}\")):\n",
     "runtime/test_process.py::test_sleeping_workers_are_woken_on_other_cores_and_get_theirs_back"),
    ("driver/placement.py", "        _affinity(b, pool, b.op(f\"add i64 {setter}, 1\"), thread, mask)\n",
     "        _affinity(b, pool, b.op(f\"add i64 {setter}, 1\"), \"0\", mask)\n",
     "runtime/test_process.py::test_workers_keep_the_cores_that_they_were_given"),
    ("schedule/memory.py", "alive.setdefault(lifetime.last, [])", "alive.setdefault(lifetime.first, [])",
     "codegen/test_arena.py"),
    ("primitives/panels.py", "    if len(products) < _LEAST_PRODUCTS or ", "    if ",
     "codegen/test_panels.py::test_what_is_shared"),
    ("primitives/join.py", "return m * (k + n) <= k * n", "return True",
     "codegen/test_join.py::test_when_rows_are_joined"),
    ("primitives/join.py", "        if v.op == \"add\" and readers[v] == 1:\n", "        if v.op == \"add\":\n",
     "codegen/test_join.py::test_a_sum_that_is_read_on_the_way_is_a_product_of_its_own"),
    ("primitives/join.py", "        if _stretch(x) != (source, at):\n", "        if False:\n",
     "codegen/test_join.py"),
    ("llvm/object_cache.py", "info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)", "info.st_mode & 0",
     "codegen/test_object_cache.py::test_file_that_others_can_write_is_not_loaded"),
    ("llvm/object_cache.py", "if (info.st_dev, info.st_ino) == self._identity:", "if self._identity:",
     f"{_FAULTS}[foreign_descriptors]"),
    ("llvm/object_cache.py", "while fd < _STANDARD:", "while fd < 0:",
     "codegen/test_object_cache.py::test_the_directory_takes_no_descriptor_of_the_standard_streams"),
    ("llvm/jit.py", "if self._num_loaded % KERNELS_PER_LINKER == 0:", "if self._num_loaded == 0:",
     "test_leaks.py::test_memory_stays_flat[loads]"),
    ("llvm/jit.py", "        found[digest] = kernel\n",
     "        found[digest] = _recent[digest] = kernel\n        _recent.move_to_end(digest)\n",
     "codegen/test_jit.py::test_idle_kernels_that_are_asked_for_again_hold_no_old_linkers"),
    ("loops/emit_loops.py", "        self._look_ahead(index)\n", "",
     "ops/test_scattered.py::test_rows_that_are_gathered_are_asked_for_ahead"),
    ("schedule/nest.py", "        width = _sequential_width(width, extents, vec, instrs, target)\n", "        pass\n",
     "ops/test_scattered.py::test_a_scatter_reads_its_indices_once_for_a_row_of_several_vectors"),
    ("gemm/tuning.py", "_CLEAR * times[best] <= times.get", "times[best] <= times.get",
     f"{_TUNING}::test_a_little_faster_is_not_worth_it"),
    ("gemm/tuning.py", "min(_SHARE * time.process_time_ns(), _MOST_NS)", "_MOST_NS",
     f"{_TUNING}::test_a_measurement_fits_into_a_twentieth_of_the_time_so_far"),
    ("gemm/tuning.py", " and not _is_busy()", "", f"{_TUNING}::test_nothing_is_measured_on_a_busy_machine"),
    ("gemm/tuning.py", "    with _lock:\n        found = _times", "    if True:\n        found = _times",
     f"{_TUNING}::test_threads_measure_one_after_the_other"),
    ("gemm/tuning.py", "return config.tune > 0 and target", "return target",
     f"{_TUNING}::test_off_means_neither_measured_nor_read"),
    ("gemm/tuning.py", "config.tune > 0 and target == host_target() and", "config.tune > 0 and",
     f"{_TUNING}::test_short_products_and_other_targets_are_not_measured"),
    ("gemm/tuning.py", "if all(0 < ns < math.inf for", "if all(True for",
     f"{_TUNING}::test_a_record_that_makes_no_sense_is_none"),
    ("gemm/trial.py", "columns, share = units_n - 1, unit_n", "columns, share = units_n, unit_n",
     f"{_TUNING}::test_long_products_are_run_in_parts"),
    ("gemm/trial.py", "    if any(second > _STEADY", "    if any(False and second > _STEADY",
     f"{_TUNING}::test_a_clock_that_jumps_is_noticed"),
    ("gemm/plan.py", "for way, ns in times.items() if way in costs}", "for way, ns in times.items()}",
     f"{_TUNING}::test_a_record_cannot_ask_for_what_is_not_right"),
    ("gemm/windows.py", " or not _is_multiple(product.n, spec.width)", "", "codegen/test_windows_tiles.py"),
    ("gemm/windows.py", 'if spec.b_unit != "runs" or spec.segments', "if spec.segments",
     "codegen/test_windows_tiles.py"),
    ("gemm/windows.py", "    most = most if spec.copy else 0\n", "",
     "codegen/test_windows_tiles.py"),
    ("gemm/plan.py", "    blocks += blocks % 2 * (blocks > 1)\n", "", "codegen/test_gemm.py"),
    ("gemm/plan.py", "    if several and spec.copy_rows:", "    if False:", "codegen/test_gemm.py"),
    ("gemm/plan.py", "    most = PACK_NBYTES // row_nbytes\n", "    most = 2 * PACK_NBYTES // row_nbytes\n",
     "codegen/test_gemm.py"),
    ("llvm/target.py", 'if "avx512fp16" in has and not', 'if False and not', "codegen/test_jit.py"),
    ("gemm/emit.py", 'whole = b.op(f"icmp eq i64', 'whole = b.op(f"icmp sle i64', "codegen/test_gemm.py"),
    ("gemm/emit.py", "    if spec.walks and spec.rows > 1:\n        short", "    if False:\n        short",
     "codegen/test_gemm.py::test_a_unit_with_less_than_a_tile_of_rows_side_by_side"),
    ("gemm/tile.py", "(rest, done), bool(panel.whole))", "(rest, done), False)", "codegen/test_gemm.py"),
    ("gemm/tile.py", 'inside = b.op(f"icmp sle i64', 'inside = b.op(f"icmp ne i64', "codegen/test_gemm.py"),
    ("gemm/tile.py", "return b.op(f\"and i1 {inside}, {whole}\") if whole else inside\n",
     "return whole or inside\n", "codegen/test_gemm.py"),
)  # fmt: skip

_COMPILED = _in(
    "compiled",
    ("backward/backward.py", "    if is_traced():\n", "    if False:\n",
     f"{_GRAPH}::test_the_example_of_the_source_has_one_arrival_everywhere"),
    ("backward/backward.py", "    if history.looked_at:\n", "    if False:\n",
     f"{_HOOKS}::test_a_hook_replaces_the_gradient_and_none_keeps_it"),
    ("backward/backward.py", "    if any(input_kind(recorder.inputs[vid]) is HOOKED for vid in leaves):\n",
     "    if False:\n", f"{_HOOKS}::test_post_hooks_see_what_the_node_was_given"),
    ("backward/backward.py", "    if anomaly.enabled:\n", "    if False:\n", "rows/test_anomaly.py"),
    ("batches.py", "                    result[key] = passed[id(x)]\n", "                    pass\n",
     "compiled/test_batches.py::test_the_argument_comes_back_as_itself"),
)  # fmt: skip

_TRACER = _in(
    "tracer",
    ("recording/recorder_state.py", "    return ~id(leaf)\n", "    return id(leaf)\n",
     "compiled/test_threads_that_write.py::test_a_leaf_that_has_the_id_of_memory_that_was_written"),
    ("recording/numbers.py", "return value if value and value == value else repr(value)", "return value",
     f"{_TRACING}::test_negative_zero_is_not_zero"),
    ("recording/numbers.py", "return op.name not in _STATIC and type(value)", "return type(value)",
     f"{_TRACING}::test_exponents_stay_static"),
    ("recording/ranges.py", "-(-need.low // number)", "need.low // number - 1",
     "compiled/test_early_checks.py::test_positions_that_the_step_computes_out_of_range"),
    ("recording/ranges.py", "(need.high - 1) // number + 1", "need.high",
     "compiled/test_early_checks.py::test_positions_that_the_step_computes_out_of_range"),
    ("misses/early_checks.py", "known[1] == version is not None", "known[1] is not None",
     "compiled/test_early_checks.py::test_an_index_that_was_written_is_looked_at_again"),
)  # fmt: skip

_AUTOGRAD = [
    Mutant("jitgrad/autograd/backward.py", "        if grad_tensors is not None:\n", "        if False:\n",
           f"{_CALLS}::test_the_old_name_of_the_gradients"),
    Mutant("jitgrad/grad_mode.py", "        if thread[\"grad_enabled\"] is not enabled:\n", "        if False:\n",
           "rows/test_grad_modes.py::test_where_a_block_ends_is_part_of_the_graph"),
    Mutant("jitgrad/functions/storages.py", "        self._memory()[self._checked(index)] = value",
           "        self._checked(index)", "rows/test_views.py::test_a_storage_is_a_row_of_elements"),
]  # fmt: skip

_NUMBERS = "ops/test_random.py"
_STATES = "runtime/test_random_streams.py"

_RANDOM = [
    *_in(
        "codegen/random",
        ("normal.py", "(_horner(x, _LOG) * x).fma(square, exponent * _LN2_LOW)",
         "exponent.fma(_LN2_LOW, _horner(x, _LOG) * x * square)", f"{_NUMBERS}::test_many_numbers"),
        ("normal.py", "        store(radius * _libm(angle, \"sin\"), cached, 0)\n", "", f"{_NUMBERS}::test_every_size"),
        ("kernel.py", "        b.do(f\"call void @words(ptr %state, ptr %scratch, i64 {draws})\")\n", "",
         f"{_NUMBERS}::test_every_size"),
        ("twister.py", "        make(end - _LANES, source, str(place), _LANES)\n", "", f"{_NUMBERS}::test_every_size"),
    ),
    *_in(
        "runtime/random",
        ("draws.py", "found = [_events(rate, draws) for rate in rates.tolist()]\n"
         "        # draws were taken in advance: go back, and take as many as were used\n"
         "        self.set_state(before)\n",
         "found = [_events(rate, draws) for rate in rates.tolist()]\n", f"{_NUMBERS}::test_streams_interleave"),
        ("draws.py", "if extent >= WIDE_FROM else", "if extent > WIDE_FROM else",
         f"{_NUMBERS}::test_ranges_of_integers"),
        ("numpy_form.py", "    return upper + _odd_sum(error, lower)\n", "    return x * y + z\n",
         f"{_STATES}::test_both_forms_draw_the_same"),
        ("twister.py", "        out[_NEXT] = 0 if position == RANDOM_FRESH else position\n",
         "        out[_NEXT] = position\n", f"{_STATES}::test_seeds"),
    ),
    *_in(
        "functions",
        ("random_filling.py", "\"normal\" if self._aval.is_contiguous else \"normal_pairs\"", "\"normal\"",
         f"{_NUMBERS}::test_filling_layouts"),
        ("sampling.py", "    return constant_in(_normal_around(mean, std, source), mean, std)\n",
         "    return _normal_around(mean, std, source)\n", f"{_NUMBERS}::test_gradients_are_zeros"),
    ),
    Mutant("jitgrad/transforms/batch.py", "draw((*sizes, self.size))", "draw((self.size, *sizes))",
           f"{_STATES}::test_vmap_draws_as_torch_does"),
]  # fmt: skip

_FILES, _EXCHANGE = "utils/test_torch_files.py", "utils/test_exchange.py"

_IN_AND_OUT = (
    *_in(
        ".",
        ("layouts.py", "            return 1 if stride[a] > stride[b] else -1\n",
         "            return 1 if stride[a] < stride[b] else -1\n",
         f"{_NUMBERS}::test_filling_layouts ops/test_layouts.py"),
        ("ops/aval.py", "    return aval.stride if is_dense(aval) else dense(aval)\n", "    return dense(aval)\n",
         "ops/test_layouts.py"),
        ("runtime/engine/graph/accumulate_grad.py",
         "    return all(n == 1 or s == t for n, s, t in zip(aval.shape, aval.stride, layout.stride, strict=True))\n",
         "    return True\n", "autograd/test_grad_layouts.py"),
        ("codegen/build.py", "    return value if order is None else b.permute(value, order)\n", "    return value\n",
         "ops/test_layouts.py autograd/test_grad_layouts.py"),
        ("functions/copying.py", "    if copy is False:\n", "    if False:\n",
         f"{_EXCHANGE}::test_arrays_by_numpys_rules"),
        ("functions/exchange.py", "    if self.requires_grad:\n", "    if False:\n",
         f"{_EXCHANGE}::test_what_dlpack_refuses"),
        ("runtime/storage/resize.py", "    _forget_views(storage)\n", "",
         f"{_EXCHANGE}::test_storages_change_their_size"),
        ("array_api/dtype_functions.py", "    if len(kinds) < 2:\n", "    if True:\n",
         "utils/test_array_api.py::test_values_and_dtypes_are_numpys"),
        ("serialization/reading.py", "(last >= row._aval.numel or", "(last > row._aval.numel or",
         f"{_FILES}::test_records_that_lie"),
        ("serialization/reading.py", "if _count(numel) > found._tensor._aval.numel:", "if False:",
         f"{_FILES}::test_records_that_lie"),
        ("serialization/replacement.py", "    path = os.path.realpath(path)\n", "", f"{_FAULTS}[paths_of_save]"),
        ("serialization/replacement.py", "old is not None and not stat.S_ISREG(old.st_mode)", "False",
         f"{_FAULTS}[paths_of_save]"),
        ("serialization/archive.py", "        if turns:\n", "        if False:\n",
         f"{_FILES}::test_the_other_order_of_bytes"),
        ("serialization/writing.py", "        if known is None:\n", "        if True:\n",
         f"{_FILES}::test_what_is_written_torch_reads"),
    ),
)

_SHORT = "ops/test_short_dtypes.py"
_SHORT_DTYPES = [
    Mutant("jitgrad/codegen/vmath/short.py", "(bits.lshr(16) & 1) + 0x7FFF", "(bits.lshr(16) & 1) + 0x8000",
           "codegen/test_vmath.py::test_halves"),
    Mutant("jitgrad/codegen/vmath/short.py", "(size - (112 << 23) + 0xFFF + ", "(size - (112 << 23) + 0x1000 + ",
           "codegen/test_vmath.py::test_halves"),
    Mutant("jitgrad/codegen/build.py", "        return b.widened(found) if widens else found\n",
           "        return found\n", f"{_SHORT}::test_halves_are_computed_in_float32"),
    Mutant("jitgrad/codegen/primitives/builder.py",
           "        if dtype.is_short:\n            return self.cast(self.make",
           "        if False:\n            return self.cast(self.make",
           f"{_SHORT}::test_numbers_that_change_from_call_to_call"),
    Mutant("jitgrad/tracer/recording/entry.py",
           "            is_same = known is not None and other._aval is tensor._aval and other._storage is storage\n",
           "            is_same = known is not None\n", f"{_SHORT}::test_memory_in_two_dtypes_in_a_step"),
    Mutant("jitgrad/runtime/engine/graph/copy_slices.py", "            if not wanted or target in wanted:\n",
           "            if False:\n",
           "ops/test_expanded_targets.py::test_the_same_are_written_and_refused"),
    Mutant("jitgrad/runtime/eager/eager.py",
           "    elif op.write is not None and writes_repeats(op, targets[0]._aval):\n", "    elif False:\n",
           "ops/test_expanded_targets.py::test_the_same_are_written_and_refused"),
    Mutant("jitgrad/runtime/eager/eager.py", "        if was_set(root, \"_storage\") or behind.base is not None",
           "        if behind.base is not None", "runtime/test_views_of_results.py"),
    Mutant("jitgrad/ops/layers/normalization.py", "        terms.append(of_variance * (2.0 / count) * centred)",
           "        terms.append(of_variance / count * centred)",
           "ops/test_rules.py::test_derivatives_are_torchs_to_second_order"),
    Mutant("jitgrad/ops/layers/batch_normalization.py", "mean, rstd = mean.detach(), (variance.detach() +",
           "rstd = (variance +",
           "ops/test_rules.py::test_derivatives_are_torchs_to_second_order"),
    Mutant("jitgrad/functions/layers.py",
           "    if 0 in shape:\n        return _normalised_nothing(input, weight, bias)\n", "",
           "nn/test_batch_norm.py"),
    Mutant("jitgrad/numbering.py", "wanted = count if count > 0 else 1", "wanted = 1",
           "compiled/test_parts_of_loops.py"),
    Mutant("jitgrad/tracer/misses/writes.py", "targets[0]._base is not None and not is_expanded\n",
           "targets[0]._base is not None\n",
           "ops/test_expanded_targets.py::test_the_same_are_written_and_refused"),
    Mutant("jitgrad/tracer/hits/hits.py", "recorder.busy or overrides(a) or overrides(b):\n", "recorder.busy:\n",
           "rows/test_overrides.py::test_a_right_operand_is_asked"),
    Mutant("jitgrad/functions/_parse.py", "        _note_class(type(x))\n    return asks(x)\n",
           "        pass\n    return asks(x)\n",
           "rows/test_overrides.py::test_steps_of_other_classes_are_as_native_as_without_overrides"),
    Mutant("jitgrad/compile.py", "        self._owe(self.debt - 1)\n", "        pass\n",
           "compiled/test_first_call_work.py::test_known_graphs_pay_for_looks_at_others"),
    Mutant("jitgrad/tracer/misses/long_calls.py", "return trie.follows or", "return",
           "compiled/test_first_call_work.py::test_a_call_that_follows_runs_what_is_known_and_leaves_where_it_is_not"),
    Mutant("jitgrad/amp/autocast_mode.py", "            state.autocast = self.fast_dtype if self._enabled else None\n",
           "            state.autocast = self.fast_dtype\n", "ops/test_autocast.py::test_what_computes_in_which_dtype"),
]

_ALIKE = "codegen/test_alike.py::test_programs_do_not_depend_on_what_was_found_alike"
_TURNS = "compiled/test_turns.py"
_FIRST_CALLS = [
    *_in(
        "codegen/schedule",
        ("alike.py", "            words[at] = outline.places[nr]\n", "            pass\n", _ALIKE),
        ("alike.py", "            words[at] = outline.scalars[nr]\n", "            pass\n", _ALIKE),
        ("alike.py", "i.extra[1:], tuple(strides), i.chunk_stride", "i.extra[1:], (), i.chunk_stride", _ALIKE),
        ("alike.py", "s.dtype, s.address[1:], s.chunk_stride", "s.dtype, (), s.chunk_stride", _ALIKE),
    ),
    Mutant("jitgrad/tracer/misses/writes.py", "    return not owners.isdisjoint(history.writes)\n", "    return True\n",
           f"{_TURNS}::test_two_optimizers_that_take_turns_end_no_segment"),
    Mutant("jitgrad/tracer/hits/update_hits.py", " or ends_segment(recorder.node.last):\n", ":\n",
           f"{_TURNS}::test_turns_are_planned_once"),
    Mutant("jitgrad/compiled/nodes/graph_nodes.py", "        if not wanted:\n            break\n", "",
           "compiled/test_first_call_work.py::test_work_grows_with_the_length"),
    Mutant("jitgrad/garbage.py", "        gc.disable()\n", "        pass\n", "compiled/test_collections.py"),
    Mutant("jitgrad/codegen/piece.py", "            root.group = None\n", "            pass\n",
           "compiled/test_collections.py::test_a_plan_goes_without_a_collection"),
]

_OUTSIDE = "compiled/test_backward_outside.py"
_OUTSIDE_ROWS = [
    Mutant("jitgrad/compiled/nodes/trace_graph.py",
           "            if counter is not None and counter[VERSION] != versions[vid]:\n", "            if False:\n",
           f"{_OUTSIDE}::test_what_was_saved_and_is_written_since"),
    Mutant("jitgrad/compiled/nodes/trace_graph.py", "            self._buffers.pop(vid, None)\n            tensor",
           "            tensor", f"{_OUTSIDE}::test_activations_are_freed_after_the_backward"),
    Mutant("jitgrad/compiled/backward/from_outside.py", "                found.pop(edge, None)\n", "",
           f"{_OUTSIDE}::test_hooks_see_the_order_of_eager_execution"),
    Mutant("jitgrad/runtime/engine/run/run_alone.py", "dependencies.get(node) == 1 and node not in not_ready", "True",
           f"{_OUTSIDE}::test_a_model_of_its_own_result"),
]

_LOOPS, _PARTS = "compiled/test_parts_of_loops.py", "compiled/test_parts_of_graphs.py"
_READS = "compiled/test_calls_that_read.py"
_PARTS_OF_LOOPS = _in(
    "",
    ("runtime/engine/run/plain_nodes.py", "    flags[nr] = True\n", "    flags[0] = True\n",
     f"{_LOOPS}::test_a_graph_that_only_the_other_result_needs_is_left_alone"),
    ("compiled/backward/from_outside.py", "not all(t.is_leaf or t in reached for t in self.targets)", "False",
     f"{_LOOPS}::test_a_graph_that_only_the_other_result_needs_is_left_alone"),
    ("tracer/hits/graph_hits.py", "graph.has_made or graph.marks:", "graph.has_made or int(recorder.caught):",
     f"{_LOOPS}::test_a_view_leaves_a_call_as_lightly_as_what_it_views"),
    ("tracer/hits/graph_hits.py", "        buffers[ids[0]] = storage_of(", "        _ = storage_of(", _LOOPS),
    ("tracer/hits/graph_hits.py", "return len(settled) == 3 * len(counters)", "return True", _LOOPS),
    ("tracer/hits/graph_hits.py", "or (graph.tip is not None and graph.saves)", "",
     f"{_READS}::test_a_call_that_reads_or_writes_leaves_lightly"),
    ("compiled/nodes/sweep.py", "    current.graph_task = current.wanted = None\n", "",
     f"{_READS}::test_the_gradient_of_a_result_between_two_calls"),
    ("compiled/nodes/trace_graph.py", "self._edges_of(known))", "node.next_edges)",
     f"{_READS}::test_the_gradient_of_a_result_between_two_calls"),
    ("runtime/engine/run/graph_task.py", "(is_partial and not node.known.is_covered)", "False",
     f"{_READS}::test_a_hook_hears_of_no_gradient_that_nobody_wants"),
    ("compiled/backward/inner_recorder.py", "int.__index__(x) if type(x) is _SymbolicInt else x", "x",
     f"{_READS}::test_a_changing_whole_number_in_a_call_is_recorded_backwards"),
    ("runtime/engine/run/call_runs.py", "if int(counter[VERSION]) != int(noted[at + 2]):", "if False:",
     f"{_LOOPS}::test_what_is_written_after_the_forward_is_refused"),
    ("runtime/engine/run/call_runs.py", "        if x._storage is not entered[at + 1]:", "        if False:",
     f"{_LOOPS}::test_other_memory_of_a_leaf_after_the_forward"),
    ("runtime/engine/run/call_runs.py", "    graph.used = program.used\n", "    pass\n",
     f"{_LOOPS}::test_a_graph_is_used_up"),
    ("runtime/engine/run/call_runs.py", "        for vid in program.freed:\n            take_out(table, vid)\n",
     "        pass\n",
     f"{_LOOPS}::test_a_used_graph_lets_go_of_what_it_has_saved"),
    ("runtime/engine/run/call_runs.py", "            entered[place + 1] = None\n", "            pass\n",
     f"{_LOOPS}::test_a_used_graph_lets_go_of_its_inputs"),
    ("runtime/engine/graph/call_node.py", "graph.saves and graph.entered is not None and", "graph.saves and",
     f"{_LOOPS}::test_random_graphs"),
    ("tracer/misses/flush.py", "bool(saved) or (bool(roots) and not history.released)", "bool(saved)",
     f"{_LOOPS}::test_what_saves_nothing_is_a_step_of_the_plain_backward"),
    ("tracer/hits/entry_hits.py", "    if root.tid is recorder.tid:\n        meet_part(recorder, x, root)\n", "",
     "compiled/test_storage.py::test_writes_are_seen_through_every_alias"),
    ("tracer/misses/writes.py", "        end_stand_ins(targets)\n", "",
     f"{_PARTS}::test_writes_change_both_histories"),
    ("tracer/recording/entry.py",
     "if has_stand_in(tensor) and tensor._view_version", "if False and tensor._view_version",
     f"{_PARTS}::test_writes_change_both_histories"),
    ("compiled/batches.py", "become_views_of_base([found for", "len([found for",
     f"{_PARTS}::test_results_that_are_the_part_or_views_of_it"),
)

_EAGER = _in(
    "runtime/eager",
    # rules as native steps
    ("rule_programs.py", "if len(programs) >= _MAX_PROGRAMS and not self.fuses:", "if len(programs) >= _MAX_PROGRAMS:",
     f"{_FUSED}::test_the_order_in_which_layouts_of_gradients_come_changes_no_bit"),
    ("rule_programs.py", "asked if node.hooks is None else (\"hooked\", asked)", "asked",
     "runtime/test_rule_programs.py::test_hooks_of_a_node_see_what_its_rule_returns"),
    ("kernel.py", "    if config.eager_kernels < 0 or not any(", "    if config.eager_kernels >= 0 or not any(",
     f"{_FUSED}::test_the_first_backward_is_a_step_already"),
    ("fused_rules.py", "if make is None or saves_numbers or not outputs:", "if make is None or not outputs:",
     f"{_FUSED}::test_rules_with_saved_numbers_stay_lists_of_calls"),
    ("fused_rules.py", ", aval.offset - values[root].aval.offset)", ", aval.offset)",
     f"{_FUSED}::test_what_is_known_is_not_made_again"),
)

_NATIVE_TEXT, _ATTRIBUTES = "cpython/test_native_text.py", "compiled/test_native_attributes.py"
_CPYTHON = _in(
    "cpython",
    ("expressions.py", "lasts = found.kind == \"args\" or (found.lasts and found.cls is tuple)", "lasts = True",
     f"{_NATIVE_TEXT}::test_an_item_of_a_list_is_owned"),
    ("translate.py", "if not (value.lasts or value.is_constant or is_lasting(cls or value.cls)):", "if False:",
     f"{_NATIVE_TEXT}::test_a_local_that_owns_nothing_holds_nothing_else"),
    ("calls.py", "if is_counted and found.lasts:", "if False:",
     f"{_NATIVE_TEXT}::test_only_what_a_local_owns_is_counted"),
    ("ints_text.py", "%moved = shl i64 %wide.high, 30", "%moved = shl i64 %wide.high, 32",
     "cpython/test_native_ints.py::test_every_word_is_itself"),
    ("thread_text.py", "%same = and i1 %same.local, %same.thread", "%same = and i1 %same.local, %same.local",
     f"{_ATTRIBUTES}::test_a_step_follows_the_mode_of_its_own_thread"),
    ("native.py", "%usual = and i1 %bare, %as.was", "%usual = and i1 %bare, %bare",
     f"{_ATTRIBUTES}::test_a_class_that_somebody_changes_makes_what_it_then_should"),
    ("getattr_text.py", "  br i1 %bare, label %bind, label %ask", "  br label %bind",
     f"{_ATTRIBUTES}::test_attributes_of_an_object_come_before_methods"),
)
_OUTLIVED = [
    Mutant("jitgrad/tracer/recording/trie.py", "if calls & running]", "if False]",
           "cpython/test_outlived_nodes.py::test_nodes_last_while_a_call_is_recorded_that_may_look_at_them"),
    Mutant("jitgrad/tracer/recording/trie.py",
           "            self.outlived.append((running, pruned))\n", "            pass\n",
           "cpython/test_outlived_nodes.py::test_nodes_last_while_a_call_is_recorded_that_may_look_at_them"),
]

_HANDLER = [Mutant("jitgrad/handler.py", '_name != "refuse":', '_name not in ("refuse", "look_afresh"):',
                   "transforms/test_inplace_writes.py::test_a_view_that_a_write_has_brought_into_the_graph_can_be_mapped_over")]

_CONTEXTS = [Mutant("jitgrad/runtime/engine/graph/op_node.py", "        context = _CONTEXTS.get(key)",
                    "        context = None",
                    "compiled/test_long_calls.py::test_nodes_of_a_call_that_left_share_their_rule_programs")]
_TURNS = _in(
    "codegen/turns",
    ("split.py", "elif root in self.written:", "elif False:", "compiled/test_equal_turns.py"),
    ("split.py", "self.places[vid] = (root, aval.offset * aval.dtype.itemsize)", "self.places[vid] = (root, 0)",
     "compiled/test_equal_turns.py"),
    ("postpone.py", "not made.isdisjoint([x for x in instr.inputs if type(x) is int])", "False",
     "compiled/test_equal_turns.py"),
    ("merge.py", "crossing[root].last = nr\n", "pass\n", "compiled/test_equal_turns.py"),
    ("merge.py", "        if has_offset:\n", "        if False:\n", "compiled/test_equal_turns.py"),
)  # fmt: skip

_ARGUMENTS = _in(
    "functions",
    ("checked.py", "if key not in known and not has", "if False and not has",
     "attack/test_attack.py::test_what_was_found_is_refused_in_words"),
    ("checked.py", "        match()  # classes", "        pass  # classes",
     "attack/test_attack.py::test_a_known_call_tells_nothing_of_large_numbers"),
    ("checked.py", "return kind, *map(_kind, x)", "return kind",
     "attack/test_attack.py::test_a_known_call_tells_nothing_of_other_elements"),
    ("checked.py", "if is_same and len(known)", "if len(known)",
     "attack/test_attack.py::test_a_call_that_is_converted_is_converted_each_time"),
    ("_parse.py", "        if not -(1 << 63) <= x < 1 << 63:", "        if False:",
     "attack/test_attack.py::test_a_known_call_tells_nothing_of_large_numbers"),
)  # fmt: skip

_LOOKS = _in(
    "tracer",
    ("misses/segment_end.py", "        if not event.has_plan:\n", "        if True:\n",
     "compiled/test_decorator.py::test_threads_that_plan_one_end_keep_the_first_plan"),
    ("hits/write_hits.py", "node.bounds is not None and not is_inside(recorder, node, args)", "False",
     "compiled/test_early_checks.py::test_a_write_looks_at_its_indices_at_every_call"),
    ("hits/window_hits.py", "node.bounds is not None and not is_inside(recorder, node, args)", "False",
     "compiled/test_early_checks.py::test_a_write_looks_at_its_indices_at_every_call"),
    ("hits/hits.py", "        elif not older_has_values(recorder, row):\n            return False\n", "",
     "compiled/test_early_checks.py::test_a_write_looks_at_its_indices_at_every_call"),
)  # fmt: skip

_STAND_INS = _in(
    "tracer",
    ("hits/entry_hits.py", "    root.tid = recorder.tid\n", "",
     "compiled/test_batches.py::test_slices_of_one_memory_are_never_taken_for_each_other"),
    ("hits/view_hits.py", "                slots[id(memory_of(storage))] = slot\n", "                pass\n",
     f"{_LOOPS}::test_a_part_and_the_whole_after_a_read"),
    ("hits/recall_hits.py", "memory_of(y._storage) is memory_of(x._storage)", "y._storage is x._storage",
     "compiled/test_batches.py::test_a_remembered_call_does_not_enter_slices_of_one_memory"),
    ("hits/call_hits.py",
     "        site.batches.settle(pairs)\n    if type(settled)", "        pass\n    if type(settled)",
     "compiled/test_batches.py::test_a_leaf_made_before_an_error_is_the_argument"),
    ("hits/call_hits.py", "    if given is not None and comes_back(result, pairs):\n", "    if False:\n",
     "compiled/test_batches.py::test_the_argument_comes_back_as_itself"),
    ("hits/call_hits.py", "elif given is not None and are_leaves(pairs):", "elif False:",
     "compiled/test_batches.py::test_a_leaf_made_inside_is_the_argument"),
    ("hits/batch_hits.py", "    made._vc = counter\n", "", "compiled/test_batches.py"),
    ("hits/batch_hits.py", "        if known[0] is x:\n            return known[1]\n", "        pass\n",
     "compiled/test_batches.py::test_one_slice_that_is_passed_twice_is_one_tensor"),
)  # fmt: skip

_KERNEL_RUNS = _in(
    "runtime/eager",
    ("kernel_runs.py", "    word += 1  # the arena's\n", "",
     "compiled/test_kernel_runs.py::test_native_code_and_python_give_the_same_bits"),
    ("kernel_runs.py", "    return made if run_record(step, record) else None\n",
     "    run_record(step, record)\n    return made\n",
     "compiled/test_kernel_runs.py::test_bad_data_are_the_rules_and_the_next_call_works"),
    ("kernel_runs.py", "    if step.releases:  # noqa: SIM108\n", "    if False:\n",
     "compiled/test_kernel_runs.py::test_other_threads_run_python_during_a_kernel_that_takes_long"),
    ("eager.py", "sum(x is target for x in inputs) > 1", "False",
     "runtime/test_targets_as_operands.py"),
    ("direct_writes.py", " and (plan.by_place is True or is_alone(target, inputs))", "",
     "runtime/test_targets_as_operands.py"),
    ("kernel.py", "op.name in _PRODUCTS or (avals and", "(avals and",
     "runtime/test_eager_kernels.py::test_products_are_kernels"),
    ("results.py", "type(number) is int and same(number, 0):", "same(number, 0) or number == 0:",
     "compiled/test_native_eager.py"),
    ("eager.py", "    return int(storage.nbytes) == int(array.nbytes)\n", "    return True\n",
     "compiled/test_kernel_runs.py::test_views_of_all_kinds_of_memory_share_it"),
)  # fmt: skip

_GARBAGE = _in(
    "",
    ("garbage.py", "            if gc.get_threshold() == (_SELDOM, *before[1:]):\n", "            if True:\n",
     "compiled/test_seldom_collections.py::test_what_the_user_sets_meanwhile_stays"),
    ("garbage.py", "if _before and not _growing:", "if _before:",
     "compiled/test_seldom_collections.py::test_a_call_within_a_call_of_another_thread_waits_for_both"),
    ("compile.py", "        collect_as_before(recorder.path)\n", "",
     "compiled/test_seldom_collections.py::test_seldom_while_something_is_new"),
    ("tracer/recording/path.py", "            collect_seldom(self)\n", "",
     "compiled/test_seldom_collections.py::test_seldom_while_something_is_new"),
)  # fmt: skip

_BUILDERS = _in(
    "codegen/llvm",
    ("builders.py", "return self._look(self.fd) == self._identity", "return bool(self._look(self.fd))",
     "codegen/test_builders.py::test_a_descriptor_that_became_another_file"),
    ("builders.py", "and self._long.isdisjoint(builder.asked)", "",
     "codegen/test_builders.py::test_whoever_has_something_long_to_do_gets_no_more"),
    ("builders.py", "self._answers.update((nr, None) for nr", "self._answers.update((nr, None) for nr in () for nr",
     "codegen/test_builders.py::test_a_request_to_a_builder_that_is_gone_is_refused"),
    ("jit.py", "        _builders().close()\n", "        pass\n",
     "codegen/test_builders.py::test_a_fork_leaves_the_parent_its_builders"),
    ("builder_process.py", "if is_made and directory >= 0:", "if False:",
     "codegen/test_builders.py::test_what_a_short_process_has_asked_for_is_kept"),
)  # fmt: skip

_SWEEPS = "compiled/test_backward_without_nodes.py"
_BATCHES = "runtime/test_operands_elsewhere.py"
_WITHOUT_NODES = [
    *_in(
        "compiled/backward",
        ("rule_templates.py", "        key = (kind, same)\n", "        key = (kind, ())\n", _SWEEPS),
        ("rule_sweep.py", "                    kind.append((type(x.value), x.value))\n", "                    pass\n",
         f"{_SWEEPS}::test_number_kinds_are_kept_apart"),
        ("rule_sweep.py", "            if gone and plan.saves and", "            if False and",
         f"{_SWEEPS}::test_what_was_written_over_is_refused_as_in_eager_mode"),
        ("rule_sweep.py", "COPY_SLICES or not history.released.isdisjoint(instr.outputs)", "COPY_SLICES",
         f"{_SWEEPS}::test_a_graph_that_is_used_up_is_refused_as_in_eager_mode"),
        ("rule_sweep.py", "            if instr.outputs[0] not in reached:\n                continue\n", "", _SWEEPS),
        ("rule_sweep.py", "handle._requires_grad = instr.needs[i]", "handle._requires_grad = False", _SWEEPS),
        ("backward.py", "or it is nothing but that Nodes are needed\n        _undo(before)\n", "\n",
         f"{_SWEEPS}::test_a_rule_that_raises_leaves_the_leaves_as_they_were"),
    ),
    *_in(
        "compiled/nodes",
        ("trace_graph.py", "        self._former_leaves[vid] = tensor\n", "        pass\n",
         "compiled/test_gradients.py::test_a_leaf_that_requires_no_gradient_any_more"),
    ),
    *_in(
        "transforms",
        ("level.py", "            self.below = state.handler\n", "",
         "transforms/test_func.py::test_saved_tensor_hooks_that_a_level_meets_are_called_in_a_step_too"),
    ),
    *_in(
        "runtime/eager",
        ("plan.py", "    if not op.is_view and any([type(a)", "    if False and any([type(a)",
         f"{_BATCHES}::test_an_epoch_makes_nothing_that_the_first_steps_have_made"),
        ("plan.py", "        plans.pop(_passing.popleft(), None)\n", "        plans.clear()\n",
         f"{_BATCHES}::test_what_passes_does_not_push_out_what_stays"),
        ("rule_text.py", "        is_strict = is_seen or", "        is_strict =",
         "runtime/test_rule_programs.py::test_a_result_that_is_a_view_of_the_gradient_lies_where_that_lies"),
        ("rule_text.py", "        return same if is_strict else", "        return same if True else",
         "runtime/test_rule_programs.py::test_a_gradient_may_lie_elsewhere"),
    ),
]  # fmt: skip

MUTANTS = [*_CONTEXTS, *_TURNS, *_HANDLER, *ENGINE_MUTANTS, *_EAGER, *_CODEGEN, *_COMPILED,
           *_TRACER, *_AUTOGRAD, *_RANDOM, *_IN_AND_OUT, *_SHORT_DTYPES, *_OUTSIDE_ROWS, *_PARTS_OF_LOOPS,
           *_FIRST_CALLS, *_CPYTHON, *_NATIVE,
           *_OUTLIVED, *_ARGUMENTS, *_BUILDERS, *_GARBAGE, *_LOOKS, *_STAND_INS, *_KERNEL_RUNS, *_WITHOUT_NODES,
           *WALK_MUTANTS, *GROWTH_MUTANTS, *CALL_MUTANTS, *SHAPES_MUTANTS, *COMPLEX_MUTANTS]
