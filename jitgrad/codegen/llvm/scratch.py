"""Memory that a kernel needs for itself while it runs, as LLVM text.

Owns: ``Scratch``, ``STACK_NBYTES``.
Must not know: what is kept there.

# Note [Scratch memory]
# ~~~~~~~~~~~~~~~~~~~~~
# A kernel runs on whatever thread the user calls from, and a thread may have little stack: 256 KiB after
# ``threading.stack_size(1 << 18)``, 128 KiB by default where the C library is musl. So a kernel takes little of it.
# What may be larger - a panel's partial sums over several passes, copied rows, a long row that a softmax keeps - comes
# from ``malloc``, for one task at a time. That costs a tenth of a microsecond, where the work takes ten and more. The
# pages stay with the C library from task to task. Where there is no memory, the kernel says so in the status word, and
# the operations run one by one, by NumPy, which raises.
"""

from __future__ import annotations

from jitgrad.codegen.llvm.text import FnBuilder

__all__ = ["STACK_NBYTES", "Scratch"]

STACK_NBYTES = 48 << 10
"""Of the stack that a kernel may take for itself."""

_NO_MEMORY = 1  # in the status word: any number but 0
_ALIGNMENT = 64


class Scratch:
    """Memory of a kernel: some on the stack, or more from the heap.

    To be made in the kernel's first block, and closed in its last one.

    Args:
        on_stack: bytes that it has if ``is_large`` is false.
        nbytes: bytes that it has otherwise.
        is_large: an i1, "true" or "false".
    """

    def __init__(self, b: FnBuilder, on_stack: int, nbytes: int, is_large: str) -> None:
        self.b, self.is_large = b, is_large
        own = b.op(f"alloca [{max(on_stack, 1)} x i8], align {_ALIGNMENT}")
        self.at = own
        if is_large != "false":
            self._look_for(own, nbytes)

    def _look_for(self, own: str, nbytes: int) -> None:
        b = self.b
        at, block = b.op("alloca ptr"), b.op("alloca ptr")
        self._block, self._end = block, b.label("scratchless")
        b.do(f"store ptr {own}, ptr {at}")
        b.declare("declare ptr @malloc(i64)")
        with b.when(self.is_large, hint="large"):
            found = b.op(f"call ptr @malloc(i64 {nbytes + _ALIGNMENT})")
            there, missing = b.label("there"), b.label("missing")
            b.do(f"br i1 {b.op(f'icmp ne ptr {found}, null')}, label %{there}, label %{missing}")
            b.start(missing)
            b.do(f"store atomic i64 {_NO_MEMORY}, ptr %bufs monotonic, align 8")
            b.do(f"br label %{self._end}")
            b.start(there)
            b.do(f"store ptr {found}, ptr {block}")
            address = b.op(f"add i64 {b.op(f'ptrtoint ptr {found} to i64')}, {_ALIGNMENT - 1}")
            aligned = b.op(f"inttoptr i64 {b.op(f'and i64 {address}, {-_ALIGNMENT}')} to ptr")
            b.do(f"store ptr {aligned}, ptr {at}")
        self.at = b.op(f"load ptr, ptr {at}")

    def close(self) -> None:
        """Give the memory back; the kernel ends with this."""
        b = self.b
        if self.is_large == "false":
            return
        b.declare("declare void @free(ptr)")
        with b.when(self.is_large, hint="large"):
            b.do(f"call void @free(ptr {b.op(f'load ptr, ptr {self._block}')})")
        b.do(f"br label %{self._end}")
        b.start(self._end)
