"""Measured tiles: no way changes a bit, which way is taken, when nothing is measured, where times are kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from gemm_jit import multiply, spec_for, strides_of, targets

import jitgrad
from jitgrad.codegen.gemm import choose_spec, tuning
from jitgrad.codegen.gemm.plan import StridedProduct, in_way, ways_of
from jitgrad.codegen.gemm.trial import Runs, Trial, runs_of, span_of
from jitgrad.codegen.gemm.tuning import Times, Way, grade, quickest, way_of
from jitgrad.codegen.gemm.windows import Product, windows_spec
from jitgrad.codegen.llvm.object_cache import ObjectCache
from jitgrad.codegen.llvm.target import Target, host_target
from jitgrad.config import config
from jitgrad.dtypes import float32, from_numpy_dtype
from jitgrad.tune import main, tune

Fake = Callable[[Sequence[Trial]], list[float] | None]
_keys = iter(range(1000))


@pytest.fixture
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(config, "cache_dir", str(tmp_path))
    return tmp_path


@pytest.fixture
def on(cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everything is measured, and nothing is known yet."""
    monkeypatch.setattr(config, "tune", 2)
    _forget(monkeypatch)
    yield


def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process."""
    for name, empty in (("_times", {}), ("_tries", {}), ("_spent_ns", 0.0)):
        monkeypatch.setattr(tuning, name, empty)


def _pretend(monkeypatch: pytest.MonkeyPatch, found: Fake) -> list[int]:
    """Measurements that say what ``found`` says; the list counts them."""
    calls: list[int] = []

    def fastest(trials: Sequence[Trial], nbytes: Sequence[int]) -> list[float] | None:
        calls.append(len(trials))
        return found(trials)

    monkeypatch.setattr(tuning, "fastest", fastest)
    return calls


def _last_wins(trials: Sequence[Trial]) -> list[float]:
    return [1000.0] * (len(trials) - 1) + [500.0]


def _choose(m: int = 256, n: int = 192, k: int = 100, key: object = None) -> Way:
    """The way of a product whose kernels do not exist yet."""
    name = next(_keys) if key is None else key
    return way_of(choose_spec(float32, m, n, k, 1, (0, k, 1), (0, n, 1), ("tuning", name), host_target()))


def _counted(run: Callable[[], object]) -> tuple[int, int]:
    """How many classes it measured, and read."""
    before = jitgrad.stats()
    run()
    after = jitgrad.stats()
    return after["tuned"] - before["tuned"], after["tuned_reads"] - before["tuned_reads"]


# bits


@pytest.mark.parametrize("target", targets(), ids=lambda t: t.cpu)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_no_way_changes_a_bit(target: Target, dtype: type) -> None:
    """Each way that may be chosen: rows and columns past the last tile, one pass and several, all orders of A and B."""
    rng = np.random.default_rng(0)
    tried = set()
    for m, n, k in ((37, 83, 61), (9, 200, 700)):
        for a_turned, b_turned in ((False, False), (True, False), (False, True), (True, True)):
            a = rng.standard_normal((1, k, m) if a_turned else (1, m, k)).astype(dtype)
            b = rng.standard_normal((1, n, k) if b_turned else (1, k, n)).astype(dtype)
            a, b = a.swapaxes(1, 2) if a_turned else a, b.swapaxes(1, 2) if b_turned else b
            spec = spec_for(a, b, target)
            product = StridedProduct(from_numpy_dtype(a.dtype), m, n, k, strides_of(a)[1:], strides_of(b)[1:])
            first = None
            for way in ways_of(product, spec.b_unit, spec.width, target):
                out = np.full((1, m, n), np.nan, dtype)
                multiply(a, b, out, target, spec=in_way(spec, way))
                first = out if first is None else first
                assert out.tobytes() == first.tobytes(), way
                tried.add(way)
            assert first is not None
            np.testing.assert_allclose(first, a @ b, rtol=1e-3, atol=1e-3)
    assert {way.copy_rows for way in tried} == {True, False} and {way.copy for way in tried} == {True, False}


_STEP = """
import hashlib, sys
import numpy as np
import jitgrad
from jitgrad import nn

