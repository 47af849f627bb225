"""Programs on which the fuzzer once found the subjects disagreeing, shrunk; by seed.

``python -m tests.fuzz`` prints new ones in this form.
"""

from __future__ import annotations

from fuzz import Call, Program

__all__ = ["FOUND"]

FOUND: dict[int, Program] = {
    1065: Program(
        (
            "v2 = s.x1.tanh().exp()",
            "out.append(s.p1.sum().item())",
            "s.p1.detach().add_(0.1)",
        ),
        (Call(alias="parameter detached"),),
        1065,
    ),
    5043: Program(
        (
            "s.p0.detach().add_(0.1)",
            "out.append(float(s.x1.detach().mean()))",
            "with lib.no_grad(): s.p0.copy_(s.p0.flip(0))",
        ),
        (Call(),),
        5043,
    ),
    5075: Program(
        (
            "v5 = s.a0 * 2 - s.p1",
            "v6 = v5 @ s.p0",
            "v9 = s.p1 / (v5 * v5 + 1)",
            "s.p1.detach()[0] = s.n0",
            "v10 = v6 + v5",
        ),
        (Call(keep=("v9", "v10"), after=1),),
        5075,
    ),
    5084: Program(
        (
            "v7 = s.p1 ** 2",
            "s.p1.detach()[0] = s.a1",
            "v10 = v7 * 2",
        ),
        (Call(keep=("v10",), after=2),),
        5084,
    ),
    5101: Program(
        (
            "v2 = s.p1.grad if s.p1.grad is not None else s.p1.detach()",
            "out.append(float(v2.detach().mean()))",
            "v9 = s.p0 / (s.p1 * s.p1 + 1)",
            "v10 = v9 / (v2 * v2 + 1)",
            "with lib.no_grad(): s.p1.mul_(0.9)",
        ),
        (Call(keep=("v10",)),),
        5101,
    ),
    5155: Program(
        (
            "v4 = -0.0 - s.p0",
            "with lib.no_grad(): v4.mul_(s.a0 * 2)",
        ),
        (Call(keep=("v4",), after=1),),
        5155,
    ),
    5163: Program(
        (
            "v5 = s.p0 * 2",
            "with lib.no_grad(): v5.mul_(s.n0)",
            "v8 = v5 * 1.5\nfor _ in range(s.n0):\n    v8 = v8 + v8.detach().sum()",
            "v8.backward(lib.ones_like(v8), retain_graph=True)",
        ),
        (Call(),),
        5163,
    ),
    5197: Program(
        (
            "v1 = lib.autograd.grad((s.p0 * s.p0.sum()).sum(), s.p0, create_graph=True)[0]",
            "v4 = lib.stack([v1, v1])",
            "with lib.no_grad(): v4.mul_(2)",
        ),
        (Call(keep=("v4",), after=1),),
        5197,
    ),
    5241: Program(
        (
            "v6 = s.p1 @ s.p0",
            "with lib.no_grad(): s.p1[1:] *= s.a0 * 2",
        ),
        (Call(keep=("v6",), after=1),),
        5241,
    ),
    5260: Program(
        (
            "v1 = s.p1.clamp(-0.5, 0.5)",
            "s.p1.detach()[0] = 3",
            "v3 = lib.where(s.p1 > v1, s.p1, v1)",
        ),
        (Call(keep=("v3",), after=2),),
        5260,
    ),
    20184: Program(
        (
            "v3 = s.x1\nv3 = v3.detach()",
            "v4 = s.p1 * v3",
            "v3.detach().mul_(-1.5)",
        ),
        (Call(keep=("v4",), after=2),),
        20184,
    ),
    20586: Program(
        (
            "v1 = s.x0.squeeze()",
            "v8 = v1 * s.p1",
        ),
        (Call(keep=("v1", "v8"), after=1),),
        20586,
    ),
    20681: Program(
        (
            "v2 = s.x1 @ s.p0",
            "v2.view(-1)[0] = 2.0",
            "v2.tanh_()",
        ),
        (Call(keep=("v2",), after=1),),
        20681,
    ),
    20931: Program(
        (
            "v2 = s.p0.clamp(-0.5, 0.5)",
            "s.p0.detach().add_(0.1)",
        ),
        (Call(keep=("v2",), after=2),),
        20931,
    ),
    30120: Program(
        (
            "v2 = s.x1 * 1.5\nfor _ in range(s.n0):\n    v2 = v2 @ s.p0",
            "v4 = s.p1.reshape(-1)",
            "s.p1.detach()[0] = 0.5",
            "v5 = s.p1 * v2",
            "v4.sum().backward(retain_graph=True)",
        ),
        (Call(),),
        30120,
    ),
    30395: Program(
        (
            "with lib.no_grad():\n    v2 = s.p0 * s.p1",
            "v3 = lib.ones(4, dtype=lib.float64, requires_grad=True)",
            "v6 = s.x1.detach().requires_grad_()",
            "with lib.no_grad(): s.p1.copy_(s.p1.flip(0))",
            "(v3.sin() * s.p1.sum()).sum().backward()",
        ),
        (Call(alias="parameter detached"),),
        30395,
    ),
    30441: Program(
        (
            "if float(s.x0.sum()) > 0:\n    v1 = s.x1 ** 2\nelse:\n    v1 = s.x0 @ s.x0.transpose(-1, -2)",
            "out.append(bool((s.p1 > 0).any()))",
            "v5 = s.p1 + s.a0",
        ),
        (
            Call(),
            Call(),
            Call(alias="parameter detached", keep=("v5",)),
        ),
        30441,
    ),
    30446: Program(
        (
            "v3 = s.p0.detach().requires_grad_()",
            "v4 = s.p0 + 0.5",
            "v5 = v4.clamp(-0.5, 0.5)",
            "s.p0.grad = None",
            "with lib.no_grad(): s.p0.mul_(0.9)",
            "if v5.requires_grad: v5.sum().backward()",
        ),
        (
            Call(),
            Call(),
        ),
        30446,
    ),
    30473: Program(
        (
            "v1 = s.x1 * 1.5\nfor _ in range(s.n0):\n    v1 = v1.sin() + s.x1",
            "v3 = s.p1.expand(2, *s.p1.shape)",
            "v5 = s.p0.grad if s.p0.grad is not None else s.p0.detach()",
            "out.append(float(v1.detach().mean()))",
            "v6 = lib.autograd.grad((v5 * s.p1.sum()).sum(), s.p1, create_graph=True)[0].contiguous()",
            "(s.p0 * s.p0).mean().backward(create_graph=True)",
        ),
        (
            Call(),
            Call(alias="parameter detached"),
        ),
        30473,
    ),
    30534: Program(("v2 = s.x1 @ s.p1",), (Call(alias="parameter detached", keep=("v2",), after=2),), 30534),
    30700: Program(
        (
            "v0 = (s.p0 > s.n0) * s.x1",
            "v0[0] = s.x0[0]",
            "v0 *= s.p1",
        ),
        (Call(keep=("v0",), after=1),),
        30700,
    ),
    30717: Program(
        (
            "v8 = s.p1.unsqueeze(0)",
            "s.p1.detach()[0] = s.a0",
            "if s.n0 > 1:\n    v10 = lib.stack([v8, v8])\nelse:\n    v10 = lib.where(v9 > 0, v9, 0.5)",
        ),
        (Call(grad_mode=False),),
        30717,
    ),
    30761: Program(
        (
            "v3 = s.x0 @ s.x0.transpose(-1, -2)",
            "v3.detach().mul_(s.a0)",
            "v4 = s.x1 ** 2",
            "v6 = v3.clamp(-0.5, 0.5)",
            "out.append(float(v4.detach().mean()))",
            "v3.copy_(v6)",
        ),
        (Call(),),
        30761,
    ),
    31049: Program(
        (
            "v5 = s.p0 * s.x1",
            "s.p0.detach().add_(0.1)",
            "v7 = lib.cat([v5, v5])",
            "(v7.sin() * s.p1.sum()).sum().backward()",
        ),
        (Call(alias="parameter"),),
        31049,
    ),
    31151: Program(
        (
            "v2 = s.p1.detach().requires_grad_()",
            "v3 = v2 * s.p0",
            "s.p1.detach().add_(0.1)",
        ),
        (Call(keep=("v3",), after=1),),
        31151,
    ),
    31347: Program(
        (
            "v3 = s.p0.squeeze()",
            "v6 = v3.detach().requires_grad_()",
            "v7 = v3 * 1.5\nfor _ in range(s.n0):\n    v7 = v7 + v7.detach().sum()",
            "with lib.no_grad(): s.p0 += v6.detach().sum() * 0.01",
            "v7.backward(lib.ones_like(v7), retain_graph=True)",
        ),
        (Call(),),
        31347,
    ),
    31579: Program(
        (
            "v1 = s.x1 @ s.p0",
            "if float(s.p1.sum()) > 0:\n    v4 = s.x1 @ s.x1.transpose(-1, -2)\nelse:\n    v4 = s.p1 / 3",
            "(s.p1.sin() * s.p1.sum()).sum().backward()",
        ),
        (Call(alias="parameter detached"),),
        31579,
    ),
    31788: Program(
        (
            "v2 = lib.maximum(s.p0, s.x1)",
            "with lib.no_grad(): s.p1.mul_(0.9)",
        ),
        (Call(alias="parameter detached", keep=("v2",), after=2),),
        31788,
    ),
    60527: Program(
        (
            "v1 = s.x0[0]",
            "v2 = s.p0 - s.x1",
            "v1.transpose(0, -1).mul_(-1.5)",
            "v2 = v2.sum()",
            "v1 *= v2",
        ),
        (Call(),),
        60527,
    ),
    61202: Program(
        (
            "v2 = s.x1 + s.a1",
            "if float(s.p0.sum()) > 0:\n    v3 = s.p1 * -1.5\nelse:\n    v3 = lib.cat([v2, s.p1])",
            "with lib.no_grad(): v2.mul_(1.0)",
            "if s.p1.requires_grad: s.p1.sum().backward()",
            "v2.tanh_()",
        ),
        (
            Call(),
            Call(),
        ),
        61202,
    ),
    70897: Program(
        (
            "v2 = lib.where(s.p0 > 0, s.p0, s.n0)",
            "v5 = s.p1.detach().requires_grad_()",
            "with lib.no_grad(): s.p0 += v2.detach().sum() * 0.01",
            "out.append(v5.detach().numpy().copy())",
            "with lib.no_grad(): s.p0.copy_(s.p0.flip(0))",
        ),
        (Call(),),
        70897,
    ),
    72538: Program(
        (
            "v1 = lib.zeros(s.p0.shape, dtype=lib.float64)",
            "with lib.no_grad(): s.p1 += s.x0.detach().sum() * 0.01",
            "v1.transpose(0, -1).mul_(0.5)",
            "v4 = s.p1.relu()",
            "with lib.no_grad(): s.p1.mul_(0.9)",
            "(v4.sin() * s.p0.sum()).sum().backward()",
        ),
        (
            Call(),
            Call(),
        ),
        72538,
    ),
    73144: Program(
        (
            "v1 = s.p0 @ s.p0",
            "s.p1.detach().add_(0.1)",
            "out.append(v1.sum().item())",
            "v6 = s.p1 ** 2",
            "v10 = s.p1 @ s.p0",
            "with lib.no_grad(): s.p1.copy_(s.p1.flip(0))",
        ),
        (Call(keep=("v6", "v10")),),
        73144,
    ),
    91815: Program(
        (
            "v1 = s.x1.sum(0)",
            "v2 = lib.autograd.grad((s.p1 * s.p1).sum(), s.p0, create_graph=True, allow_unused=True)[0]\nv2 = v2.contiguous() if v2 is not None else lib.zeros(1)",  # noqa: E501
            "v3 = v2 + -1.5",
            "v4 = v3 / (v1 * v1 + 1)",
            "v2.transpose(0, -1).mul_(s.a0)",
            "out.append(float(v4.detach().mean()))",
            "v2.transpose(0, -1).mul_(s.n0)",
        ),
        (Call(),),
        91815,
    ),
    91991: Program(
        (
            "v1 = s.x0.unsqueeze(0)",
            "v1.mul_(0.5)",
            "v1.add_(s.p1)",
        ),
        (Call(),),
        91991,
    ),
    92300: Program(
        (
            "v0 = s.x1.sigmoid()",
            "v3 = v0 * s.a0",
            "if float(s.p0.sum()) > 0:\n    v4 = s.p0.expand(2, *s.p0.shape)\nelse:\n    v4 = v3 + 3",
            "v0.zero_()",
            "v0.transpose(0, -1).mul_(s.a1)",
        ),
        (
            Call(),
            Call(a1=-1),
        ),
        92300,
    ),
    110131: Program(
        (
            "v2 = lib.zeros(s.p1.shape, dtype=lib.float64)",
            "v3 = (s.x1 > s.a0 * 2) * s.x1",
            "v4 = v2.reshape(-1)",
            "v4.tanh_()",
            "if float(v4.sum()) > 0:\n    v9 = v4 - v2\nelse:\n    v9 = v3 / 3",
            "v4 *= v4",
        ),
        (Call(),),
        110131,
    ),
    110154: Program(
        (
            "v1 = s.p0 * 1",
            "v1.detach().mul_(-0.0)",
            "with lib.no_grad(): v1.mul_(3)",
            "if v1.requires_grad: v1.sum().backward()",
        ),
        (Call(),),
        110154,
    ),
    110537: Program(
        (
            "v1 = s.x1 + 0.5",
            "out.append(s.p1.sum().item())",
            "v1.mul_(s.a1)",
            "s.p0.backward(lib.ones_like(s.p0), retain_graph=True)",
            "v1.mul_(s.a0 * 2)",
        ),
        (
            Call(),
            Call(),
        ),
        110537,
    ),
    110689: Program(
        (
            "v2 = s.x0[-1]",
            "v2.detach().mul_(s.n0)",
            "v2.copy_(s.p1)",
        ),
        (Call(),),
        110689,
    ),
}
