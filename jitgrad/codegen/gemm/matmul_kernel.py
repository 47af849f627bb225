"""Matrix products: operands as strided views of memory, and the epilogue made of a group's other roots.

Owns: ``operand_views``, ``matmul_kernel``.
Must not know: the register tile, how roots were grouped.
In: a matmul value and its group's body. Out: ``MatmulKernel``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from jitgrad.codegen.fusion.domain import Domain, Refuse, Resplit
from jitgrad.codegen.fusion.lower import Lowerer
from jitgrad.codegen.gemm import GEMM_ARGS, Epilogue, GemmSpec, choose_spec, panels_spec
from jitgrad.codegen.gemm.windows import Product, is_implicit, product_of, windows_spec
from jitgrad.codegen.llvm.target import Target, host_target
from jitgrad.codegen.llvm.text import FnBuilder, Isa
from jitgrad.codegen.loops.emit_instrs import InstrPrinter
from jitgrad.codegen.loops.emit_memory import Scope
from jitgrad.codegen.primitives.builder import Value, memory_of
from jitgrad.codegen.primitives.cost import op_cost
from jitgrad.codegen.schedule.alike import Alike, outline_of
from jitgrad.codegen.schedule.kernel_ir import ACCESSES, KernelInstr
from jitgrad.codegen.schedule.loop_body import LoopBody
from jitgrad.codegen.schedule.nest import epilogue_instrs

__all__ = ["FusedEpilogue", "MatmulKernel", "View", "matmul_kernel", "operand_views"]

View = tuple[Value, int, tuple[Any, ...]]
"""The value in memory, the offset of its first element; strides of batch, row and column, or their digits."""


def operand_views(product: Value, stored: Mapping[Value, Any]) -> list[View]:
    """Per operand: the value in memory, its element offset, its three strides.

    Raises:
        Refuse: an operand is no strided view of memory; ``store`` is what must be copied.
    """
    root = stored[product]
    if root.views is None:
        views = [_view(x, stored) for x in product.srcs]
        windows_of(product, views)
        root.views = views
    found: list[View] = root.views
    return found


def _view(x: Value, stored: Mapping[Value, Any]) -> View:
    if x.op == "windows":
        return _windows_view(x)
    if x.op == "panels":  # GemmSpec.b_unit says what these strides mean
        return x.srcs[0], 0, (0, x.params[0], x.shape[1])
    base, key = _way_to_memory(x, stored)
    known = _WAYS.get(key)
    if known is None:
        view = _lowered_view(x, stored)
        if view[0] is base:
            if len(_WAYS) >= _MAX_WAYS:
                _WAYS.clear()
            _WAYS[key] = view[1:]
        return view
    return base, *known


_WAYS: dict[Any, tuple[int, tuple[Any, ...]]] = {}  # what is between an operand and memory -> offset and strides
_MAX_WAYS = 4096
_MOVES = frozenset({"reshape", "permute", "expand", "slice"})


def _way_to_memory(x: Value, stored: Mapping[Value, Any]) -> tuple[Value, Any]:
    """What ``x`` is moved from, and all that its view depends on."""
    moves = []
    while x not in stored and x.op in _MOVES:
        moves.append((x.op, x.params, x.shape))
        x = x.srcs[0]
    return x, (tuple(moves), x.params[1] if x.op == "input" else x.shape if x in stored else None)


def _lowered_view(x: Value, stored: Mapping[Value, Any]) -> View:
    lowerer = Lowerer(Domain(x.shape), stored)
    try:
        reg = lowerer.value_at(x, lowerer.domain.full_identity())
    except (Refuse, Resplit):
        raise Refuse("an operand of a matrix product must be a strided view", x) from None
    load = lowerer.instrs[reg]
    if load.op != "load" or load.srcs or load.address is None:
        raise Refuse("an operand of a matrix product must lie in memory", x)
    _, *strides = load.address
    return load.extra[0], load.address[0], (strides[0], strides[1], strides[2])


def _windows_view(x: Value) -> View:
    memory, (offset, dims, _) = memory_of(x), x.params
    if not host_target().has_masks:
        raise Refuse("this target's products have no windows", x)
    if memory.op == "input":
        if not memory.params[1].is_contiguous:
            raise Refuse("windows are read of what lies in memory row by row", memory)
        offset += memory.params[1].offset
    return memory, offset, dims


class FusedEpilogue(Epilogue):
    """A group's pointwise roots, done on each finished vector of the product. See ``spec.Epilogue``."""

    def __init__(self, instrs: tuple[KernelInstr, ...], words: int, width: int, repeatable: bool, isa: Isa) -> None:
        self.instrs, self.words, self.width, self.repeatable, self.isa = instrs, words, width, repeatable, isa
        self.cost = sum(op_cost(i.op) + (i.op in ACCESSES) for i in instrs)

    def prepare(self, b: FnBuilder) -> None:
        b.isa = self.isa
        self._printer = printer = InstrPrinter(b, self.instrs, 2, self.width, GEMM_ARGS)
        self._entry = Scope()
        printer.load_words(self.words)
        printer.find_dependencies(0)
        printer.base_addresses(self._entry)
        self._once: set[int] = set()
        for n, instr in enumerate(self.instrs):
            if not printer.deps[n] and instr.op not in ("store", "acc", "check") and self._once.issuperset(instr.srcs):
                self._once.add(n)
                printer.emit(self._entry, n)

    def __call__(self, b: FnBuilder, acc: str, width: int, batch: str, row: str, col: str, mask: str | None) -> None:
        printer = self._printer
        printer.width = width
        scope = Scope(self._entry, {0: batch, 1: row, 2: col}, mask)
        for n, instr in enumerate(self.instrs):
            if instr.op == "acc":
                scope.regs[n] = acc
            elif n not in self._once:
                printer.emit(scope, n)


