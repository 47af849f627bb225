"""An eager thread and compiled steps on other threads that share tensors: ``python -m tests.thread_stress``.

    python -m tests.thread_stress --calls 20000           # all scenes, one process each, so many calls per thread
    python -m tests.thread_stress --scene counter         # one of them

Owns: ``SCENES``, ``play``: what the threads do, and what must hold. A call is right, or raises the RuntimeError that
says what the threads did (Note [Threads that share tensors]); what is computed afterwards, on one thread, is right.
Printed at the end of a scene: calls tried, calls that were right, calls that were refused.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jitgrad as jg
from jitgrad.errors import OTHER_THREAD, STILL_RECORDED
from jitgrad.tracer.recording.recorder_state import RUNNING
from tests.threads import switching_often

__all__ = ["SCENES", "Scene", "play"]

_REFUSALS = (OTHER_THREAD, STILL_RECORDED, "has been modified by an inplace operation")
"""Of errors that say what the threads did; the last one is what a backward says whose saved values were written."""


class Scene:
    """Threads that share tensors.

    Attributes:
        threads: what each thread calls again and again; a call returns whether what it saw is right.
        after: called once the threads are done, with how many calls of each were right: whether all is as it must be.
    """

    def __init__(
        self, threads: list[Callable[[], bool]], after: Callable[[list[int]], bool] = lambda _: True
    ) -> None:
        self.threads, self.after = threads, after


SCENES: dict[str, Callable[[], Scene]] = {}


def _scene(make: Callable[[], Scene]) -> Callable[[], Scene]:
    SCENES[make.__name__.strip("_").replace("_", " ")] = make
    return make


def _is_even(values: list[float]) -> bool:
    """Whether all elements are the same whole number."""
    return len(set(values)) == 1 and values[0] == int(values[0])


# --- one tensor ---


@_scene
def _counter() -> Scene:
    """Each counts in one tensor, eagerly and compiled: every count counts."""
    w = jg.zeros(16)
    counted = jg.compile(lambda: w.add_(1.0).sum())

    def compiled() -> bool:
        counted()
        return True

    def eager() -> bool:
        w.add_(1.0)
        return True

    return Scene([eager, compiled, eager], lambda right: w.tolist() == [float(sum(right))] * 16)


@_scene
def _reader() -> Scene:
    """The compiled step adds 3 in two statements; nobody sees one of them alone."""
    w = jg.zeros(16)

    @jg.compile
    def step() -> Any:
        w.add_(1.0)
        y = w * 2
        w.add_(2.0)
        return y.sum()

    def compiled() -> bool:
        step()
        return True

    def eager() -> bool:
        values = w.tolist()
        more = (w * 1.0 + 0.0).tolist()
        return all(_is_even(seen) and seen[0] % 3 == 0 for seen in (values, more)) and values[0] <= more[0]

    return Scene([compiled, eager, eager], lambda right: w.tolist() == [3.0 * right[0]] * 16)


@_scene
def _writer() -> Scene:
    """The eager thread fills a tensor that the compiled step reads twice: both reads see the same."""
    w, calls = jg.zeros(16), [0]

    @jg.compile
    def step(x: Any) -> Any:
        first = w * x
        for _ in range(3):
            x = x * 1.0
        return first, w * x

    ones = jg.ones(16)

    def compiled() -> bool:
        first, second = step(ones)
        return _is_even(first.tolist()) and first.tolist() == second.tolist()

    def eager() -> bool:
        calls[0] += 1
        w.fill_(float(calls[0]))
        return True

    return Scene([compiled, eager])


@_scene
def _views() -> Scene:
    """Views of one table: the eager thread writes rows, the compiled step reads and writes columns."""
    table = jg.zeros(8, 4)
    column, row = table[:, 1], table[3]

    @jg.compile
    def step() -> Any:
        column.add_(1.0)
        return table.sum(), column.sum()

    def compiled() -> bool:
        step()
        return True

    def eager() -> bool:
        row.add_(1.0)
        return True

    def after(right: list[int]) -> bool:
        c, e = float(right[0]), float(right[1])
        return table.tolist() == [[e if r == 3 else 0.0, c + (e if r == 3 else 0.0)] +
                                  [e if r == 3 else 0.0] * 2 for r in range(8)]  # fmt: skip

    return Scene([compiled, eager], after)


@_scene
def _handed_over() -> Scene:
    """What a step makes and writes is given to another thread while the step goes on."""
    box: list[Any] = []
    w = jg.zeros(8)

    @jg.compile
    def step(x: Any) -> Any:
        y = x * 2
        box.extend([y, y[2:], y.detach()])
        w.add_(1.0)
        z = y + 1
        box.append(w)
        return z.sum()

    ones = jg.ones(8)

    def compiled() -> bool:
        box.clear()
        return step(ones).item() == 24.0

    def eager() -> bool:
        for x in tuple(box):
            values = (x * 1.0).tolist()
            if x is w:
                if not _is_even(values):
                    return False
            elif values != [2.0] * len(values):
                return False
        return True

    return Scene([compiled, eager, eager], lambda right: w.tolist() == [float(right[0])] * 8)


@_scene
def _flags() -> Scene:
    """The eager thread changes what a step's keys hold: grad flags, data, gradients, grad mode."""
    w = jg.ones(4, requires_grad=True)
    other = jg.ones(4)

    @jg.compile
    def step(x: Any) -> Any:
        return (w * x).sum() + (w * w).sum()

    def compiled() -> bool:
        return step(other).item() in (8.0, 12.0, 24.0)

    turn = [0]

    def eager() -> bool:
        turn[0] += 1
        kind = turn[0] % 5
        if kind == 0:
            w.requires_grad_(False)
        elif kind == 1:
            w.requires_grad_(True)
        elif kind == 2:
            w.grad = jg.ones(4)
        elif kind == 3:
            w.grad = None
        else:
            w.data = jg.ones(4)
        return True

    return Scene([compiled, eager])