jitgrad.manual_seed(0)
model = nn.Sequential(nn.Conv2d(4, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(2304, 96), nn.Linear(96, 9))
optimizer = jitgrad.optim.SGD(model.parameters(), lr=0.01)
x = jitgrad.randn(24, 4, 12, 12)


@jitgrad.compile
def step():
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


for _ in range(4):
    step().item()
bits = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print(hashlib.sha256(bits).hexdigest(), jitgrad.stats()["tuned"], jitgrad.stats()["tuned_reads"])
"""


def _run_step(directory: Path, tuned: str) -> tuple[str, int, int]:
    env = {**os.environ, "JITGRAD_TUNE": tuned, "JITGRAD_CACHE_DIR": str(directory)}
    done = subprocess.run([sys.executable, "-c", _STEP], env=env, capture_output=True, text=True, check=True)
    bits, measured, read = done.stdout.split()
    return bits, int(measured), int(read)


def test_a_step_has_the_same_bits_with_and_without_measurements(tmp_path: Path) -> None:
    """Two processes fill one cache at once; a third reads what they have measured."""
    without = _run_step(tmp_path / "without", "0")
    assert without[1:] == (0, 0)
    both: list[tuple[str, int, int]] = []
    threads = [threading.Thread(target=lambda: both.append(_run_step(tmp_path / "with", "all"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    later = _run_step(tmp_path / "with", "1")
    assert {without[0], later[0], *(found[0] for found in both)} == {without[0]}
    assert sum(found[1] for found in both) > 0
    assert later[2] > 0


# which way is taken


def test_a_clearly_faster_way_is_taken(on: None, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _pretend(monkeypatch, _last_wins)
    product = StridedProduct(float32, 256, 192, 100, (100, 1), (192, 1))
    taken = _choose()
    assert taken in ways_of(product, "n", host_target().width, host_target()) and len(calls) == 1
    _forget(monkeypatch)
    monkeypatch.setattr(config, "tune", 0)
    assert taken != _choose()


def test_a_little_faster_is_not_worth_it() -> None:
    ways = [Way(8, 2, False, False), Way(4, 4, False, False), Way(4, 4, True, False)]
    assert quickest(ways[0], dict(zip(ways, (100.0, 97.0, 98.0), strict=True))) == ways[0]
    assert quickest(ways[0], dict(zip(ways, (100.0, 94.0, 90.0), strict=True))) == ways[2]
    assert quickest(ways[0], dict(zip(ways[1:], (97.0, 98.0), strict=True))) == ways[1]  # the first was not measured


def test_a_kernel_that_exists_is_used_again_where_it_is_measured_to_be_nearly_as_fast(
    on: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, other = Way(8, 2, False, False), Way(4, 4, False, False)

    def choose(m: int, first_ns: float, other_ns: float) -> Way:
        monkeypatch.setattr(tuning, "_read", lambda cache, digest: {first: first_ns, other: other_ns})
        return _choose(m, key="exists")

    assert choose(100, 500.0, 1000.0) == first
    assert choose(300, 1000.0, 940.0) == first
    assert choose(600, 1000.0, 900.0) == other


def test_a_record_cannot_ask_for_what_is_not_right(on: None, cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of an A that lies by rows are never copied as those of a transposed one; nor is a tile invented."""
    _pretend(monkeypatch, _last_wins)
    wrong: Times = {Way(8, 2, True, True): 1.0, Way(31, 1, False, False): 1.0, Way(8, 2, False, True): 1.0}
    monkeypatch.setattr(tuning, "_read", lambda cache, digest: wrong)
    product = StridedProduct(float32, 256, 192, 100, (100, 1), (192, 1))
    assert _choose() in ways_of(product, "n", host_target().width, host_target())


@pytest.mark.skipif(not host_target().has_masks, reason="targets without masked loads have no windows")
def test_windows_take_a_faster_tile(on: None, monkeypatch: pytest.MonkeyPatch) -> None:
    product = Product(
        16, 1, 64, 900, 576, 0, 64 * 1024, 0,
        ((64, 576),), ((576, 1),), ((64, 1024), (3, 32), (3, 1)), ((30, 32), (30, 1)),
    )  # fmt: skip
    calls = _pretend(monkeypatch, lambda trials: None)
    usual = windows_spec(float32, product, "store", host_target())
    _forget(monkeypatch)
    _pretend(monkeypatch, _last_wins)
    taken = windows_spec(float32, product, "store", host_target())
    assert calls and way_of(taken) != way_of(usual)
    assert (taken.a_unit, taken.b_unit, taken.copy) == (usual.a_unit, usual.b_unit, usual.copy)


# when


def test_a_class_is_measured_once_and_read_by_other_processes(on: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _counted(lambda: [_choose(), _choose(), _choose(m=255)]) == (1, 0)
    _forget(monkeypatch)
    monkeypatch.setattr(config, "tune", 1)
    calls = _pretend(monkeypatch, _last_wins)
    assert _counted(lambda: [_choose(), _choose()]) == (0, 1)
    assert not calls


def test_off_means_neither_measured_nor_read(on: None, monkeypatch: pytest.MonkeyPatch) -> None:
    _choose()
    _forget(monkeypatch)
    monkeypatch.setattr(config, "tune", 0)
    assert _counted(_choose) == (0, 0)


def test_without_a_disk_cache_nothing_is_measured(on: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "cache_dir", None)
    assert _counted(_choose) == (0, 0)


def test_short_products_and_other_targets_are_not_measured(on: None) -> None:
    assert _counted(lambda: _choose(16, 16, 16)) == (0, 0)
    others = [t for t in targets() if t != host_target()]
    for target in others:
        args = (float32, 256, 192, 100, 1, (0, 100, 1), (0, 192, 1), "others", target)
        assert _counted(lambda args=args: choose_spec(*args)) == (0, 0)


def test_a_measurement_fits_into_a_twentieth_of_the_time_so_far(on: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "tune", 1)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0), raising=False)
    monkeypatch.setattr(tuning, "is_at_hand", lambda source: False)
    calls = _pretend(monkeypatch, _last_wins)
    monkeypatch.setattr(tuning.time, "process_time_ns", lambda: int(0.3e9))
    _choose()
    assert not calls
    monkeypatch.setattr(tuning, "is_at_hand", lambda source: True)  # takes 20 ms, and not 80 as with LLVM
    monkeypatch.setattr(tuning.time, "process_time_ns", lambda: int(0.6e9))
    _choose()
    assert len(calls) == 1
    monkeypatch.setattr(tuning.time, "process_time_ns", lambda: int(5e9))
    monkeypatch.setattr(tuning, "_spent_ns", 0.24e9)
    _choose(m=1000)
    assert len(calls) == 1
    monkeypatch.setattr(tuning.time, "process_time_ns", lambda: int(1e12))
    monkeypatch.setattr(tuning, "_spent_ns", 0.999e9)  # never more than a second
    _choose(m=1000)
    assert len(calls) == 1


