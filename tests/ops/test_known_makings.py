"""Tensors that are made of nothing again, Note [Known makings]: what PyTorch makes, a new one each time."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

import jitgrad
from jitgrad.functions import _generated
from jitgrad.runtime.eager.makings import DRAWING, MOST
from jitgrad.runtime.random import twister

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("form")

Make = Callable[[Any], Any]
CALLS = 3


@pytest.fixture(autouse=True)
def _seeded() -> None:
    assert twister.is_native()
    for lib in (jitgrad, torch):
        lib.manual_seed(7)


def check(make: Make, count: int = CALLS) -> None:
    """``make(lib)`` is the same in both libraries, every time, whatever is done to the results."""
    for _ in range(count):
        own, theirs = make(jitgrad), make(torch)
        assert str(own.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
        assert tuple(own.shape) == tuple(theirs.shape) and own.stride() == theirs.stride()
        assert own.requires_grad == theirs.requires_grad and own.is_leaf and own._version == 0
        assert own.tolist() == theirs.tolist()
        own.detach().fill_(3)


def sizes_of(rng: random.Random) -> tuple[Any, ...]:
    sizes = tuple(rng.choice((0, 1, 2, 3, 5, 8, 15, 16, 17, 40)) for _ in range(rng.randrange(1, 4)))
    return rng.choice([sizes, (sizes,), (list(sizes),)])


def a_call(rng: random.Random) -> tuple[str, tuple[Any, ...], dict[str, str]]:
    """(function, arguments, names of its options' values)."""
    options = {} if rng.random() < 0.6 else {"dtype": rng.choice(("float32", "float64", "float16", "int64", "int32"))}
    name = rng.choice(("arange", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "randperm", "zeros"))
    if name in ("eye", "randperm"):
        args: tuple[Any, ...] = (rng.choice((1, 4, 9)), *[5] * (name == "eye" and rng.random() < 0.5))
    elif name == "full":
        args = ((rng.choice((1, 3)), 2), rng.choice((1, 1.0, True, 0.0, -0.0, 2.5)))
    elif name == "linspace":
        args = (rng.choice((0, 0.0, 1.5)), rng.choice((2, 2.0, -1.0)), rng.choice((1, 5)))
    elif name == "arange":
        args = rng.choice([(5,), (5.0,), (0, 7), (1, 8, 2), (1.0, 8, 2), (0.5, 3.0, 0.25), (5, 0, -1)])
    elif name == "randint":
        sizes = tuple(rng.choice((0, 1, 3, 8, 30)) for _ in range(rng.randrange(1, 3)))
        bounds = rng.choice([(5,), (1,), (-3, 4), (2, 3), (1 << 30,), (-(1 << 40), -(1 << 40) + 9), (0, 1 << 27)])
        args = (*bounds, sizes)
        if not options.get("dtype", "int64").startswith("int64") and max(map(abs, bounds)) > 100:
            options = {}
    else:
        args = sizes_of(rng)
    if name in ("arange", "full", "linspace") and any(isinstance(x, float) for x in args):
        options = {}
    if name in ("rand", "randn") and "int" in options.get("dtype", ""):
        options = {"dtype": "float64"}
    return name, args, options


@pytest.mark.parametrize("seed", range(12))
def test_random_calls_are_pytorchs(seed: int) -> None:
    rng = random.Random(seed)
    calls = [a_call(rng) for _ in range(12)]
    for _ in range(60):
        name, args, options = rng.choice(calls)
        check(lambda lib: getattr(lib, name)(*args, **{k: getattr(lib, v) for k, v in options.items()}), 1)  # noqa: B023


@pytest.mark.parametrize("numel", [1, 15, 16, 17, MOST - 1, MOST, MOST + 1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_draws_of_tensors_that_exist(numel: int, dtype: str) -> None:
    def of(lib: Any) -> Any:
        return lib.ones(numel, dtype=getattr(lib, dtype))

    check(lambda lib: lib.randn_like(of(lib)))
    check(lambda lib: lib.rand_like(of(lib)))
    check(lambda lib: lib.bernoulli(of(lib) * 0.25))
    check(lambda lib: lib.nn.functional.dropout(of(lib), 0.25))
    for draw in (
        lambda x: x.normal_(2, 3), lambda x: x.uniform_(-1, 2), lambda x: x.exponential_(2.0),
        lambda x: x.bernoulli_(0.5), lambda x: x.random_(2, 90), lambda x: x.log_normal_(), lambda x: x.cauchy_(),
        lambda x: x.geometric_(0.25),
    ):  # fmt: skip
        for _ in range(CALLS):
            assert draw(of(jitgrad)).tolist() == draw(of(torch)).tolist()


def test_draws_in_other_layouts() -> None:
    for _ in range(CALLS):
        own, theirs = (lib.zeros(4, 6).t() for lib in (jitgrad, torch))
        assert own.normal_().tolist() == theirs.normal_().tolist()
        assert own[1:, ::2].uniform_().tolist() == theirs[1:, ::2].uniform_().tolist()
        assert jitgrad.randn_like(own).tolist() == torch.randn_like(theirs).tolist()


def test_generators_of_ones_own() -> None:
    own, theirs = (lib.Generator().manual_seed(3) for lib in (jitgrad, torch))
    for _ in range(CALLS):
        check(lambda lib: lib.randn(5), 1)
        assert jitgrad.randn(5, generator=own).tolist() == torch.randn(5, generator=theirs).tolist()
        assert jitgrad.randint(9, (4,), generator=own).tolist() == torch.randint(9, (4,), generator=theirs).tolist()
    state = jitgrad.get_rng_state(), torch.get_rng_state()
    check(lambda lib: lib.randn(5))
    jitgrad.set_rng_state(state[0]), torch.set_rng_state(state[1])
    check(lambda lib: lib.randn(5))
    jitgrad.manual_seed(11), torch.manual_seed(11)
    check(lambda lib: lib.randn(5))


def test_a_known_call_is_not_worked_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: tuple[Callable[[], Any], ...] = (
        lambda: jitgrad.zeros(3, 2), lambda: jitgrad.ones((3, 2), dtype=jitgrad.int64), lambda: jitgrad.arange(7.0),
        lambda: jitgrad.randn(5), lambda: jitgrad.rand(2, 2), lambda: jitgrad.randint(3, (4,)),
        lambda: jitgrad.empty(2), lambda: jitgrad.zeros(3, device="cpu"),
    )  # fmt: skip
    for call in (*calls, *calls):  # the first time sizes are looked at
        call()
    jitgrad.zeros(MOST + 1), jitgrad.zeros(MOST + 1)
    for name in ("zeros", "ones", "arange", "randn", "rand", "randint", "empty"):
        monkeypatch.delattr(_generated, f"_{name}")
    for call in calls:
        call()
    with pytest.raises(NameError):  # not kept
        jitgrad.zeros(MOST + 1)


def test_numbers_that_are_equal_and_not_the_same() -> None:
    check(lambda lib: lib.arange(5))
    check(lambda lib: lib.arange(5.0))
    check(lambda lib: lib.arange(0, 5, 1))
    check(lambda lib: lib.arange(0.0, 5, 1))
    for lib in (jitgrad, torch):
        lib.zeros(1), lib.randn(1), lib.randint(1, (1,))
        for wrong in (lambda lib: lib.zeros(1.0), lambda lib: lib.randn(1.0), lambda lib: lib.randint(1.0, (1,))):
            with pytest.raises(TypeError):
                wrong(lib)
        with pytest.raises(RuntimeError):
            lib.zeros(-1)
        with pytest.raises(TypeError):
            lib.zeros(1, dtype=3)


def test_arguments_that_are_tensors() -> None:
    for make in (lambda lib, n: lib.arange(n), lambda lib, n: lib.linspace(0, n, 4)):
        ends = [lib.tensor(4.0) for lib in (jitgrad, torch)]
        for _ in range(CALLS):
            assert make(jitgrad, ends[0]).tolist() == make(torch, ends[1]).tolist()
            for end in ends:
                end.add_(1)


def test_another_default_dtype() -> None:
    makes: tuple[Make, ...] = (lambda lib: lib.zeros(3), lambda lib: lib.randn(3), lambda lib: lib.arange(3.0))
    for dtype in ("float64", "float32", "float64"):
        before = jitgrad.get_default_dtype(), torch.get_default_dtype()
        try:
            for lib in (jitgrad, torch):
                lib.set_default_dtype(getattr(lib, dtype))
            for make in makes:
                check(make)
        finally:
            jitgrad.set_default_dtype(before[0]), torch.set_default_dtype(before[1])
        for make in makes:
            check(make)


def test_modes_are_seen() -> None:
    for _ in range(CALLS):
        assert jitgrad.zeros(3).device.type == "cpu" and not jitgrad.zeros(3).is_inference()
        with jitgrad.inference_mode():
            assert jitgrad.zeros(3).is_inference() and jitgrad.randn(3).is_inference()
        with jitgrad.device("meta"):
            assert jitgrad.zeros(3).device.type == jitgrad.randn(3).device.type == "meta"
        assert jitgrad.zeros(3, requires_grad=True).requires_grad and not jitgrad.zeros(3).requires_grad
        assert jitgrad.zeros(3, device="meta").device.type == "meta"


def test_inside_of_vmap() -> None:
    for lib in (jitgrad, torch):
        lib.manual_seed(5)
    for _ in range(CALLS):
        for randomness in ("same", "different"):
            found = []
            for lib in (jitgrad, torch):
                x = lib.arange(3.0)
                found.append(lib.func.vmap(lambda v: v + lib.randn(2) + lib.ones(2), randomness=randomness)(x))  # noqa: B023
            assert found[0].tolist() == found[1].tolist()


def test_in_a_compiled_step() -> None:
    @jitgrad.compile
    def own(x: Any) -> Any:
        return x * jitgrad.randn(4) + jitgrad.arange(4.0) - jitgrad.zeros(4) + jitgrad.randint(5, (4,))

    for _ in range(2 * CALLS):
        theirs = torch.ones(4) * torch.randn(4) + torch.arange(4.0) - torch.zeros(4) + torch.randint(5, (4,))
        assert own(jitgrad.ones(4)).tolist() == theirs.tolist()
        check(lambda lib: lib.randn(4), 1)


def test_a_draw_waits_for_that_of_another_thread() -> None:
    check(lambda lib: lib.randn(4))
    entered, drawn, leave = threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        with DRAWING:
            entered.set()
            leave.wait(30)

    def draw() -> None:
        jitgrad.randn(4)
        drawn.set()

    holder, drawer = threading.Thread(target=hold), threading.Thread(target=draw)
    holder.start()
    entered.wait(30)
    drawer.start()
    assert not drawn.wait(0.1)
    leave.set()
    holder.join(), drawer.join()
    assert drawn.is_set()


def test_threads_draw_all_numbers_once() -> None:
    def draws() -> None:
        for _ in range(300):
            found.append(jitgrad.rand(3).tolist())

    found: list[Any] = []
    threads = [threading.Thread(target=draws) for _ in range(4)]
    for thread in threads:
        thread.start()
    draws()
    for thread in threads:
        thread.join()
    wanted = [torch.rand(3).tolist() for _ in range(1500)]
    assert sorted(found) == sorted(wanted)


OPTIONS = ({}, {"dtype": "float64"}, {"device": "cpu"}, {"dtype": "float32", "device": "cpu", "requires_grad": False})


def by_name(lib: Any, options: dict[str, Any]) -> dict[str, Any]:
    return {name: getattr(lib, x) if name == "dtype" else x for name, x in options.items()}


@pytest.mark.parametrize("options", OPTIONS)
def test_makings_with_options(options: dict[str, Any]) -> None:
    """The second call looks them up; what is done to a result does not reach the next one."""
    for make in (
        lambda lib, o: lib.full((2, 3), 1.5, **o), lambda lib, o: lib.full((), -0.0, **o),
        lambda lib, o: lib.linspace(0, 2, 5, **o), lambda lib, o: lib.linspace(0, 2, 0, **o),
        lambda lib, o: lib.linspace(lib.tensor(1.0), 2, 3, **o), lambda lib, o: lib.eye(3, **o),
        lambda lib, o: lib.zeros((), **o), lambda lib, o: lib.ones([], **o), lambda lib, o: lib.zeros(0, 3, **o),
        lambda lib, o: lib.ones(4).new_zeros((), **o), lambda lib, o: lib.arange(4, **o),
        lambda lib, o: lib.scalar_tensor(2.5, **o), lambda lib, o: lib.scalar_tensor(True, **o),
    ):  # fmt: skip
        check(lambda lib: make(lib, by_name(lib, options)))  # noqa: B023


@pytest.mark.parametrize("options", OPTIONS)
def test_windows_and_progressions_with_options(options: dict[str, Any]) -> None:
    """Their values may differ in the last bit."""
    for make in (
        lambda lib, o: lib.logspace(-2, 2, 5, **o), lambda lib, o: lib.logspace(0, lib.tensor(3.0), 4, 2.0, **o),
        lambda lib, o: lib.hann_window(6, **o), lambda lib, o: lib.kaiser_window(5, False, 3.0, **o),
        lambda lib, o: lib.signal.windows.kaiser(7, beta=12.0, sym=False, **o),
        lambda lib, o: lib.signal.windows.gaussian(8, std=2.0, **o), lambda lib, o: lib.signal.windows.hann(0, **o),
    ):  # fmt: skip
        for _ in range(CALLS):
            own, theirs = (make(lib, by_name(lib, options)) for lib in (jitgrad, torch))
            assert str(own.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
            assert own.tolist() == pytest.approx(theirs.tolist(), rel=1e-5, abs=1e-6)
            own.detach().fill_(7)


def test_the_layout_of_an_empty_tensor_is_made_again() -> None:
    for _ in range(CALLS):
        for size, order in (((2, 3, 4), (2, 0, 1)), ((2, 3), (0, 1)), ((0, 3), (1, 0)), ((), ())):
            own, theirs = (lib.empty_permuted(size, order) for lib in (jitgrad, torch))
            assert own.stride() == theirs.stride() and tuple(own.shape) == tuple(theirs.shape)
            numbers = range(own.numel())
            own.copy_(jitgrad.tensor([*numbers]).reshape(size))
            theirs.copy_(torch.tensor([*numbers]).reshape(size))
            in_memory = [x.as_strided((x.numel(),), (1,)).tolist() for x in (own, theirs)]
            assert own.tolist() == theirs.tolist() and in_memory[0] == in_memory[1]


def test_what_requires_grad_is_a_new_leaf() -> None:
    windows = jitgrad.signal.windows
    for make in (lambda: jitgrad.full((2,), 1.0, requires_grad=True), lambda: windows.hann(4, requires_grad=True)):
        first, second = make(), make()
        first.sum().backward()
        assert second.requires_grad and second.is_leaf and second.grad is None


def test_numbers_that_are_equal_and_of_other_types_are_told_apart() -> None:
    made = [jitgrad.full((2,), x, dtype=None) for x in (1, 1.0, True, 1, 1.0, True)]
    assert [x.dtype for x in made] == [jitgrad.int64, jitgrad.float32, jitgrad.bool] * 2
    zeros = [jitgrad.scalar_tensor(x) for x in (0.0, -0.0, 0.0, -0.0)]
    assert [x.signbit().item() for x in zeros] == [False, True, False, True]
    assert [jitgrad.full((1,), 2.0, dtype=d).dtype for d in (jitgrad.float64, None, jitgrad.int32)] == [
        jitgrad.float64, jitgrad.float32, jitgrad.int32,
    ]  # fmt: skip


def test_the_default_dtype_and_device_of_makings_with_options() -> None:
    assert jitgrad.logspace(0, 1, 2).dtype is jitgrad.float32
    jitgrad.set_default_dtype(jitgrad.float64)
    try:
        assert jitgrad.logspace(0, 1, 2).dtype is jitgrad.signal.windows.hann(3).dtype is jitgrad.float64
    finally:
        jitgrad.set_default_dtype(jitgrad.float32)
    with jitgrad.device("meta"):
        assert jitgrad.logspace(0, 1, 2).device.type == jitgrad.full((2,), 1.0).device.type == "meta"
    assert jitgrad.full((2,), 1.0, device="meta").device.type == "meta"
    assert jitgrad.full((2,), 1.0, device="cpu").device.type == "cpu"


@pytest.mark.parametrize("kind", ["float32", "float64", "int32", "bool"])
@pytest.mark.parametrize("name", ["new_zeros", "new_ones"])
def test_new_tensors_beside_another(name: str, kind: str) -> None:
    """They take the dtype of the tensor, whatever was made before of the same size, and are on the CPU like it."""
    for size in ((3,), (2, 3), ((),), ([2, 2],), ((4,),), (0,), (40, 40)):
        for options in ({}, {"dtype": "float64"}, {"dtype": "int64"}):

            def make(lib: Any, size: Any = size, options: dict[str, str] = options) -> Any:
                beside = lib.zeros(2, dtype=getattr(lib, kind))
                return getattr(beside, name)(*size, **{n: getattr(lib, value) for n, value in options.items()})

            check(make)


def test_new_tensors_are_where_the_tensor_is() -> None:
    x = jitgrad.ones(2)
    for _ in range(CALLS):
        x.new_zeros(3)
    assert x.to("meta").new_zeros(3).device.type == "meta"
    with jitgrad.device("meta"):
        assert x.new_zeros(3).device.type == "cpu" and x.new_ones(4).device.type == "cpu"
    assert x.new_zeros(3, device="meta").device.type == "meta"
    assert x.new_zeros(3, requires_grad=True).requires_grad and not x.new_zeros(3).requires_grad
