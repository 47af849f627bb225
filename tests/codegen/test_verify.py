"""Defects planted by hand, each of which ``verify`` must refuse in words that name it. See Note [Verification]."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitgrad.abi import NativeStep
from jitgrad.codegen import pipeline
from jitgrad.codegen.link import link
from jitgrad.codegen.llvm.target import host_target
from jitgrad.codegen.piece import Piece, cut
from jitgrad.codegen.primitives.builder import Builder, Value
from jitgrad.codegen.primitives.rules import check_values
from jitgrad.codegen.primitives.simplify import SIMPLIFY, Rule, topological
from jitgrad.codegen.schedule.kernel_ir import BufferArg, LoopKernel
from jitgrad.codegen.verify import VerifyError, verify_piece, verify_segment, verify_step
from jitgrad.config import config
from jitgrad.dtypes import bool_, float32, float64, int64
from jitgrad.errors import CompileError
from jitgrad.ops.aval import make_aval
from tests.codegen.interpreter import Case

RNG = np.random.default_rng(0)
X, W = make_aval((4, 6), float32), make_aval((6, 5), float32)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def piece_after(name: str, lower: Callable[..., Any], *arrays: np.ndarray, **options: Any) -> Piece:
    """A sound piece: ``lower`` over ``arrays``, after the passes up to ``name``."""
    (piece,) = cut(Case(lower, arrays, **options).segment, host_target())
    assert isinstance(piece, Piece)
    for step in pipeline.PIPELINE:
        step.run(piece)
        if step.name == name:
            break
    verify_piece(piece, name)
    return piece


def refused(piece: Piece, name: str, words: str) -> None:
    with pytest.raises(VerifyError, match=f"after pass {name}: .*{words}"):
        verify_piece(piece, name)


# --- segments ---


def test_a_value_that_does_not_exist_yet() -> None:
    segment = Case(lambda b, x: b.exp(x), [f32(3)]).segment
    segment.instrs[0].inputs = (7,)
    with pytest.raises(VerifyError, match="test reads %7 before it exists"):
        verify_segment(segment)


def test_a_value_that_is_defined_twice() -> None:
    segment = Case(lambda b, x: b.exp(x), [f32(3)]).segment
    segment.instrs *= 2
    with pytest.raises(VerifyError, match=r"test defines \[1\] again"):
        verify_segment(segment)


# --- primitives ---


def _with(v: Value, **changes: Any) -> Value:
    for name, value in changes.items():
        setattr(v, name, value)
    return v


DEFECTS: dict[str, tuple[Callable[[Builder, Value], Value], str]] = {
    "a pointwise shape": (lambda b, x: _with(b.exp(x), shape=(4, 7)), "operands have the result's shape"),
    "a pointwise dtype": (lambda b, x: _with(b.exp(x), dtype=float64), "the dtype should be float32"),
    "operands of two dtypes": (
        lambda b, x: b.make("add", (x, b.cast(x, float64)), (), x.shape, float32),
        "operands of two dtypes",
    ),
    "too few operands": (lambda b, x: b.make("add", (x,), (), x.shape, float32), "takes 2 operands"),
    "a comparison that is no bool": (lambda b, x: _with(b.lt(x, x), dtype=float32), "the dtype should be bool"),
    "a condition that is no bool": (lambda b, x: b.make("where", (x, x, x), (), x.shape, float32), "is not bool"),
    "an unknown primitive": (lambda b, x: b.make("magic", (x,), (), x.shape, float32), "no such primitive"),
    "an expand": (lambda b, x: b.make("expand", (x,), (4, 7), (4, 7), float32), "does not broadcast"),
    "a reshape": (lambda b, x: b.make("reshape", (x,), (5, 5), (5, 5), float32), "changes the number of elements"),
    "a permute": (lambda b, x: b.make("permute", (x,), (0, 0), (4, 4), float32), "is no permutation"),
    "a slice": (
        lambda b, x: b.make("slice", (x,), ((0, 4), (1, 1)), (4, 3), float32),
        "leaves the extent 6",
    ),
    "a slice backwards": (
        lambda b, x: b.make("slice", (x,), ((3, 0), (-2, 1)), (3, 6), float32),
        "leaves the extent 4",
    ),
    "a pad": (lambda b, x: b.make("pad", (x,), ((1, 0), (0, 0), 0), (4, 6), float32), r"should be \[5, 6\]"),
    "an update": (
        lambda b, x: b.make("update", (x, x), ((1, 0), (1, 1)), x.shape, float32),
        "leaves the extent 4",
    ),
    "a reduction's shape": (lambda b, x: b.make("reduce_sum", (x,), (1,), (4, 6), float32), r"should be \[4, 1\]"),
    "a reduction's dims": (lambda b, x: b.make("reduce_sum", (x,), (2,), (4, 6), float32), "dims it does not have"),
    "partial results": (
        lambda b, x: b.make("partial_sum", (x,), ((0,), 3), (2, 1, 6), float32),
        r"should be \[3, 1, 6\]",
    ),
    "an argmax": (lambda b, x: b.make("argmax", (x,), 1, (4, 1), float32), "should be int64"),
    "a product's inner extents": (
        lambda b, x: b.make("matmul", (b.reshape(x, (1, 4, 6)),) * 2, (), (1, 4, 6), float32),
        "inner extents differ",
    ),
    "an index that is no integer": (lambda b, x: b.make("gather", (x, x), (), (4, 6, 6), float32), "is no integer"),
    "a check": (lambda b, x: b.make("check", (x,), (4,), x.shape, int64), "checks an integer"),
    "a scatter's source": (
        lambda b, x: b.make("scatter_add", (b.const(0.0, float32, (9, 6)), x, b.iota((3,), 0)), (), (9, 6), float32),
        "does not fit the indices",
    ),
    "a cat": (lambda b, x: b.make("cat", (x, x), 0, (9, 6), float32), r"should be \[8, 6\]"),
    "an iota": (lambda b, x: b.make("iota", (), (2,), (4, 6), int64), "a dimension that it does not have"),
    "an input's layout": (lambda b, x: b.input(0, make_aval((4, 6), float32, (1, 4))), "no input of this layout"),
}


@pytest.mark.parametrize("name", list(DEFECTS))
def test_primitives(name: str) -> None:
    make, words = DEFECTS[name]
    b = Builder()
    with pytest.raises(ValueError, match=words):
        check_values(topological([make(b, b.input(0, X))]), {0: X})


def test_an_operand_after_its_reader() -> None:
    b = Builder()
    order = topological([b.exp(b.input(0, X))])
    check_values(order, {0: X})
    with pytest.raises(ValueError, match="is not defined before it"):
        check_values(order[::-1], {0: X})


def test_results_that_are_not_what_was_recorded() -> None:
    piece = piece_after("build", lambda b, x: b.exp(x), f32(4, 6))
    piece.results = [piece.builder.cast(piece.results[0], bool_)]
    refused(piece, "build", r"should be float32\[4,6\]")


# --- groups ---


def _edit(piece: Piece, op: str, **changes: Any) -> None:
    """Change the first instruction ``op`` of the first group."""
    instrs = piece.groups[0].lowerer.instrs
    n = next(n for n, i in enumerate(instrs) if i.op == op)
    instrs[n] = instrs[n]._replace(**changes)


def _padded(b: Any, x: Any) -> Any:
    return b.mul(b.pad(x, (1, 0), (0, 0)), 2.0)


def test_an_instruction_that_reads_a_later_one() -> None:
    piece = piece_after("group", lambda b, x: b.exp(b.neg(x)), f32(4, 6))
    _edit(piece, "neg", srcs=(2,))
    refused(piece, "group", r"instruction 1 \(neg\) .* does not come before it")


def test_an_address_outside_of_its_value() -> None:
    piece = piece_after("group", lambda b, x: b.exp(x), f32(4, 6))
    _edit(piece, "load", address=(1, 6, 1))
    refused(piece, "group", r"instruction 0 \(load\) .* leaves input.*last=24")


def test_an_address_below_its_value() -> None:
    piece = piece_after("group", _padded, f32(4, 6))
    _edit(piece, "load", srcs=())
    refused(piece, "group", r"\(load\) .* leaves input.*first=-6")


def test_a_mask_that_is_too_wide() -> None:
    piece = piece_after("group", _padded, f32(4, 6))
    ranges = next(i for i in piece.groups[0].lowerer.instrs if i.op == "mask").extra
    _edit(piece, "mask", extra=(ranges[0]._replace(lo=0),))
    refused(piece, "group", r"\(load\) .* leaves input")


def test_an_index_that_is_not_checked() -> None:
    piece = piece_after("group", lambda b, x, i: b.gather(x, [i]), f32(4, 6), np.arange(3))
    _edit(piece, "gather", srcs=(0,))
    refused(piece, "group", "gather uses an index that was not checked")


def test_an_index_checked_against_a_larger_extent() -> None:
    piece = piece_after("group", lambda b, x, i: b.gather(x, [i]), f32(4, 6), np.arange(3))
    _edit(piece, "check", extra=(5, 1))
    refused(piece, "group", r"\(gather\) .* leaves input")


def test_instructions_of_two_dtypes() -> None:
    piece = piece_after("group", lambda b, x: b.mul(b.cast(x, float64), 2.5), f32(4, 6))
    _edit(piece, "cast", dtype=float32)
    refused(piece, "group", r"\(mul\) .* operands of two dtypes")


def test_a_value_that_two_kernels_compute() -> None:
    piece = piece_after("group", lambda b, x: b.exp(x), f32(4, 6))
    piece.groups *= 2
    refused(piece, "group", "is computed by two kernels")


def test_a_value_that_no_kernel_computes() -> None:
    piece = piece_after("group", lambda b, x: (b.exp(x), b.sum(x, (0, 1))), f32(400, 6))
    piece.groups.pop()
    refused(piece, "group", "is computed by no kernel")


# --- places ---


def test_a_destination_outside_of_its_buffer() -> None:
    piece = piece_after("place", lambda b, x: b.exp(x), f32(4, 6))
    next(iter(piece.roots.values())).destinations[0].offset = 1
    refused(piece, "place", "is stored outside of its output")


def test_an_output_that_nobody_stores() -> None:
    piece = piece_after("place", lambda b, x: b.exp(x), f32(4, 6))
    next(iter(piece.roots.values())).destinations.clear()
    refused(piece, "place", "the output %1 is stored by nobody")


# --- plans ---


def _chain(b: Any, x: Any) -> Any:
    for _ in range(4):
        x = b.tanh(b.matmul(x, x))
    return x


def _one_stage(piece: Piece) -> None:
    assert piece.plan is not None
    jobs = [job for stage in piece.plan.stages for job in stage]
    for job in jobs:
        job.stage = 0
    piece.plan.stages = [jobs]


def _swapped(piece: Piece) -> None:
    assert piece.plan is not None
    piece.plan.stages.reverse()
    for number, stage in enumerate(piece.plan.stages):
        for job in stage:
            job.stage = number


def _moved(piece: Piece, stage: int, op: str, by: int) -> None:
    """Move the first ``op`` of a stage's first loop kernel by so many bytes."""
    assert piece.plan is not None
    kernel = piece.plan.stages[stage][0].kernel
    assert isinstance(kernel, LoopKernel)
    word = next(i.word for i in kernel.key.instrs if i.op == op)
    at = 0
    for n, x in enumerate(kernel.words):
        if at == word and isinstance(x, BufferArg):
            kernel.words[n] = BufferArg(x.buffer, x.offset + by)
        at += 2 if isinstance(x, BufferArg) else 1


