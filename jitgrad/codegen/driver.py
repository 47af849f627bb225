"""The native driver and the worker loop, as LLVM IR.

Owns: the text of ``jitgrad_driver`` and ``jitgrad_worker``.
Must not know: kernels' contents, Python objects, threads (``runtime/pool.py`` starts them).
In: a program record, Note [Program ABI]; a pool block, Note [Pool block]. Out: the status word.

# Note [Fork and join]
# ~~~~~~~~~~~~~~~~~~~~
# A stage's tasks are split into one range per party: the caller is party 0, worker i is party i + 1. Everybody works on
# his own range first, so that the same core touches the same data stage after stage, then steals from the others.
# A party's line holds its range and a copy of the stage's parameters, so that a worker fetches one line to start.
# A range is one word: epoch << 32 | next task << 16 | end. A task is claimed by a compare-and-swap that raises "next".
# The swap fails if anything happened since the word was read, so a thread that was descheduled for any time can never
# claim a task of another stage with this stage's parameters: the parameters of epoch e are written before e is
# published, and those of e + 1 only after the last task of e has been claimed and finished.
# A worker counts the tasks it ran and adds them to "done", which only ever grows, when it finds no more; the caller
# waits until "done" has grown by what it did not run itself. So it waits only for tasks that someone is running: a
# worker that sleeps, or was never scheduled, is never waited for. Waking sleepers is therefore an optimisation, and a
# wake-up that gets lost costs speed only.
# Workers spin for a while after their last task, because in a training loop the next one is a few microseconds away,
# then sleep on a futex. The spin budget doubles when a sleep turns out to have been short, and halves after a long one.

# Note [Resting]
# ~~~~~~~~~~~~~~
# When other processes use the cores, a worker may lose its core in the middle of a task, and the caller then waits for
# the rest of a scheduler's time slice: sharing makes things slower. It shows as a join that takes longer than the
# caller's whole part of the stage did. The caller then runs its stages alone for 8 times as long as it waited.
# A worker on the caller's own core would only take time from it: it claims nothing and gives the core back.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from jitgrad.abi import (
    PARTY_ABORT,
    PARTY_BUFS,
    PARTY_CALLER_CORE,
    PARTY_PARTIES,
    PARTY_RANGE,
    PARTY_TASKS,
    POOL_BUSY,
    POOL_CLOCK,
    POOL_DONE,
    POOL_EPOCH,
    POOL_FUTEX_NUMBER,
    POOL_GETCPU,
    POOL_LINE,
    POOL_PARTY,
    POOL_REST,
    POOL_SLEEPERS,
    POOL_SYSCALL,
    POOL_USLEEP,
    POOL_WAKE,
    POOL_WANTED,
    POOL_YIELD,
    STAGE_SHARE,
    STAGE_WAKE,
    STAGE_WORDS,
    TASK_WORDS,
)
from jitgrad.codegen.jit import Kernel, KernelSource, compile_kernels
from jitgrad.codegen.target import Target, host_target
from jitgrad.codegen.text import FnBuilder

__all__ = ["NativeLoops", "driver_source", "load", "worker_source"]

_FUTEX_WAIT_PRIVATE, _FUTEX_WAKE_PRIVATE = 128, 129
_EVERYBODY = 2**31 - 1
_MIN_SPIN_NS, _FIRST_SPIN_NS, _MAX_SPIN_NS = 100_000, 200_000, 2_000_000
_SPINS_PER_LOOK = 512
_SPINS_BEFORE_SLEEP = 50_000  # where there is no clock
_CLOCK_MONOTONIC = 6 if sys.platform == "darwin" else 1
_SPINS_BEFORE_YIELD = 4096
_LONG_WAIT_CYCLES = 500_000
_REST_FACTOR = 8


def _at(b: FnBuilder, base: str, index: str | int) -> str:
    return b.op(f"getelementptr i64, ptr {base}, i64 {index}")


def _load(b: FnBuilder, base: str, index: str | int, kind: str = "i64") -> str:
    return b.op(f"load {kind}, ptr {_at(b, base, index)}")


def _atomic_load(b: FnBuilder, base: str, index: int, order: str = "acquire", kind: str = "i64") -> str:
    return b.op(f"load atomic {kind}, ptr {_at(b, base, index)} {order}, align 8")


def _atomic_store(b: FnBuilder, value: str, base: str, index: int, order: str, kind: str = "i64") -> None:
    b.do(f"store atomic {kind} {value}, ptr {_at(b, base, index)} {order}, align 8")


def _jump(b: FnBuilder, label: str) -> None:
    b.do(f"br label %{label}")


def _branch(b: FnBuilder, cond: str, yes: str, no: str) -> None:
    b.do(f"br i1 {cond}, label %{yes}, label %{no}")


def _has(b: FnBuilder, pool: str, word: int) -> str:
    return b.op(f"icmp ne i64 {_load(b, pool, word)}, 0")


def _call_libc(b: FnBuilder, pool: str, word: int, args: str = "") -> None:
    """Call a libc function by its address in the pool block, if there is one."""
    with b.when(_has(b, pool, word)):
        b.op(f"call i32 {_load(b, pool, word, 'ptr')}({args})")


def _core(b: FnBuilder, pool: str, unknown: str) -> str:
    """The number of the core this thread is on."""
    b.do(f"store i64 {unknown}, ptr %core")
    with b.when(_has(b, pool, POOL_GETCPU)):
        number = b.op(f"call i32 {_load(b, pool, POOL_GETCPU, 'ptr')}()")
        b.do(f"store i64 {b.op(f'zext i32 {number} to i64')}, ptr %core")
    return b.op("load i64, ptr %core")


@contextmanager
def _forever(b: FnBuilder) -> Iterator[tuple[str, str]]:
    """An endless loop; yields the labels of its head and of the block after it."""
    head, done = b.label("again"), b.label("out")
    _jump(b, head)
    b.start(head)
    yield head, done
    _jump(b, head)
    b.start(done)


def _is_x86(target: Target) -> bool:
    return target.triple.startswith(("x86_64", "amd64"))


def _pause(b: FnBuilder, target: Target) -> None:
    """Tell the core that this is a spin loop."""
    if _is_x86(target):
        b.declare("declare void @llvm.x86.sse2.pause()")
        b.do("call void @llvm.x86.sse2.pause()")
    elif target.triple.startswith(("aarch64", "arm64")):
        b.declare("declare void @llvm.aarch64.hint(i32)")
        b.do("call void @llvm.aarch64.hint(i32 1)")


def _run_task(b: FnBuilder, bufs: str, task: str, abort: str) -> None:
    """Call the kernel of one task row, unless the run was aborted."""
    stop = b.op(f"load atomic i64, ptr {abort} monotonic, align 8")
    with b.when(b.op(f"icmp eq i64 {stop}, 0")):
        kernel, args = _load(b, task, 0, "ptr"), _load(b, task, 1, "ptr")
        begin, end = _load(b, task, 2), _load(b, task, 3)
        b.do(f"call void {kernel}(ptr {bufs}, ptr {args}, i64 {begin}, i64 {end})")


def _line(b: FnBuilder, pool: str, party: str) -> str:
    """The address of a party's line."""
    return _at(b, pool, b.op(f"add i64 {b.op(f'mul i64 {party}, {POOL_LINE}')}, {POOL_PARTY}"))


