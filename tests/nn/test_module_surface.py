"""``Module`` beside PyTorch's: registries, names, hooks of all kinds, state with extras, assignments and their errors.

Each case is a function of a library (``jitgrad`` or ``torch``) that returns plain values; both must give the same.
"""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import jitgrad

torch: Any = pytest.importorskip("torch")

Case = Callable[[Any], Any]


def block(xp: Any) -> Any:
    """A tree with parameters, buffers of both kinds, and an absent parameter."""

    class Block(xp.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = xp.nn.Linear(2, 2)
            self.scale = xp.nn.Parameter(xp.ones(2))
            self.register_parameter("absent", None)
            self.register_buffer("count", xp.zeros(1))
            self.register_buffer("scratch", xp.zeros(1), persistent=False)
            xp.nn.init.constant_(self.layer.weight, 0.5)
            xp.nn.init.constant_(self.layer.bias, 0.25)

        def forward(self, x: Any) -> Any:
            return self.layer(x) * self.scale

    return Block()


def extra(xp: Any) -> Any:
    class Extra(xp.nn.Linear):
        note = "first"

        def get_extra_state(self) -> Any:
            return {"note": self.note}

        def set_extra_state(self, state: Any) -> None:
            self.note = state["note"]

    return Extra(1, 1)


def plain(value: Any) -> Any:
    """Tensors as lists, exceptions as their type and text, structures with these in them."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def raised(call: Callable[[], Any]) -> Any:
    try:
        return ["nothing", plain(call())]
    except Exception as error:
        return [type(error).__name__, str(error)]


def registries(xp: Any) -> Any:
    m = block(xp)
    m._parameters["scale"] = xp.nn.Parameter(xp.full((2,), 3.0))
    seen = [plain(m.scale), list(m._parameters), list(m._buffers), list(m._modules), plain(m._buffers["count"])]
    seen.append([type(child).__name__ for child in m._modules.values()])
    m._buffers["new"] = xp.ones(1)
    del m._parameters["scale"]
    m._modules["layer"] = xp.nn.Identity()
    return [*seen, plain(m.new), hasattr(m, "scale"), type(m.layer).__name__, list(m.state_dict())]


def copies(xp: Any) -> Any:
    m = block(xp)
    twin = copy.deepcopy(m)
    twin._parameters["scale"].data.fill_(7.0)
    twin._parameters["scale"] = xp.nn.Parameter(xp.zeros(2))
    return plain([m.scale, twin.scale, list(twin._parameters), [k for k, _ in twin.named_parameters()]])


def assignments(xp: Any) -> Any:
    m = block(xp)
    m.count = xp.full((1,), 4.0)
    m.scratch = None
    m.made = xp.nn.Buffer(xp.ones(1), persistent=False)
    m.kept = xp.nn.Buffer(xp.ones(1))
    m.scale = None
    m.layer = None
    return [plain(dict(m.named_buffers())), list(m.state_dict()), list(m._parameters), list(m._modules)]


def errors(xp: Any) -> Any:
    m, nn = block(xp), xp.nn
    child = nn.Linear(1, 1)
    return [
        raised(lambda: m.register_parameter("a.b", None)),
        raised(lambda: m.register_parameter("", None)),
        raised(lambda: m.register_parameter("layer", None)),
        raised(lambda: m.register_parameter(3, None)),
        raised(lambda: m.register_parameter("p", nn.Parameter)[:0])[0],
        raised(lambda: m.register_buffer("scale", xp.zeros(1))),
        raised(lambda: m.register_buffer("a.b", xp.zeros(1))),
        raised(lambda: m.register_buffer("b", 3)),
        raised(lambda: m.add_module("a.b", child)),
        raised(lambda: m.add_module("scale", child)),
        raised(lambda: m.add_module("x", 3)),
        raised(lambda: setattr(m, "layer", 3)),
        raised(lambda: setattr(m, "scale", 3)),
        raised(lambda: setattr(m, "count", 3)),
        raised(lambda: m.get_submodule("layer.weight")),
        raised(lambda: m.get_submodule("layer.none")),
        raised(lambda: m.get_parameter("count")),
        raised(lambda: m.get_buffer("scale")),
        raised(lambda: m.set_submodule("", child)),
        raised(lambda: m.set_submodule("layer.weight", child)),
        raised(lambda: m.set_submodule("layer.other", child, strict=True)),
        raised(lambda: nn.Module(3)),
        raised(lambda: nn.Module(a=3)),
        raised(lambda: m.missing),
        raised(lambda: m.load_state_dict([])),
        raised(lambda: m.get_extra_state())[0],
    ]


def submodules(xp: Any) -> Any:
    m = xp.nn.Sequential(xp.nn.Linear(1, 1), xp.nn.Sequential(xp.nn.ReLU()))
    m.set_submodule("1.0", xp.nn.Tanh())
    m.set_submodule("1.more", xp.nn.Tanh())
    seen = {m[0]}
    return [repr(m), [name for name, _ in m.named_modules(seen, "p")], len(seen)]


def extra_state(xp: Any) -> Any:
    source, target = extra(xp), xp.nn.Sequential(extra(xp))
    source.note = "second"
    state = {f"0.{key}": value for key, value in source.state_dict().items()}
    seen = [list(state), state["0._extra_state"], str(target.load_state_dict(state)), target[0].note]
    del state["0._extra_state"]
    seen.append(raised(lambda: str(target.load_state_dict(state))))
    linear = xp.nn.Linear(1, 1)
    seen.append(raised(lambda: str(linear.load_state_dict(source.state_dict()))))
    return [*seen, str(linear.load_state_dict(source.state_dict(), strict=False))]


def state_dictionaries(xp: Any) -> Any:
    m = xp.nn.Sequential(block(xp), xp.nn.BatchNorm1d(2))
    state = m.state_dict()
    versions = {path: noted["version"] for path, noted in state._metadata.items()}
    into = {"here": 1}
    given = m.state_dict(destination=into, prefix="p.")
    kept = m.state_dict(keep_vars=True)
    return [list(state), versions, given is into, list(into), kept["0.scale"] is m[0].scale]


def positional_arguments_of_state_dict(xp: Any) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        state = block(xp).state_dict({}, "p.")
    return [list(state), [c.category.__name__ for c in caught]]


def assigned_state(xp: Any) -> Any:
    m = block(xp)
    m.scale.requires_grad_(False)
    state = {key: xp.ones_like(value) * 2 for key, value in m.state_dict().items()}
    weight = m.layer.weight
    keys = m.load_state_dict(state, assign=True)
    own = m.state_dict(keep_vars=True)
    return [str(keys), m.layer.weight is weight, m.count is state["count"], plain(dict(own)), m.scale.requires_grad]


def loading_problems(xp: Any) -> Any:
    m = xp.nn.Sequential(xp.nn.Linear(2, 2), xp.nn.Linear(2, 1))
    state = dict(m.state_dict())
    state["0.weight"] = xp.ones(3, 2)
    state["1.bias"] = 3
    state["other.deep"] = xp.ones(1)
    del state["0.bias"]
    return raised(lambda: m.load_state_dict(state))


def what_fits_is_copied(xp: Any) -> Any:
    m = xp.nn.Linear(2, 2)
    seen = raised(lambda: m.load_state_dict({"weight": xp.ones(2, 2), "bias": xp.ones(3)}))[0]
    return [seen, plain(m.weight)]


def state_hooks(xp: Any) -> Any:
    m, seen = xp.nn.Sequential(block(xp)), []
    inner = m[0]

    def after(module: Any, state: Any, prefix: str, metadata: Any) -> None:
        state[f"{prefix}noted"] = len(state)
        metadata["seen"] = True

    def before_load(module: Any, state: Any, prefix: str, *rest: Any) -> None:
        seen.append([type(module).__name__, prefix, state.pop(f"{prefix}noted"), len(rest)])

    def after_load(module: Any, keys: Any) -> None:
        seen.append([type(module).__name__, list(keys.missing_keys), list(keys.unexpected_keys)])
        keys.missing_keys.clear()

    inner.register_state_dict_pre_hook(lambda module, prefix, keep: seen.append([type(module).__name__, prefix, keep]))
    handle = inner.register_state_dict_post_hook(after)
    inner.register_load_state_dict_pre_hook(before_load)
    inner.register_load_state_dict_post_hook(after_load)
    state = m.state_dict()
    seen.append([list(state), state._metadata["0"]])
    del state["0.scale"]
    state.pop("0.noted")
    state["0.noted"] = 5
    seen.append(raised(lambda: str(m.load_state_dict(state))))
    handle.remove()
    return [*seen, list(m.state_dict())]


def wrong_state_hooks(xp: Any) -> Any:
    m = xp.nn.Linear(1, 1)
    m.register_state_dict_post_hook(lambda *args: {})
    other = xp.nn.Linear(1, 1)
    other.register_load_state_dict_post_hook(lambda module, keys: keys)
    old = xp.nn.Linear(1, 1)
    old._register_state_dict_hook(lambda module, state, prefix, metadata: {"all": 1})
    return [raised(m.state_dict), raised(lambda: other.load_state_dict(other.state_dict())), old.state_dict()]


def overridden_state(xp: Any) -> Any:
    class Doubled(xp.nn.Linear):
        def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[prefix + "mine"] = xp.ones(1)

        def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
            self.found = plain(state_dict.pop(prefix + "mine"))
            super()._load_from_state_dict(state_dict, prefix, *rest)

    m = xp.nn.Sequential(Doubled(1, 1))
    state = m.state_dict()
    return [list(state), str(m.load_state_dict(state)), m[0].found]


def old_batch_norm_states(xp: Any) -> Any:
    m = xp.nn.BatchNorm1d(2)
    state = dict(m.state_dict())
    del state["num_batches_tracked"]
    seen = [str(m.load_state_dict(state))]
    new = m.state_dict()
    del new["num_batches_tracked"]
    return [*seen, raised(lambda: m.load_state_dict(new))]


def conversions(xp: Any) -> Any:
    m = block(xp)
    m(xp.ones(1, 2)).sum().backward()
    scale = m.scale
    m._apply(lambda t: t * 2)
    m.type(xp.float64)
    seen = [m.scale is scale, plain(m.scale), plain(m.scale.grad), str(m.scale.dtype)[-7:], str(m.count.dtype)[-7:]]
    m.to_empty(device="cpu")
    whole = xp.nn.Linear(2, 2, device="meta").to_empty(device="cpu")
    return [*seen, m.scale is scale, whole.weight.is_meta]


def train_is_called_on_children(xp: Any) -> Any:
    class Frozen(xp.nn.BatchNorm1d):
        def train(self, mode: bool = True) -> Any:
            return super().train(False)

    return [part.training for part in xp.nn.Sequential(Frozen(1), xp.nn.ReLU()).train().modules()]


def wrappers_that_look_further(xp: Any) -> Any:
    class Wrapper(xp.nn.Module):
        def __init__(self, module: Any) -> None:
            super().__init__()
            self.module = module

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.module, name)

    m = Wrapper(xp.nn.Linear(3, 2))
    return [m.in_features, raised(lambda: m.nothing)]


def call_super_init(xp: Any) -> Any:
    class Named:
        def __init__(self, name: str = "none") -> None:
            self.name = name

    class Both(xp.nn.Module, Named):
        call_super_init = True

    return [Both(name="it").name, Both("that").name]


CASES: list[Case] = [
    registries, copies, assignments, errors, submodules, extra_state, state_dictionaries,
    positional_arguments_of_state_dict, assigned_state, loading_problems, what_fits_is_copied, state_hooks,
    wrong_state_hooks, overridden_state, old_batch_norm_states, conversions, train_is_called_on_children,
    wrappers_that_look_further, call_super_init,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_as_pytorch(case: Case) -> None:
    assert case(jitgrad) == case(torch)


def forward_hooks(xp: Any, seen: list[Any]) -> Any:
    m = block(xp)
    m.register_forward_pre_hook(lambda module, args, kwargs: (args, {**kwargs}), with_kwargs=True)
    m.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    m.register_forward_hook(lambda module, args, result: result + 1)
    m.layer.register_full_backward_hook(lambda module, into, out: (into[0] * 3,))
    m.layer.register_full_backward_pre_hook(lambda module, out: (out[0] * 2,))
    return m


def hooks_of_every_module(xp: Any, seen: list[Any]) -> Any:
    at = xp.nn.modules.module if xp is torch else xp.nn.module
    m = xp.nn.Sequential(block(xp))
    handles = [
        at.register_module_forward_pre_hook(lambda module, args: seen.append(["pre", type(module).__name__])),
        at.register_module_forward_hook(lambda module, args, out: seen.append(["post", type(module).__name__])),
        at.register_module_full_backward_pre_hook(lambda module, out: seen.append(["bpre", type(module).__name__])),
        at.register_module_full_backward_hook(lambda module, into, out: seen.append(["b", type(module).__name__])),
    ]
    m[0].register_forward_hook(lambda module, args, out: seen.append(["own", type(module).__name__]))
    seen.append(handles)
    return m


def test_hooks_around_forward_and_backward() -> None:
    for make in (forward_hooks, hooks_of_every_module):
        found = []
        for xp in (jitgrad, torch):
            seen: list[Any] = []
            m = make(xp, seen)
            handles = seen.pop() if seen else []
            x = xp.ones(1, 2, requires_grad=True)
            try:
                m(x).sum().backward()
            finally:
                for handle in handles:
                    handle.remove()
            m(x)
            found.append([seen, plain(x.grad), plain([p.grad for p in m.parameters()])])
        assert found[0] == found[1]


def test_deprecated_backward_hooks() -> None:
    found = []
    for xp in (jitgrad, torch):
        seen: list[Any] = []
        m = xp.nn.Tanh()
        m.register_backward_hook(lambda module, into, out, seen=seen: seen.append(plain([into, out])))
        x = xp.zeros(2, requires_grad=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            (m(x * 1.0) * 2).sum().backward()
            whole = block(xp)
            whole.register_backward_hook(lambda *args: None)
            whole(x.unsqueeze(0))
        seen.append([str(c.message) for c in caught if c.category is FutureWarning])
        seen.append(raised(lambda m=m: m.register_full_backward_hook(print)))
        found.append(seen)
    assert found[0] == found[1]


def test_hooks_at_registration() -> None:
    found = []
    for xp in (jitgrad, torch):
        at, seen = (xp.nn.modules.module if xp is torch else xp.nn.module), []
        handles = [
            at.register_module_parameter_registration_hook(lambda m, name, p, seen=seen: seen.append(["p", name])),
            at.register_module_buffer_registration_hook(lambda m, name, b, seen=seen: seen.append(["b", name])),
            at.register_module_module_registration_hook(
                lambda m, name, child, seen=seen: seen.append(["m", name]) or (m.act if name == "twin" else None)
            ),
        ]
        try:
            m = block(xp)
            m.act = xp.nn.ReLU()
            m.twin = xp.nn.Tanh()
        finally:
            for handle in handles:
                handle.remove()
        found.append([seen, repr(m)])
    assert found[0] == found[1]


def test_a_hook_that_is_always_called() -> None:
    found = []
    for xp in (jitgrad, torch):
        seen: list[Any] = []
        m = xp.nn.Linear(2, 2)
        m.register_forward_hook(lambda m, args, out, seen=seen: seen.append(out), always_call=True)
        m.register_forward_hook(lambda m, args, out, seen=seen: seen.append("never"))
        assert raised(lambda m=m, xp=xp: m(xp.ones(1, 3)))[0] == "RuntimeError"
        found.append(seen)
    assert found[0] == found[1] == [None]


class Pickled(jitgrad.nn.Module):
    """With all kinds of members."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = jitgrad.nn.Linear(2, 1)
        self.register_buffer("count", jitgrad.zeros(1), persistent=False)


def test_pickles_keep_the_registries() -> None:
    model = pickle.loads(pickle.dumps(Pickled()))
    model._parameters["more"] = jitgrad.nn.Parameter(jitgrad.ones(1))
    assert list(model.state_dict()) == ["more", "layer.weight", "layer.bias"]
    assert model.more.tolist() == [1.0]
    assert list(model._buffers) == ["count"]


def test_a_module_is_freed_without_the_collector() -> None:
    gc.disable()
    try:
        model = Pickled()
        seen = weakref.ref(model)
        del model
        assert seen() is None
    finally:
        gc.enable()


def test_batch_norm_whose_statistics_are_switched_off_later(mode: Any) -> None:
    def seen(xp: Any, run: Any) -> Any:
        found = []
        for kind, shape in (("BatchNorm1d", (4, 2)), ("InstanceNorm1d", (2, 2, 3))):
            xp.manual_seed(0)
            m, x = getattr(xp.nn, kind)(2, track_running_stats=True), xp.randn(*shape)
            m(x)
            m.track_running_stats = False
            out = run(m, x)
            m.eval()
            found += [out.detach(), m(x).detach(), *m.buffers()]
        return found

    ours = seen(jitgrad, lambda m, x: mode.wrap(m)(x))
    for a, b in zip(ours, seen(torch, lambda m, x: m(x)), strict=True):
        assert a.tolist() == pytest.approx(b.tolist()) if not a.ndim else torch.allclose(torch.tensor(a.tolist()), b)
