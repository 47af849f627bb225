"""The border between code generation and the runtime: programs as plain tables.

Owns: the layout of the tables that the native driver reads, and the dataclasses that carry them.
Must not know: how kernels are made (``codegen``) or run (``runtime``).

# Note [Program ABI]
# ~~~~~~~~~~~~~~~~~~
# A kernel is ``void kernel(ptr bufs, ptr args, i64 begin, i64 end)``.
#   bufs   i64[]: one word per slot of the program, see ``NativeStep``. Pointers and run-time scalars alike.
#   args   i64[]: this launch's own constants (slot numbers, byte offsets, extents, strides), laid out by its emitter.
#   begin, end: the part of the launch's work units (rows, chunks, tiles) to do now. What a unit is never depends on
#          the number of threads, so results do not either.
# A task is five words: kernel address, address of args, begin, end, reserved.
# A stage is three words: first task, one past its last task, flags (STAGE_SHARE: worth sharing with the pool;
# STAGE_WAKE: worth waking sleeping workers for). All tasks of a stage are independent; a stage starts when the one
# before it has ended. A stage has at most MAX_STAGE_TASKS tasks.
# A program record is eight words: address of bufs, of tasks, of stages, number of stages, address of the pool block,
# address of the abort word; how many bufs after the status word hold the address of a NumPy array's object, in whose
# place the driver puts that of its elements (0 in programs that run on storages); where such an object keeps it.
# ``i64 driver(ptr record)`` returns bufs[0], the status word: 0, or what a kernel wrote there. The driver clears it
# first, and stops between tasks when the abort word is not 0, and between stages when the status word is not 0.

# Note [Pool block]
# ~~~~~~~~~~~~~~~~~
# The words that the driver and the workers share, see ``POOL_*``; words written by different threads are on different
# cache lines. EPOCH: number of the last shared stage. BUSY: a program has the pool. REST: run alone until the cycle
# counter reaches this. DONE: tasks run by workers, ever. SLEEPERS: not 0 if a worker may be in a futex wait on WAKE.
# WANTED: how many workers there should be. PARTY: a line for the caller, then one per worker, see ``PARTY_*`` and
# ``stage_sharing``, Note [Fork and join]: tasks not yet claimed; the stage's bufs, tasks and abort word; the
# number of parties; the core that the caller is on; how its floating-point unit is set, Note [Float mode]; the
# worker's thread id. PLACE: for each worker, a word that says where it is, ``PLACE_*``, then the bit mask of the cores
# that it may use, see ``placement``, Note [Waking elsewhere]. MOVED: how many workers were woken that way, ever.
# SYSCALL, USLEEP, CLOCK, YIELD, GETCPU: addresses of libc's syscall, usleep, clock_gettime, sched_yield and
# sched_getcpu; 0 where there is none. FUTEX_NUMBER, AFFINITY_NUMBER: of the system calls futex and sched_setaffinity,
# after which sched_getaffinity has the next number.
# ``i64 worker(ptr pool, i64 index)`` runs tasks until index >= WANTED.

# Note [Random kernel]
# ~~~~~~~~~~~~~~~~~~~~
# ``void random(ptr state, ptr out, i64 count, i64 kind, double a, double b)`` draws from a Mersenne Twister's state and
# writes ``count`` elements to ``out``. The state is 624 32-bit words, then int64 words: POSITION, the number of words
# of this block that are used up (624 or more: all; a state that was just seeded has FRESH); CACHED, a double, which is
# the second number of the last pair of normal ones, and HAS_CACHED, whether there is one; LIBM, the addresses of the
# C library's functions ``RANDOM_LIBM_NAMES``. Kinds:
#   WORDS      uint32, as they come.
#   UNIFORM32, UNIFORM64   float and double: a draw of 24 or 53 bits, as a fraction, times b plus a.
#   NORMAL32, NORMAL64     float and double, at least 16, with mean a and deviation b, in blocks of 16.
#   PAIRS32, PAIRS64       float and double, normal, with mean a and deviation b, in double precision, two by two, with
#              the second number kept for the next call.
#   EXPONENTIAL32, EXPONENTIAL64   float and double: log1p(-u) times a, in double precision.
#   INTEGERS   int64: a word modulo b, plus a; both are integers.
#   PERMUTE    int64: 0, 1, 2, .. count - 1, shuffled from the front: each step swaps, with a number that is left, by a
#              draw of 32 bits.
#   PERMUTE_WIDE   the same, from inside out: each number is put in where another is, by a draw of 64 bits.
#   BERNOULLI32, BERNOULLI64   float and double: b where a draw of 53 bits, as a fraction, is less than a, else 0.
#   SEED       starts the state anew; ``count`` is the seed, ``out`` is not used.
#   MAP + n    draws nothing: function n of LIBM replaces each of the doubles in ``out``.
# ``runtime/random/numpy_form.py`` does the same, to the last bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jitgrad.structs import field, struct

__all__ = [
    "MAX_PARTIES",
    "MAX_STAGE_TASKS",
    "PARTY_ABORT",
    "PARTY_BUFS",
    "PARTY_CALLER_CORE",
    "PARTY_FLOATS",
    "PARTY_PARTIES",
    "PARTY_RANGE",
    "PARTY_TASKS",
    "PARTY_THREAD",
    "PLACE_ASLEEP",
    "PLACE_AWAKE",
    "PLACE_MASK",
    "PLACE_MASK_WORDS",
    "PLACE_MOVED",
    "PLACE_MOVING",
    "PLACE_WORDS",
    "POOL_AFFINITY_NUMBER",
    "POOL_BUSY",
    "POOL_CLOCK",
    "POOL_DONE",
    "POOL_EPOCH",
    "POOL_FUTEX_NUMBER",
    "POOL_GETCPU",
    "POOL_LINE",
    "POOL_MOVED",
    "POOL_PARTY",
    "POOL_PLACE",
    "POOL_REST",
    "POOL_SLEEPERS",
    "POOL_SYSCALL",
    "POOL_USLEEP",
    "POOL_WAKE",
    "POOL_WANTED",
    "POOL_WORDS",
    "POOL_YIELD",
    "RANDOM_BERNOULLI32",
    "RANDOM_BERNOULLI64",
    "RANDOM_CACHED",
    "RANDOM_EXPONENTIAL32",
    "RANDOM_EXPONENTIAL64",
    "RANDOM_FRESH",
    "RANDOM_HAS_CACHED",
    "RANDOM_INTEGERS",
    "RANDOM_LIBM",
    "RANDOM_LIBM_NAMES",
    "RANDOM_MAP",
    "RANDOM_NORMAL32",
    "RANDOM_NORMAL64",
    "RANDOM_PAIRS32",
    "RANDOM_PAIRS64",
    "RANDOM_PERMUTE",
    "RANDOM_PERMUTE_WIDE",
    "RANDOM_POSITION",
    "RANDOM_SEED",
    "RANDOM_STATE_WORDS",
    "RANDOM_UNIFORM32",
    "RANDOM_UNIFORM64",
    "RANDOM_WORDS",
    "STAGE_SHARE",
    "STAGE_WAKE",
    "STAGE_WORDS",
    "TASK_WORDS",
    "EagerStep",
    "FlatLaunches",
    "Launch",
    "LaunchForm",
    "NativeStep",
    "Program",
    "RunRecord",
    "TimedRuns",
    "flat_launches",
]

TASK_WORDS = 5
STAGE_WORDS = 3
STAGE_SHARE, STAGE_WAKE = 1, 2
MAX_STAGE_TASKS = 65535

MAX_PARTIES = 256

POOL_LINE = 8  # words per cache line
POOL_EPOCH, POOL_BUSY, POOL_REST = 0, 1, 2
POOL_DONE = 8
POOL_SLEEPERS, POOL_WAKE = 16, 17
POOL_WANTED = 24
POOL_SYSCALL, POOL_FUTEX_NUMBER, POOL_USLEEP, POOL_CLOCK, POOL_YIELD, POOL_GETCPU = 32, 33, 34, 35, 36, 37
POOL_AFFINITY_NUMBER = 38
POOL_MOVED = 40
POOL_PARTY = 64
# words of a party's line
PARTY_RANGE, PARTY_BUFS, PARTY_TASKS, PARTY_ABORT, PARTY_PARTIES = range(5)
PARTY_CALLER_CORE, PARTY_FLOATS, PARTY_THREAD = range(5, 8)
POOL_PLACE = POOL_PARTY + POOL_LINE * MAX_PARTIES
PLACE_WORDS, PLACE_MASK, PLACE_MASK_WORDS = 24, 8, 16  # masks of up to 1024 cores
PLACE_AWAKE, PLACE_ASLEEP, PLACE_MOVING, PLACE_MOVED = range(4)
POOL_WORDS = POOL_PLACE + PLACE_WORDS * MAX_PARTIES

# int64 words of a random state, see Note [Random kernel]
RANDOM_POSITION, RANDOM_CACHED, RANDOM_HAS_CACHED, RANDOM_LIBM = 312, 313, 314, 315
RANDOM_LIBM_NAMES = ("log", "log1p", "cos", "sin", "exp", "tan")
RANDOM_STATE_WORDS = RANDOM_LIBM + len(RANDOM_LIBM_NAMES)
RANDOM_FRESH = 625
RANDOM_WORDS, RANDOM_UNIFORM32, RANDOM_UNIFORM64, RANDOM_NORMAL32, RANDOM_NORMAL64 = 0, 1, 2, 3, 4
RANDOM_PAIRS32, RANDOM_PAIRS64, RANDOM_PERMUTE, RANDOM_PERMUTE_WIDE, RANDOM_SEED = 5, 6, 7, 8, 9
RANDOM_BERNOULLI32, RANDOM_BERNOULLI64, RANDOM_EXPONENTIAL32, RANDOM_EXPONENTIAL64 = 10, 11, 12, 13
RANDOM_INTEGERS, RANDOM_MAP = 14, 15


@struct
class Launch:
    """One kernel over one range of work units.

    Attributes:
        kernel: address of the compiled kernel.
        args: its argument words.
        units: number of work units; the launch covers [0, units).
        grain: units per task; tasks are cut at multiples of it.
        cost: estimated nanoseconds on one core, to decide whether sharing pays.
        name: for logs.
    """

    kernel: int
    args: tuple[int, ...]
    units: int
    grain: int
    cost: float
    name: str = ""


@struct
class LaunchForm:
    """What of a step's launches is the same for all extents.

    Attributes:
        kernels, names: of each launch.
        counts: argument words of each.
        offsets: bytes before them.
        stages: launches of each stage.
        ends_stage: whether a launch is the last one of its stage.
    """

    kernels: tuple[int, ...]
    names: tuple[str, ...]
    counts: tuple[int, ...]
    offsets: tuple[int, ...]
    stages: tuple[int, ...]
    ends_stage: tuple[bool, ...]


@struct
class FlatLaunches:
    """A step's launches as they are loaded: of a program that is filled in for other extents, for one run perhaps.

    Attributes:
        words: of all launches, one after another.
        units, grains, costs: of each launch.
    """

    form: LaunchForm
    words: tuple[int, ...]
    units: tuple[int, ...]
    grains: tuple[int, ...]
    costs: tuple[float, ...]

    def stages(self) -> tuple[tuple[Launch, ...], ...]:
        """The launches, for those who look at them one by one."""
        form, found, at = self.form, [], 0
        rows = zip(form.kernels, form.counts, self.units, self.grains, self.costs, form.names, strict=True)
        for kernel, count, units, grain, cost, name in rows:
            found.append(Launch(kernel, self.words[at : at + count], units, grain, cost, name))
            at += count
        following = iter(found)
        return tuple([tuple([next(following) for _ in range(count)]) for count in form.stages])


def flat_launches(stages: Sequence[Sequence[Launch]]) -> FlatLaunches:
    """The launches of some stages."""
    all_ = [launch for stage in stages for launch in stage]
    kernels, names, counts = ([x.kernel for x in all_], [x.name for x in all_], [len(x.args) for x in all_])
    offsets = tuple([8 * n for n in (0, *itertools.accumulate(counts))][:-1])
    ends_stage = tuple([nr == len(stage) for stage in stages for nr, _ in enumerate(stage, 1)])
    form = LaunchForm(tuple(kernels), tuple(names), tuple(counts), offsets, tuple(map(len, stages)), ends_stage)
    words = tuple([word for x in all_ for word in x.args])
    return FlatLaunches(
        form, words, tuple([x.units for x in all_]), tuple([x.grain for x in all_]), tuple([x.cost for x in all_])
    )


@struct
class NativeStep:
    """A run of stages, done by one native call.

    Slots of ``bufs``: 0 the status word; then one per entry of ``inputs`` (addresses of the storages), one per entry of
    ``outputs`` (addresses), one for the arena, one per entry of ``scalars`` (a double's or an int64's bits).

    Attributes:
        inputs: value ids read (or written in place) from existing storages.
        outputs: (value id, nbytes) stored to fresh buffers.
        arena_nbytes: size of the scratch block.
        scalars: (run-time scalar slot, is_float).
        stages: launches that are independent of each other, stage by stage.
        keep_alive: whatever owns the kernels' code.
        flat: what ``stages`` are made of when somebody looks at them; None once they are.
    """

    inputs: tuple[int, ...]
    outputs: tuple[tuple[int, int], ...]
    arena_nbytes: int
    scalars: tuple[tuple[int, bool], ...]
    stages: tuple[tuple[Launch, ...], ...]
    keep_alive: Any = None
    flat: FlatLaunches | None = None
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            flat = self.flat if name == "stages" else None
            if flat is None:
                raise AttributeError(f"NativeStep has no attribute {name!r}")
            self.stages, self.flat = flat.stages(), None
            return self.stages


@struct
class EagerStep:
    """One recorded operation that has no lowering: run by its NumPy rule. ``instr`` is the tracer's ``graph.Instr``."""

    instr: Any
    reason: str


@struct
class Program:
    """A compiled segment.

    Attributes:
        steps: in order.
        outputs: value ids that the segment hands out, with their byte sizes.
        kernel_names, notes: for ``explain``.
        interpreted: no steps: it could not be compiled, so every operation of the segment is run by its NumPy rule.
    """

    steps: list[NativeStep | EagerStep]
    outputs: tuple[tuple[int, int], ...]
    kernel_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    text: dict[str, str] = field(default_factory=dict)
    interpreted: bool = False


class TimedRuns:
    """Records of a step whose tasks are timed, Note [Timed kernels]: runs that need nothing done before or after them.

    Attributes:
        idle: records that no thread is using.
        left: how many runs have room in the log.
    """

    __slots__ = ("idle", "left")

    idle: list[Any]
    left: int

    def __init__(self) -> None:
        self.idle, self.left = [], 0


class RunRecord:
    """A program record that one run at a time owns, as native code sees it.

    Attributes:
        bufs_addr: of its bufs.
        record_addr: what the driver is called with.
    """

    __slots__ = ("bufs_addr", "record_addr")

    bufs_addr: int
    record_addr: int
