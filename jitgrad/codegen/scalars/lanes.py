"""Functions of scalars for all lanes of a vector at once.

Owns: ``print_lanes``: masks, loops that run until all lanes are done, and the choice of vector code per instruction.
Must not know: kernels, derivatives.
In: a ``Routine``. Out: the definition of ``{lanes...} @name(ptr bufs, mask, lanes...)`` as text.

# Note [Lanes]
# ~~~~~~~~~~~~
# Every block is computed for all lanes, one after another in the order of ``loops.nested``; a mask per edge says which
# lanes went along it, and a phi chooses by these masks. A loop runs until no lane is in it. What a lane carries out of
# a loop is taken when it leaves, so what the loop does to it afterwards does not matter; nothing has effects, and the
# divisor of an integer division is 1 where a lane is not there. Lanes that do not count (a tail's) are in no block, so
# no loop waits for them. A mask is combined by ``select``: what a lane that is not there compares may be poison.
# Each round of a loop looks at the program's status word: once it is set, by an index out of range or by Ctrl-C (Note
# [Interrupting a native step]), the loop ends, and nobody reads what it computed.
# Example: ``while x > 1: x = x / 2`` of lanes 8, 1, 3: three rounds with the masks 101, 101, 100.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from jitgrad.codegen.llvm.dtype_text import of
from jitgrad.codegen.llvm.text import FnBuilder, Isa, vector_type
from jitgrad.codegen.scalars.loops import Loop, nested
from jitgrad.codegen.scalars.maths import digamma, trigamma
from jitgrad.codegen.scalars.ssa import CASTS, INTRINSICS, Block, Routine, Term
from jitgrad.codegen.vmath.core import Lanes, select
from jitgrad.codegen.vmath.pointwise import EMIT, emit_pointwise

__all__ = ["PER_LANE", "print_lanes", "result_type"]

Edge = tuple[Block, Block]

_AS_PRIMITIVE = {"fabs": "abs", "rint": "round", "fmod": "fmod"}
PER_LANE = frozenset("asinh acosh atanh erfc lgamma tgamma hypot cbrt round".split())
"""Functions that are called in the C library, lane by lane."""
_WHOLE = frozenset({"minnum", "maxnum", "minimum", "maximum"})
_DIVISIONS = frozenset({"sdiv", "srem", "udiv", "urem"})


def print_lanes(function: Routine, name: str, width: int, isa: Isa) -> tuple[str, str]:
    """The function's declarations and its definition, internal to the module it stands in."""
    return _LanePrinter(function, name, width, isa).print()


def result_type(count: int, width: int) -> str:
    """The LLVM type of what the printed function returns."""
    return "{ " + ", ".join([vector_type(width, "double")] * count) + " }"