def _claim_and_run(b: FnBuilder, pool: str, party: str, parties: str) -> str:
    """Run tasks of the published stage until none is left, one's own range first; returns how many were run."""
    b.do("store i64 0, ptr %ran")
    with b.loop("0", parties) as turn:
        shifted = b.op(f"add i64 {party}, {turn}")
        beyond = b.op(f"icmp uge i64 {shifted}, {parties}")
        victim = b.op(f"select i1 {beyond}, i64 {b.op(f'sub i64 {shifted}, {parties}')}, i64 {shifted}")
        _drain(b, _line(b, pool, victim))
    return b.op("load i64, ptr %ran")


def _drain(b: FnBuilder, line: str) -> None:
    """Claim and run the tasks of one range."""
    with _forever(b) as (head, done):
        word = _atomic_load(b, line, PARTY_RANGE)
        following = b.op(f"and i64 {b.op(f'lshr i64 {word}, 16')}, 65535")
        some = b.op(f"icmp ult i64 {following}, {b.op(f'and i64 {word}, 65535')}")
        attempt, run = b.label("try"), b.label("run")
        _branch(b, some, attempt, done)
        b.start(attempt)
        bufs, tasks, abort = (
            _atomic_load(b, line, i, "monotonic", "ptr") for i in (PARTY_BUFS, PARTY_TASKS, PARTY_ABORT)
        )
        raised = b.op(f"add i64 {word}, 65536")
        swap = b.op(f"cmpxchg ptr {line}, i64 {word}, i64 {raised} acq_rel monotonic, align 8")
        _branch(b, b.op(f"extractvalue {{ i64, i1 }} {swap}, 1"), run, head)
        b.start(run)
        _run_task(b, bufs, _at(b, tasks, b.op(f"mul i64 {following}, {TASK_WORDS}")), abort)
        ran = b.op("load i64, ptr %ran")
        b.do(f"store i64 {b.op(f'add i64 {ran}, 1')}, ptr %ran")


