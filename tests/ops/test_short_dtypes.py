"""uint8, int8, int16, float16 and bfloat16: what operations compute, per dtype, as PyTorch's on a CPU."""

from __future__ import annotations

import copy
import operator
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from modes import Mode

import jitgrad as jg

torch = pytest.importorskip("torch", reason="compares with torch")

HALVES = ("float16", "bfloat16")
INTEGERS = ("uint8", "int8", "int16")
SHORT = (*INTEGERS, *HALVES)
ALL = ("bool", *INTEGERS, "int32", "int64", *HALVES, "float32", "float64")
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2}  # two units in the last place


def numbers(name: str, shape: tuple[int, ...], seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    if name == "bool":
        return rng.random(shape) > 0.5
    if "float" in name:
        return torch.tensor(rng.normal(0, 3, shape)).to(getattr(torch, name)).double().numpy()
    return rng.integers(-150, 300, shape).astype(name)


def make(lib: Any, name: str, shape: tuple[int, ...], seed: int = 0) -> Any:
    return lib.tensor(numbers(name, shape, seed), dtype=getattr(lib, name))


def values(x: Any) -> Any:
    return x.detach().double().numpy()


def dtype_name(x: Any) -> str:
    return str(x.dtype).rpartition(".")[2]


def check(got: Any, want: Any, note: Any = "", is_exact: bool = True) -> None:
    assert dtype_name(got) == dtype_name(want), note
    tolerance = 0.0 if is_exact else TOLERANCE.get(dtype_name(want), 1e-5)
    np.testing.assert_allclose(values(got), values(want), rtol=tolerance, atol=tolerance, err_msg=str(note))


@pytest.mark.parametrize("size", [(3, 5), (20, 17)])
@pytest.mark.parametrize("resampled", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_images_of_bytes_are_resampled_exactly(
    size: tuple[int, int], resampled: str, antialias: bool, mode: Mode
) -> None:
    def resize(t: Any) -> Any:
        x = make(t, "uint8", (2, 3, 9, 7))
        return t.nn.functional.interpolate(x, size, mode=resampled, antialias=antialias)

    check(mode.run(lambda: resize(jg)), resize(torch))


# --- every pair of dtypes ---

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "lt": operator.lt, "eq": operator.eq,
    "and": operator.and_,
}  # fmt: skip
SHAPES = (((7,), (7,)), ((7,), ()), ((), (7,)))


def _pairs(name: str) -> list[tuple[str, str]]:
    kinds = [n for n in ALL if name != "and" or "float" not in n]
    return [(a, b) for a in kinds for b in kinds if name != "sub" or "bool" not in (a, b)]


@pytest.mark.parametrize("name", BINARY)
def test_operations_on_two_dtypes(name: str, mode: Mode) -> None:
    cases = [(a, b, m, n) for a, b in _pairs(name) for m, n in SHAPES]

    def step(operands: dict[Any, Any]) -> list[Any]:
        return [BINARY[name](operands[a, m, 0], operands[b, n, 1]) for a, b, m, n in cases]

    def given(lib: Any) -> dict[Any, Any]:
        return {(a, m, seed): make(lib, a, m, seed) for a in ALL for m in ((7,), ()) for seed in (0, 1)}

    got, want = mode.run(step, lambda: (given(jg),)), step(given(torch))
    for case, g, w in zip(cases, got, want, strict=True):
        check(g, w, case)


NUMBERS = (3, -2, 300, 0.1, True)
WITH_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "radd": lambda x, n: n + x, "rsub": lambda x, n: n - x * 1, "mul": operator.mul,
    "div": operator.truediv, "lt": operator.lt, "eq": operator.eq,
}  # fmt: skip


@pytest.mark.parametrize("name", SHORT)
def test_operations_with_numbers(name: str, mode: Mode) -> None:
    cases = [(op, n) for op in WITH_NUMBERS for n in NUMBERS if op != "rsub" or n is not True]

    def step(x: Any) -> list[Any]:
        return [WITH_NUMBERS[op](x, n) for op, n in cases]

    got, want = mode.run(step, lambda: (make(jg, name, (33,)),)), step(make(torch, name, (33,)))
    for case, g, w in zip(cases, got, want, strict=True):
        check(g, w, case)


def test_a_number_divided_by_halves(mode: Mode) -> None:
    def step(xs: Any) -> list[Any]:
        return [2.3 / x for x in xs]

    got = mode.run(step, lambda: ([make(jg, n, (40,)) for n in HALVES],))
    for g, w in zip(got, step([make(torch, n, (40,)) for n in HALVES]), strict=True):
        check(g, w)


