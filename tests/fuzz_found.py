"""Programs on which the fuzzer once found the subjects disagreeing, shrunk; by seed.

``python -m tests.fuzz`` prints new ones in this form.
"""

from __future__ import annotations

from fuzz_found_later import FOUND_LATER
from fuzz_programs import Call, Program

__all__ = ["FOUND"]

FOUND: dict[int, Program] = {
    1065: Program((
        "v2 = s.x1.tanh().exp()",
        "out.append(s.p1.sum().item())",
        "s.p1.detach().add_(0.1)",
    ), (Call(alias='parameter detached'),), 1065),
    5043: Program((
        "s.p0.detach().add_(0.1)",
        "out.append(float(s.x1.detach().mean()))",
        "with lib.no_grad(): s.p0.copy_(s.p0.flip(0))",
    ), (Call(),), 5043),
    5075: Program((
        "v5 = s.a0 * 2 - s.p1",
        "v6 = v5 @ s.p0",
        "v9 = s.p1 / (v5 * v5 + 1)",
        "s.p1.detach()[0] = s.n0",
        "v10 = v6 + v5",
    ), (Call(keep=('v9', 'v10'), after=1),), 5075),
    5084: Program((
        "v7 = s.p1 ** 2",
        "s.p1.detach()[0] = s.a1",
        "v10 = v7 * 2",
    ), (Call(keep=('v10',), after=2),), 5084),
    5101: Program((
        "v2 = s.p1.grad if s.p1.grad is not None else s.p1.detach()",
        "out.append(float(v2.detach().mean()))",
        "v9 = s.p0 / (s.p1 * s.p1 + 1)",
        "v10 = v9 / (v2 * v2 + 1)",
        "with lib.no_grad(): s.p1.mul_(0.9)",
    ), (Call(keep=('v10',)),), 5101),
    5155: Program((
        "v4 = -0.0 - s.p0",
        "with lib.no_grad(): v4.mul_(s.a0 * 2)",
    ), (Call(keep=('v4',), after=1),), 5155),
    5163: Program((
        "v5 = s.p0 * 2",
        "with lib.no_grad(): v5.mul_(s.n0)",
        "v8 = v5 * 1.5\nfor _ in range(s.n0):\n    v8 = v8 + v8.detach().sum()",
        "v8.backward(lib.ones_like(v8), retain_graph=True)",
    ), (Call(),), 5163),
    5197: Program((
        "v1 = lib.autograd.grad((s.p0 * s.p0.sum()).sum(), s.p0, create_graph=True)[0]",
        "v4 = lib.stack([v1, v1])",
        "with lib.no_grad(): v4.mul_(2)",
    ), (Call(keep=('v4',), after=1),), 5197),
    5241: Program((
        "v6 = s.p1 @ s.p0",
        "with lib.no_grad(): s.p1[1:] *= s.a0 * 2",
    ), (Call(keep=('v6',), after=1),), 5241),
    5260: Program((
        "v1 = s.p1.clamp(-0.5, 0.5)",
        "s.p1.detach()[0] = 3",
        "v3 = lib.where(s.p1 > v1, s.p1, v1)",
    ), (Call(keep=('v3',), after=2),), 5260),
    20184: Program((
        "v3 = s.x1\nv3 = v3.detach()",
        "v4 = s.p1 * v3",
        "v3.detach().mul_(-1.5)",
    ), (Call(keep=('v4',), after=2),), 20184),
    20586: Program((
        "v1 = s.x0.squeeze()",
        "v8 = v1 * s.p1",
    ), (Call(keep=('v1', 'v8'), after=1),), 20586),
    20681: Program((
        "v2 = s.x1 @ s.p0",
        "v2.view(-1)[0] = 2.0",
        "v2.tanh_()",
    ), (Call(keep=('v2',), after=1),), 20681),
    20931: Program((
        "v2 = s.p0.clamp(-0.5, 0.5)",
        "s.p0.detach().add_(0.1)",
    ), (Call(keep=('v2',), after=2),), 20931),
    30120: Program((
        "v2 = s.x1 * 1.5\nfor _ in range(s.n0):\n    v2 = v2 @ s.p0",
        "v4 = s.p1.reshape(-1)",
        "s.p1.detach()[0] = 0.5",
        "v5 = s.p1 * v2",
        "v4.sum().backward(retain_graph=True)",
    ), (Call(),), 30120),
    30395: Program((
        "with lib.no_grad():\n    v2 = s.p0 * s.p1",
        "v3 = lib.ones(4, dtype=lib.float64, requires_grad=True)",
        "v6 = s.x1.detach().requires_grad_()",
        "with lib.no_grad(): s.p1.copy_(s.p1.flip(0))",
        "(v3.sin() * s.p1.sum()).sum().backward()",
    ), (Call(alias='parameter detached'),), 30395),
    30441: Program((
        "if float(s.x0.sum()) > 0:\n    v1 = s.x1 ** 2\nelse:\n    v1 = s.x0 @ s.x0.transpose(-1, -2)",
        "out.append(bool((s.p1 > 0).any()))",
        "v5 = s.p1 + s.a0",
    ), (Call(), Call(), Call(alias='parameter detached', keep=('v5',)),), 30441),
    30446: Program((
        "v3 = s.p0.detach().requires_grad_()",
        "v4 = s.p0 + 0.5",
        "v5 = v4.clamp(-0.5, 0.5)",
        "s.p0.grad = None",
        "with lib.no_grad(): s.p0.mul_(0.9)",
        "if v5.requires_grad: v5.sum().backward()",
    ), (Call(), Call(),), 30446),
    30473: Program((
        "v1 = s.x1 * 1.5\nfor _ in range(s.n0):\n    v1 = v1.sin() + s.x1",
        "v3 = s.p1.expand(2, *s.p1.shape)",
        "v5 = s.p0.grad if s.p0.grad is not None else s.p0.detach()",
        "out.append(float(v1.detach().mean()))",
        "v6 = lib.autograd.grad((v5 * s.p1.sum()).sum(), s.p1, create_graph=True)[0].contiguous()",
        "(s.p0 * s.p0).mean().backward(create_graph=True)",
    ), (Call(), Call(alias='parameter detached'),), 30473),
    30534: Program((
        "v2 = s.x1 @ s.p1",
    ), (Call(alias='parameter detached', keep=('v2',), after=2),), 30534),
    30700: Program((
        "v0 = (s.p0 > s.n0) * s.x1",
        "v0[0] = s.x0[0]",
        "v0 *= s.p1",
    ), (Call(keep=('v0',), after=1),), 30700),
    30717: Program((
        "v8 = s.p1.unsqueeze(0)",
        "s.p1.detach()[0] = s.a0",
        "if s.n0 > 1:\n    v10 = lib.stack([v8, v8])\nelse:\n    v10 = lib.where(v9 > 0, v9, 0.5)",
    ), (Call(grad_mode=False),), 30717),
    30761: Program((
        "v3 = s.x0 @ s.x0.transpose(-1, -2)",
        "v3.detach().mul_(s.a0)",
        "v4 = s.x1 ** 2",
        "v6 = v3.clamp(-0.5, 0.5)",
        "out.append(float(v4.detach().mean()))",
        "v3.copy_(v6)",
    ), (Call(),), 30761),
    31049: Program((
        "v5 = s.p0 * s.x1",
        "s.p0.detach().add_(0.1)",
        "v7 = lib.cat([v5, v5])",
        "(v7.sin() * s.p1.sum()).sum().backward()",
    ), (Call(alias='parameter'),), 31049),
    31151: Program((
        "v2 = s.p1.detach().requires_grad_()",
        "v3 = v2 * s.p0",
        "s.p1.detach().add_(0.1)",
    ), (Call(keep=('v3',), after=1),), 31151),
    31347: Program((
        "v3 = s.p0.squeeze()",
        "v6 = v3.detach().requires_grad_()",
        "v7 = v3 * 1.5\nfor _ in range(s.n0):\n    v7 = v7 + v7.detach().sum()",
        "with lib.no_grad(): s.p0 += v6.detach().sum() * 0.01",
        "v7.backward(lib.ones_like(v7), retain_graph=True)",
    ), (Call(),), 31347),
    31579: Program((
        "v1 = s.x1 @ s.p0",
        "if float(s.p1.sum()) > 0:\n    v4 = s.x1 @ s.x1.transpose(-1, -2)\nelse:\n    v4 = s.p1 / 3",
        "(s.p1.sin() * s.p1.sum()).sum().backward()",
    ), (Call(alias='parameter detached'),), 31579),
    31788: Program((
        "v2 = lib.maximum(s.p0, s.x1)",
        "with lib.no_grad(): s.p1.mul_(0.9)",
    ), (Call(alias='parameter detached', keep=('v2',), after=2),), 31788),
    60527: Program((
        "v1 = s.x0[0]",
        "v2 = s.p0 - s.x1",
        "v1.transpose(0, -1).mul_(-1.5)",
        "v2 = v2.sum()",
        "v1 *= v2",
    ), (Call(),), 60527),
    61202: Program((
        "v2 = s.x1 + s.a1",
        "if float(s.p0.sum()) > 0:\n    v3 = s.p1 * -1.5\nelse:\n    v3 = lib.cat([v2, s.p1])",
        "with lib.no_grad(): v2.mul_(1.0)",
        "if s.p1.requires_grad: s.p1.sum().backward()",
        "v2.tanh_()",
    ), (Call(), Call(),), 61202),
    70897: Program((
        "v2 = lib.where(s.p0 > 0, s.p0, s.n0)",
        "v5 = s.p1.detach().requires_grad_()",
        "with lib.no_grad(): s.p0 += v2.detach().sum() * 0.01",
        "out.append(v5.detach().numpy().copy())",
        "with lib.no_grad(): s.p0.copy_(s.p0.flip(0))",
    ), (Call(),), 70897),
    72538: Program((
        "v1 = lib.zeros(s.p0.shape, dtype=lib.float64)",
        "with lib.no_grad(): s.p1 += s.x0.detach().sum() * 0.01",
        "v1.transpose(0, -1).mul_(0.5)",
        "v4 = s.p1.relu()",
        "with lib.no_grad(): s.p1.mul_(0.9)",
        "(v4.sin() * s.p0.sum()).sum().backward()",
    ), (Call(), Call(),), 72538),
    73144: Program((
        "v1 = s.p0 @ s.p0",
        "s.p1.detach().add_(0.1)",
        "out.append(v1.sum().item())",
        "v6 = s.p1 ** 2",
        "v10 = s.p1 @ s.p0",
        "with lib.no_grad(): s.p1.copy_(s.p1.flip(0))",
    ), (Call(keep=('v6', 'v10')),), 73144),
    91815: Program((
        "v1 = s.x1.sum(0)",
        (
            "v2 = lib.autograd.grad((s.p1 * s.p1).sum(), s.p0, create_graph=True, allow_unused=True)[0]\n"
            "v2 = v2.contiguous() if v2 is not None else lib.zeros(1)"
        ),
        "v3 = v2 + -1.5",
        "v4 = v3 / (v1 * v1 + 1)",
        "v2.transpose(0, -1).mul_(s.a0)",
        "out.append(float(v4.detach().mean()))",
        "v2.transpose(0, -1).mul_(s.n0)",
    ), (Call(),), 91815),
    91991: Program((
        "v1 = s.x0.unsqueeze(0)",
        "v1.mul_(0.5)",
        "v1.add_(s.p1)",
    ), (Call(),), 91991),
    92300: Program((
        "v0 = s.x1.sigmoid()",
        "v3 = v0 * s.a0",
        "if float(s.p0.sum()) > 0:\n    v4 = s.p0.expand(2, *s.p0.shape)\nelse:\n    v4 = v3 + 3",
        "v0.zero_()",
        "v0.transpose(0, -1).mul_(s.a1)",
    ), (Call(), Call(a1=-1),), 92300),
    110131: Program((
        "v2 = lib.zeros(s.p1.shape, dtype=lib.float64)",
        "v3 = (s.x1 > s.a0 * 2) * s.x1",
        "v4 = v2.reshape(-1)",
        "v4.tanh_()",
        "if float(v4.sum()) > 0:\n    v9 = v4 - v2\nelse:\n    v9 = v3 / 3",
        "v4 *= v4",
    ), (Call(),), 110131),
    110154: Program((
        "v1 = s.p0 * 1",
        "v1.detach().mul_(-0.0)",
        "with lib.no_grad(): v1.mul_(3)",
        "if v1.requires_grad: v1.sum().backward()",
    ), (Call(),), 110154),
    110537: Program((
        "v1 = s.x1 + 0.5",
        "out.append(s.p1.sum().item())",
        "v1.mul_(s.a1)",
        "s.p0.backward(lib.ones_like(s.p0), retain_graph=True)",
        "v1.mul_(s.a0 * 2)",
    ), (Call(), Call(),), 110537),
    110689: Program((
        "v2 = s.x0[-1]",
        "v2.detach().mul_(s.n0)",
        "v2.copy_(s.p1)",
    ), (Call(),), 110689),
    200214: Program((
        "v1 = s.x1 / 3",
        "v2 = v1 / (s.p1 * s.p1 + 1)",
        "with lib.no_grad(): v2.mul_(s.a0)",
        "v7 = v2.view(-1)",
        "v2.mul_(s.a0 * 2)",
    ), (Call(),), 200214),
    200244: Program((
        (
            "v1 = lib.autograd.grad((s.p1 * s.p1).sum(), s.p1, create_graph=True, allow_unused=True)[0]\n"
            "v1 = v1.contiguous() if v1 is not None else lib.zeros(1)"
        ),
        "v2 = v1 * 1.5\nfor _ in range(s.n0):\n    v2 = v2 @ s.p0",
        "with lib.no_grad(): v1.mul_(2)",
        "v8 = v1 / (v2 * v2 + 1)",
        "v8.detach().mul_(0.5)",
        "v9 = lib.cat([s.p1, v8])",
    ), (Call(keep=('v1',), after=2),), 200244),
    200862: Program((
        "v3 = s.p1 * 3",
        "with lib.no_grad(): v3.mul_(s.a0)",
        "v3[0] = s.a1",
    ), (Call(),), 200862),
    200981: Program((
        "v1 = s.p0.tanh().exp()",
        "(v1 * v1).mean().backward(create_graph=True)",
        "v5 = s.p1.grad if s.p1.grad is not None else s.p1.detach()",
        "v9 = s.p0.grad if s.p0.grad is not None else s.p0.detach()",
        "v5 = v9 * 1",
        "(s.p0 * s.p0).sum().backward()",
    ), (Call(keep=('v5', 'v9'), after=2),), 200981),
    1188: Program((
        "with lib.no_grad(): s.p1.t().mul_(1)",
        "v4 = s.y0.double()",
        "v5 = s.p1 * 1.5\nfor _ in range(s.n0):\n    v5 = v5.sin() + v4",
        "v6 = v5[None]",
        (
            "if v6.requires_grad:\n"
            "    h13 = v6.register_hook(lambda g: s.log.append(13))\n"
            "    v6.sum().backward(retain_graph=True)\n"
            "    h13.remove()"
        ),
    ), (Call(hooks='tensor on p1'),), 1188),
    1257: Program((
        "s.p1.data.mul_(0.5)",
        "(s.p0.sin() * s.p1.sum()).sum().backward()",
    ), (Call(hooks='tensor on p1'),), 1257),
    1556: Program((
        "v2 = (s.x1 > -0.0) * s.p1",
    ), (Call(alias='parameter detached', hooks='tensor on p1', keep=('v2',), after='gradients'),), 1556),
    200650: Program((
        "v1 = s.p0 * s.p0",
        (
            "v3 = lib.autograd.grad(v1.sin().sum(), s.p1, retain_graph=True, allow_unused=True)[0]\n"
            "v3 = v3.contiguous() if v3 is not None else lib.zeros(1)"
        ),
        "v4 = s.p1 * v3",
        "v4.transpose(0, -1).mul_(-1.5)",
        "v7 = v4 @ s.p1",
        "v3.add_(v7)",
    ), (Call(keep=('v3', 'v3'), after=1),), 200650),
    201382: Program((
        "v2 = lib.cat([s.x1, s.p1])",
        "v2.tanh_()",
        "v2[0] = 1.0",
    ), (Call(keep=('v2',), after=1),), 201382),
    201848: Program((
        "v3 = s.x1.expand(2, *s.x1.shape)",
        "if v3.shape[0] > 2:\n    v7 = s.x0.cumsum(0)\nelse:\n    v7 = v3[s.i0]",
    ), (Call(), Call(),), 201848),
    119: Program((
        "v2 = s.y0.tanh()",
        "v2[:0] = 3",
        (
            "class F5(lib.autograd.Function):\n"
            "    @staticmethod\n"
            "    def forward(ctx, x, y):\n"
            "        ctx.save_for_backward(x, y)\n"
            "        return x * y\n"
            "    @staticmethod\n"
            "    def backward(ctx, g):\n"
            "        x, y = ctx.saved_tensors\n"
            "        return g * x.cos() * y, g * x.sin()\n"
            "v5 = F5.apply(v2, v2 * 2)"
        ),
    ), (Call(outer='twice p1', keep=('v2', 'v5'), after='once'),), 119),
    263: Program((
        "v4 = s.x0.index_select(0, s.i0)",
        "v6 = s.p1 * s.y0",
        (
            "v12 = s.p0 - 3 * lib.autograd.grad((v6.sin() * s.p0.sum()).sum(), s.p0, create_graph=True)[0]\n"
            "(v12 * v12).sum().backward()"
        ),
        "v6.t()[0] = v9[0]",
    ), (Call(batch=0),), 263),
    509: Program((
        "v2 = s.p0.expand(2, *s.p0.shape)",
        "v3 = s.p1 + -0.0",
        (
            "class F5(lib.autograd.Function):\n"
            "    @staticmethod\n"
            "    def forward(ctx, x, y):\n"
            "        ctx.save_for_backward(x, y)\n"
            "        return x * 2 + y\n"
            "    @staticmethod\n"
            "    def backward(ctx, g):\n"
            "        x, y = ctx.saved_tensors\n"
            "        return g * y, g * x\n"
            "v5 = F5.apply(v3, v3.detach())"
        ),
        "v6 = v2.masked_fill(v2 > 0, 2)",
        "v11 = v5 * v6",
        "(v11 * v11).mean().backward(create_graph=True)",
        "s.handles.append(s.p0.register_post_accumulate_grad_hook(lambda p: s.log.append(19)))",
    ), (Call(), Call(hooks='tensor on p1'),), 509),
    300295: Program((
        "v1 = lib.where(s.p0 > s.y0, s.p0, s.y0)",
        "v2 = s.p1 * 1.5\nfor _ in range(s.n0):\n    v2 = v2 * s.a0",
        "v3 = v1.logsumexp(-1)",
        "v2[..., 0] *= 0.5",
        "s.p0.sum().backward(inputs=[s.p1, v3], retain_graph=True)",
        "v3.relu_()",
    ), (Call(keep=('v3',), after='written'),), 300295),
    300344: Program((
        "v2 = s.p0 * 1.5\nfor _ in range(s.n0):\n    v2 = v2 * s.a0",
        "v5 = v2.tanh().exp()",
        "v5[0] = 2",
        "v3 = v5 + 0.5",
    ), (Call(keep=('v3',), after=1),), 300344),
    300996: Program((
        (
            "v4 = lib.autograd.grad((s.p1.sin() * s.p0.sum()).sum(), s.p0, create_graph=True)[0]\n"
            "((v4 * v4).sum() + s.p1.sum()).backward()"
        ),
        "v8 = s.p0.clone()\nv9 = v8.movedim(0, -1)\nv9[0] = v4[0]\nv8 = v8 * 2",
    ), (Call(keep=('v8', 'v8'), after='gradients'),), 300996),
    301225: Program((
        "v6 = s.p0 * 2\nv6.retain_grad()",
        "v6.exp_()",
    ), (Call(keep=('v6',), after=1),), 301225),
    301553: Program((
        "v0 = lib.where(s.p0 > s.p0, s.p0, s.p0)",
        "lib.autograd.backward([s.p1.sum(), (v0 * v0).sum()])",
        (
            "def f11(p):\n"
            "    with lib.no_grad(): p.sub_(0.1 * p.grad)\n"
            "    p.grad = None\n"
            "s.handles.append(s.p1.register_post_accumulate_grad_hook(f11))"
        ),
    ), (Call(), Call(), Call(),), 301553),
    302595: Program((
        "(s.x0.sin() * s.p1.sum()).sum().backward()",
        "v4 = s.p1.index_select(0, s.i0)",
        "out.append(v4.detach().numpy().copy())",
    ), (Call(p1='short'),), 302595),
    302870: Program((
        "v1 = s.p1 * s.p0",
        "s.p0.data = s.p0.data * 2",
    ), (Call(keep=('v1',), after='once'),), 302870),
    303845: Program((
        "v1 = s.x1 @ s.p0",
        "v2 = v1 @ s.p0",
        "s.p0.data = s.p0.data * 2",
        "lib.autograd.backward([v1.sum(), (v2 * v2).sum()])",
    ), (Call(),), 303845),
    400025: Program((
        "v4 = s.x0.amax(0)",
    ), (Call(batch=0),), 400025),
    400354: Program((
        "v1 = s.p1 * 1\nv2 = v1[::2]\nv1.mul_(0.5)",
        "v2.sigmoid_()",
        (
            "v6 = s.p1 - s.n0 * lib.autograd.grad((v1.sin() * s.p1.sum()).sum(), s.p1, create_graph=True)[0]\n"
            "(v6 * v6).sum().backward()"
        ),
    ), (Call(),), 400354),
    400753: Program((
        "v1 = s.p0.softmax(-1)",
        "v5 = lib.maximum(s.y0, s.p0)",
        "v6 = v5.expand(2, *v5.shape)",
        "v7 = s.n0 - v1",
        "v3 = v6.index_select(0, s.i0)",
        "if v7.grad_fn is not None: v7.grad_fn.register_prehook(lambda g: s.log.append((8, len(g))))",
        "(v7.sin() * s.p0.sum()).sum().backward()",
    ), (Call(), Call(),), 400753),
    400907: Program((
        "s.p1.data = s.p1.data * 2",
        "v5 = s.p1.clamp(-0.5, 0.5)",
        "s.p1.data = s.p1.data * 2",
        "(v5 * v5).mean().backward(create_graph=True)",
    ), (Call(),), 400907),
    800672: Program((
        "v7 = s.p0 + 1.0",
        "v9 = s.p1 / (v7 * v7 + 1)",
        "s.p1.data.mul_(0.5)",
        "lib.autograd.backward([v9.sum(), (s.p0 * s.p0).sum()])",
    ), (Call(),), 800672),
    801041: Program((
        "s.p0.grad = s.p0.detach() * 2",
        "v3 = s.p0.expand(2, *s.p0.shape)",
        "v4 = s.p0.grad if s.p0.grad is not None else s.p0.detach()",
        "s.adam.zero_grad(set_to_none=False)",
        "v4.data = v3.data",
    ), (Call(),), 801041),
    801600: Program((
        "v3 = s.p1 / (s.p1 * s.p1 + 1)",
        "s.p1.data.mul_(0.5)",
        (
            "v5 = lib.autograd.grad((v3.sin() * s.p1.sum()).sum(), s.p1, create_graph=True)[0]\n"
            "((v5 * v5).sum() + v3.sum()).backward()"
        ),
    ), (Call(),), 801600),
    801736: Program((
        "v7 = s.p1 @ s.p0",
        "s.p0.data.mul_(0.5)",
        (
            "v14 = lib.autograd.grad((v7.sin() * s.p1.sum()).sum(), s.p1, create_graph=True)[0]\n"
            "((v14 * v14).sum() + v7.sum()).backward()"
        ),
    ), (Call(),), 801736),
    1000016: Program((
        "s.p0.detach().add_(0.1)",
        "s.adam.step()",
        "v2 = s.x1 ** 2",
        (
            "with lib.autograd.graph.allow_mutation_on_saved_tensors():\n"
            "    v3 = s.p0 * 1\n"
            "    u = v3.sin() * s.y0\n"
            "    v3.mul_(s.a0)\n"
            "    u.sum().backward()"
        ),
        "v2.scatter_(0, s.i0, 3)",
    ), (Call(), Call(alias='x0', outer='twice p1'),), 1000016),
    1001937: Program((
        "v1 = s.p1 * 1.0",
        "v6 = v1 / (v1 * v1 + 1)",
        "v1.data = s.p0.data",
    ), (Call(keep=('v6',), after='written'),), 1001937),
    4000153: Program((
        "with lib.no_grad(): s.p1 += s.x0.detach().sum() * 0.01",
        "v2 = s.p0 @ s.p0",
        "v5 = lib.maximum(s.p1, v2)",
        "v6 = v5 * 1\nv7 = v6.to(lib.float32)\nv6.mul_(0.5)",
        (
            "with lib.autograd.graph.saved_tensors_hooks(lambda t: t.detach().numpy().copy(), lambda t: "
            "lib.tensor(t)):\n"
            "    v9 = (v5 * v6).sin()"
        ),
        "(v6 * v6).sum().backward()",
    ), (Call(p1='window'),), 4000153),
    4001563: Program((
        "out.append(s.x1.detach().numpy().copy())",
        "s.sgd.step()\ns.sgd.zero_grad()",
        "(s.p1 * s.p1).mean().backward(create_graph=True)",
    ), (Call(), Call(alias='parameter detached'),), 4001563),
    2000714: Program((
        "v1 = s.x1 * 1.5\nfor _ in range(s.n0):\n    v1 = v1 * s.a0",
        "v2 = s.p1 * 1.0",
        "v3 = lib.utils.checkpoint.checkpoint(lambda x: (x.sin() * s.p0).tanh(), v1, use_reentrant=False)",
        "v3.sum().backward(retain_graph=True)",
        "v5 = v2 * 1\nv6 = v5.split(1)[0]\nv5.mul_(3)",
        "v1.mul_(3)",
    ), (Call(alias='parameter', keep=('v1',)),), 2000714),
    901446: Program((
        "v1 = s.p0 @ s.p0",
        "(v1 * v1).mean().backward(create_graph=True)",
        "v1.narrow(0, 0, 1).fill_(s.a0)",
        "s.sgd.zero_grad(set_to_none=False)",
    ), (Call(),), 901446),
    903561: Program((
        "v1 = s.p0 * 1\nv2 = v1[1:]\nv1.mul_(-0.0)",
        "v4 = s.x0 / (v2 * v2 + 1)",
        "v2.index_add_(0, s.i0, v4)",
    ), (Call(keep=('v4',), after='twice'),), 903561),
    905794: Program((
        "v1 = s.p0.diagonal()",
        "v2 = v1.masked_fill(v1 > 0, 1)",
        "with lib.inference_mode():\n    v3 = v2 - s.p1",
        "v2.detach_()",
        "v2.zero_()",
    ), (Call(),), 905794),
    950081: Program((
        "v1 = s.p0.expand(2, *s.p0.shape)",
        "v4 = s.p1.data\nv4.add_(s.p1.grad.data if s.p1.grad is not None else 1)",
        "v8 = lib.maximum(v1, v4)",
        "s.p0.data.sub_(0.1)",
        "v1.data = s.x1.data",
    ), (Call(keep=('v8',), after=1),), 950081),
    950708: Program((
        "v2 = lib.autograd.functional.jacobian(lambda x: x * x + 1, s.x1.detach())",
        "v3 = s.p1 @ s.p0",
        "v4 = (v3 > 2) * s.p0",
        "v2.data = v4.data",
        "v11 = lib.func.vmap(lambda x: x.sin().sum() * s.a0)(v3)",
        "s.p1.data.mul_(0.5)",
    ), (Call(keep=('v11',), after='twice'),), 950708),
    960180: Program((
        "v4 = s.p1 ** 2",
        "v6 = s.x1 * 1.5\nfor _ in range(s.n0):\n    v6 = v6.sin() + s.p1",
        "v7 = v4.data\nv4.add_(s.y0)",
        "v6.detach_()",
        "v9 = v7.expand(2, *v7.shape)",
        "if v6.requires_grad:\n    v10 = v9 * v7\nelse:\n    v10 = v7 @ s.p0",
        "v9.data = s.x0.data",
    ), (Call(),), 960180),
    990553: Program((
        "v1 = s.x1 @ s.y0",
        "v4 = s.x0[..., 0]",
        (
            "try: v11 = v1.gather(0, (s.i0 + 1))\n"
            "except (IndexError, RuntimeError) as e: out.append(type(e).__name__)"
        ),
        "v11 = v1 * 1",
    ), (Call(keep=('v4',)),), 990553),
    510093: Program((
        "v4 = s.p0[:0]",
        "v5 = lib.stack([v4, v4])",
        (
            "try: v10 = v5.index_select(0, s.i0)\n"
            "except (IndexError, RuntimeError) as e: out.append(type(e).__name__)"
        ),
    ), (Call(),), 510093),
    520721: Program((
        "v4 = s.p1.prod()",
        "v4.sigmoid_()",
    ), (Call(keep=('v4',), after='written'),), 520721),
    510678: Program((
        "v1 = s.p1.max()",
        "s.p1.data = s.p1.data * 2",
        "(v1 * v1).sum().backward()",
    ), (Call(),), 510678),
    **FOUND_LATER,
}
