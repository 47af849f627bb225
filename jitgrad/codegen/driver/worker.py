"""The worker loop, as LLVM IR.

Owns: the text of ``jitgrad_worker``: work, spin, sleep.
Must not know: Python threads (``runtime/native/pool.py`` starts them).
In: a pool block, Note [Pool block]. See Note [Fork and join].
"""

from __future__ import annotations

from jitgrad.abi import (
    PARTY_CALLER_CORE,
    PARTY_PARTIES,
    PARTY_RANGE,
    PLACE_AWAKE,
    POOL_DONE,
    POOL_LINE,
    POOL_PARTY,
    POOL_SLEEPERS,
    POOL_SYSCALL,
    POOL_USLEEP,
    POOL_WAKE,
    POOL_WANTED,
    POOL_YIELD,
)
from jitgrad.codegen.driver.native_text import (
    at,
    atomic_load,
    atomic_store,
    branch,
    call_libc,
    core_number,
    forever,
    futex,
    has,
    jump,
    minmax,
    now,
    pause,
)
from jitgrad.codegen.driver.placement import fall_asleep, place_of, put_back, wake_up
from jitgrad.codegen.driver.stage_sharing import claim_and_run
from jitgrad.codegen.llvm.jit import KernelSource
from jitgrad.codegen.llvm.target import Target
from jitgrad.codegen.llvm.text import FnBuilder

__all__ = ["worker_source"]

_FUTEX_WAIT_PRIVATE = 128
_MIN_SPIN_NS, _FIRST_SPIN_NS, _MAX_SPIN_NS = 100_000, 200_000, 2_000_000
_SPINS_PER_LOOK = 512
_SPINS_BEFORE_SLEEP = 50_000  # where there is no clock


def _sleep(b: FnBuilder, pool: str) -> None:
    """Sleep until woken; then adapt the spin budget to how long that was."""
    asleep, unfit, awake = b.label("asleep"), b.label("stay"), b.label("awake")
    seen = atomic_load(b, pool, POOL_WAKE, "acquire", "i32")
    atomic_store(b, "1", pool, POOL_SLEEPERS, "seq_cst")
    epoch = b.op(f"lshr i64 {atomic_load(b, '%line', PARTY_RANGE, 'seq_cst')}, 32")
    work = b.op(f"icmp ne i64 {epoch}, {b.op('load i64, ptr %epoch')}")
    leave = b.op(f"icmp sge i64 %index, {atomic_load(b, pool, POOL_WANTED, 'seq_cst')}")
    branch(b, b.op(f"or i1 {work}, {leave}"), unfit, asleep)
    b.start(asleep)
    fall_asleep(b, "%place")
    before = now(b, pool)
    futex(b, pool, _FUTEX_WAIT_PRIVATE, b.op(f"zext i32 {seen} to i64"))
    wake_up(b, "%place")
    slept = b.op(f"sub i64 {now(b, pool)}, {before}")
    budget = b.op("load i64, ptr %budget")
    longer = minmax(b, "umin", b.op(f"shl i64 {budget}, 1"), _MAX_SPIN_NS)
    shorter = minmax(b, "umax", b.op(f"lshr i64 {budget}, 1"), _MIN_SPIN_NS)
    short = b.op(f"icmp slt i64 {slept}, {_MAX_SPIN_NS}")
    b.do(f"store i64 {b.op(f'select i1 {short}, i64 {longer}, i64 {shorter}')}, ptr %budget")
    jump(b, awake)
    b.start(unfit)
    jump(b, awake)
    b.start(awake)
    b.do("store i64 0, ptr %spins")