# --- integers ---

INTEGER_STEPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "floor_divide": lambda lib, x, y: x // y, "remainder": lambda lib, x, y: x % y, "fmod": lambda lib, x, y: x.fmod(y),
    "trunc": lambda lib, x, y: lib.div(x, y, rounding_mode="trunc"), "div": lambda lib, x, y: x / y,
    "neg": lambda lib, x, y: -x, "abs": lambda lib, x, y: x.abs(), "sign": lambda lib, x, y: x.sign(),
    "not": lambda lib, x, y: ~x, "shl": lambda lib, x, y: x << (y % 10), "shr": lambda lib, x, y: x >> (y % 10),
    "pow": lambda lib, x, y: x ** 3, "pow2": lambda lib, x, y: x ** (y % 4), "sum": lambda lib, x, y: x.sum(),
    "prod": lambda lib, x, y: x[:5].prod(), "cumsum": lambda lib, x, y: x.cumsum(0), "max": lambda lib, x, y: x.max(),
    "argmin": lambda lib, x, y: x.argmin(), "clamp": lambda lib, x, y: x.clamp(2, 99), "any": lambda lib, x, y: x.any(),
    "mm": lambda lib, x, y: x.view(8, 8) @ y.view(8, 8), "where": lambda lib, x, y: lib.where(x > y, x, y),
    "flip": lambda lib, x, y: x.flip(0)[3:], "index": lambda lib, x, y: x[lib.tensor([5, 0, 63])],
    "cat": lambda lib, x, y: lib.cat([x, y]), "mixed cat": lambda lib, x, y: lib.cat([x, y.to(lib.int8)]),
    "sort": lambda lib, x, y: x.sort()[0], "exp": lambda lib, x, y: (x % 5).exp(), "mean": lambda lib, x, y:
    x.mean(dtype=lib.float16), "bits": lambda lib, x, y: (x & y) | (x ^ 5), "pad": lambda lib, x, y:
    lib.nn.functional.pad(x, (2, 1), value=7), "scatter": lambda lib, x, y: x.scatter_add(0, lib.tensor([1, 1, 3]), y),
}  # fmt: skip


@pytest.mark.parametrize("name", INTEGERS)
def test_short_integers_wrap(name: str, mode: Mode) -> None:
    def operands(lib: Any) -> tuple[Any, Any]:
        y = numbers(name, (64,), 1)
        return make(lib, name, (64,)), lib.tensor(np.where(y == 0, 1, y).astype(name))

    def step(lib: Any, x: Any, y: Any) -> list[Any]:
        return [run(lib, x, y) for run in INTEGER_STEPS.values()]

    got, want = mode.run(lambda x, y: step(jg, x, y), lambda: operands(jg)), step(torch, *operands(torch))
    for case, g, w in zip(INTEGER_STEPS, got, want, strict=True):
        check(g, w, case, is_exact=dtype_name(w) == name)


@pytest.mark.parametrize("name", SHORT)
def test_numbers_that_do_not_fit_are_refused(name: str) -> None:
    def outcome(lib: Any, use: Callable[[Any, Any], Any]) -> Any:
        try:
            return use(lib, getattr(lib, name)).tolist()
        except RuntimeError as error:
            return str(error)

    for number in (300, -1, -200, 70000, 2.7, 1e39, -1e39, float("inf"))[: 5 if name in INTEGERS else 8]:
        uses: tuple[Callable[[Any, Any], Any], ...] = (
            lambda lib, dtype, n=number: lib.tensor([n], dtype=dtype),
            lambda lib, dtype, n=number: lib.full((2,), n, dtype=dtype),
            lambda lib, dtype, n=number: lib.zeros(2, dtype=dtype).fill_(n),
            lambda lib, dtype, n=number: lib.zeros(2, dtype=dtype).masked_fill(lib.tensor([True, False]), n),
            lambda lib, dtype, n=number: lib.where(lib.tensor([True, False]), lib.zeros(2, dtype=dtype), n),
            lambda lib, dtype, n=number: lib.zeros(2, dtype=dtype).clamp(n),
        )
        for at, use in enumerate(uses):
            assert outcome(jg, use) == outcome(torch, use), (number, at)


# --- halves ---

