"""One stage shared by several threads, as LLVM IR.

Owns: publishing a stage, claiming its tasks, waiting for its end.
Must not know: kernels' contents, where threads come from.

# Note [Fork and join]
# ~~~~~~~~~~~~~~~~~~~~
# A stage's tasks are split into one range per party: the caller is party 0, worker i is party i + 1. Each party works
# on its own range first, so that the same core touches the same data stage after stage, then steals from the others.
# A party's line holds its range and a copy of the stage's parameters, so that a worker fetches one line to start.
# A range is one word: epoch << 32 | next task << 16 | end. A task is claimed by a compare-and-swap that raises "next".
# The swap fails if anything happened since the word was read, so a thread that was descheduled for any time can never
# claim a task of another stage with this stage's parameters: the parameters of epoch e are written before e is
# published, and those of e + 1 only after the last task of e has been claimed and finished.
# A worker counts the tasks it ran and adds them to "done", which only ever grows, when it finds no more; the caller
# waits until "done" has grown by what it did not run itself. So it waits only for tasks that someone is running: a
# worker that sleeps, or was never scheduled, is never waited for. Waking sleepers is therefore an optimisation, and a
# wake-up that gets lost costs speed only.
# Example: for 10 tasks and 2 workers the ranges are [0, 3), [3, 6) and [6, 10). If the second worker sleeps, the caller
# finishes its own range and then takes tasks 6 to 9 one by one.
# Workers spin for a while after their last task, because in a training loop the next one is a few microseconds away,
# then sleep on a futex. The spin budget doubles when a sleep turns out to have been short, and halves after a long one.

# Note [Resting]
# ~~~~~~~~~~~~~~
# When other processes use the cores, a worker may lose its core in the middle of a task, and the caller then waits for
# the rest of a scheduler's time slice: sharing makes things slower. It shows as a join that takes longer than the
# caller's whole part of the stage did. The caller then runs its stages alone for 8 times as long as it waited.
# A worker on the caller's own core would only take time from it: it claims nothing and gives the core back.
# Example: the caller's part takes 20 us and the join 2 ms, so the next 16 ms run on the calling thread alone.

# Note [Float mode]
# ~~~~~~~~~~~~~~~~~
# On x86-64 each thread has a switch that takes numbers below the smallest normal one for zero: with such numbers an
# operation is up to a hundred times slower. ``set_flush_denormal`` sets the caller's, as in PyTorch, and other
# libraries may do so, too. A worker therefore runs a stage's tasks as the caller's floating-point unit is set, which
# the parties' lines say; otherwise the bits of a result would depend on which thread was given a task.
# Example: the gradients of 512 steps of an LSTM fall below 1e-38; flushed, the step takes a quarter of the time.
"""

from __future__ import annotations

from jitgrad.abi import (
    PARTY_ABORT,
    PARTY_BUFS,
    PARTY_CALLER_CORE,
    PARTY_FLOATS,
    PARTY_PARTIES,
    PARTY_RANGE,
    PARTY_TASKS,
    POOL_DONE,
    POOL_EPOCH,
    POOL_LINE,
    POOL_PARTY,
    POOL_REST,
    POOL_SLEEPERS,
    POOL_USLEEP,
    POOL_WAKE,
    POOL_WANTED,
    STAGE_WAKE,
    TASK_WORDS,
)
from jitgrad.codegen.driver.native_text import (
    adopt_float_mode,
    at,
    atomic_load,
    atomic_store,
    branch,
    call_libc,
    core_number,
    cycles,
    float_mode,
    forever,
    futex,
    load_word,
    minmax,
    pause,
)
from jitgrad.codegen.driver.placement import move_sleepers
from jitgrad.codegen.llvm.target import Target
from jitgrad.codegen.llvm.text import FnBuilder

__all__ = ["claim_and_run", "run_task", "share_stage"]