def _futex(b: FnBuilder, pool: str, operation: int, value: str) -> None:
    """futex(2) on the wake word, through libc's ``syscall``."""
    call, number = _load(b, pool, POOL_SYSCALL, "ptr"), _load(b, pool, POOL_FUTEX_NUMBER)
    args = f"ptr {_at(b, pool, POOL_WAKE)}, i64 {operation}, i64 {value}, ptr null, ptr null, i64 0"
    b.op(f"call i64 (i64, ...) {call}(i64 {number}, {args})")


def _wake_sleepers(b: FnBuilder, pool: str) -> None:
    sleepers = b.op(f"atomicrmw xchg ptr {_at(b, pool, POOL_SLEEPERS)}, i64 0 seq_cst, align 8")
    with b.when(b.op(f"icmp ne i64 {sleepers}, 0")):
        b.op(f"atomicrmw add ptr {_at(b, pool, POOL_WAKE)}, i32 1 seq_cst, align 8")
        _futex(b, pool, _FUTEX_WAKE_PRIVATE, str(_EVERYBODY))


def _cycles(b: FnBuilder, target: Target) -> str:
    """The time-stamp counter; constant on targets where user code may not read it, which turns resting off."""
    return b.call("i64", "llvm.readcyclecounter") if _is_x86(target) else "0"


def _join(b: FnBuilder, pool: str, count: str, published: str, target: Target) -> None:
    """Wait until "done" is ``count``. While that takes long, give the core away, Note [Resting]."""
    b.do("store i64 0, ptr %spins")
    joined = _cycles(b, target)
    fair = _minmax(b, "umax", b.op(f"shl i64 {b.op(f'sub i64 {joined}, {published}')}, 1"), _LONG_WAIT_CYCLES)
    with _forever(b) as (_, done):
        wait = b.label("wait")
        _branch(b, b.op(f"icmp eq i64 {_atomic_load(b, pool, POOL_DONE)}, {count}"), done, wait)
        b.start(wait)
        _pause(b, target)
        spun = b.op(f"add i64 {b.op('load i64, ptr %spins')}, 1")
        b.do(f"store i64 {spun}, ptr %spins")
        with b.when(b.op(f"icmp ugt i64 {spun}, {_SPINS_BEFORE_YIELD}")):
            b.do("store i64 0, ptr %spins")
            _rest_if_late(b, pool, joined, fair, target)
            _call_libc(b, pool, POOL_USLEEP, "i32 0")


def _rest_if_late(b: FnBuilder, pool: str, joined: str, fair: str, target: Target) -> None:
    now = _cycles(b, target)
    waited = b.op(f"sub i64 {now}, {joined}")
    with b.when(b.op(f"icmp ugt i64 {waited}, {fair}")):
        until = b.op(f"add i64 {now}, {b.op(f'mul i64 {waited}, {_REST_FACTOR}')}")
        _atomic_store(b, until, pool, POOL_REST, "monotonic")