UNARY = (
    "abs acos asin atan ceil cos cosh erf exp exp2 expm1 floor log log10 log1p log2 neg reciprocal relu round rsqrt "
    "sigmoid sign sin sinh sqrt square tan tanh trunc isnan isinf lgamma digamma erfinv erfc sinc frac"
).split()
ACTIVATIONS = "gelu silu mish elu softplus softsign hardtanh hardswish leaky_relu logsigmoid softshrink".split()
REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda lib, x: x.sum(), "sum_dim": lambda lib, x: x.sum(1), "mean": lambda lib, x: x.mean(0), "prod":
    lambda lib, x: x.prod(1), "amax": lambda lib, x: x.amax(1), "var": lambda lib, x: x.var(1), "std": lambda lib, x:
    x.std(), "cumsum": lambda lib, x: x.cumsum(1), "softmax": lambda lib, x: x.softmax(1), "log_softmax": lambda lib, x:
    x.log_softmax(0), "logsumexp": lambda lib, x: x.logsumexp(1), "norm": lambda lib, x: x.norm(), "argmax":
    lambda lib, x: x.argmax(1), "sort": lambda lib, x: x.sort(1)[0], "median": lambda lib, x: x.median(), "layer_norm":
    lambda lib, x: lib.nn.functional.layer_norm(x, (6,)), "float sum": lambda lib, x: x.sum(dtype=lib.float32),
    "half sum": lambda lib, x: lib.ones(4, 5000).to(x.dtype).sum(1), "mm": lambda lib, x: x @ x.t(), "linear":
    lambda lib, x: lib.nn.functional.linear(x, x, x[:, 0]), "mv": lambda lib, x: x @ x[0], "outer": lambda lib, x:
    lib.outer(x[0], x[1]), "mse": lambda lib, x: lib.nn.functional.mse_loss(x, x * 2), "cross_entropy": lambda lib, x:
    lib.nn.functional.cross_entropy(x, lib.tensor([0, 1, 2, 3, 4, 5, 0, 1, 2])), "conv": lambda lib, x:
    lib.nn.functional.conv1d(x[None, :2], x[:2, :3].reshape(1, 2, 3)), "lerp": lambda lib, x: lib.lerp(x, x * 2, 0.3),
    "addcmul": lambda lib, x: lib.addcmul(x, x, x, value=0.1), "embedding": lambda lib, x:
    lib.nn.functional.embedding(lib.tensor([3, 0, 3]), x), "masked": lambda lib, x: x.masked_fill(x > 0, -1.5),
    "long": lambda lib, x: x + lib.tensor([2049, 4099, 1, 2, 3, 4]), "attention": lambda lib, x:
    lib.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
}  # fmt: skip


@pytest.mark.parametrize("name", HALVES)
def test_halves_are_computed_in_float32(name: str, mode: Mode) -> None:
    def step(lib: Any, x: Any) -> list[Any]:
        out = [getattr(x, op)() for op in UNARY]
        out += [getattr(lib.nn.functional, op)(x) for op in ACTIVATIONS]
        return out + [run(lib, x) for run in REDUCTIONS.values()]

    with np.errstate(all="ignore"):
        got = mode.run(lambda x: step(jg, x), lambda: (make(jg, name, (9, 6)),))
    want = step(torch, make(torch, name, (9, 6)))
    for case, g, w in zip((*UNARY, *ACTIVATIONS, *REDUCTIONS), got, want, strict=True):
        check(g, w, case, is_exact=case in ("half sum", "sort", "argmax", "embedding", "masked", "long"))


@pytest.mark.parametrize("name", HALVES)
def test_training_in_halves(name: str, mode: Mode) -> None:
    def build(lib: Any) -> tuple[Any, ...]:
        lib.manual_seed(0)
        model = lib.nn.Sequential(lib.nn.Linear(6, 8), lib.nn.LayerNorm(8), lib.nn.GELU(), lib.nn.Linear(8, 3))
        model = model.to(getattr(lib, name))
        return model, lib.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), make(lib, name, (9, 6))

    def step(lib: Any, model: Any, optimizer: Any, x: Any) -> Any:
        for _ in range(3):
            optimizer.zero_grad()
            loss = lib.nn.functional.cross_entropy(model(x), lib.arange(9) % 3)
            loss.backward()
            optimizer.step()
        return [loss, *model.parameters(), *[p.grad for p in model.parameters()]]

    got, want = mode.run(lambda *args: step(jg, *args), lambda: build(jg)), step(torch, *build(torch))
    for g, w in zip(got, want, strict=True):
        assert dtype_name(g) == name
        np.testing.assert_allclose(values(g), values(w), rtol=0.05, atol=4 * TOLERANCE[name])


