"""The cores that sleeping workers are woken on, as LLVM IR.

Owns: the words ``PLACE_*`` of the pool block, the affinity of workers.
Must not know: stages, tasks.

# Note [Waking elsewhere]
# ~~~~~~~~~~~~~~~~~~~~~~~
# A kernel that wakes a thread may put it on the core of the thread that woke it. Linux does so in virtual machines when
# the other cores have been idle for some 50 ms: the host has then taken those cores back, and Linux takes a core that
# the host has taken back for a busy one. On the caller's core a worker can only wait, Note [Resting], and the stage
# takes as long as with one thread. Example: a step of 10 ms after each pause of 0.1 s took 10 ms instead of 5.
# So the caller takes its own core out of the sleeping worker's affinity before it wakes the worker. The worker is on
# another core then, and puts its affinity back when it has nothing to do. Where only the caller's core is allowed, the
# system refuses the empty set, and nothing changes.
# A place says who may touch the affinity, so that a core that was taken out can never stay out:
#   AWAKE    only the worker may.
#   ASLEEP   the worker is about to sleep, or sleeps: a caller may take the place.
#   MOVING   a caller changes the affinity. The worker may be awake by now; it does not sleep before the caller is done.
#   MOVED    the caller has changed it: the worker puts back what the place's mask says, and is AWAKE.
# The mask is read before each change, so that a worker keeps what somebody else set while it slept.
"""

from __future__ import annotations

from jitgrad.abi import (
    PARTY_THREAD,
    PLACE_ASLEEP,
    PLACE_AWAKE,
    PLACE_MASK,
    PLACE_MASK_WORDS,
    PLACE_MOVED,
    PLACE_MOVING,
    PLACE_WORDS,
    POOL_AFFINITY_NUMBER,
    POOL_LINE,
    POOL_MOVED,
    POOL_PARTY,
    POOL_PLACE,
    POOL_SYSCALL,
    POOL_WANTED,
)
from jitgrad.codegen.driver.native_text import (
    at,
    atomic_load,
    atomic_store,
    core_number,
    has,
    load_word,
)
from jitgrad.codegen.llvm.text import FnBuilder

__all__ = ["fall_asleep", "mask_slot", "move_sleepers", "place_of", "put_back", "wake_up"]

_MASK_BYTES = 8 * PLACE_MASK_WORDS


def mask_slot(b: FnBuilder) -> None:
    """Room for the mask of the cores without the caller's, once for each function that calls ``move_sleepers``."""
    b.do(f"%cores = alloca [{PLACE_MASK_WORDS} x i64]")


def place_of(b: FnBuilder, pool: str, index: str) -> str:
    """The address of a worker's place."""
    return at(b, pool, b.op(f"add i64 {b.op(f'mul i64 {index}, {PLACE_WORDS}')}, {POOL_PLACE}"))


def _affinity(b: FnBuilder, pool: str, number: str, thread: str, mask: str) -> str:
    """sched_setaffinity(2) or sched_getaffinity(2), through libc's ``syscall``."""
    call = load_word(b, pool, POOL_SYSCALL, "ptr")
    return b.op(f"call i64 (i64, ...) {call}(i64 {number}, i64 {thread}, i64 {_MASK_BYTES}, ptr {mask})")


def _take(b: FnBuilder, place: str, before: int, after: int) -> str:
    """Go from one state of a place to another; whether this thread did."""
    swap = b.op(f"cmpxchg ptr {place}, i64 {before}, i64 {after} acq_rel monotonic, align 8")
    return b.op(f"extractvalue {{ i64, i1 }} {swap}, 1")


def fall_asleep(b: FnBuilder, place: str) -> None:
    """Say that this worker is about to sleep."""
    atomic_store(b, str(PLACE_ASLEEP), place, 0, "monotonic")


def wake_up(b: FnBuilder, place: str) -> None:
    """Say that this worker is awake, if no caller has its place."""
    _take(b, place, PLACE_ASLEEP, PLACE_AWAKE)


def put_back(b: FnBuilder, pool: str, place: str) -> str:
    """Take back the core that a caller has taken out of this worker's affinity; whether the worker may sleep."""
    with b.when(b.op(f"icmp eq i64 {atomic_load(b, place, 0)}, {PLACE_MOVED}")):
        _affinity(b, pool, load_word(b, pool, POOL_AFFINITY_NUMBER), "0", at(b, place, PLACE_MASK))
        atomic_store(b, str(PLACE_AWAKE), place, 0, "monotonic")
    return b.op(f"icmp eq i64 {atomic_load(b, place, 0, 'monotonic')}, {PLACE_AWAKE}")


def move_sleepers(b: FnBuilder, pool: str) -> None:
    """Take the caller's core out of the affinity of each worker that sleeps. The caller holds the pool."""
    core = core_number(b, pool, "-2")
    known = b.op(f"icmp ult i64 {core}, {64 * PLACE_MASK_WORDS}")
    with b.when(b.op(f"and i1 {known}, {has(b, pool, POOL_AFFINITY_NUMBER)}")):
        workers = atomic_load(b, pool, POOL_WANTED, "monotonic")
        with b.loop("0", workers) as index:
            _move(b, pool, index, core)


def _move(b: FnBuilder, pool: str, index: str, core: str) -> None:
    line = at(b, pool, b.op(f"add i64 {b.op(f'mul i64 {index}, {POOL_LINE}')}, {POOL_PARTY + POOL_LINE}"))
    thread = atomic_load(b, line, PARTY_THREAD, "monotonic")
    with b.when(b.op(f"icmp ne i64 {thread}, 0")):
        _move_thread(b, pool, place_of(b, pool, index), thread, core)


def _move_thread(b: FnBuilder, pool: str, place: str, thread: str, core: str) -> None:
    with b.when(_take(b, place, PLACE_ASLEEP, PLACE_MOVING)):
        mask = at(b, place, PLACE_MASK)
        setter = load_word(b, pool, POOL_AFFINITY_NUMBER)
        _affinity(b, pool, b.op(f"add i64 {setter}, 1"), thread, mask)
        _copy_without(b, mask, "%cores", core)  # empty where the mask could not be read, as on more cores than it has
        done = b.op(f"icmp eq i64 {_affinity(b, pool, setter, thread, '%cores')}, 0")
        moved = b.op(f"add i64 {load_word(b, pool, POOL_MOVED)}, {b.op(f'zext i1 {done} to i64')}")
        b.do(f"store i64 {moved}, ptr {at(b, pool, POOL_MOVED)}")
        state = b.op(f"select i1 {done}, i64 {PLACE_MOVED}, i64 {PLACE_AWAKE}")
        atomic_store(b, state, place, 0, "release")


def _copy_without(b: FnBuilder, mask: str, copy: str, core: str) -> None:
    """A mask of cores, less one."""
    with b.loop("0", str(PLACE_MASK_WORDS)) as index:
        b.do(f"store i64 {load_word(b, mask, index)}, ptr {at(b, copy, index)}")
    word = at(b, copy, b.op(f"lshr i64 {core}, 6"))
    bit = b.op(f"shl i64 1, {b.op(f'and i64 {core}, 63')}")
    others = b.op(f"and i64 {load_word(b, word, 0)}, {b.op(f'xor i64 {bit}, -1')}")
    b.do(f"store i64 {others}, ptr {word}")