def test_nothing_is_measured_on_a_busy_machine(on: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "tune", 1)
    monkeypatch.setattr(tuning.time, "process_time_ns", lambda: int(1e12))
    calls = _pretend(monkeypatch, _last_wins)
    monkeypatch.setattr(os, "getloadavg", lambda: (1000.0, 0.0, 0.0), raising=False)
    _choose()
    assert not calls
    monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 0.0, 0.0), raising=False)
    _choose()
    assert len(calls) == 1


def test_what_was_disturbed_is_not_kept_and_not_tried_for_ever(
    on: None, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = _pretend(monkeypatch, lambda trials: None)
    assert _counted(lambda: [_choose() for _ in range(5)]) == (0, 0)
    assert len(calls) == 2
    assert not [file for file in cache_dir.iterdir() if b"any" in file.read_bytes()]


def test_a_clock_that_jumps_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two best runs of the winner differ: no times."""
    samples = iter(range(1, 1000))
    monkeypatch.setattr("jitgrad.codegen.gemm.trial._sample", lambda call, count, clock: 1e6 * 2.0 ** next(samples))
    found = []
    monkeypatch.setattr(tuning, "fastest", lambda *args: found.append(real(*args)) or found[-1])
    monkeypatch.setattr(tuning, "_may_measure", lambda *args: True)
    question, digest = _question(), bytes(32)
    assert tuning._measure(question, digest, ObjectCache(Path("/nonexistent/x"), 1)) is None
    assert found == [None]


real = tuning.fastest


def _question() -> tuning.Question:
    """A real one."""
    asked: list[tuning.Question] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "tune", 2)
        patch.setattr("jitgrad.codegen.gemm.plan.is_on", lambda target: True)
        patch.setattr("jitgrad.codegen.gemm.plan.measured", lambda question, target: asked.append(question) or {})
        _choose()
    return asked[0]


def test_real_kernels_are_timed() -> None:
    question = _question()
    for _ in range(20):  # a disturbed measurement says so
        trials = [question.prepare(spec) for spec in question.specs]
        found = real([t for t in trials if t is not None], question.nbytes)
        if found is not None:
            break
    assert found is not None and len(found) == len(question.specs) and all(1e3 < ns < 1e9 for ns in found)


def test_threads_measure_one_after_the_other(on: None, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, most = [], []

    def slowly(trials: Sequence[Trial]) -> list[float]:
        inside.append(1)
        most.append(len(inside))
        threading.Event().wait(0.02)
        inside.pop()
        return _last_wins(trials)

    calls = _pretend(monkeypatch, slowly)
    threads = [threading.Thread(target=_choose, args=(256 + 200 * (i % 2),)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 2 and set(most) == {1}


# records, classes, parts


@pytest.mark.parametrize(
    "payload", [b"", b"{", b"[[1]]", b'[[8, 1, true, "any", -5]]', b'[[8, 1, true, "any", NaN]]', b"7"]
)
def test_a_record_that_makes_no_sense_is_none(payload: bytes) -> None:
    assert tuning._unpack(payload) is None


def test_records_come_back_as_they_were() -> None:
    times = {Way(8, 3, True, True): 12.5, Way(1, 8, False, False): 3.0}
    assert tuning._unpack(tuning._pack(times)) == times
    assert json.loads(tuning._pack(times))[0] == [8, 3, True, True, 12.5]


def test_classes_are_narrow() -> None:
    """Extents of one class differ by less than a fifth; small ones are alone."""
    assert len({grade(n, 32) for n in range(1, 33)}) == 32
    for n in range(33, 3000):
        assert grade(n, 32) <= grade(n + 1, 32)
        assert grade(int(1.2 * n) + 1, 32) > grade(n, 32)


def test_long_products_are_run_in_parts() -> None:
    words = [0] * 13 + [64, 32, 4, 8, 100, 0, 0]  # units of 64 x 32: 4 along rows, 8 along columns
    assert runs_of(words, 250, 1, 1e5) == Runs(32, (0,), 1.0)
    part, begins, share = runs_of(words, 250, 1, 4e6) or pytest.fail("it can be run in parts")
    assert part % 4 == 0 and share == part / 4 * 32 / 250
    assert all(begin % 4 == 0 and begin + part <= 28 for begin in begins)  # all rows; not the last, narrower, columns
    assert runs_of(words, 250, 1, 1e9) is None


def test_memory_of_operands_with_strides() -> None:
    assert span_of((4, 5), (5, 1), 4) == (80, 0)
    assert span_of((4, 5), (-5, 1), 4) == (80, 60)
    assert span_of((4, 5), (0, 3), 8) == (104, 0)


# the command


def test_the_command_measures_what_a_script_compiles(
    on: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\nimport jitgrad\nassert sys.argv[1:] == ['--fast']\n"
        "product = jitgrad.compile(lambda x, y: x @ y)\n"
        "product(jitgrad.ones(90, 300), jitgrad.ones(300, 500)).sum().item()\n"
        "sys.exit(3)\n"
    )
    monkeypatch.setattr(sys, "argv", ["tune"])
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert main([str(script), "--fast"]) == 0
    shown = capsys.readouterr()
    assert "90x500, k 300, float32, A by rows, B by rows" in shown.out
    assert "1 classes of products, 1 of them measured now." in shown.out
    assert "ended with 3" in shown.err
    assert config.tune == 2  # what it was


def test_what_was_known_is_told_too(on: None, monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(monkeypatch, _last_wins)
    first = tune(lambda: _choose(m=700))
    _forget(monkeypatch)
    again = tune(lambda: _choose(m=700))
    assert (first.measured, again.measured) == (1, 0)
    assert first.to_json()["products"] == again.to_json()["products"]


def test_the_command_needs_a_disk_cache(on: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "cache_dir", None)
    assert main([]) == 1
