"""``Module``: the tree, its traversals, state dictionaries, hooks."""

from __future__ import annotations

import copy
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import nn


class Block(nn.Module):
    """A layer, a buffer that is saved, one that is not, and a plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.scale = nn.Parameter(jitgrad.ones(2))
        self.register_buffer("count", jitgrad.zeros(1))
        self.register_buffer("scratch", jitgrad.zeros(1), persistent=False)
        self.note = "plain"

    def forward(self, x: Any) -> Any:
        return self.layer(x) * self.scale


def names(pairs: Any) -> list[str]:
    return [name for name, _ in pairs]


def test_tree_and_names() -> None:
    model = nn.Sequential(Block(), nn.ReLU())
    assert names(model.named_parameters()) == ["0.scale", "0.layer.weight", "0.layer.bias"]
    assert names(model.named_buffers()) == ["0.count", "0.scratch"]
    assert names(model.named_modules()) == ["", "0", "0.layer", "1"]
    assert names(model.named_children()) == ["0", "1"]
    assert model.get_submodule("0.layer") is model[0].layer
    assert model.get_parameter("0.layer.bias") is model[0].layer.bias
    with pytest.raises(AttributeError):
        model.get_submodule("0.nothing")


def test_shared_parameter_is_listed_once_and_saved_twice() -> None:
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    second.weight = first.weight
    model = nn.Sequential(first, second)
    assert names(model.named_parameters()) == ["0.weight", "0.bias", "1.bias"]
    assert list(model.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_assignment_files_by_type() -> None:
    block = Block()
    with pytest.raises(TypeError, match="as parameter 'scale'"):
        block.scale = jitgrad.ones(2)
    with pytest.raises(TypeError, match="as child module 'layer'"):
        block.layer = 3
    block.scale = None
    assert "scale" not in names(block.named_parameters())
    block.note = nn.Parameter(jitgrad.ones(1))
    assert "note" in names(block.named_parameters())
    del block.note
    assert "note" not in names(block.named_parameters())
    with pytest.raises(AttributeError):
        block.note  # noqa: B018


def test_parameters_need_init_first() -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            self.weight = nn.Parameter(jitgrad.ones(1))

    with pytest.raises(AttributeError, match=r"before Module.__init__"):
        Early()


def test_forward_is_required() -> None:
    with pytest.raises(NotImplementedError, match="Module"):
        nn.Module()(1)


def test_state_dict_round_trip() -> None:
    source, target = Block(), Block()
    with jitgrad.no_grad():
        source.count.add_(5.0)
    state = source.state_dict()
    assert list(state) == ["scale", "count", "layer.weight", "layer.bias"]
    assert not any(value.requires_grad for value in state.values())
    weight = target.layer.weight
    keys = target.load_state_dict(state)
    assert keys == ([], [])
    assert target.layer.weight is weight
    for key, value in target.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), state[key].numpy())


def test_load_state_dict_complains_and_changes_nothing() -> None:
    model = nn.Linear(2, 2)
    before = model.weight.detach().numpy().copy()
    wrong = {"weight": jitgrad.ones(3, 2), "extra": jitgrad.ones(1)}
    with pytest.raises(RuntimeError) as caught:
        model.load_state_dict(wrong)
    for text in ('Missing key(s) in state_dict: "bias"', 'Unexpected key(s) in state_dict: "extra"', "size mismatch"):
        assert text in str(caught.value)
    np.testing.assert_array_equal(model.weight.detach().numpy(), before)
    keys = model.load_state_dict({"bias": jitgrad.ones(2), "extra": jitgrad.ones(1)}, strict=False)
    assert keys.missing_keys == ["weight"]
    assert keys.unexpected_keys == ["extra"]


def test_train_eval_and_apply() -> None:
    model = nn.Sequential(Block(), nn.Dropout(0.5))
    assert not any(m.training for m in model.eval().modules())
    assert all(m.training for m in model.train().modules())
    with pytest.raises(ValueError, match="boolean"):
        model.train(1)  # type: ignore[arg-type]
    seen: list[str] = []
    model.apply(lambda m: seen.append(type(m).__name__))
    assert seen[-1] == "Sequential"
    assert sorted(seen) == ["Block", "Dropout", "Linear", "Sequential"]


def test_zero_grad_and_requires_grad() -> None:
    model = nn.Linear(2, 1)
    model(jitgrad.ones(1, 2)).sum().backward()
    model.zero_grad(set_to_none=False)
    assert model.weight.grad is not None
    assert model.weight.grad.tolist() == [[0.0, 0.0]]
    model.zero_grad()
    assert model.weight.grad is None
    assert not any(p.requires_grad for p in model.requires_grad_(False).parameters())


def test_dtype_conversion() -> None:
    model = Block().double()
    assert {p.dtype for p in model.parameters()} == {jitgrad.float64}
    assert model.count.dtype is jitgrad.float64
    assert all(isinstance(p, nn.Parameter) for p in model.parameters())


def test_deepcopy_shares_nothing() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    twin = copy.deepcopy(model)
    with jitgrad.no_grad():
        twin[0].weight.zero_()
    assert model[0].weight.detach().numpy().any()
    assert isinstance(twin[0].weight, nn.Parameter)
    assert names(twin.named_parameters()) == names(model.named_parameters())


def test_forward_hooks_see_and_replace() -> None:
    model = nn.Linear(2, 2)
    calls: list[str] = []

    def before(module: nn.Module, args: tuple[Any, ...]) -> Any:
        calls.append("before")
        return (args[0] * 0,)

    def after(module: nn.Module, args: tuple[Any, ...], result: Any) -> Any:
        calls.append("after")
        return result + 1

    first, second = model.register_forward_pre_hook(before), model.register_forward_hook(after)
    out = model(jitgrad.ones(1, 2))
    np.testing.assert_allclose(out.detach().numpy()[0], model.bias.detach().numpy() + 1, rtol=1e-6)
    first.remove()
    second.remove()
    model(jitgrad.ones(1, 2))
    assert calls == ["before", "after"]


def test_forward_hook_in_a_step(mode: Any) -> None:
    model = nn.Linear(2, 2)
    seen: list[Any] = []
    model.register_forward_hook(lambda module, args, result: seen.append(result.sum().item()))
    out = mode.run(lambda x: model(x).sum(), lambda: (jitgrad.ones(1, 2),))
    assert seen[-1] == pytest.approx(out.item())


def test_repr_is_pytorch_s() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Dropout(0.1)))
    assert repr(model) == (
        "Sequential(\n"
        "  (0): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (1): Sequential(\n"
        "    (0): ReLU()\n"
        "    (1): Dropout(p=0.1, inplace=False)\n"
        "  )\n"
        ")"
    )


def test_parameter_shares_the_storage_of_its_data() -> None:
    data = jitgrad.zeros(3)
    parameter = nn.Parameter(data)
    assert parameter.requires_grad
    assert parameter.is_leaf
    assert not data.requires_grad
    with jitgrad.no_grad():
        parameter.add_(1.0)
    assert data.tolist() == [1.0, 1.0, 1.0]
    assert repr(parameter).startswith("Parameter containing:")
    assert type(parameter * 2) is jitgrad.Tensor


def test_a_parameter_of_a_frozen_tensor() -> None:
    assert not nn.Parameter(jitgrad.ones(1), requires_grad=False).requires_grad


def test_apply_visits_modules_in_pytorchs_order() -> None:
    torch = pytest.importorskip("torch")

    def drawn(module: Any) -> Any:
        m, visited = module.nn, []
        module.manual_seed(1)
        net = m.Sequential(m.Linear(2, 2), m.Sequential(m.Embedding(3, 2), m.ModuleList([m.Linear(2, 1)])), m.ReLU())
        net.append(net[0])  # a module that is there twice is visited once

        def visit(one: Any) -> None:
            visited.append(type(one).__name__)
            if hasattr(one, "weight"):
                m.init.normal_(one.weight)

        assert net.apply(visit) is net
        return visited, [p.tolist() for p in net.parameters()]

    (ours, values), (theirs, wanted) = drawn(jitgrad), drawn(torch)
    assert ours == theirs
    for got, want in zip(values, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_what_load_state_dict_returns_reads_as_pytorchs() -> None:
    torch = pytest.importorskip("torch")

    def loaded(module: Any) -> list[str]:
        net = module.nn.Linear(2, 1)
        state = dict(net.state_dict())
        whole = repr(net.load_state_dict(state))
        state["other"] = state.pop("bias")
        return [whole, str(net.load_state_dict(state, strict=False))]

    assert loaded(jitgrad) == loaded(torch)


def test_a_state_dictionary_is_an_ordered_dict_that_can_be_saved(tmp_path: Path) -> None:
    """Copied or not: its type is Python's own, so that files know it; what it notes of versions is an attribute."""
    state = nn.Linear(2, 2).state_dict()
    for given in (state, copy.deepcopy(state), {"model": state}):
        jitgrad.save(given, tmp_path / "state")
        loaded = jitgrad.load(tmp_path / "state")
        assert list(loaded.get("model", loaded)) == ["weight", "bias"]
    assert type(state) is OrderedDict
    assert state._metadata == {"": {"version": 1}}