_FUTEX_WAKE_PRIVATE = 129
_EVERYBODY = 2**31 - 1
_SPINS_BEFORE_YIELD = 4096
_LONG_WAIT_CYCLES = 500_000
_REST_FACTOR = 8


def run_task(b: FnBuilder, bufs: str, task: str, abort: str) -> None:
    """Call the kernel of one task row, unless the run was aborted."""
    stop = b.op(f"load atomic i64, ptr {abort} monotonic, align 8")
    with b.when(b.op(f"icmp eq i64 {stop}, 0")):
        kernel, args = load_word(b, task, 0, "ptr"), load_word(b, task, 1, "ptr")
        begin, end = load_word(b, task, 2), load_word(b, task, 3)
        b.do(f"call void {kernel}(ptr {bufs}, ptr {args}, i64 {begin}, i64 {end})")


def _line(b: FnBuilder, pool: str, party: str) -> str:
    """The address of a party's line."""
    return at(b, pool, b.op(f"add i64 {b.op(f'mul i64 {party}, {POOL_LINE}')}, {POOL_PARTY}"))


def claim_and_run(b: FnBuilder, pool: str, party: str, parties: str, target: Target) -> str:
    """Run tasks of the published stage until none is left, the party's own range first; returns how many were run."""
    b.do("store i64 0, ptr %ran")
    with b.loop("0", parties) as turn:
        shifted = b.op(f"add i64 {party}, {turn}")
        beyond = b.op(f"icmp uge i64 {shifted}, {parties}")
        victim = b.op(f"select i1 {beyond}, i64 {b.op(f'sub i64 {shifted}, {parties}')}, i64 {shifted}")
        _drain(b, _line(b, pool, victim), target)
    return b.op("load i64, ptr %ran")


def _drain(b: FnBuilder, line: str, target: Target) -> None:
    """Claim and run the tasks of one range."""
    with forever(b) as (head, done):
        word = atomic_load(b, line, PARTY_RANGE)
        following = b.op(f"and i64 {b.op(f'lshr i64 {word}, 16')}, 65535")
        some = b.op(f"icmp ult i64 {following}, {b.op(f'and i64 {word}, 65535')}")
        attempt, run = b.label("try"), b.label("run")
        branch(b, some, attempt, done)
        b.start(attempt)
        bufs, tasks, abort = (
            atomic_load(b, line, i, "monotonic", "ptr") for i in (PARTY_BUFS, PARTY_TASKS, PARTY_ABORT)
        )
        floats = atomic_load(b, line, PARTY_FLOATS, "monotonic")
        raised = b.op(f"add i64 {word}, 65536")
        swap = b.op(f"cmpxchg ptr {line}, i64 {word}, i64 {raised} acq_rel monotonic, align 8")
        branch(b, b.op(f"extractvalue {{ i64, i1 }} {swap}, 1"), run, head)
        b.start(run)
        adopt_float_mode(b, target, floats)
        run_task(b, bufs, at(b, tasks, b.op(f"mul i64 {following}, {TASK_WORDS}")), abort)
        ran = b.op("load i64, ptr %ran")
        b.do(f"store i64 {b.op(f'add i64 {ran}, 1')}, ptr %ran")


def share_stage(b: FnBuilder, pool: str, bufs: str, tasks: str, abort: str, stage: str, target: Target) -> None:
    """Publish a stage, work on it, wait for its end. The caller holds the pool."""
    first, last, flags = (load_word(b, stage, i) for i in range(3))
    count = b.op(f"sub i64 {last}, {first}")
    rows = at(b, tasks, b.op(f"mul i64 {first}, {TASK_WORDS}"))
    before = atomic_load(b, pool, POOL_DONE, "monotonic")
    published = cycles(b, target)
    parties = b.op(f"add i64 {atomic_load(b, pool, POOL_WANTED, 'monotonic')}, 1")
    floats = float_mode(b, target)
    _publish(b, pool, count, parties, floats, {PARTY_BUFS: bufs, PARTY_TASKS: rows, PARTY_ABORT: abort})
    with b.when(b.op(f"icmp ne i64 {b.op(f'and i64 {flags}, {STAGE_WAKE}')}, 0")):
        _wake_sleepers(b, pool)
    own = claim_and_run(b, pool, "0", parties, target)
    _join(b, pool, b.op(f"add i64 {before}, {b.op(f'sub i64 {count}, {own}')}"), published, target)


