"""Layouts, indices and windows that lie outside of their memory are refused, in every mode with the same words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from modes import Mode

import jitgrad as jg

torch = pytest.importorskip("torch", reason="parity tests compare with PyTorch")

Step = Callable[[Any, Any], Any]
"""Of the module (jitgrad or torch) and a vector of ten numbers."""

_INSIDE: dict[str, Step] = {
    "a part of the base": lambda m, x: x[5:].as_strided((10,), (1,), 0) + 1,
    "a part of a value": lambda m, x: (x * 2)[5:].as_strided((10,), (1,), 0) + 1,
    "beyond the view": lambda m, x: (x * 2)[:4].as_strided((10,), (1,)) + 1,
    "where the view begins": lambda m, x: (x * 2)[2:4].as_strided((3,), (1,)) + 1,
    "between the elements of a view": lambda m, x: (x * 2)[::2].as_strided((3,), (1,), 2) + 1,
    "through a transposed value": lambda m, x: (x * 2).reshape(2, 5).t().as_strided((3,), (1,), 2) + 1,
    "through a value of one row": lambda m, x: (x[:1] * 2).expand(10).as_strided((3,), (0,)) + 1,
    "overlapping windows": lambda m, x: (x * 2).as_strided((8, 3), (1, 1)) + 1,
    "the last element": lambda m, x: (x * 2).as_strided((), (), 9) + 1,
    "nothing, beyond the end": lambda m, x: (x * 2).as_strided((0,), (1,), 100) + 1,
    "a view of a view": lambda m, x: (x * 2)[5:].as_strided((4,), (2,), 1).as_strided((2,), (1,), 8) + 1,
}

_OUTSIDE: dict[str, Step] = {
    "a negative offset": lambda m, x: x.as_strided((3,), (1,), -2).zero_(),
    "a negative offset of a value": lambda m, x: (x * 2).as_strided((3,), (1,), -1) + 1,
    "a negative offset of nothing": lambda m, x: x.as_strided((0,), (1,), -1),
    "a negative size": lambda m, x: x.as_strided((-1,), (1,)),
    "a negative stride": lambda m, x: x.as_strided((2,), (-1,), 3),
    "too many elements": lambda m, x: x.as_strided((12,), (1,)) + 1,
    "too many elements of a value": lambda m, x: (x * 2).as_strided((12,), (1,)) + 1,
    "too many elements behind a view": lambda m, x: (x * 2)[:4].as_strided((12,), (1,)) + 1,
    "an offset behind the end": lambda m, x: (x * 2).as_strided((), (), 10) + 1,
    "an offset that the view shifts": lambda m, x: (x * 2)[2:].as_strided((9,), (1,)) + 1,
    "a huge stride": lambda m, x: (x * 2).as_strided((2,), (2**62,)) + 1,
    "a huge size": lambda m, x: (x * 2).as_strided((2**62, 2), (4, 1)) + 1,
    "more than was copied": lambda m, x: x[:4].clone().as_strided((8,), (1,)) + 1,
    "an empty tensor": lambda m, x: m.zeros(0).as_strided((3,), (1,)) + 1,
    "a broadcast value": lambda m, x: (x * 1).expand(3, 10).as_strided((30,), (1,)) + 1,
    "written in place": lambda m, x: x.as_strided_((12,), (1,)),
    "scattered": lambda m, x: m.as_strided_scatter(x, m.ones(12), (12,), (1,)),
    "scattered before the beginning": lambda m, x: m.as_strided_scatter(x, m.ones(3), (3,), (1,), -2),
    "set before the beginning": lambda m, x: m.empty(0).set_(x.untyped_storage(), -1, (2,), (1,)),
}


def _said(step: Step, m: Any) -> Any:
    """What a step returns, or the type and the first words of what it raises."""
    try:
        return step(m, m.arange(10.0)).tolist()
    except Exception as error:
        return type(error), str(error).split(":")[0][:24]


def _in(mode: Mode, step: Step) -> Any:
    def caught(x: Any) -> Any:
        try:
            return step(jg, x)
        except Exception as error:
            return error

    found = mode.run(caught, lambda: (jg.arange(10.0),), is_steady=False)
    return found.tolist() if isinstance(found, jg.Tensor) else (type(found), str(found).split(":")[0][:24])


@pytest.mark.parametrize("name", _INSIDE)
def test_a_layout_reads_the_storage_and_not_the_view(name: str, mode: Mode) -> None:
    assert _in(mode, _INSIDE[name]) == _said(_INSIDE[name], torch)


@pytest.mark.parametrize("name", _OUTSIDE)
def test_a_layout_outside_of_the_storage_is_refused(name: str, mode: Mode) -> None:
    found = _in(mode, _OUTSIDE[name])
    assert found[0] is _said(_OUTSIDE[name], torch)[0] is RuntimeError
    if "huge" not in name:  # PyTorch's sizes overflow; ours do not, and are too large
        assert found == _said(_OUTSIDE[name], torch)


@pytest.mark.parametrize("part", ["[:4]", "[2:6]", "[::2]", ".reshape(2, 5).t()"])
@pytest.mark.parametrize("offset", [0, 3, 5])
def test_the_gradient_of_a_layout_is_that_of_the_elements_it_shares(part: str, offset: int, mode: Mode) -> None:
    def step(m: Any, x: Any) -> Any:
        x.requires_grad_()
        view = eval(f"(x * 2){part}").as_strided((2, 2), (1, 2), offset)
        (view * m.arange(1.0, 5.0).reshape(2, 2)).sum().backward()
        return x.grad

    assert _in(mode, step) == _said(step, torch)


_WINDOWS = [
    "F.conv{n}d(x{n}, w{n}, m.zeros(4))", "F.conv{n}d(x{n}, w{n}, m.zeros(1))", "F.conv{n}d(x{n}, w{n}, m.zeros(0))",
    "F.conv{n}d(x{n}, w{n}, m.zeros(3, 1))", "F.conv{n}d(x{n}, w{n}, m.zeros(()))",
    "F.conv{n}d(x{n}, w{n}, stride=0)", "F.conv{n}d(x{n}, w{n}, stride=-1)", "F.conv{n}d(x{n}, w{n}, dilation=0)",
    "F.conv{n}d(x{n}, w{n}, dilation=-1)", "F.conv{n}d(x{n}, w{n}, groups=0)", "F.conv{n}d(x{n}, w{n}, padding=-1)",
    "F.conv{n}d(x{n}, w{n}, padding='foo')", "F.conv{n}d(x{n}, w{n}[..., :0])",
    "F.conv_transpose{n}d(x{n}, w{n}.transpose(0, 1), m.zeros(4))",
    "F.conv_transpose{n}d(x{n}, w{n}.transpose(0, 1), stride=0)",
    "F.conv_transpose{n}d(x{n}, w{n}.transpose(0, 1), dilation=0)",
    "F.conv_transpose{n}d(x{n}, w{n}.transpose(0, 1), groups=0)",
    "F.conv_transpose{n}d(x{n}, w{n}.transpose(0, 1), padding=-1)",
    "F.conv_transpose{n}d(x{n}, w{n}.transpose(0, 1), output_padding=-1)",
    "F.max_pool{n}d(x{n}, 0)", "F.max_pool{n}d(x{n}, 2, stride=-1)", "F.max_pool{n}d(x{n}, 2, dilation=0)",
    "F.max_pool{n}d(x{n}, 2, padding=2)", "F.avg_pool{n}d(x{n}, 0)", "F.avg_pool{n}d(x{n}, 2, stride=0)",
    "F.avg_pool{n}d(x{n}, 2, padding=2)", "F.adaptive_avg_pool{n}d(x{n}, -1)", "F.adaptive_max_pool{n}d(x{n}, -1)",
    "F.adaptive_max_pool{n}d(x{n}, 0)",
]  # fmt: skip
_IMAGES = [
    "F.unfold(x2, 0)", "F.unfold(x2, 2, stride=0)", "F.unfold(x2, 2, dilation=0)", "F.unfold(x2, 2, padding=-1)",
    "F.unfold(x2, 9)", "F.fold(m.zeros(1, 8, 25), (6, 6), 0)", "F.fold(m.zeros(1, 8, 25), (6, 6), 2, stride=0)",
    "F.fold(m.zeros(1, 8, 25), (6, 6), 2, dilation=0)", "F.fold(m.zeros(1, 8, 24), (6, 6), 2)",
    "F.max_unpool2d(x2, m.full((1, 2, 6, 6), 999), 2)", "F.max_unpool2d(x2, m.full((1, 2, 6, 6), -1), 2)",
    "F.pixel_shuffle(x2, 0)", "F.avg_pool2d(x2, 2, divisor_override=0)", "x1.unfold(2, 7, 1)", "x1.unfold(2, 2, 0)",
    "F.linear(m.zeros(2, 3), m.zeros(5, 3), m.zeros(4))",
    "F.bilinear(m.zeros(2, 3), m.zeros(2, 4), m.zeros(5, 3, 4), m.zeros(4))",
]  # fmt: skip


@pytest.mark.parametrize("text", [w.format(n=n) for w in _WINDOWS for n in (1, 2, 3)] + _IMAGES)
def test_windows_of_no_size_are_refused_as_pytorch_refuses_them(text: str, mode: Mode) -> None:
    def step(m: Any, x: Any) -> Any:
        names: dict[str, Any] = {"m": m, "F": m.nn.functional}
        for n in (1, 2, 3):
            names[f"x{n}"], names[f"w{n}"] = m.zeros(1, 2, *[6] * n), m.zeros(3, 2, *[3] * n)
        return eval(text, names)

    found, wanted = _in(mode, step), _said(step, torch)
    assert found[0] == wanted[0]  # the class of the error, or the first row


@pytest.mark.parametrize(
    ("indices", "size", "words"),
    [
        ([[-1, 0]], (3,), "found negative index -1 for dim 0"),
        ([[-1, 0]], None, "found negative index -1 for dim 0"),
        ([[0, 1], [0, -4]], (3, 2), "found negative index -4 for dim 1"),
        ([[0, 0]], (-3,), "numel: integer multiplication overflow"),
    ],
)
def test_indices_outside_of_a_sparse_tensor_are_refused(indices: Any, size: Any, words: str, mode: Mode) -> None:
    def step(values: Any) -> Any:
        with pytest.raises(RuntimeError, match=words):
            jg.sparse_coo_tensor(indices, values * 2, size)
        return values + 1

    assert mode.run(step, lambda: (jg.tensor([1.0, 2.0]),), is_steady=False).tolist() == [2.0, 3.0]


_TOO_LARGE = [
    "m.zeros(2**62).sum()", "m.zeros(2**61)", "m.zeros(2**44).sum()", "m.empty(2**62)", "m.ones(2**44) + 1",
    "m.zeros(2**32, 2**32)", "x.sum().expand(2**62) * 2 + x[:1]", "x.sum().expand(2**45) + 1", "m.arange(2**50)",
    "m.full((2**62,), 1.0)", "x.repeat(2**60)", "m.cat([x[:1].expand(2**44)] * 3)", "m.linspace(0, 1, 2**50)",
    "m.nn.functional.pad(x, (0, 2**50))", "m.ones(2**20, 1) @ m.ones(1, 2**25)", "x.new_zeros(2**50)",
    "m.empty_strided((2,), (2**62,))",
]  # fmt: skip


@pytest.mark.parametrize("text", _TOO_LARGE)
def test_what_no_memory_can_hold_is_refused(text: str, mode: Mode) -> None:
    def step(m: Any, x: Any) -> Any:
        return eval(text, {"m": m, "x": x})

    found, wanted = _in(mode, step), _said(step, torch)
    assert found[0] is wanted[0] is RuntimeError
    assert ("overflow" in found[1]) == ("overflow" in wanted[1])


_NO_ELEMENTS = [
    "e + 1", "(e * 2).sum()", "(e * 2).sum(0)", "(e * 2).t().sum(1)", "e.prod(0)",
    "(e * 2).softmax(0)", "(e * 2).cumsum(0)", "m.cat([e, e])", "m.autograd.grad((e * x).sum(), x)[0]",
    "e[m.tensor([1, 5])]", "e.t() @ e", "m.where(e > 0, x, 1.0)", "e.flip(0)", "e.clone().copy_(x)",
    "m.gather(e, 0, m.zeros(2**33, 0, dtype=m.int64))", "e.scatter_add(0, m.zeros(2**33, 0, dtype=m.int64), e)",
    "m.rand(2**40, 0)", "m.nn.functional.pad(e, (0, 0, 1, 1))",
    "m.nn.functional.conv1d(m.zeros(0, 3, 2**30), m.ones(5, 3, 3))",
]  # fmt: skip


@pytest.mark.parametrize("text", _NO_ELEMENTS)
def test_loops_over_no_elements_end(text: str, mode: Mode) -> None:
    """The other extent is so large that counting to it would take hours."""

    def step(m: Any, x: Any) -> Any:
        empty = m.zeros(1, 0, requires_grad=True)
        return eval(text, {"m": m, "x": empty, "e": empty.expand(2**40, 0)})

    shapes = {m: tuple(step(m, None).shape) for m in (jg, torch)}
    assert tuple(mode.run(step, lambda: (jg, None)).shape) == shapes[jg] == shapes[torch]


def test_a_step_goes_on_after_it_got_no_memory(mode: Mode) -> None:
    weight = jg.nn.Parameter(jg.ones(3))
    optimizer = jg.optim.SGD([weight], 0.25)

    def step(count: int) -> Any:
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()
        return (weight.detach().sum().expand(count) * 2)[:1].sum()

    run = mode.wrap(step)
    for count, left in zip((1, 2**45, 1, 2**62, 1, 1), (0.75, 0.5, 0.25, 0.0, -0.25, -0.5), strict=True):
        if count == 1:
            assert run(count).item() == left * 6
        else:
            with pytest.raises(RuntimeError, match=r"allocate|overflow"):
                run(count)
        assert weight.tolist() == [left] * 3  # what came before the failure is done, once
