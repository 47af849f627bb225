"""Products of a few rows with panels of a weight, which the routines of recurrent layers call at every step.

Owns: ``StepProducts``: how many rows and panels a product takes at once, its text, calls of it.
Must not know: gates, steps.

A panel is LANES neighbouring columns of a matrix [depth, columns], [depth, LANES] in memory; columns that do not exist
are zeros. A product adds up rows of A times some panels in registers, each sum in the order of ``depth``.
"""

from __future__ import annotations

from typing import NamedTuple

from jitgrad.codegen.llvm.target import Target
from jitgrad.codegen.llvm.text import FnBuilder, vector_type
from jitgrad.codegen.vmath.core import Lanes

__all__ = ["PANELS", "PANEL_NBYTES", "StepProducts"]

PANEL_NBYTES = 64
"""Bytes of a panel's row: LANES elements, on every CPU."""
PANELS = 4
"""The sums of a row have room for so many panels."""


class StepProducts(NamedTuple):
    """What is multiplied at once.

    Attributes:
        scalar: LLVM's type of the elements.
        lanes: elements of a panel's row.
        rows: the most rows.
        panels: the most panels.
    """

    scalar: str
    lanes: int
    rows: int
    panels: int

    @property
    def vector(self) -> str:
        """LLVM's type of a panel's row."""
        return vector_type(self.lanes, self.scalar)

    @property
    def itemsize(self) -> int:
        return PANEL_NBYTES // self.lanes

    def sums(self, b: FnBuilder) -> str:
        """Room for the sums of the most rows, [rows, PANELS, LANES]."""
        return b.op(f"alloca [{self.rows * PANELS * PANEL_NBYTES} x i8], align 64")

    def sum_at(self, b: FnBuilder, sums: str, row: str, panel: int) -> str:
        """The sums of a row with a panel."""
        place = b.op(f"add i64 {b.op(f'mul i64 {row}, {PANELS}')}, {panel}")
        at = b.op(f"getelementptr {self.vector}, ptr {sums}, i64 {place}")
        return b.op(f"load {self.vector}, ptr {at}, align 64")

    def multiply(self, b: FnBuilder, operands: str, panel: str, distance: str, count: int) -> None:
        """Fill sums with the products of ``count`` panels, which lie ``distance`` elements apart.

        ``operands``: as ``_SIGNATURE`` has them, from ``%sums`` to ``%rows``.
        """
        sums, rest = operands.split(", ", 1)
        for first in range(0, count, self.panels):
            here = b.op(f"getelementptr {self.vector}, {sums}, i64 {first}")
            begin = b.op(f"getelementptr {self.scalar}, ptr {panel}, i64 {b.op(f'mul i64 {distance}, {first}')}")
            width = min(self.panels, count - first)
            b.do(f"call void @product.{width}(ptr {here}, {rest}, ptr {begin}, i64 {distance})")

    def widths(self, count: int) -> set[int]:
        """Numbers of panels that ``multiply`` asks for."""
        return {min(self.panels, count - first) for first in range(0, count, self.panels)}

    def function(self, target: Target, width: int) -> FnBuilder:
        """The product of 1 to ``rows`` rows with ``width`` panels."""
        b = FnBuilder(f"product.{width}", _SIGNATURE, target.isa)
        for rows in range(1, self.rows + 1):
            with b.when(b.op(f"icmp eq i64 %rows, {rows}")):
                self._product(b, rows, width)
        return b

    def _product(self, b: FnBuilder, rows: int, width: int) -> None:
        starts = [self._element(b, "%a", b.op(f"mul i64 %stride, {row}")) for row in range(rows)]
        panels = [self._element(b, "%panel", b.op(f"mul i64 %distance, {nr}")) for nr in range(width)]
        zeros = [(self.vector, "zeroinitializer")] * (rows * width)
        with b.fold("0", "%depth", 1, zeros) as (k, sums):
            at = b.op(f"mul i64 {k}, {self.lanes}")
            places = [self._element(b, panel, at) for panel in panels]
            weights = [self._lanes(b, b.op(f"load {self.vector}, ptr {x}, align {self.itemsize}")) for x in places]
            for row, start in enumerate(starts):
                x = b.op(f"load {self.scalar}, ptr {self._element(b, start, k)}")
                wide = self._lanes(b, b.splat(x, self.scalar, self.lanes))
                for nr, weight in enumerate(weights):
                    place = row * width + nr
                    sums[place] = wide.mad(weight, self._lanes(b, sums[place])).reg
        for row in range(rows):
            for nr in range(width):
                at = b.op(f"getelementptr {self.vector}, ptr %sums, i64 {row * PANELS + nr}")
                b.do(f"store {self.vector} {sums[row * width + nr]}, ptr {at}, align 64")

    def _lanes(self, b: FnBuilder, reg: str) -> Lanes:
        return Lanes(b, self.scalar, self.lanes, reg)

    def _element(self, b: FnBuilder, start: str, index: str) -> str:
        return b.op(f"getelementptr {self.scalar}, ptr {start}, i64 {index}")


_SIGNATURE = "ptr %sums, ptr %a, i64 %stride, i64 %depth, i64 %rows, ptr %panel, i64 %distance"
