"""Which values of a segment lie in the arena, from which stage to which.

Owns: ``Temporary``, ``Stage``, ``stages_of``.
Must not know: how memory is shown.
In: a segment and its program. Out: the stages of its native steps, and the temporaries that live in each.
"""

from __future__ import annotations

from dataclasses import dataclass

from jitgrad.abi import Program
from jitgrad.codegen.piece import Piece
from jitgrad.codegen.pipeline import plan_parts
from jitgrad.codegen.plan import Buffer, Job
from jitgrad.compiled.kernel_costs import job_line, job_words, jobs_of
from jitgrad.tracer.recording.graph import Segment

__all__ = ["Stage", "Temporary", "stages_of"]


@dataclass(frozen=True, slots=True)
class Temporary:
    """A value that kernels hand to kernels: it has a place in the arena, and no storage.

    Attributes:
        what: the operations that make it.
        where: the user's line.
        until: the operations that read it last.
        nbytes: its size.
    """

    what: str
    where: str
    until: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class Stage:
    """Kernels that are independent of each other.

    Attributes:
        what: the operations that they hold.
        where: the line of the first.
        arena_nbytes: size of the arena that the native step of the stage has.
        temporaries: what lives in it meanwhile.
    """

    what: str
    where: str
    arena_nbytes: int
    temporaries: tuple[Temporary, ...]


def stages_of(segment: Segment, program: Program) -> list[Stage]:
    """Every stage of the segment's native steps, in order; empty where it runs without kernels."""
    if program.interpreted:
        return []
    found: list[Stage] = []
    for part, piece in plan_parts(segment):
        if piece.plan is not None:
            found += _of_piece(piece, part)
    return found


def _of_piece(piece: Piece, segment: Segment) -> list[Stage]:
    assert piece.plan is not None
    stages = jobs_of(piece)
    places = {job: nr for nr, stage in enumerate(stages) for job in stage}
    lifetimes: dict[Buffer, tuple[int, int, Temporary]] = {}
    for job in places:
        for store in job.stores:
            if store.buffer.kind == "arena" and store.buffer not in lifetimes:
                lifetimes[store.buffer] = _lifetime(store.buffer, job, places, piece, segment)
        for buffer in job.results:
            if buffer.kind == "arena" and buffer not in lifetimes:
                lifetimes[buffer] = _lifetime(buffer, job, places, piece, segment)
    return [
        Stage(
            "; ".join(dict.fromkeys(" ".join(job_words(piece, segment, job)) for job in stage)),
            job_line(piece, segment, stage[0]),
            piece.plan.arena_nbytes,
            tuple(t for first, last, t in lifetimes.values() if first <= nr <= last),
        )
        for nr, stage in enumerate(stages)
    ]


def _lifetime(
    buffer: Buffer, maker: Job, places: dict[Job, int], piece: Piece, segment: Segment
) -> tuple[int, int, Temporary]:
    """Its first and last stage, and what it is."""
    touched = sorted({places[job]: job for job in (*buffer.writers, *buffer.readers) if job in places}.items())
    (first, _), (last, reader) = touched[0], touched[-1]
    what, until = (" ".join(job_words(piece, segment, job)) for job in (maker, reader))
    return first, last, Temporary(what, job_line(piece, segment, maker), until, buffer.nbytes)
