"""What a piece looks like after each pass, as text for logs and for docs/codegen.md.

Owns: the ``show_...`` functions of ``PIPELINE``.
Must not know: how passes decide.
In: a ``Piece``. Out: lines.

Values are numbered in the order in which they are needed: ``v3 = mul v1 v2``; the same numbers name the roots of
groups. Addresses are in elements: ``i0 * 3 + i1``, with one index per loop of the kernel's domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jitgrad.codegen.fusion.fuse import Group
from jitgrad.codegen.fusion.index_map import Expr, Range
from jitgrad.codegen.fusion.lower import LoopInstr
from jitgrad.codegen.piece import Piece
from jitgrad.codegen.plan import Buffer, Job
from jitgrad.codegen.primitives.builder import Value
from jitgrad.codegen.primitives.simplify import topological
from jitgrad.codegen.routines.routine_kernel import RoutineKernel
from jitgrad.codegen.schedule.kernel_ir import ACCESSES, COMBINING, BufferArg, KernelInstr, LoopKernel

__all__ = ["show_destinations", "show_groups", "show_plan", "show_values"]


def _numbers(piece: Piece) -> dict[Value, str]:
    return {v: f"v{n}" for n, v in enumerate(topological(piece.results))}


def show_values(piece: Piece) -> str:
    """The primitives, and which of them are results."""
    names = _numbers(piece)
    lines = [f"  {name} = {_value_text(v, names)}" for v, name in names.items()]
    results = [names[v] for v in piece.results]
    outputs = [f"{name} -> output %{vid}" for vid, name in zip(piece.outputs, results, strict=False)]
    into = [number for number, _, _ in piece.stores] or [number for _, number in piece.writes]
    stores = [f"{name} -> input %{vid}" for vid, name in zip(into, results[len(outputs) :], strict=False)]
    return "\n".join([*lines, "  " + ", ".join(outputs + stores)])


def _value_text(v: Value, names: dict[Value, str]) -> str:
    params = v.params
    if v.op == "input":
        params = (f"%{v.params[0]}",)
    elif v.op == "scalar":
        params = (f"argument {v.params[0].slot}",)
    elif v.op in ("expand", "reshape"):  # its shape, which stands at the end
        params = ()
    elif not isinstance(params, tuple):
        params = (params,)
    words = [v.op, *(names[s] for s in v.srcs), *(str(p) for p in params)]
    return f"{' '.join(words)}: {v.dtype.name}{list(v.shape)}"


def show_groups(piece: Piece) -> str:
    """Each group's roots and instructions."""
    names = _numbers(piece)
    lines = []
    for number, group in enumerate(piece.groups):
        computed = ", ".join(names[root.value] for root in group.roots)
        lines.append(f"  group {number} ({group.kind} over {_loops(group)}{_reduced(group)}) computes {computed}")
        lines += [f"    {n} {_instr_text(i, names)}" for n, i in enumerate(group.lowerer.instrs)]
    lines += [f"  {note}" for note in piece.notes]
    return "\n".join(lines)


def _loops(group: Group) -> str:
    return " ".join(f"i{d} < {n}" for d, n in enumerate(group.lowerer.domain.extents)) or "one element"


def _reduced(group: Group) -> str:
    if not group.reduced:
        return ""
    loops = [f"i{loop}" for d in sorted(group.reduced) for loop in group.lowerer.domain.loops_of(d)]
    chunks = f" in {group.chunks} chunks" if group.chunks > 1 else ""
    return f", {' '.join(loops)} reduced{chunks}"


def _instr_text(i: LoopInstr, names: dict[Value, str]) -> str:
    words = [i.op, i.dtype.name, *map(str, i.srcs)]
    if i.op in ("load", "gather") or i.op in COMBINING:
        words.append(names[i.extra[0]])
    elif i.op == "mask":
        words.append(" and ".join(_range_text(r) for r in i.extra))
    elif i.op == "scalar":
        words.append(f"argument {i.extra[0].slot}")
    elif i.op in ("const", "check"):
        words.append(str(i.extra[0]))
    if i.address is not None:
        words.append("at " + _address_text(i.address))
    return " ".join(words)