def _rest(b: FnBuilder, pool: str, target: Target) -> None:
    """One idle turn of a worker: spin, look at the clock now and then, sleep when the budget is used up.

    Without a futex the worker naps for a millisecond at a time instead.
    """
    spins = b.op("load i64, ptr %spins")
    with b.when(b.op(f"and i1 {b.op(f'icmp eq i64 {spins}, 0')}, {has(b, pool, POOL_SYSCALL)}")):
        b.do(f"store i64 {now(b, pool)}, ptr %since")
    b.do(f"store i64 {b.op(f'add i64 {spins}, 1')}, ptr %spins")
    pause(b, target)
    futex, nap, end = b.label("futex"), b.label("nap"), b.label("rested")
    branch(b, has(b, pool, POOL_SYSCALL), futex, nap)
    b.start(futex)
    look = b.op(f"icmp eq i64 {b.op(f'and i64 {spins}, {_SPINS_PER_LOOK - 1}')}, {_SPINS_PER_LOOK - 1}")
    with b.when(look):
        call_libc(b, pool, POOL_YIELD)
        free = put_back(b, pool, "%place")
        idle = b.op(f"sub i64 {now(b, pool)}, {b.op('load i64, ptr %since')}")
        tired = b.op(f"icmp ugt i64 {idle}, {b.op('load i64, ptr %budget')}")
        with b.when(b.op(f"and i1 {free}, {tired}")):
            _sleep(b, pool)
    jump(b, end)
    b.start(nap)
    tired = b.op(f"icmp ugt i64 {spins}, {_SPINS_BEFORE_SLEEP}")
    with b.when(tired):
        call_libc(b, pool, POOL_USLEEP, "i32 1000")
    jump(b, end)
    b.start(end)


def _join_stage(b: FnBuilder, party: str, target: Target) -> None:
    """Work on the stage that was just published, unless this is the caller's core, Note [Resting]."""
    core, caller = core_number(b, "%pool", "-1"), atomic_load(b, "%line", PARTY_CALLER_CORE, "monotonic")
    with b.when(b.op(f"icmp ne i64 {core}, {caller}")):
        parties = atomic_load(b, "%line", PARTY_PARTIES, "monotonic")
        ran = claim_and_run(b, "%pool", party, parties, target)
        with b.when(b.op(f"icmp ne i64 {ran}, 0")):
            b.op(f"atomicrmw add ptr {at(b, '%pool', POOL_DONE)}, i64 {ran} release, align 8")


def _worker_text(target: Target) -> str:
    b = FnBuilder("jitgrad_worker", "ptr %pool, i64 %index")
    for slot in ("%spins", "%since", "%budget", "%epoch", "%ran", "%core", "%floats"):
        b.do(f"{slot} = alloca i64")
        b.do(f"store i64 0, ptr {slot}")
    party = b.op("add i64 %index, 1")
    offset = b.op(f"add i64 {b.op(f'mul i64 {party}, {POOL_LINE}')}, {POOL_PARTY}")
    b.do(f"%line = getelementptr i64, ptr %pool, i64 {offset}")
    b.do(f"%place = getelementptr i8, ptr {place_of(b, '%pool', '%index')}, i64 0")
    atomic_store(b, str(PLACE_AWAKE), "%place", 0, "monotonic")
    b.do("%time = alloca [2 x i64]")
    b.do(f"store i64 {_FIRST_SPIN_NS}, ptr %budget")
    with forever(b) as (_, done):
        epoch = b.op(f"lshr i64 {atomic_load(b, '%line', PARTY_RANGE)}, 32")
        with b.when(b.op(f"icmp ne i64 {epoch}, {b.op('load i64, ptr %epoch')}")):
            b.do(f"store i64 {epoch}, ptr %epoch")
            b.do("store i64 0, ptr %spins")
            _join_stage(b, party, target)
        stay = b.label("stay")
        wanted = atomic_load(b, "%pool", POOL_WANTED, "monotonic")
        branch(b, b.op(f"icmp slt i64 %index, {wanted}"), stay, done)
        b.start(stay)
        _rest(b, "%pool", target)
    return b.finish("ret i64 0", "i64")


def worker_source(target: Target) -> KernelSource:
    """``i64 jitgrad_worker(ptr pool, i64 index)``: runs tasks until ``index`` is no longer wanted."""
    return KernelSource("jitgrad_worker", "worker", lambda: _worker_text(target))
