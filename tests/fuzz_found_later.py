"""More programs on which the fuzzer once found the subjects disagreeing; see ``fuzz_found``."""

from __future__ import annotations

from fuzz_programs import Call, Program

__all__ = ["FOUND_LATER"]

FOUND_LATER: dict[int, Program] = {
    2002396: Program((
        "v1 = s.p1.tanh().exp()",
        "v1.data = s.p0.data",
        (
            "v8 = lib.autograd.grad((v1.sin() * s.p1.sum()).sum(), s.p1, create_graph=True)[0]\n"
            "v9 = lib.autograd.grad((v8 * v8).sum(), s.p1, create_graph=True)[0]\nv9 = v9.contiguous()\n"
            "v9.sum().backward()"
        ),
    ), (Call(),), 2002396),
    3004088: Program((
        "v2 = s.p1.unbind()[0]",
        "with lib.no_grad(): v2.mul_(s.n0)",
    ), (Call(keep=('v2',), after='gradients'),), 3004088),
}