def test_temporaries_that_overlap() -> None:
    piece = piece_after("plan", _chain, f32(16, 16))
    assert piece.plan is not None
    for stage in piece.plan.stages:
        for job in stage:
            for store in job.stores:
                store.buffer.offset = 0
    refused(piece, "plan", r"temporaries overlap in stage \d: \[0, 1024\) and \[0, 1024\)")


def test_a_temporary_outside_of_the_arena() -> None:
    piece = piece_after("plan", _chain, f32(16, 16))
    assert piece.plan is not None
    piece.plan.arena_nbytes = 1024
    refused(piece, "plan", "is outside the arena")


def test_a_stage_that_reads_what_it_writes() -> None:
    piece = piece_after("plan", _chain, f32(16, 16))
    _one_stage(piece)
    refused(piece, "plan", "reads and .* writes one arena in the same stage 0")


def test_a_reader_before_its_writer() -> None:
    piece = piece_after("plan", _chain, f32(16, 16))
    _swapped(piece)
    refused(piece, "plan", "too late")


def _sgd(b: Any, w: Any, x: Any, g: Any) -> Any:
    return b.sub(w, b.mul(b.matmul(b.permute(x, (1, 0)), g), 0.1)), b.matmul(g, b.permute(w, (1, 0)))


def test_an_input_that_is_overwritten_before_it_is_read() -> None:
    piece = piece_after("plan", _sgd, f32(16, 24), f32(32, 16), f32(32, 24), writes=[(0, 0)])
    _swapped(piece)
    refused(piece, "plan", "reads and .* writes one input, .* too early")


