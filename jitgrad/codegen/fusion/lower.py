"""Lowering: values at index maps to a flat list of instructions over one loop domain.

Owns: ``Lowerer`` and its instruction tuples.
Must not know: loop order, vectors, LLVM, buffers.
In: roots (``roots.Root``), one after another. Out: ``Lowerer.instrs``.

# Note [Instructions]
# ~~~~~~~~~~~~~~~~~~~
# A kernel's body is a list of ``LoopInstr``: op, dtype, sources (numbers of earlier ones), extra, address. Equal ones
# exist once.
#   load       extra (value,); address; sources: () or (mask,)
#   gather     extra (value, strides of the indices); address without the indices; sources: (indices..., mask?)
#   check      makes an index non-negative and clamps it; writes the status word if it was out of range;
#              extra (extent, the recorded instruction's number + 1)
#   mask       extra: Ranges, all of which must hold
#   iota       address: the number itself
#   const      extra (literal,)
#   scalar     extra (RuntimeScalar,)
#   acc        the matrix product's result
#   store_add  adds its first source in memory, in the loop's order; extra and address as for gather; store_mul,
#              store_max and store_min combine with it, and store_set replaces it
#   reduce_*   extra: (whether the result is one of many partial ones, a number that tells equal reductions apart)
#   call       extra (function, component); sources: its operands, then perhaps a mask: lanes outside do not loop
#   others     pointwise primitives, extra ()
# After fusion, scheduling adds "store" (see ``loop_body.Store``) and "fma".
# Example: ``(x * 2).sum()`` of 100 elements is
#   0 load x at i    1 const 2.0    2 mul 0 1    3 reduce_sum 2
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jitgrad.codegen.fusion.domain import Domain, Refuse, Resplit
from jitgrad.codegen.fusion.index_map import (
    Expr,
    IndexMap,
    Range,
    Split,
    combined,
    linear,
    scaled,
    through_expand,
    through_pad,
    through_reshape,
    through_slice,
)
from jitgrad.codegen.fusion.roots import Root, squeezed
from jitgrad.codegen.primitives.builder import POINTWISE, SCATTERS, Value, memory_of
from jitgrad.codegen.primitives.cost import op_cost
from jitgrad.codegen.primitives.simplify import const_of, number_of
from jitgrad.dtypes import INTEGER, DType, bool_, int64
from jitgrad.ops.aval import contiguous_strides
from jitgrad.symbols.advice import always_equal
from jitgrad.symbols.number import value_of, whole

__all__ = ["LoopInstr", "Lowerer"]


class LoopInstr(NamedTuple):
    """One instruction of a kernel's body, before its loops have an order; see Note [Instructions].

    Attributes:
        op: a pointwise primitive, or a name of the Note.
        dtype: of the result.
        srcs: numbers of earlier instructions.
        extra: what else the result depends on.
        address: affine in the loops' indices, in elements; None for what does not touch memory.
        chunk_stride: what the chunk's number adds to the address of a partial result's store.
    """

    op: str
    dtype: DType
    srcs: tuple[int, ...]
    extra: Any = ()
    address: Expr | None = None
    chunk_stride: int = 0


_AFFINE = frozenset({"add", "sub", "mul"})
_FAR = 1 << 48
_NEUTRAL = {"reduce_sum": "0", "partial_sum": "0", "reduce_prod": "1", "partial_prod": "1"}


class Lowerer:
    """The instructions of one kernel while it is built.

    Attributes:
        domain: the loops.
        instrs: see Note [Instructions].
        cost: of all of them, in vector additions.
        local: values computed here -> (their map, their instruction).
        stored: the values that are roots.
        partial: those of ``local`` of which a unit of work computes one part only; this kernel cannot read them.
    """

    def __init__(self, domain: Domain, stored: Mapping[Value, Any]) -> None:
        self.domain = domain
        self.instrs: list[LoopInstr] = []
        self.cost = 0
        self.local: dict[Value, tuple[IndexMap, int]] = {}
        self.partial: set[Value] = set()
        self.stored = stored
        self._index: dict[tuple[Any, ...], int] = {}
        self._memo: dict[tuple[Value, int, int], int] = {}
        self._maps: dict[IndexMap, int] = {}
        self._map_list: list[IndexMap] = []
        self._masks: list[tuple[Range, ...]] = [()]
        self._mask_ids: dict[tuple[Range, ...], int] = {(): 0}
        self._log: list[tuple[dict[Any, Any], Any]] = []
        self._stack: list[tuple[Value, int, int]] = []
        self._current: Value | None = None

    # transactions: a root that is refused leaves no instruction behind
    def mark(self) -> tuple[int, int]:
        return len(self.instrs), len(self._log)

    def rollback(self, mark: tuple[int, int]) -> None:
        self.cost -= sum([op_cost(i.op) for i in self.instrs[mark[0] :]])
        del self.instrs[mark[0] :]
        for table, key in self._log[mark[1] :]:
            del table[key]
        del self._log[mark[1] :]
        self._stack.clear()

    def add(self, root: Root, dims: tuple[int, ...]) -> None:
        """Lower a root whose own domain runs along ``dims`` of this one.

        Raises:
            Refuse, Resplit: it does not fit; call ``rollback``.
        """
        source = root.source
        m = self.domain.identity(source.shape, dims)
        kid = self._also(0, self.domain.border(squeezed(source.shape), dims))
        self._current = root.value
        if root.kind == "scatter":
            reg, own = self._scatter(root.value, m), m
        elif root.reduce is None:
            reg, own = self.value_at(source, m), m
        else:
            partial = root.value.op.startswith("partial_")
            x = self._where_it_counts(self.value_at(source, m, kid), kid, root.value)
            op = "reduce_" + root.value.op.split("_")[1]
            reg = self._emit(op, root.value.dtype, (x,), (partial, len(self.local)))
            zero = (0,) * (len(self.domain.extents) + 1)
            own = tuple(zero if d in root.reduce else e for d, e in enumerate(m))
            if partial:
                self.partial.add(root.value)
                own = (zero, *own)
        self._current = None
        self._set(self.local, root.value, (own, reg))

    def add_product(self, product: Value, dims: tuple[int, ...]) -> None:
        """Make a matrix product the instruction "acc", which the roots that join it later read: its epilogue."""
        m = self.domain.identity(product.shape, dims)
        self._set(self.local, product, (m, self._emit("acc", product.dtype, ())))

    def _where_it_counts(self, x: int, kid: int, v: Value) -> int:
        """``x`` where mask ``kid`` holds; elsewhere what does not change the reduction ``v`` (0 for a sum)."""
        if not kid:
            return x
        if v.op not in _NEUTRAL:
            raise Refuse("the loop is longer")
        outside = self._emit("const", v.dtype, (), (_NEUTRAL[v.op],))
        return self._emit("where", v.dtype, (*self._mask(kid), x, outside))

    def value_at(self, value: Value, m: IndexMap, kid: int = 0) -> int:
        """The instruction that computes ``value`` at the map. Iterative: chains may be long."""
        self._stack = stack = [(value, self._map_id(m), kid)]
        memo, stored, current = self._memo, self.stored, self._current
        while stack:
            v, mid, kid = item = stack[-1]
            key = (v, mid, kid)
            if key in memo:
                stack.pop()
                continue
            if v in stored and v is not current:
                found: int | None = self._leaf(v, mid, kid)
            elif v.op in POINTWISE:
                srcs = [memo.get((s, mid, kid)) for s in v.srcs]
                if None in srcs:
                    stack += [(s, mid, kid) for s, known in zip(v.srcs, srcs, strict=True) if known is None]
                    continue
                found = self._computed(v, tuple(srcs))  # type: ignore[arg-type]
            else:
                found = _HANDLERS[v.op](self, v, mid, kid)
            if found is not None:
                self._set(memo, key, found)
                if stack[-1] is item:
                    stack.pop()
        return memo[(value, self._map_id(m), kid)]

    def _scatter(self, v: Value, m: IndexMap) -> int:
        """``v`` = its base, then combined with the source at the indices: see ``store_add`` in Note [Instructions]."""
        base, source, *indices = v.srcs
        at = len(indices[0].shape)
        value = self.value_at(source, m)
        checked = tuple(
            self._checked(self.value_at(i, m[:at]), n, v) for i, n in zip(indices, v.shape, strict=False)
        )
        where, address, strides = self._table_at(base, self._zeros(len(indices)) + m[at:])
        return self._emit("store_" + v.op[8:], v.dtype, (value, *checked), (where, strides[: len(indices)]), address)

    def _checked(self, index: int, extent: int, v: Value, kid: int = 0) -> int:
        """An index that is inside, or is reported; see ``Builder.check``.

        The operations of ``torch.gather``'s kind make negative ones too large, as they take none. Then none is left
        that counts from the end: the extent alone is looked at, as an unsigned number.
        """
        wraps: tuple[bool, ...] = ()
        known = self.instrs[index]
        if known.op == "where":
            is_negative, instead, own = known.srcs
            test = self.instrs[is_negative]
            is_below = test.op == "lt" and test.srcs[0] == own and self._is_number(test.srcs[1], 0)
            if is_below and self._is_number(instead, extent):
                index, wraps = own, (False,)
        return self._emit("check", int64, (index, *self._mask(kid)), (extent, 1 + max(0, v.instr), *wraps))

    def _is_number(self, n: int, number: int) -> bool:
        i = self.instrs[n]
        return i.op == "const" and always_equal(number_of(str(i.extra[0])), number)

    # parts of instructions
    def _set(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        table[key] = value
        self._log.append((table, key))

    def _emit(self, op: str, dtype: DType, srcs: tuple[int, ...], extra: Any = (), address: Expr | None = None) -> int:
        key = (op, dtype, srcs, extra, address)
        found = self._index.get(key)
        if found is None:
            found = len(self.instrs)
            self.instrs.append(LoopInstr(op, dtype, srcs, extra, address))
            self.cost += op_cost(op)
            self._set(self._index, key, found)
        return found

    def _computed(self, v: Value, srcs: tuple[int, ...]) -> int:
        """A pointwise primitive. Sums and multiples of indices are indices: their factors are argument words then."""
        address = self._affine(v, srcs) if v.op in _AFFINE and v.dtype.category is INTEGER else None
        if address is not None and max([abs(value_of(c)) for c in address]) < _FAR:  # no word holds what must wrap
            return self._emit("iota", v.dtype, (), (), address)
        return self._emit(v.op, v.dtype, srcs, ())

    def _affine(self, v: Value, srcs: tuple[int, ...]) -> Expr | None:
        """What a sum, difference or multiple of indices is, in terms of the loops' indices."""
        x, y = (self.instrs[s].address if self.instrs[s].op == "iota" else None for s in srcs)
        if v.op == "mul":
            index, factor = (x, const_of(v.srcs[1])) if x is not None else (y, const_of(v.srcs[0]))
            return None if index is None or factor is None else scaled(index, whole(factor))
        return None if x is None or y is None else combined(x, y, -1 if v.op == "sub" else 1)

    def _map_id(self, m: IndexMap) -> int:
        found = self._maps.get(m)
        if found is None:
            found = self._maps[m] = len(self._map_list)
            self._map_list.append(m)
        return found

    def _need(self, v: Value, mid: int, kid: int) -> int | None:
        """The number of an operand's instruction; None if it must be lowered first, which this asks for."""
        found = self._memo.get((v, mid, kid))
        if found is None:
            self._stack.append((v, mid, kid))
        return found

    def _leaf(self, v: Value, mid: int, kid: int) -> int:
        """A value that lies in memory, or is computed by this loop at the same element."""
        own = self.local.get(v)
        if own is None:
            return self._load(v, self._address(v, mid), kid)
        if v in self.partial:
            raise Refuse("needs the end of a reduction over all units")
        if own[0] != self._map_list[mid]:
            raise Refuse("needs other elements of a value of the same loop")
        return own[1]

    def _address(self, v: Value, mid: int) -> Expr:
        rank = len(self.domain.extents)
        if v.op == "input":
            aval = v.params[1]
            return linear(self._map_list[mid], aval.stride, aval.offset, rank)
        return linear(self._map_list[mid], contiguous_strides(v.shape), 0, rank)

    def _load(self, v: Value, address: Expr, kid: int) -> int:
        return self._emit("load", v.dtype, self._mask(kid), (v,), address)

    def _mask(self, kid: int) -> tuple[int, ...]:
        return (self._emit("mask", bool_, (), self._masks[kid]),) if kid else ()

    def _also(self, kid: int, ranges: list[Range]) -> int:
        """The mask that holds where ``kid`` and all ``ranges`` hold."""
        bounds = {r.dim: (r.lo, r.hi) for r in self._masks[kid]}
        for r in ranges:
            lo, hi = bounds.get(r.dim, (r.lo, r.hi))
            bounds[r.dim] = max(lo, r.lo), min(hi, r.hi)
        mask = tuple(Range(d, *bounds[d]) for d in sorted(bounds))
        found = self._mask_ids.get(mask)
        if found is None:
            found = self._mask_ids[mask] = len(self._masks)
            self._masks.append(mask)
        return found

    # One handler per primitive that is not pointwise. It returns the instruction's number; or it puts the operands that
    # it needs on the stack and returns None, and is called again when they are there.
    def _on_input(self, v: Value, mid: int, kid: int) -> int | None:
        return self._load(v, self._address(v, mid), kid)

    def _on_const(self, v: Value, mid: int, kid: int) -> int | None:
        return self._emit("const", v.dtype, (), v.params)

    def _on_scalar(self, v: Value, mid: int, kid: int) -> int | None:
        return self._emit("scalar", v.dtype, (), v.params)

    def _on_iota(self, v: Value, mid: int, kid: int) -> int | None:
        return self._emit("iota", v.dtype, (), (), self._map_list[mid][v.params[0]])

    def _on_call(self, v: Value, mid: int, kid: int) -> int | None:
        srcs = [self._need(s, mid, kid) for s in v.srcs]
        if None in srcs:
            return None
        return self._emit("call", v.dtype, (*srcs, *self._mask(kid)), v.params)  # type: ignore[arg-type]

    def _on_copy(self, v: Value, mid: int, kid: int) -> int | None:
        return self._need(v.srcs[0], mid, kid)

    def _on_check(self, v: Value, mid: int, kid: int) -> int | None:
        index = self._need(v.srcs[0], mid, kid)
        if index is None:
            return None
        return self._checked(index, v.params[0], v, kid)

    def _on_expand(self, v: Value, mid: int, kid: int) -> int | None:
        m = through_expand(self._map_list[mid], v.srcs[0].shape, len(self.domain.extents))
        return self._need(v.srcs[0], self._map_id(m), kid)

    def _on_permute(self, v: Value, mid: int, kid: int) -> int | None:
        m = self._map_list[mid]
        inverse = sorted(range(len(v.params)), key=v.params.__getitem__)
        return self._need(v.srcs[0], self._map_id(tuple(m[d] for d in inverse)), kid)

    def _on_slice(self, v: Value, mid: int, kid: int) -> int | None:
        return self._need(v.srcs[0], self._map_id(through_slice(self._map_list[mid], *v.params)), kid)

    def _on_pad(self, v: Value, mid: int, kid: int) -> int | None:
        x, (lo, hi, number) = v.srcs[0], v.params
        found = through_pad(self._map_list[mid], lo, hi, x.shape, self.domain.extents)
        if found is None:
            raise Refuse("a pad's border runs across two loops", x if v is self._current else v)
        m, ranges, inside = found
        outside = self._emit("const", v.dtype, (), (repr(number),))
        if not inside:
            return outside
        inner_kid = self._also(kid, ranges)
        if any(r.lo >= r.hi for r in self._masks[inner_kid]):
            return outside
        inner = self._need(x, self._map_id(m), inner_kid)
        if inner is None or not ranges:
            return inner
        here = self._emit("mask", bool_, (), tuple(sorted(ranges)))
        return self._emit("where", v.dtype, (here, inner, outside), ())

    def _on_update(self, v: Value, mid: int, kid: int) -> int | None:
        (x, written), starts = v.srcs, v.params[0]
        extents = self.domain.extents
        after = tuple(n - s - m for n, s, m in zip(v.shape, starts, written.shape, strict=True))
        found = through_pad(self._map_list[mid], starts, after, written.shape, extents)
        if found is None:
            raise Refuse("an update's border runs across two loops", x if v is self._current else v)
        m, ranges, inside = found
        inner_kid = self._also(kid, ranges)
        if not inside or any(r.lo >= r.hi for r in self._masks[inner_kid]):
            return self._need(x, mid, kid)
        inner = self._need(written, self._map_id(m), inner_kid)
        if inner_kid == kid:
            return inner
        outer = self._need(x, mid, kid)
        if inner is None or outer is None:
            return None
        here = self._emit("mask", bool_, (), tuple(sorted(ranges)))
        return self._emit("where", v.dtype, (here, inner, outer), ())

    def _on_reshape(self, v: Value, mid: int, kid: int) -> int | None:
        x = v.srcs[0]
        if 0 in v.shape:  # a loop without iterations
            return self._emit("const", v.dtype, (), ("0",))
        m, extents = self._map_list[mid], self.domain.extents
        if x not in self.local and self._is_row_major(x):
            offset = x.params[1].offset if x.op == "input" else 0
            return self._load(x, linear(m, contiguous_strides(v.shape), offset, len(extents)), kid)
        found = through_reshape(m, v.shape, x.shape, extents)
        if isinstance(found, Split):
            raise Resplit(found, x)
        if found is None:
            raise Refuse("a reshape that no loop over both shapes can do", x)
        return self._need(x, self._map_id(found), kid)

    def _on_windows(self, v: Value, mid: int, kid: int) -> int | None:
        if 0 in v.shape:
            return self._emit("const", v.dtype, (), ("0",))
        x, (offset, dims, _) = memory_of(v), v.params
        if x in self.local or not self._is_row_major(x):
            raise Refuse("reads windows of what is not in memory, row by row", x)
        extents, digits = self.domain.extents, [digit for each in dims for digit in each]
        found = through_reshape(self._map_list[mid], v.shape, tuple(n for n, _ in digits), extents)
        if isinstance(found, Split):
            raise Resplit(found, v)
        if found is None:
            raise Refuse("windows that no loop can walk", v)
        start = offset + (x.params[1].offset if x.op == "input" else 0)
        return self._load(x, linear(found, tuple(s for _, s in digits), start, len(extents)), kid)

    def _is_row_major(self, x: Value) -> bool:
        if x is self._current:
            return False
        return x in self.stored or (x.op == "input" and x.params[1].is_contiguous)

    def _on_gather(self, v: Value, mid: int, kid: int) -> int | None:
        x, *indices = v.srcs
        m = self._map_list[mid]
        at, rest = len(indices[0].shape), len(indices)
        index_id = self._map_id(m[:at])
        found = [self._need(i, index_id, kid) for i in indices]
        if None in found:
            return None
        checked = tuple(
            self._checked(i, n, v, kid)  # type: ignore[arg-type]
            for i, n in zip(found, x.shape, strict=False)
        )
        if 0 in x.shape[:rest]:  # an index that is out of range reads element 0, and there is none
            return self._emit("const", v.dtype, (), (0,))
        value, address, strides = self._table_at(x, (self._zeros(rest)) + m[at:])
        return self._emit("gather", v.dtype, (*checked, *self._mask(kid)), (value, strides[:rest]), address)

    def _zeros(self, count: int) -> IndexMap:
        return ((0,) * (len(self.domain.extents) + 1),) * count

    def _table_at(self, x: Value, m: IndexMap) -> tuple[Value, Expr, tuple[int, ...]]:
        """The table that a gather reads or a scatter adds to: the value, its address at ``m``, its strides."""
        if x not in self.stored and x.op != "input":
            raise Refuse("gathers from a value that is not in memory", x)
        if x in self.local:
            raise Refuse("gathers from a value of the same loop")
        aval = x.params[1] if x.op == "input" else None
        strides = aval.stride if aval else contiguous_strides(x.shape)
        return x, linear(m, strides, aval.offset if aval else 0, len(self.domain.extents)), strides

    def _on_other(self, v: Value, mid: int, kid: int) -> int | None:
        raise Refuse(f"{v.op} is a kernel of its own", v)


_OWN_HANDLERS = ("input", "copy", "const", "scalar", "iota", "check", "expand", "permute", "slice", "pad", "update",
                 "reshape", "windows", "gather", "call")  # fmt: skip
_OWN_KERNELS = ("matmul", "panels", "cat", "routine", "routine_part", *SCATTERS)
_REDUCTIONS = [f"{extent}_{kind}" for extent in ("reduce", "partial") for kind in ("sum", "max", "min", "prod")]
_HANDLERS: dict[str, Callable[[Lowerer, Value, int, int], int | None]] = {
    **{name: getattr(Lowerer, "_on_" + name) for name in _OWN_HANDLERS},
    **dict.fromkeys((*_OWN_KERNELS, *_REDUCTIONS), Lowerer._on_other),
}
