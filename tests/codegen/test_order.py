"""The order of a plan's jobs: each once, behind what it waits for; where it pays, with little alive at once."""

from __future__ import annotations

import random
from typing import Any

import pytest

import jitgrad
from jitgrad.abi import NativeStep
from jitgrad.codegen.schedule.order import depth_first, fits_cache, levels
from jitgrad.nn import functional as F


class Job:
    def __init__(self, nbytes: int, after: list[Job]) -> None:
        self.nbytes, self.after, self.stage = nbytes, dict.fromkeys(after), -1


def _random_jobs(seed: int) -> list[Job]:
    rng = random.Random(seed)
    jobs: list[Job] = []
    for _ in range(rng.randint(1, 40)):
        jobs.append(Job(rng.choice([0, 64, 1 << 18, 1 << 20]), rng.sample(jobs, min(len(jobs), rng.randint(0, 3)))))
    order = list(jobs)
    rng.shuffle(order)  # jobs need not come in an order in which they can run
    return order


def _depth_first(jobs: list[Job]) -> list[list[Job]]:
    return depth_first(jobs, lambda job: job.nbytes)


@pytest.mark.parametrize("seed", range(50))
def test_every_job_has_a_stage_behind_those_it_waits_for(seed: int) -> None:
    jobs = _random_jobs(seed)
    for order in (levels, _depth_first):
        stages = order(jobs)
        assert sorted(map(id, (j for stage in stages for j in stage))) == sorted(map(id, jobs))
        assert all(stages)
        for nr, stage in enumerate(stages):
            assert all(j.stage == nr and all(before.stage < nr for before in j.after) for j in stage)


def test_levels_are_as_few_as_can_be() -> None:
    first = [Job(0, []) for _ in range(3)]
    second = [Job(0, [j]) for j in first]
    assert levels([*second, *first]) == [first, second]


def test_depth_first_finishes_one_chain_before_the_next() -> None:
    chains = []
    for _ in range(3):
        scores = Job(1 << 20, [])
        weights = Job(1 << 20, [scores])
        chains.append([scores, weights, Job(0, [weights]), Job(0, [weights])])
    jobs = [chain[nr] for nr in range(4) for chain in chains]
    stages = _depth_first(jobs)
    order = [j for stage in stages for j in stage]
    assert order == [j for chain in chains for j in chain], "what reads the weights follows them"


def _native(function: Any, *args: Any) -> NativeStep:
    step = jitgrad.compile(function)
    for _ in range(2):
        step(*args)
    (segment,) = jitgrad.explain(step, *args).segments
    (native,) = (s for s in segment.program.steps if isinstance(s, NativeStep))
    return native


@pytest.mark.parametrize("is_causal", [False, True])
def test_a_long_attention_keeps_few_scores_at_once(is_causal: bool) -> None:
    length, heads = 1024, 4
    q, k, v = (jitgrad.randn(1, heads, length, 16) for _ in range(3))
    native = _native(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=is_causal), q, k, v)
    scores = 4 * heads * length * length
    assert native.arena_nbytes < 0.4 * scores
    assert not fits_cache(native.arena_nbytes)
    assert len(native.stages) > length // 128, "a product waits for the weights of the block before"


def test_small_steps_have_as_few_stages_as_can_be() -> None:
    x = jitgrad.randn(64, 64)
    native = _native(lambda x: (x @ x).tanh() @ x + (x.t() @ x).sin() @ x, x)
    assert len(native.stages) <= 3