def test_a_scatter_before_its_zeros() -> None:
    def lower(b: Any, src: Any, i: Any) -> Any:
        return b.scatter_add((9, 6), [i], src)

    piece = piece_after("plan", lower, f32(300, 6), np.arange(300) % 9)
    _swapped(piece)
    refused(piece, "plan", "too late")


def test_an_input_that_is_overwritten_where_another_element_is_read() -> None:
    piece = piece_after("plan", lambda b, x: b.mul(x, 2.0), f32(40), writes=[(0, 0)])
    _moved(piece, 0, "load", 4)
    refused(piece, "plan", "leaves its input")
    piece = piece_after("plan", _halves, f32(40), writes=[(0, 0)])
    _moved(piece, 0, "load", 4)
    refused(piece, "plan", "reads other elements of an input than it overwrites")


def _halves(b: Any, x: Any) -> Any:
    """The first half of x, doubled in place."""
    half = b.slice(x, (0,), (20,), (1,))
    return b.update(x, b.mul(half, 2.0), (0,), (1,))


def test_an_input_that_is_overwritten_before_indices_are_checked() -> None:
    def lower(b: Any, x: Any, y: Any, i: Any) -> Any:
        return b.mul(x, 2.0), b.gather(y, [i])

    piece = piece_after("plan", lower, f32(40), f32(9), np.arange(3), writes=[(0, 0)])
    _swapped(piece)
    refused(piece, "plan", "overwrites an input before every index was checked")