def _publish(b: FnBuilder, pool: str, count: str, parties: str, floats: str, pointers: dict[int, str]) -> None:
    """Write every party's line: the stage's parameters, then the range."""
    epoch = b.op(f"add i64 {load_word(b, pool, POOL_EPOCH)}, 1")
    b.do(f"store i64 {epoch}, ptr {at(b, pool, POOL_EPOCH)}")
    high = b.op(f"shl i64 {epoch}, 32")
    core = core_number(b, pool, "-2")
    with b.loop("0", parties) as party:
        line = _line(b, pool, party)
        for index, pointer in pointers.items():
            atomic_store(b, pointer, line, index, "monotonic", "ptr")
        atomic_store(b, parties, line, PARTY_PARTIES, "monotonic")
        atomic_store(b, core, line, PARTY_CALLER_CORE, "monotonic")
        atomic_store(b, floats, line, PARTY_FLOATS, "monotonic")
        begin = b.op(f"udiv i64 {b.op(f'mul i64 {party}, {count}')}, {parties}")
        after = b.op(f"mul i64 {b.op(f'add i64 {party}, 1')}, {count}")
        end = b.op(f"udiv i64 {after}, {parties}")
        word = b.op(f"or i64 {b.op(f'or i64 {high}, {end}')}, {b.op(f'shl i64 {begin}, 16')}")
        atomic_store(b, word, line, PARTY_RANGE, "release")


def _wake_sleepers(b: FnBuilder, pool: str) -> None:
    sleepers = b.op(f"atomicrmw xchg ptr {at(b, pool, POOL_SLEEPERS)}, i64 0 seq_cst, align 8")
    with b.when(b.op(f"icmp ne i64 {sleepers}, 0")):
        move_sleepers(b, pool)
        b.op(f"atomicrmw add ptr {at(b, pool, POOL_WAKE)}, i32 1 seq_cst, align 8")
        futex(b, pool, _FUTEX_WAKE_PRIVATE, str(_EVERYBODY))


def _join(b: FnBuilder, pool: str, count: str, published: str, target: Target) -> None:
    """Wait until "done" is ``count``. While that takes long, give the core away, Note [Resting]."""
    b.do("store i64 0, ptr %spins")
    joined = cycles(b, target)
    fair = minmax(b, "umax", b.op(f"shl i64 {b.op(f'sub i64 {joined}, {published}')}, 1"), _LONG_WAIT_CYCLES)
    with forever(b) as (_, done):
        wait = b.label("wait")
        branch(b, b.op(f"icmp eq i64 {atomic_load(b, pool, POOL_DONE)}, {count}"), done, wait)
        b.start(wait)
        pause(b, target)
        spun = b.op(f"add i64 {b.op('load i64, ptr %spins')}, 1")
        b.do(f"store i64 {spun}, ptr %spins")
        with b.when(b.op(f"icmp ugt i64 {spun}, {_SPINS_BEFORE_YIELD}")):
            b.do("store i64 0, ptr %spins")
            _rest_if_late(b, pool, joined, fair, target)
            call_libc(b, pool, POOL_USLEEP, "i32 0")


def _rest_if_late(b: FnBuilder, pool: str, joined: str, fair: str, target: Target) -> None:
    now = cycles(b, target)
    waited = b.op(f"sub i64 {now}, {joined}")
    with b.when(b.op(f"icmp ugt i64 {waited}, {fair}")):
        until = b.op(f"add i64 {now}, {b.op(f'mul i64 {waited}, {_REST_FACTOR}')}")
        atomic_store(b, until, pool, POOL_REST, "monotonic")
