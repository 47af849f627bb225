"""Errors planted in jitgrad, one line each, that ``verify`` must find at the right operation. Run by hand.

``python tests/checking/planted.py [--only PATTERN]`` copies the tree, plants one error at a time, verifies a step of
``planted_steps.py`` in a new process, and says what the report named. ``test_verify.py`` plants a few of them in CI.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mutants import copy_tree

_TIMEOUT_S = 300


class Planted(NamedTuple):
    """One error.

    Attributes:
        path: of the file, under ``jitgrad/``.
        old: a text that is there exactly once.
        new: what it becomes.
        step: the function of ``planted_steps.py`` that meets it.
        operation: what the report must name.
    """

    path: str
    old: str
    new: str
    step: str
    operation: str


_MATH = "codegen/vmath/"
PLANTED = [
    # constants and formulas of kernels
    Planted(_MATH + "exp.py", "return (high + tail) + 1.0, shifted", "return (high + tail) + 1.0001, shifted",
            "functions", "exp"),
    Planted(_MATH + "exp.py", 'by_pieces("TANH", x)', 'by_pieces("ERF", x)', "functions", "tanh"),  # with AVX-512
    Planted(_MATH + "exp.py", "_logistic(select(x < 0.0, e, 1.0), e, may_be_large=False)",
            "_logistic(select(x < 0.0, 1.0, e), e, may_be_large=False)", "functions", "sigmoid"),
    Planted(_MATH + "exp.py", "return select(tiny, x, half + half)", "return select(tiny, x, half)",
            "functions", "expm1"),
    Planted(_MATH + "exp.py", "(half - 0.25 / half).copysign(x))", "(half + 0.25 / half).copysign(x))",
            "functions", "sinh"),
    Planted(_MATH + "exp.py", 'by_pieces("ERF", x)', 'by_pieces("TANH", x)', "classifier", "gelu"),  # with AVX-512
    Planted(_MATH + "log.py", "return _with_poles(x, select(tiny, x, result), u)",
            "return _with_poles(x, select(tiny, result, x), u)", "functions", "log1p"),
    Planted(_MATH + "trig.py", "_of_half_turn(*reduce_pi(x, 0)))", "_of_half_turn(*reduce_pi(x, 1)))",
            "functions", "sin"),
    # lowerings
    Planted("ops/pointwise/arithmetic.py", "np.subtract, lambda b, x, y: b.sub(x, y), [",
            "np.subtract, lambda b, x, y: b.sub(y, x), [", "arithmetic", "sub"),
    Planted("ops/layers/activations.py", "b.mul(b.mul(x, number(0.5)), b.add(number(1.0), squashed))",
            "b.mul(b.mul(x, number(0.51)), b.add(number(1.0), squashed))", "classifier", "gelu"),
    Planted("ops/layers/normalization.py", "b.div(b.const(1.0, variance.dtype), b.sqrt(b.add(variance,",
            "b.div(b.const(1.0, variance.dtype), b.sqrt(b.sub(variance,", "classifier", "native_layer_norm"),
    Planted("ops/layers/softmax.py", "return b.sub(shifted, b.log(", "return b.add(shifted, b.log(",
            "classifier", "_log_softmax"),
    Planted("ops/layers/losses.py", "b.neg(b.mul(picked, weight))", "b.mul(picked, weight)", "classifier", "nll_loss"),
    Planted("ops/reductions/reductions.py", "b.const(1.0 * contiguous_dims(x.shape, dims), out.compute))",
            "b.const(1.0 + contiguous_dims(x.shape, dims), out.compute))", "arithmetic", "mean_dim"),
    Planted("ops/layers/activations.py", "lower=lambda b, x: b.max(x, _zero(b, x)),",
            "lower=lambda b, x: b.min(x, _zero(b, x)),", "perceptron", "relu"),
    Planted("ops/layers/activations.py", "b.where(b.le(out, _zero(b, out)), _zero(b, g), g)",
            "b.where(b.le(out, _zero(b, out)), g, _zero(b, g))", "perceptron", "threshold_backward"),
    Planted("ops/layers/optimizers.py", "return formula(b, p, b.cast(g, p.dtype), *rest)",
            "return formula(b, p, b.neg(b.cast(g, p.dtype)), *rest)", "classifier", "_adam_update"),
    # rewrite rules, fusion, reductions, addresses
    Planted("codegen/primitives/simplify.py", "b.neg(x) if c == -1", "x if c == -1", "arithmetic", "mul"),
    Planted("codegen/primitives/simplify.py", 'b.sub(x, y.srcs[0]) if y.op == "neg"',
            'b.add(x, y.srcs[0]) if y.op == "neg"', "arithmetic", "add"),
    Planted("ops/pointwise/powers.py", "return special(b, base) if special", "return base if special",
            "functions", "pow"),
    Planted("codegen/schedule/loop_body.py", 'extra=(False, i.op == "sub"))', "extra=(False, False))",
            "arithmetic", "sub"),
    Planted("codegen/fusion/index_map.py", "(e[0] * step + start, *", "(e[0] * step + start - 1, *",
            "movement", "slice"),
    Planted("codegen/loops/emit_loops.py", "parts = [_lane_list(range(half)), _lane_list(range(half, width))]",
            "parts = [_lane_list(range(half)), _lane_list(range(half))]", "arithmetic", "mean_dim"),
    # derivative rules, which both modes use
    Planted("ops/pointwise/arithmetic.py", "Vjp(lambda c, g, x, y: -g * ((x / y) / y), (0, 1))],",
            "Vjp(lambda c, g, x, y: g * ((x / y) / y), (0, 1))],", "arithmetic", "div"),
    Planted("ops/layers/softmax.py", "return g - out.exp() * g.sum(c.params[0], True)",
            "return g + out.exp() * g.sum(c.params[0], True)", "classifier", "_log_softmax"),
    Planted("ops/layers/softmax.py", "return weighted - out * weighted.sum(c.params[0], True)",
            "return weighted + out * weighted.sum(c.params[0], True)", "arithmetic", "_softmax"),
    Planted("ops/pointwise/pointwise.py", "g * (-0.5 * (out * out * out))", "g * (0.5 * (out * out * out))",
            "functions", "rsqrt"),
    # what the recorder finds: stale keys, wrong places
    Planted("tracer/hits/hits.py", "        return same(x, constant[0])\n", "        return True\n", "scaling", "mul"),
    Planted("tracer/hits/hits.py", "        if not same(params[i], args[count + i]):\n            return False\n",
            "        if len(params) < 0:\n            return False\n", "summing", "sum_dim"),
    Planted("compiled/end_plan.py", "plan.numbers = tuple(slot for slot, _ in step.step.scalars)",
            "plan.numbers = tuple(step.step.scalars[0][0] for _ in step.step.scalars)", "classifier", "_adam_update"),
    Planted("tracer/hits/update_hits.py", "        recorder.scalars.append(number)\n",
            "        recorder.scalars.append(numbers[0])\n", "classifier", "_adam_update"),
]  # fmt: skip


def try_error(tree: Path, planted: Planted) -> tuple[bool, dict[str, Any] | str]:
    """(whether the report names the operation, the report or what the process said)."""
    path = tree / "jitgrad" / planted.path
    text = path.read_text()
    assert text.count(planted.old) == 1, f"{planted.path} has {planted.old!r} {text.count(planted.old)} times"
    path.write_text(text.replace(planted.old, planted.new))
    env = {**os.environ, "PYTHONPATH": str(tree), "JITGRAD_CACHE_DIR": "", "JITGRAD_VERIFY": "0"}
    try:
        run = subprocess.run([sys.executable, str(tree / "tests/checking/planted_steps.py"), planted.step], cwd=tree,
                             env=env, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)  # fmt: skip
    finally:
        path.write_text(text)
    if run.returncode:
        return False, run.stderr[-2000:]
    report = json.loads(run.stdout.splitlines()[-1])
    lines = (Path(report["where"].rpartition(":")[0]).name, report["operation"])
    return lines == ("planted_steps.py", planted.operation), report


def main() -> int:
    """Plant every error, or those that match; 1 if one was not found where it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a pattern to be found in the path, the texts or the operation")
    pattern = parser.parse_args().only
    chosen = [p for p in PLANTED if re.search(pattern, " ".join(p))]
    found = 0
    with tempfile.TemporaryDirectory(prefix="jitgrad-planted-") as folder:
        copy_tree(Path(folder))
        for number, planted in enumerate(chosen, 1):
            start = time.monotonic()
            is_found, report = try_error(Path(folder), planted)
            found += is_found
            shown = report if isinstance(report, str) else f"{report['kind']}: {report['what']}"
            seconds = time.monotonic() - start
            print(f"{number:3} {'found' if is_found else 'MISSED':6} {seconds:5.1f} s  {planted.operation:20} {shown}",
                  flush=True)  # fmt: skip
    print(f"{found} of {len(chosen)} found at the right operation")
    return 0 if found == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