def _share_stage(b: FnBuilder, pool: str, bufs: str, tasks: str, abort: str, stage: str, target: Target) -> None:
    """Publish a stage, work on it, wait for its end. The caller holds the pool."""
    first, last, flags = (_load(b, stage, i) for i in range(3))
    count = b.op(f"sub i64 {last}, {first}")
    rows = _at(b, tasks, b.op(f"mul i64 {first}, {TASK_WORDS}"))
    before = _atomic_load(b, pool, POOL_DONE, "monotonic")
    published = _cycles(b, target)
    parties = b.op(f"add i64 {_atomic_load(b, pool, POOL_WANTED, 'monotonic')}, 1")
    _publish(b, pool, count, parties, {PARTY_BUFS: bufs, PARTY_TASKS: rows, PARTY_ABORT: abort})
    with b.when(b.op(f"icmp ne i64 {b.op(f'and i64 {flags}, {STAGE_WAKE}')}, 0")):
        _wake_sleepers(b, pool)
    own = _claim_and_run(b, pool, "0", parties)
    _join(b, pool, b.op(f"add i64 {before}, {b.op(f'sub i64 {count}, {own}')}"), published, target)


def _publish(b: FnBuilder, pool: str, count: str, parties: str, pointers: dict[int, str]) -> None:
    """Write every party's line: the stage's parameters, then the range."""
    epoch = b.op(f"add i64 {_load(b, pool, POOL_EPOCH)}, 1")
    b.do(f"store i64 {epoch}, ptr {_at(b, pool, POOL_EPOCH)}")
    high = b.op(f"shl i64 {epoch}, 32")
    core = _core(b, pool, "-2")
    with b.loop("0", parties) as party:
        line = _line(b, pool, party)
        for index, pointer in pointers.items():
            _atomic_store(b, pointer, line, index, "monotonic", "ptr")
        _atomic_store(b, parties, line, PARTY_PARTIES, "monotonic")
        _atomic_store(b, core, line, PARTY_CALLER_CORE, "monotonic")
        begin = b.op(f"udiv i64 {b.op(f'mul i64 {party}, {count}')}, {parties}")
        after = b.op(f"mul i64 {b.op(f'add i64 {party}, 1')}, {count}")
        end = b.op(f"udiv i64 {after}, {parties}")
        word = b.op(f"or i64 {b.op(f'or i64 {high}, {end}')}, {b.op(f'shl i64 {begin}, 16')}")
        _atomic_store(b, word, line, PARTY_RANGE, "release")


def _run_alone(b: FnBuilder, bufs: str, tasks: str, abort: str, stage: str) -> None:
    with b.loop(_load(b, stage, 0), _load(b, stage, 1)) as index:
        _run_task(b, bufs, _at(b, tasks, b.op(f"mul i64 {index}, {TASK_WORDS}")), abort)


def _driver_text(target: Target) -> str:
    b = FnBuilder("jitgrad_driver", "ptr %record")
    for slot in ("%ran", "%spins", "%core"):
        b.do(f"{slot} = alloca i64")
    bufs, tasks, stages = (_load(b, "%record", i, "ptr") for i in range(3))
    count, pool, abort = _load(b, "%record", 3), _load(b, "%record", 4, "ptr"), _load(b, "%record", 5, "ptr")
    b.do(f"store i64 0, ptr {bufs}")
    with b.loop("0", count) as index:
        stage = _at(b, stages, b.op(f"mul i64 {index}, {STAGE_WORDS}"))
        ask, take, share, alone, ended = (b.label(x) for x in ("ask", "take", "share", "alone", "ended"))
        flags = _load(b, stage, 2)
        _branch(b, b.op(f"icmp ne i64 {b.op(f'and i64 {flags}, {STAGE_SHARE}')}, 0"), ask, alone)
        b.start(ask)
        workers = b.op(f"icmp ne i64 {_atomic_load(b, pool, POOL_WANTED, 'monotonic')}, 0")
        rested = b.op(f"icmp uge i64 {_cycles(b, target)}, {_atomic_load(b, pool, POOL_REST, 'monotonic')}")
        _branch(b, b.op(f"and i1 {workers}, {rested}"), take, alone)
        b.start(take)  # one program at a time has the pool; others run alone meanwhile
        swap = b.op(f"cmpxchg ptr {_at(b, pool, POOL_BUSY)}, i64 0, i64 1 acquire monotonic, align 8")
        _branch(b, b.op(f"extractvalue {{ i64, i1 }} {swap}, 1"), share, alone)
        b.start(share)
        _share_stage(b, pool, bufs, tasks, abort, stage, target)
        _atomic_store(b, "0", pool, POOL_BUSY, "release")
        _jump(b, ended)
        b.start(alone)
        _run_alone(b, bufs, tasks, abort, stage)
        _jump(b, ended)
        b.start(ended)
    status = b.op(f"load i64, ptr {bufs}")
    return b.finish(f"ret i64 {status}", "i64")