def test_a_store_outside_of_its_buffer() -> None:
    piece = piece_after("plan", lambda b, x: b.exp(x), f32(4, 6))
    _moved(piece, 0, "store", 8)
    refused(piece, "plan", r"leaves its output \(instruction 2, store\)")


def test_parts_of_a_cat_that_overlap() -> None:
    piece = piece_after("plan", lambda b, x, y: b.cat([b.exp(x), b.neg(y)], 1), f32(5, 3), f32(5, 4))
    _moved(piece, 0, "store", 4)
    refused(piece, "plan", "write the same byte")


def test_an_operand_of_a_product_outside_of_its_buffer() -> None:
    piece = piece_after("plan", lambda b, x, y: b.matmul(x, y), f32(16, 8), f32(8, 12))
    assert piece.plan is not None
    kernel = piece.plan.stages[0][0].kernel
    assert not isinstance(kernel, LoopKernel) and kernel is not None
    value, offset, strides = kernel.views[0]
    kernel.views[0] = (value, offset + 1, strides)
    refused(piece, "plan", "leaves its input")


# --- programs ---


def _step(lower: Callable[..., Any], *arrays: np.ndarray, **options: Any) -> tuple[Piece, NativeStep]:
    piece = piece_after("plan", lower, *arrays, **options)
    program = link(Case(lower, arrays, **options).segment, [piece])
    (step,) = program.steps
    assert isinstance(step, NativeStep)
    return piece, step


def _spoil(step: NativeStep, word: int, value: int) -> None:
    args = list(step.stages[0][0].args)
    args[word] = value
    step.stages[0][0].args = tuple(args)


@pytest.mark.parametrize(
    "name,word,value,words",
    [
        ("slot", 0, 9, "uses slot 9"),
        ("offset", 1, 4, "leaves slot 1"),
        ("negative offset", 1, -4, "leaves slot 1"),
    ],
)
def test_argument_words(name: str, word: int, value: int, words: str) -> None:
    piece, step = _step(lambda b, x: b.exp(x), f32(4, 6))
    assert piece.plan is not None
    kernel = piece.plan.stages[0][0].kernel
    assert isinstance(kernel, LoopKernel)
    verify_step(piece, step, piece.plan.stages)
    _spoil(step, kernel.key.instrs[0].word + word, value)
    with pytest.raises(VerifyError, match=f"after pass link: .*{words}"):
        verify_step(piece, step, piece.plan.stages)