class _LanePrinter:
    def __init__(self, function: Routine, name: str, width: int, isa: Isa) -> None:
        self.function, self.width = function, width
        params = [f"{vector_type(width, p.type)} %a{n}" for n, p in enumerate(function.params)]
        signature = ", ".join(["ptr %bufs", f"{vector_type(width, 'i1')} %mask", *params])
        self.b = FnBuilder(name, signature, isa)
        self.values: dict[Term, Lanes] = {p: self._lanes(p.type, f"%a{n}") for n, p in enumerate(function.params)}
        self.edges: dict[Edge, Lanes] = {}
        self.carried: dict[tuple[Edge, Term], Lanes] = {}
        self.before = function.predecessors()

    def print(self) -> tuple[str, str]:
        self._items(nested(self.function), self._lanes("i1", "%mask"))
        kind, total = result_type(len(self.function.results), self.width), "poison"
        for n, node in enumerate(self.function.results):
            total = self.b.op(f"insertvalue {kind} {total}, {self._value(node).typed}, {n}")
        text = self.b.finish(f"ret {kind} {total}", f"internal {kind}")
        head, _, definition = text.partition("\n\ndefine ")
        return head, "define " + definition

    def _lanes(self, kind: str, reg: str) -> Lanes:
        return Lanes(self.b, kind, self.width, reg)

    def _value(self, node: Term) -> Lanes:
        if node.op == "const":
            return self._lanes("double", "0.0").const(node.extra, node.type)
        return self.values[node]

    # control flow
    def _items(self, items: Sequence[Block | Loop], mask: Lanes | None) -> None:
        """Blocks and loops, in order; ``mask`` is the first one's."""
        for item in items:
            if isinstance(item, Loop):
                self._loop(item, self._entering(item.header, item.blocks))
            else:
                if mask is None:
                    mask = self._entering(item, ())
                    self._join(item)
                self._block(item, mask)
            mask = None

    def _entering(self, block: Block, apart_from: Iterable[Block]) -> Lanes:
        """The lanes that come into a block."""
        masks = [self.edges[p, block] for p in self.before[block] if p not in set(apart_from)]
        total = masks[0]
        for mask in masks[1:]:
            total = total | mask
        return total

    def _along(self, edge: Edge, phi: Term) -> Lanes:
        """What a phi takes from an edge."""
        found = self.carried.get((edge, phi))
        return found if found is not None else self._value(phi.args[phi.extra.index(edge[0])])

    def _join(self, block: Block, only: Iterable[Block] | None = None) -> None:
        """The phis of a block that is no loop's header."""
        edges = [(p, block) for p in self.before[block]]
        for phi in block.phis:
            value = self._along(edges[0], phi)
            for edge in edges[1:]:
                value = select(self.edges[edge], self._along(edge, phi), value)
            self.values[phi] = value

    def _block(self, block: Block, mask: Lanes) -> None:
        for node in block.nodes:
            if node.op != "phi":
                self.values[node] = self._instruction(node, mask)
        if block.condition is None:
            self.edges.update(((block, target), mask) for target in block.targets)
            return
        yes, no = block.targets
        condition = self._value(block.condition)
        if yes is no:
            self.edges[block, yes] = mask
            return
        self.edges[block, yes] = select(mask, condition, mask.const(0))
        self.edges[block, no] = select(mask, condition.invert(), mask.const(0))

    def _loop(self, loop: Loop, entering: Lanes) -> None:
        """Rounds until no lane is left.

        Carried: the lanes that are there, the header's phis, and where each other lane left with which values.
        """
        header, b = loop.header, self.b
        phis, leaving = header.phis, [(edge, edge[1].phis) for edge in loop.exits]
        outer = [(p, header) for p in self.before[header] if p not in loop.blocks]
        inner = [(p, header) for p in self.before[header] if p in loop.blocks]
        inits = [entering, *(self._chosen(outer, phi) for phi in phis)]
        for _, carried in leaving:
            inits.append(entering.const(0))
            inits += [
                self._lanes(phi.type, "zeroinitializer" if self.width > 1 else _zero(phi.type)) for phi in carried
            ]
        with b.repeat([(x.type, x.reg) for x in inits], self._go_on) as regs:
            now = [self._lanes(x.scalar, reg) for x, reg in zip(inits, regs, strict=True)]
            self.values.update(zip(phis, now[1:], strict=False))
            self._items(loop.items, now[0])
            after = [self._again(inner), *(self._chosen(inner, phi, self.values[phi]) for phi in phis)]
            at = len(after)
            for edge, carried in leaving:
                mask = self.edges[edge]
                after.append(now[at] | mask)
                after += [select(mask, self._along(edge, phi), now[at + 1 + n]) for n, phi in enumerate(carried)]
                at += 1 + len(carried)
            final = list(regs)
            regs[:] = [x.reg for x in after]
        at = 1 + len(phis)
        for edge, carried in leaving:
            self.edges[edge] = self._lanes("i1", final[at])
            for n, phi in enumerate(carried):
                self.carried[edge, phi] = self._lanes(phi.type, final[at + 1 + n])
            at += 1 + len(carried)

    def _again(self, inner: Sequence[Edge]) -> Lanes:
        total = self.edges[inner[0]]
        for edge in inner[1:]:
            total = total | self.edges[edge]
        return total

    def _chosen(self, edges: Sequence[Edge], phi: Term, otherwise: Lanes | None = None) -> Lanes:
        """What a phi takes from the edges that lanes came along; lanes that came along none keep ``otherwise``."""
        value = otherwise
        for edge in edges:
            along = self._along(edge, phi)
            value = along if value is None else select(self.edges[edge], along, value)
        assert value is not None
        return value

    def _go_on(self, regs: Sequence[str]) -> str:
        status = self.b.op("load atomic i64, ptr %bufs monotonic, align 8")
        fine = self.b.op(f"icmp eq i64 {status}, 0")
        return self.b.op(f"and i1 {self._lanes('i1', regs[0]).any()}, {fine}")

    # instructions
    def _instruction(self, node: Term, mask: Lanes) -> Lanes:
        args = [self._value(arg) for arg in node.args]
        if node.op == "call":
            return self._call(node.extra, args)
        if node.op in _DIVISIONS:
            return self._division(node, args[0], args[1], mask)
        if node.op in ("fcmp", "icmp"):
            return args[0].cmp(node.extra, args[1])
        if node.op in CASTS:
            return args[0].convert(node.type, node.op)
        if node.op == "bitcast":
            return args[0].new(f"bitcast {args[0].typed} to {vector_type(self.width, node.type)}", node.type)
        other = _OTHERS.get(node.op)
        return other(*args) if other is not None else args[0].binary(node.op, args[1])

    def _division(self, node: Term, x: Lanes, y: Lanes, mask: Lanes) -> Lanes:
        """An integer division, by 1 where the lane is not there or division traps: by 0, and of the least by -1."""
        traps = y.cmp("eq", 0)
        if node.op in ("sdiv", "srem"):
            traps = traps | y.cmp("eq", -1)
        result = x.binary(node.op, select(select(mask, traps, mask.const(1)), y.const(1), y))
        if node.op == "sdiv":
            return select(y.cmp("eq", -1), x.const(0) - x, result)
        return select(y.cmp("eq", -1), x.const(0), result) if node.op == "srem" else result

    def _call(self, name: str, args: list[Lanes]) -> Lanes:
        x = args[0]
        if name in INTRINSICS:
            return self._integers(name, args)
        if name == "fma":
            return x.fma(args[1], args[2])
        if name == "powi":
            name, args = "pow", [x, args[1].convert(x.scalar, "sitofp")]
        if name in _WHOLE:
            return x.intrinsic(name, *args[1:])
        if name in _OWN:
            return _OWN[name](x)
        if name in PER_LANE:
            return self._per_lane(name, args)
        primitive = _AS_PRIMITIVE.get(name, name)
        assert primitive in EMIT, name
        dtype = of("float64" if x.scalar == "double" else "float32")
        return self._lanes(x.scalar, emit_pointwise(self.b, primitive, dtype, self.width, *(a.reg for a in args)))

    def _integers(self, name: str, args: list[Lanes]) -> Lanes:
        x = args[0]
        if name == "abs":
            return select(x.cmp("slt", 0), x.const(0) - x, x)
        return x.intrinsic(name, *args[1:])

    def _per_lane(self, name: str, args: list[Lanes]) -> Lanes:
        """A function of the C library, called for one lane after another."""
        b, kind = self.b, args[0].type
        wide = [a.convert("double") for a in args]
        total, of_double = "poison", vector_type(self.width, "double")
        for lane in range(self.width):
            regs = [a.reg if self.width == 1 else b.op(f"extractelement {a.typed}, i64 {lane}") for a in wide]
            one = b.call("double", name, *(f"double {reg}" for reg in regs))
            total = one if self.width == 1 else b.op(f"insertelement {of_double} {total}, double {one}, i64 {lane}")
        result = self._lanes("double", total)
        return result if kind == of_double else result.convert(args[0].scalar)


def _zero(kind: str) -> str:
    return "0.0" if kind in ("double", "float") else "0"


_OWN: dict[str, Callable[[Lanes], Lanes]] = {"digamma": digamma, "trigamma": trigamma}
_OTHERS: dict[str, Callable[..., Lanes]] = {
    "fneg": Lanes.__neg__,
    "freeze": lambda x: x.new(f"freeze {x.typed}"),
    "select": select,
    "frem": lambda x, y: Lanes(
        x.b, x.scalar, x.width,
        emit_pointwise(x.b, "fmod", of("float64" if x.scalar == "double" else "float32"), x.width, x.reg, y.reg),
    ),
}  # fmt: skip