def _now(b: FnBuilder, pool: str) -> str:
    """Nanoseconds of the monotonic clock."""
    b.op(f"call i32 {_load(b, pool, POOL_CLOCK, 'ptr')}(i32 {_CLOCK_MONOTONIC}, ptr %time)")
    seconds = b.op(f"mul i64 {_load(b, '%time', 0)}, 1000000000")
    return b.op(f"add i64 {seconds}, {_load(b, '%time', 1)}")


def _minmax(b: FnBuilder, kind: str, x: str, y: str | int) -> str:
    return b.call("i64", f"llvm.{kind}.i64", f"i64 {x}", f"i64 {y}")


def _sleep(b: FnBuilder, pool: str) -> None:
    """Sleep until woken; then adapt the spin budget to how long that was."""
    asleep, unfit, awake = b.label("asleep"), b.label("stay"), b.label("awake")
    seen = _atomic_load(b, pool, POOL_WAKE, "acquire", "i32")
    _atomic_store(b, "1", pool, POOL_SLEEPERS, "seq_cst")
    epoch = b.op(f"lshr i64 {_atomic_load(b, '%line', PARTY_RANGE, 'seq_cst')}, 32")
    work = b.op(f"icmp ne i64 {epoch}, {b.op('load i64, ptr %epoch')}")
    leave = b.op(f"icmp sge i64 %index, {_atomic_load(b, pool, POOL_WANTED, 'seq_cst')}")
    _branch(b, b.op(f"or i1 {work}, {leave}"), unfit, asleep)
    b.start(asleep)
    before = _now(b, pool)
    _futex(b, pool, _FUTEX_WAIT_PRIVATE, b.op(f"zext i32 {seen} to i64"))
    slept = b.op(f"sub i64 {_now(b, pool)}, {before}")
    budget = b.op("load i64, ptr %budget")
    longer = _minmax(b, "umin", b.op(f"shl i64 {budget}, 1"), _MAX_SPIN_NS)
    shorter = _minmax(b, "umax", b.op(f"lshr i64 {budget}, 1"), _MIN_SPIN_NS)
    short = b.op(f"icmp slt i64 {slept}, {_MAX_SPIN_NS}")
    b.do(f"store i64 {b.op(f'select i1 {short}, i64 {longer}, i64 {shorter}')}, ptr %budget")
    _jump(b, awake)
    b.start(unfit)
    _jump(b, awake)
    b.start(awake)
    b.do("store i64 0, ptr %spins")