@dataclass(slots=True, eq=False)
class MatmulKernel:
    """A matrix product to launch.

    Attributes:
        spec, epilogue: its text.
        shape: (batch, m, n, k).
        views: the operands.
        buffers: where the operands' values are.
        words: the epilogue's argument words, see ``kernel_ir.LoopKernel``.
        windows: what an implicit product multiplies, see Note [Windows].
    """

    spec: GemmSpec
    epilogue: FusedEpilogue
    shape: tuple[int, int, int, int]
    views: list[View]
    buffers: list[Any]
    words: list[Any]
    windows: Product | None = None


def windows_of(product: Value, views: list[View]) -> Product | None:
    """What an implicit product multiplies; None for an ordinary one."""
    if not any(is_implicit(view[2]) for view in views):
        return None
    (batch, m, k), n = product.srcs[0].shape, product.shape[2]
    found = product_of((batch, m, n, k), views[0][2], views[1][2])
    if isinstance(found, int):
        raise Refuse("a batch that is not made of images and groups", product.srcs[found])
    columns = product.srcs[1]
    return found._replace(seen=columns.params[2]) if columns.op == "windows" else found


class _EpilogueBody(NamedTuple):
    """An epilogue's instructions, its argument words, and how many words these are."""

    instrs: tuple[KernelInstr, ...]
    words: list[Any]
    num_words: int


def _epilogue_body(product: Value, body: LoopBody, target: Target, alike: Alike) -> _EpilogueBody:
    """See Note [Kernels alike]."""
    outline = outline_of(body)
    key = (product.shape, outline.key)
    found = alike.find(key, outline)
    if found is not None:
        known, words = found
        return _EpilogueBody(known.instrs, words, known.num_words)
    made = _EpilogueBody(*epilogue_instrs(body, product.shape, target))
    alike.add(key, outline, body, made)
    return made


def matmul_kernel(
    product: Value, stored: Mapping[Value, Any], body: LoopBody, target: Target, alike: Alike
) -> MatmulKernel:
    """Choose the micro-kernel and print-ready epilogue of a product's group."""
    (batch, m, k), n = product.srcs[0].shape, product.shape[2]
    views = operand_views(product, stored)
    instrs, words, count = _epilogue_body(product, body, target, alike)
    read = {id(body.buffer_of(i.extra[0])) for i in body.instrs if i.op in ("load", "gather")}
    repeatable = not any(id(store.buffer) in read for store in body.stores)
    key = (instrs, count, repeatable)
    windows = windows_of(product, views)
    panels = product.srcs[1]
    if panels.op == "panels":
        spec = panels_spec(product.dtype, m, n, k, panels.params[0], key, target)
    elif windows is None:
        spec = choose_spec(product.dtype, m, n, k, batch, views[0][2], views[1][2], key, target)
    else:
        spec = windows_spec(product.dtype, windows, key, target)
    isa = target.isa
    epilogue = FusedEpilogue(instrs, count, spec.width, repeatable, isa)
    return MatmulKernel(spec, epilogue, (batch, m, n, k), views, [body.buffer_of(v[0]) for v in views], words, windows)
