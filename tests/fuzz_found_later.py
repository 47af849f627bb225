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
    9500252: Program((
        "v1 = (s.x1 > s.a0 * 2) * s.p0",
        "v2 = s.p1[None]",
        "v1.sum().backward(inputs=[s.p0, v2], retain_graph=True)",
    ), (Call(), Call(a0=0.0)), 9500252),
    9500474: Program((
        "v3 = s.x1 * 1.5\nfor _ in range(s.n0):\n    v3.add_(s.p1)",
        "with lib.no_grad(): s.p1.t().mul_(s.a0)",
        (
            "try: lib.nn.functional.binary_cross_entropy(v3.sigmoid() * s.n0 * 0.6, v3.detach().sigmoid())\n"
            "except (IndexError, RuntimeError): out.append('raised')"
        ),
        "with lib.no_grad(): s.p1.t().mul_(s.a0)",
    ), (Call(),), 9500474),
    9500576: Program((
        "v5 = s.y0 * 1\nwith lib.no_grad(): v6 = v5.to(lib.float32)\nv6.mul_(s.n0)",
        "v7 = v5 * 1.5\nfor _ in range(s.n0):\n    v7[:1].mul_(s.a0)",
    ), (Call(), Call(n0=0)), 9500576),
    9102427: Program((
        "v1 = s.x1 @ s.p0",
        "v1.fill_(-0.0)",
        "v5 = v1 * 1\ntry:\n    v5.add_(s.p0)\n    v5.view(7, 7)\nexcept RuntimeError: v5 = v5 * 2",
    ), (Call(keep=('v5',), after='gradients'),), 9102427),
    9600785: Program((
        "v2 = s.p1 * 1.5\nfor _ in range(s.n0):\n    v2[:1].mul_(s.a0)",
        "v9 = v2.detach().requires_grad_()",
        "v10 = v9 / 3",
    ), (Call(n0=1, keep=('v2', 'v10')), Call(n0=1, keep=('v2', 'v10'), after=1)), 9600785),
    9601022: Program((
        "v1 = -1.5 - s.y0",
        "v3 = v1.movedim(0, -1)",
        "v3.requires_grad_()",
        "v5 = v3 - v3",
    ), (Call(keep=('v5',)), Call(keep=('v5',), after=2)), 9601022),
    9601152: Program((
        "v1 = s.y0.sin()",
        "v3 = v1.expand(2, *v1.shape)",
        "v3.fill_(-1.5)",
    ), (Call(outer='leaf'),), 9601152),
    9602298: Program((
        "s.p0.detach().add_(0.1)",
        "v1 = s.p0.tanh().exp()",
        (
            "v5 = v1 - 1.0 * lib.autograd.grad((s.p0.sin() * v1.sum()).sum(), v1, create_graph=True)[0]\n"
            "(v5 * v5).sum().backward()"
        ),
    ), (Call(keep=('v5',), after=1),), 9602298),
    9603514: Program((
        "v2 = s.x1 * 1.5\nfor _ in range(s.n0):\n    v2 = v2 @ s.p0",
        "v2 = s.p0 ** 2",
    ), (Call(), Call(n0=0)), 9603514),
    9608936: Program((
        "v1 = s.p0 * s.p0",
        "v2 = lib.stack([s.p0, s.p0])",
        "v3 = v2 @ v2.transpose(-1, -2)",
        "v4 = lib.maximum(v1, v1)",
        "repr(v1)",
        "v5 = v3 @ v4",
        "v6 = lib.autograd.grad((v5 * s.p0.sum()).sum(), s.p0, create_graph=True)[0].contiguous()",
        "v2[:, 1] = s.a0",
    ), (Call(keep=('v6',)),), 9608936),
    9610766: Program((
        "v5 = s.p0[None]",
        "v6 = v5[1:, :2]",
        "with lib.no_grad(): v5.mul_(-0.0)",
        (
            "v7 = lib.autograd.grad((v6.sin() * s.p0.sum()).sum(), s.p0, create_graph=True)[0]\n"
            "v8 = lib.autograd.grad(v7.sin().sum(), s.p0, create_graph=True)[0]\n"
            "v9 = lib.autograd.grad(v8.sin().sum(), s.p0, create_graph=True)[0].contiguous()"
        ),
    ), (Call(),), 9610766),
    40006640: Program((
        's.p0.data.mul_(0.5)',
        's.p0.data.mul_(0.5)',
        'v5 = s.p0.flip(0)\nwith lib.no_grad():\n    s.p0.mul_(v5)\n    s.p0.add_(v5, alpha=0.1)',
        '(v5.sin() * s.p1.sum()).sum().backward()',
        'def f7(p): p.grad.mul_(s.n0)\ns.handles.append(s.p0.register_post_accumulate_grad_hook(f7))',
        's.p0.data.mul_(0.5)',
    ), (Call(), Call(), Call(), Call(), Call()), 40006640),
}