def _rest(b: FnBuilder, pool: str, target: Target) -> None:
    """One idle turn of a worker: spin, look at the clock now and then, sleep when the budget is used up.

    Without a futex the worker naps for a millisecond at a time instead.
    """
    spins = b.op("load i64, ptr %spins")
    with b.when(b.op(f"and i1 {b.op(f'icmp eq i64 {spins}, 0')}, {_has(b, pool, POOL_SYSCALL)}")):
        b.do(f"store i64 {_now(b, pool)}, ptr %since")
    b.do(f"store i64 {b.op(f'add i64 {spins}, 1')}, ptr %spins")
    _pause(b, target)
    futex, nap, end = b.label("futex"), b.label("nap"), b.label("rested")
    _branch(b, _has(b, pool, POOL_SYSCALL), futex, nap)
    b.start(futex)
    look = b.op(f"icmp eq i64 {b.op(f'and i64 {spins}, {_SPINS_PER_LOOK - 1}')}, {_SPINS_PER_LOOK - 1}")
    with b.when(look):
        _call_libc(b, pool, POOL_YIELD)
        idle = b.op(f"sub i64 {_now(b, pool)}, {b.op('load i64, ptr %since')}")
        with b.when(b.op(f"icmp ugt i64 {idle}, {b.op('load i64, ptr %budget')}")):
            _sleep(b, pool)
    _jump(b, end)
    b.start(nap)
    tired = b.op(f"icmp ugt i64 {spins}, {_SPINS_BEFORE_SLEEP}")
    with b.when(tired):
        _call_libc(b, pool, POOL_USLEEP, "i32 1000")
    _jump(b, end)
    b.start(end)


def _join_stage(b: FnBuilder, party: str) -> None:
    """Work on the stage that was just published, unless this is the caller's core, Note [Resting]."""
    core, caller = _core(b, "%pool", "-1"), _atomic_load(b, "%line", PARTY_CALLER_CORE, "monotonic")
    with b.when(b.op(f"icmp ne i64 {core}, {caller}")):
        ran = _claim_and_run(b, "%pool", party, _atomic_load(b, "%line", PARTY_PARTIES, "monotonic"))
        with b.when(b.op(f"icmp ne i64 {ran}, 0")):
            b.op(f"atomicrmw add ptr {_at(b, '%pool', POOL_DONE)}, i64 {ran} release, align 8")


def _worker_text(target: Target) -> str:
    b = FnBuilder("jitgrad_worker", "ptr %pool, i64 %index")
    for slot in ("%spins", "%since", "%budget", "%epoch", "%ran", "%core"):
        b.do(f"{slot} = alloca i64")
        b.do(f"store i64 0, ptr {slot}")
    party = b.op("add i64 %index, 1")
    offset = b.op(f"add i64 {b.op(f'mul i64 {party}, {POOL_LINE}')}, {POOL_PARTY}")
    b.do(f"%line = getelementptr i64, ptr %pool, i64 {offset}")
    b.do("%time = alloca [2 x i64]")
    b.do(f"store i64 {_FIRST_SPIN_NS}, ptr %budget")
    with _forever(b) as (_, done):
        epoch = b.op(f"lshr i64 {_atomic_load(b, '%line', PARTY_RANGE)}, 32")
        with b.when(b.op(f"icmp ne i64 {epoch}, {b.op('load i64, ptr %epoch')}")):
            b.do(f"store i64 {epoch}, ptr %epoch")
            b.do("store i64 0, ptr %spins")
            _join_stage(b, party)
        stay = b.label("stay")
        wanted = _atomic_load(b, "%pool", POOL_WANTED, "monotonic")
        _branch(b, b.op(f"icmp slt i64 %index, {wanted}"), stay, done)
        b.start(stay)
        _rest(b, "%pool", target)
    return b.finish("ret i64 0", "i64")


def driver_source(target: Target) -> KernelSource:
    """``i64 jitgrad_driver(ptr record)``, Note [Program ABI]."""
    return KernelSource("jitgrad_driver", "driver", lambda: _driver_text(target))


def worker_source(target: Target) -> KernelSource:
    """``i64 jitgrad_worker(ptr pool, i64 index)``: runs tasks until ``index`` is no longer wanted."""
    return KernelSource("jitgrad_worker", "worker", lambda: _worker_text(target))


class NativeLoops(NamedTuple):
    """The compiled driver and worker loop, for ``runtime.executor.install``. Keep it as long as they may run."""

    driver: int
    worker: int
    code: tuple[Kernel, ...]


def load() -> NativeLoops:
    """Compile the driver and the worker loop, or find them in the cache."""
    target = host_target()
    driver, worker = compile_kernels([driver_source(target), worker_source(target)])
    return NativeLoops(driver.address, worker.address, (driver, worker))