# --- training ---


def _model() -> tuple[Any, Any, Any, Any]:
    jg.manual_seed(0)
    model = jg.nn.Sequential(jg.nn.Linear(4, 8), jg.nn.Tanh(), jg.nn.Linear(8, 1))
    return model, jg.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9), jg.randn(5, 4), jg.randn(5, 1)


def _train(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
    optimizer.zero_grad()
    loss = jg.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


def _is_finite(x: Any) -> bool:
    return bool(jg.isfinite(x).all())


@_scene
def _training() -> Scene:
    """An eager and a compiled training of one model: each step is refused, or all of it is done."""
    model, optimizer, x, y = _model()
    compiled_step = jg.compile(lambda: _train(model, optimizer, x, y))

    def after(_: list[int]) -> bool:
        optimizer.state.clear()
        again, rate, _, _ = _model()
        with jg.no_grad():
            for p, q in zip(model.parameters(), again.parameters(), strict=True):
                p.copy_(q)
        losses = [compiled_step().item() for _ in range(3)]
        wanted = [_train(again, rate, x, y).item() for _ in range(3)]
        return all(abs(a - b) < 1e-5 for a, b in zip(losses, wanted, strict=True))

    return Scene(
        [lambda: _is_finite(compiled_step()), lambda: _is_finite(_train(model, optimizer, x, y))], after
    )


@_scene
def _evaluation() -> Scene:
    """One thread trains compiled, others look at the model eagerly."""
    model, optimizer, x, y = _model()
    compiled_step = jg.compile(lambda: _train(model, optimizer, x, y))

    def eager() -> bool:
        with jg.no_grad():
            out = model(x)
        copies = [p.detach().clone() for p in model.parameters()]
        return _is_finite(out) and all(map(_is_finite, copies))

    return Scene([lambda: _is_finite(compiled_step()), eager, eager])


@_scene
def _optimizer() -> Scene:
    """The compiled step computes gradients of its own, an eager optimizer steps the weights that it reads."""
    model, optimizer, x, _ = _model()
    for p in model.parameters():
        p.grad = jg.zeros_like(p)
    wanted = model(x).detach()

    @jg.compile
    def forward() -> Any:
        out = model(x)
        grads = jg.autograd.grad(out.sum(), list(model.parameters()))
        return out.detach(), grads

    def compiled() -> bool:
        return bool(jg.allclose(forward()[0], wanted, rtol=1e-4, atol=1e-5))

    def eager() -> bool:
        optimizer.step()  # by gradients of zero
        return True

    return Scene([compiled, eager])


@_scene
def _escaped() -> Scene:
    """Results of a compiled forward, whose graphs other threads differentiate."""
    w = jg.ones(6, requires_grad=True)
    forward = jg.compile(lambda x: (w * x * x).sum())
    box: list[Any] = []
    twos = jg.full((6,), 2.0)

    def compiled() -> bool:
        box.append(forward(twos))
        del box[:-4]
        return True

    def eager() -> bool:
        for loss in tuple(box):
            (g,) = jg.autograd.grad(loss, (w,), retain_graph=True)
            if g.tolist() != [4.0] * 6 or loss.item() != 24.0:
                return False
        return True

    return Scene([compiled, eager, eager])


# --- playing ---


def _is_refusal(error: RuntimeError) -> bool:
    return any(words in str(error) for words in _REFUSALS)


def play(scene: Scene, calls: int) -> tuple[Counter[str], list[str]]:
    """Have each thread of a scene make so many calls.

    Returns:
        How many calls were tried, right, refused; a line for each kind of failure.
    """
    counts, lines = Counter[str](tried=0, right=0, refused=0), Counter[str]()
    right = [0] * len(scene.threads)
    start = threading.Barrier(len(scene.threads))

    def work(nr: int) -> None:
        start.wait()
        for _ in range(calls):
            counts["tried"] += 1
            try:
                if scene.threads[nr]():
                    right[nr] += 1
                else:
                    lines[f"thread {nr}: a wrong value"] += 1
            except RuntimeError as error:
                if _is_refusal(error):
                    counts["refused"] += 1
                else:
                    lines[f"thread {nr}: {error!r}"] += 1
            except Exception as error:
                lines[f"thread {nr}: {error!r}"] += 1

    threads = [threading.Thread(target=work, args=(nr,), daemon=True) for nr in range(len(scene.threads))]
    with switching_often():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    counts["tried"], counts["right"] = calls * len(threads), sum(right)
    counts["refused"] = counts["tried"] - counts["right"] - sum(lines.values())
    if RUNNING:
        lines["a call is said to run"] += 1
    if not scene.after(right):
        lines["afterwards something is wrong"] += 1
    return counts, [f"{count} times: {line}" for line, count in lines.items()]


def main() -> int:
    """See above."""
    parser = argparse.ArgumentParser(prog="python -m tests.thread_stress")
    parser.add_argument("--calls", type=int, default=20_000, help="of each thread")
    parser.add_argument("--scene", choices=sorted(SCENES))
    options = parser.parse_args()
    if options.scene:
        counts, lines = play(SCENES[options.scene](), options.calls)
        print(f"{options.scene}: " + ", ".join(f"{kind} {count}" for kind, count in counts.items()))
        print("".join(f"  {line}\n" for line in lines), end="", flush=True)
        return 1 if lines else 0
    failed = []
    for name in SCENES:
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.thread_stress", "--scene", name]
        done = subprocess.run([*command, "--calls", str(options.calls)], cwd=Path(__file__).parents[1], check=False)
        if done.returncode:
            failed.append(f"{name} ({done.returncode})")
    print(f"{len(SCENES)} scenes, {len(SCENES) - len(failed)} survived" + "".join(f"; {name}" for name in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
