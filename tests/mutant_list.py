"""The mutants of ``mutants.py``: where, what the text becomes, and which tests must notice."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MUTANTS", "Mutant"]


class Mutant(NamedTuple):
    """One defect.

    Attributes:
        path: of the file, from the repository's root.
        old: a text that is there exactly once.
        new: what it becomes.
        tests: files or node ids under ``tests/``, with blanks between; the fewer the faster.
    """

    path: str
    old: str
    new: str
    tests: str


def _in(folder: str, *rows: tuple[str, str, str, str]) -> list[Mutant]:
    return [Mutant(f"jitgrad/{folder}/{file}".replace("//", "/"), old, new, tests) for file, old, new, tests in rows]

_TASKS = "rows/test_engine_tasks.py"
_CALLS = "rows/test_backward_calls.py"
_GRAPH = "rows/test_engine_graph.py"
_QUEUES = "rows/test_engine_queues.py"
_WORKERS = "rows/test_engine_workers.py"
_NESTING = "rows/test_engine_nesting.py"
_DEVICES = "rows/test_devices.py"
_HOOKS = "rows/test_hooks.py"
_FUNCTIONS = "rows/test_functions.py"
_LOOPS = "runtime/test_engine_loops.py"
_FUSED = "runtime/test_fused_rules.py"
_STREAMS = "runtime/test_streams.py"
_DIRECT = "runtime/test_eager_direct.py"
_TRACING = "compiled/test_tracing.py"
_TUNING = "codegen/test_tuning.py"
_FAULTS = "attack/test_faults.py::test_faults_are_survived"

_ENGINE_RUN = _in(
    "runtime/engine/run",
    # graph tasks
    ("graph_task.py", "caller.wait_stream(stream)", "pass", f"{_TASKS}::test_the_caller_s_stream_really_waits"),
    ("graph_task.py", "            with self.mutex:\n                self.captured_vars[",
     "            if True:\n                self.captured_vars[",
     f"{_TASKS}::test_captures_are_stored_under_the_mutex"),
    ("graph_task.py", "return min((node.topological_nr for node, _ in outputs if node is not None), default=0)",
     "return 0", f"{_CALLS}::test_nodes_older_than_every_input_are_not_looked_at"),
    ("graph_task.py", "self.outstanding_tasks == 0 or (self.exit_on_error and self.has_error)",
     "self.outstanding_tasks == 0", f"{_TASKS}::test_exit_on_error"),
    ("graph_task.py", "            if self.has_error:\n                return False\n", "",
     f"{_TASKS}::test_the_first_error_of_two_devices_wins"),
    ("graph_task.py", "        if not is_first:\n", "        if False:\n",
     f"{_TASKS}::test_two_finishers_post_process_once_before_the_result_is_there"),
    ("graph_task.py", "captured, self.captured_vars = self.captured_vars, []", "captured = self.captured_vars",
     f"{_TASKS}::test_captures_are_handed_over_at_the_end"),
    ("graph_task.py", "        if self.not_ready:\n", "        if False:\n",
     f"{_TASKS}::test_gradients_that_wait_at_the_end_are_an_error"),
    ("graph_task.py", "            callback()\n", "            callback()\n            callback()\n",
     f"{_TASKS}::test_callbacks_run_once_at_the_end"),
    ("graph_task.py", "value = hook(value)", "hook(value)", f"{_TASKS}::test_capture_hooks_run_one_after_the_other"),
    ("graph_task.py", "Capture(input_nr, output_idx, [])", "Capture(0, output_idx, [])",
     f"{_CALLS}::test_the_second_output_of_a_node_is_captured"),
    ("graph_task.py", "return self.can_checkpoint_outside and not self.exec_info", "return not self.exec_info",
     f"{_NESTING}::test_a_call_inside_a_restricted_one_is_restricted"),
    ("graph_task.py", "                dependencies[node] += 1\n", "                pass\n",
     f"{_GRAPH}::test_an_edge_counts_each_time_and_a_node_is_expanded_once"),
    ("graph_task.py", "                info.needed = True\n", "                pass\n",
     f"{_CALLS}::test_backward_into_a_subset"),
    # the engine
    ("engine.py", "        if task.has_error:\n            trace.emit(", "        if False:\n            trace.emit(",
     f"{_TASKS}::test_what_waits_in_a_queue_does_not_run_after_an_error"),
    ("engine.py", "current.current_depth >= self.max_recursion_depth", "False",
     f"{_NESTING}::test_nesting_moves_to_the_pool_at_the_limit"),
    ("engine.py", "current.current_depth -= 1", "pass",
     f"{_NESTING}::test_nesting_moves_to_the_pool_at_the_limit " f"{_NESTING}::test_calls_side_by_side_are_not_nested"),
    ("engine.py", "graph_task.owner = CPU_DEVICE if outer == NO_DEVICE else outer", "graph_task.owner = CPU_DEVICE",
     f"{_NESTING}::test_a_task_is_owned_by_the_thread_that_called"),
    ("engine.py", "if len(roots) != 1:", "if True:", f"{_GRAPH}::test_several_roots_have_a_graph_root"),
    ("engine.py", "if current.worker_device != task.owner:", "if True:",
     f"{_QUEUES}::test_only_an_owner_that_sleeps_is_woken"),
    ("engine.py", "if grad_mode is not task.grad_mode:", "if False:",
     f"{_FUNCTIONS}::test_grad_mode_inside_backward"),
    ("engine.py", "task.outstanding_tasks - 1 if task.exit_on_error else 0", "0", f"{_TASKS}::test_exit_on_error"),
    ("engine.py", "                task.cpu_ready_queue.discard(task.base)\n", "                pass\n",
     f"{_TASKS}::test_exit_on_error"),
    ("engine.py", "        self.stopped = True\n", "",
     f"{_WORKERS}::test_stopping_twice_is_harmless_and_joins_the_workers"),
    ("engine.py", "        depth = 0 if outer is None else outer.reentrant_depth + 1", "        depth = 0",
     f"{_NESTING}::test_nested_tasks_report_their_depth"),
    ("engine.py", "if not device.is_virtual or not state.multithreading_enabled:", "if not device.is_virtual:",
     f"{_WORKERS}::test_one_thread_does_everything_where_the_caller_wants_it"),
    # one node
    ("evaluate.py", "find_queue(task.cpu_ready_queue, buffer.device())",
     "find_queue(task.cpu_ready_queue, Device('cpu'))",
     f"{_WORKERS}::test_every_node_runs_on_the_thread_of_its_device"),
    ("evaluate.py", "    if not task.keep_graph:\n        node.release_variables()\n", "",
     f"{_LOOPS}::test_all_loops_free_the_graph"),
    ("evaluate.py", "inputs = buffer.variables()", "inputs = list(buffer)",
     f"{_DEVICES}::test_the_engine_moves_the_gradients_out_of_the_buffer"),
    ("evaluate.py", "fitted[index] = fit(node, index, grad, expected)", "pass",
     f"{_LOOPS}::test_all_loops_make_gradients_fit"),
    ("evaluate.py", "    if not info.needed and node.hooks is not None:\n", "    if False:\n",
     f"{_HOOKS}::test_a_captured_gradient_has_passed_all_hooks"),
    ("evaluate.py", "task.leaf_streams.append(stream)", "pass",
     f"{_TASKS}::test_the_caller_s_stream_waits_for_the_streams_of_leaves"),
    ("evaluate.py", "        if not task.should_execute(target):\n", "        if False:\n",
     f"{_LOOPS}::test_both_loops_do_the_same"),
    # the loop for one thread
    ("run_alone.py", "            if not keep_graph:\n", "            if False:\n",
     f"{_LOOPS}::test_all_loops_free_the_graph"),
    ("run_alone.py", "if exec_info and target not in exec_info:", "if False:",
     f"{_CALLS}::test_only_nodes_on_the_way_to_an_input_run"),
    ("run_alone.py", "                if grad._aval is not expected:\n", "                if False:\n",
     f"{_LOOPS}::test_all_loops_make_gradients_fit"),
    ("run_alone.py", "        elif heap and heap[0] < chosen:\n", "        elif False:\n",
     f"{_LOOPS}::test_both_loops_do_the_same"),
    ("run_alone.py", "    if state.grad_enabled is not task.grad_mode:\n", "    if False:\n",
     f"{_HOOKS}::test_a_hook_that_changes_the_grad_mode_changes_it_for_itself"),
    ("run_alone.py", "    return None if missing else not_ready.pop(target)",
     "    return None if missing else not_ready[target]", f"{_GRAPH}::test_arrivals_wait_in_not_ready"),
    ("run_alone.py", "    if missing < 0:\n", "    if False:\n", f"{_GRAPH}::test_a_removed_dependency_is_reported"),
    # the loop for plain graphs
    ("plain_graph.py", "    if task.keep_graph is False:\n", "    if False:\n",
     f"{_CALLS}::test_keep_graph {_LOOPS}::test_all_loops_free_the_graph"),
    ("plain_graph.py", "        if arrived._aval is not metadata[input_nr]:\n", "        if False:\n",
     "rows/test_views.py::test_an_expanded_gradient_is_summed"),
    ("plain_graph.py", "        if number < least or (number == least and", "        if True or (number == least and",
     f"{_LOOPS}::test_the_loop_for_plain_graphs_does_the_same"),
    ("plain_graph.py", "        if wanted.get(target) is None:\n", "        if False:\n",
     f"{_LOOPS}::test_the_loop_for_plain_graphs_runs_the_way_to_inputs_as_the_engine_does"),
    ("plain_graph.py", "    return wanted.get(node) is True\n", "    return True\n",
     f"{_LOOPS}::test_the_loop_for_plain_graphs_runs_the_way_to_inputs_as_the_engine_does"),
    ("plain_graph.py", "and not task.create_graph and len(RUNNING) == 0", "and len(RUNNING) == 0",
     f"{_LOOPS}::test_the_loop_for_plain_graphs_runs_the_way_to_inputs_as_the_engine_does"),
    ("plain_graph.py", "                state.overrides_off = overrides_off + 1\n", "                pass\n",
     f"{_LOOPS}::test_rules_of_a_plain_graph_are_not_the_calls_of_a_class_that_overrides"),
    ("plain_nodes.py", "    if packed_in_use and step.saved is not None:\n", "    if False:\n",
     f"{_LOOPS}::test_graphs_with_code_of_the_user_are_not_plain"),
    ("plain_nodes.py", "return end.hooks is None and not leaf._post_accumulate_hooks", "return True",
     f"{_LOOPS}::test_graphs_with_code_of_the_user_are_not_plain"),
    ("plain_graph.py", "    return refcount(grad) == 1 and is_ours(grad, leaf)\n", "    return is_ours(grad, leaf)\n",
     "compiled/test_native_eager.py::test_only_a_gradient_that_somebody_else_holds_is_copied"),
    # buffers
    ("input_buffer.py", "may_write = bool(", "may_write = False and bool(",
     f"{_DEVICES}::test_only_sums_of_the_buffer_are_written"),
    ("input_buffer.py", "bool(owned and owned >> position & 1 and not state", "bool(not state",
     f"{_DEVICES}::test_a_gradient_that_the_user_holds_is_not_written"),
    ("input_buffer.py", "        self.clear()\n", "", f"{_DEVICES}::test_variables_move_out"),
    ("input_buffer.py", "                return found\n", "                return CPU\n",
     f"{_DEVICES}::test_the_first_slot_that_is_not_on_the_cpu_decides"),
    ("input_buffer.py", "        if gradient is None:\n            return\n",
     "        if gradient is None:\n            gradient = 0\n",
     f"{_GRAPH}::test_undefined_gradients_change_nothing"),
    ("input_buffer.py", "stream, waits_for = consumer, producer if on_producer",
     "stream, waits_for = consumer, None if on_producer", f"{_DEVICES}::test_stream_case_2_on_the_device_of_both"),
    ("input_buffer.py", "if on_producer else default_stream(device)\n", "if on_producer else None\n",
     f"{_DEVICES}::test_stream_case_3_on_the_consumer_s_device_only"),
    ("input_buffer.py", "stream, waits_for = default_stream(device), producer",
     "stream, waits_for = default_stream(device), None",
     f"{_DEVICES}::test_stream_case_4_on_the_producer_s_device_only"),
    ("input_buffer.py", "(new.is_sparse or not old.is_sparse)", "True",
     "rows/test_sparse.py::test_many_gradients_of_one_slot"),
    # queues and threads
    ("ready_queue.py", "rank, order = -item.get_reentrant_depth(), -fn.sequence_nr",
     "rank, order = 0, -fn.sequence_nr", f"{_QUEUES}::test_the_order_of_a_queue"),
    ("ready_queue.py", "_SHUTDOWN_RANK = -(2**63)", "_SHUTDOWN_RANK = -(2**61)",
     f"{_QUEUES}::test_the_order_of_a_queue"),
    ("ready_queue.py", "if increment_outstanding_tasks and task is not None:", "if task is not None:",
     f"{_QUEUES}::test_a_queue_is_waited_on_and_counts"),
    ("ready_queue.py", "while not self.heap or self.heap[0][0] > -min_reentrant_depth:", "while not self.heap:",
     f"{_NESTING}::test_a_nested_call_that_waits_leaves_the_outer_nodes"),
    ("reentrant_pool.py", "create_thread = self.num_workers <= len(self.graphtasks_queue)", "create_thread = True",
     f"{_NESTING}::test_the_pool_creates_a_thread_only_when_none_is_idle"),
    ("reentrant_pool.py", "            if task is not None:\n", "            if True:\n",
     f"{_NESTING}::test_the_pool_creates_a_thread_only_when_none_is_idle"),
    ("device_threads.py", "self._changed.wait_for(lambda: self.count == len(queues))", "pass",
     f"{_WORKERS}::test_who_starts_the_workers_waits_for_them"),
    ("device_threads.py", "        with self._start_lock:\n            queues = [",
     "        if True:\n            queues = [", f"{_WORKERS}::test_threads_that_race_start_the_workers_once"),
    ("thread_locals.py", "        if state.grad_enabled is not wanted.grad_mode:\n", "        if False:\n",
     f"{_WORKERS}::test_a_worker_has_the_grad_mode_of_the_call"),
    ("thread_locals.py", "            _replace(wanted.settings)\n", "            pass\n",
     f"{_WORKERS}::test_a_worker_has_the_settings_of_its_caller"),
    ("arrivals.py", "senders.sort(key=_rank)", "senders.sort(key=_rank, reverse=True)",
     f"{_DEVICES}::test_sums_of_many_gradients_have_the_bits_of_the_cpu_in_every_run"),
    ("future.py", "            if self._completed:\n                raise",
     "            if False:\n                raise", f"{_TASKS}::test_a_future_is_set_once"),
    ("dist_engine.py", "exit_on_error=True", "exit_on_error=False",
     f"{_TASKS}::test_the_distributed_engine_exits_at_the_first_error"),
    ("dist_engine.py", "            grads = hooks.run_pre(grads)\n", "            hooks.run_pre(grads)\n",
     f"{_TASKS}::test_gradients_can_go_to_a_context_instead {_TASKS}::test_a_context_gets_what_pre_hooks_return"),
    ("imperative.py", "            if not tensor.requires_grad:\n", "            if False:\n",
     f"{_TASKS}::test_run_backward_checks_its_arguments"),
    ("request.py", "    if grad._aval.shape != root._aval.shape:\n", "    if False:\n",
     f"{_CALLS}::test_gradients_that_do_not_fit"),
    ("trace.py", "        if self._is_kept:\n", "        if True:\n",
     f"{_LOOPS}::test_an_attempt_to_record_that_fails_is_not_told"),
)  # fmt: skip

_ENGINE_GRAPH = _in(
    "runtime/engine/graph",
    ("accumulate_grad.py", "        with self._lock:\n", "        if True:\n",
     f"{_TASKS}::test_the_sum_is_made_under_the_accumulator_s_lock"),
    ("accumulate_grad.py", "        if len(grad_outputs) != 1:\n", "        if False:\n",
     f"{_TASKS}::test_an_accumulator_takes_one_gradient"),
    ("accumulate_grad.py", "                old += new_grad  # in place",
     "                variable._grad = old + new_grad",
     f"{_TASKS}::test_hooks_come_before_the_sum_and_the_sum_is_in_place"),
    ("accumulate_grad.py", "new_grad if is_ours and not", "new_grad if not",
     f"{_DIRECT}::test_a_gradient_that_arrives_is_taken_over_only_from_nobody"),
    ("accumulate_grad.py", " or (old.is_sparse and not new_grad.is_sparse)", "",
     "rows/test_sparse.py::test_accumulation_within_and_across_calls"),
    ("node.py", "ACCUMULATE_GRAD_SEQUENCE_NR = 2**64 - 1", "ACCUMULATE_GRAD_SEQUENCE_NR = 0",
     "rows/test_graph_looks.py::test_sequence_numbers_rise_and_leaves_have_the_highest"),
    ("node.py", "    return longest + 1\n", "    return longest\n",
     "rows/test_graph_looks.py::test_nodes_of_functions_know_their_depth"),
    ("copy_slices.py", "    handler = state.handler\n    if handler is None:\n", "    if True:\n",
     "compiled/test_engine_in_trace.py::test_a_view_that_is_looked_at_afresh_has_a_node_of_that_moment"),
    ("op_node.py", "    if plan.has_numbers and not keep_numbers(node, saved):\n", "    if False:\n",
     "ops/test_second_backward.py::test_what_is_saved_as_a_number_is_not_released"),
    ("op_node.py", "    ends = bool(keys) or op.runs_once\n", "    ends = bool(keys)\n",
     "ops/test_second_backward.py::test_a_second_backward_raises_where_pytorchs_does"),
    ("op_node.py", "    node.numbers = tuple(numbers)\n", "    node.numbers = (None,) * len(numbers)\n",
     "ops/test_second_backward.py::test_numbers_stay_readable"),
    ("op_node.py", "node.topological_nr = longest + 1", "node.topological_nr = longest",
     "rows/test_graph_looks.py::test_a_node_can_be_called_and_knows_its_depth"),
    ("node.py", "inputs = [*hooks.run_pre(inputs[:count]), *inputs[count:]]\n", "hooks.run_pre(inputs)\n",
     f"{_HOOKS}::test_node_hooks_see_gradients_of_both_sides_and_replace_them"),
    ("node.py", "    seen = tuple(inputs[:count])\n", "    seen = inputs\n",
     f"{_HOOKS}::test_post_hooks_see_what_the_node_was_given"),
    ("node_hooks.py", "                    grads[position] = result\n", "                    pass\n",
     f"{_HOOKS}::test_a_hook_replaces_the_gradient_and_none_keeps_it"),
    ("validate.py", "        grad = grad.to(expected.dtype)\n", "        pass\n",
     "rows/test_views.py::test_a_gradient_gets_the_dtype_of_its_input"),
    ("saved_variable.py", "        if tensor._vc[VERSION] != self.version:\n", "        if False:\n",
     "rows/test_views.py::test_an_overwritten_value_is_noticed_and_both_lines_named"),
    ("saved_variable.py", "        saved.tensor = _detached(tensor)\n", "        saved.tensor = tensor\n",
     f"{_FUNCTIONS}::test_dropping_the_output_frees_the_graph rows/test_graph_looks.py"),
    ("copy_slices.py", "            fn.next_edges = self.next_edges\n", "            pass\n",
     "rows/test_views.py::test_grad_of_chosen_inputs_passes_through_a_written_view"),
    ("anomaly.py", "grad.dtype.is_inexact and _has_nan(grad)", "False",
     "rows/test_anomaly.py::test_nan_is_an_error_that_names_the_forward"),
)  # fmt: skip

_RUNTIME = _in(
    "runtime",
    ("devices/stream.py", "if source is None or source is self._queue:", "if True:",
     f"{_STREAMS}::test_streams_are_independent_until_one_waits"),
    ("devices/stream.py", "                storage.error = error\n", "                pass\n",
     f"{_STREAMS}::test_an_error_goes_where_values_go"),
    ("devices/device_queue.py", "            if self._error is not None:\n", "            if False:\n",
     f"{_STREAMS}::test_a_poisoned_stream_takes_no_work"),
    ("devices/device_queue.py", "if self._submitted - self._finished >= _MAX_PENDING:", "if False:",
     f"{_STREAMS}::test_python_does_not_run_away_from_a_stream"),
    ("devices/device_queue.py", "while idle < _IDLE_S and not self.is_retired:", "while idle < _IDLE_S:",
     f"{_STREAMS}::test_a_dropped_stream_ends_its_work_and_its_thread"),
    ("devices/device_queue.py", "            work = on_failure = error = None  # type: ignore[assignment]\n", "",
     f"{_STREAMS}::test_done_work_lets_its_memory_go"),
    ("devices/device_storage.py", "queue.synchronize(self.ticket)", "pass",
     f"{_STREAMS}::test_reading_waits_for_the_last_writer"),
    ("eager/plan.py", "                and number\n", "",
     f"{_DIRECT}::test_zeros_of_both_signs_are_two_numbers"),
    ("eager/plan.py", "        if not has_number_by_type:\n", "        if True:\n",
     f"{_DIRECT}::test_an_exponent_is_looked_at_every_time"),
    ("eager/plan.py", "on_new_default.append(plans.clear)", "pass",
     f"{_DIRECT}::test_plans_of_another_default_dtype_are_forgotten"),
    ("storage/storage.py", "storage = _storages.get(id(array))", "storage = None",
     f"{_DIRECT}::test_a_result_and_its_saved_alias_have_one_storage"),
    ("storage/memory.py", "if held > lists.limit:", "if False:",
     "runtime/test_buffer.py::test_the_free_lists_are_bounded"),
)  # fmt: skip

_CODEGEN = _in(
    "codegen",
    ("primitives/simplify.py", "s.dtype.np.type(n) for s, n", "n for s, n",
     "codegen/test_simplify.py::test_constants_fold_in_their_dtype"),
    ("primitives/simplify.py", "    if v.dtype.category is INTEGER:\n        return x if",
     "    if True:\n        return x if", "codegen/test_simplify.py::test_rule"),
    ("primitives/simplify.py", "return v.srcs[0].srcs[0] if v.srcs[0].op == \"neg\" else None", "return None",
     "codegen/test_simplify.py::test_rule"),
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
    ("schedule/nest.py", "        width = _sequential_width(width, extents[vec])\n", "        pass\n",
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
    ("batches.py", "        if id(result) in passed:\n", "        if False:\n",
     "compiled/test_batches.py::test_the_argument_comes_back_as_itself"),
    ("batches.py", "    stand_in._vc = x._vc\n", "", "compiled/test_batches.py"),
)  # fmt: skip

_TRACER = _in(
    "tracer",
    ("numbers.py", "return value if value and value == value else repr(value)", "return value",
     f"{_TRACING}::test_negative_zero_is_not_zero"),
    ("numbers.py", "return op.name not in _STATIC and type(value)", "return type(value)",
     f"{_TRACING}::test_exponents_stay_static"),
    ("ranges.py", "-(-need.low // number)", "need.low // number - 1",
     "compiled/test_early_checks.py::test_positions_that_the_step_computes_out_of_range"),
    ("ranges.py", "(need.high - 1) // number + 1", "need.high",
     "compiled/test_early_checks.py::test_positions_that_the_step_computes_out_of_range"),
    ("early_checks.py", "known[1] == version is not None", "known[1] is not None",
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
    Mutant("jitgrad/tracer/entry.py",
           "            is_same = known is not None and other._aval is tensor._aval and other._storage is storage\n",
           "            is_same = known is not None\n", f"{_SHORT}::test_memory_in_two_dtypes_in_a_step"),
    Mutant("jitgrad/runtime/engine/graph/copy_slices.py", "            if not wanted or target in wanted:\n",
           "            if False:\n",
           "ops/test_expanded_targets.py::test_the_same_are_written_and_refused"),
    Mutant("jitgrad/runtime/eager/eager.py",
           "    elif op.write is not None and writes_repeats(op, targets[0]._aval):\n", "    elif False:\n",
           "ops/test_expanded_targets.py::test_the_same_are_written_and_refused"),
    Mutant("jitgrad/tracer/writes.py", "targets[0]._base is not None and not is_expanded\n",
           "targets[0]._base is not None\n",
           "ops/test_expanded_targets.py::test_the_same_are_written_and_refused"),
    Mutant("jitgrad/tracer/hits.py", "recorder.busy or overrides(a) or overrides(b):\n", "recorder.busy:\n",
           "rows/test_overrides.py::test_a_right_operand_is_asked"),
    Mutant("jitgrad/functions/_parse.py", "        _note_class(type(x))\n    return asks(x)\n",
           "        pass\n    return asks(x)\n",
           "rows/test_overrides.py::test_steps_of_other_classes_are_as_native_as_without_overrides"),
    Mutant("jitgrad/compile.py", "        self._owe(self.debt - 1)\n", "        pass\n",
           "compiled/test_first_call_work.py::test_known_graphs_pay_for_looks_at_others"),
    Mutant("jitgrad/tracer/long_calls.py", "return trie.follows or", "return",
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
    Mutant("jitgrad/tracer/writes.py", "    return not owners.isdisjoint(history.writes)\n", "    return True\n",
           f"{_TURNS}::test_two_optimizers_that_take_turns_end_no_segment"),
    Mutant("jitgrad/tracer/end_hits.py", " or ends_segment(recorder.node.last):\n", ":\n",
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

_EAGER = _in(
    "runtime/eager",
    # rules as native steps
    ("rule_programs.py", "if len(programs) >= _MAX_PROGRAMS and not self.fuses:", "if len(programs) >= _MAX_PROGRAMS:",
     f"{_FUSED}::test_the_order_in_which_layouts_of_gradients_come_changes_no_bit"),
    ("rule_programs.py", "asked if node.hooks is None else (\"hooked\", asked)", "asked",
     "runtime/test_rule_programs.py::test_hooks_of_a_node_see_what_its_rule_returns"),
    ("kernel.py", "    return least >= 0 and any(", "    return least < 0 and any(",
     f"{_FUSED}::test_the_first_backward_is_a_step_already"),
    ("fused_rules.py", "if make is None or saves_numbers or not outputs:", "if make is None or not outputs:",
     f"{_FUSED}::test_few_elements_and_rules_with_saved_numbers_stay_lists_of_calls"),
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
    Mutant("jitgrad/tracer/trie.py", "if calls & running]", "if False]",
           "cpython/test_outlived_nodes.py::test_nodes_last_while_a_call_is_recorded_that_may_look_at_them"),
    Mutant("jitgrad/tracer/trie.py", "            self.outlived.append((running, pruned))\n", "            pass\n",
           "cpython/test_outlived_nodes.py::test_nodes_last_while_a_call_is_recorded_that_may_look_at_them"),
]

_HANDLER = [Mutant("jitgrad/handler.py", '_name != "refuse":', '_name not in ("refuse", "look_afresh"):',
                   "transforms/test_inplace_writes.py::test_a_view_that_a_write_has_brought_into_the_graph_can_be_mapped_over")]

_CONTEXTS = [Mutant("jitgrad/compiled/nodes/graph_nodes.py", "    context = _CONTEXTS.get(key)", "    context = None",
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
    ("write_hits.py", "node.bounds is not None and not is_inside(recorder, node, args)", "False",
     "compiled/test_early_checks.py::test_a_write_looks_at_its_indices_at_every_call"),
    ("window_hits.py", "node.bounds is not None and not is_inside(recorder, node, args)", "False",
     "compiled/test_early_checks.py::test_a_write_looks_at_its_indices_at_every_call"),
    ("hits.py", "        elif not older_has_values(recorder, row):\n            return False\n", "",
     "compiled/test_early_checks.py::test_a_write_looks_at_its_indices_at_every_call"),
    ("operations.py", "state.grad_enabled or not any([d.is_inexact for d in dtypes])", "state.grad_enabled",
     "compiled/test_early_checks.py::test_a_sparse_update_is_native"),
)  # fmt: skip

_GARBAGE = _in(
    "",
    ("garbage.py", "            if gc.get_threshold() == (_SELDOM, *before[1:]):\n", "            if True:\n",
     "compiled/test_seldom_collections.py::test_what_the_user_sets_meanwhile_stays"),
    ("garbage.py", "if _before and not _growing:", "if _before:",
     "compiled/test_seldom_collections.py::test_a_call_within_a_call_of_another_thread_waits_for_both"),
    ("compile.py", "        collect_as_before(recorder.path)\n", "",
     "compiled/test_seldom_collections.py::test_seldom_while_something_is_new"),
    ("tracer/path.py", "            collect_seldom(self)\n", "",
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

MUTANTS = [*_CONTEXTS, *_TURNS, *_HANDLER, *_ENGINE_RUN, *_ENGINE_GRAPH, *_RUNTIME, *_EAGER, *_CODEGEN, *_COMPILED,
           *_TRACER, *_AUTOGRAD, *_RANDOM, *_IN_AND_OUT, *_SHORT_DTYPES, *_OUTSIDE_ROWS, *_FIRST_CALLS, *_CPYTHON,
           *_OUTLIVED, *_ARGUMENTS, *_BUILDERS, *_GARBAGE, *_LOOKS]