def _range_text(r: Range) -> str:
    return f"{r.lo} <= i{r.dim} < {r.hi}"


def _address_text(address: Expr) -> str:
    terms = [f"i{d}" if c == 1 else f"i{d} * {c}" for d, c in enumerate(address[1:]) if c]
    if address[0] or not terms:
        terms.append(str(address[0]))
    return " + ".join(terms)


def show_destinations(piece: Piece) -> str:
    """Where each root is stored; the plan adds temporaries."""
    names = _numbers(piece)
    lines = []
    for v, root in piece.roots.items():
        places = [f"{_buffer_text(d.buffer)} strides {list(d.strides)} from {d.offset}" for d in root.destinations]
        lines.append(f"  {names[v]} -> {', '.join(places) or 'read by other kernels only'}")
    return "\n".join(lines)


def _buffer_text(buffer: Buffer) -> str:
    return f"arena[{buffer.offset}]" if buffer.kind == "arena" else f"{buffer.kind} %{buffer.vid}"


def show_plan(piece: Piece) -> str:
    """Stages, kernels, their loops and the instructions as they will be printed."""
    plan = piece.plan
    if plan is None:
        return "  no plan"
    lines = []
    for number, stage in enumerate(plan.stages):
        lines.append(f"  stage {number}")
        for job in stage:
            lines += [f"    {line}" for line in _job_lines(job)]
    return "\n".join([*lines, f"  arena of {plan.arena_nbytes} bytes"])


def _job_lines(job: Job) -> Iterable[str]:
    kernel = job.kernel
    if kernel is None:
        return
    if isinstance(kernel, RoutineKernel):
        yield f"routine {kernel.call}: {kernel.units} units of work"
        for buffer, offset, nbytes, is_written in kernel.buffers:
            yield f"  {'writes' if is_written else 'reads'} {nbytes} bytes of {_buffer_text(buffer)} + {offset}"
        return
    if isinstance(kernel, LoopKernel):
        key = kernel.key
        dims = [str(n) for n in kernel.words[: key.vec + 1]]
        units, seqs = dims[: key.units], dims[key.units : key.vec]
        parts = [f"units {' x '.join(units)}"] if units else []
        parts += [f"loop of {' x '.join(seqs)}"] if seqs else []
        parts += [f"{key.width} lanes along {dims[key.vec]}"]
        yield f"{key.form}: {', '.join(parts)}; {kernel.units} units of work"
        instrs, words = key.instrs, kernel.words
    else:
        batch, m, n, k = kernel.shape
        spec = kernel.spec
        yield f"matmul: {batch} x [{m}, {k}] x [{k}, {n}]; tile of {spec.rows} rows x {spec.columns} columns"
        yield "  operands " + ", ".join(_buffer_text(b) for b in kernel.buffers)
        instrs, words = kernel.epilogue.instrs, kernel.words
    buffers = _by_word(words)
    for n, i in enumerate(instrs):
        yield f"  {n} {_kernel_instr_text(i, buffers)}"


def _by_word(words: Sequence[Any]) -> dict[int, str]:
    """Number of an argument word -> what stands there."""
    found: dict[int, str] = {}
    at = 0
    for word in words:
        found[at] = f"{_buffer_text(word.buffer)} + {word.offset}" if isinstance(word, BufferArg) else str(word)
        at += 2 if isinstance(word, BufferArg) else 1
    return found


def _kernel_instr_text(i: KernelInstr, words: dict[int, str]) -> str:
    """Accesses name their buffer, the offset in bytes, and the stride class per dim (see ``KernelInstr``)."""
    parts = [i.op, i.dtype, *map(str, i.srcs)]
    if i.op in ACCESSES:
        parts += [words[i.word], str(i.static)]
    elif i.op == "const":
        parts.append(i.static[0])
    elif i.op == "number":
        parts.append(f"word {i.word}")
    return " ".join(parts)