def test_a_temporary_in_the_slot_of_an_output() -> None:
    piece, step = _step(lambda b, x: b.sum(b.tanh(b.matmul(x, x)), (1,)), f32(16, 16))
    assert piece.plan is not None
    verify_step(piece, step, piece.plan.stages)
    second = step.stages[1][0]
    kernel = piece.plan.stages[1][0].kernel
    assert isinstance(kernel, LoopKernel)
    word = kernel.key.instrs[0].word
    second.args = (*second.args[:word], second.args[word] - 1, *second.args[word + 1 :])
    step.outputs = ((step.outputs[0][0], 4096),)
    with pytest.raises(VerifyError, match="should be slot 3, offset 0"):
        verify_step(piece, step, piece.plan.stages)


def test_an_extent_that_is_too_large() -> None:
    piece, step = _step(lambda b, x: b.exp(x), f32(4, 6))
    assert piece.plan is not None
    _spoil(step, 0, 25)
    with pytest.raises(VerifyError, match="leaves slot 1"):
        verify_step(piece, step, piece.plan.stages)


def test_a_missing_argument_word() -> None:
    piece, step = _step(lambda b, x: b.exp(x), f32(4, 6))
    assert piece.plan is not None
    step.stages[0][0].args = step.stages[0][0].args[:-1]
    with pytest.raises(VerifyError, match="argument words instead of"):
        verify_step(piece, step, piece.plan.stages)


def test_the_words_of_a_product() -> None:
    piece, step = _step(lambda b, x, y: b.matmul(x, y), f32(16, 8), f32(8, 12))
    assert piece.plan is not None
    verify_step(piece, step, piece.plan.stages)
    _spoil(step, 4, 8)  # the column stride of A, in bytes
    with pytest.raises(VerifyError, match="leaves slot 1"):
        verify_step(piece, step, piece.plan.stages)


def test_the_slot_of_a_scalar() -> None:
    piece, step = _step(lambda b, x, s: b.mul(x, s), f32(4, 6), scalars=[0.5])
    assert piece.plan is not None
    kernel = piece.plan.stages[0][0].kernel
    assert isinstance(kernel, LoopKernel)
    _spoil(step, next(i.word for i in kernel.key.instrs if i.op == "scalar"), 1)
    with pytest.raises(VerifyError, match="slot 1 holds no run-time scalar"):
        verify_step(piece, step, piece.plan.stages)


def test_tasks_without_units() -> None:
    piece, step = _step(lambda b, x: b.exp(x), f32(4, 6))
    assert piece.plan is not None
    step.stages[0][0].units = 0
    with pytest.raises(VerifyError, match="0 units"):
        verify_step(piece, step, piece.plan.stages)


