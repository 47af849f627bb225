"""Mutants of what calls of compiled functions leave and add up, of arrays over memory and of numbers, see
``mutants.py``."""

from __future__ import annotations

from mutant import mutants_in as _in

__all__ = ["CALL_MUTANTS"]

_SUMS = "compiled/test_sums_of_calls.py"
_TWO_WAYS = f"{_SUMS}::test_a_gradient_that_goes_two_ways_is_not_added_to"
_PARTS = "compiled/test_parts_of_loops.py"
_REMEMBERED = "compiled/test_remembered.py"
_HALVES = "codegen/test_windows_tiles.py::test_every_second_column_is_two_loads_and_a_shuffle"
_NUMBERS = "ops/test_tensors_of_numbers.py"

CALL_MUTANTS = [
    *_in(
        "runtime/engine/run",
        ("call_runs.py", "if sums.owned[place] is not True or sums.grads", "if sums.grads", _TWO_WAYS),
        ("call_runs.py", "        if patience <= 0:\n", "        if True:\n",
         f"{_SUMS}::test_patience_is_had_with_few_calls"),
        ("call_runs.py", "    if count == len(parts):\n        graph.room = None\n", "    graph.room = None\n",
         f"{_PARTS}::test_results_are_differentiated_one_by_one"),
        ("call_runs.py", "    if count == len(parts):\n        graph.room = None\n", "",
         f"{_PARTS}::test_a_used_graph_lets_go_of_what_it_has_saved"),
        ("call_runs.py", "return int(room.addr) + int(first)", "return int(room.addr)", _PARTS),
        ("plain_graph.py", "    return int(places[nr]) >= 0\n", "    return True\n", _TWO_WAYS),
    ),
    *_in(
        "compiled",
        ("backward/call_programs.py", "operands, is_in_graph = (so_far, result.vid)",
         "operands, is_in_graph = (so_far, so_far)", _SUMS),
        ("backward/call_programs.py", "    if config.same_bits:\n        return ()\n", "",
         f"{_SUMS}::test_same_bits_do_without"),
        ("end_plan.py", "*[vid for vid, _ in event.written], ", "", f"{_PARTS}::test_random_graphs"),
        ("native_hits.py", "    late_fronts.append(partial(_put_late_front, entries))\n", "",
         f"{_REMEMBERED}::test_a_function_that_is_defined_later_has_its_front"),
    ),
    *_in(
        "tracer",
        ("hits/recall_hits.py", "if is_one or not allows_parts(recorder):", "if not allows_parts(recorder):",
         f"{_REMEMBERED}::test_two_names_of_one_memory_are_no_parts"),
        ("hits/entry_hits.py", "    if root.tid is recorder.tid and has_other_part(recorder, x):\n        meet_part",
         "    if False and has_other_part(recorder, x):\n        meet_part",
         f"{_REMEMBERED}::test_parts_of_one_memory_that_are_written"),
    ),
    *_in(
        "codegen/gemm",
        ("emit_windows.py", "[\"i1 true\"] * (spec.width - 1) + [\"i1 false\"]", "[\"i1 true\"] * spec.width", _HALVES),
        ("windows.py", "    if half < 2 or n % half:\n", "    if half < 2:\n",
         "codegen/test_windows_tiles.py::test_columns_that_break_inside_a_half_are_gathered"),
    ),
    *_in(
        "codegen/llvm",
        ("scratch.py", "{_NO_MEMORY}, ptr %bufs", "0, ptr %bufs",
         "codegen/test_scratch.py::test_where_there_is_no_memory_nothing_is_written"),
    ),
    *_in(
        "functions",
        ("from_data.py", "    if array.dtype is not (int64 if kind is int else bool_).np:", "    if False:", _NUMBERS),
        ("from_data.py", "        if len(kinds) != 1 or math.prod(shape) > _FEW:\n",
         "        if math.prod(shape) > _FEW:\n", _NUMBERS),
    ),
]  # fmt: skip
