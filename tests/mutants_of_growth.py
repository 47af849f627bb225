"""Mutants of paths that grow in native code, of instructions that it runs, and of its copies, see ``mutants.py``."""

from __future__ import annotations

from mutant import mutants_in as _in

__all__ = ["GROWTH_MUTANTS"]

_GROWTH = "compiled/test_growth.py"
_SAME = f"{_GROWTH}::test_the_path_is_the_one_that_python_records"
_RANDOM = f"{_GROWTH}::test_random_programs_record_what_python_records"
_RUNS = "compiled/test_instr_runs.py"
_WRITES = "autograd/test_writes_in_graphs.py"
_COPIES = "runtime/test_copies.py"
_MAKINGS = "ops/test_known_makings.py"
_INDICES = "ops/test_index_kinds.py::test_indices_that_numpy_reads_otherwise"
_BEFORE = "ops/test_arguments.py::test_what_is_accepted_does_not_depend_on_what_ran_before"
_OPTIONS = "ops/test_factory_options.py"
_REMEMBERED = "compiled/test_remembered.py"
_NO_GRAD = "compiled/test_views_without_grad.py"

GROWTH_MUTANTS = [
    *_in(
        "tracer",
        ("hits/growth.py", "numbers.shadow is not None or ", "",
         f"{_GROWTH}::test_numbers_that_change_are_arguments_from_the_second_value_on compiled/test_tracing.py"),
        ("hits/growth.py", "    if int(path.new_values) >= int(trie.new_limit):\n        return False\n", "",
         f"{_GROWTH}::test_a_limit_on_new_values_ends_the_growing"),
        ("hits/growth.py", "int(history.start) + 1 < int(path.segment_limit)", "int(history.start) < 1 << 40",
         f"{_GROWTH}::test_a_segment_that_is_full_ends"),
        ("hits/growth.py", "    node.param_types = kind.param_types\n", "", _SAME),
        ("hits/growth.py", "    node.window = kind.window\n", "", _SAME),
        ("hits/growth.py", "    if operation.is_view:\n        add_views(history, instr)\n", "",
         f"{_GROWTH}::test_a_write_is_seen_by_views_that_native_code_has_recorded"),
        ("hits/growth.py", "    if node.is_view:\n        note_source(recorder, node, out, inputs[0])\n", "",
         f"{_SAME} {_RANDOM}"),
        ("hits/growth.py", " or (kind.joins and len(inference_tensors) != 0)", "", "rows/test_grad_modes.py"),
        ("hits/growth.py", "    parent.seen = seen\n", "", _SAME),
        ("hits/growth.py", "row.small_kind if is_small else row.kind", "row.kind",
         f"{_GROWTH}::test_numbers_that_a_dtype_may_not_hold_become_arguments_among_their_like"),
        ("hits/growth.py", "    path.misses = int(path.misses) + 1\n", "", f"{_GROWTH} compiled/test_tracing.py"),
        ("hits/growth.py", "    trie.size = int(trie.size) + 1\n", "", f"{_GROWTH}::test_the_trie_knows_its_size"),
        ("hits/growth.py",
         "    if recorder.node is not parent or not may_grow(recorder):\n        return MISSED  # Python",
         "    if False:\n        return MISSED  # Python",
         f"{_GROWTH}::test_python_that_runs_in_the_middle_may_move_the_path"),
        ("hits/view_hits.py", "    if source._requires_grad:\n        return True\n", "", _NO_GRAD),
        ("hits/view_hits.py", "return base is not None and base._requires_grad", "return False", _NO_GRAD),
        ("hits/view_hits.py",
         "return recorder.metas[1] if thread.get(\"inference_mode\") is True else recorder.metas[0]",
         "return recorder.metas[0]", _NO_GRAD),
        ("hits/view_hits.py", "meta_of_mode(recorder) if node.meta is None else node.meta", "node.meta", _NO_GRAD),
        ("hits/growth.py",
         "    if kind.is_view and makes_stub(kind.window, None, inputs[0]):\n        return MISSED\n", "",
         _NO_GRAD),
        ("hits/hits.py",
         "    if node.is_view and makes_stub(node.window, node.meta, args[0]):\n        return MISSED\n", "",
         _NO_GRAD),
        ("misses/operations.py",
         "            if op.has_base and state.grad_enabled:\n", "            if op.has_base:\n",
         _NO_GRAD),
        ("hits/known_calls.py", "return view.window is UNTRACKED or (view.window is SEVERAL and view.meta is None)",
         "return False", f"{_NO_GRAD} compiled/test_remembered.py"),
        ("hits/known_calls.py", "            while vid not in places and vid in sources:\n"
         "                vid = sources[vid]  # a view: ``Bounds`` count from the start of the storage\n",
         "", _REMEMBERED),
        ("hits/entry_hits.py", "    if ids[1] is EXTERNAL:\n        note_outer(recorder, x, node)\n", "", _REMEMBERED),
        ("hits/entry_hits.py", "    outer[node.vid] = (x._grad_fn, x._output_nr)\n", "", _REMEMBERED),
        ("hits/front_hits.py", "        if loss is not MISSED:\n            return loss\n    return recall(rows[1], ",
         "        return loss\n    return recall(rows[1], ", _REMEMBERED),
        ("hits/front_hits.py", "            return loss\n    return recall(rows[1], args, names)",
         "            return loss\n    return MISSED", _REMEMBERED),
        ("recording/numbers.py", " or (x == 0 and type(x) is float):", ":", _SAME),
        ("recording/shape_rules.py", "        key.append(type(param))  # equal", "        pass  # equal",
         f"{_GROWTH}::test_kinds_tell_apart_what_rules_tell_apart"),
        ("recording/shape_rules.py", "x._aval if op.is_view else start_of(x._aval)", "start_of(x._aval)",
         f"{_GROWTH}::test_kinds_tell_apart_what_rules_tell_apart"),
        ("hits/growth.py",
         "            if int(aval.offset) != 0:\n                is_moved = True\n", "            pass\n",
         _SAME),
        ("misses/flush.py", "            for vid in instr.outputs:\n                made.add(vid)\n", "", _GROWTH),
    ),
    *_in(
        "runtime/eager",
        ("instr_runs.py", "    if plan.kernel is None or not are_laid_out:\n", "    if plan.kernel is None:\n", _RUNS),
        ("instr_runs.py", "        at[0] = i\n", "", _RUNS),
        ("instr_runs.py", "            take_out(values, vid)\n", "            pass\n", _RUNS),
        ("instr_runs.py", "return array if is_own(array, plan.aval, operands) else own(array, plan.aval, operands)",
         "return array", f"{_RUNS} compiled/test_first_calls.py"),
        ("direct_writes.py", "source._aval is not aval and source._vc is target._vc", "False", _COPIES),
        ("direct_writes.py", "if not aval.is_contiguous or aval.device is not CPU:", "if aval.device is not CPU:",
         _COPIES),
        ("direct_writes.py",
         "other.dtype is aval.dtype and other.device is aval.device and same(other.shape, aval.shape)",
         "other.device is aval.device", _COPIES),
        ("direct_writes.py", " or any_in_graph(inputs)", "", _WRITES),
        ("direct_writes.py", "x._aval is not target._aval and (x._vc is target._vc or overlaps(x, target))",
         "False", _WRITES),
        ("direct_writes.py", "before = with_first(value_of(", "with_first(value_of(", _WRITES),
        ("direct_writes.py", "before = with_first(part_before(", "with_first(part_before(", _WRITES),
        ("direct_writes.py", "    if is_written_twice(target, inputs):\n        return False\n", "",
         _WRITES),
        ("direct_writes.py", "not may_be_rebased(target) or is_written_twice(target, inputs)",
         "is_written_twice(target, inputs)", _WRITES),
        ("direct_writes.py", "same(own.shape, result.shape) and not has_repeats(own)", "same(own.shape, result.shape)",
         "ops/test_expanded_targets.py"),
        ("direct.py", "return plan if ((type(number), number),) in taken else None", "return plan",
         "ops/test_integers.py"),
        ("makings.py", "return making if same(making.args, key) else None", "return making", _MAKINGS),
        ("makings.py", " or thread.thread.get(\"default_device\") is not None", "", _MAKINGS),
        ("makings.py", "    if DRAWING.acquire(False) is not True:\n        return None\n", "", _MAKINGS),
        ("assign.py", "aval.device is not CPU or aval.dtype not in _INDICES", "aval.device is not CPU", _INDICES),
        ("assign.py", "if type(item) is slice and _is_basic(item):", "if _is_basic(item):", _INDICES),
        ("direct_writes.py", "    if target._hooks is not None or target._retains_grad:\n        return False\n", "",
         _WRITES),
        ("direct_writes.py", " or shares_memory(inputs[1], target)", "", _WRITES),
        ("direct_writes.py", " or has_repeats(view._aval)", "", _WRITES),
        ("direct_writes.py", "view._creation_meta is not None or view", "view", _WRITES),
        ("direct_writes.py", "is_of_leaf or ", "", _WRITES),
        ("direct_writes.py", " and (base._requires_grad or view._requires_grad)", " and base._requires_grad", _WRITES),
        ("instr_runs.py", "        if type(x) is int and x not in needed:\n", "        if type(x) is int:\n",
         f"{_RUNS} compiled/test_first_calls.py"),
    ),
    *_in(
        "functions",
        ("_parse.py", "if value is not None and type(value) is not DType:", "if False:", _OPTIONS),
        ("_parse.py", " and type(sum(row)) not in OTHER_SUMS", "", _BEFORE),
        ("known_makings.py", "if is_constant else None", "if True else None", _MAKINGS),
        ("known_makings.py", "functools.partial(kept.copy, \"K\")", "kept.copy", _MAKINGS),
        ("inplace.py", "        check_fits(src, self._aval.dtype)\n", "        pass\n", _COPIES),
    ),
]  # fmt: skip