def test_the_default_dtype_may_be_a_half() -> None:
    made = []
    for lib in (jg, torch):
        lib.set_default_dtype(lib.float16)
        try:
            x = lib.tensor([1.1, 2.2])
            made.append([dtype_name(y) for y in (x, lib.zeros(2), lib.arange(0, 1, 0.25), lib.arange(3) / 2, x * 1.5)])
            assert "dtype" not in repr(x)
        finally:
            lib.set_default_dtype(lib.float32)
    assert made[0] == made[1] == ["float16"] * 5


# --- making, drawing ---

MADE: dict[str, Callable[[Any, Any], Any]] = {
    "arange": lambda lib, dtype: lib.arange(7, dtype=dtype), "linspace": lambda lib, dtype:
    lib.linspace(1, 50, 11, dtype=dtype), "eye": lambda lib, dtype: lib.eye(3, dtype=dtype), "full": lambda lib, dtype:
    lib.full((3,), 5, dtype=dtype), "like": lambda lib, dtype: lib.ones_like(lib.zeros(3), dtype=dtype), "new":
    lambda lib, dtype: lib.zeros(2, dtype=dtype).new_full((2,), 7), "randint": lambda lib, dtype:
    lib.randint(0, 100, (50,), dtype=dtype), "randperm": lambda lib, dtype: lib.randperm(40, dtype=dtype), "random_":
    lambda lib, dtype: lib.zeros(30, dtype=dtype).random_(), "bernoulli_": lambda lib, dtype:
    lib.zeros(30, dtype=dtype).bernoulli_(0.4),
}  # fmt: skip
DRAWN: dict[str, Callable[[Any, Any], Any]] = {
    "rand": lambda lib, dtype: lib.rand(40, dtype=dtype), "uniform_": lambda lib, dtype:
    lib.zeros(40, dtype=dtype).uniform_(-1, 2), "randn": lambda lib, dtype: lib.randn(7, dtype=dtype), "blocks":
    lambda lib, dtype: lib.randn(40, dtype=dtype), "normal_": lambda lib, dtype:
    lib.zeros(47, dtype=dtype).normal_(1, 2), "dropout": lambda lib, dtype:
    lib.nn.functional.dropout(lib.ones(40, dtype=dtype), 0.3),
}  # fmt: skip


@pytest.mark.parametrize("name", SHORT)
def test_what_is_made_and_drawn_is_torchs(name: str) -> None:
    for case, run in (MADE if name in INTEGERS else MADE | DRAWN).items():
        made = []
        for lib in (jg, torch):
            lib.manual_seed(3)
            made.append(run(lib, getattr(lib, name)))
            made.append(lib.rand(1))  # as many numbers were drawn
        check(made[0], made[2], case)
        check(made[1], made[3], case)


# --- memory, conversions ---


@pytest.mark.parametrize("name", SHORT)
def test_to_python_and_back(name: str) -> None:
    x, y = make(jg, name, (2, 3)), make(torch, name, (2, 3))
    assert x.tolist() == y.tolist() and x[0, 0].item() == y[0, 0].item()
    assert type(x[0, 0].item()) is type(y[0, 0].item())
    sizes = [(z.element_size(), z.nbytes, z.untyped_storage().nbytes()) for z in (x, y)]
    assert sizes[0] == sizes[1]
    assert x.type() == str(y.type()).replace("torch", "jitgrad")
    assert jg.as_tensor(x, dtype=jg.float32).tolist() == y.float().tolist()
    assert pickle.loads(pickle.dumps(x)).tolist() == copy.deepcopy(x).tolist() == y.tolist()
    assert f"dtype=jitgrad.{name}" in repr(x)
    if name == "bfloat16":
        with pytest.raises(TypeError, match="Got unsupported ScalarType BFloat16"):
            x.numpy()
        assert jg.from_numpy(x._ndarray()).dtype is jg.bfloat16  # an array of ml_dtypes
    else:
        np.testing.assert_array_equal(x.numpy(), y.numpy(), strict=True)
        assert jg.from_numpy(y.numpy()).dtype is getattr(jg, name)
        assert dtype_name(jg.tensor([np.dtype(name).type(1)])) == name


@pytest.mark.parametrize("short", ["half", "bfloat16", "short", "char", "byte"])
def test_methods_convert(short: str) -> None:
    x, y = jg.tensor([1.7, -2.2]), torch.tensor([1.7, -2.2])
    check(getattr(x, short)(), getattr(y, short)())
    kind = {"half": "Half", "bfloat16": "BFloat16", "short": "Short", "char": "Char", "byte": "Byte"}[short] + "Tensor"
    assert isinstance(getattr(x, short)(), getattr(jg, kind)) and not isinstance(x, getattr(jg, kind))
    check(x.type(getattr(jg, kind)), y.type(getattr(torch, kind)))
    assert getattr(jg, kind)(2).dtype is getattr(x, short)().dtype