@pytest.mark.parametrize(
    "word,by,words",
    [
        ("units", 1, "7 units instead of 6"),
        ("blocks", 1, "6 units instead of 12"),
        ("block", 64, "for 64 elements"),
        ("block", -4090, "for 64 elements"),
        ("chunks", 1, "6 units instead of 12"),
    ],
)
def test_units_that_the_loops_do_not_count(word: str, by: int, words: str) -> None:
    piece, step = _step(lambda b, x: b.exp(b.permute(x, (1, 0, 2))), f32(3, 2, 64))
    assert piece.plan is not None
    job, launch = piece.plan.stages[0][0], step.stages[0][0]
    kernel = job.kernel
    assert isinstance(kernel, LoopKernel)
    assert (kernel.key.form, launch.units) == ("map", 6)
    verify_step(piece, step, piece.plan.stages)
    if word == "units":
        launch.units += by
    elif word == "block" and by > 0:
        place = kernel.key.vec + 1
        launch.args = (*launch.args[:place], kernel.words[kernel.key.vec] // 2, *launch.args[place + 1 :])
    else:
        place = kernel.key.vec + 1 + ("block", "blocks", "", "chunks").index(word)
        launch.args = (*launch.args[:place], launch.args[place] + by, *launch.args[place + 1 :])
    with pytest.raises(VerifyError, match=f"after pass link: .*{words}"):
        verify_step(piece, step, piece.plan.stages)


def test_chunks_that_do_not_cover_a_sum() -> None:
    piece, step = _step(lambda b, x: b.sum(x, (0,)), f32(1 << 20))
    assert piece.plan is not None
    rows = zip(piece.plan.stages, step.stages, strict=True)
    kernel, launch = next(
        (job.kernel, launch)
        for jobs, launches in rows
        for job, launch in zip(jobs, launches, strict=True)
        if isinstance(job.kernel, LoopKernel) and job.kernel.key.chunked
    )
    verify_step(piece, step, piece.plan.stages)
    length = kernel.key.vec + 3
    launch.args = (*launch.args[:length], launch.args[length] - 64, *launch.args[length + 1 :])
    with pytest.raises(VerifyError, match=r"after pass link: .*chunks of"):
        verify_step(piece, step, piece.plan.stages)


_PROVEN = """
import jitgrad as jg
from jitgrad.codegen.verify import PROOF
x, rows = jg.randn(33, 17), jg.tensor([3, 0, 32])
weight = jg.randn(17, 5).requires_grad_()
programs = {
    "pointwise": lambda: (x * 2.5 - x.t().contiguous().t()).tanh(),
    "reductions": lambda: (x.sum(0), x.softmax(1), x.amax()),
    "windows": lambda: jg.cat([x[::2, 3:9], x[1:18, ::3]], 1).flip(0),
    "gathers": lambda: x[rows].i0(),
    "scatters": lambda: x.clone().index_add_(0, rows, x[:3]),
    "products": lambda: jg.autograd.grad(((x @ weight).relu()).sum(), weight),
    "convolution": lambda: jg.nn.functional.conv2d(x.reshape(1, 1, 33, 17), x[:3, :3].reshape(1, 1, 3, 3), padding=1),
}
for name, program in programs.items():
    before = PROOF.proven.total()
    jg.compile(program)()
    assert PROOF.proven.total() > before, name
assert {"load", "store", "gather", "store_add", "operand"} <= PROOF.proven.keys(), PROOF
assert not PROOF.unproven, PROOF
jg.compile(lambda: (x.cumsum(0), x.sort(1), x.topk(3)))()  # where the loops of routines go is nobody's proof
assert PROOF.unproven.keys() == {"routine"}, PROOF

from jitgrad.codegen.schedule import nest
count_blocks = nest._blocks
def one_block_too_many(form, extent, width):
    block, blocks = count_blocks(form, extent, width)
    return block, blocks + 1
nest._blocks = one_block_too_many
y = jg.compile(lambda: x.exp() - 1.25)()
print("right:", (y - (x.exp() - 1.25)).abs().max().item() < 1e-5)
"""


@pytest.mark.parametrize("switch", ["JITGRAD_CHECK", "JITGRAD_VERIFY"])
def test_what_is_proven_is_counted_and_a_planted_kernel_is_refused(switch: str) -> None:
    env = {name: value for name, value in os.environ.items() if name not in ("JITGRAD_CHECK", "JITGRAD_VERIFY")}
    env[switch] = "1"
    done = subprocess.run([sys.executable, "-c", _PROVEN], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "right: True", done.stdout
    assert re.search(r"run without kernels.*after pass link: .* blocks of", done.stderr), done.stderr


# --- the pipeline ---


def test_a_rule_that_changes_a_shape_is_found_after_its_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Rule("loses a dimension", lambda b, v: b.make("exp", v.srcs, (), (2, 12), v.dtype))
    monkeypatch.setitem(SIMPLIFY, "sin", (wrong,))
    with pytest.raises(CompileError, match="after pass simplify: exp"):
        Case(lambda b, x: b.sin(x), [f32(4, 6)])


def test_users_do_not_pay_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: object) -> None:
        raise AssertionError

    monkeypatch.setattr(config, "verify", False)
    for name in ("verify_segment", "verify_piece"):
        monkeypatch.setattr(pipeline, name, never)
    Case(lambda b, x: b.exp(x), [f32(4, 6)]).check()
