"""Statements of the fuzzer about graphs: derivatives, derivatives of derivatives, hooks, custom functions, transforms.

Owns: ``GraphStatements``. Must not know: which of them are drawn how often (``fuzz_statements``).
"""

from __future__ import annotations

if __package__:
    from tests.fuzz_draws import Draws
else:
    from fuzz_draws import Draws

__all__ = ["GraphStatements"]


class GraphStatements(Draws):
    """Draws statements that make, use and look at graphs."""

    def differentiate(self) -> str:
        v, w, p, p2 = self.any(), self.any(), self.parameter(), self.pick("s.p0", "s.p1", "s.x0", self.temporary())
        g = self.fresh()
        # the gradient of an expanded tensor may be expanded itself: writes to that are not compared. A gradient that is
        # given to backward() is a clone: torch makes what it is given ``.grad``, though it be the leaf's own memory
        zero = f"{g} = {g}.contiguous() if {g} is not None else lib.zeros(1)"
        return self.pick(
            f"{v}.sum().backward()", f"({v} * {v}).sum().backward()", f"{v}.sum().backward(retain_graph=True)",
            f"({v} * {v}).mean().backward(create_graph=True)", f"({v}.sin() * {p}.sum()).sum().backward()",
            f"{g} = lib.autograd.grad(({v} * {p}.sum()).sum(), {p}, create_graph=True)[0].contiguous()",
            f"{g} = lib.autograd.grad(({v} * {v}).sum(), {p2}, create_graph=True, allow_unused=True)[0]\n{zero}",
            f"{g} = lib.autograd.grad({v}.sin().sum(), {p2}, retain_graph=True, allow_unused=True)[0]\n{zero}",
            f"if {v}.requires_grad: {v}.sum().backward()", f"{v}.backward(lib.ones_like({v}), retain_graph=True)",
            f"({v} * {v}).sum().backward(inputs=[{p}])", f"{v}.sum().backward(inputs=[{p}, {w}], retain_graph=True)",
            f"lib.autograd.backward([{v}.sum(), ({w} * {w}).sum()])",
            f"lib.autograd.backward([{v}, {w}], [{v}.detach().clone(), lib.ones_like({w})], retain_graph=True)",
            f"{g} = lib.autograd.grad([{v}.sum(), {w}.cos().sum()], [{p}], allow_unused=True, retain_graph=True)[0]\n"
            f"{zero}",
        )  # fmt: skip

    def second(self) -> str:
        """Gradients of gradients."""
        v, p, k = self.any(), self.pick("s.p0", "s.p1", "s.p0", self.any()), self.number()
        g, h, q = self.fresh(), self.fresh(), self.fresh()
        grad = f"lib.autograd.grad(({v}.sin() * {p}.sum()).sum(), {p}, create_graph=True)[0]"
        return self.pick(
            f"{g} = {grad}\n(({g} * {g}).sum() + {v}.sum()).backward()",
            f"{g} = {grad}\n{h} = lib.autograd.grad(({g} * {g}).sum(), {p}, create_graph=True)[0]\n"
            f"{h} = {h}.contiguous()\n{h}.sum().backward()",
            f"{g} = {grad}\n{h} = lib.autograd.grad({g}.sin().sum(), {p}, create_graph=True)[0]\n"
            f"{q} = lib.autograd.grad({h}.sin().sum(), {p}, create_graph=True)[0].contiguous()",
            f"{q} = {p} - {k} * {grad}\n({q} * {q}).sum().backward()",
            f"{g} = s.p0\nfor _ in range(s.n0):\n    {h} = (s.x0 @ {g}).square().mean()\n"
            f"    {g} = {g} - s.a0 * lib.autograd.grad({h}, {g}, create_graph=True)[0]\n"
            f"(s.x0 @ {g}).sin().mean().backward()",
            f"({v} * {v}).sum().backward(create_graph=True)\n{g} = {p}.grad * 1\n{p}.grad = None\n"
            f"{g}.sum().backward()",
        )  # fmt: skip

    def hook(self) -> str:
        v, p, k, w = self.any(), self.parameter(), self.number(), self.any()
        handle, nr = self.fresh(), self.count
        body = self.pick(
            f"s.log.append(({nr}, float(g.sum())))", f"g * {k}", f"s.log.append({nr})", "s.log.append(g * 1)",
            "g * 2 if g.sum() > 0.01 else None", f"s.log.append(({nr}, g.shape == {v}.shape))", "g.clamp(-0.1, 0.1)",
            f"g * {w}.detach().sum()", f"g + {w}.sum()", f"s.log.append(({nr}, g.requires_grad))", "g.sin()",
        )  # fmt: skip
        register = f"{v}.register_hook(lambda g: {body})"
        # PyTorch crashes where a view is hooked in no_grad mode, or a view whose base has got a graph by a write
        can = f"if lib.is_grad_enabled() and {v}.requires_grad and ({v}.is_leaf or {v}.grad_fn):"
        return self.pick(
            f"{can} {register}", f"{can} {register}", f"{can} {register}",
            f"{can}\n    h{nr} = {register}\n    {v}.sum().backward(retain_graph=True)\n"
            f"    h{nr}.remove()",
            f"{can} s.handles.append({register})", "if len(s.handles) > 1: s.handles.pop(0).remove()",
            f"{can} {v}.retain_grad()", f"{handle} = {v} * 2\nif {handle}.requires_grad: {handle}.retain_grad()",
            f"s.handles.append({p}.register_post_accumulate_grad_hook(lambda p: s.log.append({nr})))",
            f"s.handles.append({p}.register_post_accumulate_grad_hook(lambda p: s.log.append(float(p.grad.sum()))))",
            f"def f{nr}(p): p.grad.mul_({k})\ns.handles.append({p}.register_post_accumulate_grad_hook(f{nr}))",
            f"def f{nr}(p):\n    with lib.no_grad(): p.sub_(0.1 * p.grad)\n    p.grad = None\n"
            f"s.handles.append({p}.register_post_accumulate_grad_hook(f{nr}))",
            f"if {v}.grad_fn is not None: {v}.grad_fn.register_prehook(lambda g: s.log.append(({nr}, len(g))))",
            f"if {v}.grad_fn is not None: {v}.grad_fn.register_prehook(lambda g: tuple(x * {k} for x in g))",
            f"if {v}.grad_fn is not None:\n    {v}.grad_fn.register_hook(lambda i, o: s.log.append({nr}))",
            f"if {v}.grad_fn is not None:\n    {v}.grad_fn.register_hook("
            f"lambda i, o: tuple(None if x is None else x * {k} for x in i))",
            f"if {v}.grad_fn is not None:\n    {v}.grad_fn.register_hook("
            f"lambda i, o: s.log.append([float(x.sum()) for x in o if x is not None]))",
        )  # fmt: skip

    def saved_hooks(self) -> str:
        """Saved-tensor hooks, checkpoints, custom functions."""
        v, w, name, k = self.any(), self.any(), self.fresh(), self.number()
        nr = self.count
        hooks = self.pick(
            "lambda t: t * 1, lambda t: t", f"lambda t: s.log.append({nr}) or t, lambda t: s.log.append(-{nr}) or t",
            "lambda t: t.detach().numpy().copy(), lambda t: lib.tensor(t)", "lambda t: t.detach(), lambda t: t * 1",
        )  # fmt: skip
        p = self.parameter()
        second = (
            f"with lib.autograd.graph.saved_tensors_hooks({hooks}):\n"
            f"    {name} = lib.autograd.grad(({v}.sin() * {p}.sum()).sum(), {p}, create_graph=True)[0].contiguous()"
        )
        function = (
            f"class F{nr}(lib.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, y):\n"
            f"        ctx.save_for_backward(x, y)\n        return {self.pick('x * y', 'x.sin() * y', 'x * 2 + y')}\n"
            f"    @staticmethod\n    def backward(ctx, g):\n        x, y = ctx.saved_tensors\n"
            f"        return {self.pick('g * y, g * x', 'g * x.cos() * y, g * x.sin()', '(g * 2).sin(), g')}\n"
            f"{name} = F{nr}.apply({v}, {v}{self.pick('', ' * 2', '.detach()')})"
        )
        inplace = (
            f"class F{nr}(lib.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
            f"        ctx.mark_dirty(x)\n        return x.mul_(3)\n"
            f"    @staticmethod\n    def backward(ctx, g):\n        return g * 3\n"
            f"{name} = {v} * 1\n{self.pick('', f'v0 = {name}[0]' + chr(10))}F{nr}.apply({name})"
        )
        reading = (
            f"class F{nr}(lib.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, k):\n"
            f"        ctx.k = k\n        return x * k, (x > 0).sum()\n"
            f"    @staticmethod\n    def backward(ctx, g, h):\n        s.log.append(float(g.sum()))\n"
            f"        return g * ctx.k, None\n"
            f"{name} = F{nr}.apply({v}, {k})[0]"
        )
        checkpoint = (
            f"{name} = lib.utils.checkpoint.checkpoint(lambda x: (x.sin() * {w}).tanh(), {v}, use_reentrant=False)"
        )
        return self.pick(
            f"with lib.autograd.graph.saved_tensors_hooks({hooks}):\n    {name} = ({v} * {w}).sin()",
            f"with lib.autograd.graph.saved_tensors_hooks({hooks}):\n    {name} = {self.value()}",
            second, f"{second}\n({name} * {name}).sum().backward()",
            f"with lib.autograd.graph.saved_tensors_hooks({hooks}):\n"
            f"    ({v} * {v}).sum().backward(create_graph=True)\n{p}.grad = None",
            function, function, inplace, reading, checkpoint, checkpoint.replace("False", "True"),
            f"with lib.autograd.set_detect_anomaly(True): {v}.sum().backward(retain_graph=True)",
            f"with lib.autograd.graph.save_on_cpu():\n    {name} = {v}.sin() * {w}",
            f"with lib.autograd.graph.allow_mutation_on_saved_tensors():\n    {name} = {v} * 1\n"
            f"    u = {name}.sin() * {w}\n    {name}.mul_({k})\n    u.sum().backward()",
            f"{name} = {v} * 1\nu = {w}.sin()\nif {name}.requires_grad and u.requires_grad:\n"
            f"    h = lib.autograd.graph.register_multi_grad_hook("
            f"[{name}, u], lambda g: s.log.append([x is None for x in g]))\n"
            # removed: PyTorch does not call it in a backward whose only root is one of them (it counts no roots)
            f"    ({name}.sum() + u.sum()).backward()\n    h.remove()",
        )  # fmt: skip

    def transform(self) -> str:
        """Functional transforms, forward-mode derivatives, batched gradients."""
        v, w, name = self.any(), self.any(), self.fresh()
        body = self.pick("x.sin() * 2", f"x * {w}", "x * x + 1", "(x @ s.p0).tanh()", "x.exp()[0]", "x.cumsum(0)")
        forward = "lib.autograd.forward_ad"
        return self.pick(
            f"{name} = lib.func.grad(lambda x: ({body}).sum())({v})",
            f"{name} = lib.func.vjp(lambda x: {body}, {v})[1](lib.ones_like({v}))[0]",
            f"{name} = lib.func.jvp(lambda x: {body}, ({v} * 1,), (lib.ones_like({v} * 1),))[1].detach()",
            f"{name} = lib.func.vmap(lambda x: x.sin().sum() * s.a0)({v})",
            f"{name} = lib.func.vmap(lib.func.grad(lambda x: (x * x).sin().sum()))({v})",
            f"{name} = lib.func.grad(lambda x: lib.func.grad(lambda y: (y ** 3).sum())(x).sum())({v}.detach() * 1)",
            f"{name} = lib.autograd.functional.jacobian(lambda x: {body}, {v}.detach())",
            f"{name} = lib.autograd.functional.hvp(lambda x: (x ** 3).sum(), {v}.detach(), lib.ones_like({v}))[1]",
            f"with {forward}.dual_level():\n    d = {forward}.make_dual({v}, lib.ones_like({v}))\n"
            f"    {name} = {forward}.unpack_dual(d.sin() * {w})[1]",
            f"with {forward}.dual_level():\n    d = {forward}.make_dual({v} * 1, lib.ones_like({v}))\n"
            f"    {name} = {forward}.unpack_dual(d{self.pick('.detach()', '.data', '.detach()[:1]', '[:1]')} * 2)[1]\n"
            f"    out.append({name} is None)\n    {name} = d * 1",
            f"with {forward}.dual_level():\n    d = {forward}.make_dual({v} * 1, lib.ones_like({v}))\n"
            f"    with lib.no_grad(): d.mul_({w})\n    {name} = {forward}.unpack_dual(d[:1] + d)[1]",
            f"{name} = lib.autograd.grad(s.p1 * s.p1 * {v}.sum(), s.p1, lib.ones(2, *s.p1.shape, dtype=s.p1.dtype), "
            f"is_grads_batched=True, retain_graph=True)[0]",
        )  # fmt: skip