VIEWS = [(a, b) for a in ("uint8", "int16", "float16", "float32", "int64") for b in ("uint8", "bfloat16", "int32")]


@pytest.mark.parametrize(("source", "to"), VIEWS)
def test_view_of_another_dtype(source: str, to: str) -> None:
    for index in (slice(None), (slice(None), slice(0, 4)), slice(1, None), (slice(None), 0), 0):
        results = []
        for lib in (jg, torch):
            x = lib.zeros(4, 8, dtype=getattr(lib, source))[index]
            try:
                v = x.view(getattr(lib, to))
                results.append((tuple(v.shape), v.stride(), v.storage_offset(), v.data_ptr() == x.data_ptr()))
            except RuntimeError as error:
                results.append(str(error).partition(" to view ")[0])
        assert results[0] == results[1], index


def test_memory_in_two_dtypes_in_a_step(mode: Mode) -> None:
    def step(x: Any, w: Any) -> list[Any]:
        doubled = x * 2
        x.mul_(-1)
        signs = w >> 31
        w.bitwise_and_(0x7FFFFFFF)
        inside = doubled.view(w.dtype)
        inside.bitwise_and_(0x7FFFFFFF)
        return [doubled + 0, signs, x + 0, w, inside.view(x.dtype) - 1]

    def given(lib: Any) -> tuple[Any, Any]:
        x = lib.tensor([0.0, -2.0, 3.0])
        return x, x.view(lib.int32)

    for g, w in zip(mode.run(step, lambda: given(jg)), step(*given(torch)), strict=True):
        check(g, w)


def test_bytes_index_as_masks(mode: Mode) -> None:
    def step(lib: Any, x: Any, mask: Any) -> list[Any]:
        x = x.clone()
        taken = x[mask]
        x[mask] = taken * 5
        return [taken, x]

    def given(lib: Any) -> tuple[Any, Any]:
        return lib.arange(4), lib.tensor([1, 0, 0, 3], dtype=lib.uint8)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = mode.run(lambda *args: step(jg, *args), lambda: given(jg))
        want = step(torch, *given(torch))
    assert all("indexing with dtype torch.uint8 is now deprecated" in str(w.message) for w in caught) and caught
    for g, w in zip(got, want, strict=True):
        check(g, w)
    with pytest.raises(IndexError, match="tensors used as indices must be long, int, byte or bool"):
        jg.arange(4)[jg.tensor([1], dtype=jg.int8)]


def test_states_of_generators_are_bytes() -> None:
    assert jg.get_rng_state().dtype is jg.uint8
    np.testing.assert_array_equal(jg.manual_seed(5).get_state().numpy(), torch.manual_seed(5).get_state().numpy())


@pytest.mark.parametrize("name", SHORT)
def test_numbers_that_change_from_call_to_call(name: str) -> None:
    def step(x: Any, n: Any) -> list[Any]:
        return [x + n, x * n, x - n, n - x, x < n]

    compiled = jg.compile(step)
    for n in (1, 2, 3, 77, 90) if name in INTEGERS else (0.1, 0.2, 0.3, 0.77, 1.3):
        got, want = compiled(make(jg, name, (40,)), n), step(make(torch, name, (40,)), n)
        for case, g, w in zip("+*-r<", got, want, strict=True):
            check(g, w, (case, n))


def test_what_overflows_is_infinite_and_nobody_is_warned(mode: Mode) -> None:
    def step(lib: Any, x: Any, wide: Any) -> list[Any]:
        made = [lib.tensor([1e6, 1.0], dtype=lib.float16)]
        made += [x * 2, x + 1e6, x.sum(), x.clone().mul_(3), lib.zeros(2, dtype=lib.float16).copy_(wide), wide.half()]
        return [*made, wide.bfloat16(), lib.where(x > 1, x, 1e9)]

    def given(lib: Any) -> tuple[Any, Any]:
        return lib.tensor([60000.0, 1e-8], dtype=lib.float16), lib.tensor([1e300, 1e5], dtype=lib.float64)

    got = mode.run(lambda *args: step(jg, *args), lambda: given(jg))
    for g, w in zip(got, step(torch, *given(torch)), strict=True):
        check(g, w)
